//! A webhook: a server of HTTPS on the loopback that answers reviews as a test wants.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// What a webhook does with a review's request.
pub enum Reply {
    /// Answers a review with this response, to which the uid is added.
    Review(Value),
    /// Answers something else, with a status.
    Other(u16, String),
}

/// Allows a write.
pub fn allow() -> Reply {
    Reply::Review(json!({"allowed": true}))
}

/// Refuses it.
pub fn deny(message: &str) -> Reply {
    Reply::Review(json!({"allowed": false, "status": {"message": message}}))
}

/// Allows it, changed.
pub fn patch(operations: &Value) -> Reply {
    let patch = base64::engine::general_purpose::STANDARD.encode(operations.to_string());
    Reply::Review(json!({"allowed": true, "patch": patch, "patchType": "JSONPatch"}))
}

/// The names of every webhook: its address, and that of a Service that it may be behind.
const NAMES: [&str; 2] = ["127.0.0.1", "hook.default.svc"];

/// A webhook that listens.
pub struct Webhook {
    pub address: SocketAddr,
    authority: String,
    heard: Arc<Mutex<Vec<Value>>>,
}

impl Webhook {
    /// One that answers every review by `reply`, which is given the review's request and the path.
    pub async fn start(reply: impl Fn(&Value, &str) -> Reply + Send + Sync + 'static) -> Self {
        let names = NAMES.map(str::to_owned).to_vec();
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        Self::showing(&made.cert, &made.signing_key, reply).await
    }

    /// One that allows everything, with a certificate by an authority that nobody is told of: its own is in `caBundle`.
    pub async fn pinned() -> Self {
        let authority = muster_apiserver::certificates::Authority::generate().expect("an authority");
        let address = "127.0.0.1".parse().expect("an address");
        let (certificate, key) = authority.sign_server(&[address]).expect("a certificate");
        Self::showing(&certificate, &key, |_, _| allow()).await
    }

    async fn showing(
        certificate: &rcgen::Certificate,
        key: &rcgen::KeyPair,
        reply: impl Fn(&Value, &str) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("TLS versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.into())
            .expect("a certificate");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (reply, hears) = (Arc::new(reply), Arc::clone(&heard));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, reply, hears) = (acceptor.clone(), Arc::clone(&reply), Arc::clone(&hears));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| answer(request, Arc::clone(&reply), Arc::clone(&hears)));
                    let server = hyper::server::conn::http1::Builder::new();
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, authority: certificate.pem(), heard }
    }

    /// One that allows everything.
    pub async fn agreeable() -> Self {
        Self::start(|_, _| allow()).await
    }

    /// How it is reached.
    pub fn client_config(&self) -> Value {
        json!({"url": format!("https://{}/review", self.address), "caBundle": self.authorities()})
    }

    /// Its authority, as `caBundle` has it.
    pub fn authorities(&self) -> String {
        bundle(&self.authority)
    }

    /// The requests of the reviews that it was sent since this was last asked.
    pub fn heard(&self) -> Vec<Value> {
        std::mem::take(&mut *self.heard.lock().expect("no panic"))
    }
}

/// An authority's PEM, as `caBundle` has it.
pub fn bundle(authority: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(authority)
}

async fn answer(
    request: Request<Incoming>,
    reply: Arc<impl Fn(&Value, &str) -> Reply>,
    heard: Arc<Mutex<Vec<Value>>>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let path = request.uri().path().to_owned();
    let timeout = request.uri().query().map(str::to_owned);
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).expect("a review");
    let mut request = review["request"].clone();
    let (status, text) = match reply(&request, &path) {
        Reply::Other(status, text) => (status, text),
        Reply::Review(mut response) => {
            if response.get("uid").is_none() {
                response["uid"] = request["uid"].clone();
            }
            let answer = json!({"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response});
            (200, answer.to_string())
        }
    };
    request["query"] = json!(timeout);
    heard.lock().expect("no panic").push(request);
    let response = Response::builder().status(status).header("Content-Type", "application/json");
    Ok(response.body(Full::new(Bytes::from(text))).expect("a response"))
}

/// A configuration with one webhook; `fields` are added to the webhook, or replace what it has.
pub fn configuration(kind: &str, name: &str, webhook: &Value, fields: &Value) -> Value {
    let mut hook = json!({
        "name": format!("{name}.example.com"), "clientConfig": webhook, "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
    });
    for (field, value) in fields.as_object().expect("fields") {
        hook[field] = value.clone();
    }
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": name}, "webhooks": [hook],
    })
}
