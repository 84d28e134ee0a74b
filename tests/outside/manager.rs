//! `muster controller-manager` as a process: what it says, and how it ends.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::sleep;
use std::time::Duration;

use super::{Cluster, MUSTER};

/// How long nothing may be said before a test gives up, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(300);

/// A controller manager as a process. Killed when dropped.
pub struct Manager {
    child: Child,
    lines: Receiver<String>,
    log: String,
}

impl Manager {
    pub fn start(cluster: &Cluster, arguments: &[&str]) -> Self {
        Self::start_as(cluster.kubeconfig().as_ref(), arguments)
    }

    /// One that finds the server, and who it is there, in this kubeconfig.
    pub fn start_as(kubeconfig: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(MUSTER)
            .arg("controller-manager")
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(arguments)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stderr = child.stderr.take().expect("a pipe");
        let (sender, lines) = channel();
        // Ends with the process, or with the test that no longer listens.
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines, log: String::new() }
    }

    /// Everything that it has said.
    pub fn log(&mut self) -> &str {
        while let Ok(line) = self.lines.try_recv() {
            self.take(&line);
        }
        &self.log
    }

    /// Waits for a line of the log that contains this.
    pub fn says(&mut self, words: &str) -> String {
        loop {
            if let Some(line) = self.log().lines().find(|line| line.contains(words)) {
                return line.to_owned();
            }
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => self.take(&line),
                Err(RecvTimeoutError::Timeout) => panic!("it does not say {words:?}:\n{}", self.log),
                Err(RecvTimeoutError::Disconnected) => panic!("it ended and never said {words:?}:\n{}", self.log),
            }
        }
    }

    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// How it has ended, where it has.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the process is ours")
    }

    /// Waits for its end: it has said everything by then.
    pub fn ends(&mut self) -> ExitStatus {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => self.take(&line),
                Err(RecvTimeoutError::Timeout) => panic!("its end does not come:\n{}", self.log),
                Err(RecvTimeoutError::Disconnected) => break self.child.wait().expect("the process is ours"),
            }
        }
    }

    fn take(&mut self, line: &str) {
        self.log.push_str(line);
        self.log.push('\n');
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks, ten times a second, until there is something to be found: for what no process tells of by itself.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    const PAUSE: Duration = Duration::from_millis(100);
    // Looks are counted and not time, which may pass in one leap.
    for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
        if let Some(found) = look() {
            return found;
        }
        sleep(PAUSE);
    }
    panic!("{what} does not come");
}
