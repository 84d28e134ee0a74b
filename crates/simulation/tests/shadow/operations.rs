//! What people and machines do to a cluster, drawn from a seed.

use std::time::Duration;

use muster_cluster::DelayRange;
use muster_simulation::{Settings, World};
use muster_tree::{Value, json};

use crate::common::{Api, CONTROLLERS, DEPLOYMENTS, PODS, Random, SETS, is_being_deleted, name, owner, pass};

pub(crate) struct Operations {
    random: Random,
    seed: u64,
    made: u64,
}

impl Operations {
    pub(crate) fn of(seed: u64) -> Self {
        Self { random: Random::seeded(seed), seed, made: 0 }
    }

    pub(crate) fn settings(&mut self) -> Settings {
        let startup = *self.random.pick(&[(0, 0), (200, 800), (0, 3_000)]);
        let startup = DelayRange::new(Duration::from_millis(startup.0), Duration::from_millis(startup.1));
        Settings { pod_startup: startup, ..Settings::seeded(self.seed) }
    }

    pub(crate) async fn run(&mut self, world: &World, count: u64) {
        let api = Api::of(world);
        for kind in [DEPLOYMENTS, SETS, CONTROLLERS, DEPLOYMENTS, SETS] {
            self.make(api, kind).await;
        }
        for _ in 0..count {
            let most = *self.random.pick(&[20, 500, 3_000]);
            pass(Duration::from_millis(self.random.below(most))).await;
            self.disturb(api).await;
        }
    }

    async fn disturb(&mut self, api: Api<'_>) {
        match self.random.below(24) {
            0 => {
                let kind = *self.random.pick(&[DEPLOYMENTS, SETS, CONTROLLERS]);
                self.make(api, kind).await;
            }
            1..=6 => self.scale(api).await,
            7..=11 => {
                let image = format!("nginx:{}", self.random.below(4));
                let containers = json!([{"name": "c", "image": image}]);
                self.change(api, DEPLOYMENTS, json!({"spec": {"template": {"spec": {"containers": containers}}}}))
                    .await;
            }
            12 => {
                let fate = *self.random.pick(&["never-ready", "crash-loop", "reject", "fail"]);
                self.change(api, DEPLOYMENTS, fate_of(&json!({"muster.dev/fate": fate}))).await;
            }
            13 => self.change(api, DEPLOYMENTS, fate_of(&Value::Null)).await,
            14 => {
                let paused = self.random.once_in(2);
                self.change(api, DEPLOYMENTS, json!({"spec": {"paused": paused}})).await;
            }
            15 => {
                let back = json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": "0"}}});
                self.change(api, DEPLOYMENTS, back).await;
            }
            16 => {
                let label = if self.random.once_in(2) { "nobody" } else { "set-2" };
                self.change(api, PODS, json!({"metadata": {"labels": {"app": label}}})).await;
            }
            17 => {
                let app = *self.random.pick(&["set-2", "set-5", "controller-3", "deployment-1"]);
                let spec = json!({"containers": [{"name": "c", "image": "nginx"}]});
                let metadata = json!({"generateName": "orphan-", "labels": {"app": app}});
                api.post(PODS, &json!({"metadata": metadata, "spec": spec})).await;
            }
            18 => {
                let cost = self.random.below(9).to_string();
                let cost = json!({"controller.kubernetes.io/pod-deletion-cost": cost});
                self.change(api, PODS, json!({"metadata": {"annotations": cost}})).await;
            }
            19 => {
                let seconds = self.random.below(5);
                self.change(api, SETS, json!({"spec": {"minReadySeconds": seconds}})).await;
            }
            20 => {
                let failed = json!({"status": {"phase": "Failed"}});
                if let Some(pod) = self.one(api, PODS).await {
                    api.merge(&format!("{PODS}/{}/status", name(&pod)), &failed).await;
                }
            }
            21 => {
                let most = self.random.below(9);
                if let Some(set) = self.owned_set(api).await {
                    api.merge(&format!("{SETS}/{}/scale", name(&set)), &json!({"spec": {"replicas": most}})).await;
                }
            }
            _ => {
                if let Some(pod) = self.one(api, PODS).await {
                    api.delete(&format!("{PODS}/{}", name(&pod)), None).await;
                }
            }
        }
    }

    async fn scale(&mut self, api: Api<'_>) {
        let kind = *self.random.pick(&[DEPLOYMENTS, SETS, CONTROLLERS]);
        let replicas = self.random.below(12);
        let Some(object) = self.one(api, kind).await else { return };
        if owner(&object).is_none() {
            api.merge(&format!("{kind}/{}/scale", name(&object)), &json!({"spec": {"replicas": replicas}})).await;
        }
    }

    async fn change(&mut self, api: Api<'_>, kind: &str, patch: Value) {
        if let Some(object) = self.one(api, kind).await {
            let (status, said) = api.merge(&format!("{kind}/{}", name(&object)), &patch).await;
            assert_eq!(status, 200, "{patch}: {said}");
        }
    }

    /// One of the objects that are not on their way out.
    async fn one(&mut self, api: Api<'_>, kind: &str) -> Option<Value> {
        let objects: Vec<Value> = api.list(kind).await.into_iter().filter(|one| !is_being_deleted(one)).collect();
        (!objects.is_empty()).then(|| self.random.pick(&objects).clone())
    }

    async fn owned_set(&mut self, api: Api<'_>) -> Option<Value> {
        let sets: Vec<Value> = api.list(SETS).await.into_iter().filter(|set| owner(set).is_some()).collect();
        (!sets.is_empty()).then(|| self.random.pick(&sets).clone())
    }

    async fn make(&mut self, api: Api<'_>, kind: &str) {
        self.made += 1;
        let noun = match kind {
            DEPLOYMENTS => "deployment",
            SETS => "set",
            _ => "controller",
        };
        let app = format!("{noun}-{}", self.made);
        let labels = json!({"app": app});
        let mut spec = json!({
            "replicas": self.random.below(9),
            "minReadySeconds": *self.random.pick(&[0, 0, 3]),
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 2, "containers": [{"name": "c", "image": "nginx:0"}]},
            },
        });
        if kind == CONTROLLERS {
            spec["selector"] = labels;
        }
        if kind == DEPLOYMENTS {
            let bounds = json!({"maxSurge": *self.random.pick(&["1", "50%"]), "maxUnavailable": "25%"});
            let rolling = json!({"type": "RollingUpdate", "rollingUpdate": bounds});
            spec["strategy"] = if self.random.once_in(4) { json!({"type": "Recreate"}) } else { rolling };
            spec["strategy"] = with_numbers(spec["strategy"].take());
            spec["revisionHistoryLimit"] = json!(*self.random.pick(&[0, 2, 10]));
            spec["progressDeadlineSeconds"] = json!(10 + self.random.below(30));
        }
        let (status, said) = api.post(kind, &json!({"metadata": {"name": app}, "spec": spec})).await;
        assert_eq!(status, 201, "{said}");
    }
}

fn fate_of(annotations: &Value) -> Value {
    json!({"spec": {"template": {"metadata": {"annotations": annotations}}}})
}

/// A surge that is written as a number is one.
fn with_numbers(mut strategy: Value) -> Value {
    if strategy["rollingUpdate"]["maxSurge"] == "1" {
        strategy["rollingUpdate"]["maxSurge"] = json!(1);
    }
    strategy
}
