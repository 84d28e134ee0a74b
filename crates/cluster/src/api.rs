//! The requests that the loops of this crate make: paths, small bodies, and what an answer means.

use std::sync::Arc;

use bytes::Bytes;
use muster_objects::{ObjectKey, Timestamp, Uid};
use muster_runtime::client::{Client, ClientError, PatchType};

use crate::events::Names;
use crate::json::{push_field, push_string};
use crate::kubelet::Outcome;

/// The path of a pod, or of one of its subresources.
pub(crate) fn pod_path(pod: &ObjectKey, subresource: &str) -> String {
    let ObjectKey { namespace, name } = pod;
    format!("/api/v1/namespaces/{namespace}/pods/{name}{subresource}")
}

/// Patches a pod's status.
pub(crate) async fn patch_pod_status(
    client: &Client,
    pod: &ObjectKey,
    kind: PatchType,
    patch: Vec<u8>,
) -> Result<(), ClientError> {
    client.patch(&pod_path(pod, "/status"), kind, Bytes::from(patch)).await.map(drop)
}

/// Deletes a pod, if it is still the one of that uid; at once, or with its own grace period.
pub(crate) async fn delete_pod(client: &Client, pod: &ObjectKey, uid: &Uid, at_once: bool) -> Result<(), ClientError> {
    let grace = if at_once { r#""gracePeriodSeconds":0,"# } else { "" };
    let options = format!(r#"{{"apiVersion":"v1","kind":"DeleteOptions",{grace}"preconditions":{{"uid":"{uid}"}}}}"#);
    client.delete(&pod_path(pod, ""), Some(Bytes::from(options))).await.map(drop)
}

/// The body of a binding.
pub(crate) fn binding(pod: &ObjectKey, uid: &Uid, node: &str) -> Bytes {
    let mut out = String::with_capacity(256);
    out.push_str(r#"{"apiVersion":"v1","kind":"Binding","metadata":{"#);
    push_field(&mut out, true, "name", &pod.name);
    push_field(&mut out, false, "namespace", &pod.namespace);
    push_field(&mut out, false, "uid", &uid.to_string());
    out.push_str(r#"},"target":{"apiVersion":"v1","kind":"Node","name":"#);
    push_string(&mut out, node);
    out.push_str("}}");
    Bytes::from(out)
}

/// A status patch that sets one condition.
pub(crate) fn condition_patch(
    uid: &Uid,
    kind: &str,
    (status, reason, message): (&str, &str, &str),
    phase: Option<&str>,
    now: Timestamp,
) -> Vec<u8> {
    let mut out = format!(r#"{{"metadata":{{"uid":"{uid}"}},"status":{{"#);
    if let Some(phase) = phase {
        push_field(&mut out, true, "phase", phase);
        out.push(',');
    }
    out.push_str(r#""conditions":[{"#);
    push_field(&mut out, true, "type", kind);
    push_field(&mut out, false, "status", status);
    if !reason.is_empty() {
        push_field(&mut out, false, "reason", reason);
        push_field(&mut out, false, "message", message);
    }
    out.push_str(r#","lastProbeTime":null,"#);
    push_field(&mut out, true, "lastTransitionTime", &now.to_string());
    out.push_str("}]}}");
    out.into_bytes()
}

/// What the answer to a write means to a state machine that waits for it.
pub(crate) fn outcome(what: &'static str, object: &ObjectKey, answer: Result<(), ClientError>) -> Outcome {
    match answer {
        Ok(()) => Outcome::Done,
        Err(error) if error.is_not_found() => Outcome::Gone,
        // Another pod has the name now, of which the watch will tell, or others write to this one.
        Err(error) if error.is_conflict() => Outcome::Failed,
        Err(error) => {
            tracing::warn!(what, %object, %error, "will be tried again");
            Outcome::Failed
        }
    }
}

/// Whether an answer says that the object is there, made now or before.
pub(crate) fn made<T>(answer: Result<T, ClientError>) -> Result<(), ClientError> {
    match answer {
        Err(error) if error.is_already_exists() => Ok(()),
        answer => answer.map(drop),
    }
}

/// A queue of events to be posted, which never holds anyone up: what does not fit is dropped.
#[derive(Clone)]
pub(crate) struct EventQueue {
    sender: tokio::sync::mpsc::Sender<(Arc<str>, Vec<u8>)>,
    names: Arc<Names>,
}

impl EventQueue {
    /// The queue, and the future that posts what is put into it.
    pub(crate) fn new(client: Client) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<(Arc<str>, Vec<u8>)>(1000);
        let post = async move {
            while let Some((namespace, body)) = receiver.recv().await {
                let path = format!("/api/v1/namespaces/{namespace}/events");
                if let Err(error) = client.post(&path, Bytes::from(body)).await {
                    // The namespace may be terminating; an event is not worth a second try.
                    tracing::debug!(%namespace, %error, "an event is lost");
                }
            }
        };
        (Self { sender, names: Arc::default() }, post)
    }

    /// Puts an event into the queue, made from the number that names it.
    pub(crate) fn put(&self, namespace: &Arc<str>, now: Timestamp, event: impl FnOnce(i64) -> Vec<u8>) {
        if self.sender.try_send((Arc::clone(namespace), event(self.names.next(now)))).is_err() {
            tracing::debug!(%namespace, "an event is dropped: the queue is full");
        }
    }
}
