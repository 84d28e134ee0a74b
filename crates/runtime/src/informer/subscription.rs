//! What a shared watch has for one of its subscribers, until that takes it.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use muster_objects::{HashRange, ResourceVersion};
use tokio::sync::Notify;

use crate::client::Encoding;

/// How many bytes of frames may wait. A subscriber that is further behind has to list again.
pub(super) const MOST_WAITING: usize = 32 << 20;
/// From here on frames are copied: one that is not keeps all that was received with it in memory.
const MANY_WAITING: usize = 1 << 20;

/// One thing that the watch said.
#[derive(Debug)]
pub(super) enum Item {
    /// An event, which may be of any namespace within the range; if its namespace was not found, of any.
    Frame(Encoding, Bytes),
    /// Nothing has happened in the range up to this version.
    Reached(ResourceVersion),
}

/// Why a subscription is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Over {
    /// Events may have been missed.
    #[error("the shared watch begins anew")]
    Anew,
    /// The subscriber took less than came.
    #[error("more than {MOST_WAITING} bytes of events are waiting")]
    Behind,
}

/// The line between a shared watch and one subscriber.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) range: HashRange,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Every event after this version comes; none while the watch does not include the range.
    opened: Option<ResourceVersion>,
    waiting: VecDeque<Item>,
    /// Of the frames that wait.
    bytes: usize,
    over: Option<Over>,
    /// The task that follows the watch has panicked.
    broken: bool,
}

impl Line {
    pub(super) fn new(range: HashRange) -> Self {
        Self { range, state: Mutex::default(), changed: Notify::new() }
    }

    // The watch's end.

    /// Every event after `position` will come.
    pub(super) fn open(&self, position: ResourceVersion) {
        self.change(|state| state.opened = Some(position));
    }

    pub(super) fn push(&self, item: Item) {
        self.change(|state| {
            let item = match item {
                Item::Frame(encoding, frame) => {
                    state.bytes += frame.len();
                    let many = state.bytes > MANY_WAITING;
                    Item::Frame(encoding, if many { Bytes::copy_from_slice(&frame) } else { frame })
                }
                reached @ Item::Reached(_) => reached,
            };
            if state.bytes > MOST_WAITING {
                state.end(Over::Behind);
            } else if state.over.is_none() {
                state.waiting.push_back(item);
            }
        });
    }

    pub(super) fn end(&self, why: Over) {
        self.change(|state| state.end(why));
    }

    pub(super) fn break_off(&self) {
        self.change(|state| state.broken = true);
    }

    /// Whether events are for it.
    pub(super) fn is_open(&self) -> bool {
        let state = self.lock();
        state.opened.is_some() && state.over.is_none()
    }

    /// Whether it waits for the watch.
    pub(super) fn is_waiting(&self) -> bool {
        let state = self.lock();
        state.opened.is_none() && state.over.is_none()
    }

    // The subscriber's end.

    /// Waits until the watch includes the range: every event after the answer comes.
    pub(super) async fn opened(&self) -> Result<ResourceVersion, Over> {
        loop {
            {
                let state = self.lock();
                if let Some(over) = state.over {
                    return Err(over);
                }
                if let Some(opened) = state.opened {
                    return Ok(opened);
                }
            }
            self.changed.notified().await;
        }
    }

    /// Waits until there is something to take.
    pub(super) async fn ready(&self) {
        loop {
            {
                let state = self.lock();
                if !state.waiting.is_empty() || state.over.is_some() {
                    return;
                }
            }
            self.changed.notified().await;
        }
    }

    /// The next thing that was said, if there is one; an error once nothing follows.
    pub(super) fn take(&self) -> Result<Option<Item>, Over> {
        let mut state = self.lock();
        let item = state.waiting.pop_front();
        if let Some(Item::Frame(_, frame)) = &item {
            state.bytes = state.bytes.saturating_sub(frame.len());
        }
        match (item, state.over) {
            (None, Some(over)) => Err(over),
            (item, _) => Ok(item),
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
    }

    /// # Panics
    /// If the task that follows the watch has: the subscriber would wait for ever.
    fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!state.broken, "the task of the shared watch has panicked");
        state
    }
}

impl State {
    /// What waits is of no use to one who lists again.
    fn end(&mut self, why: Over) {
        self.over.get_or_insert(why);
        self.waiting = VecDeque::new();
    }
}
