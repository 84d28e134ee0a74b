//! What a cluster costs: its start, and what it keeps in memory, alone and a thousand at once.
//!
//!     cargo bench -p muster-testing
//!
//! A start is over when its objects are there and its clients can ask; its loops have then still to read what there is,
//! which the second column has in it. Memory is what the process has resident, by `/proc`.

use std::process::Command;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use muster_testing::{Builder, Cluster};

/// How many there are at once.
const AT_ONCE: usize = 1000;
/// How often a start is measured.
const STARTS: usize = 200;
/// With this argument and a number the program tells what a thousand clusters of a kind keep: each kind in a process of its
/// own, for memory that was given back is used again.
const MEMORY: &str = "--memory-of";

/// A cluster, and how it is asked for.
type Kind = (&'static str, fn() -> Builder);

const KINDS: [Kind; 4] = [
    ("as it comes: one node, all controllers", Cluster::builder),
    ("three nodes, all controllers", || Cluster::builder().nodes(3)),
    ("collection, namespaces and workloads, no node", || {
        Cluster::builder().nodes(0).controllers("garbagecollector,namespace,deployment,replicaset")
    }),
    ("the server alone", || Cluster::builder().nodes(0).controllers("")),
];

fn main() {
    let mut arguments = std::env::args().skip(1).skip_while(|argument| argument != MEMORY);
    if let Some(kind) = arguments.nth(1) {
        let (_, builder) = KINDS[kind.parse::<usize>().expect("the number of a kind")];
        println!("{}", at_once(builder));
        return;
    }
    let cores = available_parallelism().map_or(1, usize::from);
    println!("{cores} cores; medians of {STARTS} starts, {AT_ONCE} clusters at once in one process");
    println!("{:<46} {:>9} {:>12} {:>9} {:>12}", "cluster", "start", "first write", "settled", "each of all");
    for (kind, (name, builder)) in KINDS.into_iter().enumerate() {
        let (start, write, settled) = starts(builder);
        println!(
            "{name:<46} {:>6.2} ms {:>9.2} ms {:>6.2} ms {:>8.2} MiB",
            milliseconds(start),
            milliseconds(write),
            milliseconds(settled),
            mebibytes(memory_of(kind)) / AT_ONCE as f64,
        );
    }
}

/// What [`at_once`] says of a kind, in a process of its own.
fn memory_of(kind: usize) -> u64 {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program).args([MEMORY, &kind.to_string()]).output().expect("this program, once more");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// The median time of a start, of a start and a write, and of a start until nothing more is being done.
fn starts(builder: fn() -> Builder) -> (Duration, Duration, Duration) {
    let (mut starts, mut writes, mut rests) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..STARTS {
        runtime().block_on(async {
            let begun = Instant::now();
            let cluster = builder().start().await.expect("a cluster");
            starts.push(begun.elapsed());
            let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
            let mut map = ConfigMap::default();
            map.metadata.name = Some("first".to_owned());
            maps.create(&PostParams::default(), &map).await.expect("a write");
            writes.push(begun.elapsed());
            cluster.settled().await.expect("a cluster at rest");
            rests.push(begun.elapsed());
        });
    }
    (median(starts), median(writes), median(rests))
}

/// What so many take together, at rest. They are dropped in the end.
fn at_once(builder: fn() -> Builder) -> u64 {
    runtime().block_on(async {
        let before = resident();
        let mut clusters = Vec::with_capacity(AT_ONCE);
        for _ in 0..AT_ONCE {
            clusters.push(builder().start().await.expect("a cluster"));
        }
        // All come to rest together.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let took = resident().saturating_sub(before);
        for cluster in &clusters {
            let listed = Api::<ConfigMap>::all(cluster.client()).list(&ListParams::default()).await;
            assert!(listed.is_ok(), "{listed:?}");
        }
        took
    })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Resident memory in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() << 10
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
