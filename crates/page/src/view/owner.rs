//! An owner of pods as a line: how many pods it wants and has, and what is in its way.

use std::collections::BTreeMap;
use std::sync::Arc;

use maud::{Markup, html};
use muster_controllers::replicaset::ReplicaOwner;
use muster_objects::meta::{Meta, ObjectKey, Uid};
use muster_objects::{Condition, Deployment, ReplicaSet, ReplicationController};
use muster_runtime::explain::Kind;

use crate::model::{Book, Counts};
use crate::pods::State;

/// How far an owner is, what needs a person first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// It does not get on.
    Stuck,
    /// It is on its way.
    Moving,
    /// It has what it wants.
    Complete,
}

impl Rank {
    /// Its name for a person, and its class.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stuck => "stuck",
            Self::Moving => "moving",
            Self::Complete => "complete",
        }
    }
}

/// An owner of pods.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    pub(crate) kind: Kind,
    pub(crate) key: ObjectKey,
    pub(crate) wanted: i64,
    pub(crate) created: i64,
    pub(crate) ready: i64,
    pub(crate) available: i64,
    pub(crate) terminating: i64,
    pub(crate) rank: Rank,
    /// What is in its way, or how far it is; empty where it is complete.
    pub(crate) sentence: String,
}

/// What an owner's status says.
struct Status<'a> {
    replicas: i32,
    ready: i32,
    available: i32,
    observed: i64,
    conditions: &'a [Condition],
    /// Those of the newest template; of what has one template all of them.
    updated: i32,
    paused: bool,
}

impl Owner {
    pub(crate) fn of_deployment(deployment: &Deployment, sets: &[Arc<ReplicaSet>], book: &Book) -> Self {
        let uids: Vec<&Uid> = sets.iter().map(|set| &set.meta.uid).collect();
        let it = &deployment.status;
        let status = Status {
            replicas: it.replicas,
            ready: it.ready_replicas,
            available: it.available_replicas,
            observed: it.observed_generation,
            conditions: &it.conditions,
            updated: it.updated_replicas,
            paused: deployment.paused,
        };
        Self::of(Kind::Deployment, &deployment.meta, deployment.replicas, &status, &uids, book)
    }

    pub(crate) fn of_set(set: &ReplicaSet, book: &Book) -> Self {
        Self::of_replicas(Kind::ReplicaSet, set, book)
    }

    pub(crate) fn of_controller(owner: &ReplicationController, book: &Book) -> Self {
        Self::of_replicas(Kind::ReplicationController, owner, book)
    }

    fn of_replicas(kind: Kind, owner: &impl ReplicaOwner, book: &Book) -> Self {
        let (it, meta) = (owner.status(), owner.meta());
        let status = Status {
            replicas: it.replicas,
            ready: it.ready_replicas,
            available: it.available_replicas,
            observed: it.observed_generation,
            conditions: &it.conditions,
            updated: it.replicas,
            paused: false,
        };
        Self::of(kind, meta, owner.replicas(), &status, &[&meta.uid], book)
    }

    fn of(kind: Kind, meta: &Meta, wanted: i32, status: &Status<'_>, uids: &[&Uid], book: &Book) -> Self {
        let mut counts = Counts::default();
        for uid in uids {
            for (sum, count) in counts.iter_mut().zip(book.counts(uid)) {
                *sum += count;
            }
        }
        let of = |state: State| counts[state as usize];
        let created = of(State::Ready) + of(State::Starting) + of(State::Waiting) + of(State::Broken);
        let (rank, sentence) = judge(meta, wanted, status, &counts, || reasons(uids, book));
        Self {
            kind,
            key: meta.key(),
            wanted: wanted.into(),
            created,
            ready: of(State::Ready),
            available: i64::from(status.available),
            terminating: of(State::Terminating),
            rank,
            sentence,
        }
    }

    /// A bar: what is wanted as a frame, what is there as its filling.
    pub(crate) fn bar(&self) -> Markup {
        let available = self.available.min(self.ready).max(0);
        let parts = [
            ("available", available),
            ("ready", self.ready - available),
            ("created", self.created - self.ready),
            ("terminating", self.terminating),
        ];
        let whole = self.wanted.max(self.created + self.terminating).max(1);
        let width = |count: i64| format!("{:.3}", count as f64 / whole as f64 * 100.0);
        let mut at = 0;
        let parts = parts.map(|(name, count)| {
            at += count;
            (name, at - count, count)
        });
        let told = self.counts();
        html! {
            svg.bar viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label=(told) {
                @for (name, from, count) in parts {
                    @if count > 0 { rect class=(name) x=(width(from)) y="1" width=(width(count)) height="8" {} }
                }
                rect.wanted x="0" y="0" width=(width(self.wanted)) height="10" {}
            }
        }
    }

    /// Its numbers in words.
    pub(crate) fn counts(&self) -> String {
        format!(
            "{} desired, {} created, {} ready, {} available, {} terminating",
            self.wanted, self.created, self.ready, self.available, self.terminating
        )
    }
}

/// How far it is, and what is in its way.
fn judge(
    meta: &Meta,
    wanted: i32,
    status: &Status<'_>,
    counts: &Counts,
    reasons: impl FnOnce() -> Vec<(String, usize)>,
) -> (Rank, String) {
    let condition = |kind: &str, value: &str| {
        let found = Condition::find(status.conditions, kind)?;
        (found.status.as_str() == value).then_some(&*found.message)
    };
    let complete = status.replicas == wanted && status.updated == wanted && status.available == wanted;
    let observed = status.observed >= meta.generation;
    let broken = counts[State::Broken as usize] > 0;
    let mut why = Vec::new();
    // What a status says of an older specification may be over.
    if !observed && !meta.is_being_deleted() {
        return (Rank::Moving, "No controller has looked at its newest specification yet.".to_owned());
    }
    if let Some(message) = condition("ReplicaFailure", "True") {
        why.push(message.trim_end_matches('.').to_owned());
    }
    if let Some(message) = condition("Progressing", "False") {
        why.push(message.trim_end_matches('.').to_owned());
    }
    if broken {
        for (reason, count) in reasons().into_iter().take(3) {
            let pods = if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") };
            why.push(format!("{pods}: {reason}"));
        }
    }
    if !why.is_empty() {
        return (Rank::Stuck, format!("{}.", why.join("; ")));
    }
    let behind = format!("{} of {wanted} available", status.available);
    if meta.is_being_deleted() {
        (Rank::Moving, "It is being deleted.".to_owned())
    } else if complete {
        (Rank::Complete, String::new())
    } else if status.paused {
        (Rank::Moving, format!("Paused: {behind}."))
    } else if status.ready > status.available {
        (Rank::Moving, format!("{behind}; {} ready, not for long enough.", status.ready - status.available))
    } else if status.updated < wanted {
        (Rank::Moving, format!("{behind}; {} of {wanted} have the newest template.", status.updated))
    } else {
        let on_the_way = [(State::Waiting, "without a node"), (State::Starting, "starting")];
        let on_the_way = on_the_way.map(|(state, words)| (counts[state as usize], words));
        let told: Vec<String> = on_the_way
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, words)| format!("{count} {words}"))
            .collect();
        let colon = if told.is_empty() { "" } else { ": " };
        (Rank::Moving, format!("{behind}{colon}{}.", told.join(", ")))
    }
}

/// Why pods are broken, the most frequent reason first.
fn reasons(uids: &[&Uid], book: &Book) -> Vec<(String, usize)> {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for owned in uids.iter().filter_map(|uid| book.owned(uid)) {
        for seen in owned.pods.values().filter(|seen| seen.state == State::Broken) {
            *reasons.entry(seen.reason.as_deref().unwrap_or("not ready")).or_default() += 1;
        }
    }
    let mut reasons: Vec<(String, usize)> = reasons.into_iter().map(|(text, count)| (text.to_owned(), count)).collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    reasons
}

#[cfg(test)]
mod tests {
    use muster_objects::{Interner, Object as _};
    use serde_json::{Value, json};

    use super::*;
    use crate::pods::Seen;

    /// A ReplicaSet of 3 with this status and these pods, as a line.
    fn line(generation: i64, status: &Value, pods: &[Value]) -> (Rank, String) {
        let mut book = Book::default();
        for (at, pod) in pods.iter().enumerate() {
            let mut pod = pod.clone();
            let owner =
                json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true});
            pod["metadata"] = json!({"name": format!("p{at}"), "uid": format!("p{at}"), "ownerReferences": [owner]});
            let seen = Seen::decode(pod.to_string().as_bytes(), &mut Interner::new()).unwrap();
            book.pod(1, true, None, Some(&Arc::new(seen)));
        }
        let set = json!({
            "metadata": {"name": "web", "uid": "u", "generation": generation},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": {}},
            "status": status,
        });
        let set = ReplicaSet::decode(set.to_string().as_bytes(), &mut Interner::new()).unwrap();
        let owner = Owner::of_set(&set, &book);
        (owner.rank, owner.sentence)
    }

    /// Contract: PG-02
    #[test]
    fn what_is_stuck_is_told_from_what_is_on_its_way() {
        let ready = json!({"spec": {"nodeName": "n"}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        let starting = json!({"spec": {"nodeName": "n"}, "status": {"phase": "Pending"}});
        let waiting = json!({"status": {"phase": "Pending"}});
        let broken = json!({"spec": {"nodeName": "n"}, "status": {"phase": "Pending", "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ErrImagePull"}}}]}});
        let full = json!({"replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "observedGeneration": 1});
        let part = json!({"replicas": 3, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 1});
        let slow = json!({"replicas": 3, "readyReplicas": 3, "availableReplicas": 1, "observedGeneration": 1});
        let failure = json!([{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota."}]);
        let refused = json!({"replicas": 0, "observedGeneration": 1, "conditions": failure});
        let r = || ready.clone();
        for (generation, status, pods, rank, sentence) in [
            (1, &full, vec![r(), r(), r()], Rank::Complete, ""),
            (
                1,
                &part,
                vec![r(), starting.clone(), waiting.clone()],
                Rank::Moving,
                "1 of 3 available: 1 without a node, 1 starting.",
            ),
            (1, &part, vec![r(), broken.clone(), broken.clone()], Rank::Stuck, "2 pods: container c: ErrImagePull."),
            (1, &slow, vec![r(), r(), r()], Rank::Moving, "1 of 3 available; 2 ready, not for long enough."),
            (1, &refused, vec![], Rank::Stuck, "exceeded quota."),
            // What is said of an older specification may be over.
            (2, &refused, vec![], Rank::Moving, "No controller has looked at its newest specification yet."),
            (2, &full, vec![r(), r(), r()], Rank::Moving, "No controller has looked at its newest specification yet."),
        ] {
            assert_eq!(line(generation, status, &pods), (rank, sentence.to_owned()), "{status}");
        }
    }
}
