//! One container's life: what it is doing, how it ended, and when that changes next.

use std::sync::Arc;
use std::time::Duration;

use muster_objects::{Moment, Timestamp};

use super::life::Now;
use crate::duration::GoDuration;
use crate::fate::{Directions, Fate};
use crate::pod::{Container, End, Pod, RestartPolicy};

/// A container's life.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) name: Arc<str>,
    pub(super) image: Arc<str>,
    pub(super) init: bool,
    pub(super) sidecar: bool,
    /// How it ends by its command.
    pub(super) end: Option<End>,
    pub(super) state: UnitState,
    /// How it ended the last time.
    pub(super) last: Option<Exit>,
    pub(super) restarts: u32,
    pub(super) ready: bool,
    pub(super) ready_after: Duration,
    pub(super) ready_due: Option<Moment>,
    /// When its state changes next.
    pub(super) due: Option<Moment>,
    pub(super) started: Moment,
    pub(super) backoff: Duration,
}

/// What a container is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UnitState {
    /// Waiting for its turn: ContainerCreating, or PodInitializing in a pod with init containers.
    Creating,
    /// Waiting: its image could not be pulled just now.
    PullError,
    /// Waiting to try pulling its image again.
    PullBackOff,
    /// Waiting: what its environment refers to is not there, with what is the matter.
    ConfigError(Box<str>),
    /// Waiting to be restarted, this long.
    CrashBackOff(Duration),
    /// Running since then.
    Running(Timestamp),
    /// Over, or about to be restarted.
    Exited(Exit),
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) code: i32,
    pub(super) started: Timestamp,
    pub(super) finished: Timestamp,
    /// Which of its runs it was.
    pub(super) run: u32,
}

impl Unit {
    /// A container that has not begun.
    pub(super) fn new(container: &Container, init: bool) -> Self {
        Self {
            name: Arc::clone(&container.name),
            image: Arc::clone(&container.image),
            init,
            sidecar: container.sidecar,
            end: container.end,
            state: UnitState::Creating,
            last: None,
            restarts: 0,
            ready: false,
            ready_after: container.ready_after,
            ready_due: None,
            due: None,
            started: Moment::ORIGIN,
            backoff: Duration::ZERO,
        }
    }

    /// Whether the pod's readiness depends on it: ordinary init containers come and go.
    pub(super) fn reports_readiness(&self) -> bool {
        !self.init || self.sidecar
    }

    /// Whether it ever ran.
    pub(super) fn has_started(&self) -> bool {
        self.last.is_some() || matches!(self.state, UnitState::Running(_) | UnitState::Exited(_))
    }

    /// Whether, as an init container, it holds nothing up.
    pub(super) fn is_initialized(&self) -> bool {
        match &self.state {
            UnitState::Running(_) => self.sidecar,
            UnitState::Exited(exit) => exit.code == 0,
            _ => false,
        }
    }

    /// The message beside CrashLoopBackOff.
    pub(super) fn crash_message(&self, pod: &Pod, backoff: Duration) -> String {
        let Pod { meta, .. } = pod;
        let backoff = GoDuration(backoff);
        let name = &self.name;
        format!(
            "back-off {backoff} restarting failed container={name} pod={}_{}({})",
            meta.name, meta.namespace, meta.uid
        )
    }

    pub(super) fn exit(&mut self, code: i32, now: Now) {
        let started = if let UnitState::Running(started) = self.state { started } else { now.wall };
        let exit = Exit { code, started, finished: now.wall, run: self.restarts };
        self.last = Some(exit.clone());
        self.state = UnitState::Exited(exit);
        self.ready = false;
        self.ready_due = None;
        self.due = None;
    }

    /// When it exits by itself if it is started now: as the pod's annotations direct, or else as its command says.
    pub(super) fn exit_due(&self, directions: &Directions, now: Moment) -> Option<Moment> {
        let directed = matches!(directions.fate, Fate::CrashLoop | Fate::Fail | Fate::Succeed);
        if directed && !self.init && directions.concerns(&self.name) {
            return Some(now + directions.run_for());
        }
        self.end.filter(|_| !self.sidecar).map(|end| now + end.after)
    }

    /// What it exits with.
    pub(super) fn exit_code(&self, directions: &Directions) -> i32 {
        match self.end {
            Some(end) if self.init || directions.fate != Fate::CrashLoop || !directions.concerns(&self.name) => {
                end.code
            }
            _ => directions.exit_code.unwrap_or(1),
        }
    }
}

/// The containers of a pod, init containers first, none of them begun.
pub(super) fn units_of(pod: &Pod) -> Box<[Unit]> {
    let init = pod.spec.init_containers.iter().map(|container| Unit::new(container, true));
    init.chain(pod.spec.containers.iter().map(|container| Unit::new(container, false))).collect()
}

/// Whether a container that exited with `code` is started again.
pub(super) fn should_restart(policy: RestartPolicy, code: i32) -> bool {
    match policy {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => code != 0,
        RestartPolicy::Never => false,
    }
}
