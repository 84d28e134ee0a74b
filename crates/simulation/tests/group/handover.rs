//! Orderly hand-overs: members come and go one by one, and a single leader follows a group, and a group a single
//! leader.

use std::time::Duration;

use muster_runtime::manager::Options;
use muster_simulation::candidate::Config;
use muster_simulation::laws::{Watcher, writers};
use muster_simulation::{Candidate, Fault, Faults, Rule, Verb};
use muster_tree::{Value, json};

use crate::common::{Api, EVENTS, Random, SETS, each, in_virtual_time, pass, seeds};
use crate::judge;
use crate::judge::verdict;
use crate::town::{LEASES, MEMBERS, SINGLES, Town, millis, start, world};

const SHARDS: u32 = 12;
/// How long a hand-over may take.
const HAND_OVER: Duration = Duration::from_secs(1);

/// Each member of a group is replaced by another one, as in a rolling update, while everything rolls: the shards are
/// with others within a second, both when a member begins and when one ends.
///
/// Contract: SH-01, SH-02, SH-03
#[test]
fn a_rolling_update_hands_shards_over_within_a_second() {
    let seeds = seeds(4);
    judge(&seeds, &each(&seeds, |seed| in_virtual_time(update(*seed))));
}

async fn update(seed: u64) -> Vec<String> {
    let mut random = Random::seeded(seed);
    let faults = Faults::seeded(seed);
    let way = Duration::ZERO..Duration::from_millis(3);
    faults.add(Rule::always(Fault::Delay(way.clone())));
    faults.add(Rule::always(Fault::Slow(way)));
    let world = world(seed, &faults).await;
    let watcher = Watcher::start(&world).await.unwrap();
    let mut running: Vec<(&'static str, Candidate)> = Vec::new();
    for name in &MEMBERS[..3] {
        running.push((name, start(&world, name, SHARDS, 0)));
        pass(Duration::from_millis(random.below(500))).await;
    }
    let town = Town::found(&world, &mut random).await;
    let mut broken = Vec::new();
    broken.extend(town.settles(Duration::from_secs(60)).await.err());
    for name in &MEMBERS[3..6] {
        town.roll(&mut random, 2).await;
        pass(Duration::from_millis(random.below(3_000))).await;
        running.push((name, start(&world, name, SHARDS, 0)));
        let names = |running: &[(&'static str, Candidate)]| running.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        broken.extend(town.is_even(&names(&running), SHARDS, HAND_OVER).await.err());
        pass(Duration::from_millis(random.below(3_000))).await;
        let (old, leaving) = running.remove(0);
        let at = millis(&world);
        leaving.stop();
        broken.extend(town.is_even(&names(&running), SHARDS, HAND_OVER).await.err());
        match tokio::time::timeout(Duration::from_secs(5), leaving.ended()).await {
            Ok(Ok(())) => {}
            ended => broken.push(format!("{old} was told to leave: {ended:?}")),
        }
        let gone = writers::taken_from(&world.history().since(0), old, at, i64::MAX);
        if gone.as_ref().is_none_or(|gone| gone.last - at > 1_000 || gone.leases < 3) {
            broken.push(format!("{old} left, and others took its shards at {:?}", gone.map(|gone| gone.last - at)));
        }
    }
    broken.extend(town.settles(Duration::from_secs(60)).await.err());
    let judged = verdict(&world, &watcher, &faults, &MEMBERS);
    broken.extend(judged.broken);
    if judged.changes == 0 {
        broken.push("no namespace went to another member".to_owned());
    }
    drop(running);
    world.stop().await;
    broken
}

/// A single leader is replaced by a group, and the group by a single leader: each begins when the other has ended,
/// within a second or a pause between two attempts, and neither writes beside the other.
///
/// Contract: SH-05
#[test]
fn a_group_follows_a_single_leader_and_a_single_leader_a_group() {
    let seeds = seeds(4);
    judge(&seeds, &each(&seeds, |seed| in_virtual_time(there_and_back(*seed))));
}

async fn there_and_back(seed: u64) -> Vec<String> {
    let mut random = Random::seeded(seed);
    let faults = Faults::seeded(seed);
    faults.add(Rule::always(Fault::Delay(Duration::ZERO..Duration::from_millis(20))));
    let world = world(seed, &faults).await;
    let watcher = Watcher::start(&world).await.unwrap();
    let single = |name| {
        let config = Config::new("kube-system", "muster", String::new());
        Candidate::start(&world, name, config, None, Options { seed, ..Options::default() }).unwrap()
    };
    let mut broken = Vec::new();
    let first = single(SINGLES[0]);
    let town = Town::found(&world, &mut random).await;
    broken.extend(town.settles(Duration::from_secs(60)).await.err());
    // They stand by beside the one that leads.
    let members: Vec<Candidate> = MEMBERS[..3].iter().map(|name| start(&world, name, SHARDS, 0)).collect();
    town.roll(&mut random, 2).await;
    pass(Duration::from_millis(20_000 + random.below(10_000))).await;
    if !town.shares().await.is_empty() {
        broken.push("a group has shards beside a single leader".to_owned());
    }
    town.roll(&mut random, 2).await;
    first.stop();
    broken.extend(first.ended().await.err().map(|lost| lost.to_string()));
    broken.extend(town.is_even(&MEMBERS[..3], SHARDS, Duration::from_secs(4)).await.err());
    broken.extend(town.settles(Duration::from_secs(60)).await.err());
    let second = single(SINGLES[1]);
    town.roll(&mut random, 2).await;
    pass(Duration::from_millis(20_000 + random.below(10_000))).await;
    town.roll(&mut random, 2).await;
    members.iter().for_each(Candidate::stop);
    for member in members {
        broken.extend(member.ended().await.err().map(|lost| lost.to_string()));
    }
    let leads = |lease: &muster_tree::Value| lease["spec"]["holderIdentity"] == SINGLES[1];
    // Between two attempts of one that stands by are up to 2.2 retry periods.
    broken.extend(world.until(&format!("{LEASES}/muster"), Duration::from_millis(4_600), leads).await.err());
    broken.extend(town.settles(Duration::from_secs(60)).await.err());
    let everyone: Vec<&'static str> = MEMBERS.into_iter().chain(SINGLES).collect();
    let judged = verdict(&world, &watcher, &faults, &everyone);
    broken.extend(judged.broken);
    let worked = |who: &str| {
        judged
            .writes
            .iter()
            .any(|write| write.who == who && write.resource() == "pods" && writers::namespace(&write.path).is_some())
    };
    broken.extend(SINGLES.iter().filter(|who| !worked(who)).map(|who| format!("{who} has never worked")));
    drop(second);
    world.stop().await;
    broken
}

/// The last member of a group gives the group's Lease back, by which its Events are fenced: those that wait are sent first, but
/// what is not sent in the ten seconds that it has for them is given up.
///
/// Contract: SH-05, EV-04
#[test]
fn the_last_member_sends_its_events_before_the_groups_lease_goes() {
    let ways = [(Duration::from_secs(1), 4), (Duration::from_secs(60), 0)];
    judge(&[1, 60], &each(&ways, |(slow, sent)| in_virtual_time(last_words(*slow, *sent))));
}

async fn last_words(slow: Duration, sent: usize) -> Vec<String> {
    const REPLICAS: usize = 4;
    let faults = Faults::seeded(1);
    // They are about one object, and are sent one after the other.
    let delay = Fault::Delay(slow..slow + Duration::from_secs(1));
    faults.add(Rule::always(delay).verbs(&[Verb::Create]).resources(&["events"]).of(MEMBERS[0]));
    let world = world(1, &faults).await;
    let member = start(&world, MEMBERS[0], 1, 0);
    let replicaset = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web"}]}},
        },
    });
    let api = Api::of(&world);
    assert_eq!(api.post(SETS, &replicaset).await.0, 201);
    let made = |replicaset: &Value| replicaset["status"]["replicas"] == REPLICAS;
    world.until(&format!("{SETS}/web"), Duration::from_secs(60), made).await.unwrap();
    let told = millis(&world);
    member.stop();
    let mut broken = Vec::new();
    broken.extend(member.ended().await.err().map(|lost| lost.to_string()));
    let took = millis(&world) - told;
    if took > 12_000 {
        broken.push(format!("its end took {took} ms"));
    }
    let writes = world.history().since(0);
    let last = |path: &str| writes.iter().rposition(|write| write.who == MEMBERS[0] && write.path.starts_with(path));
    let events = api.list(EVENTS).await;
    let found = events.iter().filter(|event| event["reason"] == "SuccessfulCreate").count();
    if found != sent {
        broken.push(format!("{found} Events were sent, expected {sent}"));
    }
    let (event, lease) = (last(EVENTS), last(&format!("{LEASES}/muster")));
    if lease < event {
        broken.push(format!("the group's Lease was given back by write {lease:?}, the last Event is {event:?}"));
    }
    let lease = api.get(&format!("{LEASES}/muster")).await.unwrap();
    if !lease["spec"]["holderIdentity"].as_str().unwrap_or_default().is_empty() {
        broken.push(format!("the group's Lease is still held: {lease}"));
    }
    world.stop().await;
    broken
}

/// A write whose answer was lost may arrive for the Lease's time, and the shard is given away after that. Were the process to end
/// before, the Lease's time would begin with its end.
///
/// Contract: SH-02, SH-03
#[test]
fn an_orderly_end_waits_for_a_write_without_an_answer_until_it_cannot_arrive() {
    judge(&[1], &[in_virtual_time(in_doubt())]);
}

async fn in_doubt() -> Vec<String> {
    let faults = Faults::seeded(1);
    let lost = Rule::always(Fault::AnswerLost).verbs(&[Verb::Create]).resources(&["pods"]);
    faults.add(lost.of(MEMBERS[0]));
    let world = world(1, &faults).await;
    let api = Api::of(&world);
    let first = start(&world, MEMBERS[0], 1, 0);
    let replicaset = |replicas: u64| {
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web"}]}},
            },
        })
    };
    assert_eq!(api.post(SETS, &replicaset(1)).await.0, 201);
    let ready = |replicaset: &Value| replicaset["status"]["readyReplicas"] == 1;
    world.until(&format!("{SETS}/web"), Duration::from_secs(60), ready).await.unwrap();
    let second = start(&world, MEMBERS[1], 1, 0);
    pass(Duration::from_secs(5)).await;
    assert_eq!(api.merge(&format!("{SETS}/web"), &replicaset(2)).await.0, 200);
    pass(Duration::from_millis(200)).await;
    let (told, town) = (millis(&world), Town::of(&world));
    first.stop();
    let mut broken = Vec::new();
    broken.extend(first.ended().await.err().map(|lost| lost.to_string()));
    broken.extend(town.is_even(&MEMBERS[1..2], 1, Duration::from_secs(20)).await.err());
    let took = millis(&world) - told;
    if !(14_000..=16_000).contains(&took) {
        broken.push(format!("the other had the shard after {took} ms"));
    }
    drop(second);
    world.stop().await;
    broken
}

/// People delete Leases of the group while everything rolls: of shards, of members, and the group's. Nothing is written
/// twice, and after the Lease's time all shards have somebody again.
///
/// Contract: SH-02
#[test]
fn leases_that_are_deleted_by_hand_are_made_again() {
    let seeds = seeds(4);
    judge(&seeds, &each(&seeds, |seed| in_virtual_time(tamper(*seed))));
}

async fn tamper(seed: u64) -> Vec<String> {
    let mut random = Random::seeded(seed);
    let faults = Faults::seeded(seed);
    faults.add(Rule::always(Fault::Delay(Duration::ZERO..Duration::from_millis(50))));
    let world = world(seed, &faults).await;
    let watcher = Watcher::start(&world).await.unwrap();
    let members: Vec<Candidate> = MEMBERS[..3].iter().map(|name| start(&world, name, SHARDS, 0)).collect();
    let (town, api) = (Town::found(&world, &mut random).await, Api::of(&world));
    let mut broken = Vec::new();
    broken.extend(town.settles(Duration::from_secs(60)).await.err());
    for _ in 0..8 {
        town.roll(&mut random, 3).await;
        let leases = api.list(LEASES).await;
        for _ in 0..=random.below(3) {
            let kinds = ["-shard-", "-member-", ""];
            let kind = *random.pick(&kinds);
            let of_kind = |lease: &&muster_tree::Value| match kind {
                "" => crate::common::name(lease) == "muster",
                kind => crate::common::name(lease).contains(kind),
            };
            let names: Vec<&str> = leases.iter().filter(of_kind).map(crate::common::name).collect();
            api.delete(&format!("{LEASES}/{}", random.pick::<&str>(&names)), None).await;
        }
        pass(Duration::from_millis(random.below(12_000))).await;
    }
    broken.extend(town.is_even(&MEMBERS[..3], SHARDS, Duration::from_secs(40)).await.err());
    broken.extend(town.settles(Duration::from_secs(60)).await.err());
    broken.extend(verdict(&world, &watcher, &faults, &MEMBERS).broken);
    broken.extend(members.iter().filter(|member| member.has_ended()).map(|_| "a member has given up".to_owned()));
    drop(members);
    world.stop().await;
    broken
}
