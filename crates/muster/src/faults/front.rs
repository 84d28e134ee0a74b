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
use muster_simulation::faults::{Faults, Faulty, Requester, Target, is_watch};
use tower::{Service, ServiceExt as _};

/// A server behind faults that can change.
#[derive(Debug, Clone)]
pub(crate) struct Front {
    server: Server,
    faults: Faults,
}

type Answer = Response<EitherBody<Unstruck, ResponseBody>>;
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
        let answering: Answering<_> = server.call(request);
        if is_watch {
            let faults = faults.clone();
            return Either::Right(Box::pin(async move {
                let Ok(answer) = answering.await;
                let begun: BoxFuture<'static, ()> = Box::pin(async move { faults.begun().await });
                Ok(answer.map(|body| EitherBody::Left(Unstruck { body, begun: Some(begun) })))
            }));
        }
        Either::Left(answering.map(|answer| {
            let Ok(answer) = answer;
            Ok(answer.map(|body| EitherBody::Left(Unstruck { body, begun: None })))
        }))
    }
}

/// A body that no fault strikes. That of a watch ends where faults begin, as a connection that breaks: whoever watches again is
/// struck.
pub(crate) struct Unstruck {
    body: Body,
    /// Of a watch.
    begun: Option<BoxFuture<'static, ()>>,
}

impl http_body::Body for Unstruck {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let begun = self.begun.as_mut().map(|begun| begun.as_mut().poll(context));
        if begun.is_some_and(|begun| begun.is_ready()) { Poll::Ready(None) } else { Poll::Pending }
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
    if let Some(user) = server.name_of_caller(&head) {
        head.extensions.insert(Requester(user));
    }
    let client = agent(&head.headers).to_owned();
    let request = Request::from_parts(head, Full::new(body));
    Ok(Faulty::new(server, client, faults).oneshot(request).await?.map(EitherBody::Right))
}

/// Who says to send a request.
fn agent(headers: &HeaderMap) -> &str {
    headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default()
}
