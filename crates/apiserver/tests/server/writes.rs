//! Writes: versions, conflicts, dry runs, names, generations, deletion, namespaces.

use serde_json::{Value, json};

use crate::support::{Server, start, version};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

fn replica_set(name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    })
}

fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
    })
}

fn storage_version(server: &Server) -> u64 {
    server.api.registry().storage.version()
}

/// Contract: API-07
#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_writes_nothing() {
    let server = start();
    let created = server.config_map("a", "1").await.json();
    let before = storage_version(&server);
    assert_eq!(version(&created), before);
    let same = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"k": "1"}}, "data": {"a": "b"}});
    for _ in 0..2 {
        tokio::time::advance(std::time::Duration::from_secs(5)).await;
        let put = server.put(&format!("{MAPS}/a"), &same).await.json();
        let patched = server.merge(&format!("{MAPS}/a"), &json!({"data": {"a": "b"}})).await.json();
        assert_eq!((version(&put), version(&patched)), (before, before));
    }
    assert_eq!(storage_version(&server), before);
    assert_eq!(version(&server.config_map("b", "1").await.json()), before + 1, "one counter, one step");
}

/// Contract: API-11
#[tokio::test(start_paused = true)]
async fn a_stale_version_conflicts_and_none_does_not() {
    let server = start();
    let path = format!("{MAPS}/a");
    let old = server.config_map("a", "1").await.json();
    let stale = old["metadata"]["resourceVersion"].clone();
    assert_eq!(server.merge(&path, &json!({"data": {"n": "1"}})).await.status, 200);
    let body = |version: &Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": version}, "data": {"n": "2"}});
    for answer in [
        server.put(&path, &body(&stale)).await,
        server.merge(&path, &json!({"metadata": {"resourceVersion": stale}, "data": {"n": "3"}})).await,
    ] {
        assert_eq!(answer.status, 409);
        assert_eq!(
            answer.json()["message"],
            "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
        );
    }
    assert_eq!(server.put(&path, &body(&json!(""))).await.status, 200, "without a version it is unconditional");
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let body = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}});
    assert_eq!(server.put(lease, &body).await.status, 201, "a lease is created by an update");
    let answer = server.put(lease, &body).await;
    assert_eq!(
        (answer.status, &answer.json()["details"]["causes"][0]["field"]),
        (422, &json!("metadata.resourceVersion"))
    );

    let precondition = json!({"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}});
    assert_eq!(server.delete(&path, Some(&precondition)).await.status, 409);
    assert_eq!(server.delete(&path, Some(&json!({"preconditions": {"resourceVersion": "1"}}))).await.status, 409);
    let present = server.get(&path).await.json();
    let exact = json!({"preconditions": {
        "uid": present["metadata"]["uid"], "resourceVersion": present["metadata"]["resourceVersion"],
    }});
    assert_eq!(server.delete(&path, Some(&exact)).await.status, 200);
}

/// Contract: API-11, API-12
#[tokio::test(start_paused = true)]
async fn patches_at_the_same_time_are_all_applied() {
    let server = start();
    server.config_map("a", "1").await;
    let path = format!("{MAPS}/a");
    let patches: Vec<_> = (0..20)
        .map(|index| {
            let (server, path) = (&server, &path);
            async move { server.merge(path, &json!({"data": {format!("k{index}"): "v"}})).await.status }
        })
        .collect();
    assert!(futures::future::join_all(patches).await.into_iter().all(|status| status == 200));
    let data = server.get(&path).await.json()["data"].clone();
    assert_eq!(data.as_object().map(serde_json::Map::len), Some(21));
}

/// Contract: API-12
#[tokio::test(start_paused = true)]
async fn a_dry_run_answers_and_stores_nothing() {
    let server = start();
    server.config_map("a", "1").await;
    let before = storage_version(&server);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}});
    let created = server.post(&format!("{MAPS}?dryRun=All"), &map).await;
    assert_eq!((created.status, &created.json()["metadata"]["resourceVersion"]), (201, &Value::Null));
    let patched = server.merge(&format!("{MAPS}/a?dryRun=All"), &json!({"data": {"x": "y"}})).await;
    assert_eq!((patched.status, &patched.json()["data"]["x"]), (200, &json!("y")));
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    assert_eq!(server.put(&format!("{MAPS}/a?dryRun=All"), &body).await.status, 200);
    assert_eq!(server.delete(&format!("{MAPS}/a?dryRun=All"), None).await.status, 200);
    assert_eq!(server.delete(&format!("{MAPS}?dryRun=All"), None).await.status, 200);
    assert_eq!(storage_version(&server), before);
    assert_eq!(server.get(&format!("{MAPS}/a")).await.status, 200);
}

/// Contract: API-14
#[tokio::test(start_paused = true)]
async fn names_are_generated_and_taken_ones_tried_anew() {
    let server = start();
    let prefix = format!("{}-", "long".repeat(15));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": prefix}});
    let created = server.post(MAPS, &map).await.json();
    let name = created["metadata"]["name"].as_str().expect("a name");
    assert_eq!((name.len(), &name[..58]), (63, &prefix[..58]));

    // The same seed makes the same names: what the twin made is taken here, and another is tried.
    let (twin, server) = (start(), start());
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}});
    let first = twin.post(MAPS, &map).await.json()["metadata"]["name"].clone();
    let taken = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": first}});
    let registry = server.api.registry();
    let served = registry.find("", "v1", "configmaps").expect("configmaps are served");
    let object = taken.as_object().cloned().expect("an object");
    // Stored with no uid drawn, so that the generators stay in step.
    registry
        .storage
        .create(served.id, served.draft(&with_namespace(object).into(), None).expect("it is small"))
        .expect("a new name");
    let answer = server.post(MAPS, &map).await;
    assert_eq!(answer.status, 201);
    assert_ne!(answer.json()["metadata"]["name"], first);
}

fn with_namespace(mut object: serde_json::Map<String, Value>) -> serde_json::Map<String, Value> {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.insert("namespace".to_owned(), json!("default"));
    }
    object
}

/// Contract: API-15
#[tokio::test(start_paused = true)]
async fn each_part_of_an_object_is_written_by_its_own_path() {
    let server = start();
    assert_eq!(server.post(SETS, &replica_set("a", 1)).await.json()["metadata"]["generation"], 1);
    let path = format!("{SETS}/a");
    let status = server
        .merge(&format!("{path}/status"), &json!({"spec": {"replicas": 9}, "status": {"replicas": 3}}))
        .await
        .json();
    assert_eq!(
        (&status["spec"]["replicas"], &status["status"]["replicas"], &status["metadata"]["generation"]),
        (&json!(1), &json!(3), &json!(1))
    );
    let main = server.merge(&path, &json!({"spec": {"replicas": 2}, "status": {"replicas": 8}})).await.json();
    assert_eq!(
        (&main["spec"]["replicas"], &main["status"]["replicas"], &main["metadata"]["generation"]),
        (&json!(2), &json!(3), &json!(2))
    );

    let scale = server.get(&format!("{path}/scale")).await.json();
    assert_eq!(
        (&scale["kind"], &scale["spec"]["replicas"], &scale["status"]),
        (&json!("Scale"), &json!(2), &json!({"replicas": 3, "selector": "app=a"}))
    );
    let mut wanted = scale.clone();
    wanted["spec"]["replicas"] = json!(5);
    assert_eq!(server.put(&format!("{path}/scale"), &wanted).await.json()["spec"]["replicas"], 5);
    let stale = server.put(&format!("{path}/scale"), &wanted).await;
    assert_eq!(
        (stale.status, &stale.json()["reason"]),
        (409, &json!("Conflict")),
        "a scale has a version check of its own"
    );
    let negative = server.merge(&format!("{path}/scale"), &json!({"spec": {"replicas": -1}})).await;
    assert_eq!((negative.status, &negative.json()["details"]["kind"]), (422, &json!("Scale")));
    let set = server.get(&path).await.json();
    assert_eq!((&set["spec"]["replicas"], &set["metadata"]["generation"]), (&json!(5), &json!(3)));
}

/// Contract: API-18
#[tokio::test(start_paused = true)]
async fn pods_on_a_node_have_grace_and_others_go_at_once() {
    let server = start();
    server.post(PODS, &pod("bound", "node-1")).await;
    server.post(PODS, &pod("free", "")).await;
    server.post(PODS, &pod("done", "node-1")).await;
    server.merge(&format!("{PODS}/done/status"), &json!({"status": {"phase": "Succeeded"}})).await;

    let before = storage_version(&server);
    let mut watch = server.watch(&format!("{PODS}?watch=1&resourceVersion={before}")).await;
    let marked = server.delete(&format!("{PODS}/bound"), None).await.json();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2027-01-15T08:00:30Z");
    for name in ["free", "done"] {
        assert_eq!(
            server.delete(&format!("{PODS}/{name}"), None).await.json()["metadata"]["deletionGracePeriodSeconds"],
            0
        );
        assert_eq!(server.get(&format!("{PODS}/{name}")).await.status, 404);
    }
    // Only a shorter period changes anything.
    let same = server.delete(&format!("{PODS}/bound?gracePeriodSeconds=60"), None).await.json();
    assert_eq!(same["metadata"]["deletionGracePeriodSeconds"], 30);
    let sooner = server.delete(&format!("{PODS}/bound?gracePeriodSeconds=5"), None).await.json();
    assert_eq!(sooner["metadata"]["deletionTimestamp"], "2027-01-15T08:00:05Z");
    let uid = marked["metadata"]["uid"].clone();
    let last = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
    assert_eq!(server.delete(&format!("{PODS}/bound"), Some(&last)).await.status, 200);
    assert_eq!(server.get(&format!("{PODS}/bound")).await.status, 404);

    let mut seen = Vec::new();
    while seen.len() < 8 {
        seen.push(watch.brief().await.expect("an event"));
    }
    let word = |word: &str, name: &str| (word.to_owned(), name.to_owned());
    assert_eq!(
        seen,
        [
            word("MODIFIED", "bound"),
            word("MODIFIED", "free"),
            word("DELETED", "free"),
            word("MODIFIED", "done"),
            word("DELETED", "done"),
            word("MODIFIED", "bound"),
            word("MODIFIED", "bound"),
            word("DELETED", "bound"),
        ]
    );
}

/// Contract: API-18
#[tokio::test(start_paused = true)]
async fn finalizers_hold_an_object_and_propagation_sets_them() {
    let server = start();
    for (policy, finalizer) in [("Orphan", "orphan"), ("Foreground", "foregroundDeletion")] {
        server.post(SETS, &replica_set("a", 0)).await;
        let path = format!("{SETS}/a");
        let held = server.delete(&format!("{path}?propagationPolicy={policy}"), None).await.json();
        assert_eq!((&held["kind"], &held["metadata"]["finalizers"]), (&json!("ReplicaSet"), &json!([finalizer])));
        assert!(held["metadata"]["deletionTimestamp"].is_string());
        let again = server.post(SETS, &replica_set("a", 0)).await;
        assert_eq!(again.json()["message"], "object is being deleted: replicasets.apps \"a\" already exists");
        assert_eq!(server.merge(&path, &json!({"metadata": {"finalizers": null}})).await.status, 200);
        assert_eq!(server.get(&path).await.status, 404);
    }
    server.post(SETS, &replica_set("b", 0)).await;
    let gone = server.delete(&format!("{SETS}/b?propagationPolicy=Background"), None).await.json();
    assert_eq!((&gone["kind"], &gone["status"]), (&json!("Status"), &json!("Success")));
}

/// A deletion that is asked for again writes nothing and tells nobody: whoever deletes at every event would go on and on.
///
/// Contract: API-07, API-18
#[tokio::test(start_paused = true)]
async fn a_deletion_of_what_finalizers_hold_is_written_once() {
    let server = start();
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": ["x.io/y"]}});
    let maps = "/api/v1/namespaces/default/configmaps";
    let made = server.post(maps, &held).await.json();
    let mut lines = server.watch(&format!("{maps}?watch=1&resourceVersion={}", version(&made))).await;
    let first = server.delete(&format!("{maps}/a"), None).await.json();
    assert_eq!(lines.brief().await, Some(("MODIFIED".to_owned(), "a".to_owned())));
    // The clock goes on in between.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    for _ in 0..2 {
        assert_eq!(server.delete(&format!("{maps}/a"), None).await.json(), first);
    }
    server.merge(&format!("{maps}/a"), &json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(lines.brief().await, Some(("DELETED".to_owned(), "a".to_owned())));
}

/// The copies of a JSON patch add 3 MiB at most, as on the reference, whatever is done with them afterwards.
///
/// Contract: API-12, API-34
#[tokio::test(start_paused = true)]
async fn the_copies_of_a_json_patch_are_bounded() {
    let server = start();
    let maps = "/api/v1/namespaces/default/configmaps";
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "x".repeat(1_000)}});
    server.post(maps, &map).await;
    let patched = async |copies: usize| {
        let copy = |number| json!({"op": "copy", "from": "/data", "path": format!("/data/k{number}")});
        let removed = json!({"op": "remove", "path": "/data"});
        let patch: Vec<Value> = (0..copies).map(copy).chain([removed]).collect();
        let headers = [("Content-Type", "application/json-patch+json")];
        server.send("PATCH", &format!("{maps}/a"), &headers, Value::from(patch).to_string()).await
    };
    let refused = patched(12).await;
    assert_eq!(refused.status, 422, "4.1 MB");
    assert_eq!(refused.json()["message"], "the server rejected our request due to an error in our request");
    assert_eq!(patched(11).await.status, 200, "2.1 MB");
}

/// Storage takes 1.5 MiB for an object, however it came to be so large.
///
/// Contract: API-22, API-34
#[tokio::test(start_paused = true)]
async fn an_object_is_no_larger_than_the_reference_stores() {
    let server = start();
    let of_size = |size: usize| {
        let mut set = replica_set("a", 0);
        set["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["x".repeat(size)]);
        set
    };
    let large = server.post(SETS, &of_size(1_600_000)).await;
    assert_eq!((large.status, &large.json()["message"]), (500, &json!("etcdserver: request is too large")));
    assert_eq!(server.post(SETS, &of_size(1_571_000)).await.status, 201);
    // A second one of its size does not fit beside it.
    let path = format!("{SETS}/a");
    let more = json!({"metadata": {"annotations": {"b": "y".repeat(3_000)}}});
    let grown = server.merge(&path, &more).await;
    assert_eq!((grown.status, &grown.json()["message"]), (500, &json!("etcdserver: request is too large")));
    assert_eq!(server.get(&path).await.json()["metadata"]["annotations"], Value::Null);
    // Managed fields that make it too large are left out, unless they are what was applied.
    let many =
        |count: usize| (0..count).map(|number| (format!("a-key-that-is-long-{number:010}"), "v".into())).collect();
    let map = |count| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "many"}, "data": Value::Object(many(count))});
    let maps = "/api/v1/namespaces/default/configmaps";
    let managers = |answer: &crate::support::Answer| answer.json()["metadata"]["managedFields"].clone();
    let made = server.post(maps, &map(25_000)).await;
    assert_eq!((made.status, managers(&made)), (201, Value::Null));
    server.delete(&format!("{maps}/many"), None).await;
    assert_ne!(managers(&server.post(maps, &map(10_000)).await), Value::Null);
    let grown = server.merge(&format!("{maps}/many"), &map(25_000)).await;
    assert_eq!((grown.status, managers(&grown)), (200, Value::Null));
    server.delete(&format!("{maps}/many"), None).await;
    let apply = [("Content-Type", "application/apply-patch+yaml")];
    let applied = server.send("PATCH", &format!("{maps}/many?fieldManager=m"), &apply, map(25_000).to_string()).await;
    assert_eq!(applied.status, 500);
    // What is long in JSON only is stored.
    let quotes = server
        .merge(
            &path,
            &json!({"spec": {"template": {"spec": {"containers": [
                {"name": "c", "image": "i", "args": ["\"".repeat(1_000_000)]},
            ]}}}}),
        )
        .await;
    assert_eq!(quotes.status, 200);
}

/// Contract: API-20
#[tokio::test(start_paused = true)]
async fn namespaces_admit_creations_until_they_end() {
    let server = start();
    let namespaces = "/api/v1/namespaces";
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let namespace = server.get(&format!("{namespaces}/{name}")).await.json();
        assert_eq!(namespace["status"]["phase"], "Active", "{name}");
        assert_eq!(namespace["metadata"]["labels"]["kubernetes.io/metadata.name"], name);
    }
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let missing = server.post(&format!("{namespaces}/x/configmaps"), &map).await;
    assert_eq!((missing.status, &missing.json()["message"]), (404, &json!("namespaces \"x\" not found")));

    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}});
    assert_eq!(server.post(namespaces, &body).await.json()["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(server.post(&format!("{namespaces}/x/configmaps"), &map).await.status, 201);
    let ending = server.delete(&format!("{namespaces}/x"), None).await.json();
    assert_eq!(ending["status"]["phase"], "Terminating");
    let refused = server.post(&format!("{namespaces}/x/configmaps"), &map).await;
    assert_eq!(
        (refused.status, &refused.json()["details"]["causes"][0]["reason"]),
        (403, &json!("NamespaceTerminating"))
    );
    assert_eq!(server.delete(&format!("{namespaces}/x"), None).await.status, 200, "it stays until it is finalized");
    assert_eq!(server.get(&format!("{namespaces}/x")).await.status, 200);

    let finalized = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}, "spec": {}});
    assert_eq!(server.put(&format!("{namespaces}/x/finalize"), &finalized).await.status, 200);
    assert_eq!(server.get(&format!("{namespaces}/x")).await.status, 404);
    let immortal = server.delete(&format!("{namespaces}/default"), None).await;
    assert_eq!(
        (immortal.status, &immortal.json()["message"]),
        (403, &json!("namespaces \"default\" is forbidden: this namespace may not be deleted"))
    );
}

/// Contract: API-06
#[tokio::test(start_paused = true)]
async fn unknown_fields_are_refused_warned_of_or_dropped() {
    let server = start();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "nope": 1});
    let strict = server.post(&format!("{MAPS}?fieldValidation=Strict"), &map).await;
    assert_eq!(strict.status, 400);
    assert!(
        strict.json()["message"]
            .as_str()
            .expect("a message")
            .ends_with("strict decoding error: unknown field \"nope\"")
    );
    let warned = server.post(&format!("{MAPS}?fieldValidation=Warn&dryRun=All"), &map).await;
    assert_eq!((warned.status, warned.header("warning")), (201, "299 - \"unknown field \\\"nope\\\"\""));
    let ignored = server.post(&format!("{MAPS}?fieldValidation=Ignore"), &map).await;
    assert_eq!((ignored.status, ignored.header("warning")), (201, ""));
    assert_eq!(ignored.json()["nope"], Value::Null);
}

/// Contract: API-22
#[tokio::test(start_paused = true)]
async fn events_go_an_hour_after_they_were_last_written() {
    let server = start();
    let events = "/api/v1/namespaces/default/events";
    let event = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "R", "type": "Normal",
        })
    };
    for name in ["old", "seen-again"] {
        assert_eq!(server.post(events, &event(name)).await.status, 201);
    }
    tokio::time::advance(std::time::Duration::from_secs(1800)).await;
    assert_eq!(server.merge(&format!("{events}/seen-again"), &json!({"count": 2})).await.status, 200);
    tokio::time::advance(std::time::Duration::from_secs(1801)).await;
    assert_eq!(server.post(events, &event("new")).await.status, 201);
    let list = server.get(events).await.json();
    let names: Vec<&str> =
        list["items"].as_array().into_iter().flatten().filter_map(|e| e["metadata"]["name"].as_str()).collect();
    assert_eq!(names, ["new", "seen-again"]);
}

/// The same seed and the same requests give the same bytes.
#[tokio::test(start_paused = true)]
async fn a_seed_repeats_itself_byte_for_byte() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let server = start();
        let mut bytes = Vec::new();
        let generated = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}});
        for _ in 0..3 {
            bytes.push(server.post(MAPS, &generated).await.body);
            tokio::time::advance(std::time::Duration::from_secs(1)).await;
        }
        bytes.push(server.post(SETS, &replica_set("a", 2)).await.body);
        bytes.push(server.delete(&format!("{SETS}/a?propagationPolicy=Foreground"), None).await.body);
        bytes.push(server.get(MAPS).await.body);
        runs.push(bytes);
    }
    assert_eq!(runs[0], runs[1]);
}

/// Contract: API-18
#[tokio::test(start_paused = true)]
async fn a_bound_pod_is_not_bound_again_and_an_eviction_deletes() {
    let server = start();
    server.post(PODS, &pod("p", "")).await;
    let bind = |node: &str| json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}});
    assert_eq!(server.post(&format!("{PODS}/p/binding"), &bind("n1")).await.status, 201);
    let again = server.post(&format!("{PODS}/p/binding"), &bind("n2")).await;
    assert_eq!(again.status, 409);
    assert_eq!(
        again.json()["message"],
        "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n1\""
    );
    let bound = server.get(&format!("{PODS}/p")).await.json();
    assert_eq!(
        (&bound["spec"]["nodeName"], &bound["status"]["conditions"][0]["type"]),
        (&json!("n1"), &json!("PodScheduled"))
    );

    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    assert_eq!(server.post(&format!("{PODS}/p/eviction"), &eviction).await.status, 201);
    let evicted = server.get(&format!("{PODS}/p")).await.json();
    assert_eq!(evicted["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(evicted["status"]["conditions"][1]["reason"], "EvictionByEvictionAPI");
}

/// Contract: API-18
#[tokio::test(start_paused = true)]
async fn bindings_bind_the_pod_that_they_name_and_old_evictions_evict() {
    const BINDINGS: &str = "/api/v1/namespaces/default/bindings";
    let server = start();
    server.post(PODS, &pod("p", "")).await;
    let binding = |name: &str| json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}});
    let missing = server.post(BINDINGS, &binding("none")).await;
    assert_eq!((missing.status, &missing.json()["message"]), (404, &json!("pods \"none\" not found")));
    assert_eq!(server.post(BINDINGS, &binding("")).await.json()["message"], "Name parameter required.");
    assert_eq!(server.post(BINDINGS, &binding("p")).await.status, 201);
    assert_eq!(server.get(&format!("{PODS}/p")).await.json()["spec"]["nodeName"], "n1");
    assert_eq!(server.get(BINDINGS).await.status, 405);
    assert_eq!(server.post("/api/v1/bindings", &binding("p")).await.status, 404);
    let core = server.get("/api/v1").await.json();
    assert_eq!(
        (&core["resources"][0]["name"], &core["resources"][0]["verbs"]),
        (&json!("bindings"), &json!(["create"]))
    );

    let eviction = json!({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "p"}});
    assert_eq!(server.post(&format!("{PODS}/p/eviction"), &eviction).await.status, 201);
}

/// Contract: API-05
#[tokio::test(start_paused = true)]
async fn what_a_body_is_written_in() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let server = start();
    let body = |name: &str| format!(r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "{name}"}}}}"#);
    for (name, content_type, status) in [
        ("a", "Application/JSON", 201),
        ("b", "application/json;", 201),
        ("c", "application/json; charset=utf-8", 201),
        ("d", "application/json;;", 415),
        ("e", "text/plain", 415),
    ] {
        let answer = server.send("POST", MAPS, &[("Content-Type", content_type)], body(name)).await;
        assert_eq!(answer.status, status, "{content_type}");
    }
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml}\ndata: {k: v, k: w}\n";
    let warned = server.send("POST", MAPS, &[("Content-Type", "application/yaml")], yaml).await;
    assert_eq!(warned.header("warning"), "299 - \"line 4: key \\\"k\\\" already set in map\"");
    for (kind, former, version, path) in [
        ("ReplicaSet", "extensions/v1beta1", "apps/v1", "namespaces/default/replicasets"),
        ("StatefulSet", "apps/v1beta1", "apps/v1", "namespaces/default/statefulsets"),
        ("CronJob", "batch/v1beta1", "batch/v1", "namespaces/default/cronjobs"),
        ("Ingress", "extensions/v1beta1", "networking.k8s.io/v1", "namespaces/default/ingresses"),
        ("PodDisruptionBudget", "policy/v1beta1", "policy/v1", "namespaces/default/poddisruptionbudgets"),
        ("Event", "events.k8s.io/v1beta1", "events.k8s.io/v1", "namespaces/default/events"),
        ("FlowSchema", "flowcontrol.apiserver.k8s.io/v1beta3", "flowcontrol.apiserver.k8s.io/v1", "flowschemas"),
        ("VolumeAttributesClass", "storage.k8s.io/v1alpha1", "storage.k8s.io/v1", "volumeattributesclasses"),
        ("Role", "rbac.authorization.k8s.io/v1alpha1", "rbac.authorization.k8s.io/v1", "namespaces/default/roles"),
    ] {
        let old = json!({"apiVersion": former, "kind": kind, "metadata": {"name": "x"}});
        let old = server.post(&format!("/apis/{version}/{path}"), &old).await;
        let why = format!("the API version in the data ({former}) does not match the expected API version ({version})");
        assert_eq!((old.status, &old.json()["message"]), (400, &json!(why)), "{kind}");
    }
    // What a patch makes of an object may say one, and one of another kind's not.
    let set = json!({
        "metadata": {"name": "x"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    assert_eq!(server.post(sets, &set).await.status, 201);
    let merge = [("Content-Type", "application/merge-patch+json")];
    for (version, status) in [("apps/v1beta2", 200), ("apps/v1beta1", 422)] {
        let patch = json!({"apiVersion": version, "metadata": {"labels": {"from": "a-patch"}}}).to_string();
        let patched = server.send("PATCH", &format!("{sets}/x"), &merge, patch).await;
        assert_eq!(patched.status, status, "{version}: {}", patched.json());
        assert!(status != 200 || patched.json()["apiVersion"] == "apps/v1", "{}", patched.json());
    }
    let listed = server.get(&format!("{sets}?labelSelector=a;limit=1")).await;
    assert_eq!((listed.status, listed.json()["items"].as_array().map(Vec::len)), (200, Some(1)), "as Go reads a query");
    let name = server.send("POST", MAPS, &[("Content-Type", "application/json")], body("a\\nb")).await.json();
    assert!(name["message"].as_str().is_some_and(|m| m.starts_with(r#"ConfigMap "a\nb" is invalid: "#)), "{name}");
}

/// Contract: B-24
#[tokio::test(start_paused = true)]
async fn a_pod_whose_service_account_is_not_there_is_refused() {
    let server = start();
    let pods = "/api/v1/namespaces/default/pods";
    let mut pod = json!({
        "metadata": {"name": "p"}, "spec": {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]},
    });
    let refused = server.post(pods, &pod).await;
    let why =
        r#"pods "p" is forbidden: error looking up service account default/robot: serviceaccount "robot" not found"#;
    assert_eq!((refused.status, &refused.json()["message"]), (403, &json!(why)));
    let account = json!({"metadata": {"name": "robot"}});
    assert_eq!(server.post("/api/v1/namespaces/default/serviceaccounts", &account).await.status, 201);
    assert_eq!(server.post(pods, &pod).await.status, 201);
    pod["metadata"]["name"] = json!("q");
    pod["spec"].as_object_mut().expect("an object").remove("serviceAccountName");
    let stored = server.post(pods, &pod).await.json();
    assert_eq!(stored["spec"].get("serviceAccountName"), None, "{stored}");
}

/// Contract: API-06
#[tokio::test(start_paused = true)]
async fn an_address_in_an_odd_form_is_warned_of_in_a_status() {
    let server = start();
    assert_eq!(server.post(PODS, &pod("p", "n")).await.status, 201);
    let status =
        json!({"status": {"podIPs": [{"ip": "2001:DB8::0001"}], "hostIP": "1.2.3.4", "hostIPs": [{"ip": "1.2.3.4"}]}});
    let answer = server.merge(&format!("{PODS}/p/status"), &status).await;
    assert_eq!(answer.status, 200, "{}", answer.json());
    let warnings: Vec<&str> = answer.headers.get_all("warning").iter().filter_map(|v| v.to_str().ok()).collect();
    assert_eq!(
        warnings,
        [
            "299 - \"status.podIPs[0].ip: IPv6 address \\\"2001:DB8::0001\\\" should be in RFC 5952 canonical format (\\\"2001:db8::1\\\")\""
        ]
    );
}

/// Patches that are shallow each, and make something deep together, of a type that holds itself.
///
/// Contract: API-12, API-22
#[tokio::test(start_paused = true)]
async fn what_patches_make_is_no_deeper_than_what_is_sent() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const LEVELS: usize = 10;
    let server = start();
    let schema = |levels: usize| {
        (0..levels).fold(
            json!({"type": "object"}),
            |inner, _| json!({"type": "object", "properties": {"a": inner, "b": {"type": "string"}}}),
        )
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "foos.ex.com"},
        "spec": {
            "group": "ex.com", "scope": "Cluster", "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema(1)}}],
        },
    });
    assert_eq!(server.post(DEFINITIONS, &definition).await.status, 201);
    let path = format!("{DEFINITIONS}/foos.ex.com");
    let add = |number: usize| {
        let levels = "/properties/a".repeat(number * LEVELS + 1);
        json!({"op": "replace", "path": format!("/spec/versions/0/schema/openAPIV3Schema{levels}"), "value": schema(LEVELS)})
    };
    let patch = async |times: usize| {
        let operations: Vec<Value> = (0..times).map(add).collect();
        let headers = [("content-type", "application/json-patch+json")];
        server.send("PATCH", &path, &headers, serde_json::to_vec(&operations).expect("JSON")).await
    };
    assert_eq!(patch(100).await.status, 422);
    assert_eq!(patch(2).await.status, 200);
    let stored = server.get(&path).await.json();
    let deepest = format!("/spec/versions/0/schema/openAPIV3Schema{}/type", "/properties/a".repeat(2 * LEVELS + 1));
    assert_eq!(stored.pointer(&deepest), Some(&json!("object")));
}

/// The version in the query of a deletion is one that each object must have, of a collection too.
///
/// Contract: API-18
#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_only_at_the_version_that_is_named() {
    let server = start();
    server.config_map("a", "1").await;
    let b = version(&server.config_map("b", "1").await.json());
    for (query, status) in
        [("resourceVersion=0", 409), (&*format!("resourceVersion={b}&resourceVersionMatch=NotOlderThan"), 409)]
    {
        let refused = server.delete(&format!("{MAPS}?{query}"), None).await;
        assert_eq!(refused.status, status, "{query}: {}", refused.json());
        assert!(refused.json()["message"].as_str().unwrap().contains("does not match the ResourceVersion in record"));
        assert_eq!(server.get(&format!("{MAPS}/b")).await.status, 200);
    }
    assert_eq!(server.delete(&format!("{MAPS}/a?resourceVersion={b}"), None).await.status, 409);
    assert_eq!(server.delete(&format!("{MAPS}/b?uid=another"), None).await.status, 409);
    assert_eq!(server.delete(&format!("{MAPS}/b?resourceVersion={b}"), None).await.status, 200);
}

/// One without labels has those of its pods, whatever a write of its status takes away.
#[tokio::test(start_paused = true)]
async fn a_replication_controller_keeps_labels_through_its_status() {
    let server = start();
    let controllers = "/api/v1/namespaces/default/replicationcontrollers";
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = json!({"metadata": {"name": "a", "labels": {"z": "z"}}, "spec": {"replicas": 1, "template": template}});
    assert_eq!(server.post(controllers, &made).await.status, 201);
    let status = json!({"metadata": {"name": "a"}, "status": {"replicas": 0}});
    let put = server.put(&format!("{controllers}/a/status"), &status).await.json();
    assert_eq!(put["metadata"]["labels"], json!({"app": "a"}));
    let listed = server.get(&format!("{controllers}?labelSelector=app%3Da")).await.json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1));
}

/// A version that is no number is none for a creation by POST, and an error for one by PUT or apply.
#[tokio::test(start_paused = true)]
async fn a_version_that_is_no_number_is_told_where_the_reference_reads_it() {
    let server = start();
    let map = json!({"metadata": {"name": "a", "resourceVersion": "abc"}});
    assert_eq!(server.post(MAPS, &map).await.status, 201);
    let numbered = json!({"metadata": {"name": "b", "resourceVersion": "1"}});
    assert_eq!(server.post(MAPS, &numbered).await.status, 500);
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    for query in ["", "?dryRun=All"] {
        let refused = server.put(&format!("{leases}/a{query}"), &map).await;
        assert_eq!(refused.status, 500, "{query}");
        assert_eq!(refused.json()["message"], r#"strconv.ParseUint: parsing "abc": invalid syntax"#);
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_no_segment_of_a_path_is_refused() {
    let server = start();
    for (name, why) in [("%2e%2e", "\"..\": may not be '..'"), ("a%25b", "\"a%b\": may not contain '%'")] {
        let refused = server.get(&format!("{PODS}/{name}")).await;
        assert_eq!(refused.status, 400, "{name}");
        assert_eq!(refused.json()["message"], format!("Name parameter invalid: {why}"));
    }
}

/// An entry of the other group's version of events is of no version that the written one knows, and is dropped.
#[tokio::test(start_paused = true)]
async fn what_wrote_an_event_through_the_other_group_owns_it_no_more() {
    let server = start();
    let mut event = json!({
        "metadata": {"name": "e"}, "reason": "R", "message": "m", "type": "Normal", "count": 1,
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
    });
    for (name, patch, owners) in [
        ("e", json!({}), json!(null)),
        ("f", json!({"metadata": {"annotations": {"a": "b"}}}), json!(["events.k8s.io/v1"])),
    ] {
        event["metadata"]["name"] = name.into();
        assert_eq!(server.post("/api/v1/namespaces/default/events", &event).await.status, 201);
        let patched = server.merge(&format!("/apis/events.k8s.io/v1/namespaces/default/events/{name}"), &patch).await;
        let fields = patched.json()["metadata"]["managedFields"].clone();
        let versions =
            fields.as_array().map(|all| all.iter().map(|entry| entry["apiVersion"].clone()).collect::<Vec<_>>());
        assert_eq!(json!(versions), owners, "{patch}");
    }
}

/// A pod's class of service is the one that it comes with.
#[tokio::test(start_paused = true)]
async fn a_class_of_service_that_a_pod_comes_with_stays() {
    let server = start();
    let mut classed = pod("a", "");
    classed["status"] = json!({"qosClass": "Burstable", "phase": "Running"});
    let made = server.post(PODS, &classed).await.json();
    assert_eq!((&made["status"]["qosClass"], &made["status"]["phase"]), (&json!("Burstable"), &json!("Pending")));
}
