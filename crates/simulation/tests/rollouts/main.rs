//! Random rollouts in virtual time, and what must hold after every single write of them.
//!
//! `MUSTER_CASES` says how many; the seeds are counted from `MUSTER_SEED`, or from 1.

#[path = "../common/mod.rs"]
mod common;
mod laws;
mod story;
mod watcher;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::Method;
use muster_simulation::world::CONTROLLERS;
use muster_simulation::{World, Write};
use serde_json::Value;

use common::{Api, PODS, SETS, each, in_virtual_time, name, pass};
use laws::Laws;
use story::{End, Story};
use watcher::Watcher;

/// What is left of a story.
struct Told {
    end: Option<End>,
    /// The laws that it broke.
    broken: Vec<String>,
    lines: Vec<String>,
}

/// However a rollout is disturbed: there are never more pods than replicas and surge allow, nor do the controllers
/// leave fewer available than must be; a Recreate never has old and new pods running together; revisions only rise;
/// the rollout ends complete or at its deadline; once it is complete nothing is written; and the controllers never
/// conflict with each other.
///
/// Contract: DEP-07, DEP-09 to DEP-12, DEP-17, DEP-18, DEP-24, RS-19, B-03, B-04, B-05
#[test]
fn random_rollouts_keep_their_bounds_and_end() {
    let first = from_environment("MUSTER_SEED", 1);
    let seeds: Vec<u64> = (first..first + from_environment("MUSTER_CASES", 30)).collect();
    let told = each(&seeds, |seed| in_virtual_time(tell(*seed)));
    let ends = |end| told.iter().filter(|told| told.end == Some(end)).count();
    println!("{} complete, {} at their deadline", ends(End::Complete), ends(End::DeadlineExceeded));
    let mut broken = String::new();
    for (seed, told) in seeds.iter().zip(&told).filter(|(_, told)| !told.broken.is_empty()) {
        let some = told.broken.iter().take(4).map(|law| format!("\n  {law}"));
        broken += &format!("\nseed {seed}, {} in all:{}", told.broken.len(), some.collect::<String>());
    }
    assert!(broken.is_empty(), "{broken}");
}

#[test]
fn the_same_seed_gives_the_same_rollout_byte_for_byte() {
    let told = each(&[3, 3, 4, 4], |seed| in_virtual_time(tell(*seed)).lines);
    for pair in told.chunks(2) {
        assert!(pair[0].len() > 100);
        assert_eq!(pair[0], pair[1]);
    }
    assert_ne!(told[0], told[2]);
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value}")))
}

/// Runs the story of a seed and judges it.
async fn tell(seed: u64) -> Told {
    let mut story = Story::of(seed);
    let world = World::start(story.settings.clone()).await.unwrap();
    let watcher = Watcher::start(&world).await;
    let lived = story.live(&world).await;
    let mut broken = Vec::new();
    let end = lived.map_err(|last| broken.push(format!("no end: {last}"))).ok();

    // A pod with a fate keeps crashing, and is reported.
    let pods = Api::of(&world).list(PODS).await;
    let fated = pods.iter().any(|pod| pod["metadata"]["annotations"]["muster.dev/fate"].is_string());
    if end == Some(End::DeadlineExceeded) && story.ends_well && !fated {
        broken.push("the last template is good, and was not rolled out in time".to_owned());
    }
    if end == Some(End::Complete) && story.ends_well && !fated {
        // Long enough for statuses, Events and the history's end.
        pass(Duration::from_secs(30)).await;
        let before = world.history().len();
        pass(Duration::from_secs(300)).await;
        let after = world.history().since(before);
        broken.extend(after.iter().filter(is_ours).map(|write| format!("still writes: {write}")));
    }
    let sets = Api::of(&world).list(SETS).await;
    broken.extend(templates_twice(&sets));
    let writes = world.history().since(0);
    let conflicts = writes.iter().filter(is_ours).filter(|write| write.status == 409);
    broken.extend(conflicts.map(|write| format!("conflict: {write}")));

    let deleted = deleted_by_controllers(&writes);
    let seen = watcher.end();
    broken.extend(Laws::check(&seen, &deleted, story.min_ready));
    let lines = world.history().lines();
    world.stop().await;
    Told { end, broken, lines }
}

/// Whether the controllers sent it.
fn is_ours(write: &&Write) -> bool {
    write.who == CONTROLLERS
}

/// The pods that the controllers, and not somebody else, deleted first.
fn deleted_by_controllers(writes: &[Write]) -> BTreeSet<String> {
    let mut first = BTreeMap::new();
    for write in writes.iter().filter(|write| write.method == Method::DELETE && write.status == 200) {
        if write.resource() == "pods" {
            let name = write.path.rsplit('/').next().unwrap();
            first.entry(name.to_owned()).or_insert(write.who);
        }
    }
    first.into_iter().filter(|(_, who)| *who == CONTROLLERS).map(|(name, _)| name).collect()
}

/// ReplicaSets with the template of another.
fn templates_twice(sets: &[Value]) -> Vec<String> {
    let mut templates = BTreeMap::new();
    let mut twice = Vec::new();
    for set in sets {
        let mut template = set["spec"]["template"].clone();
        template["metadata"]["labels"].as_object_mut().unwrap().remove("pod-template-hash");
        if let Some(other) = templates.insert(template.to_string(), name(set)) {
            twice.push(format!("{other} and {} have one template", name(set)));
        }
    }
    twice
}
