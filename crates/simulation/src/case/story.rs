//! A case that was played, told in order: what was done, what was decided and by which rule, what was written, what struck in
//! between, and where a law was broken.

use std::fmt::Write as _;
use std::time::Duration;

use muster_inspect::history::History;

use super::{Case, Played};
use crate::faults::Struck;
use crate::laws::timeline;
use crate::text;
use crate::world::EPOCH_NANOS;

/// Where something has its place in a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Virtual milliseconds since the beginning.
    millis: i64,
    /// The version that it wrote, or the newest that it had seen; 0 for what has none, which comes first.
    version: u64,
    /// Whether it decided on that version, and did not write it.
    decided: bool,
}

/// The story of a case, a paragraph for each thing that happened, with seconds since the beginning. It ends where a
/// law was broken for the first time: nothing after that is its cause.
#[must_use]
pub fn story(case: &Case, played: &Played) -> String {
    let mut told: Vec<(Place, String, bool)> = Vec::new();
    let without_version = |at: Duration| {
        let millis = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
        Place { millis, version: 0, decided: false }
    };
    for (nth, met) in &played.idle {
        let why = match met {
            0 => "no request was about it".to_owned(),
            _ => format!("it was about {met}, none at its time, with its number and by its chance"),
        };
        told.push((without_version(Duration::ZERO), format!("never    faults[{nth}] struck: {why}"), false));
    }
    for (nth, operation) in case.operations.iter().enumerate() {
        let act = serde_json::to_string(&operation.act).unwrap_or_default();
        let why = played.undone.iter().find(|(undone, _)| *undone == nth).map(|(_, why)| why);
        let act = why.map_or_else(|| format!("done     {act}"), |why| format!("not done {act}: {why}"));
        told.push((without_version(operation.at), act, false));
    }
    for struck in &played.struck {
        told.push((without_version(struck.at), format!("struck   {}", strike(struck)), false));
    }
    for seen in &played.seen {
        let place = Place { millis: seen.millis - EPOCH_NANOS / 1_000_000, version: seen.version, decided: false };
        let mut text = format!("written  {}", timeline(std::slice::from_ref(seen)).trim_end());
        let broken = || played.broken.iter().filter(|broken| broken.version == seen.version);
        for broken in broken() {
            let _ = write!(text, "\n         BROKEN {broken}");
        }
        told.push((place, text, broken().next().is_some()));
    }
    for History { object, syncs, .. } in &played.decided {
        told.extend(syncs.iter().map(|sync| {
            let version = sync.saw.iter().map(|saw| saw.version).max().unwrap_or_default();
            let millis = (sync.at.as_nanos() - EPOCH_NANOS) / 1_000_000;
            let text = format!("decided  {} {}:{}", object.kind, object.name, sync.to_string().trim_end());
            (Place { millis, version, decided: true }, text, false)
        }));
    }
    told.sort_by_key(|(place, ..)| *place);
    let mut all = String::new();
    for (place, said, breaks) in &told {
        let _ = writeln!(all, "{:>10.3} s  {said}", place.millis as f64 / 1e3);
        if *breaks {
            return all;
        }
    }
    for broken in &played.broken {
        let _ = writeln!(all, "{:>10.3} s  BROKEN {broken}", played.lasted.as_secs_f64());
    }
    all
}

fn strike(struck: &Struck) -> String {
    let Struck { who, target, nth, fault, .. } = struck;
    let name = if target.name.is_empty() { String::new() } else { format!(" {}", target.name) };
    let time = fault.duration().map(|time| format!(" {}", text::written(time))).unwrap_or_default();
    format!("{}{time}: {who} {} {}{name} (number {nth})", fault.kind(), target.verb.word(), target.path())
}
