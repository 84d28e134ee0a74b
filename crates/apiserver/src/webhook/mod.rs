//! Webhooks: servers of users, called as the reference calls them (API-33).
//!
//! ```text
//!   clientConfig --> Client --post--> address (resolve: a Service's endpoints) --> TLS (tls) --> HTTP/1.1
//!                       ^                                                                          |
//!                       +----------------------- connections that may be used again ---------------+
//! ```
//!
//! What goes wrong is told in the words of Go's HTTP client, which users of the reference know.

mod connect;
pub mod conversions;
pub mod hosts;
mod resolve;
mod tls;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use muster_tree::Value;
use tokio::time::Instant;

use crate::field::go_quote;
use crate::model::{Fields as _, Object};
use crate::registry::Registry;

/// So many connections without a request are kept.
const MOST_IDLE: usize = 25;
/// For so long.
const IDLE: Duration = Duration::from_secs(90);
/// Of an answer that is no review, so many bytes are shown.
const MOST_SHOWN: usize = 2048;
/// An answer may be this many bytes long.
const LARGEST_ANSWER: usize = 8 << 20;

/// A client of one webhook.
#[derive(Debug)]
pub struct Client {
    target: Target,
    /// The authorities of `caBundle`, as PEM; `None` for those of the system.
    authorities: Option<Vec<u8>>,
    /// How it speaks TLS, once it has been asked to.
    tls: OnceLock<Result<Arc<rustls::ClientConfig>, String>>,
    idle: Mutex<Vec<(Instant, SendRequest<Full<Bytes>>)>>,
}

/// Where the webhook is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    /// The host and the port, as the URL has them.
    authority: String,
    /// The host alone.
    host: String,
    port: u16,
    /// The path.
    path: String,
    /// The namespace and name of the Service that it is behind.
    service: Option<(String, String)>,
}

/// What a webhook answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The media type.
    pub content_type: String,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// What the reference's client says of an HTTP status that is no success.
    #[must_use]
    pub fn refusal(&self) -> String {
        let shown = if self.content_type.is_empty() || self.content_type.starts_with("text/") {
            String::from_utf8_lossy(&self.body[..self.body.len().min(MOST_SHOWN)]).trim().to_owned()
        } else {
            "unknown".to_owned()
        };
        match self.status {
            400 => "the server rejected our request for an unknown reason".to_owned(),
            401 => "the server has asked for the client to provide credentials".to_owned(),
            403 | 415 => shown,
            404 => "the server could not find the requested resource".to_owned(),
            405 => "the server does not allow this method on the requested resource".to_owned(),
            406 if shown.is_empty() || shown == "unknown" => {
                "the server was unable to respond with a content type that the client supports".to_owned()
            }
            406 => shown,
            409 => "the server reported a conflict".to_owned(),
            422 => "the server rejected our request due to an error in our request".to_owned(),
            429 => "the server has received too many requests and has asked us to try again later".to_owned(),
            503 => "the server is currently unable to handle the request".to_owned(),
            504 => {
                "the server was unable to return a response in the time allotted, but may still be processing the request"
                    .to_owned()
            }
            500.. => format!("an error on the server ({}) has prevented the request from succeeding", go_quote(&shown)),
            code => format!("the server responded with the status code {code} but did not return more information"),
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The configuration cannot be used.
    #[error("could not get REST client: {0}")]
    Configuration(String),
    /// The webhook could not be reached, or did not answer in time.
    #[error("{0}")]
    Call(String),
}

impl Client {
    /// A client by a `clientConfig`.
    #[must_use]
    pub fn new(config: &Object) -> Self {
        let authorities = config.text("caBundle");
        let engine = &base64::engine::general_purpose::STANDARD;
        Self {
            target: Target::new(config),
            authorities: (!authorities.is_empty()).then(|| engine.decode(authorities).unwrap_or_default()),
            tls: OnceLock::new(),
            idle: Mutex::default(),
        }
    }

    /// Sends a body and waits for the answer until a deadline, of which the webhook is told.
    ///
    /// # Errors
    /// [`CallError`]
    pub async fn post(&self, registry: &Registry, body: Bytes, deadline: Instant) -> Result<Answer, CallError> {
        let tls = self
            .tls
            .get_or_init(|| tls::config(self.authorities.as_deref()))
            .as_ref()
            .map_err(|why| CallError::Configuration(why.clone()))?;
        let left = deadline.saturating_duration_since(Instant::now());
        // Whole seconds, rounded up.
        let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        let Target { authority, path, .. } = &self.target;
        let query = if seconds > 0 { format!("?timeout={seconds}s") } else { String::new() };
        let told = |why: String| {
            CallError::Call(format!("Post {}: {why}", go_quote(&format!("https://{authority}{path}{query}"))))
        };
        let uri = format!("{path}{query}");
        match tokio::time::timeout_at(deadline, self.exchange(registry, tls, &uri, body)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(why)) => Err(told(why)),
            Err(_) => Err(told("context deadline exceeded".to_owned())),
        }
    }

    async fn exchange(
        &self,
        registry: &Registry,
        tls: &Arc<rustls::ClientConfig>,
        uri: &str,
        body: Bytes,
    ) -> Result<Answer, String> {
        // A connection that was kept may have been closed meanwhile: then a new one is made.
        while let Some(mut sender) = self.kept() {
            if let Ok(response) = sender.send_request(self.request(uri, body.clone())).await {
                return self.read(sender, response).await;
            }
        }
        let mut sender = connect::connect(registry, &self.target, tls).await?;
        let response = sender.send_request(self.request(uri, body)).await.map_err(|error| connect::words(&error))?;
        self.read(sender, response).await
    }

    fn request(&self, uri: &str, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.parse().unwrap_or_default();
        let headers = request.headers_mut();
        for (name, value) in [
            (HOST, self.target.authority.as_str()),
            (USER_AGENT, "kube-apiserver-admission"),
            (CONTENT_TYPE, "application/json"),
            (ACCEPT, "application/json, */*"),
        ] {
            if let Ok(value) = value.parse() {
                headers.insert(name, value);
            }
        }
        request
    }

    async fn read(&self, sender: SendRequest<Full<Bytes>>, response: Response<Incoming>) -> Result<Answer, String> {
        let (parts, mut body) = response.into_parts();
        let mut read = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                let why = connect::words(&error);
                format!("unexpected error when reading response body. Please retry. Original error: {why}")
            })?;
            if let Ok(data) = frame.into_data() {
                if read.len() + data.len() > LARGEST_ANSWER {
                    return Err(format!("the answer is longer than {LARGEST_ANSWER} bytes"));
                }
                read.extend_from_slice(&data);
            }
        }
        self.keep(sender);
        let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Ok(Answer {
            status: parts.status.as_u16(),
            content_type: content_type.split(';').next().unwrap_or_default().trim().to_lowercase(),
            body: read.freeze(),
        })
    }

    /// A connection without a request.
    fn kept(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(since, sender)| sender.is_ready() && since.elapsed() < IDLE);
        idle.pop().map(|(_, sender)| sender)
    }

    fn keep(&self, sender: SendRequest<Full<Bytes>>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if !sender.is_closed() && idle.len() < MOST_IDLE {
            idle.push((Instant::now(), sender));
        }
    }
}

impl Target {
    fn new(config: &Object) -> Self {
        if let Some(service) = config.object("service") {
            let (namespace, name) = (service.text("namespace"), service.text("name"));
            let port = service.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
            let (host, port) = (format!("{name}.{namespace}.svc"), port.filter(|port| *port > 0).unwrap_or(443));
            return Self {
                authority: format!("{host}:{port}"),
                host,
                port,
                path: clean(service.text("path")),
                service: Some((namespace.to_owned(), name.to_owned())),
            };
        }
        let rest = config.text("url").split_once("://").map_or("", |(_, rest)| rest);
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().unwrap_or(443)),
            _ => (authority, 443),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Self { authority: authority.to_owned(), host: host.to_owned(), port, path: clean(path), service: None }
    }
}

/// A path from the root, without empty parts, dots, and a slash at its end.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    /// Contract: API-33
    #[test]
    fn where_a_webhook_is() {
        let table = [
            (json!({"url": "https://127.0.0.1:1/"}), ("127.0.0.1:1", "127.0.0.1", 1, "/")),
            (json!({"url": "https://example.com"}), ("example.com", "example.com", 443, "/")),
            (json!({"url": "https://[::1]:8443/a//b/"}), ("[::1]:8443", "::1", 8443, "/a/b")),
            (json!({"url": "https://[::1]/a/../b"}), ("[::1]", "::1", 443, "/b")),
            (
                json!({"service": {"namespace": "n", "name": "s", "path": "/check"}}),
                ("s.n.svc:443", "s.n.svc", 443, "/check"),
            ),
            (json!({"service": {"namespace": "n", "name": "s", "port": 8443}}), ("s.n.svc:8443", "s.n.svc", 8443, "/")),
        ];
        for (config, expected) in table {
            let target = Target::new(config.as_object().expect("an object"));
            let found = (target.authority.as_str(), target.host.as_str(), target.port, target.path.as_str());
            assert_eq!(found, expected, "{config}");
        }
    }
}
