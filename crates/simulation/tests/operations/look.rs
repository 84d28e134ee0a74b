//! What a user can see of a namespace, in a form that is the same in every run.

use std::collections::{BTreeMap, BTreeSet};

use muster_tree::{Map, Value, json};

use crate::common::{Api, EVENTS, PODS, SETS, condition, is_being_deleted, name, owner};

/// The kinds whose Events are noted.
const WATCHED: [&str; 3] = ["Deployment", "ReplicaSet", "ReplicationController"];

/// What is there of workloads at `path` (or of ReplicaSets alone), pods and Events.
pub(crate) async fn look(api: Api<'_>, path: &str) -> Value {
    let mut workloads = Vec::new();
    if path != SETS {
        workloads = api.list(path).await.iter().map(note).collect();
    }
    let mut sets: Vec<Value> = api.list(SETS).await.iter().map(note).collect();
    sets.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    let mut pods: BTreeMap<String, u32> = BTreeMap::new();
    for pod in api.list(PODS).await {
        *pods.entry(kind_of_pod(&pod)).or_default() += 1;
    }
    let mut events: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for event in api.list(EVENTS).await {
        let about = &event["involvedObject"];
        let kind = about["kind"].as_str().unwrap_or_default();
        if WATCHED.contains(&kind) {
            let said = [&event["type"], &event["reason"], &event["source"]["component"]];
            let said = said.map(|part| part.as_str().unwrap_or("None")).join(" ");
            events.entry(format!("{kind}/{}", about["name"].as_str().unwrap_or_default())).or_default().insert(said);
        }
    }
    json!({"workloads": workloads, "replicasets": sets, "pods": pods, "events": events})
}

/// A workload, or a ReplicaSet.
fn note(object: &Value) -> Value {
    let (meta, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    json!({
        "name": meta["name"],
        "owner": owner(object),
        "replicas": spec["replicas"],
        "image": spec["template"]["spec"]["containers"][0]["image"],
        "labels": or_empty(&meta["labels"]),
        "annotations": or_empty(&meta["annotations"]),
        "status": counts(status),
        "conditions": conditions(status),
        "observed": status["observedGeneration"] == meta["generation"],
        "deleting": is_being_deleted(object),
    })
}

fn or_empty(map: &Value) -> Value {
    if map.is_null() { json!({}) } else { map.clone() }
}

/// The numbers of a status that are not zero.
fn counts(status: &Value) -> Map {
    let fields = status.as_object().into_iter().flatten();
    fields
        .filter(|(field, value)| *field != "observedGeneration" && value.as_i64().is_some_and(|count| count != 0))
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect()
}

fn conditions(status: &Value) -> Vec<Vec<String>> {
    let all = status["conditions"].as_array().into_iter().flatten();
    let mut all: Vec<Vec<String>> = all
        .map(|each| {
            let [kind, status, reason, message] =
                ["type", "status", "reason", "message"].map(|field| each[field].as_str().unwrap_or_default());
            vec![kind.to_owned(), status.to_owned(), reason.to_owned(), without_chance(message)]
        })
        .collect();
    all.sort();
    all
}

/// By what pods are counted together: owner, kind of name, phase, readiness, image and labels.
fn kind_of_pod(pod: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("None").to_owned();
    let labels = pod["metadata"]["labels"].as_object().into_iter().flatten();
    let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={}", text(value))).collect();
    let called = without_chance(name(pod));
    [
        owner(pod).unwrap_or_else(|| "None".to_owned()),
        if called == name(pod) { "?".to_owned() } else { called },
        text(&pod["status"]["phase"]),
        if condition(pod, "Ready")["status"] == "True" { "ready" } else { "unready" }.to_owned(),
        text(&pod["spec"]["containers"][0]["image"]),
        labels.join(","),
    ]
    .join("|")
}

/// The text with a star for what is drawn of pods' names: `w-x7f2p`, `w-5d4f8c9b7-x7f2p`, `orphan-x7f2p`.
fn without_chance(text: &str) -> String {
    let part_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let word = rest.find(|c| !part_of_name(c)).unwrap_or(rest.len());
        let other = rest[word..].find(part_of_name).map_or(rest.len(), |at| word + at);
        match rest[..word].rsplit_once('-') {
            Some((stem, drawn)) if drawn.len() == 5 && is_stem(stem) => {
                out.push_str(stem);
                out.push_str("-*");
            }
            _ => out.push_str(&rest[..word]),
        }
        out.push_str(&rest[word..other]);
        rest = &rest[other..];
    }
    out
}

/// Whether pods' names begin so: `orphan`, `w`, or `w` with a hash.
fn is_stem(stem: &str) -> bool {
    matches!(stem, "orphan" | "w") || stem.strip_prefix("w-").is_some_and(|hash| (6..=10).contains(&hash.len()))
}
