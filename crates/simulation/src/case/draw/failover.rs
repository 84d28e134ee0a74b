//! Deployments in several namespaces, and managers that die, freeze, are cut off, and come and go while they roll.

use std::time::Duration;

use muster_tree::json;

use super::PICKS;
use super::scaling::template;
use crate::api::Random;
use crate::case::{Act, Case, Managers, Operation, Pause, Target};

const NAMESPACES: u64 = 5;
const DEPLOYMENTS: u64 = 10;

/// A case without faults, what its users do, and what becomes of its managers.
pub(super) fn failover(seed: u64) -> (Case, Vec<Operation>) {
    let mut random = Random::seeded(seed);
    let shards = (!random.once_in(3)).then_some(8);
    let count = 2 + u32::try_from(random.below(4)).unwrap_or_default();
    let case = Case {
        seed,
        nodes: 3,
        zones: 0,
        resync: None,
        managers: Some(Managers { count, shards, clocks_apart: Duration::from_secs(random.below(7_200)) }),
        pod_startup: Duration::from_millis(200)..Duration::from_millis(800),
        pod_shutdown: Duration::from_secs(1),
        operations: Vec::new(),
        faults: Vec::new(),
    };
    let mut now = Duration::ZERO;
    let mut operations: Vec<Operation> = Vec::new();
    for space in 0..NAMESPACES {
        let metadata = json!({"name": format!("team-{space}")});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        operations.push((now, Act::Create(namespace)).into());
    }
    for number in 0..DEPLOYMENTS {
        let name = format!("web-{number}");
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": space(number)},
            "spec": {
                "replicas": 1 + random.below(4),
                "selector": {"matchLabels": {"app": name}},
                "progressDeadlineSeconds": 20 + random.below(40),
                "strategy": {"rollingUpdate": {"maxSurge": 1 + random.below(2), "maxUnavailable": random.below(2)}},
                "template": template(&name, 0),
            },
        });
        operations.push((now, Act::Create(deployment)).into());
    }
    for _ in 0..1 + random.below(3) {
        now += Duration::from_millis(random.below(20_000));
        operations.extend(rolled(&mut random, now));
        now += Duration::from_millis(random.below(4_000));
        operations.push((now, incident(&mut random)).into());
        now += Duration::from_millis(random.below(2_000));
        operations.extend(rolled(&mut random, now));
    }
    (case, operations)
}

/// What becomes of one of the managers.
fn incident(random: &mut Random) -> Act {
    let manager = random.below(PICKS);
    match random.below(7) {
        0 => Act::KillManager(manager),
        1 => Act::StopManager(manager),
        2 => Act::FreezeManager(Pause { manager, lasts: Duration::from_millis(17_000 + random.below(20_000)) }),
        // It renews its Lease up to some 3 s before, and must again within 10 s.
        3 => Act::FreezeManager(Pause { manager, lasts: Duration::from_millis(random.below(6_000)) }),
        4 => Act::CutOffManager(Pause { manager, lasts: Duration::from_millis(1_000 + random.below(40_000)) }),
        5 => Act::Managers(1 + u32::try_from(random.below(5)).unwrap_or_default()),
        _ => Act::Managers(0),
    }
}

/// Some Deployments get a new image (one that there is: 404 means a missing one) or another size.
fn rolled(random: &mut Random, now: Duration) -> Vec<Operation> {
    let mut rolled = Vec::new();
    for number in 0..DEPLOYMENTS {
        if !random.once_in(3) {
            continue;
        }
        let name = format!("web-{number}");
        let spec = if random.once_in(4) {
            json!({"replicas": 1 + random.below(5)})
        } else {
            json!({"template": template(&name, random.below(400))})
        };
        let target = Target { namespace: space(number), ..Target::deployment(name, json!({"spec": spec})) };
        rolled.push((now, Act::Patch(target)).into());
    }
    rolled
}

fn space(number: u64) -> String {
    format!("team-{}", number % NAMESPACES)
}
