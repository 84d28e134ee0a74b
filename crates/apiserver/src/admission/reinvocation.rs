//! The second round of those that may change a write: who has to see what others have changed since.

use crate::model::Object;

/// What is remembered of the webhooks, or the policies, that have seen a write.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Whether they see it for the second time.
    again: bool,
    /// Those that want to see it again when another changes it.
    seen: Vec<String>,
    /// Those that are to see it again.
    due: Vec<String>,
    /// The object after the last of them.
    last: Option<Object>,
    /// Whether any has changed it.
    pub(super) changed: bool,
}

impl Memory {
    /// A round begins. What others have changed since the last one is to be seen by all that want to.
    pub(super) fn begin(&mut self, object: Option<&Object>) {
        if self.again && self.last.as_ref() != object {
            self.call_again();
        }
    }

    /// Whether one is passed over in this round.
    pub(super) fn skips(&self, key: &str) -> bool {
        self.again && !self.due.iter().any(|due| due == key)
    }

    /// One has changed the object.
    pub(super) fn change(&mut self) {
        self.call_again();
        self.changed = true;
    }

    /// One has seen the object and wants to see it again.
    pub(super) fn remember(&mut self, key: String) {
        self.seen.push(key);
    }

    /// A round ends.
    pub(super) fn end(&mut self, object: Option<&Object>) {
        self.again = true;
        self.last = object.cloned();
    }

    fn call_again(&mut self) {
        self.due.append(&mut self.seen);
    }
}
