//! A rollout as a tree: a workload, its revisions, their ReplicaSets and pods, out of their JSON.

use std::time::Duration;

use muster_inspect::reason::{list, pod_reason, text};
use muster_objects::{IntOrPercent, Timestamp};
use serde::Serialize;
use serde_json::Value;

/// The version of the JSON.
const FORMAT: u32 = 1;

/// The objects of a tree, as the API gave them.
#[derive(Debug, Clone, Default)]
pub(super) struct Objects {
    /// The workload that was asked for.
    pub(super) root: Value,
    /// The ReplicaSets of its namespace that may be its own; of another kind than Deployment none.
    pub(super) sets: Vec<Value>,
    /// The pods that may be its own.
    pub(super) pods: Vec<Value>,
}

/// A workload with all that belongs to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tree {
    /// Always `RolloutTree`.
    pub(super) kind: &'static str,
    /// The version of the JSON.
    pub(super) format: u32,
    /// When it was read.
    pub(super) at: String,
    /// Which object.
    pub(super) object: Named,
    /// How far it is.
    pub(super) phase: Phase,
    /// Why it is no further; empty where nothing is known to be in its way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) messages: Vec<String>,
    /// `RollingUpdate` or `Recreate`; none of what is no Deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) strategy: Option<Strategy>,
    /// How many pods there are.
    pub(super) pods: Counts,
    /// How fast it goes; none before two pods are ready, or where nothing is to come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pace: Option<Pace>,
    /// Its revisions, the newest first.
    pub(super) revisions: Vec<Revision>,
}

/// Which object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Named {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// How far a workload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Phase {
    /// All that was asked for is there and available, and nothing else.
    Complete,
    /// It is on its way.
    Progressing,
    /// It stands still by its owner's wish.
    Paused,
    /// Its deadline has passed without progress.
    Degraded,
    /// It is being deleted.
    Deleting,
    /// No controller has looked at what was last asked of it.
    Unobserved,
}

/// How pods are replaced.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Strategy {
    pub(super) name: String,
    /// The bounds of a rolling update (DEP-07).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bounds: Option<Bounds>,
}

/// How many pods a rolling update may have.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Bounds {
    pub(super) max_surge: String,
    pub(super) max_unavailable: String,
    /// The most that there may be.
    pub(super) most_pods: i64,
    /// The fewest that must be available.
    pub(super) least_available: i64,
}

/// How many pods there are, by the status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    pub(super) wanted: i64,
    pub(super) current: i64,
    /// Those of the newest revision.
    pub(super) updated: i64,
    pub(super) ready: i64,
    pub(super) available: i64,
    /// Those that are being deleted.
    pub(super) terminating: i64,
}

/// How fast pods of the newest revision turn ready.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pace {
    /// Pods a second, from the first that was created to the last that turned ready.
    pub(super) pods_per_second: f64,
    /// How many are to come.
    pub(super) remaining: i64,
    /// How long that takes at this pace, counted from the last; negative where that time has passed.
    pub(super) left_seconds: f64,
}

/// A template of pods that a workload has or had.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Revision {
    /// Its number; none of what has no revisions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) number: Option<i64>,
    /// Whether it is the one that is wanted.
    pub(super) newest: bool,
    /// Its ReplicaSet; none of what has pods of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replica_set: Option<Set>,
    /// Its images, in the order of the containers.
    pub(super) images: Vec<String>,
    /// Its pods: those that something is the matter with first, then the oldest.
    pub(super) pods: Vec<Pod>,
}

/// A ReplicaSet.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Set {
    pub(super) name: String,
    /// How old it is, in seconds.
    pub(super) age_seconds: f64,
    pub(super) wanted: i64,
    pub(super) current: i64,
    pub(super) ready: i64,
    pub(super) available: i64,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pod {
    pub(super) name: String,
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Terminating`.
    pub(super) status: String,
    pub(super) ready: bool,
    /// How old it is, in seconds.
    pub(super) age_seconds: f64,
    /// How often its containers have been started again.
    pub(super) restarts: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<String>,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
}

impl Tree {
    /// The tree of these objects.
    pub(super) fn of(objects: &Objects, kind: &str, now: Timestamp) -> Self {
        let Objects { root, .. } = objects;
        let revisions = revisions(objects, kind, now);
        let newest = revisions.iter().find(|revision| revision.newest);
        let of_newest = newest.map_or(&[][..], |revision| &revision.pods);
        let number = |pointer: &str| root.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
        let wanted = root.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
        let current = number("/status/replicas");
        let pods = Counts {
            wanted,
            current,
            updated: if kind == "Deployment" { number("/status/updatedReplicas") } else { current },
            ready: number("/status/readyReplicas"),
            available: number("/status/availableReplicas"),
            terminating: {
                let all = revisions.iter().flat_map(|revision| &revision.pods);
                i64::try_from(all.filter(|pod| pod.status == TERMINATING).count()).unwrap_or(i64::MAX)
            },
        };
        let phase = phase(root, pods);
        let own: Vec<&Value> =
            objects.pods.iter().filter(|pod| of_newest.iter().any(|p| p.name == name(pod))).collect();
        Self {
            kind: "RolloutTree",
            format: FORMAT,
            at: now.to_string(),
            object: Named {
                kind: kind.to_owned(),
                namespace: text(root, "/metadata/namespace").to_owned(),
                name: name(root).to_owned(),
            },
            phase,
            messages: messages(root, &revisions),
            strategy: strategy(root, wanted),
            pods,
            pace: if phase == Phase::Complete { None } else { pace(&own, wanted, now) },
            revisions,
        }
    }
}

const TERMINATING: &str = "Terminating";

fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// The uid of an object's controller.
fn controller(object: &Value) -> Option<&str> {
    let owners = list(object, "/metadata/ownerReferences");
    Some(text(owners.iter().find(|owner| owner["controller"] == true)?, "/uid"))
}

fn phase(root: &Value, pods: Counts) -> Phase {
    let observed = root.pointer("/status/observedGeneration").and_then(Value::as_i64).unwrap_or_default();
    let generation = root.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
    let Counts { wanted, current, updated, available, .. } = pods;
    if root.pointer("/metadata/deletionTimestamp").is_some() {
        Phase::Deleting
    } else if observed < generation {
        Phase::Unobserved
    } else if updated == wanted && available == wanted && current == wanted {
        Phase::Complete
    } else if root.pointer("/spec/paused") == Some(&Value::Bool(true)) {
        Phase::Paused
    } else if condition(root, "Progressing").is_some_and(|it| text(it, "/reason") == "ProgressDeadlineExceeded") {
        Phase::Degraded
    } else {
        Phase::Progressing
    }
}

fn condition<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    list(object, "/status/conditions").iter().find(|condition| text(condition, "/type") == kind)
}

/// What its conditions say is wrong, and of its pods each reason once.
fn messages(root: &Value, revisions: &[Revision]) -> Vec<String> {
    let mut messages: Vec<String> = Vec::new();
    for (kind, wrong) in [("ReplicaFailure", "True"), ("Progressing", "False")] {
        if let Some(condition) = condition(root, kind).filter(|condition| text(condition, "/status") == wrong) {
            messages.push(text(condition, "/message").to_owned());
        }
    }
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    let stuck = revisions.iter().flat_map(|revision| &revision.pods).filter(|pod| pod.status != TERMINATING);
    for reason in stuck.filter_map(|pod| pod.reason.as_deref()) {
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => reasons.push((reason, 1)),
        }
    }
    messages.extend(reasons.into_iter().map(|(reason, count)| match count {
        1 => format!("1 pod: {reason}"),
        many => format!("{many} pods: {reason}"),
    }));
    messages
}

fn strategy(root: &Value, wanted: i64) -> Option<Strategy> {
    let strategy = root.pointer("/spec/strategy")?;
    let bound = |field: &str| serde_json::from_value::<IntOrPercent>(strategy["rollingUpdate"][field].clone()).ok();
    let replicas = i32::try_from(wanted).unwrap_or(i32::MAX);
    let bounds = bound("maxSurge").zip(bound("maxUnavailable")).and_then(|(surge, unavailable)| {
        let most_surge = surge.scaled(replicas, true).ok()?;
        let mut most_unavailable = unavailable.scaled(replicas, false).ok()?;
        // A rollout that may do neither gets on all the same (DEP-07).
        if most_surge == 0 && most_unavailable == 0 {
            most_unavailable = 1;
        }
        Some(Bounds {
            max_surge: surge.to_string(),
            max_unavailable: unavailable.to_string(),
            most_pods: wanted + most_surge,
            least_available: (wanted - most_unavailable).max(0),
        })
    });
    Some(Strategy { name: text(strategy, "/type").to_owned(), bounds })
}

fn revisions(objects: &Objects, kind: &str, now: Timestamp) -> Vec<Revision> {
    let Objects { root, sets, pods } = objects;
    let uid = text(root, "/metadata/uid");
    if kind != "Deployment" {
        let pods = own_pods(pods, uid, now);
        return vec![Revision { number: None, newest: true, replica_set: None, images: images(root), pods }];
    }
    let own = sets.iter().filter(|set| controller(set) == Some(uid));
    let mut own: Vec<(i64, &Value)> = own.map(|set| (revision(set).unwrap_or_default(), set)).collect();
    own.sort_by(|(a, one), (b, other)| b.cmp(a).then_with(|| name(one).cmp(name(other))));
    let newest = own.iter().find(|(_, set)| has_template_of(set, root)).or(own.first()).map(|(number, _)| *number);
    let told = own.into_iter().map(|(number, set)| {
        let status = |field: &str| set["status"][field].as_i64().unwrap_or_default();
        Revision {
            number: revision(set),
            newest: Some(number) == newest,
            replica_set: Some(Set {
                name: name(set).to_owned(),
                age_seconds: age(set, now),
                wanted: set.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1),
                current: status("replicas"),
                ready: status("readyReplicas"),
                available: status("availableReplicas"),
            }),
            images: images(set),
            pods: own_pods(pods, text(set, "/metadata/uid"), now),
        }
    });
    // Of old ones that are empty nothing is to be seen.
    told.filter(|revision| {
        let size = revision.replica_set.as_ref().map_or(0, |set| set.wanted + set.current);
        revision.newest || size > 0 || !revision.pods.is_empty()
    })
    .collect()
}

/// Whether a ReplicaSet has a Deployment's template, its hash apart (DEP-03).
fn has_template_of(set: &Value, deployment: &Value) -> bool {
    let mut template = set["spec"]["template"].clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove("pod-template-hash");
    }
    template == deployment["spec"]["template"]
}

fn revision(set: &Value) -> Option<i64> {
    set["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str()?.parse().ok()
}

fn images(object: &Value) -> Vec<String> {
    list(object, "/spec/template/spec/containers").iter().map(|it| text(it, "/image").to_owned()).collect()
}

fn own_pods(pods: &[Value], owner: &str, now: Timestamp) -> Vec<Pod> {
    let mut own: Vec<Pod> =
        pods.iter().filter(|pod| controller(pod) == Some(owner)).map(|pod| Pod::of(pod, now)).collect();
    own.sort_by(|a, b| {
        let place = |pod: &Pod| (pod.reason.is_none(), pod.status == TERMINATING);
        let oldest = b.age_seconds.total_cmp(&a.age_seconds);
        place(a).cmp(&place(b)).then(oldest).then_with(|| a.name.cmp(&b.name))
    });
    own
}

impl Pod {
    fn of(pod: &Value, now: Timestamp) -> Self {
        let terminating = pod.pointer("/metadata/deletionTimestamp").is_some();
        let status = if terminating { TERMINATING } else { text(pod, "/status/phase") };
        let restarts = list(pod, "/status/containerStatuses").iter().filter_map(|it| it["restartCount"].as_i64()).sum();
        Self {
            name: name(pod).to_owned(),
            status: if status.is_empty() { "Pending" } else { status }.to_owned(),
            ready: condition(pod, "Ready").is_some_and(|ready| text(ready, "/status") == "True"),
            age_seconds: age(pod, now),
            restarts,
            node: Some(text(pod, "/spec/nodeName")).filter(|node| !node.is_empty()).map(str::to_owned),
            reason: pod_reason(pod).map(|reason| reason.text),
        }
    }
}

fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    Timestamp::parse(text(object, pointer)).ok()
}

/// How old an object is, in seconds.
fn age(object: &Value, now: Timestamp) -> f64 {
    time(object, "/metadata/creationTimestamp").map_or(0.0, |made| now.saturating_since(made).as_secs_f64().round())
}

/// How fast these pods have turned ready, and when `wanted` of them will be.
fn pace(pods: &[&Value], wanted: i64, now: Timestamp) -> Option<Pace> {
    let alive = pods.iter().filter(|pod| pod.pointer("/metadata/deletionTimestamp").is_none());
    let turned = |pod: &&&Value| {
        let ready = condition(pod, "Ready").filter(|ready| text(ready, "/status") == "True")?;
        time(ready, "/lastTransitionTime")
    };
    let ready: Vec<Timestamp> = alive.clone().filter_map(|pod| turned(&pod)).collect();
    let first = alive.filter_map(|pod| time(pod, "/metadata/creationTimestamp")).min()?;
    let last = *ready.iter().max().filter(|_| ready.len() >= 2)?;
    // Times are told in whole seconds.
    let took = last.saturating_since(first).max(Duration::from_secs(1)).as_secs_f64();
    let count = i64::try_from(ready.len()).ok()?;
    let remaining = (wanted - count).max(0);
    let pods_per_second = count as f64 / took;
    let left = remaining as f64 / pods_per_second - now.saturating_since(last).as_secs_f64();
    let round = |number: f64| (number * 10.0).round() / 10.0;
    Some(Pace { pods_per_second: round(pods_per_second), remaining, left_seconds: round(left) })
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
