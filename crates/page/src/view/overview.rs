//! Deployments, ReplicaSets and ReplicationControllers as bars, those that are worst off first (PG-02).

use std::collections::HashSet;

use maud::html;
use muster_objects::meta::Uid;

use super::owner::{Owner, Rank};
use super::{Fragment, Path, Scene};
use crate::acts;

/// How many lines are shown at most: more than a person reads, and little for a browser.
const MOST_LINES: usize = 200;

pub(crate) fn render(scene: &Scene, query: &str) -> Vec<Fragment> {
    let model = &scene.model;
    let by_owner = model.sets_by_owner();
    let deployments = model.deployments.read();
    let known: HashSet<&Uid> = deployments.iter().map(|deployment| &deployment.meta.uid).collect();
    let (sets, controllers) = (model.sets.read(), model.controllers.read());
    let book = model.book();
    // Each owner with those that it owns in turn.
    let mut owners: Vec<(Owner, Vec<Owner>)> = Vec::new();
    let mut owned = 0;
    for deployment in deployments.iter() {
        let sets = by_owner.get(&deployment.meta.uid).map_or(&[][..], Vec::as_slice);
        owned += sets.len();
        let shown = sets.iter().filter(|set| set.replicas > 0 || book.owned(&set.meta.uid).is_some());
        let under = shown.map(|set| Owner::of_set(set, &book)).collect();
        owners.push((Owner::of_deployment(deployment, sets, &book), under));
    }
    if owned < sets.len() {
        let alone =
            sets.iter().filter(|set| set.meta.controller.as_ref().is_none_or(|owner| !known.contains(&owner.uid)));
        owners.extend(alone.map(|set| (Owner::of_set(set, &book), Vec::new())));
    }
    owners.extend(controllers.iter().map(|owner| (Owner::of_controller(owner, &book), Vec::new())));
    drop((book, sets, controllers, known));
    drop(deployments);
    let wanted = query.to_lowercase();
    let all = owners.len();
    owners.retain(|(owner, _)| {
        wanted.is_empty() || format!("{}/{}", owner.key.namespace, owner.key.name).to_lowercase().contains(&wanted)
    });
    owners.sort_by(|(a, _), (b, _)| a.rank.cmp(&b.rank).then_with(|| a.key.cmp(&b.key)).then(a.kind.cmp(&b.kind)));

    let count = |rank: Rank| owners.iter().filter(|(owner, _)| owner.rank == rank).count();
    let sum = |of: fn(&Owner) -> i64| owners.iter().map(|(owner, _)| of(owner)).sum::<i64>();
    let (stuck, moving, complete) = (count(Rank::Stuck), count(Rank::Moving), count(Rank::Complete));
    let mut fragments = vec![
        Fragment::of(
            "view",
            "head",
            html! {
                section.head {
                    h1 { "Workloads" }
                    form.search role="search" data-query="q" {
                        label for="q" { "Find" }
                        input #q type="search" value=(query) placeholder="namespace/name" maxlength="100";
                    }
                }
            },
        ),
        Fragment::of(
            "view",
            "sums",
            html! {
                dl.sums {
                    @for (name, value) in [
                        ("stuck", stuck as i64), ("moving", moving as i64), ("complete", complete as i64),
                        ("desired", sum(|owner| owner.wanted)), ("created", sum(|owner| owner.created)),
                        ("ready", sum(|owner| owner.ready)), ("available", sum(|owner| owner.available)),
                        ("terminating", sum(|owner| owner.terminating)),
                    ] { div class=(name) { dt { (name) } dd { (value) } } }
                }
            },
        ),
        Fragment::of("view", "lines", html! { ol.lines aria-label="Workloads" data-list="lines-list" {} }),
    ];
    if all == 0 {
        fragments.push(Fragment::of(
            "view",
            "none",
            html! { p.note { "There is no Deployment, ReplicaSet or ReplicationController." } },
        ));
    }
    let lines = owners
        .iter()
        .flat_map(|(owner, under)| std::iter::once((owner, false)).chain(under.iter().map(|owner| (owner, true))));
    let total = lines.clone().count();
    for (owner, under) in lines.take(MOST_LINES) {
        fragments.push(line(owner, under));
    }
    if total > MOST_LINES {
        let more = total - MOST_LINES;
        fragments.push(Fragment::of(
            "view",
            "more",
            html! { p.note { (more) " more, none of them worse off. Find them by namespace or name." } },
        ));
    }
    if let Some(stage) = &scene.stage {
        fragments.push(Fragment::new("view", "acts", acts::of_cluster(scene, stage.as_ref()).into_string()));
    }
    fragments
}

fn line(owner: &Owner, under: bool) -> Fragment {
    let kind = owner.kind.resource().kind;
    let key = &owner.key;
    let to = Path("rollout", owner.kind, key);
    let numbers = [
        ("desired", owner.wanted),
        ("created", owner.created),
        ("ready", owner.ready),
        ("available", owner.available),
        ("terminating", owner.terminating),
    ];
    let markup = html! {
        li class={ "line " (owner.rank.name()) @if under { " under" } } {
            p.title {
                a href=(to) { (key.name) }
                span.kind { (kind) }
                span.ns { (key.namespace) }
                span class={ "rank " (owner.rank.name()) } { (owner.rank.name()) }
            }
            (owner.bar())
            dl.numbers {
                @for (name, value) in numbers { div class=(name) { dt { (name) } dd { (value) } } }
            }
            @if !owner.sentence.is_empty() { p.sentence { (owner.sentence) } }
        }
    };
    // No name has an underscore.
    Fragment::of("lines-list", format!("line-{kind}_{}_{}", key.namespace, key.name), markup)
}
