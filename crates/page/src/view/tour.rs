//! The tour's view: one step, its buttons, and what happens (PG-05).

use std::time::Duration;

use maud::{Markup, html};
use muster_controllers::deployment::revision::revision;
use muster_inspect::history::{History, On, Sync};
use muster_objects::meta::ObjectKey;
use muster_runtime::explain::Kind;

use super::owner::{Owner, Rank};
use super::why::of_sync;
use super::{Fragment, Path, Scene, rule_link};
use crate::pods::State;
use crate::tour::{HOLD, NAMESPACE, STEPS, Step};

/// How many syncs are shown.
const MOST_SYNCS: usize = 6;

pub(crate) async fn render(scene: &Scene, number: usize) -> Vec<Fragment> {
    let step = &STEPS[number - 1];
    let (Some(stage), Some(_)) = (&scene.stage, &scene.insight) else {
        let none = html! { p.note { "The tour is one of an embedded cluster: " code { "muster up --page --tour" } } };
        return vec![Fragment::of("view", "none", none)];
    };
    let (kind, name) = step.looked_at;
    let key = ObjectKey::new(NAMESPACE, name);
    let history = scene.history(kind, &key).await.and_then(Result::ok);
    let seen = owner(scene, kind, &key);
    let managers = stage.managers();
    let now = is_done(scene, number, seen.as_ref(), history.as_ref());
    let done = {
        let mut progress = scene.progress();
        progress.done[number - 1] |= now;
        progress.done[number - 1]
    };
    let mut fragments = vec![
        Fragment::of("view", "step", told(scene, number, step)),
        Fragment::of(
            "view",
            "goal",
            html! {
                p.goal.done[done] role="status" {
                    @if done { "✓ Done: " } @else { "Waiting until: " } (step.goal) "."
                    @if done && number < STEPS.len() { " " a href={ "/tour?step=" (number + 1) } { "Next step" } }
                    @if done && number == STEPS.len() { " " a href="/" { "That was the tour" } }
                }
            },
        ),
        Fragment::of(
            "view",
            "seen",
            html! {
                section {
                    @match &seen {
                        None => p.note { "There is no " (kind.resource().kind) " " (name) " yet." },
                        Some(owner) => {
                            h2 { a href=(Path("rollout", kind, &key)) { (kind.resource().kind) " " (name) } }
                            (owner.bar())
                            p.note { (owner.counts()) }
                            @if !owner.sentence.is_empty() { p.sentence { (owner.sentence) } }
                        }
                    }
                    @if number == STEPS.len() {
                        ul.managers { @for (name, leads) in &managers { li { (name) @if *leads { " leads" } @else { " stands by" } } } }
                        @if managers.len() < 2 { p.note { "There is one manager only: start with --managers 2." } }
                    }
                }
            },
        ),
    ];
    if let Some(history) = &history {
        let waiting = history.waiting.as_ref().map(|waiting| waiting.on.to_string());
        fragments.push(Fragment::of(
            "view",
            "history",
            html! {
                section {
                    h2 { "What the controller did" }
                    p { a href=(Path("inside", kind, &key)) { "Follow it through the manager" } }
                    @if let Some(waiting) = waiting { p.summary { "Now it waits for " (waiting) "." } }
                    ol.timeline { @for sync in told_of(history) { li { (of_sync(sync)) } } }
                }
            },
        ));
    }
    fragments
}

fn told(scene: &Scene, number: usize, step: &Step) -> Markup {
    html! {
        section.step {
            p.note { "Step " (number) " of " (STEPS.len()) }
            h1 { (step.title) }
            @for sentence in step.text { p { (sentence) } }
            p.note { "The file that does it: " code { (step.file) } " · the rule: " (rule_link(step.row)) }
            @for (part, (label, commands)) in step.parts.iter().enumerate() {
                form.act data-act="tour" {
                    input type="hidden" name="step" value=(number) data-number="";
                    input type="hidden" name="part" value=(part) data-number="";
                    button type="submit" { (label) }
                    code { @for it in *commands { (it.text(&scene.reach)) "\n" } }
                }
            }
            nav.steps aria-label="Steps" {
                @for (at, step) in STEPS.iter().enumerate() {
                    a href={ "/tour?step=" (at + 1) } aria-current=[(at + 1 == number).then_some("step")] title=(step.title) aria-label=(format!("Step {}: {}", at + 1, step.title)) { (at + 1) }
                }
            }
        }
    }
}

fn owner(scene: &Scene, kind: Kind, key: &ObjectKey) -> Option<Owner> {
    let model = &scene.model;
    match kind {
        Kind::Deployment => {
            let deployment = model.deployments.read().get(key).cloned()?;
            let sets = model.sets_by_owner().remove(&deployment.meta.uid).unwrap_or_default();
            Some(Owner::of_deployment(&deployment, &sets, &model.book()))
        }
        Kind::ReplicaSet => {
            let set = model.sets.read().get(key).cloned()?;
            Some(Owner::of_set(&set, &model.book()))
        }
        Kind::ReplicationController => {
            let found = model.controllers.read().get(key).cloned()?;
            Some(Owner::of_controller(&found, &model.book()))
        }
    }
}

/// Whether what a step waits for has happened.
fn is_done(scene: &Scene, number: usize, seen: Option<&Owner>, history: Option<&History>) -> bool {
    let Some(seen) = seen else { return false };
    let model = &scene.model;
    let since = *scene.progress().since[number - 1].get_or_insert(model.time());
    let syncs = || history.iter().flat_map(|history| &history.syncs).filter(move |sync| sync.until >= since);
    let ready = |count| seen.wanted == count && seen.ready == count && seen.created == count && seen.terminating == 0;
    // For a moment each sync waits: those count that are the held watch's.
    let waited = |on: fn(&On<'_>) -> bool| {
        let counts = |what: &On<'_>, time: Duration| on(what) && time * 2 > HOLD;
        history.is_some_and(|history| {
            history.syncs.iter().any(|sync| sync.waits.iter().any(|wait| counts(&wait.on, wait.time)))
                || history.waiting.as_ref().is_some_and(|waiting| counts(&waiting.on, waiting.time))
        })
    };
    let key = &seen.key;
    let sets = || {
        let uid = model.deployments.read().get(key).map(|deployment| deployment.meta.uid.clone());
        uid.and_then(|uid| model.sets_by_owner().remove(&uid)).unwrap_or_default()
    };
    match number {
        1 => ready(15),
        2 => ready(5),
        3 => syncs().any(|sync| sync.writes.iter().any(|write| write.action == "adopt")),
        4 => waited(|on| matches!(on, On::Cache { .. })),
        5 => waited(|on| matches!(on, On::Expectations)),
        6 => seen.rank == Rank::Complete && sets().iter().any(|set| revision(set) >= Some(2)),
        7 => {
            let sets = sets();
            let broke = model
                .book()
                .steps()
                .any(|step| step.after == Some(State::Broken) && sets.iter().any(|set| set.meta.uid == step.owner));
            broke && seen.rank == Rank::Complete
        }
        _ => {
            let managers = scene.stage.as_ref().map(|stage| stage.managers()).unwrap_or_default();
            let leader = managers.into_iter().find(|(_, leads)| *leads).map(|(name, _)| name);
            let mut progress = scene.progress();
            if progress.led.is_none() {
                progress.led.clone_from(&leader);
            }
            ready(12) && leader.is_some() && leader != progress.led
        }
    }
}

/// The last syncs that wrote or waited for something; where there is none of those the last ones.
fn told_of(history: &History) -> Vec<&Sync<'static>> {
    let matters = |sync: &&Sync<'static>| {
        let waited = sync.waits.iter().any(|wait| !matches!(wait.on, On::Queue | On::Work));
        waited || sync.error.is_some() || sync.writes.iter().any(|write| write.action != "status")
    };
    let last: Vec<&Sync<'static>> = history.syncs.iter().rev().filter(matters).take(MOST_SYNCS).collect();
    if last.is_empty() { history.syncs.iter().rev().take(MOST_SYNCS).collect() } else { last }
}
