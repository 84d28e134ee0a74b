//! A cluster on disk: writes a second with and without syncs, and how long it takes to open many objects.
//!
//!     cargo bench -p muster-apiserver --features disk --bench disk
//!
//! `MUSTER_BENCH_DIR` names the folder to measure in, where the temporary one is in memory.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use muster_apiserver::disk::Folder;
use muster_apiserver::{ApiServer, Kept, Options};
use serde_json::json;

/// How many objects are opened.
const OBJECTS: u64 = 100_000;
/// How long each figure is measured.
const MEASURED: Duration = Duration::from_secs(3);

fn main() {
    let parent = std::env::var_os("MUSTER_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let parent = parent.join(format!("muster-bench-{}", std::process::id()));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{cores} cores, {}", parent.display());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    for (syncs, said) in [(true, "with fsync"), (false, "--no-fsync")] {
        for clients in [1, 16, 256] {
            let server = open(&parent.join(format!("{syncs}-{clients}")), syncs);
            let writes = runtime.block_on(measure(&server, clients));
            println!("{said}, {clients} clients: {writes:.0} writes/s");
            server.let_go_of_disk();
        }
    }
    let memory = ApiServer::new(Options::system().expect("randomness"));
    println!("in memory, 16 clients: {:.0} writes/s", runtime.block_on(measure(&memory, 16)));

    let folder = parent.join("many");
    let server = open(&folder, false);
    runtime.block_on(fill(&server));
    server.let_go_of_disk();
    drop(server);
    let length = folder.join("state.redb").metadata().map_or(0, |file| file.len()) >> 20;
    for round in ["first", "second"] {
        let begun = Instant::now();
        let server = open(&folder, true);
        println!("{OBJECTS} objects of 2 KiB, {length} MiB, opened in {:?} ({round})", begun.elapsed());
        server.let_go_of_disk();
    }
    // What cannot be removed is in a temporary folder.
    let _ = std::fs::remove_dir_all(&parent);
    let _ = std::io::stdout().flush();
}

fn open(path: &Path, syncs: bool) -> ApiServer {
    let (folder, engine, contents) = Folder::open(path, syncs).expect("a folder");
    let kept = Kept {
        version: contents.version,
        stored: contents.stored,
        identity: Some(folder.identity.clone()),
        disk: Some(Box::new(engine)),
        held: false,
    };
    ApiServer::resume(Options::system().expect("randomness"), kept).expect("a server")
}

/// Creates one object of about 2 KiB.
async fn create(server: &ApiServer, name: String) {
    let body = json!({
        "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": {"text": "x".repeat(1750)},
    });
    let request = Request::post("/api/v1/namespaces/default/configmaps")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())));
    let answer = server.service().answer(request.expect("a request")).await;
    assert_eq!(answer.status(), 201);
}

async fn measure(server: &ApiServer, clients: u64) -> f64 {
    let (done, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let begun = Instant::now();
    let tasks = (0..clients).map(|client| {
        let (server, done, ends) = (server.clone(), Arc::clone(&done), Arc::clone(&ends));
        tokio::spawn(async move {
            let mut at = 0_u64;
            while !ends.load(Ordering::Relaxed) {
                create(&server, format!("c{client}-{at}")).await;
                // In memory nothing is waited for, and the clock would not go on.
                tokio::task::yield_now().await;
                at += 1;
                done.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    tokio::time::sleep(MEASURED).await;
    let (done, seconds) = (done.load(Ordering::Relaxed), begun.elapsed().as_secs_f64());
    ends.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("no panic");
    }
    // Figures of a few thousands.
    #[allow(clippy::cast_precision_loss)]
    let done = done as f64;
    done / seconds
}

async fn fill(server: &ApiServer) {
    let clients = 64;
    let tasks = (0..clients).map(|client| {
        let server = server.clone();
        tokio::spawn(async move {
            for at in (client..OBJECTS).step_by(usize::try_from(clients).unwrap_or(1)) {
                create(&server, format!("o-{at:06}")).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
}
