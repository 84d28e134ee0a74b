//! Up and down, in bursts and by rank.

use std::collections::BTreeSet;

use serde_json::json;

use crate::wait::{eventually, same};
use crate::workloads::{Kind, Space, replicaset};
use crate::world::World;

/// More than one burst up, and more than one down.
///
/// Contract: RS-09, RS-13, RS-19
pub(crate) fn a_thousand_pods_come_and_go(world: &World) {
    world.shared("thousand", |space| {
        let mut many = replicaset("many", 1000);
        // What the pods do is not what this is about.
        many["spec"]["template"]["metadata"]["annotations"] = json!({"muster.dev/fate": "never-start"});
        space.create(&many);
        space.has(Kind::ReplicaSet, "many", 1000);
        let before = space.pods("many");
        assert_eq!(before.len(), 1000);
        assert_eq!(deleted(space), BTreeSet::new(), "none was made that was too many");
        space.scale(Kind::ReplicaSet, "many", 0);
        space.has(Kind::ReplicaSet, "many", 0);
        eventually("the end of all pods", || same(&space.pods("many").len(), &0));
        // One may be asked for twice: it was bound to a node between the decision and the deletion.
        assert_eq!(deleted(space), before.into_iter().collect(), "these were there, and no others ever");
    });
}

/// The pods that the manager has deleted.
fn deleted(space: &Space<'_>) -> BTreeSet<String> {
    let asked = space.plane.asked().into_iter();
    asked.filter(|asked| asked.verb == "delete" && asked.namespace == space.name).map(|asked| asked.name).collect()
}

/// Contract: RS-13, DEL-02
pub(crate) fn the_dear_ones_stay(world: &World) {
    world.shared("cost", |space| {
        space.create(&replicaset("web", 6));
        space.ready(Kind::ReplicaSet, "web", 6);
        let pods = space.pods("web");
        let dear = [pods[1].clone(), pods[4].clone()];
        for pod in &dear {
            let cost = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "100"}}});
            space.merge(Kind::Pod, pod, &cost);
        }
        // A label is seen in the same watch as the costs before it, so that the cache has those once this is done.
        space.merge(Kind::Pod, &pods[0], &json!({"metadata": {"labels": {"app": "loose"}}}));
        eventually("a pod in place of the one that was let go", || same(&space.pods("web").len(), &6));
        space.ready(Kind::ReplicaSet, "web", 6);
        space.scale(Kind::ReplicaSet, "web", 2);
        space.ready(Kind::ReplicaSet, "web", 2);
        eventually("the end of the cheap ones", || same(&space.pods("web"), &dear.to_vec()));
    });
}
