//! The page with 20,000 pods: how long a view takes to open, how soon a write is seen, what it costs the browser, the
//! server and the controllers. Needs Chromium with its driver, and kubectl.
//!
//! It prints how many cores there are. A write is timed from its answer, by this process's clock, to the change of the page, by
//! the browser's, on the same machine.

#![allow(dead_code, reason = "tests use more of what is shared with them")]

#[path = "../../../tests/page/browser.rs"]
mod browser;
#[path = "../../../tests/page/opened.rs"]
mod opened;
#[path = "../../../tests/outside/mod.rs"]
mod outside;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use opened::Opened;

/// Deployments, and the pods of each.
const DEPLOYMENTS: usize = 20;
const PODS: usize = 1_000;
/// How many Deployments are rolled at once.
const ROLLED: usize = 4;
/// For how long CPU is measured where nothing happens.
const REST: Duration = Duration::from_secs(10);
/// How many writes are timed.
const WRITES: usize = 20;
/// How many pages are open at most.
const TABS: usize = 20;

fn main() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{cores} cores, {} pods of {DEPLOYMENTS} Deployments", DEPLOYMENTS * PODS);
    let page = Opened::start(&["--nodes", "10", "--pod-startup", "0s", "--pod-shutdown", "0s"]);
    page.cluster.kubectl_with(&["create", "-f", "-"], &deployments());
    settled(&page);
    for (view, path, shown) in [
        ("workloads", "/", "li.line"),
        ("rollout", "/rollout/deployments/default/d3", "button.cell"),
        ("inside", "/inside", "li.stage"),
        ("why", "/why/deployments/default/d3", "dl.sync"),
    ] {
        let mut times: Vec<f64> = (0..5).map(|_| opens(&page, path, shown)).collect();
        times.sort_by(f64::total_cmp);
        println!("{view} opens in {:.0} ms, at most {:.0}", times[2], times[4]);
    }
    page.visit("/");
    let mut delays: Vec<i64> = (0..WRITES).map(|at| seen_after(&page, PODS + 1 + at)).collect();
    delays.sort_unstable();
    println!("a write is seen {} ms after its answer, at most {}", delays[WRITES / 2], delays[WRITES - 1]);
    let costs = measure(&page, || sleep(REST));
    println!("at rest: {costs}");
    println!("\n{ROLLED} rollouts of {PODS} pods at once:");
    page.browser.go("about:blank");
    for (name, path, tabs) in [
        ("no page open", "about:blank", 0),
        ("1 page, workloads", "/", 1),
        ("1 page, a rollout", "/rollout/deployments/default/d1", 1),
        ("20 pages", "/", TABS),
        ("no page open", "about:blank", 0),
    ] {
        let first = page.browser.this_tab();
        for at in 0..tabs {
            if at > 0 {
                page.browser.tab();
            }
            page.visit(path);
        }
        if tabs == 0 {
            page.browser.go(path);
        }
        let costs = measure(&page, || roll(&page));
        println!("{name}: {costs}");
        if tabs > 1 {
            page.browser.close_others(&first);
        }
    }
}

fn deployments() -> String {
    let mut yaml = String::new();
    for at in 0..DEPLOYMENTS {
        let _ = write!(
            yaml,
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d{at}}}\nspec:\n  replicas: {PODS}\n  \
             selector: {{matchLabels: {{app: d{at}}}}}\n  template:\n    metadata: {{labels: {{app: d{at}}}}}\n    \
             spec: {{containers: [{{name: c, image: nginx}}]}}\n"
        );
    }
    yaml
}

/// Waits until every Deployment is complete.
fn settled(page: &Opened) {
    page.cluster.kubectl(&["rollout", "status", "deployment/d0", "--timeout=10m"]);
    for at in 1..DEPLOYMENTS {
        page.cluster.kubectl(&["rollout", "status", &format!("deployment/d{at}"), "--timeout=10m"]);
    }
}

/// How long after its navigation began a view shows something, in milliseconds.
fn opens(page: &Opened, path: &str, shown: &str) -> f64 {
    page.browser.go(&format!("{}{path}", page.origin));
    let seen = format!("document.querySelector('{shown}') && (window.seen ??= performance.now())");
    page.browser.until("the view", &seen).as_f64().unwrap_or_default()
}

/// How long after its answer a write is seen, in milliseconds.
fn seen_after(page: &Opened, replicas: usize) -> i64 {
    page.browser.run(&format!(
        "window.seen = null;
         new MutationObserver((_, observer) => {{
             const line = document.getElementById('line-Deployment_default_d5');
             if (line.querySelector('.desired dd').textContent !== '{replicas}') return;
             window.seen = Date.now();
             observer.disconnect();
         }}).observe(document.getElementById('view'), {{ childList: true, subtree: true }});"
    ));
    page.cluster.kubectl(&["scale", "deployment/d5", &format!("--replicas={replicas}")]);
    let answered = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let seen = page.browser.until("the write", "window.seen").as_i64().unwrap_or_default();
    // kubectl takes some milliseconds to end after the answer.
    (seen - i64::try_from(answered).unwrap_or_default()).max(0)
}

fn roll(page: &Opened) {
    let unique = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    for at in 0..ROLLED {
        page.cluster.kubectl(&["set", "image", &format!("deployment/d{at}"), &format!("c=nginx:{unique}")]);
    }
    settled(page);
}

/// The CPU that the browser and the cluster took while something was done, and how long that took.
fn measure(page: &Opened, done: impl FnOnce()) -> String {
    let (before, begun) = (used(), Instant::now());
    done();
    let took = begun.elapsed().as_secs_f64();
    let after = used();
    let mut sums = [0.0, 0.0];
    for (pid, ticks) in after {
        let at = usize::from(pid == page.cluster.id());
        sums[at] += ticks - before.get(&pid).copied().unwrap_or_default();
    }
    let [browser, muster] = sums.map(|seconds| seconds / took * 100.0);
    format!("{took:.1} s, browser {browser:.0} % of a core, muster {muster:.1} %")
}

/// The seconds of CPU that each process below this one has used: the cluster, the driver and its browsers, kubectl left out.
fn used() -> BTreeMap<u32, f64> {
    let mut processes: BTreeMap<u32, (u32, f64)> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((head, tail)) = stat.rsplit_once(") ") else { continue };
        let fields: Vec<&str> = tail.split(' ').collect();
        let Some(pid) = head.split(' ').next().and_then(|pid| pid.parse().ok()) else { continue };
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
        if !head.contains("(kubectl") {
            // Linux counts hundredths of a second.
            processes.insert(pid, (number(1) as u32, (number(11) + number(12)) / 100.0));
        }
    }
    let own = std::process::id();
    let below = |mut pid: u32| loop {
        match processes.get(&pid) {
            Some((parent, _)) if *parent == own => return true,
            Some((parent, _)) if *parent > 1 => pid = *parent,
            _ => return false,
        }
    };
    processes.iter().filter(|(pid, _)| below(**pid)).map(|(pid, (_, seconds))| (*pid, *seconds)).collect()
}
