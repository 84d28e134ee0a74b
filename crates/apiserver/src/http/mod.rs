//! HTTP: one request in, one answer out, whatever carries them.
//!
//! ```text
//!   request -> too many? -> path -> discovery, health, metrics
//!                             \--> body (3 MiB at most) -> resources -> registry -> respond / watch
//! ```
//!
//! [`Service`] is a `tower::Service`: sockets use it through [`crate::serve`], and a client in the same process uses it with
//! no socket at all.

pub mod body;
pub mod discovery;
pub mod metrics;
pub mod negotiate;
pub mod path;
pub mod resources;
pub mod respond;
pub mod reviews;
pub mod table;
pub mod timeout;
pub mod watch;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::BodyExt as _;
use percent_encoding::percent_decode_str;
use tokio::sync::watch::Sender;
use tokio::time::Instant;

use crate::access::attributes::{self, Attributes};
use crate::access::{self, User, impersonation, roles};
use crate::codec::Format;
use crate::model::Name;
use crate::model::Subresource;
use crate::registry::options::Query;
use crate::registry::{Registry, Served};
use crate::status::ApiError;
use body::Body;
use metrics::{Labels, Metrics};
use negotiate::Output;
use path::Target;
use resources::Verb;

/// A body may be this many bytes long (API-22).
pub const LARGEST_BODY: usize = 3 << 20;
/// How long a body may take to arrive.
const PATIENCE: Duration = Duration::from_secs(60);
/// Of a body that is too long, this many bytes are read before the connection is given up.
const MOST_DROPPED: usize = 256 << 20;

/// What all connections share.
#[derive(Debug)]
pub struct Shared {
    /// The kinds and their objects.
    pub registry: Arc<Registry>,
    /// The counters.
    pub metrics: Metrics,
    /// Turns true when watches are to end.
    pub stopping: Sender<bool>,
    /// The bearer token that grants everything.
    pub token: String,
    /// Whose it is.
    pub administrator: Arc<User>,
    /// Requests being handled now, watches not among them.
    in_flight: AtomicUsize,
    /// How many of those there may be before others are told to come back (API-22).
    most_in_flight: usize,
}

impl Shared {
    /// The parts of a server.
    #[must_use]
    pub fn new(registry: Registry, token: String, most_in_flight: usize) -> Self {
        Self {
            registry: Arc::new(registry),
            metrics: Metrics::default(),
            stopping: Sender::new(false),
            token,
            administrator: Arc::new(User::administrator()),
            in_flight: AtomicUsize::new(0),
            most_in_flight,
        }
    }
}

/// Answers requests. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Service {
    shared: Arc<Shared>,
    /// Whether a request must carry the token, but for what everybody may read.
    guarded: bool,
}

impl Service {
    pub(crate) fn new(shared: Arc<Shared>, guarded: bool) -> Self {
        Self { shared, guarded }
    }

    /// Answers one request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes>,
    {
        let begun = Instant::now();
        let (parts, body) = request.into_parts();
        let user = match self.admit(&parts) {
            Ok(user) => user,
            Err(error) => {
                let query = Query::parse(parts.uri.query().unwrap_or_default());
                return respond::error(&error, negotiate::output(&parts.headers, &query, false).ok());
            }
        };
        let Some(_slot) = Slot::take(&self.shared) else {
            self.shared.metrics.refused();
            let mut response = respond::text(429, &b"Too many requests, please try again later.\n"[..]);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return response;
        };
        let (response, labels) = self.route(&user, &parts, body).await;
        let labels = Labels { code: response.status().as_u16(), ..labels };
        self.shared.metrics.request(labels, begun.elapsed());
        response
    }

    /// Who is to be taken for the caller, if the caller may send this request at all.
    fn admit(&self, parts: &Parts) -> Result<Arc<User>, ApiError> {
        let query = parts.uri.query().unwrap_or_default();
        let caller = self.caller(&parts.headers);
        let plain = !query.contains("timeout=") && !impersonation::is_asked_for(&parts.headers);
        if plain && caller.as_ref().is_ok_and(|caller| caller.may_do_anything()) {
            return caller;
        }
        let (query, path) = (Query::parse(query), percent_decode_str(parts.uri.path()).decode_utf8_lossy());
        let attributes = Attributes::of(&parts.method, &path, &query);
        timeout::check(&query, &attributes)?;
        let caller = caller?;
        let user = impersonation::user(&caller, &parts.headers, &attributes)?.map_or(caller, Arc::new);
        match roles::allow(&user, &attributes) {
            Some(_) => Ok(user),
            None => Err(attributes::forbidden(&user.name, "", &attributes)),
        }
    }

    /// Whose credential a request carries.
    fn caller(&self, headers: &HeaderMap) -> Result<Arc<User>, ApiError> {
        match access::token(headers) {
            _ if !self.guarded => Ok(Arc::clone(&self.shared.administrator)),
            Some(token) if is_token(&self.shared, token) => Ok(Arc::clone(&self.shared.administrator)),
            Some(_) => Err(ApiError::unauthorized()),
            None => Ok(Arc::new(User::anonymous())),
        }
    }

    async fn route<B>(&self, user: &User, parts: &Parts, body: B) -> (Response<Body>, Labels)
    where
        B: http_body::Body<Data = Bytes>,
    {
        let registry = &self.shared.registry;
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let headers = &parts.headers;
        let labels =
            |verb, resource: &Name, subresource| Labels { verb, resource: resource.clone(), subresource, code: 0 };
        let none = Name::Borrowed("");
        let path = percent_decode_str(parts.uri.path()).decode_utf8_lossy();
        let reads = matches!(parts.method, Method::GET | Method::HEAD);
        let target = path::parse(&path);
        if !reads && matches!(target, Target::CoreVersions | Target::Group(_) | Target::Version(..)) {
            return (respond::error(&ApiError::method_not_allowed(), None), labels("other", &none, ""));
        }
        match target {
            Target::CoreVersions => (discovery::core_versions(registry, headers, &query), labels("get", &none, "")),
            Target::Groups => (discovery::groups(registry, headers, &query), labels("get", &none, "")),
            Target::Group(group) => (discovery::group(registry, group, headers, &query), labels("get", &none, "")),
            Target::Version(group, version) => {
                (discovery::version(registry, group, version, headers, &query), labels("get", &none, ""))
            }
            Target::Nothing(group, _) => {
                (discovery::nothing(registry, group, headers, &query), labels("other", &none, ""))
            }
            Target::Other(parts_of_path) => (self.other(&parts_of_path, parts, &query), labels("get", &none, "")),
            Target::Resource(group, version, path) => {
                let bound = bindings(registry, group, version, &path);
                let binds = bound.is_some();
                let Some(served) = bound.or_else(|| registry.find(group, version, path.resource)) else {
                    let response = match self.review(user, (group, version), &path, parts, body, &query).await {
                        Some(response) => response,
                        None => discovery::nothing(registry, group, headers, &query),
                    };
                    return (response, labels("create", &none, ""));
                };
                let plural = &served.resource().plural;
                let routed = match &parts.method {
                    method if !binds => resources::route(&served, &path, method, &query),
                    &Method::POST => Ok((Some(Subresource::Binding), Verb::Create)),
                    _ => Err(ApiError::method_not_allowed()),
                };
                let (subresource, verb) = match routed {
                    Ok(found) => found,
                    Err(error) => return (respond::error(&error, None), labels("other", plural, "")),
                };
                if let Some(subresource) = subresource.filter(|subresource| subresource.connects()) {
                    return (self.connect(&served, &path, subresource), labels("connect", plural, subresource.name()));
                }
                let labels = labels(verb.word(), plural, subresource.map_or("", Subresource::name));
                let body = if reads { Ok(Bytes::new()) } else { read(parts, body).await };
                let response = match body {
                    Err(error) => respond::error(&error, None),
                    Ok(body) => resources::Request {
                        shared: &self.shared,
                        served: &served,
                        path,
                        parts,
                        query,
                        subresource,
                        verb,
                    }
                    .handle(&body),
                };
                (response, labels)
            }
        }
    }

    /// What only running containers could answer (API-23).
    fn connect(&self, served: &Served, path: &path::ResourcePath<'_>, subresource: Subresource) -> Response<Body> {
        let name = path.name.unwrap_or_default();
        let error = match self.shared.registry.get(served, path.namespace.unwrap_or_default(), name) {
            Err(missing) => missing,
            Ok(_) => {
                let (verb, singular) = (subresource.name(), &served.resource().singular);
                ApiError::bad_request(format!(
                    "{verb} is not possible: the containers of {singular} {name} are simulated and do not run"
                ))
            }
        };
        respond::error(&error, None)
    }

    async fn review<B>(
        &self,
        user: &User,
        (group, version): (&str, &str),
        path: &path::ResourcePath<'_>,
        parts: &Parts,
        body: B,
        query: &Query,
    ) -> Option<Response<Body>>
    where
        B: http_body::Body<Data = Bytes>,
    {
        let review = reviews::resources().find(|review| {
            (&*review.group, &*review.version, &*review.plural) == (group, version, path.resource)
                && review.namespaced == path.namespace.is_some()
        })?;
        if parts.method != Method::POST {
            return Some(respond::error(&ApiError::method_not_allowed(), None));
        }
        let answer = async {
            let format = negotiate::input(&parts.headers)?;
            let output = negotiate::output(&parts.headers, query, false)?;
            let body = read(parts, body).await?;
            let now = self.shared.registry.clock.now();
            let known = |token: &str| is_token(&self.shared, token).then(User::administrator);
            let namespace = path.namespace.unwrap_or_default();
            let value = reviews::answer(&review, (&body, format), namespace, user, now, known)?;
            Ok::<_, ApiError>(respond::value(201, &value, output))
        };
        Some(answer.await.unwrap_or_else(|error| respond::error(&error, None)))
    }

    fn other(&self, path: &[&str], parts: &Parts, query: &Query) -> Response<Body> {
        let plain = |value: &serde_json::Value| {
            respond::value(200, value, Output { format: Format::Json, pretty: true, transform: None })
        };
        match path {
            [] => plain(&serde_json::json!({"paths": discovery::paths(&self.shared.registry)})),
            ["version"] => match negotiate::check_route(&parts.headers, &["application/json"]) {
                Ok(()) => plain(&crate::version::version()),
                Err(error) => respond::error(&error, None),
            },
            ["version", ..] => respond::error(&ApiError::no_such_resource(), None),
            ["healthz" | "livez" | "readyz"] if query.get("verbose").is_some() => {
                let verb = path[0];
                let mut text = String::new();
                for check in CHECKS {
                    text.push_str("[+]");
                    text.push_str(check);
                    text.push_str(" ok\n");
                }
                text.push_str(verb);
                text.push_str(" check passed\n");
                respond::text(200, text)
            }
            ["healthz" | "livez" | "readyz"] => respond::text(200, &b"ok"[..]),
            ["healthz" | "livez" | "readyz", check] if CHECKS.contains(check) => respond::text(200, &b"ok"[..]),
            ["metrics"] => {
                let text = self.shared.metrics.text(&self.shared.registry);
                respond::bytes(200, "text/plain; version=0.0.4; charset=utf-8", text)
            }
            ["openapi", "v3"] => crate::openapi::index(&self.shared.registry),
            ["openapi", "v3", rest @ ..] => {
                crate::openapi::document(&self.shared.registry, &rest.join("/"), &parts.headers, query)
            }
            ["openapi", "v2"] => crate::openapi::document_v2(&self.shared.registry, negotiate::accept(&parts.headers)),
            _ => respond::no_such_page(),
        }
    }
}

/// Pods, where a path is the older way to bind them: it names a namespace, and the body names the pod.
fn bindings(registry: &Registry, group: &str, version: &str, path: &path::ResourcePath<'_>) -> Option<Arc<Served>> {
    let collection = path.namespace.is_some() && path.name.is_none() && !path.watch;
    let wanted = (group, version, path.resource) == ("", "v1", "bindings");
    if collection && wanted { registry.find("", "v1", "pods") } else { None }
}

/// The checks that health is made of.
const CHECKS: [&str; 2] = ["ping", "storage"];

/// Whether `given` is the server's token. Takes as long for a wrong one as for a nearly right one.
fn is_token(shared: &Shared, given: &str) -> bool {
    let (given, token) = (given.as_bytes(), shared.token.as_bytes());
    given.len() == token.len() && given.iter().zip(token).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// Reads a body, up to its largest size.
async fn read<B>(parts: &Parts, body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body<Data = Bytes>,
{
    match tokio::time::timeout(PATIENCE, read_all(parts, body)).await {
        Ok(read) => read,
        Err(_) => Err(ApiError::bad_request("the request's body took too long")),
    }
}

async fn read_all<B>(parts: &Parts, body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body<Data = Bytes>,
{
    let declared = parts.headers.get(http::header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    let mut too_large = declared.is_some_and(|length| length > LARGEST_BODY as u64);
    let mut read = 0;
    let mut body = std::pin::pin!(body);
    let mut first: Option<Bytes> = None;
    let mut joined = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Err(ApiError::bad_request("the request's body could not be read")) };
        let Ok(data) = frame.into_data() else { continue };
        read += data.len();
        too_large |= read > LARGEST_BODY;
        if too_large {
            // A client that is still sending does not read the answer: what it sends is taken and dropped, up to a point.
            if read > MOST_DROPPED {
                break;
            }
            (first, joined) = (None, BytesMut::new());
            continue;
        }
        match first.take() {
            None if joined.is_empty() => first = Some(data),
            None => joined.extend_from_slice(&data),
            Some(one) => {
                joined.extend_from_slice(&one);
                joined.extend_from_slice(&data);
            }
        }
    }
    if too_large { Err(ApiError::too_large(LARGEST_BODY)) } else { Ok(first.unwrap_or_else(|| joined.freeze())) }
}

/// A place among the requests in flight.
struct Slot<'a>(&'a Shared);

impl<'a> Slot<'a> {
    fn take(shared: &'a Shared) -> Option<Self> {
        let before = shared.in_flight.fetch_add(1, Ordering::Relaxed);
        let slot = Self(shared);
        (before < shared.most_in_flight).then_some(slot)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<B> tower::Service<Request<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}
