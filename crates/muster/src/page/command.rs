//! `muster page`: the page of a cluster that is served elsewhere.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use clap::Args;
use muster_manager::arguments::{Output, client_options, say};
use muster_manager::explain::manager::{Manager, ManagerFlags};
use muster_manager::explain::target::ClusterFlags;
use muster_manager::signals::Signals;
use muster_page::Insight;
use muster_runtime::client::Client;
use serde_json::json;

use super::insight::Remote;
use super::{LISTEN, Shown, listen, reach, serve};

const EXAMPLES: &str = "\
Examples:
  # Whatever controllers run there: workloads, rollouts, and what Muster's would do next
  muster page --kubeconfig admin.conf

  # With a manager of Muster also its inside, and what it did
  muster page --kubeconfig admin.conf \\
    --manager https://127.0.0.1:10257 --manager-certificate-authority muster-controller-manager.crt

  # Of a muster up in another terminal; its server knows the inside
  muster page --kubeconfig muster.kubeconfig

It reads as the user of the kubeconfig, who has to be able to list and watch deployments, replicasets, \
replicationcontrollers and pods in all namespaces, and it writes nothing. It listens on this machine only, for whoever \
opens its link, which works once; then another one is told.";

/// What `muster page` takes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PageArguments {
    #[command(flatten)]
    cluster: ClusterFlags,

    #[command(flatten)]
    running: ManagerFlags,

    /// Where the page listens: an address of this machine's own, 127.0.0.1 or ::1; port 0 is any free one
    #[arg(long, value_name = "ADDR:PORT", default_value_t = LISTEN)]
    listen: SocketAddr,

    /// How to print the links: for people, or one JSON object a line
    #[arg(short = 'o', long, value_enum, default_value_t = Output::Text, value_name = "FORMAT")]
    output: Output,
}

/// Runs `muster page` until a signal.
///
/// # Errors
/// Where the cluster cannot be read, the manager does not answer, or the port cannot be had.
pub(crate) async fn run(arguments: &PageArguments) -> Result<()> {
    let mut signals = Signals::listen()?;
    let listener = listen("--listen", arguments.listen)?;
    let config = arguments.cluster.config().await?;
    let client = Client::connect(&config, &client_options()).map_err(|error| anyhow!("{error}"))?;
    let kinds =
        ["/apis/apps/v1/deployments", "/apis/apps/v1/replicasets", "/api/v1/replicationcontrollers", "/api/v1/pods"];
    // What the watches would be refused is told now, and not by an empty page.
    let asked = async {
        for path in kinds {
            client.get(&format!("{path}?limit=1")).await.map_err(|error| anyhow!("{path}: {error}"))?;
        }
        let manager = Manager::of(&arguments.running, &config)?;
        if arguments.running.manager.is_some() {
            // What it would refuse is told now.
            manager.get("/inside").await?;
        }
        Ok(manager.is_there().await.then(|| Arc::new(Remote::new(manager)) as Arc<dyn Insight>))
    };
    let insight = signals.during(asked).await?;
    let reach = arguments.cluster.file().map(|file| reach(&file)).unwrap_or_default();
    let election = arguments.running.leader_elect_resource_namespace.clone();
    let shown = Shown { client, insight, stage: None, reach, election, tour: false };
    let mut served = serve(listener, shown)?;
    loop {
        tokio::select! {
            biased;
            () = signals.next() => break,
            link = served.link() => match (link, arguments.output) {
                (Some(link), Output::Text) => say(&format!("page: {link}    (Ctrl-C ends it)\n"))?,
                (Some(link), Output::Json) => say(&format!("{}\n", json!({"event": "page", "link": link})))?,
                (None, _) => break,
            },
        }
    }
    served.close().await;
    Ok(())
}
