//! What `muster explain` takes.

use std::time::Duration;

use clap::Args;

use super::manager::ManagerFlags;
use super::target::Asked;
use crate::arguments::{Output, parse_some_time};

const EXAMPLES: &str = "\
Examples:
  # Why has the ReplicaSet web not the pods that it should have, and which would go first?
  muster explain rs web

  # What holds the rollout back?
  muster explain deployment/web -n shop

  # For a program: one JSON object, the order in which pods would go
  muster explain rs web -o json | jq -r '.view.replicas.ranking.order[].pod'

  # What the running manager thinks, with what it remembers
  kubectl -n kube-system port-forward deployment/muster-controller-manager 10257 &
  muster explain rs web \\
    --manager https://127.0.0.1:10257 --manager-certificate-authority muster-controller-manager.crt

  # What it did in the last ten minutes, and what it waited for
  muster explain rs web --history --since 10m \\
    --manager https://127.0.0.1:10257 --manager-certificate-authority muster-controller-manager.crt

  # The same of a cluster of muster up, whose server has the controllers in it
  muster explain rs web --history

  # What a shadow would have done with it, beside what the cluster's own controllers did
  muster explain rs web --history \\
    --manager https://127.0.0.1:10257 --manager-certificate-authority muster-controller-manager.crt

  # What it is doing now: informers, queues, expectations, the last syncs
  muster explain --inside \\
    --manager https://127.0.0.1:10257 --manager-certificate-authority muster-controller-manager.crt

Without --manager it lists the namespace and decides for itself, by the same code: expectations, the stale-cache record, \
backoff and queue are a running manager's and not known then. With it, your own token goes to the manager, which asks the \
API server with it whether you may get the object and list the pods of its namespace (for a Deployment its ReplicaSets \
too; for --inside whether you may list all of these kinds in all namespaces), and answers as that does. A client \
certificate cannot be passed on so. --history and --inside without --manager ask the API server, which knows where it is \
one of muster up.

It exits 0 with an explanation, 1 where there is none, and 2 when the arguments cannot be used.";

/// The arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("words", |words| words.required(false).required_unless_present("inside").conflicts_with("inside")))]
pub struct Arguments {
    #[command(flatten)]
    pub(super) asked: Asked,

    /// Tell what its last syncs were instead: their causes, waits, plans and writes. A running manager knows. A shadow
    /// tells what it would have done, beside what the cluster's controllers did
    #[arg(long)]
    pub(super) history: bool,

    /// Tell what a running manager is doing now instead, of all objects
    #[arg(long, conflicts_with_all = ["history", "namespace", "burst_replicas"])]
    pub(super) inside: bool,

    /// Of them only those of this last time
    #[arg(long, value_name = "DURATION", requires = "history", value_parser = parse_some_time)]
    pub(super) since: Option<Duration>,

    /// How to print it
    #[arg(short = 'o', long, value_enum, default_value_t = Output::Text, value_name = "FORMAT")]
    pub(super) output: Output,

    /// How many pods one sync of the manager creates or deletes at most; a manager that is asked knows
    #[arg(
        long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with = "manager"
    )]
    pub(super) burst_replicas: u32,

    #[command(flatten)]
    pub(super) running: ManagerFlags,
}

impl Arguments {
    /// Ends the process with 2 where the arguments cannot be used.
    pub fn check(&self) {
        if !self.inside {
            self.asked.check();
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::commands::{Cli, Command};

    fn parsed(arguments: &[&str]) -> Result<Box<Arguments>, clap::Error> {
        match Cli::try_parse_from([&["muster", "explain"], arguments].concat())?.command {
            Command::Explain(arguments) => Ok(arguments),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_object_is_named_in_one_word_or_two() {
        for words in [&["rs", "web"][..], &["rs/web"], &["rs/web", "-n", "shop"], &["-o", "json", "rs", "web"]] {
            assert_eq!(parsed(words).unwrap().asked.target().unwrap().name, "web", "{words:?}");
        }
        let error = parsed(&["pod/web"]).unwrap().asked.target().unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("replicasets, replicaset, rs"), "{error}");
    }

    #[test]
    fn of_all_objects_none_is_named() {
        assert!(parsed(&["--inside"]).unwrap().inside);
        for words in [&["--inside", "rs/web"][..], &["--inside", "--history"], &["--inside", "-n", "shop"], &[]] {
            assert_eq!(parsed(words).unwrap_err().exit_code(), 2, "{words:?}");
        }
    }

    #[test]
    fn a_history_of_no_time_is_refused_with_what_is_expected() {
        let since = |time: &str| parsed(&["rs/web", "--history", "--since", time]);
        assert_eq!(since("10m").unwrap().since, Some(Duration::from_secs(600)));
        for time in ["0", "0s"] {
            let error = since(time).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{time}");
            assert!(error.to_string().contains("expected a duration longer than 0"), "{error}");
        }
    }

    #[test]
    fn a_token_never_goes_in_the_clear() {
        for url in ["http://127.0.0.1:10257", "127.0.0.1:10257", "https://"] {
            assert!(parsed(&["rs/web", "--manager", url]).is_err(), "{url}");
        }
        assert!(parsed(&["rs/web", "--manager", "https://127.0.0.1:10257"]).is_ok());
        assert!(parsed(&["rs/web", "--manager-server-name", "localhost"]).is_err(), "of no manager");
    }
}
