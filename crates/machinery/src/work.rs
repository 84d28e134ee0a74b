//! Counting what a cache looks at, so that a test can hold the cost of a sync against what changed: one look for each
//! object, and for each group of equal labels or selectors, that a call touches, whatever it is looked at for.
//!
//! Compiled in with the feature `work` only, which tests ask for. The count is the calling thread's.

#[cfg(feature = "work")]
use std::cell::Cell;

#[cfg(feature = "work")]
thread_local! {
    static LOOKS: Cell<usize> = const { Cell::new(0) };
}

/// How many looks into caches and their indexes `run` takes on this thread, beside what it returns.
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
