//! How the containers of a pod start, exit and start again (SIM-04).

use std::sync::Arc;
use std::time::Duration;

use muster_objects::PodPhase;

use super::super::needs::Lack;
use super::super::note::{Note, Notes};
use super::super::unit::{Unit, UnitState, should_restart};
use super::{Life, Now, Stage};
use crate::fate::{Fate, image_is_missing};
use crate::pod::{NeededBy, RestartPolicy};

/// How long after a failed pull a node says that it backs off.
const PULL_AGAIN: Duration = Duration::from_secs(2);
/// How long a container that exited for the first time takes to be restarted.
const FIRST_RESTART: Duration = Duration::from_secs(1);
/// The first pause of a crash loop, doubled each time.
const CRASH_BACKOFF: Duration = Duration::from_secs(10);
/// The longest one.
const MAX_CRASH_BACKOFF: Duration = Duration::from_secs(300);
/// A container that ran this long starts its crash loop anew.
const CRASH_BACKOFF_RESET: Duration = Duration::from_secs(600);

impl Life {
    /// Lets the init containers from `at` on run, up to one that takes its time, or else all containers.
    pub(super) fn take_turn(&mut self, at: usize, now: Now, notes: &mut Notes) {
        for at in at..self.units.len() {
            if !self.units[at].init {
                break;
            }
            self.start(at, now, notes);
            let running = matches!(self.units[at].state, UnitState::Running(_));
            if !(self.units[at].sidecar && running) {
                self.stage = Stage::Initializing(at);
                if running {
                    self.units[at].due = self.units[at].due.or(Some(now.moment + self.step));
                }
                return;
            }
        }
        self.stage = Stage::Running;
        for at in 0..self.units.len() {
            if !self.units[at].init {
                self.start(at, now, notes);
            }
        }
    }

    /// Starts the ephemeral containers that have come, once there is a sandbox for them. Returns whether one was.
    pub(super) fn start_ephemeral(&mut self, now: Now, notes: &mut Notes) -> bool {
        let (pod, known) = (Arc::clone(&self.pod), self.ephemeral.len());
        let wanted = &pod.extras().ephemeral_containers;
        if !self.conditions.sandbox.0 || wanted.len() <= known {
            return false;
        }
        for container in &wanted[known..] {
            let mut unit = Unit::new(container, false);
            let missing = image_is_missing(&unit.image);
            (unit.state, unit.started) =
                (if missing { UnitState::PullBackOff } else { UnitState::Running(now.wall) }, now.moment);
            notes.push(self, &unit, if missing { Note::PullFailed } else { Note::Started });
            self.ephemeral.push(unit);
        }
        true
    }

    /// Starts a container, or fails to pull its image.
    pub(super) fn start(&mut self, at: usize, now: Now, notes: &mut Notes) {
        let pod = Arc::clone(&self.pod);
        let directions = pod.directions();
        let quick = self.step.is_zero();
        let unit = &mut self.units[at];
        if image_is_missing(&unit.image) || directions.fate == Fate::ImagePullError {
            // A node that starts pods at once has no time to show the first failure.
            unit.state = if quick { UnitState::PullBackOff } else { UnitState::PullError };
            unit.due = (!quick).then(|| now.moment + PULL_AGAIN);
            notes.push(self, &self.units[at], Note::PullFailed);
            if quick {
                notes.push(self, &self.units[at], Note::PullBackOff);
            }
            return;
        }
        if let Some(message) = lacking(self.lacks.as_deref(), &unit.name) {
            unit.state = UnitState::ConfigError(message.into());
            notes.push(self, &self.units[at], Note::ConfigError);
            return;
        }
        unit.state = UnitState::Running(now.wall);
        unit.started = now.moment;
        unit.due = unit.exit_due(directions, now.moment);
        unit.ready_due = None;
        unit.ready = false;
        if unit.reports_readiness() && (unit.init || directions.fate != Fate::NeverReady) {
            let after = unit.ready_after + directions.ready_after;
            unit.ready = after.is_zero();
            unit.ready_due = (!unit.ready).then(|| now.moment + after);
        }
        notes.push(self, &self.units[at], Note::Started);
        if directions.fate == Fate::NeverReady && !self.units[at].init {
            notes.push(self, &self.units[at], Note::Unhealthy);
        }
    }

    /// Does what is due with a container.
    pub(super) fn step_unit(&mut self, at: usize, now: Now, notes: &mut Notes) {
        let pod = Arc::clone(&self.pod);
        let directions = pod.directions();
        match self.units[at].state {
            UnitState::PullError => {
                self.units[at].state = UnitState::PullBackOff;
                notes.push(self, &self.units[at], Note::PullBackOff);
            }
            UnitState::Running(_) if self.units[at].init => match self.units[at].end {
                Some(end) if end.code != 0 => self.fail_init(at, end.code, now, notes),
                _ => {
                    self.units[at].exit(0, now);
                    self.units[at].ready = true;
                    self.take_turn(at + 1, now, notes);
                }
            },
            UnitState::Running(_) => match directions.fate {
                Fate::Fail => {
                    self.exit_all(directions.exit_code.unwrap_or(1), now);
                    let reason = directions.reason.clone();
                    let verdict = reason.map(|reason| (reason, directions.message.clone().unwrap_or_default()));
                    self.end(PodPhase::Failed, verdict);
                }
                Fate::Succeed => {
                    self.exit_all(0, now);
                    self.end(PodPhase::Succeeded, None);
                }
                _ => self.crash(at, self.units[at].exit_code(directions), now, notes),
            },
            UnitState::Exited(_) | UnitState::CrashBackOff(_) => {
                self.units[at].restarts += 1;
                self.start_anew(at, now, notes);
            }
            UnitState::Creating | UnitState::PullBackOff | UnitState::ConfigError(_) => {}
        }
    }

    /// A container exits by itself: its pod's restart policy says what follows.
    fn crash(&mut self, at: usize, code: i32, now: Now, notes: &mut Notes) {
        let policy = self.pod.spec.restart_policy;
        self.units[at].exit(code, now);
        if should_restart(policy, code) {
            self.back_off(at, now, notes);
            return;
        }
        let regular = || self.units.iter().filter(|unit| !unit.init);
        let over = |unit: &Unit| matches!(&unit.state, UnitState::Exited(exit) if !should_restart(policy, exit.code));
        if regular().all(over) {
            let failed = regular().any(|unit| matches!(&unit.state, UnitState::Exited(exit) if exit.code != 0));
            self.exit_all(0, now);
            self.end(if failed { PodPhase::Failed } else { PodPhase::Succeeded }, None);
        }
    }

    /// An init container exits and has not done its work: it is tried again, or the pod has failed.
    fn fail_init(&mut self, at: usize, code: i32, now: Now, notes: &mut Notes) {
        self.units[at].exit(code, now);
        if self.pod.spec.restart_policy == RestartPolicy::Never {
            self.exit_all(0, now);
            self.end(PodPhase::Failed, None);
        } else {
            self.back_off(at, now, notes);
        }
    }

    /// A container that exited is restarted, at once the first time and ever later after.
    fn back_off(&mut self, at: usize, now: Now, notes: &mut Notes) {
        let unit = &mut self.units[at];
        if now.moment.saturating_since(unit.started) >= CRASH_BACKOFF_RESET {
            unit.backoff = Duration::ZERO;
        }
        if unit.backoff.is_zero() {
            unit.backoff = CRASH_BACKOFF;
            unit.due = Some(now.moment + FIRST_RESTART);
        } else {
            unit.state = UnitState::CrashBackOff(unit.backoff);
            unit.due = Some(now.moment + unit.backoff);
            unit.backoff = (unit.backoff * 2).min(MAX_CRASH_BACKOFF);
            notes.push(self, &self.units[at], Note::CrashBackOff);
        }
    }

    /// Starts a container anew, or its whole turn where it is an init container.
    pub(super) fn start_anew(&mut self, at: usize, now: Now, notes: &mut Notes) {
        match self.stage {
            Stage::Initializing(turn) if turn == at => self.take_turn(at, now, notes),
            _ => self.start(at, now, notes),
        }
    }

    /// Ends all containers that run.
    pub(super) fn exit_all(&mut self, code: i32, now: Now) {
        for unit in self.units.iter_mut().chain(&mut self.ephemeral) {
            if matches!(unit.state, UnitState::Running(_)) {
                unit.exit(code, now);
            }
            unit.due = None;
        }
    }
}

/// What is the matter with the environment of a container, if anything is.
pub(super) fn lacking<'l>(lacks: Option<&'l [Lack]>, container: &str) -> Option<&'l str> {
    let lacks = lacks.unwrap_or_default().iter();
    let of = |lack: &&Lack| matches!(&lack.by, NeededBy::Container(name) if **name == *container);
    lacks.into_iter().find(of).map(|lack| &*lack.message)
}
