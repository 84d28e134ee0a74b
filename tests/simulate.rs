//! `muster simulate`, as it is started from a shell.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

fn simulate(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.current_dir(folder).arg("simulate").args(arguments);
    command.env_remove("RUST_LOG").output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// The same seed gives the same report, however many threads there are.
///
/// Contract: SI-04
#[test]
fn histories_are_played_and_counted_the_same_way_twice() {
    let folder = TempDir::new().expect("a folder");
    let [one, two] = ["1", "2"]
        .map(|jobs| simulate(folder.path(), &["--cases", "6", "--seed", "5", "--jobs", jobs, "--output", "json"]));
    assert_eq!(one.status.code(), Some(0), "{}", text(&one.stderr));
    assert_eq!(text(&one.stdout), text(&two.stdout));
    let report: Value = serde_json::from_slice(&one.stdout).expect("JSON");
    assert_eq!((&report["histories"], &report["firstSeed"], &report["lastSeed"]), (&6.into(), &5.into(), &10.into()));
    assert!(report["strikes"].as_u64() > Some(0) && report["virtualSeconds"].as_f64() > Some(100.0), "{report}");
    let ended = report["complete"].as_u64().unwrap() + report["deadlineExceeded"].as_u64().unwrap();
    assert_eq!((ended, report["broken"].as_array().map(Vec::len)), (6, Some(0)), "{report}");
    let told = text(&one.stderr);
    assert!(told.contains("histories/s") && told.contains("cluster-years per core-hour"), "{told}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0, "no law was broken");
}

/// Every profile is played without a broken law; several managers hand over what they have.
///
/// Contract: SI-02, SI-04
#[test]
fn every_profile_is_played_and_told_apart() {
    let folder = TempDir::new().expect("a folder");
    let played = simulate(folder.path(), &["--profile", "everything", "--cases", "8", "--output", "json"]);
    assert_eq!(played.status.code(), Some(0), "{}{}", text(&played.stdout), text(&played.stderr));
    let report: Value = serde_json::from_slice(&played.stdout).expect("JSON");
    for (profile, histories) in [("rollouts", 4), ("scaling", 1), ("deletions", 1), ("failover", 2)] {
        assert_eq!(report["profiles"][profile]["histories"], histories, "{report}");
    }
}

/// Contract: SI-01, SI-04
#[test]
fn a_case_from_a_file_is_played_and_told_in_order() {
    let folder = TempDir::new().expect("a folder");
    let case = "\
seed: 4
operations:
- at: 0s
  do:
    create:
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: shop}
      spec:
        replicas: 2
        selector: {matchLabels: {app: shop}}
        template:
          metadata: {labels: {app: shop}}
          spec: {containers: [{name: c, image: nginx}]}
- at: 5s
  do: {patch: {deployment: shop, merge: {spec: {replicas: 3}}}}
faults:
- {fault: answer-lost, client: controllers, verbs: [create], resources: [pods], nth: 2}
";
    std::fs::write(folder.path().join("case.yaml"), case).expect("a file");
    let played = simulate(folder.path(), &["--replay", "case.yaml"]);
    let told = text(&played.stdout);
    assert_eq!(played.status.code(), Some(0), "{told}{}", text(&played.stderr));
    let at = |word: &str| told.find(word).unwrap_or_else(|| panic!("{word}:\n{told}"));
    let lost = at("struck   answer-lost: controllers create pods shop-");
    assert!(at("done     {\"create\"") < lost && lost < at("done     {\"patch\""), "{told}");
    assert!(told.contains("1 complete, 0 at their deadline; no law was broken"), "{told}");

    for (text_of_case, said) in [
        (case.replace("answer-lost", "answer-found"), "answer-found"),
        (case.replace("at: 5s", "at: 5"), "is not a duration"),
        (case.replace("seed: 4", "seed: 4\nnode: 3"), "node"),
        (case.replace("seed: 4", "seed: 4\nnodes: 0"), "nodes: found 0, expected 1 to 10000"),
        (case.replace("seed: 4", "seed: 4\nresync: 0s"), "resync: found 0s, expected 1s to a year"),
        (case.replace("seed: 4", "seed: 4\nmanagers: {count: 65}"), "managers.count: found 65, expected 1 to 64"),
        (case.replace("seed: 4", "seed: 4\nmanagers: {count: 2, shards: 0}"), "managers.shards: found 0"),
    ] {
        std::fs::write(folder.path().join("case.yaml"), text_of_case).expect("a file");
        let refused = simulate(folder.path(), &["--replay", "case.yaml"]);
        let error = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(error.contains("case.yaml") && error.contains(said), "{said}: {error}");
    }
}

/// Without faults the example never has fewer pods available nor more in all than its strategy allows; and the worst of its
/// histories can be played again.
///
/// Contract: SI-04
#[test]
fn a_users_own_deployment_is_rolled_and_told_in_quantiles() {
    let folder = TempDir::new().expect("a folder");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/deployment.yaml");
    let roll = |arguments: &[&str]| {
        simulate(
            folder.path(),
            &[&["--manifests", example, "--rollout", "image=nginx:2", "--cases", "6"], arguments].concat(),
        )
    };
    let rolled = roll(&["--faults", "none", "--output", "json"]);
    assert_eq!(rolled.status.code(), Some(0), "{}", text(&rolled.stderr));
    let found: Value = serde_json::from_slice(&rolled.stdout).expect("JSON");
    let web = &found["deployments"][0];
    let number = |of: &str, which: &str| web[of][which].as_f64().unwrap_or_else(|| panic!("{of}.{which}: {web}"));
    assert_eq!(
        (&web["name"], &web["replicas"], &web["complete"], &web["broken"]),
        (&"web".into(), &10.into(), &6.into(), &0.into())
    );
    // 25 % of ten: 2 fewer and 3 more.
    assert!((8.0..=10.0).contains(&number("leastAvailable", "least")), "{web}");
    assert!((11.0..=13.0).contains(&number("mostPods", "most")), "{web}");
    // Two or more waves of pods that take 0.5 to 1.5 s.
    assert!(number("seconds", "least") > 1.0 && number("seconds", "most") < 60.0, "{web}");
    assert!(number("seconds", "least") <= number("seconds", "p50"), "{web}");

    // Somebody else deletes pods now and then.
    let under_faults = roll(&["--faults", "second-writer", "--output", "json"]);
    let found: Value = serde_json::from_slice(&under_faults.stdout).expect("JSON");
    let least = found["deployments"][0]["leastAvailable"]["least"].as_i64();
    assert!(least.is_some_and(|least| least < 8), "{found}");
    let worst = found["deployments"][0]["worst"].as_str().expect("a file").to_owned();
    let again = simulate(folder.path(), &["--replay", &worst]);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert!(text(&again.stdout).contains("done     {\"delete-pod\":"), "{}", text(&again.stdout));

    std::fs::write(folder.path().join("bad.yaml"), "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: bad}\n")
        .expect("a file");
    let refused = simulate(folder.path(), &["--manifests", "bad.yaml", "--cases", "1"]);
    let error = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("Deployment \"bad\": it cannot be rolled") && error.contains("spec.selector"), "{error}");
}

/// What `kubectl get -o yaml` printed is taken as it is; what no server of ours has is left out and named; a Deployment that cannot be
/// rolled takes nothing from the others, and one whose pods fit nowhere is told with the law that this breaks.
///
/// Contract: SI-04
#[test]
fn each_deployment_of_the_files_is_rolled_whatever_the_others_are() {
    let folder = TempDir::new().expect("a folder");
    let deployment = |name: &str, server: &str, container: &str| {
        format!(
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, {server}}}\nspec:\n  replicas: 2\n  \
             selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec: \
             {{containers: [{{name: c, image: nginx{container}}}]}}\n"
        )
    };
    let server = "uid: 0c8f1e7e-7f3b-4d0e-a5a0-5d6b2b9b1a11, resourceVersion: '77', generation: 3, managedFields: [{manager: \
                  kubectl, operation: Update, apiVersion: apps/v1, time: '2026-01-01T00:00:00Z', fieldsType: FieldsV1, \
                  fieldsV1: {}}], ownerReferences: [{apiVersion: x/v1, kind: Operator, name: o, uid: z, controller: true}]";
    let files = [
        "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: web}\nspec: {}\n".to_owned(),
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-root-ca.crt, uid: x}\n".to_owned(),
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: cfg, namespace: a}\n".to_owned(),
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: cfg, namespace: b}\n".to_owned(),
        deployment("here", server, "") + "status: {replicas: 2}\n",
        deployment("large", "labels: {}", ", resources: {requests: {cpu: 10k}}"),
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: bad}\n".to_owned(),
        deployment("typo", "labels: {}", "").replace("replicas: 2", "replica: 2"),
    ];
    std::fs::write(folder.path().join("all.yaml"), files.concat()).expect("a file");
    let rolled = simulate(folder.path(), &["--manifests", "all.yaml", "--faults", "none", "--cases", "1"]);
    let (told, error) = (text(&rolled.stdout), text(&rolled.stderr));
    assert_eq!(rolled.status.code(), Some(2), "{told}{error}");
    for said in [
        "Deployment here, 2 replicas: 1 histories (seeds 1 to 1)",
        "  1 complete; worst: ./worst-here.yaml (none); 0 broke a law",
        "  0 complete; worst: ./worst-large.yaml (none); 1 broke a law",
        "  seconds until complete            -        -        -        -        -        -        -\n",
        "seed 1 broke 1 laws: ./case-large-1.yaml\n  ends: no end: pod large-",
        " has no node: 0/3 nodes are available: 3 Insufficient cpu. ",
    ] {
        assert!(told.contains(said), "{said}:\n{told}{error}");
    }
    for said in [
        "all.yaml: document 1, line 1: ServiceMonitor \"web\" is left out: no kind \"ServiceMonitor\"",
        "document 2, line 6: ConfigMap \"kube-root-ca.crt\" is left out: a cluster makes it by itself",
        "document 4, line 14: ConfigMap \"cfg\" is left out: configmaps \"cfg\" already exists",
        "error: Deployment \"bad\": it cannot be rolled: the server refuses: ",
        "error: Deployment \"typo\": it cannot be rolled: the server refuses: ",
        "strict decoding error: unknown field \"spec.replica\"",
    ] {
        assert!(error.contains(said), "{said}:\n{error}");
    }
}

/// Where pods go is as the manifest has it, on as many nodes in as many zones as are asked for.
///
/// Contract: SIM-01, SIM-02, SI-04
#[test]
fn a_deployment_is_rolled_on_the_nodes_that_are_asked_for() {
    let folder = TempDir::new().expect("a folder");
    let apart = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: \
                 kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}";
    let spread = "topologySpreadConstraints: [{topologyKey: topology.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: \
                  DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]";
    for (more, arguments, complete) in [
        (apart, &[][..], 0),
        (apart, &["--nodes", "5"], 1),
        (spread, &[], 1),
        (spread, &["--zones", "0"], 0),
        // With fewer zones than must be, each takes one pod at the most.
        (&*spread.replace("maxSkew: 1", "maxSkew: 1, minDomains: 3"), &["--nodes", "2"], 0),
    ] {
        let manifest = format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  replicas: 4\n  selector: {{matchLabels: \
             {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    spec: {{{more}, containers: [{{name: c, \
             image: nginx}}]}}\n"
        );
        std::fs::write(folder.path().join("web.yaml"), manifest).expect("a file");
        let fixed = ["--manifests", "web.yaml", "--faults", "none", "--cases", "1", "--output", "json"];
        let rolled = simulate(folder.path(), &[&fixed, arguments].concat());
        let found: Value = serde_json::from_slice(&rolled.stdout).expect("JSON");
        assert_eq!(found["deployments"][0]["complete"], complete, "{more} {arguments:?}: {found}");
        assert_eq!(rolled.status.code(), Some(1 - complete), "{}", text(&rolled.stderr));
    }
}

/// Each event of a history is late, lost and twice once.
///
/// Contract: B-07, SI-04
#[test]
fn every_event_of_a_history_is_disturbed() {
    let folder = TempDir::new().expect("a folder");
    let sieved = simulate(folder.path(), &["--sieve", "--cases", "1", "--seed", "7", "--output", "json"]);
    assert_eq!(sieved.status.code(), Some(0), "{}{}", text(&sieved.stdout), text(&sieved.stderr));
    let report: Value = serde_json::from_slice(&sieved.stdout).expect("JSON");
    let of = |kind: &str| report["weather"][kind]["histories"].as_u64().unwrap_or_default();
    let events = of("an event late");
    // The story itself, and each event three times. Bookmarks come late only.
    let (lost, twice) = (of("an event lost"), of("an event twice"));
    assert!(lost > 30 && lost == twice && (lost..lost + 10).contains(&events), "{report}");
    assert_eq!((of("none"), &report["histories"]), (1, &(1 + events + lost + twice).into()), "{report}");
    assert_eq!(report["weather"]["an event lost"]["strikes"], lost, "{report}");
    let refused = simulate(folder.path(), &["--sieve", "--faults", "none"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
}

/// Contract: SI-04
#[test]
fn arguments_that_are_wrong_are_told_with_what_was_expected() {
    let folder = TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("typo.yaml"), "seed: 1\nfoo: 2\noperations: []\n").expect("a file");
    let fated = "seed: 1\noperations:\n- at: 1s\n  do: {fail-pod: {pod: 0, fate: explode}}\n";
    std::fs::write(folder.path().join("fated.yaml"), fated).expect("a file");
    let large = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: large}\nspec: {replicas: 2147483647}\n";
    std::fs::write(folder.path().join("large.yaml"), large).expect("a file");
    let paused = large.replace("large", "paused").replace("replicas: 2147483647", "paused: true");
    std::fs::write(folder.path().join("paused.yaml"), paused).expect("a file");
    std::fs::write(folder.path().join("idle.yaml"), "seed: 1\noperations: []\n").expect("a file");
    for (arguments, said) in [
        (&["--faults", "rain"][..], &["found \"rain\"", "slow-watches", "node-loss"][..]),
        (&["--faults", "resets,quota, resets"], &["found \"resets\" twice"]),
        (&["--profile", "failover", "--faults", "restore"], &["--faults: found none that --profile failover can be"]),
        (&["--replay", "idle.yaml"], &["idle.yaml: operations: found none that made a workload"]),
        (&["--manifests", "paused.yaml"], &["Deployment \"paused\": spec.paused: found true, expected false"]),
        (&["--cases", "0"], &["--cases", "1.."]),
        (&["--minutes", "0"], &["--minutes", "above 0"]),
        (&["--jobs", "0"], &["--jobs", "1..=1024"]),
        (&["--cases", "2", "--seed", "18446744073709551615"], &["--seed", "18446744073709551615"]),
        (&["--save", "/proc/self"], &["--save /proc/self"]),
        (&["--manifests", "none.yaml", "--shrink"], &["--manifests", "--shrink"]),
        (&["--rollout", "image=x"], &["--manifests"]),
        // What would have no effect.
        (&["--replay", "typo.yaml", "--pod-startup", "1s"], &["--replay", "--pod-startup"]),
        (&["--profile", "scaling", "--rollout", "image=x"], &["--profile", "--rollout"]),
        (&["--cases", "1", "--stale", "2"], &["--cases", "--stale"]),
        (&["--small-worlds", "--most-states", "0"], &["--most-states", "1.."]),
        (&["--manifests", "none.yaml", "--pod-shutdown", "30h"], &["--pod-shutdown: found ", "expected at most a day"]),
        (
            &["--manifests", "none.yaml", "--pod-startup", "5s..1s"],
            &["--pod-startup", "expected the shorter duration first"],
        ),
        (
            &["--manifests", "large.yaml"],
            &["Deployment \"large\"", "found 2147483647 replicas, expected at most 10000"],
        ),
        (&["--manifests", "none.yaml"], &["none.yaml"]),
        (&["--manifests", "none.yaml", "--rollout", "undo"], &["found \"undo\"", "image=IMAGE"]),
        (&["--replay", "none.yaml"], &["none.yaml", "No such file"]),
        (&["--replay", "fated.yaml"], &["fated.yaml", "found the fate \"explode\"", "never-ready", "line 4"]),
        (&["--replay", "none.yaml", "--seed", "3"], &["--replay", "--seed"]),
        // On one line, and once.
        (
            &["--replay", "typo.yaml"],
            &["error: typo.yaml: unknown field `foo`, expected ", "faults at line 2, column 1: found \"foo: 2\"\n"],
        ),
    ] {
        let refused = simulate(folder.path(), arguments);
        let error = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {error}");
        for word in said {
            assert!(error.contains(word), "{arguments:?}: {word}: {error}");
        }
    }
}

/// The last seed there is is played, with time left or not.
///
/// Contract: SI-04
#[test]
fn seeds_end_where_numbers_do() {
    let folder = TempDir::new().expect("a folder");
    let last = u64::MAX.to_string();
    let played = simulate(folder.path(), &["--seed", &last, "--minutes", "60", "--faults", "none", "--output", "json"]);
    assert_eq!(played.status.code(), Some(0), "{}", text(&played.stderr));
    let report: Value = serde_json::from_slice(&played.stdout).expect("JSON");
    assert_eq!((&report["histories"], &report["lastSeed"]), (&1.into(), &u64::MAX.into()), "{report}");
}

/// Every world is told by a line, and the states of no more than were asked for.
///
/// Contract: SI-05
#[test]
fn small_worlds_are_counted() {
    let folder = TempDir::new().expect("a folder");
    let arguments = ["--small-worlds", "--stale", "1", "--most-states", "300", "--output", "json"];
    let counted = simulate(folder.path(), &arguments);
    assert_eq!(counted.status.code(), Some(0), "{}", text(&counted.stderr));
    let worlds: Vec<Value> = serde_json::from_slice(&counted.stdout).expect("JSON");
    assert!(worlds.len() > 20 && worlds.iter().all(|world| world["broken"].is_null()), "{worlds:#?}");
    let states = |world: &Value| world["states"].as_u64().unwrap();
    assert!(worlds.iter().all(|world| (300..400).contains(&states(world))), "{worlds:#?}");
    let refused = simulate(folder.path(), &["--small-worlds", "--cases", "3"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
}

/// Ctrl-C ends it with what there is by then, and says that this is not all.
///
/// Contract: SI-04, SI-05
#[test]
fn what_was_played_until_a_signal_is_told() {
    let folder = TempDir::new().expect("a folder");
    for arguments in [&["--cases", "1000000"][..], &["--small-worlds"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
        command.current_dir(folder.path()).arg("simulate").args(arguments).args(["--output", "json"]);
        command.env_remove("RUST_LOG").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        // It listens for signals before it has something to tell.
        let mut told = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut first = String::new();
        told.read_line(&mut first).expect("progress");
        let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(kill.expect("kill runs").success());
        let mut rest = String::new();
        told.read_to_string(&mut rest).expect("what it says");
        let ended = child.wait_with_output().expect("it ends");
        assert_eq!(ended.status.code(), Some(130), "{first}{rest}");
        assert!(rest.contains("interrupted: this is what was played until then"), "{first}{rest}");
        let report: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
        match report.as_array() {
            Some(worlds) => {
                assert!(worlds.last().is_some_and(|last| last["states"].as_u64() > Some(0)), "{report}");
            }
            None => assert!((1..1_000_000).contains(&report["histories"].as_u64().unwrap_or_default()), "{report}"),
        }
    }
}
