//! Whole groups over a bad network: requests are slow and lost, members freeze and die, clocks go at different rates,
//! people delete Leases. At no moment may two members write for one namespace.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::*;
use super::{at, wall};
use crate::election::ElectionStep;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const SHARDS_WANTED: u32 = 8;
/// How long a request is waited for.
const TIMEOUT: u64 = 2_500;

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % below
    }
}

enum Event {
    /// A request reaches the server.
    Arrives { player: usize, life: u64, asked: Asked, answer_in: u64, number: u64 },
    /// Its answer, or that there is none, reaches the player.
    Answered { player: usize, life: u64, number: u64, answer: Answered },
    /// The player goes on after a pause.
    Wakes { player: usize, life: u64, of: Loop },
    /// All writes of a shard are answered.
    Closed { player: usize, life: u64, shard: u32 },
    /// Somebody does something.
    Mischief,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Loop {
    Election,
    Group,
}

#[derive(Clone)]
enum Asked {
    List,
    Lease(Loop, String, Request),
    Delete(Lease),
}

#[derive(Clone)]
enum Answered {
    List(Option<(Vec<Lease>, Option<Lease>)>),
    Lease(Answer),
    Deleted(bool),
}

struct Waiting {
    asked: Asked,
    sent: (Moment, Timestamp),
}

/// A member, as a process: it renews its own Lease and looks at the group's by turns.
struct Player {
    name: String,
    life: u64,
    alive: bool,
    leaving: bool,
    frozen_until: u64,
    origin: u64,
    rate: u64,
    group: Group,
    election: Election,
    /// The shards that it works for.
    open: BTreeMap<u32, HashRange>,
    waiting: BTreeMap<u64, Waiting>,
}

impl Player {
    fn clock(&self, world: u64) -> (Moment, Timestamp) {
        let local = self.origin + world * self.rate / 1_000;
        (at(local), wall(local + self.origin * 1_000))
    }

    /// The ranges that it may write to now.
    fn writes(&self, world: u64) -> Vec<HashRange> {
        let (now, wall) = self.clock(world);
        let allows = |term: Option<Term>| term.is_some_and(|term| term.allows(now, wall));
        if !self.alive || !allows(self.election.term()) {
            return Vec::new();
        }
        let open = self.open.iter().filter(|(shard, _)| allows(self.group.permit(**shard)));
        open.map(|(_, range)| *range).collect()
    }
}

struct Model {
    world: u64,
    draw: Draw,
    events: BTreeMap<(u64, u64), Event>,
    count: u64,
    shelf: BTreeMap<String, Lease>,
    version: u64,
    players: Vec<Player>,
    lives: u64,
    /// Whether nothing bad happens any more.
    calm: bool,
    opened: usize,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut model = Self {
            world: 0,
            draw: Draw(seed),
            events: BTreeMap::new(),
            count: 0,
            shelf: BTreeMap::new(),
            version: 0,
            players: Vec::new(),
            lives: 0,
            calm: false,
            opened: 0,
        };
        for name in NAMES.iter().take(3) {
            model.start(name);
        }
        model.after(1_000, Event::Mischief);
        model
    }

    fn after(&mut self, millis: u64, event: Event) {
        self.count += 1;
        self.events.insert((self.world + millis, self.count), event);
    }

    fn start(&mut self, name: &str) {
        self.lives += 1;
        let identity = format!("{name}-{}", self.lives);
        let shards = if self.draw.below(4) == 0 { SHARDS_WANTED / 2 } else { SHARDS_WANTED };
        let group = Group::new(super::config(&identity, if self.calm { SHARDS_WANTED } else { shards })).unwrap();
        let mut election = Election::new(group.election()).unwrap().own();
        election.carry(group.carried(0, 0, at(0)));
        let (origin, rate) = (self.draw.below(1_000_000), 900 + self.draw.below(200));
        let (life, player) = (self.lives, self.players.len());
        self.players.push(Player {
            name: name.to_owned(),
            life,
            alive: true,
            leaving: false,
            frozen_until: 0,
            origin,
            rate,
            group,
            election,
            open: BTreeMap::new(),
            waiting: BTreeMap::new(),
        });
        for of in [Loop::Election, Loop::Group] {
            self.after(0, Event::Wakes { player, life, of });
        }
    }

    fn send(&mut self, player: usize, asked: Asked) {
        self.count += 1;
        let (number, life) = (self.count, self.players[player].life);
        let sent = self.players[player].clock(self.world);
        self.players[player].waiting.insert(number, Waiting { asked: asked.clone(), sent });
        let slow = !self.calm && self.draw.below(12) == 0;
        let mut way = || if slow { self.draw.below(6_000) } else { self.draw.below(60) };
        let (there, back) = (way(), way());
        let fate = if self.calm { 9 } else { self.draw.below(30) };
        let nothing = match &asked {
            Asked::List => Answered::List(None),
            Asked::Lease(..) => Answered::Lease(Answer::Failed),
            Asked::Delete(_) => Answered::Deleted(false),
        };
        if fate > 0 {
            // Where the answer is lost, the server has acted.
            let answer_in = if fate == 1 { u64::MAX } else { back };
            self.after(there, Event::Arrives { player, life, asked, answer_in, number });
        }
        self.after(TIMEOUT, Event::Answered { player, life, number, answer: nothing });
    }

    fn serve(&mut self, asked: &Asked) -> Answered {
        let same = |shelf: &BTreeMap<String, Lease>, lease: &Lease| {
            shelf.get(lease.name()).is_some_and(|stored| stored.resource_version() == lease.resource_version())
        };
        match asked {
            Asked::List => {
                let labelled = |lease: &&Lease| lease.label(GROUP) == Some("blue");
                let group = self.shelf.get("muster").cloned();
                Answered::List(Some((self.shelf.values().filter(labelled).cloned().collect(), group)))
            }
            Asked::Delete(lease) => {
                let is_same = same(&self.shelf, lease);
                if is_same {
                    self.shelf.remove(lease.name());
                }
                Answered::Deleted(is_same)
            }
            Asked::Lease(_, name, request) => Answered::Lease(match request {
                Request::Get => self.shelf.get(name).map_or(Answer::NotFound, |lease| Answer::Lease(lease.clone())),
                Request::Create(lease) if !self.shelf.contains_key(name) => self.put(lease.clone()),
                Request::Replace(_) if !self.shelf.contains_key(name) => Answer::NotFound,
                Request::Replace(lease) if same(&self.shelf, lease) => self.put(lease.clone()),
                Request::Create(_) | Request::Replace(_) => Answer::Failed,
            }),
        }
    }

    fn put(&mut self, mut lease: Lease) -> Answer {
        self.version += 1;
        lease.metadata.insert("resourceVersion".to_owned(), self.version.to_string().into());
        self.shelf.insert(lease.name().to_owned(), lease.clone());
        Answer::Lease(lease)
    }

    fn run(mut self) -> Result<(), String> {
        const BAD: u64 = 180_000;
        /// In which those that stand still when it begins may wake up and end.
        const RESTARTS: u64 = 60_000;
        /// Members that begin after others were lost wait for at most as long as these are remembered.
        const CALM: u64 = 90_000 + KEEP.as_secs() * 1_000;
        while let Some(((time, count), event)) = self.events.pop_first() {
            self.world = time;
            self.calm = time > BAD;
            if self.calm && time <= BAD + RESTARTS {
                while self.players.iter().filter(|player| player.alive && !player.leaving).count() < 3 {
                    self.start("last");
                }
            }
            if time > BAD + RESTARTS + CALM {
                break;
            }
            self.happen(event, count);
            self.judge()?;
        }
        self.is_even()
    }

    fn happen(&mut self, event: Event, count: u64) {
        let (player, life) = match &event {
            Event::Arrives { player, life, asked, answer_in, number } => {
                let (player, life, number, answer_in) = (*player, *life, *number, *answer_in);
                let answer = self.serve(&asked.clone());
                if answer_in < u64::MAX {
                    self.after(answer_in, Event::Answered { player, life, number, answer });
                }
                return;
            }
            Event::Mischief => return self.mischief(),
            Event::Answered { player, life, .. }
            | Event::Wakes { player, life, .. }
            | Event::Closed { player, life, .. } => (*player, *life),
        };
        let at = &mut self.players[player];
        if !at.alive || at.life != life {
            return;
        }
        if at.frozen_until > self.world {
            let until = at.frozen_until;
            self.events.insert((until, count), event);
            return;
        }
        match event {
            Event::Wakes { of: Loop::Election, .. } => self.attempt(player),
            Event::Wakes { of: Loop::Group, .. } => {
                if at.waiting.values().all(|waiting| matches!(waiting.asked, Asked::Lease(Loop::Election, ..))) {
                    self.send(player, Asked::List);
                }
            }
            Event::Closed { shard, .. } => {
                at.open.remove(&shard);
                at.group.closed(shard);
                self.decide(player);
            }
            Event::Answered { number, answer, .. } => {
                if let Some(waiting) = at.waiting.remove(&number) {
                    self.answered(player, waiting, answer);
                }
            }
            Event::Arrives { .. } | Event::Mischief => {}
        }
    }

    fn attempt(&mut self, player: usize) {
        let at = &mut self.players[player];
        let (now, wall) = at.clock(self.world);
        if at.election.term().is_some_and(|term| now >= term.until) {
            // It could not be renewed: the process ends.
            at.alive = false;
            return;
        }
        at.election.carry(at.group.carried(0, 0, now));
        let request = at.election.attempt(now, wall);
        let name = at.election.config().name.clone();
        self.send(player, Asked::Lease(Loop::Election, name, request));
    }

    fn answered(&mut self, player: usize, waiting: Waiting, answer: Answered) {
        let life = self.players[player].life;
        let (now, wall) = self.players[player].clock(self.world);
        let at = &mut self.players[player];
        match (waiting.asked, answer) {
            (Asked::Lease(Loop::Election, name, _), Answered::Lease(answer)) => {
                match at.election.answered(answer, now, wall) {
                    ElectionStep::Send(next) => self.send(player, Asked::Lease(Loop::Election, name, next)),
                    ElectionStep::Leading | ElectionStep::Again => {
                        self.after(2_000, Event::Wakes { player, life, of: Loop::Election });
                    }
                    ElectionStep::Lost => at.alive = false,
                }
            }
            (Asked::List, Answered::List(Some((leases, group)))) => {
                at.group.listed(leases, group, waiting.sent, now);
                self.decide(player);
            }
            (Asked::Lease(Loop::Group, name, _), Answered::Lease(answer)) => {
                at.group.answered(&name, answer, waiting.sent, now);
                self.decide(player);
            }
            (Asked::Delete(lease), Answered::Deleted(true)) => {
                at.group.deleted(lease.name());
            }
            _ => {}
        }
        let at = &self.players[player];
        let mine = |waiting: &Waiting| !matches!(waiting.asked, Asked::Lease(Loop::Election, ..));
        if at.alive && !at.waiting.values().any(mine) {
            let pause = if at.group.is_to_look() { 100 } else { 500 + self.draw.below(1_700) };
            self.after(pause, Event::Wakes { player, life, of: Loop::Group });
        }
    }

    fn decide(&mut self, player: usize) {
        let at = &mut self.players[player];
        let life = at.life;
        // One request about a Lease at a time.
        let asked = |name: &str, at: &Player| {
            at.waiting.values().any(|waiting| match &waiting.asked {
                Asked::Lease(Loop::Group, asked, _) => asked == name,
                Asked::Delete(lease) => lease.name() == name,
                _ => false,
            })
        };
        let (now, wall) = at.clock(self.world);
        let mut steps = at.group.decide(now, wall);
        if steps.contains(&Step::Weigh) {
            at.group.weighed(Weights::new([(1 << 60, self.draw.below(1_000)), (1 << 62, 200)]));
            steps = at.group.decide(now, wall).into_iter().chain(steps).collect();
        }
        if at.group.has_left() {
            at.alive = false;
            let name = at.election.config().name.clone();
            if let Some(request) = at.election.release(now, wall) {
                self.send(player, Asked::Lease(Loop::Election, name, request));
            }
            return;
        }
        for step in steps {
            match step {
                Step::Write(request) => {
                    let name = match &request {
                        Request::Create(lease) | Request::Replace(lease) => lease.name().to_owned(),
                        Request::Get => continue,
                    };
                    if !asked(&name, &self.players[player]) {
                        self.send(player, Asked::Lease(Loop::Group, name, request));
                    }
                }
                Step::Delete(lease) => {
                    if !asked(lease.name(), &self.players[player]) {
                        self.send(player, Asked::Delete(lease));
                    }
                }
                Step::Open { shard, range } => {
                    self.opened += 1;
                    self.players[player].open.insert(shard, range);
                }
                Step::Close(shard) => {
                    let takes = if self.draw.below(4) == 0 { 5_000 } else { 50 };
                    let takes = self.draw.below(takes);
                    self.after(takes, Event::Closed { player, life, shard });
                }
                Step::Weigh => {}
            }
        }
    }

    /// Members come, go, die and freeze, and people delete Leases.
    fn mischief(&mut self) {
        if self.calm {
            return;
        }
        let again = 500 + self.draw.below(15_000);
        self.after(again, Event::Mischief);
        let alive: Vec<usize> = (0..self.players.len()).filter(|player| self.players[*player].alive).collect();
        let Some(which) = alive.get(usize::try_from(self.draw.below(6)).unwrap()).copied() else {
            return self.start("new");
        };
        match self.draw.below(7) {
            0 if alive.len() > 1 => self.players[which].alive = false,
            1 | 2 => {
                let time = if self.draw.below(2) == 0 { 5_000 } else { 40_000 };
                self.players[which].frozen_until = self.world + self.draw.below(time);
            }
            3 => {
                let at = &mut self.players[which];
                at.leaving = true;
                at.group.leave();
            }
            4 if alive.len() < 6 => self.start("new"),
            5 => {
                let names: Vec<String> = self.shelf.keys().cloned().collect();
                if let Some(name) = names.get(usize::try_from(self.draw.below(12)).unwrap()) {
                    self.shelf.remove(name);
                }
            }
            _ => {}
        }
    }

    fn judge(&self) -> Result<(), String> {
        let writes: Vec<(&str, HashRange)> = self
            .players
            .iter()
            .flat_map(|player| player.writes(self.world).into_iter().map(|range| (player.name.as_str(), range)))
            .collect();
        for (at, (name, range)) in writes.iter().enumerate() {
            for (other, another) in &writes[at + 1..] {
                if range.first() <= another.last() && another.first() <= range.last() {
                    return Err(format!("{name} and {other} write to {range} and {another} after {} ms", self.world));
                }
            }
        }
        Ok(())
    }

    /// In the end each shard is worked for, and no member has more than its share by one.
    fn is_even(&self) -> Result<(), String> {
        let staying = self.players.iter().filter(|player| player.alive && !player.leaving);
        let counts: Vec<usize> = staying.clone().map(|player| player.writes(self.world).len()).collect();
        let mut ranges: Vec<HashRange> = staying.flat_map(|player| player.writes(self.world)).collect();
        ranges.sort_unstable();
        let adjacent = ranges.windows(2).all(|pair| pair[0].last().checked_add(1) == Some(pair[1].first()));
        let whole = ranges.first().is_some_and(|first| first.first() == 0)
            && ranges.last().is_some_and(|last| last.last() == u64::MAX);
        let even = counts.iter().max().zip(counts.iter().min()).is_some_and(|(most, least)| most - least <= 1);
        let shards = BTreeSet::from([SHARDS_WANTED, SHARDS_WANTED / 2]);
        let number = u32::try_from(ranges.len()).is_ok_and(|number| shards.contains(&number));
        if adjacent && whole && even && number && self.opened > 0 {
            return Ok(());
        }
        Err(format!("in the end {counts:?} shards are open: {ranges:?}"))
    }
}

/// How many groups, unless `MUSTER_CASES` says otherwise.
fn cases() -> u32 {
    std::env::var("MUSTER_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    /// Contract: SH-02, SH-03
    #[test]
    fn no_two_members_may_write_for_one_namespace_at_once(seed in any::<u64>()) {
        prop_assert_eq!(Model::new(seed).run(), Ok(()));
    }
}

/// What was found: a Lease that a member saw missing twice, and that was made, taken and deleted in between.
///
/// Contract: SH-02
#[test]
fn what_was_made_and_deleted_between_two_looks_is_respected() {
    assert_eq!(Model::new(3_535_053_020_889_474_736).run(), Ok(()));
}
