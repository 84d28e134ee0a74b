//! The controllers delete an old ReplicaSet only where its Deployment has more of them than `revisionHistoryLimit` (DEP-14).
//!
//! Judged until the first fault strikes them, and a second after anybody else has changed what there is: they know of it by then.

use std::collections::BTreeMap;

use muster_tree::Value;

use super::cleanup::Deletions;
use super::rest::template;
use super::rollout::uid;
use super::{Broken, Kind, Law, Seen};
use crate::api::{is_being_deleted, name, number, owner_uid};
use crate::history::Write;
use crate::world::EPOCH_NANOS;

/// By then they know, and are done with what they did before.
const KNOWN: i64 = 1_000;

/// Checks a history until that moment.
#[must_use]
pub fn check(writes: &[Write], seen: &[Seen], until: Option<i64>, is_ours: impl Fn(&str) -> bool) -> Vec<Broken> {
    let mut deletions = Deletions::of(writes, is_ours);
    let (mut deployments, mut sets) = (BTreeMap::<&str, &Value>::new(), BTreeMap::<&str, &Value>::new());
    // Those that are being deleted and are still there.
    let mut leaving: BTreeMap<&str, &Value> = BTreeMap::new();
    // When a Deployment last changed, or others what it has, by its uid.
    let mut changed: BTreeMap<&str, i64> = BTreeMap::new();
    let mut broken = Vec::new();
    for write in seen.iter().take_while(|write| until.is_none_or(|until| write.millis < until)) {
        let (object, uid) = (&write.object, uid(&write.object));
        let is_going = write.gone || is_being_deleted(object);
        match write.kind {
            Kind::Deployment if is_going => _ = deployments.remove(uid),
            Kind::Deployment => {
                let generation = |object: &Value| number(object, "/metadata/generation");
                let before = deployments.insert(uid, object);
                if before.is_none_or(|before| generation(before) != generation(object)) {
                    changed.insert(uid, write.millis);
                }
            }
            Kind::ReplicaSet => {
                let before = if is_going { sets.remove(uid) } else { sets.insert(uid, object) };
                let _ = if write.gone || !is_going { leaving.remove(uid) } else { leaving.insert(uid, object) };
                let Some(owner) = before.and_then(owner_uid) else { continue };
                let is_by_ours = is_going && deletions.are_ours(write);
                if is_going && !is_by_ours || !is_going && owner_uid(object) != Some(owner) {
                    changed.insert(owner, write.millis);
                }
                let is_known = changed.get(owner).is_none_or(|changed| changed + KNOWN < write.millis);
                let Some(deployment) = deployments.get(owner).filter(|_| is_by_ours && is_known) else { continue };
                let its = |set: &&Value| owner_uid(set) == Some(owner);
                let newest = template(deployment);
                // One that is held is the newest still.
                if leaving
                    .values()
                    .filter(|set| set["metadata"]["uid"] != uid)
                    .copied()
                    .filter(its)
                    .any(|set| template(set) == newest)
                {
                    continue;
                }
                let besides = sets.values().copied().filter(its).chain([object]).collect::<Vec<_>>();
                if let Some(left) = why_kept(deployment, &besides, &newest) {
                    let at = write.millis - EPOCH_NANOS / 1_000_000;
                    let (web, set) = (name(deployment), name(object));
                    let how =
                        format!("{} at {at} ms: {set} is deleted by the controllers, and {web} {left}", write.version);
                    broken.push(Broken::by(Law::Past, write, how));
                }
            }
            Kind::ReplicationController | Kind::Pod => {}
        }
    }
    broken
}

/// Why a Deployment with these ReplicaSets was to keep them, if it was.
fn why_kept(deployment: &Value, sets: &[&Value], newest: &Value) -> Option<String> {
    let limit = deployment["spec"]["revisionHistoryLimit"].as_i64()?;
    // Of several with its template one is the newest.
    let old = sets.len() - usize::from(sets.iter().any(|set| template(set) == *newest));
    let is_kept = i64::try_from(old).is_ok_and(|old| old <= limit);
    is_kept.then(|| format!("had {old} old ones and was to keep {limit}"))
}

#[cfg(test)]
mod tests {
    use http::Method;
    use muster_tree::json;

    use super::*;

    fn deployment(millis: i64, generation: i64, limit: i64) -> Seen {
        let metadata = json!({"name": "web", "uid": "web", "namespace": "default", "generation": generation});
        let spec = json!({"revisionHistoryLimit": limit, "template": {"spec": {"image": "new"}}});
        let object = json!({ "metadata": metadata, "spec": spec });
        Seen { epoch: 0, version: 1, millis, kind: Kind::Deployment, gone: false, object }
    }

    fn set(millis: i64, image: &str, gone: bool) -> Seen {
        let owner = json!({"controller": true, "uid": "web", "name": "web"});
        let metadata = json!({"name": image, "uid": image, "namespace": "default", "ownerReferences": [owner]});
        let object = json!({ "metadata": metadata, "spec": {"template": {"spec": {"image": image}}} });
        Seen { epoch: 0, version: 2, millis, kind: Kind::ReplicaSet, gone, object }
    }

    fn deletion(who: &'static str, image: &str) -> Write {
        let (method, path) = (Method::DELETE, format!("/apis/apps/v1/namespaces/default/replicasets/{image}"));
        Write { millis: 0, who, method, path, sent: 0, status: 200, answered: 0, lease: None, made: None }
    }

    fn broken(writes: &[Write], seen: &[Seen], until: Option<i64>) -> usize {
        check(writes, seen, until, |who| who == "manager").len()
    }

    /// Contract: SI-02, DEP-14
    #[test]
    fn no_more_is_deleted_than_is_too_many() {
        let ours = [deletion("manager", "a"), deletion("manager", "b")];
        let there = |limit| [deployment(0, 1, limit), set(0, "a", false), set(0, "b", false), set(0, "new", false)];
        let gone = [set(2_000, "a", true), set(2_000, "b", true)];
        for (limit, found) in [(0, 0), (1, 1), (2, 2)] {
            assert_eq!(broken(&ours, &[&there(limit)[..], &gone].concat(), None), found, "of two {limit} are kept");
        }
        // Before there is a ReplicaSet of its template all are old.
        assert_eq!(broken(&ours, &[&there(2)[..3], &gone].concat(), None), 2);
        assert_eq!(broken(&ours, &[&there(1)[..3], &gone].concat(), None), 1);
        // Not once a fault has struck, nor what others delete, nor right after a change.
        let two = [&there(2)[..], &gone].concat();
        assert_eq!(broken(&ours, &two, Some(2_000)), 0);
        let by_user = [deletion("user", "a"), deletion("manager", "b")];
        let refused =
            [Write { status: 404, ..deletion("user", "a") }, deletion("manager", "a"), deletion("manager", "b")];
        assert_eq!(broken(&refused, &two, None), 2);
        assert_eq!(broken(&by_user, &two, None), 0, "the other is deleted right after it");
        let [first, second] = gone;
        let edited = deployment(1_500, 2, 2);
        assert_eq!(broken(&ours, &[&there(0)[..], &[edited, first.clone(), second.clone()]].concat(), None), 0);
        // One of its template that is held is the newest, and another is old.
        let mut held = set(500, "new", false);
        held.object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let mut twin = set(0, "a", false);
        twin.object["spec"] = json!({"template": {"spec": {"image": "new"}}});
        let twins = [deployment(0, 1, 0), set(0, "new", false), twin.clone(), held];
        let gone = Seen { millis: 2_000, gone: true, ..twin };
        assert_eq!(broken(&ours, &[&twins[..], &[gone]].concat(), None), 0);
        let status = deployment(1_500, 1, 2);
        assert_eq!(broken(&ours, &[&there(2)[..], &[status, first, second]].concat(), None), 2);
    }
}
