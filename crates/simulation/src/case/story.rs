//! A case that was played, told in order: what was done, what was decided and by which rule, what was written, what struck in
//! between, and where a law was broken.

use std::fmt::Write as _;
use std::time::Duration;

use muster_inspect::history::History;

use super::{Case, Played};
use crate::faults::Struck;
use crate::laws::{self, Seen, timeline};
use crate::text;
use crate::world::EPOCH_NANOS;

/// Where something has its place in a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Virtual milliseconds since the beginning.
    millis: i64,
    /// How often the server had been restored.
    epoch: u64,
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
        Place { millis, epoch: 0, version: 0, decided: false }
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
        let Seen { epoch, version, .. } = *seen;
        let place = Place { millis: seen.millis - EPOCH_NANOS / 1_000_000, epoch, version, decided: false };
        let mut text = format!("written  {}", timeline(std::slice::from_ref(seen)).trim_end());
        let here = laws::Place::of(seen);
        let broken = || played.broken.iter().filter(|broken| broken.place == here);
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
            // What was decided in the moment of a restore may be of either side, and is told before it.
            let before = played.seen.partition_point(|seen| seen.millis < millis + EPOCH_NANOS / 1_000_000);
            let epoch = before.checked_sub(1).map_or(0, |last| played.seen[last].epoch);
            (Place { millis, epoch, version, decided: true }, text, false)
        }));
    }
    for broken in &played.broken {
        if let laws::Place::Moment(millis) = broken.place {
            // After all that was seen by then.
            let millis = millis - EPOCH_NANOS / 1_000_000;
            let place = Place { millis, epoch: u64::MAX, version: u64::MAX, decided: true };
            told.push((place, format!("BROKEN   {broken}"), true));
        }
    }
    told.sort_by_key(|(place, ..)| *place);
    let (mut all, mut broken_at) = (String::new(), None);
    for (place, said, breaks) in &told {
        // What else is broken at the same moment is told too.
        if broken_at.is_some_and(|at| at != place.millis) {
            break;
        }
        if broken_at.is_none() || *breaks {
            let _ = writeln!(all, "{:>10.3} s  {said}", place.millis as f64 / 1e3);
        }
        broken_at = broken_at.or(breaks.then_some(place.millis));
    }
    if broken_at.is_some() {
        return all;
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

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;
    use crate::case::Profile;
    use crate::laws::{Broken, Kind, Law, Place as At, Seen};

    /// A version comes again after a restore, and is another write then; what a request breaks has its place by its time. Nothing after
    /// that is told.
    ///
    /// Contract: SI-03
    #[test]
    fn a_story_ends_where_a_law_was_broken() {
        let at = |seconds: i64| EPOCH_NANOS / 1_000_000 + seconds * 1_000;
        let seen = |epoch, seconds, name: &str| {
            let object = json!({"metadata": {"name": name}});
            Seen { epoch, version: 7, millis: at(seconds), kind: Kind::Pod, gone: false, object }
        };
        let told = |place| {
            let later = (place != At::End).then_some(At::Moment(at(25)));
            let places = [place, place].into_iter().chain(later);
            let broken = places.map(|place| Broken { law: Law::Count, place, how: "one too many".to_owned() });
            let seen = vec![seen(0, 10, "first"), seen(1, 20, "second"), seen(2, 30, "third")];
            let played =
                Played { seen, broken: broken.collect(), lasted: Duration::from_secs(90), ..Played::default() };
            let case = Case { operations: Vec::new(), ..Profile::Rollouts.case(1, None) };
            story(&case, &played).lines().map(|line| line.split(": ").next().unwrap_or_default().to_owned()).collect()
        };
        let words = |lines: Vec<String>| -> Vec<(String, String)> {
            let word = |line: &String| {
                let words: Vec<&str> = line.split_whitespace().collect();
                (
                    words[0].to_owned(),
                    words.iter().rev().find(|word| **word != "count").map_or("", |word| word).to_owned(),
                )
            };
            lines.iter().map(word).collect()
        };
        let line = |at: &str, what: &str| (at.to_owned(), what.to_owned());
        let [first, second] = [line("10.000", "first"), line("20.000", "second")];
        let by_version: Vec<String> = told(At::Version { millis: at(20), epoch: 1, version: 7 });
        let marked = line("BROKEN", "BROKEN");
        assert_eq!(words(by_version), [first.clone(), second.clone(), marked.clone(), marked]);
        // All that is broken at that moment, and nothing after it.
        let by_request = words(told(At::Moment(at(20))));
        let broken = line("20.000", "BROKEN");
        assert_eq!(by_request, [first.clone(), second.clone(), broken.clone(), broken]);
        let at_the_end = words(told(At::End));
        let broken = line("90.000", "BROKEN");
        assert_eq!(at_the_end, [first, second, line("30.000", "third"), broken.clone(), broken]);
    }

    /// Contract: SI-03
    #[test]
    fn what_was_before_a_restore_is_told_before_what_came_after_it() {
        let millis = EPOCH_NANOS / 1_000_000 + 1_000;
        let seen = |epoch, version, name: &str| {
            let object = json!({"metadata": {"name": name}});
            Seen { epoch, version, millis, kind: Kind::Pod, gone: false, object }
        };
        let played = Played { seen: vec![seen(0, 9, "before"), seen(1, 7, "after")], ..Played::default() };
        let case = Case { operations: Vec::new(), ..Profile::Rollouts.case(1, None) };
        let told = story(&case, &played);
        assert!(told.find("Pod before") < told.find("Pod after") && told.contains("Pod before"), "{told}");
    }
}
