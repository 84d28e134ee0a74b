//! Queues stay bounded while nothing can be sent.

use std::time::Duration;

use muster_runtime::events::QUEUE;
use muster_simulation::world::CONTROLLERS as MANAGER;
use muster_simulation::{Fault, Faults, Refusal, Rule, Settings, Verb, World, Write};
use muster_tree::{Value, json};

use crate::common::{Api, SETS, each, in_virtual_time, number, pass};

const OWNERS: usize = 10;

fn path(number: usize) -> String {
    format!("{SETS}/set-{number}")
}

async fn create(world: &World) {
    for number in 0..OWNERS {
        let name = format!("set-{number}");
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
                },
            },
        });
        assert_eq!(Api::of(world).post(SETS, &set).await.0, 201);
    }
}

/// Scales every owner, and waits until all are done.
async fn scale(world: &World, replicas: i64, within: Duration) {
    for number in 0..OWNERS {
        Api::of(world).merge(&path(number), &json!({"spec": {"replicas": replicas}})).await;
    }
    for owner in 0..OWNERS {
        let done = |set: &Value| number(set, "/status/replicas") == replicas;
        world.until(&path(owner), within, done).await.unwrap();
    }
}

/// The value of a metric's line.
fn metric(world: &World, line: &str) -> usize {
    let text = world.metrics().encode();
    let found = text.lines().find_map(|each| each.strip_prefix(line)?.trim().parse().ok());
    found.unwrap_or_else(|| panic!("no {line} in:\n{text}"))
}

fn event_writes(writes: &[Write]) -> usize {
    writes.iter().filter(|write| write.who == MANAGER && write.resource() == "events").count()
}

/// For an hour the server refuses Events, or does not answer them at all. Everything else goes on as usual, and
/// afterwards none are left to be sent that were refused, and of others no more than fit into their queue.
///
/// Contract: EV-04
#[test]
fn an_unreachable_events_endpoint_blocks_nothing_and_keeps_queues_bounded() {
    each(&[Fault::Refuse(Refusal::InternalError), Fault::Lost], |fault| {
        in_virtual_time(async {
            let faults = Faults::seeded(1);
            faults.add(Rule::always(fault.clone()).resources(&["events"]));
            let world = World::start(Settings { bare: true, faults: Some(faults.clone()), ..Settings::seeded(1) });
            let world = world.await.unwrap();
            create(&world).await;
            for turn in 1..=6 {
                scale(&world, 1 + turn % 2 * 60, Duration::from_secs(10)).await;
                pass(Duration::from_secs(600)).await;
            }
            assert!(metric(&world, "workqueue_depth{name=\"replicaset\"}") <= OWNERS);
            let lost = *fault == Fault::Lost;
            // Of those without an answer more were to be told than there is room for.
            assert!(metric(&world, "muster_events_dropped_total") > if lost { QUEUE } else { OWNERS });
            let before = world.history().len();
            assert_eq!(event_writes(&world.history().since(0)), 0);
            faults.end();
            pass(Duration::from_secs(600)).await;
            let told = event_writes(&world.history().since(before));
            let left = if lost { 1..=QUEUE + 1 } else { 0..=0 };
            assert!(left.contains(&told), "{told} Events were left");
            world.stop().await;
        });
    });
}

/// For six hours the server refuses every write. Each owner is in the queue once, and is retried with a backoff of up
/// to half a minute; afterwards all are done within that time without another event.
///
/// Contract: WQ-01, WQ-03, WQ-04, B-09
#[test]
fn a_dead_server_keeps_queues_bounded_and_is_retried_with_backoff() {
    in_virtual_time(async {
        const HOURS: usize = 6;
        let faults = Faults::seeded(1);
        let world = World::start(Settings { bare: true, faults: Some(faults.clone()), ..Settings::seeded(1) });
        let world = world.await.unwrap();
        create(&world).await;
        let writes = [Verb::Create, Verb::Patch, Verb::Delete];
        faults.add(Rule::always(Fault::Refuse(Refusal::Unavailable { retry_after: None })).verbs(&writes).of(MANAGER));
        for hour in 1..=HOURS {
            for number in 0..OWNERS {
                Api::of(&world).merge(&path(number), &json!({"spec": {"replicas": hour}})).await;
            }
            pass(Duration::from_secs(3_600)).await;
            assert!(metric(&world, "workqueue_depth{name=\"replicaset\"}") <= OWNERS);
        }
        // For each owner a creation and two tries of a status: every half minute, at each of the 13 pauses that double from
        // 5 ms up to that, and at each change.
        const DOUBLED: usize = 13;
        let sent = faults.struck().iter().filter(|struck| struck.target.resource != "events").count();
        let most = OWNERS * 3 * (HOURS * 3_600 / 30 + DOUBLED + HOURS);
        assert!((OWNERS..=most).contains(&sent), "{sent} requests were sent in vain");
        faults.end();
        for owner in 0..OWNERS {
            let done = |set: &Value| number(set, "/status/replicas") == i64::try_from(HOURS).unwrap();
            world.until(&path(owner), Duration::from_secs(35), done).await.unwrap();
        }
        world.stop().await;
    });
}
