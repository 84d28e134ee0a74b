//! What a rollout was like for who uses it.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_tree::Value;

use super::{Act, Case, Played};
use crate::api::{name, number};
use crate::laws::rollout::{is_active, is_available};
use crate::laws::{Kind, Seen};
use crate::world::EPOCH_NANOS;

/// From the moment at which it was asked for, until all faults were over and their consequences too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// The lowest number of available pods.
    pub least_available: i64,
    /// The highest number of pods that were neither over nor being deleted.
    pub most_pods: i64,
    /// How long it took until every pod was of the new template and available, and the Deployment said so.
    pub took: Option<Duration>,
}

impl Figures {
    /// Of the last rollout of a case; none where none was asked for.
    #[must_use]
    pub fn of(case: &Case, played: &Played) -> Option<Self> {
        let mut patches = case.operations.iter().rev().filter(|operation| matches!(operation.act, Act::Patch(_)));
        let asked = EPOCH_NANOS / 1_000_000 + i64::try_from(patches.next()?.at.as_millis()).ok()?;
        let mut pods: BTreeMap<&str, &Value> = BTreeMap::new();
        let mut found: Option<Self> = None;
        let mut deployment = &Value::Null;
        let (mut last, mut restored, mut rolled_from) = (0, 0, 0);
        for Seen { millis, epoch, kind, gone, object, .. } in &played.seen {
            if *epoch != last {
                // The server was put back to an earlier state: what is there is told anew at one moment, and nothing else is.
                (last, restored) = (*epoch, *millis);
                pods.clear();
                found.iter_mut().for_each(|found| found.took = None);
            }
            match kind {
                Kind::Deployment => deployment = object,
                Kind::ReplicaSet | Kind::ReplicationController => {}
                Kind::Pod if *gone => drop(pods.remove(name(object))),
                Kind::Pod => drop(pods.insert(name(object), object)),
            }
            if *millis < asked {
                rolled_from = number(deployment, "/metadata/generation");
            }
            if *millis < asked || *millis == restored {
                continue;
            }
            let min_ready = number(deployment, "/spec/minReadySeconds");
            let active = pods.values().filter(|pod| is_active(pod));
            let available = active.clone().filter(|pod| is_available(pod, min_ready, *millis));
            let [most, least] =
                [active.count(), available.count()].map(|count| i64::try_from(count).unwrap_or(i64::MAX));
            let so_far = found.get_or_insert(Self { least_available: least, most_pods: most, took: None });
            so_far.least_available = so_far.least_available.min(least);
            so_far.most_pods = so_far.most_pods.max(most);
            if *kind == Kind::Deployment && so_far.took.is_none() && is_complete(deployment, rolled_from) {
                let millis = u64::try_from(millis - asked).unwrap_or_default();
                so_far.took = Some(Duration::from_millis(millis));
            }
        }
        found
    }
}

/// Whether a Deployment that has changed since a generation is as it was asked to be.
fn is_complete(deployment: &Value, since: i64) -> bool {
    let replicas = number(deployment, "/spec/replicas");
    number(deployment, "/metadata/generation") > since
        && deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"]
        && ["updatedReplicas", "replicas", "availableReplicas"]
            .iter()
            .all(|field| number(deployment, &format!("/status/{field}")) == replicas)
}
