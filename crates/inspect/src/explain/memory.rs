//! Memory: what a running controller remembers of one owner, which the API does not show.

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
    /// The expectations of the last round (EX-01); `None` for a controller without expectations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expectations: Option<Expectations>,
    /// Versions written and not yet seen in the caches when a sync last began (RS-19); `None` for a kind without such a
    /// record (RC-02).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<Vec<Written>>,
    /// How long creations still wait, because the last pods failed as soon as they were created (B-08).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creations_wait_seconds: Option<f64>,
    /// Its place in the work queue.
    pub queue: Queued,
}

/// Expectations that are not met yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Expectations {
    /// How many creations.
    pub creations: i64,
    /// The names of the pods.
    pub deletions: Vec<String>,
    /// How long until they expire (EX-02); `None` if there are none.
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
    /// The version that its cache has reached.
    pub cache: String,
}

/// A place in the work queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queued {
    /// It waits for a worker, or for the one that has it to finish.
    pub waiting: bool,
    /// A worker is syncing it.
    pub in_work: bool,
    /// How long until a delayed requeue; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_in_seconds: Option<f64>,
    /// How many syncs have failed in a row, which sets the next backoff: 5 ms times 2 to this number (WQ-03).
    pub failures: u32,
}

impl Memory {
    /// Of a ReplicaSet or ReplicationController. `newest` is the version that the cache of a kind has reached.
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
        let Place { ready_for, in_work_for, due_in, requeues } = place;
        let (waiting, in_work) = (ready_for.is_some(), in_work_for.is_some());
        Self { waiting, in_work, due_in_seconds: due_in.map(seconds), failures: requeues }
    }
}

/// In milliseconds: less is noise.
pub(crate) fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000.0).round() / 1_000.0
}
