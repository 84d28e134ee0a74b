//! Memory: what a running controller knows of one owner that no list of the API tells.

use std::time::Duration;

use muster_machinery::Consistency;
use muster_machinery::queue::Place;
use muster_objects::Moment;
use muster_objects::meta::{ObjectKey, ResourceVersion};
use serde::{Deserialize, Serialize};

use muster_controllers::plan::Resource;
use muster_controllers::{deployment, replicaset};

/// What is remembered of one owner between syncs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// What the watch has still to show of the last round (EX-01); none for a controller that does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expectations: Option<Expectations>,
    /// What was written and has not been seen in the caches when a sync last began (RS-19); none for a kind of which no
    /// record is kept (RC-02).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<Vec<Written>>,
    /// How long creations still wait, because the last pods failed as soon as they were created (B-08).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creations_wait_seconds: Option<f64>,
    /// Its place in the work queue.
    pub queue: Queued,
}

/// What is expected of the watch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Expectations {
    /// So many creations.
    pub creations: i64,
    /// The deletions of these pods.
    pub deletions: Vec<String>,
    /// How long until they count as met although nothing is seen (EX-02); none where nothing is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_seconds: Option<f64>,
}

/// The newest write of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    /// The kind.
    pub kind: String,
    /// The version that was written.
    pub version: String,
    /// The version that its cache has seen.
    pub cache: String,
}

/// A place in the work queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queued {
    /// It waits for a worker, or for the one that has it now.
    pub waiting: bool,
    /// A worker has it.
    pub in_work: bool,
    /// How long until it is added by time alone; none where that is not planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_in_seconds: Option<f64>,
    /// How many syncs have failed in a row: the backoff of the next failure is 5 ms times 2 to this number (WQ-03).
    pub failures: u32,
}

impl Memory {
    /// Of a ReplicaSet or ReplicationController. `newest` says how far the cache of a kind has come.
    #[must_use]
    pub fn of_replicas(
        books: &replicaset::Books,
        owner: &ObjectKey,
        newest: impl Fn(Resource) -> ResourceVersion,
        place: Place,
        now: Moment,
    ) -> Self {
        let expectations = books.expectations();
        let (creations, _) = expectations.pending(owner);
        Self {
            expectations: Some(Expectations {
                creations: creations.max(0),
                deletions: expectations.deletions(owner).map(|key| key.name.to_string()).collect(),
                expires_in_seconds: expectations.expires_at(owner).map(|at| seconds(at.saturating_since(now))),
            }),
            written: books.record().map(|record| written(record, owner, newest)),
            creations_wait_seconds: books.creations_wait(owner, now).map(seconds),
            queue: place.into(),
        }
    }

    /// Of a Deployment.
    #[must_use]
    pub fn of_deployment(
        books: &deployment::Books,
        owner: &ObjectKey,
        newest: impl Fn(Resource) -> ResourceVersion,
        place: Place,
    ) -> Self {
        let written = Some(written(books.record(), owner, newest));
        Self { expectations: None, written, creations_wait_seconds: None, queue: place.into() }
    }
}

fn written(
    record: &Consistency<Resource>,
    owner: &ObjectKey,
    newest: impl Fn(Resource) -> ResourceVersion,
) -> Vec<Written> {
    let written = record.written(owner).map(|(resource, version)| Written {
        kind: resource.kind.to_owned(),
        version: version.to_string(),
        cache: newest(resource).to_string(),
    });
    written.collect()
}

impl From<Place> for Queued {
    fn from(place: Place) -> Self {
        let Place { ready, in_work, due_in, requeues } = place;
        Self { waiting: ready, in_work, due_in_seconds: due_in.map(seconds), failures: requeues }
    }
}

/// To the millisecond: what is shorter is noise.
pub(super) fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000.0).round() / 1_000.0
}
