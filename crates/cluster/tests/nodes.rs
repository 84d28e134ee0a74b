//! Simulated nodes and the pods on them, on an embedded server in virtual time.

mod common;

use std::time::Duration;

use common::{PODS, World, condition, is_ready, quick};
use muster_cluster::{DelayRange, Options};
use serde_json::{Value, json};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// Contract: SIM-01
#[tokio::test(start_paused = true)]
async fn nodes_are_ready_and_renew_their_leases() {
    let world = World::new(quick(3)).await;
    let nodes = world.items("/api/v1/nodes").await;
    assert_eq!(nodes.len(), 3);
    for node in &nodes {
        assert!(is_ready(node), "{node}");
        assert_eq!(node["spec"]["taints"], Value::Null);
        assert_eq!(node["status"]["capacity"]["pods"], "5120");
        assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], node["metadata"]["name"]);
    }
    let before = world.items(LEASES).await;
    assert_eq!(before.len(), 3);
    assert_eq!(before[0]["spec"]["leaseDurationSeconds"], 40);
    assert_eq!(before[0]["spec"]["holderIdentity"], "node-0");
    world.pass(25_000).await;
    for (old, new) in before.iter().zip(world.items(LEASES).await) {
        assert!(old["spec"]["renewTime"].as_str() < new["spec"]["renewTime"].as_str());
    }
    // Over hours they stay ready.
    world.pass(2 * 3600 * 1000).await;
    assert!(world.items("/api/v1/nodes").await.iter().all(is_ready));
}

/// Contract: SIM-01
#[tokio::test(start_paused = true)]
async fn their_number_changes_while_running() {
    let world = World::new(quick(1)).await;
    world.cluster.set_nodes(4);
    world.pass(100).await;
    assert_eq!(world.names("/api/v1/nodes").await, ["node-0", "node-1", "node-2", "node-3"]);
    world.cluster.set_nodes(2);
    world.pass(100).await;
    assert_eq!(world.names("/api/v1/nodes").await, ["node-0", "node-1"]);
    world.pass(100_000).await;
    assert!(world.items("/api/v1/nodes").await.iter().all(is_ready));
}

/// Contract: SIM-01, SIM-02
#[tokio::test(start_paused = true)]
async fn a_cluster_that_has_no_nodes_is_left_alone() {
    let world = World::new(quick(0)).await;
    let pod = world.pod("lonely", json!({})).await;
    world.post("/api/v1/nodes", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "hers"}})).await;
    let node = world.get("/api/v1/nodes/hers").await;
    world.pass(600_000).await;
    let now = world.get(&format!("{PODS}/lonely")).await;
    assert_eq!(now["metadata"]["resourceVersion"], pod["metadata"]["resourceVersion"]);
    assert_eq!(
        world.get("/api/v1/nodes/hers").await["metadata"]["resourceVersion"],
        node["metadata"]["resourceVersion"]
    );
    world.cluster.set_nodes(1);
    world.pass(1000).await;
    assert!(is_ready(&world.get(&format!("{PODS}/lonely")).await));
}

/// Contract: SIM-02, SIM-03
#[tokio::test(start_paused = true)]
async fn pods_are_bound_spread_and_ready_after_their_delay() {
    let options = Options { pod_startup: "200ms..800ms".parse::<DelayRange>().expect("a range"), ..quick(3) };
    let world = World::new(options).await;
    for n in 0..30 {
        world.pod(&format!("p{n}"), json!({})).await;
    }
    world.pass(100).await;
    let pods = world.items(PODS).await;
    for node in ["node-0", "node-1", "node-2"] {
        assert_eq!(pods.iter().filter(|pod| pod["spec"]["nodeName"] == node).count(), 10);
    }
    assert!(
        pods.iter()
            .all(|pod| pod["status"]["phase"] == "Pending" && condition(pod, "PodScheduled")["status"] == "True")
    );
    assert_eq!(pods[0]["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "ContainerCreating");
    world.pass(800).await;
    let pods = world.items(PODS).await;
    assert!(pods.iter().all(is_ready));
    let mut addresses: Vec<&str> =
        pods.iter().map(|pod| pod["status"]["podIP"].as_str().expect("an address")).collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), 30);
    for pod in &pods {
        assert_eq!(pod["status"]["phase"], "Running");
        assert_eq!(pod["status"]["qosClass"], "BestEffort");
        let types: Vec<_> =
            pod["status"]["conditions"].as_array().expect("conditions").iter().map(|c| c["type"].clone()).collect();
        assert_eq!(types, ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]);
    }
}

/// Contract: SIM-02
#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_nowhere_says_so_and_goes_once_it_fits() {
    let world = World::new(quick(2)).await;
    let hungry =
        json!({"spec": {"containers": [{"name": "app", "image": "a", "resources": {"requests": {"cpu": "1000"}}}]}});
    world.pod("hungry", hungry).await;
    world.pod("picky", json!({"spec": {"nodeSelector": {"disk": "ssd"}}})).await;
    world.pass(1000).await;
    let hungry = world.get(&format!("{PODS}/hungry")).await;
    let scheduled = condition(&hungry, "PodScheduled");
    assert_eq!(
        (&hungry["status"]["phase"], &scheduled["status"], &scheduled["reason"]),
        (&json!("Pending"), &json!("False"), &json!("Unschedulable"))
    );
    let message = scheduled["message"].as_str().expect("a message");
    assert!(message.starts_with("0/2 nodes are available: 2 Insufficient cpu."), "{message}");
    let version = hungry["metadata"]["resourceVersion"].clone();
    world.merge("/api/v1/nodes/node-1", json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
    world.pass(2000).await;
    let picky = world.get(&format!("{PODS}/picky")).await;
    assert!(is_ready(&picky));
    assert_eq!(picky["spec"]["nodeName"], "node-1");
    assert_eq!(condition(&picky, "PodScheduled")["status"], "True");
    world.pass(600_000).await;
    assert_eq!(world.get(&format!("{PODS}/hungry")).await["metadata"]["resourceVersion"], version, "it is said once");
    let events = world.items("/api/v1/namespaces/default/events").await;
    let reasons = |pod: &str| -> Vec<&str> {
        let of = events.iter().filter(|event| event["involvedObject"]["name"] == pod);
        let mut reasons: Vec<&str> = of.map(|event| event["reason"].as_str().expect("a reason")).collect();
        reasons.sort_unstable();
        reasons
    };
    assert_eq!(reasons("picky"), ["Created", "FailedScheduling", "Pulled", "Scheduled", "Started"]);
    let event = events.iter().find(|event| event["reason"] == "Scheduled").expect("there is one");
    assert_eq!(event["message"], "Successfully assigned default/picky to node-1");
    assert_eq!(event["reportingComponent"], "default-scheduler");
}

/// Contract: SIM-04
#[tokio::test(start_paused = true)]
async fn fates_are_on_the_pod() {
    let world = World::new(quick(1)).await;
    let annotated = |fate: &str| json!({"metadata": {"annotations": {"muster.dev/fate": fate}}});
    world.pod("broken", json!({"spec": {"containers": [{"name": "app", "image": "nginx:404"}]}})).await;
    for fate in ["never-ready", "crash-loop", "fail", "succeed", "reject"] {
        world.pod(fate, annotated(fate)).await;
    }
    world.pass(60_000).await;
    let mut seen = Vec::new();
    for pod in world.items(PODS).await {
        let state = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
        seen.push((pod["metadata"]["name"].clone(), pod["status"]["phase"].clone(), is_ready(&pod), state.clone()));
    }
    let expected = [
        ("broken", "Pending", json!("ImagePullBackOff")),
        ("crash-loop", "Running", json!("CrashLoopBackOff")),
        ("fail", "Failed", Value::Null),
        ("never-ready", "Running", Value::Null),
        ("reject", "Failed", Value::Null),
        ("succeed", "Succeeded", Value::Null),
    ];
    let expected: Vec<_> =
        expected.into_iter().map(|(name, phase, state)| (json!(name), json!(phase), false, state)).collect();
    assert_eq!(seen, expected);
    let looping = world.get(&format!("{PODS}/crash-loop")).await;
    assert!(looping["status"]["containerStatuses"][0]["restartCount"].as_u64() > Some(1));
}

/// Contract: SIM-05
#[tokio::test(start_paused = true)]
async fn a_deleted_pod_stays_for_its_shutdown_then_goes() {
    let world = World::new(Options { pod_shutdown: Duration::from_secs(5), ..quick(1) }).await;
    world.pod("slow", json!({})).await;
    world.pod("brief", json!({"spec": {"terminationGracePeriodSeconds": 2}})).await;
    world.pass(1000).await;
    for name in ["slow", "brief"] {
        world.delete(&format!("{PODS}/{name}"), json!({})).await;
    }
    world.pass(1900).await;
    assert_eq!(world.names(PODS).await, ["brief", "slow"]);
    let slow = world.get(&format!("{PODS}/slow")).await;
    assert!(is_ready(&slow) && !slow["metadata"]["deletionTimestamp"].is_null(), "ready until it stops");
    world.pass(200).await;
    assert_eq!(world.names(PODS).await, ["slow"]);
    world.pass(3000).await;
    assert!(world.names(PODS).await.is_empty());
}

/// Contract: SIM-03
#[tokio::test(start_paused = true)]
async fn an_active_deadline_may_come_later_and_counts_from_the_start() {
    let world = World::new(quick(1)).await;
    world.pod("p", json!({})).await;
    world.pass(10_000).await;
    world.merge(&format!("{PODS}/p"), json!({"spec": {"activeDeadlineSeconds": 100}})).await;
    world.pass(80_000).await;
    assert!(is_ready(&world.get(&format!("{PODS}/p")).await));
    world.merge(&format!("{PODS}/p"), json!({"spec": {"activeDeadlineSeconds": 95}})).await;
    world.pass(6_000).await;
    let status = world.get(&format!("{PODS}/p")).await["status"].clone();
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("DeadlineExceeded")));
}

/// Contract: SIM-03
#[tokio::test(start_paused = true)]
async fn an_ephemeral_container_runs_beside_the_others_and_ends_with_them() {
    let world = World::new(quick(1)).await;
    let debugger = |name: &str| json!({"spec": {"ephemeralContainers": [{"name": name, "image": "busybox"}]}});
    let task = json!({"spec": {"restartPolicy": "Never"}, "metadata": {"finalizers": ["example.com/hold"]}});
    world.pod("p", task).await;
    world.pass(100).await;
    world.merge(&format!("{PODS}/p/ephemeralcontainers"), debugger("look")).await;
    world.pass(100).await;
    let pod = world.get(&format!("{PODS}/p")).await;
    let seen = &pod["status"]["ephemeralContainerStatuses"][0];
    assert_eq!((&seen["name"], &seen["ready"], &seen["started"]), (&json!("look"), &json!(false), &Value::Null));
    assert!(seen["state"]["running"]["startedAt"].is_string(), "{seen}");
    assert!(is_ready(&pod));
    world.delete(&format!("{PODS}/p"), json!({})).await;
    world.pass(60_000).await;
    let seen = world.get(&format!("{PODS}/p")).await["status"]["ephemeralContainerStatuses"][0].clone();
    assert_eq!(seen["state"]["terminated"]["exitCode"], 143, "{seen}");
}

/// As in Kubernetes' own documentation of extended resources.
///
/// Contract: SIM-01
#[tokio::test(start_paused = true)]
async fn a_node_gives_out_the_devices_that_are_written_into_its_capacity() {
    let world = World::new(quick(1)).await;
    world.pass(100).await;
    let asks = json!({"spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"limits": {"example.com/dongle": "3"}}},
    ]}});
    world.pod("first", asks.clone()).await;
    world.pass(100).await;
    assert_eq!(world.get(&format!("{PODS}/first")).await["status"]["phase"], "Pending");
    let dongles = |amount: Value| json!({"status": {"capacity": {"example.com/dongle": amount}}});
    world.merge("/api/v1/nodes/node-0/status", dongles(json!("4"))).await;
    world.pass(1000).await;
    assert_eq!(world.get("/api/v1/nodes/node-0").await["status"]["allocatable"]["example.com/dongle"], "4");
    assert!(is_ready(&world.get(&format!("{PODS}/first")).await));
    world.pod("second", asks).await;
    world.pass(1000).await;
    assert_eq!(world.get(&format!("{PODS}/second")).await["spec"]["nodeName"], Value::Null, "one is left");
    world.merge("/api/v1/nodes/node-0/status", dongles(Value::Null)).await;
    world.pass(1000).await;
    let node = world.get("/api/v1/nodes/node-0").await;
    assert_eq!(node["status"]["allocatable"]["example.com/dongle"], Value::Null);
}

/// Contract: SIM-04
#[tokio::test(start_paused = true)]
async fn a_container_ends_as_its_command_says() {
    let world = World::new(quick(1)).await;
    let pod = |policy: &str, script: &str, init: Value| {
        json!({"spec": {
            "restartPolicy": policy, "initContainers": init,
            "containers": [{"name": "c", "image": "busybox", "command": ["/bin/sh", "-c"], "args": [script]}],
        }})
    };
    let init = |command: &str| json!([{"name": "i", "image": "busybox", "command": [command]}]);
    world.pod("done", pod("Never", "sleep 3; exit 0", json!([]))).await;
    world.pod("failed", pod("Never", "exit 7", init("true"))).await;
    world.pod("retried", pod("OnFailure", "exit 7", json!([]))).await;
    world.pod("unknown", pod("Never", "exit $CODE", json!([]))).await;
    world.pod("begun", pod("Never", "sleep 3600", init("true"))).await;
    world.pod("not-begun", pod("Never", "sleep 3600", init("false"))).await;
    world.pod("tried", pod("Always", "sleep 3600", init("false"))).await;
    world.pass(2_000).await;
    let phase = async |name: &str| world.get(&format!("{PODS}/{name}")).await["status"]["phase"].clone();
    assert_eq!((phase("done").await, phase("failed").await), (json!("Running"), json!("Failed")));
    world.pass(60_000).await;
    let mut seen = Vec::new();
    for pod in world.items(PODS).await {
        let status = &pod["status"];
        let restarts = |list: &str| status[list][0]["restartCount"].as_u64().unwrap_or_default() > 1;
        let again = restarts("containerStatuses") || restarts("initContainerStatuses");
        let code = status["containerStatuses"][0]["state"]["terminated"]["exitCode"].clone();
        seen.push((pod["metadata"]["name"].clone(), status["phase"].clone(), code, again));
    }
    let expected = [
        ("begun", "Running", Value::Null, false),
        ("done", "Succeeded", json!(0), false),
        ("failed", "Failed", json!(7), false),
        ("not-begun", "Failed", Value::Null, false),
        ("retried", "Running", Value::Null, true),
        ("tried", "Pending", Value::Null, true),
        ("unknown", "Running", Value::Null, false),
    ];
    assert_eq!(seen, expected.map(|(name, phase, code, again)| (json!(name), json!(phase), code, again)));
    let tried = world.get(&format!("{PODS}/tried")).await["status"]["initContainerStatuses"][0].clone();
    assert_eq!(tried["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(tried["lastState"]["terminated"]["exitCode"], 1);
    let failed = world.get(&format!("{PODS}/failed")).await["status"].clone();
    let ready = |list: &str| failed[list][0]["ready"].clone();
    assert_eq!((ready("initContainerStatuses"), ready("containerStatuses")), (json!(true), json!(false)));
}

/// Contract: SIM-03
#[tokio::test(start_paused = true)]
async fn the_node_says_which_generation_of_a_pod_it_runs() {
    let world = World::new(quick(1)).await;
    world.pod("p", json!({"spec": {"activeDeadlineSeconds": 5000}})).await;
    world.pass(100).await;
    assert_eq!(world.get(&format!("{PODS}/p")).await["status"]["observedGeneration"], 1);
    for (seconds, generation) in [(4999, 2), (4998, 3)] {
        world.merge(&format!("{PODS}/p"), json!({"spec": {"activeDeadlineSeconds": seconds}})).await;
        world.pass(100).await;
        let pod = world.get(&format!("{PODS}/p")).await;
        assert_eq!(pod["metadata"]["generation"], generation);
        assert_eq!(pod["status"]["observedGeneration"], generation);
        assert_eq!(condition(&pod, "Ready")["observedGeneration"], generation);
    }
}

/// A pod that names its node comes past the scheduler, and a StatefulSet's waits for such a failure to make it anew.
///
/// Contract: SIM-02
#[tokio::test(start_paused = true)]
async fn a_node_does_not_admit_a_pod_whose_host_port_is_taken() {
    let world = World::new(quick(1)).await;
    let on_port = |port: u16| {
        json!({"spec": {
            "nodeName": "node-0",
            "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": port}]}],
        }})
    };
    for (name, port) in [("first", 80), ("second", 80), ("third", 81)] {
        world.pod(name, on_port(port)).await;
        world.pass(100).await;
    }
    let second = world.get(&format!("{PODS}/second")).await;
    let message =
        "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
    assert_eq!(second["status"]["phase"], "Failed");
    assert_eq!((&second["status"]["reason"], &second["status"]["message"]), (&json!("NodePorts"), &json!(message)));
    assert!(is_ready(&world.get(&format!("{PODS}/third")).await));
    world.delete(&format!("{PODS}/first"), json!({})).await;
    world.pass(60_000).await;
    world.pod("fourth", on_port(80)).await;
    world.pass(100).await;
    assert!(is_ready(&world.get(&format!("{PODS}/fourth")).await), "the second holds nothing");
}

/// A Job holds its pods by a finalizer to count how they ended: one that was told to stop did not do its work.
///
/// Contract: SIM-05
#[tokio::test(start_paused = true)]
async fn a_deleted_pod_that_finalizers_keep_has_failed_unless_it_was_a_server() {
    let world = World::new(quick(1)).await;
    let kept = |spec: Value| json!({"metadata": {"finalizers": ["example.com/hold"]}, "spec": spec});
    world.pod("server", kept(json!({}))).await;
    world.pod("task", kept(json!({"restartPolicy": "Never"}))).await;
    world.pod("retried", kept(json!({"restartPolicy": "OnFailure"}))).await;
    world.pass(1000).await;
    let unstarted =
        json!({"metadata": {"annotations": {"muster.dev/fate": "never-start"}, "finalizers": ["example.com/hold"]}});
    world.pod("unstarted", unstarted).await;
    world.pass(1000).await;
    let mut seen = Vec::new();
    for name in ["server", "task", "retried", "unstarted"] {
        world.delete(&format!("{PODS}/{name}"), json!({})).await;
    }
    world.pass(60_000).await;
    for pod in world.items(PODS).await {
        let code = pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"].clone();
        seen.push((pod["metadata"]["name"].clone(), pod["status"]["phase"].clone(), code));
    }
    let expected = [
        ("retried", "Failed", json!(143)),
        ("server", "Succeeded", json!(0)),
        ("task", "Failed", json!(143)),
        ("unstarted", "Failed", Value::Null),
    ];
    assert_eq!(seen, expected.map(|(name, phase, code)| (json!(name), json!(phase), code)));
}

/// Contract: SIM-06
#[tokio::test(start_paused = true)]
async fn a_cordoned_and_tainted_node_takes_no_pods_and_loses_those_that_do_not_bear_it() {
    let world = World::new(quick(2)).await;
    for n in 0..4 {
        let tolerates = json!({"spec": {"tolerations": [{"key": "maintenance", "operator": "Exists"}]}});
        world.pod(&format!("p{n}"), if n < 2 { json!({}) } else { tolerates }).await;
    }
    world.pass(100).await;
    world.merge("/api/v1/nodes/node-0", json!({"spec": {"unschedulable": true}})).await;
    world.pass(100).await;
    let node = world.get("/api/v1/nodes/node-0").await;
    assert_eq!(node["spec"]["taints"][0]["key"], "node.kubernetes.io/unschedulable");
    world.pod("late", json!({})).await;
    world.pass(100).await;
    assert_eq!(world.get(&format!("{PODS}/late")).await["spec"]["nodeName"], "node-1");
    let taints = json!([{"key": "maintenance", "effect": "NoExecute"}, node["spec"]["taints"][0]]);
    world.merge("/api/v1/nodes/node-0", json!({"spec": {"taints": taints}})).await;
    world.pass(100).await;
    let pods = world.items(PODS).await;
    let left: Vec<_> =
        pods.iter().filter(|pod| pod["spec"]["nodeName"] == "node-0").map(|pod| &pod["metadata"]["name"]).collect();
    assert_eq!(left, ["p2"], "the one that bears the taint");
    world.merge("/api/v1/nodes/node-0", json!({"spec": {"unschedulable": null, "taints": null}})).await;
    world.pass(100).await;
    assert_eq!(world.get("/api/v1/nodes/node-0").await["spec"]["taints"], Value::Null);
}

/// Contract: SIM-06
#[tokio::test(start_paused = true)]
async fn a_lost_node_is_noticed_its_pods_leave_in_time_and_it_can_come_back() {
    let world = World::new(quick(2)).await;
    let brief = json!({"spec": {"tolerations": [
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10},
    ]}});
    world.pod("brief", brief).await;
    world.pod("other", json!({})).await;
    world.pod("patient", json!({})).await;
    world.pass(100).await;
    let cut = |off: Value| json!({"metadata": {"annotations": {"muster.dev/unreachable": off}}});
    world.merge("/api/v1/nodes/node-0", cut(json!("true"))).await;
    world.pass(45_000).await;
    assert!(is_ready(&world.get("/api/v1/nodes/node-0").await), "silence is borne for 50 s");
    world.pass(20_000).await;
    let node = world.get("/api/v1/nodes/node-0").await;
    let ready = condition(&node, "Ready");
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("Unknown"), &json!("NodeStatusUnknown")));
    let taints = node["spec"]["taints"].as_array().expect("taints");
    assert!(
        taints.iter().all(|taint| taint["key"] == "node.kubernetes.io/unreachable") && taints.len() == 2,
        "{taints:?}"
    );
    assert!(!is_ready(&world.get(&format!("{PODS}/patient")).await));
    assert!(is_ready(&world.get(&format!("{PODS}/other")).await));
    world.pass(10_000).await;
    let brief = world.get(&format!("{PODS}/brief")).await;
    assert!(!brief["metadata"]["deletionTimestamp"].is_null(), "deleted, and nobody there to let it go");
    assert_eq!(condition(&brief, "DisruptionTarget")["reason"], "DeletionByTaintManager");
    world.merge("/api/v1/nodes/node-0", cut(Value::Null)).await;
    world.pass(1000).await;
    let node = world.get("/api/v1/nodes/node-0").await;
    assert!(is_ready(&node));
    assert_eq!(node["spec"]["taints"], Value::Null);
    assert_eq!(world.names(PODS).await, ["other", "patient"]);
    assert!(is_ready(&world.get(&format!("{PODS}/patient")).await), "it ran all along");
    world.pass(600_000).await;
    assert_eq!(world.names(PODS).await, ["other", "patient"], "the eviction was called off");
}

/// Contract: SIM-06
#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_node_are_collected_unless_it_comes_back() {
    let world = World::new(quick(2)).await;
    for n in 0..4 {
        world.pod(&format!("p{n}"), json!({})).await;
    }
    world.pass(100).await;
    let mut node = world.get("/api/v1/nodes/node-1").await;
    world.delete("/api/v1/nodes/node-0", json!({})).await;
    world.delete("/api/v1/nodes/node-1", json!({})).await;
    world.pass(30_000).await;
    assert_eq!(world.names(PODS).await.len(), 4);
    node["metadata"] =
        json!({"name": "node-1", "annotations": node["metadata"]["annotations"], "labels": node["metadata"]["labels"]});
    world.post("/api/v1/nodes", node).await;
    world.pass(30_000).await;
    let pods = world.items(PODS).await;
    assert!(pods.iter().all(|pod| pod["spec"]["nodeName"] == "node-1") && pods.len() == 2);
    assert!(is_ready(&world.get("/api/v1/nodes/node-1").await));
}

/// The same seed, the same requests: the same history.
///
/// Contract: SIM-02, SIM-03
#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_history() {
    let mut histories = Vec::new();
    for _ in 0..2 {
        let world = World::new(Options { pod_startup: "10ms..2s".parse().expect("a range"), ..quick(3) }).await;
        for n in 0..50 {
            world.pod(&format!("p{n}"), json!({"metadata": {"annotations": {"muster.dev/fate": if n % 7 == 0 { "crash-loop" } else { "run" }}}})).await;
        }
        world.pass(30_000).await;
        histories.push((world.get(PODS).await, world.get("/api/v1/events").await));
        world.cluster.stop().await;
    }
    assert_eq!(histories[0], histories[1]);
}

/// Contract: SIM-07
#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_config_maps_and_secrets_and_says_which() {
    let world = World::new(quick(1)).await;
    let secret = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
    world.pod("mounts", json!({"spec": {"volumes": [{"name": "v", "configMap": {"name": "m"}}]}})).await;
    let env = json!([{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]);
    world.pod("reads", json!({"spec": {"containers": [{"name": "app", "image": "nginx:1", "env": env}]}})).await;
    world.pass(60_000).await;
    let waiting = async |pod: &str| {
        let pod = world.get(&format!("{PODS}/{pod}")).await;
        assert_eq!(pod["status"]["phase"], "Pending");
        pod["status"]["containerStatuses"][0]["state"]["waiting"].clone()
    };
    assert_eq!(waiting("mounts").await, json!({"reason": "ContainerCreating"}));
    let missing = json!({"reason": "CreateContainerConfigError", "message": "secret \"s\" not found"});
    assert_eq!(waiting("reads").await, missing);
    let events = world.items("/api/v1/namespaces/default/events").await;
    let told = |pod: &str| -> Vec<(&str, &str)> {
        let of = events.iter().filter(|event| event["involvedObject"]["name"] == pod && event["type"] == "Warning");
        of.filter_map(|event| Some((event["reason"].as_str()?, event["message"].as_str()?))).collect()
    };
    let unmounted = "MountVolume.SetUp failed for volume \"v\" : configmap \"m\" not found";
    assert_eq!(told("mounts"), [("FailedMount", unmounted)]);
    assert_eq!(told("reads"), [("Failed", "Error: secret \"s\" not found")]);

    world.map("m", &[]).await;
    world.post("/api/v1/namespaces/default/secrets", secret("s", json!({"other": "x"}))).await;
    world.pass(1000).await;
    assert!(is_ready(&world.get(&format!("{PODS}/mounts")).await));
    let missing = json!({"reason": "CreateContainerConfigError", "message": "couldn't find key k in Secret default/s"});
    assert_eq!(waiting("reads").await, missing);
    world.merge("/api/v1/namespaces/default/secrets/s", json!({"stringData": {"k": "x"}})).await;
    world.pass(1000).await;
    assert!(is_ready(&world.get(&format!("{PODS}/reads")).await));
}

/// A node tells what its containers have, and gives them what a resize asks for.
///
/// Contract: SIM-03, API-25
#[tokio::test(start_paused = true)]
async fn a_pod_that_runs_can_be_resized() {
    let world = World::new(quick(1)).await;
    let resources =
        |cpu: &str| json!({"limits": {"cpu": "200m", "memory": "64Mi"}, "requests": {"cpu": cpu, "memory": "64Mi"}});
    let containers = |cpu: &str| {
        json!([
            {"name": "app", "image": "nginx", "resources": resources(cpu)}, {"name": "beside", "image": "nginx"},
        ])
    };
    world.pod("sized", json!({"spec": {"containers": containers("100m")}})).await;
    world.pod("plain", json!({})).await;
    world.pass(1000).await;
    let of = async |name: &str| world.get(&format!("{PODS}/{name}")).await;
    let told = |pod: &Value| pod["status"]["containerStatuses"].clone();
    let before = of("sized").await;
    assert!(is_ready(&before));
    assert_eq!(told(&before)[0]["resources"], resources("100m"));
    assert_eq!(told(&before)[0]["allocatedResources"], resources("100m")["requests"]);
    assert_eq!((&told(&before)[1]["resources"], &told(&before)[1]["allocatedResources"]), (&json!({}), &Value::Null));
    assert_eq!(told(&of("plain").await)[0]["resources"], json!({}), "it says nothing of resources");

    world.merge(&format!("{PODS}/sized/resize"), json!({"spec": {"containers": containers("50m")}})).await;
    world.pass(1000).await;
    let after = of("sized").await;
    assert_eq!(told(&after)[0]["resources"], resources("50m"));
    assert_eq!(told(&after)[0]["allocatedResources"], resources("50m")["requests"]);
    assert_eq!(after["status"]["observedGeneration"], after["metadata"]["generation"]);
    assert!(after["metadata"]["generation"].as_i64() > before["metadata"]["generation"].as_i64());
    assert_eq!(told(&after)[0]["containerID"], told(&before)[0]["containerID"], "it runs on");
}
