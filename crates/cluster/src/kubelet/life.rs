//! One pod's life on a node: its stage, phase and conditions, and when they change next (SIM-03 to SIM-05).
//!
//! ```text
//!   Creating --startup, its volumes' sources are there--> init containers, one by one --> Running --> (Ready after its probes' delays)
//!                                                          |  exits: restarted, backed off, or over
//!      deletion, from any of these: stops for min(grace, pod-shutdown), then is deleted
//! ```

mod containers;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use muster_objects::{Moment, PodPhase, Timestamp};

use super::needs::Lack;
use super::note::{Note, Notes};
use super::unit::{Unit, UnitState, units_of};
use crate::fate::{Fate, image_is_missing};
use crate::pod::{Container, NeededBy, Pod, RestartPolicy};

/// What a program exits with that SIGTERM ends.
const TERMINATED: i32 = 143;

/// How long after someone else ended a pod in its status alone the node says again what it runs.
const REASSERT: Duration = Duration::from_millis(500);

/// How long after someone else wrote that a pod is not ready, or ready, the node writes again what it is: as often as
/// a kubelet compares its statuses with the server's.
const RECONCILE: Duration = Duration::from_secs(10);

/// Both clocks at once.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// For delays.
    pub moment: Moment,
    /// For what is written into objects.
    pub wall: Timestamp,
}

/// A pod's life.
#[derive(Debug)]
pub(super) struct Life {
    /// The pod as it was last seen.
    pub(super) pod: Arc<Pod>,
    /// When the node took it up: `status.startTime`.
    pub(super) began: Timestamp,
    /// Its address, from when its sandbox is up.
    pub(super) ip: Option<Ipv4Addr>,
    /// The phase to report.
    pub(super) phase: PodPhase,
    /// Reason and message to report beside it.
    pub(super) verdict: Option<(Arc<str>, Arc<str>)>,
    /// Init containers, then containers, in the pod's order.
    pub(super) units: Box<[Unit]>,
    /// Ephemeral containers, on which nothing else of the pod depends, from when they are started.
    pub(super) ephemeral: Vec<Unit>,
    /// The kubelet's own conditions.
    pub(super) conditions: Conditions,
    /// Whether events tell of this pod.
    pub(super) narrated: bool,
    stage: Stage,
    /// What it needs and what is not there; `None` while that is not known.
    lacks: Option<Box<[Lack]>>,
    /// How long one step of starting up takes.
    step: Duration,
    /// The same by the other clock: what its active deadline counts from.
    taken_up: Moment,
    /// When its active deadline ends.
    deadline: Option<Moment>,
    /// When it has stopped, once it is being deleted.
    stopped: Option<Moment>,
    /// When the node says again what it runs, after someone else wrote that the pod is over.
    reassert: Option<Moment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The sandbox is being made, until then (or for ever).
    Creating(Option<Moment>),
    /// The init container of that index has its turn.
    Initializing(usize),
    Running,
    /// Succeeded or Failed.
    Over,
}

/// A condition: whether it is True, and since when it is what it is.
pub(super) type Condition = (bool, Timestamp);

/// The conditions that a kubelet writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conditions {
    pub(super) sandbox: Condition,
    pub(super) initialized: Condition,
    pub(super) containers_ready: Condition,
    pub(super) ready: Condition,
}

impl Life {
    /// A pod that the node takes up now, and that is up `startup` later.
    pub(super) fn begin(pod: &Arc<Pod>, now: Now, startup: Duration, narrated: bool) -> Self {
        let directions = pod.directions();
        let fate = directions.fate;
        let units: Box<[Unit]> = units_of(pod);
        let turns = units.iter().filter(|unit| unit.init && !unit.sidecar).count();
        // Half a day of init containers does not overflow, and the API holds far fewer.
        let step = startup / u32::try_from(turns + 1).unwrap_or(u32::MAX);
        let no = (false, now.wall);
        let mut life = Self {
            pod: Arc::clone(pod),
            began: now.wall,
            ip: None,
            phase: PodPhase::Pending,
            verdict: None,
            units,
            ephemeral: Vec::new(),
            conditions: Conditions { sandbox: no, initialized: no, containers_ready: no, ready: no },
            narrated,
            lacks: (!pod.extras().has_needs()).then(Box::default),
            stage: Stage::Creating((fate != Fate::NeverStart).then(|| now.moment + step)),
            step,
            taken_up: now.moment,
            deadline: deadline(pod, now.moment),
            stopped: None,
            reassert: None,
        };
        if fate == Fate::Reject {
            let reason = directions.reason.as_deref().unwrap_or("UnexpectedAdmissionError");
            life.reject(reason, directions.message.as_deref().unwrap_or("the node's annotation says so"), now);
        }
        life.refresh(now);
        life
    }

    /// The node does not admit the pod.
    pub(super) fn reject(&mut self, reason: &str, message: &str, now: Now) {
        self.end(PodPhase::Failed, Some((reason.into(), format!("Pod was rejected: {message}").into())));
        self.refresh(now);
    }

    /// Whether the pod has ended: nothing of it runs, or will.
    pub(super) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// A pod that was reported before this node's agent knew of it: it goes on as it was.
    pub(super) fn resume(pod: &Arc<Pod>, now: Now, narrated: bool) -> Self {
        let mut life = Self::begin(pod, now, Duration::ZERO, narrated);
        life.began = pod.status.start_time.unwrap_or(now.wall);
        life.taken_up = now.moment - now.wall.saturating_since(life.began);
        life.deadline = deadline(pod, life.taken_up);
        life.ip = pod.status.pod_ips.first().and_then(|ip| ip.parse().ok());
        if pod.is_terminal() {
            life.end(pod.status.phase, None);
            return life;
        }
        if pod.status.phase == PodPhase::Running {
            life.lacks = Some(Box::default());
            life.advance(now, &mut Notes::silent());
            let mut names: Vec<usize> = (0..life.units.len()).filter(|at| !life.units[*at].init).collect();
            names.sort_by(|a, b| life.units[*a].name.cmp(&life.units[*b].name));
            for (count, at) in pod.status.restarts.iter().zip(names) {
                life.units[at].restarts = *count;
            }
            let settled = pod.status.ready;
            for unit in life.units.iter_mut().filter(|unit| settled && unit.ready_due.is_some()) {
                (unit.ready, unit.ready_due) = (true, None);
            }
            life.refresh(now);
        }
        life
    }

    /// The pod as it is now seen. Returns whether there is something to report.
    pub(super) fn update(&mut self, pod: &Arc<Pod>, now: Now, shutdown: Duration, notes: &mut Notes) -> bool {
        let old = std::mem::replace(&mut self.pod, Arc::clone(pod));
        if pod.is_terminal() && self.stage != Stage::Over {
            if self.runs() && !pod.meta.is_being_deleted() {
                // A status stops no container. The node is who knows what runs, and says it once more.
                self.reassert = self.reassert.or(Some(now.moment + REASSERT));
            } else {
                // Someone else ended what never ran; of that phase there is no way back.
                self.end(pod.status.phase, None);
            }
        } else if pod.status.ready != self.conditions.ready.0 && self.stage == Stage::Running {
            // Mostly the node's own report is under way. But the node may have been taken for dead, or the server
            // restored to an earlier version.
            self.reassert = self.reassert.or(Some(now.moment + RECONCILE));
        } else {
            self.reassert = None;
        }
        if pod.meta.is_being_deleted() {
            let nothing_runs = matches!(self.stage, Stage::Creating(_) | Stage::Over);
            let grace = Duration::from_secs(pod.deletion_grace.unwrap_or(30));
            let takes =
                if nothing_runs { Duration::ZERO } else { grace.min(pod.directions().shutdown.unwrap_or(shutdown)) };
            let at = now.moment + takes;
            if self.stopped.is_none() {
                for unit in self.units.iter().filter(|unit| matches!(unit.state, UnitState::Running(_))) {
                    notes.push(self, unit, Note::Killing);
                }
            }
            self.stopped = Some(self.stopped.map_or(at, |stopped| stopped.min(at)));
            return false;
        }
        if self.stage == Stage::Over {
            return false;
        }
        if old.spec.active_deadline != pod.spec.active_deadline {
            self.deadline = deadline(pod, self.taken_up);
        }
        // A report says of which generation it is.
        let mut changed =
            old.status.unready_gates != pod.status.unready_gates || old.meta.generation != pod.meta.generation;
        changed |= self.start_ephemeral(now, notes);
        if old.directions != pod.directions {
            changed |= self.redirect(now, notes);
        }
        let containers = pod.spec.init_containers.iter().chain(&pod.spec.containers);
        for (at, container) in containers.enumerate() {
            if self.units.get(at).is_some_and(|unit| unit.image != container.image) {
                changed |= self.change_image(at, container, now, notes);
            }
        }
        if changed {
            self.refresh(now);
        }
        changed
    }

    /// Does what is due. Returns whether there is something to report.
    pub(super) fn advance(&mut self, now: Now, notes: &mut Notes) -> bool {
        let mut changed = false;
        while self.stopped.is_none() && self.due().is_some_and(|due| due <= now.moment) {
            changed = true;
            self.step(now, notes);
        }
        if changed {
            self.refresh(now);
        }
        changed
    }

    /// When something is due next.
    pub(super) fn due(&self) -> Option<Moment> {
        if self.stopped.is_some() {
            return self.stopped;
        }
        if self.stage == Stage::Over {
            return None;
        }
        let creating = if let Stage::Creating(due) = self.stage { due.filter(|_| self.has_volumes()) } else { None };
        let units = self.units.iter().flat_map(|unit| [unit.due, unit.ready_due]);
        units.chain([creating, self.deadline, self.reassert]).flatten().min()
    }

    /// Whether a deletion has come so far that the object can go.
    pub(super) fn has_stopped(&self, now: Moment) -> bool {
        self.stopped.is_some_and(|stopped| stopped <= now)
    }

    /// Stops every container and ends the pod: what a pod that finalizers keep shows to the end.
    ///
    /// A server ends in good order when it is told to. A task that is told to has not done its work, so that a Job whose
    /// pod is deleted or evicted must not count it as a success; nor must it one that never ran.
    pub(super) fn finish(&mut self, now: Now) -> bool {
        if self.stage == Stage::Over {
            return false;
        }
        let code = if self.pod.spec.restart_policy == RestartPolicy::Always { 0 } else { TERMINATED };
        self.exit_all(code, now);
        let succeeded = |unit: &Unit| matches!(&unit.state, UnitState::Exited(exit) if exit.code == 0);
        let failed = !self.units.iter().filter(|unit| !unit.init).all(succeeded);
        self.end(if failed { PodPhase::Failed } else { PodPhase::Succeeded }, None);
        self.refresh(now);
        true
    }

    /// Whether a container runs.
    fn runs(&self) -> bool {
        self.stage == Stage::Running && self.units.iter().any(|unit| matches!(unit.state, UnitState::Running(_)))
    }

    fn step(&mut self, now: Now, notes: &mut Notes) {
        // To be reported as it is.
        if self.reassert.is_some_and(|due| due <= now.moment) {
            self.reassert = None;
            return;
        }
        if self.deadline.is_some_and(|deadline| deadline <= now.moment) {
            self.exit_all(137, now);
            let message = "Pod was active on the node longer than the specified deadline";
            self.end(PodPhase::Failed, Some(("DeadlineExceeded".into(), message.into())));
            return;
        }
        if let Stage::Creating(Some(due)) = self.stage
            && due <= now.moment
            && self.has_volumes()
        {
            self.conditions.sandbox.0 = true;
            self.start_ephemeral(now, notes);
            self.take_turn(0, now, notes);
            return;
        }
        for at in 0..self.units.len() {
            let unit = &mut self.units[at];
            if unit.ready_due.is_some_and(|due| due <= now.moment) {
                unit.ready_due = None;
                unit.ready = true;
            }
            if unit.due.is_some_and(|due| due <= now.moment) {
                unit.due = None;
                self.step_unit(at, now, notes);
                return;
            }
        }
    }

    /// The annotations changed: the new fate holds from now on.
    fn redirect(&mut self, now: Now, notes: &mut Notes) -> bool {
        let pod = Arc::clone(&self.pod);
        let directions = pod.directions();
        match (self.stage, directions.fate) {
            (Stage::Creating(_), Fate::NeverStart) => {
                self.stage = Stage::Creating(None);
                return false;
            }
            (Stage::Creating(due), _) => {
                self.stage = Stage::Creating(due.or(Some(now.moment)));
                return false;
            }
            (_, Fate::Reject) => {
                self.exit_all(137, now);
                let reason = directions.reason.clone().unwrap_or_else(|| "Evicted".into());
                self.end(PodPhase::Failed, Some((reason, directions.message.clone().unwrap_or_default())));
                return true;
            }
            _ => {}
        }
        let mut changed = false;
        for at in 0..self.units.len() {
            let unit = &mut self.units[at];
            match unit.state {
                UnitState::Running(_) if !unit.init => {
                    let due = unit.exit_due(directions, now.moment);
                    unit.due = due.map(|due| unit.due.unwrap_or(due));
                    if directions.fate == Fate::NeverReady {
                        changed |= unit.ready;
                        (unit.ready, unit.ready_due) = (false, None);
                    } else if !unit.ready && unit.ready_due.is_none() {
                        unit.ready_due = Some(now.moment + directions.ready_after);
                    }
                }
                UnitState::PullError | UnitState::PullBackOff
                    if directions.fate != Fate::ImagePullError && !image_is_missing(&unit.image) =>
                {
                    self.start_anew(at, now, notes);
                    changed = true;
                }
                _ => {}
            }
        }
        changed
    }

    /// A container's image was changed: the container is replaced by one of the new image.
    fn change_image(&mut self, at: usize, container: &Container, now: Now, notes: &mut Notes) -> bool {
        let unit = &mut self.units[at];
        unit.image = Arc::clone(&container.image);
        match unit.state {
            UnitState::Running(_) if !unit.init || unit.sidecar => {
                notes.push(self, &self.units[at], Note::Killing);
                let unit = &mut self.units[at];
                unit.exit(0, now);
                unit.restarts += 1;
                self.start(at, now, notes);
                true
            }
            UnitState::PullError | UnitState::PullBackOff | UnitState::ConfigError(_) => {
                self.start_anew(at, now, notes);
                true
            }
            _ => false,
        }
    }

    /// It is now known what the pod lacks. Returns whether there is something to report.
    pub(super) fn supply(&mut self, lacks: Box<[Lack]>, now: Now, notes: &mut Notes) -> bool {
        let old = self.lacks.replace(lacks);
        if self.stage == Stage::Over || self.stopped.is_some() {
            return false;
        }
        if matches!(self.stage, Stage::Creating(_)) {
            if !self.has_volumes() && old != self.lacks {
                notes.push_lacks(self, self.lacks.as_deref().unwrap_or_default());
            }
            return false;
        }
        let mut changed = false;
        for at in 0..self.units.len() {
            let unit = &self.units[at];
            if let UnitState::ConfigError(message) = &unit.state
                && containers::lacking(self.lacks.as_deref(), &unit.name) != Some(&**message)
            {
                self.start_anew(at, now, notes);
                changed = true;
            }
        }
        if changed {
            self.refresh(now);
        }
        changed
    }

    /// Whether all is there that its volumes are made of.
    fn has_volumes(&self) -> bool {
        let volume = |lack: &Lack| matches!(lack.by, NeededBy::Volume(_));
        self.lacks.as_ref().is_some_and(|lacks| !lacks.iter().any(volume))
    }

    fn end(&mut self, phase: PodPhase, verdict: Option<(Arc<str>, Arc<str>)>) {
        self.stage = Stage::Over;
        self.phase = phase;
        self.verdict = verdict;
        for unit in &mut self.units {
            // An init container that has done its work counts as ready for ever.
            unit.ready = unit.init && !unit.sidecar && unit.is_initialized();
        }
    }

    /// Computes phase and conditions anew out of the containers' states.
    fn refresh(&mut self, now: Now) {
        if self.stage != Stage::Over {
            self.phase = self.compute_phase();
        }
        let over = self.stage == Stage::Over;
        let initialized = self.units.iter().filter(|unit| unit.init).all(Unit::is_initialized)
            || self.units.iter().any(|unit| !unit.init && unit.has_started());
        let containers_ready =
            !over && self.units.iter().filter(|unit| unit.reports_readiness()).all(|unit| unit.ready);
        let conditions = &mut self.conditions;
        set(&mut conditions.initialized, initialized || self.phase == PodPhase::Succeeded, now);
        set(&mut conditions.containers_ready, containers_ready, now);
        set(&mut conditions.ready, containers_ready && self.pod.status.unready_gates.is_none(), now);
    }

    fn compute_phase(&self) -> PodPhase {
        let (mut waiting, mut running, mut stopped) = (false, false, false);
        for unit in &self.units {
            match (&unit.state, unit.init && !unit.sidecar) {
                (UnitState::Running(_), false) => running = true,
                (UnitState::Exited(exit), true) if exit.code == 0 => {}
                (UnitState::Exited(_), false) => stopped |= !unit.sidecar,
                (_, false) if unit.last.is_some() => stopped |= !unit.sidecar,
                _ => waiting = true,
            }
        }
        if waiting || !(running || stopped) { PodPhase::Pending } else { PodPhase::Running }
    }
}

/// When a pod that was taken up then is ended whatever it does.
fn deadline(pod: &Pod, taken_up: Moment) -> Option<Moment> {
    pod.spec.active_deadline.map(|seconds| taken_up + Duration::from_secs(seconds))
}

fn set(condition: &mut Condition, status: bool, now: Now) {
    if condition.0 != status {
        *condition = (status, now.wall);
    }
}
