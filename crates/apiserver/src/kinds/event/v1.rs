//! Events as `events.k8s.io/v1` shows them: the same objects by other names, and stricter rules for those who write them.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

use muster_objects::time::Timestamp;
use muster_tree::{Value, json};

use super::Event;
use crate::field::FieldError;
use crate::kinds::{Kind, formed};
use crate::model::{Column, Fields as _, Model, Name, NameRule, Object, Part, Resource, metadata};
use crate::validation;
use crate::validation::meta::Look;

/// The same events, in the group that is theirs alone.
#[derive(Debug)]
pub struct EventV1;

static RESOURCE: LazyLock<Resource> = LazyLock::new(|| {
    Resource::namespaced("events.k8s.io", "v1", "Event", "events")
        .short(&["ev"])
        // In the order of the stored ones.
        .labels(&[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ])
        .create_on_update()
        .expires_after(Duration::from_secs(60 * 60))
});

const STORED: Event = Event;

/// The fields that have another name here, and the one that is stored.
const RENAMED: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
];

impl Kind for EventV1 {
    fn resource(&self) -> &Resource {
        &RESOURCE
    }
    fn stored_as(&self) -> Option<Model<'_>> {
        Some(STORED.resource().model())
    }
    fn to_stored(&self, object: &mut Object) {
        rename(object, |(own, stored)| (own, stored));
        object.insert("apiVersion", json!(STORED.resource().api_version()));
        for text in ["reportingComponent", "reportingInstance"] {
            object.set_if_absent(text, "");
        }
        for time in ["eventTime", "firstTimestamp", "lastTimestamp"] {
            object.entry(time).or_insert(Value::Null);
        }
        STORED.default(object);
        be(STORED.resource(), object);
    }
    fn to_served(&self, object: &mut Object) {
        rename(object, |(own, stored)| (stored, own));
        object.insert("apiVersion", json!(RESOURCE.api_version()));
        for text in ["reportingController", "reportingInstance"] {
            if object.text(text).is_empty() {
                object.remove(text);
            }
        }
        be(&RESOURCE, object);
    }
    fn default(&self, object: &mut Object) {
        object.set_if_absent("regarding", json!({}));
        object.set_if_absent("deprecatedSource", json!({}));
    }
    fn prepare_update(&self, part: Part, object: &mut Object, old: &Object) {
        STORED.prepare_update(part, object, old);
    }
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let mut errors = validation::event::validate(object, true);
        Look::CHANGE.check(metadata(object), None, true, NameRule::Subdomain, &mut errors);
        validation::event::validate_new(object, &mut errors);
        errors
    }
    fn validate_update(&self, _part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = validation::event::validate(object, true);
        Look::CHANGE.check(metadata(object), Some(metadata(old)), true, NameRule::Subdomain, &mut errors);
        validation::event::validate_change(object, old, &mut errors);
        errors
    }
    fn indexed(&self) -> &[Name] {
        STORED.indexed()
    }
    fn field<'a>(&self, object: &'a Object, label: &str) -> Option<Cow<'a, str>> {
        STORED.field(object, label)
    }
    fn columns(&self) -> &[Column] {
        STORED.columns()
    }
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        STORED.cells(object, now)
    }
}

/// Makes the object one of a version, in the order in which that writes its fields.
fn be(resource: &Resource, object: &mut Object) {
    object.insert("apiVersion", resource.api_version().into());
    *object = formed(resource.model(), std::mem::take(object));
}

/// Gives fields another name, where they are.
fn rename<'n>(object: &mut Object, order: impl Fn((&'n str, &'n str)) -> (&'n str, &'n str)) {
    for (from, to) in RENAMED.into_iter().map(order) {
        if let Some(value) = object.remove(from) {
            object.insert(to.to_owned(), value);
        }
    }
}
