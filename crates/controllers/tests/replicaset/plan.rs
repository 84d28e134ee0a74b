//! Plans as an executor sees them: paths, failures, and what is counted.

use muster_controllers::plan::{Failure, Outcome, PatchType, Requeue, Resource, Settled, Settlement, Verdict};

use crate::world::failure;

/// Contract: RS-17
#[test]
fn resources_know_their_paths() {
    let path = |resource: Resource| resource.path("default", "x");
    assert_eq!(path(Resource::PODS), "/api/v1/namespaces/default/pods/x");
    assert_eq!(path(Resource::REPLICA_SETS), "/apis/apps/v1/namespaces/default/replicasets/x");
    assert_eq!(path(Resource::REPLICATION_CONTROLLERS), "/api/v1/namespaces/default/replicationcontrollers/x");
    assert_eq!(path(Resource::DEPLOYMENTS), "/apis/apps/v1/namespaces/default/deployments/x");
    assert_eq!(Resource::PODS.collection_path("a"), "/api/v1/namespaces/a/pods");
    assert_eq!((Resource::PODS.api_version(), Resource::DEPLOYMENTS.api_version()), ("v1", "apps/v1"));
    assert_eq!(PatchType::Merge.content_type(), "application/merge-patch+json");
}

/// By the reason if there is one, else by the code.
///
/// Contract: RS-08, RS-13
#[test]
fn failures_are_known_by_reason() {
    assert!(failure(404, "NotFound", "x").is_not_found());
    assert!(failure(404, "", "x").is_not_found());
    assert!(!failure(404, "SomethingElse", "x").is_not_found());
    assert!(failure(409, "Conflict", "x").is_conflict());
    assert!(!failure(409, "AlreadyExists", "x").is_conflict(), "the same code, another refusal");
    assert!(failure(409, "AlreadyExists", "x").is_already_exists());
    assert!(!failure(409, "", "x").is_already_exists(), "the code is a conflict's as well");
    assert!(failure(422, "Invalid", "x").is_invalid());
    assert!(!Failure::local("x").is_not_found());
    assert!(Failure::unanswered("x").is_uncertain() && failure(504, "Timeout", "x").is_uncertain());
    assert!(!Failure::local("x").is_uncertain(), "nothing was asked of the server");
    assert!(!failure(500, "InternalError", "x").is_uncertain());
}

/// The first failure is the one reported, and a write without a version is not accounted for.
///
/// Contract: RS-13, B-01
#[test]
fn an_outcome_is_the_sum_of_its_results() {
    let settled = |settlement: Settlement, wrote: Option<u64>| Settled {
        settlement,
        announcement: None,
        lowers: false,
        wrote: wrote.map(muster_objects::ResourceVersion),
        ends_round: false,
    };
    let mut outcome = Outcome::default();
    outcome.add(&settled(Settlement::Deleted, Some(1)));
    assert!(outcome.is_accounted_for());
    outcome.add(&settled(Settlement::Failed(failure(500, "InternalError", "first")), None));
    outcome.add(&settled(Settlement::Failed(failure(500, "InternalError", "second")), None));
    outcome.add(&settled(Settlement::AlreadyGone, None));
    assert!(outcome.is_accounted_for());
    outcome.add(&settled(Settlement::Deleted, None));
    assert!(!outcome.is_accounted_for());
    assert_eq!((outcome.deleted, outcome.failed, outcome.already_gone), (2, 2, 1));
    assert_eq!(outcome.error.as_ref().map(|error| error.message.as_str()), Some("first"));
    let verdict = Verdict::failed(failure(403, "Forbidden", "first"));
    assert_eq!(verdict.requeue, Requeue::RateLimited { at_most: None });
}
