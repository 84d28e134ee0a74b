//! ServiceAccount: a pod's account must be there.
//!
//! The reference's plugin also gives a pod without one the account `default`, and mounts a token. Nothing here runs that
//! could use a token, so pods stay as they were written (B-24).

use super::Write;
use crate::model::Object;
use crate::model::fields::{Fields as _, metadata};
use crate::status::ApiError;

/// The annotation of a pod that a kubelet shows for a file of its own.
const MIRROR: &str = "kubernetes.io/config.mirror";

pub(super) fn create(write: &Write<'_>, pod: &mut Object) -> Result<(), ApiError> {
    let account = pod.object("spec").map_or("", |spec| spec.text("serviceAccountName"));
    let mirrored = metadata(pod).object("annotations").is_some_and(|annotations| annotations.contains_key(MIRROR));
    let Some(accounts) = write.registry.find("", "v1", "serviceaccounts").filter(|_| !account.is_empty() && !mirrored)
    else {
        return Ok(());
    };
    let namespace = metadata(pod).text("namespace");
    if write.registry.storage.get(accounts.id, namespace, account).is_some() {
        return Ok(());
    }
    let why = format!("error looking up service account {namespace}/{account}: serviceaccount \"{account}\" not found");
    Err(write.forbidden(super::name_of(pod), &why))
}
