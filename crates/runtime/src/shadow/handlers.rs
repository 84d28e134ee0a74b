//! Handlers: what each informer reports to the shadow, as messages in the order of its watch.

use std::marker::PhantomData;
use std::sync::Arc;

use muster_inspect::shadow::{Seen, Watched};
use muster_machinery::{Cached, Change, queue::Priority};
use muster_objects::meta::{ResourceVersion, Uid};
use muster_objects::{Deployment, Object, Pod, ReplicaSet, ReplicationController};
use tokio::sync::mpsc;

use super::metadata::Metadata;
use crate::client::Client;
use crate::informer::{Handler, Informers, Store, WatchedResource};

/// What a handler reports.
pub(super) enum Message {
    /// Something changed.
    Changed(Seen),
    /// Everything of a kind up to a version was told.
    Reached {
        /// The kind.
        kind: Kind,
        /// The version.
        version: ResourceVersion,
    },
    /// Who wrote the size of a ReplicaSet, as of this version.
    Written {
        /// The ReplicaSet.
        set: Uid,
        /// Its version.
        version: ResourceVersion,
        /// By the name in its `managedFields`.
        writer: String,
    },
    /// Whether a namespace is being deleted.
    Namespace {
        /// The namespace.
        name: Arc<str>,
        /// Whether it is.
        leaving: bool,
    },
    /// A kind was relisted: some of the changes in between were not seen.
    Relisted,
}

/// The kinds whose order is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Pods,
    ReplicaSets,
    ReplicationControllers,
    Deployments,
}

impl Kind {
    pub(super) const ALL: &[Self] = &[Self::Pods, Self::ReplicaSets, Self::ReplicationControllers, Self::Deployments];
}

/// A kind that is watched.
pub(super) trait InShadow: Cached {
    /// Which.
    const KIND_OF_SHADOW: Kind;

    /// A change of it.
    fn watched(change: Change<Self>) -> Watched;
}

impl InShadow for Pod {
    const KIND_OF_SHADOW: Kind = Kind::Pods;

    fn watched(change: Change<Self>) -> Watched {
        Watched::Pod(change)
    }
}

impl InShadow for ReplicaSet {
    const KIND_OF_SHADOW: Kind = Kind::ReplicaSets;

    fn watched(change: Change<Self>) -> Watched {
        Watched::ReplicaSet(change)
    }
}

impl InShadow for ReplicationController {
    const KIND_OF_SHADOW: Kind = Kind::ReplicationControllers;

    fn watched(change: Change<Self>) -> Watched {
        Watched::ReplicationController(change)
    }
}

impl InShadow for Deployment {
    const KIND_OF_SHADOW: Kind = Kind::Deployments;

    fn watched(change: Change<Self>) -> Watched {
        Watched::Deployment(change)
    }
}

/// The way from the informers to the merge.
#[derive(Clone)]
pub(super) struct ToMerge {
    client: Client,
    sender: mpsc::UnboundedSender<Message>,
}

impl ToMerge {
    pub(super) const fn new(client: Client, sender: mpsc::UnboundedSender<Message>) -> Self {
        Self { client, sender }
    }

    /// Listens to the informer of a kind.
    pub(super) fn follow<T: InShadow>(&self, informers: &mut Informers, resource: &WatchedResource) -> Store<T> {
        let informer = informers.of::<T>(resource);
        informer.add_handler(Follow { to: self.clone(), lost: Vec::new(), of: PhantomData });
        informer.store()
    }

    /// Listens for who writes the sizes of ReplicaSets.
    pub(super) fn follow_writers(&self, informers: &mut Informers) -> Store<Metadata> {
        let informer = informers.of::<Metadata>(&WatchedResource::replicasets().metadata());
        let to = self.clone();
        informer.add_handler(move |change: &Change<Metadata>| {
            let object = change.object();
            if let Some(writer) = object.writer_of_replicas.clone() {
                let (set, version) = (object.meta().uid.clone(), object.meta().resource_version);
                to.send(Message::Written { set, version, writer });
            }
        });
        informer.store()
    }

    /// Listens for namespaces that are being deleted.
    pub(super) fn follow_namespaces(&self, informers: &mut Informers) -> Store<Metadata> {
        let informer = informers.of::<Metadata>(&WatchedResource::new("", "v1", "namespaces").metadata());
        let to = self.clone();
        informer.add_handler(move |change: &Change<Metadata>| {
            let meta = change.object().meta();
            let is_there = !matches!(change, Change::Deleted { .. });
            to.send(Message::Namespace { name: meta.name.clone(), leaving: is_there && meta.is_being_deleted() });
        });
        informer.store()
    }

    fn send(&self, message: Message) {
        // The shadow has ended.
        let _ = self.sender.send(message);
    }
}

struct Follow<T> {
    to: ToMerge,
    /// Deletions that a relist found, until its version is known.
    lost: Vec<Change<T>>,
    of: PhantomData<T>,
}

impl<T: InShadow> Handler<T> for Follow<T> {
    fn changed(&mut self, changes: &[Change<T>], _priority: Priority) {
        let at = self.to.client.server_now();
        for change in changes {
            match change {
                Change::Deleted { tombstone: true, .. } => self.lost.push(change.clone()),
                // A resync.
                Change::Updated { old, new } if Arc::ptr_eq(old, new) => {}
                _ => {
                    let version = change.object().meta().resource_version;
                    self.to.send(Message::Changed(Seen { version, at, change: T::watched(change.clone()) }));
                }
            }
        }
    }

    fn reached(&mut self, version: ResourceVersion) {
        if !self.lost.is_empty() {
            let at = self.to.client.server_now();
            self.to.send(Message::Relisted);
            for change in self.lost.drain(..) {
                self.to.send(Message::Changed(Seen { version, at, change: T::watched(change) }));
            }
        }
        self.to.send(Message::Reached { kind: T::KIND_OF_SHADOW, version });
    }
}
