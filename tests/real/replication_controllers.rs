//! ReplicationControllers, by the same code behind an adapter.

use serde_json::json;

use crate::wait::{eventually, same};
use crate::workloads::{Kind, controller_of, replication_controller};
use crate::world::World;

/// Contract: RC-01, RC-02
pub(crate) fn a_replication_controller_keeps_its_pods(world: &World) {
    world.shared("classic", |space| {
        let made = space.create(&replication_controller("classic", 3));
        let uid = made["metadata"]["uid"].as_str().expect("a uid").to_owned();
        let owner = Some(("ReplicationController".to_owned(), "classic".to_owned(), uid));
        space.ready(Kind::ReplicationController, "classic", 3);
        for pod in space.list(Kind::Pod, "classic") {
            assert_eq!(controller_of(&pod), owner);
        }
        assert!(space.event("classic", "SuccessfulCreate").starts_with("Created pod: classic-"));
        let object = space.get(Kind::ReplicationController, "classic");
        assert_eq!(object["status"].get("terminatingReplicas"), None, "{object}");

        space.scale(Kind::ReplicationController, "classic", 20);
        space.ready(Kind::ReplicationController, "classic", 20);
        let loose = space.pods("classic")[0].clone();
        space.merge(Kind::Pod, &loose, &json!({"metadata": {"labels": {"app": "loose"}}}));
        eventually("the release of a pod that matches no more", || {
            same(&controller_of(&space.get(Kind::Pod, &loose)), &None)
        });
        eventually("a pod in its place", || same(&space.pods("classic").len(), &20));

        space.scale(Kind::ReplicationController, "classic", 1);
        space.ready(Kind::ReplicationController, "classic", 1);
        eventually("the end of the others", || same(&space.pods("classic").len(), &1));
        space.delete(Kind::ReplicationController, "classic", "Foreground");
        eventually("the end of the last", || same(&space.pods("classic").len(), &0));
        assert_eq!(controller_of(&space.get(Kind::Pod, &loose)), None, "what was let go is left alone");
    });
}
