//! What happens to a cluster that is no fault of a request: nodes die, history is compacted, the server is restored to
//! an earlier version, and others write too.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_simulation::{Fault, Faults, Refusal, Rule, Verb, World};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::common::{Api, DEPLOYMENTS, PODS, Random, SETS, is_being_deleted, name, number, pass};
use crate::watcher::Watcher;

/// One kind of incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Incident {
    /// Nodes die with all that they run, and come back empty.
    DeadNodes,
    /// History is forgotten, again and again.
    Compaction,
    /// Everything is put back to what it was a while ago.
    Restore,
    /// An autoscaler sets the size of the Deployment by its subresource `scale`.
    Autoscaler,
    /// Somebody else writes what the controllers write: sizes of ReplicaSets as they were earlier, as a second
    /// controller manager would, and pods with an owner or to be adopted.
    SecondWriter,
}

pub(crate) const ALL: [(Incident, &str); 5] = [
    (Incident::DeadNodes, "nodes die"),
    (Incident::Compaction, "history is compacted"),
    (Incident::Restore, "the server is restored"),
    (Incident::Autoscaler, "an autoscaler scales"),
    (Incident::SecondWriter, "a second writer"),
];

/// What was done, and is not the controllers' doing.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) times: u64,
    /// The versions of ReplicaSets that others wrote, or that were written without an answer.
    pub(crate) sets: BTreeSet<u64>,
    /// Pods that others made.
    pub(crate) pods: BTreeSet<String>,
}

impl Incident {
    /// Lets it happen again and again until a time.
    pub(crate) async fn happen(
        self,
        until: Instant,
        (world, watcher, faults): (&World, &Watcher, &Faults),
        random: &mut Random,
    ) -> Done {
        let mut done = Done::default();
        if self == Self::Restore {
            restore(world, watcher, faults, random).await;
            tokio::time::sleep_until(until).await;
            return Done { times: 1, ..done };
        }
        while Instant::now() < until {
            match self {
                Self::DeadNodes => world.set_nodes(1 + u32::try_from(random.below(3)).unwrap()),
                Self::Compaction => world.storage().compact(),
                Self::Autoscaler => {
                    let scale = json!({"spec": {"replicas": 1 + random.below(12)}});
                    let path = format!("{DEPLOYMENTS}/web/scale");
                    assert_eq!(Api::of(world).merge(&path, &scale).await.0, 200);
                }
                Self::SecondWriter => meddle(Api::of(world), random, &mut done).await,
                Self::Restore => {}
            }
            done.times += 1;
            pass(Duration::from_millis(200 + random.below(8_000))).await;
        }
        world.set_nodes(3);
        done
    }
}

/// Back to the present version, once some time has passed. A server that is put back to an earlier version is to tell its
/// clients so, or they resume from versions that are given again.
async fn restore(world: &World, watcher: &Watcher, faults: &Faults, random: &mut Random) {
    pass(Duration::from_millis(1)).await;
    let version = world.storage().version();
    pass(Duration::from_millis(random.below(20_000))).await;
    world.storage().restore(version).unwrap();
    watcher.restored();
    faults.add(Rule::always(Fault::Refuse(Refusal::VersionTooLarge)).verbs(&[Verb::Watch]));
    // Whoever waits before asking again does so by then.
    pass(Duration::from_secs(40)).await;
    // The simulated nodes do not say again what they have said of their pods, as real ones do: they are replaced.
    world.set_nodes(0);
    pass(Duration::from_secs(60)).await;
    world.set_nodes(3);
}

async fn meddle(api: Api<'_>, random: &mut Random, done: &mut Done) {
    let mut sets = api.list(SETS).await;
    sets.retain(|set| !is_being_deleted(set));
    if sets.is_empty() {
        return;
    }
    let set = random.pick(&sets);
    match random.below(4) {
        0 | 1 => {
            let had = number(set, "/status/replicas");
            let size = if random.once_in(2) { had } else { i64::try_from(random.below(6)).unwrap() };
            let (status, written) =
                api.merge(&format!("{SETS}/{}", name(set)), &json!({"spec": {"replicas": size}})).await;
            if status == 200 {
                done.sets.extend(written["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>());
            }
        }
        2 => {
            let (status, made) = api.post(PODS, &pod(set, random.once_in(2))).await;
            assert_eq!(status, 201, "{made}");
            done.pods.insert(name(&made).to_owned());
        }
        _ => {
            let mut pods = api.list(PODS).await;
            pods.retain(|pod| !is_being_deleted(pod));
            if !pods.is_empty() {
                api.delete(&format!("{PODS}/{}", name(random.pick(&pods))), None).await;
            }
        }
    }
}

/// A pod of a ReplicaSet, with an owner reference or without.
fn pod(set: &Value, owned: bool) -> Value {
    let mut pod = set["spec"]["template"].clone();
    pod["metadata"]["generateName"] = json!("other-");
    if owned {
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set["metadata"]["name"],
            "uid": set["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
        }]);
    }
    pod
}
