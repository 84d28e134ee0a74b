//! The command line: what can be asked, and what `--help` says of it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use muster_cluster::{DelayRange, parse_duration};

use crate::controller_manager::flags::Flags;

const EXAMPLES: &str = "\
Examples:
  # A cluster with three nodes, until Ctrl-C; kubectl finds it by ./muster.kubeconfig
  muster up

  # Bring the manifests of a folder's file to ready and leave it running
  muster up -f examples/web.yaml

  # In a script: exit 0 once everything that was applied is available
  muster up -f examples/web.yaml --until-ready --timeout 30s

  # How many pods a second?
  muster bench replicasets --replicasets 20 --replicas 500";

/// A Kubernetes controller manager with a cluster in its pocket.
#[derive(Debug, Parser)]
#[command(name = "muster", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a cluster in this process: API server, simulated nodes and controllers
    Up(Box<Up>),
    /// Run the controllers for a cluster that is served elsewhere
    #[command(version)]
    ControllerManager(Box<Flags>),
    /// Measure, on an embedded cluster or a real one
    #[command(subcommand)]
    Bench(Bench),
    /// Print the completion script of a shell
    #[command(after_help = "Example:\n  muster completions bash > /etc/bash_completion.d/muster")]
    Completions {
        /// The shell to complete for
        shell: clap_complete::Shell,
    },
}

const UP_EXAMPLES: &str = "\
Examples:
  # A cluster to play with
  muster up
  kubectl --kubeconfig muster.kubeconfig get nodes

  # Apply two files and standard input, wait until their workloads are available, then exit
  cat more.yaml | muster up -f web.yaml -f db.yaml -f - --until-ready --timeout 1m

  # Any free port, ten nodes, pods that start at once
  muster up --listen 127.0.0.1:0 --nodes 10 --pod-startup 0s

  # No controller of ours: run your own controller manager against it
  muster up --controllers ''

The cluster lives in memory and ends with the process.";

/// What `muster up` takes.
#[derive(Debug, Args)]
#[command(after_help = UP_EXAMPLES)]
pub(crate) struct Up {
    /// Apply a manifest (YAML or JSON, any number of documents); `-` is standard input; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// How many simulated nodes the cluster has
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) nodes: u32,

    /// The address the API server listens on; port 0 takes any free port
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443")]
    pub(crate) listen: SocketAddr,

    /// Where to write the kubeconfig (mode 0600)
    #[arg(long, value_name = "FILE", default_value = "muster.kubeconfig")]
    pub(crate) kubeconfig: PathBuf,

    /// Exit 0 once every applied workload has its replicas available
    #[arg(long)]
    pub(crate) until_ready: bool,

    /// How long `--until-ready` waits before it gives up and says why
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    pub(crate) timeout: Duration,

    /// Which controllers run: a comma list of names, `*` for all, `-name` for all but; '' runs none. The names are
    /// those of kube-controller-manager: replicaset-controller, garbage-collector-controller, namespace-controller,
    /// serviceaccount-controller, root-ca-certificate-publisher-controller, and their aliases
    #[arg(long, value_name = "LIST", default_value = "*", allow_hyphen_values = true)]
    pub(crate) controllers: String,

    /// How long a simulated pod takes to become ready: a duration, or a range to draw from
    #[arg(long, value_name = "DURATION|MIN..MAX", default_value = "200ms..800ms")]
    pub(crate) pod_startup: DelayRange,

    /// The longest a deleted pod stays terminating; its own grace period, where that is shorter
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    pub(crate) pod_shutdown: Duration,

    /// Draw names, uids and delays from this seed, so that a run can be repeated; by chance where absent
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Create ReplicaSets and time their pods, beside the same pods created directly
    Replicasets(BenchReplicasets),
}

const BENCH_EXAMPLES: &str = "\
Examples:
  muster bench replicasets --replicasets 20 --replicas 500
  muster bench replicasets --kubeconfig ~/.kube/config --replicasets 2 --replicas 50 --output json

On a cluster named by --kubeconfig it works in a namespace of its own, which it removes; the cluster's
own controllers and nodes do the work there, and the process's CPU and memory are the client's alone.";

/// What `muster bench replicasets` takes.
#[derive(Debug, Args)]
#[command(after_help = BENCH_EXAMPLES)]
pub(crate) struct BenchReplicasets {
    /// How many ReplicaSets
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) replicasets: u32,

    /// How many pods each of them has
    #[arg(long, value_name = "M", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) replicas: u32,

    /// Measure this cluster instead of an embedded one
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// How long an embedded cluster's pods take to become ready
    #[arg(long, value_name = "DURATION|MIN..MAX", default_value = "0s")]
    pub(crate) pod_startup: DelayRange,

    /// How long to wait for all pods to be ready
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    pub(crate) timeout: Duration,

    /// How to print the figures
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
}

/// The forms of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Text,
    /// One JSON object
    Json,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn defaults_are_those_of_the_help() {
        let Cli { command: Command::Up(up) } = Cli::parse_from(["muster", "up"]) else { panic!("up") };
        assert_eq!(up.nodes, 3);
        assert_eq!(up.listen.to_string(), "127.0.0.1:6443");
        assert_eq!(up.pod_startup, DelayRange::new(Duration::from_millis(200), Duration::from_millis(800)));
        assert_eq!(up.controllers, "*");
        assert_eq!(up.seed, None);
    }

    #[test]
    fn an_empty_list_of_controllers_and_a_leading_minus_are_values() {
        for list in ["", "-replicaset", "*,-replicaset"] {
            let Cli { command: Command::Up(up) } = Cli::parse_from(["muster", "up", "--controllers", list]) else {
                panic!("up")
            };
            assert_eq!(up.controllers, list);
        }
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        for bad in [
            vec!["muster", "bench", "replicasets", "--replicas", "0"],
            vec!["muster", "up", "--nodes", "-1"],
            vec!["muster", "up", "--listen", "6443"],
            vec!["muster", "up", "--pod-startup", "5s.."],
            vec!["muster", "up", "--timeout", "soon"],
        ] {
            assert!(Cli::try_parse_from(&bad).is_err(), "{bad:?}");
        }
    }
}
