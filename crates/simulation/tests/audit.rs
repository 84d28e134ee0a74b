//! A watch that loses events, in virtual time: what the controllers never heard of, they find at the resync.

#[path = "common/mod.rs"]
mod common;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use muster_apiserver::http::Service;
use muster_apiserver::{ApiServer, Options as ServerOptions};
use muster_objects::time::Timestamp;
use muster_runtime::client::{Client, Options as ClientOptions, PatchType};
use muster_runtime::clock::Clock;
use muster_runtime::manager::{Manager, Options};
use muster_runtime::shutdown;
use muster_simulation::world::EPOCH_NANOS;
use muster_tree::{Value, json};

use common::{PODS, SETS, in_virtual_time, pass};

const RESYNC: Duration = Duration::from_secs(3600);
const MINUTES: Duration = Duration::from_secs(600);

/// Which events of watches never come: type and name of the object.
type Lost = Arc<Mutex<BTreeSet<(&'static str, String)>>>;

/// A server whose watches lose events.
#[derive(Clone)]
struct Lossy {
    server: Service,
    lost: Lost,
}

impl tower::Service<Request<Full<Bytes>>> for Lossy {
    type Response = Response<http_body_util::combinators::UnsyncBoxBody<Bytes, std::io::Error>>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let (server, lost) = (self.server.clone(), Arc::clone(&self.lost));
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        Box::pin(async move {
            let answer = tower::ServiceExt::oneshot(server, request).await.unwrap_or_else(|never| match never {});
            let mut lines = Lines { partial: BytesMut::new(), lost };
            Ok(answer.map(|body| {
                let body = body.map_err(|error| std::io::Error::other(format!("{error:?}")));
                if is_watch {
                    body.map_frame(move |frame| frame.map_data(|data| lines.pass(&data))).boxed_unsync()
                } else {
                    body.boxed_unsync()
                }
            }))
        })
    }
}

/// The lines of one watch.
struct Lines {
    partial: BytesMut,
    lost: Lost,
}

impl Lines {
    /// The whole lines that have arrived, without those that are lost.
    fn pass(&mut self, data: &[u8]) -> Bytes {
        self.partial.extend_from_slice(data);
        let mut passed = BytesMut::new();
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line = self.partial.split_to(end + 1);
            let event: Value = serde_json::from_slice(&line).unwrap();
            let mut lost = self.lost.lock().unwrap();
            let before = lost.len();
            lost.retain(|(kind, name)| event["type"] != *kind || event["object"]["metadata"]["name"] != **name);
            if lost.len() == before {
                passed.extend_from_slice(&line);
            }
        }
        passed.freeze()
    }
}

/// A server, the controllers behind a watch that loses events, and no nodes: the test creates and deletes pods.
struct Scene {
    client: Client,
    lost: Lost,
    manager: Option<(tokio::task::JoinHandle<()>, shutdown::Trigger)>,
    metrics: muster_runtime::metrics::Metrics,
    server: ApiServer,
}

impl Scene {
    fn start(seed: u64) -> Self {
        let epoch = Timestamp::from_nanos(EPOCH_NANOS);
        let server = ApiServer::new(ServerOptions::seeded(seed, epoch));
        let lost = Lost::default();
        let lossy = Lossy { server: server.service(), lost: Arc::clone(&lost) };
        let options = ClientOptions { clock: Clock::starting_at(epoch), protobuf: false, ..ClientOptions::default() };
        let options_of_manager = Options { seed, min_resync_period: RESYNC, ..Options::default() };
        let manager = Manager::new(&Client::in_process(lossy, &options), options_of_manager);
        let metrics = manager.metrics();
        let (stop, stopped) = shutdown::channel();
        let manager = Some((tokio::spawn(manager.run(stopped)), stop));
        Self { client: Client::in_process(server.service(), &options), lost, manager, metrics, server }
    }

    fn lose(&self, kind: &'static str, name: &str) {
        self.lost.lock().unwrap().insert((kind, name.to_owned()));
    }

    /// The names of the pods.
    async fn pods(&self) -> BTreeSet<String> {
        let list = self.client.get(PODS).await.unwrap();
        let list: Value = serde_json::from_slice(&list.body).unwrap();
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
        list["items"].as_array().unwrap().iter().map(name).collect()
    }

    fn differences(&self, resource: &str) -> Option<String> {
        let prefix = format!("muster_informer_audit_differences_total{{resource=\"{resource}\"}} ");
        self.metrics.encode().lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
    }

    async fn stop(mut self) {
        if let Some((manager, stop)) = self.manager.take() {
            stop.stop();
            manager.await.unwrap();
        }
        self.server.stop();
    }
}

/// The deletion of a pod and the scaling of a ReplicaSet are lost events. For an hour the controllers keep the old
/// state. The audit at the resync finds both.
///
/// Contract: B-07
#[test]
fn lost_watch_events_are_found_at_the_resync() {
    in_virtual_time(async {
        let scene = Scene::start(7);
        for (name, replicas) in [("one", 5), ("two", 2)] {
            let set = json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
                "spec": {
                    "replicas": replicas, "selector": {"matchLabels": {"app": name}},
                    "template": {
                        "metadata": {"labels": {"app": name}},
                        "spec": {"containers": [{"name": "c", "image": "nginx"}]},
                    },
                },
            });
            scene.client.post(SETS, set.to_string().into()).await.unwrap();
        }
        pass(Duration::from_secs(60)).await;
        let pods = scene.pods().await;
        assert_eq!(pods.len(), 7);

        let gone = pods.first().unwrap();
        // A deletion is a mark first, and the removal then.
        scene.lose("MODIFIED", gone);
        scene.lose("DELETED", gone);
        scene.lose("MODIFIED", "two");
        scene.client.delete(&format!("{PODS}/{gone}?gracePeriodSeconds=0"), None).await.unwrap();
        let scale = json!({"spec": {"replicas": 4}}).to_string();
        scene.client.patch(&format!("{SETS}/two"), PatchType::Merge, scale.into()).await.unwrap();
        // Later events come, so that no watch resumes from before what was lost.
        let touch = json!({"metadata": {"annotations": {"touched": "yes"}}}).to_string();
        for path in [format!("{PODS}/{}", pods.last().unwrap()), format!("{SETS}/one")] {
            scene.client.patch(&path, PatchType::Merge, touch.clone().into()).await.unwrap();
        }
        pass(RESYNC - MINUTES).await;
        assert!(scene.lost.lock().unwrap().is_empty(), "they were lost");
        assert_eq!(scene.pods().await.len(), 6, "the loss is not noticed yet");
        assert_eq!(scene.differences("pods").as_deref(), Some("0"));

        pass(RESYNC + 2 * MINUTES).await;
        let pods = scene.pods().await;
        let of = |name: &str| pods.iter().filter(|pod| pod.starts_with(name)).count();
        assert_eq!((of("one-"), of("two-")), (5, 4), "{pods:?}");
        assert_eq!(scene.differences("pods").as_deref(), Some("1"));
        assert_eq!(scene.differences("replicasets").as_deref(), Some("1"));

        // From then on, audits find no difference.
        pass(4 * RESYNC).await;
        assert_eq!(scene.differences("pods").as_deref(), Some("1"));
        assert_eq!(scene.differences("replicationcontrollers").as_deref(), Some("0"));
        scene.stop().await;
    });
}
