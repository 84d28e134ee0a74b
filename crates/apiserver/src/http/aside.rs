//! What takes long enough to be kept from delaying others.

use std::sync::Arc;

use crate::storage::Entry;

/// A body of this many bytes may take tens of milliseconds to handle: an apply of thousands of list entries does.
pub(super) const LONG_BODY: usize = 64 << 10;
/// So does a list of this many objects that are not sent as they are stored.
const LONG_LIST: usize = 500;
/// Or of so many bytes.
const LONG_BYTES: usize = 256 << 10;
/// So many of them are made at once, for each takes several times its size meanwhile.
pub(super) const LISTS_AT_ONCE: usize = 2;

/// Whether it takes long to make a list of these objects that are not sent as they are stored.
pub(super) fn is_long(entries: &[Arc<Entry>]) -> bool {
    entries.len() >= LONG_LIST || entries.iter().map(|entry| entry.json().size()).sum::<usize>() >= LONG_BYTES
}
