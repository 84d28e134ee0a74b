//! Makes a case smaller for as long as something is true of it, such as that it breaks a law.

use std::panic::resume_unwind;
use std::time::Duration;

use muster_tree::{Value, json};

use super::play::{PlayError, Played, STACK, play_alone};
use super::{Act, Case};
use crate::faults::Rule;

/// A smaller case.
#[derive(Debug)]
pub struct Shrunk {
    /// The same is true of it.
    pub case: Case,
    /// What is left of it.
    pub played: Played,
    /// How many cases were played for it.
    pub tried: usize,
    /// Whether nothing more can be taken away from it.
    pub smallest: bool,
}

/// Leaves out operations and faults, then makes times shorter and sizes smaller, for as long as what is played is `bad`, until
/// nothing more can be taken away, `most` cases were played, or `goes_on` says no, which hears of the smallest one and of how many were
/// played after each. None where the case itself is not bad. So many cases as `jobs` says are played at once, each on a thread of its
/// own; what is found does not depend on it.
///
/// # Errors
/// As [`play_alone`].
pub fn shrink(
    case: &Case,
    bad: &dyn Fn(&Played) -> bool,
    jobs: usize,
    most: usize,
    goes_on: &mut dyn FnMut(&Case, usize) -> bool,
) -> Result<Option<Shrunk>, PlayError> {
    let played = play_alone(case)?;
    if !bad(&played) {
        return Ok(None);
    }
    let mut search =
        Search { jobs: jobs.max(1), bad, most, tried: 1, over: false, best: case.clone(), played, goes_on };
    search.shrink()?;
    let Search { best, played, tried, over, .. } = search;
    Ok(Some(Shrunk { case: best, played, tried, smallest: !over }))
}

struct Search<'t> {
    jobs: usize,
    bad: &'t dyn Fn(&Played) -> bool,
    most: usize,
    tried: usize,
    /// Whether no more cases are to be played.
    over: bool,
    best: Case,
    played: Played,
    goes_on: &'t mut dyn FnMut(&Case, usize) -> bool,
}

impl Search<'_> {
    fn shrink(&mut self) -> Result<(), PlayError> {
        self.leave_out()?;
        if !self.best.faults.is_empty() {
            self.name_strikes()?;
            self.leave_out()?;
        }
        loop {
            let before = self.best.clone();
            self.sooner()?;
            self.shorten()?;
            self.lessen()?;
            self.leave_out()?;
            if self.over || self.best == before && !self.leave_out_two()? {
                return Ok(());
            }
        }
    }

    /// Takes the first of these cases that is bad too: which one it was. Some are played at once, and judged in their order, so
    /// that what is found does not depend on how many these are.
    fn accept(&mut self, count: usize, smaller: impl Fn(&Case, usize) -> Case) -> Result<Option<usize>, PlayError> {
        let mut next = 0..count;
        loop {
            let others = next.by_ref().map(|nth| (nth, smaller(&self.best, nth)));
            let batch: Vec<(usize, Case)> = others.filter(|(_, case)| *case != self.best).take(self.jobs).collect();
            self.over = self.over || !batch.is_empty() && self.tried >= self.most;
            if batch.is_empty() || self.over {
                return Ok(None);
            }
            let played = play_all(&batch)?;
            for ((nth, case), played) in batch.into_iter().zip(played) {
                self.over = self.tried >= self.most || !(self.goes_on)(&self.best, self.tried);
                if self.over {
                    return Ok(None);
                }
                self.tried += 1;
                let played = played?;
                if (self.bad)(&played) {
                    (self.best, self.played) = (case, played);
                    return Ok(Some(nth));
                }
            }
        }
    }

    /// Takes each of these changes with which the case is still bad.
    fn accept_each(&mut self, changes: &[&dyn Fn(&mut Case)]) -> Result<(), PlayError> {
        let mut done = 0;
        while let Some(nth) = self.accept(changes.len() - done, |best, nth| changed(best, changes[done + nth]))? {
            done += nth + 1;
        }
        Ok(())
    }

    /// Fewer operations, and fewer faults.
    fn leave_out(&mut self) -> Result<(), PlayError> {
        self.without(|case| case.faults.len(), |case, at| drop(case.faults.drain(at)))?;
        // The first creates what the case is about.
        self.without(
            |case| case.operations.len().saturating_sub(1),
            |case, at| drop(case.operations.drain(at.start + 1..at.end + 1)),
        )
    }

    /// Leaves out ranges: all at first, then halves, and at last one by one.
    fn without(
        &mut self,
        count: impl Fn(&Case) -> usize,
        remove: impl Fn(&mut Case, std::ops::Range<usize>),
    ) -> Result<(), PlayError> {
        let mut width = count(&self.best);
        while width > 0 {
            let mut start = 0;
            loop {
                let ranges = count(&self.best).saturating_sub(start).div_ceil(width);
                let left_out = |best: &Case, nth| {
                    let from = start + nth * width;
                    changed(best, |case| remove(case, from..(from + width).min(count(best))))
                };
                let Some(nth) = self.accept(ranges, left_out)? else { break };
                start += nth * width;
            }
            width /= 2;
        }
        Ok(())
    }

    /// Two operations or faults at once, where there are few: one may be needed only because of the other. Whether there were such.
    fn leave_out_two(&mut self) -> Result<bool, PlayError> {
        const FEW: usize = 12;
        // The first operation stays.
        let operations = self.best.operations.len().saturating_sub(1);
        let all = operations + self.best.faults.len();
        if all > FEW {
            return Ok(false);
        }
        let pairs: Vec<(usize, usize)> = (0..all).flat_map(|one| (0..one).map(move |other| (one, other))).collect();
        let without = |case: &mut Case, nth: usize| match nth.checked_sub(operations) {
            Some(fault) => drop(case.faults.remove(fault)),
            None => drop(case.operations.remove(nth + 1)),
        };
        // The later one first, so that the other keeps its place.
        let left_out = |best: &Case, nth: usize| {
            changed(best, |case| [pairs[nth].0, pairs[nth].1].into_iter().for_each(|nth| without(case, nth)))
        };
        Ok(self.accept(pairs.len(), left_out)?.is_some())
    }

    /// In place of rules that strike by chance: what they have struck.
    fn name_strikes(&mut self) -> Result<(), PlayError> {
        let until = Some(self.best.faults_end());
        let faults: Vec<Rule> = self.played.struck.iter().map(|struck| Rule { until, ..struck.rule() }).collect();
        self.accept_each(&[&|case| case.faults.clone_from(&faults)])
    }

    /// Faults that strike an earlier request, or whichever object's it is: what they depend on can then be left out.
    fn sooner(&mut self) -> Result<(), PlayError> {
        for at in 0..self.best.faults.len() {
            while let Some(nth) = self.best.faults[at].nth {
                let name = self.best.faults[at].name.clone();
                let easier = [(None, 1), (name.clone(), 1), (name.clone(), nth / 2), (name, nth.saturating_sub(1))];
                let easier: Vec<_> = easier.into_iter().filter(|(_, nth)| *nth > 0).collect();
                let struck = |best: &Case, way: usize| {
                    let (name, nth) = easier[way].clone();
                    changed(best, |case| (case.faults[at].name, case.faults[at].nth) = (name, Some(nth)))
                };
                if self.accept(easier.len(), struck)?.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Shorter times: of pods, between operations, and of faults.
    fn shorten(&mut self) -> Result<(), PlayError> {
        self.accept_each(&[&|case| case.pod_startup = Duration::ZERO..Duration::ZERO, &|case| {
            case.pod_shutdown = Duration::ZERO;
        }])?;
        for at in 1..self.best.operations.len() {
            let gap = self.best.operations[at].at.saturating_sub(self.best.operations[at - 1].at);
            let less = [gap, whole_seconds(gap), whole_millis(gap / 2)];
            self.accept(less.len(), |best, way| {
                changed(best, |case| {
                    case.operations[at..].iter_mut().for_each(|later| later.at = later.at.saturating_sub(less[way]));
                })
            })?;
        }
        for at in 0..self.best.faults.len() {
            let Some(longest) = self.best.faults[at].fault.duration() else { continue };
            let shorter =
                [Duration::from_millis(1), Duration::from_secs(1), rounded(longest), whole_millis(longest / 2)];
            let shorter: Vec<Duration> = shorter.into_iter().filter(|shorter| *shorter < longest).collect();
            self.accept(shorter.len(), |best, way| {
                changed(best, |case| case.faults[at].fault = case.faults[at].fault.lasting(shorter[way]))
            })?;
        }
        Ok(())
    }

    /// Fewer replicas, and no field that is not needed.
    fn lessen(&mut self) -> Result<(), PlayError> {
        for at in 0..self.best.operations.len() {
            while let Some(replicas) = replicas_of(&mut self.best.operations[at].act).and_then(|found| found.as_u64()) {
                let fewer = [replicas / 2, replicas.saturating_sub(1)];
                let scaled = |best: &Case, way: usize| {
                    changed(best, |case| {
                        replicas_of(&mut case.operations[at].act)
                            .into_iter()
                            .for_each(|found| *found = json!(fewer[way]));
                    })
                };
                if self.accept(fewer.len(), scaled)?.is_none() {
                    break;
                }
            }
        }
        // What a patch changes besides.
        const PATCHED: [&str; 5] =
            ["/spec/template/metadata", "/spec/template", "/spec/strategy", "/spec/paused", "/metadata"];
        let patches = (0..self.best.operations.len()).flat_map(|at| PATCHED.map(|pointer| (at, pointer)));
        let patches: Vec<_> = patches
            .map(|(at, pointer)| {
                move |case: &mut Case| {
                    if let Act::Patch(target) = &mut case.operations[at].act {
                        remove(&mut target.merge, pointer);
                    }
                }
            })
            .collect();
        self.accept_each(&dynamic(&patches))?;
        let fields = ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds", "strategy"].map(|field| {
            move |case: &mut Case| {
                for operation in &mut case.operations {
                    if let Act::Create(object) | Act::Apply(object) = &mut operation.act {
                        remove(object, &format!("/spec/{field}"));
                    }
                }
            }
        });
        self.accept_each(&dynamic(&fields))
    }
}

fn dynamic<F: Fn(&mut Case)>(changes: &[F]) -> Vec<&dyn Fn(&mut Case)> {
    changes.iter().map(|change| change as &dyn Fn(&mut Case)).collect()
}

fn changed(case: &Case, change: impl FnOnce(&mut Case)) -> Case {
    let mut case = case.clone();
    change(&mut case);
    case
}

/// Plays each on a thread of its own.
fn play_all(cases: &[(usize, Case)]) -> Result<Vec<Result<Played, PlayError>>, PlayError> {
    std::thread::scope(|scope| {
        let thread = || std::thread::Builder::new().stack_size(STACK);
        let threads = cases.iter().map(|(_, case)| thread().spawn_scoped(scope, || play_alone(case)));
        let threads: Vec<_> = threads.collect::<Result<_, _>>()?;
        Ok(threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect())
    })
}

/// Takes a field out of an object.
fn remove(object: &mut Value, pointer: &str) {
    if let Some((parent, field)) = pointer.rsplit_once('/')
        && let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut)
    {
        parent.remove(field);
    }
}

/// Where an operation says how many replicas there are to be.
fn replicas_of(act: &mut Act) -> Option<&mut Value> {
    match act {
        Act::Create(object) | Act::Apply(object) => object.pointer_mut("/spec/replicas"),
        Act::Patch(target) => target.merge.pointer_mut("/spec/replicas"),
        _ => None,
    }
}

fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}

fn whole_millis(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// In whole seconds, where there are any.
fn rounded(duration: Duration) -> Duration {
    if duration.as_secs() > 0 { whole_seconds(duration) } else { duration }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Profile;
    use crate::weather::Weather;

    /// Contract: SI-03
    #[test]
    fn what_is_found_does_not_depend_on_how_many_are_played_at_once() {
        let slow = Weather::named("slow-watches").expect("weather");
        let mut case = Profile::Rollouts.case(1, Some(&[slow]));
        case.operations.truncate(3);
        let bad = |played: &Played| played.writes.iter().any(|write| write.path.contains("replicasets"));
        for (patience, is_smallest) in [(6, false), (100, true)] {
            let [alone, two, five] = [1, 2, 5].map(|jobs| {
                let mut heard = Vec::new();
                let mut goes_on = |case: &Case, tried: usize| {
                    heard.push((case.clone(), tried));
                    tried < patience
                };
                let shrunk = shrink(&case, &bad, jobs, 1_000, &mut goes_on).expect("a world").expect("it is so");
                (shrunk.case, shrunk.tried, shrunk.smallest, heard)
            });
            assert!(alone.0 != case && alone.1 >= 6 && alone.2 == is_smallest, "{} were tried", alone.1);
            assert_eq!(alone, two);
            assert_eq!(alone, five);
        }
    }
}
