//! A case: a whole simulated history as data, to be written down, replayed, and made smaller.
//!
//! ```yaml
//! seed: 7
//! podStartup: 200ms..800ms
//! podShutdown: 1s
//! operations:
//! - at: 0s
//!   do:
//!     create:
//!       apiVersion: apps/v1
//!       kind: Deployment
//!       metadata: {name: web}
//!       spec: {...}
//! - at: 4.2s
//!   do: {delete-pod: 17}
//! faults:
//! - fault: answer-lost
//!   client: controllers
//!   verbs: [create]
//!   resources: [pods]
//!   nth: 3
//! ```
//!
//! The seed is that of names, delays and jitter, and of the chance of the faults that have any. What an operation picks it
//! says by a number of its own, so that leaving out one leaves the others as they were.

mod draw;
mod ends;
mod figures;
mod operation;
mod panics;
mod play;
mod processes;
mod settled;
mod shrink;
mod sieve;
mod story;
mod take_over;

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use muster_cluster::DelayRange;
use muster_runtime::manager::Options;
use muster_runtime::yaml;
use muster_tree::Value;
use serde::{Deserialize, Serialize};

pub use draw::{Profile, Surroundings, rollout_of};
pub use figures::Figures;
pub use operation::{Act, Doomed, DoomedSet, Operation, Pause, Propagation, Target, Undone, Workload};
pub use play::{End, PlayError, Played, STACK, play_alone};
use processes::GIVES_UP;
pub use processes::Managers;
pub use shrink::{Shrunk, shrink};
pub use sieve::{Sieve, Sieved};
pub use story::story;

use crate::api::name;
use crate::faults::{Fault, LONGEST, Rule};
use crate::text;
use crate::world::{CLUSTER, Settings};

/// Settings, operations and faults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Case {
    /// Of everything that is left to chance.
    pub seed: u64,
    /// How many simulated nodes there are: 3 unless it is said.
    #[serde(default = "three", skip_serializing_if = "is_three")]
    pub nodes: u32,
    /// In how many zones they are, one after the other in each: in none unless it is said.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub zones: u32,
    /// How long a pod takes to become ready: 200 to 800 ms unless it is said.
    #[serde(default = "startup", with = "text::range")]
    pub pod_startup: Range<Duration>,
    /// The longest time that a deleted pod keeps terminating: 1 s unless it is said.
    #[serde(default = "shutdown", with = "text::duration")]
    pub pod_shutdown: Duration,
    /// The shortest time between two resyncs of the controllers, each of which looks for events that never came: 12 h unless it is
    /// said, and in truth up to twice that.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text::optional_duration")]
    pub resync: Option<Duration>,
    /// Several managers with Leases; unless it is said one without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managers: Option<Managers>,
    /// What is done, in this order.
    pub operations: Vec<Operation>,
    /// What strikes requests. All of them end with the last operation, or with the last of their own ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Rule>,
}

fn three() -> u32 {
    3
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_three(nodes: &u32) -> bool {
    *nodes == three()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(zones: &u32) -> bool {
    *zones == 0
}

fn startup() -> Range<Duration> {
    Duration::from_millis(200)..Duration::from_millis(800)
}

fn shutdown() -> Duration {
    Duration::from_secs(1)
}

/// What is wrong with the text of a case.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// It is no YAML, or a field is not what it should be; says which, where, and what was expected.
    #[error("{0}")]
    Text(String),
    /// The operations are not in the order of their times.
    #[error("operations[{0}].at: found {1:?}, which is before the operation before it ({2:?})")]
    Order(usize, Duration, Duration),
    /// An operation is too far away.
    #[error("operations[{0}].at: found {1:?}, expected at most a year")]
    Late(usize, Duration),
    /// An operation asks for too many pods.
    #[error(
        "operations[{0}]: found {1} replicas, expected at most {MOST_REPLICAS}: each is held in memory, with all that becomes of it"
    )]
    Replicas(usize, u64),
    /// A number or a duration is too small or too large.
    #[error("{field}: found {found}, expected {expected}")]
    Range {
        /// The field.
        field: &'static str,
        /// What it has.
        found: String,
        /// What it may have.
        expected: &'static str,
    },
    /// A fault has a field that is not what it should be.
    #[error("faults[{0}].{1}")]
    Fault(usize, String),
}

/// The most pods that one operation asks for.
const MOST_REPLICAS: u64 = 10_000;

/// Nothing stands still for longer, so that a history comes to its end.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(86_400);

impl Case {
    /// Reads one.
    ///
    /// # Errors
    /// Where a field is missing, unknown, or not what it should be.
    pub fn read(text: &str) -> Result<Self, CaseError> {
        let case: Self = yaml::read(text).map_err(CaseError::Text)?;
        case.check_sizes()?;
        for (at, pair) in case.operations.windows(2).enumerate() {
            if pair[1].at < pair[0].at {
                return Err(CaseError::Order(at + 1, pair[1].at, pair[0].at));
            }
        }
        if let Some(last) = case.operations.last().filter(|last| last.at > LONGEST) {
            return Err(CaseError::Late(case.operations.len() - 1, last.at));
        }
        for (at, rule) in case.faults.iter().enumerate() {
            rule.check().map_err(|said| CaseError::Fault(at, said))?;
        }
        Ok(case)
    }

    /// How many managers are started at the most.
    fn most_managers(&self) -> u64 {
        let Some(managers) = &self.managers else { return 0 };
        let (mut wanted, mut started) = (managers.count, u64::from(managers.count));
        let mut operations: Vec<&Operation> = self.operations.iter().collect();
        operations.sort_by_key(|operation| operation.at);
        for operation in operations {
            match &operation.act {
                Act::KillManager(_) | Act::StopManager(_) => started += 1,
                Act::FreezeManager(pause) | Act::CutOffManager(pause) => started += u64::from(pause.lasts >= GIVES_UP),
                Act::Managers(count) => {
                    started += u64::from(count.saturating_sub(wanted));
                    wanted = *count;
                }
                _ => {}
            }
        }
        started
    }

    /// Whether a history of it can be played on one machine.
    ///
    /// # Errors
    /// Where a size or a duration is too small or too large.
    pub fn check_sizes(&self) -> Result<(), CaseError> {
        let among = |field, found: u64, range: RangeInclusive<u64>, expected| match found {
            found if range.contains(&found) => Ok(()),
            found => Err(CaseError::Range { field, found: found.to_string(), expected }),
        };
        let within = |field, found, most, expected| among(field, found, 1..=most, expected);
        within("nodes", self.nodes.into(), 10_000, "1 to 10000")?;
        if let Some(managers) = &self.managers {
            within("managers.count", managers.count.into(), 64, "1 to 64")?;
            within("managers.shards", managers.shards.unwrap_or(1).into(), 1_024, "1 to 1024")?;
        }
        within("managers", self.most_managers().max(1), 64, "at most 64, with those that come in the place of others")?;
        let replicas = self.operations.iter().map(|operation| operation.act.replicas());
        if let Some((at, found)) = replicas.enumerate().find(|(_, found)| *found > MOST_REPLICAS) {
            return Err(CaseError::Replicas(at, found));
        }
        for operation in &self.operations {
            if let Act::Nodes(count) = operation.act {
                among("nodes", count.into(), 0..=10_000, "0 to 10000")?;
            }
        }
        let clocks_apart = self.managers.as_ref().map_or(Duration::ZERO, |managers| managers.clocks_apart);
        let pauses = self.operations.iter().map(|operation| operation.act.ends(Duration::ZERO)).max();
        for (field, found) in [
            ("managers.clocksApart", clocks_apart),
            ("for", pauses.unwrap_or_default()),
            ("podStartup", self.pod_startup.end),
            ("podShutdown", self.pod_shutdown),
        ] {
            if found > LONGEST_PAUSE {
                return Err(CaseError::Range { field, found: text::written(found), expected: "at most a day" });
            }
        }
        if let Some(resync) = self.resync.filter(|resync| !(Duration::from_secs(1)..=LONGEST).contains(resync)) {
            let (found, expected) = (text::written(resync), "1s to a year");
            return Err(CaseError::Range { field: "resync", found, expected });
        }
        Ok(())
    }

    /// As YAML, which reads as the same.
    ///
    /// # Panics
    /// Never: everything in a case has a form in YAML.
    #[must_use]
    pub fn written(&self) -> String {
        serde_saphyr::to_string(self).expect("a case has a form in YAML")
    }

    /// Whether it is about one Deployment, in the namespace `default` and with a name, that stays, and one manager has it: then the laws
    /// of rollouts are judged, and else those of workloads.
    #[must_use]
    pub fn is_rollout(&self) -> bool {
        let mut workloads = self.workloads();
        let (Some(only), None) = (workloads.next(), workloads.next()) else { return false };
        let in_default = matches!(only["metadata"]["namespace"].as_str(), None | Some("" | "default"));
        self.managers.is_none()
            && !self.deletes()
            && only["kind"] == "Deployment"
            && in_default
            && !name(only).is_empty()
    }

    /// Whether a workload is deleted.
    fn deletes(&self) -> bool {
        self.operations.iter().any(|operation| matches!(operation.act, Act::Delete(_) | Act::DeleteSet(_)))
    }

    /// Whether what a workload owns is left behind.
    fn orphans(&self) -> bool {
        let orphans = |act: &Act| matches!(act, Act::Delete(doomed) if doomed.propagation == Propagation::Orphan);
        self.operations.iter().any(|operation| orphans(&operation.act))
    }

    /// Whether anything is created that has pods.
    fn has_workloads(&self) -> bool {
        self.workloads().next().is_some()
    }

    /// The workloads that are created.
    fn workloads(&self) -> impl Iterator<Item = &Value> {
        const WORKLOADS: [&str; 3] = ["Deployment", "ReplicaSet", "ReplicationController"];
        self.operations.iter().filter_map(|operation| match &operation.act {
            Act::Create(object) | Act::Apply(object) => {
                Some(object).filter(|one| WORKLOADS.iter().any(|kind| one["kind"] == *kind))
            }
            _ => None,
        })
    }

    /// Whether nothing but users disturbs it.
    #[must_use]
    pub fn is_undisturbed(&self) -> bool {
        let is_rollout = self.is_rollout();
        // What a Deployment's ReplicaSets are is its controller's to say.
        let meddles = |act: &Act| is_rollout && matches!(act, Act::Patch(target) if target.is_of_set());
        let mut acts = self.operations.iter().map(|operation| &operation.act);
        self.faults.is_empty() && !acts.any(|act| act.is_incident() || meddles(act))
    }

    /// Whether the server is put back to an earlier version.
    #[must_use]
    pub fn is_restored(&self) -> bool {
        self.operations.iter().any(|operation| operation.act == Act::Restore)
    }

    /// Whether a watch has kept an event from the controllers, which they find out by a resync.
    #[must_use]
    pub fn loses_events(&self) -> bool {
        self.faults.iter().any(|rule| rule.fault == Fault::EventLost)
    }

    /// Whether what is lost may stay unknown for as long as a history is played. A watch that is resumed from a version that a restored
    /// server has passed by then shows nothing of what was lost, here as with client-go: until the audit at the resync (B-07) nobody
    /// knows.
    fn forgets(&self) -> bool {
        self.is_restored() && self.resync.is_none()
    }

    /// Whether what has happened may be told by nothing but a resync.
    fn waits_for_resync(&self) -> bool {
        self.loses_events() || self.is_restored() && self.resync.is_some()
    }

    /// Whether the server answers the controllers at once whenever they ask: only watches are late, and what is sent by others.
    fn answers_at_once(&self) -> bool {
        let mut rules = self.faults.iter();
        let incidents = self.operations.iter().any(|operation| operation.act.is_incident());
        !incidents && rules.all(|rule| matches!(rule.fault, Fault::Lag(_)) || rule.client.as_deref() == Some(CLUSTER))
    }

    /// When the last of the faults is over, since the beginning.
    fn faults_end(&self) -> Duration {
        let ends = self.faults.iter().filter_map(|rule| rule.until);
        let operations = self.operations.iter().map(|operation| operation.act.ends(operation.at));
        ends.chain(operations).max().unwrap_or_default()
    }

    /// How long after the faults all that has happened meanwhile is told.
    fn news(&self) -> Duration {
        let silent = |rule: &Rule| matches!(rule.fault, Fault::Stall | Fault::BookmarkLost | Fault::BookmarkOld);
        match self.is_undisturbed() {
            true => Duration::ZERO,
            false if self.waits_for_resync() => {
                let resync = self.resync.unwrap_or(Options::default().min_resync_period);
                resync.saturating_mul(2) + Duration::from_secs(80)
            }
            // A watch that says nothing, or a list without its end, is believed for as long as it was asked for.
            false if self.faults.iter().any(silent) => Duration::from_secs(700),
            // A request that hangs is given up after 75 s.
            false => Duration::from_secs(80),
        }
    }

    /// How soon after the faults' end all workloads are as asked: a request that hangs is given up after 75 s, a refused watch is
    /// tried again within 30 s, a failed sync within 30 s, and then pods start and Deployments roll. A watch that is behind stays so,
    /// and each step of a rollout waits for it.
    fn settles_within(&self) -> Duration {
        // Two waits of two controllers for each of 20 replicas.
        const WAITS: u32 = 80;
        let behind = self.faults.iter().filter_map(|rule| match &rule.fault {
            Fault::Behind(range) => Some(range.end),
            _ => None,
        });
        let rolls = behind.max().unwrap_or_default().saturating_mul(WAITS);
        Duration::from_secs(70).saturating_add(self.news().max(Duration::from_secs(80))).saturating_add(rolls)
    }

    /// How soon others take what a manager held that is gone: the 15 s of a Lease and 5 s more, where requests take no time. None
    /// where other faults than slow ones can keep them from it.
    fn takes_over_within(&self) -> Option<Duration> {
        const TAKE_OVER: Duration = Duration::from_secs(20);
        let away = self.operations.iter().any(|operation| matches!(operation.act, Act::ServerAway | Act::Restore));
        let slow = !away && self.faults.iter().all(|rule| rule.fault.is_slow());
        let slowest = self.faults.iter().filter_map(|rule| match &rule.fault {
            Fault::Delay(range) | Fault::Slow(range) => Some(range.end),
            _ => None,
        });
        slow.then(|| TAKE_OVER + slowest.max().unwrap_or_default().saturating_mul(8))
    }

    /// More requests than any history has in a second of virtual time: several for each pod that is asked for, and for each node, which
    /// all renew their Leases at once.
    fn most_requests(&self) -> usize {
        const FOR_ALL: u64 = 5_000;
        const FOR_A_POD: u64 = 100;
        const FOR_A_NODE: u64 = 10;
        let pods: u64 = self.operations.iter().map(|operation| operation.act.replicas()).sum();
        let nodes = self.operations.iter().filter_map(|operation| match operation.act {
            Act::Nodes(count) => Some(count),
            _ => None,
        });
        let nodes: u64 = nodes.chain([self.nodes]).map(u64::from).max().unwrap_or_default();
        // Each shard has a Lease as a node has one.
        let shards = self.managers.as_ref().and_then(|managers| managers.shards).map_or(0, u64::from);
        let leases = (nodes + shards) * FOR_A_NODE;
        let most = pods.saturating_mul(FOR_A_POD).saturating_add(FOR_ALL).saturating_add(leases);
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    fn settings(&self) -> Settings {
        let mut manager = Options::default();
        manager.min_resync_period = self.resync.unwrap_or(manager.min_resync_period);
        if self.managers.is_some() {
            // The processes are the managers.
            manager.controllers = [].into();
        }
        Settings {
            manager,
            nodes: self.nodes,
            zones: self.zones,
            pod_startup: DelayRange::new(self.pod_startup.start, self.pod_startup.end),
            pod_shutdown: self.pod_shutdown,
            ..Settings::seeded(self.seed)
        }
    }
}
