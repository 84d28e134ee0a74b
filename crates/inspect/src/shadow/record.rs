//! Record: one line of the agreement log, which is written as JSON, one object to a line.
//!
//! ```json
//! {"version":1,"time":"2026-01-01T00:00:05.000000Z","record":"agreement","kind":"ReplicaSet","namespace":"default",
//!  "name":"web","uid":"...","resourceVersion":812,"action":"create-pod","did":"created pod web-x2v4b"}
//! ```
//!
//! Every line has `version` ([`VERSION`]; it rises when a field changes its meaning or goes), `time` (the server's
//! clock, RFC 3339 with microseconds) and `record`, which says what it is. A reader skips fields that it does not know.

use muster_objects::Timestamp;
use muster_objects::meta::{ObjectKey, ResourceVersion, Uid};
use muster_objects::time::Micro;
use serde::{Deserialize, Serialize};

use super::totals::Totals;
use crate::explain::Reason;

/// The version of the format.
pub const VERSION: u32 = 1;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The version of the format.
    pub version: u32,
    /// When the change was seen, by the server's clock.
    pub time: Micro,
    /// The record itself.
    #[serde(flatten)]
    pub record: Record,
}

/// What a line records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "lowercase")]
pub enum Record {
    /// The log begins: every cache was read.
    Start(Start),
    /// An owner reached a state in which a sync would do something that it would not have done in the one before.
    Plan(Planned),
    /// The observed controllers did what the controllers here would have done.
    Agreement(Agreement),
    /// They did something else, or nothing.
    Difference(Difference),
    /// An action that is not judged: a user, a node or the garbage collector did it.
    Other(Other),
    /// The counts since the start; written now and then, and at the end.
    Summary(Totals),
}

/// The first record of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Start {
    /// The version of the program.
    pub muster: String,
    /// The kinds that are observed.
    pub kinds: Vec<String>,
    /// How many owners there are.
    pub objects: u64,
    /// How long ago a state may have ended and still explain an action, in milliseconds.
    pub lookback_millis: u64,
    /// How long an intended write may remain undone, in milliseconds.
    pub patience_millis: u64,
}

/// The owner that a record is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: Uid,
    /// The version of the change that the record is about; 0 if only time has passed.
    #[serde(default)]
    pub resource_version: u64,
}

impl Subject {
    /// The owner of that kind.
    #[must_use]
    pub fn new(kind: &str, key: &ObjectKey, uid: &Uid, version: ResourceVersion) -> Self {
        Self {
            kind: kind.to_owned(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            uid: uid.clone(),
            resource_version: version.0,
        }
    }
}

/// What would be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// The owner.
    #[serde(flatten)]
    pub subject: Subject,
    /// The intents.
    pub would: String,
    /// By which rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<Reason>,
}

/// An action that was intended here as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreement {
    /// The owner.
    #[serde(flatten)]
    pub subject: Subject,
    /// The kind of action, such as `create-pod`.
    pub action: String,
    /// The action in full.
    pub did: String,
}

/// An action that was not intended here, or an intended write that was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The owner.
    #[serde(flatten)]
    pub subject: Subject,
    /// The kind of action, such as `delete-pod`.
    pub action: String,
    /// What the controllers here would have done.
    pub would: String,
    /// What was done.
    pub did: String,
    /// How the two were compared.
    pub why: String,
    /// The row of the contract by which the two differ on purpose, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
}

/// An action that is not judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Other {
    /// The owner of the object.
    #[serde(flatten)]
    pub subject: Subject,
    /// The kind of action.
    pub action: String,
    /// What was done.
    pub did: String,
    /// Why it is attributed to somebody else.
    pub why: String,
}

impl Line {
    /// A line of this version.
    #[must_use]
    pub const fn new(time: Timestamp, record: Record) -> Self {
        Self { version: VERSION, time: Micro(time), record }
    }
}

impl Record {
    /// The owner that it is about; `None` for the beginning of a log and for counts.
    #[must_use]
    pub const fn subject(&self) -> Option<&Subject> {
        match self {
            Self::Plan(Planned { subject, .. })
            | Self::Agreement(Agreement { subject, .. })
            | Self::Difference(Difference { subject, .. })
            | Self::Other(Other { subject, .. }) => Some(subject),
            Self::Start(_) | Self::Summary(_) => None,
        }
    }
}
