//! The real kubectl against `muster up`: what a person does with Deployments and ReplicationControllers.
//!
//! On a machine without kubectl each test is counted as ignored.

mod harness;
mod outside;

use harness::tests;
use outside::{Cluster, MUSTER, muster, text};

tests! {
    a_deployment_is_created_rolled_described_and_rolled_back: "kubectl",
    pausing_holds_a_new_template_and_scaling_goes_on: "kubectl",
    a_broken_image_stops_at_the_bounds_and_undo_heals: "kubectl",
    a_replication_controller_keeps_its_pods: "kubectl",
    a_rollout_is_shown_as_a_tree_once_and_as_it_changes: "kubectl",
}

/// A cluster whose pods come and go at once.
fn cluster() -> Cluster {
    Cluster::start(&["--pod-startup", "0s", "--pod-shutdown", "0s"])
}

/// Waits for the rollout's end and returns what was said last.
fn rolled_out(cluster: &Cluster, name: &str) -> String {
    let said = cluster.kubectl(&["rollout", "status", &format!("deployment/{name}"), "--timeout=120s"]);
    said.lines().last().unwrap_or_default().to_owned()
}

/// One field of an object.
fn field(cluster: &Cluster, object: &str, path: &str) -> String {
    cluster.kubectl(&["get", object, "-o", &format!("jsonpath={{{path}}}")])
}

/// Asks until it is so. Every question is a kubectl of its own, so a thousand of them take a minute or more.
fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    assert!((0..1000).any(|_| so()), "{what}: not after a thousand looks");
}

/// Contract: DEP-04, DEP-06, DEP-10, DEP-13, DEP-16, DEP-17, API-05
fn a_deployment_is_created_rolled_described_and_rolled_back() {
    let cluster = cluster();
    let said = cluster.kubectl(&["create", "deployment", "web", "--image=nginx:1.25", "--replicas=4"]);
    assert_eq!(said, "deployment.apps/web created\n");
    assert_eq!(rolled_out(&cluster, "web"), "deployment \"web\" successfully rolled out");
    let table = cluster.kubectl(&["get", "deploy"]);
    let words: Vec<&str> = table.split_whitespace().collect();
    assert_eq!(words[..5], ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]);
    assert_eq!(words[5..9], ["web", "4/4", "4", "4"]);

    // The name that every controller of this version gives this template.
    let first = field(&cluster, "rs", ".items[0].metadata.name");
    let said = cluster.kubectl(&["describe", "deployment", "web"]);
    for words in [
        "Annotations:            deployment.kubernetes.io/revision: 1",
        "4 desired | 4 updated | 4 total | 4 available | 0 unavailable",
        "StrategyType:           RollingUpdate",
        "RollingUpdateStrategy:  25% max unavailable, 25% max surge",
        "Available      True    MinimumReplicasAvailable",
        "Progressing    True    NewReplicaSetAvailable",
        "OldReplicaSets:  <none>",
        &format!("NewReplicaSet:   {first} (4/4 replicas created)"),
        &format!("Scaled up replica set {first} from 0 to 4"),
    ] {
        assert!(said.contains(words), "{words:?} is missing in:\n{said}");
    }

    assert_eq!(
        cluster.kubectl(&["set", "image", "deployment/web", "nginx=nginx:1.26"]),
        "deployment.apps/web image updated\n"
    );
    assert_eq!(rolled_out(&cluster, "web"), "deployment \"web\" successfully rolled out");
    cluster.kubectl(&["annotate", "deployment", "web", "kubernetes.io/change-cause=the second"]);
    eventually("the cause is copied to the ReplicaSet", || {
        cluster.kubectl(&["rollout", "history", "deployment/web"]).contains("2         the second")
    });
    let said = cluster.kubectl(&["rollout", "history", "deployment/web"]);
    assert_eq!(said.trim_end(), "deployment.apps/web \nREVISION  CHANGE-CAUSE\n1         <none>\n2         the second");
    let said = cluster.kubectl(&["rollout", "history", "deployment/web", "--revision=1"]);
    assert!(said.contains("nginx:1.25") && said.contains("pod-template-hash="), "{said}");

    assert_eq!(cluster.kubectl(&["rollout", "undo", "deployment/web"]), "deployment.apps/web rolled back\n");
    rolled_out(&cluster, "web");
    assert_eq!(field(&cluster, "deploy/web", ".spec.template.spec.containers[0].image"), "nginx:1.25");
    assert_eq!(
        field(&cluster, &format!("rs/{first}"), ".metadata.annotations.deployment\\.kubernetes\\.io/revision"),
        "3"
    );
    cluster.kubectl(&["rollout", "undo", "deployment/web", "--to-revision=2"]);
    rolled_out(&cluster, "web");
    assert_eq!(field(&cluster, "deploy/web", ".spec.template.spec.containers[0].image"), "nginx:1.26");
    let failed = cluster.try_kubectl(&["rollout", "undo", "deployment/web", "--to-revision=99"], "");
    assert!(text(&failed.stderr).contains("unable to find specified revision 99 in history"), "{failed:?}");

    assert_eq!(
        cluster.kubectl(&["autoscale", "deployment", "web", "--min=2", "--max=9", "--cpu-percent=80"]),
        "horizontalpodautoscaler.autoscaling/web autoscaled\n"
    );
    assert_eq!(field(&cluster, "hpa/web", ".spec.maxReplicas"), "9");
}

/// Contract: DEP-02, DEP-09, DEP-19
fn pausing_holds_a_new_template_and_scaling_goes_on() {
    let cluster = cluster();
    cluster.kubectl(&["create", "deployment", "web", "--image=nginx:1.25", "--replicas=4"]);
    rolled_out(&cluster, "web");
    assert_eq!(cluster.kubectl(&["rollout", "pause", "deployment/web"]), "deployment.apps/web paused\n");
    let again = cluster.try_kubectl(&["rollout", "pause", "deployment/web"], "");
    assert!(text(&again.stderr).contains("is already paused"), "{again:?}");
    cluster.kubectl(&["set", "image", "deployment/web", "nginx=nginx:1.26"]);
    cluster.kubectl(&["scale", "deployment", "web", "--replicas=6"]);
    eventually("the old ReplicaSet is scaled", || field(&cluster, "deploy/web", ".status.readyReplicas") == "6");
    assert_eq!(field(&cluster, "rs", ".items[*].spec.replicas"), "6", "no second ReplicaSet while paused");
    let condition = r#".status.conditions[?(@.type=="Progressing")].reason"#;
    assert_eq!(field(&cluster, "deploy/web", condition), "DeploymentPaused");
    assert_eq!(cluster.kubectl(&["rollout", "resume", "deployment/web"]), "deployment.apps/web resumed\n");
    rolled_out(&cluster, "web");
    assert_eq!(field(&cluster, "deploy/web", ".status.updatedReplicas"), "6");
    assert_eq!(cluster.kubectl(&["rollout", "restart", "deployment/web"]), "deployment.apps/web restarted\n");
    rolled_out(&cluster, "web");
    assert_eq!(field(&cluster, "rs", ".items[*].metadata.name").split(' ').count(), 3);
}

/// Contract: DEP-07, DEP-17, DEP-18
fn a_broken_image_stops_at_the_bounds_and_undo_heals() {
    let cluster = cluster();
    cluster.kubectl(&["create", "deployment", "web", "--image=nginx:1.25", "--replicas=10"]);
    rolled_out(&cluster, "web");
    cluster.kubectl(&["patch", "deployment", "web", "-p", r#"{"spec":{"progressDeadlineSeconds":2}}"#]);
    cluster.kubectl(&["set", "image", "deployment/web", "nginx=nginx:404"]);
    let said = cluster.try_kubectl(&["rollout", "status", "deployment/web", "--timeout=120s"], "");
    assert!(!said.status.success());
    assert!(text(&said.stderr).contains("deployment \"web\" exceeded its progress deadline"), "{said:?}");
    let condition = r#".status.conditions[?(@.type=="Progressing")].reason"#;
    assert_eq!(field(&cluster, "deploy/web", condition), "ProgressDeadlineExceeded");
    // 25% of 10: three above, two below. 8 old ones serve, 5 new ones never will.
    let counts =
        "{.status.replicas} {.status.updatedReplicas} {.status.availableReplicas} {.status.unavailableReplicas}";
    assert_eq!(cluster.kubectl(&["get", "deploy/web", "-o", &format!("jsonpath={counts}")]), "13 5 8 5");
    cluster.kubectl(&["rollout", "undo", "deployment/web"]);
    assert_eq!(rolled_out(&cluster, "web"), "deployment \"web\" successfully rolled out");
    assert_eq!(field(&cluster, "deploy/web", condition), "NewReplicaSetAvailable");
}

/// Contract: RC-01, RC-02, RC-03
fn a_replication_controller_keeps_its_pods() {
    const WEB: &str = "\
apiVersion: v1
kind: ReplicationController
metadata: {name: web}
spec:
  replicas: 3
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: nginx, image: 'nginx:1.29'}]
";
    let cluster = cluster();
    assert_eq!(cluster.kubectl_with(&["create", "-f", "-"], WEB), "replicationcontroller/web created\n");
    let ready = |count: &str| {
        cluster.kubectl(&[
            "wait",
            "rc/web",
            &format!("--for=jsonpath={{.status.readyReplicas}}={count}"),
            "--timeout=120s",
        ]);
        cluster.kubectl(&["wait", "rc/web", &format!("--for=jsonpath={{.status.replicas}}={count}"), "--timeout=120s"]);
    };
    ready("3");
    let table = cluster.kubectl(&["get", "rc"]);
    let words: Vec<&str> = table.split_whitespace().collect();
    assert_eq!(words[..9], ["NAME", "DESIRED", "CURRENT", "READY", "AGE", "web", "3", "3", "3"]);
    let said = cluster.kubectl(&["describe", "rc", "web"]);
    for words in ["3 current / 3 desired", "3 Running / 0 Waiting", "replication-controller  Created pod: web-"] {
        assert!(said.contains(words), "{words:?} is missing in:\n{said}");
    }
    assert_eq!(field(&cluster, "rc/web", ".status.terminatingReplicas"), "");
    let owner = |pod: &str| field(&cluster, pod, ".metadata.ownerReferences[*].kind");
    let pods = |selector: &str| -> Vec<String> {
        let said = cluster.kubectl(&["get", "pods", "-l", selector, "-o", "name", "--sort-by=.metadata.name"]);
        said.lines().map(str::to_owned).collect()
    };

    // Scaled, with the dear one kept.
    cluster.kubectl(&["scale", "rc", "web", "--replicas=40"]);
    ready("40");
    let dear = pods("app=web")[20].clone();
    cluster.kubectl(&["annotate", &dear, "controller.kubernetes.io/pod-deletion-cost=100"]);
    cluster.kubectl(&["scale", "rc", "web", "--replicas=1"]);
    ready("1");
    assert_eq!(pods("app=web"), std::slice::from_ref(&dear));

    // Relabelled, a pod is released and replaced; deleted with orphan, pods stay and are adopted again.
    cluster.kubectl(&["label", &dear, "app=loose", "--overwrite"]);
    eventually("the pod is released", || owner(&dear).is_empty());
    ready("1");
    eventually("the pod is replaced", || pods("app=web").len() == 1);
    let before = pods("app=web");
    cluster.kubectl(&["delete", "rc", "web", "--cascade=orphan"]);
    assert_eq!((pods("app=web"), owner(&before[0])), (before.clone(), String::new()));
    cluster.kubectl_with(&["create", "-f", "-"], &WEB.replace("replicas: 3", "replicas: 1"));
    ready("1");
    assert_eq!((pods("app=web"), owner(&before[0]).as_str()), (before, "ReplicationController"));
    cluster.kubectl(&["delete", "rc", "web", "--cascade=foreground", "--timeout=60s"]);
    assert_eq!(pods("app=web"), Vec::<String>::new());
}

/// Contract: FR-03
fn a_rollout_is_shown_as_a_tree_once_and_as_it_changes() {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    let cluster = cluster();
    cluster.kubectl(&["create", "deployment", "web", "--image=nginx:1.25", "--replicas=4"]);
    rolled_out(&cluster, "web");
    let config = cluster.kubeconfig().to_string_lossy().into_owned();
    let get = |arguments: &[&str]| muster(&[&["rollout", "get", "--kubeconfig", &*config], arguments].concat());

    let told = text(&get(&["deployment/web"]).stdout);
    for words in [
        "Name:      default/web (Deployment)\nStatus:    ✔ complete\n",
        "Strategy:  RollingUpdate, maxSurge 25%, maxUnavailable 25%: at most 5 pods, at least 3 available\n",
        "Pods:      4 wanted, 4 there, 4 updated, 4 ready, 4 available\n",
        "└──# revision 1 ",
        "new, 4 wanted, 4 there, 4 ready, 4 available\n      ├──■ web-",
    ] {
        assert!(told.contains(words), "{words:?} is missing in:\n{told}");
    }
    assert!(text(&get(&["deploy/web", "--pods", "1"]).stdout).contains("└──and 3 more pods"));

    let mut watch = Command::new(MUSTER)
        .args(["rollout", "get", "deploy", "web", "--watch", "-o", "json", "--kubeconfig", &config])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut next = || -> serde_json::Value {
        serde_json::from_str(&lines.next().expect("a line for each change")).expect("a JSON object a line")
    };
    assert_eq!(next()["phase"], "complete");
    cluster.kubectl(&["set", "image", "deployment/web", "nginx=nginx:404"]);
    let says_why = |tree: &serde_json::Value| tree["messages"].to_string().contains("container nginx: ");
    let stuck = std::iter::from_fn(|| Some(next())).find(says_why).expect("a reason");
    assert_eq!((&stuck["phase"], &stuck["strategy"]["bounds"]["leastAvailable"]), (&"progressing".into(), &3.into()));
    assert_eq!((&stuck["revisions"][0]["number"], &stuck["revisions"][0]["newest"]), (&2.into(), &true.into()));
    cluster.kubectl(&["rollout", "undo", "deployment/web"]);
    let healed = std::iter::from_fn(|| Some(next())).find(|tree| tree["phase"] == "complete").expect("an end");
    assert_eq!(healed["revisions"][0]["number"], 3);
    cluster.kubectl(&["delete", "deployment", "web"]);
    // It says that the Deployment has gone, and ends.
    assert_eq!(watch.wait().expect("it ends").code(), Some(1));

    let missing = get(&["deploy/web"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("deployments \"web\" not found in namespace \"default\""));
    assert_eq!(get(&["pod/web"]).status.code(), Some(2));

    // By the name of a plugin.
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::os::unix::fs::symlink(MUSTER, folder.path().join("kubectl-muster")).expect("a link");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").expect("a PATH"));
    cluster.kubectl(&["create", "deployment", "web", "--image=nginx:1.25"]);
    rolled_out(&cluster, "web");
    let plugin = Command::new("kubectl")
        .args(["muster", "rollout", "get", "deployment/web", "--kubeconfig", &config])
        .env("PATH", path)
        .output()
        .expect("kubectl runs");
    assert!(text(&plugin.stdout).contains("✔ complete"), "{}", text(&plugin.stderr));
}
