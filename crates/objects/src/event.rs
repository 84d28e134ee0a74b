//! core/v1 Events: what happened to an object, told to whoever looks at it (EV-01).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::meta::{Meta, ObjectKey, ResourceVersion, Uid};
use crate::names::is_dns1123_subdomain;
use crate::time::{Micro, Timestamp};
use crate::wire::optional_time;

/// How an event is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EventType {
    /// Something went as it should.
    Normal,
    /// Something did not.
    Warning,
}

impl EventType {
    /// The type as the API spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A reference to the object that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// The kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The namespace; empty for a kind that has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The uid.
    #[serde(default, skip_serializing_if = "Uid::is_empty")]
    pub uid: Uid,
    /// The group and version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The version of the object that the reporter had seen.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub resource_version: ResourceVersion,
    /// The part of the object that is meant, such as a container.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field_path: String,
}

impl ObjectReference {
    /// A reference to the whole object of that kind and metadata.
    #[must_use]
    pub fn to(api_version: &str, kind: &str, meta: &Meta) -> Self {
        Self {
            kind: kind.to_owned(),
            namespace: meta.namespace.to_string(),
            name: meta.name.to_string(),
            uid: meta.uid.clone(),
            api_version: api_version.to_owned(),
            resource_version: meta.resource_version,
            field_path: String::new(),
        }
    }
}

/// Who reports an event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EventSource {
    /// The component, such as `replicaset-controller`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub component: String,
    /// The node it runs on, where that matters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
}

/// An event's own metadata.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventMeta {
    /// `<object>.<hex of nanoseconds>`.
    #[serde(default)]
    pub name: String,
    /// The involved object's namespace, or `default`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Known once the server has answered.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub resource_version: ResourceVersion,
}

/// An event in its wire form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Name and namespace.
    pub metadata: EventMeta,
    /// What it is about.
    #[serde(default)]
    pub involved_object: ObjectReference,
    /// Why, in one CamelCase word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What happened, for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Who reports it.
    #[serde(default)]
    pub source: EventSource,
    /// When it happened first.
    #[serde(default, with = "optional_time")]
    pub first_timestamp: Option<Timestamp>,
    /// When it happened last.
    #[serde(default, with = "optional_time")]
    pub last_timestamp: Option<Timestamp>,
    /// How often it happened.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub count: i32,
    /// How it is meant.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// Only the newer API of events sets it; null for the ones of controllers.
    #[serde(default)]
    pub event_time: Option<Micro>,
    /// The controller that reports, once more, for the newer API.
    #[serde(default)]
    pub reporting_component: String,
    /// The instance of it.
    #[serde(default)]
    pub reporting_instance: String,
}

impl Event {
    /// A fresh event that happened once, `now`, as client-go's recorder makes it (EV-01).
    #[must_use]
    pub fn new(
        involved_object: ObjectReference,
        component: &str,
        kind: EventType,
        reason: &str,
        message: impl Into<String>,
        now: Timestamp,
    ) -> Self {
        let namespace = if involved_object.namespace.is_empty() { "default" } else { &involved_object.namespace };
        Self {
            metadata: EventMeta {
                name: event_name(&involved_object, now),
                namespace: namespace.to_owned(),
                resource_version: ResourceVersion::UNKNOWN,
            },
            involved_object,
            reason: reason.to_owned(),
            message: message.into(),
            source: EventSource { component: component.to_owned(), host: String::new() },
            first_timestamp: Some(now),
            last_timestamp: Some(now),
            count: 1,
            kind,
            event_time: None,
            reporting_component: component.to_owned(),
            reporting_instance: String::new(),
        }
    }

    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.metadata.namespace.as_str(), self.metadata.name.as_str())
    }

    /// The JSON body that creates the event.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Body<'a> {
            kind: &'a str,
            api_version: &'a str,
            #[serde(flatten)]
            event: &'a Event,
        }
        serde_json::to_vec(&Body { kind: "Event", api_version: "v1", event: self })
            .expect("an event holds nothing but strings, numbers and times, which all have a JSON form")
    }
}

/// `<object>.<hex of nanoseconds>`. Where the object's name leaves no room for that, upstream takes
/// a random uuid; here the uid, which is as unique, stands in for the name.
#[must_use]
pub fn event_name(involved: &ObjectReference, now: Timestamp) -> String {
    let name = combined_name(involved, now);
    let nanos = now.as_nanos().unsigned_abs();
    if is_dns1123_subdomain(&name) { name } else { format!("{}.{nanos:x}", involved.uid) }
}

/// The same for a combined event, which upstream names so whatever room there is: servers take it.
#[must_use]
pub fn combined_name(involved: &ObjectReference, now: Timestamp) -> String {
    let nanos = now.as_nanos();
    // Go's %x writes a negative number with its sign.
    let sign = if nanos < 0 { "-" } else { "" };
    format!("{}.{sign}{:x}", involved.name, nanos.unsigned_abs())
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_unknown(version: &ResourceVersion) -> bool {
    !version.is_known()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(count: &i32) -> bool {
    *count == 0
}
