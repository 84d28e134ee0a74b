//! Workloads under faults: specs change, faults come and go, and the desired state must be reached soon after.

use std::time::Duration;

use muster_simulation::world::CONTROLLERS as MANAGER;
use muster_simulation::{Fault, Faults, Settings, World, Write};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::common::{
    Api, CONTROLLERS, DEPLOYMENTS, PODS, Random, SETS, condition, is_being_deleted, name, number, owner, pass,
};
use crate::laws::{Asked, Laws, Subjects};

/// How long the weather lasts, from these on.
const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(60);
/// Events are tried again 11 times, 10 s apart, and are not what a workload waits for.
const EVENTS_END: Duration = Duration::from_secs(180);
/// How long nothing may be written once the desired state is reached and reported.
const QUIET: Duration = Duration::from_secs(300);

const SUBJECTS: Subjects = Subjects { pods: PODS, owners: &[SETS, CONTROLLERS, DEPLOYMENTS], managers: &[MANAGER] };

/// What is left of a story.
pub(crate) struct Told {
    pub(crate) broken: Vec<String>,
    /// How long it took, at most, from the end of the weather until all was as asked.
    pub(crate) longest: Duration,
    /// How many requests and watches were struck.
    pub(crate) strikes: u64,
}

/// What a story is about.
#[derive(Clone, Copy)]
pub(crate) struct Plot {
    /// How often bad weather comes.
    pub(crate) rounds: u32,
    /// How soon all must be as asked after the faults' end.
    pub(crate) within: Duration,
    /// Whether there is a ReplicationController. It keeps no record of what it has written (RC-02), so what it has made
    /// and not seen for five minutes it makes again (EX-02).
    pub(crate) classic: bool,
}

/// Runs a story whose faults are chosen by `weather` in each of its rounds, and judges it.
pub(crate) async fn tell(seed: u64, plot: Plot, weather: impl Fn(&Faults, &mut Random)) -> Told {
    let Plot { rounds, within, classic } = plot;
    let mut random = Random::seeded(seed);
    let faults = Faults::seeded(seed);
    let world = World::start(Settings { faults: Some(faults.clone()), ..Settings::seeded(seed) }).await.unwrap();
    let laws = Laws::start(&world, SUBJECTS).await;
    let town = Town { api: Api::of(&world) };
    town.found(&mut random, classic).await;
    let mut broken = Vec::new();
    let mut longest = town.settles(Duration::from_secs(60)).await.expect("a town in good weather");
    for _ in 0..rounds {
        let phase = laws.phase_begins(&world);
        weather(&faults, &mut random);
        let lasts = u64::try_from(LONGEST.saturating_sub(SHORTEST).as_millis()).unwrap();
        let ends = Instant::now() + SHORTEST + Duration::from_millis(random.below(lasts));
        while Instant::now() < ends {
            town.disturb(&mut random).await;
            let most = *random.pick(&[100, 3_000, 20_000]);
            pass(Duration::from_millis(random.below(most))).await;
        }
        faults.end();
        match town.settles(within).await {
            Ok(time) => longest = longest.max(time),
            Err(last) => broken.push(format!("not as asked {within:?} after the weather: {last}")),
        }
        pass(EVENTS_END).await;
        let before = world.history().len();
        pass(QUIET).await;
        let after = world.history().since(before);
        broken.extend(after.iter().filter(|write| is_ours(write)).map(|write| format!("still writes: {write}")));
        let asked = Asked { writes: world.history().since(0), unanswered: faults.unanswered() };
        broken.extend(laws.phase_ends(phase, &asked));
    }
    let strikes = faults.strikes();
    let stale = faults.struck().into_iter().filter(|struck| struck.fault == Fault::Stale);
    broken.extend(stale.map(|struck| format!("asked for an old list: {:?}", struck.target)));
    world.stop().await;
    Told { broken, longest, strikes }
}

fn is_ours(write: &Write) -> bool {
    write.who == MANAGER
}

/// Workloads of each kind.
struct Town<'w> {
    api: Api<'w>,
}

impl Town<'_> {
    async fn found(&self, random: &mut Random, with_classic: bool) {
        for name in ["web", "api"] {
            assert_eq!(self.api.post(SETS, &set(name, name, random.below(12))).await.0, 201);
        }
        let classic = json!({
            "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "classic"},
            "spec": {"replicas": random.below(8), "selector": {"app": "classic"}, "template": template("classic", 0)},
        });
        if with_classic {
            assert_eq!(self.api.post(CONTROLLERS, &classic).await.0, 201);
        }
        let site = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "site"},
            "spec": {
                "replicas": 1 + random.below(8),
                "selector": {"matchLabels": {"app": "site"}},
                "strategy": {"rollingUpdate": {"maxSurge": 1 + random.below(3), "maxUnavailable": random.below(2)}},
                "template": template("site", 0),
            },
        });
        assert_eq!(self.api.post(DEPLOYMENTS, &site).await.0, 201);
    }

    /// Something that people do.
    async fn disturb(&self, random: &mut Random) {
        let replicas = json!({"spec": {"replicas": random.below(25)}});
        match random.below(8) {
            0 | 1 => self.merge(&format!("{SETS}/{}", random.pick(&["web", "api"])), &replicas).await,
            2 => self.merge(&format!("{CONTROLLERS}/classic"), &replicas).await,
            3 => self.merge(&format!("{DEPLOYMENTS}/site"), &replicas).await,
            4 => {
                let image = format!("nginx:{}", random.below(1_000));
                let template = json!({"spec": {"containers": [{"name": "c", "image": image}]}});
                self.merge(&format!("{DEPLOYMENTS}/site"), &json!({"spec": {"template": template}})).await;
            }
            5 => {
                if let Some(pod) = self.some_pod(random).await {
                    self.api.delete(&format!("{PODS}/{}", name(&pod)), None).await;
                }
            }
            6 => self.give_away(random).await,
            _ => self.replace_owner().await,
        }
    }

    /// A pod gets the labels of another workload: one releases it, the other adopts it.
    async fn give_away(&self, random: &mut Random) {
        let Some(pod) = self.some_pod(random).await else { return };
        let app = *random.pick(&["web", "api", "classic", "nobody"]);
        // It may be gone by now.
        self.api.merge(&format!("{PODS}/{}", name(&pod)), &json!({"metadata": {"labels": {"app": app}}})).await;
    }

    /// The ReplicaSet is deleted with its pods orphaned, for another of the same selector.
    async fn replace_owner(&self) {
        let mut sets = self.api.list(SETS).await.into_iter();
        let old = sets.find(|set| set["metadata"]["labels"]["app"] == "api" && !is_being_deleted(set));
        let Some(old) = old else { return };
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"});
        self.api.delete(&format!("{SETS}/{}", name(&old)), Some(&options)).await;
        let replicas = u64::try_from(number(&old, "/spec/replicas")).unwrap();
        let next = if name(&old) == "api" { "api-next" } else { "api" };
        // The one of that name may still exist until its pods are orphaned, and in bad weather for longer than anybody waits.
        for _ in 0..200 {
            if self.api.post(SETS, &set(next, "api", replicas)).await.0 == 201 {
                return;
            }
            pass(Duration::from_millis(500)).await;
        }
    }

    async fn some_pod(&self, random: &mut Random) -> Option<Value> {
        let mut pods = self.api.list(PODS).await;
        pods.retain(|pod| owner(pod).is_some() && !is_being_deleted(pod));
        if pods.is_empty() { None } else { Some(random.pick(&pods).clone()) }
    }

    async fn merge(&self, path: &str, patch: &Value) {
        let (status, said) = self.api.merge(path, patch).await;
        assert!(matches!(status, 200 | 404), "{path} {patch}: {said}");
    }

    /// Waits until everything is as asked, and says how long that took.
    async fn settles(&self, within: Duration) -> Result<Duration, String> {
        let start = Instant::now();
        loop {
            let pods = self.api.list(PODS).await;
            let mut differs = None;
            for path in [SETS, CONTROLLERS, DEPLOYMENTS] {
                let workloads = self.api.list(path).await;
                differs = differs.or_else(|| workloads.into_iter().find(|workload| !is_settled(workload, &pods)));
            }
            let Some(differs) = differs else { return Ok(start.elapsed()) };
            if start.elapsed() > within {
                let its = |pod: &&Value| pod["metadata"]["ownerReferences"][0]["uid"] == differs["metadata"]["uid"];
                let pod = pods.iter().find(its).map(|pod| &pod["status"]);
                let (replicas, status) = (&differs["spec"]["replicas"], &differs["status"]);
                return Err(format!("{}: {replicas} {status}, its first pod {pod:?}", name(&differs)));
            }
            pass(Duration::from_millis(500)).await;
        }
    }
}

fn set(name: &str, app: &str, replicas: u64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "labels": {"app": app}},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": template(app, 0),
        },
    })
}

fn template(app: &str, image: u32) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": format!("nginx:{image}")}],
        },
    })
}

/// Whether a workload has what it asks for, and says so.
fn is_settled(workload: &Value, pods: &[Value]) -> bool {
    let wanted = number(workload, "/spec/replicas");
    let told = |field: &str| number(workload, &format!("/status/{field}"));
    let observed = workload["status"]["observedGeneration"] == workload["metadata"]["generation"];
    let counts =
        observed && ["replicas", "readyReplicas", "availableReplicas"].iter().all(|field| told(field) == wanted);
    if workload["spec"]["strategy"].is_object() {
        let complete = condition(workload, "Progressing")["reason"] == "NewReplicaSetAvailable";
        return counts && complete && told("updatedReplicas") == wanted;
    }
    let me = &workload["metadata"]["uid"];
    let mine = pods.iter().filter(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == *me && !is_being_deleted(pod));
    counts && i64::try_from(mine.count()).unwrap() == wanted
}
