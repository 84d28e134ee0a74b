//! What `muster bench manager` takes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use muster_machinery::group::MOST_SHARDS;
use muster_manager::arguments::Output;
use muster_runtime::duration::parse_duration;

use super::command::Manager;

const EXAMPLES: &str = "\
Examples:
  # This program's controllers against a real API server
  muster bench manager --kubeconfig admin.kubeconfig

  # The same beside kube-controller-manager, which may run nothing else, nor send slowly
  muster bench manager --kubeconfig admin.kubeconfig --manager muster \\
    --manager 'kcm=kube-controller-manager \\
    --kubeconfig {kubeconfig} --leader-elect=false --kube-api-qps=1000 --kube-api-burst=2000 \\
    --controllers=deployment-controller,replicaset-controller,replicationcontroller-controller'

  # Two settings of one program, a small and quick run
  muster up --controllers '' &
  muster bench manager --kubeconfig muster.kubeconfig --phases many,restart --rounds 1 \\
    --replicasets 10 --replicas 20 --cached-pods 500 \\
    --manager 'five=muster controller-manager --kubeconfig {kubeconfig} --leader-elect=false \\
      --secure-port 0' \\
    --manager 'one=muster controller-manager --kubeconfig {kubeconfig} --leader-elect=false \\
      --secure-port 0 --concurrent-replicaset-syncs 1'

  # The program of the image, which has no cluster in it
  muster bench manager --kubeconfig admin.kubeconfig --program target/release/muster-manager

  # Three processes that share the cluster in 16 shards, beside one that leads
  muster bench manager --kubeconfig admin.kubeconfig --shards 16 --members 3

Phases, each with a process of its own that is started for it:
  rest        nothing to do: resident memory, and CPU over a while
  replicaset  the pods of one ReplicaSet, beside as many created directly while the process looks on
  many        many ReplicaSets at once
  rollouts    many Deployments rolled to a new image at once
  restart     start among many pods that are there, until it works and is quiet

With --shards and --members there are no phases: the leader, then all members at once, start among \
--replicasets namespaces of --replicas pods each, and create a tenth more.

CPU and memory are those of the manager's process, as /proc has them: this needs Linux, and managers that \
do not fork. No other process may run these controllers for that cluster. The pods of `rollouts` must turn \
Ready: where the cluster has no nodes, this program simulates some meanwhile. Everything happens in \
namespaces of its own, which it removes in the end, after an interrupt as well.";

/// What `muster bench manager` takes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchManager {
    /// The cluster to measure against, as an administrator
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: PathBuf,

    /// A manager to measure; may be repeated, and they take turns. The command is split as a shell would, and run
    /// without one; {kubeconfig} in it stands for the file, and {muster} for --program. `muster` alone is that, without an
    /// election
    #[arg(long = "manager", value_name = "NAME=COMMAND", default_value = "muster")]
    pub(crate) managers: Vec<Manager>,

    /// The program of ours to measure, such as muster-manager; else this one
    #[arg(long, value_name = "FILE", value_parser = program)]
    program: Option<PathBuf>,

    /// What to measure: a comma list
    #[arg(
        long,
        value_enum,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "rest,replicaset,many,rollouts,restart"
    )]
    pub(crate) phases: Vec<Phase>,

    /// Measure a group of processes of --program beside a single leader, instead of phases: into how many shards the
    /// namespaces are cut
    #[arg(long, value_name = "N", requires = "members", conflicts_with_all = ["phases", "managers"],
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_SHARDS)))]
    pub(crate) shards: Option<u32>,

    /// Of such a group: how many processes share them; no more than there are shards
    #[arg(long, value_name = "N", requires = "shards", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) members: Option<u32>,

    /// How often each phase is repeated; the figures are medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Of `rest`: how long CPU is counted
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub(crate) rest: Duration,

    /// Of `replicaset`: how many pods it has
    #[arg(long, value_name = "N", default_value_t = 3000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pods: u32,

    /// Of `replicaset`: how many requests are on their way at once where this program creates the pods
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) concurrency: u32,

    /// Of `many`: how many ReplicaSets; with --shards each has a namespace of its own
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) replicasets: u32,

    /// Of `many` and `restart`, and with --shards: how many pods each ReplicaSet has
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) replicas: u32,

    /// Of `rollouts`: how many Deployments
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) deployments: u32,

    /// Of `rollouts`: how many pods each Deployment has
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) deployment_replicas: u32,

    /// Of `restart`: how many pods are there
    #[arg(long, value_name = "N", default_value_t = 27_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cached_pods: u32,

    /// How long to wait for each step of a phase
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    pub(crate) timeout: Duration,

    /// How to print the figures
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
}

impl BenchManager {
    /// Holds what was given against each other.
    ///
    /// # Errors
    /// Where figures could not be told apart, or something would have no effect.
    pub(super) fn check(&self) -> Result<()> {
        let names: Vec<&str> = self.managers.iter().map(|manager| manager.name.as_str()).collect();
        if let Some((_, twice)) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            bail!("--manager: two of them are called {twice}");
        }
        if let Some(program) = &self.program
            && self.shards.is_none()
            && !self.managers.iter().any(Manager::is_ours)
        {
            bail!("--program {}: expected {{muster}} in the command of a --manager, found none", program.display());
        }
        Ok(())
    }

    /// What a manager is run by.
    ///
    /// # Errors
    /// Where this program cannot be found.
    pub(super) fn command(&self, manager: &Manager) -> Result<Vec<String>> {
        let program = match &self.program {
            Some(program) => program.clone(),
            None => std::env::current_exe().context("this program")?,
        };
        Ok(manager.command(&self.kubeconfig, &program))
    }

    /// The group to measure, if one was asked for.
    ///
    /// # Errors
    /// Where a member would have nothing to do.
    pub(super) fn sharing(&self) -> Result<Option<Sharing>> {
        let Some((shards, members)) = self.shards.zip(self.members) else { return Ok(None) };
        if members > shards {
            bail!("--members: found {members}, expected at most one for each of the {shards} shards");
        }
        Ok(Some(Sharing { shards, members }))
    }
}

/// A program by its path, which is that of a file in the current folder, too: it is not looked for on the PATH.
fn program(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text).canonicalize().map_err(|error| error.to_string())?;
    let found = path.metadata().map_err(|error| error.to_string())?;
    if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
        return Err("expected a program, found what is no file that may be run".to_owned());
    }
    Ok(path)
}

/// How a group shares the cluster out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sharing {
    pub(super) shards: u32,
    /// At least one, and no more than there are shards.
    pub(super) members: u32,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Phase {
    /// Nothing to do.
    Rest,
    /// One ReplicaSet beside direct creation.
    Replicaset,
    /// Many ReplicaSets.
    Many,
    /// Many rollouts.
    Rollouts,
    /// A start among many pods.
    Restart,
}

impl Phase {
    /// Its name on the command line and in figures.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Replicaset => "replicaset",
            Self::Many => "many",
            Self::Rollouts => "rollouts",
            Self::Restart => "restart",
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Bench, Cli, Command};

    fn parsed(flags: &[&str]) -> Result<BenchManager, clap::Error> {
        let all = [&["muster", "bench", "manager", "--kubeconfig", "k"], flags].concat();
        match Cli::try_parse_from(all)?.command {
            Command::Bench(Bench::Manager(arguments)) => Ok(*arguments),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn everything_is_measured_of_this_program_by_default() {
        let all = parsed(&[]).unwrap();
        let names: Vec<_> = all.phases.iter().map(|phase| phase.name()).collect();
        assert_eq!(names, ["rest", "replicaset", "many", "rollouts", "restart"]);
        assert_eq!(all.managers.iter().map(|manager| manager.name.as_str()).collect::<Vec<_>>(), ["muster"]);
    }

    #[test]
    fn the_program_to_measure_is_this_one_or_another() {
        let program = |flags: &[&str]| {
            let arguments = parsed(flags).unwrap();
            arguments.command(&arguments.managers[0]).unwrap().remove(0)
        };
        let this = std::env::current_exe().unwrap().canonicalize().unwrap();
        let shell = Path::new("/bin/sh").canonicalize().unwrap();
        assert_eq!(program(&["--program", "/bin/sh"]), shell.to_string_lossy());
        // The folder of a test is that of its package.
        assert_eq!(super::program("Cargo.toml").unwrap_err(), super::program("/").unwrap_err());
        assert!(super::program("/nowhere").unwrap_err().contains("No such file"));
        assert_eq!(program(&[]), this.to_string_lossy());
        let checked = |flags: &[&str]| parsed(flags).unwrap().check().map_err(|error| error.to_string());
        let unused = checked(&["--program", "/bin/sh", "--manager", "a=b"]).unwrap_err();
        assert!(unused.contains("--program") && unused.contains("{muster}"), "{unused}");
        assert_eq!(checked(&["--program", "/bin/sh", "--manager", "a=b", "--manager", "c={muster} d"]), Ok(()));
        assert_eq!(checked(&["--program", "/bin/sh", "--shards", "2", "--members", "1"]), Ok(()));
        assert!(checked(&["--manager", "a=b", "--manager", "a=c"]).unwrap_err().contains("called a"));
    }

    #[test]
    fn a_group_has_a_shard_for_each_member() {
        assert_eq!(parsed(&[]).unwrap().sharing().unwrap(), None);
        let of = |members: &str| parsed(&["--shards", "8", "--members", members]).unwrap().sharing();
        assert_eq!(of("8").unwrap(), Some(Sharing { shards: 8, members: 8 }));
        assert!(of("9").unwrap_err().to_string().contains("expected at most one for each of the 8 shards"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in [
            &["--phases", "sleep"][..],
            &["--rounds", "0"],
            &["--manager", "nameless"],
            &["--manager", "a='x"],
            &["--deployment-replicas", "0"],
            &["--shards", "8"],
            &["--members", "2"],
            &["--shards", "0", "--members", "1"],
            &["--shards", "8", "--members", "0"],
            &["--shards", "8", "--members", "2", "--phases", "rest"],
            &["--shards", "8", "--members", "2", "--manager", "muster"],
        ] {
            assert!(parsed(bad).is_err(), "{bad:?}");
        }
    }
}
