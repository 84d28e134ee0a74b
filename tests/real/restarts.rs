//! The API server goes and comes back, with the same data.

use serde_json::json;

use crate::audit::{Asked, MANAGERS};
use crate::control_plane::ControlPlane;
use crate::manager::{Manager, PATIENT};
use crate::wait::{eventually, same};
use crate::workloads::{Kind, Space, deployment, image, replicaset};
use crate::world::World;

/// kube-apiserver is killed in the middle of a scale-up, then etcd with it in the middle of a rollout. A request whose
/// answer was lost may have been done.
///
/// Contract: CM-03, INF-05
pub(crate) fn an_api_server_that_was_away_costs_no_pod(world: &World) {
    let mut plane = world.plane_with_nodes("away");
    let mut manager = start(&plane);
    manager.says("starting workers");
    let space = Space::new(&plane, "away");
    space.create(&deployment("site", 20));
    space.complete("site");
    space.create(&replicaset("web", 800));
    some(&space, "web", 100);
    plane.kill(false);
    plane.start_again();
    let space = Space::again(&plane, "away");
    space.has(Kind::ReplicaSet, "web", 800);
    assert_eq!(space.pods("web").len(), 800);
    let deleted: Vec<Asked> = plane.asked().into_iter().filter(|asked| asked.verb == "delete").collect();
    assert!(deleted.is_empty(), "a pod was made twice: {deleted:#?}");

    let space = Space::again(&plane, "away");
    space.merge(Kind::Deployment, "site", &image("nginx:1.26"));
    eventually("the middle of the rollout", || {
        let updated = space.get(Kind::Deployment, "site")["status"]["updatedReplicas"].as_u64().unwrap_or_default();
        if (1..20).contains(&updated) { Ok(()) } else { Err(format!("{updated} updated replicas")) }
    });
    plane.kill(true);
    plane.start_again();
    let space = Space::again(&plane, "away");
    space.complete("site");
    eventually("the end of the old pods", || same(&space.pods("site").len(), &20));
    assert_eq!(space.pods("web").len(), 800, "the others are as they were");
    // The same process went through all of it.
    manager.signal("-TERM");
    assert_eq!(manager.ends().code(), Some(0));
}

/// The manager is frozen while the world changes and the server is started anew, so that what its watches ask for is
/// older than anything the server still knows (410): it reads everything again, and finds what is gone.
///
/// Contract: INF-04, INF-05
pub(crate) fn what_changed_unseen_is_made_good(world: &World) {
    let mut plane = world.plane_with_nodes("unseen");
    let mut manager = start(&plane);
    manager.says("starting workers");
    let space = Space::new(&plane, "unseen");
    space.create(&replicaset("web", 10));
    space.create(&replicaset("gone", 3));
    space.ready(Kind::ReplicaSet, "web", 10);
    space.ready(Kind::ReplicaSet, "gone", 3);
    manager.signal("-STOP");
    for pod in &space.pods("web")[..4] {
        space.delete(Kind::Pod, pod, "Background");
    }
    let loose = space.pods("web").last().cloned().expect("pods are left");
    space.merge(Kind::Pod, &loose, &json!({"metadata": {"labels": {"app": "loose"}}}));
    space.delete(Kind::ReplicaSet, "gone", "Background");
    space.create(&replicaset("new", 2));
    eventually("the end of what was deleted", || same(&(space.pods("web").len(), space.pods("gone").len()), &(5, 0)));
    plane.kill(false);
    plane.start_again();
    manager.signal("-CONT");
    let space = Space::again(&plane, "unseen");
    space.ready(Kind::ReplicaSet, "new", 2);
    eventually("ten pods again", || same(&space.pods("web").len(), &10));
    space.ready(Kind::ReplicaSet, "web", 10);
    assert_eq!(space.get(Kind::Pod, &loose)["metadata"].get("ownerReferences"), None, "let go");
    assert_eq!(space.pods("gone").len(), 0);
}

fn start(plane: &ControlPlane) -> Manager {
    Manager::start(MANAGERS[0], &plane.kubeconfig(MANAGERS[0]), plane.folder(), PATIENT)
}

/// Waits until so many pods of an app are there.
fn some(space: &Space<'_>, app: &str, least: usize) {
    eventually("the first pods", || {
        let there = space.try_list(Kind::Pod, app)?.len();
        if there >= least { Ok(()) } else { Err(format!("{there} pods")) }
    });
}
