//! ReplicaSets come to their pods, told as the template says, and are left alone once they have them.

use serde_json::json;

use crate::wait::{eventually, same};
use crate::workloads::{Kind, controller_of, count, name_of, replicaset};
use crate::world::World;

/// Contract: RS-10, RS-11, RS-15
pub(crate) fn a_pod_is_as_the_template_says(world: &World) {
    world.shared("creation", |space| {
        let mut web = replicaset("web", 3);
        web["spec"]["template"]["metadata"]["annotations"] = json!({"note": "kept"});
        web["spec"]["template"]["metadata"]["finalizers"] = json!(["real.test/hold"]);
        web["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "10m"}});
        let made = space.create(&web);
        space.ready(Kind::ReplicaSet, "web", 3);

        let uid = made["metadata"]["uid"].as_str().expect("a uid").to_owned();
        for pod in space.list(Kind::Pod, "web") {
            assert!(name_of(&pod).starts_with("web-"), "{pod}");
            assert_eq!(pod["metadata"]["generateName"], "web-");
            assert_eq!(pod["metadata"]["annotations"]["note"], "kept");
            assert_eq!(pod["metadata"]["finalizers"], json!(["real.test/hold"]));
            assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "10m");
            assert_eq!(controller_of(&pod), Some(("ReplicaSet".to_owned(), "web".to_owned(), uid.clone())));
            assert_eq!(pod["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], true);
        }
        let object = space.get(Kind::ReplicaSet, "web");
        assert_eq!((count(&object, "fullyLabeledReplicas"), count(&object, "availableReplicas")), (3, 3), "{object}");
        assert!(space.event("web", "SuccessfulCreate").starts_with("Created pod: web-"));
        for pod in space.pods("web") {
            space.merge(Kind::Pod, &pod, &json!({"metadata": {"finalizers": null}}));
        }
    });
}

/// Contract: RS-04, RS-05
pub(crate) fn a_pod_that_is_deleted_is_replaced(world: &World) {
    world.shared("replacement", |space| {
        space.create(&replicaset("web", 3));
        space.ready(Kind::ReplicaSet, "web", 3);
        let before = space.pods("web");
        space.delete(Kind::Pod, &before[1], "Background");
        eventually("another pod in its place", || {
            let now = space.pods("web");
            let kept = now.iter().filter(|pod| before.contains(pod)).count();
            same(&(now.len(), kept), &(3, 2)).map_err(|said| format!("{said}: {now:?}, before {before:?}"))
        });
        space.ready(Kind::ReplicaSet, "web", 3);
    });
}

/// Contract: RS-17, B-12
pub(crate) fn nothing_is_written_once_converged(world: &World) {
    world.shared("rest", |space| {
        let writes = || {
            let asked = space.plane.asked().into_iter();
            let about = asked.filter(|asked| asked.writes() && asked.namespace == "rest" && asked.resource != "events");
            about.filter(|asked| asked.name.starts_with("first")).collect::<Vec<_>>()
        };
        space.create(&replicaset("first", 4));
        space.ready(Kind::ReplicaSet, "first", 4);
        let before = writes().len();
        // While this one comes to its pods, the first is synced again: every update queues it.
        space.merge(Kind::ReplicaSet, "first", &json!({"metadata": {"annotations": {"looked": "at"}}}));
        space.create(&replicaset("second", 4));
        space.ready(Kind::ReplicaSet, "second", 4);
        let after = writes();
        assert_eq!(after.len(), before, "{:#?}", &after[before..]);
    });
}

/// Contract: RS-09, RS-11, RS-16, B-09
pub(crate) fn a_refused_creation_is_told_and_made_good(world: &World) {
    world.shared("refusal", |space| {
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}},
        });
        space.create(&quota);
        // Nobody here counts what is used; the server goes by what the status says.
        let path = format!("{}/status", space.path(Kind::ResourceQuota, "few"));
        let counted = json!({"status": {"hard": {"pods": "1"}, "used": {"pods": "0"}}});
        space.plane.api.merge(&path, &counted).expect("the quota's status");

        space.create(&replicaset("web", 3));
        let condition = space.condition(Kind::ReplicaSet, "web", "FailedCreate");
        assert_eq!((&condition["type"], &condition["status"]), (&json!("ReplicaFailure"), &json!("True")));
        assert!(space.event("web", "FailedCreate").contains("exceeded quota: few"));
        space.has(Kind::ReplicaSet, "web", 1);

        space.delete(Kind::ResourceQuota, "few", "Background");
        space.ready(Kind::ReplicaSet, "web", 3);
        let object = space.get(Kind::ReplicaSet, "web");
        assert_eq!(object["status"].get("conditions"), None, "{object}");
    });
}
