//! What must hold of the pods of any workload after every single write, under any fault.
//!
//! A controller acts on what it has seen, and in bad weather that may be old. So the bounds of an owner are the laxest
//! of the sizes that its controller may be looking at, by the generation that its status answers to: once that has
//! come, exactly what is asked. What nobody can know is counted apart, owner by owner: a pod that was created without
//! an answer, while it is there, and a pod that others took, or that was deleted without an answer.
//!
//! From an owner that is being deleted pods are taken by the collector. What was decided before that was seen may still be carried
//! out; but none of those is replaced (B-23).

use std::collections::{BTreeMap, BTreeSet};

use muster_tree::Value;

use super::own::selects;
use super::rollout::is_active;
use super::sizes::Sizes;
use super::{Broken, Evidence, Kind, Law, Seen, epochs};
use crate::api::{is_being_deleted, name, number, owner_uid};
use crate::world::EPOCH_NANOS;

/// Checks a history of workloads: no owner has a pod too many by a creation, nor one too few by a deletion of the controllers, and
/// one that is being deleted gets no pods in the place of others.
#[must_use]
pub fn check(seen: &[Seen], evidence: &Evidence) -> Vec<Broken> {
    epochs(seen).flat_map(|writes| Laws::of(writes, evidence).broken).collect()
}

/// Everything as of one write.
struct Laws<'s> {
    evidence: &'s Evidence,
    /// Whether the server was restored before.
    restored: bool,
    /// What the controller of each owner, by its uid, may be looking at.
    sizes: BTreeMap<&'s str, Sizes>,
    /// Each owner as it was last written, by its uid.
    owners: BTreeMap<&'s str, &'s Value>,
    /// Pods that were there before, by their uids.
    known: BTreeSet<&'s str>,
    /// Active pods that their owner selects, each with its uid.
    pods: BTreeMap<&'s str, &'s str>,
    /// Pods that each owner lost by nothing that the controllers did.
    lost: BTreeMap<&'s str, i64>,
    /// How many pods may still be made for each owner that is being deleted, or is gone: as many as it was short of then, and as the
    /// controllers have deleted since.
    ending: BTreeMap<&'s str, i64>,
    broken: Vec<Broken>,
}

impl<'s> Laws<'s> {
    fn of(writes: &'s [Seen], evidence: &'s Evidence) -> Self {
        let mut laws = Self {
            evidence,
            restored: writes.iter().any(|write| write.epoch > 0),
            sizes: BTreeMap::new(),
            owners: BTreeMap::new(),
            known: BTreeSet::new(),
            pods: BTreeMap::new(),
            lost: BTreeMap::new(),
            ending: BTreeMap::new(),
            broken: Vec::new(),
        };
        writes.iter().for_each(|write| laws.take(write));
        laws
    }

    fn take(&mut self, write: &'s Seen) {
        let object = &write.object;
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        if write.kind != Kind::Pod {
            self.owners.insert(uid, object);
            let sizes = self.sizes.entry(uid).or_default();
            sizes.note(|pointer| number(object, pointer));
            let most = sizes.most();
            if (write.gone || is_being_deleted(object)) && !self.ending.contains_key(uid) {
                self.ending.insert(uid, (most + self.unknown(uid) - self.count(uid)).max(0));
            }
            if write.millis >= self.evidence.told_from {
                self.settle(object, uid);
            }
            return;
        }
        let added = self.known.insert(uid);
        let owner = owner_uid(object);
        let active = !write.gone && is_active(object);
        // One with other labels is missing already, whenever it is released (RS-06).
        let is_selected = |owner: &&str| self.owners.get(owner).is_none_or(|owner| selects(owner, object));
        let owner = owner.filter(|owner| active && is_selected(owner));
        let before = match owner {
            Some(owner) => self.pods.insert(name(object), owner),
            None => self.pods.remove(name(object)),
        };
        if before == owner {
            return;
        }
        if let Some(owner) = owner {
            let count = self.count(owner);
            // One that is adopted was there already, and what others make is not the controllers' doing.
            let is_made = added && !self.evidence.done.pods.contains(name(object));
            let most = self.sizes.get(owner).map_or(0, Sizes::most) + self.unknown(owner);
            if is_made && count > most {
                self.break_law(Law::Count, write, &format!("{count} pods, at most {most} were asked for"));
            }
            let is_known = !self.evidence.created_unanswered.contains(name(object));
            if let Some(room) = self.ending.get_mut(owner).filter(|_| is_made && is_known) {
                *room -= 1;
                if *room < 0 {
                    self.break_law(
                        Law::Replaced,
                        write,
                        "made in the place of one that went, for an owner that is being deleted",
                    );
                }
            }
        }
        let Some(before) = before else { return };
        if active || !self.evidence.deleted_by_controllers.contains(name(object)) {
            *self.lost.entry(before).or_default() += 1;
            return;
        }
        if let Some(room) = self.ending.get_mut(before) {
            *room += 1;
        }
        let count = self.count(before);
        let least = self.sizes.get(before).map_or(0, Sizes::least);
        let lost = self.lost.get(before).copied().unwrap_or_default();
        if count + lost < least {
            self.break_law(
                Law::Count,
                write,
                &format!("{count} pods are left ({lost} lost), at least {least} were asked for"),
            );
        }
    }

    /// What an owner has lost counts no more once its controller has put it right.
    fn settle(&mut self, owner: &Value, uid: &str) {
        let wanted = number(owner, "/spec/replicas");
        if self.count(uid) == wanted && number(owner, "/status/replicas") == wanted {
            self.lost.remove(uid);
        }
    }

    /// How many pods of an owner were created without an answer, or by others, and are there.
    fn unknown(&self, owner: &str) -> i64 {
        let Evidence { created_unanswered, done, .. } = self.evidence;
        let is_unknown = |pod: &str| created_unanswered.contains(pod) || done.pods.contains(pod);
        let unknown = self.pods.iter().filter(|(pod, each)| **each == owner && is_unknown(pod));
        i64::try_from(unknown.count()).unwrap_or(i64::MAX)
    }

    fn count(&self, owner: &str) -> i64 {
        i64::try_from(self.pods.values().filter(|each| **each == owner).count()).unwrap_or(i64::MAX)
    }

    fn break_law(&mut self, law: Law, write: &Seen, how: &str) {
        let Seen { version, millis, object, .. } = write;
        if self.restored && *millis < self.evidence.told_from || !self.evidence.is_sure(*millis) {
            return;
        }
        let owner = &object["metadata"]["ownerReferences"][0]["name"];
        let at = millis - EPOCH_NANOS / 1_000_000;
        let how = format!("{version} at {at} ms: {owner} {}: {how}", name(object));
        self.broken.push(Broken::by(law, write, how));
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    /// Generations come again after a restore, and mean another size.
    ///
    /// Contract: SI-02
    #[test]
    fn sizes_of_before_a_restore_do_not_count_after_it() {
        let set = |generation: i64, replicas: i64| {
            let meta = json!({"name": "set", "uid": "set", "generation": generation});
            json!({"metadata": meta, "spec": {"replicas": replicas}, "status": {"observedGeneration": 1, "replicas": 0}})
        };
        let pod = |nth: usize| {
            let owners = json!([{"uid": "set", "name": "set", "controller": true}]);
            json!({"metadata": {"name": format!("p{nth}"), "uid": format!("p{nth}"), "ownerReferences": owners}})
        };
        let judged = |again: u64, told_from: i64| {
            let first = [(0, Kind::ReplicaSet, set(1, 0)), (0, Kind::ReplicaSet, set(2, 1))];
            let after = [(again, Kind::ReplicaSet, set(1, 0)), (again, Kind::ReplicaSet, set(2, 3))];
            let pods = (0..4).map(|nth| (again, Kind::Pod, pod(nth)));
            let all = first.into_iter().chain(after).chain(pods).zip(1..);
            let seen: Vec<Seen> = all
                .map(|((epoch, kind, object), version)| Seen { epoch, version, millis: 5, kind, gone: false, object })
                .collect();
            let evidence = Evidence { told_from, ..Evidence::default() };
            check(&seen, &evidence).into_iter().map(|broken| broken.how).collect::<Vec<_>>()
        };
        let how = judged(1, 0);
        assert!(how.len() == 1 && how[0].ends_with("4 pods, at most 3 were asked for"), "{how:?}");
        // What was decided on what has not been is not judged before everything is told.
        assert!(judged(1, 6).is_empty());
        assert_eq!(judged(0, 0).len(), 3, "without a restore the generation has one size");
    }

    /// Its deletion may be unknown for a while: what it was short of by then is made; and what its controller took since. Nothing else.
    ///
    /// Contract: SI-02, B-23
    #[test]
    fn an_owner_that_is_being_deleted_gets_nothing_in_the_place_of_what_went() {
        let set = |deleted: bool, replicas: i64| {
            let mut meta = json!({"name": "set", "uid": "set", "generation": 1});
            if deleted {
                meta["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            (Kind::ReplicaSet, false, json!({"metadata": meta, "spec": {"replicas": replicas}}))
        };
        let pod = |name: &str, gone: bool| {
            let owners = json!([{"uid": "set", "name": "set", "controller": true}]);
            (Kind::Pod, gone, json!({"metadata": {"name": name, "uid": name, "ownerReferences": owners}}))
        };
        let judged = |writes: &[(Kind, bool, Value)], evidence: &Evidence| {
            let seen: Vec<Seen> = writes
                .iter()
                .zip(1..)
                .map(|((kind, gone, object), version)| {
                    let object = object.clone();
                    Seen { epoch: 0, version, millis: 5, kind: *kind, gone: *gone, object }
                })
                .collect();
            check(&seen, evidence).into_iter().map(|broken| broken.law).collect::<Vec<_>>()
        };
        let nobody = Evidence::default();
        let begun = [set(false, 2), pod("a", false), pod("b", false)];
        let deleted = [&begun[..], &[set(true, 2), pod("a", true)]].concat();
        let gone = [&begun[..], &[(Kind::ReplicaSet, true, set(false, 2).2), pod("a", true)]].concat();
        let again = [pod("c", false)];
        assert_eq!(judged(&[&begun[..], &[pod("a", true)], &again].concat(), &nobody), []);
        assert_eq!(judged(&[&deleted[..], &again].concat(), &nobody), [Law::Replaced]);
        assert_eq!(judged(&[&gone[..], &again].concat(), &nobody), [Law::Replaced]);
        // It was short of one when its deletion began.
        let short = [&begun[..2], &[set(true, 2), pod("a", true)]].concat();
        assert_eq!(judged(&[&short[..], &again].concat(), &nobody), []);
        assert_eq!(judged(&[&short[..], &again, &[pod("d", false)]].concat(), &nobody), [Law::Replaced]);
        // It does not select one any more when its deletion begins.
        let selects = |deleted| {
            let (kind, gone, mut object) = set(deleted, 2);
            object["spec"]["selector"] = json!({"matchLabels": {"app": "set"}});
            (kind, gone, object)
        };
        let labelled = |name: &str, app: &str| {
            let (kind, gone, mut object) = pod(name, false);
            object["metadata"]["labels"] = json!({"app": app});
            (kind, gone, object)
        };
        let pods = [labelled("a", "set"), labelled("b", "set")];
        let again_selected = [labelled("c", "set")];
        let stray = [&[selects(false)], &pods[..], &[labelled("a", "nobody"), selects(true)], &again_selected].concat();
        assert_eq!(judged(&stray, &nobody), []);
        let later = [&[selects(false)], &pods[..], &[selects(true), labelled("a", "nobody")], &again_selected].concat();
        assert_eq!(judged(&later, &nobody), [Law::Replaced]);
        // Its controller took one.
        let taken = Evidence { deleted_by_controllers: ["a".to_owned()].into(), ..Evidence::default() };
        let smaller = [&[set(false, 1)], &begun[1..], &[set(true, 1), pod("a", true)], &again[..]].concat();
        assert_eq!(judged(&smaller, &taken), [Law::Count, Law::Count], "one too many before, and after");
        // What had no answer, or is others', counts apart.
        let unknown = Evidence { created_unanswered: ["c".to_owned()].into(), ..Evidence::default() };
        assert_eq!(judged(&[&deleted[..], &again].concat(), &unknown), []);
    }
}
