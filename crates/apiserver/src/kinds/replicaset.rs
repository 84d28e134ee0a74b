//! ReplicaSet.

use muster_objects::time::Timestamp;
use serde_json::{Value, json};

use super::fields::{Fields, metadata};
use super::{
    AGE_COLUMN, Column, Kind, NAME_COLUMN, NameRule, Object, Part, Resource, Subresource, cells, defaults,
    number_column, wide_column, workload,
};
use crate::field::FieldError;
use crate::validation::{self, Errors};

/// So many pods of one template.
#[derive(Debug)]
pub struct ReplicaSet;

static RESOURCE: Resource = Resource {
    group: "apps",
    version: "v1",
    kind: "ReplicaSet",
    plural: "replicasets",
    singular: "replicaset",
    short_names: &["rs"],
    categories: &["all"],
    namespaced: true,
    delete_collection: true,
    subresources: &[Subresource::Scale, Subresource::Status],
    field_labels: &[],
};

static COLUMNS: [Column; 8] = [
    NAME_COLUMN,
    number_column(
        "Desired",
        "Replicas is the number of desired pods. This is a pointer to distinguish between explicit zero and unspecified. Defaults to 1. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
    ),
    number_column(
        "Current",
        "Replicas is the most recently observed number of non-terminating pods. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
    ),
    number_column("Ready", "The number of non-terminating pods targeted by this ReplicaSet with a Ready Condition."),
    AGE_COLUMN,
    wide_column("Containers", "Names of each container in the template."),
    wide_column("Images", "Images referenced by each container in the template."),
    wide_column(
        "Selector",
        "Selector is a label query over pods that should match the replica count. Label keys and values that must match in order to be controlled by this replica set. It must match the pod template's labels. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    ),
];

impl Kind for ReplicaSet {
    fn resource(&self) -> &'static Resource {
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
            Part::Main | Part::Finalize => {
                validation::workload::validate_replica_set(object, Some(old), &mut errors);
                validation::workload::validate_selector_unchanged(object, old, &mut errors);
            }
        }
        errors
    }
    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        validation::workload::warnings(object, old)
    }
    fn columns(&self) -> &'static [Column] {
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
