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

/// The version of the format.
pub const VERSION: u32 = 1;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The version of the format.
    pub version: u32,
    /// When what it tells of was seen, by the server's clock.
    pub time: Micro,
    /// What it tells of.
    #[serde(flatten)]
    pub record: Record,
}

/// What a line tells of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "lowercase")]
pub enum Record {
    /// The log begins: every cache was read.
    Start(Start),
    /// An owner came into a state in which something else would be done than in the one before.
    Plan(Planned),
    /// The other side did what we would have done.
    Agreement(Agreement),
    /// It did something else, or nothing.
    Difference(Difference),
    /// Something was done that is not to be judged: a user's doing, a node's, the garbage collector's.
    Other(Other),
    /// The counts since the start; written now and then, and at the end.
    Summary(Totals),
}

/// How a log begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Start {
    /// The version of the program.
    pub muster: String,
    /// The kinds that are watched.
    pub kinds: Vec<String>,
    /// How many owners there are.
    pub objects: u64,
    /// How old a state may be that explains an action, in milliseconds.
    pub lookback_millis: u64,
    /// How long a write may stand, in milliseconds.
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
    /// The version of the change that the record is about; 0 where time alone brought it about.
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
    /// For whom.
    #[serde(flatten)]
    pub subject: Subject,
    /// What.
    pub would: String,
}

/// What was done as we would have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreement {
    /// For whom.
    #[serde(flatten)]
    pub subject: Subject,
    /// The kind of action, such as `create-pod`.
    pub action: String,
    /// What exactly.
    pub did: String,
}

/// What was done otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// For whom.
    #[serde(flatten)]
    pub subject: Subject,
    /// The kind of action, such as `delete-pod`.
    pub action: String,
    /// What we would have done.
    pub would: String,
    /// What was done.
    pub did: String,
    /// How the two were compared.
    pub why: String,
    /// The row of the contract by which the two do not do the same here, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
}

/// What is not judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Other {
    /// Whose object it was done to.
    #[serde(flatten)]
    pub subject: Subject,
    /// The kind of action.
    pub action: String,
    /// What was done.
    pub did: String,
    /// Why it is taken for somebody else's doing.
    pub why: String,
}

impl Line {
    /// A line of this version.
    #[must_use]
    pub const fn new(time: Timestamp, record: Record) -> Self {
        Self { version: VERSION, time: Micro(time), record }
    }
}
