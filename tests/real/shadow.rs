//! A shadow beside a manager at work: it reads by its own role, writes nothing, and agrees.

use std::fs;
use std::path::Path;
use std::process::Command;

use muster_objects::time::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;

use crate::audit::{Asked, MANAGERS};
use crate::manager::{MUSTER, Manager, PATIENT};
use crate::permissions;
use crate::wait::eventually;
use crate::workloads::{Kind, Space, deployment, image, replicaset, replication_controller};
use crate::world::World;

/// What is to be agreed on at least: each of these is done in every round of [`live`].
const ACTIONS: [&str; 4] = ["create-pod", "delete-pod", "create-replicaset", "scale-replicaset"];

/// What differs in its first seconds is not judged, so the workloads live on until there is something to agree on after
/// them.
///
/// Contract: CM-07, B-12
pub(crate) fn a_shadow_agrees_with_a_manager_and_writes_nothing(world: &World) {
    let plane = world.plane_with_nodes("shadow");
    let mut manager = Manager::start("manager-a", &plane.kubeconfig(MANAGERS[0]), plane.folder(), PATIENT);
    manager.says("starting workers");
    let log = plane.folder().join("agreement.jsonl");
    let into = format!("--shadow-log={}", log.display());
    let arguments = ["--shadow", "--shadow-manager=muster-controller-manager", &into];
    let mut shadow = Manager::start("shadow", &permissions::reading(&plane), plane.folder(), &arguments);
    shadow.says("caches synced");

    let space = Space::new(&plane, "shadow");
    space.create(&deployment("site", 4));
    space.create(&replicaset("web", 2));
    space.create(&replication_controller("classic", 2));
    let mut round = 0;
    eventually("an agreement on each action", || {
        round += 1;
        live(&space, round);
        let agreed = agreements(&log);
        let missing: Vec<&str> =
            ACTIONS.into_iter().filter(|action| !agreed.iter().any(|agreed| agreed == action)).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("none on {missing:?} after {round} rounds")) }
    });
    shadow.signal("-TERM");
    assert_eq!(shadow.ends().code(), Some(0));

    let report = Command::new(MUSTER).args(["shadow", "report"]).arg(&log).output().expect("the program runs");
    let said = String::from_utf8_lossy(&report.stdout);
    assert_eq!(report.status.code(), Some(0), "{said}");
    let asked = plane.asked();
    let its: Vec<&Asked> = asked.iter().filter(|asked| asked.user.ends_with(":muster-shadow")).collect();
    assert!(its.iter().any(|asked| asked.verb == "watch"), "the log of requests lacks the shadow's");
    let wrong: Vec<&&Asked> = its.iter().filter(|asked| asked.writes() || asked.forbidden).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A rollout, and a scaling up and down of each of the others.
fn live(space: &Space<'_>, round: u32) {
    space.merge(Kind::Deployment, "site", &image(&format!("nginx:1.{round}")));
    for replicas in [5, 2] {
        for (kind, name) in [(Kind::ReplicaSet, "web"), (Kind::ReplicationController, "classic")] {
            space.scale(kind, name, replicas);
            space.ready(kind, name, replicas.into());
        }
    }
    space.complete("site");
}

/// What was agreed on so far while differences counted, by action.
fn agreements(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap_or_default();
    // The last line may be half there.
    let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let at = |line: &Value| Timestamp::deserialize(&line["time"]).expect("each record has its time").as_nanos();
    let Some(start) = lines.iter().find(|line| line["record"] == "start") else { return Vec::new() };
    let lookback = start["lookbackMillis"].as_i64().expect("how long it looks back");
    let judged = at(start) + lookback * 1_000_000;
    let agreed = lines.iter().filter(|line| line["record"] == "agreement" && at(line) > judged);
    agreed.map(|line| line["action"].as_str().unwrap_or_default().to_owned()).collect()
}
