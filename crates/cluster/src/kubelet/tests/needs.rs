//! Pods whose claims, ConfigMaps or Secrets are not there, or not yet.

use muster_objects::ObjectKey;

use super::*;
use crate::pod::NeedKind::{self, Claim, ConfigMap, Secret};

fn needed(kind: NeedKind, name: &str) -> Needed {
    Needed { kind, key: ObjectKey::new("ns", name) }
}

fn data(keys: &[&str]) -> Found {
    Found::Data { keys: keys.iter().map(|key| (*key).into()).collect(), binary: BTreeSet::new() }
}

fn claim(bound: bool) -> Found {
    Found::Claim { bound, deleting: false }
}

impl World {
    /// Puts an object there, or takes it away, and tells of it.
    fn put(&mut self, kind: NeedKind, name: &str, found: Found) {
        let needed = needed(kind, name);
        self.objects.insert(needed.clone(), found);
        self.kubelet.changed(&needed);
        self.settle();
    }

    fn waiting(&self, n: u32) -> (&str, &str) {
        let waiting = &self.container(n)["state"]["waiting"];
        (waiting["reason"].as_str().unwrap_or_default(), waiting["message"].as_str().unwrap_or_default())
    }

    fn told(&mut self) -> Vec<(&'static str, String)> {
        std::iter::from_fn(|| self.kubelet.next_event()).map(|event| (event.reason, event.message)).collect()
    }
}

fn volumes(volumes: &[Value]) -> Value {
    json!({"spec": {"volumes": volumes}})
}

/// Contract: SIM-07
#[test]
fn a_pod_waits_in_creating_until_what_its_volumes_are_made_of_is_there() {
    let projected = |sources: Value| json!({"name": "v", "projected": {"sources": sources}});
    let cases = [
        (
            json!({"name": "v", "configMap": {"name": "m"}}),
            needed(ConfigMap, "m"),
            Found::Missing,
            "MountVolume.SetUp failed for volume \"v\" : configmap \"m\" not found",
        ),
        (
            json!({"name": "v", "configMap": {"name": "m", "items": [{"key": "k", "path": "p"}]}}),
            needed(ConfigMap, "m"),
            data(&["other"]),
            "MountVolume.SetUp failed for volume \"v\" : configmap references non-existent config key: k",
        ),
        (
            json!({"name": "v", "secret": {"secretName": "s"}}),
            needed(Secret, "s"),
            Found::Missing,
            "MountVolume.SetUp failed for volume \"v\" : secret \"s\" not found",
        ),
        (
            json!({"name": "v", "secret": {"secretName": "s", "items": [{"key": "k", "path": "p"}]}}),
            needed(Secret, "s"),
            data(&[]),
            "MountVolume.SetUp failed for volume \"v\" : references non-existent secret key: k",
        ),
        (
            projected(json!([{"configMap": {"name": "m"}}, {"secret": {"name": "s", "optional": true}}])),
            needed(ConfigMap, "m"),
            Found::Missing,
            "MountVolume.SetUp failed for volume \"v\" : configmap \"m\" not found",
        ),
        (
            json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}}),
            needed(Claim, "c"),
            Found::Missing,
            "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process \
             volumes=[v]: error processing PVC ns/c: failed to fetch PVC from API server: \
             persistentvolumeclaims \"c\" not found",
        ),
        (
            json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}}),
            needed(Claim, "c"),
            claim(false),
            "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process \
             volumes=[v]: error processing PVC ns/c: PVC is not bound",
        ),
    ];
    for (volume, needed, lacking, message) in cases {
        let mut world = World::new("500ms");
        world.objects.insert(needed.clone(), lacking);
        world.add(1, &volumes(&[volume]));
        world.run_to(60_000);
        assert_eq!((world.status(1)["phase"].as_str(), world.waiting(1).0), (Some("Pending"), "ContainerCreating"));
        assert_eq!(world.condition(1, "PodReadyToStartContainers")["status"], "False");
        assert_eq!(world.told(), [("FailedMount", message.to_owned())]);
        assert_eq!((world.writes(1).len(), world.kubelet.wake()), (1, None), "it waits and does nothing");
        let there = if needed.kind == Claim { claim(true) } else { data(&["k"]) };
        world.put(needed.kind, &needed.key.name, there);
        assert!(world.ready(1), "{message}");
        // What was mounted is not missed any more.
        world.put(needed.kind, &needed.key.name, Found::Missing);
        world.run_to(120_000);
        assert!(world.ready(1));
    }
}

/// Contract: SIM-07
#[test]
fn all_that_a_volume_lacks_is_told_at_once() {
    let mut world = World::new("0s");
    let projected = json!({"name": "v", "projected": {"sources": [
        {"configMap": {"name": "m"}}, {"secret": {"name": "s"}}, {"configMap": {"name": "m"}},
    ]}});
    let of_claim = json!({"name": "d", "persistentVolumeClaim": {"claimName": "c"}});
    world.add(1, &volumes(&[of_claim, projected]));
    let told = world.told();
    assert_eq!(told.len(), 2);
    assert!(told[0].1.contains("unmounted volumes=[d v]") && told[0].1.contains("process volumes=[d]:"), "{told:?}");
    assert_eq!(
        told[1].1,
        "MountVolume.SetUp failed for volume \"v\" : [configmap \"m\" not found, secret \"s\" not found]"
    );
}

/// Contract: SIM-07
#[test]
fn a_container_waits_for_what_its_environment_refers_to_and_others_run() {
    let refer = |env: Value, from: Value| {
        json!({"spec": {"containers": [
            {"name": "app", "image": "nginx:1", "env": env, "envFrom": from},
            {"name": "other", "image": "nginx:1"},
        ]}})
    };
    let cases = [
        (json!([]), json!([{"configMapRef": {"name": "m"}}]), ConfigMap, "m", "configmap \"m\" not found"),
        (json!([]), json!([{"secretRef": {"name": "s"}}]), Secret, "s", "secret \"s\" not found"),
        (
            json!([{"name": "E", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]),
            json!([]),
            ConfigMap,
            "m",
            "configmap \"m\" not found",
        ),
        (
            json!([{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
            json!([]),
            Secret,
            "s",
            "secret \"s\" not found",
        ),
    ];
    for (env, from, kind, name, message) in cases {
        let keyed = env.as_array().is_some_and(|env| !env.is_empty());
        let mut world = World::new("0s");
        world.add(1, &refer(env, from));
        assert_eq!(world.waiting(1), ("CreateContainerConfigError", message));
        assert_eq!(world.status(1)["phase"], "Pending");
        assert!(!world.status(1)["containerStatuses"][1]["state"]["running"].is_null(), "the other one runs");
        assert!(world.told().contains(&("Failed", format!("Error: {message}"))));
        if keyed {
            world.put(kind, name, data(&["other"]));
            let of = if kind == Secret { "Secret" } else { "ConfigMap" };
            let message = format!("couldn't find key k in {of} ns/{name}");
            assert_eq!(world.waiting(1), ("CreateContainerConfigError", &*message));
        }
        world.put(kind, name, data(&["k"]));
        assert!(world.ready(1), "{message}");
        assert_eq!(world.status(1)["phase"], "Running");
    }
}

/// Contract: SIM-07
#[test]
fn an_init_container_that_lacks_something_holds_up_those_behind_it() {
    let mut world = World::new("0s");
    world.add(
        1,
        &json!({"spec": {"initContainers": [
            {"name": "init", "image": "nginx:1", "envFrom": [{"configMapRef": {"name": "m"}}]},
        ]}}),
    );
    let init = &world.status(1)["initContainerStatuses"][0];
    assert_eq!(init["state"]["waiting"]["reason"], "CreateContainerConfigError");
    assert_eq!(world.waiting(1).0, "PodInitializing");
    world.put(ConfigMap, "m", data(&[]));
    world.run_to(1);
    assert!(world.ready(1));
}

/// Contract: SIM-07
#[test]
fn what_may_be_missing_holds_nothing_up_and_what_is_known_is_not_read_again() {
    let mut world = World::new("0s");
    let optional = json!({"spec": {"volumes": [{"name": "v", "configMap": {"name": "m", "optional": true}}],
        "containers": [{"name": "app", "image": "nginx:1",
            "envFrom": [{"secretRef": {"name": "s", "optional": true}}]}]}});
    world.add(1, &optional);
    assert!(world.ready(1));

    let shared = volumes(&[json!({"name": "v", "configMap": {"name": "shared"}})]);
    world.objects.insert(needed(ConfigMap, "shared"), data(&[]));
    world.add(2, &shared);
    assert!(world.ready(2));
    // Were it read for the next pod, that would be found out now.
    world.objects.clear();
    world.add(3, &shared);
    assert!(world.ready(3));
    assert_eq!(world.writes(3).len(), 1, "one write, as for a pod that needs nothing");
    // With the last pod that uses it, what is known of it goes.
    for n in [2, 3] {
        let pod = decode_pod(&world.pods.remove(&uid(n)).expect("it is there"));
        world.kubelet.forget(&pod);
    }
    world.add(4, &shared);
    assert!(!world.ready(4));
}

/// Contract: SIM-07
#[test]
fn a_restarted_container_looks_anew_and_a_change_during_a_read_is_read_again() {
    let mut world = World::new("0s");
    let crashing = json!({
        "metadata": {"annotations": {"muster.dev/fate": "crash-loop", "muster.dev/run-for": "1s"}},
        "spec": {"containers": [{"name": "app", "image": "nginx:1", "envFrom": [{"configMapRef": {"name": "m"}}]}]},
    });
    world.objects.insert(needed(ConfigMap, "m"), data(&[]));
    world.add(1, &crashing);
    assert!(world.ready(1));
    world.put(ConfigMap, "m", Found::Missing);
    assert!(world.ready(1), "it runs");
    world.run_to(10_000);
    assert_eq!(world.waiting(1).0, "CreateContainerConfigError");
    assert_eq!(world.container(1)["lastState"]["terminated"]["exitCode"], 1);

    let m = needed(ConfigMap, "m");
    world.kubelet.changed(&m);
    assert_eq!(world.kubelet.next(now(10_000)), Some(Action::Read(m.clone())));
    world.kubelet.changed(&m);
    assert_eq!(world.kubelet.next(now(10_000)), None, "one read at a time");
    world.objects.insert(m.clone(), data(&[]));
    world.kubelet.found(now(10_000), &m, Found::Missing);
    world.settle();
    assert!(world.ready(1));
}
