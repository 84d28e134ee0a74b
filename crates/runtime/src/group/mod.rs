//! A member of a group of managers that share a cluster (SH-01 to SH-06).
//!
//! ```text
//!   Elector ──renews──> member Lease            LeaseWatch ──watches──> Leases of the group
//!      │ term                                     │ changed: look at once
//!      v                                          v
//!   fence ──> Client of all writes      Member ──lists──> Group (the rules) ──> writes of Leases
//!                │                                                │ open, close
//!                +──fenced again, counted──> one Manager for each shard that is held
//! ```
//!
//! The rules are [`muster_machinery::group`]; what is here sends what they ask for and keeps a [`Manager`] for each
//! shard that is open. All Managers of a process count and record in one place, send their Events through one queue,
//! and write over one connection, whose socket asks for the member's term and the group's.

mod alike;
mod flights;
mod handle;
mod lease_watch;
mod leases;
mod weigh;
mod whose;

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use muster_machinery::{
    election::{Answer, Request},
    group::{Config, Group, GroupError, LEAVING, NEW, Step, Weights},
};
use muster_objects::{HashRange, Pod};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep_until},
};

use self::{alike::Alike, flights::Flights, handle::Open, lease_watch::LeaseWatch, leases::Leases};
pub use self::{
    handle::{Found, MemberHandle},
    whose::{ELECTION_NAMESPACE, shard_of},
};
use crate::{
    client::Client,
    election::{Carrier, Elector, Leadership, Lost},
    events::{self, EventSender},
    history::Recording,
    informer::WatchedResource,
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
    handle: MemberHandle,
    random: SmallRng,
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
        elector.register(&metrics);
        let leases = Leases::new(leases, group.config());
        let handle = MemberHandle::new(group, clock, &metrics);
        let writer = client.fenced(handle.fence(elector.leadership()));
        let shared: Arc<dyn crate::writer::Writer> = Arc::new(writer.clone());
        let (events, sender) = events::channel(&shared, &metrics, clock);
        let recording = Recording::new(options.history_bytes, clock);
        let context = Context { client: client.shared_watches(), writer: shared, events, metrics, recording };
        Ok(Self { context, writer, sender, elector, carrier, leases, options, handle, random })
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
    pub fn handle(&self) -> MemberHandle {
        self.handle.clone()
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
        let Self { context, writer, sender, elector, carrier, leases, options, handle, random } = self;
        let (stop_election, election_stopped) = shutdown::channel();
        let (stop_events, events_stopped) = shutdown::channel();
        let (sent, all_sent) = shutdown::channel();
        let (lease_watch, mut aside) = (LeaseWatch::default(), JoinSet::new());
        aside.spawn(of_the_same(lease_watch.clone().run(leases.clone(), handle.clone())));
        let (mut sending, flush) = (JoinSet::new(), options.shutdown_timeout);
        sending.spawn(of_the_same(async move {
            sender.run_within(events_stopped, flush).await;
            sent.stop();
        }));
        let (events, mut leading) = (context.events.clone(), elector.leadership().leading());
        let alike = Alike::new(&options);
        let mut work = Work {
            context,
            writer,
            carrier,
            leases,
            options,
            handle,
            random,
            lease_watch,
            managers: JoinSet::new(),
            weighing: JoinSet::new(),
            alike,
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
    handle: MemberHandle,
    random: SmallRng,
    lease_watch: LeaseWatch,
    /// Each ends with its shard, when all its writes are answered.
    managers: JoinSet<u32>,
    weighing: JoinSet<Option<Weights>>,
    alike: Alike,
    /// What was last announced of its beginning and its end.
    announced: Option<[Option<String>; 2]>,
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
                self.handle.count();
                if end.is_some() && self.handle.group().has_left() {
                    return Ok(true);
                }
                self.is_current()?;
                let next = self.next(begun);
                let empty = end.is_some() && self.handle.open().is_empty();
                if empty {
                    self.stop_events.stop();
                }
                tokio::select! {
                    biased;
                    () = shutdown.stopped(), if end.is_none() => {
                        tracing::info!("leaving the group");
                        // A shard whose last write was not answered is released when that cannot arrive any more.
                        let doubt = self.handle.group().config().election.lease_duration;
                        end = Some(Instant::now() + doubt + self.options.shutdown_timeout);
                        self.handle.group().leave();
                        self.carry();
                        self.act().await;
                    }
                    // They are fenced by the group's Lease, which the last member gives back.
                    () = self.all_sent.stopped(), if empty && !silent => {
                        (silent, end) = (true, Some(Instant::now() + self.options.shutdown_timeout));
                        self.handle.group().silenced();
                        self.act().await;
                    }
                    () = sleep_until(end.unwrap_or(next)), if (silent || !empty) && end.is_some_and(|end| end < next) => {
                        return Ok(false);
                    }
                    Some(ended) = self.managers.join_next() => {
                        self.closed(ended);
                        self.act().await;
                    }
                    Some(weighed) = self.weighing.join_next() => {
                        match weighed {
                            Ok(Some(weights)) => {
                                self.handle.group().weighed(weights);
                                self.act().await;
                            }
                            Ok(None) => {}
                            Err(error) => pass_on_panic(Err(error)),
                        }
                    }
                    // Its own Lease is there: what it may do now waits for no other news.
                    Ok(()) = leading.changed() => break begun + SHORTEST_PAUSE,
                    () = self.lease_watch.changed() => break begun + SHORTEST_PAUSE,
                    () = sleep_until(next) => break next,
                }
            };
            sleep_until(next).await;
        }
    }

    /// When to look again, if nothing happens before.
    fn next(&mut self, begun: Instant) -> Instant {
        let group = self.handle.group();
        let now = self.handle.clock().moment();
        let regular = begun + group.config().election.retry_period.mul_f64(1.0 + JITTER * self.random.random::<f64>());
        let due = group.due(now).map(|due| self.handle.clock().instant(due));
        let urgent = group.is_to_look().then(|| begun + SHORTEST_PAUSE * 2_u32.pow(self.hurried.min(6)));
        self.hurried = if urgent.is_some() { self.hurried + 1 } else { 0 };
        [due, urgent].into_iter().flatten().fold(regular, Instant::min).max(begun + SHORTEST_PAUSE)
    }

    /// Lists the Leases; false if that failed.
    async fn look(&mut self) -> bool {
        let clock = self.handle.clock();
        let sent = (clock.moment(), clock.now());
        let Some((leases, group, version)) = self.leases.list().await else { return false };
        let mut known = self.handle.group();
        let worked = known.lost_to().is_none() && known.shards().next().is_some();
        known.listed(leases, group, sent, clock.moment());
        if let Some(holder) = known.lost_to().filter(|_| worked) {
            let (namespace, name) = known.lease();
            tracing::warn!(lease = format!("{namespace}/{name}"), holder, "the group has lost its lease");
        }
        self.alike.compare(&known);
        drop(known);
        self.lease_watch.listen_from(version);
        true
    }

    /// Does what is to be done, until it needs another look.
    async fn act(&mut self) {
        let clock = self.handle.clock();
        loop {
            let steps = self.handle.group().decide(clock.moment(), clock.now());
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
            let mut group = self.handle.group();
            for ((name, answer), sent) in written {
                match answer {
                    Some(Answer::NotFound) => group.deleted(&name),
                    answer => group.answered(&name, answer.unwrap_or(Answer::Failed), sent, clock.moment()),
                }
            }
        }
    }

    fn open(&mut self, shard: u32, range: HashRange) {
        let Self { context, options, handle, .. } = self;
        let flights = Arc::new(Flights::new(self.writer.fenced(handle.fence_of(shard))));
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
        handle.opened(shard, Open { range, explainer, unsynced, pods, stop });
        tracing::info!(shard, %range, "working for a shard");
        let doubt = handle.group().config().election.lease_duration;
        self.managers.spawn(of_the_same(async move {
            manager.run(stopped).await;
            flights.landed(doubt).await;
            shard
        }));
    }

    fn close(&mut self, shard: u32) {
        tracing::info!(shard, "closing a shard");
        self.handle.close(shard);
    }

    fn closed(&mut self, ended: Result<u32, tokio::task::JoinError>) {
        match ended {
            Ok(shard) => {
                let left = self.handle.closed(shard);
                self.context.recording.with(|recorder, _| recorder.left(left));
                self.handle.group().closed(shard);
            }
            Err(error) => pass_on_panic(Err(error)),
        }
    }

    /// Has this member's Lease carry what there is to say, at once where others wait for it.
    fn carry(&mut self) {
        let counts: Vec<u64> = {
            let open = self.handle.open();
            let pods = open.values().filter_map(|open| open.pods.as_ref());
            pods.map(|pods| u64::try_from(pods.read().len()).unwrap_or(u64::MAX)).collect()
        };
        let (heaviest, now) = (counts.iter().copied().max().unwrap_or_default(), self.handle.clock().moment());
        let mut carried = self.handle.group().carried(counts.iter().sum(), heaviest, now);
        self.alike.tell(&mut carried);
        let marks = Some([LEAVING, NEW].map(|mark| carried.annotations.get(mark).cloned().flatten()));
        self.carrier.set(carried);
        if self.announced != marks {
            self.announced = marks;
            self.carrier.renew();
        }
    }

    /// # Errors
    /// If the group's Leases have not been read for the Lease's time: others may have what this member had.
    fn is_current(&self) -> Result<(), Lost> {
        let group = self.handle.group();
        let longest = group.config().election.lease_duration;
        let now = self.handle.clock().moment();
        if group.looked().is_some_and(|looked| now.saturating_since(looked) <= longest) {
            return Ok(());
        }
        let (namespace, name) = group.lease();
        Err(Lost { lease: format!("{namespace}/{name}"), why: format!("it could not be read within {longest:?}") })
    }

    fn pause(&mut self) -> Duration {
        self.handle.group().config().election.retry_period.mul_f64(1.0 + JITTER * self.random.random::<f64>())
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
        let (handle, clock) = (member.handle(), client.clock());
        assert_eq!(handle.unsynced(), Some(1));
        handle.group().listed(Vec::new(), None, (clock.moment(), clock.now()), clock.moment());
        assert_eq!(handle.unsynced(), Some(0));
    }
}
