//! What `muster rollout` takes.

use clap::{Args, Subcommand};
use muster_manager::arguments::Output;
use muster_manager::explain::target::Asked;

const EXAMPLES: &str = "\
Examples:
  # How far is the rollout, how fast does it go, and what is in its way?
  muster rollout get deployment/web

  # The same as it changes, until Ctrl-C
  muster rollout get deployment/web --watch -n shop

  # As a plugin of kubectl
  ln -s \"$(command -v muster)\" ~/.local/bin/kubectl-muster
  kubectl muster rollout get deployment/web --watch

  # For a program: a JSON object a line, one for each change
  muster rollout get rs/web --watch -o json

It works on any cluster, whatever controllers it has. The pace is that of the newest revision's pods that are ready, from \
the first that was created to the last that turned ready; times of the API are whole seconds.";

/// What is done with rollouts.
#[derive(Debug, Subcommand)]
pub(crate) enum RolloutCommand {
    /// Show a workload with its revisions, ReplicaSets and pods as a tree, its bounds, its pace and what is in its way
    Get(Arguments),
}

/// The arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) asked: Asked,

    /// Show it again whenever it changes, until Ctrl-C
    #[arg(short = 'w', long)]
    pub(super) watch: bool,

    /// How many pods of each revision are shown, those that something is the matter with first
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(super) pods: usize,

    /// How to print it
    #[arg(short = 'o', long, value_enum, default_value_t = Output::Text, value_name = "FORMAT")]
    pub(super) output: Output,
}

impl RolloutCommand {
    /// Ends the process with 2 where the arguments cannot be used.
    pub(crate) fn check(&self) {
        let Self::Get(arguments) = self;
        arguments.asked.check();
    }
}
