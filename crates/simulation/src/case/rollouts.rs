//! A random rollout: a Deployment, and what people and machines do to it while it rolls.

use std::time::Duration;

use muster_cluster::DelayRange;
use muster_simulation::{Settings, World};
use serde_json::{Value, json};

use crate::common::{Api, DEPLOYMENTS, PODS, Random, condition, is_being_deleted, name, number, owner, pass};
use crate::crossed::Sky;
use crate::is_any_fated;

pub(crate) const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const NODES: &str = "/api/v1/nodes";

/// What a seed asks for.
pub(crate) struct Story {
    random: Random,
    pub(crate) settings: Settings,
    /// Seconds.
    pub(crate) min_ready: i64,
    pub(crate) recreate: bool,
    /// Whether the last template is one whose pods become ready.
    pub(crate) ends_well: bool,
    nodes_fail: bool,
    /// Whether the Deployment is paused.
    paused: bool,
}

/// How a story went on: by which of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Complete,
    DeadlineExceeded,
}

impl Story {
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::seeded(seed);
        let startup = *random.pick(&[(0, 0), (200, 800), (1_000, 6_000), (0, 3_000)]);
        let startup = DelayRange::new(Duration::from_millis(startup.0), Duration::from_millis(startup.1));
        let shutdown = Duration::from_millis(*random.pick(&[0, 1_000, 5_000]));
        let settings = Settings { pod_startup: startup, pod_shutdown: shutdown, ..Settings::seeded(seed) };
        let min_ready = *random.pick(&[0, 0, 0, 1, 4]);
        let recreate = random.once_in(6);
        let (ends_well, nodes_fail) = (!random.once_in(4), random.once_in(6));
        Self { random, settings, min_ready, recreate, ends_well, nodes_fail, paused: false }
    }

    /// Lives the story on a world of its settings, up to its last template. The order is the seed's, and so is every
    /// pause.
    pub(crate) async fn live(&mut self, world: &World) {
        let api = Api::of(world);
        let deployment = self.deployment();
        assert_eq!(api.post(DEPLOYMENTS, &deployment).await.0, 201);
        for _ in 0..3 + self.random.below(8) {
            let most = *self.random.pick(&[50, 1_000, 5_000, 30_000]);
            pass(Duration::from_millis(self.random.below(most))).await;
            self.disturb(api).await;
        }
        for node in api.list(NODES).await {
            api.merge(&format!("{NODES}/{}", name(&node)), &json!({"spec": {"taints": null}})).await;
        }
        pass(Duration::from_millis(self.random.below(3_000))).await;
        let template = if self.ends_well { self.good_template() } else { self.bad_template() };
        let (status, said) = api.merge(WEB, &json!({"spec": {"paused": null, "template": template}})).await;
        assert_eq!(status, 200, "{said}");
    }

    /// Waits for its end. Where the weather was not clear its deadline may have passed for that, and it goes on. After a
    /// restore there may be none: the last template may be gone, and the Deployment paused.
    pub(crate) async fn ends(&self, world: &World, sky: Sky) -> Result<End, String> {
        let (was_clear, looks) = (sky.is_clear(), if sky.is_restored() { 500 } else { 3_600 });
        let api = Api::of(world);
        // A pod that was rejected or crashes is tried again after up to five minutes, and every try is progress.
        let mut web = Value::Null;
        for look in 0..looks {
            web = api.get(WEB).await.unwrap();
            match end(&web, self.ends_well) {
                Some(End::DeadlineExceeded) if !was_clear && self.ends_well && !is_any_fated(world).await => {}
                Some(end) => return Ok(end),
                None => {}
            }
            // Virtual time costs nothing, but looking does.
            pass(Duration::from_millis(if look < 200 { 200 } else { 1_000 })).await;
        }
        Err(web["status"].to_string())
    }

    fn deployment(&mut self) -> Value {
        let replicas = self.random.below(11);
        let strategy = if self.recreate { json!({"type": "Recreate"}) } else { self.rolling() };
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {
                "replicas": replicas,
                "minReadySeconds": self.min_ready,
                "progressDeadlineSeconds": 15 + self.random.below(30),
                "revisionHistoryLimit": *self.random.pick(&[0, 1, 2, 10]),
                "strategy": strategy,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
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

    async fn disturb(&mut self, api: Api<'_>) {
        let patch = match self.random.below(16) {
            0..=4 => json!({"spec": {"template": self.good_template()}}),
            5 | 6 => json!({"spec": {"template": self.bad_template()}}),
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
            13 if self.nodes_fail => return self.fail_node(api).await,
            13 | 14 => return self.delete_pod(api).await,
            _ => return self.fail_pod(api).await,
        };
        let (status, said) = api.merge(WEB, &patch).await;
        assert_eq!(status, 200, "{patch}: {said}");
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
        for (key, value) in directions.as_object().unwrap() {
            annotations[key] = value.clone();
        }
        let image = format!("nginx:{}", self.random.below(5));
        json!({
            "metadata": {"annotations": annotations},
            "spec": {"containers": [{"name": "c", "image": image}]},
        })
    }

    async fn delete_pod(&mut self, api: Api<'_>) {
        if let Some(pod) = self.some_pod(api).await {
            api.delete(&format!("{PODS}/{}", name(&pod)), None).await;
        }
    }

    /// A pod that runs loses its readiness, or fails, or crashes.
    async fn fail_pod(&mut self, api: Api<'_>) {
        if let Some(pod) = self.some_pod(api).await {
            let fate = self.random.pick(&["never-ready", "fail", "crash-loop"]);
            let patch = json!({"metadata": {"annotations": {"muster.dev/fate": fate}}});
            api.merge(&format!("{PODS}/{}", name(&pod)), &patch).await;
        }
    }

    /// A node that throws out all that it runs; one is always left.
    async fn fail_node(&mut self, api: Api<'_>) {
        let nodes = api.list(NODES).await;
        // Other incidents take nodes too.
        if nodes.len() < 2 {
            return;
        }
        let at = 1 + usize::try_from(self.random.below(nodes.len() as u64 - 1)).unwrap();
        let taint = json!([{"key": "broken", "effect": "NoExecute"}]);
        api.merge(&format!("{NODES}/{}", name(&nodes[at])), &json!({"spec": {"taints": taint}})).await;
    }

    async fn some_pod(&mut self, api: Api<'_>) -> Option<Value> {
        let mut pods = api.list(PODS).await;
        pods.retain(|pod| owner(pod).is_some() && !is_being_deleted(pod));
        if pods.is_empty() { None } else { Some(self.random.pick(&pods).clone()) }
    }
}

/// By which end a Deployment's rollout has ended, if it has. Pods that do not stay ready can be enough for it to be
/// complete for a moment, which its condition remembers.
fn end(web: &Value, ends_well: bool) -> Option<End> {
    let observed = web["status"]["observedGeneration"] == web["metadata"]["generation"];
    let replicas = number(web, "/spec/replicas");
    let all = ["updatedReplicas", "replicas", "availableReplicas"];
    if observed && all.iter().all(|field| number(web, &format!("/status/{field}")) == replicas) {
        return Some(End::Complete);
    }
    let progressing = condition(web, "Progressing");
    // It was complete, and a pod has failed since.
    let updated = all[..2].iter().all(|field| number(web, &format!("/status/{field}")) == replicas);
    if observed && (updated || !ends_well) && progressing["reason"] == "NewReplicaSetAvailable" {
        return Some(End::Complete);
    }
    (observed && progressing["status"] == "False" && progressing["reason"] == "ProgressDeadlineExceeded")
        .then_some(End::DeadlineExceeded)
}
