//! A cluster with many namespaces, and the members of a group that work for it.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_objects::Timestamp;
use muster_runtime::clock::Clock;
use muster_runtime::manager::Options;
use muster_simulation::candidate::{Config, group};
use muster_simulation::world::EPOCH_NANOS;
use muster_simulation::{Candidate, Fault, Faults, Rule, Settings, Verb, World};
use muster_tree::{Value, json};
use tokio::time::Instant;

use crate::common::{Api, Random, condition, name, number, pass};

/// The members that there can be, each once.
pub(crate) const MEMBERS: [&str; 16] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];
/// The processes that lead alone.
pub(crate) const SINGLES: [&str; 2] = ["single", "second"];
pub(crate) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const NAMESPACES: u64 = 20;
const DEPLOYMENTS: u64 = 50;

/// A world without controllers of its own.
pub(crate) async fn world(seed: u64, faults: &Faults) -> World {
    let nobody = Options { controllers: [].into(), ..Options::default() };
    let settings = Settings { manager: nobody, faults: Some(faults.clone()), ..Settings::seeded(seed) };
    World::start(settings).await.unwrap()
}

/// Has the members' requests take their time, and perhaps their watches too, and answers with the longest that a request
/// is under way in each direction. Only the members are struck: the nodes' own heartbeats are Leases too.
pub(crate) fn slow_members(faults: &Faults, random: &mut Random) -> Duration {
    let slowest = Duration::from_millis(*random.pick(&[5, 60, 250]));
    let lags = random.once_in(2);
    for member in MEMBERS {
        faults.add(Rule::always(Fault::Delay(Duration::ZERO..slowest)).of(member));
        faults.add(Rule::always(Fault::Slow(Duration::ZERO..slowest)).of(member));
        if lags {
            let lag = Fault::Lag(Duration::ZERO..Duration::from_secs(2));
            faults.add(Rule::always(lag).verbs(&[Verb::Watch]).of(member));
        }
    }
    slowest
}

/// A member and its number of shards.
pub(crate) fn start(world: &World, name: &'static str, shards: u32, off_millis: i64) -> Candidate {
    let election = Config::new("kube-system", "muster", String::new());
    let config = group::Config { election, group: "blue".to_owned(), shards };
    let clock = Clock::starting_at(Timestamp::from_nanos(
        world.client().clock().now().as_nanos().max(EPOCH_NANOS) + off_millis * 1_000_000,
    ));
    let seed = muster_objects::shard::hash(name);
    Candidate::start_in_group(world, name, config, Some(clock), Options { seed, ..Options::default() }).unwrap()
}

/// The workloads.
pub(crate) struct Town<'w> {
    api: Api<'w>,
}

impl<'w> Town<'w> {
    /// One without anything in it.
    pub(crate) fn of(world: &'w World) -> Self {
        Self { api: Api::of(world) }
    }

    /// Fifty Deployments in twenty namespaces.
    pub(crate) async fn found(world: &'w World, random: &mut Random) -> Self {
        let town = Self::of(world);
        for space in 0..NAMESPACES {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("team-{space}")}});
            assert_eq!(town.api.post("/api/v1/namespaces", &namespace).await.0, 201);
        }
        for number in 0..DEPLOYMENTS {
            let (name, path) = (format!("web-{number}"), deployments(number));
            let deployment = json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
                "spec": {
                    "replicas": 1 + random.below(4),
                    "selector": {"matchLabels": {"app": name}},
                    "strategy": {"rollingUpdate": {"maxSurge": 1 + random.below(2), "maxUnavailable": random.below(2)}},
                    "template": template(number, 0),
                },
            });
            assert_eq!(town.api.post(&path, &deployment).await.0, 201);
        }
        town
    }

    /// A new image (one that there is: 404 means a missing one) for one Deployment in so many, or another number of
    /// replicas.
    pub(crate) async fn roll(&self, random: &mut Random, one_in: u64) {
        for number in 0..DEPLOYMENTS {
            if !random.once_in(one_in) {
                continue;
            }
            let patch = if random.once_in(4) {
                json!({"spec": {"replicas": 1 + random.below(5)}})
            } else {
                json!({"spec": {"template": template(number, random.below(400))}})
            };
            let (status, said) = self.api.merge(&format!("{}/web-{number}", deployments(number)), &patch).await;
            assert_eq!(status, 200, "{said}");
        }
    }

    /// More replicas for each Deployment.
    pub(crate) async fn grow(&self, random: &mut Random) {
        for number in 0..DEPLOYMENTS {
            let patch = json!({"spec": {"replicas": 3 + random.below(3)}});
            let (status, said) = self.api.merge(&format!("{}/web-{number}", deployments(number)), &patch).await;
            assert_eq!(status, 200, "{said}");
        }
    }

    /// Waits until everything is as asked, and says how long that took.
    pub(crate) async fn settles(&self, within: Duration) -> Result<Duration, String> {
        let start = Instant::now();
        loop {
            let all = self.api.list("/apis/apps/v1/deployments").await;
            let Some(differs) = all.iter().find(|deployment| !is_settled(deployment)) else {
                return Ok(start.elapsed());
            };
            if start.elapsed() > within {
                let namespace = &differs["metadata"]["namespace"];
                return Err(format!(
                    "{namespace} {}: {} {}",
                    name(differs),
                    differs["spec"]["replicas"],
                    differs["status"]
                ));
            }
            pass(Duration::from_millis(500)).await;
        }
    }

    /// How many shards each of these members holds; those that nobody holds are the empty name's.
    pub(crate) async fn shares(&self) -> BTreeMap<String, usize> {
        let mut shares = BTreeMap::new();
        for lease in self.api.list(LEASES).await {
            if name(&lease).starts_with("muster-blue-shard-") {
                let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
                *shares.entry(holder).or_default() += 1;
            }
        }
        shares
    }

    /// Waits until exactly these members share the shards evenly, and says how long that took.
    pub(crate) async fn is_even(&self, members: &[&str], shards: u32, within: Duration) -> Result<Duration, String> {
        let start = Instant::now();
        let shards = usize::try_from(shards).unwrap();
        loop {
            let shares = self.shares().await;
            let even = shares.len() == members.len()
                && members.iter().all(|member| {
                    shares
                        .get(*member)
                        .is_some_and(|share| (shards / members.len()..=shards.div_ceil(members.len())).contains(share))
                })
                && shares.values().sum::<usize>() == shards;
            if even {
                return Ok(start.elapsed());
            }
            if start.elapsed() > within {
                return Err(format!("after {within:?} {shards} shards of {members:?} are shared as {shares:?}"));
            }
            pass(Duration::from_millis(20)).await;
        }
    }
}

pub(crate) fn millis(world: &World) -> i64 {
    world.client().clock().now().as_nanos() / 1_000_000
}

fn deployments(number: u64) -> String {
    format!("/apis/apps/v1/namespaces/team-{}/deployments", number % NAMESPACES)
}

fn template(number: u64, image: u64) -> Value {
    json!({
        "metadata": {"labels": {"app": format!("web-{number}")}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": format!("nginx:{image}")}],
        },
    })
}

fn is_settled(deployment: &Value) -> bool {
    let wanted = number(deployment, "/spec/replicas");
    let told = |field: &str| number(deployment, &format!("/status/{field}"));
    let observed = deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"];
    let complete = condition(deployment, "Progressing")["reason"] == "NewReplicaSetAvailable";
    let counts = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"];
    observed && complete && counts.iter().all(|field| told(field) == wanted)
}
