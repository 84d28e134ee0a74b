//! The floor under a manager's cost: the requests that it cannot do without, sent by hyper with no controller behind them.
//!
//! It reads a watch of ReplicaSets, creates the pods that each new one asks for, says once in its status that they are
//! there, and reads a watch of pods. It controls nothing: there is no cache, no Event, and nothing is done again.
//!
//! ```sh
//! cargo build --release -p muster-runtime --example floor
//! muster bench manager --kubeconfig FILE --phases many --manager muster \
//!   --manager 'floor=target/release/examples/floor {kubeconfig}'
//! ```

use std::error::Error;

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use futures::channel::mpsc;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::ConfigExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How many creations are under way at once: one burst of a ReplicaSet.
const AT_ONCE: usize = 500;
/// What a manager asks for of what it writes, and of what it watches.
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const PODS: &str = "application/vnd.kubernetes.protobuf;stream=watch";
const SETS: &str = "application/json";

type Failed = Box<dyn Error + Send + Sync>;
type Hyper = Pool<hyper_rustls::HttpsConnector<HttpConnector>, Full<Bytes>>;

// One thread, as a manager has.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let file = std::env::args().nth(1).ok_or("expected a kubeconfig as the only argument")?;
    let kubeconfig = Kubeconfig::read_from(&file)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    // As a manager's, the watches do not share the writes' connection.
    let (hyper, watches) = (connection(&config)?, connection(&config)?);
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();

    let (wanted, wants) = mpsc::unbounded();
    let writes = wants.for_each_concurrent(AT_ONCE, |Write { method, content, path, body }| {
        let request = Request::builder().method(method).uri(format!("{server}{path}"));
        let request = request.header(header::ACCEPT, METADATA).header(header::CONTENT_TYPE, content);
        let request = request.body(Full::new(body));
        let hyper = hyper.clone();
        async move {
            let answer = hyper.request(request.expect("a request")).await.expect("an answer");
            assert!(answer.status().is_success(), "{path}: {}", answer.status());
            answer.into_body().collect().await.expect("its body");
        }
    });
    let pods = tokio::spawn(watch(watches.clone(), format!("{server}/api/v1/pods?watch=true"), PODS, |_| ()));
    let url = format!("{server}/apis/apps/v1/replicasets?watch=true");
    let sets = tokio::spawn(async move {
        let mut seen = 0;
        // The server ends a watch that is behind a burst.
        loop {
            let url = if seen == 0 { url.clone() } else { format!("{url}&resourceVersion={seen}") };
            let read = |read: &mut BytesMut| {
                while let Some(end) = read.iter().position(|byte| *byte == b'\n') {
                    let event: Value = serde_json::from_slice(&read.split_to(end + 1)).expect("an event");
                    let version = event["object"]["metadata"]["resourceVersion"].as_str().expect("a version");
                    seen = seen.max(version.parse::<u64>().expect("a number"));
                    if event["type"] == "ADDED" {
                        let writes = writes_for(&event["object"]);
                        writes.for_each(|write| wanted.unbounded_send(write).expect("writes go on"));
                    }
                }
            };
            watch(watches.clone(), url, SETS, read).await?;
        }
    });
    tokio::select! {
        ended = sets => return ended?,
        ended = pods => ended??,
        () = writes => {}
    }
    Err("a watch has ended".into())
}

/// What sends over a connection of its own, with a manager's windows.
fn connection(config: &kube::Config) -> Result<Hyper, Failed> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let tls = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?);
    Ok(Pool::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .http2_initial_stream_window_size(512 << 10)
        .http2_initial_connection_window_size(1 << 20)
        .build(tls.https_or_http().enable_http2().wrap_connector(tcp)))
}

/// Reads a watch to its end; `read` takes what it understands, the rest is dropped.
async fn watch(
    hyper: Hyper,
    url: String,
    accept: &'static str,
    mut read: impl FnMut(&mut BytesMut),
) -> Result<(), Failed> {
    let request = Request::get(url).header(header::ACCEPT, accept).body(Full::default())?;
    let mut body = hyper.request(request).await?.into_body();
    let mut kept = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data()
            && accept == SETS
        {
            kept.extend_from_slice(&data);
            read(&mut kept);
        }
    }
    Ok(())
}

/// A request that changes something.
#[derive(Clone)]
struct Write {
    method: Method,
    content: &'static str,
    path: String,
    body: Bytes,
}

/// The creations of a ReplicaSet's pods, and its status.
fn writes_for(set: &Value) -> impl Iterator<Item = Write> {
    let (meta, spec) = (&set["metadata"], &set["spec"]);
    let [name, namespace] = ["name", "namespace"].map(|key| meta[key].as_str().unwrap_or_default());
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": meta["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }]);
    let labels = &spec["template"]["metadata"]["labels"];
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "spec": spec["template"]["spec"],
        "metadata": {"generateName": format!("{name}-"), "labels": labels, "ownerReferences": owner},
    });
    let pod = Write {
        method: Method::POST,
        content: "application/json",
        path: format!("/api/v1/namespaces/{namespace}/pods"),
        body: pod.to_string().into(),
    };
    let replicas = &spec["replicas"];
    let status =
        json!({"replicas": replicas, "fullyLabeledReplicas": replicas, "observedGeneration": meta["generation"]});
    let status = Write {
        method: Method::PATCH,
        content: "application/merge-patch+json",
        path: format!("/apis/apps/v1/namespaces/{namespace}/replicasets/{name}/status"),
        body: json!({"status": status}).to_string().into(),
    };
    let count = usize::try_from(replicas.as_u64().unwrap_or(0)).expect("a number of pods");
    std::iter::repeat_n(pod, count).chain([status])
}
