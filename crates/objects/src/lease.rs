//! coordination.k8s.io/v1 Leases: who leads, and which nodes are alive.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::time::Micro;

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
    /// The metadata as it stands: a lease is written back whole.
    #[serde(default)]
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

    fn api_version() -> String {
        "coordination.k8s.io/v1".to_owned()
    }

    fn kind() -> String {
        "Lease".to_owned()
    }
}
