//! Plays a case in virtual time, and judges it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_inspect::explain::Role;
use muster_inspect::history::History;
use muster_inspect::inside;
use muster_objects::ObjectKey;
use muster_runtime::explain::{Explainer, Kind};
use muster_tree::{Value, json};
use tokio::time::Instant;

use super::ends::{ends, is_any_fated, is_good};
use super::operation::{Scene, Undone, heal_nodes};
use super::processes::{Processes, is_idle};
use super::settled::{BACKOFF, settled};
use super::{Act, Case, panics};
use crate::api::{Api, DEPLOYMENTS, controller, name, number};
use crate::faults::{Fault, Faults, Struck};
use crate::history::Write;
use crate::laws::rest::Rest;
use crate::laws::{self, Broken, Done, Evidence, Law, Seen, Watcher};
use crate::world::{CONTROLLERS, EPOCH_NANOS, World};

/// By which of its ends a rollout has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Every pod is of the last template, and available.
    Complete,
    /// `progressDeadlineSeconds` have passed without progress.
    DeadlineExceeded,
}

/// What is left of a case.
#[derive(Debug, Default)]
pub struct Played {
    /// How the rollout of the last template ended, or whether all workloads came to be as asked; none where they did not.
    pub end: Option<End>,
    /// The laws that were broken, the first one first.
    pub broken: Vec<Broken>,
    /// What became of the objects, in the order in which it was written.
    pub seen: Vec<Seen>,
    /// Where a law was broken: what the controllers decided in their last syncs of the Deployment and of its ReplicaSets.
    pub decided: Vec<History>,
    /// How many syncs each rule of the contract had a part in; of several managers, of those that were there at the end.
    pub rules: BTreeMap<String, u64>,
    /// Every write.
    pub writes: Vec<Write>,
    /// What struck requests and watches.
    pub struck: Vec<Struck>,
    /// How many requests, watches and objects were struck.
    pub strikes: u64,
    /// Which of the case's faults struck nothing, and how many requests or pieces of watches they were about.
    pub idle: Vec<(usize, u64)>,
    /// Which of the case's operations were not done, and why.
    pub undone: Vec<(usize, Undone)>,
    /// Virtual time from the beginning to the end.
    pub lasted: Duration,
    /// How often another of several managers wrote for a namespace than before.
    pub changes: usize,
}

impl Played {
    /// Why the first object that was not created was not. Then nothing else was judged.
    #[must_use]
    pub fn not_created(&self, case: &Case) -> Option<&Undone> {
        not_created(case, &self.undone)
    }
}

fn not_created<'u>(case: &Case, undone: &'u [(usize, Undone)]) -> Option<&'u Undone> {
    let is_creation = |nth: usize| matches!(case.operations[nth].act, Act::Create(_));
    undone.iter().find(|(nth, _)| is_creation(*nth)).map(|(_, why)| why)
}

/// What the stack of a thread must hold, in bytes, for it to play a case: what clients send nests deep, and is gone through by
/// recursion. What is not used of it takes no memory.
pub const STACK: usize = 16 << 20;

/// Plays a case on this thread, in a virtual time of its own.
///
/// # Errors
/// If a runtime cannot be built, or if the world cannot be started, which in one process means that it is broken.
pub fn play_alone(case: &Case) -> Result<Played, PlayError> {
    panics::judged(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
        Ok(runtime.block_on(play(case, case.most_requests()))?)
    })
    .map(|mut played| {
        if played.broken.is_empty() {
            played.decided.clear();
        }
        played
    })
}

/// Why a case was not played.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The system gives no more.
    #[error("a runtime cannot be built: {0}")]
    Runtime(#[from] std::io::Error),
    /// The server in this process refuses.
    #[error("the world cannot be started: {0}")]
    World(#[from] muster_runtime::client::ClientError),
}

/// Plays a case and judges it, but for panics. To be called inside a current-thread runtime whose time is paused. With more requests
/// than `most` within a second it is cut short, and breaks the law `ends`.
///
/// # Errors
/// If the world cannot be started, which in one process means that it is broken.
async fn play(case: &Case, most: usize) -> Result<Played, muster_runtime::client::ClientError> {
    let begun = Instant::now();
    let faults = Faults::seeded(case.seed);
    // Undisturbed, nothing stands between the controllers and the server.
    let on_the_way = (!case.is_undisturbed()).then(|| faults.clone());
    let world = World::start(crate::Settings { faults: on_the_way, ..case.settings() }).await?;
    // A world that is not there yet has no history that could be judged.
    case.faults.iter().for_each(|rule| faults.add(rule.clone()));
    let watcher = Watcher::start(&world).await?;
    let played = tokio::select! {
        biased;
        () = world.history().exceed(most) => None,
        played = from_start_to_end(case, begun, &world, &watcher, &faults) => Some(played),
    };
    let Some(mut played) = played else { return Ok(without_an_end(most, begun, &world, &watcher, &faults)) };
    world.stop().await;
    played.struck = faults.struck();
    Ok(played)
}

/// What is left of a history that was cut short, since somebody sends one request after the other and no time passes. Its tasks are not
/// waited for: they end with the runtime.
fn without_an_end(most: usize, begun: Instant, world: &World, watcher: &Watcher, faults: &Faults) -> Played {
    // As much as a person reads.
    const SOME: usize = 200;
    let (writes, mut seen) = (world.history().since(0), watcher.end());
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for write in writes.iter().rev().take(most) {
        *kinds.entry(format!("{} {} by {}", write.method, write.resource(), write.who)).or_default() += 1;
    }
    let what = kinds.iter().max_by_key(|(_, times)| **times).map(|(what, times)| format!(", {times} of them {what}"));
    let how = format!("more than {most} requests within a second{}, and no end", what.unwrap_or_default());
    seen.truncate(SOME);
    let decided = decided(&[world.explainer().clone()], &seen);
    Played {
        broken: vec![Broken::at_the_end(Law::Ends, &how)],
        rules: rules(&decided),
        seen,
        decided,
        writes,
        struck: faults.struck(),
        strikes: faults.strikes(),
        lasted: begun.elapsed(),
        ..Played::default()
    }
}

/// Plays a case in its world, and judges it; what has struck is still to be added.
async fn from_start_to_end(case: &Case, begun: Instant, world: &World, watcher: &Watcher, faults: &Faults) -> Played {
    let mut scene = Scene {
        world,
        watcher,
        faults,
        processes: Processes::start(world, case),
        remembered: None,
        done: Done::default(),
    };
    let mut undone = Vec::new();
    for (nth, operation) in case.operations.iter().enumerate() {
        scene.processes.until(begun + operation.at).await;
        undone.extend(scene.act(&operation.act).await.err().map(|why| (nth, why)));
    }
    let Scene { done, mut processes, .. } = scene;
    let rollout = deployment_of(case).filter(|_| case.is_rollout());
    if not_created(case, &undone).is_some() || rollout.is_none() && !case.has_workloads() {
        drop(processes);
        let (writes, strikes) = (world.history().since(0), faults.strikes());
        return Played { writes, strikes, undone, lasted: begun.elapsed(), ..Played::default() };
    }
    processes.until(begun + case.faults_end()).await;
    // Those of managers that were cut off come behind those of the case.
    let met: Vec<_> = faults.met().into_iter().take(case.faults.len()).collect();
    let stays_behind = case.faults.iter().zip(&met).any(|(rule, met)| rule.fault.is_behind() && met.struck > 0);
    let idle = met.iter().enumerate().filter(|(_, met)| met.struck == 0).map(|(nth, met)| (nth, met.times)).collect();
    faults.end();
    processes.heal();
    let api = Api::of(world);
    // A case that was cut short still comes to its end.
    world.set_nodes(case.nodes);
    heal_nodes(api).await;
    // From here on, or from the beginning, what happens is told at once; never by a watch that is behind, which stays so.
    let over = if case.is_undisturbed() { 0 } else { millis(world) };
    let told_from = match stays_behind {
        true => i64::MAX,
        false => over + i64::try_from(case.news().as_millis()).unwrap_or(i64::MAX),
    };

    if case.waits_for_resync() {
        processes.until(Instant::now() + case.news()).await;
    }
    resume(api).await;
    let (end, mut broken) = match &rollout {
        Some(web) => rollout_ends(world, watcher, case, web).await,
        None => match settled(api, watcher, &mut processes, case.settles_within()).await {
            Ok(()) => (Some(End::Complete), Vec::new()),
            // As of a rollout.
            Err(_) if case.forgets() => (None, Vec::new()),
            Err(last) => (None, vec![Broken::at_the_end(Law::Ends, &last)]),
        },
    };
    // A pod with a fate of its own goes on crashing, and is told of.
    let good = match &rollout {
        Some(web) => is_good(&api.get(web).await.unwrap_or_default()) && !is_any_fated(api).await,
        None => true,
    };
    if end == Some(End::Complete) && good {
        // Long enough for statuses, Events and the history's end. An Event that had no answer is tried again 11 times,
        // 10 s apart.
        let events_end = Duration::from_secs(if case.is_undisturbed() { 30 } else { 180 });
        // A pod may have come in the place of another since the rollout was complete.
        let events_end = events_end.saturating_add(longest_min_ready(api).await);
        broken.extend(unrest(world, watcher, &mut processes, events_end + case.news(), case.news()).await);
    }
    let writes = world.history().since(0);
    let explainers = if case.managers.is_some() { processes.explainers() } else { vec![world.explainer().clone()] };
    let absences = processes.end();
    let at_rest = end == Some(End::Complete) && good;
    let unseen = case.orphans() && !case.is_undisturbed();
    broken.extend(laws::rest::check(&Rest::of(api, millis(world), unseen).await, at_rest));
    let strikes = faults.strikes() + done.times;
    let evidence = Evidence {
        done,
        told_from,
        unsure_from: unsure_from(faults),
        disturbed_from: disturbed_from(case, faults),
        ..Evidence::of(&writes, faults, &is_manager)
    };
    let seen = watcher.end();
    if case.is_undisturbed() {
        let conflicts = conflicts(&writes, &seen).into_iter();
        broken.extend(conflicts.map(|write| Broken::by_request(Law::Conflict, write, " conflicts")));
    }
    broken.extend(match &rollout {
        Some(_) => [laws::rollout::check(&seen, &evidence), laws::step::check(&seen, &evidence)].concat(),
        None => [laws::workloads::check(&seen, &evidence), laws::recreate::check(&seen, &evidence)].concat(),
    });
    broken.extend(laws::own::check(&seen, &evidence));
    if case.answers_at_once() {
        broken.extend(laws::own::check_adoptions(&seen));
        if rollout.is_some() {
            broken.extend(laws::reported::check(&seen, &evidence));
        }
    }
    broken.extend(laws::cleanup::check(&writes, &seen, is_manager));
    if case.managers.is_none() {
        broken.extend(laws::past::check(&writes, &seen, evidence.disturbed_from, is_manager));
    }
    broken.extend(laws::made::check(&writes, &seen, is_manager, case.is_undisturbed()));
    if case.is_undisturbed() && case.managers.is_none() {
        broken.extend(laws::back_off::check(&seen));
    }
    let mut changes = 0;
    if case.managers.is_some() {
        let verdict = laws::writers::check(&writes, is_manager);
        changes = verdict.changes;
        broken.extend(verdict.broken);
        if let Some(patience) = case.takes_over_within() {
            broken.extend(absences.not_taken_over(patience, &writes));
        }
    }
    let broken = laws::in_order(broken);
    let lasted = begun.elapsed();
    let decided = decided(&explainers, &seen);
    let rules = rules(&decided);
    Played { end, broken, seen, decided, rules, writes, struck: Vec::new(), strikes, idle, undone, lasted, changes }
}

/// What the controllers still write or have to do though all is complete, if they do not come to rest within this time.
async fn unrest(
    world: &World,
    watcher: &Watcher,
    processes: &mut Processes<'_>,
    within: Duration,
    news: Duration,
) -> Vec<Broken> {
    if comes_to_rest(watcher, processes, within, news).await {
        return Vec::new();
    }
    let before = world.history().len();
    processes.until(Instant::now() + Duration::from_secs(300)).await;
    let after = world.history().since(before);
    let still = after.iter().filter(|write| is_ours(write) && write.resource() != "leases");
    let written =
        still.map(|write| Broken::by_request(Law::Quiet, write, " though all is complete")).collect::<Vec<_>>();
    written.into_iter().chain(restless(processes).await).collect()
}

/// Waits until the controllers have seen everything, nothing is queued, due or expected, and no pod is on its way: then nothing is
/// written any more, unless somebody does something. False where that has not come within this time. Of several managers none
/// sees everything: they have when they have been told, after `news`.
async fn comes_to_rest(watcher: &Watcher, processes: &mut Processes<'_>, within: Duration, news: Duration) -> bool {
    const LOOK_EVERY: Duration = Duration::from_secs(1);
    let begun = Instant::now();
    let mut rests = false;
    // A key that has failed again and again is not done, and waits for its time (WQ-03).
    while begun.elapsed() < within || processes.waits() && begun.elapsed() < within.saturating_add(BACKOFF) {
        processes.until(Instant::now() + LOOK_EVERY).await;
        let insides = processes.insides();
        let is_told = match &insides[..] {
            [alone] if processes.is_of_one() => watcher.is_all_seen(&alone.informers),
            _ => begun.elapsed() >= news && watcher.is_all_seen(&[]),
        };
        let restful = is_told && is_idle(&insides);
        // What an event has begun shows at the second look.
        if restful && rests {
            return true;
        }
        rests = restful;
    }
    false
}

/// The longest `minReadySeconds` of a Deployment.
async fn longest_min_ready(api: Api<'_>) -> Duration {
    let deployments = api.list("/apis/apps/v1/deployments").await;
    let seconds = deployments.iter().map(|deployment| number(deployment, "/spec/minReadySeconds")).max();
    Duration::from_secs(seconds.unwrap_or_default().try_into().unwrap_or_default())
}

/// What the controllers still have to do, if at no moment of the next seconds that is nothing. A key that is due later has nothing to do
/// until then: the deadline of a rollout stays in the queue when that is complete.
async fn restless(processes: &mut Processes<'_>) -> Option<Broken> {
    const LOOKS: usize = 12;
    const SOON: Duration = Duration::from_secs(10);
    let mut left = Vec::new();
    for _ in 0..LOOKS {
        let insides = processes.insides();
        let unmet = insides.iter().flat_map(|inside| &inside.expectations);
        let unmet = unmet.map(|owner| format!("{} {}/{} is expected", owner.kind, owner.namespace, owner.name));
        let keys = insides.iter().flat_map(|inside| &inside.queues).flat_map(|queue| {
            let busy = queue.keys.iter().filter(|key| key.on.is_some() || key.due.is_none_or(|due| due <= SOON));
            busy.map(|key| {
                let inside::Key { namespace, name, state, on, due, retries, .. } = key;
                format!(
                    "{} {namespace}/{name} is {state:?} (on {on:?}, due in {due:?}, failed {retries} times)",
                    queue.kind
                )
            })
        });
        left = unmet.chain(keys).collect();
        if left.is_empty() {
            return None;
        }
        processes.until(Instant::now() + Duration::from_secs(1)).await;
    }
    Some(Broken::at_the_end(Law::Rest, &format!("{}, though all is complete", left.join(", "))))
}

/// Has paused Deployments go on: they would have no end.
async fn resume(api: Api<'_>) {
    for deployment in api.list("/apis/apps/v1/deployments").await {
        if deployment["spec"]["paused"] == true {
            let namespace = deployment["metadata"]["namespace"].as_str().unwrap_or_default();
            let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{}", name(&deployment));
            api.merge(&path, &json!({"spec": {"paused": null}})).await;
        }
    }
}

/// How the rollout of one Deployment ends, and what of that breaks a law.
async fn rollout_ends(world: &World, watcher: &Watcher, case: &Case, web: &str) -> (Option<End>, Vec<Broken>) {
    match ends(world, watcher, case, web).await {
        Ok(end) => (Some(end), Vec::new()),
        // What was done is judged.
        Err(_) if case.forgets() => (None, Vec::new()),
        Err(last) => (None, vec![Broken::at_the_end(Law::Ends, &format!("no end: {last}"))]),
    }
}

/// What was decided of whatever was seen, as far as those remember it that are there.
fn decided(explainers: &[Explainer], seen: &[Seen]) -> Vec<History> {
    let of_kind = |seen: &Seen| match seen.kind {
        laws::Kind::Deployment => Some(Kind::Deployment),
        laws::Kind::ReplicaSet => Some(Kind::ReplicaSet),
        laws::Kind::ReplicationController => Some(Kind::ReplicationController),
        laws::Kind::Pod => None,
    };
    let mut objects = BTreeMap::new();
    for seen in seen {
        let Some(kind) = of_kind(seen) else { continue };
        let namespace = seen.object["metadata"]["namespace"].as_str().unwrap_or_default();
        objects.insert((seen.kind, namespace, name(&seen.object)), kind);
    }
    let told = objects.into_iter().flat_map(|((_, namespace, name), kind)| {
        let key = ObjectKey::new(namespace, name);
        explainers.iter().filter_map(move |explainer| explainer.history(kind, &key, Role::Unelected, None).ok())
    });
    told.collect()
}

/// How many syncs each rule had a part in.
fn rules(decided: &[History]) -> BTreeMap<String, u64> {
    let mut rules = BTreeMap::new();
    for sync in decided.iter().flat_map(|history| &history.syncs) {
        let named: BTreeSet<&str> = sync.why.iter().map(|reason| reason.rule.as_str()).collect();
        named.into_iter().for_each(|rule| *rules.entry(rule.to_owned()).or_default() += u64::from(sync.count));
    }
    rules
}

/// When an event first did not come.
fn unsure_from(faults: &Faults) -> Option<i64> {
    faults.struck().into_iter().find(|struck| struck.fault == Fault::EventLost).map(|lost| since_epoch(lost.at))
}

/// When a fault first struck the controllers, or the server was away, or others began to write what the controllers do.
fn disturbed_from(case: &Case, faults: &Faults) -> Option<i64> {
    let struck = faults.struck().into_iter().find(|struck| is_manager(&struck.who)).map(|struck| struck.at);
    let disturbs =
        |act: &Act| matches!(act, Act::ServerAway | Act::Restore | Act::Resize { .. } | Act::OtherPod { .. });
    let operation = case.operations.iter().find(|operation| disturbs(&operation.act)).map(|operation| operation.at);
    struck.into_iter().chain(operation).min().map(since_epoch)
}

fn since_epoch(at: Duration) -> i64 {
    EPOCH_NANOS / 1_000_000 + i64::try_from(at.as_millis()).unwrap_or(i64::MAX)
}

fn millis(world: &World) -> i64 {
    world.client().clock().now().as_nanos() / 1_000_000
}

/// The path of the Deployment that the case is about: the first that is created.
fn deployment_of(case: &Case) -> Option<String> {
    let mut created = case.operations.iter().filter_map(|operation| match &operation.act {
        Act::Create(object) if object["kind"] == "Deployment" => Some(name(object)),
        _ => None,
    });
    created.next().map(|name| format!("{DEPLOYMENTS}/{name}"))
}

/// The writes of the controllers that were refused with 409, but for the deletion of a pod that somebody else has written within the
/// last second: it is read, and deleted or left (B-02); and for the creation of a ReplicaSet whose name another owner's has (DEP-05).
fn conflicts<'w>(writes: &'w [Write], seen: &[Seen]) -> Vec<&'w Write> {
    let is_of =
        |pod: &str, path: &str| path.strip_prefix(pod).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let is_taken = |refused: &Write| {
        let made = refused.made.as_deref().and_then(|body| serde_json::from_slice(body).ok());
        let Some(set): Option<Value> = made.filter(|_| refused.resource() == "replicasets") else { return false };
        let owner = |set: &Value| controller(set).map(|owner| owner["uid"].clone());
        let earlier = seen.iter().rev().filter(|seen| seen.millis <= refused.millis);
        let mut holders =
            earlier.filter(|seen| seen.kind == laws::Kind::ReplicaSet && name(&seen.object) == name(&set));
        holders.next().is_some_and(|holder| owner(&holder.object) != owner(&set))
    };
    let excused = |at: usize, refused: &Write| {
        let deletes = refused.method == http::Method::DELETE && refused.resource() == "pods";
        let earlier = writes[..at].iter().rev().take_while(|write| write.millis + 1_000 >= refused.millis);
        let last = earlier.filter(|write| write.status < 300).find(|write| is_of(&refused.path, &write.path));
        deletes && last.is_some_and(|last| !is_manager(last.who)) || is_taken(refused)
    };
    let refused = writes.iter().enumerate().filter(|(_, write)| is_manager(write.who) && write.status == 409);
    refused.filter(|(at, write)| !excused(*at, write)).map(|(_, write)| write).collect()
}

/// Whether the controllers sent it.
fn is_ours(write: &&Write) -> bool {
    is_manager(write.who)
}

/// Whether it is the name of the controllers' process, or of one of several.
pub(super) fn is_manager(who: &str) -> bool {
    who.strip_prefix(CONTROLLERS).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Profile;
    use crate::faults::{Refusal, Rule, Verb};

    /// A status that is refused for ever is tried again for ever: of that nothing is seen where all is as asked.
    ///
    /// Contract: SI-02
    #[tokio::test(start_paused = true)]
    async fn whoever_still_has_something_to_do_is_told() {
        let case = Case { operations: Vec::new(), ..Profile::Rollouts.case(1, None) };
        let refused =
            Rule::always(Fault::Refuse(Refusal::InternalError)).verbs(&[Verb::Patch]).resources(&["replicasets"]);
        for (rules, busy) in
            [(vec![], None), (vec![refused.of(CONTROLLERS)], Some("ReplicaSet default/web is Waiting"))]
        {
            let faults = Faults::seeded(1);
            rules.into_iter().for_each(|rule| faults.add(rule));
            let world =
                World::start(crate::Settings { faults: Some(faults), ..case.settings() }).await.expect("a world");
            let labels = json!({"app": "web"});
            let template =
                json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
            let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template});
            let set = json!({"metadata": {"name": "web"}, "spec": spec});
            let watcher = Watcher::start(&world).await.expect("a watcher");
            Api::of(&world).post("/apis/apps/v1/namespaces/default/replicasets", &set).await;
            let mut processes = Processes::start(&world, &case);
            let told = unrest(&world, &watcher, &mut processes, Duration::from_secs(120), Duration::ZERO).await;
            match busy {
                None => assert_eq!(told, []),
                // Whoever is refused writes nothing.
                Some(busy) => {
                    let [told] = &told[..] else { panic!("{told:?}") };
                    assert!(told.law == Law::Rest && told.how.contains(busy), "{told}");
                }
            }
            // The server stops once nobody watches any more.
            let _ = watcher.end();
            world.stop().await;
        }
    }

    /// Who sends one request after the other keeps virtual time from passing, so that no deadline ends it.
    #[tokio::test(start_paused = true)]
    async fn a_history_with_requests_without_a_pause_is_ended() {
        let case = Profile::Rollouts.case(1, None);
        let played = play(&case, 40).await.expect("a world");
        let [broken] = &played.broken[..] else { panic!("{:?}", played.broken) };
        assert_eq!(broken.law, Law::Ends);
        assert!(broken.how.starts_with("more than 40 requests within a second, "), "{broken}");
        assert!(broken.how.ends_with(", and no end") && !played.seen.is_empty(), "{broken}");
        assert!(play(&case, case.most_requests()).await.expect("a world").broken.is_empty());
    }
}
