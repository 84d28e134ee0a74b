//! How the cost of one call compares between a small world and a large one.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// The median time of one call, over a thousand rounds of `calls`.
pub(crate) fn median(calls: u32, mut call: impl FnMut() -> usize) -> Duration {
    let mut times: Vec<Duration> = (0..1_000)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..calls {
                black_box(call());
            }
            start.elapsed() / calls
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// Prints the times of both, their ratio, and the machine's core count.
pub(crate) fn print(what: &str, (small, in_small): (Duration, &str), (large, in_large): (Duration, &str)) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let ratio = large.as_secs_f64() / small.as_secs_f64();
    println!(
        "{what}: {small:?} among {in_small}, {large:?} among {in_large}: ratio {ratio:.2} (target: at most 2), {cores} cores"
    );
}
