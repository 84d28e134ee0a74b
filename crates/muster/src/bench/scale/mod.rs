//! `muster bench scale`: what a pod costs, from a thousand of them to a million.
//!
//! Each size is measured in a process of its own, so that its memory and its CPU are that size's alone.
//!
//! ```text
//!   for each size:  start at rest -> one Deployment rolled alone -> all pods Ready -> the same one rolled among them
//! ```

mod one;
mod plot;

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use muster_cluster::Capacity;
use muster_manager::arguments::{Output, say};
use muster_manager::signals::Signals;
use serde::{Deserialize, Serialize};

use self::one::Figures;
use crate::cli::BenchScale;
use crate::parent::Parent;
use crate::usage;

/// What was found.
#[derive(Debug, Serialize, Deserialize)]
struct Findings {
    /// The cores of this machine.
    cores: usize,
    /// How many pods each Deployment has.
    pods_each: u32,
    /// By size, the smallest first.
    sizes: Vec<Figures>,
}

/// Runs `muster bench scale`.
///
/// # Errors
/// Where the pods are not Ready in time, a size's process ends, or the plot cannot be written.
pub(crate) async fn run(arguments: &BenchScale) -> Result<()> {
    let mut sizes = arguments.pods.clone();
    sizes.sort_unstable();
    sizes.dedup();
    if let Some(size) = sizes.iter().find(|size| *size % arguments.pods_each != 0) {
        bail!("--pods: {size} is no multiple of --pods-each {}", arguments.pods_each);
    }
    if let (Some(nodes), Some(size)) = (arguments.nodes, sizes.last()) {
        let (room, pods) = (u64::from(nodes) * u64::from(Capacity::default().pods), one::at_once(arguments, *size));
        if room < pods {
            bail!(
                "--nodes: {nodes} hold {room} pods; {size}, one Deployment of them being rolled, need room for {pods}"
            );
        }
    }
    // The file is found to be unusable before the hours that what is written to it may take.
    let plot = arguments.svg.as_deref().map(|path| {
        let file = std::fs::File::create(path);
        file.map(|file| (path, file)).with_context(|| format!("--svg {}: cannot be written", path.display()))
    });
    let plot = plot.transpose()?;
    let figures = if arguments.alone {
        // Whoever asked for it, and is gone, has no use for it.
        let parent = Parent::now();
        tokio::select! {
            biased;
            () = parent.gone() => bail!("the process that started this one is gone"),
            figures = one::measure(arguments, sizes[0]) => vec![figures?],
        }
    } else {
        let mut signals = Signals::listen()?;
        let mut figures = Vec::new();
        for (at, size) in sizes.iter().enumerate() {
            eprintln!("{size} pods ({} of {})", at + 1, sizes.len());
            figures.push(signals.during(in_a_process_of_its_own(arguments, *size)).await?);
        }
        figures
    };
    let findings = Findings { cores: usage::cores(), pods_each: arguments.pods_each, sizes: figures };
    if let Some((path, mut file)) = plot {
        let written = std::io::Write::write_all(&mut file, plot::svg(&findings).as_bytes());
        written.with_context(|| format!("--svg {}: cannot be written", path.display()))?;
    }
    match arguments.output {
        Output::Json => say(&format!("{}\n", serde_json::to_string(&findings)?)),
        Output::Text => say(&text(&findings)),
    }
}

/// Measures one size by this program, started anew.
async fn in_a_process_of_its_own(arguments: &BenchScale, size: u32) -> Result<Figures> {
    let program = std::env::current_exe().context("this program's own file")?;
    let mut command = Command::new(program);
    command.args(["bench", "scale", "--alone", "--output", "json", "--pods", &size.to_string()]);
    command.args(["--pods-each", &arguments.pods_each.to_string()]);
    if let Some(nodes) = arguments.nodes {
        command.args(["--nodes", &nodes.to_string()]);
    }
    command.args(["--timeout", &format!("{}s", arguments.timeout.as_secs())]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut command = tokio::process::Command::from(command);
    let output = command.kill_on_drop(true).output().await.with_context(|| format!("{size} pods"))?;
    if !output.status.success() {
        bail!("{size} pods: the process that measures them ended with {}", output.status);
    }
    let mut findings: Findings =
        serde_json::from_slice(&output.stdout).with_context(|| format!("{size} pods: its figures"))?;
    findings.sizes.pop().with_context(|| format!("{size} pods: it told no figures"))
}

fn text(findings: &Findings) -> String {
    let mut out = String::new();
    let Findings { cores, pods_each, sizes } = findings;
    let _ = writeln!(out, "Deployments of {pods_each} pods on an embedded cluster, {cores} cores");
    let _ = writeln!(
        out,
        "{:>9} {:>10} {:>9} {:>10} {:>10} {:>10} {:>9} {:>12} {:>12}",
        "pods", "Ready, s", "pods/s", "CPU us/pod", "KiB/pod", "MiB after", "MiB peak", "rollout, s", "of 1 alone, s"
    );
    for size in sizes {
        let _ = writeln!(
            out,
            "{:>9} {:>10.2} {:>9.0} {:>10.0} {:>10.2} {:>10.0} {:>9.0} {:>12.3} {:>12.3}",
            size.pods,
            size.ready_seconds,
            size.pods_per_second,
            size.cpu_us_per_pod,
            size.kib_per_pod,
            size.resident_mib,
            size.peak_mib,
            size.rollout_seconds,
            size.rollout_alone_seconds
        );
    }
    if let [first, .., last] = &sizes[..] {
        let _ = writeln!(
            out,
            "a pod among {} costs {:.2} times the CPU and {:.2} times the memory of one among {}",
            last.pods,
            last.cpu_us_per_pod / first.cpu_us_per_pod,
            last.kib_per_pod / first.kib_per_pod,
            first.pods
        );
    }
    for size in sizes {
        let _ = writeln!(
            out,
            "among {} pods the rollout of one Deployment takes {:.2} times as long as alone",
            size.pods,
            size.rollout_seconds / size.rollout_alone_seconds
        );
    }
    out
}

/// Whether somebody looks at a terminal.
fn on_a_terminal() -> bool {
    std::io::stderr().is_terminal()
}
