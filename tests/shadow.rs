//! Watching before switching, from outside: the report of logs, good and bad, and a shadow beside controllers at work.

mod harness;
mod outside;

use std::fs;

use harness::tests;
use outside::asking::{Asked, explain, json, refused, says};
use outside::manager::{Manager, wait_for};
use outside::{Cluster, muster, text, write};

tests! {
    where_nothing_is_unexplained_the_report_ends_with_0,
    what_is_unexplained_is_told_with_both_sides,
    a_line_that_is_no_record_is_named,
    a_log_that_is_still_being_written_can_be_read,
    the_help_says_how_it_ends,
    beside_controllers_at_work_it_agrees_and_ends_with_a_summary: "kubectl",
    it_tells_of_an_object_what_it_would_have_done_and_what_was_done: "kubectl",
}

const START: &str = r#"{"version":1,"time":"2026-01-01T00:00:00.000000Z","record":"start","muster":"0.1.0","kinds":["ReplicaSet"],"objects":1,"lookbackMillis":10000,"patienceMillis":10000}"#;
const AGREEMENT: &str = r#"{"version":1,"time":"2026-01-01T00:00:05.000000Z","record":"agreement","kind":"ReplicaSet","namespace":"default","name":"web","uid":"u","resourceVersion":7,"action":"create-pod","did":"created pod web-1"}"#;
const BY_ROW: &str = r#"{"version":1,"time":"2026-01-01T00:00:06.000000Z","record":"difference","kind":"ReplicaSet","namespace":"default","name":"web","uid":"u","resourceVersion":8,"action":"create-pod","would":"nothing","did":"created pod web-2","why":"the reference's own rule asks for it","row":"B-08"}"#;
const UNEXPLAINED: &str = r#"{"version":1,"time":"2026-01-01T00:01:00.000000Z","record":"difference","kind":"ReplicaSet","namespace":"default","name":"web","uid":"u","resourceVersion":9,"action":"delete-pod","would":"delete web-1","did":"deleted pod web-2","why":"another was deleted, and what was to be deleted is still there"}"#;
const SUMMARY: &str =
    r#"{"version":1,"time":"2026-01-01T00:02:00.000000Z","record":"summary","objects":{"ReplicaSet":4},"kinds":{}}"#;

/// A log of these lines.
fn log(folder: &tempfile::TempDir, name: &str, lines: &[&str]) -> String {
    let content: String = lines.iter().map(|line| format!("{line}\n")).collect();
    write(folder.path(), name, &content)
}

fn where_nothing_is_unexplained_the_report_ends_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(&folder, "good.jsonl", &[START, AGREEMENT, AGREEMENT, BY_ROW, "", SUMMARY]);
    let output = muster(&["shadow", "report", &log]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    for line in [
        "from 2026-01-01T00:00:00Z to 2026-01-01T00:02:00Z (120 s)",
        "watched 4 ReplicaSets",
        "ReplicaSet  create-pod  2       B-08:1  0            0",
        "nothing unexplained",
    ] {
        assert!(said.contains(line), "{line:?} is missing in:\n{said}");
    }
}

fn what_is_unexplained_is_told_with_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(&folder, "bad.jsonl", &[START, AGREEMENT, UNEXPLAINED]);
    let output = muster(&["shadow", "report", &log]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for line in [
        "ReplicaSet default/web (uid u, version 9) at 2026-01-01T00:01:00.000000Z: delete-pod",
        "we would   delete web-1",
        "it did     deleted pod web-2",
        "because    another was deleted",
    ] {
        assert!(said.contains(line), "{line:?} is missing in:\n{said}");
    }

    let output = muster(&["shadow", "report", "-o", "json", &log, &log]);
    assert_eq!(output.status.code(), Some(1));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["total"]["agreed"], 2, "two logs are one report");
    assert_eq!(told["total"]["unexplained"], 2);
    assert_eq!(told["unexplained"][0]["would"], "delete web-1");
    assert_eq!(told["from"], "2026-01-01T00:00:00.000000Z");
}

fn a_line_that_is_no_record_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for (bad, found) in [
        ("nonsense", "expected a record of the agreement log"),
        (r#"{"version":2,"record":"start"}"#, "version 2 of the agreement log: expected 1"),
        (r#"{"version":1,"time":"2026-01-01T00:00:00Z","record":"surprise"}"#, "unknown variant `surprise`"),
        (r#"{"version":1,"time":"now","record":"start"}"#, "RFC 3339"),
    ] {
        let log = log(&folder, "broken.jsonl", &[START, bad, AGREEMENT]);
        let output = muster(&["shadow", "report", &log]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{bad}: {said}");
        assert!(said.contains("broken.jsonl, line 2: ") && said.contains(found), "{bad}: {said}");
        assert!(output.stdout.is_empty(), "{bad}: half a report is none");
    }
    let output = muster(&["shadow", "report", "/nowhere/log.jsonl"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/nowhere/log.jsonl"));
}

fn a_log_that_is_still_being_written_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let log = write(folder.path(), "running.jsonl", &format!("{START}\n{AGREEMENT}\n{}", &UNEXPLAINED[..80]));
    let output = muster(&["shadow", "report", &log]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert!(said.contains("running.jsonl, line 3 is cut"), "{said}");
    // Nor is one lost whose process ended within a line, and was started again; but what was cut may have been a difference.
    for (cut, code) in [
        (&AGREEMENT[..AGREEMENT.len() - 20], 0),
        (&UNEXPLAINED[..UNEXPLAINED.len() - 20], 1),
        (&AGREEMENT[..30], 1),
        ("\0\0\0", 0),
    ] {
        let log = write(folder.path(), "again.jsonl", &format!("{START}\n{cut}\n{START}\n{AGREEMENT}\n"));
        let output = muster(&["shadow", "report", &log]);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{cut}: {said}{}", text(&output.stderr));
        assert_eq!(said.contains("again.jsonl, line 2 is cut"), !cut.starts_with('\0'), "{cut}: {said}");
    }
    let empty = write(folder.path(), "empty.jsonl", "");
    let output = muster(&["shadow", "report", &empty]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "nothing was compared, and so nothing agrees: {said}");
    assert!(said.contains("empty.jsonl: found no record"), "{said}");
}

fn the_help_says_how_it_ends() {
    let said = text(&muster(&["shadow", "report", "--help"]).stdout);
    for words in ["Examples:", "It exits 0", "1 where one is not", "--output"] {
        assert!(said.contains(words), "{words:?} is missing in:\n{said}");
    }
    let said = text(&muster(&["controller-manager", "--help"]).stdout);
    for flag in ["--shadow", "--shadow-log", "--shadow-lookback", "--shadow-patience", "--shadow-manager"] {
        assert!(said.contains(flag), "{flag:?} is missing in:\n{said}");
    }
}

fn beside_controllers_at_work_it_agrees_and_ends_with_a_summary() {
    let cluster = Cluster::start(&["--nodes", "1", "--pod-startup", "0s"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agreement.jsonl");
    let into = format!("--shadow-log={}", path.display());
    let mut shadow = Manager::start(&cluster, &["--shadow", "--shadow-manager", "muster", "--secure-port", "0", &into]);
    let wait = |words: &str| {
        wait_for(words, || fs::read_to_string(&path).is_ok_and(|log| log.contains(words)).then_some(()));
    };
    wait("\"record\":\"start\"");
    cluster.kubectl(&["create", "deployment", "web", "--image=nginx", "--replicas=3"]);
    wait("\"action\":\"create-pod\"");
    wait("\"action\":\"create-replicaset\"");
    shadow.signal("-TERM");
    assert_eq!(shadow.ends().code(), Some(0));

    let output = muster(&["shadow", "report", &path.to_string_lossy()]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert!(said.contains("watched 1 Deployments, 1 ReplicaSets"), "{said}");
    // No Lease, no Event, nothing: it left no trace.
    assert_eq!(cluster.kubectl(&["get", "leases", "-n", "kube-system", "-o", "name"]).trim(), "");
}

/// Contract: FR-01, FR-02
fn it_tells_of_an_object_what_it_would_have_done_and_what_was_done() {
    let cluster = Cluster::start(&["--nodes", "1", "--pod-startup", "0s", "--pod-shutdown", "0s"]);
    let config = cluster.kubeconfig();
    let folder = tempfile::tempdir().unwrap();
    let into = format!("--shadow-log={}", folder.path().join("agreement.jsonl").display());
    let shadow = Asked::start_with(&cluster, &["--shadow", "--shadow-manager", "muster", &into], "caches synced");
    cluster.kubectl(&["create", "deployment", "web", "--image=nginx", "--replicas=1"]);
    cluster.kubectl(&["rollout", "status", "deployment/web"]);
    let set = cluster.kubectl(&["get", "replicasets", "-o", "name"]).trim().replace("replicaset.apps/", "rs/");
    let name = set.trim_start_matches("rs/");
    let certificate = shadow.certificate();
    let pods = [&shadow.asked(&certificate, &set)[..], &["--history"]].concat();
    cluster.kubectl(&["delete", "pod", "--all"]);
    wait_for("another pod in its place", || {
        let story = json(&config, &pods);
        let created = story["lines"].as_array().expect("a list").iter().filter(|line| line["action"] == "create-pod");
        (created.count() == 2).then_some(())
    });
    cluster.kubectl(&["scale", "deployment/web", "--replicas=3"]);

    let web = [&shadow.asked(&certificate, "deployment/web")[..], &["--history"]].concat();
    let scaled = format!("  cluster agreed    scaled ReplicaSet {name} from 1 to 3\n");
    let told = says(&config, &web, &scaled);
    assert!(told.starts_with("Deployment default/web\n  Source:  a shadow of the cluster's controllers, "), "{told}");
    let planned = told.find(&format!("  Muster would      scale ReplicaSet {name} to 3")).expect(&told);
    assert!(planned < told.find(&scaled).expect("it says so"), "{told}");

    let told =
        says(&config, &pods, "\n                  RS-09           1 of 3 wanted pods are there: 2 are missing\n");
    for words in [
        "  Muster would      create 2 pods",
        &format!("  cluster agreed    created pod {name}-"),
        &format!("  not judged        deleted pod {name}-"),
        "\n                  because         nothing was to be deleted\n",
    ] {
        assert!(told.contains(words), "no {words:?} in:\n{told}");
    }

    let story = json(&config, &pods);
    assert_eq!((&story["kind"], &story["object"]["name"]), (&"ShadowHistory".into(), &name.into()));
    let lines = story["lines"].as_array().expect("a list");
    assert!(lines.iter().all(|line| line["kind"] == "ReplicaSet" && line["name"] == name), "{story}");
    assert!(["plan", "agreement", "other"].iter().all(|record| lines.iter().any(|line| line["record"] == *record)));
    let of_no_time = json(&config, &[&pods[..], &["--since", "1ns"]].concat());
    assert_eq!(of_no_time["lines"], serde_json::json!([]));

    refused(&explain(&config, &pods[..pods.len() - 1]), 1, &["this is a shadow, which has no queue", &shadow.url]);
    refused(&explain(&config, &shadow.asked(&certificate, "--inside")), 1, &["this is a shadow, which has no queue"]);
}
