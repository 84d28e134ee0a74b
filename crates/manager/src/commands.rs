//! The commands, and the command line of the program that has only these.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::controller_manager::flags::Flags;
use crate::controller_manager::{self, Ignored};
use crate::explain::{self, Arguments};
use crate::program;
use crate::shadow::ShadowCommand;

const AFTER_HELP: &str = "\
The image has this program as `muster`, which is also the name of the one that has a cluster in it: so the examples \
call it, and those with `muster up` need that one.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the controllers for a cluster that is served elsewhere
    #[command(version)]
    ControllerManager(Box<Flags>),
    /// Say what a controller sees of an object, what it would do next, and by which rule
    Explain(Box<Arguments>),
    /// Look at what `controller-manager --shadow` has seen
    #[command(subcommand, after_help = "Example:\n  muster shadow report agreement.jsonl")]
    Shadow(ShadowCommand),
}

/// Kubernetes' ReplicaSet, ReplicationController and Deployment controllers for a cluster that is served elsewhere.
#[derive(Debug, Parser)]
#[command(name = "muster-manager", version, term_width = 100, after_help = AFTER_HELP)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Command {
    /// Does it, to the end of the process. `ignored` are the settings that were taken out of its arguments.
    #[must_use]
    pub fn run(&self, ignored: &[Ignored]) -> ExitCode {
        // A manager waits for one server nearly all of the time, and several threads would wake one another for each answer.
        let runtime = tokio::runtime::Builder::new_current_thread();
        match self {
            Self::ControllerManager(flags) => {
                flags.start_log();
                match program::outcome(runtime, controller_manager::run(flags, ignored)) {
                    // Who reads a log of JSON reads nothing else.
                    Err(error) if flags.logs_json() => {
                        tracing::error!("{}", program::words(&error));
                        ExitCode::FAILURE
                    }
                    outcome => program::told(outcome),
                }
            }
            Self::Explain(arguments) => {
                arguments.check();
                program::log_warnings();
                program::run(runtime, explain::run(arguments))
            }
            Self::Shadow(ShadowCommand::Report(arguments)) => crate::shadow::report::run(arguments),
        }
    }
}
