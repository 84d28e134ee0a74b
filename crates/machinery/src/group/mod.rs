//! A group of managers that share a cluster, each shard in the hands of one of them (SH-01 to SH-05).
//!
//! ```text
//!   member ──renews──> its member Lease                        (by an election of its own)
//!     │
//!     ├──lists all Leases of the group──> listed ──> decide ──> renew the group's Lease, in turn
//!     │                                                ├──────> end the Lease of a member that is silent
//!     │                                                ├──────> take a shard that is free and due to it ──> open
//!     │                                                └──────> close a shard that is due to another ──> release it
//!     └──writes of a shard, while: its own term, the group's term and the shard's term allow it
//! ```
//!
//! Three kinds of Leases, all with the label [`GROUP`]:
//!
//! - **The group's** is the Lease of the single leader's election, held by `group/NAME`. While it is held no single
//!   leader begins. Any member renews it. It has the cut: the ranges of the shards, and what tells the cut from all
//!   others (its generation: a number, and a hash of the ranges).
//! - **A member's** is held and renewed by that member. One that has not been seen to change for the Lease's time is
//!   ended by another member, by a write that fails where it was renewed meanwhile. After that the member cannot go on.
//! - **A shard's** is written when the shard changes hands. It is good for as long as its holder's member Lease is.
//!
//! Why no two write for one shard, nor for two shards of different cuts that overlap:
//!
//! - A shard is taken only where its Lease has no holder or where the holder's member Lease was ended. A holder gives a
//!   shard up after its last write was answered; one that was ended has stopped writing before.
//! - A Lease that is missing (people delete Leases) counts as held for the Lease's time. Its holder stops writing
//!   before that: each shard has a [`Term`] that begins with the last list that showed it.
//! - A shard is opened only by a list that was sent after its taking was answered, and that shows the same cut in force
//!   and no shard in anybody's hands under another cut. Who puts a cut in force, and who takes a shard under an old
//!   one, both write first and look then: one of them sees the other.
//! - A write that was given up may arrive later. It names the version that it replaces, so it does nothing after a
//!   later write; and a shard that was closed is opened again only after one.
//! - A single leader waits for the Lease's time since it saw the group's Lease renewed. A member's term of it begins
//!   with its own renewal or with the list before the one that showed another's, and is shorter.
//!
//! All times are those of this member's own clock. Timestamps in Leases are for people, but for one choice on which
//! nothing depends: which member is the youngest.

mod cut;
mod decide;
mod held;
mod leases;
mod record;
mod share;
mod view;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_objects::{HashRange, Lease, Moment, Timestamp, shard};

pub use self::cut::{Cut, Weights};
pub use self::held::{Shard, shard_of};
use self::record::Names;
pub use self::record::{CONTROLLERS, ENDED, GROUP, HEAVIEST, LEAVING, NEW, PODS, SHARDS, YES};
use self::view::View;
use crate::election::{self, Answer, Carried, ConfigError, Election, Request, Term};

/// The most shards that a cluster can be cut into.
pub const MOST_SHARDS: u32 = 1_024;
/// How long a cut is kept before another one is made for the sake of balance.
pub const RECUT_EVERY: Duration = Duration::from_secs(600);
/// How long a cut is kept before another one is made because members were told another number of shards.
pub const RESHARD_EVERY: Duration = Duration::from_secs(60);
/// How long the Lease of a member that has ended is kept, and that of a shard that is not of the cut in force.
pub const KEEP: Duration = Duration::from_secs(300);
/// So many members can be lost within [`KEEP`] and a new one gets its share at once: a node may have had two of them.
const MANY_LOST: u32 = 2;
/// The longest name of a group: it is the value of a label.
const LONGEST_NAME: usize = 63;

/// The settings of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The single leader's election, with the identity of this member: it must be unique to this start of the process.
    pub election: election::Config,
    /// The name of the group.
    pub group: String,
    /// How many shards the cluster is to have: 1 to [`MOST_SHARDS`]. Of members that differ the youngest counts.
    pub shards: u32,
}

/// Why the settings of a member are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The settings of the election.
    #[error(transparent)]
    Election(#[from] ConfigError),
    /// It is part of the names of Leases, and the value of a label.
    #[error("the group {0:?} must be 1 to 63 lower case letters, digits and '-', with a letter or digit at both ends")]
    Name(String),
    /// There must be something to share, and a cut must fit into an annotation.
    #[error("found {0} shards, expected 1 to {MOST_SHARDS}")]
    Shards(u32),
    /// A member must not be taken for the whole group.
    #[error("the identity {0:?} must not begin with \"group/\"")]
    Identity(String),
}

/// What is to be done. Writes may be sent side by side.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Send this, and pass its answer to [`Group::answered`].
    Write(Request),
    /// Delete this Lease, if it is still of this version, and pass what comes of it to [`Group::answered`].
    Delete(Lease),
    /// Begin to work for a shard, and write as long as [`Group::permit`] allows it.
    Open {
        /// The shard.
        shard: u32,
        /// The hashes of its namespaces.
        range: HashRange,
    },
    /// Stop to work for a shard, and call [`Group::closed`] when all its writes are answered.
    Close(u32),
    /// Count what is in each namespace, and pass it to [`Group::weighed`].
    Weigh,
}

/// Who works for a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// This member, with this shard.
    Mine(u32),
    /// Another member, by its identity.
    Other(String),
    /// Nobody at the moment.
    Nobody,
}

/// One member's view of its group, and what it has in its hands.
#[derive(Debug)]
pub struct Group {
    config: Config,
    names: Names,
    /// The Lease's time, as it stands in a Lease.
    seconds: i32,
    view: View,
    /// When the first list came.
    begun: Option<Moment>,
    /// When the last list was sent, by both clocks; none before the first one.
    looked: Option<(Moment, Timestamp)>,
    /// How many lists there were.
    looks: u64,
    /// Whether what is known has not been found wrong since.
    fresh: bool,
    /// Whether the last list itself had the group's Lease.
    group_shown: bool,
    /// The same, and this member has not written it since.
    group_listed: bool,
    /// How long writes may be sent by the group's Lease.
    term: Option<Term>,
    /// The cut in force, as last seen, with its number and since when this member has known it.
    cut: Option<(u64, Cut, Moment)>,
    /// The shards whose Leases there have never been, in the generation that this process began: it makes them.
    unmade: Option<(u64, BTreeSet<u32>)>,
    /// The shards that this member holds or works for.
    mine: BTreeMap<u32, Mine>,
    weights: Option<Weights>,
    leaving: bool,
    /// Whether it writes nothing but Leases any more.
    silent: bool,
    takeovers: u64,
}

/// A shard in this member's hands.
#[derive(Debug)]
struct Mine {
    generation: u64,
    state: State,
    /// How long writes may be sent by the shard's Lease.
    term: Option<Term>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its taking was answered then, after so many lists.
    Taken(Moment, u64),
    Open,
    /// Some of its writes may not be answered yet.
    Closing,
    Closed,
}

impl Group {
    /// A member that has not looked yet.
    ///
    /// # Errors
    /// [`GroupError`] where the settings cannot keep members apart.
    pub fn new(config: Config) -> Result<Self, GroupError> {
        let seconds = Election::new(config.election.clone())?.seconds();
        let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let name = config.group.as_bytes();
        let ends = name.first().is_some_and(inner) && name.last().is_some_and(inner);
        if !ends || name.len() > LONGEST_NAME || !name.iter().all(|byte| inner(byte) || *byte == b'-') {
            return Err(GroupError::Name(config.group));
        }
        if !(1..=MOST_SHARDS).contains(&config.shards) {
            return Err(GroupError::Shards(config.shards));
        }
        if config.election.identity.starts_with("group/") {
            return Err(GroupError::Identity(config.election.identity));
        }
        let names = Names::new(&config.election.namespace, &config.election.name, &config.group);
        Ok(Self {
            config,
            names,
            seconds,
            view: View::default(),
            begun: None,
            looked: None,
            looks: 0,
            fresh: false,
            group_shown: false,
            group_listed: false,
            term: None,
            cut: None,
            unmade: None,
            mine: BTreeMap::new(),
            weights: None,
            leaving: false,
            silent: false,
            takeovers: 0,
        })
    }

    /// The election in which this member is alone: for its own Lease. It must be run as [`Election::own`].
    #[must_use]
    pub fn election(&self) -> election::Config {
        let name = self.names.member(&self.config.election.identity);
        election::Config { name, ..self.config.election.clone() }
    }

    /// What this member's own Lease carries, with the number of pods in all of its shards and in the heaviest one.
    #[must_use]
    pub fn carried(&self, pods: u64, heaviest: u64, now: Moment) -> Carried {
        let text = |key: &str, value: String| (key.to_owned(), Some(value));
        let mut annotations = BTreeMap::from([
            text(SHARDS, self.config.shards.to_string()),
            text(PODS, pods.to_string()),
            text(HEAVIEST, heaviest.to_string()),
            (ENDED.to_owned(), None),
            (NEW.to_owned(), self.is_new(now).then(|| YES.to_owned())),
            (LEAVING.to_owned(), self.leaving.then(|| if self.is_last() { record::LAST } else { YES }.to_owned())),
        ]);
        annotations.retain(|key, value| value.is_some() || key != LEAVING);
        Carried { labels: BTreeMap::from([(GROUP.to_owned(), self.config.group.clone())]), annotations }
    }

    /// Takes a list of the Leases with the label [`GROUP`] of this group, that was sent then. Where it has no Lease of
    /// the name of the election, `group` is what was read by this name, after the list.
    pub fn listed(&mut self, leases: Vec<Lease>, group: Option<Lease>, sent: (Moment, Timestamp), now: Moment) {
        let before = self.view.group.take();
        self.group_shown = leases.iter().any(|lease| lease.name() == self.names.lease);
        self.group_listed = self.group_shown;
        let (found, leases): (Vec<_>, Vec<_>) = leases.into_iter().partition(|lease| lease.name() == self.names.lease);
        let group = found.into_iter().next().or(group);
        let ours = group.as_ref().filter(|lease| lease.holder() == self.names.holder);
        let listed = ours.and_then(record::cut).map(|(_, cut)| cut.shards());
        let shards = listed.or(self.cut().map(Cut::shards)).unwrap_or_default();
        self.view.group.clone_from(&before);
        // Who has not looked for the time of a term does not know what may have been in between.
        let term = self.config.election.renew_deadline;
        let recent = self.looked.is_some_and(|(sent, _)| now.saturating_since(sent) <= term);
        self.view.take(&self.names, leases.into_iter().chain(group).collect(), shards, recent, now);
        self.observe_group(before.as_ref(), now);
        if let Some((_, unmade)) = &mut self.unmade {
            unmade.retain(|number| self.view.shards.get(number).is_none_or(view::Seen::is_missing));
        }
        let identity = &self.config.election.identity;
        for (number, mine) in &mut self.mine {
            let seen = self.view.shards.get(number);
            if seen.is_some_and(|seen| seen.holder() == identity && seen.generation() == mine.generation) {
                mine.term = Some(Term::since(sent.0, sent.1, self.config.election.renew_deadline));
            }
        }
        self.begun.get_or_insert(now);
        self.looked = Some(sent);
        self.looks += 1;
        self.fresh = true;
    }

    /// Takes the answer to a write that was sent then, of the Lease of this name.
    pub fn answered(&mut self, name: &str, answer: Answer, sent: (Moment, Timestamp), now: Moment) {
        let Answer::Lease(lease) = answer else {
            // Somebody else was faster, or nobody knows.
            self.fresh = false;
            return;
        };
        let term = Term::since(sent.0, sent.1, self.config.election.renew_deadline);
        match self.names.subject(name) {
            Some(record::Subject::Group) => {
                self.group_listed = false;
                let ours = lease.holder() == self.names.holder;
                self.term = ours.then_some(term);
                if let Some((generation, cut)) = record::cut(&lease).filter(|_| ours)
                    && self.cut.as_ref().is_none_or(|(known, ..)| *known != generation)
                {
                    // A founding makes the Leases of all shards; another cut those that there were none of before.
                    let held = self.view.group.as_ref().is_some_and(|seen| seen.holder() == self.names.holder);
                    let before = self.cut.as_ref().filter(|_| held).map_or(0, |(_, cut, _)| cut.shards());
                    self.unmade = Some((generation, (before..cut.shards()).collect()));
                    self.cut = Some((generation, cut, now));
                    self.fresh = false;
                }
            }
            Some(record::Subject::Shard(number)) => self.wrote_shard(number, &lease, term, now),
            Some(record::Subject::Member) | None => {}
        }
        self.view.put(&self.names, lease, now);
    }

    /// Takes the news that a Lease was deleted as asked.
    pub fn deleted(&mut self, name: &str) {
        self.view.remove(&self.names, name);
    }

    /// All writes of a shard are answered, and there will be no more.
    pub fn closed(&mut self, shard: u32) {
        if let Some(mine) = self.mine.get_mut(&shard) {
            mine.state = State::Closed;
        }
    }

    /// Takes the count of what is in each namespace.
    pub fn weighed(&mut self, weights: Weights) {
        self.weights = Some(weights);
    }

    /// Begins an orderly end: all shards go to others.
    pub fn leave(&mut self) {
        self.leaving = true;
    }

    /// From here on this member writes nothing but Leases: what was fenced by the group's Lease alone is written too, and that
    /// Lease may be given back.
    pub fn silenced(&mut self) {
        self.silent = true;
    }

    /// Whether this member holds nothing any more after [`Group::leave`] and [`Group::silenced`]: its own Lease can be released.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.is_through() && self.fresh && self.is_announced() && !self.is_to_give_back()
    }

    /// Until when writes may be sent for a shard, by the group's Lease and the shard's. This member's own Lease must
    /// allow it too. `None` where it must not.
    #[must_use]
    pub fn permit(&self, shard: u32) -> Option<Term> {
        let mine = self.mine.get(&shard).filter(|mine| mine.works())?;
        Some(mine.term?.and(self.term?))
    }

    /// Until when writes may be sent by the group's Lease; `None` where they must not.
    #[must_use]
    pub fn term(&self) -> Option<Term> {
        self.term
    }

    /// Whether another list is needed soon: something was refused, or waits for it.
    #[must_use]
    pub fn is_to_look(&self) -> bool {
        let waits = self.mine.values().any(|mine| matches!(mine.state, State::Taken(..)));
        let gives_back = self.is_through() && self.is_to_give_back() && self.is_alone() && !self.group_listed;
        !self.fresh || waits || gives_back
    }

    /// Whether a Lease of which a watch tells is a reason to look at once: renewals are not.
    #[must_use]
    pub fn is_news(&self, lease: &Lease) -> bool {
        self.view.is_news(&self.names, lease)
    }

    /// When the last list was sent; `None` before the first.
    #[must_use]
    pub fn looked(&self) -> Option<Moment> {
        self.looked.map(|(sent, _)| sent)
    }

    /// Who works for a namespace, as last seen.
    #[must_use]
    pub fn holder_of(&self, namespace: &str) -> Holder {
        let Some(cut) = self.cut().filter(|_| self.is_ours()) else { return Holder::Nobody };
        let number = cut.shard_of(shard::hash(namespace));
        if self.permit(number).is_some() {
            return Holder::Mine(number);
        }
        match self.view.shards.get(&number).map_or("", view::Seen::holder) {
            "" => Holder::Nobody,
            holder if holder == self.config.election.identity => Holder::Nobody,
            holder => Holder::Other(holder.to_owned()),
        }
    }

    /// The shards that this member works for.
    pub fn shards(&self) -> impl Iterator<Item = u32> {
        self.mine.iter().filter(|(_, mine)| mine.state == State::Open).map(|(number, _)| *number)
    }

    /// How many members there are, as far as they are known to be alive at this moment.
    #[must_use]
    pub fn members(&self, now: Moment) -> usize {
        self.alive(now).count()
    }

    /// The cut in force, as last seen.
    #[must_use]
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref().map(|(_, cut, _)| cut)
    }

    /// How many shards this member has taken from members that were ended.
    #[must_use]
    pub fn takeovers(&self) -> u64 {
        self.takeovers
    }

    /// The Lease of the election, `namespace` and name.
    #[must_use]
    pub fn lease(&self) -> (&str, &str) {
        (&self.names.namespace, &self.names.lease)
    }

    /// Who has the group's Lease, as last seen, where it is not the group: no name where nobody has.
    #[must_use]
    pub fn lost_to(&self) -> Option<&str> {
        let holder = self.view.group.as_ref().map_or("", view::Seen::holder);
        (holder != self.names.holder).then_some(holder)
    }

    /// How the election is run.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether this member has begun too recently after many were lost: for the Lease's time for each of them beyond
    /// [`MANY_LOST`] whose Lease is still there. Of members that end soon after each start, whose shards nobody has until the
    /// Lease's time is over, the first few get any.
    fn is_new(&self, now: Moment) -> bool {
        let ended = |seen: &&view::Seen| seen.lease.as_ref().is_some_and(|lease| record::says(lease, ENDED));
        let lost = u32::try_from(self.view.members.values().filter(ended).count()).unwrap_or(u32::MAX);
        let waits = self.config.election.lease_duration.saturating_mul(lost.saturating_sub(MANY_LOST)).min(KEEP);
        self.begun.is_some_and(|begun| now.saturating_since(begun) < waits)
    }

    /// The group's Lease was listed: what follows for this member's term of it, and for the cut.
    fn observe_group(&mut self, before: Option<&view::Seen>, now: Moment) {
        let seen = self.view.group.as_ref();
        let Some(lease) = seen.and_then(|seen| seen.lease.as_ref()).filter(|lease| lease.holder() == self.names.holder)
        else {
            // Nobody holds it, or a single leader: those with a term may renew it, but only where it has no holder.
            if seen.is_some_and(|seen| !seen.holder().is_empty()) {
                self.term = None;
            }
            return;
        };
        let known = before.and_then(|seen| seen.lease.as_ref());
        if let Some((looked, wall)) = self.looked
            && known.map(|known| &known.spec) != Some(&lease.spec)
        {
            // Written after the list before this one was sent. A single leader respects it for as long as it says, which may be less
            // than this member's own Lease would.
            let config = &self.config.election;
            let margin = config.lease_duration.saturating_sub(config.renew_deadline);
            let promised = config.renew_deadline.min(lease.duration().saturating_sub(margin));
            let term = Term::since(looked, wall, promised);
            self.term = self.term.filter(|held| held.renewed >= term.renewed).or(Some(term));
        }
        if let Some((generation, cut)) = record::cut(lease)
            && self.cut.as_ref().is_none_or(|(known, ..)| *known != generation)
        {
            self.cut = Some((generation, cut, now));
        }
    }

    fn wrote_shard(&mut self, number: u32, lease: &Lease, term: Term, now: Moment) {
        if let Some((_, unmade)) = &mut self.unmade {
            unmade.remove(&number);
        }
        if lease.holder() != self.config.election.identity {
            self.mine.remove(&number);
            return;
        }
        let generation = record::generation(lease);
        match self.mine.get_mut(&number) {
            // It was deleted, and made again.
            Some(mine) if mine.works() => mine.term = Some(term),
            _ => {
                let before = self.view.shards.get(&number).map_or("", view::Seen::holder);
                self.takeovers += u64::from(!before.is_empty() && before != lease.holder());
                self.mine.insert(number, Mine { generation, state: State::Taken(now, self.looks), term: Some(term) });
            }
        }
    }
}
