//! History: the last lines of the agreement log about each owner, in a bounded number of bytes.

use std::time::Duration;

use muster_objects::Timestamp;
use muster_objects::meta::ObjectKey;
use serde::{Deserialize, Serialize};

use super::record::{Line, Subject};
use crate::explain::Shard;
use crate::history::form;
use crate::history::ring::{Head, Ring};

pub use crate::history::Named;

/// The version of the JSON.
pub const FORMAT: u32 = 1;

/// What the controllers here would have done for one object, beside what was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowHistory {
    /// Always `ShadowHistory`.
    pub kind: String,
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// When it was told, by the API server's clock.
    #[serde(with = "form::time")]
    pub at: Timestamp,
    /// The object.
    pub object: Named,
    /// The shard of its namespace, as in an explanation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// When the oldest line was recorded that is still kept, of whatever object; `None` if none is.
    #[serde(default, with = "form::maybe_time", skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Timestamp>,
    /// Its lines of the agreement log, the oldest first.
    pub lines: Vec<Line>,
}

/// Keeps the last lines about owners: the oldest make room for new ones.
#[derive(Debug)]
pub struct Keeper(Ring);

impl Keeper {
    /// One that keeps at most so many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self(Ring::new(bytes))
    }

    /// Keeps a line, if it is about an owner.
    pub fn keep(&mut self, line: &Line) {
        let Some(Subject { kind, namespace, name, .. }) = line.record.subject() else { return };
        // The line itself is JSON, as in the log: postcard cannot read a flattened one back. Writing into memory does not
        // fail, and what could not be written is not kept.
        let Ok(mut record) = postcard::to_allocvec(&Head::of(kind, namespace, name)) else { return };
        if serde_json::to_writer(&mut record, line).is_ok() {
            self.0.push(&record);
        }
    }

    /// The lines about one owner that were recorded within `since`; `now` is the API server's time.
    #[must_use]
    pub fn told(&mut self, kind: &str, key: &ObjectKey, since: Option<Duration>, now: Timestamp) -> ShadowHistory {
        let from = since.map_or(Timestamp::from_nanos(i64::MIN), |since| now - since);
        let (mut oldest, mut lines) = (None, Vec::new());
        for record in self.0.records() {
            let Ok((head, rest)) = postcard::take_from_bytes::<Head<'_>>(record) else { continue };
            let is_it = head.is_of(kind, key);
            // Only what is asked for is read.
            if !is_it && oldest.is_some() {
                continue;
            }
            let Ok(line) = serde_json::from_slice::<Line>(rest) else { continue };
            oldest.get_or_insert(line.time.0);
            if is_it && line.time.0 >= from {
                lines.push(line);
            }
        }
        let object = Named { kind: kind.to_owned(), namespace: key.namespace.to_string(), name: key.name.to_string() };
        ShadowHistory { kind: "ShadowHistory".to_owned(), format: FORMAT, at: now, object, shard: None, oldest, lines }
    }
}
