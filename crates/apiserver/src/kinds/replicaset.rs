//! ReplicaSet.

use std::sync::LazyLock;

use muster_objects::time::Timestamp;
use serde_json::{Value, json};

use super::{
    AGE_COLUMN, Column, Kind, NAME_COLUMN, NameRule, Object, Part, Resource, Subresource, cells, defaults, workload,
};
use crate::field::FieldError;
use crate::model::fields::{Fields, metadata};
use crate::validation::{self, Errors};

/// So many pods of one template.
#[derive(Debug)]
pub struct ReplicaSet;

static RESOURCE: LazyLock<Resource> = LazyLock::new(|| {
    Resource::namespaced("apps", "v1", "ReplicaSet", "replicasets")
        .short(&["rs"])
        .in_all()
        .parts(&[Subresource::Scale, Subresource::Status])
});

static COLUMNS: [Column; 8] = [
    NAME_COLUMN,
    Column::number(
        "Desired",
        "Replicas is the number of desired pods. This is a pointer to distinguish between explicit zero and unspecified. Defaults to 1. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
    ),
    Column::number(
        "Current",
        "Replicas is the most recently observed number of non-terminating pods. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
    ),
    Column::number("Ready", "The number of non-terminating pods targeted by this ReplicaSet with a Ready Condition."),
    AGE_COLUMN,
    Column::wide_text("Containers", "Names of each container in the template."),
    Column::wide_text("Images", "Images referenced by each container in the template."),
    Column::wide_text(
        "Selector",
        "Selector is a label query over pods that should match the replica count. Label keys and values that must match in order to be controlled by this replica set. It must match the pod template's labels. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    ),
];

impl Kind for ReplicaSet {
    fn resource(&self) -> &Resource {
        &RESOURCE
    }
    fn default(&self, object: &mut Object) {
        let spec = object.object_or_new("spec");
        spec.set_if_absent("replicas", 1);
        spec.entry("selector").or_insert(Value::Null);
        defaults::template(spec, "template");
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
        validation::workload::validate_replica_set(object, None, &mut errors);
        errors
    }
    fn validate_update(&self, part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core_update(metadata(object), metadata(old), &mut errors);
        match part {
            Part::Status => validation::workload::validate_replica_set_status(object, &mut errors),
            _ => {
                validation::workload::validate_replica_set(object, Some(old), &mut errors);
                validation::workload::validate_selector_unchanged(object, old, &mut errors);
            }
        }
        errors
    }
    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        validation::workload::warnings(object, old)
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
            cells::label_selector(spec.object("selector")).into(),
        ]
    }
    fn scale_selector(&self, object: &Object) -> String {
        workload::scale_selector(object)
    }
}
