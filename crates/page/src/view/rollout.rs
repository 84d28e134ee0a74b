//! A rollout: the pods of each revision over time with the bounds, and each pod as a cell (PG-02).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use maud::{Markup, html};
use muster_controllers::deployment::bounds::Bounds;
use muster_controllers::deployment::revision::revision;
use muster_controllers::replicaset::counting::BURST_REPLICAS;
use muster_inspect::explain::{Ranking, View as Explained};
use muster_machinery::Cache;
use muster_objects::meta::{ObjectKey, Uid};
use muster_objects::{Deployment, Pod, ReplicaSet, Strategy};
use muster_runtime::explain::{Kind, replicas_of_caches};
use serde_json::Value;
use tokio::time::Instant;

use super::owner::{Owner, Rank};
use super::{Fragment, Memory, Path, Scene, rule_link, span};
use crate::acts;
use crate::chart::{Area, Chart};
use crate::model::{Book, Counts, Lines, Millis, Model};
use crate::pods::State;

/// How many pods are shown as cells at most.
const MOST_CELLS: usize = 4_000;
/// Into how many parts the time of a chart is cut.
const PARTS: i64 = 200;
/// How old an order of deletion may be, and for each thousand pods of the cluster as much more.
const PLACES_FOR: Duration = Duration::from_millis(500);

/// The places in the order of deletion of those pods that are to go, by their names.
pub(crate) type Places = HashMap<Arc<str>, usize>;

/// Pods of one template.
struct Part {
    uid: Uid,
    title: String,
    images: Vec<String>,
    /// Its ReplicaSet, if it is not the owner itself.
    set: Option<Arc<ReplicaSet>>,
    newest: bool,
}

impl Part {
    /// The owner of its pods.
    fn owner(&self, found: &Found, key: &ObjectKey) -> (Kind, ObjectKey) {
        match (&self.set, &found.owner) {
            (Some(set), _) => (Kind::ReplicaSet, set.meta.key()),
            (None, Some(owner)) => (owner.kind, key.clone()),
            (None, None) => (Kind::Deployment, key.clone()),
        }
    }
}

pub(crate) fn render(
    scene: &Scene,
    memory: &mut Memory,
    (kind, key): (Kind, &ObjectKey),
    at: Option<Millis>,
    all: bool,
) -> Vec<Fragment> {
    let model = &scene.model;
    let Some(found) = Found::of(model, kind, key) else {
        let name = &key.name;
        let kind = kind.resource().kind;
        let gone = html! { p.note { "There is no " (kind) " " b { (name) } " in namespace " (key.namespace) "." } };
        return vec![Fragment::of("view", "gone", gone)];
    };
    let places = places(model, memory, key, &found);
    let book = model.book();
    let owner = found.owner(&book);
    let window = Window::of(&book, &found, owner.rank, all, model.now());
    let at = at.filter(|at| *at < window.to).map(|at| at.max(window.from));
    let mut fragments = vec![
        Fragment::of("view", "head", head(kind, key, &owner)),
        Fragment::of("view", "numbers", numbers(&found, &owner, &book, &window, at)),
        Fragment::of("view", "chart", chart(&book, &found, &window, at)),
        Fragment::of("view", "time", slider(kind, key, all)),
    ];
    let events = window.marks.iter().rev().take(12);
    fragments.push(Fragment::of(
        "view",
        "events",
        html! {
            details.events {
                summary { "What happened (" (window.marks.len()) ")" }
                ol { @for (at, text) in events { li { time { (ago(model.now() - at)) } " " (text) } } }
            }
        },
    ));
    let mut left = MOST_CELLS;
    for part in &found.parts {
        left = cells(&mut fragments, part, (&found, key), &book, &places, at, left);
    }
    if let Some(stage) = &scene.stage {
        let acts = acts::of_workload(scene, stage.as_ref(), kind, key, found.replicas);
        fragments.push(Fragment::new("view", "acts", acts.into_string()));
    }
    fragments
}

/// The owner that is looked at.
struct Found {
    uid: Uid,
    deployment: Option<(Arc<Deployment>, Vec<Arc<ReplicaSet>>)>,
    owner: Option<Owner>,
    /// The newest first.
    parts: Vec<Part>,
    replicas: i32,
    strategy: String,
}

impl Found {
    fn of(model: &Model, kind: Kind, key: &ObjectKey) -> Option<Self> {
        // Caches are read before the book is taken, so that all do it in one order.
        Some(match kind {
            Kind::Deployment => {
                let deployment = Arc::clone(model.deployments.read().get(key)?);
                let sets = model.sets_by_owner().remove(&deployment.meta.uid).unwrap_or_default();
                let newest = sets.iter().filter_map(|set| revision(set)).max();
                let part = |set: &Arc<ReplicaSet>| Part {
                    uid: set.meta.uid.clone(),
                    title: format!("Revision {}", revision(set).unwrap_or_default()),
                    images: images(set.template.raw()),
                    set: Some(Arc::clone(set)),
                    newest: revision(set) == newest,
                };
                let (uid, replicas) = (deployment.meta.uid.clone(), deployment.replicas);
                let strategy = strategy(&deployment);
                let parts = sets.iter().map(part).collect();
                Self { uid, parts, replicas, strategy, owner: None, deployment: Some((deployment, sets)) }
            }
            Kind::ReplicaSet => {
                let set = model.sets.read().get(key).cloned()?;
                let owner = Owner::of_set(&set, &model.book());
                Self::alone(set.meta.uid.clone(), owner, set.replicas, images(set.template.raw()))
            }
            Kind::ReplicationController => {
                let found = model.controllers.read().get(key).cloned()?;
                let owner = Owner::of_controller(&found, &model.book());
                Self::alone(found.meta.uid.clone(), owner, found.replicas, images(found.template.raw()))
            }
        })
    }

    fn alone(uid: Uid, owner: Owner, replicas: i32, images: Vec<String>) -> Self {
        let part = Part { uid: uid.clone(), title: "Pods".to_owned(), images, set: None, newest: true };
        Self { uid, deployment: None, owner: Some(owner), parts: vec![part], replicas, strategy: String::new() }
    }

    fn owner(&self, book: &Book) -> Owner {
        match (&self.deployment, &self.owner) {
            (_, Some(owner)) => owner.clone(),
            (Some((deployment, sets)), _) => Owner::of_deployment(deployment, sets, book),
            (None, None) => unreachable!("an owner is a Deployment or was read"),
        }
    }
}

fn strategy(deployment: &Deployment) -> String {
    match &deployment.strategy {
        Strategy::Recreate => "Recreate: all old pods go before new ones come".to_owned(),
        Strategy::RollingUpdate { max_surge, max_unavailable } => {
            let bounds = Bounds::of(deployment);
            let replicas = deployment.replicas;
            format!(
                "at most {} pods (maxSurge {max_surge}), at least {} available (maxUnavailable {max_unavailable})",
                bounds.most(replicas),
                bounds.least_available(replicas).max(0)
            )
        }
        Strategy::Other(name) => name.to_string(),
    }
}

/// The images of a template, in the order of its containers.
fn images(template: &str) -> Vec<String> {
    let template: Value = serde_json::from_str(template).unwrap_or_default();
    let containers = template.pointer("/spec/containers").and_then(Value::as_array);
    containers.into_iter().flatten().filter_map(|it| it["image"].as_str().map(str::to_owned)).collect()
}

/// The places of the pods that are to go: those of older revisions, and those that an owner has too many of. It is not
/// computed at each change where there are many pods; who goes keeps the place that he had.
fn places(model: &Model, memory: &mut Memory, key: &ObjectKey, found: &Found) -> Arc<Places> {
    let now = Instant::now();
    let thousands = u32::try_from(model.pods.read().len() / 1000).unwrap_or(u32::MAX);
    if let Some((at, places)) = &memory.places
        && now - *at < PLACES_FOR * (1 + thousands)
    {
        return Arc::clone(places);
    }
    let mut pods = None;
    let mut places = Places::new();
    for part in &found.parts {
        let (there, before) = {
            let book = model.book();
            let before: Vec<(Arc<str>, usize)> = book.owned(&part.uid).map_or_else(Vec::new, |owned| {
                let ending = owned.pods.iter().filter(|(_, seen)| seen.state == State::Terminating);
                let known = memory.places.as_ref();
                ending.filter_map(|(name, _)| Some((Arc::clone(name), *known?.1.get(name)?))).collect()
            });
            (book.owned(&part.uid).map_or(0, |owned| owned.pods.len()), before)
        };
        places.extend(before);
        let wanted = part.set.as_ref().map_or(found.replicas, |set| set.replicas);
        let older = !part.newest && there > 0;
        if !older && i64::from(wanted) >= i64::try_from(there).unwrap_or(i64::MAX) {
            continue;
        }
        let pods = pods.get_or_insert_with(|| model.pods_in(&key.namespace));
        let (kind, key) = part.owner(found, key);
        let going = ranking(model, kind, &key, pods).into_iter().flat_map(|ranking| ranking.order);
        places.extend(going.filter(|place| older || place.goes).map(|place| (Arc::from(&*place.pod), place.place)));
    }
    let places = Arc::new(places);
    memory.places = Some((now, Arc::clone(&places)));
    places
}

/// The order in which an owner's pods would be deleted.
fn ranking(model: &Model, kind: Kind, key: &ObjectKey, pods: &Cache<Pod>) -> Option<Ranking> {
    let now = model.time();
    let explained = match kind {
        Kind::ReplicaSet => replicas_of_caches(key, &model.sets.read(), pods, BURST_REPLICAS, now),
        Kind::ReplicationController => replicas_of_caches(key, &model.controllers.read(), pods, BURST_REPLICAS, now),
        Kind::Deployment => None,
    };
    match explained?.view {
        Explained::Replicas(replicas) => Some(replicas.ranking),
        _ => None,
    }
}

/// A pod's place in the order of deletion of its owner, and the rule that put it there, in words.
pub(crate) fn place(scene: &Scene, kind: Kind, key: &ObjectKey, pod: &str) -> Option<String> {
    let model = &scene.model;
    let ranking = ranking(model, kind, key, &model.pods_in(&key.namespace))?;
    let place = ranking.order.iter().find(|place| place.pod == pod)?;
    let goes = if place.goes { "is" } else { "would be" };
    let mut told = format!("{goes} number {} of {} to go", place.place, ranking.order.len());
    // What put the second behind the first put the first before it.
    let second = ranking.order.get(1).filter(|_| place.place == 1).and_then(|second| second.decided_by.as_ref());
    if let Some(by) = place.decided_by.as_ref().or(second) {
        let (this, beside, other) =
            if second.is_some() { (&by.before, "after", &by.this) } else { (&by.this, "before", &by.before) };
        told.push_str(&format!(" by {} ({}: {this}, the one {beside} it: {other})", by.rule, by.first));
    }
    Some(told)
}

/// The time that is shown.
struct Window {
    from: Millis,
    to: Millis,
    lines: Vec<(Millis, Lines)>,
    marks: Vec<(Millis, String)>,
}

impl Window {
    fn of(book: &Book, found: &Found, rank: Rank, all: bool, now: Millis) -> Self {
        let lines = book.lines(&found.uid);
        let mut marks = Vec::new();
        let mut begun = None;
        for mark in book.marks().filter(|mark| mark.owner == found.uid) {
            if mark.what.begins {
                // What follows within seconds is the same change.
                begun = begun.filter(|begun| mark.at - begun < 2_000).or(Some(mark.at));
            }
            marks.push((mark.at, mark.what.text.clone()));
        }
        let of_parts = |uid: &Uid| found.parts.iter().any(|part| part.uid == *uid);
        let last_step = book.steps().find(|step| of_parts(&step.owner)).map(|step| step.at);
        let last = last_step.into_iter().chain(marks.last().map(|(at, _)| *at)).max();
        let from = if all { None } else { begun }.unwrap_or(book.known_since()).max(book.known_since());
        // What stands still needs no chart that grows.
        let still = rank == Rank::Complete && last.is_none_or(|last| now - last > 2_000);
        let to = if still { last.unwrap_or(from) + 1_000 } else { now };
        Self { from, to: to.max(from + 1_000), lines, marks }
    }
}

fn head(kind: Kind, key: &ObjectKey, owner: &Owner) -> Markup {
    html! {
        section.head {
            h1 { (key.name) }
            p.title {
                span.kind { (kind.resource().kind) } span.ns { (key.namespace) }
                span class={ "rank " (owner.rank.name()) } { (owner.rank.name()) }
                a href=(Path("why", kind, key)) { "Why?" }
            }
            @if !owner.sentence.is_empty() { p.sentence { (owner.sentence) } }
        }
    }
}

fn numbers(found: &Found, owner: &Owner, book: &Book, window: &Window, at: Option<Millis>) -> Markup {
    let pace = pace(found, owner, book, window);
    html! {
        section {
            (owner.bar())
            dl.numbers {
                @for (name, value) in [
                    ("desired", owner.wanted), ("created", owner.created), ("ready", owner.ready),
                    ("available", owner.available), ("terminating", owner.terminating),
                ] { div class=(name) { dt { (name) } dd { (value) } } }
            }
            @if !found.strategy.is_empty() { p.note { (found.strategy) " " (rule_link("DEP-07")) } }
            @if let Some(pace) = pace { p.pace { (pace) } }
            @if at.is_some() { p.past role="status" { "This is the past. " a href="?" { "Back to now" } } }
        }
    }
}

/// How fast pods of the newest revision turn ready, and how long the rest takes at that pace.
fn pace(found: &Found, owner: &Owner, book: &Book, window: &Window) -> Option<String> {
    if owner.rank == Rank::Complete {
        return None;
    }
    let newest = &found.parts.iter().find(|part| part.newest)?.uid;
    let (mut count, mut first, mut last) = (0_i64, None, None);
    for step in book.steps().take_while(|step| step.at >= window.from).filter(|step| step.owner == *newest) {
        first = Some(step.at);
        if step.after == Some(State::Ready) {
            count += 1;
            last = last.or(Some(step.at));
        }
    }
    let left = owner.wanted - book.counts(newest)[State::Ready as usize];
    if count < 2 || left <= 0 {
        return None;
    }
    let seconds = ((last? - first?) as f64 / 1000.0).max(0.1);
    let pace = count as f64 / seconds;
    Some(format!("{pace:.1} pods turn ready a second; {left} to go, about {} at this pace", span(left as f64 / pace)))
}

fn chart(book: &Book, found: &Found, window: &Window, at: Option<Millis>) -> Markup {
    let Window { from, to, lines, marks } = window;
    let part = |n: i64| from + (to - from) * n / PARTS;
    let ends: Vec<Millis> = (1..=PARTS).map(part).collect();
    let uids: Vec<&Uid> = found.parts.iter().map(|part| &part.uid).collect();
    // The state at the end of each part of the time.
    let columns = book.counts_at(&uids, &ends);
    let sum = |counts: &Counts, states: &[State]| states.iter().map(|state| counts[*state as usize]).sum::<i64>();
    let heights =
        |at: usize, states: &[State]| columns.iter().map(|column| sum(&column[at], states)).collect::<Vec<_>>();
    let mut areas = Vec::new();
    for (at, part) in found.parts.iter().enumerate().rev() {
        let hue = if part.newest { "newest".to_owned() } else { format!("older{}", at % 3) };
        for (states, what) in
            [(&[State::Ready][..], "ready"), (&[State::Starting, State::Waiting, State::Broken][..], "unready")]
        {
            let name = format!("{}: {}", part.title, if what == "ready" { "ready" } else { "not ready" });
            areas.push(Area { name, class: format!("area {hue} {what}"), heights: heights(at, states) });
        }
    }
    let mut ending = vec![0; columns.len()];
    for column in 0..columns.len() {
        ending[column] = columns[column].iter().map(|counts| sum(counts, &[State::Terminating])).sum();
    }
    areas.push(Area { name: "terminating".to_owned(), class: "area terminating".to_owned(), heights: ending });
    areas.retain(|area| area.heights.iter().any(|height| *height > 0));
    let times = (0..PARTS).map(part).collect();
    let marks: Vec<(Millis, String)> = marks.iter().filter(|(at, _)| at >= from && at <= to).cloned().collect();
    let bounded = found.deployment.is_some();
    let seconds = (to - from) as f64 / 1000.0;
    let label = format!(
        "Pods by revision over {}, with the number desired{}",
        span(seconds),
        if bounded { ", the most that there may be and the fewest that must be available" } else { "" }
    );
    let names: Vec<(String, String)> = areas.iter().map(|area| (area.class.clone(), area.name.clone())).collect();
    let chart = Chart { from: *from, to: *to, times, areas, lines: lines.clone(), bounded, marks, at };
    html! {
        figure data-from=(from) data-to=(to) {
            (chart.draw(&label))
            p.times { span { "0 s" } span { (span(seconds)) } }
            figcaption {
                ul.legend {
                    @for (class, name) in names { li { svg.key viewBox="0 0 10 10" aria-hidden="true" { rect class=(class) width="10" height="10" {} } (name) } }
                    @if bounded {
                        li { svg.key viewBox="0 0 10 10" aria-hidden="true" { path.most d="M0 5H10" {} } "most pods" }
                        li { svg.key viewBox="0 0 10 10" aria-hidden="true" { path.least d="M0 5H10" {} } "fewest available" }
                    }
                    li { svg.key viewBox="0 0 10 10" aria-hidden="true" { path.desired d="M0 5H10" {} } "desired" }
                }
            }
        }
    }
}

/// Static: a browser moves it, and asks for another time.
fn slider(kind: Kind, key: &ObjectKey, all: bool) -> Markup {
    html! {
        section.slider {
            label for="slider" { "Back in time" }
            input #slider type="range" min="0" max="1000" value="1000" data-slider="";
            output for="slider" { "now" }
            @if all { a href=(Path("rollout", kind, key)) { "The last change only" } }
            @else { a href={ (Path("rollout", kind, key)) "?all=1" } { "All that was recorded" } }
        }
    }
}

/// The pods of a part as cells; gives how many more may be shown.
fn cells(
    fragments: &mut Vec<Fragment>,
    part: &Part,
    (found, key): (&Found, &ObjectKey),
    book: &Book,
    places: &Places,
    at: Option<Millis>,
    left: usize,
) -> usize {
    let pods = book.states(&part.uid, at);
    let wanted = part.set.as_ref().map_or(found.replicas, |set| set.replicas);
    if pods.is_empty() && !(part.newest || wanted > 0) {
        return left;
    }
    let id = format!("part-{}", part.uid);
    let list = format!("cells-{}", part.uid);
    let of = |state: State| pods.values().filter(|(is, ..)| *is == state).count();
    let hidden = pods.len().saturating_sub(left);
    let (kind, owner) = part.owner(found, key);
    let markup = html! {
        section.part {
            h2 {
                (part.title)
                @if let Some(set) = &part.set {
                    " " a href=(Path("rollout", Kind::ReplicaSet, &set.meta.key())) { (set.meta.name) }
                }
            }
            p.note {
                (part.images.join(", ")) " · " (wanted) " desired"
                @for state in State::ALL { @let count = of(state); @if count > 0 { " · " span class={ "sign " (state.name()) } { (state.sign()) } " " (count) " " (state.name()) } }
            }
            ol.cells data-list=(list) data-roving="" aria-label={ "Pods of " (part.title) } {}
            @if hidden > 0 { p.note { (hidden) " more pods are not shown." } }
        }
    };
    fragments.push(Fragment::of("view", id, markup));
    for (name, (state, node, reason)) in pods.iter().take(left) {
        let goes = places.get(name).filter(|_| at.is_none());
        let mut told = format!("{name}: {}", state.name());
        if let Some(node) = node {
            told.push_str(&format!(", on {node}"));
        }
        if let Some(reason) = reason {
            told.push_str(&format!("; {reason}"));
        }
        // Its place, as it is then, is asked for where a person looks.
        let more = at.is_none().then(|| format!("{}/{name}", Path("place", kind, &owner)));
        let markup = html! {
            li {
                button.cell.(state.name()).goes[goes.is_some()] type="button" tabindex="-1" aria-label=(told) data-pod=(name) data-more=[more] {
                    span { (state.sign()) }
                    @if let Some(place) = goes { small { (place) } }
                }
            }
        };
        fragments.push(Fragment::of(list.clone(), format!("pod-{name}"), markup));
    }
    left - pods.len().min(left)
}

fn ago(millis: Millis) -> String {
    format!("{} ago", span((millis.max(0) as f64 / 1000.0).round()))
}
