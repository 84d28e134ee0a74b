//! What the page asks of others: a manager to be looked into, and an embedded cluster to play with.

use std::time::Duration;

use futures::future::BoxFuture;
use muster_inspect::explain::Explanation;
use muster_inspect::history::History;
use muster_inspect::inside::Inside;
use muster_objects::meta::ObjectKey;
use muster_runtime::explain::Kind;

/// Why a manager tells nothing, in words for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unseen(pub String);

/// A manager of ours, in this process or elsewhere.
pub trait Insight: Send + Sync {
    /// What it is doing now.
    fn inside(&self) -> BoxFuture<'_, Result<Inside, Unseen>>;

    /// What it sees of an object and would do.
    fn explain<'a>(&'a self, kind: Kind, key: &'a ObjectKey) -> BoxFuture<'a, Result<Explanation, Unseen>>;

    /// What it did for an object.
    fn history<'a>(&'a self, kind: Kind, key: &'a ObjectKey) -> BoxFuture<'a, Result<History, Unseen>>;
}

/// An embedded cluster: what can be done to it beyond its API.
pub trait Stage: Send + Sync {
    /// The managers' watches of a resource, such as `pods`, tell nothing for this long.
    ///
    /// # Errors
    /// In words, where that cannot be done.
    fn hold(&self, resource: &str, time: Duration) -> Result<String, String>;

    /// The managers' open watches of a resource end, or of all.
    ///
    /// # Errors
    /// In words, where that cannot be done.
    fn cut(&self, resource: Option<&str>) -> Result<String, String>;

    /// The manager that leads ends without giving up its Lease.
    ///
    /// # Errors
    /// In words, where there is but one manager.
    fn kill_leader(&self) -> Result<String, String>;

    /// The managers by their names, and which of them leads.
    fn managers(&self) -> Vec<(String, bool)>;
}
