//! A list through things in slots: added to at the end, taken out anywhere, at a constant cost.

use super::slots::{Slot, Slots};

/// The neighbours of a thing in its list.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Links {
    before: Option<Slot>,
    after: Option<Slot>,
}

impl Links {
    /// The next one of the list.
    pub(super) const fn after(self) -> Option<Slot> {
        self.after
    }
}

/// What can be in a list.
pub(super) trait Linked {
    fn links(&mut self) -> &mut Links;
}

/// Its ends. Every call gets the slots that its things are in.
#[derive(Debug, Default)]
pub(super) struct List {
    first: Option<Slot>,
    last: Option<Slot>,
}

impl List {
    pub(super) const fn first(&self) -> Option<Slot> {
        self.first
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn push_back<T: Linked>(&mut self, slots: &mut Slots<T>, slot: Slot) {
        *slots[slot].links() = Links { before: self.last, after: None };
        match self.last.replace(slot) {
            Some(last) => slots[last].links().after = Some(slot),
            None => self.first = Some(slot),
        }
    }

    pub(super) fn remove<T: Linked>(&mut self, slots: &mut Slots<T>, slot: Slot) {
        let Links { before, after } = std::mem::take(slots[slot].links());
        match before {
            Some(before) => slots[before].links().after = after,
            None => self.first = after,
        }
        match after {
            Some(after) => slots[after].links().before = before,
            None => self.last = before,
        }
    }
}
