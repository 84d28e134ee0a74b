//! What is in flight: requests, and the bytes of bodies that are read and of answers that are not yet sent (API-22).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How much there may be at once before further requests are told to come back.
#[derive(Debug)]
pub struct InFlight {
    requests: AtomicUsize,
    most_requests: usize,
    bytes: Arc<AtomicUsize>,
    most_bytes: usize,
}

impl InFlight {
    /// At most so many requests, watches not counted; and so many bytes, beside the request that goes beyond.
    #[must_use]
    pub fn new(most_requests: usize, most_bytes: usize) -> Self {
        Self { requests: AtomicUsize::new(0), most_requests, bytes: Arc::default(), most_bytes }
    }

    /// A place for a request; `None` when there are too many.
    pub(super) fn request(&self) -> Option<Slot<'_>> {
        let before = self.requests.fetch_add(1, Ordering::Relaxed);
        let slot = Slot(self);
        (before < self.most_requests).then_some(slot)
    }

    /// Room for some bytes; `None` when others fill it already. One body alone always has room, whatever its size.
    pub(super) fn bytes(&self, count: usize) -> Option<Hold> {
        let before = self.bytes.fetch_add(count, Ordering::Relaxed);
        let hold = Hold { bytes: Arc::clone(&self.bytes), count };
        (before < self.most_bytes).then_some(hold)
    }
}

/// A place among the requests in flight.
pub(super) struct Slot<'a>(&'a InFlight);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes that are counted for as long as this lives.
#[derive(Debug)]
pub(super) struct Hold {
    bytes: Arc<AtomicUsize>,
    count: usize,
}

impl Hold {
    /// Counts more of the same body.
    pub(super) fn grow(&mut self, more: usize) {
        self.bytes.fetch_add(more, Ordering::Relaxed);
        self.count += more;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.count, Ordering::Relaxed);
    }
}
