//! The program from outside: what it prints, how it ends, and what it says of bad input.

mod harness;
mod outside;

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use harness::tests;
use outside::manager::wait_for;
use outside::workloads::SET;
use outside::{Cluster, MUSTER, muster, text, write};

tests! {
    examples_come_to_ready,
    a_workload_that_cannot_become_ready_is_named_with_its_reason,
    every_rollout_is_shown_and_one_that_exceeds_its_deadline_is_told_with_the_reason: "kubectl",
    what_stands_still_is_told_with_the_reason,
    waiting_ends_with_a_rollout_that_exceeds_its_deadline,
    fates_of_a_template_are_those_of_its_pods,
    a_bench_of_rollouts_counts_requests_and_holds_every_moment_against_the_bounds,
    a_bench_of_replicasets_counts_requests,
    a_bench_of_scale_measures_each_size_by_itself,
    a_bench_that_waits_says_what_for,
    without_a_controller_nothing_comes_and_the_reason_says_so,
    bad_input_is_named_with_file_document_line_and_field_and_nothing_is_left,
    kinds_that_a_definition_brings_are_applied_with_it_and_later,
    a_file_that_is_not_there_is_named,
    a_port_in_use_is_named,
    an_unknown_controller_is_refused_with_the_known_ones,
    a_signal_ends_it_cleanly,
    a_signal_ends_what_waits_before_it_runs,
    a_server_that_is_silent_is_named_while_it_is_waited_for_and_at_the_end,
    the_cluster_is_the_first_that_is_named,
    the_only_way_into_a_cluster_is_not_replaced,
    a_bench_that_is_interrupted_leaves_nothing: "kubectl",
    a_server_that_proves_nothing_is_told_nothing,
    output_that_cannot_be_written_is_an_error_unless_nobody_wants_it,
    help_has_examples_and_completions_are_printed,
}

/// `up --until-ready` on a free port with pods that start at once.
fn up(folder: &tempfile::TempDir, more: &[&str]) -> std::process::Output {
    let kubeconfig = folder.path().join("kubeconfig").to_string_lossy().into_owned();
    let mut arguments =
        vec!["up", "--listen", "127.0.0.1:0", "--pod-startup", "0s", "--until-ready", "--kubeconfig", &kubeconfig];
    arguments.extend(more);
    muster(&arguments)
}

/// The path of an example.
fn example(name: &str) -> String {
    format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/{}"), name)
}

fn examples_come_to_ready() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["web", "scale-down", "deployment", "recreate", "replicationcontroller"]
        .map(|name| example(&format!("{name}.yaml")));
    let mut arguments = vec!["--timeout", "2m"];
    for file in &files {
        arguments.extend(["-f", file]);
    }
    let output = up(&folder, &arguments);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let said = text(&output.stdout);
    for line in [
        "ReplicaSet shop/web: 5/5 available",
        "ReplicaSet shop/cache: 3/3 available",
        "ReplicaSet default/keep: 10/10 available",
        "applied: ConfigMap default/web",
        "Deployment default/web: 10/10 available, revision 1 complete (web-",
        "Deployment default/ledger: 3/3 available, revision 1 complete (ledger-",
        "ReplicationController default/classic: 3/3 available",
    ] {
        assert!(said.contains(line), "{line:?} is missing in:\n{said}");
    }
    let mode = std::fs::metadata(folder.path().join("kubeconfig")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

fn a_workload_that_cannot_become_ready_is_named_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "bad.yaml", &SET.replace("nginx", "nginx:404"));
    let output = up(&folder, &["-f", &file, "--timeout", "3s"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    let said = text(&output.stderr);
    assert!(said.contains("ReplicaSet default/web: 0 of 3 available"), "{said}");
    assert!(said.contains("ImagePull"), "the reason of the pods: {said}");
}

fn every_rollout_is_shown_and_one_that_exceeds_its_deadline_is_told_with_the_reason() {
    let mut cluster = Cluster::start(&["-f", &example("deployment.yaml")]);
    cluster.line_with("Deployment default/web: 10/10 available, revision 1 complete");
    cluster.kubectl(&["set", "image", "deployment/web", "nginx=nginx:1.30"]);
    let underway = cluster.line_with(", old web-");
    assert!(underway.contains("Deployment default/web: revision ") && underway.contains("/10 updated"), "{underway}");
    cluster.line_with("Deployment default/web: 10/10 available, revision 2 complete");

    // It reads the object's version first, and a controller may write the status in between.
    let replace = ["replace", "-f", &example("broken-rollout.yaml")];
    assert!((0..100).any(|_| cluster.try_kubectl(&replace, "").status.success()), "a conflict each time");
    let exceeded = cluster.line_with("progress deadline exceeded");
    assert!(exceeded.contains("revision 3:") && exceeded.contains("has timed out progressing"), "{exceeded}");
    assert!(exceeded.contains("5/10 updated, 8 available"), "it stands at its bounds: {exceeded}");

    cluster.kubectl(&["rollout", "undo", "deployment/web"]);
    cluster.line_with("Deployment default/web: 10/10 available, revision 4 complete");
    assert_eq!(cluster.interrupt(), Some(0), "what went wrong in between is no failure of the cluster");
}

fn waiting_ends_with_a_rollout_that_exceeds_its_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let output = up(&folder, &["-f", &example("broken-rollout.yaml"), "--timeout", "5m"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("a rollout exceeded its progress deadline"), "{said}");
    assert!(said.contains("Deployment default/web: 0 of 10 available: ReplicaSet \"web-"), "{said}");
    assert!(said.contains("container nginx: ImagePullBackOff"), "the reason of the pods: {said}");
}

/// Contract: SIM-04
fn fates_of_a_template_are_those_of_its_pods() {
    let folder = tempfile::tempdir().unwrap();
    let output = up(&folder, &["-f", &example("fates.yaml"), "--timeout", "20s"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for (name, reason) in [
        ("never-ready", "running, not ready"),
        ("crash-loop", "container app: CrashLoopBackOff"),
        ("image-pull-error", "container app: ImagePullBackOff"),
        ("reject", "Failed: NodeAffinity: Pod was rejected"),
    ] {
        let title = format!("Deployment default/{name}: 0 of 2 available");
        let line = said.lines().find(|line| line.contains(&title)).unwrap_or_default();
        assert!(line.contains(reason), "{reason:?} of {name} is missing in:\n{said}");
    }
    assert!(!said.contains("slow-start"), "it becomes ready, late: {said}");
    let shown = text(&output.stdout);
    assert!(shown.contains("Deployment default/slow-start: 2/2 available, revision 1 complete"), "{shown}");
}

fn a_bench_of_rollouts_counts_requests_and_holds_every_moment_against_the_bounds() {
    let arguments =
        ["bench", "rollouts", "--deployments", "3", "--replicas", "10", "--rollouts", "2", "--output", "json"];
    let output = muster(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let findings: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |pointer: &str| findings.pointer(pointer).and_then(serde_json::Value::as_f64).unwrap_or(-1.0);
    let seen = format!("{findings:#}");
    assert_eq!(number("/creation/requests/by_purpose/pods created"), 10.0, "{seen}");
    assert_eq!(number("/creation/requests/by_purpose/ReplicaSets created"), 1.0, "{seen}");
    assert_eq!(number("/rolling/requests/by_purpose/pods created"), 10.0, "{seen}");
    assert_eq!(number("/rolling/requests/by_purpose/pods deleted"), 10.0, "{seen}");
    assert_eq!(number("/rolling/requests/by_purpose/ReplicaSets created"), 1.0, "{seen}");
    assert!(number("/rolling/cluster_requests/by_purpose/pods bound") >= 10.0, "{seen}");
    // How many statuses there are depends on which pods turn ready together, and that on the machine.
    let total = number("/rolling/requests/total");
    assert!((32.0..160.0).contains(&total), "{seen}");
    // kube-controller-manager met 3%.
    assert!(number("/rolling/requests/conflicts") / total < 0.03, "{seen}");
    assert_eq!(number("/availability/violations"), 0.0, "{seen}");
    assert!((8.0..=10.0).contains(&number("/availability/lowest_available")), "{seen}");
    assert!((11.0..=13.0).contains(&number("/availability/highest_wanted")), "{seen}");
}

fn a_bench_of_replicasets_counts_requests() {
    let output = muster(&["bench", "replicasets", "--replicasets", "2", "--replicas", "20", "--output", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let findings: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(findings.pointer("/controller/requests/by_purpose/pods created"), Some(&20.0.into()), "{findings:#}");
    assert_eq!(findings.pointer("/direct/requests/total"), Some(&0.0.into()), "the bench's own are not counted");
}

fn a_bench_of_scale_measures_each_size_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let plot = folder.path().join("scale.svg").to_string_lossy().into_owned();
    let scale = ["bench", "scale", "--pods", "40,20", "--pods-each", "10", "--output", "json", "--nodes"];
    let output = muster(&[&scale[..], &["1", "--svg", &plot]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let findings: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let sizes = findings["sizes"].as_array().unwrap();
    let figures: Vec<_> = sizes.iter().map(|size| (size["pods"].as_u64(), size["nodes"].as_u64())).collect();
    assert_eq!(figures, [(Some(20), Some(1)), (Some(40), Some(1))], "{findings:#}");
    assert!(std::fs::read_to_string(&plot).unwrap().starts_with("<svg"));

    for (arguments, expected) in [
        ("--pods 25 --pods-each 10", "--pods: 25 is no multiple of --pods-each 10"),
        (
            "--pods 5100 --pods-each 10 --nodes 1",
            "--nodes: 1 hold 5120 pods; 5100, one Deployment of them being rolled, need",
        ),
    ] {
        let output = muster(&["bench", "scale"].into_iter().chain(arguments.split(' ')).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(1), "{arguments}");
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
}

/// Not only where the time is over: who waits is told what for.
fn what_stands_still_is_told_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let large = SET.replace("image: nginx", "image: nginx, resources: {requests: {cpu: '1000'}}");
    let file = write(folder.path(), "web.yaml", &large);
    let mut cluster = Cluster::start(&["-f", &file]);
    let said = cluster.line_with("waiting");
    assert!(said.contains("ReplicaSet default/web: waiting: 0 of 3 available: pod web-"), "{said}");
    assert!(said.contains(" and 2 more: unschedulable: 0/3 nodes are available: 3 Insufficient cpu."), "{said}");
}

/// A bench that waits for three pods on another's cluster; its standard error can be read.
fn bench_of_three(cluster: &Cluster) -> std::process::Child {
    let mut bench = Command::new(MUSTER);
    bench.args(["bench", "replicasets", "--replicasets", "1", "--replicas", "3", "--kubeconfig"]);
    bench.arg(cluster.kubeconfig()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A bench makes the nodes that it needs; of another's cluster it says what is missing there.
fn a_bench_that_waits_says_what_for() {
    let cluster = Cluster::start(&["--nodes", "0"]);
    let mut bench = bench_of_three(&cluster);
    let lines = BufReader::new(bench.stderr.take().unwrap()).lines().map_while(Result::ok);
    let said: Vec<String> = lines.take(2).collect();
    bench.kill().unwrap();
    bench.wait().unwrap();
    let waiting = "warming up: 0/3 pods ready, 3 not scheduled: no scheduler has looked at them";
    assert_eq!(said, ["warming up: waiting for 3 pods ready", waiting]);
}

fn without_a_controller_nothing_comes_and_the_reason_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "web.yaml", SET);
    let output = up(&folder, &["-f", &file, "--controllers", "", "--timeout", "300ms"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no controller runs"), "{}", text(&output.stderr));
}

fn bad_input_is_named_with_file_document_line_and_field_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n";
    for (name, content, expected) in [
        (
            "kind.yaml",
            format!("{good}apiVersion: v1\nkind: Gadget\nmetadata: {{name: g}}\n"),
            "kind.yaml: document 2, line 6: kind: found \"Gadget\"",
        ),
        (
            "version.yaml",
            SET.replace("apps/v1", "apps/v2"),
            "version.yaml: document 1, line 1: apiVersion: found \"apps/v2\"",
        ),
        (
            "field.yaml",
            SET.replace("replicas: 3", "replicaz: 3"),
            "field.yaml: document 1, line 5: ReplicaSet \"web\":",
        ),
        (
            "type.yaml",
            SET.replace("replicas: 3", "replicas: three"),
            "type.yaml: document 1, line 5: ReplicaSet \"web\":",
        ),
        (
            "value.yaml",
            SET.replace("replicas: 3", "replicas: -3"),
            "value.yaml: document 1, line 5: ReplicaSet \"web\":",
        ),
        (
            "twice.yaml",
            format!("{}data: {{a: b}}\ndata: {{c: d}}\n", good.trim_end_matches("---\n")),
            "twice.yaml: document 1, line 5: data: found again, expected once; the first is in line 4",
        ),
        ("syntax.yaml", "apiVersion: [\n".to_owned(), "syntax.yaml: document 1, line "),
        (
            "namespace.yaml",
            SET.replace("{name: web, namespace: default}", "{name: web, namespace: nowhere}"),
            "namespaces \"nowhere\" not found",
        ),
        ("empty.yaml", "# nothing\n".to_owned(), "empty.yaml: found no object"),
        (
            "twice.yaml",
            format!("{SET}---\n{SET}"),
            "twice.yaml: document 2, line 11: ReplicaSet \"web\": replicasets.apps \"web\" already exists",
        ),
    ] {
        let file = write(folder.path(), name, &content);
        let output = up(&folder, &["-f", &file]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        assert!(said.contains(expected), "{name}: {expected:?} is missing in:\n{said}");
        assert!(!folder.path().join("kubeconfig").exists(), "{name}: no kubeconfig for a cluster that never was");
    }
}

/// A definition may stand behind the objects of its kinds, or be there from before.
fn kinds_that_a_definition_brings_are_applied_with_it_and_later() {
    const DEFINITIONS: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema:
        openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: plans.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: plans, kind: Plan}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
";
    let object = |kind: &str, version: &str, name: &str| {
        format!("apiVersion: example.com/{version}\nkind: {kind}\nmetadata: {{name: {name}}}\n---\n")
    };
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").to_string_lossy().into_owned();
    let whole = object("Widget", "v1alpha1", "one") + &object("Plan", "v1", "big") + DEFINITIONS;
    let file = write(folder.path(), "bundle.yaml", &whole);
    let first = up(&folder, &["--data-dir", &data, "-f", &file]);
    let said = text(&first.stdout);
    assert_eq!(first.status.code(), Some(0), "{said}{}", text(&first.stderr));
    for line in ["applied: Widget default/one", "applied: Plan big"] {
        assert!(said.contains(line), "{line:?} is missing in:\n{said}");
    }
    let file = write(folder.path(), "more.yaml", &object("Widget", "v1alpha1", "two"));
    let second = up(&folder, &["--data-dir", &data, "-f", &file]);
    let said = text(&second.stdout);
    assert!(second.status.success() && said.contains("applied: Widget default/two"), "{}", text(&second.stderr));
    // What is wrong with them is told as of every other object.
    for (content, expected) in [
        (object("Widget", "v2", "three"), "line 1: apiVersion: found \"example.com/v2\" for kind Widget, expected"),
        (object("Gadget", "v1", "three"), "line 2: kind: found \"Gadget\", which this server does not know, and no"),
        (object("Widget", "v1alpha1", "three").replace("---", "spec: {size: wide}"), "line 4: Widget \"three\": "),
    ] {
        let file = write(folder.path(), "wrong.yaml", &content);
        let output = up(&folder, &["--data-dir", &data, "-f", &file]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(expected), "{expected:?} is missing in:\n{said}");
    }
}

fn a_file_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let output = up(&folder, &["-f", "/nowhere/web.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/nowhere/web.yaml: cannot be read"), "{}", text(&output.stderr));
}

fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = muster(&["up", "--listen", &address, "--until-ready"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains(&address) && said.contains("in use"), "{said}");
}

fn an_unknown_controller_is_refused_with_the_known_ones() {
    let output = muster(&["up", "--listen", "127.0.0.1:0", "--controllers", "replicaset,nosuch", "--until-ready"]);
    assert_ne!(output.status.code(), Some(0));
    let said = text(&output.stderr);
    assert!(said.contains("nosuch") && said.contains("replicaset-controller"), "{said}");
}

/// Contract: CM-07
fn a_signal_ends_it_cleanly() {
    // The last comes when its terminal is closed.
    for signal in ["-INT", "-TERM", "-HUP"] {
        let cluster = Cluster::start(&[]);
        assert_eq!(cluster.end_by(signal), Some(0), "{signal}");
    }
}

/// A kubeconfig of a server on this machine.
fn kubeconfig_of(folder: &std::path::Path, name: &str, url: &str) -> String {
    let config = format!(
        "{{apiVersion: v1, kind: Config, current-context: c, clusters: [{{name: c, cluster: {{server: '{url}'}}}}], \
         users: [{{name: c, user: {{token: t}}}}], contexts: [{{name: c, context: {{cluster: c, user: c}}}}]}}"
    );
    write(folder, name, &config)
}

/// Contract: CM-07
fn a_signal_ends_what_waits_before_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    // Connections to it are made, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let of_silent = kubeconfig_of(folder.path(), "silent", &format!("http://{}", silent.local_addr().unwrap()));
    let unwritten = folder.path().join("unwritten").to_string_lossy().into_owned();
    for arguments in [
        vec!["up", "-f", "-", "--listen", "127.0.0.1:0", "--kubeconfig", &*unwritten],
        vec!["page", "--kubeconfig", &*of_silent],
    ] {
        // Its standard input stays open, and says nothing.
        let mut command = Command::new(MUSTER);
        let mut waits = command.args(&arguments).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let id = waits.id().to_string();
        wait_for("that it takes SIGINT over", || {
            let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
            (u64::from_str_radix(caught.trim(), 16).unwrap() & 2 != 0).then_some(())
        });
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let ended = wait_for("its end", || waits.try_wait().unwrap());
        let said = text(&waits.wait_with_output().unwrap().stderr);
        assert_eq!(ended.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.ends_with("error: interrupted\n"), "{arguments:?}: {said}");
    }
}

fn a_server_that_is_silent_is_named_while_it_is_waited_for_and_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let kubeconfig = kubeconfig_of(folder.path(), "silent", &url);
    let file = folder.path().join("a.muster").to_string_lossy().into_owned();
    let commands = [
        vec!["explain", "rs/web"],
        vec!["explain", "--inside"],
        vec!["rollout", "get", "rs/web"],
        vec!["page"],
        vec!["faults", "list"],
        vec!["export"],
        vec!["snapshot", "save", &*file],
    ];
    let running = commands.map(|arguments| {
        let mut command = Command::new(MUSTER);
        command.args(&arguments).args(["--kubeconfig", &kubeconfig]).stdin(Stdio::null()).stdout(Stdio::null());
        (arguments, command.stderr(Stdio::piped()).spawn().unwrap())
    });
    let waiting = running.map(|(arguments, mut child)| {
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert_eq!(lines.next(), Some(format!("waiting for {url} to answer")), "{arguments:?}");
        (arguments, child, lines)
    });
    // What has been connected is reset.
    drop(silent);
    for (arguments, mut child, lines) in waiting {
        let rest: Vec<String> = lines.collect();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{arguments:?}: {rest:?}");
        assert!(
            rest.last().is_some_and(|said| said.starts_with("error: ") && said.contains(&url)),
            "{arguments:?}: {rest:?}"
        );
        assert!(!rest.iter().any(|said| said.contains("waiting for")), "{arguments:?}: {rest:?}");
    }
    assert!(!std::path::Path::new(&file).exists());
}

fn the_cluster_is_the_first_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let [flag, environment, here, home] = [1, 2, 3, 4].map(|port| format!("http://127.0.0.1:{port}"));
    let by_flag = kubeconfig_of(folder.path(), "flag", &flag);
    let by_environment = kubeconfig_of(folder.path(), "environment", &environment);
    let own = [vec!["faults", "list"], vec!["export"], vec!["snapshot", "save", "a.muster"]];
    let any = [vec!["explain", "rs/web"], vec!["rollout", "get", "rs/web"]];
    let asks = |commands: &[Vec<&str>], flags: &[&str], variable: &str, server: &str| {
        for arguments in commands {
            let mut command = Command::new(MUSTER);
            command.args(arguments).args(flags).current_dir(folder.path()).env("HOME", folder.path());
            let output = command.env("KUBECONFIG", variable).stdin(Stdio::null()).output().unwrap();
            let said = text(&output.stderr);
            assert!(output.status.code() == Some(1) && said.contains(server), "{arguments:?} {flags:?}: {said}");
        }
    };
    std::fs::create_dir(folder.path().join(".kube")).unwrap();
    kubeconfig_of(&folder.path().join(".kube"), "config", &home);
    asks(&own, &[], "", &home);
    kubeconfig_of(folder.path(), "muster.kubeconfig", &here);
    asks(&own, &[], "", &here);
    asks(&any, &[], "", &home);
    for commands in [&own[..], &any] {
        asks(commands, &[], &by_environment, &environment);
        asks(commands, &["--kubeconfig", &by_flag], &by_environment, &flag);
    }
}

fn the_only_way_into_a_cluster_is_not_replaced() {
    let cluster = Cluster::start(&["--nodes", "0"]);
    let kubeconfig = cluster.kubeconfig().to_string_lossy().into_owned();
    let before = std::fs::read_to_string(&kubeconfig).unwrap();
    let again = || muster(&["up", "--listen", "127.0.0.1:0", "--until-ready", "--kubeconfig", &kubeconfig]);
    let output = again();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&kubeconfig) && said.contains("is of a cluster that runs"), "{said}");
    assert_eq!(std::fs::read_to_string(&kubeconfig).unwrap(), before);
    cluster.signal("-KILL");
    // Until the system has taken its port away it may still seem to be there.
    for _ in 0..100 {
        if again().status.success() {
            assert_ne!(std::fs::read_to_string(&kubeconfig).unwrap(), before);
            return;
        }
    }
    panic!("the kubeconfig of a cluster that has ended is not replaced");
}

fn a_bench_that_is_interrupted_leaves_nothing() {
    let cluster = Cluster::start(&["--nodes", "0"]);
    let mut bench = bench_of_three(&cluster);
    let mut lines = BufReader::new(bench.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("not scheduled")));
    let id = bench.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    let rest: Vec<String> = lines.collect();
    assert_eq!(bench.wait().unwrap().code(), Some(1), "{rest:?}");
    assert!(rest.iter().any(|line| line == "error: interrupted"), "{rest:?}");
    let namespace = format!("namespace/muster-bench-{id}");
    cluster.kubectl(&["wait", "--for=delete", &namespace, "--timeout=60s"]);
}

/// What goes to a server is the credential, and what comes of it all that is secret.
fn a_server_that_proves_nothing_is_told_nothing() {
    let cluster = Cluster::start(&["--nodes", "0"]);
    let folder = tempfile::tempdir().unwrap();
    let known = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let skipping: String = known
        .lines()
        .map(|line| match line.split_once("certificate-authority-data:") {
            Some((before, _)) => format!("{before}insecure-skip-tls-verify: true\n"),
            None => format!("{line}\n"),
        })
        .collect();
    assert_ne!(skipping.lines().count(), 0);
    let kubeconfig = write(folder.path(), "skipping", &skipping);
    let file = folder.path().join("a.muster").to_string_lossy().into_owned();
    for arguments in [
        vec!["snapshot", "save", &*file],
        vec!["export"],
        vec!["faults", "list"],
        vec!["explain", "deployment/web"],
        vec!["bench", "replicasets"],
    ] {
        let output = muster(&[&arguments[..], &["--kubeconfig", &*kubeconfig]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("skipping: insecure-skip-tls-verify: found true"), "{arguments:?}: {said}");
    }
    assert!(!std::path::Path::new(&file).exists());
    // That a namespace is not there is told, too.
    let kubeconfig = cluster.kubeconfig().to_string_lossy().into_owned();
    let output = muster(&["export", "-n", "nowhere", "--kubeconfig", &kubeconfig]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("--namespace nowhere: namespaces \"nowhere\" not found"), "{said}");
}

fn output_that_cannot_be_written_is_an_error_unless_nobody_wants_it() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(MUSTER).args(["completions", "bash"]).stdout(full()).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("error: standard output: "), "{said}");

    let mut nobody = Command::new(MUSTER).args(["completions", "bash"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(nobody.stdout.take());
    assert_eq!(nobody.wait().unwrap().code(), Some(0));

    // What waits for the line that a cluster is ready would wait for ever.
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let mut up = Command::new(MUSTER);
    up.args(["up", "--listen", "127.0.0.1:0", "--nodes", "0", "--output", "json", "--kubeconfig"]).arg(kubeconfig);
    let output = up.stdout(full()).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("standard output: "), "{said}");
}

fn help_has_examples_and_completions_are_printed() {
    for arguments in [
        &["--help"][..],
        &["up", "--help"],
        &["bench", "replicasets", "--help"],
        &["bench", "rollouts", "--help"],
        &["bench", "manager", "--help"],
        &["completions", "--help"],
    ] {
        let output = muster(arguments);
        assert!(output.status.success());
        assert!(text(&output.stdout).contains("Example"), "{arguments:?}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let output = muster(&["completions", shell]);
        assert!(text(&output.stdout).contains("muster"), "{shell}");
    }
    assert!(text(&muster(&["--version"]).stdout).starts_with("muster "));
}
