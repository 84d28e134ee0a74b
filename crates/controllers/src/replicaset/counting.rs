//! Counting: how many pods are there, and how many are to be made or taken away.

use std::cmp::Ordering;

/// How many pods one sync creates or deletes at most (`--burst-replicas`), unless told otherwise.
///
/// The rest waits until the watch has shown these: a bound on what one wrong decision can do.
pub const BURST_REPLICAS: u32 = 500;

/// What is to be done about the number of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// So many more are wanted (RS-09), at least 1.
    Create(u32),
    /// So many are too many (RS-13), at least 1.
    Delete(u32),
    /// As many as wanted.
    Nothing,
}

impl Need {
    /// Compares what is there with what is wanted, cut at the burst.
    ///
    /// Returns the need, and whether it was cut.
    #[must_use]
    pub fn of(active: usize, replicas: i32, burst: u32) -> (Self, bool) {
        // Wide enough for any count of pods in memory and any int32.
        let active = i128::try_from(active).unwrap_or(i128::MAX);
        let missing = i128::from(replicas) - active;
        let size = u32::try_from(missing.unsigned_abs()).unwrap_or(u32::MAX);
        let cut = size > burst;
        let size = size.min(burst);
        let need = match missing.cmp(&0) {
            _ if size == 0 => Self::Nothing,
            Ordering::Greater => Self::Create(size),
            Ordering::Less => Self::Delete(size),
            Ordering::Equal => Self::Nothing,
        };
        (need, cut)
    }
}
