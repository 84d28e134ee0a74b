//! Approving what nodes ask for: where the user who asks may.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use muster_objects::ObjectKey;
use muster_runtime::client::{Client, ClientError};
use muster_runtime::informer::Store;
use serde_json::{Value, json};

use super::request::{KUBELET_CLIENT, Request, check_kubelet_client};
use super::{Asked, Authority, requests};
use crate::control::{Again, Control, Frame, Slim, Trouble, Writes};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// Sets up the `certificatesigningrequest-approving-controller`.
pub(crate) fn approve_requests(frame: &mut Frame<'_>) {
    let Some(authority) = frame.authority.clone().filter(|_| frame.serves(&requests())) else { return };
    let client = frame.client.clone();
    let mut setup = frame.controller("certificate_approver");
    let store = setup.watch_own::<Slim<Request>>(&requests());
    setup.run(1, Approver { client, authority, requests: store });
}

/// A way in which a request is approved by itself.
pub(super) struct Recognized {
    /// What its user must be allowed to create.
    pub(super) subresource: &'static str,
    message: &'static str,
}

const SELF_NODE: Recognized = Recognized {
    subresource: "selfnodeclient",
    message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
};
const NODE: Recognized = Recognized {
    subresource: "nodeclient",
    message: "Auto approving kubelet client certificate after SubjectAccessReview.",
};

/// The ways in which a request may be approved, in the order in which they are tried.
pub(super) fn recognize(request: &Request, asked: &Asked) -> Vec<Recognized> {
    if request.spec.signer_name != KUBELET_CLIENT || check_kubelet_client(asked, &request.spec.usages).is_err() {
        return Vec::new();
    }
    if request.spec.username == asked.common_name { vec![SELF_NODE, NODE] } else { vec![NODE] }
}

struct Approver {
    client: Client,
    authority: Arc<dyn Authority>,
    requests: Store<Slim<Request>>,
}

impl Control for Approver {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Again, Trouble>> {
        Box::pin(async move {
            let Some(found) = self.requests.read().get(key).cloned() else { return Ok(Again::Never) };
            let request = &found.body;
            if request.is_issued() || request.has("Approved") || request.has("Denied") {
                return Ok(Again::Never);
            }
            let asked = self.authority.read(&request.pem());
            let asked =
                asked.map_err(|error| Trouble::Objects(format!("unable to parse csr {:?}: {error}", &*key.name)))?;
            let tried = recognize(request, &asked);
            for way in &tried {
                if self.may_create(request, way.subresource).await? {
                    let path = format!("{}/approval", requests().object(None, &key.name));
                    let condition = json!({
                        "type": "Approved", "status": "True", "reason": "AutoApproved", "message": way.message,
                    });
                    let patch = json!({
                        "metadata": {"uid": found.meta.uid, "resourceVersion": found.meta.resource_version},
                        "status": {"conditions": request.conditions_and(condition)},
                    });
                    Writes { client: &self.client, store: &self.requests }.merge(&path, &patch).await?;
                    return Ok(Again::Never);
                }
            }
            // The user may be allowed to later.
            if tried.is_empty() { Ok(Again::Never) } else { Err(Trouble::NotYet) }
        })
    }
}

impl Approver {
    /// Whether the user who asks may create that part of requests.
    async fn may_create(&self, request: &Request, subresource: &str) -> Result<bool, ClientError> {
        let spec = &request.spec;
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": spec.username, "uid": spec.uid, "groups": spec.groups, "extra": spec.extra,
                "resourceAttributes": {
                    "group": "certificates.k8s.io", "resource": "certificatesigningrequests", "verb": "create",
                    "subresource": subresource, "version": "*",
                },
            },
        });
        let answer = self.client.post(REVIEWS, Bytes::from(review.to_string())).await?;
        let answer: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        Ok(answer["status"]["allowed"] == true)
    }
}
