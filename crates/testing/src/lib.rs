//! A Kubernetes cluster for a test: in the test's own process, in a few milliseconds, with no socket and nothing to install.
//!
//! ```
//! use k8s_openapi::api::apps::v1::Deployment;
//! use kube::Api;
//! use muster_testing::{Cluster, Error};
//! # use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Error> {
//! let cluster = Cluster::start().await?;
//! let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
//! # let web = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {"replicas": 3,
//! #     "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
//! #     "spec": {"containers": [{"name": "web", "image": "nginx"}]}}}})).unwrap();
//! deployments.create(&Default::default(), &web).await?;
//! let available = |web: &Deployment| web.status.as_ref().and_then(|status| status.available_replicas);
//! cluster.until(&deployments, "web", |web| web.and_then(available) == Some(3)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! It is a real API server ([`muster_apiserver`]) with every built-in kind, custom resources, validation, server-side apply,
//! watches, RBAC, webhooks and policies; with the controllers that a cluster has (garbage collection, namespaces,
//! Deployments, ReplicaSets, endpoints and more: [`known_controllers`]), and with simulated nodes on which pods turn ready.
//! What is left out is left out by [`Builder::controllers`] and [`Builder::nodes`].
//!
//! # A test with a cluster of its own
//!
//! [`test`] makes a test of an async function. Its arguments are a `&`[`Cluster`], a [`kube::Client`], and a [`kube::Api`] of any
//! kind, whose objects are in the namespace `default` or in none; as many of them as it takes:
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::Api;
//!
//! #[muster_testing::test]
//! async fn there_is_the_certificate_authority(maps: Api<ConfigMap>) -> Result<(), kube::Error> {
//!     maps.get("kube-root-ca.crt").await.map(drop)
//! }
//!
//! #[muster_testing::test(nodes = 3, controllers = "deployment,replicaset,garbagecollector", seeds = 100)]
//! async fn scales(client: kube::Client, cluster: &muster_testing::Cluster) {
//!     // ...
//! }
//! ```
//!
//! | Argument of the attribute | What it says | Without it |
//! |---|---|---|
//! | `nodes`, `controllers`, `pod_startup`, `pod_shutdown`, `authorization` | as the methods of [`Builder`] of these names | as there |
//! | `crds = [Shop]` | custom resources, as [`Builder::crd`] | none |
//! | `seed = 7` | what uids, generated names and delays are drawn from | 0 |
//! | `seeds = 100` | runs the test for so many seeds, from `seed` on | 1 |
//! | `paused = false` | lets time pass as on the wall | `true` |
//! | `timeout = 60` | after how many seconds, by tokio's clock, the test has failed | 3600 |
//!
//! A controller under test is run by [`Cluster::run`], beside those of the cluster, and [`Cluster::settled`] waits until neither it
//! nor they have anything left to do. Whatever else a test needs it says by a cluster that it starts on its own, with [`Cluster::builder`].
//!
//! # Time
//!
//! With the attribute time is tokio's paused time: it stands still while anything is being done, and leaps to the next
//! timer where nothing is. An hour's wait takes none, and no test is slower on a slow machine. The server's clock moves with
//! it and begins on 2026-01-01. What reads the machine's clock (`SystemTime::now`, `jiff::Timestamp::now`) sees another date:
//! give such a test `paused = false`, or its cluster a [`Builder::begin`]. So does a test that waits for a socket or for another
//! thread, while which paused time would leap ahead.
//!
//! # Seeds
//!
//! The same seed gives the same uids, names and delays, and with tokio's paused time the cluster does the same things in the
//! same order. A test that fails says with which seed, and how to repeat it: `MUSTER_SEED=37 cargo test NAME`. `MUSTER_SEEDS=1000`
//! runs every test for so many. What the code under test draws by itself, such as the order of a `HashMap` or of the branches of
//! `tokio::select!`, does not follow the seed.
//!
//! # Features
//!
//! `faults`, which is not on by default, brings `Builder::faults`: requests delayed, lost, refused, or acted on without an answer;
//! watches cut, late or silent. Beside a project that has kube with its defaults there are 46 more crates to build without it, and
//! 47 with it.
//!
//! As every library this one leaves the choice of Kubernetes' version to you: `k8s-openapi` with a feature
//! such as `v1_36` belongs among your dependencies.

mod builder;
mod cluster;
mod connection;
mod error;
mod objects;
#[doc(hidden)]
pub mod run;
mod socket;

pub use builder::{Builder, EPOCH};
pub use cluster::{Cluster, FromCluster};
pub use error::Error;
pub use muster_apiserver::access::authorizer::Mode as Authorization;
pub use muster_cluster::DelayRange;
pub use muster_cluster::embedded::known_controllers;
#[cfg(feature = "faults")]
pub use muster_simulation::faults::{Fault, Faults, Refusal, Rule, Verb};
pub use muster_testing_macros::test;
pub use socket::Endpoint;

/// Who the clients of a cluster are to its faults ([`Rule::of`]).
#[cfg(feature = "faults")]
pub const CLIENT: &str = "client";
