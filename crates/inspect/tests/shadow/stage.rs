//! A cluster whose changes are made by a test, watched by a shadow.

use std::sync::Arc;
use std::time::Duration;

use muster_inspect::shadow::record::{Difference, Record};
use muster_inspect::shadow::{Options, Seen, Watched, Watcher};
use muster_machinery::Change;
use muster_objects::meta::ResourceVersion;
use muster_objects::{Deployment, Interner, Object, Pod, ReplicaSet, Timestamp};
use serde_json::{Value, json};

/// When the stage opens, by the server's clock.
const OPENED: Timestamp = Timestamp::from_seconds(1_750_000_000);

pub(crate) struct Stage {
    watcher: Watcher,
    version: u64,
    now: Timestamp,
    records: Vec<Record>,
}

impl Stage {
    /// An empty cluster that has been watched for a minute: what happens now is judged.
    pub(crate) fn open() -> Self {
        let mut watcher = Watcher::new(Options::default(), 500);
        watcher.begin(OPENED - Duration::from_secs(60));
        Self { watcher, version: 100, now: OPENED, records: Vec::new() }
    }

    /// `seconds` before now, as the API writes it.
    pub(crate) fn ago(&self, seconds: u64) -> String {
        (self.now - Duration::from_secs(seconds)).to_string()
    }

    /// Time passes, as the shadow sees it: a fifth of a second at a time.
    pub(crate) fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds * 5 {
            self.now = self.now + Duration::from_millis(200);
            self.watcher.pass(self.now);
        }
    }

    pub(crate) fn pod(&mut self, pod: Value) {
        let version = self.bump();
        self.seen(version, Watched::Pod(Change::Added(decode::<Pod>(pod, version))));
    }

    pub(crate) fn pod_gone(&mut self, pod: Value) {
        let version = self.bump();
        let last = decode::<Pod>(pod, version);
        self.seen(version, Watched::Pod(Change::Deleted { last, tombstone: false }));
    }

    pub(crate) fn set(&mut self, set: Value) {
        let version = self.bump();
        self.set_at(set, version);
    }

    /// A late state of a ReplicaSet, with an earlier version.
    pub(crate) fn set_at(&mut self, set: Value, version: u64) {
        self.seen(version, Watched::ReplicaSet(Change::Added(decode::<ReplicaSet>(set, version))));
    }

    /// Reserves a version for a late change.
    pub(crate) fn bump(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub(crate) fn set_gone(&mut self, set: Value) {
        let version = self.bump();
        let last = decode::<ReplicaSet>(set, version);
        self.seen(version, Watched::ReplicaSet(Change::Deleted { last, tombstone: false }));
    }

    pub(crate) fn deployment(&mut self, deployment: Value) {
        let version = self.bump();
        self.seen(version, Watched::Deployment(Change::Added(decode::<Deployment>(deployment, version))));
    }

    /// Who wrote the size that the last change made.
    pub(crate) fn written_by(&mut self, set: u64, writer: &str) {
        let uid = muster_objects::meta::Uid::new(&uid(set));
        self.watcher.written_by(uid, ResourceVersion(self.version), writer.to_owned());
    }

    fn seen(&mut self, version: u64, change: Watched) {
        self.now = self.now + Duration::from_millis(5);
        self.watcher.apply(Seen { version: ResourceVersion(version), at: self.now, change });
    }

    /// Whether the namespace of everything here is being deleted.
    pub(crate) fn namespace_leaving(&mut self, leaving: bool) {
        self.watcher.namespace("default".into(), leaving);
    }

    /// All records so far.
    pub(crate) fn records(&mut self) -> &[Record] {
        let told = self.watcher.lines().into_iter().map(|line| line.record);
        self.records.extend(told);
        &self.records
    }

    /// How often an action was agreed on.
    pub(crate) fn agreed(&mut self, action: &str) -> usize {
        let of = |record: &&Record| matches!(record, Record::Agreement(agreement) if agreement.action == action);
        self.records().iter().filter(of).count()
    }

    /// Why actions were not judged.
    pub(crate) fn others(&mut self, action: &str) -> Vec<String> {
        let of = |record: &Record| match record {
            Record::Other(other) if other.action == action => Some(other.why.clone()),
            _ => None,
        };
        self.records().iter().filter_map(of).collect()
    }

    /// The differences about an action.
    pub(crate) fn differences(&mut self, action: &str) -> Vec<Difference> {
        let of = |record: &Record| match record {
            Record::Difference(difference) if difference.action == action => Some(difference.clone()),
            _ => None,
        };
        self.records().iter().filter_map(of).collect()
    }
}

fn decode<T: Object>(mut object: Value, version: u64) -> Arc<T> {
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    Arc::new(T::decode(object.to_string().as_bytes(), &mut Interner::new()).expect("a test's own object decodes"))
}

/// A uid that looks like the server's.
pub(crate) fn uid(number: u64) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

/// ReplicaSet `web`, uid 1.
pub(crate) fn set(replicas: u32) -> Value {
    named_set("web", 1, replicas)
}

pub(crate) fn named_set(name: &str, number: u64, replicas: u32) -> Value {
    json!({
        "metadata": {"namespace": "default", "name": name, "uid": uid(number), "generation": 1},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    })
}

/// A pod of it that runs on a node of its own and has been ready for a time.
pub(crate) fn pod(number: u64, since: &str) -> Value {
    json!({
        "metadata": {
            "namespace": "default", "name": format!("web-{number}"), "uid": uid(1_000 + number),
            "creationTimestamp": since, "labels": {"app": "web"}, "ownerReferences": [owner("ReplicaSet", "web", 1)],
        },
        "spec": {"nodeName": format!("node-{number}")},
        "status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": since},
        ]},
    })
}

/// The same object with another value at `pointer`.
pub(crate) fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    object.pointer_mut(parent).expect("what the pointer leads to")[name] = value;
    object
}

pub(crate) fn owner(kind: &str, name: &str, number: u64) -> Value {
    let api_version = if kind == "ReplicationController" { "v1" } else { "apps/v1" };
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid(number), "controller": true})
}
