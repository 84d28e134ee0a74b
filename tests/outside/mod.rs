//! Running the program as a person does: as a process, seen by its output, its exit code and kubectl.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part of this")]

pub mod asking;
pub mod manager;
pub mod pods;
pub mod workloads;

use std::fs;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// The program under test.
pub const MUSTER: &str = env!("CARGO_BIN_EXE_muster");

/// A `muster up` of its own on a free port, with its kubeconfig in a folder of its own. Ended when dropped.
pub struct Cluster {
    child: Child,
    stdout: BufReader<ChildStdout>,
    folder: tempfile::TempDir,
}

impl Cluster {
    /// Starts a cluster and returns once its server answers.
    pub fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut child = Command::new(MUSTER)
            .args(["up", "--listen", "127.0.0.1:0", "--kubeconfig"])
            .arg(folder.path().join("kubeconfig"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the program starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut cluster = Self { child, stdout, folder };
        cluster.line_with("kubeconfig");
        cluster
    }

    /// Reads output up to a line that contains this, and gives that line.
    pub fn line_with(&mut self, text: &str) -> String {
        line_with(&mut self.stdout, text)
    }

    /// Where the kubeconfig is.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Runs kubectl and returns what it printed; a failure of it fails the test.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.kubectl_with(arguments, "")
    }

    /// Runs kubectl with this on its standard input.
    pub fn kubectl_with(&self, arguments: &[&str], stdin: &str) -> String {
        kubectl(&self.kubeconfig(), self.folder.path(), arguments, stdin)
    }

    /// Runs kubectl, whatever comes of it.
    pub fn try_kubectl(&self, arguments: &[&str], stdin: &str) -> Output {
        try_kubectl(&self.kubeconfig(), self.folder.path(), arguments, stdin)
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends the program a signal, such as `-STOP`.
    pub fn signal(&self, signal: &str) {
        let kill = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(kill.expect("kill runs").success());
    }

    /// Asks the program to end, as Ctrl-C does, and returns its exit code.
    pub fn interrupt(self) -> Option<i32> {
        self.end_by("-INT")
    }

    /// Asks the program to end by a signal, and returns its exit code.
    pub fn end_by(mut self, signal: &str) -> Option<i32> {
        self.signal(signal);
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("the rest of the output");
        self.child.wait().expect("the program ends").code()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads output up to a line that contains this, and gives that line.
pub fn line_with(output: &mut impl BufRead, text: &str) -> String {
    let mut seen = String::new();
    loop {
        let mut line = String::new();
        let read = output.read_line(&mut line).expect("the program's output");
        assert!(read > 0, "the program ended without a line that contains {text:?}; it said:\n{seen}");
        if line.contains(text) {
            return line;
        }
        seen.push_str(&line);
    }
}

/// Runs kubectl with this on its standard input and returns what it printed; a failure of it fails the test.
pub fn kubectl(kubeconfig: &Path, folder: &Path, arguments: &[&str], stdin: &str) -> String {
    let output = try_kubectl(kubeconfig, folder, arguments, stdin);
    assert!(output.status.success(), "kubectl {arguments:?}:\n{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Runs kubectl, whatever comes of it. What it keeps of a cluster's kinds, which would outlive the cluster, it keeps in a
/// folder.
pub fn try_kubectl(kubeconfig: &Path, folder: &Path, arguments: &[&str], stdin: &str) -> Output {
    let mut child = Command::new("kubectl")
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .arg("--cache-dir")
        .arg(folder.join("cache"))
        .args(arguments)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl starts");
    child.stdin.take().expect("a pipe").write_all(stdin.as_bytes()).expect("kubectl reads");
    child.wait_with_output().expect("kubectl ends")
}

/// Runs the program to its end.
pub fn muster(arguments: &[&str]) -> Output {
    Command::new(MUSTER).args(arguments).stdin(Stdio::null()).output().expect("the program runs")
}

/// Writes a file into a folder and returns its path as text.
pub fn write(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, content).expect("a file in a temporary folder");
    path.to_string_lossy().into_owned()
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
