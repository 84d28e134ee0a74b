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
use http_body_util::{BodyExt as _, Either as EitherBody, Full, Limited};
use hyper::body::Incoming;
use muster_apiserver::http::body::Body;
use muster_apiserver::http::{LARGEST_BODY, Service as Server};
use muster_runtime::client::{BoxError, ResponseBody};
use muster_simulation::faults::{Faults, Faulty, Requester, Target};
use tower::{Service, ServiceExt as _};

/// A server behind faults that can change.
#[derive(Debug, Clone)]
pub(crate) struct Front {
    server: Server,
    faults: Faults,
}

type Answer = Response<EitherBody<Body, ResponseBody>>;
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
        let answering: Answering<_> = server.call(request);
        Either::Left(answering.map(|answer| {
            let Ok(answer) = answer;
            Ok(answer.map(EitherBody::Left))
        }))
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
