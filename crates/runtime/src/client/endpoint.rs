//! The way to a real server: kube's configuration, authentication and TLS under our own connection pool.
//!
//! The stack is kube's except for its two ends. On top there is no retry layer and no buffer: what may be
//! sent again is decided by [`Client`](super::Client), with the verb in view. At the bottom the connection
//! speaks HTTP/2 where the server does, as every Kubernetes client should: a burst of 500 creates is 500
//! streams on one connection, not 500 handshakes; and a ping notices a peer that is gone.

use std::{net::IpAddr, time::Duration};

use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use hyper_util::{
    client::legacy::{
        Client as Pool,
        connect::{Connection, HttpConnector},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use kube::client::ConfigExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tower::{Service, ServiceBuilder, ServiceExt as _};

use super::{
    Fence,
    error::{BoxError, ClientError},
    gate::Gated,
    gathered::Gathered,
    slices::Slices,
    transport::{RequestBody, ResponseBody, Through, Transport},
};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How many bytes of one answer, and of all together, the server may send before we have read them. Sizes that stay
/// what they are need none of the pings by which hyper would find better ones. A watch that is read at 50 ms from the
/// server comes at 10 MB a second.
const STREAM_WINDOW: u32 = 512 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// A silent connection is asked whether it is there after this long, and given up after another half.
const PING: Duration = Duration::from_secs(30);

/// The transport to the server that `config` names. There is none that does not verify who the server is.
pub(super) fn transport(config: &kube::Config) -> Result<Box<dyn Transport>, ClientError> {
    verified(config)?;
    let tcp = tcp(config)?;
    let sliced = tcp.clone().map_response(|io: TokioIo<_>| TokioIo::new(Slices::new(io.into_inner())));
    let (watches, others) = (over(sliced, config)?, over(tcp, config)?);
    Ok(Box::new(Endpoint { watches, others, config: config.clone() }))
}

/// Connections to a server, and what it takes to make others to the same.
struct Endpoint {
    /// Watches have a connection of their own: it is read in slices, and no answer is to wait for that.
    watches: Box<dyn Transport>,
    others: Box<dyn Transport>,
    config: kube::Config,
}

impl Transport for Endpoint {
    fn call(&self, request: Request<RequestBody>) -> BoxFuture<'static, Result<Response<ResponseBody>, BoxError>> {
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.split('&').any(|parameter| parameter == "watch=true");
        if is_watch { self.watches.call(request) } else { self.others.call(request) }
    }

    fn gated(&self, fence: &Fence) -> Result<Option<Box<dyn Transport>>, ClientError> {
        let fence = fence.clone();
        let gate = move |io: TokioIo<_>| TokioIo::new(Gated::new(io.into_inner(), fence.clone()));
        over(tcp(&self.config)?.map_response(gate), &self.config).map(Some)
    }
}

/// What opens a socket to the server.
fn tcp(config: &kube::Config) -> Result<HttpConnector, ClientError> {
    if let Some(proxy) = &config.proxy_url {
        let why = format!("connections through a proxy ({proxy}) are not supported");
        return Err(configuration("proxy-url", why));
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(PING));
    tcp.set_connect_timeout(Some(config.connect_timeout.unwrap_or(CONNECT_TIMEOUT)));
    Ok(tcp)
}

/// A pool of connections, each of which `tcp` makes.
fn over<C, T>(tcp: C, config: &kube::Config) -> Result<Box<dyn Transport>, ClientError>
where
    C: Service<Uri, Response = TokioIo<T>> + Clone + Send + Sync + 'static,
    C::Future: Send,
    C::Error: Into<BoxError>,
    T: AsyncRead + AsyncWrite + Connection + Send + Unpin + 'static,
{
    let tls = config.rustls_client_config().map_err(|error| configuration("TLS", error))?;
    let mut connector = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = rustls_name(name)?;
        connector = connector.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name));
    }
    let connector = connector.enable_all_versions().wrap_connector(tcp);
    let connector = ServiceBuilder::new().map_response(Gathered::new).service(connector);

    let pool: Pool<_, RequestBody> = Pool::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(PING)
        .http2_keep_alive_timeout(PING / 2)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(|error| configuration("authentication", error))?)
        .layer(config.extra_headers_layer().map_err(|error| configuration("headers", error))?)
        .map_err(BoxError::from)
        .service(pool);
    Ok(Box::new(Through(service)))
}

/// That the server will have to prove who it is: what is sent carries credentials, and what comes back is acted on.
fn verified(config: &kube::Config) -> Result<(), ClientError> {
    if config.accept_invalid_certs {
        return Err(configuration(
            "insecure-skip-tls-verify",
            "found true, expected false or nothing: the server's certificate is always verified; name its authority \
             by certificate-authority or certificate-authority-data",
        ));
    }
    let server = &config.cluster_url;
    let here = server.host().is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        address.map_or(host == "localhost", |address| address.is_loopback())
    });
    if server.scheme() != Some(&http::uri::Scheme::HTTPS) && !here {
        let why = format!("found {server}, expected https: only a server on this machine may be reached without TLS");
        return Err(configuration("server", why));
    }
    Ok(())
}

/// Whether an error of this transport says that the server has never seen the request.
pub(super) fn never_sent(error: &BoxError) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(&**error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>()
            && error.is_connect()
        {
            return true;
        }
        if let Some(kube::Error::Auth(_)) = error.downcast_ref::<kube::Error>() {
            return true;
        }
        next = error.source();
    }
    false
}

fn rustls_name(name: &str) -> Result<rustls_pki_types::ServerName<'static>, ClientError> {
    name.to_owned().try_into().map_err(|error| configuration("tls-server-name", error))
}

fn configuration(what: &'static str, source: impl Into<BoxError>) -> ClientError {
    ClientError::Configuration { what, source: source.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong with a configuration; empty where nothing is.
    fn refused(server: &str, accept_invalid_certs: bool) -> String {
        let mut config = kube::Config::new(server.parse().unwrap());
        config.accept_invalid_certs = accept_invalid_certs;
        verified(&config).map_or_else(|error| error.to_string(), |()| String::new())
    }

    /// Contract: CM-03
    #[test]
    fn verification_cannot_be_switched_off() {
        let error = refused("https://10.0.0.1:6443", true);
        assert!(error.starts_with("insecure-skip-tls-verify: found true, expected false"), "{error}");
        assert_eq!(refused("https://10.0.0.1:6443", false), "");
        assert!(!refused("http://127.0.0.1:8001", true).is_empty());
    }

    /// Contract: CM-03
    #[test]
    fn only_this_machine_is_spoken_to_without_tls() {
        for server in ["http://127.0.0.1:8001", "http://localhost:8001", "http://[::1]:8001", "http://127.8.8.8"] {
            assert_eq!(refused(server, false), "", "{server}");
        }
        for server in ["http://10.0.0.1:8080", "http://kubernetes.default.svc", "http://localhost.example:80"] {
            let error = refused(server, false);
            assert!(error.starts_with(&format!("server: found {server}")), "{error}");
        }
    }
}
