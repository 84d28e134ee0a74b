//! When a connection has had no request in work for too long, whatever protocol it speaks.
//!
//! hyper has no limit for a connection whose protocol is not known yet, nor for one of HTTP/2 without streams, and for
//! HTTP/1 one limit for idling and for the head of a request. So requests are counted from their head to the end of
//! their answer's body: a watch is in work for as long as it lasts, and a connection without any is idle. So is one on
//! which nothing but answers are under way of which its peer does not read one, whatever the peer says below HTTP. An answer
//! is handed on in small pieces, for what hyper and HTTP/2 hold back of it counts as sent. Beside a watch the connection stays,
//! and what is left of such an answer is given up.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::{BoxFuture, pending};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
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

    /// A page for whoever sits at this machine, beside an API.
    pub const PAGE: Self = Self { connections: 64, ..Self::API };

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
    /// The answers to the others.
    answers: Vec<UnderWay>,
    /// Since when there is none in work, where there is none.
    since: Instant,
    /// The place is wanted for another one: it is to end once there is none.
    leaves: bool,
}

/// An answer that is under way.
struct UnderWay {
    /// Which request it is for.
    number: u64,
    /// When something of it went out last.
    sent: Instant,
    left: Arc<dyn Left>,
}

impl fmt::Debug for UnderWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnderWay").field("number", &self.number).field("sent", &self.sent).finish_non_exhaustive()
    }
}

/// What is left of an answer.
trait Left: Send + Sync {
    /// Whether it was given up.
    fn is_given_up(&self) -> bool;
    /// Gives it up: it is dropped now, and its stream is reset when its peer reads on.
    fn give_up(&self);
}

/// The body of an answer, and what is left of the piece of it that came last; `None` once it was given up.
struct Rest<B>(Mutex<Option<(B, Bytes)>>);

impl<B> Rest<B> {
    fn with<T>(&self, work: impl FnOnce(&mut Option<(B, Bytes)>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<B: Send> Left for Rest<B> {
    fn is_given_up(&self) -> bool {
        self.with(|rest| rest.is_none())
    }

    fn give_up(&self) {
        drop(self.with(Option::take));
    }
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
    /// stands still for too long; or, where the connection is to leave, until there is none. Beside a watch the answer is
    /// given up instead.
    pub(super) async fn ended(self) {
        let Self(mut told, patience) = self;
        let first = Instant::now() + HEAD;
        loop {
            let (mut stays, mut under_way) = (false, Vec::new());
            let mut until = {
                let requests = told.borrow_and_update();
                match requests.at_rest() {
                    true if requests.leaves => return,
                    true if requests.begun == 0 => Some(first),
                    true => Some(requests.since + IDLE),
                    false if requests.lasting > 0 => {
                        stays = true;
                        let answers = requests.answers.iter();
                        under_way
                            .extend(answers.map(|answer| (answer.sent + patience.answer, Arc::clone(&answer.left))));
                        None
                    }
                    false => requests.answers.iter().map(|answer| answer.sent + patience.answer).min(),
                }
            };
            // Answers are looked into while nobody is kept from counting: who sends one holds it.
            for (end, left) in under_way {
                if end <= Instant::now() {
                    left.give_up();
                } else if !left.is_given_up() {
                    until = Some(until.map_or(end, |until: Instant| until.min(end)));
                }
            }
            if !stays && until.is_some_and(|until| until <= Instant::now()) {
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
    fn answered(mut self, left: Arc<dyn Left>) -> Self {
        self.lasting = false;
        self.requests.0.send_modify(|requests| {
            requests.lasting -= 1;
            requests.answers.push(UnderWay { number: self.number, sent: Instant::now(), left });
        });
        self
    }

    /// More of the answer goes out.
    fn goes_on(&self) {
        self.requests.0.send_if_modified(|requests| {
            let mut answers = requests.answers.iter_mut();
            if let Some(answer) = answers.find(|answer| answer.number == self.number) {
                answer.sent = Instant::now();
            }
            false
        });
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut done = None;
        self.requests.0.send_modify(|requests| {
            requests.lasting -= usize::from(self.lasting);
            let at = requests.answers.iter().position(|answer| answer.number == self.number);
            done = at.map(|at| requests.answers.swap_remove(at));
            requests.since = Instant::now();
        });
        // What is left of it goes while others can count.
        drop(done);
    }
}

impl<S, R, B> tower::Service<Request<R>> for Counted<S>
where
    S: tower::Service<Request<R>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
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
            let lasts = answer.extensions().get::<Lasting>().is_some();
            Ok(answer.map(|body| {
                let rest = Arc::new(Rest(Mutex::new(Some((body, Bytes::new())))));
                let open = if lasts { open } else { open.answered(Arc::clone(&rest) as Arc<dyn Left>) };
                Answer { rest, open }
            }))
        }
        .boxed()
    }
}

/// The body of an answer; its request is in work until the body was sent or given up.
pub(super) struct Answer<B> {
    rest: Arc<Rest<B>>,
    open: Open,
}

impl<B> Body for Answer<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = self.rest.with(|rest| {
            let Some((body, rest)) = rest else {
                let why = io::Error::new(io::ErrorKind::TimedOut, "nothing was read of the answer for too long");
                return Poll::Ready(Some(Err(why)));
            };
            if rest.is_empty() {
                let frame = match ready!(Pin::new(body).poll_frame(context)) {
                    Some(Ok(frame)) => frame,
                    Some(Err(why)) => return Poll::Ready(Some(Err(io::Error::other(why)))),
                    None => return Poll::Ready(None),
                };
                match frame.into_data() {
                    Ok(data) => *rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                }
            }
            // The events of what lasts stay whole.
            let most = if self.open.lasting { usize::MAX } else { PIECE };
            let piece = rest.split_to(rest.len().min(most));
            Poll::Ready(Some(Ok(Frame::data(piece))))
        });
        if matches!(polled, Poll::Ready(Some(Ok(_)))) {
            self.open.goes_on();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.rest.with(|rest| rest.as_ref().is_some_and(|(body, rest)| rest.is_empty() && body.is_end_stream()))
    }

    fn size_hint(&self) -> SizeHint {
        self.rest.with(|rest| {
            let mut hint = SizeHint::new();
            if let Some((body, rest)) = rest {
                let (body, rest) = (body.size_hint(), rest.len() as u64);
                hint.set_lower(body.lower() + rest);
                if let Some(upper) = body.upper() {
                    hint.set_upper(upper + rest);
                }
            }
            hint
        })
    }
}
