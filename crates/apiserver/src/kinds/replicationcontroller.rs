//! ReplicationController.

use std::sync::LazyLock;

use std::borrow::Cow;

use muster_objects::time::Timestamp;
use serde_json::{Value, json};

use super::{
    AGE_COLUMN, Column, Kind, NAME_COLUMN, NameRule, Object, Part, Propagation, Resource, Subresource, cells, defaults,
    workload,
};
use crate::field::FieldError;
use crate::model::fields::{Fields, metadata};
use crate::validation::{self, Errors};

/// So many pods of one template, with the selector of old.
#[derive(Debug)]
pub struct ReplicationController;

static RESOURCE: LazyLock<Resource> = LazyLock::new(|| {
    Resource::namespaced("", "v1", "ReplicationController", "replicationcontrollers")
        .short(&["rc"])
        .in_all()
        .parts(&[Subresource::Scale, Subresource::Status])
        .labels(&["status.replicas"])
        .stored_under("controllers")
});

static COLUMNS: [Column; 8] = [
    NAME_COLUMN,
    Column::number(
        "Desired",
        "Replicas is the number of desired replicas. This is a pointer to distinguish between explicit zero and unspecified. Defaults to 1. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller#what-is-a-replicationcontroller",
    ),
    Column::number(
        "Current",
        "Replicas is the most recently observed number of replicas. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller#what-is-a-replicationcontroller",
    ),
    Column::number("Ready", "The number of ready replicas for this replication controller."),
    AGE_COLUMN,
    Column::wide_text("Containers", "Names of each container in the template."),
    Column::wide_text("Images", "Images referenced by each container in the template."),
    Column::wide_text(
        "Selector",
        "Selector is a label query over pods that should match the Replicas count. If Selector is empty, it is defaulted to the labels present on the Pod template. Label keys and values that must match in order to be controlled by this replication controller, if empty defaulted to labels on Pod template. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    ),
];

impl Kind for ReplicationController {
    fn resource(&self) -> &Resource {
        &RESOURCE
    }
    fn default(&self, object: &mut Object) {
        let spec = object.object_or_new("spec");
        spec.set_if_absent("replicas", 1);
        // Without a template there is nothing to default; validation says that one is required.
        if spec.object("template").is_some() {
            defaults::template(spec, "template");
        }
        let template = spec.object("template").and_then(|t| t.object("metadata"));
        let labels = template.and_then(|m| m.object("labels")).filter(|l| !l.is_empty()).cloned();
        if let Some(labels) = labels {
            if spec.object("selector").is_none_or(Object::is_empty) {
                spec.insert("selector".to_owned(), Value::Object(labels.clone()));
            }
            let metadata = object.object_or_new("metadata");
            if metadata.object("labels").is_none_or(Object::is_empty) {
                metadata.insert("labels".to_owned(), Value::Object(labels));
            }
        }
        object.object_or_new("status").set_if_absent("replicas", 0);
    }
    fn prepare_create(&self, object: &mut Object) {
        workload::prepare_create(object, json!({"replicas": 0}));
    }
    fn prepare_update(&self, part: Part, object: &mut Object, old: &Object) {
        workload::prepare_update(part, object, old);
    }
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core(metadata(object), true, NameRule::Subdomain, &mut errors);
        validation::workload::validate_replication_controller(object, None, &mut errors);
        errors
    }
    fn validate_update(&self, part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core_update(metadata(object), metadata(old), &mut errors);
        match part {
            Part::Status => validation::workload::validate_replica_set_status(object, &mut errors),
            _ => {
                validation::workload::validate_replication_controller(object, Some(old), &mut errors);
            }
        }
        errors
    }
    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        validation::workload::warnings(object, old)
    }
    fn field<'a>(&self, object: &'a Object, label: &str) -> Option<Cow<'a, str>> {
        let replicas = object.object("status").map_or(0, |s| s.int("replicas"));
        (label == "status.replicas").then(|| Cow::Owned(replicas.to_string()))
    }
    fn default_propagation(&self) -> Propagation {
        Propagation::Orphan
    }
    fn columns(&self) -> &[Column] {
        &COLUMNS
    }
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let empty = Object::new();
        let spec = object.object("spec").unwrap_or(&empty);
        let status = object.object("status").unwrap_or(&empty);
        let [names, images] = cells::containers(spec.object("template"));
        vec![
            cells::name(object),
            spec.int("replicas").into(),
            status.int("replicas").into(),
            status.int("readyReplicas").into(),
            cells::age(object, now),
            names,
            images,
            cells::labels(spec.object("selector")).into(),
        ]
    }
    fn scale_selector(&self, object: &Object) -> String {
        let selector = object.object("spec").and_then(|spec| spec.object("selector"));
        let mut pairs: Vec<String> = selector
            .map(|s| s.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect())
            .unwrap_or_default();
        pairs.sort_unstable();
        pairs.join(",")
    }
}
