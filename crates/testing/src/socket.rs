//! A port, for what is not in the test's process: `kubectl`, a program under test, a client that needs a kubeconfig.

use muster_apiserver::serve::{kubeconfig, serve};
use muster_apiserver::tls::Tls;
use tokio::net::TcpListener;

use crate::cluster::Cluster;
use crate::error::Error;

/// Where a cluster listens.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// `https://127.0.0.1:PORT`.
    pub url: String,
    /// The certificate authority to trust, in PEM.
    pub ca_pem: String,
    /// The bearer token of one who may do anything.
    pub token: String,
}

impl Endpoint {
    /// A kubeconfig, as YAML.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        kubeconfig(&self.url, &self.ca_pem, &self.token)
    }
}

impl Cluster {
    /// Serves HTTPS on a free port of 127.0.0.1 for as long as the cluster is there. Not for paused time, which would leap
    /// ahead of what comes over a socket.
    ///
    /// # Errors
    /// [`Error::Listen`] and [`Error::Tls`].
    pub async fn listen(&self) -> Result<Endpoint, Error> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(Error::Listen)?;
        let tls = Tls::signed_by(&self.authority, &[])?;
        let handle = serve(listener, self.server(), Some(&tls)).map_err(Error::Listen)?;
        // It ends with the server, and needs no one to hold it.
        let url = format!("https://{}", handle.address());
        Ok(Endpoint { url, ca_pem: tls.ca_pem().to_owned(), token: self.server().token().to_owned() })
    }
}
