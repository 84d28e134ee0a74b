//! `muster`: a Kubernetes controller manager with a cluster in its pocket.
//!
//! This crate is thin: the command line, the wiring, and what a person sees. What it wires is in the
//! other crates; see ARCHITECTURE.md.

mod answers;
mod apply;
mod bench;
mod cli;
mod data;
mod embedded;
mod envtest;
mod export;
mod faults;
mod follow;
mod kubeconfig;
mod manifest;
mod page;
mod parent;
mod progress;
mod reason;
mod requests;
mod rollout;
mod simulate;
mod snapshot;
mod tree;
mod up;
mod usage;
mod workload;

use std::process::ExitCode;

use clap::CommandFactory as _;
use muster_manager::arguments::say;
use muster_manager::program;

use crate::cli::{Bench, Cli, Command};

/// A quarter of the embedded cluster's CPU is spent on small allocations, which come and go on several threads: the system's
/// allocator takes a tenth longer for the same work.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let called: Vec<_> = std::env::args_os().collect();
    if let Some(program) = envtest::Program::called(&called) {
        return program.main(called);
    }
    let (cli, ignored) = match program::parse::<Cli>(called) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    match &cli.command {
        Command::Manager(command) => return command.run(&ignored),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "muster", &mut script);
            return program::told(say(&String::from_utf8_lossy(&script)));
        }
        Command::Simulate(arguments) => {
            // What warns of faults is what is asked for.
            if std::env::var_os("RUST_LOG").is_some() {
                program::log_warnings();
            }
            return simulate::run(arguments);
        }
        Command::Rollout(command) => command.check(),
        _ => {}
    }
    program::log_warnings();
    program::run(tokio::runtime::Builder::new_multi_thread(), async {
        match &cli.command {
            Command::Up(arguments) => up::up(arguments).await,
            Command::Rollout(command) => tree::run(command).await,
            Command::Page(arguments) => page::run(arguments).await,
            Command::Bench(Bench::Replicasets(arguments)) => bench::replicasets::run(arguments).await,
            Command::Bench(Bench::Rollouts(arguments)) => bench::rollouts::run(arguments).await,
            Command::Bench(Bench::Scale(arguments)) => bench::scale::run(arguments).await,
            Command::Bench(Bench::Manager(arguments)) => bench::manager::run(arguments).await,
            Command::Envtest(arguments) => envtest::install::install(arguments),
            Command::Faults(command) => faults::run(command).await,
            Command::Snapshot(command) => snapshot::run(command).await,
            Command::Export(arguments) => export::run(arguments).await,
            Command::Manager(_) | Command::Simulate(_) | Command::Completions { .. } => Ok(()),
        }
    })
}
