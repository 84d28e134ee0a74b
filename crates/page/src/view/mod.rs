//! Views: what can be looked at, by its address, and the fragments of HTML that it is made of.

mod inside;
mod overview;
mod owner;
mod rollout;
mod tour;
mod why;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use std::time::Duration;

use maud::{DOCTYPE, Markup, html};
use muster_inspect::explain::Shard;
use muster_inspect::history::History;
use muster_objects::meta::ObjectKey;
use muster_objects::names::is_dns1123_subdomain;
use muster_runtime::client::Client;
use muster_runtime::explain::Kind;
use percent_encoding::percent_decode_str;
use tokio::time::Instant;

use crate::insight::{Insight, Stage};
use crate::model::{Millis, Model};
use crate::rules;
use crate::tour::{Progress, STEPS};

/// After how long without an event or a bookmark of one of its watches a page says so; bookmarks come each minute.
const SILENT: Duration = Duration::from_secs(150);
/// For how long a watch has to have failed for a page to say so: one that breaks is open again within 2 s.
const FAILING: Duration = Duration::from_secs(3);
/// How many characters a text to look for may have.
const MOST_QUERY: usize = 100;

/// What views are made from.
pub(crate) struct Scene {
    pub(crate) client: Client,
    pub(crate) model: Arc<Model>,
    pub(crate) insight: Option<Arc<dyn Insight>>,
    pub(crate) stage: Option<Arc<dyn Stage>>,
    /// What a command needs to reach the cluster.
    pub(crate) reach: String,
    /// Where a group of managers has its Leases.
    pub(crate) election: String,
    /// How far the tour is.
    pub(crate) tour: Mutex<Progress>,
}

/// One thing to look at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum View {
    /// Every owner of pods, those with this text in their names.
    Overview { query: String },
    /// One owner of pods, as it was at a time, or as it is.
    Rollout {
        kind: Kind,
        key: ObjectKey,
        at: Option<Millis>,
        /// Whether all that was recorded is shown, or the last change alone.
        all: bool,
    },
    /// What a manager does, and how an object went through it.
    Inside { follow: Option<(Kind, ObjectKey)> },
    /// What was done for an object, and why.
    Why { kind: Kind, key: ObjectKey },
    /// A step of the tour.
    Tour { step: usize },
    /// A row of the contract.
    Rule { row: String },
}

/// A part of a view: an element with an id, in another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// The id of the element that it stands in; `view` for the view itself.
    pub(crate) parent: String,
    pub(crate) id: String,
    /// One element.
    pub(crate) html: String,
}

impl Fragment {
    pub(crate) fn new(parent: impl Into<String>, id: impl Into<String>, html: impl Into<String>) -> Self {
        Self { parent: parent.into(), id: id.into(), html: html.into() }
    }

    fn of(parent: impl Into<String>, id: impl Into<String>, markup: Markup) -> Self {
        Self::new(parent, id, markup.into_string())
    }
}

/// What a view remembers from one rendering to the next.
#[derive(Default)]
pub(crate) struct Memory {
    /// The order of deletion, and when it was computed.
    places: Option<(Instant, Arc<rollout::Places>)>,
    /// Who has the object of the view, and when that was read.
    shard: Option<(Instant, Option<Shard>)>,
    /// What a manager told last, to compute rates from.
    inside: inside::Rates,
}

impl View {
    /// The view of a path with its query.
    pub(crate) fn parse(target: &str) -> Option<Self> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let parameters: HashMap<String, String> =
            query.split('&').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (decode(k), decode(v))).collect();
        let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        match *parts {
            [""] => {
                let query: String = parameters.get("q").map(String::as_str).unwrap_or_default().trim().to_owned();
                (query.chars().count() <= MOST_QUERY).then_some(Self::Overview { query })
            }
            ["rollout", kind, namespace, name] => {
                let (kind, key) = object(kind, namespace, name)?;
                let at = parameters.get("at").map(|at| at.parse()).transpose().ok()?;
                let all = parameters.get("all").is_some_and(|all| all == "1");
                Some(Self::Rollout { kind, key, at, all })
            }
            ["why", kind, namespace, name] => {
                let (kind, key) = object(kind, namespace, name)?;
                Some(Self::Why { kind, key })
            }
            ["inside"] => Some(Self::Inside { follow: None }),
            ["inside", kind, namespace, name] => Some(Self::Inside { follow: Some(object(kind, namespace, name)?) }),
            ["tour"] => {
                let step = parameters.get("step").map_or(Ok(1), |step| step.parse()).ok()?;
                (1..=STEPS.len()).contains(&step).then_some(Self::Tour { step })
            }
            ["rules", row] => rules::find(row).map(|_| Self::Rule { row: row.to_owned() }),
            _ => None,
        }
    }

    /// What there is to say of one thing in a view, where a person looks at it: the place of a pod, at
    /// `/place/KIND/NAMESPACE/OWNER/POD`.
    pub(crate) fn more(path: &str, scene: &Scene) -> Option<String> {
        let parts: Vec<&str> = path.strip_prefix("/place/")?.split('/').collect();
        let [kind, namespace, name, pod] = *parts else { return None };
        let (kind, key) = object(kind, namespace, name)?;
        rollout::place(scene, kind, &key, pod)
    }

    /// Its fragments as things are now.
    pub(crate) async fn render(&self, scene: &Scene, memory: &mut Memory) -> Vec<Fragment> {
        let mut fragments = if scene.model.is_synced() {
            self.shown(scene, memory).await
        } else {
            vec![Fragment::of("view", "wait", html! { p.note { "The cluster is being read." } })]
        };
        fragments.splice(0..0, lost(&scene.model));
        fragments
    }

    async fn shown(&self, scene: &Scene, memory: &mut Memory) -> Vec<Fragment> {
        match self {
            Self::Overview { query } => overview::render(scene, query),
            Self::Rollout { kind, key, at, all } => rollout::render(scene, memory, (*kind, key), *at, *all),
            Self::Inside { follow } => inside::render(scene, &mut memory.inside, follow.as_ref()).await,
            Self::Why { kind, key } => why::render(scene, memory, *kind, key).await,
            Self::Tour { step } => tour::render(scene, *step).await,
            Self::Rule { row } => rules::render(row),
        }
    }

    /// The page around it, before anything of it has come.
    pub(crate) fn shell(&self, scene: &Scene) -> String {
        let title = match self {
            Self::Overview { .. } => "Workloads".to_owned(),
            Self::Rollout { key, .. } => key.name.to_string(),
            Self::Inside { .. } => "Inside".to_owned(),
            Self::Why { key, .. } => format!("Why: {}", key.name),
            Self::Tour { step } => format!("Tour, step {step}"),
            Self::Rule { row } => row.clone(),
        };
        let here = |is: bool| is.then_some("page");
        let markup = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) " · Muster" }
                    link rel="icon" href="/icon.svg";
                    link rel="stylesheet" href="/style.css";
                    script src="/page.js" defer {}
                }
                body {
                    a.skip href="#view" { "To the content" }
                    header {
                        nav aria-label="Views" {
                            a.name href="/" { "Muster" }
                            a href="/" aria-current=[here(matches!(self, Self::Overview { .. }))] { "Workloads" }
                            @if scene.insight.is_some() {
                                a href="/inside" aria-current=[here(matches!(self, Self::Inside { .. }))] { "Inside" }
                            }
                            @if scene.stage.is_some() && scene.insight.is_some() {
                                a href="/tour" aria-current=[here(matches!(self, Self::Tour { .. }))] { "Tour" }
                            }
                        }
                        p #connection role="status" { "Connecting" }
                    }
                    main #view tabindex="-1" {}
                    p #said role="status" {}
                    noscript { p { "This page shows what happens as it happens, with a script of its own." } }
                }
            }
        };
        markup.into_string()
    }
}

/// That what is shown is old, where it is, and for how long.
fn lost(model: &Model) -> Option<Fragment> {
    let (what, time) = match (model.failing_for(), model.heard_ago()) {
        (Some(failing), _) if failing >= FAILING => ("The watch of the API server has failed for", failing),
        (_, Some(ago)) if ago > SILENT => ("The API server has not been heard of for", ago),
        _ => return None,
    };
    let time = span(time.as_secs_f64().floor());
    let note = html! { p.wrong role="alert" { (what) " " (time) ": what is shown may be old." } };
    Some(Fragment::of("view", "silent", note))
}

/// An object by the parts of a path.
fn object(kind: &str, namespace: &str, name: &str) -> Option<(Kind, ObjectKey)> {
    let good = is_dns1123_subdomain(namespace) && is_dns1123_subdomain(name);
    Some((Kind::of_plural(kind)?, ObjectKey::new(namespace, name))).filter(|_| good)
}

/// The address of a workload's view.
pub(crate) struct Path<'a>(pub(crate) &'static str, pub(crate) Kind, pub(crate) &'a ObjectKey);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(view, kind, ObjectKey { namespace, name }) = self;
        write!(f, "/{view}/{}/{namespace}/{name}", kind.resource().plural)
    }
}

impl Scene {
    /// How far the tour is.
    pub(crate) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.tour.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of a kind's resource as a command takes it.
    pub(crate) fn command_kind(kind: Kind) -> &'static str {
        match kind {
            Kind::Deployment => "deployment",
            Kind::ReplicaSet => "replicaset",
            Kind::ReplicationController => "rc",
        }
    }

    /// The history of an object, where there is a manager of ours.
    pub(crate) async fn history(&self, kind: Kind, key: &ObjectKey) -> Option<Result<History, String>> {
        let insight = self.insight.as_ref()?;
        Some(insight.history(kind, key).await.map_err(|error| error.to_string()))
    }
}

/// A time span for a person.
pub(crate) fn span(seconds: f64) -> String {
    match seconds {
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 60.0 => format!("{s:.1} s"),
        s if s < 3600.0 => format!("{:.0} min {:.0} s", (s / 60.0).floor(), s % 60.0),
        s if s < 86_400.0 => format!("{:.0} h {:.0} min", (s / 3600.0).floor(), (s % 3600.0) / 60.0),
        s => format!("{:.0} d", s / 86_400.0),
    }
}

/// A link to a row of the contract.
pub(crate) fn rule_link(row: &str) -> Markup {
    html! { @if rules::find(row).is_some() { a.rule href={ "/rules/" (row) } { (row) } } @else { span.rule { (row) } } }
}

#[cfg(test)]
mod tests {
    use std::io;

    use bytes::Bytes;
    use futures::{StreamExt as _, stream};
    use http::{Request, Response};
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;
    use muster_runtime::client::Options;
    use serde_json::json;
    use tokio::sync::watch;
    use tokio::task::JoinSet;

    use super::*;
    use crate::feed;

    /// An empty cluster whose server is there while the receiver says so.
    fn cluster(there: watch::Receiver<bool>) -> (Scene, JoinSet<()>) {
        let service = tower::service_fn(move |_: Request<Full<Bytes>>| {
            let mut there = there.clone();
            async move {
                let gone = || io::Error::from(io::ErrorKind::ConnectionRefused);
                if !*there.borrow() {
                    return Err(gone());
                }
                let metadata = json!({"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}});
                let end = json!({"type": "BOOKMARK", "object": {"metadata": metadata}});
                let end = stream::iter([Ok(Frame::data(Bytes::from(format!("{end}\n"))))]);
                let broken = stream::once(async move {
                    let _ = there.wait_for(|there| !*there).await;
                    Err(gone())
                });
                Ok(Response::new(StreamBody::new(end.chain(broken))))
            }
        });
        let client = Client::in_process(service, &Options::default());
        let mut watches = JoinSet::new();
        let model = feed::start(&client, &mut watches);
        let (insight, stage, reach, election) = (None, None, String::new(), String::new());
        (Scene { client, model, insight, stage, reach, election, tour: Mutex::default() }, watches)
    }

    /// Contract: PG-02
    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_gone_is_told_within_seconds_until_it_is_back() {
        let (there, is_there) = watch::channel(false);
        let (scene, _watches) = cluster(is_there);
        let look = async || {
            let fragments = View::Overview { query: String::new() }.render(&scene, &mut Memory::default()).await;
            fragments.into_iter().map(|fragment| (fragment.id, fragment.html)).collect::<HashMap<_, _>>()
        };
        let time = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
        time(5).await;
        let shown = look().await;
        assert!(shown.contains_key("wait") && shown["silent"].contains("has failed for 5.0 s"), "{shown:?}");
        there.send_replace(true);
        time(60).await;
        let shown = look().await;
        assert!(!shown.contains_key("wait") && !shown.contains_key("silent"), "{shown:?}");

        there.send_replace(false);
        time(2).await;
        assert!(!look().await.contains_key("silent"), "a watch that breaks may be open again at once");
        time(2).await;
        let shown = look().await;
        assert!(shown["silent"].contains("The watch of the API server has failed for 4.0 s"), "{shown:?}");
        there.send_replace(true);
        time(60).await;
        assert!(!look().await.contains_key("silent"));
    }

    #[test]
    fn addresses() {
        let key = || ObjectKey::new("shop", "web");
        let rollout = |at| View::Rollout { kind: Kind::Deployment, key: key(), at, all: false };
        for (target, view) in [
            ("/", Some(View::Overview { query: String::new() })),
            ("/?q=a%20b", Some(View::Overview { query: "a b".to_owned() })),
            ("/rollout/deployments/shop/web", Some(rollout(None))),
            ("/rollout/deployments/shop/web?at=12", Some(rollout(Some(12)))),
            ("/why/replicasets/shop/web", Some(View::Why { kind: Kind::ReplicaSet, key: key() })),
            ("/inside", Some(View::Inside { follow: None })),
            ("/tour", Some(View::Tour { step: 1 })),
            ("/tour?step=8", Some(View::Tour { step: 8 })),
            ("/rules/RS-07", Some(View::Rule { row: "RS-07".to_owned() })),
            ("/tour?step=9", None),
            ("/rollout/deployments/shop/web?at=x", None),
            ("/rollout/secrets/shop/web", None),
            ("/rollout/deployments/shop/..", None),
            ("/rollout/deployments/shop/web/more", None),
            ("/rules/RS-999", None),
            ("/else", None),
            ("", None),
        ] {
            assert_eq!(View::parse(target), view, "{target}");
        }
        assert_eq!(View::parse(&format!("/?q={}", "x".repeat(101))), None);
    }

    #[test]
    fn spans() {
        for (seconds, said) in [
            (0.000_05, "50 µs"),
            (0.25, "250 ms"),
            (2.0, "2.0 s"),
            (61.0, "1 min 1 s"),
            (7260.0, "2 h 1 min"),
            (2e5, "2 d"),
        ] {
            assert_eq!(span(seconds), said);
        }
    }
}
