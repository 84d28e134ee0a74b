//! Why: what was done for one object, sync by sync with the rules, and what would be done next (PG-02).

use std::time::Duration;

use maud::{Markup, html};
use muster_controllers::replicaset::counting::BURST_REPLICAS;
use muster_inspect::explain::{Again, Explanation, Memory as Remembered, NextSync, Role, Source, View as Explained};
use muster_inspect::history::{History, Sync};
use muster_objects::meta::ObjectKey;
use muster_runtime::explain::{Kind, deployment_of_caches, replicas_of_caches};
use muster_runtime::group::shard_of;
use tokio::time::Instant;

use super::{Fragment, Memory, Path, Scene, rule_link, span};

/// How long what the Leases of groups tell is told again.
const SHARD_HOLDS: Duration = Duration::from_secs(5);
/// How many syncs are shown.
const MOST_SYNCS: usize = 40;
/// How many writes of a plan are shown.
const MOST_WRITES: usize = 20;

pub(crate) async fn render(scene: &Scene, memory: &mut Memory, kind: Kind, key: &ObjectKey) -> Vec<Fragment> {
    let explained = match &scene.insight {
        Some(insight) => insight.explain(kind, key).await.map_err(|error| error.to_string()),
        None => of_caches(scene, memory, kind, key).await.ok_or_else(|| "there is no such object".to_owned()),
    };
    let history = scene.history(kind, key).await;
    let name = kind.resource().kind;
    let mut fragments = vec![
        Fragment::of(
            "view",
            "head",
            html! {
                section.head {
                    h1 { "Why: " (key.name) }
                    p.title {
                        span.kind { (name) } span.ns { (key.namespace) }
                        a href=(Path("rollout", kind, key)) { "Its pods" }
                        @if scene.insight.is_some() { a href=(Path("inside", kind, key)) { "Follow it through the manager" } }
                    }
                    code { "muster explain " (Scene::command_kind(kind)) " " (key.name) " -n " (key.namespace) " " (scene.reach) }
                }
            },
        ),
        Fragment::of("view", "next", next(explained)),
    ];
    match history {
        None => fragments.push(Fragment::of(
            "view",
            "history",
            html! { p.note { "What was done before is known where a manager of Muster runs." } },
        )),
        Some(Err(error)) => fragments.push(Fragment::of("view", "history", html! { p.note { (error) } })),
        Some(Ok(history)) => timeline(&mut fragments, &history),
    }
    fragments
}

async fn of_caches(scene: &Scene, memory: &mut Memory, kind: Kind, key: &ObjectKey) -> Option<Explanation> {
    let model = &scene.model;
    let (pods, now) = (model.pods_in(&key.namespace), model.time());
    let explained = match kind {
        Kind::Deployment => deployment_of_caches(key, &model.deployments.read(), &model.sets.read(), &pods, now),
        Kind::ReplicaSet => replicas_of_caches(key, &model.sets.read(), &pods, BURST_REPLICAS, now),
        Kind::ReplicationController => replicas_of_caches(key, &model.controllers.read(), &pods, BURST_REPLICAS, now),
    }?;
    let shard = match &memory.shard {
        Some((read, shard)) if read.elapsed() < SHARD_HOLDS => shard.clone(),
        _ => {
            let shard = shard_of(&scene.client, &scene.election, &key.namespace).await;
            memory.shard = Some((Instant::now(), shard.clone()));
            shard
        }
    };
    Some(Explanation { shard, ..explained })
}

fn next(explained: Result<Explanation, String>) -> Markup {
    let explanation = match explained {
        Ok(explanation) => explanation,
        Err(error) => return html! { section { h2 { "What would happen next" } p.note { (error) } } },
    };
    let source = match &explanation.source {
        Source::Api => "computed by this page from what it watches",
        Source::Manager { role: Role::Leader } => "said by the manager that leads",
        Source::Manager { role: Role::Standby } => "said by a manager that stands by",
        Source::Manager { role: Role::Unelected } => "said by the manager",
        Source::Manager { role: Role::Member } => "said by the manager that has its shard",
    };
    html! {
        section {
            h2 { "What would happen next" }
            p.note { (source) ", at version " (explanation.object.resource_version) }
            @if let Some(shard) = &explanation.shard { p.note { "Its namespace is in " (shard) ". " (rule_link("SH-06")) } }
            @if let Some(memory) = &explanation.memory { (remembered(memory)) }
            @match &explanation.view {
                Explained::Stale(stale) => p {
                    "It waits: the cache of " (stale.kind) " is at " (stale.read) ", its own write at " (stale.wrote) ". " (rule_link("RS-19"))
                },
                Explained::InvalidSelector { error } => p { "Nothing: its selector cannot be parsed: " (error) " " (rule_link("RS-20")) },
                Explained::Replicas(replicas) => (planned(&replicas.next)),
                Explained::Rollout(rollout) => (planned(&rollout.next)),
            }
        }
    }
}

fn remembered(memory: &Remembered) -> Markup {
    let unmet = memory.expectations.as_ref().filter(|it| it.creations > 0 || !it.deletions.is_empty());
    let queue = &memory.queue;
    html! {
        ul.memory {
            @if let Some(unmet) = unmet {
                li { "It expects " (unmet.creations) " creations and " (unmet.deletions.len()) " deletions. " (rule_link("EX-01")) }
            }
            @for written in memory.written.iter().flatten() {
                li { "It wrote a " (written.kind) " at " (written.version) ", and its cache is at " (written.cache) ". " (rule_link("RS-19")) }
            }
            @if let Some(wait) = memory.creations_wait_seconds { li { "It creates no pods for " (span(wait)) ". " (rule_link("B-08")) } }
            @if queue.in_work { li { "A worker has it." } }
            @if queue.waiting { li { "It waits in the queue." } }
            @if let Some(due) = queue.due_in_seconds { li { "It is due in " (span(due)) "." } }
            @if queue.failures > 0 { li { (queue.failures) " of its syncs have failed in a row. " (rule_link("WQ-03")) } }
        }
    }
}

fn planned(next: &NextSync) -> Markup {
    let again = match &next.again {
        Again::OnChange => "It is looked at again when something changes.".to_owned(),
        Again::AfterSeconds(seconds) => format!("It is looked at again after {}.", span(*seconds)),
        Again::Backoff => "It is looked at again after a backoff.".to_owned(),
    };
    html! {
        p.summary { (next.summary) }
        ul.reasons { @for reason in &next.why { li { (rule_link(&reason.rule)) " " (reason.text) } } }
        @if !next.writes.is_empty() {
            ol.writes {
                @for write in next.writes.iter().take(MOST_WRITES) {
                    li {
                        (write.action) " " (write.kind) " " (write.name.as_deref().unwrap_or_default())
                        @if write.count > 1 { " ×" (write.count) }
                        @if let Some(purpose) = &write.purpose { ": " (purpose) }
                    }
                }
                @if next.writes.len() > MOST_WRITES { li { "and " (next.writes.len() - MOST_WRITES) " more" } }
            }
        }
        @if let Some(status) = &next.status { p.note { "Then its status: " code { (status.patch) } } }
        p.note { (again) }
    }
}

fn timeline(fragments: &mut Vec<Fragment>, history: &History) {
    let waiting = history
        .waiting
        .as_ref()
        .map(|waiting| format!("Now: it has waited {} for {}.", span(waiting.time.as_secs_f64()), waiting.on));
    fragments.push(Fragment::of(
        "view",
        "history",
        html! {
            section {
                h2 { "What happened" }
                @if let Some(waiting) = waiting { p.summary { (waiting) } }
                @if history.syncs.is_empty() { p.note { "None of its syncs is kept." } }
                ol.timeline data-list="timeline" aria-label="Syncs, the newest first" {}
            }
        },
    ));
    for sync in history.syncs.iter().rev().take(MOST_SYNCS) {
        let id = format!("sync-{}", sync.at.as_nanos());
        fragments.push(Fragment::of("timeline", id, html! { li { (of_sync(sync)) } }));
    }
}

/// One sync, with all that is known of it.
pub(crate) fn of_sync(sync: &Sync<'_>) -> Markup {
    let at = sync.at.micro().to_string();
    html! {
        p.summary {
            time datetime=(at) { (at.get(11..23).unwrap_or_default()) "Z" } " " (sync.summary)
            @if sync.count > 1 { ", " (sync.count) " times" }
            " in " (span(sync.took.as_secs_f64()))
        }
        dl.sync {
            @for (word, text) in lines(sync) {
                dt { @if word.contains('-') { (rule_link(&word)) } @else { (word) } }
                dd { (text) }
            }
        }
    }
}

/// What there is to say of a sync; what has no word of its own belongs to what stands before it.
pub(crate) fn lines(sync: &Sync<'_>) -> Vec<(String, String)> {
    let mut lines: Vec<(String, String)> = Vec::new();
    for (word, text) in sync.lines() {
        match lines.last_mut().filter(|_| word.is_empty()) {
            Some((_, before)) => before.push_str(&format!("; {text}")),
            None => lines.push((word, text)),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Contract: SH-06
    #[test]
    fn who_has_the_shard_is_told() {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "namespace": "ns", "name": "web", "uid": "u",
            "resourceVersion": "7", "generation": 1,
        });
        let told = |shard: serde_json::Value| {
            let explanation = json!({
                "kind": "Explanation", "format": 1, "at": "2026-01-01T00:00:00Z", "source": "api", "object": object,
                "shard": shard, "view": {"invalidSelector": {"error": "none"}},
            });
            next(Ok(serde_json::from_value(explanation).unwrap())).into_string()
        };
        let held = told(json!({"group": "main", "number": 7, "member": "web-1"}));
        assert!(held.contains("shard 7 of the group main, which web-1 has"), "{held}");
        assert!(told(json!({"group": "main", "number": 7})).contains("which nobody has"));
        assert!(!told(json!(null)).contains("group"));
    }
}
