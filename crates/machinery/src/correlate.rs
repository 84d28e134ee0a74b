//! Event correlation: repeats are counted, similar events combined, floods dropped (EV-02, EV-03).
//!
//! ```text
//!   event --aggregate--> itself, or "(combined from similar events): ..." from the 10th on
//!         --observe----> the first of its kind: create it; a repeat: patch count and time
//!         --filter-----> 25 for a source and object, then one in 300 s; the rest is dropped
//! ```
//!
//! This is client-go's `EventCorrelator` with the clock handed in.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use muster_objects::event::{EventMeta, combined_name};
use muster_objects::{Event, Moment, ResourceVersion, Timestamp};
use serde::Serialize;

use crate::lru::Lru;
use crate::rate::TokenBucket;

/// How many keys each of the three memories holds.
const MAX_ENTRIES: usize = 4_096;
/// From this many distinct messages on, similar events are combined.
const MAX_DISTINCT_MESSAGES: usize = 10;
/// This long after the last similar event, the next one is not combined.
const AGGREGATE_INTERVAL: Duration = Duration::from_secs(600);
/// How many events of one source and object may come at once.
const SPAM_BURST: u32 = 25;
/// One more may come after this time.
const SPAM_INTERVAL: Duration = Duration::from_secs(300);

/// Remembers the events that were sent, to correlate the next ones.
#[derive(Debug)]
pub struct EventCorrelator {
    aggregates: Lru<String, Aggregate>,
    observations: Lru<String, Observation>,
    buckets: Lru<String, TokenBucket>,
}

/// What to do with an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Correlated {
    /// It is to be created.
    Create(Event),
    /// It repeats an event that exists: patch that one.
    Patch {
        /// The event after the patch; if the patch gets a 404, create this one, without its resourceVersion.
        event: Event,
        /// The strategic merge patch: count, last time and message.
        body: Vec<u8>,
    },
    /// There are too many of them.
    Dropped,
}

/// Events that differ only in their messages.
#[derive(Debug)]
struct Aggregate {
    messages: BTreeSet<String>,
    last: Moment,
}

/// An event that was seen before.
#[derive(Debug, Clone)]
struct Observation {
    count: i32,
    first_timestamp: Option<Timestamp>,
    name: String,
    resource_version: ResourceVersion,
}

impl Default for EventCorrelator {
    fn default() -> Self {
        Self::new()
    }
}

impl EventCorrelator {
    /// A correlator that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self { aggregates: Lru::new(MAX_ENTRIES), observations: Lru::new(MAX_ENTRIES), buckets: Lru::new(MAX_ENTRIES) }
    }

    /// Correlates an event. `now` is the wall time for a combined event, `moment` the time for the limits.
    pub fn correlate(&mut self, event: Event, now: Timestamp, moment: Moment) -> Correlated {
        let (event, key) = self.aggregate(event, now, moment);
        let (event, patch) = self.observe(event, key);
        if self.is_spam(&event, moment) {
            return Correlated::Dropped;
        }
        match patch {
            Some(body) => Correlated::Patch { event, body },
            None => Correlated::Create(event),
        }
    }

    /// Records an event as the server returned it, so that a repeat patches it.
    pub fn update_state(&mut self, event: &Event) {
        self.observations.insert(event_key(event), Observation::of(event));
    }

    /// Replaces the event by a combined one if too many are similar; returns the key under which repeats are counted.
    fn aggregate(&mut self, event: Event, now: Timestamp, moment: Moment) -> (Event, String) {
        let aggregate_key = aggregate_key(&event);
        let recent = self
            .aggregates
            .get(&aggregate_key)
            .filter(|aggregate| moment.saturating_since(aggregate.last) <= AGGREGATE_INTERVAL);
        let distinct = match recent {
            Some(aggregate) => {
                aggregate.last = moment;
                aggregate.take(&event.message)
            }
            None => {
                let messages = BTreeSet::from([event.message.clone()]);
                self.aggregates.insert(aggregate_key.clone(), Aggregate { messages, last: moment });
                1
            }
        };
        if distinct < MAX_DISTINCT_MESSAGES {
            let key = event_key(&event);
            return (event, key);
        }
        let combined = Event {
            metadata: EventMeta {
                name: combined_name(&event.involved_object, now),
                namespace: event.metadata.namespace,
                resource_version: ResourceVersion::UNKNOWN,
            },
            message: format!("(combined from similar events): {}", event.message),
            count: 1,
            first_timestamp: Some(now),
            last_timestamp: Some(now),
            reporting_component: String::new(),
            reporting_instance: String::new(),
            ..event
        };
        (combined, aggregate_key)
    }

    /// Turns a repeat into a patch of the earlier event.
    fn observe(&mut self, mut event: Event, key: String) -> (Event, Option<Vec<u8>>) {
        let mut patch = None;
        if let Some(last) = self.observations.get(&key).filter(|last| last.count > 0) {
            event.metadata.name.clone_from(&last.name);
            event.metadata.resource_version = last.resource_version;
            event.first_timestamp = last.first_timestamp;
            event.count = last.count.saturating_add(1);
            patch = Some(repeat_patch(&event));
        }
        self.observations.insert(key, Observation::of(&event));
        (event, patch)
    }

    fn is_spam(&mut self, event: &Event, moment: Moment) -> bool {
        let key = spam_key(event);
        if let Some(bucket) = self.buckets.get(&key) {
            return !bucket.try_take(moment);
        }
        let mut bucket = TokenBucket::new(SPAM_INTERVAL, SPAM_BURST);
        let spam = !bucket.try_take(moment);
        self.buckets.insert(key, bucket);
        spam
    }
}

impl Aggregate {
    /// Adds a message; returns how many distinct ones there are. A message beyond the limit is not kept: earlier ones
    /// are still sent on their own, and every further one is combined.
    fn take(&mut self, message: &str) -> usize {
        if self.messages.contains(message) {
            return self.messages.len();
        }
        let distinct = self.messages.len() + 1;
        if distinct < MAX_DISTINCT_MESSAGES {
            self.messages.insert(message.to_owned());
        }
        distinct
    }
}

impl Observation {
    fn of(event: &Event) -> Self {
        Self {
            count: event.count,
            first_timestamp: event.first_timestamp,
            name: event.metadata.name.clone(),
            resource_version: event.metadata.resource_version,
        }
    }
}

fn repeat_patch(event: &Event) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Repeat<'a> {
        count: i32,
        last_timestamp: Option<Timestamp>,
        #[serde(skip_serializing_if = "str::is_empty")]
        message: &'a str,
    }
    let repeat = Repeat { count: event.count, last_timestamp: event.last_timestamp, message: &event.message };
    serde_json::to_vec(&repeat).expect("a number, a time and a string always have a JSON form")
}

/// The fields that are equal in repeats.
fn event_key(event: &Event) -> String {
    let object = &event.involved_object;
    let object_and_type = spam_key(event);
    [&object_and_type, object.field_path.as_str(), &event.reason, &event.message].join("\0")
}

/// The fields that are equal in events that differ only in their messages.
fn aggregate_key(event: &Event) -> String {
    let object_and_type = spam_key(event);
    [&object_and_type, event.reason.as_str(), &event.reporting_component, &event.reporting_instance].join("\0")
}

/// The fields that are equal in events of one source about one object.
fn spam_key(event: &Event) -> String {
    let object = &event.involved_object;
    let uid = object.uid.to_string();
    [
        event.source.component.as_str(),
        &event.source.host,
        &object.kind,
        &object.namespace,
        &object.name,
        &uid,
        &object.api_version,
        event.kind.as_str(),
    ]
    .join("\0")
}
