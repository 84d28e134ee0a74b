//! Rollback to the template of an earlier revision, requested by an annotation (DEP-22).
//!
//! `kubectl rollout undo` writes the template itself; this is for clients that still write the annotation which
//! replaced the field `spec.rollbackTo` of older versions. The annotation is removed whether or not the rollback
//! succeeds.

use bytes::Bytes;
use muster_objects::{Annotations, Deployment, ReplicaSet};
use muster_schema::template::{equal_ignoring_hash, raw_without_hash_label};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::revision::{ROLLBACK_TO, is_own, last_revision, revision};
use super::sets::Sets;
use super::update::annotation_path;
use crate::plan::{Announcement, EventText, EventTexts, Failure, Patch, PatchType, Resource, Step};

/// The revision that is requested, if any; 0 means the last one. A text that is not a number is ignored.
#[must_use]
pub fn rollback_to(deployment: &Deployment) -> Option<i64> {
    deployment.annotations.get(ROLLBACK_TO)?.parse().ok()
}

/// The steps of a rollback to `wanted`: the patch of the Deployment and an Event.
#[must_use]
pub fn roll_back(deployment: &Deployment, sets: &Sets, wanted: i64) -> Vec<Step> {
    let target = match wanted {
        0 => last_revision(sets.all()),
        wanted => wanted,
    };
    if target == 0 {
        return give_up(deployment, "DeploymentRollbackRevisionNotFound", "Unable to find last revision.".to_owned());
    }
    let Some(set) = sets.all().find(|set| revision(set) == Some(target)) else {
        let words = "Unable to find the revision to rollback to.".to_owned();
        return give_up(deployment, "DeploymentRollbackRevisionNotFound", words);
    };
    if equal_ignoring_hash(deployment.template.raw(), set.template.raw()) {
        let name = &deployment.meta.name;
        let words = format!("The rollback revision contains the same template as current deployment \"{name}\"");
        return give_up(deployment, "DeploymentRollbackTemplateUnchanged", words);
    }
    match take_back(deployment, set, target) {
        Ok(patch) => vec![Step::Patch(vec![patch])],
        Err(failure) => vec![Step::Fail(failure)],
    }
}

/// Reports why not, and removes the annotation.
fn give_up(deployment: &Deployment, reason: &'static str, message: String) -> Vec<Step> {
    let operations = json!([
        lock(deployment),
        {"op": "remove", "path": annotation_path(ROLLBACK_TO)},
    ]);
    let patch = patch(deployment, operations.to_string(), EventTexts::SILENT, format!("take {ROLLBACK_TO} away"));
    vec![Step::Tell(Announcement { warning: true, reason, message }), Step::Patch(vec![patch])]
}

/// The template and the annotations of the ReplicaSet become the Deployment's. Its annotations
/// about the template that goes, such as the change cause, are removed.
fn take_back(deployment: &Deployment, set: &ReplicaSet, revision: i64) -> Result<Patch, Failure> {
    let unreadable = |error: serde_json::Error| Failure::local(format!("the template of {}: {error}", set.meta.key()));
    let template = RawValue::from_string(raw_without_hash_label(set.template.raw())).map_err(unreadable)?;
    let own = deployment.annotations.iter().filter(|(key, _)| is_own(key) && *key != ROLLBACK_TO);
    let annotations: Annotations = own.chain(set.annotations.iter().filter(|(key, _)| !is_own(key))).collect();
    let annotate = json!({"op": "add", "path": "/metadata/annotations", "value": annotations});
    // Composed as text, to keep the ReplicaSet's template byte for byte.
    let body =
        format!(r#"[{},{{"op":"replace","path":"/spec/template","value":{template}}},{annotate}]"#, lock(deployment));
    let name = &deployment.meta.name;
    let words = format!("Rolled back deployment \"{name}\" to revision {revision}");
    let events = EventTexts { success: Some(("DeploymentRollback", EventText::Exactly(words))), ..EventTexts::SILENT };
    Ok(patch(deployment, body, events, format!("roll back to revision {revision}")))
}

/// Only the version that was seen is patched: the server compares it.
fn lock(deployment: &Deployment) -> Value {
    json!({"op": "replace", "path": "/metadata/resourceVersion", "value": deployment.meta.resource_version})
}

fn patch(deployment: &Deployment, body: String, events: EventTexts, purpose: String) -> Patch {
    Patch {
        resource: Resource::DEPLOYMENTS,
        key: deployment.meta.key(),
        subresource: None,
        patch_type: PatchType::Json,
        body: Bytes::from(body),
        events,
        purpose,
    }
}
