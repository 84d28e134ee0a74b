//! Two managers with one Lease: the one that leads is killed, or frozen past its Lease, in the middle of a scale-up.
//!
//! That there was never a pod too many shows in this: in the end there are as many as asked, and no manager ever
//! deleted one, nor did anybody else.

use serde_json::Value;

use crate::audit::{Asked, MANAGERS};
use crate::control_plane::ControlPlane;
use crate::manager::{Manager, ROOMY};
use crate::wait::eventually;
use crate::workloads::{Kind, Space, replicaset};
use crate::world::World;

/// How many pods are asked for, and after how many of them the leader is struck.
const ASKED_FOR: u32 = 1500;
const STRUCK_AFTER: usize = 100;
/// However fast the machine, the last pod is more than a second away when the leader is struck.
const PACE: &[&str] = &["--kube-api-qps=1000", "--kube-api-burst=300"];

/// Contract: CM-04, CM-05, B-12
pub(crate) fn a_leader_is_killed_in_a_scale_up(world: &World) {
    let plane = world.plane("killed");
    let (mut leader, mut standby) = two(&plane);
    let space = Space::new(&plane, "killed");
    scale_up_until_struck(&space, || leader.kill());
    assert!(!standby.has_said("became leader"), "the Lease of the other had not run out");
    standby.says("became leader");
    all_are_there(&space);
    one_took_over(&plane);
}

/// Contract: CM-04, CM-05
pub(crate) fn a_leader_is_frozen_past_its_lease(world: &World) {
    let plane = world.plane("frozen");
    let (mut leader, mut standby) = two(&plane);
    let space = Space::new(&plane, "frozen");
    scale_up_until_struck(&space, || leader.signal("-STOP"));
    standby.says("became leader");
    // It wakes up while the other is at work.
    eventually("pods of the other", || {
        let made = |user: &str| pods_made(&plane).iter().filter(|asked| asked.user == user).count();
        let found = made(MANAGERS[1]);
        if found > 0 { Ok(()) } else { Err(format!("{found}, and {} of the first", made(MANAGERS[0]))) }
    });
    leader.signal("-CONT");
    assert_eq!(leader.ends().code(), Some(1), "who has lost the Lease ends with an error");
    assert!(leader.has_said("the lease kube-system/muster-controller-manager is lost"));
    all_are_there(&space);
    one_took_over(&plane);
}

/// One that leads and one that stands by with warm caches.
fn two(plane: &ControlPlane) -> (Manager, Manager) {
    let flags = [ROOMY, PACE].concat();
    let start = |name| Manager::start(name, &plane.kubeconfig(name), plane.folder(), &flags);
    let mut leader = start(MANAGERS[0]);
    leader.says("starting workers");
    let mut standby = start(MANAGERS[1]);
    standby.says("new leader");
    standby.says("caches synced");
    (leader, standby)
}

fn scale_up_until_struck(space: &Space<'_>, strike: impl FnOnce()) {
    space.create(&replicaset("web", ASKED_FOR));
    eventually("the first pods", || {
        let there = space.try_list(Kind::Pod, "web")?.len();
        if there >= STRUCK_AFTER { Ok(()) } else { Err(format!("{there} pods")) }
    });
    strike();
    let there = space.pods("web").len();
    assert!(there < ASKED_FOR as usize, "all {there} were there before the leader was struck");
}

fn all_are_there(space: &Space<'_>) {
    space.has(Kind::ReplicaSet, "web", u64::from(ASKED_FOR));
    assert_eq!(space.pods("web").len(), ASKED_FOR as usize);
}

/// Every pod that the first made was asked for before the first of the second; none was deleted; the Lease changed
/// hands once.
fn one_took_over(plane: &ControlPlane) {
    let asked = plane.asked();
    let deleted: Vec<&Asked> = asked.iter().filter(|asked| asked.verb == "delete").collect();
    assert!(deleted.is_empty(), "a pod was one too many: {deleted:#?}");
    let by: Vec<String> = pods_made(plane).into_iter().map(|asked| asked.user).collect();
    let turns = by.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert_eq!((by.first().map(String::as_str), turns), (Some(MANAGERS[0]), 1), "both wrote by turns");
    let lease = plane.api.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/muster-controller-manager");
    let lease: Value = lease.expect("the Lease");
    assert_eq!(lease["spec"]["leaseTransitions"], 1, "{lease}");
}

fn pods_made(plane: &ControlPlane) -> Vec<Asked> {
    plane.asked().into_iter().filter(|asked| asked.verb == "create" && asked.resource == "pods").collect()
}
