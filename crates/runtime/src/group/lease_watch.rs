//! A watch of the group's Leases that says when a look is worth while. Nothing is decided by it: it may be behind or
//! dead.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::StreamExt as _;
use muster_objects::Lease;
use serde::Deserialize;
use tokio::sync::Notify;

use super::{MemberHandle, leases::Leases};

/// How long to wait after a watch has ended.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a watch is followed at most: a connection can be dead unnoticed.
const LONGEST: Duration = Duration::from_secs(330);

/// Cloning shares it.
#[derive(Clone, Default)]
pub(super) struct LeaseWatch {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    changes: Notify,
    /// The version of the last list.
    version: Mutex<Option<String>>,
    listed: Notify,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Lease,
}

impl LeaseWatch {
    /// Waits until there is something to look at.
    pub(super) async fn changed(&self) {
        self.inner.changes.notified().await;
    }

    /// There was a list of that version: a watch goes on from there.
    pub(super) fn listen_from(&self, version: String) {
        *self.inner.version.lock().unwrap_or_else(PoisonError::into_inner) = Some(version);
        self.inner.listed.notify_one();
    }

    /// Watches, one watch after another, each from the version of a list that came after the end of the one before.
    pub(super) async fn run(self, leases: Leases, handle: MemberHandle) {
        loop {
            let version = self.inner.version.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(version) = version else {
                self.inner.listed.notified().await;
                continue;
            };
            // However it ends, the next list says what it has not.
            let _ = tokio::time::timeout(LONGEST, self.follow(&leases, &handle, &version)).await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn follow(&self, leases: &Leases, handle: &MemberHandle, version: &str) {
        let mut frames = match leases.watch(version).await {
            Ok(frames) => frames,
            Err(error) => return tracing::debug!(%error, "the leases of the group cannot be watched"),
        };
        while let Some(Ok(frame)) = frames.next().await {
            let Ok(event) = muster_objects::json::from_slice::<Event>(&frame) else { return };
            match event.kind.as_str() {
                "ADDED" | "MODIFIED" if !handle.group().is_news(&event.object) => {}
                "ADDED" | "MODIFIED" | "DELETED" => self.inner.changes.notify_one(),
                _ => return,
            }
        }
    }
}
