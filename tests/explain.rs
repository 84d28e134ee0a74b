//! `muster explain` from outside: of a cluster and the controllers in it, of a manager that leads and of one that stands
//! by, and what is refused.

mod harness;
mod outside;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::tests;
use outside::asking::{Asked, explain, json, refused, says};
use outside::workloads::{SET, WORKLOADS};
use outside::{Cluster, muster, text, write};

tests! {
    a_replica_set_at_rest_is_explained_from_the_api,
    a_deployment_and_a_replication_controller_are_explained_too,
    where_no_controller_runs_it_says_what_one_would_do,
    what_cannot_be_explained_says_why,
    a_manager_explains_itself_to_whom_the_api_server_lets,
    a_manager_tells_what_its_last_syncs_were,
    a_manager_tells_what_it_is_doing_to_whom_may_list_everything,
    of_several_managers_in_a_cluster_the_leader_tells,
    the_server_of_a_whole_cluster_tells_of_its_controllers,
    without_a_bearer_token_a_manager_says_nothing: "kubectl",
}

/// A cluster with the workloads, and the folder of their manifest.
fn cluster(controllers: &str) -> (Cluster, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let manifest = write(folder.path(), "workloads.yaml", &format!("{SET}---\n{WORKLOADS}"));
    let flags = ["-f", &manifest, "--controllers", controllers, "--pod-startup", "0s", "--pod-shutdown", "0s"];
    (Cluster::start(&flags), folder)
}

/// Text with what differs from run to run made the same: uids, versions, times, names' random ends, and the columns'
/// width with them.
fn redacted(told: &str) -> String {
    let mut lines = Vec::new();
    for line in told.lines() {
        let words = line.split_whitespace().map(|word| {
            let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
            let is_uid = bare.len() == 36 && bare.matches('-').count() == 4;
            let is_time = bare.contains('T') && bare.ends_with('Z') && bare.starts_with("20");
            if is_uid {
                word.replace(bare, "UID")
            } else if is_time {
                word.replace(bare, "TIME")
            } else if bare.strip_prefix("web-").is_some_and(|end| end.len() == 5) {
                word.replace(bare, "web-xxxxx")
            } else {
                word.to_owned()
            }
        });
        lines.push(words.collect::<Vec<_>>().join(" "));
    }
    lines.join("\n")
}

fn a_replica_set_at_rest_is_explained_from_the_api() {
    let (cluster, _folder) = cluster("*");
    let config = cluster.kubeconfig();
    let told = says(&config, &["rs", "web"], "3 claimed, 3 ready, 3 available, 0 terminating");
    // Its status follows the last pod by a moment.
    let told =
        if told.contains("  status ") { says(&config, &["rs/web"], "again  when something changes") } else { told };
    let told = redacted(&told);
    assert!(told.starts_with("ReplicaSet default/web (uid UID, version "), "{told}");
    for line in [
        "Source: computed afresh from the API at TIME",
        "Spec: 3 replicas, available after 0s ready, selecting app=web",
        "Pods: 3 claimed, 3 ready, 3 available, 0 terminating",
        "Memory: expectations, stale-cache record, backoff and queue are a running manager's, and not known here",
        "Next: leave the pods as they are",
        "RS-09 3 of 3 wanted pods are there",
        "again when something changes",
        "Order of deletion, the first to go first:",
        "# POD GOES NODE BEHIND THE ONE BEFORE BY",
    ] {
        assert!(told.lines().any(|found| found == line), "no line {line:?} in:\n{told}");
    }
    let places: Vec<&str> = told.lines().filter(|line| line.contains(" web-xxxxx - node-")).collect();
    assert_eq!(places.len(), 3, "{told}");
    assert!(places[0].ends_with(" -") && places[1..].iter().all(|place| place.contains("DEL-04 ")), "{told}");

    let told = json(&config, &["rs", "web"]);
    assert_eq!((&told["kind"], &told["format"], &told["source"]), (&"Explanation".into(), &1.into(), &"api".into()));
    assert_eq!(told["object"]["name"], "web");
    assert!(told.get("memory").is_none(), "not known, so not there");
    let view = &told["view"]["replicas"];
    assert_eq!(view["pods"]["claimed"], 3);
    let order = view["ranking"]["order"].as_array().expect("a list");
    assert_eq!(order.len(), 3);
    assert!(order[0].get("decidedBy").is_none() && order[1]["decidedBy"]["rule"] == "DEL-04", "{order:?}");
}

fn a_deployment_and_a_replication_controller_are_explained_too() {
    let (cluster, _folder) = cluster("*");
    let config = cluster.kubeconfig();
    let told = says(&config, &["deploy", "site"], "nothing: the rollout is complete");
    for words in [
        "  Spec:    3 replicas, RollingUpdate (maxSurge 25%, maxUnavailable 25%)",
        "  Bounds:  at most 4 pods, at least 3 available",
        "  Rollout: complete",
        "  DEP-24 complete: 3 of 3 pods are updated and all available",
        "  REPLICASET ",
        "Progressing  True    NewReplicaSetAvailable",
    ] {
        assert!(told.contains(words), "no {words:?} in:\n{told}");
    }
    let view = &json(&config, &["deployment/site"])["view"]["rollout"];
    assert_eq!((&view["bounds"]["surge"], &view["bounds"]["unavailable"]), (&1.into(), &0.into()));
    let sets = view["sets"].as_array().expect("a list");
    assert_eq!(sets.len(), 1);
    assert_eq!((&sets[0]["new"], &sets[0]["revision"], &sets[0]["replicas"]), (&true.into(), &1.into(), &3.into()));
    says(&config, &["rc", "classic"], "2 of 2 wanted pods are there");
}

fn where_no_controller_runs_it_says_what_one_would_do() {
    let (cluster, _folder) = cluster("");
    let config = cluster.kubeconfig();
    let told = says(&config, &["rs", "web"], "Next: create 3 pods");
    assert!(told.contains("  RS-09  0 of 3 wanted pods are there: 3 are missing\n"), "{told}");
    assert!(told.contains("  create 3 Pod\n"), "{told}");
    let told = says(&config, &["deployment", "site"], "Next: create ReplicaSet site-");
    assert!(told.contains("  DEP-04 no ReplicaSet has its template\n"), "{told}");
    let told = json(&config, &["rs", "web", "--burst-replicas=2"]);
    assert_eq!(told["view"]["replicas"]["next"]["writes"][0]["count"], 2);
}

fn what_cannot_be_explained_says_why() {
    let (cluster, folder) = cluster("");
    let config = cluster.kubeconfig();
    refused(&explain(&config, &["pod", "web"]), 2, &["found \"pod\", expected one of", "replicasets", "deploy", "rc"]);
    refused(&explain(&config, &["rs"]), 2, &["KIND/NAME"]);
    let nothing = ["replicasets \"nothing\" not found in namespace \"default\""];
    refused(&explain(&config, &["rs", "nothing"]), 1, &nothing);
    refused(&explain(&config, &["rs", "web", "-n", "other"]), 1, &["\"web\" not found in namespace \"other\""]);
    refused(&explain(Path::new("/nowhere/config"), &["rs", "web"]), 1, &["/nowhere/config"]);
    refused(&explain(&wrong_token(&config, folder.path()), &["rs", "web"]), 1, &["Unauthorized"]);
    let help = text(&muster(&["help", "explain"]).stdout);
    for words in ["Examples:", "--manager-certificate-authority", "--manager-server-name", "-o, --output", "exits 0"] {
        assert!(help.contains(words), "no {words:?} in:\n{help}");
    }
}

/// The same kubeconfig with a token that is none.
fn wrong_token(kubeconfig: &Path, folder: &Path) -> PathBuf {
    with_token(kubeconfig, folder, "wrong")
}

/// The same kubeconfig with another token.
fn with_token(kubeconfig: &Path, folder: &Path, token: &str) -> PathBuf {
    let config = fs::read_to_string(kubeconfig).expect("a kubeconfig");
    let changed = config.lines().map(|line| match line.split_once("token:") {
        Some((before, _)) => format!("{before}token: {token}"),
        None => line.to_owned(),
    });
    let changed = changed.collect::<Vec<_>>().join("\n");
    assert_ne!(changed, config);
    PathBuf::from(write(folder, &format!("{token}.kubeconfig"), &changed))
}

/// Contract: CM-06
fn a_manager_explains_itself_to_whom_the_api_server_lets() {
    let (cluster, folder) = cluster("");
    let config = cluster.kubeconfig();
    let mut leader = Asked::start(&cluster, "starting workers");
    let certificate = leader.certificate();
    let web = leader.asked(&certificate, "rs/web");

    let told = says(&config, &web, "3 claimed, 3 ready, 3 available");
    assert!(told.contains("  Source:  the manager that leads, at "), "{told}");
    assert!(told.contains("  Memory:  nothing expected"), "{told}");
    let told = json(&config, &leader.asked(&certificate, "deploy/site"));
    assert_eq!(told["source"]["manager"]["role"], "leader");
    assert_eq!(told["memory"]["queue"]["failures"], 0);

    // Who may not read it is told so in the API server's words, and learns nothing else.
    let wrong = wrong_token(&config, folder.path());
    refused(&explain(&wrong, &web), 1, &["Unauthorized", &leader.url]);
    let bare = fs::read_to_string(&config).expect("a kubeconfig");
    let bare = bare.lines().filter(|line| !line.contains("token:")).collect::<Vec<_>>().join("\n");
    let bare = PathBuf::from(write(folder.path(), "bare.kubeconfig", &bare.replace("user:\n", "user: {}\n")));
    refused(&explain(&bare, &web), 1, &["no token", "client certificate"]);
    refused(&explain(&config, &leader.asked(&certificate, "rs/nothing")), 1, &["\"nothing\" not found"]);

    // The certificate is verified, by its authority and by its name.
    refused(&explain(&config, &["rs/web", "--manager", &leader.url]), 1, &["--manager", "certificate"]);
    let other_name = [&web[..], &["--manager-server-name", "elsewhere"]].concat();
    refused(&explain(&config, &other_name), 1, &["--manager", "certificate"]);
    says(&config, &[&web[..], &["--manager-server-name", "localhost"]].concat(), "3 claimed");

    let standby = Asked::start(&cluster, "caches synced");
    let certificate = standby.certificate();
    let told = says(&config, &standby.asked(&certificate, "rs/web"), "3 claimed");
    assert!(told.contains("a manager that stands by"), "{told}");

    let token = fs::read_to_string(&config).expect("a kubeconfig");
    let token = token.split_once("token:").expect("a token").1.lines().next().expect("a line").trim().trim_matches('"');
    assert!(token.len() > 10 && !leader.manager.log().contains(token), "the token is not logged");
}

/// Contract: FR-01, FR-02
fn a_manager_tells_what_its_last_syncs_were() {
    let (cluster, folder) = cluster("");
    let config = cluster.kubeconfig();
    let manager = Asked::start(&cluster, "starting workers");
    let certificate = manager.certificate();
    let web = [&manager.asked(&certificate, "rs/web")[..], &["--history"]].concat();

    let told = says(&config, &web, "{\"availableReplicas\":3,");
    for words in [
        "ReplicaSet default/web\n  Source:  the manager that leads, at ",
        "  create 3 pods, in ",
        "    woken    by the start of the manager's work",
        "    saw      itself at ",
        "    RS-09    0 of 3 wanted pods are there: 3 are missing\n    expects  3 creations, 0 deletions\n    create   3 Pods, web-",
        "    status   ReplicaSet web: at ",
        "    again    when something changes\n",
    ] {
        assert!(told.contains(words), "no {words:?} in:\n{told}");
    }

    let told = json(&config, &web);
    assert_eq!((&told["kind"], &told["object"]["name"]), (&"History".into(), &"web".into()));
    let syncs = told["syncs"].as_array().expect("a list");
    let created = syncs.iter().find(|sync| sync["summary"] == "create 3 pods").expect("a sync that creates");
    let writes = created["writes"].as_array().expect("a list");
    let creates =
        writes.iter().filter(|write| write["action"] == "create" && write["answer"]["ok"]["version"].is_string());
    assert_eq!(creates.count(), 3, "{created}");
    assert_eq!(created["woken"][0], "start");

    let of_no_time = json(&config, &[&web[..], &["--since", "1ns"]].concat());
    assert!(of_no_time.get("syncs").is_none(), "{of_no_time}");
    let other = [&manager.asked(&certificate, "deploy/site")[..], &["--history"]].concat();
    says(&config, &other, "DEP-24   complete: 3 of 3 pods are updated and all available");

    let wrong = wrong_token(&config, folder.path());
    refused(&explain(&wrong, &web), 1, &["Unauthorized", &manager.url]);
    let nobody = ["does not run the replicaset-controller", "by --manager"];
    refused(&explain(&config, &["rs/web", "--history"]), 1, &nobody);
}

/// Robots with tokens: one may read a namespace, one all of them.
const ROBOTS: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads}
rules: [{apiGroups: [apps, ''], resources: [deployments, replicasets, replicationcontrollers, pods], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: auditor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: auditor}]
";

/// A cluster with the robots and the set, and the kubeconfigs of the one who may read a namespace and of the one who may
/// read all.
fn with_robots(controllers: &str) -> (Cluster, [PathBuf; 2], tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let manifest = write(folder.path(), "robots.yaml", &format!("{SET}---\n{ROBOTS}"));
    let tokens = write(folder.path(), "tokens.csv", "of-reader,reader,1\nof-auditor,auditor,2\n");
    let flags = ["-f", &manifest, "--controllers", controllers, "--pod-startup", "0s", "--token-auth-file", &tokens];
    let cluster = Cluster::start(&flags);
    let config = |token| with_token(&cluster.kubeconfig(), folder.path(), token);
    let configs = [config("of-reader"), config("of-auditor")];
    (cluster, configs, folder)
}

/// Contract: FR-02, PG-02
fn a_manager_tells_what_it_is_doing_to_whom_may_list_everything() {
    let (cluster, [reader, auditor], _folder) = with_robots("");
    let manager = Asked::start(&cluster, "starting workers");
    let certificate = manager.certificate();
    let inside = manager.asked(&certificate, "--inside");

    let told = says(&auditor, &inside, "\nWrites since the start: create 3, status ");
    for words in [
        "Inside the manager that leads, at ",
        "  Pod                          3 objects, at version ",
        "\nQueue of the replicaset-controller: ",
        "\nLast syncs\n",
        "ReplicaSet default/web                   create 3 pods, ",
    ] {
        assert!(told.contains(words), "no {words:?} in:\n{told}");
    }
    let told = json(&auditor, &inside);
    assert_eq!((&told["kind"], &told["source"]["manager"]["role"]), (&"Inside".into(), &"leader".into()));
    assert_eq!(told["informers"].as_array().map(Vec::len), Some(4), "{told}");

    says(&reader, &manager.asked(&certificate, "rs/web"), "3 claimed");
    let words = ["User \"reader\" cannot list resource \"deployments\"", "at the cluster scope", &manager.url];
    refused(&explain(&reader, &inside), 1, &words);
    refused(&explain(&auditor, &["--inside", "rs/web"]), 2, &["--inside"]);
    refused(&explain(&auditor, &["--inside", "--history"]), 2, &["--inside"]);
}

/// Contract: PG-02
fn of_several_managers_in_a_cluster_the_leader_tells() {
    let cluster = Cluster::start(&["--managers", "2"]);
    says(&cluster.kubeconfig(), &["--inside"], "Inside the manager that leads, at ");
}

/// Contract: FR-02, PG-02
fn the_server_of_a_whole_cluster_tells_of_its_controllers() {
    let (cluster, [_, auditor], _folder) = with_robots("*");
    let config = cluster.kubeconfig();
    let told = says(&config, &["rs/web", "--history"], "{\"availableReplicas\":3,");
    assert!(told.contains("a manager that runs without an election"), "{told}");
    says(&config, &["--inside"], "ReplicaSet default/web                   create 3 pods, ");
    let never = explain(&config, &["rs/never", "--history"]);
    refused(&never, 1, &["ReplicaSet default/never not found", "it tells of controllers in its own process"]);
    for question in [&["rs/web", "--history"][..], &["--inside"]] {
        let words = ["User \"auditor\" cannot get path \"/muster/", "by --manager"];
        refused(&explain(&auditor, question), 1, &words);
    }
}

/// Contract: CM-06
fn without_a_bearer_token_a_manager_says_nothing() {
    let (cluster, _folder) = cluster("");
    let manager = Asked::start(&cluster, "starting workers");
    let output = Command::new("kubectl")
        .args(["--kubeconfig=/dev/null", "--username=a", "--password=b", "--server", &manager.url])
        .args(["--certificate-authority", &manager.certificate(), "get", "--raw"])
        .arg("/explain/replicasets/default/web")
        .env_remove("KUBECONFIG")
        .output()
        .expect("kubectl runs");
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("must be logged in"), "{said}");
    assert_eq!(text(&output.stdout), "");
}
