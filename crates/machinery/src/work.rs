//! Counts what a cache looks at, so that a test can compare the cost of a sync with what changed: one look for each
//! object, and for each group of equal labels or selectors, that a call visits.
//!
//! Compiled only with the feature `work`, for tests. The count is per thread.

#[cfg(feature = "work")]
use std::cell::Cell;

#[cfg(feature = "work")]
thread_local! {
    static LOOKS: Cell<usize> = const { Cell::new(0) };
}

/// Runs `run`, and returns the number of looks into caches and their indexes on this thread with its result.
#[cfg(feature = "work")]
pub fn looks_of<T>(run: impl FnOnce() -> T) -> (usize, T) {
    let before = LOOKS.get();
    let returned = run();
    (LOOKS.get() - before, returned)
}

/// Counts looks.
pub(crate) fn look(looks: usize) {
    #[cfg(feature = "work")]
    LOOKS.set(LOOKS.get() + looks);
    #[cfg(not(feature = "work"))]
    let _ = looks;
}
