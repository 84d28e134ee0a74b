//! The managers of a case that has several, each a process that can be killed and frozen.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use muster_inspect::explain::Role;
use muster_inspect::inside::{Inside, Queue};
use muster_objects::Timestamp;
use muster_runtime::clock::Clock;
use muster_runtime::explain::Explainer;
use muster_runtime::manager::Options;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};

use super::Case;
use super::operation::{Pause, pick};
use super::take_over::Absences;
use crate::Candidate;
use crate::candidate::{Config, group};
use crate::faults::{Draw, Fault, Faults, Rule};
use crate::laws::writers::{GROUP, LEASE};
use crate::text;
use crate::world::{CONTROLLERS, World};

/// Several managers with Leases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Managers {
    /// How many there are at first.
    pub count: u32,
    /// Into how many shards they part the cluster; without it one of them leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<u32>,
    /// How far their clocks are apart at most.
    #[serde(default, with = "text::duration", skip_serializing_if = "Duration::is_zero")]
    pub clocks_apart: Duration,
}

/// The name of the one that is started after so many, the same in every case. The part up to the slash is whom rules for `controllers`
/// are about.
fn name_after(started: usize) -> &'static str {
    // Whoever writes is known by a name that outlives the case: each is made once.
    static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    while names.len() <= started {
        let name = format!("{CONTROLLERS}/{}", names.len() + 1);
        names.push(name.leak());
    }
    names[started]
}

/// How often it is looked whether one of them has ended.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The managers that run; none where a case has one without a Lease.
pub(super) struct Processes<'w> {
    world: &'w World,
    managers: Option<&'w Managers>,
    /// Their shortest time between two resyncs, where it is not the usual one.
    resync: Option<Duration>,
    draw: Draw,
    /// How many there are to be.
    wanted: usize,
    /// How many have been started.
    started: usize,
    running: Vec<Process>,
    absences: Absences,
}

struct Process {
    name: &'static str,
    candidate: Candidate,
    /// When it is thawed, if it is frozen.
    thaws: Option<Instant>,
}

impl<'w> Processes<'w> {
    /// Starts them, a while apart.
    pub(super) fn start(world: &'w World, case: &'w Case) -> Self {
        let managers = case.managers.as_ref();
        let wanted = managers.map_or(0, |managers| managers.count as usize);
        let draw = Draw::seeded(case.seed ^ 0xc0_c0e5);
        let resync = case.resync;
        let (running, absences) = (Vec::new(), Absences::default());
        let mut processes = Self { world, managers, resync, draw, wanted, started: 0, running, absences };
        processes.absences.wanted.push((processes.millis(), wanted));
        processes.fill();
        processes
    }

    /// Ends them, and tells when they could take nothing.
    pub(super) fn end(self) -> Absences {
        self.absences
    }

    /// To ask what each of them has decided: all shards of one write it down in one place.
    pub(super) fn explainers(&self) -> Vec<Explainer> {
        self.running.iter().filter_map(|process| process.candidate.explainers().into_iter().next()).collect()
    }

    /// Whether there is one manager only, without a Lease.
    pub(super) fn is_of_one(&self) -> bool {
        self.managers.is_none()
    }

    /// What each of those is doing that are at work, or the one that has no Lease.
    pub(super) fn insides(&self) -> Vec<Inside> {
        let processes = self.running.iter().map(|process| process.candidate.explainers());
        let all = processes.chain([vec![self.world.explainer().clone()]]);
        all.filter_map(|explainers| Explainer::work_of(&explainers, Role::Unelected).ok()).collect()
    }

    /// Whether a key waits for its time in one of their queues, as one does that has failed.
    pub(super) fn waits(&self) -> bool {
        self.insides().iter().any(|inside| inside.queues.iter().any(|queue| queue.waiting > 0))
    }

    /// Waits until then, and lets others take the places of those that end meanwhile.
    pub(super) async fn until(&mut self, then: Instant) {
        if self.managers.is_none() {
            return sleep_until(then).await;
        }
        loop {
            self.tend();
            let now = Instant::now();
            if now >= then {
                return;
            }
            let thaws = self.running.iter().filter_map(|process| process.thaws).min();
            let next = thaws.into_iter().chain([then, now + LOOK_EVERY]).min().unwrap_or(then);
            sleep_until(next).await;
        }
    }

    /// None of them is frozen any more, and there are as many as at first.
    pub(super) fn heal(&mut self) {
        self.thaw_until(None);
        if let Some(managers) = self.managers {
            self.number(managers.count);
        }
    }

    /// Thaws those whose time has come by a moment, or all.
    fn thaw_until(&mut self, moment: Option<Instant>) {
        for process in &mut self.running {
            if process.thaws.is_some_and(|thaws| moment.is_none_or(|moment| thaws <= moment)) {
                process.thaws = None;
                process.candidate.thaw(self.draw.below(u64::MAX));
            }
        }
    }

    /// Thaws those whose time has come, and replaces those that have ended.
    fn tend(&mut self) {
        self.thaw_until(Some(Instant::now()));
        let ended = self.running.extract_if(.., |process| process.candidate.has_ended());
        // As one whose Lease could not be renewed in time.
        let ended: Vec<_> = ended.map(|process| process.name).collect();
        ended.into_iter().for_each(|name| self.note_away(name, Duration::ZERO));
        self.fill();
    }

    fn fill(&mut self) {
        while self.running.len() < self.wanted {
            let name = name_after(self.started);
            self.started += 1;
            let Some(process) = self.managers.and_then(|managers| self.process(name, managers)) else { return };
            self.running.push(process);
        }
    }

    fn process(&mut self, name: &'static str, managers: &Managers) -> Option<Process> {
        let apart = i64::try_from(managers.clocks_apart.as_nanos()).unwrap_or(i64::MAX);
        let off = i64::try_from(self.draw.below(apart.unsigned_abs())).unwrap_or_default();
        let clock = Clock::starting_at(Timestamp::from_nanos(self.world.client().clock().now().as_nanos() + off));
        let mut options = Options { seed: self.draw.below(u64::MAX), ..Options::default() };
        options.min_resync_period = self.resync.unwrap_or(options.min_resync_period);
        let election = Config::new("kube-system", LEASE, String::new());
        let candidate = match managers.shards {
            None => Candidate::start(self.world, name, election, Some(clock), options).ok()?,
            Some(shards) => {
                let config = group::Config { election, group: GROUP.to_owned(), shards };
                Candidate::start_in_group(self.world, name, config, Some(clock), options).ok()?
            }
        };
        Some(Process { name, candidate, thaws: None })
    }

    fn pick(&self, which: u64) -> Option<usize> {
        let all: Vec<usize> = (0..self.running.len()).collect();
        pick(&all, which).copied()
    }

    /// One can write nothing for so long; without an end, for ever.
    fn note_gone(&mut self, name: &'static str, lasts: Option<Duration>) {
        let now = self.millis();
        let back = lasts.and_then(|lasts| now.checked_add(i64::try_from(lasts.as_millis()).ok()?));
        self.absences.gone.push((name, now..back.unwrap_or(i64::MAX)));
    }

    /// One can take nothing for so long, and until it is looked whether it has ended.
    fn note_away(&mut self, name: &'static str, lasts: Duration) {
        let now = self.millis();
        let lasts = i64::try_from((lasts + LOOK_EVERY).as_millis()).unwrap_or(i64::MAX);
        self.absences.away.push((name, now..now.saturating_add(lasts)));
    }

    fn millis(&self) -> i64 {
        self.world.client().clock().now().as_nanos() / 1_000_000
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self, which: u64) -> Option<()> {
        let at = self.pick(which)?;
        let Process { name, candidate, .. } = self.running.remove(at);
        candidate.kill();
        self.note_gone(name, None);
        self.note_away(name, Duration::ZERO);
        self.fill();
        Some(())
    }

    /// SIGTERM. It goes once it has ended.
    pub(super) fn stop(&mut self, which: u64) -> Option<()> {
        let at = self.pick(which)?;
        self.running[at].candidate.stop();
        self.note_away(self.running[at].name, Duration::ZERO);
        Some(())
    }

    /// SIGSTOP, and SIGCONT later.
    pub(super) fn freeze(&mut self, Pause { manager, lasts }: &Pause) -> Option<()> {
        let at = self.pick(*manager)?;
        let process = &mut self.running[at];
        process.candidate.freeze();
        // Who is frozen twice is thawed once.
        process.thaws = process.thaws.max(Some(Instant::now() + *lasts));
        let name = process.name;
        if *lasts >= LOST {
            self.note_gone(name, Some(*lasts));
            self.note_away(name, lasts.saturating_add(GIVES_UP));
        } else {
            self.note_away(name, *lasts);
        }
        Some(())
    }

    /// Its requests break before they arrive.
    pub(super) fn cut_off(&mut self, Pause { manager, lasts }: &Pause, faults: &Faults) -> Option<()> {
        let at = self.pick(*manager)?;
        let name = self.running[at].name;
        let now = faults.elapsed();
        faults.add(Rule::always(Fault::Reset).of(name).within(now..now.saturating_add(*lasts)));
        if *lasts >= LOST {
            self.note_gone(name, Some(*lasts));
        }
        // The holder of a Lease gives it up, and ends; others go on to ask for it.
        self.note_away(name, (*lasts).max(GIVES_UP));
        Some(())
    }

    /// There are so many from now on.
    pub(super) fn number(&mut self, count: u32) -> Option<()> {
        self.managers.as_ref()?;
        let count = count as usize;
        let too_many = self.running.len().saturating_sub(count);
        for at in 0..too_many {
            self.running[at].candidate.stop();
            self.note_away(self.running[at].name, Duration::ZERO);
        }
        self.absences.wanted.push((self.millis(), count));
        self.wanted = count;
        self.fill();
        Some(())
    }
}

/// Who cannot renew its Lease gives up after so long, and ends.
pub(super) const GIVES_UP: Duration = Duration::from_secs(10);
/// Whoever says nothing for so long has lost its Lease, which lasts for 15 s.
const LOST: Duration = Duration::from_secs(17);

/// Whether somebody is at work, and nothing is queued, due, in work or expected.
pub(super) fn is_idle(insides: &[Inside]) -> bool {
    let idle = |queue: &Queue| queue.ready + queue.working + queue.waiting == 0;
    !insides.is_empty() && insides.iter().all(|inside| inside.unmet == 0 && inside.queues.iter().all(idle))
}
