//! One Deployment, and what people do to it and to its pods.

use std::time::Duration;

use muster_objects::pod::POD_DELETION_COST;
use muster_tree::{Value, json};

use super::{PICKS, WEB};
use crate::api::Random;
use crate::case::{Act, Case, Operation, Target};

/// A case without operations, and those of its users.
pub(super) fn rollout(seed: u64) -> (Case, Vec<Operation>) {
    let mut random = Random::seeded(seed);
    let startup = *random.pick(&[(0, 0), (200, 800), (1_000, 6_000), (0, 3_000)]);
    let case = Case {
        seed,
        nodes: 3,
        zones: 0,
        resync: None,
        managers: None,
        pod_startup: Duration::from_millis(startup.0)..Duration::from_millis(startup.1),
        pod_shutdown: Duration::from_millis(*random.pick(&[0, 1_000, 5_000])),
        operations: Vec::new(),
        faults: Vec::new(),
    };
    let min_ready = *random.pick(&[0, 0, 1, 4]);
    let recreate = random.once_in(6);
    let (ends_well, nodes_fail) = (!random.once_in(4), random.once_in(6));
    let mut plot = Plot { random, recreate, nodes_fail, paused: false, now: Duration::ZERO, operations: Vec::new() };
    let deployment = plot.deployment(min_ready);
    plot.add(Act::Create(deployment));
    for _ in 0..3 + plot.random.below(8) {
        let most = *plot.random.pick(&[50, 1_000, 5_000, 30_000]);
        plot.now += Duration::from_millis(plot.random.below(most));
        let act = plot.disturbance();
        plot.add(act);
    }
    if nodes_fail {
        plot.add(Act::HealNodes);
    }
    plot.now += Duration::from_millis(plot.random.below(3_000));
    let template = if ends_well { plot.good_template() } else { plot.bad_template() };
    let mut merge = rolled_to(&template);
    merge["spec"]["paused"] = Value::Null;
    plot.add(patch(merge));
    (case, plot.operations)
}

/// A case that is being drawn.
struct Plot {
    random: Random,
    recreate: bool,
    nodes_fail: bool,
    /// Whether the Deployment is paused.
    paused: bool,
    now: Duration,
    operations: Vec<Operation>,
}

impl Plot {
    fn add(&mut self, act: Act) {
        self.operations.push(Operation { at: self.now, act });
    }

    fn deployment(&mut self, min_ready: u64) -> Value {
        let replicas = self.random.below(11);
        let strategy = if self.recreate { json!({"type": "Recreate"}) } else { self.rolling() };
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": WEB},
            "spec": {
                "replicas": replicas,
                "minReadySeconds": min_ready,
                "progressDeadlineSeconds": 15 + self.random.below(30),
                "revisionHistoryLimit": *self.random.pick(&[0, 1, 2, 10]),
                "strategy": strategy,
                "selector": {"matchLabels": {"app": WEB}},
                "template": {
                    "metadata": {"labels": {"app": WEB}},
                    "spec": {"terminationGracePeriodSeconds": 10, "containers": [{"name": "c", "image": "nginx:0"}]},
                },
            },
        })
    }

    /// Bounds as numbers and as percentages, never both zero.
    fn rolling(&mut self) -> Value {
        let bounds = [json!(0), json!(1), json!(2), json!(5), json!("10%"), json!("25%"), json!("50%"), json!("100%")];
        let unavailable = self.random.pick(&bounds).clone();
        let surge = if unavailable == 0 { self.random.pick(&bounds[1..]) } else { self.random.pick(&bounds) }.clone();
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
    }

    fn disturbance(&mut self) -> Act {
        patch(match self.random.below(18) {
            0..=4 => rolled_to(&self.good_template()),
            5 | 6 => rolled_to(&self.bad_template()),
            7 | 8 => json!({"spec": {"replicas": self.random.below(15)}}),
            9 | 10 => {
                self.paused = !self.paused;
                json!({"spec": {"paused": self.paused}})
            }
            // A paused Deployment is rolled back when it is resumed: by then to and from another template.
            11 if !self.paused => {
                let to = self.random.below(4).to_string();
                json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": to}}})
            }
            12 if !self.recreate => json!({"spec": {"strategy": self.rolling()}}),
            13 if self.nodes_fail => return Act::TaintNode(self.random.below(PICKS)),
            13 | 14 => return Act::DeletePod(self.random.below(PICKS)),
            // A ReplicaSet that shrinks takes this one earlier or later than others that are as ready.
            15 | 16 => {
                let cost = (*self.random.pick(&["-100", "-1", "1", "100"])).to_owned();
                let merge = json!({"metadata": {"annotations": {POD_DELETION_COST: cost}}});
                return Act::PatchPod { pod: self.random.below(PICKS), merge };
            }
            // A pod that runs loses its readiness, or fails, or crashes.
            _ => {
                let fate = (*self.random.pick(&["never-ready", "fail", "crash-loop"])).to_owned();
                return Act::FailPod { pod: self.random.below(PICKS), fate };
            }
        })
    }

    fn good_template(&mut self) -> Value {
        let directions = match self.random.below(5) {
            0 => json!({"muster.dev/startup": "1s..10s"}),
            1 => json!({"muster.dev/ready-after": "3s"}),
            _ => json!({}),
        };
        self.template(&directions)
    }

    /// A template whose pods do not become ready, or do not stay so.
    fn bad_template(&mut self) -> Value {
        let fates = ["never-start", "never-ready", "image-pull-error", "crash-loop", "fail", "succeed", "reject"];
        let fate = *self.random.pick(&fates);
        let mut directions = json!({"muster.dev/fate": fate});
        if self.random.once_in(2) {
            directions["muster.dev/run-for"] = json!("7s");
        }
        if matches!(fate, "fail" | "succeed") {
            // Each pod that turns ready is progress: pods that do, and then end, would put the deadline off for ever.
            directions["muster.dev/ready-after"] = json!("1m");
        }
        self.template(&directions)
    }

    /// One of a few images, so that templates come back; directions of an earlier template are taken out.
    fn template(&mut self, directions: &Value) -> Value {
        let mut annotations = json!({
            "muster.dev/fate": null, "muster.dev/startup": null, "muster.dev/ready-after": null,
            "muster.dev/run-for": null,
        });
        for (key, value) in directions.as_object().into_iter().flatten() {
            annotations[key] = value.clone();
        }
        let image = format!("nginx:{}", self.random.below(5));
        json!({
            "metadata": {"annotations": annotations},
            "spec": {"containers": [{"name": "c", "image": image}]},
        })
    }
}

/// A new template, with the annotation that says why, which the ReplicaSet gets too (DEP-06).
fn rolled_to(template: &Value) -> Value {
    let cause = &template["spec"]["containers"][0]["image"];
    json!({"metadata": {"annotations": {"kubernetes.io/change-cause": cause}}, "spec": {"template": template}})
}

fn patch(merge: Value) -> Act {
    Act::Patch(Target::deployment(WEB, merge))
}
