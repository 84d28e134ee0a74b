//! When a connection has had no request in work for too long, whatever protocol it speaks.
//!
//! hyper has no limit for a connection whose protocol is not known yet, nor for one of HTTP/2 without streams, and for
//! HTTP/1 one limit for idling and for the head of a request. So requests are counted from their head to the end of
//! their answer's body: a watch is in work for as long as it lasts, and a connection without any is idle.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, pending};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::sync::watch;

/// How long a peer may take from the end of its handshake to the end of its first request's head, as
/// kube-apiserver's `ReadHeaderTimeout`.
pub(super) const HEAD: Duration = Duration::from_secs(32);
/// How long a connection may be without a request from then on, the head of the next one included, as kube-apiserver's
/// `IdleTimeout`.
pub(super) const IDLE: Duration = Duration::from_secs(90);

/// The requests of one connection.
#[derive(Debug, Clone, Copy, Default)]
struct Requests {
    /// How many there have been.
    begun: u64,
    /// How many of them are in work.
    open: usize,
}

/// A service whose requests are counted.
#[derive(Clone)]
pub(super) struct Counted<S> {
    inner: S,
    requests: watch::Sender<Requests>,
}

/// Ends once the connection was idle for too long.
pub(super) struct Idle(watch::Receiver<Requests>);

/// One request in work.
struct Open(watch::Sender<Requests>);

impl<S> Counted<S> {
    /// `inner` for one connection, and what says when that is idle.
    pub(super) fn new(inner: S) -> (Self, Idle) {
        let (requests, told) = watch::channel(Requests::default());
        (Self { inner, requests }, Idle(told))
    }
}

impl Idle {
    /// Waits until no request was in work for [`HEAD`] at the beginning, or for [`IDLE`] after one.
    pub(super) async fn ended(mut self) {
        let (mut patience, mut seen) = (HEAD, 0);
        loop {
            let begun = self.0.wait_for(|requests| requests.begun > seen).map(|begun| begun.is_ok());
            let Ok(counted) = tokio::time::timeout(patience, begun).await else { return };
            let answered = self.0.wait_for(|requests| requests.open == 0).await.map(|requests| requests.begun);
            let (true, Ok(begun)) = (counted, answered) else {
                // Nobody is left to count: the connection has ended.
                return pending().await;
            };
            seen = begun;
            patience = IDLE;
        }
    }
}

impl Open {
    fn begin(requests: &watch::Sender<Requests>) -> Self {
        requests.send_modify(|requests| {
            requests.begun += 1;
            requests.open += 1;
        });
        Self(requests.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|requests| requests.open -= 1);
    }
}

impl<S, R, B> tower::Service<Request<R>> for Counted<S>
where
    S: tower::Service<Request<R>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<Answer<B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let open = Open::begin(&self.requests);
        let answering = self.inner.call(request);
        async move { Ok(answering.await?.map(|body| Answer { body, _open: open })) }.boxed()
    }
}

pin_project! {
    /// The body of an answer; its request is in work until the body was sent or given up.
    pub(super) struct Answer<B> {
        #[pin]
        body: B,
        _open: Open,
    }
}

impl<B: Body> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        self.project().body.poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
