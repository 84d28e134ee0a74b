//! Faults between clients and the server: what networks, servers and their storage can do to requests.
//!
//! ```text
//!   client ── Faulty ── Recorded ── server
//!                │          └── History: what has arrived, and nothing else
//!                └── Faults: rules, chance from a seed, what has struck
//! ```
//!
//! A request that was sent goes on even if its sender is killed or frozen. The same seed and the same requests give the
//! same faults.

mod answer;
mod draw;
mod memory;
mod rule;
pub(crate) mod target;
mod wire;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::DATE;
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use http_body_util::Full;
use muster_runtime::client::{BoxError, ResponseBody};
use muster_runtime::clock::Clock;
use tokio::sync::watch;
use tokio::time::Instant;
use tower::Service;

pub use draw::Draw;
use memory::Memory;
pub use rule::{Fault, Refusal, Rule};
pub use target::{Target, Verb};
use wire::{End, Fate, PieceFate, carry};

/// The faults of one world. Cloning shares them.
#[derive(Debug, Clone)]
pub struct Faults {
    state: Arc<Mutex<State>>,
    outages: watch::Sender<Outage>,
}

#[derive(Debug)]
struct State {
    start: Instant,
    rules: Vec<Rule>,
    draw: Draw,
    memory: Memory,
    struck: Vec<Struck>,
    /// The clock of the answers' `Date` header; `None` if they have none.
    date: Option<Clock>,
}

/// Whether the server is up. Each change breaks every connection.
#[derive(Debug, Clone, Copy, Default)]
struct Outage {
    away: bool,
}

/// A fault that has struck a request or broken a watch. [`Fault::Lag`] is not recorded: it would be most of them.
#[derive(Debug, Clone)]
pub struct Struck {
    /// When, since the [`Faults`] were made.
    pub at: Duration,
    /// The sender of the request.
    pub who: &'static str,
    /// The verb of the request.
    pub target: Target,
    /// The fault.
    pub fault: Fault,
}

impl Faults {
    /// No faults yet; their time starts now.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        let state = State {
            start: Instant::now(),
            rules: Vec::new(),
            draw: Draw::seeded(seed),
            memory: Memory::default(),
            struck: Vec::new(),
            date: None,
        };
        Self { state: Arc::new(Mutex::new(state)), outages: watch::Sender::new(Outage::default()) }
    }

    /// Adds a rule.
    pub fn add(&self, rule: Rule) {
        self.lock().rules.push(rule);
    }

    /// Removes all rules, and brings the server up if it is down.
    pub fn end(&self) {
        self.lock().rules.clear();
        if self.outages.borrow().away {
            self.come_back();
        }
    }

    /// The server goes down: connections break, new ones are refused.
    pub fn go_away(&self) {
        self.outages.send_replace(Outage { away: true });
    }

    /// The server is up again.
    pub fn come_back(&self) {
        self.outages.send_replace(Outage { away: false });
    }

    /// Adds a `Date` header to answers, by this clock.
    pub fn tell_time(&self, clock: Clock) {
        self.lock().date = Some(clock);
    }

    /// The faults that have struck so far.
    #[must_use]
    pub fn struck(&self) -> Vec<Struck> {
        self.lock().struck.clone()
    }

    /// The time since they were made.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.lock().start.elapsed()
    }

    /// What happens to a request that is sent now.
    fn fate(&self, who: &'static str, target: &Target) -> Fate {
        let mut state = self.lock();
        let State { start, rules, draw, struck, .. } = &mut *state;
        let at = start.elapsed();
        let mut fate = Fate::default();
        for rule in rules.iter().filter(|rule| !rule.is_about_pieces() && rule.applies(who, target, at)) {
            if draw.strikes(rule.chance()) {
                fate.add(&rule.fault, |range| draw.within(range));
                struck.push(Struck { at, who, target: target.clone(), fault: rule.fault.clone() });
            }
        }
        fate
    }

    /// What happens to a piece of a watch of this many bytes.
    fn piece(&self, who: &'static str, target: &Target, bytes: usize) -> PieceFate {
        let mut state = self.lock();
        let State { start, rules, draw, struck, .. } = &mut *state;
        let at = start.elapsed();
        let mut fate = PieceFate::default();
        for rule in rules.iter().filter(|rule| rule.is_about_pieces() && rule.applies(who, target, at)) {
            if !draw.strikes(rule.chance()) {
                continue;
            }
            match &rule.fault {
                Fault::Lag(range) => {
                    fate.lag += draw.within(range);
                    continue;
                }
                Fault::Cut => {
                    let bytes = draw.below(u64::try_from(bytes).unwrap_or(u64::MAX));
                    fate.cut = Some((usize::try_from(bytes).unwrap_or_default(), draw.strikes(500)));
                }
                _ => fate.stalls = true,
            }
            struck.push(Struck { at, who, target: target.clone(), fault: rule.fault.clone() });
        }
        fate
    }

    fn outages(&self) -> watch::Receiver<Outage> {
        self.outages.subscribe()
    }

    fn remember(&self, uri: &Uri, headers: &HeaderMap, body: &Bytes) {
        let mut state = self.lock();
        if state.rules.iter().any(|rule| rule.fault == Fault::Stale) {
            state.memory.keep(uri, headers, body);
        }
    }

    fn recall(&self, uri: &Uri) -> Option<Response<ResponseBody>> {
        let remembered = self.lock().memory.recall(uri)?;
        let mut answer = Response::new(answer::whole(remembered.body));
        *answer.headers_mut() = remembered.headers;
        Some(answer)
    }

    /// Adds the `Date` header to an answer, if one is to be added.
    fn date(&self, headers: &mut HeaderMap) {
        let Some(clock) = self.lock().date else { return };
        if let Ok(date) = HeaderValue::from_str(&answer::http_date(clock.now())) {
            headers.insert(DATE, date);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server behind faults.
#[derive(Debug, Clone)]
pub struct Faulty<S> {
    server: S,
    who: &'static str,
    faults: Faults,
}

impl<S> Faulty<S> {
    /// Sends what `who` sends to `server`, subject to `faults`.
    pub fn new(server: S, who: &'static str, faults: Faults) -> Self {
        Self { server, who, faults }
    }
}

impl<S, B> Service<Request<Full<Bytes>>> for Faulty<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError> + Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Once a request has arrived, it does not depend on its sender.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let Self { server, who, faults } = self;
        let target = Target::of(request.method(), request.uri());
        let fate = faults.fate(who, &target);
        if matches!(fate.end, Some(End::Lost)) {
            return Box::pin(std::future::pending());
        }
        let carried = tokio::spawn(carry(server.clone(), request, who, target, fate, faults.clone()));
        Box::pin(async move { carried.await.unwrap_or_else(|ended| Err(ended.into())) })
    }
}
