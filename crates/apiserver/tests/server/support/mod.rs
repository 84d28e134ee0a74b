//! A server on a real socket, and a client of it.

#![allow(unreachable_pub, reason = "of a test, nothing is public")]

pub mod webhook;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use muster_apiserver::serve::{Handle, serve, serve_stream};
use muster_apiserver::storage::Retention;
use muster_apiserver::{ApiServer, Options};
use muster_objects::time::Timestamp;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

/// A server, and how it is reached.
pub struct Server {
    pub api: ApiServer,
    /// The listener, where there is one; else connections are pipes, whose time can be paused.
    pub handle: Option<Handle>,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&self.body).into_owned()))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }
}

pub fn options() -> Options {
    Options::seeded(1, Timestamp::from_seconds(1_800_000_000))
}

/// A server that speaks HTTP over pipes.
pub fn start() -> Server {
    start_with(options())
}

pub fn start_with(options: Options) -> Server {
    Server { api: ApiServer::new(options), handle: None }
}

/// A server that listens on a free port of the loopback, in plain HTTP.
pub async fn listen() -> Server {
    let api = ApiServer::new(options());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let handle = serve(listener, &api, None).expect("a listening server");
    Server { api, handle: Some(handle) }
}

/// Retention that keeps next to nothing.
pub fn forgetful() -> Options {
    Options { retention: Retention { window: Duration::from_secs(300), bytes: 20_000 }, ..options() }
}

impl Server {
    pub async fn connect(&self) -> SendRequest<Full<Bytes>> {
        match &self.handle {
            Some(handle) => {
                let stream = TcpStream::connect(handle.address()).await.expect("the server accepts");
                let (sender, connection) =
                    hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
                tokio::spawn(connection.with_upgrades());
                sender
            }
            None => {
                let (near, far) = tokio::io::duplex(64 << 10);
                let api = self.api.clone();
                tokio::spawn(async move { serve_stream(far, &api).await });
                let (sender, connection) =
                    hyper::client::conn::http1::handshake(TokioIo::new(near)).await.expect("HTTP");
                tokio::spawn(connection.with_upgrades());
                sender
            }
        }
    }

    /// A request of the administrator, unless the headers have another credential, or an empty one.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::builder()
            .method(Method::from_bytes(method.as_bytes()).expect("a method"))
            .uri(path)
            .header("Host", "localhost");
        if headers.iter().all(|(name, _)| *name != "Authorization") {
            request = request.header("Authorization", format!("Bearer {}", self.api.token()));
        }
        // An empty one stands for none.
        for (name, value) in headers.iter().filter(|header| **header != ("Authorization", "")) {
            request = request.header(*name, *value);
        }
        request.body(Full::new(body)).expect("a request")
    }

    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        let request = self.request(method, path, headers, body.into());
        let response = self.connect().await.send_request(request).await.expect("an answer");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[("Content-Type", "application/json")], body.to_string()).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send("PUT", path, &[("Content-Type", "application/json")], body.to_string()).await
    }

    pub async fn merge(&self, path: &str, body: &Value) -> Answer {
        self.send("PATCH", path, &[("Content-Type", "application/merge-patch+json")], body.to_string()).await
    }

    pub async fn delete(&self, path: &str, body: Option<&Value>) -> Answer {
        let body = body.map(Value::to_string).unwrap_or_default();
        self.send("DELETE", path, &[("Content-Type", "application/json")], body).await
    }

    /// Starts a watch.
    pub async fn watch(&self, path: &str) -> Lines {
        let request = self.request("GET", path, &[], Bytes::new());
        let response = self.connect().await.send_request(request).await.expect("an answer");
        assert_eq!(response.status(), 200, "{path}");
        Lines { body: response.into_body(), rest: Vec::new() }
    }

    /// Creates a ConfigMap with one label.
    pub async fn config_map(&self, name: &str, label: &str) -> Answer {
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"k": label}}, "data": {"a": "b"},
        });
        self.post("/api/v1/namespaces/default/configmaps", &body).await
    }
}

/// The lines of a watch, as they come.
pub struct Lines {
    body: Incoming,
    rest: Vec<u8>,
}

impl Lines {
    /// The next event; `None` at the end.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(at) = self.rest.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=at).collect();
                return Some(serde_json::from_slice(&line).expect("a line of JSON"));
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.rest.extend_from_slice(&data);
            }
        }
    }

    /// The next event's type and its object's name.
    pub async fn brief(&mut self) -> Option<(String, String)> {
        let event = self.next().await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Some((text(&event["type"]), text(&event["object"]["metadata"]["name"])))
    }
}

/// The version in an object's or a list's metadata.
pub fn version(value: &Value) -> u64 {
    value["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse().ok()).unwrap_or_default()
}
