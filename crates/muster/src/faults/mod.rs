//! `muster faults`: a stale cache, a broken watch and a failover in a running `muster up`, to be looked at.
//!
//! ```text
//!   muster faults ==POST /muster/faults/...==> door --+
//!   a part of the process ----------------------------+--> Stage --> Watches: the managers' watches, held and cut
//!                                                               \--> Managers: which of them leads, and its kill
//! ```

pub(crate) mod door;
mod resource;
mod stage;
mod watches;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use bytes::Bytes;
use clap::{Args, Subcommand};
use muster_cluster::parse_duration;
use muster_runtime::client::{Client, Options, configuration};
use serde_json::{Value, json};

pub(crate) use self::resource::Resource;
pub(crate) use self::stage::{HoldTime, Seen, Stage};
pub(crate) use self::watches::{Watched, Watches};
use crate::cli::Output;
use door::{Cut, Hold};

#[cfg(test)]
mod tests;

const EXAMPLES: &str = "\
Examples:
  # A cluster with two managers, of which one leads
  muster up --managers 2

  # A stale cache: pods that are made are not seen for 5 s, so the expectations of a ReplicaSet are not met
  muster faults hold pods --for 5s
  kubectl --kubeconfig muster.kubeconfig scale rs web --replicas 5

  # A connection that breaks: the informer watches again from the version that it has seen last
  muster faults cut pods

  # A failover: the Lease of the killed leader has to run out, then another one goes on
  muster faults kill-leader
  muster faults list

Only a server of `muster up` can do this, and only for the group system:masters.";

const HOLD_EXAMPLES: &str = "\
Example:
  muster faults hold pods --for 5s

Nothing of the watches of that resource reaches the managers until the time is over, and then all of it in order; this goes
for watches that are opened meanwhile too. A second hold takes the place of the first: `--for 1s` ends a long one. Lists are
not held. No informer takes a silent watch for a dead one before the 5 to 10 minutes are over for which it was asked for, and
30 s more; only a cache that is filled for the first time, or by a new leader, reads a list in place of a watch that is
silent for 30 s. Where the server keeps less history than the hold lasts (`muster up --history`), everything is listed anew
after it.";

const CUT_EXAMPLES: &str = "\
Examples:
  muster faults cut pods
  muster faults cut

The informers watch again after 0.8 to 1.6 s, and later with each cut that follows within two minutes (up to 30 s), from the
version that they have seen last: nothing is lost.";

const KILL_EXAMPLES: &str = "\
Example:
  muster up --managers 2
  muster faults kill-leader

All that the leader does stops where it is, as by SIGKILL, and its Lease is not given up. It runs out after 3 s; then another
manager leads, reads everything anew and goes on, and a new one is started that stands by.";

/// What is done to a cluster.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum FaultsCommand {
    /// Hold the managers' watches of a resource for a time, so that their caches are stale
    #[command(after_help = HOLD_EXAMPLES)]
    Hold {
        /// The resource: pods, replicasets, deployments, replicationcontrollers (po, rs, deploy, rc)
        #[arg(value_parser = Resource::of)]
        resource: Resource,

        /// For how long, 1s to 5m
        #[arg(long = "for", value_name = "DURATION", value_parser = parse_hold_time)]
        time: HoldTime,

        #[command(flatten)]
        of: Of,
    },
    /// Cut the managers' watches, as a connection that breaks does
    #[command(after_help = CUT_EXAMPLES)]
    Cut {
        /// The resource: pods, replicasets, deployments, replicationcontrollers (po, rs, deploy, rc); all, where it is left
        /// out
        #[arg(value_parser = Resource::of)]
        resource: Option<Resource>,

        #[command(flatten)]
        of: Of,
    },
    /// Kill the manager that leads, without giving up its Lease
    #[command(after_help = KILL_EXAMPLES)]
    KillLeader {
        #[command(flatten)]
        of: Of,
    },
    /// Say who leads and what is held
    #[command(after_help = "Example:\n  muster faults list -o json")]
    List {
        #[command(flatten)]
        of: Of,
    },
}

/// Which cluster, and how to say what was done.
#[derive(Debug, Args)]
pub(crate) struct Of {
    /// A kubeconfig of `muster up`, whose user is in the group system:masters
    #[arg(long, value_name = "FILE", default_value = "muster.kubeconfig")]
    kubeconfig: PathBuf,

    /// How to print the answer
    #[arg(short = 'o', long, value_enum, default_value_t = Output::Text, value_name = "FORMAT")]
    output: Output,
}

fn parse_hold_time(text: &str) -> Result<HoldTime, String> {
    HoldTime::of(parse_duration(text).map_err(|error| error.to_string())?)
}

/// Runs `muster faults`.
///
/// # Errors
/// Where the server is none of `muster up`, or refuses.
pub(crate) async fn run(command: &FaultsCommand) -> Result<()> {
    let (of, path, body) = match command {
        FaultsCommand::Hold { resource, time, of } => {
            let hold = Hold { resource: resource.plural().to_owned(), seconds: time.get().as_secs_f64() };
            (of, "/hold", Some(json!(hold)))
        }
        FaultsCommand::Cut { resource, of } => {
            (of, "/cut", Some(json!(Cut { resource: resource.map(|resource| resource.plural().to_owned()) })))
        }
        FaultsCommand::KillLeader { of } => (of, "/kill-leader", Some(json!({}))),
        FaultsCommand::List { of } => (of, "", None),
    };
    let answer = ask(&of.kubeconfig, path, body).await?;
    match of.output {
        Output::Json => println!("{answer}"),
        Output::Text => print!("{}", command.told(&answer)?),
    }
    Ok(())
}

async fn ask(kubeconfig: &Path, path: &str, body: Option<Value>) -> Result<Value> {
    let config = configuration(Some(kubeconfig)).await.map_err(|error| anyhow!("{error}"))?;
    let client = Client::connect(&config, &Options::default()).map_err(|error| anyhow!("{error}"))?;
    let path = format!("/muster/{}{path}", door::NAME);
    let answer = match body {
        Some(body) => client.post(&path, Bytes::from(body.to_string())).await,
        None => client.get(&path).await,
    };
    match answer {
        Ok(answer) => serde_json::from_slice(&answer.body).context("the answer is no JSON"),
        Err(error) if error.is_not_found() => {
            bail!("the server of {} knows no faults: it is no `muster up` of this version", kubeconfig.display())
        }
        Err(error) => match error.api() {
            Some(refused) => Err(anyhow!("{}", refused.message)),
            None => Err(anyhow!("{error}")),
        },
    }
}

impl FaultsCommand {
    /// The answer, for a person.
    fn told(&self, answer: &Value) -> Result<String> {
        let count = &answer["watches"];
        Ok(match self {
            Self::Hold { resource, time, .. } => {
                let (resource, time) = (resource.plural(), time.get());
                format!("held for {time:?}: {count} watches of {resource}, and those that are opened meanwhile\n")
            }
            Self::Cut { resource: Some(resource), .. } => format!("cut: {count} watches of {}\n", resource.plural()),
            Self::Cut { resource: None, .. } => format!("cut: {count} watches\n"),
            Self::KillLeader { .. } => {
                let killed = answer["killed"].as_str().unwrap_or_default();
                format!("killed: {killed}; another manager leads once its Lease has run out\n")
            }
            Self::List { .. } => told_of(&serde_json::from_value(answer.clone()).context("the answer of the server")?),
        })
    }
}

/// Two small tables.
fn told_of(seen: &Seen) -> String {
    let mut text = format!("{:<24}ROLE\n", "MANAGER");
    for manager in &seen.managers {
        let role = if manager.leading { "leads" } else { "stands by" };
        text += &format!("{:<24}{role}\n", manager.identity);
    }
    text += &format!("\n{:<24}{:<6}HELD\n", "WATCHES OF", "OPEN");
    for watches in &seen.watches {
        let held = watches.held_seconds.map(|left| Duration::from_secs_f64(left.max(0.0)).as_millis());
        let held = held.map_or("no".to_owned(), |left| format!("{}.{} s more", left / 1000, left % 1000 / 100));
        text += &format!("{:<24}{:<6}{held}\n", watches.resource, watches.open);
    }
    text
}
