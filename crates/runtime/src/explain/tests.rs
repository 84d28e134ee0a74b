//! A manager that is asked while it works, against a scripted server under paused time.

use std::collections::BTreeSet;

use muster_inspect::explain::View;
use serde_json::{Value, json};

use super::*;
use crate::{
    manager::{Manager, Options, REPLICASET},
    script::{Server, server},
    shutdown,
};

fn key() -> ObjectKey {
    ObjectKey::new("ns", "web")
}

fn replica_set(replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "namespace": "ns", "name": "web", "uid": "00000000-0000-0000-0000-000000000001", "resourceVersion": "10",
            "generation": 1,
        },
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
        "status": {"replicas": 0},
    })
}

fn pod(body: &[u8], version: u64) -> Value {
    let mut pod: Value = serde_json::from_slice(body).unwrap();
    pod["metadata"]["namespace"] = json!("ns");
    pod["metadata"]["name"] = json!(format!("web-{version}"));
    pod["metadata"]["uid"] = json!(format!("00000000-0000-0000-0001-{version:012}"));
    pod["metadata"]["resourceVersion"] = json!(version.to_string());
    pod["status"] = json!({"phase": "Pending"});
    pod
}

fn asked(explainer: &Explainer) -> Explanation {
    explainer.explain(Kind::ReplicaSet, &key(), Role::Leader, 9).expect("it is in the cache")
}

/// Lets everything happen that can happen by itself at this moment.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Before the lists nothing is known; in a round the expectations are shown; after it, that the cache is behind. An
/// explanation sends nothing and changes nothing.
///
/// Contract: EX-01, RS-19
#[tokio::test(start_paused = true)]
async fn an_explanation_shows_what_the_manager_remembers() {
    let (client, mut server) = server();
    let options = Options { controllers: BTreeSet::from([REPLICASET]), ..Options::default() };
    let manager = Manager::new(&client, options);
    let explainer = manager.explainer();
    let (_trigger, stop) = shutdown::channel();
    let _running = tokio::spawn(manager.run(stop));

    let web = key();
    let refused = |kind| explainer.explain(kind, &web, Role::Leader, 9);
    assert!(matches!(refused(Kind::Deployment), Err(NotExplained::NotRun(Kind::Deployment))));
    assert!(matches!(refused(Kind::ReplicaSet), Err(NotExplained::NotSynced(_))));
    let (mut sets, mut pods) = (None, None);
    for _ in 0..2 {
        let asked = server.next().await;
        let of_pods = asked.path.starts_with("/api/v1/pods");
        *(if of_pods { &mut pods } else { &mut sets }) = Some(asked.stream());
    }
    let (sets, pods) = (sets.unwrap(), pods.unwrap());
    sets.event("ADDED", &replica_set(2));
    sets.bookmark(10, true);
    pods.bookmark(10, true);

    let first = server.next().await;
    assert_eq!(first.method.as_str(), "POST");
    let told = asked(&explainer);
    let memory = told.memory.expect("a manager remembers");
    assert_eq!(memory.expectations.map(|it| it.creations), Some(2));
    assert!(memory.queue.in_work && !memory.queue.waiting);
    let View::Replicas(replicas) = told.view else { panic!("{:?}", told.view) };
    assert_eq!(replicas.next.why[0].rule, "EX-07");
    assert!(replicas.next.writes.is_empty());

    let made = pod(&first.body, 20).to_string();
    first.answer(201, made);
    answer_the_rest(&mut server).await;
    let View::Stale(stale) = asked(&explainer).view else { panic!("the cache is behind") };
    assert_eq!((&*stale.kind, &*stale.wrote, &*stale.read), ("Pod", "21", "10"));
    assert!(matches!(asked(&explainer).view, View::Stale(_)), "asked again");

    let unknown = explainer.explain(Kind::ReplicaSet, &ObjectKey::new("ns", "other"), Role::Leader, 9);
    assert_eq!(unknown.unwrap_err().to_string(), "ReplicaSet ns/other not found");
}

/// Answers the second creation and accepts Events; the status of the round is left unanswered.
async fn answer_the_rest(server: &mut Server) {
    loop {
        let asked = server.next().await;
        if asked.path.contains("/events") {
            asked.answer(201, r#"{"kind":"Event","metadata":{"name":"e","uid":"u","resourceVersion":"1"}}"#);
        } else if asked.path.ends_with("/pods") {
            let made = pod(&asked.body, 21);
            asked.answer(201, made.to_string());
            settle().await;
            return;
        }
    }
}

/// Lists of one namespace, owners first, pods in either encoding; a refusal is reported as it is.
#[tokio::test(start_paused = true)]
async fn without_a_manager_the_namespace_is_listed() {
    let (client, mut server) = server();
    let (key, list) =
        (key(), |items: &[Value]| json!({"metadata": {"resourceVersion": "30"}, "items": items}).to_string());
    let explaining = explain_afresh(&client, Kind::ReplicaSet, &key, 500);
    let answering = async {
        let asked = server.next().await;
        assert_eq!(asked.path, "/apis/apps/v1/namespaces/ns/replicasets?limit=500");
        asked.answer(200, list(&[replica_set(2)]));
        let asked = server.next().await;
        assert_eq!(asked.path, "/api/v1/namespaces/ns/pods?limit=500");
        asked.answer(200, list(&[]));
    };
    let (told, ()) = futures::future::join(explaining, answering).await;
    let told = told.unwrap();
    assert_eq!((told.source, told.memory), (Source::Api, None));
    let View::Replicas(replicas) = told.view else { panic!("{:?}", told.view) };
    assert_eq!(replicas.next.summary, "create 2 pods");

    let explaining = explain_afresh(&client, Kind::Deployment, &key, 500);
    let (told, ()) = futures::future::join(explaining, async {
        server.next().await.refuse(403, "Forbidden", "you may not");
    })
    .await;
    assert_eq!(told.unwrap_err().to_string(), "you may not");
    let explaining = explain_afresh(&client, Kind::ReplicationController, &key, 500);
    let (told, ()) = futures::future::join(explaining, async { server.next().await.answer(200, list(&[])) }).await;
    assert!(matches!(told, Err(NotExplained::NotFound { .. })));
}
