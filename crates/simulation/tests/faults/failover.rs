//! Two managers with one Lease, and the leader dies or freezes while it creates thousands of pods.

use std::time::Duration;

use http::Method;
use muster_runtime::manager::Options;
use muster_simulation::candidate::Config;
use muster_simulation::{Candidate, Fault, Faults, Rule, Settings, Verb, World, Write};
use muster_tree::{Value, json};
use tokio::time::Instant;

use crate::common::{Api, PODS, Random, SETS, each, in_virtual_time, is_being_deleted, number, pass};
use crate::{judge, seeds};

const FIRST: &str = "first";
const SECOND: &str = "second";
const PODS_WANTED: i64 = 5_000;
/// How long there may be no leader after the last one is gone, if requests take no time; see [`Lease`].
const TAKE_OVER: Duration = Duration::from_secs(20);
/// The longest time that a request is in flight: well within the lease that outlasts the last write by 5 s.
const LONGEST_WAY: Duration = Duration::from_secs(2);

/// What becomes of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Killed,
    /// Frozen for so long, past its lease.
    Frozen(Duration),
    /// Frozen for so long, within its lease.
    Stunned(Duration),
    /// Cut off: nothing that it sends arrives any more.
    CutOff,
}

/// However the leader fails in the middle of its work, the other takes over within 20 s and finishes it: no pod is
/// created twice, none is deleted, and from the first write of the new leader on the old one sends nothing, even if it
/// wakes up with syncs in progress.
///
/// Contract: CM-04, CM-05, B-12, EX-01
#[test]
fn a_leader_that_is_killed_frozen_or_cut_off_in_a_scale_up_is_replaced_without_surplus_pods() {
    let seeds = seeds(4);
    let broken = each(&seeds, |seed| in_virtual_time(fail_over(*seed)));
    judge(&seeds, &broken);
}

async fn fail_over(seed: u64) -> Vec<String> {
    let mut random = Random::seeded(seed);
    let faults = Faults::seeded(seed);
    let slowest = Duration::from_millis(*random.pick(&[5, 60, 400]));
    faults.add(Rule::always(Fault::Delay(Duration::ZERO..slowest)));
    faults.add(Rule::always(Fault::Slow(Duration::ZERO..slowest)));
    if random.once_in(2) {
        let longest = Duration::from_millis(1 + random.below(5_000));
        faults.add(Rule::always(Fault::Lag(Duration::ZERO..longest)).verbs(&[Verb::Watch]).resources(&["pods"]));
    }
    if random.once_in(2) {
        faults
            .add(Rule::always(Fault::Delay(Duration::ZERO..LONGEST_WAY - slowest)).per_mille(20).resources(&["pods"]));
    }
    let nobody = Options { controllers: [].into(), ..Options::default() };
    let settings = Settings { bare: true, manager: nobody, faults: Some(faults.clone()), ..Settings::seeded(seed) };
    let world = World::start(settings).await.unwrap();
    let candidate = |name, seed| {
        let config = Config::new("kube-system", "muster", String::new());
        Candidate::start(&world, name, config, None, Options { seed, ..Options::default() }).unwrap()
    };
    let first = candidate(FIRST, seed);
    while Api::of(&world).get(Lease::PATH).await.is_none() {
        pass(Duration::from_millis(50)).await;
    }
    let second = candidate(SECOND, seed + 1);
    pass(Duration::from_millis(random.below(5_000))).await;
    assert_eq!(Api::of(&world).post(SETS, &set()).await.0, 201);

    // Somewhere in its work: how far it has come is what counts, not the time.
    let at = usize::try_from(random.below(5_000)).unwrap();
    let (mut read, mut created) = (0, 0);
    for _ in 0..600_000 {
        let new = world.history().since(read);
        (read, created) = (read + new.len(), created + creations(&new).count());
        if created >= at {
            break;
        }
        pass(Duration::from_millis(1)).await;
    }
    pass(Duration::from_millis(random.below(300))).await;
    let end = match random.below(4) {
        0 => End::Killed,
        1 => End::CutOff,
        2 => End::Frozen(Duration::from_millis(16_000 + random.below(30_000))),
        _ => End::Stunned(Duration::from_millis(random.below(5_000))),
    };
    let mut broken = Vec::new();
    let lease = Lease { world: &world, patience: TAKE_OVER + slowest * 8 };
    // Dropping a candidate stops it.
    let mut stunned = None;
    match end {
        End::Killed => {
            first.kill();
            broken.extend(lease.is_taken_over().await.err());
        }
        End::Frozen(time) => {
            let thaw = Instant::now() + time;
            first.freeze();
            broken.extend(lease.is_taken_over().await.err());
            tokio::time::sleep_until(thaw).await;
            first.thaw(seed);
            match tokio::time::timeout(Duration::from_secs(20), first.ended()).await {
                Ok(Err(_lost)) => {}
                ended => broken.push(format!("the one that was frozen past its lease goes on: {ended:?}")),
            }
        }
        End::CutOff => {
            faults.add(Rule::always(Fault::Reset).of(FIRST));
            broken.extend(lease.is_taken_over().await.err());
            if !first.has_ended() {
                broken.push("the one that was cut off from its lease goes on".to_owned());
            }
        }
        End::Stunned(time) => {
            first.freeze();
            pass(time).await;
            first.thaw(seed);
            stunned = Some(first);
        }
    }
    let path = format!("{SETS}/web");
    let done = |set: &Value| number(set, "/status/replicas") == PODS_WANTED;
    if let Err(last) = world.until(&path, Duration::from_secs(180), done).await {
        broken.push(format!("it is not finished: {last}"));
    }
    // What a woken leader had in its hands would be seen by now.
    pass(Duration::from_secs(60)).await;
    drop((stunned, second));
    broken.extend(laws(&world.history().since(0), end));
    let pods = Api::of(&world).list(PODS).await;
    if pods.len() != 5_000 || pods.iter().any(is_being_deleted) {
        broken.push(format!("there are {} pods", pods.len()));
    }
    world.stop().await;
    broken.into_iter().map(|law| format!("{end:?} after {created} pods: {law}")).collect()
}

/// The Lease, and how long it may take to change hands.
struct Lease<'w> {
    world: &'w World,
    patience: Duration,
}

impl Lease<'_> {
    const PATH: &'static str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/muster";

    async fn is_taken_over(&self) -> Result<Value, String> {
        let taken = |lease: &Value| lease["spec"]["holderIdentity"] == SECOND && lease["spec"]["leaseTransitions"] == 1;
        let found = self.world.until(Self::PATH, self.patience, taken).await;
        found.map_err(|last| format!("no process takes over: {last}"))
    }
}

/// What must hold of all that was written.
fn laws(writes: &[Write], end: End) -> Vec<String> {
    let mut broken = Vec::new();
    // None is ever deleted, so that this is also how many there were at most.
    let created = creations(writes).count();
    if created != 5_000 {
        broken.push(format!("{created} pods were created"));
    }
    let deletions = writes.iter().filter(|write| write.method == Method::DELETE);
    broken.extend(deletions.map(|write| format!("a deletion: {write}")));

    // All writes but those of Leases and Events, on which no decision depends.
    let work = writes.iter().filter(|write| !matches!(write.resource(), "leases" | "events"));
    let of = |who: &'static str| work.clone().filter(move |write| write.who == who);
    let followed = of(SECOND).next();
    if let (End::Stunned(_), Some(write)) = (end, followed) {
        broken.push(format!("the lease was still the first one's: {write}"));
    } else if let Some(followed) = followed {
        let after = of(FIRST).filter(|write| write.millis >= followed.millis);
        broken.extend(after.map(|write| format!("there are two writers: {write}")));
    }
    broken
}

fn creations(writes: &[Write]) -> impl Iterator<Item = &Write> {
    let created = |write: &&Write| write.method == Method::POST && write.resource() == "pods" && write.status == 201;
    writes.iter().filter(created)
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
