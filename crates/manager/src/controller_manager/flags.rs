//! What `muster controller-manager` takes: the flags that kube-controller-manager has for these controllers, by
//! their names and with their meaning.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{ArgAction, Args, ValueEnum, value_parser};
use http::Uri;
use muster_machinery::election::Config;
use muster_machinery::group::{Config as GroupConfig, MOST_SHARDS};
use muster_runtime::duration::parse_duration;
use muster_runtime::group::ELECTION_NAMESPACE;
use muster_runtime::history::HISTORY_BYTES;

use super::logging::{self, Format};
use crate::arguments::Concurrency;
use crate::shadow::ShadowFlags;

/// The flags.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_override_self = true, next_help_heading = "Controllers")]
pub struct Flags {
    /// Which controllers run: a comma list of names or aliases, `*` for all, `-name` for all but that one
    #[arg(long, value_name = "LIST", default_value = "*", value_delimiter = ',', allow_hyphen_values = true)]
    pub(crate) controllers: Vec<String>,

    #[command(flatten)]
    pub(crate) concurrency: Concurrency,

    /// How many pods one sync creates or deletes at most
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = value_parser!(u32).range(1..))]
    pub(crate) burst_replicas: u32,

    /// How many bytes of what its syncs were, or of what a shadow saw, are kept for `muster explain --history`; 0 for none
    #[arg(long, value_name = "BYTES", default_value_t = HISTORY_BYTES)]
    pub(crate) history_bytes: usize,

    /// Every object is looked at again after this long at the earliest, twice as long at the latest; 0 for never
    #[arg(long, value_name = "DURATION", default_value = "12h", value_parser = parse_duration)]
    pub(crate) min_resync_period: Duration,

    /// How long syncs in flight have to finish, and pending events to be sent, after SIGTERM or SIGINT
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub(crate) controller_shutdown_timeout: Duration,

    /// The cluster and who we are in it; else what KUBECONFIG names, else the pod's service account
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The API server's address, in place of the kubeconfig's
    #[arg(long, value_name = "URL", value_parser = parse_master, help_heading = "Connection")]
    pub(crate) master: Option<Uri>,

    /// The most requests a second, on average; 0 or less leaves it to the server's own fairness
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_qps, allow_negative_numbers = true,
        help_heading = "Connection")]
    pub(crate) kube_api_qps: f64,

    /// The most requests at once under --kube-api-qps
    #[arg(long, value_name = "N", default_value_t = 30, help_heading = "Connection")]
    pub(crate) kube_api_burst: u32,

    /// How pods are asked for, where the server has it; everything else is read and written as JSON
    #[arg(
        long, value_enum, value_name = "TYPE", default_value_t = Content::Protobuf, help_heading = "Connection"
    )]
    pub(crate) kube_api_content_type: Content,

    /// Lead before writing: of several processes with one Lease, one acts and the others stand by
    #[arg(
        long, value_name = "BOOL", default_value = "true", default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set, value_parser = parse_bool, help_heading = "Leader election"
    )]
    pub(crate) leader_elect: bool,

    /// How long a Lease that is not renewed keeps others from leading, in whole seconds
    #[arg(
        long, value_name = "DURATION", default_value = "15s", value_parser = parse_duration,
        help_heading = "Leader election"
    )]
    pub(crate) leader_elect_lease_duration: Duration,

    /// How long the leader goes on without a renewal before it gives up and exits
    #[arg(
        long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration,
        help_heading = "Leader election"
    )]
    pub(crate) leader_elect_renew_deadline: Duration,

    /// How long to wait between two attempts to acquire or renew
    #[arg(
        long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration,
        help_heading = "Leader election"
    )]
    pub(crate) leader_elect_retry_period: Duration,

    /// The kind of the lock
    #[arg(
        long, value_name = "KIND", default_value = "leases", value_parser = ["leases"],
        help_heading = "Leader election"
    )]
    pub(crate) leader_elect_resource_lock: String,

    /// The Lease's name; that of kube-controller-manager is kube-controller-manager
    #[arg(
        long, value_name = "NAME", default_value = "muster-controller-manager", value_parser = parse_name,
        help_heading = "Leader election"
    )]
    pub(crate) leader_elect_resource_name: String,

    /// The Lease's namespace
    #[arg(
        long, value_name = "NAME", default_value = ELECTION_NAMESPACE, value_parser = parse_name,
        help_heading = "Leader election"
    )]
    pub(crate) leader_elect_resource_namespace: String,

    /// Into how many shards the cluster's namespaces are cut, for all processes of a --group to work at once, each for its
    /// own; without it one process leads
    #[arg(
        long, value_name = "N", requires = "group", value_parser = value_parser!(u32).range(1..=i64::from(MOST_SHARDS)),
        conflicts_with = "shadow", help_heading = "Leader election"
    )]
    pub(crate) shards: Option<u32>,

    /// The name of the group of processes that share the cluster
    #[arg(long, value_name = "NAME", requires = "shards", help_heading = "Leader election")]
    pub(crate) group: Option<String>,

    /// The address that /healthz, /livez, /readyz, /metrics and /explain are served on; anybody who reaches it may read
    /// the first four, and have explained what the API server lets him read
    #[arg(long, value_name = "IP", default_value = "0.0.0.0", help_heading = "Health and metrics (HTTPS)")]
    pub(crate) bind_address: IpAddr,

    /// The port that they are served on; 0 serves nothing
    #[arg(long, value_name = "PORT", default_value_t = 10257, help_heading = "Health and metrics (HTTPS)")]
    pub(crate) secure_port: u16,

    /// The certificate to serve with, and those of the authorities between, as PEM; else one signed by itself
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file", help_heading = "Health and metrics (HTTPS)")]
    pub(crate) tls_cert_file: Option<PathBuf>,

    /// The certificate's private key as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file", help_heading = "Health and metrics (HTTPS)")]
    pub(crate) tls_private_key_file: Option<PathBuf>,

    /// A folder to keep a certificate in that is signed by itself, so that it can be verified and stays the same:
    /// muster-controller-manager.crt and .key, made where they are not there; not used with --tls-cert-file
    #[arg(long, value_name = "FOLDER", help_heading = "Health and metrics (HTTPS)")]
    pub(crate) cert_dir: Option<PathBuf>,

    /// The oldest TLS to speak; nothing older than 1.2 is spoken whatever this says
    #[arg(
        long, value_name = "VERSION", default_value = "VersionTLS12",
        value_parser = ["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"],
        help_heading = "Health and metrics (HTTPS)"
    )]
    pub(crate) tls_min_version: String,

    /// How to write the log
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT", help_heading = "Logs")]
    pub(crate) logging_format: Format,

    /// How much to log: 0 what happens, 4 requests and rounds, 6 everything, 8 the libraries too; RUST_LOG overrides it
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0, help_heading = "Logs")]
    pub(crate) verbosity: u8,

    #[command(flatten)]
    pub(crate) shadow: ShadowFlags,

    /// Settings as YAML, by the names of these flags without dashes before; a flag overrides its setting
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    pub(crate) config: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  # Beside kube-controller-manager, which leaves these controllers to us
  # by --controllers=*,-deployment-controller,-replicaset-controller,
  #    -replicationcontroller-controller
  muster controller-manager --kubeconfig /etc/kubernetes/muster-controller-manager.conf

  # Only ReplicaSets, health and metrics on the loopback address only, JSON logs
  muster controller-manager --controllers replicaset --bind-address 127.0.0.1 --logging-format json

  # One of several that share the cluster, all of which work
  muster controller-manager --kubeconfig muster.conf --shards 32 --group main

  # Settings as a file
  printf 'controllers: [replicaset]\\nbind-address: 127.0.0.1\\n' > muster.yaml
  muster controller-manager --config muster.yaml

  # Beside kube-controller-manager with all of its controllers: read, compare, write nothing
  muster controller-manager --kubeconfig admin.conf --shadow --shadow-log agreement.jsonl
  muster shadow report agreement.jsonl

  # Against a cluster to play with, without an election and without an endpoint
  muster up --controllers '*,-deployment,-replicaset,-replicationcontroller' &
  muster controller-manager --kubeconfig muster.kubeconfig --leader-elect=false --secure-port 0

Other flags of kube-controller-manager are accepted with a warning where they are about controllers that do not run \
here, and refused where it would not be safe to ignore them. Names may be written with _ in place of -.

It exits 0 after SIGTERM or SIGINT, once syncs in flight are done, events are sent and the Lease is released; a second \
signal ends it at once. It exits 1 when the Lease is lost or a setting cannot be used, and 2 when the arguments cannot \
be read.";

impl Flags {
    /// Starts the log that the flags ask for.
    pub(crate) fn start_log(&self) {
        logging::start(self.logging_format, self.verbosity);
    }

    /// Whether the log is JSON.
    pub(crate) fn logs_json(&self) -> bool {
        self.logging_format == Format::Json
    }

    /// The group that the flags ask for; `None` for one leader.
    pub(crate) fn group(&self, identity: &str) -> Option<GroupConfig> {
        let (shards, group) = (self.shards?, self.group.clone()?);
        Some(GroupConfig { election: self.election(identity.to_owned()), group, shards })
    }

    /// That the Lease is not one of Kubernetes' own components: its holder keeps the others from running.
    ///
    /// # Errors
    /// Where it is.
    pub(crate) fn check_lease(&self) -> Result<()> {
        const OF_OTHERS: [&str; 3] = ["kube-controller-manager", "kube-scheduler", "cloud-controller-manager"];
        let name = &*self.leader_elect_resource_name;
        if self.leader_elect && self.leader_elect_resource_namespace == "kube-system" && OF_OTHERS.contains(&name) {
            bail!(
                "--leader-elect-resource-name: found {name}, expected a Lease that no other component holds: whoever has \
                 it keeps the other from running at all"
            );
        }
        Ok(())
    }

    /// The election that the flags ask for.
    pub(crate) fn election(&self, identity: String) -> Config {
        Config {
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
            ..Config::new(&self.leader_elect_resource_namespace, &self.leader_elect_resource_name, identity)
        }
    }
}

/// How the API server is asked to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Content {
    /// JSON.
    #[value(name = "application/json")]
    Json,
    /// Protobuf.
    #[value(name = "application/vnd.kubernetes.protobuf")]
    Protobuf,
}

/// A boolean as Go's flags have it.
pub(crate) fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

fn parse_qps(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| "expected a number of requests a second, or 0 or less for no limit".to_owned())
}

fn parse_master(text: &str) -> Result<Uri, String> {
    let uri: Option<Uri> = text.parse().ok();
    let uri = uri.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.authority().is_some());
    uri.ok_or_else(|| "expected an address such as https://10.0.0.1:6443".to_owned())
}

/// The name of an object: what may stand in a path as it is.
pub(crate) fn parse_name(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if (1..=253).contains(&text.len()) && text.chars().all(good) && text.starts_with(ends) && text.ends_with(ends) {
        Ok(text.to_owned())
    } else {
        Err("expected the name of an object: lower case letters, digits, '-' and '.', a letter or digit at each end"
            .to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use muster_runtime::manager::CONCURRENT_SYNCS;

    use super::*;
    use crate::commands::{Cli, Command};

    fn parsed(flags: &[&str]) -> Result<Box<Flags>, clap::Error> {
        match Cli::try_parse_from([&["muster", "controller-manager"], flags].concat())?.command {
            Command::ControllerManager(flags) => Ok(flags),
            other => panic!("{other:?}"),
        }
    }

    /// Contract: CM-01, CM-02, CM-03, CM-04, CM-06, CM-07, B-14
    #[test]
    fn the_defaults_are_the_contracts() {
        let flags = parsed(&[]).unwrap();
        assert_eq!(flags.controllers, ["*"]);
        assert_eq!((flags.concurrency, flags.burst_replicas), (Concurrency::default(), 500));
        assert_eq!(CONCURRENT_SYNCS.get(), 5);
        assert_eq!(flags.kube_api_content_type, Content::Protobuf);
        assert_eq!((flags.kube_api_qps, flags.kube_api_burst), (0.0, 30), "no limit of our own");
        assert_eq!(flags.min_resync_period, Duration::from_secs(12 * 3600));
        assert_eq!(flags.controller_shutdown_timeout, Duration::from_secs(10));
        assert!(flags.leader_elect);
        let expected = Config::new("kube-system", "muster-controller-manager", "me".to_owned());
        assert_eq!(flags.election("me".to_owned()), expected);
        assert_eq!((flags.bind_address.to_string().as_str(), flags.secure_port), ("0.0.0.0", 10257));
        assert_eq!((flags.logging_format, flags.verbosity), (Format::Text, 0));
    }

    #[test]
    fn values_are_written_as_go_has_them() {
        for (flag, expected) in [("--leader-elect", true), ("--leader-elect=F", false), ("--leader-elect=1", true)] {
            assert_eq!(parsed(&[flag]).unwrap().leader_elect, expected, "{flag}");
        }
        for flags in [&["-v", "4"][..], &["-v=4"], &["-v4"], &["--v=4"], &["--v=2", "--v=4"]] {
            assert_eq!(parsed(flags).unwrap().verbosity, 4, "{flags:?}");
        }
        for flags in [&["--controllers=*,-replicaset"][..], &["--controllers", "*", "--controllers", "-replicaset"]] {
            assert_eq!(parsed(flags).unwrap().controllers, ["*", "-replicaset"], "{flags:?}");
        }
        assert!(parsed(&["--controllers="]).unwrap().controllers.join(",").is_empty());
        let unlimited = parsed(&["--kube-api-qps", "-1"]).unwrap();
        assert!(unlimited.kube_api_qps < 0.0);
        let flags = parsed(&["--min-resync-period=1h30m", "--kube-api-qps=20.5", "--bind-address=::1"]).unwrap();
        assert_eq!(flags.min_resync_period, Duration::from_secs(5400));
        assert_eq!((flags.kube_api_qps, flags.bind_address.to_string().as_str()), (20.5, "::1"));
    }
}
