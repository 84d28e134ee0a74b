//! A group that cuts its cluster anew while everything rolls: because a shard has become heavy, and because a member
//! was told another number of shards.

use std::time::Duration;

use muster_simulation::laws::Watcher;
use muster_simulation::{Candidate, Faults};
use muster_tree::Value;
use tokio::time::Instant;

use crate::common::{Api, Random, each, in_virtual_time, name, pass, seeds};
use crate::judge;
use crate::judge::verdict;
use crate::town::{LEASES, MEMBERS, Town, slow_members, start, world};

const SHARDS: u32 = 8;
/// What the last member to come is told.
const MORE_SHARDS: u32 = 12;
/// How long after the first cut there is none for the sake of balance.
const LET_BE: Duration = Duration::from_secs(600);

/// Members cut the cluster anew while Deployments roll, requests are slow and one of them is struck: each namespace has
/// one writer also while some have heard of the new cut and others have not, and no pod is too many. The heavy shard is
/// parted, and nobody cuts again for what is even.
///
/// Contract: SH-01, SH-02
#[test]
fn a_group_cuts_anew_while_everything_rolls() {
    let seeds = seeds(2);
    judge(&seeds, &each(&seeds, |seed| in_virtual_time(tell(*seed))));
}

async fn tell(seed: u64) -> Vec<String> {
    let mut random = Random::seeded(seed);
    let faults = Faults::seeded(seed);
    slow_members(&faults, &mut random);
    let world = world(seed, &faults).await;
    let watcher = Watcher::start(&world).await.unwrap();
    // The first cut is of an empty cluster: names that differ in their ends are then in one shard.
    let mut members: Vec<Candidate> = MEMBERS[..3].iter().map(|name| start(&world, name, SHARDS, 0)).collect();
    pass(Duration::from_secs(10)).await;
    let town = Town::found(&world, &mut random).await;
    town.grow(&mut random).await;
    let mut broken = Vec::new();
    broken.extend(town.settles(Duration::from_secs(60)).await.err());
    let api = Api::of(&world);

    pass(LET_BE - Duration::from_secs(90)).await;
    if generation(&api).await != 1 || !is_uneven(&api, SHARDS).await {
        broken.push("there is no reason for another cut, or there was one already".to_owned());
    }
    broken.extend(roll_until_cut(&town, &api, &mut random, 2, &members).await.err());
    let mut names = MEMBERS[..3].to_vec();
    if random.once_in(2) {
        // Who was to open some of the new shards.
        members.remove(0).kill();
        names.remove(0);
        members.push(start(&world, MEMBERS[3], SHARDS, 0));
        names.push(MEMBERS[3]);
    }
    town.roll(&mut random, 3).await;
    broken.extend(town.is_even(&names, SHARDS, Duration::from_secs(60)).await.err());
    broken.extend(town.settles(Duration::from_secs(90)).await.err());
    // Members count when they renew their Leases.
    pass(Duration::from_secs(5)).await;
    if is_uneven(&api, SHARDS).await {
        broken.push("the heavy shard is as heavy as before".to_owned());
    }

    // The youngest member's number counts.
    members.push(start(&world, MEMBERS[4], MORE_SHARDS, 0));
    names.push(MEMBERS[4]);
    broken.extend(roll_until_cut(&town, &api, &mut random, 3, &members).await.err());
    town.roll(&mut random, 3).await;
    broken.extend(town.is_even(&names, MORE_SHARDS, Duration::from_secs(60)).await.err());
    pass(Duration::from_secs(100)).await;
    broken.extend(town.settles(Duration::from_secs(90)).await.err());
    if generation(&api).await != 3 {
        broken.push(format!("there were {} cuts", generation(&api).await));
    }
    let judged = verdict(&world, &watcher, &faults, &MEMBERS);
    broken.extend(judged.broken);
    if judged.changes == 0 {
        broken.push("no namespace went to another member".to_owned());
    }
    broken.extend(members.iter().filter(|member| member.has_ended()).map(|_| "a member has given up".to_owned()));
    drop(members);
    world.stop().await;
    broken
}

/// Deployments roll, and one member or another stands still for some seconds, until the cut of that number is in force.
async fn roll_until_cut(
    town: &Town<'_>,
    api: &Api<'_>,
    random: &mut Random,
    wanted: u64,
    members: &[Candidate],
) -> Result<(), String> {
    const LONGEST: Duration = Duration::from_secs(240);
    let begun = Instant::now();
    while generation(api).await < wanted {
        if begun.elapsed() > LONGEST {
            return Err(format!("the cut of number {wanted} has not come within {LONGEST:?}"));
        }
        town.roll(random, 6).await;
        let still = random.pick(members);
        let stands_still = random.once_in(3);
        if stands_still {
            still.freeze();
        }
        pass(Duration::from_millis(random.below(6_000))).await;
        if stands_still {
            still.thaw(wanted);
            // It renews its Lease before it may stand still again: who cannot for 10 s gives up.
            pass(Duration::from_secs(3)).await;
        }
    }
    Ok(())
}

/// The number of the cut in force.
async fn generation(api: &Api<'_>) -> u64 {
    let group = api.get(&format!("{LEASES}/muster")).await.unwrap_or_default();
    let mark = group["metadata"]["annotations"]["muster.dev/cut-generation"].as_str().unwrap_or_default();
    mark.split_once('-').and_then(|(number, _)| number.parse().ok()).unwrap_or_default()
}

/// Whether the heaviest shard has more than twice its part of the pods, as the members count them.
async fn is_uneven(api: &Api<'_>, shards: u32) -> bool {
    let leases = api.list(LEASES).await;
    // The Lease of one that has ended says what it had.
    let lives = |lease: &&Value| lease["spec"]["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty());
    let members: Vec<&Value> = leases.iter().filter(|lease| name(lease).contains("-member-")).filter(lives).collect();
    let total: u64 = members.iter().filter_map(|lease| annotated(lease, "muster.dev/pods")).sum();
    let heaviest = members.iter().filter_map(|lease| annotated(lease, "muster.dev/heaviest-shard-pods")).max();
    heaviest.is_some_and(|heaviest| heaviest * u64::from(shards) > 2 * total)
}

fn annotated(lease: &Value, annotation: &str) -> Option<u64> {
    lease["metadata"]["annotations"][annotation].as_str()?.parse().ok()
}
