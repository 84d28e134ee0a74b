//! Requests of a test: JSON in and out, by a client that is not the one under test.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tokio::runtime::Handle;

/// A client, used from threads that are not async.
pub(crate) struct Api {
    client: kube::Client,
    runtime: Handle,
}

/// A request that was not done.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The HTTP status; 0 where there was no answer.
    pub(crate) code: u16,
    /// What was said.
    pub(crate) message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.message)
    }
}

impl Api {
    /// A client by that kubeconfig.
    pub(crate) fn new(kubeconfig: &Path, runtime: &Handle) -> Self {
        let file = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig of our own");
        let config = runtime.block_on(Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()));
        let mut config = config.expect("a kubeconfig of our own");
        // A server that is killed says nothing more.
        config.read_timeout = Some(Duration::from_secs(60));
        let _inside = runtime.enter();
        let client = kube::Client::try_from(config).expect("a client");
        Self { client, runtime: runtime.clone() }
    }

    /// The object or list at that path.
    pub(crate) fn get(&self, path: &str) -> Result<Value, Refusal> {
        self.request(Method::GET, path, "", None)
    }

    /// Creates an object in the collection at that path.
    pub(crate) fn create(&self, path: &str, body: &Value) -> Result<Value, Refusal> {
        self.request(Method::POST, path, "application/json", Some(body))
    }

    /// Patches an object by JSON merge patch.
    pub(crate) fn merge(&self, path: &str, patch: &Value) -> Result<Value, Refusal> {
        self.request(Method::PATCH, path, "application/merge-patch+json", Some(patch))
    }

    /// Deletes an object by these `DeleteOptions`.
    pub(crate) fn delete(&self, path: &str, options: &Value) -> Result<Value, Refusal> {
        self.request(Method::DELETE, path, "application/json", Some(options))
    }

    /// Creates or changes an object by server-side apply.
    pub(crate) fn apply(&self, path: &str, body: &Value) -> Result<Value, Refusal> {
        let path = format!("{path}?fieldManager=real-test&force=true");
        self.request(Method::PATCH, &path, "application/apply-patch+yaml", Some(body))
    }

    /// Whether the server answers `ok` there.
    pub(crate) fn healthy(&self, path: &str) -> Result<(), String> {
        let (code, body) = self.send(Method::GET, path, "", None).map_err(|refusal| refusal.to_string())?;
        if code == 200 { Ok(()) } else { Err(format!("{code} {}", String::from_utf8_lossy(&body))) }
    }

    fn request(&self, method: Method, path: &str, media: &str, body: Option<&Value>) -> Result<Value, Refusal> {
        let (code, answer) = self.send(method, path, media, body)?;
        let refusal = |message: &str| Refusal { code, message: message.to_owned() };
        let Ok(answer) = serde_json::from_slice::<Value>(&answer) else {
            return Err(refusal(&String::from_utf8_lossy(&answer)));
        };
        if code >= 400 {
            return Err(refusal(answer["message"].as_str().unwrap_or("no message")));
        }
        Ok(answer)
    }

    fn send(&self, method: Method, path: &str, media: &str, body: Option<&Value>) -> Result<(u16, Vec<u8>), Refusal> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = Request::builder().method(method).uri(path).header("Content-Type", media);
        let request = request.body(Body::from(body.into_bytes())).expect("a request of our own");
        self.runtime.block_on(async {
            let lost = |error: kube::Error| Refusal { code: 0, message: error.to_string() };
            let answer = self.client.send(request).await.map_err(lost)?;
            let code = answer.status().as_u16();
            let body = answer.into_body().collect().await.map_err(lost)?;
            Ok((code, body.to_bytes().to_vec()))
        })
    }
}
