//! Waiting for a state of the cluster, and telling the last one where it does not come.

use std::thread::sleep;
use std::time::Duration;

/// How often is looked before a test gives up, with a pause each time: three minutes at least, on a machine that has
/// much else to do. Looks are counted and not time, which may pass in one leap.
const LOOKS: u32 = 1_800;
const PAUSE: Duration = Duration::from_millis(100);

/// Looks until the answer is good. A bad one says what was found in place of it.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let mut last = String::new();
    for _ in 0..LOOKS {
        match look() {
            Ok(found) => return found,
            Err(found) => last = found,
        }
        sleep(PAUSE);
    }
    panic!("{what} does not come; the last look found: {last}");
}

/// Good where both are equal.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(found: &T, expected: &T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{found:?}, expected {expected:?}")) }
}
