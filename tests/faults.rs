//! The faults of a running `muster up --managers 2`, made by `muster faults` and seen by kubectl.

mod harness;
mod outside;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use harness::tests;
use outside::pods::Watch;
use outside::{Cluster, MUSTER, muster, text, write};
use serde_json::Value;

tests! {
    another_manager_finishes_what_was_asked_for_after_the_leader_was_killed: "kubectl",
    a_replicaset_makes_no_pod_too_many_while_its_pods_are_held: "kubectl",
    nothing_is_lost_where_watches_are_cut: "kubectl",
    what_cannot_be_done_is_refused_with_its_reason: "kubectl",
    what_is_asked_wrongly_is_not_sent,
    a_plan_strikes_the_requests_that_it_names_and_no_others: "kubectl",
    a_slow_watch_is_as_slow_as_was_asked: "kubectl",
    faults_that_are_added_reach_watches_that_were_open: "kubectl",
    a_server_goes_away_and_forgets_by_plan: "kubectl",
    a_plan_that_is_wrong_is_told_with_its_field,
}

/// The longest that anything is waited for: many times what it takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Contract: CM-04, B-12
fn another_manager_finishes_what_was_asked_for_after_the_leader_was_killed() {
    let scene = Scene::start("Deployment", 10);
    let first = scene.leader();
    let (killed, _) = scene.faults(&["kill-leader"]);
    assert!(killed.starts_with("killed: muster-"), "{killed}");
    scene.cluster.kubectl(&["scale", "deployment/web", "--replicas=150"]);
    scene.reports(150);

    // A candidate that was starved of its machine may have been followed too, by the same rules.
    let managers = scene.until("two managers, of which one leads", |seen| {
        let managers = managers(seen);
        managers.len() == 2 && managers.values().filter(|leads| **leads).count() == 1
    });
    let managers = self::managers(&managers);
    assert!(!managers.contains_key(&*killed_one(&killed)), "{killed} {managers:?}");
    assert!(managers.keys().any(|name| !["muster-1", "muster-2"].contains(&&**name)), "a new one: {managers:?}");
    assert!(["muster-1", "muster-2"].contains(&&*first), "{first}");
    let lease = ["get", "lease", "-n", "kube-system", "muster-controller-manager", "-o"];
    let transitions = scene.cluster.kubectl(&[&lease[..], &["jsonpath={.spec.leaseTransitions}"]].concat());
    assert!(transitions.parse::<u32>().is_ok_and(|count| count >= 1), "{transitions}");
    scene.made_once(150);
}

/// Contract: EX-07, RS-07
fn a_replicaset_makes_no_pod_too_many_while_its_pods_are_held() {
    let scene = Scene::start("ReplicaSet", 2);
    let (held, _) = scene.faults(&["hold", "pods", "--for", "5m"]);
    // Both managers have one.
    assert_eq!(held, "held for 300s: 2 watches of pods, and those that are opened meanwhile\n");
    scene.cluster.kubectl(&["scale", "rs/web", "--replicas=5"]);
    scene.watch.borrow_mut().read(|seen| seen.count() == 5);
    // What wakes it finds a cache that is behind its own writes, and expectations that are not met.
    scene.cluster.kubectl(&["label", "rs/web", "again=1"]);
    scene.cluster.kubectl(&["scale", "rs/web", "--replicas=6"]);
    scene.cluster.kubectl(&["scale", "rs/web", "--replicas=5"]);
    let field = |path: &str| scene.cluster.kubectl(&["get", "rs/web", "-o", &format!("jsonpath={{{path}}}")]);
    assert_eq!(field(".status.replicas"), "2", "the cache is stale");
    let pods = scene.cluster.kubectl(&["get", "pods", "-o", "name"]);
    assert_eq!(pods.lines().count(), 5, "{pods}");
    let seen = scene.seen();
    let left = seen["watches"][0]["heldSeconds"].as_f64();
    assert!(seen["watches"][0]["resource"] == "pods" && left.is_some_and(|left| left <= 300.0), "{seen}");

    // A shorter hold in its place ends it.
    scene.faults(&["hold", "pods", "--for", "1s"]);
    scene.reports(5);
    scene.until("the hold is over", |seen| seen["watches"][0]["heldSeconds"].is_null());
    scene.made_once(5);
}

/// Contract: INF-05
fn nothing_is_lost_where_watches_are_cut() {
    let scene = Scene::start("ReplicaSet", 1);
    let (cut, _) = scene.faults(&["cut"]);
    assert_eq!(cut, "cut: 8 watches\n", "four of each manager");
    for round in 1..=2 {
        let replicas = 1 + 20 * round;
        scene.cluster.kubectl(&["scale", "rs/web", &format!("--replicas={replicas}")]);
        scene.faults(&["cut", "pods"]);
        scene.faults(&["cut", "rs"]);
        scene.reports(replicas);
    }
    scene.made_once(41);
    scene.watches();
}

fn what_cannot_be_done_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let users = write(folder.path(), "tokens.csv", "s3cret,alice,u1,devs\n");
    let cluster = Cluster::start(&["--nodes", "0", "--token-auth-file", &users]);
    let ours = cluster.kubeconfig().to_string_lossy().into_owned();
    let refused = |arguments: &[&str], kubeconfig: &str| {
        let output = faults(arguments, kubeconfig);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stdout));
        text(&output.stderr)
    };
    let alone = refused(&["kill-leader"], &ours);
    assert_eq!(alone, "error: there is one manager only, and none to take over from it\n");

    let config = fs::read_to_string(&ours).expect("the kubeconfig");
    let token = config.lines().find_map(|line| line.trim().strip_prefix("token: ")).expect("a token");
    let alice = write(folder.path(), "alice", &config.replace(token, "s3cret"));
    let forbidden = refused(&["cut"], &alice);
    assert!(forbidden.contains(r#"User "alice" cannot post path "/muster/faults/cut""#), "{forbidden}");

    let elsewhere = write(folder.path(), "elsewhere", &somebody_else());
    let none = refused(&["list"], &elsewhere);
    assert_eq!(
        none,
        format!(
            "error: the server of {elsewhere} knows no faults: it is no `muster up` of this version; name another by --kubeconfig\n"
        )
    );
    let missing = refused(&["cut"], "no/such/file");
    assert!(missing.contains("no/such/file"), "{missing}");
}

fn what_is_asked_wrongly_is_not_sent() {
    for (arguments, said) in [
        (vec!["hold", "nodes", "--for", "5s"], r#"found "nodes", expected what the managers watch: pods, "#),
        (vec!["hold", "pods", "--for", "999ms"], "found 999ms, expected a duration from 1s to 5m"),
        (vec!["hold", "pods", "--for", "301s"], "found 301s, expected a duration from 1s to 5m"),
        (vec!["hold", "pods"], "--for <DURATION>"),
        (vec!["cut", "pods", "rs"], "unexpected argument 'rs'"),
    ] {
        let output = faults(&arguments, "no/such/file");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
    }
    for (arguments, code, said) in [
        (vec!["--managers", "6"], 2, "expected a whole number, 1 to 5"),
        (vec!["--managers", "0"], 2, "expected a whole number, 1 to 5"),
        (vec!["--managers", "2", "--controllers", "-deployment"], 1, "--managers 2: --controllers chooses none"),
    ] {
        let output = muster(&[&["up"], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
    }
}

/// The second ConfigMap that kubectl creates is refused, and the fourth one's answer is lost. All else is as without faults: for
/// others, for what the cluster itself does, and once the faults are taken away.
///
/// Contract: API-39
fn a_plan_strikes_the_requests_that_it_names_and_no_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plan = "\
faults:
- {fault: {refuse: denied}, client: kubectl, verbs: [create], resources: [configmaps], namespace: default, nth: 2}
- {fault: answer-lost, client: kubectl, verbs: [create], resources: [configmaps], nth: 4}
";
    let (plan, log) = (write(folder.path(), "plan.yaml", plan), folder.path().join("strikes"));
    let log_flag = log.to_string_lossy().into_owned();
    let cluster = Cluster::start(&["--nodes", "1", "--faults", &plan, "--faults-log", &log_flag]);
    let create = |name: &str| {
        let kubeconfig = cluster.kubeconfig();
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(kubeconfig).args(["create", "configmap", name]);
        command.output().expect("kubectl runs")
    };
    let created: Vec<(bool, String)> = ["one", "two", "three", "four", "five"]
        .iter()
        .map(|name| {
            let output = create(name);
            (output.status.success(), text(&output.stderr))
        })
        .collect();
    let succeeded: Vec<bool> = created.iter().map(|(succeeded, _)| *succeeded).collect();
    assert_eq!(succeeded, [true, false, true, false, true], "{created:?}");
    assert!(created[1].1.contains("denied the request"), "{created:?}");
    // The second was never created; the fourth was.
    let names = cluster.kubectl(&["get", "configmaps", "-o", "name"]);
    assert!(names.contains("/four") && !names.contains("/two"), "{names}");

    let strikes: Vec<Value> = fs::read_to_string(&log)
        .expect("the log")
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    let told: Vec<(&str, &Value)> =
        strikes.iter().map(|strike| (strike["name"].as_str().unwrap(), &strike["fault"])).collect();
    assert_eq!(told, [("two", &serde_json::json!({"refuse": "denied"})), ("four", &"answer-lost".into())]);
    let Value::Object(first) = &strikes[0] else { panic!("{strikes:?}") };
    assert!(first["client"].as_str().is_some_and(|client| client.starts_with("kubectl/")), "{first:?}");
    assert_eq!(
        (&first["verb"], &first["resource"], &first["namespace"]),
        (&"create".into(), &"configmaps".into(), &"default".into())
    );
    assert!(first["user"].as_str().is_some_and(|user| !user.is_empty()), "{first:?}");

    let kubeconfig = cluster.kubeconfig().to_string_lossy().into_owned();
    let ask = |arguments: &[&str]| {
        let output = faults(arguments, &kubeconfig);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let asked: Vec<Value> = ask(&["strikes"]).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(asked, strikes);
    let listed = ask(&["list"]);
    assert!(listed.contains("# 2 strikes so far") && listed.contains("refuse: denied"), "{listed}");
    let cleared = ask(&["clear"]);
    assert!(cleared.starts_with("no faults; 2 strikes so far; seed "), "{cleared}");
    assert!(create("six").status.success());
    // Counted from when it is added.
    let second = write(
        folder.path(),
        "second.yaml",
        "faults: [{fault: reset, client: kubectl, resources: [configmaps], nth: 1}]",
    );
    ask(&["add", &second]);
    assert!(!create("seven").status.success());
    assert!(create("seven").status.success(), "it never arrived before");
}

/// Contract: API-39
fn a_slow_watch_is_as_slow_as_was_asked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plan = write(folder.path(), "plan.yaml", "faults: [{fault: {lag: 2s..3s}, verbs: [watch], resources: [pods]}]");
    let cluster = Cluster::start(&["--nodes", "0", "--faults", &plan]);
    cluster.kubectl(&["run", "first", "--image=nginx"]);
    let mut watch = Watch::start(&cluster);
    // This one is listed. Whatever comes from now on is watched.
    watch.read(|seen| seen.count() == 1);
    let begun = Instant::now();
    cluster.kubectl(&["run", "slow", "--image=nginx"]);
    watch.read(|seen| seen.count() == 2);
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
    let listed = faults(&["strikes"], &cluster.kubeconfig().to_string_lossy());
    let lags: Vec<Value> = text(&listed.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(
        lags.iter().any(|strike| strike["fault"]["lag"].as_str().is_some_and(|lag| lag.starts_with('2'))),
        "{lags:?}"
    );
}

/// A watch from before the faults ends, so that whoever watches again is struck.
///
/// Contract: API-39
fn faults_that_are_added_reach_watches_that_were_open() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cluster = Cluster::start(&["--nodes", "0"]);
    let kubeconfig = cluster.kubeconfig().to_string_lossy().into_owned();
    let mut command = Command::new("kubectl");
    command.args(["--kubeconfig", &kubeconfig, "get", "configmaps", "--watch", "-o", "name"]);
    let mut watch = command.stdout(Stdio::piped()).spawn().expect("kubectl runs");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    // The first may be listed; the second comes by the watch.
    for name in ["listed", "watched"] {
        cluster.kubectl(&["create", "configmap", name]);
        assert!(lines.any(|line| line.is_ok_and(|line| line.ends_with(&format!("/{name}")))));
    }
    let plan = write(folder.path(), "plan.yaml", "faults: [{fault: stall, verbs: [watch], resources: [pods]}]");
    assert!(faults(&["add", &plan], &kubeconfig).status.success());
    cluster.kubectl(&["create", "configmap", "after"]);
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(watch.wait().is_ok(), "kubectl ends with its watch");
    assert!(!rest.iter().any(|line| line.ends_with("/after")), "{rest:?}");
}

/// Contract: API-39
fn a_server_goes_away_and_forgets_by_plan() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cluster = Cluster::start(&["--nodes", "0"]);
    let kubeconfig = cluster.kubeconfig().to_string_lossy().into_owned();
    let version = cluster.kubectl(&["get", "namespace", "default", "-o", "jsonpath={.metadata.resourceVersion}"]);
    cluster.kubectl(&["create", "configmap", "before"]);
    let raw = |path: &str| {
        let mut command = Command::new("kubectl");
        command.args(["--kubeconfig", &kubeconfig, "get", "--raw", path]).output().expect("kubectl runs")
    };
    let plan = "operations: [{at: 0s, do: compact}, {at: 0s, do: server-away}]\nclock: {behind: 1h}\n";
    let added = faults(&["add", &write(folder.path(), "away.yaml", plan)], &kubeconfig);
    assert!(added.status.success(), "{}", text(&added.stderr));
    let begun = Instant::now();
    while raw("/readyz").status.success() {
        assert!(begun.elapsed() < PATIENCE, "it is not away");
    }
    assert!(!raw("/api/v1/pods").status.success());
    // It is told by the way that no fault strikes.
    let list = faults(&["list", "-o", "json"], &kubeconfig);
    let seen: Value = serde_json::from_slice(&list.stdout).expect("JSON");
    assert_eq!((&seen["faults"]["away"], &seen["faults"]["plan"]["clock"]["behind"]), (&true.into(), &"3600s".into()));
    assert!(faults(&["clear"], &kubeconfig).status.success());
    assert_eq!(text(&raw("/readyz").stdout), "ok");
    let old = raw(&format!("/api/v1/configmaps?watch=true&timeoutSeconds=1&resourceVersion={version}"));
    let said = text(&old.stdout) + &text(&old.stderr);
    assert!(said.contains("too old resource version"), "{said}");
}

/// Contract: API-39
fn a_plan_that_is_wrong_is_told_with_its_field() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data").to_string_lossy().into_owned();
    for (plan, more, said) in [
        ("faults: [{fault: resett}]", &[][..], "resett"),
        ("faults: [{fault: reset, perMille: 1001}]", &[], "faults[0].perMille: found 1001"),
        ("faults: [{fault: reset, nth: 0}]", &[], "faults[0].nth: found 0"),
        ("operations: [{at: 1s, do: rest}]", &[], "rest"),
        ("operations: [{at: 1s, every: 1ms, do: compact}]", &[], "operations[0].every"),
        ("operations: [{at: 1s, do: restore}]", &["--data-dir", &data], "not possible with --data-dir"),
        ("operations: [{at: 9000h, do: compact}]", &[], "operations[0].at: found 32400000s, expected at most a year"),
        ("faults: [{fault: {delay: 9000h}}]", &[], "faults[0].fault: found"),
        ("clock: {ahead: soon}", &[], "soon"),
        ("fault: reset", &[], "fault"),
    ] {
        let file = write(folder.path(), "plan.yaml", plan);
        let kubeconfig = folder.path().join("kubeconfig").to_string_lossy().into_owned();
        let up = ["up", "--listen", "127.0.0.1:0", "--kubeconfig", &kubeconfig, "--faults", &file];
        let output = muster(&[&up[..], more].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{plan}: {error}");
        assert!(error.contains("--faults") && error.contains(said), "{plan}: {error}");
    }
    let output = muster(&["up", "--faults", "rain"]);
    let error = text(&output.stderr);
    assert!(error.contains("rain: expected a file, or a preset: flaky-network, slow-watch"), "{error}");
    let output = muster(&["faults", "presets"]);
    let presets = text(&output.stdout);
    for name in presets.lines().filter_map(|line| line.split_whitespace().next()) {
        let yaml = text(&muster(&["faults", "presets", name]).stdout);
        let file = write(folder.path(), "preset.yaml", &yaml);
        // It is read before anything is sent.
        let output = faults(&["add", &file], "no/such/file");
        assert!(text(&output.stderr).contains("no/such/file"), "{name}: {}", text(&output.stderr));
    }
    assert!(presets.lines().count() >= 6, "{presets}");
}

/// A cluster with two managers of which one leads, a workload `web`, and what became of its pods since the beginning.
struct Scene {
    cluster: Cluster,
    watch: RefCell<Watch>,
    kind: &'static str,
}

impl Scene {
    fn start(kind: &'static str, replicas: usize) -> Self {
        // Pods that nobody runs are enough.
        let cluster = Cluster::start(&["--managers", "2", "--nodes", "0"]);
        let watch = Watch::start(&cluster).into();
        let scene = Self { cluster, watch, kind };
        scene.leader();
        scene.watches();
        let web = format!(
            "apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: web, namespace: default}}\nspec:\n  \
             replicas: {replicas}\n  selector: {{matchLabels: {{app: web}}}}\n  template:\n    \
             metadata: {{labels: {{app: web}}}}\n    spec: {{containers: [{{name: c, image: nginx}}]}}\n"
        );
        scene.cluster.kubectl_with(&["apply", "-f", "-"], &web);
        scene.reports(replicas);
        scene
    }

    /// Runs `muster faults`, which succeeds.
    fn faults(&self, arguments: &[&str]) -> (String, String) {
        let output = faults(arguments, &self.cluster.kubeconfig().to_string_lossy());
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    }

    fn seen(&self) -> Value {
        serde_json::from_str(&self.faults(&["list", "-o", "json"]).0).expect("JSON")
    }

    fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let seen = self.seen();
            if holds(&seen) {
                return seen;
            }
            assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}; {seen}");
        }
    }

    /// Waits for a leader, and says who it is.
    fn leader(&self) -> String {
        let leads = |seen: &Value| managers(seen).into_iter().find_map(|(name, leads)| leads.then_some(name));
        leads(&self.until("somebody leads", |seen| leads(seen).is_some())).expect("it was just seen")
    }

    /// Waits until both managers watch everything.
    fn watches(&self) {
        self.until("all watches of both", |seen| {
            seen["watches"].as_array().is_some_and(|watches| watches.iter().all(|watches| watches["open"] == 2))
        });
    }

    /// Waits until the workload reports so many pods.
    fn reports(&self, replicas: usize) {
        self.wait(&format!("{{.status.replicas}}={replicas}"));
    }

    fn wait(&self, condition: &str) {
        let (web, patience) = (format!("{}/web", self.kind), format!("--timeout={}s", PATIENCE.as_secs()));
        self.cluster.kubectl(&["wait", &web, &format!("--for=jsonpath={condition}"), &patience]);
    }

    /// So many pods were made, all by one owner, none was taken away, and there never were more.
    fn made_once(&self, pods: usize) {
        // What was watched before this pod is all there was.
        self.cluster.kubectl(&["run", "last", "--image=nginx", "--restart=Never"]);
        let mut watch = self.watch.borrow_mut();
        watch.read(|seen| seen.owners.contains_key(""));
        watch.owners.remove("");
        let counts: Vec<usize> = watch.owners.values().map(BTreeSet::len).collect();
        assert_eq!((counts, watch.deleted), (vec![pods], 0), "{:?}", watch.owners);
    }
}

/// The managers, and whether each leads.
fn managers(seen: &Value) -> BTreeMap<String, bool> {
    let managers = seen["managers"].as_array().cloned().unwrap_or_default();
    let each = |manager: &Value| Some((manager["identity"].as_str()?.to_owned(), manager["leading"].as_bool()?));
    managers.iter().filter_map(each).collect()
}

/// `killed: muster-1; ...`
fn killed_one(said: &str) -> String {
    said.trim_start_matches("killed: ").split(';').next().unwrap_or_default().to_owned()
}

fn faults(arguments: &[&str], kubeconfig: &str) -> Output {
    let command = Command::new(MUSTER).arg("faults").args(arguments).args(["--kubeconfig", kubeconfig]).output();
    command.expect("the program runs")
}

/// The kubeconfig of a server that knows nothing.
fn somebody_else() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: \
         'http://{address}'}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: \
         {{}}}}]\n"
    )
}
