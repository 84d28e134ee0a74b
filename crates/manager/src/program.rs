//! What every program of ours does: its arguments read, its log begun, its work done, and told by its exit code.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;
use tokio::runtime::Builder;

use crate::arguments::visible;
use crate::controller_manager::{Ignored, arguments, logging};

/// The stack of a thread, in bytes. What clients send nests up to 500 deep, and is gone through by recursion; what is not
/// used of it takes no memory.
const STACK: usize = 16 << 20;

/// What is logged where nothing says so. What the crate of the client says is in the errors that it returns.
const WARNINGS: &str = "warn,kube_client=off";

/// The command line of a process, and the settings that were taken out of it. Ends the process where clap does, which is with 2
/// where it cannot be used.
///
/// # Errors
/// The exit code, where kube-controller-manager's arguments cannot be used; why is told on standard error.
pub fn parse<C: Parser>(called: impl IntoIterator<Item = OsString>) -> Result<(C, Vec<Ignored>), ExitCode> {
    match arguments::prepare(called) {
        Ok((arguments, ignored)) => Ok((C::parse_from(arguments), ignored)),
        Err(error) => {
            tell(&error);
            Err(ExitCode::from(2))
        }
    }
}

/// Logs warnings to standard error; `RUST_LOG=info` tells what the controllers do.
pub fn log_warnings() {
    let colors = io::IsTerminal::is_terminal(&io::stderr());
    let log = tracing_subscriber::fmt().log_internal_errors(false);
    let log = log.with_env_filter(logging::filter(WARNINGS)).with_writer(io::stderr);
    log.fmt_fields(logging::fields()).with_ansi(colors).init();
}

/// Does `work`, and tells its error.
#[must_use]
pub fn run(runtime: Builder, work: impl Future<Output = Result<()>>) -> ExitCode {
    told(outcome(runtime, work))
}

/// Does `work`.
pub(crate) fn outcome(mut runtime: Builder, work: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = runtime.enable_all().thread_stack_size(STACK).build().context("the runtime cannot be started")?;
    let outcome = runtime.block_on(work);
    // What still runs (a watch, a connection) is not waited for.
    runtime.shutdown_background();
    outcome
}

/// What some work came to: its error is told on standard error.
#[must_use]
pub fn told(outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&error);
            ExitCode::FAILURE
        }
    }
}

/// Nobody may be there to read it, and the exit code says that it failed.
fn tell(error: &anyhow::Error) {
    let _ = writeln!(io::stderr(), "error: {}", words(error));
}

/// An error with its causes, but for those that it has in its own words.
#[must_use]
pub fn words(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if said.is_empty() {
            said = cause;
        } else if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    // A server's words may be among them.
    visible(&said).into_owned()
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::words;

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow!("no such file").context("kc: cannot be read: no such file").context("nothing was done");
        assert_eq!(words(&error), "nothing was done: kc: cannot be read: no such file");
        assert_eq!(words(&anyhow!("a").context("b")), "b: a");
    }
}
