//! `muster faults`: a stale cache, a broken watch and a failover in a running `muster up`, to be looked at; and faults of all kinds
//! for whoever comes over HTTP, by plans.
//!
//! ```text
//!   muster faults ==POST /muster/faults/...==> endpoint --+
//!   a part of the process ----------------------------+--> Stage --> Watches: the managers' watches, held and cut
//!                                                               \--> Managers: which of them leads, and its kill
//! ```

pub(crate) mod endpoint;
pub(crate) mod front;
pub(crate) mod live;
pub(crate) mod plan;
mod presets;
mod resource;
mod stage;
mod watches;

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use bytes::Bytes;
use clap::{Args, Subcommand};
use muster_manager::arguments::{Output, client_options, say};
use muster_manager::explain::target::OwnClusterFlags;
use muster_runtime::client::Client;
use muster_runtime::duration::parse_duration;
use serde_json::{Value, json};

pub(crate) use self::resource::Resource;
pub(crate) use self::stage::{HoldTime, Seen, Stage};
pub(crate) use self::watches::{Watched, Watches};
use endpoint::{Cut, Hold};
use live::SeenFaults;

#[cfg(test)]
mod tests;

const EXAMPLES: &str = "\
Examples:
  # A cluster with two managers, of which one leads
  muster up --managers 2

  # A stale cache: pods that are made are not seen for 5 s, and expectations are not met
  muster faults hold pods --for 5s
  kubectl --kubeconfig muster.kubeconfig scale rs web --replicas 5

  # A connection that breaks: the informer watches again from the version that it has seen last
  muster faults cut pods

  # A failover: the Lease of the killed leader has to run out, then another one goes on
  muster faults kill-leader
  muster faults list

  # Controllers of your own, over a bad network; then what struck them, and no more of it
  muster faults add flaky-network
  muster faults strikes
  muster faults clear

Only a server of `muster up` can do this, and only for the group system:masters.";

const HOLD_EXAMPLES: &str = "\
Example:
  muster faults hold pods --for 5s

Nothing of the watches of that resource reaches the managers until the time is over, and then all of it in order; this goes \
for watches that are opened meanwhile too. A second hold takes the place of the first: `--for 1s` ends a long one. Lists are \
not held. No informer takes a silent watch for a dead one before the 5 to 10 minutes are over for which it was asked for, and \
30 s more; only a cache that is filled for the first time, or by a new leader, reads a list in place of a watch that is \
silent for 30 s. Where the server keeps less history than the hold lasts (`muster up --history`), everything is listed anew \
after it.";

const CUT_EXAMPLES: &str = "\
Examples:
  muster faults cut pods
  muster faults cut

The informers watch again after 0.8 to 1.6 s, and later with each cut that follows within two minutes (up to 30 s), from the \
version that they have seen last: nothing is lost.";

const KILL_EXAMPLES: &str = "\
Example:
  muster up --managers 2
  muster faults kill-leader

All that the leader does stops where it is, as by SIGKILL, and its Lease is not given up. It runs out after 3 s; then another \
manager leads, reads everything anew and goes on, and a new one is started that stands by.";

const ADD_EXAMPLES: &str = "\
Examples:
  muster faults add slow-watch

  # The third pod that kube-controller-manager creates is created, and its answer lost
  cat > lost.yaml <<END
  faults:
  - fault: answer-lost
    client: kube-controller-manager
    verbs: [create]
    resources: [pods]
    nth: 3
  END
  muster faults add lost.yaml

Times are counted from now. What goes on within `muster up` is not struck: its own controllers, nodes and collectors. All that a \
file can say is in docs/faults.md.";

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
    /// Add faults for whoever comes over HTTP: those of a file, or of a preset
    #[command(after_help = ADD_EXAMPLES)]
    Add {
        /// A file, or the name of a preset; `muster faults presets` prints those
        #[arg(value_name = "FILE|PRESET")]
        plan: String,

        #[command(flatten)]
        of: Of,
    },
    /// Take away all faults that were added, those of `muster up --faults` too
    #[command(after_help = "Example:\n  muster faults clear")]
    Clear {
        #[command(flatten)]
        of: Of,
    },
    /// Print what was struck, a line of JSON for each request or piece of a watch
    #[command(after_help = "Example:\n  muster faults strikes | jq -r 'select(.verb == \"create\") | .name'")]
    Strikes {
        #[command(flatten)]
        of: Of,
    },
    /// Print the presets, or one of them as a file
    #[command(after_help = "Examples:\n  muster faults presets\n  muster faults presets slow-watch > faults.yaml")]
    Presets {
        /// Which
        name: Option<String>,
    },
    /// Say who leads, what is held, and which faults there are
    #[command(after_help = "Example:\n  muster faults list -o json")]
    List {
        #[command(flatten)]
        of: Of,
    },
}

/// Which cluster, and how to say what was done.
#[derive(Debug, Args)]
pub(crate) struct Of {
    #[command(flatten)]
    cluster: OwnClusterFlags,

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
        FaultsCommand::Add { plan, of } => (of, "/add", Some(json!(plan::Plan::of(plan)?))),
        FaultsCommand::Clear { of } => (of, "/clear", Some(json!({}))),
        FaultsCommand::Strikes { of } => (of, "/strikes", None),
        FaultsCommand::Presets { name } => return print_presets(name.as_deref()),
    };
    let answer = ask(&of.cluster, path, body).await?;
    match of.output {
        Output::Json => say(&format!("{answer}\n")),
        Output::Text => say(&command.told(&answer)?),
    }
}

fn print_presets(name: Option<&str>) -> Result<()> {
    let Some(name) = name else {
        return say(&presets::listed().to_string());
    };
    let Some(preset) = presets::ALL.iter().find(|preset| preset.name == name) else {
        bail!("found {name:?}, expected one of\n{}", presets::listed());
    };
    say(&format!("# {}\n{}", preset.about, preset.yaml))
}

async fn ask(cluster: &OwnClusterFlags, path: &str, body: Option<Value>) -> Result<Value> {
    let (config, found) = cluster.config().await?;
    let client = Client::connect(&config, &client_options()).map_err(|error| anyhow!("{error}"))?;
    let path = format!("/muster/{}{path}", endpoint::NAME);
    let answer = match body {
        Some(body) => client.post(&path, Bytes::from(body.to_string())).await,
        None => client.get(&path).await,
    };
    match answer {
        Ok(answer) => serde_json::from_slice(&answer.body).context("the answer is no JSON"),
        Err(error) if error.is_not_found() => {
            bail!(
                "the server of {found} knows no faults: it is no `muster up` of this version; name another by --kubeconfig"
            )
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
            Self::Add { .. } | Self::Clear { .. } => {
                let seen: SeenFaults = serde_json::from_value(answer.clone()).context("the answer of the server")?;
                told_of_faults(&seen)?
            }
            Self::Strikes { .. } => {
                answer["strikes"].as_array().into_iter().flatten().map(|strike| format!("{strike}\n")).collect()
            }
            Self::Presets { .. } => String::new(),
            Self::List { .. } => told_of(&serde_json::from_value(answer.clone()).context("the answer of the server")?)?,
        })
    }
}

/// What faults there are, as in a file.
fn told_of_faults(seen: &SeenFaults) -> Result<String> {
    let SeenFaults { plan, seed, met, strikes, away } = seen;
    let away = if *away { "; the server is away" } else { "" };
    if *plan == plan::Plan::default() {
        return Ok(format!("no faults; {strikes} strikes so far{away}; seed {seed}\n"));
    }
    let plan = serde_saphyr::to_string(plan)?;
    let idle = met.iter().enumerate().filter(|(_, met)| **met == 0);
    let idle: String = idle.map(|(nth, _)| format!("# no request so far that faults[{nth}] is about\n")).collect();
    let times = "times are counted from the start of the server";
    Ok(format!("# {strikes} strikes so far{away}; seed {seed}; {times}\n{idle}{plan}"))
}

/// Two small tables, and the faults.
fn told_of(seen: &Seen) -> Result<String> {
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
    Ok(text + "\n" + &told_of_faults(&seen.faults)?)
}
