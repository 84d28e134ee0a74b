//! `muster-manager`: the controllers for a cluster that is served elsewhere, and nothing else.

use std::process::ExitCode;

use muster_manager::commands::Cli;
use muster_manager::program;

/// musl's allocator, that of the image, takes several times as long.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match program::parse::<Cli>(std::env::args_os()) {
        Ok((cli, ignored)) => cli.command.run(&ignored),
        Err(code) => code,
    }
}
