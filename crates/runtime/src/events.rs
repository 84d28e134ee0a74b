//! Sends Events to the server, outside of every sync (EV-04).
//!
//! ```text
//!                                +-> lane: correlate --> create or patch --(no answer)--> again, 12 times, 10 s apart
//!   announce --try--> [1000] --by object        too many: dropped      (refused: dropped)
//!              full: dropped     +-> lane
//! ```
//!
//! A sync queues an Event and goes on. A full queue or an unreachable server costs Events, never a sync. Events about
//! one object are sent one after the other, since a repeat patches the one before. Those about many objects are sent
//! concurrently, or they would fall behind the controllers' own requests.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use muster_controllers::plan::{Announcement, Failure, Owner, PatchType, Resource, Written};
use muster_machinery::{Correlated, EventCorrelator};
use muster_objects::{
    event::{Event, EventType, ObjectReference},
    meta::ResourceVersion,
    time::Timestamp,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::{
    clock::Clock,
    metrics::Metrics,
    shutdown::Shutdown,
    writer::{Write, Writer},
};

#[cfg(test)]
mod tests;

/// How many Events may wait to be sent; further ones are dropped.
pub const QUEUE: usize = 1_000;
/// How many Events are on their way at once at most.
pub const LANES: usize = 8;
/// How often one Event is sent at most.
pub const TRIES: u32 = 12;
/// How long to wait between two tries.
pub const RETRY: Duration = Duration::from_secs(10);

const EVENTS: Resource = Resource { group: "", version: "v1", plural: "events", kind: "Event" };

/// The queue of Events. Cloning shares it.
#[derive(Clone)]
pub struct EventSink {
    lanes: Arc<[mpsc::UnboundedSender<Waiting>]>,
    /// One for each Event that may wait.
    places: Arc<Semaphore>,
    metrics: Metrics,
    times: Times,
}

/// An Event and its place in the queue.
type Waiting = (Event, OwnedSemaphorePermit);

/// The other end, which sends them. To be run.
pub struct EventSender {
    lanes: Vec<Lane>,
}

/// What sends the Events about some of the objects, one after the other.
struct Lane {
    queue: mpsc::UnboundedReceiver<Waiting>,
    correlator: EventCorrelator,
    writer: Arc<dyn Writer>,
    metrics: Metrics,
    times: Times,
}

/// The times of Events: no two have the same, for they are named after it.
#[derive(Clone)]
struct Times {
    clock: Clock,
    /// The last one, nanoseconds.
    last: Arc<AtomicI64>,
}

/// An empty queue and its two ends.
#[must_use]
pub fn channel(writer: &Arc<dyn Writer>, metrics: &Metrics, clock: Clock) -> (EventSink, EventSender) {
    let times = Times { clock, last: Arc::default() };
    let (ends, queues): (Vec<_>, Vec<_>) = (0..LANES).map(|_| mpsc::unbounded_channel()).unzip();
    let lane = |queue| {
        let (writer, metrics, times) = (Arc::clone(writer), metrics.clone(), times.clone());
        Lane { queue, correlator: EventCorrelator::new(), writer, metrics, times }
    };
    let sender = EventSender { lanes: queues.into_iter().map(lane).collect() };
    let places = Arc::new(Semaphore::new(QUEUE));
    (EventSink { lanes: ends.into(), places, metrics: metrics.clone(), times }, sender)
}

impl EventSink {
    /// Tells of something about the owner. Never blocks.
    pub fn announce(&self, owner: &Owner, announcement: Announcement) {
        let about = ObjectReference {
            kind: owner.resource.kind.to_owned(),
            namespace: owner.key.namespace.to_string(),
            name: owner.key.name.to_string(),
            uid: owner.uid.clone(),
            api_version: owner.resource.api_version().to_owned(),
            resource_version: owner.resource_version,
            field_path: String::new(),
        };
        let kind = if announcement.warning { EventType::Warning } else { EventType::Normal };
        self.emit(about, owner.component, kind, announcement.reason, announcement.message);
    }

    /// Tells of something about any object. Never blocks.
    pub fn emit(&self, about: ObjectReference, component: &str, kind: EventType, reason: &str, message: String) {
        // What is dropped anyway need not be made.
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            self.metrics.event_dropped();
            return;
        };
        let mut hasher = DefaultHasher::new();
        about.uid.hash(&mut hasher);
        let lane = usize::try_from(hasher.finish() % LANES as u64).unwrap_or_default();
        let event = Event::new(about, component, kind, reason, message, self.times.next());
        if self.lanes[lane].send((event, place)).is_err() {
            // The sender has ended.
            self.metrics.event_dropped();
        }
    }
}

impl Times {
    /// Now, or a nanosecond after the last Event where that was now.
    fn next(&self) -> Timestamp {
        let now = self.clock.now().as_nanos();
        let later = |last: i64| Some(now.max(last.saturating_add(1)));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later).unwrap_or(now);
        Timestamp::from_nanos(now.max(last.saturating_add(1)))
    }
}

impl EventSender {
    /// Sends queued Events until `shutdown`, and then what is still queued, each once (CM-07).
    pub async fn run(self, shutdown: Shutdown) {
        futures::future::join_all(self.lanes.into_iter().map(|lane| lane.run(shutdown.clone()))).await;
    }

    /// The same, but what is not sent so long after `shutdown` is given up.
    pub async fn run_within(self, shutdown: Shutdown, limit: Duration) {
        let mut stop = shutdown.clone();
        let late = async move {
            stop.stopped().await;
            tokio::time::sleep(limit).await;
        };
        tokio::select! {
            biased;
            () = self.run(shutdown) => {}
            () = late => tracing::warn!("pending events were not sent in time and are given up"),
        }
    }
}

impl Lane {
    async fn run(mut self, mut shutdown: Shutdown) {
        loop {
            let waiting = tokio::select! {
                biased;
                () = shutdown.stopped() => break,
                waiting = self.queue.recv() => waiting,
            };
            let Some((event, place)) = waiting else { return };
            drop(place);
            self.record(event, &mut shutdown).await;
        }
        while let Ok((event, _place)) = self.queue.try_recv() {
            self.record(event, &mut shutdown).await;
        }
    }

    async fn record(&mut self, event: Event, shutdown: &mut Shutdown) {
        let correlated = self.correlator.correlate(event, self.times.next(), self.times.clock.moment());
        for tries in 1..=TRIES {
            let result = match &correlated {
                Correlated::Dropped => return,
                Correlated::Create(event) => self.create(event).await,
                Correlated::Patch { event, body } => self.patch(event, body).await,
            };
            let failure = match result {
                Ok(()) => return,
                Err(failure) => failure,
            };
            // Whatever the server answers: another Event of the same lane may be taken (EV-04).
            if !failure.unanswered {
                // As client-go tells it: of these two nobody need know.
                if failure.is_already_exists() || failure.is_namespace_terminating() {
                    tracing::debug!(%failure, "the server does not take the event");
                    return;
                }
                tracing::warn!(%failure, "the server does not take the event");
                break;
            }
            if tries == TRIES || shutdown.is_stopped() {
                tracing::warn!(%failure, tries, "an event could not be sent");
                break;
            }
            tokio::select! {
                biased;
                () = shutdown.stopped() => {}
                () = tokio::time::sleep(RETRY) => {}
            }
        }
        self.metrics.event_dropped();
    }

    async fn create(&mut self, event: &Event) -> Result<(), Failure> {
        let body = Bytes::from(event.to_json());
        let write = Write::Create { resource: &EVENTS, namespace: &event.metadata.namespace, body: &body };
        let written = self.writer.write(write).await?;
        self.remember(event, &written);
        Ok(())
    }

    async fn patch(&mut self, event: &Event, body: &[u8]) -> Result<(), Failure> {
        let (key, body) = (event.key(), Bytes::copy_from_slice(body));
        let kind = PatchType::Strategic;
        let write = Write::Patch { resource: &EVENTS, key: &key, subresource: None, kind, body: &body };
        match self.writer.write(write).await {
            Ok(written) => {
                self.remember(event, &written);
                Ok(())
            }
            // The first of its kind has been forgotten by the server: this one takes its place.
            Err(failure) if failure.is_not_found() => {
                let mut event = event.clone();
                event.metadata.resource_version = ResourceVersion::UNKNOWN;
                self.create(&event).await
            }
            Err(failure) => Err(failure),
        }
    }

    fn remember(&mut self, event: &Event, written: &Written) {
        let mut event = event.clone();
        event.metadata.resource_version = written.resource_version.unwrap_or_default();
        self.correlator.update_state(&event);
    }
}
