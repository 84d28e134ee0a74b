//! What this process has used: CPU seconds and peak resident memory, as the operating system counts them.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

/// The CPU seconds, user and system, that the process has used since it started.
pub(crate) fn cpu_seconds() -> f64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| {
        let microseconds = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        microseconds as f64 / 1e6
    })
}

/// The most memory, in MiB, that the process has had resident at once.
pub(crate) fn peak_resident_mib() -> f64 {
    // Linux counts in KiB.
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| usage.max_rss() as f64 / 1024.0)
}

/// The cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_used_something() {
        let before = cpu_seconds();
        let mut sum = 0_u64;
        while cpu_seconds() <= before {
            sum = (0..100_000_u64).fold(sum, u64::wrapping_add);
        }
        assert!(peak_resident_mib() > 1.0, "{sum}");
        assert!(cores() >= 1);
    }
}
