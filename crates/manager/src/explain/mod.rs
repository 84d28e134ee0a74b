//! `muster explain`: what a controller sees of an object and what it would do next, for a person or a program.
//!
//! ```text
//!   arguments --no --manager--> lists of the API, decided here -----------------------------+
//!       |                                                                                    +--> text or JSON
//!       +----- --manager --> GET /explain/... of the manager: endpoint --> caches, books ----+  (a shadow: kept lines)
//!       |                                          |            ^
//!       |                                          |            +--- GET /muster/explain/... of muster up
//!       |                                          |                          ^
//!       |                                          +--> authorizer: may the caller read that? the API server says
//!       +----- --history, --inside and no --manager --------------------------+
//! ```

mod arguments;
pub mod authorizer;
pub mod endpoint;
pub mod manager;
pub mod target;
pub mod teller;

use anyhow::{Result, anyhow, bail};
use muster_inspect::explain::{Explanation, FORMAT};
use muster_inspect::history::{self, History};
use muster_inspect::inside::{self, Inside};
use muster_inspect::shadow::ShadowHistory;
use muster_inspect::shadow::history::FORMAT as SHADOW_FORMAT;
use muster_objects::meta::ObjectKey;
use muster_runtime::client::Client;
use muster_runtime::explain::{NotExplained, explain_afresh};
use muster_runtime::group::shard_of;
use serde::Deserialize as _;

use crate::arguments::{Output, client_options, say, visible};
pub use arguments::Arguments;
use manager::Manager;
use target::Target;

/// Runs `muster explain`.
///
/// # Errors
/// Where the object cannot be read: it is not there, or whoever is asked refuses or does not answer.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let (config, namespace) = arguments.asked.cluster().await?;
    if arguments.inside {
        return print(arguments.output, &Manager::of(&arguments.running, &config)?.get("/inside").await?);
    }
    let Target { kind, name } = arguments.asked.target().map_err(|error| anyhow!("{error}"))?;
    let key = ObjectKey::new(&*namespace, &*name);
    if arguments.history || arguments.running.manager.is_some() {
        let question = match (arguments.history, arguments.since) {
            (false, _) => String::new(),
            (true, None) => "?history=true".to_owned(),
            (true, Some(since)) => format!("?history=true&since={}", since.as_secs_f64()),
        };
        let path = format!("/explain/{}/{namespace}/{name}{question}", kind.resource().plural);
        return print(arguments.output, &Manager::of(&arguments.running, &config)?.get(&path).await?);
    }
    let client = Client::connect(&config, &client_options()).map_err(|error| anyhow!("{error}"))?;
    let mut explanation =
        explain_afresh(&client, kind, &key, arguments.burst_replicas).await.map_err(|error| match error {
            NotExplained::NotFound { kind, key } => {
                anyhow!("{} {:?} not found in namespace {:?}", kind.resource().plural, &*key.name, &*key.namespace)
            }
            error => anyhow!("{error}"),
        })?;
    explanation.shard = shard_of(&client, &arguments.running.leader_elect_resource_namespace, &namespace).await;
    print(arguments.output, &serde_json::to_value(explanation)?)
}

/// As JSON everything that was told is printed, also what this version does not know.
fn print(output: Output, told: &serde_json::Value) -> Result<()> {
    if output == Output::Json {
        return say(&format!("{told:#}\n"));
    }
    let format = told["format"].as_u64().and_then(|format| format.try_into().ok());
    let text = match (told["kind"].as_str(), format) {
        (Some("History"), Some(history::FORMAT)) => History::deserialize(told)?.to_string(),
        (Some("ShadowHistory"), Some(SHADOW_FORMAT)) => ShadowHistory::deserialize(told)?.to_string(),
        (Some("Inside"), Some(inside::FORMAT)) => Inside::deserialize(told)?.to_string(),
        (_, Some(FORMAT)) => Explanation::deserialize(told)?.to_string(),
        (_, format) => {
            bail!("the manager explains in format {format:?}, this is a muster of format {FORMAT}; try -o json")
        }
    };
    say(&visible(&text))
}
