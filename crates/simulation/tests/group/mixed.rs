//! Members that are killed, frozen, cut off, stopped and added while everything rolls.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_simulation::{Candidate, Fault, Faults, Rule, Verb, World};
use tokio::time::Instant;

use crate::common::{Random, each, in_virtual_time, pass, seeds};
use crate::judge;
use crate::judge::{Judge, verdict};
use crate::laws::Laws;
use crate::town::{MEMBERS, SUBJECTS, Town, millis, slow_members, start, world};

const SHARDS: u32 = 8;
/// How long it may take until others have the shards of a member that is gone, if requests take no time.
const TAKE_OVER: i64 = 20_000;

/// However members end, each namespace has one writer, what is written is as if there were only one, and the shards of
/// a member that is gone have others within the Lease's time and five seconds.
///
/// Contract: SH-01, SH-02, SH-03
#[test]
fn members_that_come_and_go_leave_each_namespace_with_one_writer() {
    let seeds = seeds(6);
    let told = each(&seeds, |seed| in_virtual_time(tell(*seed)));
    let changes: usize = told.iter().map(|told| told.changes).sum();
    println!("{changes} times a namespace went to another member");
    assert!(changes > seeds.len(), "namespaces went to other members {changes} times");
    judge(&seeds, &told.into_iter().map(|told| told.broken).collect::<Vec<_>>());
}

/// Invariant 8 of ARCHITECTURE.md.
#[test]
fn the_same_seed_gives_the_same_history_of_a_group() {
    let seed = seeds(1)[0];
    let told = each(&[seed, seed], |seed| in_virtual_time(tell(*seed)).history);
    let differs = told[0].iter().zip(&told[1]).find(|(one, other)| one != other);
    assert_eq!((differs, told[0].len()), (None, told[1].len()));
}

/// What is left of a story.
struct Told {
    broken: Vec<String>,
    /// How often a namespace went to another member.
    changes: usize,
    history: Vec<String>,
}

async fn tell(seed: u64) -> Told {
    let mut random = Random::seeded(seed);
    let faults = Faults::seeded(seed);
    let slowest = slow_members(&faults, &mut random);
    if random.once_in(3) {
        // Nothing rings: each look comes by the clock.
        for member in MEMBERS {
            faults.add(Rule::always(Fault::Stall).verbs(&[Verb::Watch]).resources(&["leases"]).of(member));
        }
    }
    let world = world(seed, &faults).await;
    let laws = Laws::start(&world, SUBJECTS).await;
    let mut crew = Crew { world: &world, next: 0, running: BTreeMap::new() };
    let first = 3 + random.below(3);
    for _ in 0..first {
        crew.add(&mut random);
        pass(Duration::from_millis(random.below(3_000))).await;
    }
    let town = Town::found(&world, &mut random).await;
    let mut broken = Vec::new();
    if let Err(last) = town.settles(Duration::from_secs(60)).await {
        broken.push(format!("not settled at first: {last}"));
    }
    let phase = laws.phase_begins(&world);
    let mut gone: Vec<(&'static str, i64, &str)> = Vec::new();
    for _ in 0..4 {
        town.roll(&mut random, 2).await;
        pass(Duration::from_millis(random.below(4_000))).await;
        let which = crew.pick(&mut random);
        let at = millis(&world);
        match random.below(6) {
            0 => {
                crew.running.remove(which).unwrap().kill();
                gone.push((which, at, "was killed"));
                crew.add(&mut random);
            }
            1 => {
                let frozen = crew.running.remove(which).unwrap();
                frozen.freeze();
                gone.push((which, at, "was frozen"));
                town.roll(&mut random, 3).await;
                pass(Duration::from_millis(17_000 + random.below(20_000))).await;
                frozen.thaw(seed);
                if let Err(why) = ended(frozen).await {
                    broken.push(format!("{which} was frozen past its Lease and {why}"));
                }
            }
            2 => {
                let stunned = &crew.running[which];
                stunned.freeze();
                // It renews its Lease up to some 3 s before, and must again within 10 s.
                pass(Duration::from_millis(random.below(6_000))).await;
                stunned.thaw(seed);
            }
            3 => {
                faults.add(Rule::always(Fault::Reset).of(which));
                gone.push((which, at, "was cut off"));
                if let Err(why) = ended(crew.running.remove(which).unwrap()).await {
                    broken.push(format!("{which} was cut off and {why}"));
                }
            }
            4 => {
                let leaving = crew.running.remove(which).unwrap();
                leaving.stop();
                match tokio::time::timeout(Duration::from_secs(15), leaving.ended()).await {
                    Ok(Ok(())) => {}
                    ended => broken.push(format!("{which} was told to leave: {ended:?}")),
                }
                crew.add(&mut random);
            }
            _ => crew.add(&mut random),
        }
        town.roll(&mut random, 4).await;
        // One by one: whose turn it is may be gone too, and that is another take-over.
        pass(Duration::from_millis(23_000 + random.below(5_000))).await;
        while crew.running.len() < 3 {
            crew.add(&mut random);
            // Who is frozen or cut off next has a Lease to lose.
            pass(Duration::from_secs(5)).await;
        }
    }
    let members: Vec<&str> = crew.running.keys().copied().collect();
    if let Err(why) = town.is_even(&members, SHARDS, Duration::from_secs(45)).await {
        broken.push(why);
    }
    if let Err(last) = town.settles(Duration::from_secs(90)).await {
        broken.push(format!("not as asked in the end: {last}"));
    }
    pass(Duration::from_secs(30)).await;
    let judged = verdict(&world, &laws, phase, &faults, &MEMBERS);
    broken.extend(judged.broken);
    let writes = judged.writes;
    let patience = TAKE_OVER + 8 * i64::try_from(slowest.as_millis()).unwrap();
    for (who, at, how) in gone {
        match Judge::taken_from(&writes, who, at) {
            Some(gone) if gone.last - at <= patience => {}
            Some(gone) => broken.push(format!(
                "{who} {how}, and others took its {} shards after {} ms",
                gone.shards,
                gone.last - at
            )),
            None => broken.push(format!("{who} {how}, and nobody took all of its shards")),
        }
    }
    for (name, member) in crew.running {
        if member.has_ended() {
            broken.push(format!("{name} has given up: {:?}", member.ended().await));
        }
    }
    let history = world.history().lines();
    world.stop().await;
    Told { broken, changes: judged.changes, history }
}

/// The members that run.
struct Crew<'w> {
    world: &'w World,
    next: usize,
    running: BTreeMap<&'static str, Candidate>,
}

impl Crew<'_> {
    /// Starts one whose clock is as wrong as chance has it.
    fn add(&mut self, random: &mut Random) {
        let name = MEMBERS[self.next];
        self.next += 1;
        let off = i64::try_from(random.below(7_200_000)).unwrap() - 3_600_000;
        self.running.insert(name, start(self.world, name, SHARDS, off));
    }

    fn pick(&self, random: &mut Random) -> &'static str {
        let names: Vec<&'static str> = self.running.keys().copied().collect();
        random.pick::<&'static str>(&names)
    }
}

/// Waits for the end of a process that has lost its Lease.
async fn ended(member: Candidate) -> Result<(), String> {
    let begun = Instant::now();
    match tokio::time::timeout(Duration::from_secs(30), member.ended()).await {
        Ok(Err(_lost)) => Ok(()),
        ended => Err(format!("goes on after {:?}: {ended:?}", begun.elapsed())),
    }
}
