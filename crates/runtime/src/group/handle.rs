//! What a process knows of the member that runs in it: who works for a namespace, which of its shards are open, and whether a
//! write may be sent.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use muster_machinery::{
    election::Term,
    group::{Group, Holder, Shard},
};
use muster_objects::{HashRange, Pod};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};
use tokio::sync::watch;

use crate::{
    client::Fence, clock::Clock, election::Leadership, explain::Explainer, informer::Store, metrics::Metrics,
    shutdown::Trigger,
};

/// What others in the process ask of a member, while it runs and after. Cloning shares it.
#[derive(Clone)]
pub struct MemberHandle {
    inner: Arc<Inner>,
}

struct Inner {
    group: Mutex<Group>,
    /// Of the shards that are open.
    open: Mutex<BTreeMap<u32, Open>>,
    clock: Clock,
    counts: Counts,
}

/// A shard that is open.
pub(super) struct Open {
    pub(super) range: HashRange,
    pub(super) explainer: Explainer,
    /// How many of its controllers still wait for their caches.
    pub(super) unsynced: watch::Receiver<usize>,
    pub(super) pods: Option<Store<Pod>>,
    pub(super) stop: Trigger,
}

/// Who works for a namespace.
#[derive(Clone, Debug)]
pub enum Found {
    /// This member: the handle to its controllers, and the shard.
    Mine(Explainer, Shard),
    /// Another member, by its identity.
    Other(String),
    /// Nobody at the moment.
    Nobody,
}

/// The number of a shard, as a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Number {
    shard: u32,
}

#[derive(Default)]
struct Counts {
    shards: Gauge,
    /// One for each shard that this member works for.
    held: Family<Number, Gauge>,
    members: Gauge,
    takeovers: Counter,
    /// How many take-overs are counted already.
    counted: AtomicI64,
}

impl MemberHandle {
    pub(super) fn new(group: Group, clock: Clock, metrics: &Metrics) -> Self {
        let counts = Counts::default();
        counts.register(metrics);
        let inner = Inner { group: Mutex::new(group), open: Mutex::default(), clock, counts };
        Self { inner: Arc::new(inner) }
    }

    pub(super) fn clock(&self) -> Clock {
        self.inner.clock
    }

    /// A shard is open from here on.
    pub(super) fn opened(&self, shard: u32, open: Open) {
        self.open().insert(shard, open);
        self.inner.counts.held.get_or_create(&Number { shard }).set(1);
    }

    /// Has what works for a shard end.
    pub(super) fn close(&self, shard: u32) {
        self.inner.counts.held.remove(&Number { shard });
        if let Some(open) = self.open().get(&shard) {
            open.stop.stop();
        }
    }

    /// What worked for a shard has ended. Says which namespaces this process works for no more: after a cut another of its shards
    /// may have some of them.
    pub(super) fn closed(&self, shard: u32) -> impl Fn(&str) -> bool + use<> {
        let mut open = self.open();
        let closed = open.remove(&shard).map(|closed| closed.range);
        let others: Vec<HashRange> = open.values().map(|open| open.range).collect();
        move |namespace: &str| {
            let has = |range: &HashRange| range.has_namespace(namespace);
            closed.as_ref().is_some_and(has) && !others.iter().any(has)
        }
    }

    /// Who works for a namespace, as far as this member knows.
    #[must_use]
    pub fn find(&self, namespace: &str) -> Found {
        let holder = self.group().holder_of(namespace);
        match holder {
            Holder::Mine(number) => {
                let (group, member) = {
                    let held = self.group();
                    let config = held.config();
                    (config.group.clone(), Some(config.election.identity.clone()))
                };
                let mine = |open: &Open| Found::Mine(open.explainer.clone(), Shard { group, number, member });
                self.open().get(&number).map_or(Found::Nobody, mine)
            }
            Holder::Other(identity) => Found::Other(identity),
            Holder::Nobody => Found::Nobody,
        }
    }

    /// The shards that this member works for, in their order.
    #[must_use]
    pub fn shards(&self) -> Vec<u32> {
        self.group().shards().collect()
    }

    /// The handles to the controllers of all shards that this member works for, in the order of the shards.
    #[must_use]
    pub fn explainers(&self) -> Vec<Explainer> {
        self.open().values().map(|open| open.explainer.clone()).collect()
    }

    /// How many controllers of all its shards still wait for their caches, and one before it has seen the group's Leases, since
    /// it may never see them; `None` where one has ended that nobody stopped.
    #[must_use]
    pub fn unsynced(&self) -> Option<usize> {
        let one = |open: &Open| open.unsynced.has_changed().is_ok().then(|| *open.unsynced.borrow());
        let waits = usize::from(self.group().looked().is_none());
        let open = self.open();
        let of_shards = open.values().map(|open| one(open).or(open.stop.subscribe().is_stopped().then_some(0)));
        of_shards.chain([Some(waits)]).sum()
    }

    /// Whether a write may be sent by this member at all: by its own term and the group's.
    pub(super) fn fence(&self, leadership: Leadership) -> Fence {
        let allows = self.allows(Group::term);
        Arc::new(move || leadership.may_write() && allows())
    }

    /// Whether a write of this shard may be sent, as far as the shard is concerned.
    pub(super) fn fence_of(&self, shard: u32) -> Fence {
        self.allows(move |group| group.permit(shard))
    }

    /// Whether this term of the group is not over. What is open writes through fences, so a fence must not keep the handle: then a
    /// member that was killed would be kept for ever by its open shards.
    fn allows(&self, term: impl Fn(&Group) -> Option<Term> + Send + Sync + 'static) -> Fence {
        let inner = Arc::downgrade(&self.inner);
        Arc::new(move || {
            inner.upgrade().is_some_and(|inner| {
                let handle = Self { inner };
                let clock = handle.inner.clock;
                let term = term(&handle.group());
                term.is_some_and(|term| term.allows(clock.moment(), clock.now()))
            })
        })
    }

    /// Has the metrics show what is.
    pub(super) fn count(&self) {
        let Inner { counts, clock, .. } = &*self.inner;
        let group = self.group();
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        counts.shards.set(number(group.shards().count()));
        counts.members.set(number(group.members(clock.moment())));
        let takeovers = i64::try_from(group.takeovers()).unwrap_or(i64::MAX);
        let before = counts.counted.swap(takeovers, Ordering::Relaxed);
        counts.takeovers.inc_by(u64::try_from(takeovers - before).unwrap_or_default());
    }

    pub(super) fn group(&self) -> MutexGuard<'_, Group> {
        self.inner.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn open(&self) -> MutexGuard<'_, BTreeMap<u32, Open>> {
        self.inner.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn register(&self, metrics: &Metrics) {
        metrics.register(|registry| {
            registry.register("muster_group_shards", "Shards that this member works for", self.shards.clone());
            let held = "1 for each shard that this member works for, by its number in the cut in force";
            registry.register("muster_group_shard_held", held, self.held.clone());
            let members = "Members of the group, as far as this one knows";
            registry.register("muster_group_members", members, self.members.clone());
            let takeovers = "Shards that this member took from members that had gone silent";
            registry.register("muster_group_takeovers", takeovers, self.takeovers.clone());
        });
    }
}
