//! Events as the scheduler and the kubelets of a real cluster write them, limited so that they never
//! slow what they tell of.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use muster_objects::time::Micro;
use muster_objects::{ObjectKey, ResourceVersion, Timestamp, Uid};

use crate::json::push_field;

/// Whether an event is news or a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// As it should be.
    Normal,
    /// As it should not.
    Warning,
}

/// An event of a node's agent about a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodEvent {
    /// The pod.
    pub pod: ObjectKey,
    /// Its uid.
    pub uid: Uid,
    /// The version of it that was last seen.
    pub resource_version: ResourceVersion,
    /// Its node.
    pub node: Option<Arc<str>>,
    /// The container that it is about, and whether that is an init container.
    pub container: Option<(bool, Arc<str>)>,
    /// News or a warning.
    pub kind: EventType,
    /// The reason.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// Gives every event of this process a name of its own: nanoseconds of the wall clock, moved on where
/// two fall together.
#[derive(Debug, Default)]
pub(crate) struct Names {
    last: AtomicI64,
}

impl Names {
    /// The number for an event at `now`.
    pub(crate) fn next(&self, now: Timestamp) -> i64 {
        let next = |last: i64| now.as_nanos().max(last.saturating_add(1));
        let mut last = self.last.load(Ordering::Relaxed);
        loop {
            match self.last.compare_exchange_weak(last, next(last), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return next(last),
                Err(other) => last = other,
            }
        }
    }
}

impl EventType {
    fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// A kubelet's event, of the older form: a source with component and host, first and last timestamps.
pub(crate) fn kubelet_event(event: &PodEvent, now: Timestamp, number: i64) -> Vec<u8> {
    let mut out = head(&event.pod, &event.uid, event.resource_version, number);
    if let Some((init, name)) = &event.container {
        let list = if *init { "initContainers" } else { "containers" };
        push_field(&mut out, false, "fieldPath", &format!("spec.{list}{{{name}}}"));
    }
    let node = event.node.as_deref().unwrap_or_default();
    out.push('}');
    push_field(&mut out, false, "reason", event.reason);
    push_field(&mut out, false, "message", &event.message);
    // Writing to a String cannot fail.
    let _ =
        write!(out, r#","type":"{}","count":1,"firstTimestamp":"{now}","lastTimestamp":"{now}""#, event.kind.name());
    out.push_str(r#","source":{"component":"kubelet""#);
    push_field(&mut out, false, "host", node);
    out.push_str(r#"},"reportingComponent":"kubelet""#);
    push_field(&mut out, false, "reportingInstance", node);
    out.push('}');
    out.into_bytes()
}

/// The scheduler's event, of the newer form: a reporting controller, an action and an event time.
pub(crate) fn scheduler_event(
    pod: &ObjectKey,
    uid: &Uid,
    (kind, reason, action): (EventType, &str, &str),
    message: &str,
    now: Timestamp,
    number: i64,
) -> Vec<u8> {
    let mut out = head(pod, uid, ResourceVersion::UNKNOWN, number);
    out.push('}');
    push_field(&mut out, false, "reason", reason);
    push_field(&mut out, false, "message", cut(message));
    let _ = write!(
        out,
        r#","type":"{}","eventTime":"{}","action":"{action}","source":{{}},"firstTimestamp":null,"lastTimestamp":null,"reportingComponent":"default-scheduler","reportingInstance":"default-scheduler-muster"}}"#,
        kind.name(),
        Micro(now)
    );
    out.into_bytes()
}

/// The event up to what its object is, whose brace is still open.
fn head(pod: &ObjectKey, uid: &Uid, version: ResourceVersion, number: i64) -> String {
    let mut out = String::with_capacity(700);
    out.push_str(r#"{"apiVersion":"v1","kind":"Event","metadata":{"#);
    // A name has at most 253 characters, and its part before a dot ends in a letter or digit.
    let name = pod.name.get(..236).unwrap_or(&pod.name).trim_end_matches(['.', '-']);
    push_field(&mut out, true, "name", &format!("{name}.{number:x}"));
    push_field(&mut out, false, "namespace", &pod.namespace);
    out.push_str(r#"},"involvedObject":{"apiVersion":"v1","kind":"Pod""#);
    push_field(&mut out, false, "name", &pod.name);
    push_field(&mut out, false, "namespace", &pod.namespace);
    let _ = write!(out, r#","uid":"{uid}""#);
    if version.is_known() {
        let _ = write!(out, r#","resourceVersion":"{version}""#);
    }
    out
}

/// The API takes notes of up to 1024 bytes.
fn cut(message: &str) -> &str {
    let mut end = message.len().min(1024);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}
