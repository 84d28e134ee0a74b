//! What can go wrong in starting a cluster, and in waiting for it.

use std::io;
use std::time::Duration;

use muster_runtime::client::ClientError;
use muster_runtime::manager::UnknownController;

/// Why a cluster did not start, or not come to what was waited for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A controller was named that does not exist.
    #[error("the controllers of the cluster: {0}")]
    Controllers(#[from] UnknownController),
    /// What was given as an object cannot be written as JSON.
    #[error("an object cannot be written as JSON: {0}")]
    NoObject(#[source] serde_json::Error),
    /// An object is of a kind that the server does not have.
    #[error("{object}: the server has no such kind; a custom one is defined by `crd` or by its definition")]
    NoKind {
        /// Its apiVersion, kind and name.
        object: String,
    },
    /// The server did not take an object.
    #[error("{object}: {message}")]
    Refused {
        /// Its apiVersion, kind and name.
        object: String,
        /// What the server has against it.
        message: String,
    },
    /// The machine has no randomness to draw uids from.
    #[error("this machine gives no randomness: {0}")]
    NoRandomness(#[source] io::Error),
    /// The cluster's certificate authority could not be made.
    #[error("the certificate authority: {0}")]
    NoAuthority(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The controllers could not read what kinds there are.
    #[error("the controllers cannot be started: {0}")]
    Start(#[from] ClientError),
    /// A request of the test's own was refused.
    #[error(transparent)]
    Kube(#[from] kube::Error),
    /// What was waited for did not come.
    #[error("{what}: not as expected after {patience:?}; last seen: {last}")]
    Never {
        /// The object.
        what: String,
        /// How long it was waited for, by tokio's clock.
        patience: Duration,
        /// The object as it was at the end, as JSON.
        last: String,
    },
    /// Something goes on and on.
    #[error("the cluster is still busy after {patience:?}")]
    Busy {
        /// How long it was waited for, by tokio's clock.
        patience: Duration,
    },
    /// The server cannot listen.
    #[error("the server cannot listen: {0}")]
    Listen(#[source] io::Error),
    /// The server's certificate could not be made.
    #[error(transparent)]
    Tls(#[from] muster_apiserver::tls::TlsError),
}
