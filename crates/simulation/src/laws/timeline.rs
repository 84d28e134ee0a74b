//! What happened, a line for each write: for whoever looks for the cause of a broken law.

use std::fmt::Write as _;

use super::watcher::{Kind, Seen};
use crate::api::{condition, is_being_deleted, name, number};
use crate::world::EPOCH_NANOS;

/// One line for each write.
#[must_use]
pub fn timeline(seen: &[Seen]) -> String {
    seen.iter().fold(String::new(), |mut text, each| {
        let _ = writeln!(text, "{}", line(each));
        text
    })
}

fn line(Seen { epoch: _, version, millis, kind, gone, object }: &Seen) -> String {
    let at = millis - EPOCH_NANOS / 1_000_000;
    let gone = if *gone { " gone" } else { "" };
    let leaving = if is_being_deleted(object) { " being deleted" } else { "" };
    let count = |field: &str| number(object, &format!("/status/{field}"));
    let state = match kind {
        Kind::Pod => {
            let ready = condition(object, "Ready");
            let (phase, ready, since) = (&object["status"]["phase"], &ready["status"], &ready["lastTransitionTime"]);
            format!("{phase} ready {ready} since {since}")
        }
        Kind::ReplicaSet | Kind::ReplicationController | Kind::Deployment => format!(
            "generation {} of {}, wants {}, has {} ready {} available {} updated {}",
            count("observedGeneration"),
            number(object, "/metadata/generation"),
            number(object, "/spec/replicas"),
            count("replicas"),
            count("readyReplicas"),
            count("availableReplicas"),
            count("updatedReplicas"),
        ),
    };
    let spec = match kind {
        Kind::Deployment => {
            let spec = &object["spec"];
            format!(
                " {} paused {} {}",
                spec["strategy"], spec["paused"], spec["template"]["spec"]["containers"][0]["image"]
            )
        }
        _ => String::new(),
    };
    format!("{version:6} {at:7} ms {kind:?} {}{gone}{leaving}: {state}{spec}", name(object))
}
