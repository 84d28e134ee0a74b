//! Makes a case smaller for as long as something is true of it, such as that it breaks a law.

use std::time::Duration;

use muster_tree::{Value, json};

use super::play::{PlayError, Played, play_alone};
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
/// played after each. None where the case itself is not bad.
///
/// # Errors
/// As [`play_alone`].
pub fn shrink(
    case: &Case,
    bad: &dyn Fn(&Played) -> bool,
    most: usize,
    goes_on: &mut dyn FnMut(&Case, usize) -> bool,
) -> Result<Option<Shrunk>, PlayError> {
    let played = play_alone(case)?;
    if !bad(&played) {
        return Ok(None);
    }
    let mut search = Search { bad, most, tried: 1, over: false, best: case.clone(), played, goes_on };
    search.shrink()?;
    let Search { best, played, tried, over, .. } = search;
    Ok(Some(Shrunk { case: best, played, tried, smallest: !over }))
}

struct Search<'t> {
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
            if self.best == before || self.over {
                return Ok(());
            }
        }
    }

    /// Takes this one if it is bad too.
    fn accept(&mut self, case: Case) -> Result<bool, PlayError> {
        if case == self.best {
            return Ok(false);
        }
        self.over = self.over || self.tried >= self.most || !(self.goes_on)(&self.best, self.tried);
        if self.over {
            return Ok(false);
        }
        self.tried += 1;
        let played = play_alone(&case)?;
        let smaller = (self.bad)(&played);
        if smaller {
            (self.best, self.played) = (case, played);
        }
        Ok(smaller)
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
            while start < count(&self.best) {
                let mut smaller = self.best.clone();
                remove(&mut smaller, start..(start + width).min(count(&self.best)));
                if !self.accept(smaller)? {
                    start += width;
                }
            }
            width /= 2;
        }
        Ok(())
    }

    /// In place of rules that strike by chance: what they have struck.
    fn name_strikes(&mut self) -> Result<(), PlayError> {
        let until = Some(self.best.faults_end());
        let faults = self.played.struck.iter().map(|struck| Rule { until, ..struck.rule() }).collect();
        self.accept(Case { faults, ..self.best.clone() }).map(drop)
    }

    /// Faults that strike an earlier request, or whichever object's it is: what they depend on can then be left out.
    fn sooner(&mut self) -> Result<(), PlayError> {
        for at in 0..self.best.faults.len() {
            while let Some(nth) = self.best.faults[at].nth {
                let Rule { name, .. } = &self.best.faults[at];
                let (named, any) = (name.clone(), None);
                let easier = [(any, 1), (named.clone(), 1), (named.clone(), nth / 2), (named, nth.saturating_sub(1))];
                let mut found = false;
                for (name, nth) in easier.into_iter().filter(|(_, nth)| *nth > 0) {
                    let mut case = self.best.clone();
                    (case.faults[at].name, case.faults[at].nth) = (name, Some(nth));
                    found = self.accept(case)?;
                    if found {
                        break;
                    }
                }
                if !found {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Shorter times: of pods, between operations, and of faults.
    fn shorten(&mut self) -> Result<(), PlayError> {
        self.accept(Case { pod_startup: Duration::ZERO..Duration::ZERO, ..self.best.clone() })?;
        self.accept(Case { pod_shutdown: Duration::ZERO, ..self.best.clone() })?;
        for at in 1..self.best.operations.len() {
            let gap = self.best.operations[at].at.saturating_sub(self.best.operations[at - 1].at);
            for less in [gap, whole_seconds(gap), whole_millis(gap / 2)] {
                let mut earlier = self.best.clone();
                earlier.operations[at..].iter_mut().for_each(|later| later.at = later.at.saturating_sub(less));
                if self.accept(earlier)? {
                    break;
                }
            }
        }
        for at in 0..self.best.faults.len() {
            let Some(longest) = self.best.faults[at].fault.duration() else { continue };
            for shorter in
                [Duration::from_millis(1), Duration::from_secs(1), rounded(longest), whole_millis(longest / 2)]
            {
                if shorter >= longest {
                    continue;
                }
                let mut quicker = self.best.clone();
                quicker.faults[at].fault = quicker.faults[at].fault.lasting(shorter);
                if self.accept(quicker)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Fewer replicas, and no field that is not needed.
    fn lessen(&mut self) -> Result<(), PlayError> {
        for at in 0..self.best.operations.len() {
            while let Some(replicas) = replicas_of(&mut self.best.operations[at].act).and_then(|found| found.as_u64()) {
                let mut smaller = None;
                for fewer in [replicas / 2, replicas.saturating_sub(1)] {
                    let mut case = self.best.clone();
                    if let Some(found) = replicas_of(&mut case.operations[at].act) {
                        *found = json!(fewer);
                    }
                    if fewer < replicas && self.accept(case)? {
                        smaller = Some(fewer);
                        break;
                    }
                }
                if smaller.is_none() {
                    break;
                }
            }
        }
        // What a patch changes besides.
        for at in 0..self.best.operations.len() {
            for pointer in ["/spec/template/metadata", "/spec/template", "/spec/strategy", "/spec/paused", "/metadata"]
            {
                let mut case = self.best.clone();
                if let Act::Patch(target) = &mut case.operations[at].act {
                    remove(&mut target.merge, pointer);
                }
                self.accept(case)?;
            }
        }
        for field in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds", "strategy"] {
            let mut case = self.best.clone();
            for operation in &mut case.operations {
                if let Act::Create(object) | Act::Apply(object) = &mut operation.act
                    && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
                {
                    spec.remove(field);
                }
            }
            self.accept(case)?;
        }
        Ok(())
    }
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
