//! Creation of the new ReplicaSet, if none has the Deployment's template (DEP-04).

use std::sync::Arc;

use bytes::Bytes;
use muster_objects::meta::{ControllerRef, Meta, OwnerReference};
use muster_objects::names::DNS1123_SUBDOMAIN_MAX_LENGTH;
use muster_objects::{Annotations, Deployment, LabelSelector, Labels, Object, ReplicaSet, ReplicaSetStatus, Selector};
use muster_schema::template::{HASH_LABEL, Hash, hash, raw_with_hash_label};
use serde::Serialize;
use serde_json::value::RawValue;

use super::revision::{MAX_HISTORY_LENGTH, new_set_annotations, with, with_replicas};
use super::rolling::new_set_replicas;
use super::sets::{Sets, taken};
use crate::plan::{Creation, EventText, EventTexts, Failure, Resource};

/// A ReplicaSet to create.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSet {
    /// The ReplicaSet after its creation, with the fields that decisions read: without uid, version and times.
    pub set: Arc<ReplicaSet>,
    /// The hash in its name.
    pub hash: String,
    /// Whether kube-controller-manager would have given it the same name.
    pub hash_is_exact: bool,
    /// The request.
    pub creation: Creation,
}

/// The ReplicaSet of the Deployment's template, at `revision`, beside the old ones in `sets`.
///
/// # Errors
///
/// If the number of replicas that it may have cannot be computed.
pub fn new_set(deployment: &Deployment, sets: &Sets, revision: i64) -> Result<NewSet, Failure> {
    let replicas = new_set_replicas(deployment, 0, taken(&sets.old).unwrap_or(i64::MAX))?;
    sized_set(deployment, replicas, revision)
}

/// The same without pods, to be one of the revisions.
///
/// # Errors
///
/// If its template is not JSON.
pub fn empty_set(deployment: &Deployment, revision: i64) -> Result<NewSet, Failure> {
    sized_set(deployment, 0, revision)
}

fn sized_set(deployment: &Deployment, replicas: i32, revision: i64) -> Result<NewSet, Failure> {
    let Hash { text: hash, exact } = hash_of(deployment);
    let own = [(HASH_LABEL, &*hash)];
    let labels = with(deployment.template.labels(), own);
    let selector = LabelSelector {
        match_labels: with(&deployment.label_selector.match_labels, own),
        match_expressions: deployment.label_selector.match_expressions.clone(),
    };
    let (annotations, _) = new_set_annotations(deployment, &Annotations::EMPTY, revision, MAX_HISTORY_LENGTH);
    let reference = ControllerRef::to(Deployment::API_VERSION, Deployment::KIND, &deployment.meta);
    let name = set_name(&deployment.meta.name, &hash);
    let set = ReplicaSet {
        meta: Meta {
            namespace: Arc::clone(&deployment.meta.namespace),
            name: name.into(),
            labels,
            controller: Some(Arc::new(reference)),
            ..Meta::default()
        },
        annotations: with_replicas(deployment, &annotations),
        replicas,
        min_ready_seconds: deployment.min_ready_seconds,
        selector: Selector::try_from(&selector),
        label_selector: Arc::new(selector),
        template: Arc::clone(&deployment.template),
        status: ReplicaSetStatus::default(),
    };
    let creation = creation(&set, &hash)?;
    Ok(NewSet { set: Arc::new(set), hash, hash_is_exact: exact, creation })
}

/// The name of a new ReplicaSet with the Deployment's template.
#[must_use]
pub fn new_set_name(deployment: &Deployment) -> String {
    set_name(&deployment.meta.name, &hash_of(deployment).text)
}

/// `<deployment>-<hash>`, with the Deployment's name cut so that the whole fits the limit of a name.
#[must_use]
pub fn set_name(deployment: &str, hash: &str) -> String {
    let most = DNS1123_SUBDOMAIN_MAX_LENGTH.saturating_sub(hash.len() + 1);
    // Names are ASCII; one that is not is not cut, and the server refuses it.
    let cut = if most > 0 { deployment.get(..most).unwrap_or(deployment) } else { deployment };
    format!("{cut}-{hash}")
}

fn hash_of(deployment: &Deployment) -> Hash {
    hash(deployment.template.raw(), deployment.status.collision_count)
}

fn creation(set: &ReplicaSet, hash: &str) -> Result<Creation, Failure> {
    let ReplicaSet { meta, replicas, .. } = set;
    let template = RawValue::from_string(raw_with_hash_label(set.template.raw(), hash))
        .map_err(|error| Failure::local(format!("the template of {}: {error}", meta.key())))?;
    let body = SetBody {
        api_version: ReplicaSet::API_VERSION,
        kind: ReplicaSet::KIND,
        metadata: MetaBody {
            name: &meta.name,
            namespace: &meta.namespace,
            labels: &meta.labels,
            annotations: &set.annotations,
            owner_references: meta.controller.iter().map(|reference| reference.to_owner_reference()).collect(),
        },
        spec: SpecBody {
            replicas: *replicas,
            min_ready_seconds: Some(set.min_ready_seconds).filter(|seconds| *seconds != 0),
            selector: &set.label_selector,
            template: &template,
        },
    };
    let body = serde_json::to_vec(&body).expect("strings, numbers and raw JSON always have a JSON form");
    let success = format!("Scaled up replica set {} from 0 to {replicas}", meta.name);
    let failure = format!("Failed to create new replica set \"{}\": ", meta.name);
    Ok(Creation {
        resource: Resource::REPLICA_SETS,
        namespace: Arc::clone(&meta.namespace),
        count: 1,
        body: Bytes::from(body),
        name: Some(Arc::clone(&meta.name)),
        events: EventTexts {
            success: (*replicas > 0).then_some(("ScalingReplicaSet", EventText::Exactly(success))),
            failure: Some(("ReplicaSetCreateError", EventText::Followed(failure))),
            error_context: None,
        },
    })
}

/// The object as it is sent, in the order in which Go writes its fields.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SetBody<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: MetaBody<'a>,
    spec: SpecBody<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MetaBody<'a> {
    name: &'a str,
    namespace: &'a str,
    labels: &'a Labels,
    annotations: &'a Annotations,
    owner_references: Vec<OwnerReference>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SpecBody<'a> {
    replicas: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_ready_seconds: Option<i32>,
    selector: &'a LabelSelector,
    template: &'a RawValue,
}
