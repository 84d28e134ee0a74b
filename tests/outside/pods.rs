//! What becomes of pods, as `kubectl get pods --watch` tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::Cluster;

/// What becomes of all pods, line by line. A test that waits for more than will ever be hangs here.
pub struct Watch {
    child: Child,
    lines: BufReader<ChildStdout>,
    /// The names of the pods that each owner has made, also of those that are gone.
    pub owners: BTreeMap<String, BTreeSet<String>>,
    /// How many went.
    pub deleted: usize,
}

impl Watch {
    /// Begins with the pods that are there.
    pub fn start(cluster: &Cluster) -> Self {
        let mut child = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(cluster.kubeconfig())
            .args(["get", "pods", "--watch", "--output-watch-events", "-o"])
            .arg("jsonpath={.type} {.object.metadata.name} {.object.metadata.ownerReferences[0].name}{\"\\n\"}")
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, lines, owners: BTreeMap::new(), deleted: 0 }
    }

    /// Reads on until this holds.
    pub fn read(&mut self, holds: impl Fn(&Self) -> bool) {
        while !holds(self) {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).expect("kubectl's output");
            assert!(read > 0, "kubectl ended after {:?}", self.owners);
            let mut words = line.trim_end().split(' ');
            let (event, name, owner) = (words.next(), words.next(), words.next().unwrap_or_default());
            match event {
                Some("ADDED") => {
                    let name = name.expect("a name").to_owned();
                    assert!(self.owners.entry(owner.to_owned()).or_default().insert(name), "twice: {line}");
                }
                Some("DELETED") => self.deleted += 1,
                _ => {}
            }
        }
    }

    /// How many pods were made.
    pub fn count(&self) -> usize {
        self.owners.values().map(BTreeSet::len).sum()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
