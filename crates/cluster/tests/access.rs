//! Requests for certificates, and ClusterRoles that are put together of others, on an embedded server in virtual time.

mod common;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::{World, quick};
use muster_apiserver::certificates::{Authority, pem, x509};
use muster_cluster::Options;
use muster_objects::Timestamp;
use serde_json::{Value, json};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
/// A request of `O=system:nodes, CN=system:node:n1`.
const NODE: &str = include_str!("node.csr");

async fn world(authority: &Arc<Authority>) -> World {
    let authority: Arc<Authority> = Arc::clone(authority);
    World::new(Options { authority: Some(authority), simulate: false, ..quick(0) }).await
}

/// A node's request is approved by itself once its user may ask for that, signed, and deleted when it has ended.
///
/// Contract: API-32
#[tokio::test(start_paused = true)]
async fn a_nodes_request_is_approved_signed_and_cleaned_up() {
    let authority = Arc::new(Authority::generate().expect("an authority"));
    let world = world(&authority).await;
    let request = json!({
        "metadata": {"name": "n1"},
        "spec": {
            "request": STANDARD.encode(NODE), "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["client auth", "digital signature"], "expirationSeconds": 3600,
        },
    });
    world.post(REQUESTS, request).await;
    world.pass(30_000).await;
    let signed = world.get(&format!("{REQUESTS}/n1")).await;
    let approved = &signed["status"]["conditions"][0];
    assert_eq!((&approved["type"], &approved["reason"]), (&json!("Approved"), &json!("AutoApproved")), "{signed}");
    let certificate = STANDARD.decode(signed["status"]["certificate"].as_str().unwrap_or_default()).expect("base64");
    let certificate = String::from_utf8(certificate).expect("PEM");
    let (block, _) = pem::first(&certificate).expect("a block");
    let certificate = x509::certificate(&block.bytes).expect("a certificate");
    assert_eq!(certificate.subject.common_name(), "system:node:n1");
    let since = Timestamp::from_seconds(common::START);
    assert!((since + Duration::from_secs(3600)..since + Duration::from_secs(3660)).contains(&certificate.until));

    world.pass(3 * 3600 * 1000).await;
    assert_eq!(world.find(&format!("{REQUESTS}/n1")).await, None, "it has ended");
}

/// Contract: API-32
#[tokio::test(start_paused = true)]
async fn what_a_signer_does_not_take_fails() {
    let authority = Arc::new(Authority::generate().expect("an authority"));
    let world = world(&authority).await;
    let request = json!({
        "metadata": {"name": "n1"},
        "spec": {
            "request": STANDARD.encode(NODE), "signerName": "kubernetes.io/kubelet-serving",
            "usages": ["server auth", "digital signature"],
        },
    });
    world.post(REQUESTS, request).await;
    world.pass(30_000).await;
    assert_eq!(world.get(&format!("{REQUESTS}/n1")).await["status"], json!({}), "nobody approved it");
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "test"}]}});
    world.merge(&format!("{REQUESTS}/n1/approval"), approved).await;
    world.pass(1000).await;
    let request = world.get(&format!("{REQUESTS}/n1")).await;
    let failed = common::condition(&request, "Failed");
    assert_eq!(failed["message"], "DNS or IP subjectAltName is required", "{request}");
    assert_eq!(request["status"]["certificate"], Value::Null);
}

/// Contract: API-31
#[tokio::test(start_paused = true)]
async fn the_first_roles_are_put_together_and_follow_those_that_they_select() {
    let world = World::new(Options { simulate: false, ..quick(0) }).await;
    let rules = async |role: &str| world.get(&format!("{ROLES}/{role}")).await["rules"].clone();
    let view = rules("view").await;
    assert_eq!(view, rules("system:aggregate-to-view").await);
    let own = json!({"verbs": ["get"], "apiGroups": ["stable.example.com"], "resources": ["crontabs"]});
    let labels = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    world.post(ROLES, json!({"metadata": {"name": "a-view", "labels": labels}, "rules": [own]})).await;
    world.pass(1000).await;
    for role in ["view", "edit", "admin"] {
        let rules = rules(role).await;
        assert!(rules.as_array().is_some_and(|rules| rules.contains(&own)), "{role}: {rules}");
    }
    world.delete(&format!("{ROLES}/a-view"), json!({})).await;
    world.pass(1000).await;
    assert_eq!(rules("view").await, view);
}

/// Contract: API-32
#[tokio::test(start_paused = true)]
async fn a_secret_that_asks_for_a_token_gets_one_and_goes_with_its_account() {
    const SECRETS: &str = "/api/v1/namespaces/default/secrets";
    const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
    let world =
        World::with(|server| Options { tokens: Some(Arc::new(server.clone())), simulate: false, ..quick(0) }).await;
    let secret = async |name: &str, account: &str| {
        let annotations = json!({"kubernetes.io/service-account.name": account});
        let metadata = json!({"name": name, "annotations": annotations});
        world.post(SECRETS, json!({"metadata": metadata, "type": "kubernetes.io/service-account-token"})).await;
    };
    let account = world.post(ACCOUNTS, json!({"metadata": {"name": "a"}, "secrets": [{"name": "s"}]})).await;
    secret("s", "a").await;
    secret("nobody", "b").await;
    world.pass(1000).await;
    assert_eq!(world.find(&format!("{SECRETS}/nobody")).await, None);
    let kept = world.get(&format!("{SECRETS}/s")).await;
    let data = |key: &str| {
        let data = STANDARD.decode(kept["data"][key].as_str().unwrap_or_default()).expect("base64");
        String::from_utf8(data).expect("a text")
    };
    assert_eq!((&*data("namespace"), &*data("ca.crt")), ("default", "the certificate"));
    assert_eq!(kept["metadata"]["annotations"]["kubernetes.io/service-account.uid"], account["metadata"]["uid"]);
    let review = json!({"spec": {"token": data("token")}});
    let review = world.post("/apis/authentication.k8s.io/v1/tokenreviews", review).await;
    assert_eq!(review["status"]["user"]["username"], "system:serviceaccount:default:a", "{review}");

    world.delete(&format!("{SECRETS}/s"), json!({})).await;
    world.pass(1000).await;
    assert_eq!(world.get(&format!("{ACCOUNTS}/a")).await["secrets"], Value::Null);
    secret("s2", "a").await;
    world.pass(1000).await;
    world.delete(&format!("{ACCOUNTS}/a"), json!({})).await;
    world.pass(1000).await;
    assert_eq!(world.find(&format!("{SECRETS}/s2")).await, None);
}
