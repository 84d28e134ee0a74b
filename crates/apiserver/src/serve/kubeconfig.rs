//! The kubeconfig by which clients find a server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_tree::json;

use crate::yaml;

/// The name of the cluster, of its user and of the context.
const NAME: &str = "muster";

/// The kubeconfig of a server at `url`, as YAML: its user has this bearer token.
#[must_use]
pub fn kubeconfig(url: &str, ca_pem: &str, token: &str) -> String {
    yaml::to_string(&json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": NAME,
            "cluster": {"server": url, "certificate-authority-data": STANDARD.encode(ca_pem)},
        }],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    }))
}
