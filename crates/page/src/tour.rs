//! The tour: eight steps through the idea of the controllers, each begun by a button.

use std::time::Duration;

use muster_objects::Timestamp;
use muster_objects::meta::ObjectKey;
use muster_runtime::client::{Client, ClientError};
use muster_runtime::explain::Kind;
use serde_json::{Value, json};

use crate::acts::{self, MISSING_IMAGE, bytes, done};
use crate::insight::Stage;
use crate::view::Scene;

/// Where the tour's objects are.
pub(crate) const NAMESPACE: &str = "tour";
/// Its ReplicaSet.
pub(crate) const SEED: &str = "seed";
/// Its ReplicationController.
pub(crate) const OLD: &str = "old";
/// Its Deployment.
pub(crate) const WEB: &str = "web";
const REPLICA_SET: &str = include_str!("../../../examples/tour/seed.yaml");
const REPLICATION_CONTROLLER: &str = include_str!("../../../examples/tour/old.yaml");
const ORPHAN: &str = include_str!("../../../examples/tour/orphan.yaml");
const DEPLOYMENT: &str = include_str!("../../../examples/tour/web.yaml");
/// How long a watch is held.
pub(crate) const HOLD: Duration = Duration::from_secs(5);

/// What a button does, as a person would do it.
pub(crate) enum Command {
    /// A command; `{there}` stands for the namespace and how to reach the cluster, `{reach}` for the latter alone.
    Run(&'static str),
    /// An object of examples/tour is created.
    Create(&'static str),
}

/// A step.
pub(crate) struct Step {
    pub(crate) title: &'static str,
    /// Three sentences.
    pub(crate) text: [&'static str; 3],
    /// The file that does it.
    pub(crate) file: &'static str,
    /// A row of the contract.
    pub(crate) row: &'static str,
    /// What its buttons say, and the commands that do the same.
    pub(crate) parts: &'static [(&'static str, &'static [Command])],
    /// What is looked at.
    pub(crate) looked_at: (Kind, &'static str),
    /// What is waited for, in words.
    pub(crate) goal: &'static str,
}

/// What was seen of the tour so far: a manager that is killed takes its history with it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) done: [bool; STEPS.len()],
    /// Since when what happens counts for each step: when its button was pressed last, or it was first shown.
    pub(crate) since: [Option<Timestamp>; STEPS.len()],
    /// Who led when the last step was first looked at, or its button pressed: the leader is killed by that or by a command.
    pub(crate) led: Option<String>,
}

/// All of them.
pub(crate) const STEPS: [Step; 8] = [
    Step {
        title: "Scale up, in slow start",
        text: [
            "A ReplicaSet wants 15 pods and has none.",
            "The controller creates 1, and where that succeeds 2, then 4, then 8: if the first is refused, it has not asked 15 times.",
            "Before it begins it expects 15 events of its watch, and it does nothing more to these pods before it has seen them.",
        ],
        file: "crates/machinery/src/slow_start.rs",
        row: "RS-09",
        parts: &[(
            "Scale it to 15",
            &[
                Command::Run("kubectl create namespace tour {reach}"),
                Command::Create(REPLICA_SET),
                Command::Run("kubectl scale rs/seed --replicas=15 {there}"),
            ],
        )],
        looked_at: (Kind::ReplicaSet, SEED),
        goal: "15 pods are ready",
    },
    Step {
        title: "Scale down, by rank",
        text: [
            "Of 15 pods 10 are too many, and a fixed order says which go.",
            "First those without a node, not running, not ready or not yet available; then those of lower deletion cost, with \
             more of their like on the node, ready for less long, with more restarts, younger.",
            "On the ReplicaSet's own page each pod is a cell: look at one, and it tells its place and the rule that put it there.",
        ],
        file: "crates/controllers/src/replicaset/ranking.rs",
        row: "DEL-01",
        parts: &[("Scale it to 5", &[Command::Run("kubectl scale rs/seed --replicas=5 {there}")])],
        looked_at: (Kind::ReplicaSet, SEED),
        goal: "5 pods are left",
    },
    Step {
        title: "Adopt an orphan",
        text: [
            "A pod without an owner has the labels that the ReplicaSet selects.",
            "The controller looks once more whether the ReplicaSet is still there, and then writes it into the pod as its owner.",
            "Now there is one pod too many, so that one of the six goes.",
        ],
        file: "crates/runtime/src/executor/mod.rs",
        row: "RS-07",
        parts: &[("Create an orphan", &[Command::Create(ORPHAN)])],
        looked_at: (Kind::ReplicaSet, SEED),
        goal: "the pod was adopted",
    },
    Step {
        title: "A stale cache",
        text: [
            "The watch of ReplicaSets tells nothing for 5 seconds, and a pod is killed meanwhile.",
            "The controller replaces the pod and writes the ReplicaSet's status; its own cache does not have that write yet.",
            "It knows the version that it wrote, and waits until the cache has it: deciding by an older state could undo its own work.",
        ],
        file: "crates/machinery/src/consistency.rs",
        row: "RS-19",
        parts: &[(
            "Hold the watch and kill a pod",
            &[
                Command::Run("muster faults hold replicasets --for 5s {reach}"),
                Command::Run("kubectl delete {there} $(kubectl get pods -l app=seed -o name {there} | head -1)"),
            ],
        )],
        looked_at: (Kind::ReplicaSet, SEED),
        goal: "a sync waited for its cache",
    },
    Step {
        title: "An expectation that is not met",
        text: [
            "The watch of pods tells nothing for 5 seconds, while a ReplicationController is scaled from 5 to 8 and then to 9.",
            "The controller creates three pods and expects three events; none comes, so that by its cache five pods are all there are.",
            "This older kind keeps no record of its writes: without the expectation it would create four now, with it, it waits.",
        ],
        file: "crates/machinery/src/expectations.rs",
        row: "EX-07",
        parts: &[
            ("Create the ReplicationController", &[Command::Create(REPLICATION_CONTROLLER)]),
            (
                "Hold the watch and scale twice",
                &[
                    Command::Run("muster faults hold pods --for 5s {reach}"),
                    Command::Run("kubectl scale rc/old --replicas=8 {there}"),
                    Command::Run("sleep 1"),
                    Command::Run("kubectl scale rc/old --replicas=9 {there}"),
                ],
            ),
        ],
        looked_at: (Kind::ReplicationController, OLD),
        goal: "a sync waited for its expectations",
    },
    Step {
        title: "A rollout at its bounds",
        text: [
            "A Deployment of 10 pods gets another image, so that it makes a ReplicaSet for it.",
            "Step by step the new one grows and the old one shrinks: never more than 13 pods, those terminating not counted, \
             and never fewer than 8 available.",
            "The Deployment touches no pod; it only sets two numbers, and the ReplicaSet controller does the rest.",
        ],
        file: "crates/controllers/src/deployment/rolling.rs",
        row: "DEP-10",
        parts: &[
            ("Create the Deployment", &[Command::Create(DEPLOYMENT)]),
            ("Change its image", &[Command::Run("kubectl set image deployment/web nginx=nginx:1.30 {there}")]),
        ],
        looked_at: (Kind::Deployment, WEB),
        goal: "revision 2 is complete",
    },
    Step {
        title: "A broken rollout",
        text: [
            "The next image is in no registry, so that its pods never turn ready.",
            "The rollout stops at its bounds by itself: 8 old pods stay, and nobody who uses them notices.",
            "Undo makes the old template the newest again, and its ReplicaSet grows back.",
        ],
        file: "crates/controllers/src/deployment/rolling.rs",
        row: "DEP-11",
        parts: &[
            ("Break it", &[Command::Run("kubectl set image deployment/web nginx=nginx:404 {there}")]),
            ("Undo", &[Command::Run("kubectl rollout undo deployment/web {there}")]),
        ],
        looked_at: (Kind::Deployment, WEB),
        goal: "it was broken, and is complete again",
    },
    Step {
        title: "A failover",
        text: [
            "Two managers run, one of them leads, and right after a scale to 12 it is killed without a word.",
            "The other one waits until the leader's Lease has run out, 3 seconds here, reads everything anew, and goes on where \
             that one stood.",
            "What the first had begun is neither lost nor done twice: all that is needed for it stands in the API.",
        ],
        file: "crates/machinery/src/election.rs",
        row: "B-12",
        parts: &[(
            "Scale and kill the leader",
            &[
                Command::Run("kubectl scale rs/seed --replicas=12 {there}"),
                Command::Run("muster faults kill-leader {reach}"),
            ],
        )],
        looked_at: (Kind::ReplicaSet, SEED),
        goal: "another manager leads, and there are 12 pods",
    },
];

impl Command {
    /// As a shell takes it.
    pub(crate) fn text(&self, reach: &str) -> String {
        let there = format!("-n {NAMESPACE} {reach}");
        match self {
            Self::Run(command) => command.replace("{there}", there.trim_end()).replace("{reach}", reach),
            Self::Create(yaml) => {
                let lines: Vec<&str> = yaml.lines().filter(|line| !line.starts_with('#')).collect();
                format!("kubectl create -f - {reach} <<'EOF'\n{}\nEOF", lines.join("\n"))
            }
        }
        .trim_end()
        .to_owned()
    }
}

/// Does a part of a step.
///
/// # Errors
/// In words, where something is refused.
pub(crate) async fn begin(scene: &Scene, stage: &dyn Stage, step: usize, part: usize) -> Result<String, String> {
    let leader = stage.managers().into_iter().find(|(_, leads)| *leads).map(|(name, _)| name);
    {
        let mut progress = scene.progress();
        progress.done[step - 1] = false;
        progress.since[step - 1] = Some(scene.model.time());
        if step == STEPS.len() {
            progress.led = leader;
        }
    }
    let done = perform(scene, stage, step, part).await;
    done.map_err(|error| if error.contains("not found") { format!("{error}: begin with step 1") } else { error })
}

async fn perform(scene: &Scene, stage: &dyn Stage, step: usize, part: usize) -> Result<String, String> {
    let client = &scene.client;
    let [seed, old, web] = [SEED, OLD, WEB].map(|name| ObjectKey::new(NAMESPACE, name));
    let scale = |replicas| acts::scale(client, Kind::ReplicaSet, &seed, replicas);
    let namespaced = |prefix: &str, plural: &str| format!("/{prefix}/namespaces/{NAMESPACE}/{plural}");
    match (step, part) {
        (1, 0) => {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
            create(client, "/api/v1/namespaces", &namespace).await?;
            create(client, &namespaced("apis/apps/v1", "replicasets"), &example(REPLICA_SET)?).await?;
            scale(15).await
        }
        (2, 0) => scale(5).await,
        (3, 0) => {
            create(client, &namespaced("api/v1", "pods"), &example(ORPHAN)?).await?;
            Ok("a pod without an owner was created".to_owned())
        }
        (4, 0) => {
            let pod = any_pod(scene, &seed).ok_or("no pod was found")?;
            stage.hold("replicasets", HOLD)?;
            done(client.delete(&format!("{}/{pod}", namespaced("api/v1", "pods")), None).await)?;
            Ok(format!("the watch is held, and pod {pod} is being deleted"))
        }
        (5, 0) => {
            let object = example(REPLICATION_CONTROLLER)?;
            create(client, &namespaced("api/v1", "replicationcontrollers"), &object).await?;
            Ok("the ReplicationController was created".to_owned())
        }
        (5, 1) => {
            stage.hold("pods", HOLD)?;
            acts::scale(client, Kind::ReplicationController, &old, 8).await?;
            // The first sync is to be over: only the next one finds its expectations unmet.
            tokio::time::sleep(Duration::from_secs(1)).await;
            acts::scale(client, Kind::ReplicationController, &old, 9).await?;
            Ok("the watch is held, and the ReplicationController was scaled twice".to_owned())
        }
        (6, 0) => {
            create(client, &namespaced("apis/apps/v1", "deployments"), &example(DEPLOYMENT)?).await?;
            Ok("the Deployment was created".to_owned())
        }
        (6, 1) => acts::set_image(client, &web, "nginx:1.30").await,
        (7, 0) => acts::set_image(client, &web, MISSING_IMAGE).await,
        (7, 1) => acts::undo(scene, &web).await,
        (8, 0) => {
            scale(12).await?;
            stage.kill_leader()
        }
        _ => Err(format!("step {step} has no part {part}")),
    }
}

/// Creates an object, unless it is there.
async fn create(client: &Client, path: &str, object: &Value) -> Result<(), String> {
    match client.post(path, bytes(object)).await {
        Ok(_) => Ok(()),
        Err(ClientError::Api(error)) if error.code == 409 && error.reason == "AlreadyExists" => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn any_pod(scene: &Scene, owner: &ObjectKey) -> Option<String> {
    let uid = scene.model.sets.read().get(owner)?.meta.uid.clone();
    let book = scene.model.book();
    let active = book.owned(&uid)?.pods.values().find(|seen| seen.pod.is_active())?;
    Some(active.pod.meta.name.to_string())
}

/// An object of examples/tour.
fn example(yaml: &str) -> Result<Value, String> {
    muster_runtime::yaml::read(yaml)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::rules;

    /// Contract: PG-05
    #[test]
    fn every_step_names_a_file_that_is_there_and_a_row() {
        for yaml in [REPLICA_SET, REPLICATION_CONTROLLER, ORPHAN, DEPLOYMENT] {
            assert_eq!(example(yaml).unwrap()["metadata"]["namespace"], NAMESPACE);
        }
        for step in &STEPS {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(step.file);
            assert!(file.is_file(), "{}", step.file);
            assert!(rules::find(step.row).is_some(), "{}", step.row);
            for sentence in step.text {
                assert!(sentence.ends_with('.') && sentence.len() < 200, "{sentence}");
            }
            for command in step.parts.iter().flat_map(|(_, commands)| *commands) {
                let text = command.text("--kubeconfig k");
                let reached = text.contains("--kubeconfig k") || text == "sleep 1";
                assert!(reached && !text.contains('{'), "{text}");
            }
        }
    }
}
