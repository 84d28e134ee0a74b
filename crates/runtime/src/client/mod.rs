//! A Kubernetes client that sends and receives bytes of our own making.
//!
//! `kube` reads the configuration, authenticates and does TLS. Requests are composed here: bodies are written by the
//! caller, answers are returned as bytes, refusals as a typed [`ApiError`]. The same client also talks to a server in
//! this process without a socket ([`Client::in_process`]).
//!
//! Retries (CM-03): an answer of 429 means that the request was not processed, so it is sent again, whatever its verb,
//! after the `Retry-After`. A 503 with a `Retry-After` is sent again unless it is a POST, which something in between
//! may have let through. No other request is sent twice. All of this takes no more than 10 s: a longer `Retry-After` is
//! returned in the error, so that the caller can do other things meanwhile.

mod config;
mod credentials;
mod encoding;
mod endpoint;
mod error;
mod frames;
mod gate;
mod gathered;
mod limit;
mod offset;
mod plugin;
mod protobuf;
mod silence;
mod slices;
mod transport;
mod written;

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use muster_objects::time::Timestamp;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    time::Instant,
};
use tower::Service;

pub use self::{
    config::configuration,
    encoding::Encoding,
    error::{ApiError, BoxError, Cause, ClientError, Details, Received},
    frames::Frames,
    transport::{RequestBody, ResponseBody},
    written::Written,
};
use self::{
    limit::Limit,
    offset::ServerOffset,
    silence::Silence,
    transport::{Through, Transport},
    written::written,
};
use crate::{clock::Clock, informer::SharedWatches};

/// How many times a request that the server refused for load is sent again.
const RETRIES: u32 = 10;
/// How long a request may take with its repetitions, for one more to be begun.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait where a 429 does not say.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long an answer may take: the server's own limit is 60 s.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(75);

/// A client for one API server. Cloning is cheap; requests run side by side without limit.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    /// What writes pass; none lets all of them pass.
    gate: Option<Gate>,
    /// What the informers of ranges share.
    watches: Arc<SharedWatches>,
}

/// What a write has to pass before it is sent.
#[derive(Clone)]
struct Gate {
    /// Called after every wait of the client's own.
    fence: Fence,
    /// The transport of writes, if it checks the fence too; otherwise the one of reads.
    transport: Option<Arc<dyn Transport>>,
}

/// Whether a write may be sent at this moment (CM-05).
pub type Fence = Arc<dyn Fn() -> bool + Send + Sync>;

struct Inner {
    transport: Arc<dyn Transport>,
    clock: Clock,
    /// The server's clock against ours (B-11).
    offset: Mutex<ServerOffset>,
    /// The client's own limit (CM-03); none by default.
    limit: Option<Limit>,
    /// What is done about a server that does not answer, besides the limit of each request.
    silence: Option<Silence>,
    /// Whether the server is in this process.
    in_process: bool,
    /// Whether protobuf is requested.
    protobuf: bool,
    user_agent: HeaderValue,
    /// The server's address, for errors; empty for one in this process.
    server: String,
    default_namespace: String,
}

/// How a client is set up. [`Options::default`] is what the program uses.
#[derive(Clone, Debug)]
pub struct Options {
    /// The local clock.
    pub clock: Clock,
    /// Requests per second; 0 sets no limit.
    pub qps: f64,
    /// Requests at once under a limit.
    pub burst: u32,
    /// Whether protobuf is requested where it can be read; false keeps to JSON.
    pub protobuf: bool,
    /// What the client calls itself.
    pub user_agent: String,
    /// For a command that somebody waits for: is called with the server's address when it has not answered for 3 s, once until
    /// it does. The server's first answer may then take 30 s, and every other one 75 s as without it.
    pub silence: Option<fn(&str)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Clock::system(),
            qps: 0.0,
            burst: 0,
            protobuf: true,
            user_agent: concat!("muster/", env!("CARGO_PKG_VERSION")).to_owned(),
            silence: None,
        }
    }
}

/// An answer, its body whole.
#[derive(Clone, Debug)]
pub struct Answer {
    /// 2xx: everything else is a [`ClientError`].
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Answer {
    /// How the body is written.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        Encoding::of(&self.headers)
    }
}

/// The form in which an answer is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The whole object.
    Full,
    /// `PartialObjectMetadata` where the server can, else the whole object.
    Metadata,
    /// `PartialObjectMetadataList` where the server can, else the whole list.
    MetadataList,
}

/// The kind of a patch, by its media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 7386.
    Merge,
    /// Kubernetes' own merge, lists by key.
    StrategicMerge,
    /// RFC 6902.
    Json,
}

impl PatchType {
    fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Merge => "application/merge-patch+json",
            Self::StrategicMerge => "application/strategic-merge-patch+json",
            Self::Json => "application/json-patch+json",
        })
    }
}

impl Client {
    /// A client of the server that `config` names. A plugin for credentials is run when the first request is sent, and
    /// when they have expired or were refused; files of certificates are read again each minute.
    ///
    /// # Errors
    /// [`ClientError::Configuration`] where certificates, credentials or headers cannot be used.
    pub fn connect(config: &kube::Config, options: &Options) -> Result<Self, ClientError> {
        let transport = endpoint::transport(config, options.clock)?;
        let server = endpoint::without_user(&config.cluster_url);
        Ok(Self::new((transport.into(), false), server, config.default_namespace.clone(), options))
    }

    /// A client of the same server and user, with its own options and connections. The credentials (a plugin that is
    /// run, files that are read) are shared.
    #[must_use]
    pub fn beside(&self, options: &Options) -> Self {
        let another = self.inner.transport.another(None).map(Arc::from);
        let transport = another.unwrap_or_else(|| Arc::clone(&self.inner.transport));
        let Inner { in_process, server, default_namespace, .. } = &*self.inner;
        Self::new((transport, *in_process), server.clone(), default_namespace.clone(), options)
    }

    /// A client of a server in this process: every request is a call of `service`, no socket between.
    pub fn in_process<S, B>(service: S, options: &Options) -> Self
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self::new((Arc::new(Through(service)), true), String::new(), "default".to_owned(), options)
    }

    fn new(
        (transport, in_process): (Arc<dyn Transport>, bool),
        server: String,
        default_namespace: String,
        options: &Options,
    ) -> Self {
        let user_agent =
            HeaderValue::from_str(&options.user_agent).unwrap_or_else(|_| HeaderValue::from_static("muster"));
        Self {
            inner: Arc::new(Inner {
                transport,
                clock: options.clock,
                offset: Mutex::default(),
                limit: Limit::new(options.qps, options.burst),
                silence: options.silence.map(Silence::new),
                in_process,
                protobuf: options.protobuf,
                user_agent,
                server,
                default_namespace,
            }),
            gate: None,
            watches: Arc::default(),
        }
    }

    /// The same client with a fence: each write, and each retry of one, calls `fence` after every wait and is refused
    /// with [`ClientError::Fenced`] if it returns no. Writes have a connection of their own, whose socket calls the
    /// fence again before it sends anything.
    ///
    /// A client that has a fence keeps the connection of its writes: it calls both fences before each write, and the
    /// socket goes on to call the one that it was opened with.
    #[must_use]
    pub fn fenced(&self, fence: Fence) -> Self {
        if let Some(Gate { fence: outer, transport }) = self.gate.clone() {
            let fence: Fence = Arc::new(move || outer() && fence());
            return Self { gate: Some(Gate { fence, transport }), ..self.clone() };
        }
        let transport = self.inner.transport.another(Some(&fence)).map(Arc::from);
        Self { gate: Some(Gate { fence, transport }), ..self.clone() }
    }

    /// The same client, for one who only reads: a write is refused with [`ClientError::Fenced`] before it is sent.
    #[must_use]
    pub fn read_only(&self) -> Self {
        Self { gate: Some(Gate { fence: Arc::new(|| false), transport: None }), ..self.clone() }
    }

    /// The same client for a process of its own: the watches of ranges (`WatchedResource::range`) are shared among the
    /// clones of what is returned, one for each kind, and among nobody else.
    #[must_use]
    pub fn shared_watches(&self) -> Self {
        Self { watches: Arc::default(), ..self.clone() }
    }

    pub(crate) fn watches(&self) -> &SharedWatches {
        &self.watches
    }

    /// The namespace that the configuration names, else `default`.
    #[must_use]
    pub fn default_namespace(&self) -> &str {
        &self.inner.default_namespace
    }

    /// The clock by which this client measures.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.inner.clock
    }

    /// Wall time by the server's clock, estimated from its answers (B-11).
    #[must_use]
    pub fn server_now(&self) -> Timestamp {
        let offset = self.inner.offset.lock().unwrap_or_else(PoisonError::into_inner).nanos();
        Timestamp::from_nanos(self.inner.clock.now().as_nanos().saturating_add(offset))
    }

    /// Reads `path` (with its query).
    ///
    /// # Errors
    /// As every request: [`ClientError::Api`] for a refusal, [`ClientError::Transport`] for none at all.
    pub async fn get(&self, path: &str) -> Result<Answer, ClientError> {
        self.get_as(path, Form::Full).await
    }

    /// Reads `path` in a form.
    ///
    /// # Errors
    /// See [`Client::get`].
    pub async fn get_as(&self, path: &str, form: Form) -> Result<Answer, ClientError> {
        self.request(Method::GET, path, form, None, Bytes::new()).await
    }

    /// Reads `path` in a form, in `encoding` if the server supports it, else in JSON: the answer says which.
    ///
    /// # Errors
    /// See [`Client::get`].
    pub async fn get_in(&self, path: &str, form: Form, encoding: Encoding) -> Result<Answer, ClientError> {
        self.exchange(Method::GET, path, self.accept(form, encoding), None, Bytes::new()).await
    }

    /// Creates an object in the collection `path` from its JSON. Never sent twice, 429 apart.
    ///
    /// # Errors
    /// See [`Client::get`].
    pub async fn post(&self, path: &str, body: Bytes) -> Result<Answer, ClientError> {
        self.request(Method::POST, path, Form::Full, Some(json()), body).await
    }

    /// Creates an object and learns what it was called.
    ///
    /// # Errors
    /// See [`Client::get`].
    pub async fn create(&self, path: &str, body: Bytes) -> Result<Written, ClientError> {
        let answer = self.exchange(Method::POST, path, self.accept_written(), Some(json()), body).await?;
        written(&Method::POST, path, &answer)
    }

    /// Replaces the object at `path`.
    ///
    /// # Errors
    /// See [`Client::get`].
    pub async fn put(&self, path: &str, body: Bytes) -> Result<Answer, ClientError> {
        self.request(Method::PUT, path, Form::Full, Some(json()), body).await
    }

    /// Patches the object at `path`.
    ///
    /// # Errors
    /// See [`Client::get`].
    pub async fn patch(&self, path: &str, kind: PatchType, body: Bytes) -> Result<Answer, ClientError> {
        self.request(Method::PATCH, path, Form::Full, Some(kind.content_type()), body).await
    }

    /// Patches the object at `path` and learns its new version.
    ///
    /// # Errors
    /// See [`Client::get`].
    pub async fn patch_metadata(&self, path: &str, kind: PatchType, body: Bytes) -> Result<Written, ClientError> {
        let content = Some(kind.content_type());
        let answer = self.exchange(Method::PATCH, path, self.accept_written(), content, body).await?;
        written(&Method::PATCH, path, &answer)
    }

    /// Deletes the object at `path`; a body holds `DeleteOptions`.
    ///
    /// # Errors
    /// See [`Client::get`].
    pub async fn delete(&self, path: &str, options: Option<Bytes>) -> Result<Answer, ClientError> {
        let content = options.is_some().then(json);
        self.request(Method::DELETE, path, Form::Full, content, options.unwrap_or_default()).await
    }

    /// Deletes the object at `path` and learns its version, where it lives on for its grace period.
    ///
    /// # Errors
    /// See [`Client::get`].
    pub async fn delete_metadata(&self, path: &str, options: Bytes) -> Result<Written, ClientError> {
        let answer = self.exchange(Method::DELETE, path, self.accept_written(), Some(json()), options).await?;
        written(&Method::DELETE, path, &answer)
    }

    /// Opens a watch in JSON: `path` carries `watch=true` and the rest. The frames are watch events.
    ///
    /// # Errors
    /// See [`Client::get`]; errors on the way come from the frames.
    pub async fn watch(&self, path: &str, form: Form) -> Result<Frames, ClientError> {
        self.watch_in(path, form, Encoding::Json).await
    }

    /// Opens a watch in `encoding` if the server supports it, else in JSON: the frames say which.
    ///
    /// # Errors
    /// See [`Client::watch`].
    pub async fn watch_in(&self, path: &str, form: Form, encoding: Encoding) -> Result<Frames, ClientError> {
        let answer = self.send(&Method::GET, path, &self.accept(form, encoding), None, &Bytes::new()).await?;
        let encoding = Encoding::of(answer.headers());
        Ok(Frames::new(answer.into_body(), encoding))
    }

    /// Reads `path`, its body as it arrives, however long that takes.
    ///
    /// # Errors
    /// See [`Client::get`]; errors on the way come from the body.
    pub async fn download(&self, path: &str) -> Result<ResponseBody, ClientError> {
        let accept = Encoding::Json.accept(Form::Full);
        Ok(self.send(&Method::GET, path, &accept, None, &Bytes::new()).await?.into_body())
    }

    /// Any request, its answer whole and in JSON.
    ///
    /// # Errors
    /// See [`Client::get`].
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        form: Form,
        content_type: Option<HeaderValue>,
        body: Bytes,
    ) -> Result<Answer, ClientError> {
        self.exchange(method, path, Encoding::Json.accept(form), content_type, body).await
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        accept: HeaderValue,
        content_type: Option<HeaderValue>,
        body: Bytes,
    ) -> Result<Answer, ClientError> {
        let (parts, answer) = self.send(&method, path, &accept, content_type, &body).await?.into_parts();
        match tokio::time::timeout(REQUEST_TIMEOUT, answer.collect()).await {
            Ok(Ok(body)) => Ok(Answer { status: parts.status, headers: parts.headers, body: body.to_bytes() }),
            Ok(Err(source)) => Err(self.lost(&method, path, source)),
            Err(_) => Err(self.lost(&method, path, format!("no end of the answer within {REQUEST_TIMEOUT:?}").into())),
        }
    }

    /// What to ask for in `encoding`, where it is allowed.
    fn accept(&self, form: Form, encoding: Encoding) -> HeaderValue {
        if self.inner.protobuf { encoding.accept(form) } else { Encoding::Json.accept(form) }
    }

    /// What to ask for as the answer of a write of which only name, uid and version count.
    fn accept_written(&self) -> HeaderValue {
        self.accept(Form::Metadata, Encoding::Protobuf)
    }

    /// Sends a request until it is answered with something else than a refusal for load.
    async fn send(
        &self,
        method: &Method,
        path: &str,
        accept: &HeaderValue,
        content_type: Option<HeaderValue>,
        body: &Bytes,
    ) -> Result<Response<ResponseBody>, ClientError> {
        let begun = Instant::now();
        let mut retries = 0;
        loop {
            let (error, wait) =
                match self.attempt(method, path, accept.clone(), content_type.clone(), body.clone()).await? {
                    Ok(answer) => return Ok(answer),
                    Err(refusal) => refusal,
                };
            let in_time = |wait: &Duration| retries < RETRIES && begun.elapsed() + *wait <= PATIENCE;
            let Some(wait) = wait.filter(in_time) else {
                return Err(ClientError::Api(Box::new(error)));
            };
            retries += 1;
            tracing::debug!(%method, path, code = error.code, ?wait, retries, "refused for load, trying again");
            tokio::time::sleep(wait).await;
        }
    }

    /// Sends a request once. A refusal comes with how long to wait before it may be sent again, if it may.
    async fn attempt(
        &self,
        method: &Method,
        path: &str,
        accept: HeaderValue,
        content_type: Option<HeaderValue>,
        body: Bytes,
    ) -> Result<Result<Response<ResponseBody>, (ApiError, Option<Duration>)>, ClientError> {
        if let Some(limit) = &self.inner.limit {
            limit.turn().await;
        }
        // A burst must leave room for other tasks also where there is only one thread.
        tokio::task::consume_budget().await;
        let gate = self.gate.as_ref().filter(|_| *method != Method::GET);
        if gate.is_some_and(|gate| !(gate.fence)()) {
            return Err(ClientError::Fenced { method: method.clone(), path: path.to_owned() });
        }
        let transport = gate.and_then(|gate| gate.transport.as_deref()).unwrap_or(&*self.inner.transport);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method.clone();
        *request.uri_mut() = path
            .parse()
            .map_err(|error| ClientError::Configuration { what: "request path".into(), source: Box::new(error) })?;
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, accept);
        headers.insert(header::USER_AGENT, self.inner.user_agent.clone());
        if let Some(content_type) = content_type {
            headers.insert(header::CONTENT_TYPE, content_type);
        }

        let sent = self.inner.clock.now().as_nanos();
        let answer = match &self.inner.silence {
            None => tokio::time::timeout(REQUEST_TIMEOUT, transport.call(request))
                .await
                .unwrap_or_else(|_| Err(no_answer(REQUEST_TIMEOUT))),
            // A plugin for credentials may be asking a person.
            Some(silence) => match transport.ready().await {
                Ok(()) => silence.until(&self.inner.server, transport.call(request)).await,
                Err(error) => Err(error),
            },
        };
        let answer = answer.map_err(|source| self.lost(method, path, source))?;
        self.observe(&answer, sent);
        if self.inner.in_process && is_shared() {
            // Such a server answers without waiting. Who sends one request after another would otherwise keep the thread
            // for as many as a task's budget allows, and the other tasks of the process would wait for all of them.
            // Not before the request: what was decided would be sent after others have written.
            tokio::task::yield_now().await;
        }
        if answer.status().is_success() {
            return Ok(Ok(answer));
        }

        let (parts, body) = answer.into_parts();
        let said = match tokio::time::timeout(REQUEST_TIMEOUT, body.collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            // The status alone is an answer.
            Ok(Err(_)) | Err(_) => Bytes::new(),
        };
        let after = parts.headers.get(header::RETRY_AFTER);
        let after: Option<u64> = after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let error =
            ApiError::read_in(Encoding::of(&parts.headers), method, parts.status, &said).with_retry_after(after);
        let asked = after.is_some().then(|| error.retry_after().unwrap_or_default());
        let wait = match parts.status {
            StatusCode::TOO_MANY_REQUESTS => Some(asked.or(error.retry_after()).unwrap_or(DEFAULT_RETRY_AFTER)),
            StatusCode::SERVICE_UNAVAILABLE if *method != Method::POST => asked,
            _ => None,
        };
        Ok(Err((error, wait)))
    }

    fn lost(&self, method: &Method, path: &str, source: BoxError) -> ClientError {
        let received = if endpoint::never_sent(&source) { Received::Never } else { Received::Perhaps };
        let address = format!("{}{path}", self.inner.server);
        ClientError::Transport { method: method.clone(), address, received, source }
    }

    fn observe(&self, answer: &Response<ResponseBody>, sent: i64) {
        let date = answer.headers().get(header::DATE).and_then(|date| date.to_str().ok());
        let Some(date) = date.and_then(|date| httpdate::parse_http_date(date).ok()) else { return };
        let Ok(date) = date.duration_since(std::time::UNIX_EPOCH) else { return };
        let received = self.inner.clock.now().as_nanos();
        let mut offset = self.inner.offset.lock().unwrap_or_else(PoisonError::into_inner);
        offset.observe(i64::try_from(date.as_secs()).unwrap_or(i64::MAX), sent, received);
    }
}

/// Whether the tasks of this runtime have threads of their own. In a simulation they have one, and virtual time, in which a
/// request to a server of the same process takes none.
fn is_shared() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

fn no_answer(within: Duration) -> BoxError {
    format!("no answer within {within:?}").into()
}

fn json() -> HeaderValue {
    HeaderValue::from_static("application/json")
}
