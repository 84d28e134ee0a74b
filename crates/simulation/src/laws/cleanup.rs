//! The controllers delete a ReplicaSet, which is one of too many old ones, when nothing of it is left (DEP-14, B-21).

use std::collections::BTreeMap;

use http::Method;
use muster_tree::Value;

use super::rollout::uid;
use super::writers::namespace;
use super::{Broken, Kind, Law, Seen};
use crate::api::{is_being_deleted, name, number};
use crate::faults::target::place;
use crate::history::Write;
use crate::world::EPOCH_NANOS;

/// A namespace and a name.
type Named<'s> = (Option<&'s str>, &'s str);

/// Checks all that nobody but the controllers has deleted; nothing where the server was restored.
///
/// A deletion is of the spec that was seen, and its status may be another by then. So one that said for this spec that nothing is left is
/// enough.
#[must_use]
pub fn check(writes: &[Write], seen: &[Seen], is_ours: impl Fn(&str) -> bool) -> Vec<Broken> {
    if seen.iter().any(|write| write.epoch > 0) {
        return Vec::new();
    }
    let mut deletions = Deletions::of(writes, is_ours);
    // Each with whether nothing was left by its last generation.
    let mut left: BTreeMap<&str, (i64, bool)> = BTreeMap::new();
    let mut broken = Vec::new();
    for write in seen.iter().filter(|write| write.kind == Kind::ReplicaSet) {
        let set = &write.object;
        let is_going = write.gone || is_being_deleted(set);
        if !is_going {
            let generation = number(set, "/metadata/generation");
            let is_done = is_done_with(set);
            let (of, done) = left.entry(uid(set)).or_insert((generation, false));
            *done = is_done || *done && *of == generation;
            *of = generation;
            continue;
        }
        let Some((_, is_done)) = left.remove(uid(set)) else { continue };
        let is_by_ours = deletions.are_ours(write);
        if !is_done && is_by_ours {
            let at = write.millis - EPOCH_NANOS / 1_000_000;
            let told = &set["status"];
            let how = format!(
                "{} at {at} ms: {} is deleted by the controllers, wants {} pods, and says {told}",
                write.version,
                name(set),
                number(set, "/spec/replicas")
            );
            broken.push(Broken::by(Law::Cleanup, write, how));
        }
    }
    broken
}

/// The deletions of ReplicaSets, by the controllers and by others.
pub(super) struct Deletions<'w> {
    /// Of each name, when it was deleted, and whether by the controllers. A name is the same for the same template.
    of: BTreeMap<Named<'w>, Vec<(i64, bool)>>,
}

impl<'w> Deletions<'w> {
    pub(super) fn of(writes: &'w [Write], is_ours: impl Fn(&str) -> bool) -> Self {
        let deletes = writes
            .iter()
            .filter(|write| write.method == Method::DELETE && write.status == 200 && write.resource() == "replicasets");
        let mut of: BTreeMap<Named<'_>, Vec<(i64, bool)>> = BTreeMap::new();
        for write in deletes {
            let named = (namespace(&write.path), place(&write.path)[1]);
            of.entry(named).or_default().push((write.millis, is_ours(write.who)));
        }
        Self { of }
    }

    /// Whether this ReplicaSet, which goes, was deleted by the controllers and by nobody else. To be asked of each in its turn.
    pub(super) fn are_ours(&mut self, going: &'w Seen) -> bool {
        let set = &going.object;
        let deletions = self.of.entry((set["metadata"]["namespace"].as_str(), name(set))).or_default();
        let by: Vec<(i64, bool)> = deletions.extract_if(.., |(at, _)| *at <= going.millis).collect();
        !by.is_empty() && by.iter().all(|(_, is_ours)| *is_ours)
    }
}

/// Whether it wants no pods, and says so and that none is there, also none that is still to go.
fn is_done_with(set: &Value) -> bool {
    number(set, "/status/observedGeneration") >= number(set, "/metadata/generation")
        && ["/spec/replicas", "/status/replicas", "/status/terminatingReplicas"]
            .iter()
            .all(|count| number(set, count) == 0)
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    /// A ReplicaSet by its generation, the one that it has observed, the pods that it wants, has and is losing.
    fn set(generation: i64, observed: i64, [wants, has, going]: [i64; 3]) -> Seen {
        let metadata = json!({"name": "web-1", "namespace": "default", "uid": "1", "generation": generation});
        let status = json!({"observedGeneration": observed, "replicas": has, "terminatingReplicas": going});
        let object = json!({"metadata": metadata, "spec": {"replicas": wants}, "status": status});
        Seen { epoch: 0, version: 1, millis: 5, kind: Kind::ReplicaSet, gone: false, object }
    }

    fn deletion(who: &'static str, path: &str, status: u16) -> Write {
        let (method, path) = (Method::DELETE, path.to_owned());
        Write { millis: 5, who, method, path, sent: 0, status, answered: 0, lease: None, made: None }
    }

    fn broken(writes: &[Write], seen: &[Seen]) -> usize {
        let broken = check(writes, seen, |who| who == "manager");
        assert!(broken.iter().all(|broken| broken.law == Law::Cleanup), "{broken:?}");
        broken.len()
    }

    const WEB_1: &str = "/apis/apps/v1/namespaces/default/replicasets/web-1";

    /// Contract: SI-02, DEP-14, B-21
    #[test]
    fn what_is_deleted_has_said_that_nothing_is_left() {
        let ours = [deletion("manager", WEB_1, 200)];
        for (versions, found) in [
            (vec![set(1, 1, [0, 0, 0])], 0),
            (vec![set(1, 1, [2, 2, 0]), set(2, 1, [0, 2, 0]), set(2, 2, [0, 0, 2]), set(2, 2, [0, 0, 0])], 0),
            // What it adopts later makes no difference.
            (vec![set(2, 2, [0, 0, 0]), set(2, 2, [0, 1, 0])], 0),
            (vec![set(1, 1, [1, 0, 0])], 1),
            (vec![set(1, 1, [0, 1, 0])], 1),
            (vec![set(1, 1, [0, 0, 1])], 1),
            (vec![set(2, 1, [0, 0, 0])], 1),
            (vec![set(1, 1, [0, 0, 0]), set(2, 1, [0, 0, 0])], 1),
            (vec![set(1, 1, [0, 0, 0]), set(2, 2, [3, 0, 0])], 1),
        ] {
            for gone in [true, false] {
                let mut last = versions.last().unwrap().clone();
                last.gone = gone;
                if !gone {
                    last.object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                }
                let seen: Vec<Seen> = versions.iter().cloned().chain([last]).collect();
                assert_eq!(broken(&ours, &seen), found, "{versions:?}");
                let restored: Vec<Seen> = seen.into_iter().map(|seen| Seen { epoch: 1, ..seen }).collect();
                assert_eq!(broken(&ours, &restored), 0);
            }
            assert_eq!(broken(&ours, &versions), 0, "it is still there");
        }
    }

    /// Contract: SI-02
    #[test]
    fn what_is_made_again_is_another() {
        let at = |millis, seen: Seen| Seen { millis, ..seen };
        let gone = |uid: &str, seen: Seen| {
            let mut gone = Seen { gone: true, ..seen };
            gone.object["metadata"]["uid"] = json!(uid);
            gone
        };
        let again = |seen: Seen| Seen { gone: false, ..gone("2", seen) };
        let seen = [
            set(1, 1, [0, 0, 0]),
            at(6, gone("1", set(1, 1, [0, 0, 0]))),
            at(7, again(set(1, 1, [1, 1, 0]))),
            at(9, gone("2", set(1, 1, [1, 1, 0]))),
        ];
        let by = |who, millis| Write { millis, ..deletion(who, WEB_1, 200) };
        assert_eq!(broken(&[by("user", 5), by("manager", 8)], &seen), 1, "its own deletion counts");
        assert_eq!(broken(&[by("user", 5), by("user", 6), by("manager", 8)], &seen), 1);
        assert_eq!(broken(&[by("manager", 5), by("user", 8)], &seen), 0);
        assert_eq!(broken(&[by("user", 5), by("manager", 10)], &seen), 0, "nobody is known to have deleted it");
    }

    /// Contract: SI-02
    #[test]
    fn what_others_delete_is_not_judged() {
        let seen = [set(1, 1, [1, 1, 0]), Seen { gone: true, ..set(1, 1, [1, 1, 0]) }];
        let other = "/apis/apps/v1/namespaces/other/replicasets/web-1";
        for (writes, found) in [
            (vec![deletion("manager", WEB_1, 200)], 1),
            (vec![deletion("manager", &format!("{WEB_1}?propagationPolicy=Background"), 200)], 1),
            (vec![deletion("manager", WEB_1, 409)], 0),
            (vec![deletion("manager", other, 200)], 0),
            (vec![deletion("user", WEB_1, 200)], 0),
            (vec![Write { method: Method::PATCH, ..deletion("manager", WEB_1, 200) }], 0),
            (vec![deletion("manager", "/api/v1/namespaces/default/pods/web-1", 200)], 0),
            (vec![deletion("manager", WEB_1, 200), deletion("user", WEB_1, 200)], 0),
            (vec![deletion("manager", WEB_1, 200), deletion("user", WEB_1, 404), deletion("user", other, 200)], 1),
        ] {
            assert_eq!(broken(&writes, &seen), found, "{writes:?}");
        }
    }
}
