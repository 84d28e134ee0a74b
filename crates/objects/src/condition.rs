//! Conditions: what a status says about one aspect of an object, and since when.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::time::Timestamp;
use crate::wire::{Text, optional_time};

/// True, False, or nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It cannot be told; also what any other text is read as.
    #[default]
    Unknown,
}

impl ConditionStatus {
    /// The status as the API spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    pub(crate) fn from_text(text: &str) -> Self {
        match text {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ConditionStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ConditionStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Text::deserialize(deserializer).map(|text| Self::from_text(&text))
    }
}

/// One condition of a ReplicaSet, ReplicationController or Deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about, such as `ReplicaFailure`; a status has one condition of each type.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// Whether it holds.
    #[serde(default)]
    pub status: ConditionStatus,
    /// When the condition was last written; only a Deployment's has it.
    #[serde(default, with = "optional_time", skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Timestamp>,
    /// When the status last changed.
    #[serde(default, with = "optional_time")]
    pub last_transition_time: Option<Timestamp>,
    /// Why, in one CamelCase word.
    #[serde(default, deserialize_with = "owned", skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for a person.
    #[serde(default, deserialize_with = "owned", skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Fields of a newer server, kept so that writing the list back does not drop them (B-13).
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Condition {
    /// A condition whose status has just become what it says.
    #[must_use]
    pub fn new(
        kind: impl Into<String>,
        status: ConditionStatus,
        reason: impl Into<String>,
        message: impl Into<String>,
        now: Timestamp,
    ) -> Self {
        Self {
            kind: kind.into(),
            status,
            last_update_time: None,
            last_transition_time: Some(now),
            reason: reason.into(),
            message: message.into(),
            other: Map::new(),
        }
    }

    /// The condition of that type in a list.
    #[must_use]
    pub fn find<'a>(conditions: &'a [Self], kind: &str) -> Option<&'a Self> {
        conditions.iter().find(|condition| condition.kind == kind)
    }
}

fn owned<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Text::deserialize(deserializer).map(|text| text.0.into_owned())
}
