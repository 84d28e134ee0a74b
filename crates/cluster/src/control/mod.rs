//! The frame of the controllers that look at caches and write objects: how they are told, queued and run.
//!
//! ```text
//!   informer --change--> keys --> queue --> Control::sync: caches, a decision, its writes
//!       ^                                                                        |
//!       +--------------- a sync ends when the caches show what it wrote <--------+
//! ```
//!
//! Every controller here is one [`Control`]. Its decision is an ordinary function of what the caches hold and of the
//! time; `sync` takes the snapshot and sends the writes. A key is never in two syncs at once.

mod slim;
mod write;

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use muster_controllers::plan::{Failure, Requeue, Verdict};
use muster_machinery::{Cached, Change};
use muster_objects::ObjectKey;
use muster_runtime::client::{ApiError, Client, ClientError};
use muster_runtime::events::EventSink;
use muster_runtime::informer::{Informers, Store, WatchedResource};
use muster_runtime::metrics::Metrics;
use muster_runtime::shutdown::Shutdown;
use muster_runtime::workers::{Controller, Queue, Synced};
use muster_runtime::writer::failure;
use tokio::sync::watch;

pub(crate) use self::slim::{Body, ByNamespace, Slim};
pub(crate) use self::write::Writes;
use crate::certificates::Authority;
use crate::cluster::Loops;
use crate::everything::Everything;
use crate::feed::Batch;
use crate::kinds::{Kind, Kinds};
use crate::metadata::PartialObject;
use crate::tokens::Tokens;

/// What a controller does with a key.
pub(crate) trait Control: Send + Sync + 'static {
    /// Brings one key up to date. Never called for a key that is being synced.
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Again, Trouble>>;
}

/// When a key is looked at again though nothing happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// Not at all.
    Never,
    /// After this long.
    After(Duration),
}

/// Why a sync did not come to its end. It is tried again, each time after a longer pause.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// A request failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The objects do not allow what is asked for.
    #[error("{0}")]
    Objects(String),
    /// There is nothing wrong that would be worth a word: another look is due.
    #[error("not yet")]
    NotYet,
}

/// What controllers are set up with.
pub(crate) struct Frame<'a> {
    pub(crate) client: &'a Client,
    pub(crate) kinds: &'a watch::Receiver<Arc<Kinds>>,
    pub(crate) events: &'a EventSink,
    /// Who signs certificates, where there is anybody.
    pub(crate) authority: Option<Arc<dyn Authority>>,
    /// Who makes tokens, where there is anybody.
    pub(crate) tokens: Option<Arc<dyn Tokens>>,
    /// The certificate authority in PEM, where there is one.
    pub(crate) ca: Option<String>,
    pub(crate) everything: &'a mut Everything,
    pub(crate) informers: &'a mut Informers,
    pub(crate) metrics: &'a Metrics,
    pub(crate) shutdown: &'a Shutdown,
    pub(crate) loops: &'a mut Loops,
}

impl Frame<'_> {
    /// Whether the server has a kind.
    pub(crate) fn serves(&self, resource: &WatchedResource) -> bool {
        self.kinds.borrow().serves(resource)
    }

    /// Begins to set up a controller whose queue has that name.
    pub(crate) fn controller<'f>(&'f mut self, name: &'static str) -> Setup<'f> {
        Setup {
            queue: Queue::new(name, self.client.clock(), self.metrics),
            everything: self.everything,
            informers: self.informers,
            loops: self.loops,
            shutdown: self.shutdown.clone(),
            synced: Vec::new(),
        }
    }
}

/// A controller that is being set up.
pub(crate) struct Setup<'f> {
    /// Its queue.
    pub(crate) queue: Queue,
    everything: &'f mut Everything,
    informers: &'f mut Informers,
    loops: &'f mut Loops,
    shutdown: Shutdown,
    synced: Vec<BoxFuture<'static, ()>>,
}

impl Setup<'_> {
    /// The cache of a resource, of whose changes the controller need not be told. No sync begins before it was read.
    pub(crate) fn read<T: Cached>(&mut self, resource: &WatchedResource) -> Store<T> {
        let store = self.informers.of::<T>(resource).store();
        let read = store.clone();
        self.synced.push(Box::pin(async move { read.synced().await }));
        store
    }

    /// The cache of a resource; `tell` is told of each change, and queues what it concerns.
    pub(crate) fn watch<T: Cached>(
        &mut self,
        resource: &WatchedResource,
        mut tell: impl FnMut(&Change<T>, &Queue) + Send + 'static,
    ) -> Store<T> {
        let queue = self.queue.clone();
        self.informers.of::<T>(resource).add_handler(move |change: &Change<T>| tell(change, &queue));
        self.read(resource)
    }

    /// The cache of a resource whose own keys are the controller's.
    pub(crate) fn watch_own<T: Cached>(&mut self, resource: &WatchedResource) -> Store<T> {
        self.watch(resource, |change: &Change<T>, queue| queue.add([change.object().meta().key()]))
    }

    /// Has `tell` told of the metadata of objects of every kind but pods and events.
    pub(crate) fn everything(&mut self, tell: impl Fn(&Kind, &Batch<PartialObject>) + Send + Sync + 'static) {
        self.everything.to(tell);
    }

    /// Has the controller run, with so many syncs at once.
    pub(crate) fn run(self, workers: usize, control: impl Control) {
        let Self { queue, loops, shutdown, synced, .. } = self;
        loops.push(Box::pin(async move {
            join_all(synced).await;
            queue.work(Worker(Arc::new(control)), workers, shutdown).await;
        }));
    }
}

/// A [`Control`] as the workers of a queue know it.
struct Worker<C>(Arc<C>);

impl<C> Clone for Worker<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Control> Controller for Worker<C> {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Synced> {
        Box::pin(async move { Synced::Done(verdict(self.0.sync(key).await)) })
    }
}

fn verdict(synced: Result<Again, Trouble>) -> Verdict {
    match synced {
        Ok(Again::Never) => Verdict::done(Requeue::None),
        Ok(Again::After(delay)) => Verdict::done(Requeue::After(delay)),
        // Nothing can be made in it, and nothing needs to be.
        Err(Trouble::Client(error)) if error.api().is_some_and(ApiError::is_namespace_terminating) => {
            Verdict::done(Requeue::None)
        }
        // Others write as well: decide anew on what they left.
        Err(Trouble::Client(error)) if error.is_conflict() => Verdict::done(Requeue::AGAIN),
        Err(Trouble::Client(error)) => Verdict::failed(failure(&error)),
        Err(Trouble::Objects(message)) => Verdict::failed(Failure::local(message)),
        Err(Trouble::NotYet) => Verdict::done(Requeue::AGAIN),
    }
}
