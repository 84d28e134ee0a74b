//! The real kubectl against `muster up`: what a person does with ReplicaSets and pods, and what they see.
//!
//! On a machine without kubectl each test is counted as ignored.

mod harness;
mod outside;

use harness::tests;
use outside::{Cluster, muster, text, write};

tests! {
    a_person_sees_kubernetes: "kubectl",
    apply_label_annotate_edit_and_patch: "kubectl",
    three_thousand_scaled_to_seven_keep_the_dear_ones: "kubectl",
    orphans_are_adopted_strangers_released_and_the_lost_replaced: "kubectl",
    a_namespace_goes_with_all_that_is_in_it: "kubectl",
    rights_are_those_of_whoever_is_acted_for: "kubectl",
    versions_of_long_ago_are_gone: "kubectl",
}

const WEB: &str = "\
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 3
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: nginx
        image: nginx:1.29
";

const WEB_POD: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: NAME
  labels: {app: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: nginx
    image: nginx:1.29
";

/// Asks until it is so. Every question is a kubectl of its own, so a thousand of them take a minute or more.
fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    assert!((0..1000).any(|_| so()), "{what}: not after a thousand looks");
}

/// A cluster whose pods come and go at once, with the ReplicaSet `web` of 3 ready.
fn cluster_with_web() -> Cluster {
    let cluster = Cluster::start(&["--pod-startup", "0s", "--pod-shutdown", "0s"]);
    assert_eq!(cluster.kubectl_with(&["create", "-f", "-"], WEB), "replicaset.apps/web created\n");
    wait_ready(&cluster, 3);
    cluster
}

/// Waits until the ReplicaSet has exactly so many ready pods.
fn wait_ready(cluster: &Cluster, count: u32) {
    let field = if count == 0 { "replicas" } else { "readyReplicas" };
    cluster.kubectl(&["wait", "rs/web", &format!("--for=jsonpath={{.status.{field}}}={count}"), "--timeout=120s"]);
    if count > 0 {
        cluster.kubectl(&["wait", "rs/web", &format!("--for=jsonpath={{.status.replicas}}={count}"), "--timeout=120s"]);
    }
}

/// The names of the pods with this label, sorted.
fn pods(cluster: &Cluster, selector: &str) -> Vec<String> {
    let said = cluster.kubectl(&["get", "pods", "-l", selector, "-o", "name", "--sort-by=.metadata.name"]);
    said.lines().map(|line| line.trim_start_matches("pod/").to_owned()).collect()
}

fn a_person_sees_kubernetes() {
    let cluster = cluster_with_web();

    let table = cluster.kubectl(&["get", "rs"]);
    let words: Vec<&str> = table.split_whitespace().collect();
    assert_eq!(words[..5], ["NAME", "DESIRED", "CURRENT", "READY", "AGE"]);
    assert_eq!(words[5..9], ["web", "3", "3", "3"]);
    let wide = cluster.kubectl(&["get", "rs", "-o", "wide"]);
    assert!(wide.contains("CONTAINERS") && wide.contains("nginx:1.29") && wide.contains("app=web"), "{wide}");

    let table = cluster.kubectl(&["get", "pods", "-o", "wide"]);
    for word in
        ["NAME", "READY", "STATUS", "RESTARTS", "IP", "NODE", "NOMINATED NODE", "READINESS GATES", "1/1", "Running"]
    {
        assert!(table.contains(word), "{word} is missing in:\n{table}");
    }
    assert!(cluster.kubectl(&["get", "nodes"]).contains("Ready"));
    assert!(cluster.kubectl(&["get", "all"]).contains("replicaset.apps/web"));

    let said = cluster.kubectl(&["describe", "rs", "web"]);
    for words in [
        "Selector:     app=web",
        "3 current / 3 desired",
        "3 Running / 0 Waiting",
        "SuccessfulCreate",
        "Created pod: web-",
    ] {
        assert!(said.contains(words), "{words:?} is missing in:\n{said}");
    }
    let pod = &pods(&cluster, "app=web")[0];
    let said = cluster.kubectl(&["describe", "pod", pod]);
    for words in ["Controlled By:  ReplicaSet/web", "Ready:          True", "PodScheduled", "QoS Class:"] {
        assert!(said.contains(words), "{words:?} is missing in:\n{said}");
    }

    let said = cluster.kubectl(&["api-resources"]);
    assert!(said.lines().any(|l| l.split_whitespace().collect::<Vec<_>>() == ["replicasets", "rs", "apps/v1", "true", "ReplicaSet"]), "{said}");
    let said = cluster.kubectl(&["explain", "replicaset.spec"]);
    for words in ["GROUP:      apps", "KIND:       ReplicaSet", "minReadySeconds", "<LabelSelector> -required-"] {
        assert!(said.contains(words), "{words:?} is missing in:\n{said}");
    }
}

/// Contract: API-04, API-12
fn apply_label_annotate_edit_and_patch() {
    let cluster = Cluster::start(&["--pod-startup", "0s", "--pod-shutdown", "0s"]);
    assert_eq!(cluster.kubectl_with(&["apply", "-f", "-"], WEB), "replicaset.apps/web created\n");
    assert_eq!(cluster.kubectl_with(&["apply", "-f", "-"], WEB), "replicaset.apps/web unchanged\n");
    let four = WEB.replace("replicas: 3", "replicas: 4");
    assert_eq!(cluster.kubectl_with(&["apply", "-f", "-"], &four), "replicaset.apps/web configured\n");
    wait_ready(&cluster, 4);

    let wrong = cluster.try_kubectl(&["apply", "-f", "-"], &WEB.replace("replicas: 3", "replicaz: 3"));
    assert!(!wrong.status.success());
    assert!(text(&wrong.stderr).contains("unknown field \"spec.replicaz\""), "{}", text(&wrong.stderr));

    cluster.kubectl(&["label", "rs", "web", "tier=front"]);
    cluster.kubectl(&["annotate", "rs", "web", "note=one"]);
    let get = |path: &str| cluster.kubectl(&["get", "rs", "web", "-o", &format!("jsonpath={{{path}}}")]);
    assert_eq!(
        (get(".metadata.labels.tier"), get(".metadata.annotations.note")),
        ("front".to_owned(), "one".to_owned())
    );
    cluster.kubectl(&["label", "rs", "web", "tier-"]);
    assert_eq!(get(".metadata.labels.tier"), "");

    for (kind, patch, replicas) in [
        ("merge", r#"{"spec":{"replicas":5}}"#, "5"),
        ("strategic", r#"{"spec":{"replicas":6}}"#, "6"),
        ("json", r#"[{"op":"replace","path":"/spec/replicas","value":2}]"#, "2"),
    ] {
        cluster.kubectl(&["patch", "rs", "web", "--type", kind, "-p", patch]);
        assert_eq!(get(".spec.replicas"), replicas, "{kind}");
    }

    let folder = tempfile::tempdir().unwrap();
    let editor = write(folder.path(), "editor", "#!/bin/sh\nsed -i 's/replicas: 2/replicas: 1/' \"$1\"\n");
    let mut permissions = std::fs::metadata(&editor).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    std::fs::set_permissions(&editor, permissions).unwrap();
    let said = std::process::Command::new("kubectl")
        .args(["--kubeconfig", &cluster.kubeconfig().to_string_lossy(), "edit", "rs", "web"])
        .env("KUBE_EDITOR", &editor)
        .output()
        .unwrap();
    assert!(text(&said.stdout).contains("replicaset.apps/web edited"), "{}{}", text(&said.stdout), text(&said.stderr));
    wait_ready(&cluster, 1);
}

/// Contract: DEL-02, RS-13
fn three_thousand_scaled_to_seven_keep_the_dear_ones() {
    let cluster = cluster_with_web();
    cluster.kubectl(&["scale", "rs", "web", "--replicas", "3000"]);
    wait_ready(&cluster, 3000);
    let all = pods(&cluster, "app=web");
    assert_eq!(all.len(), 3000);
    let dear: Vec<&String> = all.iter().step_by(450).take(6).collect();
    for pod in &dear {
        cluster.kubectl(&["annotate", "pod", pod, "controller.kubernetes.io/pod-deletion-cost=100"]);
    }
    cluster.kubectl(&["scale", "rs", "web", "--replicas", "7"]);
    wait_ready(&cluster, 7);
    // The status counts no pod that is terminating, and some may be for a moment longer.
    eventually("those scaled away are gone", || pods(&cluster, "app=web").len() == 7);
    let left = pods(&cluster, "app=web");
    for pod in dear {
        assert!(left.contains(pod), "{pod} has a deletion cost of 100 and should be among {left:?}");
    }
}

/// Contract: RS-06, RS-08, API-19
fn orphans_are_adopted_strangers_released_and_the_lost_replaced() {
    let cluster = cluster_with_web();
    let owner = |pod: &str| cluster.kubectl(&["get", "pod", pod, "-o", "jsonpath={.metadata.ownerReferences[*].name}"]);

    // A pod relabelled is released, and replaced.
    let loose = pods(&cluster, "app=web")[0].clone();
    cluster.kubectl(&["label", "pod", &loose, "app=loose", "--overwrite"]);
    eventually("the pod is released", || owner(&loose).is_empty());
    wait_ready(&cluster, 3);
    eventually("the pod is replaced", || pods(&cluster, "app=web").len() == 3);
    assert!(!pods(&cluster, "app=web").contains(&loose));

    // Room is made for one more, and the orphan that matches again is what fills it.
    cluster.kubectl(&["delete", "pod", &loose]);
    let orphan = WEB_POD.replace("NAME", "orphan");
    cluster.kubectl_with(&["create", "-f", "-"], &orphan);
    eventually("one pod too many is deleted", || pods(&cluster, "app=web").len() == 3);
    cluster.kubectl(&["scale", "rs", "web", "--replicas", "5"]);
    wait_ready(&cluster, 5);

    // A pod deleted by hand is replaced.
    let gone = pods(&cluster, "app=web")[0].clone();
    cluster.kubectl(&["delete", "pod", &gone]);
    eventually("the pod is replaced", || pods(&cluster, "app=web").len() == 5);
    wait_ready(&cluster, 5);
    assert!(!pods(&cluster, "app=web").contains(&gone));

    // Deleted with orphan, its pods stay, and one created over them adopts them.
    let before = pods(&cluster, "app=web");
    cluster.kubectl(&["delete", "rs", "web", "--cascade=orphan"]);
    assert_eq!(pods(&cluster, "app=web"), before);
    assert_eq!(owner(&before[0]), "");
    cluster.kubectl_with(&["create", "-f", "-"], &WEB.replace("replicas: 3", "replicas: 5"));
    wait_ready(&cluster, 5);
    assert_eq!(pods(&cluster, "app=web"), before);
    assert_eq!(owner(&before[0]), "web");

    // In the foreground and in the background its pods go with it.
    cluster.kubectl(&["delete", "rs", "web", "--cascade=foreground", "--timeout=60s"]);
    assert_eq!(pods(&cluster, "app=web"), Vec::<String>::new());
    cluster.kubectl_with(&["create", "-f", "-"], WEB);
    wait_ready(&cluster, 3);
    cluster.kubectl(&["delete", "rs", "web", "--cascade=background"]);
    cluster.kubectl(&["wait", "pod", "-l", "app=web", "--for=delete", "--timeout=60s"]);
}

/// Contract: API-20
fn a_namespace_goes_with_all_that_is_in_it() {
    let cluster = Cluster::start(&["--pod-startup", "0s", "--pod-shutdown", "0s"]);
    cluster.kubectl_with(&["create", "-f", "-"], "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n");
    cluster.kubectl_with(&["create", "-n", "shop", "-f", "-"], WEB);
    cluster.kubectl(&["wait", "-n", "shop", "rs/web", "--for=jsonpath={.status.readyReplicas}=3", "--timeout=60s"]);
    cluster.kubectl(&["wait", "-n", "shop", "sa/default", "--for=jsonpath={.metadata.name}=default", "--timeout=60s"]);
    cluster.kubectl(&["delete", "namespace", "shop", "--timeout=60s"]);
    assert_eq!(cluster.kubectl(&["get", "pods", "-A", "-o", "name"]), "");
    cluster.kubectl_with(&["create", "-f", "-"], "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n");
    assert!(text(&cluster.try_kubectl(&["get", "rs", "-n", "shop"], "").stderr).contains("No resources found"));
}

/// Contract: API-31
fn rights_are_those_of_whoever_is_acted_for() {
    let cluster = Cluster::start(&["--controllers", ""]);
    assert_eq!(cluster.kubectl(&["auth", "can-i", "delete", "pods"]).trim(), "yes");
    let refused = cluster.try_kubectl(&["auth", "can-i", "delete", "pods", "--as", "bob"], "");
    assert_eq!((refused.status.code(), text(&refused.stdout).trim()), (Some(1), "no"));
    let master = ["auth", "can-i", "delete", "pods", "--as", "bob", "--as-group", "system:masters"];
    assert_eq!(cluster.kubectl(&master).trim(), "yes");
    let list = cluster.kubectl(&["auth", "can-i", "--list", "--as", "bob"]);
    assert!(list.contains("selfsubjectreviews.authentication.k8s.io") && !list.contains("*.*"), "{list}");
    let pods = cluster.try_kubectl(&["get", "pods", "--as", "bob"], "");
    let said = text(&pods.stderr);
    assert!(said.contains("pods is forbidden: User \"bob\" cannot list resource \"pods\""), "{said}");
}

/// Contract: API-09
fn versions_of_long_ago_are_gone() {
    let cluster = Cluster::start(&["--controllers", "", "--history-bytes", "1048576"]);
    let since = cluster.kubectl(&["get", "namespace", "default", "-o", "jsonpath={.metadata.resourceVersion}"]);
    let path = format!("/api/v1/configmaps?watch=1&timeoutSeconds=1&resourceVersion={since}");
    let large = "x".repeat(500_000);
    for name in ["a", "b", "c", "d"] {
        let map = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: {large}}}\n");
        cluster.kubectl_with(&["create", "-f", "-"], &map);
    }
    let answered = cluster.kubectl(&["get", "--raw", &path]);
    assert!(answered.contains("\"code\":410") && answered.contains("too old resource version"), "{answered}");
    let bad = muster(&["up", "--history-bytes", "12"]);
    assert!(text(&bad.stderr).contains("found \"12\", expected a number of bytes from 1048576 up"), "{bad:?}");
}
