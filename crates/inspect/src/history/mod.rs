//! The flight recorder: what the last syncs of a manager were, and why each came when it did.
//!
//! ```text
//!   handlers, timers --woken--+
//!   workers --began, found, answered, ended--> Recorder --> Ring of bytes --told--> History --> JSON, text
//! ```
//!
//! The [`Recorder`] is plain state that is handed the time. What it keeps is bounded in bytes: the oldest syncs make
//! room for new ones, and objects that only wait for a time do for others. Syncs of one object that found the same and
//! did nothing are kept as one with a count.
//!
//! # The JSON
//!
//! A [`History`] is one JSON object, by the rules of an [explanation](crate::explain).

mod account;
mod flight;
pub(crate) mod form;
mod recorder;
pub(crate) mod ring;
pub(crate) mod text;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::Duration;

use muster_objects::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::explain::{Again, Expects, Reason, Source};

pub use account::{Account, Accountable};
pub use flight::Answered;
pub use recorder::{Ended, Last, Look, Recorder, Subject, Waits, Woken};
pub(crate) use text::{precise, teller};

/// The version of the JSON.
pub const FORMAT: u32 = 1;

/// The last syncs of one object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// Always `History`.
    pub kind: String,
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// When it was told, by the API server's clock.
    #[serde(with = "form::time")]
    pub at: Timestamp,
    /// Who told it.
    pub source: Source,
    /// The object.
    pub object: Named,
    /// When the oldest sync began that is still kept, of whatever object; `None` if none is.
    #[serde(default, with = "form::maybe_time")]
    pub oldest: Option<Timestamp>,
    /// When the last of its syncs ended that are kept and are older than was asked for; `None` if there are none.
    #[serde(default, with = "form::maybe_time", skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Timestamp>,
    /// Its syncs, the oldest first.
    #[serde(default)]
    pub syncs: Vec<Sync<'static>>,
    /// What it waits for, if it is to be synced again.
    #[serde(default)]
    pub waiting: Option<Waiting>,
}

/// Which object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    /// Such as `ReplicaSet`.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// One sync, or several in a row that found the same and did nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sync<'a> {
    /// When the first of them began, by the API server's clock.
    #[serde(with = "form::time")]
    pub at: Timestamp,
    /// When the last of them ended.
    #[serde(with = "form::time")]
    pub until: Timestamp,
    /// How many they were. What follows is the last one's.
    pub count: u32,
    /// How long it took.
    #[serde(with = "form::seconds", rename = "tookSeconds")]
    pub took: Duration,
    /// What woke it, the first cause first.
    #[serde(default)]
    pub woken: Vec<Cause<'a>>,
    /// How many more causes there were.
    #[serde(default)]
    pub more: u32,
    /// What it waited for before it began.
    #[serde(default)]
    pub waits: Vec<Wait<'a>>,
    /// The versions that it looked at: the object's own, and that of each cache.
    #[serde(default)]
    pub saw: Vec<Saw<'a>>,
    /// What it did, in a few words.
    pub summary: Cow<'a, str>,
    /// Why this and no more, by the rows of the contract.
    #[serde(default)]
    pub why: Vec<Reason>,
    /// The watch events that it expected of its writes (EX-01).
    #[serde(default)]
    pub expects: Option<Expects>,
    /// Its requests, in the order of their answers.
    #[serde(default)]
    pub writes: Vec<Request<'a>>,
    /// How many more of them are not told.
    #[serde(default)]
    pub more_writes: u32,
    /// The status that it wrote.
    #[serde(default, with = "form::json")]
    pub status: Option<Cow<'a, str>>,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<Cow<'a, str>>,
    /// When it was to be looked at again.
    pub again: Again,
    /// The object's uid, where the sync saw the object: another one of the same name has another.
    // Never skipped: where it is kept, fields have no names. What is told leaves it out by `form::prune`.
    #[serde(default)]
    pub uid: Option<Cow<'a, str>>,
}

/// What woke a sync.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause<'a> {
    /// An event of a watch, or of a list that was read anew.
    Event {
        /// What happened.
        change: Happened,
        /// Such as `Pod`.
        kind: Cow<'a, str>,
        /// Its name.
        name: Cow<'a, str>,
        /// Its version after that.
        #[serde(with = "form::version")]
        version: u64,
    },
    /// A cache has reached a version that was waited for (B-17).
    Cache {
        /// The kind.
        kind: Cow<'a, str>,
        /// The version.
        #[serde(with = "form::version")]
        version: u64,
    },
    /// It was to be looked at again at that time.
    Timer,
    /// The pause after a sync that failed was over.
    Retry,
    /// It had waited too long for a cache.
    Expired,
    /// The manager began to work, and everything was looked at.
    Start,
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Happened {
    /// It came.
    Added,
    /// It changed.
    Updated,
    /// It went.
    Deleted,
}

/// A time that passed before a sync began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait<'a> {
    /// What for.
    pub on: On<'a>,
    /// How long.
    #[serde(with = "form::seconds", rename = "seconds")]
    pub time: Duration,
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum On<'a> {
    /// A worker.
    Queue,
    /// The sync before it, of the same object.
    Work,
    /// The pause after a failure (WQ-03).
    Backoff,
    /// A cache that was behind its controller's own write (RS-19).
    Cache {
        /// The kind.
        kind: Cow<'a, str>,
        /// The version that was written.
        #[serde(with = "form::version")]
        wrote: u64,
        /// The version that the cache had reached.
        #[serde(with = "form::version")]
        read: u64,
    },
    /// Watch events of the last round (EX-07).
    Expectations,
    /// The pause of creations that came to nothing at once (B-08).
    Creations,
}

/// A version that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Saw<'a> {
    /// The kind.
    pub kind: Cow<'a, str>,
    /// Whether it is the object's own version, or else that of the cache of its kind.
    pub object: bool,
    /// The version.
    #[serde(with = "form::version")]
    pub version: u64,
}

/// A request and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request<'a> {
    /// `create`, `delete`, `patch`, `adopt`, `release`, `status`; `read` for a second look.
    pub action: Cow<'a, str>,
    /// The kind.
    pub kind: Cow<'a, str>,
    /// The name; empty where the server was to choose it and did not.
    #[serde(default)]
    pub name: Cow<'a, str>,
    /// How long after the sync began it was answered.
    #[serde(with = "form::seconds", rename = "afterSeconds")]
    pub after: Duration,
    /// How long the answer took.
    #[serde(with = "form::seconds", rename = "tookSeconds")]
    pub took: Duration,
    /// The answer.
    pub answer: Answer<'a>,
}

/// What the server said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer<'a> {
    /// Yes; the version that there is now, where it was told.
    Ok {
        /// The version.
        #[serde(default, with = "form::maybe_version")]
        version: Option<u64>,
    },
    /// No, or nothing.
    Failed {
        /// The HTTP status; 0 where there was no answer.
        code: u16,
        /// Such as `Conflict`.
        #[serde(default)]
        reason: Cow<'a, str>,
        /// The message.
        message: Cow<'a, str>,
    },
}

/// A sync that is to come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// What it waits for.
    pub on: On<'static>,
    /// For how long it has.
    #[serde(with = "form::seconds", rename = "forSeconds")]
    pub time: Duration,
    /// What woke it; none where its time has not come.
    #[serde(default)]
    pub woken: Vec<Cause<'static>>,
    /// How many more causes there were.
    #[serde(default)]
    pub more: u32,
}

impl History {
    /// Whether nothing is known of the object: no sync of it is kept, of whatever time, and none is to come.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.syncs.is_empty() && self.earlier.is_none() && self.waiting.is_none()
    }

    /// As JSON, without what is absent.
    ///
    /// # Errors
    /// None in practice: every part is text, numbers and lists.
    pub fn to_json(&self) -> serde_json::Result<Value> {
        let mut value = serde_json::to_value(self)?;
        form::prune(&mut value);
        Ok(value)
    }
}
