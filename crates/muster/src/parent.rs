//! The process that started this one, and its end.

use std::os::unix::process::parent_id;
use std::time::Duration;

use tokio::time::sleep;

/// How often it is looked at. The kernel's own signal for this comes when the thread ends that started the process, which a
/// test runner's may do long before the runner.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The process that started this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parent(u32);

impl Parent {
    /// The one that is there now: ask early.
    pub(crate) fn now() -> Self {
        Self(parent_id())
    }

    /// Waits until it is gone: from then on this process is another one's child.
    pub(crate) async fn gone(self) {
        while Self::now() == self {
            sleep(LOOK_EVERY).await;
        }
    }
}
