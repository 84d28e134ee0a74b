//! What every test of whole clusters needs: virtual time, seeds, and a client that speaks JSON.
#![allow(dead_code, reason = "each test uses a part")]

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use muster_cluster::DelayRange;
use muster_simulation::Settings;
#[allow(unused_imports, reason = "each test uses a part")]
pub(crate) use muster_simulation::api::{
    Answered, Api, CONTROLLERS, DEPLOYMENTS, EVENTS, PODS, Random, SETS, condition, is_being_deleted, name, number,
    owner, pass,
};
use muster_simulation::weather::{ALL, OTHERS, SILENCE, Weather};

/// The program's: a world allocates all the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The seeds to be tried: `cases` of them unless `MUSTER_CASES` says otherwise, from `MUSTER_SEED` or 1.
pub(crate) fn seeds(cases: u64) -> Vec<u64> {
    let number = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}: found {text:?}, expected a number")),
        Err(_) => default,
    };
    let (first, cases) = (number("MUSTER_SEED", 1), number("MUSTER_CASES", cases));
    assert!(cases > 0, "MUSTER_CASES: found 0, expected at least 1");
    (first..first + cases).collect()
}

/// All weather there is, or the one that `MUSTER_FAULT` names.
pub(crate) fn weather() -> Vec<Weather> {
    match std::env::var("MUSTER_FAULT") {
        Ok(name) => vec![Weather::named(&name).unwrap_or_else(|| panic!("MUSTER_FAULT={name}"))],
        Err(_) => ALL.iter().chain([&SILENCE]).chain(OTHERS).copied().collect(),
    }
}

/// Runs a future to its end in a virtual time of its own, on this thread.
pub(crate) fn in_virtual_time<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

/// What `run` makes of each of the items, in their order, as many at once as there are cores.
pub(crate) fn each<T: Sync, R: Send>(items: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let width = std::thread::available_parallelism().map_or(1, usize::from);
    let mut found: Vec<(usize, R)> = std::thread::scope(|scope| {
        let work = || {
            let mut mine = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(at) else { return mine };
                mine.push((at, run(item)));
            }
        };
        let workers: Vec<_> = (0..width).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.flat_map(|mine| mine.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, result)| result).collect()
}

/// A world whose pods are ready at once and gone at once.
pub(crate) fn at_once(seed: u64) -> Settings {
    Settings { pod_startup: DelayRange::ZERO, pod_shutdown: Duration::ZERO, ..Settings::seeded(seed) }
}
