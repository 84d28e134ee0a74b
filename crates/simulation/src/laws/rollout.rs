//! What must hold after every write of a rollout.
//!
//! A bound can only hold for what the controllers have been told. So after a change of replicas or bounds the laxer
//! of old and new count, until the controller has observed the change, the pods keep the new ones and none is on its way.
//! And availability is what controllers may not take: a pod that fails, or that somebody else deletes, is a loss that
//! they are not blamed for, until the Deployment's status shows that they know of it. While what happens is told late
//! the status proves nothing, and every loss counts until the weather is over.
//!
//! A pod that was created without an answer is one more than the controllers know of, and one that was deleted without
//! an answer is a loss: an allowance for just these pods, and for their owner.

use std::collections::{BTreeMap, BTreeSet};

use muster_objects::Timestamp;
use muster_tree::Value;

use super::sizes::Sizes;
use super::{Broken, Evidence, Kind, Law, Seen, epochs};
use crate::api::{condition, is_being_deleted, name, number, owner_uid};
use crate::world::EPOCH_NANOS;

const REVISION: &str = "/metadata/annotations/deployment.kubernetes.io~1revision";
const MOST: &str = "/metadata/annotations/deployment.kubernetes.io~1max-replicas";

/// Checks a history of one Deployment. What was broken, each with the write that broke it.
#[must_use]
pub fn check(seen: &[Seen], evidence: &Evidence) -> Vec<Broken> {
    epochs(seen).flat_map(|writes| Laws::of(writes, evidence).broken).collect()
}

/// The state of one Deployment, built up write by write.
struct Laws<'s> {
    evidence: &'s Evidence,
    /// Whether this is after the server was restored.
    restored: bool,
    /// Whether pods of one ReplicaSet only have run since the strategy is Recreate.
    recreates: bool,
    deployment: Option<&'s Value>,
    /// Its newest generation.
    generation: i64,
    sets: BTreeMap<&'s str, &'s Value>,
    pods: BTreeMap<&'s str, Pod<'s>>,
    /// The bounds that count: the newest last, behind it those that it has not replaced yet.
    bounds: Vec<Bounds>,
    /// Ready pods, and available ones, by name, as of the last write.
    ready: BTreeSet<&'s str>,
    available: BTreeSet<&'s str>,
    /// How many available pods were lost that the Deployment's status may still count.
    lost: i64,
    /// By how much ReplicaSets were made larger by others, or without an answer, since all were at rest within the
    /// bounds.
    added: i64,
    /// The sizes that each ReplicaSet's controller may be looking at.
    sizes: BTreeMap<&'s str, Sizes>,
    /// How many pods each ReplicaSet lost since it was last at rest.
    lost_of: BTreeMap<&'s str, i64>,
    broken: Vec<Broken>,
}

/// What the laws look at of a pod: read once of each write, as they look at all pods at each.
#[derive(Clone, Copy)]
struct Pod<'s> {
    name: &'s str,
    owner: Option<&'s str>,
    hash: Option<&'s str>,
    is_over: bool,
    is_leaving: bool,
    ready_since: Option<i64>,
}

impl<'s> Pod<'s> {
    fn of(pod: &'s Value) -> Self {
        Self {
            name: name(pod),
            owner: owner_uid(pod),
            hash: hash(pod),
            is_over: is_over(pod),
            is_leaving: is_being_deleted(pod),
            ready_since: ready_since(pod),
        }
    }

    fn is_active(&self) -> bool {
        !self.is_over && !self.is_leaving
    }

    fn is_available(&self, min_ready: i64, now_millis: i64) -> bool {
        self.ready_since.is_some_and(|since| since + min_ready * 1_000 <= now_millis)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bounds {
    generation: i64,
    most: i64,
    least: i64,
}

impl<'s> Laws<'s> {
    fn of(writes: &'s [Seen], evidence: &'s Evidence) -> Self {
        let mut laws = Self {
            evidence,
            restored: writes.iter().any(|write| write.epoch > 0),
            recreates: false,
            deployment: None,
            generation: 0,
            sets: BTreeMap::new(),
            pods: BTreeMap::new(),
            bounds: vec![Bounds { generation: 0, most: 0, least: 0 }],
            ready: BTreeSet::new(),
            available: BTreeSet::new(),
            lost: 0,
            added: 0,
            sizes: BTreeMap::new(),
            lost_of: BTreeMap::new(),
            broken: Vec::new(),
        };
        writes.iter().for_each(|write| laws.take(write));
        laws
    }

    fn take(&mut self, write: &'s Seen) {
        let object = &write.object;
        if !self.evidence.done.sets.contains(&write.version) {
            self.revision_rises(write);
        }
        match write.kind {
            Kind::Deployment => {
                self.deployment = Some(object);
                self.note_bounds(object);
            }
            Kind::ReplicaSet => {
                let by_another = self.evidence.done.sets.contains(&write.version);
                let unknown = by_another || self.evidence.sets_unanswered.contains(&write.version);
                if unknown && !self.restored {
                    let before = self.sets.get(name(object)).map_or(0, |set| number(set, "/spec/replicas"));
                    let change = number(object, "/spec/replicas") - before;
                    self.added += change.max(0);
                    self.lost += (-change).max(0);
                }
                put(&mut self.sets, write);
                if by_another {
                    self.note_excess(self.newest());
                }
                self.sizes.entry(uid(object)).or_default().note(|pointer| number(object, pointer));
            }
            Kind::ReplicationController => return,
            Kind::Pod => self.take_pod(write),
        }
        let Some(deployment) = self.deployment else { return };

        let active: Vec<Pod<'_>> =
            self.pods.values().copied().filter(|pod| pod.owner.is_some() && pod.is_active()).collect();
        let total = count_of(active.len());
        let now = write.millis;
        let told_late = now < self.evidence.told_from;
        let names = |min_ready: i64| -> BTreeSet<&str> {
            active.iter().filter(|pod| pod.is_available(min_ready, now)).map(|pod| pod.name).collect()
        };
        let (ready, available) = (names(0), names(number(deployment, "/spec/minReadySeconds")));
        let count = count_of(available.len());
        let taken = self.available.difference(&available).filter(|name| self.is_taken(name)).count();
        // Who is told late that a pod is ready no more takes it for available once its time has come.
        let went = if told_late { self.ready.difference(&ready) } else { self.available.difference(&available) };
        self.lost += count_of(went.filter(|name| !self.is_taken(name)).count());
        (self.ready, self.available) = (ready, available);
        if self.lost > 0
            && write.kind == Kind::Deployment
            && !told_late
            && number(deployment, "/status/availableReplicas") <= count
            && self.is_at_rest()
        {
            self.lost = 0;
        }

        self.settle(deployment, total, count);
        if self.added > 0
            && !told_late
            && self.is_at_rest()
            && self.wanted() <= self.bounds.iter().map(|bounds| bounds.most).min().unwrap_or_default()
        {
            self.added = 0;
        }
        let most = self.bounds.iter().map(|bounds| bounds.most).max().unwrap_or_default();
        let least = self.bounds.iter().map(|bounds| bounds.least).min().unwrap_or_default();
        let wanted = self.wanted();
        if wanted > most + self.added {
            self.break_law(Law::Surge, write, &format!("ReplicaSets want {wanted} pods, at most {most} are allowed"));
        }
        let unknown = count_of(active.iter().filter(|pod| self.is_unknown(pod, now)).count());
        if total > most + unknown + self.added {
            self.break_law(Law::Surge, write, &format!("there are {total} pods, at most {most} are allowed"));
        }
        if taken > 0 && count + self.lost < least {
            let lost = self.lost;
            self.break_law(
                Law::Availability,
                write,
                &format!("{count} pods are left available ({lost} lost), at least {least} must be"),
            );
        }
        if deployment["spec"]["strategy"]["type"] == "Recreate" {
            self.one_set_runs(write);
        } else {
            self.recreates = false;
        }
    }

    /// A pod is created, changes or goes: its ReplicaSet makes none too many and takes none too many.
    fn take_pod(&mut self, write: &'s Seen) {
        let pod = Pod::of(&write.object);
        let before = match write.gone {
            true => self.pods.remove(pod.name),
            false => self.pods.insert(pod.name, pod),
        };
        let Some(owner) = pod.owner else { return };
        let was_active = before.is_some_and(|before| before.is_active());
        let is_active_now = !write.gone && pod.is_active();
        if was_active == is_active_now {
            return;
        }
        let of_owner = self.pods.values().filter(|pod| pod.is_active() && pod.owner == Some(owner));
        let unknown = of_owner.clone().filter(|pod| self.is_unknown(pod, write.millis)).count();
        let [has, unknown] = [of_owner.count(), unknown].map(count_of);
        let Some(sizes) = self.sizes.get(owner) else { return };
        let (most, least) = (sizes.most(), sizes.least());
        let lost = self.lost_of.get(owner).copied().unwrap_or_default();
        if before.is_none() {
            // What others make is not the controllers' doing.
            if has > most + unknown && !self.evidence.done.pods.contains(pod.name) {
                self.break_law(
                    Law::Count,
                    write,
                    &format!("its ReplicaSet has {has} pods ({unknown} unknown), and wants {most}"),
                );
            }
        } else if was_active && !self.is_taken(pod.name) {
            *self.lost_of.entry(owner).or_default() += 1;
        } else if was_active && has + lost < least {
            self.break_law(
                Law::Count,
                write,
                &format!("its ReplicaSet has {has} pods left ({lost} lost), and wants {least}"),
            );
        }
        self.forget_losses(owner, has, write.millis);
    }

    /// What a ReplicaSet has lost counts no more once its controller has put it right.
    fn forget_losses(&mut self, owner: &str, has: i64, now: i64) {
        let set = self.sets.values().find(|set| uid(set) == owner);
        if now >= self.evidence.told_from
            && let Some(set) = set
            && has == number(set, "/spec/replicas")
            && has == number(set, "/status/replicas")
        {
            self.lost_of.remove(owner);
        }
    }

    /// Whether the controllers have created this pod and do not know that they have, or others have.
    fn is_unknown(&self, pod: &Pod<'_>, now: i64) -> bool {
        now < self.evidence.told_from && self.evidence.created_unanswered.contains(pod.name)
            || self.evidence.done.pods.contains(pod.name)
    }

    /// How many pods the ReplicaSets want.
    fn wanted(&self) -> i64 {
        self.sets.values().map(|set| number(set, "/spec/replicas")).sum()
    }

    /// Whether a pod is no longer available because the controllers deleted it.
    fn is_taken(&self, name: &str) -> bool {
        self.evidence.deleted_by_controllers.contains(name) && self.pods.get(name).is_none_or(|pod| pod.is_leaving)
    }

    fn newest(&self) -> Bounds {
        self.bounds.last().copied().unwrap_or_default()
    }

    /// The bounds of the Deployment as it now is.
    fn note_bounds(&mut self, deployment: &Value) {
        let spec = &deployment["spec"];
        let generation = number(deployment, "/metadata/generation");
        let (most, least) = bounds(spec);
        let bounds = Bounds { generation, most, least };
        let last = self.newest();
        let changed = (last.most, last.least) != (bounds.most, bounds.least);
        let paused = spec["paused"] == true && generation > self.generation;
        self.generation = generation;
        if changed || paused {
            self.note_excess(bounds);
            self.bounds.push(bounds);
        }
    }

    /// Where the ReplicaSets want more pods than the newest bounds allow, or were scaled for more than these, they shrink
    /// in proportion, whichever of them have the available pods (DEP-09).
    fn note_excess(&mut self, newest: Bounds) {
        let scaled_for = |set: &&Value| set.pointer(MOST)?.as_str()?.parse::<i64>().ok();
        let active = self.sets.values().filter(|set| number(set, "/spec/replicas") > 0);
        if self.wanted() > newest.most || active.filter_map(scaled_for).any(|most| most > newest.most) {
            self.bounds.insert(0, Bounds { least: 0, ..newest });
        }
    }

    /// Drops earlier bounds once the newest are observed and kept.
    fn settle(&mut self, deployment: &Value, total: i64, available: i64) {
        let newest = self.newest();
        let observed = || number(deployment, "/status/observedGeneration") >= newest.generation;
        if self.bounds.len() == 1 || !observed() || total.max(self.wanted()) > newest.most {
            return;
        }
        // What is available and not reported yet, no controller can keep. The Deployment's status may be from before pods went that
        // its ReplicaSets tell of no more.
        let told: i64 = self.sets.values().map(|set| number(set, "/status/availableReplicas")).sum();
        let known = available.min(told).min(number(deployment, "/status/availableReplicas"));
        if known >= newest.least && self.is_at_rest() {
            self.bounds = vec![newest];
        }
    }

    /// Whether no pod is about to go or to come: every ReplicaSet has as many as it wants, and its controller knows how
    /// many that are.
    fn is_at_rest(&self) -> bool {
        self.sets.values().all(|set| {
            let hash = hash(set);
            let pods = self.pods.values().filter(|pod| pod.is_active() && pod.hash == hash);
            let has = count_of(pods.count());
            let observed = number(set, "/status/observedGeneration") == number(set, "/metadata/generation");
            observed && has == number(set, "/spec/replicas")
        })
    }

    /// Of one ReplicaSet only there are pods that are not over; those being deleted still run.
    fn one_set_runs(&mut self, write: &Seen) {
        if self.added > 0 {
            return;
        }
        let running = self.pods.values().filter(|pod| !pod.is_over && !self.is_unknown(pod, write.millis));
        let sets: BTreeSet<&str> = running.filter_map(|pod| pod.hash).collect();
        // Where the strategy became Recreate in the middle of a rollout, they run together from before.
        self.recreates |= sets.len() <= 1;
        if self.recreates && sets.len() > 1 {
            self.break_law(Law::Recreate, write, &format!("pods of {sets:?} run together"));
        }
    }

    /// The revision of a ReplicaSet never falls, and that of the Deployment only where the ReplicaSets of the higher
    /// ones are gone: it is one more than the highest that is left (DEP-06).
    fn revision_rises(&mut self, write: &Seen) {
        let before = match write.kind {
            Kind::Deployment => self.deployment,
            Kind::ReplicaSet => self.sets.get(name(&write.object)).copied(),
            Kind::ReplicationController | Kind::Pod => return,
        };
        let revision = |object: &Value| object.pointer(REVISION).and_then(Value::as_str)?.parse::<i64>().ok();
        if let (Some(before), Some(after)) = (before.and_then(revision), Some(revision(&write.object)))
            && after.is_none_or(|after| after < before)
            && (write.kind == Kind::ReplicaSet || self.sets.values().any(|set| revision(set) >= Some(before)))
        {
            self.break_law(Law::Revision, write, &format!("revision {before} became {after:?}"));
        }
    }

    fn break_law(&mut self, law: Law, write: &Seen, how: &str) {
        let Seen { version, millis, kind, gone, object, .. } = write;
        if self.restored && *millis < self.evidence.told_from || !self.evidence.is_sure(*millis) {
            return;
        }
        let gone = if *gone { " (gone)" } else { "" };
        let how =
            format!("{version} at {} ms: {kind:?} {}{gone}: {how}", millis - EPOCH_NANOS / 1_000_000, name(object));
        self.broken.push(Broken::by(law, write, how));
    }
}

fn put<'s>(objects: &mut BTreeMap<&'s str, &'s Value>, write: &'s Seen) {
    if write.gone {
        objects.remove(name(&write.object));
    } else {
        objects.insert(name(&write.object), &write.object);
    }
}

pub(super) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

pub(super) fn is_over(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

pub(crate) fn is_active(pod: &Value) -> bool {
    !is_over(pod) && !is_being_deleted(pod)
}

/// Ready for as many seconds as asked, by the time that the pod's node wrote, which is in whole seconds.
pub(crate) fn is_available(pod: &Value, min_ready: i64, now_millis: i64) -> bool {
    Pod::of(pod).is_available(min_ready, now_millis)
}

/// The milliseconds since which a pod is ready, if it is.
fn ready_since(pod: &Value) -> Option<i64> {
    let ready = condition(pod, "Ready");
    let since = ready["lastTransitionTime"].as_str().and_then(|time| Timestamp::parse(time).ok());
    since.filter(|_| ready["status"] == "True").map(|since| since.as_nanos() / 1_000_000)
}

fn hash(pod: &Value) -> Option<&str> {
    pod["metadata"]["labels"]["pod-template-hash"].as_str()
}

/// The most pods that a Deployment may have, and the fewest that are to be available.
pub(super) fn bounds(spec: &Value) -> (i64, i64) {
    let replicas = number(spec, "/replicas");
    let (mut surge, mut unavailable) = (0, replicas);
    if spec["strategy"]["type"] == "RollingUpdate" {
        let rolling = &spec["strategy"]["rollingUpdate"];
        surge = pods_of(&rolling["maxSurge"], replicas, true);
        unavailable = pods_of(&rolling["maxUnavailable"], replicas, false);
        if surge == 0 && unavailable == 0 {
            unavailable = 1;
        }
    }
    (replicas + surge, (replicas - unavailable).max(0))
}

/// A bound in pods: a number, or a percentage of the replicas.
fn pods_of(bound: &Value, replicas: i64, up: bool) -> i64 {
    let Some(percent) = bound.as_str() else { return bound.as_i64().unwrap_or_default() };
    let percent = percent.strip_suffix('%').and_then(|percent| percent.parse::<i64>().ok()).unwrap_or_default();
    let hundredths = percent * replicas;
    if up { (hundredths + 99) / 100 } else { hundredths / 100 }
}

pub(super) fn count_of(items: usize) -> i64 {
    i64::try_from(items).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;
    use crate::laws::Place;

    /// Writes one after the other.
    struct Writes(Vec<Seen>);

    impl Writes {
        fn write(&mut self, kind: Kind, object: Value, gone: bool) {
            let version = u64::try_from(self.0.len()).unwrap() + 1;
            let millis = EPOCH_NANOS / 1_000_000 + i64::try_from(version).unwrap() * 1_000;
            self.0.push(Seen { epoch: 0, version, millis, kind, gone, object });
        }

        fn deployment(&mut self, strategy: &Value, replicas: i64) {
            let object = json!({
                "metadata": {"name": "web", "uid": "web", "generation": 1},
                "spec": {"replicas": replicas, "strategy": strategy},
                "status": {"observedGeneration": 1, "availableReplicas": replicas},
            });
            self.write(Kind::Deployment, object, false);
        }

        fn set(&mut self, name: &str, replicas: i64, revision: i64) {
            self.set_with(name, replicas, revision, replicas);
        }

        /// Its status says that so many pods are available.
        fn set_with(&mut self, name: &str, replicas: i64, revision: i64, available: i64) {
            let generation = self.0.len() + 1;
            let object = json!({
                "metadata": {
                    "name": name, "uid": name, "generation": generation, "labels": {"pod-template-hash": name},
                    "annotations": {"deployment.kubernetes.io/revision": revision.to_string()},
                },
                "spec": {"replicas": replicas},
                "status": {"observedGeneration": generation, "replicas": replicas, "availableReplicas": available},
            });
            self.write(Kind::ReplicaSet, object, false);
        }

        /// Named after its ReplicaSet by its first letter.
        fn pod(&mut self, name: &str, going: bool) {
            let mut object = json!({
                "metadata": {
                    "name": name, "uid": name, "labels": {"pod-template-hash": name[..1]},
                    "ownerReferences": [{"uid": name[..1], "controller": true}],
                },
                "status": {"phase": "Running", "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                ]},
            });
            if going {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            self.write(Kind::Pod, object, false);
        }
    }

    /// Each law is found to be broken by the one write that breaks it, and by none before it.
    ///
    /// Contract: SI-02
    #[test]
    fn each_law_is_broken_by_what_it_is_about() {
        let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
        let evidence = Evidence {
            deleted_by_controllers: ["a1", "a2", "a3"].map(ToOwned::to_owned).into(),
            ..Evidence::default()
        };
        type Step = fn(&mut Writes);
        let cases: [(&Value, &[Law], Step); 8] = [
            (&rolling, &[], |writes| {
                writes.set("a", 2, 1);
                writes.pod("a2", true);
            }),
            (&rolling, &[Law::Count], |writes| writes.pod("a2", true)),
            (&rolling, &[Law::Surge], |writes| writes.set("b", 1, 2)),
            (&rolling, &[Law::Count, Law::Surge], |writes| writes.pod("a4", false)),
            (&rolling, &[Law::Availability], |writes| {
                writes.set("a", 1, 1);
                writes.pod("a1", true);
                writes.pod("a2", true);
            }),
            (&rolling, &[Law::Revision], |writes| writes.set("a", 3, 0)),
            (&json!({"type": "Recreate"}), &[Law::Recreate], |writes| {
                // Its own size is no matter here.
                writes.set("a", 2, 1);
                writes.pod("a3", true);
                writes.set("b", 1, 2);
                writes.pod("b1", false);
            }),
            (&json!({"type": "Recreate"}), &[], |writes| {
                writes.set("a", 0, 1);
                for pod in ["a1", "a2", "a3"] {
                    writes.pod(pod, true);
                    let last = writes.0.last().unwrap().object.clone();
                    writes.write(Kind::Pod, last, true);
                }
                writes.set("b", 1, 2);
                writes.pod("b1", false);
            }),
        ];
        for (at, (strategy, laws, step)) in cases.into_iter().enumerate() {
            let mut writes = Writes(Vec::new());
            writes.deployment(strategy, 3);
            writes.set("a", 3, 1);
            for pod in ["a1", "a2", "a3"] {
                writes.pod(pod, false);
            }
            writes.deployment(strategy, 3);
            assert_eq!(check(&writes.0, &evidence), [], "case {at}");
            step(&mut writes);
            let broken = check(&writes.0, &evidence);
            let found: Vec<Law> = broken.iter().map(|broken| broken.law).collect();
            assert_eq!(found, laws, "case {at}: {broken:?}");
            let last = writes.0.last().map(Place::of);
            assert!(broken.iter().all(|broken| Some(broken.place) == last), "case {at}: {broken:?}");
        }
    }

    /// A pod that is available and that no ReplicaSet has told of cannot be kept, whatever the Deployment's status says.
    ///
    /// Contract: SI-02
    #[test]
    fn what_is_available_counts_once_a_replicaset_has_told_of_it() {
        let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
        let deleted_by_controllers = ["a1", "a2"].map(ToOwned::to_owned).into();
        let evidence = Evidence { deleted_by_controllers, ..Evidence::default() };
        for (told, laws) in [(3, &[Law::Availability][..]), (1, &[])] {
            let mut writes = Writes(Vec::new());
            writes.deployment(&rolling, 3);
            writes.set_with("a", 3, 1, told);
            for pod in ["a1", "a2", "a3"] {
                writes.pod(pod, false);
            }
            writes.deployment(&rolling, 3);
            writes.set_with("a", 1, 1, told);
            writes.pod("a1", true);
            writes.pod("a2", true);
            let broken = check(&writes.0, &evidence);
            assert_eq!(broken.iter().map(|broken| broken.law).collect::<Vec<_>>(), laws, "{told} told of: {broken:?}");
        }
    }
}
