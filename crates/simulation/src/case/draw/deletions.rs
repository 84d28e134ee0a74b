//! Workloads that are deleted with what they own, before it or without it, and made again while that goes on.

use std::time::Duration;

use muster_tree::{Value, json};

use super::scaling::{CLASSIC, template};
use super::{PICKS, WEB};
use crate::api::Random;
use crate::case::{Act, Case, Doomed, DoomedSet, Operation, Propagation, Target, Workload};

/// The ReplicaSet.
const API: &str = "api";

/// A case without faults and operations, and those of its users.
pub(super) fn deletions(seed: u64) -> (Case, Vec<Operation>) {
    let mut random = Random::seeded(seed);
    let case = Case {
        seed,
        nodes: 3,
        zones: 0,
        resync: None,
        managers: None,
        pod_startup: Duration::from_millis(200)..Duration::from_millis(800),
        pod_shutdown: Duration::from_millis(*random.pick(&[0, 1_000, 5_000, 15_000])),
        operations: Vec::new(),
        faults: Vec::new(),
    };
    let recreate = random.once_in(2);
    let mut plot = Plot { random, recreate, image: 0, now: Duration::ZERO, operations: Vec::new() };
    for workload in [Workload::Deployment, Workload::ReplicaSet, Workload::ReplicationController] {
        let object = plot.object(workload);
        plot.add(Act::Create(object));
    }
    plot.wait(8_000);
    let ends = plot.now + Duration::from_millis(5_000 + plot.random.below(40_000));
    while plot.now < ends {
        plot.disturb();
        let most = *plot.random.pick(&[100, 3_000, 15_000]);
        plot.wait(most);
    }
    // What was applied while it was being deleted is not there any more. Every other time nothing is done any more, by which
    // something that waits for ever would go on.
    if plot.random.once_in(2) {
        plot.now += Duration::from_secs(30);
        for workload in [Workload::Deployment, Workload::ReplicaSet, Workload::ReplicationController] {
            plot.apply(workload);
        }
    }
    (case, plot.operations)
}

/// A case that is being drawn.
struct Plot {
    random: Random,
    recreate: bool,
    /// The Deployment's.
    image: u64,
    now: Duration,
    operations: Vec<Operation>,
}

impl Plot {
    fn add(&mut self, act: Act) {
        self.operations.push(Operation { at: self.now, act });
    }

    /// Up to so many milliseconds.
    fn wait(&mut self, most: u64) {
        self.now += Duration::from_millis(self.random.below(most));
    }

    /// Something that people do.
    fn disturb(&mut self) {
        match self.random.below(13) {
            0..=3 => {
                let propagation = self.propagation();
                self.again(Workload::Deployment, propagation);
                self.roll_on();
            }
            // The Deployment finds what it has left on its way out, and the name of its ReplicaSet taken.
            4 | 11 => {
                self.delete(Workload::Deployment, Propagation::Orphan);
                self.wait(3_000);
                let (set, held) = (self.random.below(PICKS), self.random.once_in(2));
                self.add(Act::DeleteSet(DoomedSet { set, propagation: Propagation::Foreground, held }));
                self.wait(3_000);
                self.apply(Workload::Deployment);
            }
            5 => {
                let (set, propagation) = (self.random.below(PICKS), self.propagation());
                self.add(Act::DeleteSet(DoomedSet { set, propagation, held: false }));
            }
            6 => {
                self.roll();
                self.roll_on();
            }
            7 => {
                let workload = self.one();
                let merge = json!({"spec": {"replicas": self.random.below(9)}});
                self.add(Act::Patch(Target { kind: workload, ..Target::deployment(name_of(workload), merge) }));
            }
            8 | 9 => {
                let (workload, propagation) = (self.one(), self.propagation());
                self.again(workload, propagation);
            }
            _ => {
                let pod = self.random.below(PICKS);
                self.add(Act::DeletePod(pod));
            }
        }
    }

    fn roll(&mut self) {
        self.image = self.random.below(4);
        let merge = json!({"spec": {"template": template_of(WEB, self.image)}});
        self.add(Act::Patch(Target::deployment(WEB, merge)));
    }

    /// Now and then before what was begun is seen.
    fn roll_on(&mut self) {
        while self.random.once_in(2) {
            self.wait(3_000);
            self.roll();
        }
    }

    /// Deletes it, and after a while makes it again.
    fn again(&mut self, workload: Workload, propagation: Propagation) {
        self.delete(workload, propagation);
        let most = *self.random.pick(&[50, 2_000, 20_000]);
        self.wait(most);
        if self.random.once_in(2) {
            self.image = self.random.below(4);
        }
        self.apply(workload);
    }

    fn delete(&mut self, workload: Workload, propagation: Propagation) {
        let (namespace, name) = ("default".to_owned(), name_of(workload).to_owned());
        self.add(Act::Delete(Doomed { kind: workload, namespace, name, propagation }));
    }

    fn apply(&mut self, workload: Workload) {
        let object = self.object(workload);
        self.add(Act::Apply(object));
    }

    fn one(&mut self) -> Workload {
        *self.random.pick(&[Workload::Deployment, Workload::ReplicaSet, Workload::ReplicationController])
    }

    fn propagation(&mut self) -> Propagation {
        *self.random.pick(&[Propagation::Background, Propagation::Foreground, Propagation::Orphan])
    }

    fn object(&mut self, workload: Workload) -> Value {
        let name = name_of(workload);
        let replicas = self.random.below(9);
        let labels = json!({"app": name});
        let selector = json!({"matchLabels": labels});
        let image = if workload == Workload::Deployment { self.image } else { 0 };
        let (metadata, template) = (json!({"name": name}), template_of(name, image));
        match workload {
            Workload::Deployment => {
                let strategy = match self.recreate {
                    true => json!({"type": "Recreate"}),
                    false => json!({"type": "RollingUpdate", "rollingUpdate": {
                        "maxSurge": 1 + self.random.below(3), "maxUnavailable": self.random.below(2),
                    }}),
                };
                json!({
                    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
                    "spec": {
                        "replicas": replicas, "selector": selector, "strategy": strategy, "template": template,
                        "progressDeadlineSeconds": 20 + self.random.below(40),
                    },
                })
            }
            Workload::ReplicaSet => json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata,
                "spec": {"replicas": replicas, "selector": selector, "template": template},
            }),
            Workload::ReplicationController => json!({
                "apiVersion": "v1", "kind": "ReplicationController", "metadata": metadata,
                "spec": {"replicas": replicas, "selector": labels, "template": template},
            }),
        }
    }
}

fn name_of(workload: Workload) -> &'static str {
    match workload {
        Workload::Deployment => WEB,
        Workload::ReplicaSet => API,
        Workload::ReplicationController => CLASSIC,
    }
}

/// One whose pods take as long to end as the case says.
fn template_of(name: &str, image: u64) -> Value {
    let mut template = template(name, image);
    template["spec"]["terminationGracePeriodSeconds"] = json!(30);
    template
}
