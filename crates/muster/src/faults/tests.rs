//! What the controllers of an embedded cluster do under faults, in paused time.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use muster_apiserver::http::muster::{Asked, Extension as _};
use muster_apiserver::{ApiServer, Options as ServerOptions};
use muster_objects::Timestamp;
use muster_runtime::client::{Encoding, Form, PatchType};
use tokio::time::{Instant, sleep};

use super::endpoint::Endpoint;
use super::live::LiveFaults;
use super::*;
use crate::embedded::{Embedded, Settings};

const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// A cluster without nodes, and a ReplicaSet `web` with its two pods.
async fn cluster() -> Embedded {
    let cluster = Embedded::start(&Settings { nodes: 0, seed: Some(1), ..Settings::default() }).await.unwrap();
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}},
        },
    });
    cluster.client.post(SETS, Bytes::from(set.to_string())).await.unwrap();
    until(&cluster, 2).await;
    cluster
}

async fn get(cluster: &Embedded, path: &str) -> Value {
    serde_json::from_slice(&cluster.client.get(path).await.unwrap().body).unwrap()
}

async fn names(cluster: &Embedded) -> BTreeSet<String> {
    let pods = get(cluster, PODS).await["items"].as_array().unwrap().clone();
    pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn pods(cluster: &Embedded) -> usize {
    names(cluster).await.len()
}

async fn reported(cluster: &Embedded) -> Value {
    get(cluster, &format!("{SETS}/web")).await["status"]["replicas"].clone()
}

/// Waits until the ReplicaSet reports so many pods.
async fn until(cluster: &Embedded, replicas: u64) {
    let begun = Instant::now();
    while reported(cluster).await != json!(replicas) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{replicas} are not reported");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn scale(cluster: &Embedded, replicas: u64) {
    let patch = json!({"spec": {"replicas": replicas}}).to_string();
    cluster.client.patch(&format!("{SETS}/web"), PatchType::Merge, Bytes::from(patch)).await.unwrap();
}

/// Contract: EX-07
#[tokio::test(start_paused = true)]
async fn while_pods_are_held_expectations_stop_a_second_scale_up() {
    let cluster = cluster().await;
    let version = get(&cluster, PODS).await["metadata"]["resourceVersion"].clone();
    let time = HoldTime::of(Duration::from_secs(60)).unwrap();
    assert_eq!(cluster.stage().hold(Resource::Pods, time), 1);
    scale(&cluster, 5).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(pods(&cluster).await, 5, "three more are made at once");
    scale(&cluster, 7).await;
    // Longer than a sync waits for a cache that is behind its own writes.
    sleep(Duration::from_secs(40)).await;
    assert_eq!((pods(&cluster).await, reported(&cluster).await), (5, json!(2)), "none of the three has been seen");
    let seen = cluster.stage().seen();
    let held: Vec<_> = seen.watches.iter().map(|it| (&*it.resource, it.open, it.held_seconds)).collect();
    assert_eq!(
        held,
        [
            ("pods", 1, Some(15.0)),
            ("replicasets", 1, None),
            ("deployments", 1, None),
            ("replicationcontrollers", 1, None)
        ]
    );
    until(&cluster, 7).await;
    // Every pod that was ever made is still there.
    let since = format!("{PODS}?watch=true&timeoutSeconds=1&resourceVersion={}", version.as_str().unwrap());
    let watch = cluster.client.watch_in(&since, Form::Full, Encoding::Json).await.unwrap();
    let made = watch.filter(|event| {
        let event: Value = serde_json::from_slice(event.as_ref().unwrap()).unwrap();
        std::future::ready(event["type"] == "ADDED" || event["type"] == "DELETED")
    });
    assert_eq!(made.count().await, 5);
    cluster.stop().await;
}

/// Contract: INF-05
#[tokio::test(start_paused = true)]
async fn what_happens_while_a_watch_is_cut_is_seen_after_it() {
    let cluster = cluster().await;
    assert_eq!(cluster.stage().cut(None), 4);
    scale(&cluster, 4).await;
    until(&cluster, 4).await;
    let before = names(&cluster).await;
    assert_eq!(cluster.stage().cut(Some(Resource::Pods)), 1);
    cluster.client.delete(&format!("{PODS}?labelSelector=app%3Dweb"), None).await.unwrap();
    sleep(Duration::from_secs(10)).await;
    assert_eq!((pods(&cluster).await, reported(&cluster).await), (4, json!(4)));
    assert!(names(&cluster).await.is_disjoint(&before), "all were deleted and made again");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_door_says_what_it_expects() {
    let cluster = cluster().await;
    let server = ApiServer::new(ServerOptions::seeded(1, Timestamp::from_seconds(1_767_225_600)));
    let endpoint = Endpoint::of(cluster.stage(), &LiveFaults::new(&server, 1, false));
    for (method, rest, body, code, said) in [
        ("GET", "", "", 200, r#""identity":"muster-1","leading":true"#),
        ("POST", "", "", 405, "POST is not allowed here, only GET"),
        ("POST", "hold", r#"{"resource": "po", "seconds": 1}"#, 200, r#"{"watches":1}"#),
        ("GET", "hold", "", 405, "GET is not allowed here, only POST"),
        ("POST", "hold", "", 400, "the body: EOF while parsing"),
        ("POST", "hold", r#"{"resource": "pods"}"#, 400, "missing field `seconds`"),
        (
            "POST",
            "hold",
            r#"{"resource": "pods", "seconds": 0.5}"#,
            400,
            "seconds: found 500ms, expected a duration from 1s",
        ),
        (
            "POST",
            "hold",
            r#"{"resource": "pods", "seconds": 301}"#,
            400,
            "seconds: found 301s, expected a duration from 1s",
        ),
        ("POST", "hold", r#"{"resource": "pods", "seconds": -1}"#, 400, "seconds: "),
        ("POST", "hold", r#"{"resource": "nodes", "seconds": 1}"#, 400, r#"resource: found \"nodes\", expected"#),
        ("POST", "cut", "{}", 200, r#"{"watches":4}"#),
        ("POST", "cut", r#"{"resources": "pods"}"#, 400, "unknown field `resources`, expected `resource`"),
        ("POST", "kill-leader", "", 409, "there is one manager only, and none to take over from it"),
        ("DELETE", "kill-leader", "", 405, "only POST"),
        ("POST", "add", r#"{"faults": [{"fault": "reset"}]}"#, 200, r#""plan":{"faults":[{"fault":"reset"}]}"#),
        ("POST", "add", r#"{"faults": [{"fault": "resett"}]}"#, 400, "unknown variant `resett`"),
        ("POST", "add", r#"{"faults": [{"fault": "reset", "nth": 0}]}"#, 400, "faults[0].nth: found 0"),
        (
            "POST",
            "add",
            r#"{"faults": [{"fault": {"lag": "1s"}, "verbs": ["list", "get"]}]}"#,
            400,
            "faults[0].verbs: found list, get, expected watch among them: lag strikes no other",
        ),
        (
            "POST",
            "add",
            r#"{"operations": [{"at": "2s", "do": "remember"}, {"at": "1s", "do": "restore"}]}"#,
            400,
            "operations[1]: found restore, expected remember before it",
        ),
        ("POST", "add", r#"{"operations": [{"at": "30m", "do": "remember"}]}"#, 200, r#""do":"remember""#),
        ("POST", "add", r#"{"operations": [{"at": "1s", "do": "restore"}]}"#, 400, "expected remember before it"),
        ("POST", "add", r#"{"operations": [{"at": "31m", "do": "restore"}]}"#, 200, r#""do":"restore""#),
        ("POST", "clear", "", 200, r#""plan":{}"#),
        ("POST", "add", r#"{"operations": [{"at": "31m", "do": "restore"}]}"#, 400, "expected remember before it"),
        ("POST", "add", r#"{"faults": [{"fault": "reset"}]}"#, 200, r#""plan":{"faults":[{"fault":"reset"}]}"#),
        ("GET", "", "", 200, r#""plan":{"faults":[{"fault":"reset"}]}"#),
        ("GET", "strikes", "", 200, r#"{"strikes":[]}"#),
        ("POST", "strikes", "", 405, "only GET"),
        ("POST", "clear", "", 200, r#"{"away":false,"met":[],"plan":{},"seed":1,"strikes":0}"#),
        ("POST", "heal", "", 404, r#"\"heal\" is no fault: there are hold, cut, kill-leader, add"#),
    ] {
        let asked = Asked {
            method: method.parse().unwrap(),
            rest: rest.to_owned(),
            query: String::new(),
            body: Bytes::from(body),
        };
        let answer = endpoint.answer(asked).await;
        let text = String::from_utf8_lossy(answer.body()).into_owned();
        assert_eq!(answer.status(), code, "{method} {rest:?} {body}: {text}");
        assert!(text.contains(said), "{method} {rest:?} {body}: {text}");
    }
    cluster.stop().await;
}

#[test]
fn a_list_says_who_leads_and_what_is_held() {
    let seen = json!({
        "managers": [{"identity": "muster-2", "leading": true}, {"identity": "muster-3", "leading": false}],
        "watches": [
            {"resource": "pods", "open": 2, "heldSeconds": 4.26},
            {"resource": "replicationcontrollers", "open": 0, "heldSeconds": null},
        ],
    });
    let text = told_of(&serde_json::from_value(seen).unwrap()).unwrap();
    let expected = "\
MANAGER                 ROLE
muster-2                leads
muster-3                stands by

WATCHES OF              OPEN  HELD
pods                    2     4.2 s more
replicationcontrollers  0     no

no faults; 0 strikes so far; seed 0
";
    assert_eq!(text, expected);
}
