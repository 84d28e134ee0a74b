//! Real API servers: etcd and kube-apiserver on loopback, simulated nodes, and `muster controller-manager` as a process
//! that speaks TLS and protobuf with them.
//!
//! Runs where `KUBEBUILDER_ASSETS` names a folder with `etcd` and `kube-apiserver`, as the tests of other controllers do;
//! where it is not set, each test is counted as ignored, by name.
//!
//! ```text
//!   harness -> World -> Shared (one control plane, nodes, one manager; each test has a namespace of its own)
//!                    -> ControlPlane of a test that kills or stops something
//! ```

mod adoption;
mod api;
mod assets;
mod audit;
mod certificates;
mod control_plane;
mod creation;
mod failover;
mod harness;
mod manager;
mod nodes;
mod permissions;
mod process;
mod replication_controllers;
mod restarts;
mod rollouts;
mod scaling;
mod shadow;
mod wait;
mod workloads;
mod world;

use std::process::ExitCode;

use harness::{Test, tests};

/// The longest first: they are on the way while others finish.
const TESTS: &[Test] = tests![
    restarts::an_api_server_that_was_away_costs_no_pod,
    restarts::what_changed_unseen_is_made_good,
    failover::a_leader_is_killed_in_a_scale_up,
    failover::a_leader_is_frozen_past_its_lease,
    shadow::a_shadow_agrees_with_a_manager_and_writes_nothing,
    rollouts::a_deployment_rolls_and_rolls_back,
    rollouts::pausing_holds_a_template,
    rollouts::recreate_waits_for_the_last_old_pod,
    rollouts::a_broken_image_exceeds_its_deadline_within_the_bounds,
    scaling::a_thousand_pods_come_and_go,
    scaling::the_dear_ones_stay,
    creation::a_pod_is_as_the_template_says,
    creation::a_pod_that_is_deleted_is_replaced,
    creation::nothing_is_written_once_converged,
    creation::a_refused_creation_is_told_and_made_good,
    replication_controllers::a_replication_controller_keeps_its_pods,
    adoption::a_replicaset_adopts_and_releases,
    adoption::what_an_orphaning_delete_leaves_is_adopted,
    adoption::a_deployment_adopts_its_replicasets,
    permissions::everything_is_granted_and_no_secret_is_read,
];

fn main() -> ExitCode {
    harness::run(TESTS)
}
