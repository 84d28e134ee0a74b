//! Faults between the server and everybody who comes over HTTP.
//!
//! ```text
//!   socket ── Front ──┬── server                 while there are no faults: one look at a flag for each request
//!                     └── Faulty ── server       rules, by user agent, user, verb, resource, namespace and name
//! ```
//!
//! What goes on within the process is not struck: the controllers, nodes and collectors of `muster up` have other ways to the
//! server. Nor is `/muster/`, by which the faults are changed. Discovery, OpenAPI, health and metrics are struck only by a server
//! that is away.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Either, Map};
use http::header::USER_AGENT;
use http::{HeaderMap, Request, Response};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt as _, Either as EitherBody, Full, Limited};
use hyper::body::Incoming;
use muster_apiserver::http::body::Body;
use muster_apiserver::http::{LARGEST_BODY, Service as Server};
use muster_runtime::client::{BoxError, ResponseBody};
use muster_simulation::faults::{Faults, Faulty, Requester, Target, Verb, is_watch};
use tower::{Service, ServiceExt as _};

/// A server behind faults that can change.
#[derive(Debug, Clone)]
pub(crate) struct Front {
    server: Server,
    faults: Faults,
}

type Answer = Response<Until<EitherBody<Body, ResponseBody>>>;
type Answering<E> = Pin<Box<dyn Future<Output = Result<Response<Body>, E>> + Send>>;
type Passed<E> = Map<Answering<E>, fn(Result<Response<Body>, E>) -> Result<Answer, BoxError>>;

impl Front {
    /// In front of this server.
    pub(crate) fn new(server: Server, faults: &Faults) -> Self {
        Self { server, faults: faults.clone() }
    }
}

impl Service<Request<Incoming>> for Front {
    type Response = Answer;
    type Error = BoxError;
    type Future = Either<Passed<std::convert::Infallible>, BoxFuture<'static, Result<Answer, BoxError>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let Self { server, faults } = self;
        if !faults.is_idle() && !request.uri().path().starts_with("/muster/") {
            let is_about_objects = !Target::of(request.method(), request.uri()).resource.is_empty();
            if is_about_objects {
                return Either::Right(Box::pin(struck(server.clone(), request, faults.clone())));
            }
            if faults.is_away() {
                return Either::Right(Box::pin(async {
                    Err(anyhow::anyhow!("the server is away, by a fault").into())
                }));
            }
        }
        let is_watch = is_watch(request.uri());
        let is_dated = !faults.is_idle();
        let answering: Answering<_> = server.call(request);
        if is_watch || is_dated {
            let faults = faults.clone();
            return Either::Right(Box::pin(async move {
                let Ok(mut answer) = answering.await;
                faults.date(answer.headers_mut());
                let begun: BoxFuture<'static, ()> = Box::pin(async move { faults.begun().await });
                let end = Some(begun).filter(|_| is_watch);
                Ok(answer.map(|body| Until { body: EitherBody::Left(body), end }))
            }));
        }
        Either::Left(answering.map(|answer| {
            let Ok(answer) = answer;
            Ok(answer.map(|body| Until { body: EitherBody::Left(body), end: None }))
        }))
    }
}

/// A body. That of a watch ends where faults begin that it is subject to, as a connection that breaks: whoever watches again is struck.
pub(crate) struct Until<B> {
    body: B,
    /// Of a watch.
    end: Option<BoxFuture<'static, ()>>,
}

impl<B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Unpin> http_body::Body for Until<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let end = self.end.as_mut().map(|end| end.as_mut().poll(context));
        if end.is_some_and(|end| end.is_ready()) { Poll::Ready(None) } else { Poll::Pending }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn struck(server: Server, request: Request<Incoming>, faults: Faults) -> Result<Answer, BoxError> {
    let (mut head, body) = request.into_parts();
    let body = match Limited::new(body, LARGEST_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        // The server says so in its own words.
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Bytes::from(vec![0; LARGEST_BODY + 1]),
        Err(error) => return Err(error),
    };
    let user = server.name_of_caller(&head).unwrap_or_default();
    head.extensions.insert(Requester(user.clone()));
    let client = agent(&head.headers).to_owned();
    let target = Target { user, ..Target::of(&head.method, &head.uri) };
    let end = (target.verb == Verb::Watch).then(|| Box::pin(faults.added_for(&client, target)) as BoxFuture<'_, ()>);
    let request = Request::from_parts(head, Full::new(body));
    let answer = Faulty::new(server, client, faults).oneshot(request).await?;
    Ok(answer.map(|body| Until { body: EitherBody::Right(body), end }))
}

/// Who says to send a request.
fn agent(headers: &HeaderMap) -> &str {
    headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::StreamExt as _;
    use muster_apiserver::serve::{Patience, serve_service};
    use muster_apiserver::{ApiServer, Options as ServerOptions};
    use muster_objects::Timestamp;
    use muster_runtime::client::{Client, Form, Options};
    use muster_runtime::clock::Clock;
    use muster_simulation::faults::{Fault, Refusal, Rule};
    use serde_json::json;
    use tokio::net::TcpListener;

    use super::*;

    const SECRETS: &str = "/api/v1/namespaces/default/secrets";
    const MAPS: &str = "/api/v1/configmaps";

    /// A server on a socket, and its faults.
    async fn served() -> (muster_apiserver::serve::Handle, Faults) {
        let server = ApiServer::new(ServerOptions::seeded(1, Timestamp::from_seconds(1_767_225_600)));
        let (listener, faults) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), Faults::seeded(1));
        let front = Front::new(server.service(), &faults);
        (serve_service(listener, front, None, server.stopping(), Patience::API).unwrap(), faults)
    }

    fn client(handle: &muster_apiserver::serve::Handle) -> Client {
        let config = kube::Config::new(format!("http://{}", handle.address()).parse().unwrap());
        Client::connect(&config, &Options { protobuf: false, ..Options::default() }).unwrap()
    }

    /// Long before the watch's own end.
    async fn soon<T>(what: impl Future<Output = T>) -> T {
        tokio::time::timeout(Duration::from_secs(120), what).await.expect("it comes by itself")
    }

    /// Contract: API-39
    #[tokio::test]
    async fn a_watch_ends_where_faults_come_that_its_request_is_subject_to() {
        let (handle, faults) = served().await;
        let client = client(&handle);
        let watch = async |path: &str| client.watch(&format!("{path}?watch=true&timeoutSeconds=600"), Form::Full).await;
        let mut maps = watch(MAPS).await.unwrap();
        let of = |fault, resource| Rule::always(fault).resources(&[resource]);
        faults.add(of(Fault::Reset, "pods").verbs(&[Verb::Create]));
        assert!(soon(maps.next()).await.is_none(), "there were no faults");

        let (mut maps, mut secrets) = (watch(MAPS).await.unwrap(), watch(SECRETS).await.unwrap());
        faults.add(of(Fault::Lag(Duration::ZERO..Duration::ZERO), "secrets"));
        faults.add(of(Fault::Refuse(Refusal::Expired), "configmaps").verbs(&[Verb::Watch]));
        assert!(soon(maps.next()).await.is_none(), "its request would be refused now");
        assert!(watch(MAPS).await.is_err());
        let secret = json!({"metadata": {"name": "a"}}).to_string();
        client.post(SECRETS, Bytes::from(secret)).await.unwrap();
        let told =
            soon(secrets.next()).await.expect("what strikes events strikes those of a watch that is open").unwrap();
        assert!(told.starts_with(br#"{"type":"ADDED""#));
        handle.shutdown().await;
    }

    /// Contract: API-39
    #[tokio::test]
    async fn every_answer_says_the_time_of_a_wrong_clock() {
        let (handle, faults) = served().await;
        faults.add(Rule::always(Fault::Refuse(Refusal::Denied)).verbs(&[Verb::List]));
        let hours = |hours: i64| Timestamp::from_nanos(Clock::system().now().as_nanos() + hours * 3_600_000_000_000);
        faults.tell_time(Some(Clock::starting_at(hours(48))));
        for path in ["/readyz", "/version", MAPS, "/api/v1/namespaces/default", "/api/v1/namespaces/none"] {
            let client = client(&handle);
            let _ = client.get(path).await;
            assert!(client.server_now() > hours(24), "{path}");
        }
        handle.shutdown().await;
    }
}
