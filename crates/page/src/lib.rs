//! The page: workloads, rollouts and the inside of a manager in a browser, live, on any cluster.
//!
//! ```text
//!   API server --watches--> feed --> Model: pods by owner, what changed and when
//!                                      |
//!   a manager --Insight------------> views --fragments of HTML--> live --server-sent events--> browsers
//!                                                                                                 |
//!   API server, Stage <----------------------- acts <--requests, each also told as a command------+
//! ```
//!
//! What a view shows is a list of fragments, each with an id. It is rendered once for all browsers that look at it, and a
//! browser is sent the fragments that differ from those that it has. The page has watches of its own: it touches nothing
//! of a controller's but what an [`Insight`] tells.
//!
//! It listens on loopback. Who opens its link once gets a cookie, and everybody else is refused: see `sessions.rs`.

#![warn(missing_docs)]

mod acts;
mod chart;
mod feed;
mod http;
mod insight;
mod live;
mod model;
mod pods;
mod rules;
mod sessions;
mod tour;
mod view;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use muster_apiserver::serve::{self, Patience, serve_service};
use muster_runtime::client::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use insight::{Insight, Stage, Unseen};

use crate::http::Site;
use crate::live::Hub;
use crate::sessions::Sessions;

/// What a page is made of.
pub struct Options {
    /// A client of the cluster, for the page's watches and for what its buttons do.
    pub client: Client,
    /// A manager of ours that can be looked into, if there is one.
    pub insight: Option<Arc<dyn Insight>>,
    /// An embedded cluster, whose objects and faults the page may change; without it the page has no buttons.
    pub stage: Option<Arc<dyn Stage>>,
    /// What a command of kubectl or muster needs to reach the cluster, such as `--kubeconfig muster.kubeconfig`.
    pub reach: String,
    /// The namespace where a group of managers has its Leases.
    pub election: String,
    /// Whether the link leads to the tour.
    pub tour: bool,
    /// Is told each link that opens the page: the first, and another one whenever one was used.
    pub links: Box<dyn Fn(&str) + Send + Sync>,
}

/// A page that is served.
pub struct Page {
    handle: serve::Handle,
    stop: watch::Sender<bool>,
    _watches: JoinSet<()>,
}

impl Page {
    /// Serves a page on a listener, and watches the cluster from now on.
    ///
    /// # Errors
    /// Where the listener is not on a loopback address, or cannot be used.
    pub fn serve(listener: std::net::TcpListener, options: Options) -> io::Result<Self> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            let said = format!("{address} is not a loopback address: the page is served to this machine only");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, said));
        }
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let Options { client, insight, stage, reach, election, tour, links } = options;
        let mut watches = JoinSet::new();
        let model = feed::start(&client, &mut watches);
        let stop = watch::Sender::new(false);
        let scene = Arc::new(view::Scene { client, model, insight, stage, reach, election, tour: Mutex::default() });
        let hub = Hub::new(Arc::clone(&scene));
        let sessions = Sessions::new(address, tour, links);
        let site = Site::new(sessions, hub, scene, stop.subscribe());
        let handle = serve_service(listener, site, None, stop.clone(), Patience::PAGE)?;
        Ok(Self { handle, stop, _watches: watches })
    }

    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.handle.address()
    }

    /// Ends all connections and the watches.
    pub async fn close(self) {
        self.stop.send_replace(true);
        self.handle.shutdown().await;
    }
}
