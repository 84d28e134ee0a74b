//! Event, stored in core/v1; [`EventV1`] is the same objects as `events.k8s.io/v1` shows them.

mod v1;

use std::sync::LazyLock;
use std::time::Duration;

use std::borrow::Cow;

use muster_objects::time::Timestamp;
use muster_tree::Value;

use super::{Column, Kind, NameRule, Object, Part, Resource, cells, keep_generation};
use crate::field::FieldError;
use crate::model::fields::{Fields, metadata};
use crate::validation;

pub use v1::EventV1;

/// Something that happened to an object.
#[derive(Debug)]
pub struct Event;

static RESOURCE: LazyLock<Resource> = LazyLock::new(|| {
    Resource::namespaced("", "v1", "Event", "events")
        .short(&["ev"])
        .labels(&[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "type",
            // The last one, because events.k8s.io/v1 has the others only.
            "source",
        ])
        .create_on_update()
        .expires_after(Duration::from_secs(60 * 60))
});

static COLUMNS: [Column; 10] = [
    Column::text("Last Seen", "The time at which the most recent occurrence of this event was recorded."),
    Column::text("Type", "Type of this event (Normal, Warning), new types could be added in the future"),
    Column::text(
        "Reason",
        "This should be a short, machine understandable string that gives the reason for the transition into the object's current status.",
    ),
    Column::text("Object", "The object that this event is about."),
    Column::wide_text(
        "Subobject",
        "If referring to a piece of an object instead of an entire object, this string should contain a valid JSON/Go field access statement, such as desiredState.manifest.containers[2]. For example, if the object reference is to a container within a pod, this would take on a value like: \"spec.containers{name}\" (where \"name\" refers to the name of the container that triggered the event) or if no container name is specified \"spec.containers[2]\" (container with index 2 in this pod). This syntax is chosen only to have some well-defined way of referencing a part of an object.",
    ),
    Column::wide_text("Source", "The component reporting this event. Should be a short machine understandable string."),
    Column::text("Message", "A human-readable description of the status of this operation."),
    Column::wide_text(
        "First Seen",
        "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)",
    ),
    Column::wide_text("Count", "The number of times this event has occurred."),
    crate::model::NAME_COLUMN.wide(),
];

impl Kind for Event {
    fn resource(&self) -> &Resource {
        &RESOURCE
    }
    fn default(&self, object: &mut Object) {
        // Go writes structures also where they are empty.
        object.set_if_absent("involvedObject", Object::new());
        object.set_if_absent("source", Object::new());
    }
    fn prepare_update(&self, _part: Part, object: &mut Object, old: &Object) {
        keep_generation(object, old);
    }
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let mut errors = validation::event::validate(object, false);
        if errors.is_empty() {
            // Events have no rule of their own for names; one must still fit into a URL.
            validation::meta::validate(metadata(object), true, NameRule::PathSegment, &mut errors);
        }
        errors
    }
    fn validate_update(&self, _part: Part, object: &Object, _old: &Object) -> Vec<FieldError> {
        validation::event::validate(object, false)
    }
    fn field<'a>(&self, object: &'a Object, label: &str) -> Option<Cow<'a, str>> {
        if let Some(field) = label.strip_prefix("involvedObject.") {
            return object.object("involvedObject")?.maybe_text(field).map(Cow::Borrowed);
        }
        match label {
            "source" => {
                let component = object.object("source").map_or("", |source| source.text("component"));
                Some(cells::or(component, object.text("reportingComponent")).into())
            }
            "reason" | "reportingComponent" | "type" => object.maybe_text(label).map(Cow::Borrowed),
            _ => None,
        }
    }
    fn columns(&self) -> &[Column] {
        &COLUMNS
    }
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let empty = Object::new();
        let about = object.object("involvedObject").unwrap_or(&empty);
        let source = object.object("source").unwrap_or(&empty);
        let first = cells::since(cells::or(object.text("firstTimestamp"), object.text("eventTime")), now);
        let mut last = match object.text("lastTimestamp") {
            "" => first.clone(),
            time => cells::since(time, now),
        };
        let mut count = object.int("count");
        if let Some(series) = object.object("series") {
            last = cells::since(series.text("lastObservedTime"), now);
            count = series.int("count");
        } else if count == 0 {
            count = 1;
        }
        let kind = about.text("kind").to_lowercase();
        let target = match about.text("name") {
            "" => kind,
            name => format!("{kind}/{name}"),
        };
        let component = cells::or(source.text("component"), object.text("reportingComponent"));
        let reporter = match cells::or(source.text("host"), object.text("reportingInstance")) {
            "" => component.to_owned(),
            instance => format!("{component}, {instance}"),
        };
        vec![
            last.into(),
            object.text("type").into(),
            object.text("reason").into(),
            target.into(),
            about.text("fieldPath").into(),
            reporter.into(),
            object.text("message").trim().into(),
            first.into(),
            count.into(),
            metadata(object).text("name").into(),
        ]
    }
}
