//! Views kept up to date: each is rendered once, however many browsers look at it, and each browser is sent what differs
//! from what it has.
//!
//! ```text
//!   Model changed, a second passed --> Topic of a view: render --> fragments --> Viewer: difference --> frame of JSON
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::view::{Fragment, Memory, Scene, View};

/// How long at least there is between two renderings of a view: what a person can tell apart.
const PAUSE: Duration = Duration::from_millis(100);
/// Ages and rates change without an event.
const TICK: Duration = Duration::from_secs(1);
/// A view that takes long to render leaves this many times as long to others, and is late by no more than this for it.
const REST: u32 = 19;
const LATE: Duration = Duration::from_secs(1);

/// The views that somebody looks at.
pub(crate) struct Hub {
    scene: Arc<Scene>,
    topics: Mutex<HashMap<View, Weak<Topic>>>,
}

/// One view, as long as somebody looks at it.
pub(crate) struct Topic {
    shown: watch::Receiver<Arc<Vec<Fragment>>>,
    task: AbortHandle,
}

impl Drop for Topic {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Hub {
    pub(crate) fn new(scene: Arc<Scene>) -> Self {
        Self { scene, topics: Mutex::default() }
    }

    /// A look at a view, by the name that the browser has for it.
    pub(crate) fn look(&self, name: &str, view: &View) -> Viewer {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        topics.retain(|_, topic| topic.strong_count() > 0);
        let running = topics.get(view).and_then(Weak::upgrade).filter(|topic| !topic.task.is_finished());
        let topic = running.unwrap_or_else(|| {
            let (show, shown) = watch::channel(Arc::default());
            let task = tokio::spawn(follow(Arc::clone(&self.scene), view.clone(), show)).abort_handle();
            let topic = Arc::new(Topic { shown, task });
            topics.insert(view.clone(), Arc::downgrade(&topic));
            topic
        });
        Viewer { name: name.to_owned(), shown: topic.shown.clone(), _topic: topic, has: Arc::default() }
    }
}

/// Renders a view for as long as it is looked at.
async fn follow(scene: Arc<Scene>, view: View, show: watch::Sender<Arc<Vec<Fragment>>>) {
    let mut changes = scene.model.changes();
    let mut memory = Memory::default();
    loop {
        changes.borrow_and_update();
        let begun = Instant::now();
        let fragments = view.render(&scene, &mut memory).await;
        show.send_if_modified(|shown| {
            let differs = **shown != fragments;
            if differs {
                *shown = Arc::new(fragments);
            }
            differs
        });
        tokio::time::sleep((begun.elapsed() * REST).clamp(PAUSE, LATE)).await;
        let tick = tokio::time::sleep(TICK);
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = tick => {}
        }
    }
}

/// A browser's look at a view.
pub(crate) struct Viewer {
    pub(crate) name: String,
    shown: watch::Receiver<Arc<Vec<Fragment>>>,
    _topic: Arc<Topic>,
    /// What the browser has.
    has: Arc<Vec<Fragment>>,
}

/// What a browser is sent: the fragments that it has not, and the order of those lists that changed.
#[derive(Debug, Serialize, PartialEq)]
pub(crate) struct Frame {
    pub(crate) view: String,
    /// The HTML of fragments by their ids.
    pub(crate) html: BTreeMap<String, String>,
    /// The ids of the fragments in each element that has some, by its id.
    pub(crate) lists: BTreeMap<String, Vec<String>>,
}

impl Viewer {
    /// Waits for something else to show.
    pub(crate) async fn next(&mut self) -> Frame {
        loop {
            // Without a sender the rendering has failed, and nothing more comes.
            if self.shown.wait_for(|shown| !Arc::ptr_eq(shown, &self.has)).await.is_err() {
                return std::future::pending().await;
            }
            let shown = Arc::clone(&self.shown.borrow_and_update());
            let frame = difference(&self.name, &self.has, &shown);
            self.has = shown;
            if !frame.html.is_empty() || !frame.lists.is_empty() {
                return frame;
            }
        }
    }
}

/// What turns one state of a view into another.
pub(crate) fn difference(view: &str, has: &[Fragment], shown: &[Fragment]) -> Frame {
    let known: HashMap<&str, &Fragment> = has.iter().map(|fragment| (&*fragment.id, fragment)).collect();
    let differs = |fragment: &&Fragment| known.get(&*fragment.id).is_none_or(|known| known.html != fragment.html);
    let html = shown.iter().filter(differs).map(|fragment| (fragment.id.clone(), fragment.html.clone())).collect();
    let (before, after) = (lists(has), lists(shown));
    let gone = before.keys().filter(|parent| !after.contains_key(*parent)).map(|parent| (*parent, Vec::new()));
    let changed = after.iter().filter(|(parent, ids)| before.get(*parent) != Some(ids));
    let lists = changed.map(|(parent, ids)| (*parent, ids.clone())).chain(gone);
    let owned = |(parent, ids): (&str, Vec<&str>)| (parent.to_owned(), ids.into_iter().map(str::to_owned).collect());
    Frame { view: view.to_owned(), html, lists: lists.map(owned).collect() }
}

fn lists(fragments: &[Fragment]) -> BTreeMap<&str, Vec<&str>> {
    let mut lists: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for fragment in fragments {
        lists.entry(&fragment.parent).or_default().push(&fragment.id);
    }
    lists
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Full;
    use muster_runtime::client::{Client, Options};
    use tokio::task::JoinSet;

    use super::*;
    use crate::feed;

    /// A hub of a cluster that answers nothing of use.
    fn hub() -> Hub {
        let service = tower::service_fn(|_: Request<Full<Bytes>>| async {
            Ok::<_, Infallible>(Response::builder().status(404).body(Full::new(Bytes::new())).unwrap())
        });
        let client = Client::in_process(service, &Options::default());
        let model = feed::start(&client, &mut JoinSet::new());
        let (insight, stage, reach, election) = (None, None, String::new(), String::new());
        Hub::new(Arc::new(Scene { client, model, insight, stage, reach, election, tour: Mutex::default() }))
    }

    /// Contract: PG-03
    #[tokio::test(start_paused = true)]
    async fn a_view_is_rendered_once_for_all_who_look_and_only_while_they_do() {
        let hub = hub();
        let look = |name: &str| hub.look(name, &View::parse(name).unwrap());
        let mut viewers: Vec<Viewer> = (0..20).map(|_| look("/")).collect();
        let other = look("/?q=web");
        assert!(viewers.iter().all(|viewer| Arc::ptr_eq(&viewer._topic, &viewers[0]._topic)));
        assert!(!Arc::ptr_eq(&other._topic, &viewers[0]._topic));
        for viewer in &mut viewers {
            assert_eq!(viewer.next().await.lists["view"], ["wait"], "each is told on its own");
        }
        let task = viewers[0]._topic.task.clone();
        viewers.truncate(1);
        tokio::time::sleep(TICK * 2).await;
        assert!(!task.is_finished());
        viewers.clear();
        tokio::task::yield_now().await;
        assert!(task.is_finished(), "nobody looks any more");
        assert_eq!(hub.topics.lock().unwrap().values().filter(|topic| topic.strong_count() > 0).count(), 1);
    }

    /// Contract: PG-02
    #[tokio::test(start_paused = true)]
    async fn a_view_that_has_failed_is_begun_anew_and_holds_up_no_other() {
        let hub = hub();
        let look = || hub.look("/", &View::parse("/").unwrap());
        let mut failed = look();
        failed.next().await;
        failed._topic.task.abort();
        tokio::task::yield_now().await;
        let never = tokio::time::timeout(TICK * 60, failed.next()).await;
        assert!(never.is_err(), "nothing comes, and nothing spins");
        assert_eq!(look().next().await.lists["view"], ["wait"]);
    }

    fn shown(fragments: &[(&str, &str, &str)]) -> Vec<Fragment> {
        fragments.iter().map(|(parent, id, html)| Fragment::new(*parent, *id, *html)).collect()
    }

    #[test]
    fn only_what_differs_is_sent() {
        let one = shown(&[("view", "a", "1"), ("view", "b", "2"), ("b-list", "c", "3")]);
        let two = shown(&[("view", "a", "1"), ("view", "b", "4"), ("b-list", "c", "3")]);
        let frame = difference("v", &one, &two);
        assert_eq!(frame.html, BTreeMap::from([("b".to_owned(), "4".to_owned())]));
        assert!(frame.lists.is_empty(), "{frame:?}");
        // From nothing everything, and to nothing the empty lists.
        let frame = difference("v", &[], &one);
        assert_eq!((frame.html.len(), frame.lists.len()), (3, 2));
        let frame = difference("v", &one, &one[..1]);
        assert!(frame.html.is_empty());
        let lists = BTreeMap::from([("view".to_owned(), vec!["a".to_owned()]), ("b-list".to_owned(), vec![])]);
        assert_eq!(frame.lists, lists);
    }
}
