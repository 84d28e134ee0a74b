//! When a connection has had no request in work for too long, whatever protocol it speaks.
//!
//! hyper has no limit for a connection whose protocol is not known yet, nor for one of HTTP/2 without streams, and for
//! HTTP/1 one limit for idling and for the head of a request. So requests are counted from their head to the end of
//! their answer's body: a watch is in work for as long as it lasts, and a connection without any is idle. So is one on
//! which nothing but an answer is under way that its peer does not read, whatever the peer says below HTTP.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, pending};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a peer may take from the end of its handshake to the end of its first request's head, as
/// kube-apiserver's `ReadHeaderTimeout`.
pub(super) const HEAD: Duration = Duration::from_secs(32);
/// How long a connection may be without a request from then on, the head of the next one included, as kube-apiserver's
/// `IdleTimeout`.
pub(super) const IDLE: Duration = Duration::from_secs(90);

/// What is served.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// How long a connection without a watch may have answers under way of which none ends and none begins.
    pub(super) answer: Duration,
    /// Whether there are watches, which last for as long as their clients want.
    pub(super) watches: bool,
    /// How many connections there may be.
    pub(super) connections: usize,
}

impl Patience {
    /// An API: a minute for an answer, as kube-apiserver's `--request-timeout`.
    pub const API: Self = Self { answer: Duration::from_secs(60), watches: true, connections: 4_000 };
    /// Answers that are short, and for whoever reaches the port: 10 seconds for one.
    pub const SHORT: Self = Self { answer: Duration::from_secs(10), watches: false, connections: 500 };
}

/// The requests of one connection.
#[derive(Debug, Clone, Copy)]
struct Requests {
    /// How many there have been.
    begun: u64,
    /// How many of them are in work.
    open: usize,
    /// How many of these may last: watches, and what is not answered yet.
    lasting: usize,
    /// Since when there is none in work, where there is none.
    since: Instant,
    /// The place is wanted for another one: it is to end once there is none.
    leaves: bool,
}

/// Counts the requests of one connection, from when it is there.
#[derive(Debug, Clone)]
pub(super) struct Counter(watch::Sender<Requests>);

/// A service whose requests are counted.
#[derive(Clone)]
pub(super) struct Counted<S> {
    inner: S,
    requests: Counter,
    patience: Patience,
}

/// Ends once the connection was idle for too long.
pub(super) struct Idle(watch::Receiver<Requests>, Patience);

/// One request in work.
pub(super) struct Open {
    requests: Counter,
    lasting: bool,
}

impl Counter {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Requests { begun: 0, open: 0, lasting: 0, since: Instant::now(), leaves: false }))
    }

    pub(super) fn begin(&self) -> Open {
        self.0.send_modify(|requests| {
            requests.begun += 1;
            requests.open += 1;
            requests.lasting += 1;
        });
        Open { requests: self.clone(), lasting: true }
    }

    /// Since when no request is in work, and before that whether there ever was one; `None` where one is.
    pub(super) fn at_rest(&self) -> Option<(bool, Instant)> {
        let requests = *self.0.borrow();
        (requests.open == 0).then_some((requests.begun > 0, requests.since))
    }

    /// Has the connection end as soon as no request is in work.
    pub(super) fn leave(&self) {
        self.0.send_modify(|requests| requests.leaves = true);
    }

    /// Whether it has been told so.
    pub(super) fn leaves(&self) -> bool {
        self.0.borrow().leaves
    }
}

impl<S> Counted<S> {
    /// `inner` for one connection, and what says when that is idle.
    pub(super) fn new(inner: S, requests: Counter, patience: Patience) -> (Self, Idle) {
        let told = requests.0.subscribe();
        (Self { inner, requests, patience }, Idle(told, patience))
    }
}

impl Idle {
    /// Waits until no request was in work for [`HEAD`] at the beginning, or for [`IDLE`] after one, or until those in
    /// work stand still for too long; or, where the connection is to leave, until there is none.
    pub(super) async fn ended(mut self) {
        let (mut patience, mut seen) = (HEAD, 0);
        loop {
            let begun = self.0.wait_for(|requests| requests.begun > seen || requests.leaves).map(|begun| begun.is_ok());
            let Ok(counted) = tokio::time::timeout(patience, begun).await else { return };
            if !counted {
                // Nobody is left to count: the connection has ended.
                return pending().await;
            }
            loop {
                let requests = *self.0.borrow_and_update();
                if requests.open == 0 {
                    if requests.leaves {
                        return;
                    }
                    (seen, patience) = (requests.begun, IDLE);
                    break;
                }
                let limit = if requests.lasting > 0 { Duration::MAX } else { self.1.answer };
                match tokio::time::timeout(limit, self.0.changed()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return pending().await,
                    Err(_) => return,
                }
            }
        }
    }
}

/// Whether the answer to the request lasts for as long as its client wants.
fn is_watch<R>(request: &Request<R>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        matches!(name, "watch" | "follow") && !matches!(value, "false" | "0")
    }) || request.uri().path().split('/').any(|part| part == "watch")
}

impl Open {
    /// What is left to do is to send the answer.
    fn answered(mut self) -> Self {
        self.lasting = false;
        self.requests.0.send_modify(|requests| requests.lasting -= 1);
        self
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.requests.0.send_modify(|requests| {
            requests.open -= 1;
            requests.lasting -= usize::from(self.lasting);
            requests.since = Instant::now();
        });
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
        let (open, is_watch) = (self.requests.begin(), self.patience.watches && is_watch(&request));
        let answering = self.inner.call(request);
        async move {
            let answer = answering.await?;
            let open = if is_watch { open } else { open.answered() };
            Ok(answer.map(|body| Answer { body, _open: open }))
        }
        .boxed()
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
