//! What explanations say: of ReplicaSets and of Deployments.

#[path = "../../../controllers/tests/deployment/fixtures.rs"]
#[allow(dead_code, reason = "the controllers' tests use the rest")]
mod deployments;
#[path = "../../../controllers/tests/replicaset/fixtures.rs"]
#[allow(dead_code, reason = "the controllers' tests use the rest")]
mod replica_sets;

mod replicas;
mod rollouts;
