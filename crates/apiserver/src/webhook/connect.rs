//! From a target to a connection: addresses, TCP, TLS, HTTP, and what Go's client says where one of them fails.

use std::error::Error as _;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Target, resolve, tls};
use crate::registry::Registry;

/// Connects to a webhook.
pub(super) async fn connect(
    registry: &Registry,
    target: &Target,
    config: &Arc<rustls::ClientConfig>,
) -> Result<SendRequest<Full<Bytes>>, String> {
    let stream = dial(registry, target).await?;
    // Small requests, each of which waits for its answer.
    let _ = stream.set_nodelay(true);
    let name = ServerName::try_from(target.host.clone())
        .map_err(|_| format!("tls: invalid server name {}", crate::field::go_quote(&target.host)))?;
    let connector = TlsConnector::from(Arc::clone(config));
    let stream = connector.connect(name, stream).await.map_err(|error| tls::words(&error, &target.host))?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| words(&error))?;
    // It ends with the sender, or when the webhook closes it.
    tokio::spawn(connection);
    Ok(sender)
}

async fn dial(registry: &Registry, target: &Target) -> Result<TcpStream, String> {
    let (host, port) = match &target.service {
        Some(service) => match registry.settings.webhook_hosts.of(service) {
            Some(host) => host.clone(),
            None => resolve::endpoint(registry, &service.0, &service.1, target.port)?,
        },
        None => (target.host.clone(), target.port),
    };
    let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, port)],
        Err(_) => match tokio::net::lookup_host((host.as_str(), port)).await {
            Ok(found) => found.collect(),
            Err(_) => Vec::new(),
        },
    };
    let mut first = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                first.get_or_insert_with(|| format!("dial tcp {address}: connect: {}", system_words(&error)));
            }
        }
    }
    Err(first.unwrap_or_else(|| format!("dial tcp: lookup {host}: no such host")))
}

/// What the system says, without the number that Rust adds, as Go writes it.
pub(super) fn system_words(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut characters = text.chars();
    characters.next().map(|first| first.to_lowercase().chain(characters).collect()).unwrap_or_default()
}

/// What went wrong in an exchange over HTTP.
pub(super) fn words(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        return "EOF".to_owned();
    }
    match error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
        Some(error) if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        Some(error) => format!("read tcp: read: {}", system_words(error)),
        None if error.is_parse() => {
            "net/http: HTTP/1.x transport connection broken: malformed HTTP response".to_owned()
        }
        None => error.to_string(),
    }
}
