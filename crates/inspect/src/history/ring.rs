//! A ring of records in a bounded number of bytes: the oldest make room for new ones.

use std::collections::VecDeque;

/// What is before each record: its length.
const HEAD: usize = size_of::<u32>();

/// Records, the oldest first.
#[derive(Debug)]
pub(super) struct Ring {
    bytes: VecDeque<u8>,
    limit: usize,
}

impl Ring {
    /// Of at most so many bytes, the lengths of the records among them.
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: VecDeque::new(), limit }
    }

    /// Adds a record. One that is longer than the ring is not kept, and nothing is lost for it.
    pub(super) fn push(&mut self, record: &[u8]) {
        let Some(length) = u32::try_from(record.len()).ok().filter(|_| record.len() + HEAD <= self.limit) else {
            return;
        };
        while self.bytes.len() + HEAD + record.len() > self.limit {
            self.drop_oldest();
        }
        // The buffer grows as it is needed, and not beyond the limit.
        let needed = self.bytes.len() + HEAD + record.len();
        if needed > self.bytes.capacity() {
            let more = (needed * 2).min(self.limit) - self.bytes.len();
            self.bytes.reserve_exact(more);
        }
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend(record);
    }

    /// A copy, in one piece.
    pub(super) fn copy(&self) -> Self {
        let (first, second) = self.bytes.as_slices();
        Self { bytes: [first, second].concat().into(), limit: self.limit }
    }

    /// All records, the oldest first.
    pub(super) fn records(&mut self) -> Records<'_> {
        Records(self.bytes.make_contiguous())
    }

    /// How many bytes it takes.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.bytes.capacity()
    }

    fn drop_oldest(&mut self) {
        let head = [0, 1, 2, 3].map(|at| self.bytes.get(at).copied().unwrap_or_default());
        let length = usize::try_from(u32::from_le_bytes(head)).unwrap_or(usize::MAX);
        self.bytes.drain(..HEAD.saturating_add(length).min(self.bytes.len()));
    }
}

/// The records of a ring.
pub(super) struct Records<'r>(&'r [u8]);

impl<'r> Iterator for Records<'r> {
    type Item = &'r [u8];

    fn next(&mut self) -> Option<&'r [u8]> {
        let (head, rest) = self.0.split_first_chunk::<HEAD>()?;
        let length = usize::try_from(u32::from_le_bytes(*head)).ok()?;
        let (record, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: FR-01
    #[test]
    fn the_oldest_make_room_and_the_bytes_are_bounded() {
        let mut ring = Ring::new(40);
        for number in 0..100_u8 {
            ring.push(&[number; 6]);
            assert!(ring.bytes.len() <= 40 && ring.bytes.capacity() <= 40);
        }
        let kept: Vec<u8> = ring.records().map(|record| record[0]).collect();
        assert_eq!(kept, [96, 97, 98, 99]);
        ring.push(&[0; 37]);
        assert_eq!(ring.records().count(), 4, "what is too long is not kept");
        ring.push(&[1; 36]);
        assert_eq!(ring.records().map(<[u8]>::len).collect::<Vec<_>>(), [36]);
        ring.push(&[]);
        assert_eq!(ring.records().map(<[u8]>::len).collect::<Vec<_>>(), [0]);
        let mut none = Ring::new(0);
        none.push(&[]);
        assert_eq!(none.records().count(), 0);
    }
}
