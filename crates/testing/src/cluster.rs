//! A running cluster: its clients, waiting for it, and its end.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Client, Resource};
use muster_apiserver::ApiServer;
use muster_apiserver::access::{User, service_account};
use muster_apiserver::certificates::Authority;
use muster_cluster::embedded::Embedded;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::builder::Builder;
use crate::connection::Connection;
use crate::error::Error;

/// How often what is waited for is looked at, by tokio's clock.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// For how long nodes are left alone in a cluster at rest: they tell that they live every five minutes.
const NODES_QUIET: Duration = Duration::from_secs(60);

/// A cluster in this process. Dropping it ends everything: its loops, its watches, and what its clients can ask.
pub struct Cluster {
    pub(crate) server: ApiServer,
    pub(crate) embedded: Embedded,
    pub(crate) connection: Connection,
    pub(crate) client: Client,
    /// Who signs certificates in it.
    pub(crate) authority: Arc<Authority>,
    /// After how long without a write it is at rest.
    pub(crate) quiet: Duration,
    pub(crate) patience: Duration,
    /// What [`Cluster::run`] was given.
    pub(crate) tasks: Mutex<JoinSet<()>>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Starts a cluster as [`Builder::default`] has it.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub async fn start() -> Result<Self, Error> {
        Builder::default().start().await
    }

    /// A cluster of which more is to be said before its start.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A client that may do anything. Its namespace is `default`.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client of a user, who is in these groups and in `system:authenticated` and may do what roles say.
    /// `system:serviceaccount:NAMESPACE:NAME` is a service account, and in the groups of one.
    #[must_use]
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        self.connection.of(self.server.service_as(self::user(user, groups))).client()
    }

    /// The same as [`Cluster::client`], that no fault strikes: for the test to look at what came of them.
    #[cfg(feature = "faults")]
    #[must_use]
    pub fn observer(&self) -> Client {
        self.connection.with_faults(None).client()
    }

    /// The server, for what no client can do: to forget or restore its history ([`ApiServer::registry`]).
    #[must_use]
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Changes how many simulated nodes there are: those that go are dead, and their pods with them. Has no effect in a
    /// cluster that was started without nodes.
    pub fn set_nodes(&self, nodes: u32) {
        self.embedded.cluster().set_nodes(nodes);
    }

    /// Runs a controller for as long as the cluster is there: what [`kube::runtime::Controller::run`] returns, or any other
    /// stream whose items need no care.
    ///
    /// [`kube::runtime::Controller::run`]: https://docs.rs/kube/5/kube/runtime/struct.Controller.html#method.run
    pub fn run(&self, controller: impl Stream + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.spawn(controller.for_each(|_| std::future::ready(())));
    }

    /// Waits until an object is as it should be, and returns it; `None` where that is to be gone.
    ///
    /// # Errors
    /// [`Error::Never`] with the object's last state, [`Error::Kube`] where it cannot be read.
    pub async fn until<K>(
        &self,
        api: &Api<K>,
        name: &str,
        done: impl Fn(Option<&K>) -> bool,
    ) -> Result<Option<K>, Error>
    where
        K: Clone + DeserializeOwned + Serialize + fmt::Debug,
    {
        let deadline = Instant::now() + self.patience;
        let mut seen = None;
        loop {
            let version = self.server.registry().storage.version();
            // What nobody wrote is as it was.
            if seen != Some(version) {
                seen = Some(version);
                let object = api.get_opt(name).await?;
                if done(object.as_ref()) {
                    return Ok(object);
                }
            }
            if Instant::now() >= deadline {
                let last = serde_json::to_string(&api.get_opt(name).await?).map_err(Error::NoObject)?;
                let kind = std::any::type_name::<K>().rsplit("::").next().unwrap_or_default();
                let what = format!("{kind} {name}");
                return Err(Error::Never { what, patience: self.patience, last });
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until the cluster has come to rest: nothing but Leases, Events and the heartbeats of nodes has been written
    /// for as long as a pod takes to start or to stop, and a second. It is made for paused time, in which that takes none.
    ///
    /// # Errors
    /// [`Error::Busy`] where something is written still when the patience is over.
    pub async fn settled(&self) -> Result<(), Error> {
        let quiet = [self.quiet, self.quiet.min(NODES_QUIET)];
        let begun = Instant::now();
        let latest = begun + self.patience + quiet[0] + quiet[1];
        let mut seen = self.writes().map(|writes| (writes, begun));
        while seen.iter().zip(quiet).any(|((_, since), quiet)| since.elapsed() < quiet) {
            if Instant::now() >= latest {
                return Err(Error::Busy { patience: self.patience });
            }
            sleep(LOOK_EVERY.max(self.quiet / 200)).await;
            for (seen, writes) in seen.iter_mut().zip(self.writes()) {
                if seen.0 != writes {
                    *seen = (writes, Instant::now());
                }
            }
        }
        Ok(())
    }

    /// How often anything but Nodes, Leases and Events was written, and how often Nodes.
    fn writes(&self) -> [u64; 2] {
        let registry = self.server.registry();
        let mut writes = [0; 2];
        for served in registry.catalogue().served() {
            let count = match &*served.resource().plural {
                "leases" | "events" => continue,
                "nodes" => &mut writes[1],
                _ => &mut writes[0],
            };
            *count += registry.storage.changes(served.id).load(std::sync::atomic::Ordering::Acquire);
        }
        writes
    }

    /// The Events about an object, oldest first.
    ///
    /// # Errors
    /// [`Error::Kube`].
    pub async fn events_of<K: Resource>(&self, object: &K) -> Result<Vec<Event>, Error> {
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        let about = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
        let mut events = Api::<Event>::all(self.client()).list(&about).await?.items;
        events.sort_by_key(|event| event.metadata.creation_timestamp.clone());
        Ok(events)
    }
}

fn user(name: &str, groups: &[&str]) -> User {
    let mut user = match service_account(name) {
        Some((namespace, name)) => User::service_account(namespace, name),
        None => User { name: name.to_owned(), ..User::default() },
    };
    user.groups.extend(groups.iter().map(|group| (*group).to_owned()));
    user
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.connection.close();
        self.server.stop();
    }
}

/// What a test can be handed: the type of an argument of a function with [`macro@crate::test`].
pub trait FromCluster<'c> {
    /// Takes it from the test's cluster.
    fn from_cluster(cluster: &'c Cluster) -> Self;
}

impl FromCluster<'_> for Client {
    fn from_cluster(cluster: &Cluster) -> Self {
        cluster.client()
    }
}

impl<'c> FromCluster<'c> for &'c Cluster {
    fn from_cluster(cluster: &'c Cluster) -> Self {
        cluster
    }
}

/// Of objects in the namespace `default`, or of those in none.
impl<K: Resource<DynamicType = (), Scope: Scope<K>>> FromCluster<'_> for Api<K> {
    fn from_cluster(cluster: &Cluster) -> Self {
        K::Scope::api(cluster.client())
    }
}

/// Where objects of a kind are.
pub trait Scope<K> {
    /// A client of theirs.
    fn api(client: Client) -> Api<K>;
}

impl<K: Resource<DynamicType = (), Scope = Self>> Scope<K> for NamespaceResourceScope {
    fn api(client: Client) -> Api<K> {
        Api::default_namespaced(client)
    }
}

impl<K: Resource<DynamicType = (), Scope = Self>> Scope<K> for ClusterResourceScope {
    fn api(client: Client) -> Api<K> {
        Api::all(client)
    }
}
