//! When a connection has had no request in work for too long, whatever protocol it speaks.
//!
//! hyper has no limit for a connection whose protocol is not known yet, nor for one of HTTP/2 without streams, and for
//! HTTP/1 one limit for idling and for the head of a request. So requests are counted from their head to the end of
//! their answer's body: a watch is in work for as long as it lasts, and a connection without any is idle. So is one on
//! which nothing but answers are under way of which its peer does not read one, whatever the peer says below HTTP. An answer
//! is handed on in small pieces, for what hyper and HTTP/2 hold back of it counts as sent.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::{BoxFuture, pending};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::http::body::Lasting;

/// How long a peer may take from the end of its handshake to the end of its first request's head, as
/// kube-apiserver's `ReadHeaderTimeout`.
pub(super) const HEAD: Duration = Duration::from_secs(32);
/// How long a connection may be without a request from then on, the head of the next one included, as kube-apiserver's
/// `IdleTimeout`.
pub(super) const IDLE: Duration = Duration::from_secs(90);

/// An answer goes on in pieces of so many bytes at most.
const PIECE: usize = 16 << 10;

/// What is served.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// How long a connection without a watch may have an answer under way of which nothing more is read.
    pub(super) answer: Duration,
    /// How many connections there may be.
    pub(super) connections: usize,
}

impl Patience {
    /// An API: a minute for an answer, as kube-apiserver's `--request-timeout`.
    pub const API: Self = Self { answer: Duration::from_secs(60), connections: 4_000 };
    /// Answers that are short, and for whoever reaches the port: 10 seconds for one.
    pub const SHORT: Self = Self { answer: Duration::from_secs(10), connections: 500 };

    /// The same in a process that may have so many files open: half of them are left for what else it has.
    #[must_use]
    pub fn within(self, files: u64) -> Self {
        let most = usize::try_from(files / 2).unwrap_or(usize::MAX).max(1);
        Self { connections: self.connections.min(most), ..self }
    }
}

/// The requests of one connection.
#[derive(Debug)]
struct Requests {
    /// How many there have been.
    begun: u64,
    /// How many in work may last: watches, and what is not answered yet.
    lasting: usize,
    /// The others in work: which one, and when something of its answer went out last.
    answers: Vec<(u64, Instant)>,
    /// Since when there is none in work, where there is none.
    since: Instant,
    /// The place is wanted for another one: it is to end once there is none.
    leaves: bool,
}

impl Requests {
    fn at_rest(&self) -> bool {
        self.lasting == 0 && self.answers.is_empty()
    }
}

/// Counts the requests of one connection, from when it is there.
#[derive(Debug, Clone)]
pub(super) struct Counter(watch::Sender<Requests>);

/// A service whose requests are counted.
#[derive(Clone)]
pub(super) struct Counted<S> {
    inner: S,
    requests: Counter,
}

/// Ends once the connection was idle for too long.
pub(super) struct Idle(watch::Receiver<Requests>, Patience);

/// One request in work.
pub(super) struct Open {
    requests: Counter,
    /// Which one.
    number: u64,
    lasting: bool,
}

impl Counter {
    pub(super) fn new() -> Self {
        let since = Instant::now();
        Self(watch::Sender::new(Requests { begun: 0, lasting: 0, answers: Vec::new(), since, leaves: false }))
    }

    pub(super) fn begin(&self) -> Open {
        let mut number = 0;
        self.0.send_modify(|requests| {
            requests.begun += 1;
            requests.lasting += 1;
            number = requests.begun;
        });
        Open { requests: self.clone(), number, lasting: true }
    }

    /// Since when no request is in work, and before that whether there ever was one; `None` where one is.
    pub(super) fn at_rest(&self) -> Option<(bool, Instant)> {
        let requests = self.0.borrow();
        requests.at_rest().then_some((requests.begun > 0, requests.since))
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
        (Self { inner, requests }, Idle(told, patience))
    }
}

impl Idle {
    /// Waits until no request was in work for [`HEAD`] at the beginning, or for [`IDLE`] after one, or until the answer to one
    /// stands still for too long where no watch is beside it; or, where the connection is to leave, until there is none.
    pub(super) async fn ended(self) {
        let Self(mut told, patience) = self;
        let first = Instant::now() + HEAD;
        loop {
            let until = {
                let requests = told.borrow_and_update();
                match requests.at_rest() {
                    true if requests.leaves => return,
                    true if requests.begun == 0 => Some(first),
                    true => Some(requests.since + IDLE),
                    false if requests.lasting > 0 => None,
                    false => requests.answers.iter().map(|(_, sent)| *sent + patience.answer).min(),
                }
            };
            if until.is_some_and(|until| until <= Instant::now()) {
                return;
            }
            let changed = match until {
                // That time is up: it may have been put off silently.
                Some(until) => timeout_at(until, told.changed()).await.unwrap_or(Ok(())),
                None => told.changed().await,
            };
            if changed.is_err() {
                // Nobody is left to count: the connection has ended.
                return pending().await;
            }
        }
    }
}

impl Open {
    /// What is left to do is to send the answer.
    fn answered(mut self) -> Self {
        self.lasting = false;
        self.requests.0.send_modify(|requests| {
            requests.lasting -= 1;
            requests.answers.push((self.number, Instant::now()));
        });
        self
    }

    /// More of the answer goes out.
    fn goes_on(&self) {
        self.requests.0.send_if_modified(|requests| {
            let mut answers = requests.answers.iter_mut();
            if let Some((_, sent)) = answers.find(|(number, _)| *number == self.number) {
                *sent = Instant::now();
            }
            false
        });
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.requests.0.send_modify(|requests| {
            requests.lasting -= usize::from(self.lasting);
            requests.answers.retain(|(number, _)| *number != self.number);
            requests.since = Instant::now();
        });
    }
}

impl<S, R, B> tower::Service<Request<R>> for Counted<S>
where
    S: tower::Service<Request<R>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes>,
{
    type Response = Response<Answer<B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let open = self.requests.begin();
        let answering = self.inner.call(request);
        async move {
            let answer = answering.await?;
            let open = if answer.extensions().get::<Lasting>().is_some() { open } else { open.answered() };
            Ok(answer.map(|body| Answer { body, rest: Bytes::new(), open }))
        }
        .boxed()
    }
}

pin_project! {
    /// The body of an answer; its request is in work until the body was sent or given up.
    pub(super) struct Answer<B> {
        #[pin]
        body: B,
        // What is left of the piece that came last.
        rest: Bytes,
        open: Open,
    }
}

impl<B: Body<Data = Bytes>> Body for Answer<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.project();
        if this.rest.is_empty() {
            let frame = match ready!(this.body.poll_frame(context)) {
                Some(Ok(frame)) => frame,
                end => return Poll::Ready(end),
            };
            match frame.into_data() {
                Ok(data) => *this.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        // The events of what lasts stay whole.
        let most = if this.open.lasting { usize::MAX } else { PIECE };
        this.open.goes_on();
        let piece = this.rest.split_to(this.rest.len().min(most));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}
