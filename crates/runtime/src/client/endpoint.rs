//! The way to a real server: kube's configuration, authentication and TLS under our own connection pool.
//!
//! The stack is kube's except for its two ends. On top there is no retry layer and no buffer: what may be
//! sent again is decided by [`Client`](super::Client), with the verb in view. At the bottom the connection
//! speaks HTTP/2 where the server does, as every Kubernetes client should: a burst of 500 creates is 500
//! streams on one connection, not 500 handshakes; and a ping notices a peer that is gone.

use std::time::Duration;

use hyper_util::{
    client::legacy::{Client as Pool, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::client::ConfigExt;
use tower::ServiceBuilder;

use super::{
    error::{BoxError, ClientError},
    gathered::Gathered,
    transport::{RequestBody, Through, Transport},
};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How many bytes of one answer, and of all together, the server may send before we have read them. Sizes that stay
/// what they are need none of the pings by which hyper would find better ones: over a thousand small answers a second
/// they would be a fifth of what is sent. A watch that is read at 50 ms from the server comes at 10 MB a second.
const STREAM_WINDOW: u32 = 512 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// A silent connection is asked whether it is there after this long, and given up after another half.
const PING: Duration = Duration::from_secs(30);

/// The transport to the server that `config` names.
pub(super) fn transport(config: &kube::Config) -> Result<Box<dyn Transport>, ClientError> {
    if let Some(proxy) = &config.proxy_url {
        return Err(ClientError::Configuration {
            what: "proxy-url",
            source: format!("connections through a proxy ({proxy}) are not supported").into(),
        });
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(PING));
    tcp.set_connect_timeout(Some(config.connect_timeout.unwrap_or(CONNECT_TIMEOUT)));

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
