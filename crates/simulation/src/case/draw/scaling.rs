//! Workloads of each kind, whose sizes change, and whose pods go from one to the other.

use std::time::Duration;

use muster_tree::{Value, json};

use super::PICKS;
use crate::api::Random;
use crate::case::{Act, Case, Doomed, Operation, Target, Workload};

/// The Deployment.
pub(super) const SITE: &str = "site";
/// The ReplicationController.
pub(super) const CLASSIC: &str = "classic";

/// A case without faults and operations, and those of its users.
pub(super) fn scaling(seed: u64) -> (Case, Vec<Operation>) {
    let mut random = Random::seeded(seed);
    let case = Case {
        seed,
        nodes: 3,
        zones: 0,
        resync: None,
        managers: None,
        pod_startup: Duration::from_millis(200)..Duration::from_millis(800),
        pod_shutdown: Duration::from_millis(*random.pick(&[0, 1_000, 5_000])),
        operations: Vec::new(),
        faults: Vec::new(),
    };
    let mut operations: Vec<Operation> =
        founded(&mut random).into_iter().map(|object| (Duration::ZERO, Act::Create(object)).into()).collect();
    let mut now = Duration::ZERO;
    let ends = Duration::from_millis(5_000 + random.below(55_000));
    while now < ends {
        let most = *random.pick(&[100, 3_000, 20_000]);
        now += Duration::from_millis(random.below(most));
        let act = disturbance(&mut random);
        let takes_out = matches!(act, Act::PatchPod { .. });
        operations.push((now, act).into());
        // Most of the others go too, perhaps before it is seen that this one is taken out.
        if takes_out && random.once_in(2) {
            now += Duration::from_millis(random.below(3_000));
            operations.push((now, shrink(&mut random)).into());
        }
    }
    (case, operations)
}

/// A ReplicationController keeps no record of what it has written (RC-02): what it has made and not seen for five minutes it makes
/// again (EX-02). So there is none where watches fall silent for longer.
pub(super) fn without_classic(case: &mut Case) {
    case.operations.retain(|operation| match &operation.act {
        Act::Create(object) | Act::Apply(object) => object["kind"] != "ReplicationController",
        Act::Patch(Target { kind, .. }) | Act::Delete(Doomed { kind, .. }) => *kind != Workload::ReplicationController,
        _ => true,
    });
}

fn founded(random: &mut Random) -> Vec<Value> {
    let set = |name: &str, replicas: u64| {
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, 0),
            },
        })
    };
    vec![
        set("web", random.below(12)),
        set("api", random.below(12)),
        json!({
            "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": CLASSIC},
            "spec": {"replicas": random.below(8), "selector": {"app": CLASSIC}, "template": template(CLASSIC, 0)},
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": SITE},
            "spec": {
                "replicas": 1 + random.below(8),
                "selector": {"matchLabels": {"app": SITE}},
                "progressDeadlineSeconds": 20 + random.below(40),
                "strategy": {"rollingUpdate": {"maxSurge": 1 + random.below(3), "maxUnavailable": random.below(2)}},
                "template": template(SITE, 0),
            },
        }),
    ]
}

/// Something that people do.
fn disturbance(random: &mut Random) -> Act {
    let replicas = json!({"spec": {"replicas": random.below(25)}});
    match random.below(8) {
        0 | 1 => patch(Workload::ReplicaSet, if random.once_in(2) { "web" } else { "api" }, replicas),
        2 => patch(Workload::ReplicationController, CLASSIC, replicas),
        3 => patch(Workload::Deployment, SITE, replicas),
        4 => {
            // The tag 404 is of no image.
            let image = format!("nginx:1.{}", random.below(1_000));
            let template = json!({"spec": {"containers": [{"name": "c", "image": image}]}});
            patch(Workload::Deployment, SITE, json!({"spec": {"template": template}}))
        }
        5 => Act::DeletePod(random.below(PICKS)),
        6 => {
            let app = (*random.pick(&["web", "api", CLASSIC, "nobody"])).to_owned();
            Act::PatchPod { pod: random.below(PICKS), merge: json!({"metadata": {"labels": {"app": app}}}) }
        }
        _ => Act::ReplaceSet(random.below(PICKS)),
    }
}

/// One of those whose pods may be given to another is left with few pods or none.
fn shrink(random: &mut Random) -> Act {
    let (kind, name) = *random.pick(&[
        (Workload::ReplicaSet, "web"),
        (Workload::ReplicaSet, "api"),
        (Workload::ReplicationController, CLASSIC),
    ]);
    patch(kind, name, json!({"spec": {"replicas": random.below(3)}}))
}

fn patch(kind: Workload, name: &str, merge: Value) -> Act {
    Act::Patch(Target { kind, ..Target::deployment(name, merge) })
}

pub(super) fn template(app: &str, image: u64) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": format!("nginx:{image}")}],
        },
    })
}
