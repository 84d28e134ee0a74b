//! Writes of a controller: sent, and waited for until the cache of their kind shows them.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method};
use muster_machinery::Cached;
use muster_objects::ResourceVersion;
use muster_runtime::client::{Client, ClientError, Form, PatchType};
use muster_runtime::informer::Store;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How long a sync waits for a cache to show a write: a server that was put back to an earlier version never does.
const SHOWN: Duration = Duration::from_secs(10);

/// Writes objects of one kind.
pub(crate) struct Writes<'a, T: Cached> {
    pub(crate) client: &'a Client,
    pub(crate) store: &'a Store<T>,
}

impl<T: Cached> Writes<'_, T> {
    /// Creates an object in a collection.
    ///
    /// # Errors
    /// Where the server refuses, or does not answer.
    pub(crate) async fn create(&self, collection: &str, object: &Value) -> Result<(), ClientError> {
        let written = self.client.create(collection, body(object)).await?;
        self.shown(written.resource_version).await;
        Ok(())
    }

    /// Merges a patch into an object or a subresource of it. It names what it believes: uid, and version where that
    /// matters.
    ///
    /// # Errors
    /// Where the server refuses, or does not answer.
    pub(crate) async fn merge(&self, path: &str, patch: &impl Serialize) -> Result<(), ClientError> {
        let written = self.client.patch_metadata(path, PatchType::Merge, body(patch)).await?;
        self.shown(written.resource_version).await;
        Ok(())
    }

    /// Applies an object as `manager`, whatever others have applied.
    ///
    /// # Errors
    /// Where the server refuses, or does not answer.
    pub(crate) async fn apply(&self, path: &str, manager: &str, object: &Value) -> Result<(), ClientError> {
        #[derive(Deserialize)]
        struct Applied {
            metadata: AppliedMeta,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct AppliedMeta {
            resource_version: ResourceVersion,
        }
        let path = format!("{path}?fieldManager={manager}&force=true");
        let content = Some(HeaderValue::from_static("application/apply-patch+yaml"));
        let answer = self.client.request(Method::PATCH, &path, Form::Metadata, content, body(object)).await?;
        let applied: Option<Applied> = serde_json::from_slice(&answer.body).ok();
        self.shown(applied.map(|applied| applied.metadata.resource_version)).await;
        Ok(())
    }

    /// Deletes an object if it is still the one of that uid; one that is gone already is no failure.
    ///
    /// # Errors
    /// Where the server refuses, or does not answer.
    pub(crate) async fn delete(&self, path: &str, uid: &muster_objects::Uid) -> Result<(), ClientError> {
        let options = format!(r#"{{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{{"uid":"{uid}"}}}}"#);
        match self.client.delete_metadata(path, Bytes::from(options)).await {
            Ok(written) => {
                self.shown(written.resource_version).await;
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn shown(&self, version: Option<ResourceVersion>) {
        if let Some(version) = version {
            // Where it is not shown in time, the next sync meets a conflict at worst.
            let _ = tokio::time::timeout(SHOWN, self.store.reached(version)).await;
        }
    }
}

fn body(object: &impl Serialize) -> Bytes {
    // Values have nothing that JSON does not.
    Bytes::from(serde_json::to_vec(object).unwrap_or_default())
}
