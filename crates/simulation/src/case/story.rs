//! A case that was played, told in order: what was done, what was decided and by which rule, what was written, what struck in
//! between, and where a law was broken.

use std::fmt::Write as _;

use muster_inspect::history::History;

use super::{Case, Played};
use crate::faults::{Fault, Struck};
use crate::laws::timeline;
use crate::world::EPOCH_NANOS;

/// What of one moment comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Done,
    Struck,
    Written,
    Decided,
}

/// The story of a case, a paragraph for each thing that happened, with seconds since the beginning. It ends where a
/// law was broken for the first time: nothing after that is its cause.
#[must_use]
pub fn story(case: &Case, played: &Played) -> String {
    let first = played.broken.iter().filter(|broken| broken.version > 0).map(|broken| broken.version).min();
    let mut told: Vec<(i64, Order, String)> = Vec::new();
    for operation in &case.operations {
        let act = serde_json::to_string(&operation.act).unwrap_or_default();
        told.push((nanos(operation.at), Order::Done, format!("done     {act}")));
    }
    for struck in &played.struck {
        told.push((nanos(struck.at), Order::Struck, format!("struck   {}", strike(struck))));
    }
    let mut ends = i64::MAX;
    for seen in &played.seen {
        let at = seen.millis * 1_000_000 - EPOCH_NANOS;
        let mut text = format!("written  {}", timeline(std::slice::from_ref(seen)).trim_end());
        for broken in played.broken.iter().filter(|broken| broken.version == seen.version) {
            let _ = write!(text, "\n         BROKEN {broken}");
        }
        if first == Some(seen.version) {
            ends = at;
        }
        told.push((at, Order::Written, text));
    }
    for history in &played.decided {
        told.extend(history.syncs.iter().map(|sync| {
            let History { object, .. } = history;
            let lines = sync.to_string();
            let text = format!("decided  {} {}:{}", object.kind, object.name, lines.trim_end());
            (sync.at.as_nanos() - EPOCH_NANOS, Order::Decided, text)
        }));
    }
    told.sort_by_key(|(at, order, _)| (*at, *order));
    let mut text = String::new();
    for (at, _, said) in told.iter().filter(|(at, ..)| *at <= ends) {
        let _ = writeln!(text, "{:>10.3} s  {said}", *at as f64 / 1e9);
    }
    for broken in played.broken.iter().filter(|broken| broken.version == 0) {
        let _ = writeln!(text, "{:>10.3} s  BROKEN {broken}", played.lasted.as_secs_f64());
    }
    text
}

fn nanos(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

fn strike(struck: &Struck) -> String {
    let Struck { who, target, nth, fault, .. } = struck;
    let verb = format!("{:?}", target.verb).to_lowercase();
    let name = if target.name.is_empty() { String::new() } else { format!(" {}", target.name) };
    let what = if target.subresource.is_empty() { String::new() } else { format!("/{}", target.subresource) };
    format!("{}: {who} {verb} {}{what}{name} (number {nth})", named(fault), target.resource)
}

/// As it is written in a case.
fn named(fault: &Fault) -> String {
    serde_json::to_string(fault).unwrap_or_default().replace(['"', '{', '}'], "")
}
