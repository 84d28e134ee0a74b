//! Leader election by a Lease (CM-04, CM-05).
//!
//! ```text
//!   attempt --> [ REPLACE what was seen last ] --refused--> GET --> free, run out or ours --> REPLACE --> leading
//!               only while leading                           |                                  |
//!                                                            +--> not there --> CREATE ---------+
//!                                                            +--> another's: stand by, or lost
//! ```
//!
//! Candidates' clocks need not agree: the age of another's lease is measured from the local time at which its record
//! was last seen to change, never from its timestamps. A leader's term is measured from when it sent the last
//! successful renewal; others see that renewal later and measure from then. So it has stopped writing for `lease
//! duration - renew deadline` before another can lead.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_objects::lease::Lease;
use muster_objects::{Moment, Timestamp};

#[cfg(test)]
mod tests;

/// The pauses between two attempts to acquire are between one retry period and this factor more.
pub const JITTER_FACTOR: f64 = 1.2;

/// The settings of an election. The defaults are those of kube-controller-manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The identity of this candidate, which must be unique.
    pub identity: String,
    /// How long another's lease is respected after it was last seen to change. Whole seconds.
    pub lease_duration: Duration,
    /// How long a leader keeps leading without a renewal.
    pub renew_deadline: Duration,
    /// How long to wait between two attempts.
    pub retry_period: Duration,
}

impl Config {
    /// An election over the Lease `namespace/name`, with a lease of 15 s, a renew deadline of 10 s and a retry
    /// period of 2 s.
    #[must_use]
    pub fn new(namespace: &str, name: &str, identity: String) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// Why a configuration is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A leader could write after others have taken its lease for expired.
    #[error("the lease duration ({lease_duration:?}) must be longer than the renew deadline ({renew_deadline:?})")]
    LeaseDuration {
        /// The setting.
        lease_duration: Duration,
        /// What it must exceed.
        renew_deadline: Duration,
    },
    /// There would be no second attempt at a renewal before the deadline.
    #[error("the renew deadline ({renew_deadline:?}) must be longer than 1.2 retry periods ({retry_period:?} each)")]
    RenewDeadline {
        /// The setting.
        renew_deadline: Duration,
        /// What it must exceed, times 1.2.
        retry_period: Duration,
    },
    /// A Lease has its duration in whole seconds.
    #[error("the lease duration ({0:?}) must be whole seconds, 1 to 2147483647 of them")]
    Seconds(Duration),
    /// There would be no pause between attempts.
    #[error("the retry period must be longer than zero")]
    RetryPeriod,
    /// Every candidate would be the leader.
    #[error("the identity is empty")]
    Identity,
}

/// What to send to the server.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// GET of the Lease.
    Get,
    /// POST of this Lease.
    Create(Lease),
    /// PUT of this Lease, with the resourceVersion that was read.
    Replace(Lease),
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The Lease as it was read or written.
    Lease(Lease),
    /// There is no such Lease.
    NotFound,
    /// Refused, lost or unreadable: the server may or may not have done it.
    Failed,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum ElectionStep {
    /// Send this, and pass its answer to [`Election::answered`].
    Send(Request),
    /// The attempt is over, and this candidate leads.
    Leading,
    /// The attempt failed: try again after the retry period. A leader whose attempt fails keeps leading until its
    /// deadline.
    Again,
    /// This candidate was the leader, and another is now; or its own Lease was ended.
    Lost,
}

/// What each write of the Lease has in its metadata.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Carried {
    /// Labels that are set.
    pub labels: BTreeMap<String, String>,
    /// Annotations that are set, and those without a value that are removed.
    pub annotations: BTreeMap<String, Option<String>>,
}

/// One candidate's view of one Lease.
#[derive(Debug)]
pub struct Election {
    config: Config,
    seconds: i32,
    carried: Carried,
    /// Whether nobody else ever holds this Lease.
    own: bool,
    /// The Lease as last read or written, and when its record was seen to change.
    observed: Option<Observed>,
    /// The attempt under way.
    attempt: Attempt,
    /// Until when this candidate leads; `None` if it does not.
    term: Option<Term>,
}

#[derive(Debug)]
struct Observed {
    lease: Lease,
    at: Moment,
}

/// The state of an attempt: what was sent, and when.
#[derive(Debug, Clone, Copy)]
enum Attempt {
    None,
    /// A renewal with the resourceVersion seen last.
    Renewing {
        sent: Moment,
        wall: Timestamp,
    },
    Reading,
    Writing {
        sent: Moment,
        wall: Timestamp,
    },
}

/// How long a leader may write, by both of its clocks. The monotonic clock of a suspended machine may stop, and a wall
/// clock can be set back: the earlier end of the two counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// When the last successful renewal was sent.
    pub renewed: Moment,
    /// The last moment at which a write may be sent.
    pub until: Moment,
    /// The same by the wall clock.
    pub wall_until: Timestamp,
}

impl Term {
    /// A term by the renewal that was sent at this moment, and that is good for so long.
    #[must_use]
    pub fn since(sent: Moment, wall: Timestamp, deadline: Duration) -> Self {
        Self { renewed: sent, until: sent + deadline, wall_until: wall + deadline }
    }

    /// What both terms allow.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            renewed: self.renewed.min(other.renewed),
            until: self.until.min(other.until),
            wall_until: self.wall_until.min(other.wall_until),
        }
    }

    /// Whether a write may be sent now.
    #[must_use]
    pub fn allows(&self, now: Moment, wall: Timestamp) -> bool {
        now < self.until && wall < self.wall_until
    }
}

impl Election {
    /// A candidate that has not seen the Lease yet.
    ///
    /// # Errors
    /// [`ConfigError`] if the durations do not keep two leaders apart.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let Config { lease_duration, renew_deadline, retry_period, .. } = config;
        if config.identity.is_empty() {
            return Err(ConfigError::Identity);
        }
        if retry_period.is_zero() {
            return Err(ConfigError::RetryPeriod);
        }
        let seconds = i32::try_from(lease_duration.as_secs()).ok();
        let seconds = seconds.filter(|seconds| *seconds > 0 && lease_duration.subsec_nanos() == 0);
        let seconds = seconds.ok_or(ConfigError::Seconds(lease_duration))?;
        if lease_duration <= renew_deadline {
            return Err(ConfigError::LeaseDuration { lease_duration, renew_deadline });
        }
        if renew_deadline <= retry_period.mul_f64(JITTER_FACTOR) {
            return Err(ConfigError::RenewDeadline { renew_deadline, retry_period });
        }
        Ok(Self {
            config,
            seconds,
            carried: Carried::default(),
            own: false,
            observed: None,
            attempt: Attempt::None,
            term: None,
        })
    }

    /// The Lease's time, as it stands in a Lease.
    pub(crate) fn seconds(&self) -> i32 {
        self.seconds
    }

    /// Has this candidate be the only one that ever holds the Lease: found without it as its holder, the Lease was
    /// ended by others, who take what it stood for. Then it is lost, even where this candidate never knew that it had
    /// it.
    #[must_use]
    pub fn own(self) -> Self {
        Self { own: true, ..self }
    }

    /// Sets what each write of the Lease has in its metadata from now on.
    pub fn carry(&mut self, carried: Carried) {
        self.carried = carried;
    }

    /// How the election is run.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Begins an attempt to acquire the lease or to renew it. `wall` is written to the record, for people to read.
    ///
    /// An earlier attempt without an answer counts as failed.
    pub fn attempt(&mut self, now: Moment, wall: Timestamp) -> Request {
        if let Some(observed) = &self.observed
            && self.leads(now)
            && self.is_mine(&observed.lease)
        {
            self.attempt = Attempt::Renewing { sent: now, wall };
            return Request::Replace(self.claim(&observed.lease, wall));
        }
        self.attempt = Attempt::Reading;
        Request::Get
    }

    /// Takes the answer to the last request.
    pub fn answered(&mut self, answer: Answer, now: Moment, wall: Timestamp) -> ElectionStep {
        match (std::mem::replace(&mut self.attempt, Attempt::None), answer) {
            (Attempt::None, _) | (Attempt::Reading | Attempt::Writing { .. }, Answer::Failed) => ElectionStep::Again,
            (Attempt::Renewing { sent, wall: then } | Attempt::Writing { sent, wall: then }, Answer::Lease(lease)) => {
                self.observed = Some(Observed { lease, at: now });
                self.begin_term(sent, then, now)
            }
            // Another candidate may have written: read the Lease.
            (Attempt::Renewing { .. }, Answer::Failed | Answer::NotFound) => {
                self.attempt = Attempt::Reading;
                ElectionStep::Send(Request::Get)
            }
            (Attempt::Writing { .. }, Answer::NotFound) => ElectionStep::Again,
            (Attempt::Reading, Answer::NotFound) => self.found_none(now, wall),
            (Attempt::Reading, Answer::Lease(lease)) => self.found(&lease, now, wall),
        }
    }

    /// Whether this candidate leads at this moment.
    #[must_use]
    pub fn leads(&self, now: Moment) -> bool {
        self.term.is_some_and(|term| now < term.until)
    }

    /// How long writes may be sent; `None` if this candidate does not lead.
    #[must_use]
    pub fn term(&self) -> Option<Term> {
        self.term
    }

    /// The holder last seen; empty for none.
    #[must_use]
    pub fn holder(&self) -> &str {
        self.observed.as_ref().map_or("", |observed| observed.lease.holder())
    }

    /// The Lease as it was last seen.
    #[must_use]
    pub fn lease(&self) -> Option<&Lease> {
        self.observed.as_ref().map(|observed| &observed.lease)
    }

    /// When another's lease, as last seen, expires: an earlier attempt would fail. `None` if no other candidate holds
    /// it.
    #[must_use]
    pub fn runs_out(&self) -> Option<Moment> {
        let Observed { lease, at } = self.observed.as_ref()?;
        let held = !lease.holder().is_empty() && !self.is_mine(lease);
        held.then(|| *at + lease.duration())
    }

    /// Ends this candidate's leadership. If it led, returns a request that lets the next leader start without waiting
    /// for the lease to expire; it need not be retried.
    ///
    /// To be called once nothing is written any more.
    pub fn release(&mut self, now: Moment, wall: Timestamp) -> Option<Request> {
        let led = self.leads(now);
        self.term = None;
        self.attempt = Attempt::None;
        let lease = &self.observed.as_ref()?.lease;
        if !led || !self.is_mine(lease) {
            return None;
        }
        Some(Request::Replace(lease.released(wall)))
    }

    fn found(&mut self, lease: &Lease, now: Moment, wall: Timestamp) -> ElectionStep {
        match &mut self.observed {
            Some(observed) if observed.lease.spec == lease.spec => observed.lease.clone_from(lease),
            _ => self.observed = Some(Observed { lease: lease.clone(), at: now }),
        }
        if !self.is_mine(lease) {
            if self.term.take().is_some() || self.own {
                return ElectionStep::Lost;
            }
            if self.is_held_by_another(now) {
                return ElectionStep::Again;
            }
        }
        self.attempt = Attempt::Writing { sent: now, wall };
        ElectionStep::Send(Request::Replace(self.claim(lease, wall)))
    }

    fn found_none(&mut self, now: Moment, wall: Timestamp) -> ElectionStep {
        // The holder seen last may not know yet that the Lease was deleted, and may still write.
        if self.is_held_by_another(now) {
            return ElectionStep::Again;
        }
        self.attempt = Attempt::Writing { sent: now, wall };
        let mut lease = Lease::new(&self.config.namespace, &self.config.name);
        lease.spec.lease_transitions = Some(0);
        lease.spec.acquire_time = Some(wall.micro());
        self.stamp(&mut lease, wall);
        ElectionStep::Send(Request::Create(lease))
    }

    /// Whether another's lease was seen last and has not expired.
    fn is_held_by_another(&self, now: Moment) -> bool {
        self.runs_out().is_some_and(|end| end > now)
    }

    /// The lease with this candidate as its holder. Its acquire time is kept if it already was.
    fn claim(&self, lease: &Lease, wall: Timestamp) -> Lease {
        let mut claimed = lease.clone();
        if !self.is_mine(lease) {
            let transitions = lease.spec.lease_transitions.unwrap_or(0);
            claimed.spec.lease_transitions = Some(transitions.saturating_add(1));
            claimed.spec.acquire_time = Some(wall.micro());
        }
        self.stamp(&mut claimed, wall);
        claimed
    }

    fn stamp(&self, lease: &mut Lease, wall: Timestamp) {
        lease.spec.holder_identity = Some(self.config.identity.clone());
        lease.spec.lease_duration_seconds = Some(self.seconds);
        lease.spec.renew_time = Some(wall.micro());
        lease.spec.forget_coordination();
        for (key, value) in &self.carried.labels {
            lease.set_label(key, value);
        }
        for (key, value) in &self.carried.annotations {
            lease.set_annotation(key, value.as_deref());
        }
    }

    fn begin_term(&mut self, sent: Moment, wall: Timestamp, now: Moment) -> ElectionStep {
        let term = Term::since(sent, wall, self.config.renew_deadline);
        // An answer after the deadline: the lease is ours to renew, but not yet to write by.
        if now >= term.until {
            return ElectionStep::Again;
        }
        self.term = Some(term);
        ElectionStep::Leading
    }

    fn is_mine(&self, lease: &Lease) -> bool {
        lease.holder() == self.config.identity
    }
}
