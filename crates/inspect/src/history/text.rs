//! A history as a story with times.

use std::fmt;
use std::time::Duration;

use muster_objects::Timestamp;

use super::{Answer, Cause, Happened, History, On, Request, Saw, Sync};
use crate::explain::{Again, Role, Source, short};

/// The object, then its syncs, the oldest first.
impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, source, at, oldest, earlier, syncs, waiting, .. } = self;
        writeln!(f, "{} {}/{}", object.kind, object.namespace, object.name)?;
        writeln!(f, "  Source:  {}, at {at}", teller(source))?;
        match oldest {
            Some(oldest) => writeln!(f, "  Kept:    what was synced since {oldest}")?,
            None => writeln!(f, "  Kept:    nothing")?,
        }
        let mut day = String::new();
        let mut known = None;
        for sync in syncs {
            let date = date(sync.at);
            if date != day {
                writeln!(f, "\n{date}")?;
                day = date;
            }
            if let Some(uid) = &sync.uid {
                if known.is_some_and(|known| known != uid) {
                    writeln!(f, "  From here on it is another object of that name, of uid {uid}")?;
                }
                known = Some(uid);
            }
            sync.fmt(f)?;
        }
        match earlier {
            _ if !syncs.is_empty() => {}
            Some(earlier) => writeln!(f, "\nNone of its syncs was in that time: the last one ended at {earlier}.")?,
            None => writeln!(f, "\nNone of its syncs is kept.")?,
        }
        let Some(waiting) = waiting else { return Ok(()) };
        write!(f, "\nNow: it has waited {} for {}", short(waiting.time), waiting.on)?;
        if !waiting.woken.is_empty() {
            write!(f, ", woken by {}", causes(&waiting.woken, waiting.more))?;
        }
        writeln!(f)
    }
}

/// Who tells something of a running manager.
pub(crate) fn teller(source: &Source) -> &'static str {
    match source {
        Source::Manager { role: Role::Leader } => "the manager that leads",
        Source::Manager { role: Role::Standby } => "a manager that stands by, and syncs nothing",
        Source::Manager { role: Role::Unelected } => "a manager that runs without an election",
        Source::Manager { role: Role::Member } => "a manager of a group, for the shards that it has",
        Source::Api => "nobody who syncs",
    }
}

impl fmt::Display for Sync<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {}  {}", time(self.at), self.summary)?;
        match self.count {
            1 => writeln!(f, ", in {}", precise(self.took))?,
            many => writeln!(f, ": {many} times until {}", time(self.until))?,
        }
        for (name, text) in self.lines() {
            writeln!(f, "    {name:<8} {text}")?;
        }
        Ok(())
    }
}

impl Sync<'_> {
    /// What there is to say of it, each with a word before it: a row of the contract for a reason.
    #[must_use]
    pub fn lines(&self) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        let mut line = |name: &str, text: String| lines.push((name.to_owned(), text));
        if !self.woken.is_empty() {
            line("woken", format!("by {}", causes(&self.woken, self.more)));
        }
        if !self.waits.is_empty() {
            line("waited", joined(self.waits.iter().map(|wait| format!("{} for {}", precise(wait.time), wait.on))));
        }
        if !self.saw.is_empty() {
            line("saw", joined(self.saw.iter().map(ToString::to_string)));
        }
        for reason in &self.why {
            line(&reason.rule, reason.text.clone());
        }
        if let Some(expects) = &self.expects {
            line("expects", format!("{} creations, {} deletions", expects.creations, expects.deletions.len()));
        }
        for (action, text) in requests(&self.writes) {
            line(action, text);
        }
        if self.more_writes > 0 {
            line("", format!("and {} more requests", self.more_writes));
        }
        if let Some(status) = &self.status {
            line("", status.to_string());
        }
        if let Some(error) = &self.error {
            line("failed", error.to_string());
        }
        line("again", again(&self.again));
        lines
    }
}

fn again(again: &Again) -> String {
    match again {
        Again::OnChange => "when something changes".to_owned(),
        Again::AfterSeconds(delay) => {
            // The number comes from JSON and may be out of range.
            let delay = Duration::try_from_secs_f64(*delay).unwrap_or(Duration::MAX);
            format!("after {}, or when something changes", short(delay))
        }
        Again::Backoff => "after a backoff".to_owned(),
    }
}

/// One line for those in a row that did the same and were all answered with yes, one for each other.
fn requests<'s>(all: &'s [Request<'_>]) -> Vec<(&'s str, String)> {
    let is_ok = |request: &Request<'_>| matches!(request.answer, Answer::Ok { .. });
    let like = |one: &Request<'_>, other: &Request<'_>| {
        one.action == other.action && one.kind == other.kind && is_ok(one) && is_ok(other)
    };
    let told = all.chunk_by(like).map(|chunk| {
        let first = &chunk[0];
        let Request { action, kind, name, took, answer, .. } = first;
        // What was to be named by the server, and was refused, has no name.
        let object = if name.is_empty() { kind.to_string() } else { format!("{kind} {name}") };
        let text = match (answer, chunk) {
            (Answer::Failed { code: 0, message, .. }, _) => {
                format!("{object}: no answer after {}: {message}", precise(*took))
            }
            (Answer::Failed { code, reason, message }, _) => {
                format!("{object}: {code} {reason} in {}: {message}", precise(*took))
            }
            (Answer::Ok { version: Some(version) }, [_]) => {
                format!("{object}: at {version}, in {}", precise(*took))
            }
            (Answer::Ok { version: None }, [_]) => format!("{object}, in {}", precise(*took)),
            (Answer::Ok { .. }, many) => {
                let mut times: Vec<Duration> = many.iter().map(|request| request.took).collect();
                times.sort_unstable();
                let [least, middle, most] = [0, times.len() / 2, times.len() - 1].map(|at| precise(times[at]));
                let last = many.last().map_or("", |last| &last.name);
                format!("{} {kind}s, {name} to {last}, in {least} to {most}, half of them in {middle}", many.len())
            }
        };
        (&**action, text)
    });
    told.collect()
}

fn causes(causes: &[Cause<'_>], more: u32) -> String {
    let mut said = joined(causes.iter().map(ToString::to_string));
    if more > 0 {
        said.push_str(&format!(", and {more} more"));
    }
    said
}

impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event { change, kind, name, version } => {
                let change = match change {
                    Happened::Added => "added",
                    Happened::Updated => "updated",
                    Happened::Deleted => "deleted",
                };
                write!(f, "{kind} {name} {change} at {version}")
            }
            Self::Cache { kind, version } => write!(f, "the cache of {kind} at {version}"),
            Self::Timer => f.write_str("its timer"),
            Self::Retry => f.write_str("the end of its rate limit"),
            Self::Expired => f.write_str("a cache that was waited for too long"),
            Self::Start => f.write_str("the start of the manager's work"),
        }
    }
}

impl fmt::Display for On<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue => f.write_str("a worker"),
            Self::Work => f.write_str("the sync before it to end"),
            Self::Backoff => f.write_str("the rate limit of what failed"),
            Self::Cache { kind, wrote, read } => {
                write!(f, "the cache of {kind} to reach its own write at {wrote}, from {read}")
            }
            Self::Expectations => f.write_str("the events of its last round"),
            Self::Creations => f.write_str("the backoff of pods that came to nothing at once"),
        }
    }
}

impl fmt::Display for Saw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, object, version } = self;
        if *object { write!(f, "itself at {version}") } else { write!(f, "the cache of {kind} at {version}") }
    }
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

/// The day.
pub(crate) fn date(at: Timestamp) -> String {
    part(at, 0, 10)
}

/// The time of day, to the millisecond.
pub(crate) fn time(at: Timestamp) -> String {
    part(at, 11, 23)
}

/// Characters of the RFC 3339 form.
fn part(at: Timestamp, from: usize, to: usize) -> String {
    at.micro().to_string().get(from..to).unwrap_or_default().to_owned()
}

/// Short times matter here.
pub(crate) fn precise(duration: Duration) -> String {
    match duration.as_micros() {
        micros @ 0..1_000 => format!("{micros}µs"),
        micros @ 1_000..10_000 => format!("{:.1}ms", micros as f64 / 1_000.0),
        _ => short(duration),
    }
}
