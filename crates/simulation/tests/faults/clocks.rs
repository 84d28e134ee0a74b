//! Clocks that are wrong, and clocks that are set while everything runs.

use std::time::Duration;

use muster_objects::Timestamp;
use muster_runtime::clock::Clock;
use muster_runtime::manager::Options;
use muster_simulation::candidate::Config;
use muster_simulation::world::EPOCH_NANOS;
use muster_simulation::{Candidate, Fault, Faults, Rule, Settings, World};
use muster_tree::{Value, json};

use crate::common::{Api, PODS, Random, SETS, condition, each, in_virtual_time, number, pass};
use crate::{judge, seeds};

const MIN_READY: i64 = 20;
const HOUR: i64 = 3_600_000_000_000;

fn set(replicas: i64, min_ready: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "minReadySeconds": min_ready,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    })
}

/// The controllers' clock is an hour off, either way. Pods are counted as available when they have been ready long
/// enough by the server's and the nodes' clock: not before, and no later than the header's second.
///
/// Contract: B-11, RS-18
#[test]
fn pods_become_available_on_time_where_the_managers_clock_is_wrong() {
    for off in [-HOUR, -7_300_000_000, 0, 13_700_000_000, HOUR] {
        in_virtual_time(async move {
            let faults = Faults::seeded(1);
            faults.tell_time(Some(Clock::starting_at(Timestamp::from_nanos(EPOCH_NANOS))));
            let clock = Clock::starting_at(Timestamp::from_nanos(EPOCH_NANOS + off));
            let settings = Settings { faults: Some(faults), clock: Some(clock), ..Settings::seeded(1) };
            let world = World::start(settings).await.unwrap();
            let api = Api::of(&world);
            // A few answers by which the offset is known.
            pass(Duration::from_secs(60)).await;
            assert_eq!(api.post(SETS, &set(4, MIN_READY)).await.0, 201);
            let path = format!("{SETS}/web");
            let available = |set: &Value| number(set, "/status/availableReplicas") == 4;
            world.until(&path, Duration::from_secs(60), available).await.unwrap();
            let now = world.client().clock().now();
            let since = |pod: &Value| {
                let since = condition(pod, "Ready")["lastTransitionTime"].as_str().unwrap().to_owned();
                Timestamp::parse(&since).unwrap()
            };
            let last = api.list(PODS).await.iter().map(since).max().unwrap();
            let waited = (now.as_nanos() - last.as_nanos()) / 1_000_000;
            let due = MIN_READY * 1_000;
            assert!((due - 1_000..due + 3_000).contains(&waited), "off by {off} ns: available after {waited} ms");
            world.stop().await;
        });
    }
}

/// The leader's wall clock is set an hour forward, or back, while it creates pods. It writes again within a retry
/// period or two, no other process takes the lead, and there is no pod too many.
///
/// Contract: CM-04, CM-05
#[test]
fn a_leader_whose_clock_is_set_stays_the_only_writer() {
    let seeds = seeds(2);
    let broken = each(&seeds, |seed| in_virtual_time(set_the_clock(*seed)));
    judge(&seeds, &broken);
}

async fn set_the_clock(seed: u64) -> Vec<String> {
    let mut random = Random::seeded(seed);
    let faults = Faults::seeded(seed);
    faults.add(Rule::always(Fault::Delay(Duration::ZERO..Duration::from_millis(50))));
    let nobody = Options { controllers: [].into(), ..Options::default() };
    let settings = Settings { bare: true, manager: nobody, faults: Some(faults), ..Settings::seeded(seed) };
    let world = World::start(settings).await.unwrap();
    let start = |name, clock| {
        let config = Config::new("kube-system", "muster", String::new());
        Candidate::start(&world, name, config, Some(clock), Options { seed, ..Options::default() }).unwrap()
    };
    let epoch = Timestamp::from_nanos(EPOCH_NANOS);
    let (clock, hands) = Clock::that_is_set(epoch);
    let first = start("first", clock);
    pass(Duration::from_secs(3)).await;
    let second = start("second", Clock::starting_at(epoch));
    pass(Duration::from_secs(1)).await;
    assert_eq!(Api::of(&world).post(SETS, &set(1_000, 0)).await.0, 201);
    for _ in 0..3 {
        pass(Duration::from_millis(random.below(1_000))).await;
        let far = i64::try_from(random.below(3_600_000)).unwrap() * 1_000_000;
        hands.turn(if random.once_in(2) { far } else { -far });
    }
    let path = format!("{SETS}/web");
    let done = |set: &Value| number(set, "/status/replicas") == 1_000;
    let mut broken = Vec::new();
    if let Err(last) = world.until(&path, Duration::from_secs(15), done).await {
        broken.push(format!("not finished soon: {last}"));
    }
    pass(Duration::from_secs(60)).await;
    if first.has_ended() {
        broken.push("the leader has given up".to_owned());
    }
    let writes = world.history().since(0);
    let second_writes = writes.iter().filter(|write| write.who == "second");
    broken.extend(second_writes.map(|write| format!("two writers: {write}")));
    let pods = Api::of(&world).list(PODS).await.len();
    if pods != 1_000 {
        broken.push(format!("there are {pods} pods"));
    }
    drop((first, second));
    world.stop().await;
    broken
}
