//! `muster up` as a test suite starts it: what it says as JSON, and that it does not outlive who started it.

mod harness;
mod outside;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use harness::tests;
use outside::workloads::SET;
use outside::{MUSTER, muster, text, write};
use serde_json::Value;

tests! {
    its_first_line_says_how_to_reach_it_and_its_last_that_it_ends,
    events_of_workloads_are_lines,
    a_rollout_that_stalls_is_told_with_the_reason,
    until_ready_says_what_became_of_the_workloads,
    a_failure_is_a_line_too,
    it_ends_when_the_process_that_started_it_is_killed,
}

/// How long anything may take before the test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program whose output is read line by line.
struct Lines {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Lines {
    fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    /// `muster up --output json` with these arguments.
    fn up(folder: &tempfile::TempDir, more: &[&str]) -> Self {
        let mut command = Command::new(MUSTER);
        command.args(["up", "--listen", "127.0.0.1:0", "--output", "json", "--kubeconfig"]);
        command.arg(folder.path().join("kubeconfig")).args(more);
        Self::of(command)
    }

    /// The next line as JSON; `None` at the end of the output.
    fn next(&self) -> Option<Value> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("nothing was said for {PATIENCE:?}"),
        }
    }

    /// The next line of an event, whatever comes before it.
    fn event(&self, event: &str) -> Value {
        let mut before = Vec::new();
        while let Some(line) = self.next() {
            if line["event"] == event {
                return line;
            }
            before.push(line);
        }
        panic!("no {event:?} in {before:?}");
    }

    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().expect("kill").success());
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn its_first_line_says_how_to_reach_it_and_its_last_that_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut up = Lines::up(&folder, &["--nodes", "2", "--controllers", "garbagecollector"]);
    let ready = up.next().expect("a line");
    assert_eq!(ready["event"], "ready");
    assert_eq!(ready["kubeconfig"], folder.path().join("kubeconfig").to_str().unwrap());
    assert_eq!(ready["pid"], up.child.id());
    assert_eq!((&ready["nodes"], &ready["controllers"][0]), (&2.into(), &"garbage-collector-controller".into()));
    // It serves what it says, with the certificate and the token of the line.
    let said = |key: &str| ready[key].as_str().expect(key).to_owned();
    let ca = write(folder.path(), "ca.pem", &said("ca"));
    let token = format!("Authorization: Bearer {}", said("token"));
    let url = format!("{}/api/v1/namespaces/default", said("url"));
    let answer = Command::new("curl").args(["-sS", "--cacert", &ca, "-H", &token, &url]).output().expect("curl runs");
    assert!(text(&answer.stdout).contains("\"Namespace\""), "{}", text(&answer.stderr));

    up.signal("-TERM");
    let last = up.next().expect("a last line");
    assert_eq!((&last["event"], &last["reason"]), (&"stopping".into(), &"signal".into()));
    assert_eq!(up.next(), None);
    assert_eq!(up.child.wait().unwrap().code(), Some(0));
}

fn events_of_workloads_are_lines() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "set.yaml", SET);
    let up = Lines::up(&folder, &["--pod-startup", "0s", "-f", &file]);
    assert_eq!(up.next().expect("a line")["event"], "ready");
    let applied = up.next().expect("a line");
    let about = ["event", "kind", "namespace", "name"].map(|key| applied[key].as_str().unwrap_or_default().to_owned());
    assert_eq!(about, ["applied", "ReplicaSet", "default", "web"]);
    let available = up.event("available");
    assert_eq!(
        (&available["name"], &available["available"], &available["desired"]),
        (&"web".into(), &3.into(), &3.into())
    );
    assert_eq!(up.event("complete")["workloads"][0]["available"], 3);
}

fn a_rollout_that_stalls_is_told_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let never = SET.replace(
        "labels: {app: web}}\n    spec",
        "labels: {app: web}, annotations: {muster.dev/fate: never-ready}}\n    spec",
    );
    let never = never
        .replace("kind: ReplicaSet", "kind: Deployment")
        .replace("spec:\n  replicas", "spec:\n  progressDeadlineSeconds: 1\n  replicas");
    let file = write(folder.path(), "deployment.yaml", &never);
    let up = Lines::up(&folder, &["--pod-startup", "0s", "-f", &file]);
    let exceeded = up.event("deadline-exceeded");
    assert!(exceeded["message"].as_str().unwrap().contains("has timed out progressing"), "{exceeded}");
    let waiting = up.event("waiting");
    assert!(waiting["reason"].as_str().unwrap().starts_with("0 of 3 available"), "{waiting}");
}

fn until_ready_says_what_became_of_the_workloads() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "set.yaml", SET);
    let mut up = Lines::up(&folder, &["--pod-startup", "0s", "-f", &file, "--until-ready"]);
    let ready = up.event("ready");
    let web = &ready["workloads"][0];
    assert_eq!((&web["name"], &web["available"], &web["desired"]), (&"web".into(), &3.into(), &3.into()));
    assert!(ready["url"].as_str().unwrap().starts_with("https://127.0.0.1:") && ready["seconds"].is_f64(), "{ready}");
    assert_eq!(up.next(), None);
    assert_eq!(up.child.wait().unwrap().code(), Some(0));
}

fn a_failure_is_a_line_too() {
    let output = muster(&["up", "--listen", "127.0.0.1:0", "--output", "json", "--controllers", "nothing"]);
    let line: Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    assert_eq!(line["event"], "error");
    assert!(
        line["message"].as_str().unwrap().contains("\"nothing\" is not in the list of known controllers"),
        "{line}"
    );
    assert!(text(&output.stderr).starts_with("error: --controllers: \"nothing\""));
    assert_eq!(output.status.code(), Some(1));
}

fn it_ends_when_the_process_that_started_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    // A command after it keeps the shell from becoming it.
    shell.arg("-c").arg("\"$@\"; echo \"it ended before the shell\"").arg("sh");
    shell.args([MUSTER, "up", "--listen", "127.0.0.1:0", "--output", "json", "--exit-with-parent", "--kubeconfig"]);
    shell.arg(folder.path().join("kubeconfig"));
    let shell = Lines::of(shell);
    let pid = shell.next().expect("a line")["pid"].clone();
    assert_ne!(pid, shell.child.id());
    shell.signal("-KILL");
    let last = shell.next().expect("a last line");
    assert_eq!((&last["event"], &last["reason"]), (&"stopping".into(), &"the parent process is gone".into()));
    // The output ends once nobody has it open: the shell was killed, so this is the end of the program.
    assert_eq!(shell.next(), None);
}
