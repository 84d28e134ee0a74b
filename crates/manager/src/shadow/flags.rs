//! What `muster controller-manager` takes for its shadow mode.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
use muster_inspect::shadow::Options;
use muster_runtime::duration::parse_duration;

use crate::controller_manager::flags::parse_bool;

/// The flags.
#[derive(Debug, Args)]
#[command(next_help_heading = "Shadow")]
pub(crate) struct ShadowFlags {
    /// Watch the cluster's own controllers and compare: read everything, elect nobody, write nothing
    #[arg(
        long, value_name = "BOOL", default_value = "false", default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set, value_parser = parse_bool
    )]
    pub(crate) shadow: bool,

    /// Where the agreement log is appended to, as JSON lines; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "-", requires = "shadow")]
    pub(crate) shadow_log: PathBuf,

    /// How long ago a state may have ended that explains what the cluster's controllers do
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration, requires = "shadow")]
    pub(crate) shadow_lookback: Duration,

    /// How long they may take to do what every state asks for, and six times as long while they are busy otherwise
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration, requires = "shadow")]
    pub(crate) shadow_patience: Duration,

    /// As whom they write, as metadata.managedFields has it: who else scales a ReplicaSet is a user
    #[arg(long, value_name = "NAME", default_value = "kube-controller-manager", requires = "shadow")]
    pub(crate) shadow_manager: String,
}

impl ShadowFlags {
    /// Whether the process is a shadow.
    pub(crate) const fn is_on(&self) -> bool {
        self.shadow
    }

    /// How the two sides are compared.
    pub(crate) fn comparison(&self, kinds: BTreeSet<&'static str>) -> Options {
        Options {
            lookback: self.shadow_lookback,
            patience: self.shadow_patience,
            manager: self.shadow_manager.clone(),
            kinds,
        }
    }
}
