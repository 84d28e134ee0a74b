//! coordination.k8s.io/v1 Leases: who leads, and which nodes are alive.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::time::{Micro, Timestamp};

/// A lease in its wire form. Fields that this version does not know survive a write (B-13).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// `coordination.k8s.io/v1`
    #[serde(default = "Lease::api_version")]
    pub api_version: String,
    /// `Lease`
    #[serde(default = "Lease::kind")]
    pub kind: String,
    /// The metadata as it stands: a lease is written back whole. But for `managedFields`, which are most of it, and which the server
    /// keeps where an update has none.
    #[serde(default, deserialize_with = "without_managers")]
    pub metadata: Map<String, Value>,
    /// Who holds it, and until when.
    #[serde(default)]
    pub spec: LeaseSpec,
}

/// A lease's spec.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseSpec {
    /// The holder's identity; absent or empty where nobody holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder_identity: Option<String>,
    /// How long a lease is good for after its renewal, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_duration_seconds: Option<i32>,
    /// When the holder got it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acquire_time: Option<Micro>,
    /// When the holder renewed it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_time: Option<Micro>,
    /// How often it changed hands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_transitions: Option<i32>,
    /// Fields of a newer server.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl LeaseSpec {
    /// Without what a coordinated election decides by: as client-go, who is elected without one leaves nothing of it.
    pub fn forget_coordination(&mut self) {
        for field in ["strategy", "preferredHolder"] {
            self.other.remove(field);
        }
    }
}

impl Lease {
    /// A lease of that name that nobody holds.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        let metadata = [("namespace", namespace), ("name", name)];
        Self {
            api_version: Self::api_version(),
            kind: Self::kind(),
            metadata: metadata.into_iter().map(|(key, value)| (key.to_owned(), Value::from(value))).collect(),
            spec: LeaseSpec::default(),
        }
    }

    /// Its name; empty where it has none.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text("name")
    }

    /// Its namespace; empty where it has none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.text("namespace")
    }

    /// Its resourceVersion; empty where the server has not given it one.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        self.text("resourceVersion")
    }

    /// Its uid; empty where the server has not given it one.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.text("uid")
    }

    /// The holder's identity; empty for none.
    #[must_use]
    pub fn holder(&self) -> &str {
        self.spec.holder_identity.as_deref().unwrap_or_default()
    }

    /// How long it is good for after a renewal; zero where it does not say.
    #[must_use]
    pub fn duration(&self) -> Duration {
        Duration::from_secs(self.spec.lease_duration_seconds.and_then(|held| u64::try_from(held).ok()).unwrap_or(0))
    }

    /// The lease without a holder, free for whoever comes first.
    #[must_use]
    pub fn released(&self, now: Timestamp) -> Self {
        let mut released = self.clone();
        released.spec = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            acquire_time: Some(now.micro()),
            renew_time: Some(now.micro()),
            ..released.spec
        };
        released.spec.forget_coordination();
        released
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.get("labels")?.get(key)?.as_str()
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.get("annotations")?.get(key)?.as_str()
    }

    /// Sets a label.
    pub fn set_label(&mut self, key: &str, value: &str) {
        self.set("labels", key, Some(value));
    }

    /// Sets an annotation, or removes it.
    pub fn set_annotation(&mut self, key: &str, value: Option<&str>) {
        self.set("annotations", key, value);
    }

    fn text(&self, field: &str) -> &str {
        self.metadata.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn set(&mut self, field: &str, key: &str, value: Option<&str>) {
        let Some(value) = value else {
            if let Some(Value::Object(map)) = self.metadata.get_mut(field) {
                map.remove(key);
            }
            return;
        };
        let field = self.metadata.entry(field).or_insert_with(|| Value::Object(Map::new()));
        if !field.is_object() {
            *field = Value::Object(Map::new());
        }
        if let Value::Object(map) = field {
            map.insert(key.to_owned(), Value::from(value));
        }
    }

    fn api_version() -> String {
        "coordination.k8s.io/v1".to_owned()
    }

    fn kind() -> String {
        "Lease".to_owned()
    }
}

/// The members of an object but for `managedFields`, which are passed over.
fn without_managers<'de, D: Deserializer<'de>>(metadata: D) -> Result<Map<String, Value>, D::Error> {
    struct Members;

    impl<'de> Visitor<'de> for Members {
        type Value = Map<String, Value>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object's metadata")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Map::new();
            while let Some(key) = map.next_key::<String>()? {
                if key == "managedFields" {
                    map.next_value::<IgnoredAny>()?;
                } else {
                    members.insert(key, map.next_value()?);
                }
            }
            Ok(members)
        }
    }

    metadata.deserialize_map(Members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_annotations_are_set_among_what_is_there() {
        let mut lease = Lease::new("kube-system", "muster");
        assert_eq!((lease.name(), lease.uid(), lease.resource_version()), ("muster", "", ""));
        assert_eq!(lease.annotation("a"), None);
        lease.set_annotation("a", None);
        assert_eq!(lease.metadata.get("annotations"), None, "nothing to remove");
        lease.metadata.insert("annotations".to_owned(), Value::Null);
        lease.set_annotation("a", Some("1"));
        lease.set_annotation("b", Some("2"));
        lease.set_annotation("a", None);
        lease.set_label("a", "3");
        assert_eq!((lease.annotation("a"), lease.annotation("b"), lease.label("a")), (None, Some("2"), Some("3")));
    }

    #[test]
    fn a_lease_without_a_spec_is_held_by_nobody_for_no_time() {
        let mut lease = Lease::new("kube-system", "muster");
        assert_eq!((lease.holder(), lease.duration()), ("", Duration::ZERO));
        lease.spec.lease_duration_seconds = Some(-1);
        assert_eq!(lease.duration(), Duration::ZERO);
        lease.spec.lease_duration_seconds = Some(15);
        assert_eq!(lease.duration(), Duration::from_secs(15));
    }
}
