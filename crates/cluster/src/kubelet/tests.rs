mod needs;

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::nodes::{Capacity, place};
use crate::testing::{decode_pod, merge, now, pod_json, uid, uid_text};

/// A server with pods, as far as an agent can tell one: it merges patches and echoes what changed.
struct World {
    kubelet: Kubelet,
    pods: BTreeMap<Uid, Value>,
    /// What pods may need.
    objects: BTreeMap<Needed, Found>,
    /// Every status that was written, with its time in milliseconds.
    history: Vec<(u64, Uid, Value)>,
    deleted: Vec<(u64, Uid)>,
    now: u64,
}

fn settings(startup: &str, shutdown: Duration) -> Settings {
    Settings { startup: startup.parse().expect("a range"), shutdown, seed: 1, events: true }
}

impl World {
    fn new(startup: &str) -> Self {
        let mut kubelet = Kubelet::new(settings(startup, Duration::from_secs(1)));
        kubelet.node(now(0), &"node-0".into(), place(0, &Capacity::default()), true);
        Self {
            kubelet,
            pods: BTreeMap::new(),
            objects: BTreeMap::new(),
            history: Vec::new(),
            deleted: Vec::new(),
            now: 0,
        }
    }

    /// A pod on the node, with that change.
    fn add(&mut self, n: u32, change: &Value) {
        let mut pod = pod_json(
            n,
            &json!({
                "spec": {"nodeName": "node-0"},
                "status": {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2023-11-14T22:13:20Z"}]},
            }),
        );
        merge(&mut pod, change);
        self.pods.insert(uid(n), pod);
        self.echo(&uid(n));
        self.settle();
    }

    fn change(&mut self, n: u32, change: &Value) {
        merge(self.pods.get_mut(&uid(n)).expect("the pod is there"), change);
        self.echo(&uid(n));
        self.settle();
    }

    fn echo(&mut self, uid: &Uid) {
        let pod = decode_pod(&self.pods[uid]);
        self.kubelet.observe(now(self.now), &pod);
    }

    /// Does what is to be done now.
    fn settle(&mut self) {
        while let Some(action) = self.kubelet.next(now(self.now)) {
            match action {
                Action::Report { uid, patch, whole, .. } => {
                    let patch: Value = serde_json::from_slice(&patch).expect("a patch is JSON");
                    assert_eq!(patch["metadata"]["uid"], uid.to_string());
                    let pod = self.pods.get_mut(&uid).expect("only pods that are there are reported");
                    if whole {
                        assert_eq!(patch["metadata"]["resourceVersion"], pod["metadata"]["resourceVersion"]);
                        merge(&mut pod["status"], &patch["status"]);
                    } else {
                        strategic(&mut pod["status"], &patch["status"]);
                    }
                    self.history.push((self.now, uid.clone(), pod["status"].clone()));
                    self.kubelet.done(now(self.now), &uid, false, Outcome::Done);
                    self.echo(&uid);
                }
                Action::Read(needed) => {
                    let found = self.objects.get(&needed).cloned().unwrap_or(Found::Missing);
                    self.kubelet.found(now(self.now), &needed, found);
                }
                Action::Delete { uid, .. } => {
                    self.deleted.push((self.now, uid.clone()));
                    self.kubelet.done(now(self.now), &uid, true, Outcome::Done);
                    if self.pods[&uid]["metadata"]["finalizers"].is_null() {
                        let pod = decode_pod(&self.pods.remove(&uid).expect("it is there"));
                        self.kubelet.forget(&pod);
                    }
                }
            }
        }
    }

    /// Lets time pass, in steps as the agent asks for them.
    fn run_to(&mut self, millis: u64) {
        while let Some(wake) = self.kubelet.wake().filter(|wake| wake.as_nanos() <= millis * 1_000_000) {
            self.now = wake.as_nanos().div_ceil(1_000_000);
            self.settle();
        }
        self.now = millis;
        self.settle();
    }

    fn status(&self, n: u32) -> &Value {
        &self.pods[&uid(n)]["status"]
    }

    fn condition(&self, n: u32, kind: &str) -> Value {
        let conditions = self.status(n)["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
    }

    fn writes(&self, n: u32) -> Vec<u64> {
        self.history.iter().filter(|(_, of, _)| *of == uid(n)).map(|(at, ..)| *at).collect()
    }

    fn ready(&self, n: u32) -> bool {
        self.condition(n, "Ready")["status"] == "True"
    }

    fn container(&self, n: u32) -> &Value {
        &self.status(n)["containerStatuses"][0]
    }
}

/// What a strategic merge does to a pod's status: conditions and addresses by key, nulls take away.
fn strategic(into: &mut Value, patch: &Value) {
    for (key, value) in patch.as_object().expect("a patch is an object") {
        let by = match key.as_str() {
            "conditions" => "type",
            "podIPs" | "hostIPs" => "ip",
            key if key.starts_with('$') => continue,
            _ => {
                into[key] = value.clone();
                continue;
            }
        };
        if into[key].is_null() {
            into[key] = json!([]);
        }
        let list = into[key].as_array_mut().expect("a list");
        for item in value.as_array().expect("a list") {
            let at = list.iter().position(|old| old[by] == item[by]).unwrap_or_else(|| {
                list.push(json!({}));
                list.len() - 1
            });
            for (field, value) in item.as_object().expect("an object") {
                list[at][field] = value.clone();
            }
            if let Some(object) = list[at].as_object_mut() {
                object.retain(|_, value| !value.is_null());
            }
        }
    }
}

/// Contract: SIM-03
#[test]
fn without_a_delay_a_pod_is_ready_in_one_write() {
    let mut world = World::new("0s");
    world.add(1, &json!({}));
    assert_eq!(world.writes(1), [0]);
    let status = world.status(1).clone();
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["startTime"], "2023-11-14T22:13:20Z");
    assert_eq!((&status["hostIP"], &status["podIP"]), (&json!("172.18.0.2"), &json!("10.128.0.1")));
    assert_eq!(
        (&status["hostIPs"], &status["podIPs"]),
        (&json!([{"ip": "172.18.0.2"}]), &json!([{"ip": "10.128.0.1"}]))
    );
    for kind in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"] {
        assert_eq!(world.condition(1, kind)["status"], "True", "{kind}");
    }
    assert_eq!(world.condition(1, "Ready")["lastTransitionTime"], "2023-11-14T22:13:20Z");
    let container = world.container(1);
    assert_eq!(
        (&container["ready"], &container["started"], &container["restartCount"]),
        (&json!(true), &json!(true), &json!(0))
    );
    assert_eq!(container["state"], json!({"running": {"startedAt": "2023-11-14T22:13:20Z"}}));
    assert!(container["containerID"].as_str().is_some_and(|id| id.starts_with("containerd://") && id.len() == 77));
    assert!(container["imageID"].as_str().is_some_and(|id| id.starts_with("docker.io/library/nginx@sha256:")));
    world.run_to(3_600_000);
    assert_eq!(world.writes(1), [0], "a pod that runs is written no more");
}

/// Contract: SIM-03
#[test]
fn with_a_delay_it_is_creating_first_and_each_pod_has_its_own() {
    let mut world = World::new("200ms..800ms");
    for n in 1..=40 {
        world.add(n, &json!({}));
    }
    assert_eq!(world.status(1)["phase"], "Pending");
    assert_eq!(world.container(1)["state"], json!({"waiting": {"reason": "ContainerCreating"}}));
    assert_eq!(world.condition(1, "Ready")["reason"], "ContainersNotReady");
    assert_eq!(world.condition(1, "Ready")["message"], "containers with unready status: [app]");
    assert_eq!(world.condition(1, "Initialized")["status"], "True");
    assert_eq!(world.condition(1, "PodReadyToStartContainers")["status"], "False");
    assert_eq!(world.status(1)["podIP"], Value::Null);
    world.run_to(1000);
    let mut delays = BTreeSet::new();
    for n in 1..=40 {
        let writes = world.writes(n);
        assert_eq!(writes.len(), 2, "creating, then ready");
        assert!((200..=800).contains(&writes[1]), "{writes:?}");
        delays.insert(writes[1]);
        assert!(world.ready(n));
        assert_eq!(world.condition(n, "Ready").get("reason"), None, "what was said of it before is taken back");
    }
    assert!(delays.len() > 30, "the delays are drawn for each pod: {delays:?}");
}

/// Contract: SIM-03
#[test]
fn probes_delay_readiness_of_each_container() {
    let mut world = World::new("1s");
    let slow = json!({"spec": {"containers": [
        {"name": "b", "image": "b:1", "readinessProbe": {"initialDelaySeconds": 5}},
        {"name": "a", "image": "a:1", "readinessProbe": {"initialDelaySeconds": 2}, "startupProbe": {"initialDelaySeconds": 1}},
    ]}});
    world.add(1, &slow);
    world.run_to(1000);
    assert_eq!(world.status(1)["phase"], "Running");
    assert_eq!(world.condition(1, "Ready")["message"], "containers with unready status: [b a]");
    let names: Vec<_> =
        world.status(1)["containerStatuses"].as_array().expect("a list").iter().map(|c| c["name"].clone()).collect();
    assert_eq!(names, ["a", "b"], "sorted by name, as a kubelet does");
    world.run_to(60_000);
    assert_eq!(world.writes(1), [0, 1000, 4000, 6000]);
    assert!(world.ready(1));
    assert_eq!(world.condition(1, "Ready")["lastTransitionTime"], "2023-11-14T22:13:26Z");
}

/// Contract: SIM-03
#[test]
fn init_containers_go_first_one_by_one_and_sidecars_stay() {
    let mut world = World::new("3s");
    world.add(
        1,
        &json!({"spec": {
            "initContainers": [
                {"name": "first", "image": "i:1"},
                {"name": "side", "image": "s:1", "restartPolicy": "Always"},
                {"name": "second", "image": "i:1"},
            ],
        }}),
    );
    let states = |world: &World| -> Vec<String> {
        let of = |list: &Value| -> Vec<String> {
            let items = list.as_array().cloned().unwrap_or_default();
            items.iter().map(|c| c["state"].as_object().expect("a state").keys().next().expect("one").clone()).collect()
        };
        [of(&world.status(1)["initContainerStatuses"]), of(&world.status(1)["containerStatuses"])].concat()
    };
    assert_eq!(states(&world), ["waiting", "waiting", "waiting", "waiting"]);
    assert_eq!(world.container(1)["state"]["waiting"]["reason"], "PodInitializing");
    assert_eq!(world.condition(1, "Initialized")["message"], "containers with incomplete status: [first side second]");
    world.run_to(1000);
    assert_eq!(states(&world), ["running", "waiting", "waiting", "waiting"]);
    world.run_to(2000);
    assert_eq!(states(&world), ["terminated", "running", "running", "waiting"]);
    assert_eq!((world.status(1)["phase"].clone(), world.ready(1)), (json!("Pending"), false));
    world.run_to(3000);
    assert_eq!(states(&world), ["terminated", "running", "terminated", "running"]);
    assert_eq!((world.status(1)["phase"].clone(), world.ready(1)), (json!("Running"), true));
    assert_eq!(world.condition(1, "Initialized")["status"], "True");
    assert_eq!(world.status(1)["initContainerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
    // With no delay all of that is one write.
    let mut world = World::new("0s");
    world.add(1, &json!({"spec": {"initContainers": [{"name": "first", "image": "i:1"}]}}));
    assert_eq!((world.writes(1), world.ready(1)), (vec![0], true));
}

/// Contract: SIM-03
#[test]
fn readiness_gates_hold_a_pod_back_until_others_lift_them() {
    let mut world = World::new("0s");
    world.add(1, &json!({"spec": {"readinessGates": [{"conditionType": "example.com/lb"}]}}));
    assert_eq!(world.condition(1, "ContainersReady")["status"], "True");
    assert_eq!(world.condition(1, "Ready")["reason"], "ReadinessGatesNotReady");
    assert_eq!(
        world.condition(1, "Ready")["message"],
        "corresponding condition of pod readiness gate \"example.com/lb\" does not exist."
    );
    let mut conditions = world.status(1)["conditions"].clone();
    conditions.as_array_mut().expect("a list").push(json!({"type": "example.com/lb", "status": "True"}));
    world.change(1, &json!({"status": {"conditions": conditions}}));
    assert!(world.ready(1));
    assert_eq!(world.condition(1, "example.com/lb")["status"], "True", "conditions of others stay");
}

/// Contract: SIM-04
#[test]
fn an_image_that_is_not_there_is_never_pulled() {
    for image in ["nginx:404", "registry.example/app:nonexistent"] {
        let change = json!({"spec": {"containers": [{"name": "app", "image": image}]}});
        let mut world = World::new("1s");
        world.add(1, &change);
        world.run_to(1000);
        assert_eq!(world.container(1)["state"]["waiting"]["reason"], "ErrImagePull", "{image}");
        world.run_to(600_000);
        assert_eq!(world.container(1)["state"]["waiting"]["reason"], "ImagePullBackOff", "{image}");
        let message = world.container(1)["state"]["waiting"]["message"].as_str().expect("a message");
        assert!(message.starts_with(&format!("Back-off pulling image {image:?}: ErrImagePull: ")), "{message}");
        assert_eq!((world.status(1)["phase"].clone(), world.ready(1)), (json!("Pending"), false));
        assert_eq!(world.writes(1).len(), 3, "creating, failed, backing off, and then nothing more");
        // With no delay it is one write, so that a cluster comes to rest.
        let mut world = World::new("0s");
        world.add(1, &change);
        world.run_to(600_000);
        assert_eq!(world.writes(1), [0]);
        assert_eq!(world.container(1)["state"]["waiting"]["reason"], "ImagePullBackOff");
        // Another image, and it runs.
        world.change(1, &json!({"spec": {"containers": [{"name": "app", "image": "nginx:1"}]}}));
        assert!(world.ready(1));
    }
}

/// Contract: SIM-04
#[test]
fn a_crash_loop_backs_off_as_a_kubelet_does() {
    let mut world = World::new("0s");
    let fate = json!({"metadata": {"annotations": {"muster.dev/fate": "crash-loop", "muster.dev/run-for": "1s", "muster.dev/exit-code": "3"}}});
    world.add(1, &fate);
    assert!(world.ready(1));
    let mut seen = Vec::new();
    for at in 0..200 {
        world.run_to(at * 1000);
        let state = &world.container(1)["state"];
        let what = state["waiting"]["reason"].as_str().or(state["terminated"]["reason"].as_str()).unwrap_or("running");
        let now = (what.to_owned(), world.container(1)["restartCount"].as_u64().expect("a number"));
        if seen.last().is_none_or(|(_, last)| *last != now) {
            seen.push((at, now));
        }
    }
    let expected = [
        (0, "running", 0),
        (1, "Error", 0),
        (2, "running", 1),
        (3, "CrashLoopBackOff", 1),
        (13, "running", 2),
        (14, "CrashLoopBackOff", 2),
        (34, "running", 3),
        (35, "CrashLoopBackOff", 3),
        (75, "running", 4),
        (76, "CrashLoopBackOff", 4),
        (156, "running", 5),
        (157, "CrashLoopBackOff", 5),
    ];
    let expected: Vec<_> = expected.iter().map(|(at, what, count)| (*at, ((*what).to_owned(), *count))).collect();
    assert_eq!(seen, expected);
    let container = world.container(1).clone();
    assert_eq!(
        container["state"]["waiting"]["message"],
        format!("back-off 2m40s restarting failed container=app pod=p1_ns({})", uid_text(1))
    );
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 3);
    assert_eq!((world.status(1)["phase"].clone(), world.ready(1)), (json!("Running"), false));
    // The pause does not grow beyond five minutes.
    world.run_to(10_000_000);
    assert!(world.container(1)["state"]["waiting"]["message"].as_str().is_none_or(|m| m.contains("back-off 5m0s")));
    // Without the annotation it recovers.
    world.change(1, &json!({"metadata": {"annotations": null}}));
    world.run_to(10_400_000);
    assert!(world.ready(1));
}

/// Contract: SIM-04
#[test]
fn every_fate_ends_as_its_annotation_says() {
    for (fate, policy, phase, ready, reason) in [
        ("never-start", "Always", "Pending", false, Value::Null),
        ("never-ready", "Always", "Running", false, Value::Null),
        ("image-pull-error", "Always", "Pending", false, Value::Null),
        ("fail", "Always", "Failed", false, Value::Null),
        ("succeed", "Always", "Succeeded", false, Value::Null),
        ("reject", "Always", "Failed", false, json!("UnexpectedAdmissionError")),
        ("crash-loop", "Never", "Failed", false, Value::Null),
        ("run", "Always", "Running", true, Value::Null),
        ("nonsense", "Always", "Running", true, Value::Null),
    ] {
        let mut world = World::new("1s");
        world.add(
            1,
            &json!({"metadata": {"annotations": {"muster.dev/fate": fate}}, "spec": {"restartPolicy": policy}}),
        );
        world.run_to(600_000);
        let status = world.status(1);
        assert_eq!((&status["phase"], world.ready(1), &status["reason"]), (&json!(phase), ready, &reason), "{fate}");
        let writes = world.writes(1).len();
        assert!(writes <= 3, "{fate}: {writes} writes");
    }
    let mut world = World::new("1s");
    world.add(1, &json!({"metadata": {"annotations": {
        "muster.dev/fate": "reject", "muster.dev/reason": "OutOfcpu", "muster.dev/message": "Node didn't have enough resource: cpu",
    }}}));
    assert_eq!(world.writes(1), [0], "rejected at once");
    assert_eq!(world.status(1)["reason"], "OutOfcpu");
    assert_eq!(world.status(1)["message"], "Pod was rejected: Node didn't have enough resource: cpu");
}

/// Contract: SIM-04
#[test]
fn times_on_the_pod_replace_those_of_the_cluster_and_fates_can_change() {
    let mut world = World::new("1s");
    world.add(1, &json!({"metadata": {"annotations": {"muster.dev/startup": "3s", "muster.dev/ready-after": "5s"}}}));
    world.run_to(60_000);
    assert_eq!(world.writes(1), [0, 3000, 8000]);
    world.change(1, &json!({"metadata": {"annotations": {"muster.dev/fate": "never-ready"}}}));
    assert!(!world.ready(1));
    assert_eq!(world.status(1)["phase"], "Running");
    world.change(1, &json!({"metadata": {"annotations": {"muster.dev/fate": null, "muster.dev/ready-after": "2s"}}}));
    assert!(!world.ready(1));
    world.run_to(62_000);
    assert!(world.ready(1));
    world.change(1, &json!({"metadata": {"annotations": {"muster.dev/fate": "fail", "muster.dev/run-for": "4s"}}}));
    world.run_to(65_999);
    assert_eq!(world.status(1)["phase"], "Running");
    world.run_to(66_000);
    assert_eq!((world.status(1)["phase"].clone(), world.ready(1)), (json!("Failed"), false));
    assert_eq!(world.condition(1, "Ready")["reason"], "PodFailed");
}

/// Contract: SIM-05
#[test]
fn a_deleted_pod_stops_for_its_grace_period_or_the_shutdown_time() {
    let gone = |grace: u64| json!({"metadata": {"deletionTimestamp": "2023-11-14T22:14:00Z", "deletionGracePeriodSeconds": grace}});
    for (name, startup, annotations, grace, after) in [
        ("the shutdown time is shorter", "0s", json!({}), 30, 1000),
        ("the grace period is shorter", "0s", json!({}), 0, 0),
        ("the pod's own shutdown time", "0s", json!({"muster.dev/shutdown": "7s"}), 30, 7000),
        ("still bounded by its grace", "0s", json!({"muster.dev/shutdown": "7s"}), 5, 5000),
        ("what never ran stops at once", "1h", json!({}), 30, 0),
    ] {
        let mut world = World::new(startup);
        world.add(1, &json!({"metadata": {"annotations": annotations}}));
        let writes = world.writes(1).len();
        world.run_to(10_000);
        world.change(1, &gone(grace));
        world.run_to(60_000);
        assert_eq!(world.deleted, [(10_000 + after, uid(1))], "{name}");
        assert_eq!(world.writes(1).len(), writes, "{name}: no status that nobody could read");
        assert!(world.kubelet.is_empty() && world.kubelet.wake().is_none());
    }
    // A second deletion can shorten the first, not lengthen it.
    let mut world = World::new("0s");
    world.add(1, &json!({"metadata": {"annotations": {"muster.dev/shutdown": "20s"}}}));
    world.change(1, &gone(30));
    world.run_to(1000);
    world.change(1, &gone(2));
    world.run_to(60_000);
    assert_eq!(world.deleted, [(3000, uid(1))]);
}

/// Contract: SIM-05
#[test]
fn a_pod_that_finalizers_keep_shows_its_end_and_is_deleted_once() {
    let mut world = World::new("0s");
    world.add(1, &json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    world.change(
        1,
        &json!({"metadata": {"deletionTimestamp": "2023-11-14T22:14:00Z", "deletionGracePeriodSeconds": 30}}),
    );
    world.run_to(60_000);
    assert_eq!(world.status(1)["phase"], "Succeeded");
    assert_eq!(world.container(1)["state"]["terminated"]["exitCode"], 0);
    assert!(!world.ready(1));
    assert_eq!(world.deleted.len(), 1);
    world.change(1, &json!({"metadata": {"labels": {"a": "b"}}}));
    world.run_to(120_000);
    assert_eq!(world.deleted.len(), 1, "once is enough");
}

/// Contract: SIM-03
#[test]
fn what_runs_is_reported_again_where_someone_else_wrote_that_it_is_over() {
    let mut world = World::new("0s");
    world.add(1, &json!({}));
    let since = world.condition(1, "Ready")["lastTransitionTime"].clone();
    world.run_to(2000);
    let failed = json!({"status": {"phase": "Failed", "reason": "Broken", "conditions": [{"type": "Ready", "status": "False"}]}});
    world.change(1, &failed);
    world.run_to(2499);
    assert_eq!(world.status(1)["phase"], "Failed", "others have the time to see it");
    world.run_to(600_000);
    assert_eq!((&world.status(1)["phase"], world.ready(1)), (&json!("Running"), true));
    assert_eq!(world.status(1)["reason"], Value::Null);
    assert_eq!(world.condition(1, "Ready")["lastTransitionTime"], since, "it was ready all the time");
    assert_eq!(world.writes(1), [0, 2500]);
}

/// Such as by the node lifecycle controller, after a server that took no Lease for long was back sooner than its nodes.
///
/// Contract: SIM-03, SIM-06
#[test]
fn a_pod_that_is_ready_is_reported_again_where_someone_else_wrote_that_it_is_not() {
    let mut world = World::new("0s");
    world.add(1, &json!({}));
    world.run_to(2000);
    world.change(1, &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
    world.run_to(11_999);
    assert!(!world.ready(1), "others have the time to see it");
    world.run_to(600_000);
    assert!(world.ready(1));
    assert_eq!(world.writes(1), [0, 12_000]);
}

/// Contract: SIM-03
#[test]
fn what_never_ran_stays_over() {
    let mut world = World::new("0s");
    world.add(1, &json!({"spec": {"containers": [{"name": "app", "image": "nginx:404"}]}}));
    world.run_to(2000);
    let writes = world.writes(1).len();
    world.change(1, &json!({"status": {"phase": "Failed"}}));
    world.run_to(600_000);
    assert_eq!(world.status(1)["phase"], "Failed");
    assert_eq!(world.writes(1).len(), writes, "the agent leaves it as it is");
    world.change(
        1,
        &json!({"metadata": {"deletionTimestamp": "2023-11-14T22:14:00Z", "deletionGracePeriodSeconds": 30}}),
    );
    assert_eq!(world.deleted, [(600_000, uid(1))], "nothing runs, so it goes at once");
}

/// Contract: SIM-03
#[test]
fn an_active_deadline_fails_the_pod() {
    let mut world = World::new("1s");
    world.add(1, &json!({"spec": {"activeDeadlineSeconds": 10}}));
    world.run_to(60_000);
    assert_eq!(world.writes(1), [0, 1000, 10_000]);
    assert_eq!((&world.status(1)["phase"], &world.status(1)["reason"]), (&json!("Failed"), &json!("DeadlineExceeded")));
}

/// Contract: SIM-03
#[test]
fn a_changed_image_restarts_the_container() {
    let mut world = World::new("0s");
    world.add(1, &json!({}));
    world.run_to(5000);
    world.change(1, &json!({"spec": {"containers": [{"name": "app", "image": "nginx:2"}]}}));
    let container = world.container(1);
    assert_eq!((&container["image"], &container["restartCount"]), (&json!("nginx:2"), &json!(1)));
    assert_eq!(container["lastState"]["terminated"]["finishedAt"], "2023-11-14T22:13:25Z");
    assert!(world.ready(1));
    world.change(1, &json!({"spec": {"containers": [{"name": "app", "image": "nginx:404"}]}}));
    assert_eq!(world.container(1)["state"]["waiting"]["reason"], "ImagePullBackOff");
    assert_eq!((world.status(1)["phase"].clone(), world.ready(1)), (json!("Running"), false));
}

/// Contract: SIM-03
#[test]
fn an_agent_that_starts_late_goes_on_where_its_pods_were() {
    let mut world = World::new("0s");
    for n in 1..=3 {
        world.add(n, &json!({}));
    }
    let before = world.history.len();
    let mut kubelet = Kubelet::new(settings("0s", Duration::from_secs(1)));
    // Pods can be seen before their node.
    for pod in world.pods.values() {
        kubelet.observe(now(50_000), &decode_pod(pod));
    }
    assert!(kubelet.next(now(50_000)).is_none());
    kubelet.node(now(50_000), &"node-0".into(), place(0, &Capacity::default()), true);
    world.kubelet = kubelet;
    world.now = 50_000;
    world.settle();
    assert_eq!(world.history.len(), before, "what is as it was is not written");
    world.add(4, &json!({}));
    assert_eq!(world.status(4)["podIP"], "10.128.0.4", "addresses that are taken are not given out");
    world.change(
        2,
        &json!({"metadata": {"deletionTimestamp": "2023-11-14T22:14:00Z", "deletionGracePeriodSeconds": 30}}),
    );
    world.run_to(60_000);
    assert_eq!(world.deleted, [(51_000, uid(2))]);
}

/// Contract: SIM-06
#[test]
fn an_agent_that_is_cut_off_writes_nothing_until_it_is_back() {
    let mut world = World::new("1s");
    let place = place(0, &Capacity::default());
    world.add(1, &json!({}));
    world.kubelet.node(now(0), &"node-0".into(), place, false);
    world.add(2, &json!({}));
    world.change(
        1,
        &json!({"metadata": {"deletionTimestamp": "2023-11-14T22:14:00Z", "deletionGracePeriodSeconds": 30}}),
    );
    world.run_to(100_000);
    assert_eq!((world.writes(1), world.writes(2), world.deleted.len()), (vec![0], vec![], 0));
    world.kubelet.node(now(100_000), &"node-0".into(), place, true);
    world.settle();
    assert_eq!(world.deleted, [(100_000, uid(1))]);
    assert!(world.ready(2), "it ran all along");
}

/// Contract: SIM-06
#[test]
fn pods_that_were_marked_not_ready_are_reported_ready_when_their_node_is_back() {
    let mut world = World::new("0s");
    let place = place(0, &Capacity::default());
    world.add(1, &json!({}));
    world.kubelet.node(now(1000), &"node-0".into(), place, false);
    let mut conditions = world.status(1)["conditions"].clone();
    for condition in conditions.as_array_mut().expect("a list") {
        if condition["type"] == "Ready" {
            condition["status"] = json!("False");
        }
    }
    world.change(1, &json!({"status": {"conditions": conditions}}));
    assert!(!world.ready(1));
    world.kubelet.node(now(9000), &"node-0".into(), place, true);
    world.settle();
    assert!(world.ready(1));
}

/// Contract: SIM-03
#[test]
fn a_failed_write_is_tried_again_later_and_a_pod_is_written_once_at_a_time() {
    let mut kubelet = Kubelet::new(settings("0s", Duration::ZERO));
    kubelet.node(now(0), &"node-0".into(), place(0, &Capacity::default()), true);
    let pod = decode_pod(&pod_json(1, &json!({"spec": {"nodeName": "node-0"}})));
    kubelet.observe(now(0), &pod);
    let Some(Action::Report { patch: first, .. }) = kubelet.next(now(0)) else { panic!("a report") };
    // Deleted while the report is under way.
    let deleted = json!({"spec": {"nodeName": "node-0"}, "metadata": {"deletionTimestamp": "2023-11-14T22:14:00Z", "deletionGracePeriodSeconds": 30}});
    assert_eq!(kubelet.next(now(0)), None);
    kubelet.done(now(0), &uid(1), false, Outcome::Failed);
    assert_eq!(kubelet.next(now(199)), None);
    let Some(Action::Report { patch: second, .. }) = kubelet.next(now(200)) else { panic!("a report") };
    assert_eq!(first, second);
    kubelet.observe(now(200), &decode_pod(&pod_json(1, &deleted)));
    assert_eq!(kubelet.next(now(200)), None, "one write at a time");
    kubelet.done(now(200), &uid(1), false, Outcome::Done);
    assert!(matches!(kubelet.next(now(200)), Some(Action::Delete { .. })));
    kubelet.done(now(200), &uid(1), true, Outcome::Gone);
    assert_eq!((kubelet.next(now(10_000)), kubelet.wake()), (None, None));
}

/// Contract: SIM-03
#[test]
fn a_first_report_replaces_the_status_unless_others_wrote_to_the_pod() {
    let bound = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": "2023-11-14T22:13:00Z"});
    let theirs = json!({"type": "Theirs", "status": "True"});
    let first = |conditions: Value| {
        let mut kubelet = Kubelet::new(settings("0s", Duration::ZERO));
        kubelet.node(now(0), &"node-0".into(), place(0, &Capacity::default()), true);
        let pod = json!({"spec": {"nodeName": "node-0"}, "status": {"conditions": conditions}});
        kubelet.observe(now(0), &decode_pod(&pod_json(1, &pod)));
        kubelet
    };
    let report = |kubelet: &mut Kubelet| match kubelet.next(now(0)) {
        Some(Action::Report { patch, whole, .. }) => (serde_json::from_slice::<Value>(&patch).expect("JSON"), whole),
        other => panic!("{other:?}"),
    };
    let mut kubelet = first(json!([bound]));
    let (patch, whole) = report(&mut kubelet);
    assert!(whole);
    let conditions = patch["status"]["conditions"].as_array().expect("conditions");
    assert_eq!(conditions.len(), 5);
    assert_eq!(conditions[4]["lastTransitionTime"], bound["lastTransitionTime"], "what was known of the binding stays");
    kubelet.done(now(0), &uid(1), false, Outcome::Outdated);
    let (patch, whole) = report(&mut kubelet);
    assert!(!whole && patch["metadata"]["resourceVersion"].is_null());
    assert!(patch["status"]["$setElementOrder/conditions"].is_array());
    assert!(!report(&mut first(json!([bound, theirs]))).1, "a condition of someone else must not be lost");
    assert!(!report(&mut first(json!([]))).1, "nor that it is scheduled be forgotten");
}

/// Contract: SIM-03
#[test]
fn events_tell_of_pods_up_to_a_limit_and_of_a_pod_as_a_whole() {
    let mut world = World::new("0s");
    for n in 0..200 {
        world.add(n, &json!({}));
    }
    let events: Vec<PodEvent> = std::iter::from_fn(|| world.kubelet.next_event()).collect();
    let told: BTreeSet<&Uid> = events.iter().map(|event| &event.uid).collect();
    assert_eq!(told.len(), 25);
    for uid in told {
        let reasons: Vec<&str> = events.iter().filter(|event| event.uid == *uid).map(|event| event.reason).collect();
        assert_eq!(reasons, ["Pulled", "Created", "Started"]);
    }
    let event = crate::events::kubelet_event(&events[0], now(0).wall, 0x1f);
    let event: Value = serde_json::from_slice(&event).expect("JSON");
    assert_eq!(event["metadata"]["name"], "p0.1f");
    assert_eq!(event["involvedObject"]["fieldPath"], "spec.containers{app}");
    assert_eq!(event["source"], json!({"component": "kubelet", "host": "node-0"}));
    assert_eq!(event["message"], "Container image \"nginx:1\" already present on machine");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever is done to pods, in whatever order: no two that run share an address, conditions agree with
    /// phases, and a deleted pod goes.
    ///
    /// Contract: SIM-03, SIM-05
    #[test]
    fn pods_come_and_go_and_stay_consistent(
        startup in prop::sample::select(vec!["0s", "500ms", "100ms..2s"]),
        steps in prop::collection::vec((0..8_u32, 0..7_u8, 0..3000_u64), 1..60),
    ) {
        let mut world = World::new(startup);
        for (n, what, pause) in steps {
            let exists = world.pods.contains_key(&uid(n));
            let annotate = |fate: Value| json!({"metadata": {"annotations": {"muster.dev/fate": fate}}});
            match (what, exists) {
                (_, false) => world.add(n, &json!({})),
                (0, _) => world.change(n, &json!({"metadata": {"deletionTimestamp": "2023-11-14T22:14:00Z", "deletionGracePeriodSeconds": 2}})),
                (1, _) => world.change(n, &annotate(json!("never-ready"))),
                (2, _) => world.change(n, &annotate(json!("crash-loop"))),
                (3, _) => world.change(n, &annotate(Value::Null)),
                (4, _) => world.change(n, &json!({"spec": {"containers": [{"name": "app", "image": "nginx:404"}]}})),
                (5, _) => world.change(n, &json!({"spec": {"containers": [{"name": "app", "image": "nginx:2"}]}})),
                (_, _) => world.change(n, &annotate(json!("succeed"))),
            }
            world.run_to(world.now + pause);
            let mut addresses = BTreeSet::new();
            for (uid, pod) in &world.pods {
                let status = &pod["status"];
                if let Some(ip) = status["podIP"].as_str() {
                    prop_assert!(addresses.insert(ip.to_owned()), "{} twice", ip);
                }
                let ready = decode_pod(pod).status.ready;
                let running = &status["containerStatuses"][0]["state"]["running"];
                prop_assert!(!ready || status["phase"] == "Running" && !running.is_null(), "{uid}: {status}");
            }
        }
        let all: Vec<Uid> = world.pods.keys().cloned().collect();
        for uid in all {
            merge(world.pods.get_mut(&uid).expect("it is there"), &json!({"metadata": {"deletionTimestamp": "2023-11-14T22:14:00Z", "deletionGracePeriodSeconds": 2}}));
            world.echo(&uid);
        }
        world.run_to(world.now + 2001);
        prop_assert!(world.pods.is_empty(), "left: {:?}", world.pods.keys());
        prop_assert!(world.kubelet.is_empty() && world.kubelet.wake().is_none());
    }
}
