//! A member of a group of managers that share a cluster (SH-01 to SH-06).
//!
//! ```text
//!   Elector ──renews──> member Lease            Bell ──watches──> Leases of the group
//!      │ term                                     │ rings: look at once
//!      v                                          v
//!   fence ──> Client of all writes      Member ──lists──> Group (the rules) ──> writes of Leases
//!                │                                                │ open, close
//!                +──fenced again, counted──> one Manager for each shard that is held
//! ```
//!
//! The rules are [`muster_machinery::group`]; what is here sends what they ask for and keeps a [`Manager`] for each
//! shard that is open. All Managers of a process count and record in one place, send their Events through one queue,
//! and write over one connection, whose socket asks for the member's term and the group's.

mod bell;
mod flights;
mod leases;
mod weigh;
mod whose;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use muster_machinery::{
    election::{Answer, Request, Term},
    group::{Config, Group, GroupError, Holder, LEAVING, Shard, Step, Weights},
};
use muster_objects::{HashRange, Pod};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep_until},
};

pub use self::whose::{ELECTION_NAMESPACE, shard_of};
use self::{bell::Bell, flights::Flights, leases::Leases};
use crate::{
    client::{Client, Fence},
    clock::Clock,
    election::{Carrier, Elector, Leadership, Lost},
    events::{self, EventSender},
    explain::Explainer,
    history::Recording,
    informer::{Store, WatchedResource},
    manager::{Manager, Options},
    metrics::Metrics,
    process::{of_the_same, pass_on_panic, watch_over},
    shell::Context,
    shutdown::{self, Shutdown, Trigger},
};

/// The shortest time between two lists of the Leases.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// By how much of itself the time between two lists varies.
const JITTER: f64 = 0.1;
/// Longer than any process lives, for what must not be given up.
const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A member that is set up and not running yet.
pub struct Member {
    /// What the Managers of all shards share. Its writer is fenced by the member's term and the group's.
    context: Context,
    /// The same, to be fenced again for each shard.
    writer: Client,
    sender: EventSender,
    elector: Elector,
    carrier: Carrier,
    leases: Leases,
    options: Options,
    seat: Seat,
    random: SmallRng,
}

/// What others in the process ask of a member, while it runs and after. Cloning shares it.
#[derive(Clone)]
pub struct Seat {
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
struct Open {
    explainer: Explainer,
    /// How many of its controllers still wait for their caches.
    unsynced: watch::Receiver<usize>,
    pods: Option<Store<Pod>>,
    stop: Trigger,
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

impl Member {
    /// A member that reads and writes through `client`, and renews its Leases through `leases`, so that a burst of
    /// creates does not delay a renewal.
    ///
    /// # Errors
    /// [`GroupError`] where the settings cannot keep members apart.
    pub fn new(client: &Client, leases: Client, config: Config, options: Options) -> Result<Self, GroupError> {
        let mut random = SmallRng::seed_from_u64(options.seed);
        let group = Group::new(config)?;
        let (clock, carrier) = (client.clock(), Carrier::default());
        let elector = Elector::new(group.election(), leases.clone(), random.random())?.carrying(&carrier);
        let metrics = Metrics::new(clock);
        let counts = Counts::default();
        counts.register(&metrics);
        elector.register(&metrics);
        let leases = Leases::new(leases, group.config());
        let inner = Inner { group: Mutex::new(group), open: Mutex::default(), clock, counts };
        let seat = Seat { inner: Arc::new(inner) };
        let writer = client.fenced(seat.fence(elector.leadership()));
        let shared: Arc<dyn crate::writer::Writer> = Arc::new(writer.clone());
        let (events, sender) = events::channel(&shared, &metrics, clock);
        let recording = Recording::new(options.history_bytes, clock);
        let context = Context { client: client.shared_watches(), writer: shared, events, metrics, recording };
        Ok(Self { context, writer, sender, elector, carrier, leases, options, seat, random })
    }

    /// What follows from the Lease of this member: its health, and whether it takes part.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        self.elector.leadership()
    }

    /// The metrics of the process.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.context.metrics.clone()
    }

    /// A handle to ask who works for what.
    #[must_use]
    pub fn seat(&self) -> Seat {
        self.seat.clone()
    }

    /// Takes part until `shutdown`, and then to an orderly end: its shards go to others, each after its last write was
    /// answered, and its Lease is released. What cannot be ended in the time of [`Options::shutdown_timeout`] is left
    /// to the Lease's end.
    ///
    /// # Errors
    /// [`Lost`] if its Lease could not be renewed or was ended, or if the group's Leases could not be read. The process
    /// must end.
    ///
    /// # Panics
    /// If one of its tasks does, as [`Manager::run`].
    pub async fn run(self, mut shutdown: Shutdown) -> Result<(), Lost> {
        let Self { context, writer, sender, elector, carrier, leases, options, seat, random } = self;
        let (stop_election, election_stopped) = shutdown::channel();
        let (stop_events, events_stopped) = shutdown::channel();
        let (sent, all_sent) = shutdown::channel();
        let (bell, mut aside) = (Bell::default(), JoinSet::new());
        aside.spawn(of_the_same(bell.clone().run(leases.clone(), seat.clone())));
        let mut sending = JoinSet::new();
        sending.spawn(of_the_same(async move {
            sender.run(events_stopped).await;
            sent.stop();
        }));
        let (events, mut leading) = (context.events.clone(), elector.leadership().leading());
        let mut work = Work {
            context,
            writer,
            carrier,
            leases,
            options,
            seat,
            random,
            bell,
            managers: JoinSet::new(),
            weighing: JoinSet::new(),
            announced: None,
            hurried: 0,
            stop_events,
            all_sent,
        };
        // Who cannot read the group's Leases does not join it.
        tokio::select! {
            biased;
            () = shutdown.stopped() => return Ok(()),
            () = work.first_look() => {}
        }
        let mut electing = JoinSet::new();
        electing.spawn(of_the_same(elector.run(events, election_stopped)));
        let left = tokio::select! {
            biased;
            ended = electing.join_next() => return of_election(ended),
            never = watch_over(&mut aside) => match never {},
            never = watch_over(&mut sending) => match never {},
            worked = work.run(&mut leading, &mut shutdown) => worked?,
        };
        if !left {
            tracing::warn!("not all shards could be released in time: they are left to the end of the lease");
            return Ok(());
        }
        stop_election.stop();
        of_election(electing.join_next().await)
    }
}

fn of_election(ended: Option<Result<Result<(), Lost>, tokio::task::JoinError>>) -> Result<(), Lost> {
    match ended {
        Some(Ok(ended)) => ended,
        Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Some(Err(_)) | None => Ok(()),
    }
}

/// A member at work.
struct Work {
    context: Context,
    writer: Client,
    carrier: Carrier,
    leases: Leases,
    options: Options,
    seat: Seat,
    random: SmallRng,
    bell: Bell,
    /// Each ends with its shard, when all its writes are answered.
    managers: JoinSet<u32>,
    weighing: JoinSet<Option<Weights>>,
    /// What was last announced of its end.
    announced: Option<Option<String>>,
    /// How many looks in a row came sooner than by the clock.
    hurried: u32,
    /// To send the Events that wait, and take no more.
    stop_events: Trigger,
    /// When that is done.
    all_sent: Shutdown,
}

impl Work {
    async fn first_look(&mut self) {
        while !self.look().await {
            tokio::time::sleep(self.pause()).await;
        }
        self.carry();
    }

    /// Looks and does what follows, by turns. After `shutdown` it says whether everything was released.
    async fn run(&mut self, leading: &mut watch::Receiver<bool>, shutdown: &mut Shutdown) -> Result<bool, Lost> {
        let mut end: Option<Instant> = None;
        let mut silent = false;
        loop {
            let begun = Instant::now();
            self.look().await;
            self.act().await;
            self.carry();
            let next = loop {
                self.seat.count();
                if end.is_some() && self.seat.group().has_left() {
                    return Ok(true);
                }
                self.is_current()?;
                let next = self.next(begun);
                let empty = end.is_some() && self.seat.open().is_empty();
                if empty {
                    self.stop_events.stop();
                }
                tokio::select! {
                    biased;
                    () = shutdown.stopped(), if end.is_none() => {
                        tracing::info!("leaving the group");
                        end = Some(Instant::now() + self.options.shutdown_timeout);
                        self.seat.group().leave();
                        self.carry();
                        self.act().await;
                    }
                    // They are fenced by the group's Lease, which the last member gives back.
                    () = self.all_sent.stopped(), if empty && !silent => {
                        silent = true;
                        self.seat.group().silenced();
                        self.act().await;
                    }
                    () = sleep_until(end.unwrap_or(next)), if end.is_some_and(|end| end < next) => {
                        if !empty || silent {
                            return Ok(false);
                        }
                        tracing::warn!("pending events were not sent in time and are given up");
                        (silent, end) = (true, Some(Instant::now() + self.options.shutdown_timeout));
                        self.seat.group().silenced();
                        self.act().await;
                    }
                    Some(ended) = self.managers.join_next() => {
                        self.closed(ended);
                        self.act().await;
                    }
                    Some(weighed) = self.weighing.join_next() => {
                        match weighed {
                            Ok(Some(weights)) => {
                                self.seat.group().weighed(weights);
                                self.act().await;
                            }
                            Ok(None) => {}
                            Err(error) => pass_on_panic(Err(error)),
                        }
                    }
                    // Its own Lease is there: what it may do now waits for no other news.
                    Ok(()) = leading.changed() => break begun + SHORTEST_PAUSE,
                    () = self.bell.rung() => break begun + SHORTEST_PAUSE,
                    () = sleep_until(next) => break next,
                }
            };
            sleep_until(next).await;
        }
    }

    /// When to look again, if nothing happens before.
    fn next(&mut self, begun: Instant) -> Instant {
        let group = self.seat.group();
        let now = self.seat.inner.clock.moment();
        let regular = begun + group.config().election.retry_period.mul_f64(1.0 + JITTER * self.random.random::<f64>());
        let due = group.due(now).map(|due| self.seat.inner.clock.instant(due));
        let urgent = group.is_to_look().then(|| begun + SHORTEST_PAUSE * 2_u32.pow(self.hurried.min(6)));
        self.hurried = if urgent.is_some() { self.hurried + 1 } else { 0 };
        [due, urgent].into_iter().flatten().fold(regular, Instant::min).max(begun + SHORTEST_PAUSE)
    }

    /// Lists the Leases; false if that failed.
    async fn look(&mut self) -> bool {
        let clock = self.seat.inner.clock;
        let sent = (clock.moment(), clock.now());
        let Some((leases, group, version)) = self.leases.list().await else { return false };
        self.seat.group().listed(leases, group, sent, clock.moment());
        self.bell.listen_from(version);
        true
    }

    /// Does what is to be done, until it needs another look.
    async fn act(&mut self) {
        let clock = self.seat.inner.clock;
        loop {
            let steps = self.seat.group().decide(clock.moment(), clock.now());
            let mut writes = Vec::new();
            for step in steps {
                match step {
                    Step::Write(Request::Get) => {}
                    Step::Open { shard, range } => self.open(shard, range),
                    Step::Close(shard) => self.close(shard),
                    Step::Weigh => {
                        if self.weighing.is_empty() {
                            self.weighing.spawn(of_the_same(weigh::weigh(self.context.client.clone())));
                        }
                    }
                    write => writes.push(write),
                }
            }
            if writes.is_empty() {
                return;
            }
            let leases = &self.leases;
            let written = join_all(writes.into_iter().map(async |write| {
                let sent = (clock.moment(), clock.now());
                (leases.write(&write).await, sent)
            }));
            let written = written.await;
            let mut group = self.seat.group();
            for ((name, answer), sent) in written {
                match answer {
                    Some(Answer::NotFound) => group.deleted(&name),
                    answer => group.answered(&name, answer.unwrap_or(Answer::Failed), sent, clock.moment()),
                }
            }
        }
    }

    fn open(&mut self, shard: u32, range: HashRange) {
        let Self { context, options, seat, .. } = self;
        let flights = Arc::new(Flights::new(self.writer.fenced(seat.fence_of(shard))));
        let context = Context { writer: Arc::clone(&flights) as _, ..context.clone() };
        let options = Options {
            range: Some(range),
            seed: options.seed.wrapping_add(u64::from(shard) + 1),
            // A write that is not answered may still arrive: the shard is nobody else's before that.
            shutdown_timeout: NEVER,
            ..options.clone()
        };
        let mut manager = Manager::in_context(context, options);
        let works = manager.controllers().next().is_some();
        let pods = works.then(|| manager.informers().of::<Pod>(&WatchedResource::pods()).store());
        let (stop, stopped) = shutdown::channel();
        let (explainer, unsynced) = (manager.explainer(), manager.unsynced());
        seat.open().insert(shard, Open { explainer, unsynced, pods, stop });
        seat.inner.counts.held.get_or_create(&Number { shard }).set(1);
        tracing::info!(shard, %range, "working for a shard");
        let doubt = seat.group().config().election.lease_duration;
        self.managers.spawn(of_the_same(async move {
            manager.run(stopped).await;
            flights.landed(doubt).await;
            shard
        }));
    }

    fn close(&mut self, shard: u32) {
        tracing::info!(shard, "closing a shard");
        self.seat.inner.counts.held.remove(&Number { shard });
        if let Some(open) = self.seat.open().get(&shard) {
            open.stop.stop();
        }
    }

    fn closed(&mut self, ended: Result<u32, tokio::task::JoinError>) {
        match ended {
            Ok(shard) => {
                self.seat.open().remove(&shard);
                self.seat.group().closed(shard);
            }
            Err(error) => pass_on_panic(Err(error)),
        }
    }

    /// Has this member's Lease carry what there is to say, at once where others wait for it.
    fn carry(&mut self) {
        let counts: Vec<u64> = {
            let open = self.seat.open();
            let pods = open.values().filter_map(|open| open.pods.as_ref());
            pods.map(|pods| u64::try_from(pods.read().len()).unwrap_or(u64::MAX)).collect()
        };
        let carried = self.seat.group().carried(counts.iter().sum(), counts.iter().copied().max().unwrap_or_default());
        let leaving = carried.annotations.get(LEAVING).cloned();
        self.carrier.set(carried);
        if self.announced != leaving {
            self.announced = leaving;
            self.carrier.renew();
        }
    }

    /// # Errors
    /// If the group's Leases have not been read for the Lease's time: others may have what this member had.
    fn is_current(&self) -> Result<(), Lost> {
        let group = self.seat.group();
        let longest = group.config().election.lease_duration;
        let now = self.seat.inner.clock.moment();
        if group.looked().is_some_and(|looked| now.saturating_since(looked) <= longest) {
            return Ok(());
        }
        let (namespace, name) = group.lease();
        Err(Lost { lease: format!("{namespace}/{name}"), why: format!("it could not be read within {longest:?}") })
    }

    fn pause(&mut self) -> Duration {
        self.seat.group().config().election.retry_period.mul_f64(1.0 + JITTER * self.random.random::<f64>())
    }
}

impl Seat {
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
    fn fence(&self, leadership: Leadership) -> Fence {
        let allows = self.allows(Group::term);
        Arc::new(move || leadership.may_write() && allows())
    }

    /// Whether a write of this shard may be sent, as far as the shard is concerned.
    fn fence_of(&self, shard: u32) -> Fence {
        self.allows(move |group| group.permit(shard))
    }

    /// Whether this term of the group is not over. What is open writes through fences, so a fence must not keep the seat: then a
    /// member that was killed would be kept for ever by its open shards.
    fn allows(&self, term: impl Fn(&Group) -> Option<Term> + Send + Sync + 'static) -> Fence {
        let inner = Arc::downgrade(&self.inner);
        Arc::new(move || {
            inner.upgrade().is_some_and(|inner| {
                let seat = Self { inner };
                let clock = seat.inner.clock;
                let term = term(&seat.group());
                term.is_some_and(|term| term.allows(clock.moment(), clock.now()))
            })
        })
    }

    /// Has the metrics show what is.
    fn count(&self) {
        let Inner { counts, clock, .. } = &*self.inner;
        let group = self.group();
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        counts.shards.set(number(group.shards().count()));
        counts.members.set(number(group.members(clock.moment())));
        let takeovers = i64::try_from(group.takeovers()).unwrap_or(i64::MAX);
        let before = counts.counted.swap(takeovers, Ordering::Relaxed);
        counts.takeovers.inc_by(u64::try_from(takeovers - before).unwrap_or_default());
    }

    fn group(&self) -> MutexGuard<'_, Group> {
        self.inner.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u32, Open>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::server;

    /// Who may not list Leases never works for a shard: a rolling update must not take it for one that does.
    ///
    /// Contract: SH-05
    #[tokio::test(start_paused = true)]
    async fn a_member_is_not_ready_before_it_has_seen_the_groups_leases() {
        let election = muster_machinery::election::Config::new("kube-system", "muster", "me".to_owned());
        let config = Config { election, group: "blue".to_owned(), shards: 2 };
        let (client, _server) = server();
        let member = Member::new(&client, client.clone(), config, Options::default()).unwrap();
        let (seat, clock) = (member.seat(), client.clock());
        assert_eq!(seat.unsynced(), Some(1));
        seat.group().listed(Vec::new(), None, (clock.moment(), clock.now()), clock.moment());
        assert_eq!(seat.unsynced(), Some(0));
    }
}
