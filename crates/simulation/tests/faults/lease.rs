//! The Lease is deleted or changed by others while its holder creates pods.

use std::time::Duration;

use muster_runtime::manager::Options;
use muster_simulation::candidate::Config;
use muster_simulation::{Candidate, Fault, Faults, Rule, Settings, World, Write};
use muster_tree::{Value, json};

use crate::common::{Api, PODS, Random, SETS, each, in_virtual_time, is_being_deleted, number, pass};
use crate::{judge, seeds};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/muster";
/// Those that start, each when another has exited.
const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
const PODS_WANTED: i64 = 100;
/// Who holds the Lease finds out when it renews it the next time: the retry period with its jitter, and the way of
/// the requests.
const OVERLAP_MILLIS: i64 = 2_400 + 400;

/// Whatever becomes of the Lease: whoever loses it writes no longer than until the next renewal, and in the end
/// there are as many pods as were asked for, by one leader.
///
/// Contract: CM-04, CM-05
#[test]
fn a_lease_that_is_deleted_or_changed_leaves_one_leader_and_no_pod_too_many() {
    let seeds = seeds(3);
    let (broken, leaders): (Vec<_>, Vec<usize>) =
        each(&seeds, |seed| in_virtual_time(tamper(*seed))).into_iter().unzip();
    judge(&seeds, &broken);
    assert!(leaders.iter().sum::<usize>() > seeds.len(), "the Lease has never changed hands: {leaders:?}");
}

/// What was broken, and how many have led.
async fn tamper(seed: u64) -> (Vec<String>, usize) {
    let mut random = Random::seeded(seed);
    let faults = Faults::seeded(seed);
    faults.add(Rule::always(Fault::Delay(Duration::ZERO..Duration::from_millis(50))));
    let nobody = Options { controllers: [].into(), ..Options::default() };
    let settings = Settings { bare: true, manager: nobody, faults: Some(faults), ..Settings::seeded(seed) };
    let world = World::start(settings).await.unwrap();
    let api = Api::of(&world);
    let mut names = NAMES.into_iter();
    let mut start = || {
        let config = Config::new("kube-system", "muster", String::new());
        Candidate::start(&world, names.next().unwrap(), config, None, Options { seed, ..Options::default() }).unwrap()
    };
    let mut running = [start(), start()];
    pass(Duration::from_secs(5)).await;
    assert_eq!(api.post(SETS, &set()).await.0, 201);
    let (mut done, mut changed) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        pass(Duration::from_millis(random.below(400))).await;
        let change = match random.below(5) {
            0 => None,
            1 => Some(json!({"holderIdentity": "somebody"})),
            2 => Some(json!({"holderIdentity": ""})),
            3 => Some(json!({"renewTime": "2020-01-01T00:00:00.000000Z"})),
            _ => Some(json!({"renewTime": "2030-01-01T00:00:00.000000Z", "leaseTransitions": 7})),
        };
        changed.push(world.client().clock().now().as_nanos() / 1_000_000);
        match &change {
            None => api.delete(LEASE, None).await,
            Some(spec) => api.merge(LEASE, &json!({"spec": spec})).await,
        };
        done.push(change);
        // Longer than a lease that nobody renews, and always something to do.
        for _ in 0..200 {
            pass(Duration::from_millis(100)).await;
            let replicas = json!({"spec": {"replicas": random.below(100)}});
            assert_eq!(api.merge(&format!("{SETS}/web"), &replicas).await.0, 200);
            // Who has lost it exits, and is started again.
            running.iter_mut().filter(|candidate| candidate.has_ended()).for_each(|candidate| *candidate = start());
        }
    }
    assert_eq!(api.merge(&format!("{SETS}/web"), &json!({"spec": {"replicas": PODS_WANTED}})).await.0, 200);
    let mut broken = Vec::new();
    let finished = |set: &Value| number(set, "/status/replicas") == PODS_WANTED;
    if let Err(last) = world.until(&format!("{SETS}/web"), Duration::from_secs(60), finished).await {
        broken.push(format!("it is not finished: {last}"));
    }
    pass(Duration::from_secs(60)).await;
    let writes = world.history().since(0);
    broken.extend(overlaps(&writes, &changed));
    let leaders =
        NAMES.iter().filter(|name| writes.iter().any(|write| write.who == **name && write.resource() == "pods"));
    let leaders = leaders.count();
    let pods = api.list(PODS).await;
    let alive = pods.iter().filter(|pod| !is_being_deleted(pod)).count();
    if i64::try_from(alive).unwrap() != PODS_WANTED {
        broken.push(format!("there are {alive} pods"));
    }
    drop(running);
    world.stop().await;
    (broken.into_iter().map(|law| format!("{done:?}: {law}")).collect(), leaders)
}

/// Writes of two leaders side by side, but for the time in which the one that has lost the Lease cannot know it.
fn overlaps(writes: &[Write], changed: &[i64]) -> Vec<String> {
    const SIDE_BY_SIDE_MILLIS: i64 = 1_000;
    let work = writes.iter().filter(|write| NAMES.contains(&write.who));
    let work: Vec<&Write> = work.filter(|write| !matches!(write.resource(), "leases" | "events")).collect();
    let known = |millis: i64| changed.iter().all(|at| !(*at..at + OVERLAP_MILLIS).contains(&millis));
    let pairs = work.windows(2).filter(|pair| pair[0].who != pair[1].who);
    let near = pairs.filter(|pair| pair[1].millis - pair[0].millis < SIDE_BY_SIDE_MILLIS && known(pair[1].millis));
    near.map(|pair| format!("there are two writers: {} and {}", pair[0], pair[1])).collect()
}

fn set() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": PODS_WANTED,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    })
}
