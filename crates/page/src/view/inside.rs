//! Inside a manager: informers, cache, queue, syncs, expectations and writes, as articles draw them, with what they hold
//! now (PG-02).

use std::collections::VecDeque;

use maud::{Markup, html};
use muster_inspect::explain::{Role, Source};
use muster_inspect::history::{History, Sync};
use muster_inspect::inside::{Inside, Key, State};
use muster_objects::meta::ObjectKey;
use muster_runtime::explain::Kind;
use tokio::time::Instant;

use super::why::lines;
use super::{Fragment, Path, Scene, rule_link, span};

/// How many seconds of rates are drawn.
const SECONDS: usize = 60;
/// How many syncs of an object are followed.
const FOLLOWED: usize = 3;

/// Writes a second, computed from totals.
#[derive(Default)]
pub(crate) struct Rates {
    last: Option<(Instant, u64)>,
    /// The last ones, the oldest first.
    rates: VecDeque<f64>,
}

impl Rates {
    fn tell(&mut self, total: u64) {
        let now = Instant::now();
        match self.last {
            // Less than a second is too short for a rate.
            Some((at, _)) if (now - at).as_secs_f64() < 0.95 => return,
            Some((at, before)) => {
                if self.rates.len() == SECONDS {
                    self.rates.pop_front();
                }
                self.rates.push_back(total.saturating_sub(before) as f64 / (now - at).as_secs_f64());
            }
            None => {}
        }
        self.last = Some((now, total));
    }
}

pub(crate) async fn render(scene: &Scene, rates: &mut Rates, follow: Option<&(Kind, ObjectKey)>) -> Vec<Fragment> {
    let title = html! { section.head { h1 { "Inside" } p.note { "What a manager does: its watches fill caches, events queue keys, workers sync them, and what they decide is written." } } };
    let mut fragments = vec![Fragment::of("view", "head", title)];
    let Some(insight) = &scene.insight else {
        let none = html! { p.note { "This needs a manager of Muster: name it by --manager." } };
        fragments.push(Fragment::of("view", "none", none));
        return fragments;
    };
    match insight.inside().await {
        Ok(inside) => {
            rates.tell(inside.writes.done.values().sum::<u64>() + inside.writes.conflicts + inside.writes.failed);
            fragments.extend(drawn(&inside, rates));
        }
        Err(error) => fragments.push(Fragment::of("view", "none", html! { p.note { (error) } })),
    }
    if let Some((kind, key)) = follow {
        let history = scene.history(*kind, key).await;
        // Below the diagram, whose stages it lights.
        fragments.insert(2, Fragment::of("view", "follow", followed(*kind, key, history)));
    }
    fragments
}

fn drawn(inside: &Inside, rates: &Rates) -> Vec<Fragment> {
    let sum = |of: fn(&muster_inspect::inside::Queue) -> u64| inside.queues.iter().map(of).sum::<u64>();
    let rate = rates.rates.back().copied().unwrap_or_default();
    let writes: u64 = inside.writes.done.values().sum();
    let version = inside.informers.iter().map(|informer| informer.version).max().unwrap_or_default();
    let objects: u64 = inside.informers.iter().map(|informer| informer.objects).sum();
    let last = inside.syncs.first();
    let stages: [(&str, &str, Markup); 7] = [
        ("watch", "Informers", html! { b { (inside.informers.len()) } " watches, at version " (version) }),
        ("cache", "Cache", html! { b { (objects) } " objects" }),
        (
            "queue",
            "Queue",
            html! { b { (sum(|queue| queue.ready)) } " keys ready, " b { (sum(|queue| queue.waiting)) } " waiting" },
        ),
        ("work", "Workers", html! { b { (sum(|queue| queue.working)) } " keys in work" }),
        (
            "decide",
            "Decision",
            html! { @if let Some(last) = last { (last.name) ": " (last.summary) } @else { "none yet" } },
        ),
        ("expect", "Expectations", html! { b { (inside.unmet) } " owners wait for their events" }),
        (
            "write",
            "Writes",
            html! { b { (format!("{rate:.1}")) } " a second, " (writes) " in all, " (inside.writes.conflicts) " conflicts" },
        ),
    ];
    let diagram = html! {
        ol.diagram aria-label="The way of a change through the manager" {
            @for (stage, name, says) in stages {
                li.stage data-stage=(stage) { h2 { (name) } p { (says) } }
            }
        }
    };
    let informers = html! {
        section { h2 { "Informers" }
            div.wide { table aria-label="Informers" {
                thead { tr { th { "Kind" } th { "Objects" } th { "Version" } th { "Last heard" } th { "Behind its own writes" } } }
                tbody { @for it in &inside.informers { tr {
                    th scope="row" { (it.kind) } td { @if it.synced { (it.objects) } @else { "not synced" } } td { (it.version) }
                    td { @if let Some(ago) = it.changed_ago { (span(ago.as_secs_f64().floor())) " ago" } }
                    td { @if let Some(lag) = it.lag { (span(lag.as_secs_f64())) } }
                } } }
            } }
        }
    };
    let most = rates.rates.iter().copied().fold(1.0_f64, f64::max);
    let points: Vec<String> = rates
        .rates
        .iter()
        .enumerate()
        .map(|(at, rate)| format!("{:.0},{:.1}", (SECONDS - rates.rates.len() + at) * 10, 60.0 - rate / most * 56.0))
        .collect();
    let written = html! {
        section { h2 { "Writes a second" }
            svg.spark viewBox="0 0 600 62" role="img" aria-label=(format!("{rate:.1} writes a second now, at most {most:.1} in the last minute")) {
                polyline points=(points.join(" ")) {}
            }
            p.note { @for (action, count) in &inside.writes.done { (action) " " (count) " · " } (inside.writes.conflicts) " conflicts · " (inside.writes.failed) " failed" }
        }
    };
    let who = match &inside.source {
        Source::Manager { role: Role::Leader } => "Told by the manager that leads.",
        Source::Manager { role: Role::Standby } => "Told by a manager that stands by: it syncs nothing.",
        Source::Manager { role: Role::Unelected } => "Told by the manager, which runs without an election.",
        Source::Manager { role: Role::Member } => "Told by one manager of a group, of the shards that it has.",
        Source::Api => "Told by nobody who syncs.",
    };
    let mut fragments = vec![
        Fragment::of("view", "who", html! { p.note { (who) } }),
        Fragment::of("view", "diagram", diagram),
        Fragment::of("view", "informers", informers),
        Fragment::of("view", "written", written),
    ];
    for queue in &inside.queues {
        let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.resource().kind == queue.kind) else { continue };
        let markup = html! {
            section { h2 { "Queue of the " (queue.controller) }
                p.note { (queue.working) " in work, " (queue.ready) " ready, " (queue.waiting) " waiting" }
                ul.keys { @for key in &queue.keys { li { (of_key(kind, key)) } } }
            }
        };
        fragments.push(Fragment::of("view", format!("queue-{}", queue.controller), markup));
    }
    if inside.unmet > 0 {
        let markup = html! {
            section { h2 { "Expectations that are not met " (rule_link("EX-01")) }
                ul.keys { @for it in &inside.expectations { li {
                    b { (it.namespace) "/" (it.name) } " expects " (it.creations) " creations and " (it.deletions) " deletions, for " (span(it.age.as_secs_f64()))
                } } }
            }
        };
        fragments.push(Fragment::of("view", "expectations", markup));
    }
    let plans = html! {
        section { h2 { "The last plans" }
            @if inside.syncs.is_empty() { p.note { "No sync is recorded." } }
            ul.keys { @for sync in &inside.syncs {
                @let kind = Kind::ALL.into_iter().find(|kind| kind.resource().kind == sync.kind);
                li {
                    time { (sync.at.micro().to_string().get(11..23).unwrap_or_default()) "Z" } " "
                    @if let Some(kind) = kind { a href=(Path("inside", kind, &ObjectKey::new(&*sync.namespace, &*sync.name))) { (sync.kind) " " (sync.namespace) "/" (sync.name) } }
                    " " (sync.summary)
                    @if sync.count > 1 { ", " (sync.count) " times" }
                    @if sync.writes > 0 { ", " (sync.writes) " requests" } " in " (span(sync.took.as_secs_f64())) " "
                    @for row in &sync.rows { (rule_link(row)) " " }
                    @if let Some(error) = &sync.error { span.wrong { "failed: " (error) } }
                }
            } }
        }
    };
    fragments.push(Fragment::of("view", "plans", plans));
    fragments
}

fn of_key(kind: Kind, key: &Key) -> Markup {
    let time = key.time.map(|time| span(time.as_secs_f64())).unwrap_or_default();
    let state = match (key.state, &key.on) {
        (State::Working, _) => format!("in work for {time}"),
        (State::Ready, _) => format!("ready for {time}"),
        (State::Waiting, Some(on)) => format!("has waited {time} for {on}"),
        (State::Waiting, None) => "waits for its time".to_owned(),
    };
    html! {
        a href=(Path("inside", kind, &ObjectKey::new(&*key.namespace, &*key.name))) { (key.namespace) "/" (key.name) } " " (state)
        @if let Some(due) = key.due { ", due in " (span(due.as_secs_f64())) }
        @if key.retries > 0 { ", " (key.retries) " failures" }
    }
}

/// The way of an object's last syncs through the manager, step by step: a browser plays them slowly.
fn followed(kind: Kind, key: &ObjectKey, history: Option<Result<History, String>>) -> Markup {
    let steps: Result<Vec<(&str, String)>, String> = match history {
        None => Err("There is no manager that tells.".to_owned()),
        Some(Err(error)) => Err(error),
        Some(Ok(history)) => {
            let last = history.syncs.len().saturating_sub(FOLLOWED);
            Ok(history.syncs[last..].iter().flat_map(steps).collect())
        }
    };
    html! {
        section.follow {
            h2 { "The way of " (kind.resource().kind) " " (key.namespace) "/" (key.name) }
            p { a href=(Path("why", kind, key)) { "Why?" } " " a href="/inside" { "The manager alone" } }
            @match steps {
                Err(error) => p.note { (error) },
                Ok(steps) if steps.is_empty() => p.note { "None of its syncs is kept." },
                Ok(steps) => {
                    p { button type="button" data-play="" { "Play slowly" } }
                    ol.steps { @for (stage, says) in steps { li data-stage=(stage) { b { (stage) } " " (says) } } }
                }
            }
        }
    }
}

/// The stages that a sync went through, and what happened there.
fn steps(sync: &Sync<'_>) -> Vec<(&'static str, String)> {
    let mut decided = false;
    let mut steps = Vec::new();
    for (word, text) in lines(sync) {
        let stage = match &*word {
            "woken" => "watch",
            "waited" => "queue",
            "saw" => "cache",
            "expects" => "expect",
            "again" => "queue",
            row if row.contains('-') => "decide",
            _ => "write",
        };
        if stage == "decide" && !decided {
            decided = true;
            let took = span(sync.took.as_secs_f64());
            steps.push(("work", format!("a worker takes it, for {took}: {}", sync.summary)));
        }
        let word = if matches!(stage, "watch" | "cache" | "expect") { format!("{word} ") } else { format!("{word}: ") };
        steps.push((stage, format!("{word}{text}")));
    }
    steps
}
