//! Every single event that the controllers were told of in a story, late, lost, or twice: the perturbations of Sieve (Sun et al.,
//! OSDI 2022) for stale, unobserved and repeated states.

use std::time::Duration;

use super::Case;
use super::play::{PlayError, is_manager, play_alone};
use crate::faults::{Fault, Rule, Verb};
use crate::history::Write;
use crate::world::{CONTROLLERS, EPOCH_NANOS};

/// How late an event comes, and those of its watch that come after it.
const LATE: Duration = Duration::from_secs(20);
/// The controllers look for events that never came as often as this.
pub(super) const RESYNC: Duration = Duration::from_secs(30);
/// For so long after the last operation it is looked which events there are.
const LOOKS_ON: Duration = Duration::from_secs(60);

/// What becomes of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sieved {
    /// It comes late.
    Late,
    /// It does not come.
    Lost,
    /// It comes twice.
    Twice,
}

impl Sieved {
    const ALL: [Self; 3] = [Self::Late, Self::Lost, Self::Twice];

    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Late => "an event late",
            Self::Lost => "an event lost",
            Self::Twice => "an event twice",
        }
    }

    fn fault(self) -> Fault {
        match self {
            Self::Late => Fault::Lag(LATE..LATE),
            Self::Lost => Fault::EventLost,
            Self::Twice => Fault::EventTwice,
        }
    }
}

/// A story, and what can become of each of its events.
#[derive(Clone, Debug)]
pub struct Sieve {
    story: Case,
    events: Vec<Rule>,
}

impl Sieve {
    /// Of the events that the controllers were told of before the last of their writes, until a minute after the last operation.
    /// The case has no faults of its own.
    ///
    /// # Errors
    /// As [`play_alone`].
    pub fn of(case: &Case) -> Result<Self, PlayError> {
        // What does nothing to any event tells which there are.
        let last = case.operations.last().map_or(Duration::ZERO, |last| last.at);
        let until = Some(last.saturating_add(LOOKS_ON));
        let watched = Rule::always(Fault::Lag(Duration::ZERO..Duration::ZERO)).of(CONTROLLERS).verbs(&[Verb::Watch]);
        let story = Case { resync: Some(RESYNC), faults: vec![Rule { until, ..watched }], ..case.clone() };
        let played = play_alone(&story)?;
        let of_ours = |write: &&Write| is_manager(write.who) && !matches!(write.resource(), "events" | "leases");
        let ours = played.writes.iter().filter(of_ours);
        let last = ours.map(|write| write.millis - EPOCH_NANOS / 1_000_000).max().unwrap_or_default();
        let before = |at: Duration| i64::try_from(at.as_millis()).is_ok_and(|at| at <= last);
        let events = played.struck.iter().filter(|event| before(event.at)).map(|event| {
            let until = Some(event.at.saturating_add(Duration::from_secs(1)));
            Rule { until, ..event.rule() }
        });
        Ok(Self { events: events.collect(), story })
    }

    /// How many cases there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len() * Sieved::ALL.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// One of them: those of an event come one after the other.
    #[must_use]
    pub fn case(&self, at: usize) -> Option<(Sieved, Case)> {
        let event = self.events.get(at / Sieved::ALL.len())?;
        let sieved = Sieved::ALL[at % Sieved::ALL.len()];
        let rule = Rule { fault: sieved.fault(), ..event.clone() };
        Some((sieved, Case { faults: vec![rule], ..self.story.clone() }))
    }

    /// All of them.
    pub fn cases(&self) -> impl Iterator<Item = (Sieved, Case)> {
        (0..self.len()).filter_map(|at| self.case(at))
    }
}
