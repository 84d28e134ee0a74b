//! Signing what was approved.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use muster_objects::{ObjectKey, Timestamp};
use muster_runtime::client::Client;
use muster_runtime::informer::Store;
use serde_json::{Value, json};

use super::request::{KUBELET_CLIENT, Request, check_client, check_kubelet_client, check_kubelet_serving};
use super::{Authority, requests};
use crate::control::{Again, Control, Frame, Slim, Trouble, Writes};

/// How many requests are signed at once.
const WORKERS: usize = 5;
/// How long a certificate is good at most, and where the request does not say.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// And at least.
const SHORTEST: Duration = Duration::from_secs(10 * 60);
/// By how much it begins to be good before it was signed: clocks differ.
const BACKDATE: Duration = Duration::from_secs(5 * 60);
/// One that is good for less than this ends no earlier for that.
const SHORT: Duration = Duration::from_secs(8 * 3600);

/// Sets up the `certificatesigningrequest-signing-controller`.
pub(crate) fn sign_requests(frame: &mut Frame<'_>) {
    let Some(authority) = frame.authority.clone().filter(|_| frame.serves(&requests())) else { return };
    let client = frame.client.clone();
    let mut setup = frame.controller("certificate");
    let store = setup.watch_own::<Slim<Request>>(&requests());
    setup.run(WORKERS, Signer { client, authority, requests: store });
}

/// What a request's status becomes; none where it is not to be signed here, or not now.
///
/// # Errors
/// Where the request cannot be read, or not be signed.
pub(super) fn decide(request: &Request, authority: &dyn Authority, now: Timestamp) -> Result<Option<Value>, String> {
    let approved = request.is("Approved") && !request.has("Denied");
    if request.is_issued() || !approved || request.is("Failed") {
        return Ok(None);
    }
    let pem = request.pem();
    let (signer, usages) = (&*request.spec.signer_name, &request.spec.usages);
    let check = match signer {
        "kubernetes.io/kubelet-serving" => check_kubelet_serving,
        KUBELET_CLIENT => check_kubelet_client,
        "kubernetes.io/kube-apiserver-client" => |_: &_, usages: &[String]| check_client(usages),
        // No restriction.
        "kubernetes.io/legacy-unknown" => |_: &_, _: &[String]| Ok(()),
        _ => return Ok(None),
    };
    let asked = authority.read(&pem).map_err(|error| format!("unable to parse csr: {error}"))?;
    if let Err(message) = check(&asked, usages) {
        let condition = json!({
            "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": message,
            "lastUpdateTime": now.to_string(),
        });
        return Ok(Some(json!({"conditions": request.conditions_and(condition)})));
    }
    let (from, until) = validity(request.spec.expiration_seconds, now);
    let usages: Vec<&str> = usages.iter().map(String::as_str).collect();
    let certificate =
        authority.sign(&pem, &usages, from, until).map_err(|error| format!("error auto signing csr: {error}"))?;
    Ok(Some(json!({"certificate": STANDARD.encode(certificate)})))
}

/// Between which times a certificate that is signed now is good.
pub(super) fn validity(seconds: Option<i64>, now: Timestamp) -> (Timestamp, Timestamp) {
    let asked = seconds.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
    let lasts = asked.map_or(LONGEST, |asked| asked.clamp(SHORTEST, LONGEST));
    let until = if lasts < SHORT { now + lasts } else { now + (lasts - BACKDATE) };
    (now - BACKDATE, until)
}

struct Signer {
    client: Client,
    authority: Arc<dyn Authority>,
    requests: Store<Slim<Request>>,
}

impl Control for Signer {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Again, Trouble>> {
        Box::pin(async move {
            let Some(found) = self.requests.read().get(key).cloned() else { return Ok(Again::Never) };
            let status = decide(&found.body, &*self.authority, self.client.server_now()).map_err(Trouble::Objects)?;
            if let Some(status) = status {
                let path = format!("{}/status", requests().object(None, &key.name));
                let metadata = json!({"uid": found.meta.uid, "resourceVersion": found.meta.resource_version});
                let patch = json!({"metadata": metadata, "status": status});
                Writes { client: &self.client, store: &self.requests }.merge(&path, &patch).await?;
            }
            Ok(Again::Never)
        })
    }
}
