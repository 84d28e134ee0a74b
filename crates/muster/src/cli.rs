//! The command line: what can be asked, and what `--help` says of it.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};
use muster_manager::arguments::{Concurrency, Output};

use muster_apiserver::webhook::hosts::ServiceHost;
use muster_cluster::DelayRange;
use muster_runtime::duration::parse_duration;

use crate::bench::manager::arguments::BenchManager;
use crate::data::DataFlags;
use crate::envtest::install::Envtest;
use crate::export::Export;
use crate::faults::FaultsCommand;
use crate::page::{PageArguments, PageFlags};
use crate::simulate::Simulate;
use crate::snapshot::SnapshotCommand;
use crate::tree::RolloutCommand;

const EXAMPLES: &str = "\
Examples:
  # A cluster with three nodes, until Ctrl-C; kubectl finds it by ./muster.kubeconfig
  muster up

  # Bring the manifests of a folder's file to ready and leave it running
  muster up -f examples/web.yaml

  # In a script: exit 0 once everything that was applied is available
  muster up -f examples/web.yaml --until-ready --timeout 30s

  # Why does the rollout not go on? What would a controller do next?
  muster explain deployment/web

  # How far is the rollout, how fast does it go, and what is in its way?
  muster rollout get deployment/web --watch

  # Would it do what kube-controller-manager does? Watch, write nothing, compare
  muster controller-manager --kubeconfig admin.conf --shadow --shadow-log agreement.jsonl
  muster shadow report agreement.jsonl

  # How many pods, how many rollouts a second?
  muster bench replicasets --replicasets 20 --replicas 500
  muster bench rollouts --deployments 100 --replicas 10";

/// A Kubernetes controller manager with a cluster in its pocket.
#[derive(Debug, Parser)]
#[command(name = "muster", version, after_help = EXAMPLES, term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a cluster in this process: API server, simulated nodes and controllers
    Up(Box<Up>),
    #[command(flatten)]
    Manager(muster_manager::commands::Command),
    /// Look at a rollout: its revisions, ReplicaSets and pods, its bounds and its pace
    #[command(subcommand, after_help = "Example:\n  muster rollout get deployment/web --watch")]
    Rollout(RolloutCommand),
    /// Serve a page about a cluster for a browser on this machine; of an embedded one `up --page` does
    Page(PageArguments),
    /// Make a folder of programs for KUBEBUILDER_ASSETS, with which the test suites of Go operators run on this server
    Envtest(Envtest),
    /// Make a cluster of `muster up` fail, to see what its controllers do: stale caches, broken watches, a failover
    #[command(subcommand)]
    Faults(FaultsCommand),
    /// Play many histories of a cluster in virtual time, with users and faults from a seed, and judge each
    Simulate(Simulate),
    /// Save a cluster of `muster up` into a file, and bring it back
    #[command(subcommand, after_help = SNAPSHOT_EXAMPLES)]
    Snapshot(SnapshotCommand),
    /// Print what people made in a cluster, as YAML for another one
    Export(Export),
    /// Measure, on an embedded cluster or a real one
    #[command(subcommand, after_help = ALL_BENCH_EXAMPLES)]
    Bench(Bench),
    /// Print the completion script of a shell
    #[command(after_help = "Example:\n  muster completions bash > /etc/bash_completion.d/muster")]
    Completions {
        /// The shell to complete for
        shell: clap_complete::Shell,
    },
}

const SNAPSHOT_EXAMPLES: &str = "\
Examples:
  muster snapshot save backup.muster
  muster up --from backup.muster";

const ALL_BENCH_EXAMPLES: &str = "\
Examples:
  muster bench replicasets --replicasets 20 --replicas 500
  muster bench rollouts --deployments 100 --replicas 10
  muster bench scale --pods 1000,10000,100000
  muster bench manager --kubeconfig admin.kubeconfig";

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

  # A webhook that runs on this machine, whose configuration names the Service default/hook
  muster up --webhook-service-host default/hook=127.0.0.1:9443

  # For a test suite: a line of JSON once it serves, and no cluster left when the suite is killed
  muster up --listen 127.0.0.1:0 --output json --exit-with-parent

  # A second user, who may do what roles say
  echo s3cret,alice,u1,devs > tokens.csv
  muster up --token-auth-file tokens.csv

  # Watch it in a browser of this machine, or be led through what the controllers do
  muster up -f web.yaml --page
  muster up --page --tour

  # Two managers, of which one leads; kill it, and see the other take over
  muster up --managers 2
  muster faults kill-leader

  # Keep it: the same cluster is there again after the process ends, however it ends
  muster up --data-dir ~/clusters/one

Without --data-dir the cluster lives in memory and ends with the process.";

/// What `muster up` takes.
#[derive(Debug, Args)]
#[command(after_help = UP_EXAMPLES)]
pub(crate) struct Up {
    /// Apply a manifest (YAML or JSON, any number of documents); `-` is standard input; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// How many simulated nodes the cluster has
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub(crate) nodes: u32,

    /// In how many zones they are, by the label topology.kubernetes.io/zone: zone-1 and on, one node after the other; in none where
    /// it is 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) zones: u32,

    /// The address the API server listens on; port 0 takes any free port. Where absent, 127.0.0.1:6443, or the address of
    /// the last start with `--data-dir`
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<SocketAddr>,

    /// Where to write the kubeconfig (mode 0600). One of an earlier `muster up` that has ended is replaced; any other file is
    /// not
    #[arg(long, value_name = "FILE", default_value = "muster.kubeconfig")]
    pub(crate) kubeconfig: PathBuf,

    /// Exit 0 once every applied workload has its replicas available, a Deployment those of its newest template; exit 1
    /// when a rollout exceeds its progress deadline
    #[arg(long)]
    pub(crate) until_ready: bool,

    /// How long `--until-ready` waits before it gives up and says why
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    pub(crate) timeout: Duration,

    /// Which controllers run: a comma list of names, `*` for all, `-name` for all but; '' runs none. The names are
    /// those of kube-controller-manager: deployment-controller, replicaset-controller,
    /// replicationcontroller-controller, garbage-collector-controller, namespace-controller, serviceaccount-controller,
    /// root-ca-certificate-publisher-controller, endpoints-controller, endpointslice-controller,
    /// endpointslice-mirroring-controller, service-cidr-controller, disruption-controller, resourcequota-controller,
    /// certificatesigningrequest-signing-controller, certificatesigningrequest-approving-controller,
    /// certificatesigningrequest-cleaner-controller, clusterrole-aggregation-controller,
    /// persistentvolume-binder-controller, persistentvolume-protection-controller,
    /// persistentvolumeclaim-protection-controller, ephemeral-volume-controller, serviceaccount-token-controller, and
    /// their aliases
    #[arg(long, value_name = "LIST", default_value = "*", allow_hyphen_values = true)]
    pub(crate) controllers: String,

    #[command(flatten)]
    pub(crate) concurrency: Concurrency,

    /// How many managers run the controllers of Deployments, ReplicaSets and ReplicationControllers, 1 to 5; where absent 1,
    /// and with `--tour` 2. Of several one leads, by the Lease kube-system/muster-controller-manager. It lasts 3 s instead of Kubernetes' 15 s: a leader that
    /// `muster faults kill-leader` kills is followed within some 4 s
    #[arg(long, value_name = "N", value_parser = parse_managers)]
    pub(crate) managers: Option<NonZeroUsize>,

    /// How long a simulated pod takes to become ready: a duration, or a range to draw from
    #[arg(long, value_name = "DURATION|MIN..MAX", default_value = "200ms..800ms")]
    pub(crate) pod_startup: DelayRange,

    /// The longest a deleted pod stays terminating; its own grace period, where that is shorter
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    pub(crate) pod_shutdown: Duration,

    /// How long the API server keeps past versions, for watches that resume and lists that go on; who comes later with
    /// one is told 410 and lists anew
    #[arg(long, value_name = "DURATION", default_value = "330s", value_parser = parse_duration)]
    pub(crate) history: Duration,

    /// How many bytes of past versions it keeps at most, however short a time that is; at least 1048576
    #[arg(long, value_name = "BYTES", default_value_t = 512 << 20, value_parser = parse_history_bytes)]
    pub(crate) history_bytes: usize,

    #[command(flatten)]
    pub(crate) data: DataFlags,

    /// Which requests are allowed: those that roles and bindings allow, or all that come with a credential
    #[arg(long, value_enum, value_name = "MODE", default_value_t = AuthorizationMode::Rbac)]
    pub(crate) authorization_mode: AuthorizationMode,

    /// A file of bearer tokens to accept besides that of the kubeconfig, one `token,user,uid,"group1,group2"` a line
    #[arg(long, value_name = "FILE")]
    pub(crate) token_auth_file: Option<PathBuf>,

    /// Where the webhook of a Service is, in place of the Service's endpoints: for one that runs outside of the cluster; may
    /// be repeated
    #[arg(long = "webhook-service-host", value_name = "NAMESPACE/NAME=HOST:PORT")]
    pub(crate) webhook_hosts: Vec<ServiceHost>,

    /// Draw names, uids and delays from this seed; by chance where absent. What runs at the same time draws in the order in
    /// which it comes, so that a run repeats where only one client writes (`--controllers '' --nodes 0`); what repeats with
    /// controllers, in virtual time, is `muster simulate`
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Strike whoever comes over HTTP with the faults of this file or preset; `muster faults` changes them while it runs
    #[arg(long, value_name = "FILE|PRESET")]
    pub(crate) faults: Option<String>,

    /// Write each strike of a fault into this file, as a line of JSON; one that is there is replaced
    #[arg(long, value_name = "FILE")]
    pub(crate) faults_log: Option<PathBuf>,

    /// What standard output is for: people, or programs, for whom it has one JSON object a line and nothing else: first
    /// `ready`, with kubeconfig, url, ca, token and pid (with `--until-ready` once all is available, with the workloads),
    /// then what happens
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,

    /// End when the process that started this one is gone, however it ended
    #[arg(long)]
    pub(crate) exit_with_parent: bool,

    #[command(flatten)]
    pub(crate) page: PageFlags,
}

/// Which requests are allowed, as kube-apiserver spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuthorizationMode {
    /// What roles and bindings allow
    #[value(name = "RBAC")]
    Rbac,
    /// All that come with a credential
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
}

/// What is less than one large object would end every watch with every write.
fn parse_history_bytes(text: &str) -> Result<usize, String> {
    let least = 1 << 20;
    match text.parse::<usize>() {
        Ok(bytes) if bytes >= least => Ok(bytes),
        _ => Err(format!("found {text:?}, expected a number of bytes from {least} up")),
    }
}

/// More would show nothing else, and each has caches of its own.
fn parse_managers(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse().ok().filter(|number: &NonZeroUsize| number.get() <= 5);
    number.ok_or_else(|| "expected a whole number, 1 to 5".to_owned())
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Create ReplicaSets and time their pods, beside the same pods created directly
    Replicasets(BenchReplicasets),
    /// Roll Deployments to new images, and count what it takes
    Rollouts(BenchRollouts),
    /// Bring up more and more pods, and tell what one costs: time, CPU, memory
    Scale(BenchScale),
    /// Run managers one after another against a cluster, and measure their CPU, memory and time
    Manager(Box<BenchManager>),
}

const BENCH_EXAMPLES: &str = "\
Examples:
  muster bench replicasets --replicasets 20 --replicas 500
  muster bench replicasets --kubeconfig ~/.kube/config --replicasets 2 --replicas 50 --output json

On a cluster named by --kubeconfig it works in a namespace of its own, which it removes; the cluster's \
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

const BENCH_ROLLOUTS_EXAMPLES: &str = "\
Examples:
  muster bench rollouts --deployments 100 --replicas 10
  muster bench rollouts --deployments 50 --replicas 10 --rollouts 20 --pod-startup 10ms..200ms
  muster bench rollouts --deployments 10 --replicas 100 --output json

It works on an embedded cluster. Requests are counted in front of its API server: those of the controllers by \
what they are for, those of scheduler and nodes apart. An independent watcher holds every moment of every \
rollout against the Deployment's bounds (25%): pods available, and pods that its ReplicaSets want together; \
exit 1 where a bound was left.";

/// What `muster bench rollouts` takes.
#[derive(Debug, Args)]
#[command(after_help = BENCH_ROLLOUTS_EXAMPLES)]
pub(crate) struct BenchRollouts {
    /// How many Deployments
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) deployments: u32,

    /// How many pods each of them has
    #[arg(long, value_name = "M", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) replicas: u32,

    /// How often each of them is rolled to a new image
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rollouts: u32,

    /// How long pods take to become ready
    #[arg(long, value_name = "DURATION|MIN..MAX", default_value = "0s")]
    pub(crate) pod_startup: DelayRange,

    /// How long to wait for all Deployments to be complete, after their creation and after each round of rollouts
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    pub(crate) timeout: Duration,

    /// How to print the figures
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
}

const BENCH_SCALE_EXAMPLES: &str = "\
Examples:
  muster bench scale
  muster bench scale --pods 1000,10000,100000,1000000 --svg scale.svg
  muster bench scale --pods 200000 --nodes 60
  muster bench scale --pods 50000 --pods-each 1 --output json

Each size is an embedded cluster in a process of its own. A pod costs 5 to 13 KiB; a million of them, many \
minutes.";

/// What `muster bench scale` takes.
#[derive(Debug, Args)]
#[command(after_help = BENCH_SCALE_EXAMPLES)]
pub(crate) struct BenchScale {
    /// How many pods: sizes with commas between them
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1000,10000,100000",
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) pods: Vec<u32>,

    /// How many of them each Deployment has
    #[arg(long, value_name = "M", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) pods_each: u32,

    /// How many simulated nodes; by default as many as hold the pods
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) nodes: Option<u32>,

    /// Draw the figures into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// How long to wait for the Deployments of one size to be complete
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
    pub(crate) timeout: Duration,

    /// How to print the figures
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,

    /// Measure the first size in this process
    #[arg(long, hide = true)]
    pub(crate) alone: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// A line that is wrapped cannot be copied.
    #[test]
    fn every_command_has_examples_that_are_not_wrapped() {
        fn look(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Example"), "{path}");
            for line in after.lines().filter(|line| line.starts_with("  ")) {
                assert!(line.len() <= 100, "{path}: {line}");
            }
            // A paragraph is one line, which is wrapped where it is printed.
            let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
            for (line, next) in after.lines().zip(after.lines().skip(1)) {
                assert!(!is_prose(line) || !is_prose(next), "{path}: {line}");
            }
            command.get_subcommands().for_each(|command| look(command, &path));
        }
        look(&Cli::command(), "");
    }

    #[test]
    fn defaults_are_those_of_the_help() {
        let Cli { command: Command::Up(up) } = Cli::parse_from(["muster", "up"]) else { panic!("up") };
        assert_eq!(up.nodes, 3);
        assert_eq!(up.listen, None);
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

    /// Contract: CM-02
    #[test]
    fn concurrency_is_five_each_and_never_none() {
        let concurrency = |flags: &[&str]| {
            let Cli { command: Command::Up(up) } = Cli::try_parse_from([&["muster", "up"], flags].concat())? else {
                panic!("up")
            };
            let Concurrency { deployments, replicasets, replicationcontrollers } = up.concurrency;
            Ok::<_, clap::Error>([deployments, replicasets, replicationcontrollers].map(NonZeroUsize::get))
        };
        assert_eq!(concurrency(&[]).unwrap(), [5, 5, 5]);
        let flags = ["--concurrent-deployment-syncs=1", "--concurrent-replicaset-syncs=2", "--concurrent-rc-syncs=3"];
        assert_eq!(concurrency(&flags).unwrap(), [1, 2, 3]);
        assert_eq!(concurrency(&["--concurrent_rc_syncs", "7"]).unwrap(), [5, 5, 7]);
        for bad in ["--concurrent-deployment-syncs=0", "--concurrent-replicaset-syncs=-1", "--concurrent-rc-syncs=0"] {
            assert!(concurrency(&[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        for bad in [
            vec!["muster", "bench", "replicasets", "--replicas", "0"],
            vec!["muster", "bench", "rollouts", "--rollouts", "0"],
            vec!["muster", "up", "--nodes", "-1"],
            vec!["muster", "up", "--nodes", "100001"],
            vec!["muster", "up", "--concurrent-replicaset-syncs", "10001"],
            vec!["muster", "controller-manager", "--shadow-log", "a.jsonl"],
            vec!["muster", "up", "--listen", "6443"],
            vec!["muster", "up", "--pod-startup", "5s.."],
            vec!["muster", "up", "--timeout", "soon"],
        ] {
            assert!(Cli::try_parse_from(&bad).is_err(), "{bad:?}");
        }
    }
}
