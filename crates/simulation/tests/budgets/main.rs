//! What rollouts cost, counted in requests of the controllers.
//!
//! The bounds are what kube-controller-manager v1.36 took for the same on a real server. Muster may take no more, and
//! nothing conflicts.

#[path = "../common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use muster_simulation::world::CONTROLLERS;
use muster_simulation::{Settings, World};
use muster_tree::{Value, json};

use common::{Api, DEPLOYMENTS, SETS, at_once, in_virtual_time, number, pass};

const SOON: Duration = Duration::from_secs(300);

/// The controllers' requests since a moment, by kind.
struct Requests {
    reads: usize,
    /// Writes by method, resource and subresource.
    writes: BTreeMap<(String, String, String), usize>,
    conflicts: usize,
}

/// A moment from which requests are counted.
struct Mark {
    writes: usize,
    reads: usize,
}

impl Mark {
    fn now(world: &World) -> Self {
        Self { writes: world.history().len(), reads: world.history().reads(CONTROLLERS) }
    }

    fn requests(&self, world: &World) -> Requests {
        let mut writes = BTreeMap::new();
        let mut conflicts = 0;
        for write in world.history().since(self.writes).iter().filter(|write| write.who == CONTROLLERS) {
            let key = [write.method.as_str(), write.resource(), write.subresource().unwrap_or_default()];
            let [method, resource, subresource] = key.map(ToOwned::to_owned);
            *writes.entry((method, resource, subresource)).or_default() += 1;
            conflicts += usize::from(write.status == 409);
        }
        Requests { reads: world.history().reads(CONTROLLERS) - self.reads, writes, conflicts }
    }
}

impl Requests {
    fn total(&self) -> usize {
        self.reads + self.writes.values().sum::<usize>()
    }

    fn statuses(&self, resource: &str) -> usize {
        let all = self.writes.iter();
        all.filter(|((_, of, part), _)| of == resource && part == "status").map(|(_, count)| count).sum()
    }

    /// Fails, saying what was sent, where it is more than `most` or where something conflicted.
    fn assert_at_most(&self, most: usize) {
        assert!(self.total() <= most, "{} requests, at most {most} were to be: {self}", self.total());
        assert_eq!(self.conflicts, 0, "{self}");
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} reads", self.reads)?;
        for ((method, resource, subresource), count) in &self.writes {
            write!(f, ", {count} {method} {resource}")?;
            if !subresource.is_empty() {
                write!(f, "/{subresource}")?;
            }
        }
        write!(f, "; {} conflicts", self.conflicts)
    }
}

fn deployment(name: &str, replicas: u32) -> Value {
    let mut deployment = set(name, replicas);
    deployment["kind"] = json!("Deployment");
    deployment
}

fn set(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "nginx:0", "resources": {"requests": {"cpu": "1m"}}}]},
            },
        },
    })
}

async fn set_image(api: Api<'_>, name: &str, image: &str) {
    let container = json!([{"name": "c", "image": image}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": container}}}});
    assert_eq!(api.merge(&format!("{DEPLOYMENTS}/{name}"), &patch).await.0, 200);
}

/// Waits until the rollout is over and everything has been said about it.
async fn complete(world: &World, name: &str) {
    let path = format!("{DEPLOYMENTS}/{name}");
    let last = world
        .until(&path, SOON, |found| {
            let replicas = number(found, "/spec/replicas");
            let counts = ["updatedReplicas", "replicas", "availableReplicas"];
            found["status"]["observedGeneration"] == found["metadata"]["generation"]
                && counts.iter().all(|count| number(found, &format!("/status/{count}")) == replicas)
        })
        .await;
    last.unwrap_or_else(|last| panic!("{name} is not complete: {last}"));
}

/// The settings under which the costs were counted: pods are ready at once, since pods that turn ready one by one take
/// one status write each.
fn settings() -> [Settings; 3] {
    [1, 2, 3].map(at_once)
}

#[test]
fn a_deployment_of_ten_from_nothing_takes_at_most_33_requests() {
    for settings in settings() {
        in_virtual_time(async {
            let world = World::start(settings).await.unwrap();
            pass(Duration::from_secs(5)).await;
            let mark = Mark::now(&world);
            assert_eq!(Api::of(&world).post(DEPLOYMENTS, &deployment("web", 10)).await.0, 201);
            complete(&world, "web").await;
            pass(Duration::from_secs(30)).await;
            let requests = mark.requests(&world);
            requests.assert_at_most(33);
            world.stop().await;
        });
    }
}

#[test]
fn a_rollout_of_ten_pods_takes_at_most_82_requests() {
    for settings in settings() {
        in_virtual_time(async {
            let world = World::start(settings).await.unwrap();
            let api = Api::of(&world);
            assert_eq!(api.post(DEPLOYMENTS, &deployment("web", 10)).await.0, 201);
            complete(&world, "web").await;
            pass(Duration::from_secs(30)).await;
            let mark = Mark::now(&world);
            set_image(api, "web", "nginx:1").await;
            complete(&world, "web").await;
            pass(Duration::from_secs(30)).await;
            let requests = mark.requests(&world);
            requests.assert_at_most(82);
            world.stop().await;
        });
    }
}

/// Contract: RS-09, RS-17
#[test]
fn a_replicaset_of_1000_takes_at_most_1163_requests_of_which_138_are_statuses() {
    for settings in settings() {
        in_virtual_time(async {
            let world = World::start(Settings { nodes: 10, ..settings }).await.unwrap();
            pass(Duration::from_secs(5)).await;
            let mark = Mark::now(&world);
            assert_eq!(Api::of(&world).post(SETS, &set("web", 1_000)).await.0, 201);
            let path = format!("{SETS}/web");
            world.until(&path, SOON, |set| number(set, "/status/availableReplicas") == 1_000).await.unwrap();
            pass(Duration::from_secs(30)).await;
            let requests = mark.requests(&world);
            requests.assert_at_most(1_163);
            assert!(requests.statuses("replicasets") <= 138, "{requests}");
            world.stop().await;
        });
    }
}

/// Contract: DEP-03, DEP-10, DEP-11, DEP-24
#[test]
fn fifty_deployments_rolled_twenty_times_each_at_once_end_complete() {
    in_virtual_time(async {
        let world = World::start(Settings { nodes: 10, ..Settings::seeded(5) }).await.unwrap();
        let api = Api::of(&world);
        let names: Vec<String> = (0..50).map(|number| format!("web-{number}")).collect();
        for name in &names {
            assert_eq!(api.post(DEPLOYMENTS, &deployment(name, 2)).await.0, 201);
        }
        for roll in 1..=20 {
            pass(Duration::from_millis(150)).await;
            for name in &names {
                set_image(api, name, &format!("nginx:{roll}")).await;
            }
        }
        for name in &names {
            complete(&world, name).await;
        }
        pass(Duration::from_secs(30)).await;
        for set in api.list(SETS).await {
            let wanted = if set["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:20" { 2 } else { 0 };
            assert_eq!(number(&set, "/spec/replicas"), wanted, "{set}");
        }
        let requests = Mark { writes: 0, reads: 0 }.requests(&world);
        assert_eq!(requests.conflicts, 0, "{requests}");
        world.stop().await;
    });
}
