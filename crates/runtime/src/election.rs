//! The election at run time: its loop over the client, and the permission to write that follows from it (CM-04, CM-05).
//!
//! ```text
//!   Elector --requests--> server
//!      | term
//!      v
//!   Leadership --fence--> Client (every write)     --leading--> Manager (workers start)     --health--> /livez
//! ```
//!
//! The election has a client of its own, so that a burst of creates cannot delay a renewal.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use muster_machinery::election::{
    Answer, Carried, Config, ConfigError, Election, ElectionStep, JITTER_FACTOR, Request, Term,
};
use muster_objects::{Lease, ObjectReference, event::EventType, meta::Uid};
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::sync::{Notify, watch};

use crate::{
    client::{Client, Fence},
    clock::Clock,
    events::EventSink,
    metrics::Metrics,
    shutdown::Shutdown,
};

#[cfg(test)]
mod tests;

/// The component that reports the Events of the election.
pub const COMPONENT: &str = "muster-controller-manager";
/// How long after the end of its lease a process that should have ended is still reported as healthy.
const TOLERANCE: Duration = Duration::from_secs(20);
/// The shortest time that a request of the election may take, however short the renew deadline.
const LEAST_TIMEOUT: Duration = Duration::from_secs(1);

/// The lease is held by another, or could not be renewed in time. The process must end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease {lease} is lost: {why}")]
pub struct Lost {
    /// `namespace/name`.
    pub lease: String,
    /// The new holder, or the error.
    pub why: String,
}

/// One candidate, to be run.
pub struct Elector {
    election: Election,
    client: Client,
    leadership: Leadership,
    random: SmallRng,
    /// Who was last reported to hold the lease.
    reported: String,
    /// What the lease carries; none where it is that of a single leader, which is announced by an Event.
    carrier: Option<Carrier>,
}

/// What a Lease carries in its metadata, for those who decide on it while it is renewed. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Carrier {
    carried: Arc<Mutex<Carried>>,
    urgent: Arc<Notify>,
}

impl Carrier {
    /// Sets what each renewal from the next one on carries.
    pub fn set(&self, carried: Carried) {
        *self.carried.lock().unwrap_or_else(PoisonError::into_inner) = carried;
    }

    /// Has the lease renewed at once.
    pub fn renew(&self) {
        self.urgent.notify_one();
    }

    fn get(&self) -> Carried {
        self.carried.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What follows from the election, for everyone who must know. Cloning shares it.
#[derive(Clone)]
pub struct Leadership {
    inner: Arc<Inner>,
}

struct Inner {
    term: Mutex<Option<Term>>,
    leading: watch::Sender<bool>,
    lease: String,
    lease_duration: Duration,
    clock: Clock,
    status: Gauge,
    slow_paths: Counter,
}

impl Elector {
    /// A candidate that asks through `client`. Pauses are drawn from `seed`.
    ///
    /// # Errors
    /// [`ConfigError`] where the durations do not keep two leaders apart.
    pub fn new(config: Config, client: Client, seed: u64) -> Result<Self, ConfigError> {
        let inner = Inner {
            term: Mutex::new(None),
            leading: watch::Sender::new(false),
            lease: format!("{}/{}", config.namespace, config.name),
            lease_duration: config.lease_duration,
            clock: client.clock(),
            status: Gauge::default(),
            slow_paths: Counter::default(),
        };
        Ok(Self {
            election: Election::new(config)?,
            client,
            leadership: Leadership { inner: Arc::new(inner) },
            random: SmallRng::seed_from_u64(seed),
            reported: String::new(),
            carrier: None,
        })
    }

    /// Has the lease be this candidate's own ([`Election::own`]), and carry what `carrier` says. It is then no
    /// leader's, and getting it is reported by no Event.
    #[must_use]
    pub fn carrying(self, carrier: &Carrier) -> Self {
        Self { election: self.election.own(), carrier: Some(carrier.clone()), ..self }
    }

    /// Has it counted among the metrics of the process whether this candidate leads (CM-08).
    pub fn register(&self, metrics: &Metrics) {
        let label = ("name".into(), self.election.config().name.clone().into());
        metrics.register(|registry| {
            let registry = registry.sub_registry_with_label(label);
            registry.register(
                "leader_election_slowpath",
                "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the \
                 lease. Please make sure to group by name",
                self.leadership.inner.slow_paths.clone(),
            );
            registry.register(
                "leader_election_master_status",
                "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates \
                 master. 'name' is the string used to identify the lease. Please make sure to group by name",
                self.leadership.inner.status.clone(),
            );
        });
    }

    /// What follows from this election.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Acquires the lease, reports it through `events`, and keeps it until `shutdown`; then releases it. All writing
    /// must have ended by then.
    ///
    /// # Errors
    /// [`Lost`] if the lease was held and is no longer.
    pub async fn run(mut self, events: EventSink, mut shutdown: Shutdown) -> Result<(), Lost> {
        tracing::info!(lease = self.lease(), identity = self.identity(), "attempting to acquire the leader lease");
        if !self.acquire(&mut shutdown).await? {
            self.release().await;
            return Ok(());
        }
        if self.carrier.is_some() {
            tracing::info!(lease = self.lease(), identity = self.identity(), "joined the group");
        } else {
            tracing::info!(lease = self.lease(), identity = self.identity(), "became leader");
            self.announce(&events);
        }
        let kept = self.keep(&mut shutdown).await;
        if kept.is_ok() {
            self.release().await;
        }
        self.leadership.set(None);
        kept
    }

    /// Tries until it leads; false if it was stopped first.
    async fn acquire(&mut self, shutdown: &mut Shutdown) -> Result<bool, Lost> {
        let retry_period = self.election.config().retry_period;
        while !shutdown.is_stopped() {
            match self.attempt().await {
                ElectionStep::Leading => return Ok(true),
                ElectionStep::Lost => return Err(self.lost("it was ended by others".to_owned())),
                ElectionStep::Send(_) | ElectionStep::Again => {}
            }
            let pause = retry_period.mul_f64(1.0 + JITTER_FACTOR * self.random.random::<f64>());
            let now = self.clock().moment();
            // If another's lease expires before the next attempt, that attempt is made at its expiry.
            let again =
                self.election.runs_out().filter(|end| *end > now).map_or(now + pause, |end| end.min(now + pause));
            tokio::select! {
                biased;
                () = shutdown.stopped() => {}
                () = tokio::time::sleep_until(self.clock().instant(again)) => {}
            }
        }
        Ok(false)
    }

    /// Renews until it is stopped.
    async fn keep(&mut self, shutdown: &mut Shutdown) -> Result<(), Lost> {
        let retry_period = self.election.config().retry_period;
        let carrier = self.carrier.clone();
        let urgent = async || match &carrier {
            Some(carrier) => carrier.urgent.notified().await,
            None => std::future::pending().await,
        };
        while let Some(term) = self.election.term() {
            let deadline = self.clock().instant(term.until);
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(deadline) => break,
                () = shutdown.stopped() => return Ok(()),
                () = urgent() => {}
                () = tokio::time::sleep(retry_period) => {}
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(deadline) => break,
                next = self.attempt() => if next == ElectionStep::Lost {
                    return Err(self.lost(format!("{:?} holds it", self.election.holder())));
                }
            }
        }
        Err(self.lost(format!("it could not be renewed within {:?}", self.election.config().renew_deadline)))
    }

    /// One attempt, from the first request to the result.
    async fn attempt(&mut self) -> ElectionStep {
        if let Some(carrier) = &self.carrier {
            self.election.carry(carrier.get());
        }
        let mut request = self.election.attempt(self.clock().moment(), self.clock().now());
        loop {
            let answer = self.send(&request).await;
            let next = self.election.answered(answer, self.clock().moment(), self.clock().now());
            self.leadership.set(self.election.term());
            self.report();
            match next {
                ElectionStep::Send(following) => {
                    // Renewed not at once, but after it was read.
                    if self.election.term().is_some() && matches!(following, Request::Replace(_)) {
                        self.leadership.inner.slow_paths.inc();
                    }
                    request = following;
                }
                ended => return ended,
            }
        }
    }

    async fn send(&self, request: &Request) -> Answer {
        // Twice a deadline's worth of requests fit in it, the second one for what the first one left open.
        let timeout = (self.election.config().renew_deadline / 2).max(LEAST_TIMEOUT);
        let (collection, path) = self.paths();
        let sending = async {
            match request {
                Request::Get => self.client.get(&path).await,
                Request::Create(lease) => self.client.post(&collection, body(lease)).await,
                Request::Replace(lease) => self.client.put(&path, body(lease)).await,
            }
        };
        let lease = self.lease();
        match tokio::time::timeout(timeout, sending).await {
            Ok(Ok(answer)) => match muster_objects::json::from_slice(&answer.body) {
                Ok(lease) => Answer::Lease(lease),
                Err(error) => {
                    tracing::warn!(lease, %error, "the lease cannot be read");
                    Answer::Failed
                }
            },
            Ok(Err(error)) if error.is_not_found() => {
                // There is none to read at first. None to write: another has deleted it; and for a new one there is no namespace.
                if !matches!(request, Request::Get) {
                    tracing::warn!(lease, %error, "the lease was not written");
                }
                Answer::NotFound
            }
            Ok(Err(error)) => {
                tracing::warn!(lease, %error, "the lease was not read or written");
                Answer::Failed
            }
            Err(_) => {
                tracing::warn!(lease, ?timeout, "no answer about the lease");
                Answer::Failed
            }
        }
    }

    /// Releases the lease, if it is held, so that the next leader need not wait for its expiry.
    async fn release(&mut self) {
        let released = self.election.release(self.clock().moment(), self.clock().now());
        self.leadership.set(None);
        if let Some(request) = released
            && matches!(self.send(&request).await, Answer::Lease(_))
        {
            tracing::info!(lease = self.lease(), "released the leader lease");
        }
    }

    /// Reports the leader, if it changed.
    fn report(&mut self) {
        let holder = self.election.holder();
        if holder != self.reported {
            self.reported = holder.to_owned();
            tracing::info!(lease = self.lease(), leader = self.reported, "new leader");
        }
    }

    /// The Event on the Lease.
    fn announce(&self, events: &EventSink) {
        let Some(lease) = self.election.lease() else { return };
        let text = |field: &str| lease.metadata.get(field).and_then(|value| value.as_str()).unwrap_or_default();
        let about = ObjectReference {
            kind: lease.kind.clone(),
            namespace: text("namespace").to_owned(),
            name: text("name").to_owned(),
            uid: Uid::new(text("uid")),
            api_version: lease.api_version.clone(),
            resource_version: text("resourceVersion").parse().unwrap_or_default(),
            field_path: String::new(),
        };
        let message = format!("{} became leader", self.identity());
        events.emit(about, COMPONENT, EventType::Normal, "LeaderElection", message);
    }

    fn lost(&self, why: String) -> Lost {
        Lost { lease: self.lease().to_owned(), why }
    }

    fn paths(&self) -> (String, String) {
        let Config { namespace, name, .. } = self.election.config();
        let collection = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let path = format!("{collection}/{name}");
        (collection, path)
    }

    fn lease(&self) -> &str {
        &self.leadership.inner.lease
    }

    fn identity(&self) -> &str {
        &self.election.config().identity
    }

    fn clock(&self) -> Clock {
        self.leadership.inner.clock
    }
}

impl Leadership {
    /// Whether a write may be sent at this moment.
    #[must_use]
    pub fn may_write(&self) -> bool {
        let Inner { term, clock, .. } = &*self.inner;
        let term = *term.lock().unwrap_or_else(PoisonError::into_inner);
        term.is_some_and(|term| term.allows(clock.moment(), clock.now()))
    }

    /// What a client asks before each write; see [`Client::fenced`].
    #[must_use]
    pub fn fence(&self) -> Fence {
        let leadership = self.clone();
        Arc::new(move || leadership.may_write())
    }

    /// Whether this candidate leads, as it changes.
    #[must_use]
    pub fn leading(&self) -> watch::Receiver<bool> {
        self.inner.leading.subscribe()
    }

    /// Whether the process obeys the election.
    ///
    /// # Errors
    /// If it is still running although its lease has long expired.
    pub fn health(&self) -> Result<(), String> {
        let Inner { term, clock, lease_duration, lease, .. } = &*self.inner;
        let term = *term.lock().unwrap_or_else(PoisonError::into_inner);
        match term {
            Some(term) if clock.moment().saturating_since(term.renewed) > *lease_duration + TOLERANCE => {
                Err(format!("failed election to renew leadership on lease {lease}"))
            }
            _ => Ok(()),
        }
    }

    fn set(&self, term: Option<Term>) {
        *self.inner.term.lock().unwrap_or_else(PoisonError::into_inner) = term;
        self.inner.status.set(i64::from(term.is_some()));
        self.inner.leading.send_if_modified(|leading| std::mem::replace(leading, term.is_some()) != term.is_some());
    }
}

fn body(lease: &Lease) -> Bytes {
    // A lease is made of strings, numbers and maps with string keys: there is nothing in it that has no JSON.
    Bytes::from(serde_json::to_vec(lease).unwrap_or_default())
}
