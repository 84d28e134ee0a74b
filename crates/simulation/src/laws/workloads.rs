//! What must hold of the pods of any workload after every single write, under any fault.
//!
//! A controller acts on what it has seen, and in bad weather that may be old. So the bounds of an owner are the laxest
//! of the sizes that its controller may be looking at, by the generation that its status answers to: once that has
//! come, exactly what is asked. What nobody can know is counted apart, owner by owner: a pod that was created without
//! an answer, while it is there, and a pod that others took, or that was deleted without an answer.

use std::collections::{BTreeMap, BTreeSet};

use muster_tree::Value;

use super::rollout::is_active;
use super::sizes::Sizes;
use super::{Broken, Evidence, Kind, Law, Seen};
use crate::api::{name, number};
use crate::world::EPOCH_NANOS;

/// Checks a history of workloads: no owner has a pod too many by a creation, nor one too few by a deletion of the controllers.
#[must_use]
pub fn check(seen: &[Seen], evidence: &Evidence) -> Vec<Broken> {
    let mut laws = Laws::new(evidence);
    let mut epoch = 0;
    for write in seen {
        if write.epoch > epoch {
            // Nothing of before has been. What was decided on it may still be carried out.
            epoch = write.epoch;
            laws = Laws { broken: laws.broken, restored: true, ..Laws::new(evidence) };
        }
        laws.take(write);
    }
    laws.broken
}

/// Everything as of one write.
struct Laws<'s> {
    evidence: &'s Evidence,
    /// Whether the server was restored before.
    restored: bool,
    /// What the controller of each owner, by its uid, may be looking at.
    sizes: BTreeMap<&'s str, Sizes>,
    /// Pods that were there before, by their uids.
    known: BTreeSet<&'s str>,
    /// Active pods, each with its owner's uid.
    pods: BTreeMap<&'s str, &'s str>,
    /// Pods that each owner lost by nothing that the controllers did.
    lost: BTreeMap<&'s str, i64>,
    broken: Vec<Broken>,
}

impl<'s> Laws<'s> {
    fn new(evidence: &'s Evidence) -> Self {
        Self {
            evidence,
            restored: false,
            sizes: BTreeMap::new(),
            known: BTreeSet::new(),
            pods: BTreeMap::new(),
            lost: BTreeMap::new(),
            broken: Vec::new(),
        }
    }

    fn take(&mut self, write: &'s Seen) {
        let object = &write.object;
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        if write.kind != Kind::Pod {
            self.sizes.entry(uid).or_default().note(|pointer| number(object, pointer));
            if write.millis >= self.evidence.told_from {
                self.settle(object, uid);
            }
            return;
        }
        let added = self.known.insert(uid);
        let owner = object["metadata"]["ownerReferences"][0]["uid"].as_str();
        let active = !write.gone && is_active(object);
        let owner = owner.filter(|_| active);
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
                self.break_law(write, &format!("{count} pods, at most {most} were asked for"));
            }
        }
        let Some(before) = before else { return };
        if active || !self.evidence.deleted_by_controllers.contains(name(object)) {
            *self.lost.entry(before).or_default() += 1;
            return;
        }
        let count = self.count(before);
        let least = self.sizes.get(before).map_or(0, Sizes::least);
        let lost = self.lost.get(before).copied().unwrap_or_default();
        if count + lost < least {
            self.break_law(write, &format!("{count} pods are left ({lost} lost), at least {least} were asked for"));
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

    fn break_law(&mut self, write: &Seen, how: &str) {
        let Seen { version, millis, object, .. } = write;
        if self.restored && *millis < self.evidence.told_from || !self.evidence.is_sure(*millis) {
            return;
        }
        let owner = &object["metadata"]["ownerReferences"][0]["name"];
        let at = millis - EPOCH_NANOS / 1_000_000;
        let how = format!("{version} at {at} ms: {owner} {}: {how}", name(object));
        self.broken.push(Broken { law: Law::Count, version: *version, how });
    }
}
