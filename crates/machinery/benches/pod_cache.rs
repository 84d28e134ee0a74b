//! Decoding a pod out of JSON and out of protobuf, beside k8s-openapi in the same run, and what a pod costs in
//! the cache.
//!
//! `cargo bench -p muster-machinery --bench pod_cache` prints the times, their ratios, the bytes of
//! a cached pod and the number of cores of the machine.

use std::alloc::System;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, Throughput};
use k8s_openapi::api::core::v1::Pod as FullPod;
use muster_machinery::Cache;
use muster_objects::{Interner, Object, Pod, protobuf::Envelope};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const POD: &[u8] = include_bytes!("../tests/fixtures/pod.json");
/// The same pod as upstream's serializer writes it in protobuf.
const PROTOBUF: &[u8] = include_bytes!("../tests/fixtures/pod.pb");
const PODS: usize = 100_000;
const REPLICA_SETS: usize = 1_000;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    decoding(&mut criterion);
    applying(&mut criterion);
    criterion.final_summary();
    report();
}

fn decoding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode_pod");
    group.throughput(Throughput::Bytes(POD.len() as u64));
    let mut interner = Interner::new();
    // The cache holds what the pods share; here this stands in for it.
    let _shared = Pod::decode(POD, &mut interner);
    group.bench_function("muster", |bencher| {
        bencher.iter(|| Pod::decode(black_box(POD), &mut interner).expect("the fixture is a pod"));
    });
    group.bench_function("muster_protobuf", |bencher| {
        bencher.iter(|| from_protobuf(black_box(PROTOBUF), &mut interner));
    });
    group.bench_function("k8s_openapi", |bencher| {
        bencher.iter(|| serde_json::from_slice::<FullPod>(black_box(POD)).expect("the fixture is a pod"));
    });
    group.finish();
}

fn applying(criterion: &mut Criterion) {
    let mut interner = Interner::new();
    let mut cache = filled(&mut interner);
    let mut version = 10_000_000;
    criterion.bench_function("apply_update_at_100000_pods", |bencher| {
        bencher.iter_batched(
            || {
                version += 1;
                let number = usize::try_from(version).unwrap_or(0) % PODS;
                numbered(number, version, &mut interner)
            },
            |pod| cache.apply(pod),
            BatchSize::SmallInput,
        );
    });
}

/// The figures that the project states, measured against each other in one go.
fn report() {
    let mut interner = Interner::new();
    let shared = Pod::decode(POD, &mut interner).expect("the fixture is a pod");
    assert_eq!(from_protobuf(PROTOBUF, &mut interner), shared, "both forms are of one pod");
    let (mut ours, mut protobuf, mut theirs) = (Duration::MAX, Duration::MAX, Duration::MAX);
    // In turns, so that both see the same machine; the best of the rounds is the least disturbed.
    for _ in 0..20 {
        ours = ours.min(time(|| drop(black_box(Pod::decode(black_box(POD), &mut interner)))));
        protobuf = protobuf.min(time(|| drop(black_box(from_protobuf(black_box(PROTOBUF), &mut interner)))));
        theirs = theirs.min(time(|| drop(black_box(serde_json::from_slice::<FullPod>(black_box(POD))))));
    }
    let region = Region::new(ALLOCATOR);
    let mut fresh = Interner::new();
    let cache = filled(&mut fresh);
    let stats = region.change();
    let bytes = (stats.bytes_allocated - stats.bytes_deallocated) / cache.len();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("machine cores:               {cores}");
    println!("pod size:                    {} bytes", POD.len());
    println!("decode, muster:              {:.2} us", ours.as_secs_f64() * 1e6);
    println!("decode, muster, protobuf:    {:.2} us of {} bytes", protobuf.as_secs_f64() * 1e6, PROTOBUF.len());
    println!("decode, k8s-openapi:         {:.2} us", theirs.as_secs_f64() * 1e6);
    println!("ratio (at most 0.25):        {:.3}", ours.as_secs_f64() / theirs.as_secs_f64());
    println!("protobuf to JSON:            {:.3}", protobuf.as_secs_f64() / ours.as_secs_f64());
    println!("bytes a cached pod (at most 512, at {PODS} pods of {REPLICA_SETS} ReplicaSets): {bytes}");
}

fn from_protobuf(body: &[u8], interner: &mut Interner) -> Pod {
    let decode = Pod::PROTOBUF.expect("pods are read in protobuf");
    decode(Envelope::decode(body).expect("the fixture is an object").message, interner).expect("the fixture is a pod")
}

fn time(mut work: impl FnMut()) -> Duration {
    const TIMES: u32 = 2_000;
    let start = Instant::now();
    for _ in 0..TIMES {
        work();
    }
    start.elapsed() / TIMES
}

fn filled(interner: &mut Interner) -> Cache<Pod> {
    let mut cache = Cache::new();
    for number in 0..PODS {
        cache.apply(numbered(number, 1_000_000 + number as u64, interner));
    }
    cache
}

fn numbered(number: usize, version: u64, interner: &mut Interner) -> Pod {
    let set = number % REPLICA_SETS;
    let json = String::from_utf8_lossy(POD)
        .replace("frontend-7d4b9c6f5d-x2v8k", &format!("frontend-{set:04}-7d4b9c6f5d-{number:05x}"))
        .replace("\"frontend-7d4b9c6f5d\"", &format!("\"frontend-{set:04}-7d4b9c6f5d\""))
        .replace("\"frontend\"", &format!("\"frontend-{set:04}\""))
        .replace("3f2c9c1e-6a54-4d0b-9a3e-0c6a4f6f8f11", &format!("3f2c9c1e-6a54-4d0b-9a3e-{number:012x}"))
        .replace("b7a3c0de-8f2a-4a54-8c1c-2f0e6b1f7d21", &format!("b7a3c0de-8f2a-4a54-8c1c-{set:012x}"))
        .replace("node-0042", &format!("node-{:04}", number % 500))
        .replace("1843211", &version.to_string());
    Pod::decode(json.as_bytes(), interner).expect("the fixture is a pod")
}
