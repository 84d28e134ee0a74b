//! What `muster rollout` takes.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Subcommand};

use crate::cli::{Cli, Output};
use crate::explain::arguments::{home_kubeconfig, parse_namespace};
use crate::explain::target::Target;

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

It works on any cluster, whatever controllers it has. The pace is that of the newest revision's pods that are ready, from
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
    /// A kind and a name, or KIND/NAME; kinds are deployment, replicaset, replicationcontroller (deploy, rs, rc)
    #[arg(required = true, num_args = 1..=2, value_names = ["KIND", "NAME"])]
    words: Vec<String>,

    /// The object's namespace; else the one of the kubeconfig's context
    #[arg(short = 'n', long, value_name = "NAME", value_parser = parse_namespace)]
    pub(super) namespace: Option<String>,

    /// The cluster and who you are in it; else what KUBECONFIG names, else ~/.kube/config, else the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

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

impl Arguments {
    /// The object that is meant.
    ///
    /// # Errors
    /// In the words of the command line, where the kind is not known or the name is none.
    pub(super) fn target(&self) -> Result<Target, clap::Error> {
        Target::of(&self.words).map_err(|said| Cli::command().error(ErrorKind::ValueValidation, said))
    }

    /// The file that is named, or the one that kubectl would take; none leaves it to the environment.
    pub(super) fn kubeconfig(&self) -> Option<PathBuf> {
        home_kubeconfig(self.kubeconfig.as_ref())
    }
}

impl RolloutCommand {
    /// Ends the process with 2 where the arguments cannot be used.
    pub(crate) fn check(&self) {
        let Self::Get(arguments) = self;
        if let Err(error) = arguments.target() {
            error.exit();
        }
    }
}
