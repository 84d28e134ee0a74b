//! The history of writes: every request that changes something, in the order in which the server took it.
//!
//! Two runs of the same seed must have equal histories (invariant 8). A history can be long, so of each
//! write its line (time, method, path, status) is kept whole and its body as a 64-bit digest; the first
//! line that differs tells where two runs part.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use muster_runtime::clock::Clock;
use tower::Service;

/// What was written, in order. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct History {
    lines: Arc<Mutex<Vec<String>>>,
}

impl History {
    /// One line for each write: virtual milliseconds since the epoch, method, path, status, and the digests of
    /// what was sent and of what was answered.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many writes there were.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn add(&self, line: String) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

/// A server whose writes are written down.
#[derive(Debug, Clone)]
pub struct Recorded<S> {
    inner: S,
    clock: Clock,
    history: History,
}

impl<S> Recorded<S> {
    /// Records what passes through to `inner`.
    pub fn new(inner: S, clock: Clock, history: History) -> Self {
        Self { inner, clock, history }
    }
}

impl<S, B> Service<Request<Full<Bytes>>> for Recorded<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Debug + Send,
{
    type Response = Response<http_body_util::Either<Full<Bytes>, B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        let (clock, history) = (self.clock, self.history.clone());
        Box::pin(async move {
            if request.method() == Method::GET {
                return Ok(inner.call(request).await?.map(http_body_util::Either::Right));
            }
            let (head, body) = request.into_parts();
            let Ok(body) = body.collect().await.map(http_body_util::Collected::to_bytes);
            let mut line = format!("{} {} {}", clock.now().as_nanos() / 1_000_000, head.method, head.uri);
            let _ = write!(line, " {:016x}", digest(&body));
            let answer = inner.call(Request::from_parts(head, Full::new(body))).await?;
            let (head, body) = answer.into_parts();
            let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            let _ = write!(line, " -> {} {:016x}", head.status.as_u16(), digest(&body));
            history.add(line);
            Ok(Response::from_parts(head, http_body_util::Either::Left(Full::new(body))))
        })
    }
}

/// A digest with fixed keys: the same bytes give the same number in every run.
fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
