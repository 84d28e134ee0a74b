//! HTTP: one request in, one answer out, whatever carries them.
//!
//! ```text
//!   request -> path -> who, and may they? -> too many? -> discovery, health, metrics
//!                      (admit, crate::access)         \-> body (3 MiB at most) -> resources -> registry -> respond / watch
//! ```
//!
//! [`Service`] is a `tower::Service`: sockets use it through [`crate::serve`], and a client in the same process uses it with
//! no socket at all.

mod admission;
mod admit;
mod aside;
pub mod attributes;
pub mod body;
pub mod discovery;
mod durable;
mod health;
pub mod in_flight;
mod logs;
pub mod metrics;
pub mod muster;
pub mod negotiate;
pub mod openapi;
pub mod path;
mod receive;
pub mod resources;
pub mod respond;
pub mod reviews;
pub mod table;
pub mod timeout;
pub mod watch;

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Version};
use http_body::Body as _;
use percent_encoding::percent_decode_str;
use tokio::sync::Semaphore;
use tokio::sync::watch::Sender;
use tokio::time::Instant;

use crate::access::User;
use crate::access::attributes::{Attributes, ResourceAttributes};
use crate::access::authentication::{self, Authenticator};
use crate::access::impersonation::Impersonation;
use crate::access::questions::Answers;
use crate::admission::{Admission, Operation};
use crate::codec::Format;
use crate::generator::Generator;
use crate::identity::Identity;
use crate::model::Name;
use crate::model::Subresource;
use crate::registry::aside::aside_in_steps;
use crate::registry::options::{Query, WriteOptions};
use crate::registry::{Registry, Served};
use crate::status::ApiError;
use crate::storage::disk::Keeper;
use crate::webhook::conversions::Conversions;
use admission::in_time;
use body::Body;
use in_flight::{InFlight, Slot};
use metrics::{Labels, Metrics};
use muster::Extensions;
use negotiate::{Offer, Output};
use path::Target;
pub use receive::LARGEST_BODY;
use receive::{Unread, drop_rest};
use resources::Verb;

/// What names a request in the answer to it.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// Answers of fewer bytes are not counted.
const COUNTED_ANSWER: usize = 64 << 10;

/// What all connections share.
#[derive(Debug)]
pub struct Shared {
    /// The kinds and their objects.
    pub registry: Arc<Registry>,
    /// The counters.
    pub metrics: Metrics,
    /// Turns true when watches are to end.
    pub stopping: Sender<bool>,
    /// Whose credential is whose.
    pub authenticator: Authenticator,
    /// Who may act as whom.
    impersonation: Impersonation,
    /// What is being handled now.
    in_flight: InFlight,
    /// The hashes of the OpenAPI documents.
    hashes: openapi::Hashes,
    /// Turns of making long lists that are not sent as they are stored.
    lists: Semaphore,
    /// What makes audit ids, from the time of the first on.
    audit_ids: OnceLock<Generator>,
    /// Who the cluster is, where that is kept.
    identity: Option<Identity>,
    /// What answers other paths under `/muster/`.
    pub(crate) extensions: Extensions,
    /// Writes to the disk, where there is one. When nobody shares it any more, all is written.
    pub(crate) keeper: Mutex<Option<Keeper>>,
}

impl Shared {
    /// The parts of a server.
    #[must_use]
    pub fn new(
        registry: Registry,
        authenticator: Authenticator,
        in_flight: InFlight,
        identity: Option<Identity>,
    ) -> Self {
        let (registry, stopping) = (Arc::new(registry), Sender::new(false));
        // Nobody has set it before.
        let _ = registry.webhooks.set(Arc::new(Conversions::new(&registry, stopping.subscribe())));
        Self {
            registry,
            metrics: Metrics::default(),
            stopping,
            authenticator,
            impersonation: Impersonation::default(),
            in_flight,
            hashes: openapi::Hashes::default(),
            lists: Semaphore::new(aside::LISTS_AT_ONCE),
            audit_ids: OnceLock::new(),
            identity,
            extensions: Extensions::default(),
            keeper: Mutex::default(),
        }
    }
}

/// A request that was handled.
struct Handled<'a> {
    response: Response<Body>,
    /// What it is counted as, and its place among those in flight; none where it was refused before.
    routed: Option<(Labels, Slot<'a>)>,
}

/// Answers requests. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Service {
    shared: Arc<Shared>,
    /// Whose requests they are; `None` where their credentials say.
    caller: Option<Arc<User>>,
}

impl Service {
    pub(crate) fn new(shared: Arc<Shared>, caller: Option<Arc<User>>) -> Self {
        Self { shared, caller }
    }

    /// Answers one request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes>,
    {
        let (parts, body) = request.into_parts();
        let path = percent_decode_str(parts.uri.path()).decode_utf8_lossy();
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let target = path::parse(&path);
        let begun = Instant::now();
        let mut body = pin!(body);
        let Handled { mut response, routed } = self.handle_durably(&parts, &path, &target, query, body.as_mut()).await;
        drop_rest(&parts.headers, body.as_mut()).await;
        if !body.is_end_stream() && parts.version < Version::HTTP_2 {
            // What is left of it would be taken for the next request.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some((labels, _slot)) = routed {
            // Small ones are not worth counting: there are no more of them than there are requests and connections.
            let size = response.body().held();
            if size >= COUNTED_ANSWER {
                match self.shared.in_flight.bytes(size) {
                    Some(hold) => response.body_mut().hold(hold),
                    None => response = self.too_many(),
                }
            }
            let labels = Labels { code: response.status().as_u16(), ..labels };
            self.shared.metrics.request(labels, begun.elapsed());
        }
        if let Some(warning) = authentication::warning(&parts.headers) {
            respond::warn(&mut response, &[warning.to_owned()]);
        }
        if parts.method == Method::HEAD {
            // Over HTTP/2 a body would be sent.
            if let Some(size) = response.body().size_hint().exact() {
                response.headers_mut().entry(CONTENT_LENGTH).or_insert(size.into());
            }
            *response.body_mut() = Body::empty();
        }
        // A client in the same process has no use for one.
        if self.caller.is_none() {
            response.headers_mut().insert(AUDIT_ID, self.audit_id(&parts.headers));
        }
        response
    }

    /// The id of a request: the client's, whatever it is, or a new one.
    fn audit_id(&self, headers: &HeaderMap) -> HeaderValue {
        if let Some(given) = headers.get(AUDIT_ID).filter(|given| !given.is_empty()) {
            return given.clone();
        }
        // The registry's own generator would give other uids then, by how often somebody asks.
        let begin = || Generator::seeded(self.shared.registry.clock.now().as_nanos().cast_unsigned());
        let id = self.shared.audit_ids.get_or_init(begin).uid();
        HeaderValue::try_from(id).expect("a uuid is hexadecimal digits and hyphens")
    }

    /// Answers a request of somebody who may send it, unless there are too many.
    async fn handle<'s, B>(
        &'s self,
        parts: &Parts,
        path: &str,
        target: &Target<'_>,
        query: Query,
        body: B,
    ) -> Handled<'s>
    where
        B: http_body::Body<Data = Bytes>,
    {
        let user = match self.admit(parts, path, target, &query) {
            Ok(user) => user,
            Err(error) => {
                return Handled { response: respond::refused(&error, &parts.headers, &query), routed: None };
            }
        };
        let Some(slot) = self.shared.in_flight.request() else {
            return Handled { response: self.too_many(), routed: None };
        };
        let (response, labels) = self.route(&user, parts, target, query, body).await;
        Handled { response, routed: Some((labels, slot)) }
    }

    /// There is too much in flight.
    fn too_many(&self) -> Response<Body> {
        self.shared.metrics.refused();
        let mut response = respond::text(429, &b"Too many requests, please try again later.\n"[..]);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        response
    }

    async fn route<B>(
        &self,
        user: &Arc<User>,
        parts: &Parts,
        target: &Target<'_>,
        query: Query,
        body: B,
    ) -> (Response<Body>, Labels)
    where
        B: http_body::Body<Data = Bytes>,
    {
        let registry = &self.shared.registry;
        let headers = &parts.headers;
        let labels =
            |verb, resource: &Name, subresource| Labels { verb, resource: resource.clone(), subresource, code: 0 };
        let none = Name::Borrowed("");
        let reads = matches!(parts.method, Method::GET | Method::HEAD);
        if parts.method != Method::GET && discovery::is_only_read(registry, target) {
            return (respond::refused(&ApiError::method_not_allowed(), headers, &query), labels("other", &none, ""));
        }
        match target {
            Target::CoreVersions => (discovery::core_versions(registry, headers, &query), labels("get", &none, "")),
            Target::Groups => (discovery::groups(registry, headers, &query), labels("get", &none, "")),
            Target::Group(group) => (discovery::group(registry, group, headers, &query), labels("get", &none, "")),
            Target::Version(group, version) => {
                (discovery::version(registry, group, version, headers, &query), labels("get", &none, ""))
            }
            Target::Resource(group, _, path) if path.beyond => {
                (discovery::nothing(registry, group, headers, &query), labels("other", &none, ""))
            }
            Target::Other(parts_of_path) => {
                let response = match parts_of_path.split_first() {
                    Some((&"muster", below)) => self.muster(user, (below, parts.uri.path()), parts, body).await,
                    _ => self.other(parts_of_path, parts, &query),
                };
                (response, labels("get", &none, ""))
            }
            Target::Resource(group, version, path) => {
                let bound = bindings(registry, group, version, path);
                let binds = bound.is_some();
                let Some(served) = bound.or_else(|| registry.find(group, version, path.resource)) else {
                    let verb = Some(attributes::of_method(&parts.method)).filter(|verb| !verb.is_empty());
                    let response = match self.review(user, (group, version), path, parts, body, &query).await {
                        Some(response) => response,
                        None => discovery::nothing(registry, group, headers, &query),
                    };
                    return (response, labels(verb.unwrap_or("other"), &none, ""));
                };
                let plural = &served.resource().plural;
                let routed = match &parts.method {
                    method if !binds => resources::route(&served, path, method, &query),
                    &Method::POST => Ok((Some(Subresource::Binding), Verb::Create)),
                    _ => Err(ApiError::method_not_allowed()),
                };
                let (subresource, verb) = match routed {
                    Ok(found) => found,
                    Err(error) => return (respond::refused(&error, headers, &query), labels("other", plural, "")),
                };
                if let Some(subresource) = subresource.filter(|subresource| subresource.connects()) {
                    let labels = labels("connect", plural, subresource.name());
                    return (self.connect(user, &served, path, subresource, (parts, &query)).await, labels);
                }
                let labels = labels(verb.word(), plural, subresource.map_or("", Subresource::name));
                let body = if reads { Ok((Bytes::new(), None)) } else { self.read(parts, body).await };
                let response = match body {
                    Err(Unread::Refused(error)) => respond::refused(&error, headers, &query),
                    Err(Unread::TooMany) => self.too_many(),
                    Ok((body, _hold)) => {
                        let shared = &self.shared;
                        let request = resources::Request {
                            shared,
                            served: &served,
                            user,
                            path: *path,
                            parts,
                            query,
                            subresource,
                            verb,
                        };
                        let waits = served.calls_out();
                        let handled = pin!(request.handle(&body));
                        // A small patch of a large object takes as long as a large body.
                        let (namespace, name) = (path.namespace.unwrap_or_default(), path.name.unwrap_or_default());
                        let patched = (verb == Verb::Patch).then(|| registry.get(&served, namespace, name).ok());
                        let size = patched.flatten().map_or(body.len(), |entry| body.len().max(entry.json().size()));
                        aside_in_steps(waits || size >= aside::LONG_BODY, handled).await
                    }
                };
                (response, labels)
            }
        }
    }

    /// What only running containers could answer (API-23).
    async fn connect(
        &self,
        user: &User,
        served: &Served,
        path: &path::ResourcePath<'_>,
        subresource: Subresource,
        (parts, query): (&Parts, &Query),
    ) -> Response<Body> {
        let registry = &self.shared.registry;
        let name = path.name.unwrap_or_default();
        if query.get("dryRun").is_some() {
            return respond::refused(&ApiError::bad_request("dryRun is not supported"), &parts.headers, query);
        }
        let mut warnings = Vec::new();
        let answers = Answers(&self.shared.registry.authorizer, user);
        let asked = admission::asked(registry, &answers, user, path, Some(subresource), query);
        let admitted = async {
            let model = subresource.model();
            let mut options = admission::connection(model.map_or("", |model| model.kind), path.proxied, query);
            let (connects, resource) = (Operation::Connect, served.resource());
            let admission = Admission::new(asked.as_ref());
            admission.send(registry, connects, (resource, model), &mut options, &mut warnings, |_| Ok(())).await
        };
        let admitted = in_time(asked.as_ref().map(|asked| asked.deadline), pin!(admitted)).await;
        let found =
            admitted.and_then(|()| self.may_connect(user, served, path, subresource, &parts.method)).and_then(|()| {
                let container = match subresource {
                    Subresource::Exec | Subresource::Attach => Some(query.get("container").unwrap_or_default()),
                    _ => None,
                };
                registry.node_of(served, path.namespace.unwrap_or_default(), name, container)
            });
        let error = match found {
            Err(error) => error,
            Ok(node) if node.is_empty() && subresource != Subresource::Proxy => {
                ApiError::bad_request(format!("pod {name} does not have a host assigned"))
            }
            Ok(_) => {
                let (verb, singular) = (subresource.name(), &served.resource().singular);
                ApiError::bad_request(format!(
                    "{verb} is not possible: the containers of {singular} {name} are simulated and do not run"
                ))
            }
        };
        let mut response = respond::refused(&error, &parts.headers, query);
        respond::warn(&mut response, &warnings);
        response
    }

    /// Whoever wants to run something in a pod, or to reach a port of it, must be allowed to create that, also where a WebSocket
    /// is opened by GET.
    fn may_connect(
        &self,
        user: &User,
        served: &Served,
        path: &path::ResourcePath<'_>,
        subresource: Subresource,
        method: &Method,
    ) -> Result<(), ApiError> {
        if subresource == Subresource::Proxy || method == Method::POST {
            return Ok(());
        }
        let (resource, name) = (served.group_resource(), path.name.unwrap_or_default());
        let asked = ResourceAttributes {
            verb: "create".into(),
            group: resource.group,
            resource: resource.resource,
            subresource: subresource.name(),
            namespace: path.namespace.unwrap_or_default(),
            name,
        };
        let decided = self.shared.registry.authorizer.decide(user, &Attributes::Resource(asked));
        if decided.allowed { Ok(()) } else { Err(ApiError::forbidden(resource, name, &decided.reason)) }
    }

    async fn review<B>(
        &self,
        user: &Arc<User>,
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
                && path.name.is_none()
        })?;
        if parts.method != Method::POST {
            return Some(respond::refused(&ApiError::method_not_allowed(), &parts.headers, query));
        }
        let answer = async {
            let format = negotiate::input(&parts.headers)?;
            let output = negotiate::output(&parts.headers, query, Offer::Value)?;
            let user_agent = negotiate::user_agent(&parts.headers);
            let options = WriteOptions::from_query(query, "CreateOptions", false, user_agent)?;
            let (body, _hold) = self.read(parts, body).await?;
            let namespace = path.namespace.unwrap_or_default();
            let registry = &self.shared.registry;
            let answers = Answers(&registry.authorizer, user);
            let webhooks = admission::asked(registry, &answers, user, path, None, query);
            let admission = Admission::new(webhooks.as_ref());
            let shared = &self.shared;
            let asked = reviews::Asked { shared, review: &review, namespace, user, options: &options, admission };
            let mut warnings = Vec::new();
            let value = {
                let answered = pin!(reviews::answer(&asked, &body, format, &mut warnings));
                in_time(webhooks.as_ref().map(|webhooks| webhooks.deadline), answered).await?
            };
            let mut response = respond::value(201, &value, output);
            respond::warn(&mut response, &warnings);
            Ok::<_, Unread>(response)
        };
        Some(match answer.await {
            Ok(response) => response,
            Err(Unread::Refused(error)) => respond::refused(&error, &parts.headers, query),
            Err(Unread::TooMany) => self.too_many(),
        })
    }

    fn other(&self, path: &[&str], parts: &Parts, query: &Query) -> Response<Body> {
        let plain = |value: &muster_tree::Value| {
            respond::value(200, value, Output { format: Format::Json, pretty: true, transform: None })
        };
        let whole = parts.uri.path();
        let is_exact = !whole.ends_with('/') && !whole.starts_with("//");
        match path {
            [] => plain(&muster_tree::json!({"paths": discovery::paths(&self.shared.registry)})),
            ["version"] => match negotiate::check_route(&parts.headers, &["application/json"]) {
                Ok(()) => plain(&crate::version::version()),
                Err(error) => respond::refused(&error, &parts.headers, query),
            },
            ["version", ..] => respond::refused(&ApiError::no_such_resource(), &parts.headers, query),
            ["healthz" | "livez" | "readyz", rest @ ..] if is_exact => self.health(path[0], rest, query),
            ["metrics", "slis"] => respond::bytes(200, metrics::TEXT, self.shared.metrics.slis()),
            ["metrics"] => {
                let text = self.shared.metrics.text(&self.shared.registry);
                respond::bytes(200, metrics::TEXT, text)
            }
            ["openapi", "v3"] if is_exact => openapi::index(&self.shared, &parts.headers),
            ["openapi", "v3", rest @ ..] if is_exact => {
                openapi::document(&self.shared, &rest.join("/"), &parts.headers, query)
            }
            ["openapi", "v2"] if is_exact => openapi::document_v2(&self.shared, &parts.headers),
            [".well-known", "openid-configuration"] => {
                let host = parts.headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
                let host = parts.uri.authority().map(http::uri::Authority::as_str).or(host);
                let configuration =
                    self.shared.authenticator.issuer.configuration(host.unwrap_or("kubernetes.default.svc"));
                respond::bytes(200, "application/json", configuration.to_string())
            }
            ["openid", "v1", "jwks"] => {
                let keys = self.shared.authenticator.issuer.key_set().to_string();
                respond::bytes(200, "application/jwk-set+json", keys)
            }
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
