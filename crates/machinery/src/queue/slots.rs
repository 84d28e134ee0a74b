//! Things by number: each keeps its number while others come and go.

use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// The number of a thing. Four bytes, as an `Option` too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(NonZeroU32);

impl Slot {
    fn new(at: usize) -> Self {
        let number = u32::try_from(at + 1).ok().and_then(NonZeroU32::new);
        Self(number.expect("2^32 keys do not fit into memory"))
    }

    const fn at(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Things by number.
#[derive(Debug)]
pub(super) struct Slots<T> {
    things: Vec<Option<T>>,
    free: Vec<Slot>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { things: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub(super) fn insert(&mut self, thing: T) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.things.push(None);
            Slot::new(self.things.len() - 1)
        });
        self.things[slot.at()] = Some(thing);
        slot
    }

    /// Takes a thing out. Its number will be given to another.
    pub(super) fn remove(&mut self, slot: Slot) -> T {
        self.free.push(slot);
        self.things[slot.at()].take().expect("a slot is removed by the one who holds its number")
    }

    pub(super) fn len(&self) -> usize {
        self.things.len() - self.free.len()
    }
}

impl<T> Index<Slot> for Slots<T> {
    type Output = T;

    fn index(&self, slot: Slot) -> &T {
        self.things[slot.at()].as_ref().expect("a number is held only while its thing is there")
    }
}

impl<T> IndexMut<Slot> for Slots<T> {
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        self.things[slot.at()].as_mut().expect("a number is held only while its thing is there")
    }
}
