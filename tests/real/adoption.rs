//! Whose pods and whose ReplicaSets: adoption, release, and deletion that leaves orphans.

use serde_json::{Value, json};

use crate::wait::{eventually, same};
use crate::workloads::{Kind, Space, controller_of, deployment, name_of, pod, replicaset};
use crate::world::World;

/// Contract: RS-06, RS-08
pub(crate) fn a_replicaset_adopts_and_releases(world: &World) {
    world.shared("adoption", |space| {
        space.create(&pod("stray", "web"));
        let mut owned = pod("owned", "web");
        let owner =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "nobody", "controller": true});
        owned["metadata"]["ownerReferences"] = json!([owner]);
        // A collector would take what nobody owns; a finalizer holds it for the test.
        owned["metadata"]["finalizers"] = json!(["real.test/hold"]);
        space.create(&owned);

        let web = space.create(&replicaset("web", 3));
        space.ready(Kind::ReplicaSet, "web", 3);
        assert_eq!(owner_of(space, Kind::Pod, "stray"), Some(uid(&web)), "adopted");
        assert_eq!(owner_of(space, Kind::Pod, "owned"), Some("nobody".to_owned()), "another's is left alone");
        space.merge(Kind::Pod, "owned", &json!({"metadata": {"finalizers": null}}));

        space.merge(Kind::Pod, "stray", &json!({"metadata": {"labels": {"app": "loose"}}}));
        eventually("the release of the pod", || same(&owner_of(space, Kind::Pod, "stray"), &None));
        eventually("a pod in its place", || {
            let mine = space.list(Kind::Pod, "web").iter().filter(|pod| uid_of_owner(pod) == Some(uid(&web))).count();
            same(&mine, &3)
        });

        // One that comes back is one too many.
        space.ready(Kind::ReplicaSet, "web", 3);
        space.merge(Kind::Pod, "stray", &json!({"metadata": {"labels": {"app": "web"}}}));
        eventually("the deletion of one of four", || {
            let mine = space.list(Kind::Pod, "web").iter().filter(|pod| uid_of_owner(pod) == Some(uid(&web))).count();
            let event = space.event("web", "SuccessfulDelete");
            same(&mine, &3).map_err(|said| format!("{said}; told {event:?}"))
        });
        space.ready(Kind::ReplicaSet, "web", 3);
    });
}

/// Contract: RS-06, RS-14
pub(crate) fn what_an_orphaning_delete_leaves_is_adopted(world: &World) {
    world.shared("orphans", |space| {
        space.create(&replicaset("web", 3));
        space.ready(Kind::ReplicaSet, "web", 3);
        let before = space.pods("web");
        space.delete(Kind::ReplicaSet, "web", "Orphan");
        space.gone(Kind::ReplicaSet, "web");
        let owners: Vec<_> = space.list(Kind::Pod, "web").iter().map(uid_of_owner).collect();
        assert_eq!((space.pods("web"), owners), (before.clone(), vec![None; 3]));

        let again = space.create(&replicaset("web", 3));
        space.ready(Kind::ReplicaSet, "web", 3);
        let owners: Vec<_> = space.list(Kind::Pod, "web").iter().map(uid_of_owner).collect();
        assert_eq!((space.pods("web"), owners), (before, vec![Some(uid(&again)); 3]));
    });
}

/// Contract: DEP-02, DEP-03
pub(crate) fn a_deployment_adopts_its_replicasets(world: &World) {
    world.shared("inheritance", |space| {
        space.create(&deployment("web", 3));
        space.complete("web");
        let (sets, pods) = (space.list(Kind::ReplicaSet, "web"), space.pods("web"));
        space.delete(Kind::Deployment, "web", "Orphan");
        space.gone(Kind::Deployment, "web");
        let set = name_of(&sets[0]);
        assert_eq!(owner_of(space, Kind::ReplicaSet, &set), None);

        let again = space.create(&deployment("web", 3));
        space.complete("web");
        assert_eq!(owner_of(space, Kind::ReplicaSet, &set), Some(uid(&again)));
        assert_eq!(space.list(Kind::ReplicaSet, "web").len(), 1, "no second one was made");
        assert_eq!(space.pods("web"), pods, "not a pod was touched");
        space.delete(Kind::Deployment, "web", "Background");
        eventually("the end of its pods", || same(&space.pods("web").len(), &0));
    });
}

fn owner_of(space: &Space<'_>, kind: Kind, name: &str) -> Option<String> {
    uid_of_owner(&space.get(kind, name))
}

fn uid_of_owner(object: &Value) -> Option<String> {
    controller_of(object).map(|(_, _, uid)| uid)
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().expect("every object has a uid").to_owned()
}
