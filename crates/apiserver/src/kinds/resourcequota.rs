//! ResourceQuota.

use std::sync::LazyLock;

use muster_objects::time::Timestamp;
use serde_json::{Value, json};

use super::{
    AGE_COLUMN, Column, Kind, NAME_COLUMN, NameRule, Object, Part, Resource, Subresource, cells, defaults,
    keep_generation,
};
use crate::field::FieldError;
use crate::model::fields::{Fields, metadata};
use crate::validation::{self, Errors};
use muster_schema::quantity::Quantity;

/// How much a namespace may use.
#[derive(Debug)]
pub struct ResourceQuota;

static RESOURCE: LazyLock<Resource> = LazyLock::new(|| {
    Resource::namespaced("", "v1", "ResourceQuota", "resourcequotas")
        .short(&["quota"])
        .parts(&[Subresource::Status])
        .returns_deleted()
});

static COLUMNS: [Column; 4] = [
    NAME_COLUMN,
    Column::text("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
    Column::text(
        "Limit",
        "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
    ),
    AGE_COLUMN,
];

impl Kind for ResourceQuota {
    fn resource(&self) -> &Resource {
        &RESOURCE
    }
    fn default(&self, object: &mut Object) {
        defaults::resource_list(object.object_or_new("spec"), "hard");
        let status = object.object_or_new("status");
        defaults::resource_list(status, "hard");
        defaults::resource_list(status, "used");
    }
    fn prepare_create(&self, object: &mut Object) {
        object.insert("status".to_owned(), json!({}));
    }
    fn prepare_update(&self, part: Part, object: &mut Object, old: &Object) {
        keep_generation(object, old);
        match part {
            Part::Status => object.carry("spec", old),
            _ => object.carry("status", old),
        }
    }
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core(metadata(object), true, NameRule::Subdomain, &mut errors);
        validation::quota::validate_spec(object, &mut errors);
        validation::quota::validate_status(object, &mut errors);
        errors
    }
    fn validate_update(&self, part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core_update(metadata(object), metadata(old), &mut errors);
        match part {
            Part::Status => validation::quota::validate_status(object, &mut errors),
            _ => {
                validation::quota::validate_spec(object, &mut errors);
                validation::quota::validate_scopes_unchanged(object, old, &mut errors);
            }
        }
        errors
    }
    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let hard = object.object("spec").and_then(|s| s.object("hard"));
        let (Some(hard), None) = (hard, old) else { return Vec::new() };
        let mut out = Vec::new();
        for resource in ["cpu", "memory", "storage", "ephemeral-storage"] {
            let request = format!("requests.{resource}");
            // Cpu and memory may be asked for by their bare names.
            let bare = matches!(resource, "cpu" | "memory") && !hard.contains_key(&request);
            let request = if bare { resource.to_owned() } else { request };
            let limit = format!("limits.{resource}");
            let (Some(least), Some(most)) = (hard.maybe_text(&request), hard.maybe_text(&limit)) else { continue };
            if Quantity::of(least).compare(&Quantity::of(most)).is_gt() {
                out.push(format!("ResourceQuota {request} ({least}) should be less than {limit} ({most})"));
            }
        }
        out
    }
    fn columns(&self) -> &[Column] {
        &COLUMNS
    }
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let status = object.object("status");
        let hard = status.and_then(|s| s.object("hard"));
        let used = status.and_then(|s| s.object("used"));
        let mut names: Vec<&String> = hard.map(|h| h.keys().collect()).unwrap_or_default();
        names.sort_unstable();
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for name in names {
            let of = |list: Option<&Object>| list.and_then(|l| l.maybe_text(name)).unwrap_or("0").to_owned();
            let cell = format!("{name}: {}/{}", of(used), of(hard));
            if name.starts_with("limits.") { limits.push(cell) } else { requests.push(cell) }
        }
        vec![cells::name(object), requests.join(", ").into(), limits.join(", ").into(), cells::age(object, now)]
    }
}
