//! The page: of an embedded cluster with `muster up --page`, and of any with `muster page`.

mod command;
mod insight;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use muster_page::{Insight, Options, Page, Stage};
use muster_runtime::client::Client;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

pub(crate) use command::{PageArguments, run};
pub(crate) use insight::Local;

/// Where the page listens, where nothing says so: any free port.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The page of `muster up`.
#[derive(Debug, Args)]
pub(crate) struct PageFlags {
    /// Serve a page for a browser on this machine: workloads, rollouts, the inside of the manager, and buttons. Its link is
    /// told, works once, and is told anew for another browser
    #[arg(long)]
    pub(crate) page: bool,

    /// Where the page listens: an address of this machine's own, 127.0.0.1 or ::1; port 0 is any free one
    #[arg(long, value_name = "ADDR:PORT", default_value_t = LISTEN, requires = "page")]
    pub(crate) page_listen: SocketAddr,

    /// Let the page's link lead to the tour: eight steps through what the controllers do
    #[arg(long, requires = "page")]
    pub(crate) tour: bool,
}

/// A page that is served, and the links that open it.
pub(crate) struct Served {
    page: Page,
    links: UnboundedReceiver<String>,
}

impl Served {
    /// Waits for a link to tell.
    pub(crate) async fn link(&mut self) -> Option<String> {
        self.links.recv().await
    }

    /// Stops serving.
    pub(crate) async fn close(self) {
        self.page.close().await;
    }
}

/// What a page shows, and lets do.
pub(crate) struct Shown {
    pub(crate) client: Client,
    pub(crate) insight: Option<Arc<dyn Insight>>,
    pub(crate) stage: Option<Arc<dyn Stage>>,
    pub(crate) reach: String,
    pub(crate) election: String,
    pub(crate) tour: bool,
}

/// Takes the port of a page.
///
/// # Errors
/// Where others could reach it, or it cannot be had.
pub(crate) fn listen(flag: &str, address: SocketAddr) -> Result<TcpListener> {
    if !address.ip().is_loopback() {
        bail!("{flag}: found {address}, expected an address that only this machine reaches, 127.0.0.1 or [::1]");
    }
    TcpListener::bind(address)
        .with_context(|| format!("{flag} {address}: cannot be listened at; name another, or port 0"))
}

/// Serves a page.
///
/// # Errors
/// Where the listener cannot be used.
pub(crate) fn serve(listener: TcpListener, shown: Shown) -> Result<Served> {
    let Shown { client, insight, stage, reach, election, tour } = shown;
    let (tell, links) = unbounded_channel();
    let tell = move |link: &str| drop(tell.send(link.to_owned()));
    let options = Options { client, insight, stage, reach, election, tour, links: Box::new(tell) };
    Ok(Served { page: Page::serve(listener, options).context("the page")?, links })
}

/// What a command needs to reach a cluster.
pub(crate) fn reach(kubeconfig: &Path) -> String {
    let path = kubeconfig.to_string_lossy();
    let quoted = shlex::try_quote(&path).unwrap_or_else(|_| path.clone());
    format!("--kubeconfig {quoted}")
}
