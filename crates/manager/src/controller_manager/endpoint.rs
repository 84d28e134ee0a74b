//! `/healthz`, `/livez`, `/readyz` and `/metrics` over HTTPS (CM-06), in the words of Kubernetes' components.
//!
//! Whoever reaches the port may read them: they tell how the process is, and count what it does, without the name
//! of any object in the cluster. `/explain` and `/inside` do name objects, and ask who wants to know:
//! [`crate::explain::authorizer`].

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use muster_apiserver::serve::{self, Patience, serve_service};
use muster_runtime::election::Leadership;
use muster_runtime::group::Member;
use muster_runtime::manager::Manager;
use muster_runtime::metrics::Metrics;
use muster_runtime::shadow::Shadow;
use muster_runtime::shutdown::Shutdown;
use nix::sys::resource::{Resource, getrlimit};
use socket2::{Domain, Socket, Type};
use tokio::sync::watch;

use super::certificate::certificate;
use super::flags::Flags;
use crate::explain::authorizer::Authorizer;
use crate::explain::endpoint::{Caller, Explaining};

/// What Prometheus' text is called in its newer form.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// The endpoint of a process.
pub(crate) struct Endpoint {
    handle: serve::Handle,
}

impl Endpoint {
    /// Opens the port that the flags name; none where they name 0.
    ///
    /// # Errors
    /// Where the port cannot be had, or the certificate cannot be used.
    pub(super) fn open(
        flags: &Flags,
        manager: &Manager,
        leadership: Option<Leadership>,
        explaining: (Explaining, Authorizer),
        stopping: Shutdown,
    ) -> Result<Option<Self>> {
        let unsynced = manager.unsynced();
        let health = Health {
            controllers: manager.controllers().collect(),
            unsynced: Box::new(move || unsynced.has_changed().is_ok().then(|| *unsynced.borrow())),
            leadership,
            stopping,
            metrics: manager.metrics(),
        };
        Self::open_with(flags, health, explaining)
    }

    /// The same for a member of a group, which runs these controllers for each of its shards.
    ///
    /// # Errors
    /// As [`Endpoint::open`].
    pub(super) fn open_for_member(
        flags: &Flags,
        member: &Member,
        controllers: Vec<&'static str>,
        explaining: (Explaining, Authorizer),
        stopping: Shutdown,
    ) -> Result<Option<Self>> {
        let handle = member.handle();
        let health = Health {
            controllers,
            unsynced: Box::new(move || handle.unsynced()),
            leadership: Some(member.leadership()),
            stopping,
            metrics: member.metrics(),
        };
        Self::open_with(flags, health, explaining)
    }

    /// The same for a process that watches and does not lead.
    ///
    /// # Errors
    /// As [`Endpoint::open`].
    pub(crate) fn open_for_shadow(
        flags: &Flags,
        shadow: &Shadow,
        explaining: (Explaining, Authorizer),
        stopping: Shutdown,
    ) -> Result<Option<Self>> {
        let (unsynced, metrics) = (shadow.unsynced(), shadow.metrics());
        let unsynced: Unsynced = Box::new(move || unsynced.has_changed().is_ok().then(|| *unsynced.borrow()));
        let health = Health { controllers: vec!["shadow"], unsynced, leadership: None, stopping, metrics };
        Self::open_with(flags, health, explaining)
    }

    fn open_with(flags: &Flags, health: Health, explaining: (Explaining, Authorizer)) -> Result<Option<Self>> {
        if flags.secure_port == 0 {
            return Ok(None);
        }
        let tls = certificate(flags)?;
        let asked = || format!("--bind-address {}, --secure-port {}", flags.bind_address, flags.secure_port);
        let listener = listen(flags.bind_address, flags.secure_port).with_context(asked)?;
        listener.set_nonblocking(true).with_context(asked)?;
        let listener = tokio::net::TcpListener::from_std(listener).with_context(asked)?;
        let service = Service { health: Arc::new(health), explaining };
        let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(now, _)| now);
        let patience = Patience::SHORT.within(files);
        let handle = serve_service(listener, service, Some(&tls), watch::Sender::new(false), patience)?;
        tracing::info!(address = %handle.address(), "serving health and metrics");
        Ok(Some(Self { handle }))
    }

    /// Stops listening, once requests in flight are answered.
    pub(crate) async fn close(self) {
        self.handle.shutdown().await;
    }
}

/// Listens there; an address that is none in particular stands for all addresses of both families, as for Go's programs.
fn listen(address: IpAddr, port: u16) -> io::Result<TcpListener> {
    if address.is_unspecified() {
        match listen_everywhere(port) {
            // Without IPv6.
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {}
            listening => return listening,
        }
    }
    TcpListener::bind(SocketAddr::new(address, port))
}

fn listen_everywhere(port: u16) -> io::Result<TcpListener> {
    /// As the standard library has it.
    const WAITING: i32 = 128;
    let socket = Socket::new(Domain::IPV6, Type::STREAM, None)?;
    socket.set_only_v6(false)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into())?;
    socket.listen(WAITING)?;
    Ok(socket.into())
}

/// How many controllers still wait for their caches; `None` once they have ended.
type Unsynced = Box<dyn Fn() -> Option<usize> + Send + Sync>;

/// What is asked for the answers.
struct Health {
    controllers: Vec<&'static str>,
    unsynced: Unsynced,
    /// None where there is no election.
    leadership: Option<Leadership>,
    stopping: Shutdown,
    metrics: Metrics,
}

/// One check: its name, and what is wrong.
type Check = (&'static str, Result<(), String>);

impl Health {
    /// The checks of a path, in the order in which they are told.
    fn checks(&self, path: &str) -> Option<Vec<Check>> {
        let mut checks = vec![("ping", Ok(()))];
        if let Some(leadership) = &self.leadership {
            checks.push(("leaderElection", leadership.health()));
        }
        match path {
            "healthz" | "livez" => {
                // After a stop that is as it should be, and the endpoint closes last.
                let ended = (self.unsynced)().is_none() && !self.stopping.is_stopped();
                let alive = || if ended { Err("the controllers have ended".to_owned()) } else { Ok(()) };
                checks.extend(self.controllers.iter().map(|name| (*name, alive())));
            }
            "readyz" => {
                let unsynced = (self.unsynced)().unwrap_or_default();
                let synced =
                    if unsynced == 0 { Ok(()) } else { Err(format!("{unsynced} controllers wait for caches")) };
                let stopping = self.stopping.is_stopped();
                let shutdown = if stopping { Err("process is shutting down".to_owned()) } else { Ok(()) };
                checks.extend([("informer-sync", synced), ("shutdown", shutdown)]);
            }
            _ => return None,
        }
        Some(checks)
    }

    fn answer(&self, method: &Method, path: &str, query: &str) -> Response<Full<Bytes>> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "405 method not allowed\n".to_owned());
        }
        let not_found = || response(StatusCode::NOT_FOUND, TEXT, "404 page not found\n".to_owned());
        let path = path.trim_start_matches('/');
        if path == "metrics" {
            return response(StatusCode::OK, OPENMETRICS, self.metrics.encode());
        }
        let (root, one) = path.split_once('/').unwrap_or((path, ""));
        let Some(checks) = self.checks(root) else { return not_found() };
        if one.is_empty() {
            return all(root, &checks, query);
        }
        match checks.iter().find(|(name, _)| *name == one) {
            None => not_found(),
            Some((_, Ok(()))) => response(StatusCode::OK, TEXT, "ok".to_owned()),
            Some((_, Err(why))) => {
                response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("internal server error: {why}\n"))
            }
        }
    }
}

/// All checks of a path together: `ok`, or line by line where that is asked for or something is wrong. What exactly
/// is wrong is told by the check's own path only.
fn all(root: &str, checks: &[Check], query: &str) -> Response<Full<Bytes>> {
    let parameters = || query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut excluded: BTreeSet<&str> =
        parameters().filter(|(name, _)| *name == "exclude").map(|(_, value)| value).collect();
    let (mut told, mut failed) = (String::new(), false);
    for (name, outcome) in checks {
        let line = if excluded.remove(name) {
            format!("[+]{name} excluded: ok")
        } else if outcome.is_ok() {
            format!("[+]{name} ok")
        } else {
            failed = true;
            format!("[-]{name} failed: reason withheld")
        };
        told.push_str(&line);
        told.push('\n');
    }
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
        // A String takes everything.
        let _ = writeln!(told, "warn: some health checks cannot be excluded: no matches for {}", names.join(", "));
    }
    if failed {
        for (name, outcome) in checks {
            if let Err(why) = outcome {
                tracing::debug!(path = root, check = name, why, "a health check failed");
            }
        }
        return response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{told}{root} check failed\n"));
    }
    if parameters().any(|(name, _)| name == "verbose") {
        return response(StatusCode::OK, TEXT, format!("{told}{root} check passed\n"));
    }
    response(StatusCode::OK, TEXT, "ok".to_owned())
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The endpoint as connections use it.
#[derive(Clone)]
struct Service {
    health: Arc<Health>,
    explaining: (Explaining, Authorizer),
}

impl<B> tower::Service<Request<B>> for Service {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Full<Bytes>>, Infallible>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (head, _) = request.into_parts();
        let Self { health, explaining } = self.clone();
        async move {
            let (path, query) = (head.uri.path(), head.uri.query().unwrap_or_default());
            if !Explaining::answers(path) {
                return Ok(health.answer(&head.method, path, query));
            }
            let (explaining, authorizer) = explaining;
            let caller = Caller::Bearer(&authorizer, head.headers.get(header::AUTHORIZATION));
            Ok(explaining.answer(caller, &head.method, path, query).await.map(Full::new))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use muster_runtime::clock::Clock;
    use muster_runtime::shutdown::{self, Trigger};

    use super::*;

    async fn asked(health: &Health, path: &str) -> (u16, String) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let answer = health.answer(&Method::GET, path, query);
        let status = answer.status().as_u16();
        (status, String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
    }

    fn health() -> (Health, watch::Sender<usize>, Trigger) {
        let (unsynced, waiting) = watch::channel(1);
        let (trigger, stopping) = shutdown::channel();
        let metrics = Metrics::new(Clock::system());
        let controllers = vec!["replicaset-controller"];
        let waiting: Unsynced = Box::new(move || waiting.has_changed().is_ok().then(|| *waiting.borrow()));
        (Health { controllers, unsynced: waiting, leadership: None, stopping, metrics }, unsynced, trigger)
    }

    /// Contract: CM-06
    #[test]
    fn no_address_in_particular_is_all_of_both_families() {
        let dial = |address: IpAddr, port| std::net::TcpStream::connect((address, port)).is_ok();
        let (four, six) = (IpAddr::from([127, 0, 0, 1]), IpAddr::V6(Ipv6Addr::LOCALHOST));
        // Not every machine has IPv6.
        let has_six = TcpListener::bind((six, 0)).is_ok();
        for unspecified in [IpAddr::from([0, 0, 0, 0]), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
            if !has_six && unspecified.is_ipv6() {
                continue;
            }
            let listener = listen(unspecified, 0).unwrap();
            let port = listener.local_addr().unwrap().port();
            assert!(dial(four, port), "{unspecified}");
            assert_eq!(dial(six, port), has_six, "{unspecified}");
            let taken = listen(unspecified, port).unwrap_err();
            assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        }
        let listener = listen(four, 0).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(dial(four, port) && !dial(six, port));
    }

    /// Contract: CM-06
    #[tokio::test]
    async fn ready_once_the_caches_have_synced_and_until_the_end() {
        let (health, unsynced, trigger) = health();
        let waiting = "[+]ping ok\n[-]informer-sync failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n";
        assert_eq!(asked(&health, "/readyz").await, (500, waiting.to_owned()));
        let why = "internal server error: 1 controllers wait for caches\n";
        assert_eq!(asked(&health, "/readyz/informer-sync").await, (500, why.to_owned()));
        unsynced.send_replace(0);
        assert_eq!(asked(&health, "/readyz").await, (200, "ok".to_owned()));
        let verbose = "[+]ping ok\n[+]informer-sync ok\n[+]shutdown ok\nreadyz check passed\n";
        assert_eq!(asked(&health, "/readyz?verbose").await, (200, verbose.to_owned()));
        trigger.stop();
        assert_eq!(asked(&health, "/readyz").await.0, 500);
        let told = asked(&health, "/readyz?verbose=1&exclude=shutdown&exclude=nothing").await;
        let excluded = "[+]ping ok\n[+]informer-sync ok\n[+]shutdown excluded: ok\n\
                        warn: some health checks cannot be excluded: no matches for \"nothing\"\nreadyz check passed\n";
        assert_eq!(told, (200, excluded.to_owned()));
    }

    /// Contract: CM-06
    #[tokio::test]
    async fn not_alive_once_the_controllers_have_ended_without_being_told() {
        for path in ["/healthz", "/livez"] {
            let (health, unsynced, trigger) = health();
            drop(unsynced);
            let name = path.trim_start_matches('/');
            let told = format!("[+]ping ok\n[-]replicaset-controller failed: reason withheld\n{name} check failed\n");
            assert_eq!(asked(&health, path).await, (500, told));
            let why = "internal server error: the controllers have ended\n";
            assert_eq!(asked(&health, &format!("{path}/replicaset-controller")).await, (500, why.to_owned()));
            trigger.stop();
            assert_eq!(asked(&health, path).await.0, 200, "an orderly end is none to restart for");
        }
    }

    /// Contract: CM-06
    #[tokio::test]
    async fn alive_from_the_beginning() {
        let (health, _unsynced, _trigger) = health();
        for path in ["/healthz", "/livez"] {
            assert_eq!(asked(&health, path).await, (200, "ok".to_owned()));
            let (status, told) = asked(&health, &format!("{path}?verbose")).await;
            assert_eq!(status, 200);
            let name = path.trim_start_matches('/');
            assert_eq!(told, format!("[+]ping ok\n[+]replicaset-controller ok\n{name} check passed\n"));
        }
        assert_eq!(asked(&health, "/livez/replicaset-controller").await, (200, "ok".to_owned()));
        assert!(asked(&health, "/metrics").await.1.ends_with("# EOF\n"));
        for path in ["/", "/livez/nothing", "/healthy", "/metrics/x"] {
            assert_eq!(asked(&health, path).await.0, 404, "{path}");
        }
        assert_eq!(health.answer(&Method::POST, "/livez", "").status(), 405);
    }
}
