//! What a manager is doing, as text.

use std::fmt;

use super::{Expected, Informer, Inside, Key, LastSync, Queue, State, Writes};
use crate::explain::short;
use crate::history::{precise, teller};

/// One part after another, each under its title.
impl fmt::Display for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, at, informers, queues, expectations, unmet, syncs, writes, .. } = self;
        writeln!(f, "Inside {}, at {at}", teller(source))?;
        writeln!(f, "\nInformers")?;
        informers.iter().try_for_each(|informer| informer.fmt(f))?;
        for queue in queues {
            queue.fmt(f)?;
        }
        if *unmet > 0 {
            writeln!(f, "\nExpectations of {unmet} owners are not met")?;
            expectations.iter().try_for_each(|expected| expected.fmt(f))?;
            and_more(f, *unmet, expectations.len())?;
        }
        if !syncs.is_empty() {
            writeln!(f, "\nLast syncs")?;
            syncs.iter().try_for_each(|sync| sync.fmt(f))?;
        }
        writes.fmt(f)
    }
}

impl fmt::Display for Informer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, synced, objects, version, changed_ago, lag } = self;
        if !synced {
            return writeln!(f, "  {kind:<22} not synced");
        }
        write!(f, "  {kind:<22} {objects:>7} objects, at version {version}")?;
        if let Some(ago) = changed_ago {
            write!(f, ", last heard {} ago", short(*ago))?;
        }
        if let Some(lag) = lag {
            write!(f, ", shows its own writes after {}", precise(*lag))?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { controller, kind: _, ready, working, waiting, keys } = self;
        writeln!(f, "\nQueue of the {controller}: {working} in work, {ready} ready, {waiting} waiting")?;
        keys.iter().try_for_each(|key| key.fmt(f))?;
        and_more(f, working + ready + waiting, keys.len())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name, state, on, time, due, retries } = self;
        let time = time.map(short).unwrap_or_default();
        let state = match (state, on) {
            (State::Working, None) => format!("in work for {time}"),
            (State::Working, Some(_)) => format!("in work for {time}, and woken again"),
            (State::Ready, _) => format!("ready for {time}"),
            (State::Waiting, Some(on)) => format!("has waited {time} for {on}"),
            (State::Waiting, None) => "waits for its time".to_owned(),
        };
        write!(f, "  {:<40} {state}", format!("{namespace}/{name}"))?;
        if let Some(due) = due {
            write!(f, ", due in {}", short(*due))?;
        }
        if *retries > 0 {
            write!(f, ", {retries} failures")?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, creations, deletions, age } = self;
        let owner = format!("{kind} {namespace}/{name}");
        writeln!(f, "  {owner:<40} {creations} creations, {deletions} deletions, since {}", short(*age))
    }
}

impl fmt::Display for LastSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, at, until: _, count, took, summary, rows, writes, error } = self;
        let time = at.micro().to_string();
        let time = time.get(11..23).unwrap_or_default();
        write!(f, "  {time}  {:<40} {summary}", format!("{kind} {namespace}/{name}"))?;
        if *count > 1 {
            write!(f, ", {count} times")?;
        }
        if *writes > 0 {
            write!(f, ", {writes} requests in {}", precise(*took))?;
        }
        if !rows.is_empty() {
            write!(f, " ({})", rows.join(", "))?;
        }
        if let Some(error) = error {
            write!(f, ", failed: {error}")?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { done, conflicts, failed } = self;
        let done: Vec<String> = done.iter().map(|(action, count)| format!("{action} {count}")).collect();
        let done = if done.is_empty() { "none".to_owned() } else { done.join(", ") };
        writeln!(f, "\nWrites since the start: {done}; {conflicts} conflicts, {failed} failed")
    }
}

fn and_more(f: &mut fmt::Formatter<'_>, all: u64, told: usize) -> fmt::Result {
    match all.saturating_sub(told as u64) {
        0 => Ok(()),
        more => writeln!(f, "  and {more} more"),
    }
}
