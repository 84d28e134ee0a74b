//! Clients as foreign processes under the faults of `muster up`: the controllers of docs/faults.md, how late watches tell them, and
//! our own controller manager under the plans of `examples/faults/strangers`.

mod harness;
mod outside;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use harness::tests;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use outside::{Cluster, MUSTER, muster, text};
use serde_json::{Value, json};

tests! {
    the_page_shows_the_controllers_and_their_tests,
    // The one in Rust is the target `faults_rust`.
    a_controller_in_python_passes_its_test: "python3 -c __import__('pytest'),__import__('kubernetes')",
    a_controller_in_go_passes_its_test: "go -C ../../examples/faults/go list -deps -test ./...",
    a_watcher_in_rust_is_told_as_late_as_was_asked,
    a_watcher_in_python_is_told_as_late_as_was_asked: "python3 -c __import__('kubernetes')",
    every_plan_is_read,
    our_manager_leaves_a_pod_that_is_no_longer_its_own: "python3 -c __import__('kubernetes')",
    our_manager_makes_no_pod_for_a_replicaset_that_is_being_deleted: "python3 -c __import__('kubernetes')",
}

fn the_page_shows_the_controllers_and_their_tests() {
    let read = |file: PathBuf| fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let page = read(examples().join("../../docs/faults.md"));
    for file in [
        "copier.yaml",
        "between-writes.yaml",
        "unseen-states.yaml",
        "python/copier.py",
        "python/test_copier.py",
        "python/test_states.py",
        "rust/copier.rs",
        "go/copier.go",
        "go/copier_test.go",
    ] {
        assert!(
            page.contains(&read(examples().join(file))),
            "docs/faults.md does not show examples/faults/{file} as it is"
        );
    }
}

/// Contract: API-39
fn a_controller_in_python_passes_its_test() {
    let said = passed(
        Command::new("python3")
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
            .current_dir(examples().join("python")),
    );
    assert!(said.contains("3 passed"), "{said}");
}

/// Contract: API-39
fn a_controller_in_go_passes_its_test() {
    let said = passed(Command::new("go").args(["test", "-count=1", "-v", "./..."]).current_dir(examples().join("go")));
    assert!(said.contains("--- PASS: TestTheCopyFollowsWhateverStrikes "), "{said}");
}

/// Contract: API-39
fn a_watcher_in_rust_is_told_as_late_as_was_asked() {
    late("Rust", in_rust);
}

/// Contract: API-39
fn a_watcher_in_python_is_told_as_late_as_was_asked() {
    late("Python", in_python);
}

/// The seconds from a write to its event, and from its answer to its event.
type Lag = [f64; 2];

/// Without faults ten changes are told, and with the preset none before its 2 s are over, counted from the write: the server has
/// it a moment before the answer arrives. How late they are at most is printed and not judged.
fn late(client: &str, measure: fn(&Cluster) -> Vec<Lag>) {
    for (preset, least) in [("none", 0.0), ("slow-watch", 2.0)] {
        let arguments: &[&str] = if preset == "none" { &[] } else { &["--faults", preset, "--seed", "1"] };
        let lags = measure(&Cluster::start(&[&["--nodes", "0"], arguments].concat()));
        let mut told: Vec<f64> = lags.iter().map(|[_, answered]| *answered).collect();
        told.sort_by(f64::total_cmp);
        println!(
            "{client}, faults: {preset}: after the answer {:.3} s, {:.3} s, {:.3} s (least, median, most)",
            told[0],
            told[told.len() / 2],
            told[told.len() - 1]
        );
        assert_eq!(lags.len(), 10);
        assert!(lags.iter().all(|[written, _]| *written >= least), "{client}, {preset}: {lags:?}");
    }
}

fn in_rust(cluster: &Cluster) -> Vec<Lag> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).expect("the kubeconfig");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("a config");
        let maps: Api<ConfigMap> = Api::default_namespaced(Client::try_from(config).expect("a client"));
        let measured = serde_json::from_value(json!({"metadata": {"name": "rust"}})).expect("a ConfigMap");
        let measured = maps.create(&PostParams::default(), &measured).await.expect("it is created");
        let params = WatchParams::default().fields("metadata.name=rust");
        let version = measured.resource_version().expect("its version");
        let mut events = Box::pin(maps.watch(&params, &version).await.expect("a watch"));
        let mut lags = Vec::new();
        for number in 0..10 {
            let data = json!({"data": {"number": number.to_string()}});
            let written = Instant::now();
            maps.patch("rust", &PatchParams::default(), &Patch::Merge(&data)).await.expect("it is changed");
            let answered = Instant::now();
            let event = events.try_next().await.expect("a watch that goes on");
            let told = Instant::now();
            let Some(WatchEvent::Modified(map)) = event else { panic!("{event:?}") };
            assert_eq!(map.data.expect("data")["number"], number.to_string());
            lags.push([told - written, told - answered].map(|lag: Duration| lag.as_secs_f64()));
        }
        lags
    })
}

fn in_python(cluster: &Cluster) -> Vec<Lag> {
    let mut python = Command::new("python3");
    let said = passed(python.arg(examples().join("python/lag.py")).env("KUBECONFIG", cluster.kubeconfig()));
    said.lines().map(|line| serde_json::from_str(line).expect("two numbers")).collect()
}

fn every_plan_is_read() {
    let folders = [examples(), examples().join("strangers")];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("the folder"));
    let files = files.map(|file| file.expect("a file").path());
    let plans: Vec<PathBuf> = files.filter(|file| file.extension().is_some_and(|end| end == "yaml")).collect();
    assert!(plans.len() >= 9, "{plans:?}");
    for plan in plans {
        // It is read before anything is sent.
        let output = muster(&["faults", "add", &plan.to_string_lossy(), "--kubeconfig", "no/such/file"]);
        assert!(text(&output.stderr).contains("no/such/file"), "{}: {}", plan.display(), text(&output.stderr));
    }
}

/// kube-controller-manager 1.36 deletes it.
///
/// Contract: B-02
fn our_manager_leaves_a_pod_that_is_no_longer_its_own() {
    assert_eq!(played("released-pod"), json!({"plan": "released-pod", "left": 1, "made": 3}));
}

/// Five before the deletion, and one of another. kube-controller-manager 1.36 makes more for as long as it is not told.
///
/// Contract: B-23
fn our_manager_makes_no_pod_for_a_replicaset_that_is_being_deleted() {
    assert_eq!(played("foreground-deletion"), json!({"plan": "foreground-deletion", "left": 0, "made": 6}));
}

/// Plays a plan to our own controller manager, as a stranger's would be.
fn played(plan: &str) -> Value {
    let said = passed(Command::new("python3").arg(examples().join("strangers/play.py")).args([
        plan,
        MUSTER,
        "controller-manager",
    ]));
    serde_json::from_str(&said).expect("JSON")
}

/// Runs a program with ours at hand, and gives what it said; its failure is the test's.
fn passed(command: &mut Command) -> String {
    let envs = [("MUSTER", MUSTER), ("PYTHONDONTWRITEBYTECODE", "1"), ("GOPROXY", "off")];
    let output = command.envs(envs).output().expect("the program runs");
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    said
}

fn examples() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/faults"))
}
