//! What every namespace gets: ServiceAccount `default` and ConfigMap `kube-root-ca.crt`.

use bytes::Bytes;
use muster_runtime::client::{ApiError, Client, ClientError, PatchType};
use serde::Deserialize;
use serde_json::json;

use super::{Furniture, Step};
use crate::api::made;

const ROOT_CA: &str = "kube-root-ca.crt";
/// The annotation that a real cluster writes beside the certificate.
const ABOUT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
                     such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
                     distributions of Kubernetes clusters.";

/// Makes what is missing, and puts right what was changed.
pub(super) async fn step(client: &Client, furniture: &Furniture, namespace: &str) -> Step {
    match furnish(client, furniture, namespace).await {
        Ok(()) => Step::Done,
        // It went away meanwhile.
        Err(error) if error.is_not_found() || error.api().is_some_and(ApiError::is_namespace_terminating) => Step::Done,
        Err(error) => {
            tracing::debug!(namespace, %error, "a namespace is not furnished yet");
            Step::Failed
        }
    }
}

async fn furnish(client: &Client, furniture: &Furniture, namespace: &str) -> Result<(), ClientError> {
    if furniture.service_account {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        let exists = client.get(&format!("{path}/default")).await;
        if exists.as_ref().is_err_and(ClientError::is_not_found) {
            let account = json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": namespace},
            });
            made(client.post(&path, Bytes::from(account.to_string())).await)?;
        } else {
            exists?;
        }
    }
    let Some(ca) = &furniture.ca else { return Ok(()) };
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let object = format!("{path}/{ROOT_CA}");
    match client.get(&object).await {
        Ok(answer) => {
            #[derive(Deserialize)]
            struct ConfigMap {
                #[serde(default)]
                data: Option<std::collections::BTreeMap<String, String>>,
            }
            let right = serde_json::from_slice::<ConfigMap>(&answer.body)
                .is_ok_and(|map| map.data.is_some_and(|data| data.len() == 1 && data.get("ca.crt") == Some(ca)));
            if !right {
                let patch = json!([{"op": "add", "path": "/data", "value": {"ca.crt": ca}}]);
                client.patch(&object, PatchType::Json, Bytes::from(patch.to_string())).await?;
            }
            Ok(())
        }
        Err(error) if error.is_not_found() => {
            let map = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": ROOT_CA, "namespace": namespace, "annotations": {"kubernetes.io/description": ABOUT}},
                "data": {"ca.crt": ca},
            });
            made(client.post(&path, Bytes::from(map.to_string())).await)
        }
        Err(error) => Err(error),
    }
}
