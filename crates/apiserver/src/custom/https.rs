//! A request over TLS that waits for its answer: all that talking to a webhook takes.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::conversion::Caller;
use super::definition::{self, webhook};
use crate::field::go_quote;

/// How long a webhook may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest answer that is read.
const LONGEST: u64 = 64 << 20;

/// Webhooks over the network.
#[derive(Debug, Default)]
pub struct Https;

/// Where a webhook is.
struct Target {
    host: String,
    port: u16,
    path: String,
}

impl Target {
    fn of(place: &definition::ClientConfig) -> Self {
        if let Some(service) = &place.service {
            return Self {
                host: format!("{}.{}.svc", service.name, service.namespace),
                port: u16::try_from(service.port).unwrap_or(443),
                path: service.path.clone().unwrap_or_else(|| "/".to_owned()),
            };
        }
        let url = place.url.as_deref().unwrap_or_default();
        let rest = url.strip_prefix("https://").unwrap_or(url);
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let after_bracket = authority.rfind(']').unwrap_or_default();
        let (host, port) = match authority[after_bracket..].rfind(':') {
            Some(at) => (&authority[..after_bracket + at], &authority[after_bracket + at + 1..]),
            None => (authority, ""),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Self { host, port: port.parse().unwrap_or(443), path: format!("/{path}") }
    }

    fn url(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("https://{host}:{}{}?timeout=30s", self.port, self.path)
    }
}

impl Caller for Https {
    fn post(&self, place: &definition::ClientConfig, body: &[u8]) -> Result<Vec<u8>, String> {
        let target = Target::of(place);
        exchange(&target, &place.ca_bundle, body).map_err(|why| format!("Post {}: {why}", go_quote(&target.url())))
    }
}

fn exchange(target: &Target, bundle: &str, body: &[u8]) -> Result<Vec<u8>, String> {
    let mut roots = RootCertStore::empty();
    for der in webhook::certificates(bundle) {
        // A certificate that cannot be read vouches for nobody.
        let _ = roots.add(CertificateDer::from(der));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(target.host.clone()).map_err(|error| error.to_string())?;
    let connection = ClientConnection::new(Arc::new(config), name).map_err(|error| error.to_string())?;
    let socket = connect(target)?;
    let mut stream = StreamOwned::new(connection, socket);
    let head = format!(
        "POST {}?timeout=30s HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: application/json\r\nAccept: application/json, */*\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        target.path,
        target.host,
        target.port,
        body.len()
    );
    let unsent = |error: std::io::Error| error.to_string();
    stream.write_all(head.as_bytes()).map_err(unsent)?;
    stream.write_all(body).map_err(unsent)?;
    stream.flush().map_err(unsent)?;
    let mut answer = Vec::new();
    match stream.take(LONGEST).read_to_end(&mut answer) {
        Ok(_) => {}
        // Many servers close without saying so.
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {}
        Err(error) => return Err(error.to_string()),
    }
    body_of(&answer)
}

fn connect(target: &Target) -> Result<TcpStream, String> {
    let places = (target.host.as_str(), target.port).to_socket_addrs();
    let places = places.map_err(|error| format!("dial tcp: lookup {}: {error}", target.host))?;
    let mut last = format!("dial tcp: lookup {}: no such host", target.host);
    for place in places {
        match TcpStream::connect_timeout(&place, PATIENCE) {
            Ok(socket) => {
                let patient = socket.set_read_timeout(Some(PATIENCE)).and(socket.set_write_timeout(Some(PATIENCE)));
                return patient.map(|()| socket).map_err(|error| error.to_string());
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                last = format!("dial tcp {place}: connect: connection refused");
            }
            Err(error) => last = format!("dial tcp {place}: {error}"),
        }
    }
    Err(last)
}

/// The body of an HTTP answer that says that all is well.
fn body_of(answer: &[u8]) -> Result<Vec<u8>, String> {
    let malformed = || "malformed HTTP response".to_owned();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(malformed)?;
    let head = std::str::from_utf8(&answer[..end]).map_err(|_| malformed())?;
    let body = &answer[end + 4..];
    let mut lines = head.split("\r\n");
    let code = lines.next().and_then(|line| line.split(' ').nth(1)).ok_or_else(malformed)?;
    let chunked = lines.any(|line| {
        let line = line.to_ascii_lowercase();
        line.starts_with("transfer-encoding:") && line.contains("chunked")
    });
    let body = if chunked { joined(body).ok_or_else(malformed)? } else { body.to_vec() };
    match code {
        "200" | "201" | "202" => Ok(body),
        code => Err(format!("the server responded with the status code {code}")),
    }
}

/// The chunks of a body, joined.
fn joined(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Some(out);
        }
        out.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_chunks_is_joined() {
        let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4;x=y\r\n\":1}\r\n0\r\n\r\n";
        assert_eq!(body_of(answer), Ok(b"{\"a\":1}".to_vec()));
        assert_eq!(body_of(b"HTTP/1.1 200 OK\r\n\r\n{}"), Ok(b"{}".to_vec()));
        assert!(body_of(b"HTTP/1.1 500 Oh\r\n\r\n").is_err());
        assert!(body_of(b"nothing").is_err());
    }

    #[test]
    fn a_place_is_a_host_a_port_and_a_path() {
        let at = |url: &str| {
            let place = definition::ClientConfig { url: Some(url.to_owned()), ..Default::default() };
            Target::of(&place).url()
        };
        assert_eq!(at("https://a.b/c/d"), "https://a.b:443/c/d?timeout=30s");
        assert_eq!(at("https://127.0.0.1:8443"), "https://127.0.0.1:8443/?timeout=30s");
        assert_eq!(at("https://[::1]:8443/x"), "https://[::1]:8443/x?timeout=30s");
    }
}
