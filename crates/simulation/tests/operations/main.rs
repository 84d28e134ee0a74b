//! Random operations on workloads, replayed against what the real controllers made of them.
//!
//! `vectors/operations.json` holds for each seed a list of operations and, after each, the state in which
//! kube-controller-manager v1.36 came to rest: sizes, statuses, conditions, annotations, revisions, names, who owns
//! how many pods in which state, and which reasons of Events were seen. Here they run in virtual time.

#[path = "../common/mod.rs"]
mod common;
mod difference;
mod look;
mod replay;

use std::fmt::Write as _;

use muster_simulation::World;
use muster_tree::{Text, Value};

use common::{at_once, each, in_virtual_time};
use difference::differences;
use replay::Replay;

/// Contract: RS-06, RS-13, RS-15, RC-01, RC-03, DEP-02, DEP-06, DEP-09, DEP-13 to DEP-17, DEP-22, B-03
#[test]
fn every_recorded_seed_comes_to_rest_as_the_real_controllers_did() {
    let recorded: Value = serde_json::from_str(include_str!("../vectors/operations.json")).unwrap();
    let seeds: Vec<(&Text, &Value)> = recorded["seeds"].as_object().unwrap().iter().collect();
    assert_eq!(seeds.len(), 29);
    let found = each(&seeds, |(seed, steps)| in_virtual_time(replay(seed, steps.as_array().unwrap())));
    let different: Vec<String> = found.into_iter().flatten().collect();
    assert!(different.is_empty(), "{} seeds differ:\n{}", different.len(), different.join("\n"));
}

/// Replays one seed; the first operation after which something differs, and what.
async fn replay(seed: &str, steps: &[Value]) -> Option<String> {
    let world = World::start(at_once(seed.parse().unwrap())).await.unwrap();
    let kind = steps[0]["op"][1].as_str().unwrap();
    let mut replay = Replay::new(&world, kind);
    let mut different = None;
    for (number, step) in steps.iter().enumerate() {
        let answer = replay.perform(&step["op"]).await;
        let found = replay.rest().await;
        let mut all = Vec::new();
        differences(&step["answer"], &answer, "answer", &mut all);
        differences(&step["then"], &found, "then", &mut all);
        if !all.is_empty() {
            let mut text = format!("seed {seed}, operation {number} {}:", step["op"]);
            for line in all.iter().take(5) {
                let _ = write!(text, "\n     {line}");
            }
            different = Some(text);
            break;
        }
    }
    world.stop().await;
    different
}
