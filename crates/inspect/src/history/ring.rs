//! A ring of records in a bounded number of bytes: the oldest make room for new ones.

use std::borrow::Cow;
use std::collections::VecDeque;

use muster_objects::meta::ObjectKey;
use serde::{Deserialize, Serialize};

/// What is before each record, and after it: its length.
const MARK: usize = size_of::<u32>();

/// Records, the oldest first.
#[derive(Debug)]
pub(crate) struct Ring {
    bytes: VecDeque<u8>,
    limit: usize,
}

impl Ring {
    /// Of at most so many bytes, the lengths of the records among them.
    pub(crate) fn new(limit: usize) -> Self {
        Self { bytes: VecDeque::new(), limit }
    }

    /// Adds a record. One that is longer than the ring is not kept, and nothing is lost for it.
    pub(crate) fn push(&mut self, record: &[u8]) {
        let size = record.len() + 2 * MARK;
        let Some(length) = u32::try_from(record.len()).ok().filter(|_| size <= self.limit) else {
            return;
        };
        while self.bytes.len() + size > self.limit {
            self.drop_oldest();
        }
        // The buffer grows as it is needed, and not beyond the limit.
        let needed = self.bytes.len() + size;
        if needed > self.bytes.capacity() {
            let more = (needed * 2).min(self.limit) - self.bytes.len();
            self.bytes.reserve_exact(more);
        }
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend(record);
        self.bytes.extend(length.to_le_bytes());
    }

    /// A copy, in one piece.
    pub(crate) fn copy(&self) -> Self {
        let (first, second) = self.bytes.as_slices();
        Self { bytes: [first, second].concat().into(), limit: self.limit }
    }

    /// Copies of the last records, `most` at most, the newest first.
    pub(crate) fn last(&self, most: usize) -> Vec<Vec<u8>> {
        let mut end = self.bytes.len();
        let before = || {
            let to = end.checked_sub(MARK)?;
            let from = to.checked_sub(self.length_at(to))?;
            end = from.checked_sub(MARK)?;
            Some(self.bytes.range(from..to).copied().collect())
        };
        std::iter::from_fn(before).take(most).collect()
    }

    /// All records, the oldest first.
    pub(crate) fn records(&mut self) -> Records<'_> {
        Records(self.bytes.make_contiguous())
    }

    /// How many bytes it takes.
    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        self.bytes.capacity()
    }

    fn drop_oldest(&mut self) {
        let size = self.length_at(0).saturating_add(2 * MARK);
        self.bytes.drain(..size.min(self.bytes.len()));
    }

    /// The length that stands at this place.
    fn length_at(&self, at: usize) -> usize {
        let mark = [0, 1, 2, 3].map(|byte| self.bytes.get(at + byte).copied().unwrap_or_default());
        usize::try_from(u32::from_le_bytes(mark)).unwrap_or(usize::MAX)
    }
}

/// The records of a ring.
pub(crate) struct Records<'r>(&'r [u8]);

impl<'r> Iterator for Records<'r> {
    type Item = &'r [u8];

    fn next(&mut self) -> Option<&'r [u8]> {
        let (mark, rest) = self.0.split_first_chunk::<MARK>()?;
        let length = usize::try_from(u32::from_le_bytes(*mark)).ok()?;
        let (record, rest) = rest.split_at_checked(length)?;
        self.0 = rest.get(MARK..)?;
        Some(record)
    }
}

/// What a record about an object begins with: its kind, namespace and name.
#[derive(Serialize, Deserialize)]
pub(crate) struct Head<'a>(
    #[serde(borrow)] pub(crate) Cow<'a, str>,
    #[serde(borrow)] pub(crate) Cow<'a, str>,
    #[serde(borrow)] pub(crate) Cow<'a, str>,
);

impl<'a> Head<'a> {
    /// That of an object.
    pub(crate) fn of(kind: &'a str, namespace: &'a str, name: &'a str) -> Self {
        Self(kind.into(), namespace.into(), name.into())
    }

    /// Whether it is that of this object.
    pub(crate) fn is_of(&self, kind: &str, key: &ObjectKey) -> bool {
        self.0 == kind && *self.1 == *key.namespace && *self.2 == *key.name
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Contract: FR-01
    #[test]
    fn the_oldest_make_room_and_the_bytes_are_bounded() {
        let mut ring = Ring::new(56);
        for number in 0..100_u8 {
            ring.push(&[number; 6]);
            assert!(ring.bytes.len() <= 56 && ring.bytes.capacity() <= 56);
        }
        let kept: Vec<u8> = ring.records().map(|record| record[0]).collect();
        assert_eq!(kept, [96, 97, 98, 99]);
        ring.push(&[0; 49]);
        assert_eq!(ring.records().count(), 4, "what is too long is not kept");
        ring.push(&[1; 48]);
        assert_eq!(ring.records().map(<[u8]>::len).collect::<Vec<_>>(), [48]);
        ring.push(&[]);
        assert_eq!(ring.records().map(<[u8]>::len).collect::<Vec<_>>(), [0]);
        let mut none = Ring::new(0);
        none.push(&[]);
        assert_eq!(none.records().count(), 0);
    }

    proptest! {
        #[test]
        fn the_last_are_the_end_of_all(lengths in prop::collection::vec(0_usize..30, 0..50), limit in 0_usize..300) {
            let mut ring = Ring::new(limit);
            for (number, length) in (0..).zip(lengths) {
                ring.push(&vec![number; length]);
            }
            for most in [0, 1, 3, 50] {
                let last = ring.last(most);
                let mut all: Vec<Vec<u8>> = ring.records().map(<[u8]>::to_vec).collect();
                all.reverse();
                all.truncate(most);
                prop_assert_eq!(last, all);
            }
        }
    }
}
