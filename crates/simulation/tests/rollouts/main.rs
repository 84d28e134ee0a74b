//! Random rollouts in virtual time, and what must hold after every single write of them.
//!
//! `MUSTER_CASES` says how many; the seeds are counted from `MUSTER_SEED`, or from 1.

#[path = "../common/mod.rs"]
mod common;
mod crossed;
mod incidents;
mod laws;
#[path = "../common/sizes.rs"]
mod sizes;
mod story;
mod timeline;
mod watcher;
#[path = "../common/weather.rs"]
mod weather;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::Method;
use muster_simulation::world::CONTROLLERS;
use muster_simulation::{Faults, Settings, Verb, World, Write};
use serde_json::Value;

use common::{Api, PODS, SETS, each, in_virtual_time, name, pass, seeds};
use crossed::{Forecast, Sky};
use laws::{Evidence, Laws};
use story::{End, Story};
use watcher::Watcher;

/// What is left of a story.
pub(crate) struct Told {
    sky: Sky,
    end: Option<End>,
    /// The laws that it broke.
    broken: Vec<String>,
    lines: Vec<String>,
    /// How many requests and watches were struck.
    strikes: u64,
}

/// However a rollout is disturbed: there are never more pods than replicas and surge allow, nor do the controllers
/// leave fewer available than must be; a Recreate never has old and new pods running together; revisions only rise;
/// the rollout ends complete or at its deadline; once it is complete nothing is written; and the controllers never
/// conflict with each other.
///
/// Contract: DEP-07, DEP-09 to DEP-12, DEP-17, DEP-18, DEP-24, RS-19, B-03, B-04, B-05
#[test]
fn random_rollouts_keep_their_bounds_and_end() {
    let seeds = seeds(30);
    judge(&seeds, &each(&seeds, |seed| in_virtual_time(tell(*seed, Sky::Clear))));
}

/// Fails with what each of the seeds broke, if any did.
pub(crate) fn judge(seeds: &[u64], told: &[Told]) {
    let ends = |end| told.iter().filter(|told| told.end == Some(end)).count();
    let (complete, late) = (ends(End::Complete), ends(End::DeadlineExceeded));
    let strikes: u64 = told.iter().map(|told| told.strikes).sum();
    println!("{complete} complete, {late} at their deadline, {strikes} strikes");
    let mut broken = String::new();
    for (seed, told) in seeds.iter().zip(told).filter(|(_, told)| !told.broken.is_empty()) {
        let some = told.broken.iter().take(4).map(|law| format!("\n  {law}"));
        let (sky, all) = (told.sky.name(), told.broken.len());
        broken += &format!("\nseed {seed}, {sky}, {all} in all:{}", some.collect::<String>());
    }
    assert!(broken.is_empty(), "{broken}");
    assert!(seeds.len() < BOTH_ENDS || (complete > 0 && late > 0), "one of the two ends never came");
}

/// Among so many stories some end complete, and some at their deadline.
const BOTH_ENDS: usize = 30;

#[test]
fn the_same_seed_gives_the_same_rollout_byte_for_byte() {
    let told = each(&[3, 3, 4, 4], |seed| in_virtual_time(tell(*seed, Sky::Clear)).lines);
    for pair in told.chunks(2) {
        assert!(pair[0].len() > 100);
        assert_eq!(pair[0], pair[1]);
    }
    assert_ne!(told[0], told[2]);
}

/// Lives the story of a seed and judges it.
pub(crate) async fn tell(seed: u64, sky: Sky) -> Told {
    let mut story = Story::of(seed);
    let faults = Faults::seeded(seed);
    // In good weather nothing stands between the controllers and the server.
    let on_the_way = (!sky.is_clear()).then(|| faults.clone());
    let settings = Settings { faults: on_the_way, ..story.settings.clone() };
    let world = World::start(settings).await.unwrap();
    let watcher = Watcher::start(&world).await;
    let weather = Forecast::of(seed, sky).pass(&faults, &world, &watcher);
    let ((), done) = tokio::join!(story.live(&world), weather);
    // From here on, or from the beginning, what happens is told at once.
    let over = world.client().clock().now().as_nanos() / 1_000_000;
    let told_from = if sky.is_clear() { 0 } else { over } + i64::try_from(sky.news().as_millis()).unwrap();
    let ended = story.ends(&world, sky).await;
    let mut broken = Vec::new();
    let end = match ended {
        Ok(end) => Some(end),
        // A watch that is resumed from a version that the restored server has passed by then shows nothing of what was
        // lost, here as with client-go: until the audit at the resync (B-07) nobody knows. What was done is judged.
        Err(_) if sky.is_restored() => None,
        Err(last) => {
            broken.push(format!("no end: {last}"));
            None
        }
    };

    // A pod with a fate of its own goes on crashing, and is told of.
    let fated = is_any_fated(&world).await;
    if end == Some(End::DeadlineExceeded) && story.ends_well && !fated {
        broken.push("the last template is good, and was not rolled out in time".to_owned());
    }
    if end == Some(End::Complete) && story.ends_well && !fated {
        // Long enough for statuses, Events and the history's end. An Event that was refused is tried again 11 times,
        // 10 s apart.
        let events_end = Duration::from_secs(if sky.is_clear() { 30 } else { 180 });
        pass(events_end.max(sky.news())).await;
        let before = world.history().len();
        pass(Duration::from_secs(300)).await;
        let after = world.history().since(before);
        broken.extend(after.iter().filter(is_ours).map(|write| format!("still writes: {write}")));
    }
    let sets = Api::of(&world).list(SETS).await;
    broken.extend(templates_twice(&sets));
    let writes = world.history().since(0);
    if sky.is_clear() {
        let conflicts = writes.iter().filter(is_ours).filter(|write| write.status == 409);
        broken.extend(conflicts.map(|write| format!("conflict: {write}")));
    }

    let mut deleted_by_controllers = deleted_by_controllers(&writes);
    // They do not know that these are gone.
    let deleted_unanswered = unanswered(&faults, Verb::Delete);
    deleted_by_controllers.retain(|pod| !deleted_unanswered.contains(pod));
    let created_unanswered = unanswered(&faults, Verb::Create);
    let sets_unanswered = sets_unanswered(&faults);
    let evidence = Evidence { deleted_by_controllers, created_unanswered, sets_unanswered, done, told_from };
    let seen = watcher.end();
    broken.extend(Laws::check(&seen, &evidence, story.min_ready));
    if std::env::var_os("MUSTER_TIMELINE").is_some() {
        println!("{}", timeline::timeline(&seen));
        for write in writes.iter().filter(|write| write.who == CONTROLLERS && write.resource() != "events") {
            println!("{write}");
        }
        for struck in faults.struck() {
            println!("{struck:?}");
        }
    }
    let lines = world.history().lines();
    let strikes = faults.strikes() + evidence.done.times;
    world.stop().await;
    Told { sky, end, broken, lines, strikes }
}

/// Whether a pod does not go on as its template has it.
pub(crate) async fn is_any_fated(world: &World) -> bool {
    let pods = Api::of(world).list(PODS).await;
    pods.iter().any(|pod| pod["metadata"]["annotations"]["muster.dev/fate"].is_string())
}

/// Whether the controllers sent it.
fn is_ours(write: &&Write) -> bool {
    write.who == CONTROLLERS
}

/// The pods that the controllers, and not somebody else, deleted first.
fn deleted_by_controllers(writes: &[Write]) -> BTreeSet<String> {
    let mut first = BTreeMap::new();
    for write in writes.iter().filter(|write| write.method == Method::DELETE && write.status == 200) {
        if write.resource() == "pods" {
            let name = write.path.rsplit('/').next().unwrap();
            first.entry(name.to_owned()).or_insert(write.who);
        }
    }
    first.into_iter().filter(|(_, who)| *who == CONTROLLERS).map(|(name, _)| name).collect()
}

/// The pods that the controllers have created, or deleted, without an answer.
fn unanswered(faults: &Faults, verb: Verb) -> BTreeSet<String> {
    let unanswered = faults.unanswered().into_iter();
    let of_pods = unanswered.filter(|each| each.target.verb == verb && each.target.resource == "pods");
    let names = of_pods.map(|each| if verb == Verb::Create { name(&each.answer).to_owned() } else { each.target.name });
    names.collect()
}

/// The versions of ReplicaSets that the controllers have written without an answer.
fn sets_unanswered(faults: &Faults) -> BTreeSet<u64> {
    let unanswered = faults.unanswered().into_iter().filter(|each| each.target.resource == "replicasets");
    unanswered.filter_map(|each| each.answer["metadata"]["resourceVersion"].as_str()?.parse().ok()).collect()
}

/// ReplicaSets with the template of another.
fn templates_twice(sets: &[Value]) -> Vec<String> {
    let mut templates = BTreeMap::new();
    let mut twice = Vec::new();
    for set in sets {
        let mut template = set["spec"]["template"].clone();
        template["metadata"]["labels"].as_object_mut().unwrap().remove("pod-template-hash");
        if let Some(other) = templates.insert(template.to_string(), name(set)) {
            twice.push(format!("{other} and {} have one template", name(set)));
        }
    }
    twice
}
