//! `muster`: a Kubernetes controller manager with a cluster in its pocket.
//!
//! This crate is thin: the command line, the wiring, and what a person sees. What it wires is in the
//! other crates; see ARCHITECTURE.md.

mod apply;
mod bench;
mod cli;
mod controller_manager;
mod data;
mod embedded;
mod envtest;
mod explain;
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
mod shadow;
mod simulate;
mod snapshot;
mod tree;
mod up;
mod usage;
mod workload;

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use tracing_subscriber::EnvFilter;

use crate::cli::{Bench, Cli, Command};
use crate::shadow::ShadowCommand;

/// A quarter of the embedded cluster's CPU is spent on small allocations, which come and go on several threads: the system's
/// allocator takes a tenth longer for the same work, and musl's, that of the image, several times as long.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The stack of a thread, in bytes. What clients send nests up to 500 deep, and is gone through by recursion; what is not
/// used of it takes no memory.
const STACK: usize = 16 << 20;

fn main() -> ExitCode {
    let called: Vec<_> = std::env::args_os().collect();
    if let Some(program) = envtest::Program::called(&called) {
        return program.main(called);
    }
    let (arguments, ignored) = match controller_manager::arguments::prepare(called) {
        Ok(prepared) => prepared,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::from(2);
        }
    };
    let cli = Cli::parse_from(arguments);
    if let Command::Completions { shell } = &cli.command {
        clap_complete::generate(*shell, &mut Cli::command(), "muster", &mut io::stdout());
        return ExitCode::SUCCESS;
    }
    if let Command::Explain(arguments) = &cli.command {
        arguments.check();
    }
    if let Command::Rollout(command) = &cli.command {
        command.check();
    }
    if let Command::Shadow(ShadowCommand::Report(arguments)) = &cli.command {
        return shadow::report::run(arguments);
    }
    match &cli.command {
        Command::ControllerManager(flags) => flags.start_log(),
        // What warns of faults is what is asked for.
        Command::Simulate(_) if std::env::var_os("RUST_LOG").is_none() => {}
        // Warnings by default; RUST_LOG=info tells what the controllers do.
        _ => {
            let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
            tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
        }
    }

    if let Command::Simulate(arguments) = &cli.command {
        return simulate::run(arguments);
    }
    let mut runtime = match &cli.command {
        // It waits for one server nearly all of the time, and several threads would wake one another for each answer.
        Command::ControllerManager(_) => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = match runtime.enable_all().thread_stack_size(STACK).build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: the runtime cannot be started: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(async {
        match &cli.command {
            Command::Up(arguments) => up::up(arguments).await,
            Command::ControllerManager(flags) => controller_manager::run(flags, &ignored).await,
            Command::Explain(arguments) => explain::run(arguments).await,
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
            Command::Shadow(_) | Command::Simulate(_) | Command::Completions { .. } => Ok(()),
        }
    });
    // What still runs (a watch, a connection) is not waited for.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
