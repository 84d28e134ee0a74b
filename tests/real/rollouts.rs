//! Deployments: rolled, rolled back, paused, recreated, and stopped by their deadline.

use serde_json::{Value, json};

use crate::wait::{eventually, same};
use crate::workloads::{Kind, Space, controller_of, count, deployment, image, name_of};
use crate::world::World;

const REVISION: &str = "deployment.kubernetes.io/revision";

/// Contract: DEP-04, DEP-06, DEP-13, DEP-16, DEP-17, DEP-24
pub(crate) fn a_deployment_rolls_and_rolls_back(world: &World) {
    world.shared("rollout", |space| {
        let made = space.create(&deployment("web", 4));
        space.complete("web");
        let first = only(space.list(Kind::ReplicaSet, "web"));
        let hash = first["metadata"]["labels"]["pod-template-hash"].as_str().expect("a hash").to_owned();
        assert_eq!(name_of(&first), format!("web-{hash}"));
        let uid = made["metadata"]["uid"].as_str().expect("a uid").to_owned();
        assert_eq!(controller_of(&first), Some(("Deployment".to_owned(), "web".to_owned(), uid)));
        assert_eq!(first["metadata"]["annotations"][REVISION], "1");
        assert_eq!(space.event("web", "ScalingReplicaSet"), format!("Scaled up replica set web-{hash} from 0 to 4"));
        let condition = space.condition(Kind::Deployment, "web", "NewReplicaSetAvailable");
        assert_eq!(condition["message"], format!("ReplicaSet \"web-{hash}\" has successfully progressed."));

        space.merge(Kind::Deployment, "web", &image("nginx:1.26"));
        space.complete("web");
        assert_eq!(images(space, "web"), ["nginx:1.26"; 4]);
        space.condition(Kind::Deployment, "web", "MinimumReplicasAvailable");
        assert_eq!(revision(&space.get(Kind::Deployment, "web")), "2");

        space.merge(Kind::Deployment, "web", &image("nginx:1.25"));
        space.complete("web");
        assert_eq!(images(space, "web"), ["nginx:1.25"; 4]);
        let sets = space.list(Kind::ReplicaSet, "web");
        assert_eq!(sets.len(), 2, "the first one serves again");
        assert_eq!(revision(&space.get(Kind::ReplicaSet, &name_of(&first))), "3");
        assert_eq!(revision(&space.get(Kind::Deployment, "web")), "3");

        // As an old client asks for it: by the annotation that apps/v1 keeps of extensions/v1beta1.
        let rollback = json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": "2"}}});
        space.merge(Kind::Deployment, "web", &rollback);
        assert_eq!(space.event("web", "DeploymentRollback"), "Rolled back deployment \"web\" to revision 2");
        space.complete("web");
        assert_eq!(images(space, "web"), ["nginx:1.26"; 4]);
    });
}

/// Contract: DEP-09, DEP-19
pub(crate) fn pausing_holds_a_template(world: &World) {
    world.shared("pause", |space| {
        space.create(&deployment("web", 4));
        space.complete("web");
        space.merge(Kind::Deployment, "web", &json!({"spec": {"paused": true}}));
        space.condition(Kind::Deployment, "web", "DeploymentPaused");
        space.merge(Kind::Deployment, "web", &image("nginx:1.26"));
        space.scale(Kind::Deployment, "web", 6);
        eventually("six replicas of the old template", || {
            let object = space.get(Kind::Deployment, "web");
            same(&count(&object, "availableReplicas"), &6).map_err(|_| object["status"].to_string())
        });
        let sets = space.list(Kind::ReplicaSet, "web");
        assert_eq!(sets.len(), 1, "a paused Deployment makes no ReplicaSet: {sets:#?}");
        assert_eq!(images(space, "web"), ["nginx:1.25"; 6]);
        space.merge(Kind::Deployment, "web", &json!({"spec": {"paused": false}}));
        space.complete("web");
        assert_eq!(images(space, "web"), ["nginx:1.26"; 6]);
    });
}

/// Contract: DEP-12
pub(crate) fn recreate_waits_for_the_last_old_pod(world: &World) {
    world.shared("recreate", |space| {
        let mut web = deployment("web", 3);
        web["spec"]["strategy"] = json!({"type": "Recreate"});
        // Its pods run on after their deletion, until the test ends them.
        web["spec"]["template"]["metadata"]["annotations"] = json!({"muster.dev/shutdown": "1h"});
        web["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(3600);
        space.create(&web);
        space.complete("web");
        let old = space.pods("web");
        let other = json!({"spec": {"template": {
            "metadata": {"annotations": null},
            "spec": {"containers": [{"name": "c", "image": "nginx:1.26"}]},
        }}});
        space.merge(Kind::Deployment, "web", &other);
        eventually("the deletion of all old pods", || {
            let pods = space.list(Kind::Pod, "web");
            let ending = pods.iter().filter(|pod| pod["metadata"].get("deletionTimestamp").is_some()).count();
            same(&(pods.len(), ending), &(3, 3))
        });
        space.end_pod(&old[0]);
        space.end_pod(&old[1]);
        // One more rollout of somebody else, from its first pod to its last, happens meanwhile.
        space.create(&deployment("other", 3));
        space.complete("other");
        assert_eq!(space.pods("web"), [old[2].clone()], "a new pod came before the last old one was gone");
        space.end_pod(&old[2]);
        space.complete("web");
        assert_eq!(images(space, "web"), ["nginx:1.26"; 3]);
    });
}

/// Contract: DEP-07, DEP-10, DEP-11, DEP-17, DEP-18
pub(crate) fn a_broken_image_exceeds_its_deadline_within_the_bounds(world: &World) {
    world.shared("deadline", |space| {
        let mut web = deployment("web", 10);
        web["spec"]["progressDeadlineSeconds"] = json!(3);
        space.create(&web);
        space.complete("web");
        space.merge(Kind::Deployment, "web", &image("nginx:404"));
        let condition = space.condition(Kind::Deployment, "web", "ProgressDeadlineExceeded");
        assert_eq!(condition["status"], "False");
        // 25% of 10: three above, two below. 8 old ones serve, 5 new ones never will.
        let bounds = ["replicas", "updatedReplicas", "availableReplicas", "unavailableReplicas"];
        eventually("the rollout at its bounds", || {
            let object = space.get(Kind::Deployment, "web");
            same(&bounds.map(|field| count(&object, field)), &[13, 5, 8, 5])
        });
        space.merge(Kind::Deployment, "web", &image("nginx:1.25"));
        space.complete("web");
        space.condition(Kind::Deployment, "web", "NewReplicaSetAvailable");
    });
}

/// The images of all pods of an app that are not on their way out, in order.
fn images(space: &Space<'_>, app: &str) -> Vec<String> {
    let pods = space.list(Kind::Pod, app);
    let staying = pods.iter().filter(|pod| pod["metadata"].get("deletionTimestamp").is_none());
    let mut images: Vec<String> =
        staying.map(|pod| pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned()).collect();
    images.sort();
    images
}

fn revision(object: &Value) -> &str {
    object["metadata"]["annotations"][REVISION].as_str().unwrap_or_default()
}

fn only(mut objects: Vec<Value>) -> Value {
    assert_eq!(objects.len(), 1, "{objects:#?}");
    objects.remove(0)
}
