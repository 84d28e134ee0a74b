//! A line in which namespaces take turns (SH-07): first in, first out within a namespace.
//!
//! ```text
//!   ring:   team-a -> team-b -> team-c -> (team-a)
//!             a1        b1        c1
//!             a2        b2                    handed out: a1 b1 c1 a2 b2 a3
//!             a3
//! ```
//!
//! A namespace that comes to wait is put at the end of the ring, so that it waits for one turn of each other at most,
//! however much waits there. Nothing is kept of one for which nothing waits.

use std::collections::VecDeque;
use std::hash::Hash;

use super::list::{Linked, Links, List};
use super::slots::{Slot, Slots};
use crate::hash::FixedMap;

/// What waits, by namespace.
#[derive(Debug)]
pub(super) struct Turns<N, T> {
    waiters: Slots<Waiter<T>>,
    lines: Slots<Line<N>>,
    line_of: FixedMap<N, Slot>,
    /// The lines in the order of their turns.
    ring: List,
}

#[derive(Debug)]
struct Waiter<T> {
    item: T,
    line: Slot,
    links: Links,
}

/// What waits of one namespace. Never empty.
#[derive(Debug)]
struct Line<N> {
    namespace: N,
    waiters: List,
    len: usize,
    links: Links,
}

impl<T> Linked for Waiter<T> {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl<N> Linked for Line<N> {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl<N, T> Default for Turns<N, T> {
    fn default() -> Self {
        Self { waiters: Slots::default(), lines: Slots::default(), line_of: FixedMap::default(), ring: List::default() }
    }
}

impl<N: Hash + Eq + Clone, T> Turns<N, T> {
    /// Adds an item at the end of its namespace. The slot is the item's until it is handed out or removed.
    pub(super) fn push(&mut self, namespace: &N, item: T) -> Slot {
        let line = self.line_of.get(namespace).copied().unwrap_or_else(|| self.open(namespace));
        let slot = self.waiters.insert(Waiter { item, line, links: Links::default() });
        let line = &mut self.lines[line];
        line.waiters.push_back(&mut self.waiters, slot);
        line.len += 1;
        slot
    }

    fn open(&mut self, namespace: &N) -> Slot {
        let line = Line { namespace: namespace.clone(), waiters: List::default(), len: 0, links: Links::default() };
        let slot = self.lines.insert(line);
        self.ring.push_back(&mut self.lines, slot);
        self.line_of.insert(namespace.clone(), slot);
        slot
    }

    /// Hands out the next item.
    pub(super) fn pop(&mut self) -> Option<T> {
        let line = self.ring.first()?;
        let slot = self.lines[line].waiters.first()?;
        self.ring.remove(&mut self.lines, line);
        self.ring.push_back(&mut self.lines, line);
        Some(self.remove(slot))
    }

    /// Takes an item out before its turn.
    pub(super) fn remove(&mut self, slot: Slot) -> T {
        let at = self.waiters[slot].line;
        let line = &mut self.lines[at];
        line.waiters.remove(&mut self.waiters, slot);
        line.len -= 1;
        if line.waiters.is_empty() {
            self.ring.remove(&mut self.lines, at);
            self.line_of.remove(&self.lines.remove(at).namespace);
        }
        self.waiters.remove(slot).item
    }

    /// The items in the order in which they will be handed out. Costs what is taken of it.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        // In the first round each line gives its first, and in those after that what follows on what it gave.
        let mut line = self.ring.first();
        let mut given: VecDeque<Slot> = VecDeque::new();
        std::iter::from_fn(move || {
            let slot = match line {
                Some(at) => {
                    line = self.lines[at].links.after();
                    self.lines[at].waiters.first()?
                }
                None => given.pop_front()?,
            };
            let waiter = &self.waiters[slot];
            given.extend(waiter.links.after());
            Some(&waiter.item)
        })
    }

    /// With how many others the last item of this one's namespace is handed out, itself included, if nothing comes
    /// any more: at most.
    pub(super) fn turns_of_last(&self, slot: Slot) -> usize {
        let line = &self.lines[self.waiters[slot].line];
        (line.len * self.lines.len()).min(self.len())
    }

    pub(super) fn get(&self, slot: Slot) -> &T {
        &self.waiters[slot].item
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.waiters[slot].item
    }

    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }
}
