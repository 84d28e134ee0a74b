//! Counting: how many pods to create or to delete.

use std::cmp::Ordering;

/// How many pods one sync creates or deletes at most (`--burst-replicas`), by default.
///
/// The rest waits until the watch has shown these, which bounds the effect of one wrong decision.
pub const BURST_REPLICAS: u32 = 500;

/// How many pods are missing or surplus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// This many are missing (RS-09), at least 1.
    Create(u32),
    /// This many are surplus (RS-13), at least 1.
    Delete(u32),
    /// As many as desired.
    Nothing,
}

impl Need {
    /// Compares the active pods with `replicas`, limited to the burst.
    ///
    /// Returns the need, and whether it was limited.
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
