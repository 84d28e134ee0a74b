//! Watches of a server that says what the test tells it to, in paused time.

use std::convert::Infallible;
use std::time::Duration;

use futures::StreamExt as _;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use http_body_util::{BodyExt as _, StreamBody};
use muster_runtime::explain::Kind;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tower::ServiceExt as _;

use super::*;

const PODS: &str = "/api/v1/pods?watch=true&timeoutSeconds=300";
const SETS: &str = "/apis/apps/v1/replicasets?watch=1";
const SECOND: Duration = Duration::from_secs(1);

/// A watch that is read by a task, as an informer does.
struct Reader {
    server: UnboundedSender<&'static str>,
    heard: Arc<Mutex<Vec<(u64, String)>>>,
    reading: JoinHandle<()>,
}

impl Reader {
    async fn of(watches: &Arc<Watches>, path: &str) -> Self {
        let (server, said) = unbounded::<&'static str>();
        let mut said = Some(said);
        let service = tower::service_fn(move |_: Request<()>| {
            let frames = said.take().expect("one request").map(|text| Ok::<_, Infallible>(Frame::data(text.into())));
            std::future::ready(Ok::<_, Infallible>(Response::new(StreamBody::new(frames))))
        });
        let request = Request::get(path).body(()).unwrap();
        let mut body = Watched::new(service, watches).oneshot(request).await.unwrap().into_body();
        let (heard, begun) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
        let hears = Arc::clone(&heard);
        let reading = tokio::spawn(async move {
            while let Some(frame) = body.frame().await {
                let (said, broken) = match frame {
                    Ok(frame) => (String::from_utf8(frame.into_data().unwrap().into()).unwrap(), false),
                    Err(error) => (error.to_string(), true),
                };
                hears.lock().unwrap().push((begun.elapsed().as_secs(), said));
                if broken {
                    return;
                }
            }
        });
        Self { server, heard, reading }
    }

    fn says(&self, text: &'static str) {
        self.server.unbounded_send(text).unwrap();
    }

    /// What was heard, and in which second.
    fn heard(&self) -> Vec<(u64, String)> {
        self.heard.lock().unwrap().clone()
    }
}

fn heard(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
    expected.iter().map(|(second, text)| (*second, (*text).to_owned())).collect()
}

const CUT: &str = "it was cut by `muster faults`";

#[tokio::test(start_paused = true)]
async fn what_is_held_comes_in_order_when_the_time_is_over_and_nothing_else_is_held() {
    let watches = Arc::new(Watches::default());
    let (pods, sets) = (Reader::of(&watches, PODS).await, Reader::of(&watches, SETS).await);
    let list = Reader::of(&watches, "/api/v1/pods?limit=500&watch=false").await;
    pods.says("a");
    sleep(SECOND).await;
    assert_eq!(watches.hold(Resource::Pods, Instant::now() + 5 * SECOND), 1);
    for reader in [&pods, &sets, &list] {
        reader.says("b");
        reader.says("c");
    }
    sleep(SECOND).await;
    let later = Reader::of(&watches, PODS).await;
    later.says("d");
    sleep(SECOND).await;
    assert_eq!(watches.of(Resource::Pods), (2, Some(Instant::now() + 3 * SECOND)));
    sleep(4 * SECOND).await;
    pods.says("e");
    sleep(SECOND).await;
    assert_eq!(pods.heard(), heard(&[(0, "a"), (6, "b"), (6, "c"), (7, "e")]));
    assert_eq!(later.heard(), heard(&[(4, "d")]), "one that was opened meanwhile");
    for other in [sets, list] {
        assert_eq!(other.heard(), heard(&[(1, "b"), (1, "c")]));
    }
    assert_eq!(watches.of(Resource::Pods), (2, None));
}

#[tokio::test(start_paused = true)]
async fn a_second_hold_takes_the_place_of_the_first() {
    let watches = Arc::new(Watches::default());
    let pods = Reader::of(&watches, PODS).await;
    for (first, second, heard_at) in [(100, 1, 1), (1, 10, 30)] {
        watches.hold(Resource::Pods, Instant::now() + first * SECOND);
        pods.says("x");
        // The reader waits for the end of the first by now.
        tokio::task::yield_now().await;
        watches.hold(Resource::Pods, Instant::now() + second * SECOND);
        sleep(20 * SECOND).await;
        assert_eq!(pods.heard().pop(), heard(&[(heard_at, "x")]).pop());
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_breaks_open_watches_at_once_also_those_that_are_held_and_none_that_come_later() {
    let watches = Arc::new(Watches::default());
    let (pods, sets) = (Reader::of(&watches, PODS).await, Reader::of(&watches, SETS).await);
    pods.says("a");
    sleep(SECOND).await;
    assert_eq!(watches.cut(Some(Resource::Pods)), 1);
    sleep(SECOND).await;
    assert_eq!(pods.heard(), heard(&[(0, "a"), (1, CUT)]));
    assert!(pods.reading.is_finished());
    assert_eq!(watches.of(Resource::Pods), (0, None));
    assert_eq!(sets.heard(), []);

    let again = Reader::of(&watches, PODS).await;
    watches.hold(Resource::Pods, Instant::now() + 60 * SECOND);
    again.says("b");
    sleep(SECOND).await;
    assert_eq!(watches.cut(None), 2);
    sleep(SECOND).await;
    assert_eq!(again.heard(), heard(&[(1, CUT)]), "what was held goes with its connection");
    assert_eq!(sets.heard(), heard(&[(3, CUT)]));
    let after = Reader::of(&watches, SETS).await;
    after.says("c");
    sleep(SECOND).await;
    assert_eq!(after.heard(), heard(&[(0, "c")]));
    assert_eq!(watches.of(Resource::Of(Kind::ReplicaSet)), (1, None));
}
