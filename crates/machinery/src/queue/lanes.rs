//! The two lanes of keys that are ready: what changed comes before what a start or a resync added (SH-07).

use std::hash::Hash;

use super::slots::Slot;
use super::turns::Turns;

/// Of so many keys that are handed out, one is of low priority while both kinds wait.
///
/// A permanent stream of changes must not keep a start from coming to its end, nor a resync. An eighth costs the
/// changes little: the workers are theirs for seven turns of eight, and one whose turn is taken waits for one sync.
/// A start takes eight times as long beside such a stream as it does alone.
pub const TURNS_FOR_ONE_OF_LOW_PRIORITY: u32 = 8;

/// How soon a key is to be worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// After the others: nothing is known to have changed. What a first list or a resync reports.
    Low,
    /// Something changed, or was asked for.
    #[default]
    Normal,
}

/// The keys that are ready, in their lanes.
#[derive(Debug)]
pub(super) struct Lanes<N> {
    normal: Turns<N, Slot>,
    low: Turns<N, Slot>,
    /// How many keys of normal priority were handed out while one of low priority waited, since the last of those.
    passed: u32,
}

impl<N> Default for Lanes<N> {
    fn default() -> Self {
        Self { normal: Turns::default(), low: Turns::default(), passed: 0 }
    }
}

impl<N: Hash + Eq + Clone> Lanes<N> {
    /// Adds a key at the end of its namespace. The slot is needed to take it out before its turn.
    pub(super) fn push(&mut self, priority: Priority, namespace: &N, key: Slot) -> Slot {
        self.of(priority).push(namespace, key)
    }

    /// Takes a key out of a lane before its turn.
    pub(super) fn remove(&mut self, priority: Priority, at: Slot) {
        self.of(priority).remove(at);
    }

    /// Hands out the next key.
    pub(super) fn pop(&mut self) -> Option<Slot> {
        let lane = choose(&mut self.passed, !self.normal.is_empty(), !self.low.is_empty());
        self.pop_of(lane)
    }

    /// Hands out the next key of one lane.
    pub(super) fn pop_of(&mut self, priority: Priority) -> Option<Slot> {
        self.of(priority).pop()
    }

    /// The keys in the order in which they will be handed out. Costs what is taken of it.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        let (mut normal, mut low) = (self.normal.iter().peekable(), self.low.iter().peekable());
        let mut passed = self.passed;
        std::iter::from_fn(move || match choose(&mut passed, normal.peek().is_some(), low.peek().is_some()) {
            Priority::Normal => normal.next(),
            Priority::Low => low.next(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.normal.len() + self.low.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.normal.is_empty() && self.low.is_empty()
    }

    fn of(&mut self, priority: Priority) -> &mut Turns<N, Slot> {
        match priority {
            Priority::Normal => &mut self.normal,
            Priority::Low => &mut self.low,
        }
    }
}

/// Whose turn it is, where something waits.
fn choose(passed: &mut u32, normal: bool, low: bool) -> Priority {
    if low && (!normal || *passed + 1 >= TURNS_FOR_ONE_OF_LOW_PRIORITY) {
        *passed = 0;
        return Priority::Low;
    }
    *passed = if low { *passed + 1 } else { 0 };
    Priority::Normal
}
