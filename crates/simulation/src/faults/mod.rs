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
mod bookmark;
mod draw;
mod event;
mod memory;
mod rule;
pub(crate) mod target;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::DATE;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Collected, Full};
use muster_runtime::client::{BoxError, ResponseBody};
use muster_runtime::clock::Clock;
use muster_tree::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tower::Service;

use answer::Broken;
pub use draw::Draw;
use memory::{Asked, Memory};
pub use rule::{Fault, LONGEST, Refusal, Rule};
pub use target::{Target, Verb, is_watch};
use wire::{End, Fate, Outcome, PieceFate, carry};

/// Of so many kinds of requests it is counted how many there were.
const MOST_KINDS: usize = 1_000_000;

/// The faults of one world. Cloning shares them.
#[derive(Debug, Clone)]
pub struct Faults {
    state: Arc<Mutex<State>>,
    outages: watch::Sender<Outage>,
    /// Whether something can strike.
    active: watch::Sender<bool>,
    /// How often all that waits was let go.
    released: watch::Sender<u64>,
    /// How many rules were added.
    added: watch::Sender<u64>,
}

struct State {
    start: Instant,
    seed: u64,
    rules: Vec<Active>,
    /// How many requests there were of each kind, and pieces of its watches: by the digest of who wanted what.
    asked: HashMap<u64, u64, BuildHasherDefault<DefaultHasher>>,
    /// How many requests and pieces of watches were struck.
    strikes: u64,
    memory: Memory,
    struck: VecDeque<Struck>,
    unanswered: VecDeque<Unanswered>,
    /// What answers say the time is; none where they do not.
    date: Option<Clock>,
    /// How many of what has struck, and of what went unanswered, are kept.
    kept: usize,
    /// Who hears of each strike.
    hears: Option<Hears>,
}

type Hears = Box<dyn FnMut(&Struck) + Send>;

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seed, rules, strikes, .. } = self;
        f.debug_struct("State")
            .field("seed", seed)
            .field("rules", rules)
            .field("strikes", strikes)
            .finish_non_exhaustive()
    }
}

impl State {
    fn strike(&mut self, struck: Struck) {
        self.strikes += 1;
        if let Some(hears) = &mut self.hears {
            hears(&struck);
        }
        if self.struck.len() >= self.kept {
            self.struck.pop_front();
        }
        self.struck.push_back(struck);
    }
}

/// A rule, and what its chance comes from. Whether it strikes a request, and how, depends on nothing but the rule, the
/// request, and how many like it there were: taking away another rule, or another request, leaves that as it was.
#[derive(Debug)]
struct Active {
    rule: Rule,
    /// Which of all that were added.
    number: u64,
    seed: u64,
    met: Met,
}

/// What a rule has met so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Met {
    /// How many requests, or pieces of watches, it was about, whatever its time and its chance.
    pub times: u64,
    /// How many of them it struck.
    pub struck: u64,
}

impl Active {
    /// The fault as it strikes, with nothing left to chance.
    fn strikes(
        &mut self,
        who: &str,
        target: &Target,
        (at, key, nth): (Duration, u64, u64),
        piece: Option<&[u8]>,
    ) -> Option<Fault> {
        if !self.rule.is_about(who, target) {
            return None;
        }
        self.met.times += 1;
        if !self.rule.applies(target, self.met.times, at) || piece.is_some_and(|piece| !self.rule.fault.is_about(piece))
        {
            return None;
        }
        let mut draw = Draw::seeded(self.seed ^ key ^ nth.rotate_left(32));
        let length = piece.map_or(0, <[u8]>::len);
        let strikes = draw.strikes(self.rule.per_mille);
        self.met.struck += u64::from(strikes);
        strikes.then(|| self.rule.fault.drawn(&mut draw, length))
    }
}

/// That all that waits is let go, after some moment.
#[derive(Debug, Clone)]
struct Release {
    released: watch::Receiver<u64>,
    before: u64,
}

impl Release {
    /// Whether it has been.
    fn is_over(&self) -> bool {
        *self.released.borrow() > self.before
    }

    /// Waits for it.
    async fn come(&mut self) {
        let before = self.before;
        if self.released.wait_for(|times| *times > before).await.is_err() {
            // Nobody is left who could.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until then, unless it comes before.
    async fn or_until(&mut self, due: Instant) {
        tokio::select! {
            biased;
            () = sleep_until(due) => {}
            () = self.come() => {}
        }
    }
}

/// Whether the server is there. Each change breaks every connection.
#[derive(Debug, Clone, Copy, Default)]
struct Outage {
    away: bool,
}

/// A fault that has struck a request or a piece of a watch.
#[derive(Debug, Clone)]
pub struct Struck {
    /// When, since the [`Faults`] were made.
    pub at: Duration,
    /// The sender of the request.
    pub who: Arc<str>,
    /// The verb of the request.
    pub target: Target,
    /// Which of the requests of this sender for this target it was, or of the pieces of such watches, counted from 1.
    pub nth: u64,
    /// The fault, with nothing left to chance.
    pub fault: Fault,
}

impl Struck {
    /// The rule that strikes this, and nothing else.
    #[must_use]
    pub fn rule(&self) -> Rule {
        let Target { user, verb, resource, namespace, name, subresource, resumes: _ } = &self.target;
        Rule {
            user: Some(user.clone()).filter(|user| !user.is_empty()),
            // Empty ones are what it has none of, and not whatever there is: others are counted apart.
            namespace: Some(namespace.clone()),
            name: Some(name.clone()),
            subresource: Some(subresource.clone()),
            nth: Some(self.nth),
            ..Rule::always(self.fault.clone()).of(&self.who).verbs(&[*verb]).resources(&[resource])
        }
    }
}

/// A write that the server took and whose sender was not told so.
#[derive(Debug, Clone)]
pub struct Unanswered {
    /// When the server had acted, since the making of the [`Faults`].
    pub at: Duration,
    /// Whose request it was.
    pub who: Arc<str>,
    /// What it wanted.
    pub target: Target,
    /// What the server answered, as JSON; null where it is none.
    pub answer: Value,
}

impl Faults {
    /// No faults yet; their time starts now.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        let state = State {
            start: Instant::now(),
            seed,
            rules: Vec::new(),
            asked: HashMap::default(),
            strikes: 0,
            memory: Memory::default(),
            struck: VecDeque::new(),
            unanswered: VecDeque::new(),
            date: None,
            kept: usize::MAX,
            hears: None,
        };
        let outages = watch::Sender::new(Outage::default());
        let (active, released, added) = (watch::Sender::new(false), watch::Sender::new(0), watch::Sender::new(0));
        Self { state: Arc::new(Mutex::new(state)), outages, active, released, added }
    }

    /// Adds a rule.
    pub fn add(&self, rule: Rule) {
        let mut state = self.lock();
        let (seed, number) = (state.seed ^ rule.digest(), *self.added.borrow() + 1);
        state.rules.push(Active { rule, number, seed, met: Met::default() });
        self.note(&state);
        self.added.send_replace(number);
    }

    /// Notes whether something can strike now.
    fn note(&self, state: &State) {
        self.active.send_replace(!state.rules.is_empty() || state.date.is_some() || self.is_away());
    }

    /// The rules that there are.
    #[must_use]
    pub fn rules(&self) -> Vec<Rule> {
        self.lock().rules.iter().map(|active| active.rule.clone()).collect()
    }

    /// What each of them has met, in the same order.
    #[must_use]
    pub fn met(&self) -> Vec<Met> {
        self.lock().rules.iter().map(|active| active.met).collect()
    }

    /// Whether nothing can strike: there is no rule, the server is there, and answers say no time. Costs one look.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        !*self.active.borrow()
    }

    /// Waits until something can strike.
    pub async fn begun(&self) {
        // Its sender is here.
        let _ = self.active.subscribe().wait_for(|active| *active).await;
    }

    /// Waits until a rule is added after this call that a watch is subject to as it is opened: one about its requests, and not about
    /// what it tells, which such a rule strikes anyway.
    pub fn added_for(&self, who: &str, target: Target) -> impl Future<Output = ()> + Send + use<> {
        let (who, faults, mut added) = (who.to_owned(), self.clone(), self.added.subscribe());
        let before = *added.borrow_and_update();
        let is_new = move || {
            let state = faults.lock();
            let new = state.rules.iter().filter(|active| active.number > before);
            new.map(|active| &active.rule).any(|rule| !rule.fault.is_about_pieces() && rule.is_about(&who, &target))
        };
        async move {
            // Its sender is there with the faults.
            while !is_new() && added.changed().await.is_ok() {}
        }
    }

    /// Keeps no more than so many of what has struck and of what went unanswered, the newest; all unless it is said.
    pub fn keep(&self, most: usize) {
        self.lock().kept = most.max(1);
    }

    /// Has each strike be heard of at once. What hears must not ask the faults.
    pub fn hear(&self, hears: impl FnMut(&Struck) + Send + 'static) {
        self.lock().hears = Some(Box::new(hears));
    }

    /// Removes all rules, and brings the server up if it is down.
    pub fn end(&self) {
        let mut state = self.lock();
        state.rules.clear();
        state.memory = Memory::default();
        if self.is_away() {
            self.outages.send_replace(Outage { away: false });
        }
        self.note(&state);
    }

    /// Lets go what struck requests and watches still have to wait for: what was late comes at once, and what would never come
    /// ends as by a connection that breaks.
    pub fn release(&self) {
        self.released.send_modify(|times| *times += 1);
    }

    /// What waits from now on waits for this.
    fn release_to_come(&self) -> Release {
        let released = self.released.subscribe();
        let before = *released.borrow();
        Release { released, before }
    }

    /// The server goes down: connections break, new ones are refused.
    pub fn go_away(&self) {
        self.is_there(false);
    }

    /// The server is up again.
    pub fn come_back(&self) {
        self.is_there(true);
    }

    fn is_there(&self, there: bool) {
        let state = self.lock();
        self.outages.send_replace(Outage { away: !there });
        self.note(&state);
    }

    /// Whether the server is down.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.outages.borrow().away
    }

    /// Adds a `Date` header to answers, by this clock; none where there is none.
    pub fn tell_time(&self, clock: Option<Clock>) {
        let mut state = self.lock();
        state.date = clock;
        self.note(&state);
    }

    /// How many requests and pieces of watches were struck so far, by [`Fault::Lag`] too.
    #[must_use]
    pub fn strikes(&self) -> u64 {
        self.lock().strikes
    }

    /// What has struck so far.
    #[must_use]
    pub fn struck(&self) -> Vec<Struck> {
        self.lock().struck.iter().cloned().collect()
    }

    /// The writes so far whose senders do not know that the server took them.
    #[must_use]
    pub fn unanswered(&self) -> Vec<Unanswered> {
        self.lock().unanswered.iter().cloned().collect()
    }

    /// How long ago they began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.lock().start.elapsed()
    }

    /// What happens to a request that is sent now.
    fn fate(&self, who: &Arc<str>, target: &Target) -> Fate {
        let mut fate = Fate::default();
        self.strike_with(who, target, None, &mut fate);
        fate
    }

    /// What happens to a piece of a watch.
    fn piece(&self, who: &Arc<str>, target: &Target, piece: &[u8]) -> PieceFate {
        let mut fate = PieceFate::default();
        self.strike_with(who, target, Some(piece), &mut fate);
        fate
    }

    /// Has every rule strike that does, and records those whose fault comes to something beside the others'.
    fn strike_with(&self, who: &Arc<str>, target: &Target, piece: Option<&[u8]>, fate: &mut impl Outcome) {
        let mut state = self.lock();
        let State { start, rules, asked, .. } = &mut *state;
        let at = start.elapsed();
        let key = key(who, target, piece.is_some());
        // However many there are, they do not fill the memory: then all are counted anew.
        if asked.len() >= MOST_KINDS && !asked.contains_key(&key) {
            asked.clear();
        }
        let nth = asked.entry(key).or_default();
        *nth += 1;
        let nth = *nth;
        let mut struck = Vec::new();
        for active in rules.iter_mut().filter(|active| active.rule.fault.is_about_pieces() == piece.is_some()) {
            let Some(fault) = active.strikes(who, target, (at, key, nth), piece) else { continue };
            // Whether there is an older list to answer with is not known yet.
            if fate.add(&fault) && fault != Fault::Stale {
                struck.push(Struck { at, who: Arc::clone(who), target: target.clone(), nth, fault });
            }
        }
        let told = struck.into_iter().filter(|struck| fate.comes_to(&struck.fault));
        told.for_each(|struck| state.strike(struck));
    }

    /// Notes an answer that does not reach its sender, where the server took a write.
    fn lose(&self, who: &Arc<str>, target: &Target, status: StatusCode, answer: &Bytes) {
        if status.is_success() && !matches!(target.verb, Verb::Get | Verb::List | Verb::Watch) {
            let answer = serde_json::from_slice(answer).unwrap_or_default();
            let mut state = self.lock();
            let at = state.start.elapsed();
            if state.unanswered.len() >= state.kept {
                state.unanswered.pop_front();
            }
            state.unanswered.push_back(Unanswered { at, who: Arc::clone(who), target: target.clone(), answer });
        }
    }

    /// One more was struck.
    fn strike(&self) {
        self.lock().strikes += 1;
    }

    fn outages(&self) -> watch::Receiver<Outage> {
        self.outages.subscribe()
    }

    fn remember(&self, asked: &Asked, headers: &HeaderMap, body: &Bytes) {
        let mut state = self.lock();
        if state.rules.iter().any(|active| active.rule.fault == Fault::Stale) {
            state.memory.keep(asked, headers, body);
        }
    }

    fn recall(&self, who: &Arc<str>, target: &Target, asked: &Asked) -> Option<Response<ResponseBody>> {
        let mut state = self.lock();
        let remembered = state.memory.recall(asked)?;
        let at = state.start.elapsed();
        let nth = state.asked.get(&key(who, target, false)).copied().unwrap_or_default();
        state.strike(Struck { at, who: Arc::clone(who), target: target.clone(), nth, fault: Fault::Stale });
        let mut answer = Response::new(answer::whole(remembered.body));
        *answer.headers_mut() = remembered.headers;
        Some(answer)
    }

    /// Adds the `Date` header to an answer, if one is to be added.
    pub fn date(&self, headers: &mut HeaderMap) {
        let Some(clock) = self.lock().date else { return };
        if let Ok(date) = HeaderValue::from_str(&answer::http_date(clock.now())) {
            headers.insert(DATE, date);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number for all requests of one sender that want the same, or for the pieces of such watches. Whether one names a version
/// to go on from makes no difference.
fn key(who: &str, target: &Target, is_piece: bool) -> u64 {
    let Target { user, verb, resource, namespace, name, subresource, resumes: _ } = target;
    let mut hasher = DefaultHasher::new();
    (who, user, verb, resource, namespace, name, subresource, is_piece).hash(&mut hasher);
    hasher.finish()
}

/// The name of the user whose request it is, among its extensions.
#[derive(Debug, Clone)]
pub struct Requester(pub String);

/// A server behind faults.
#[derive(Debug, Clone)]
pub struct Faulty<S> {
    server: S,
    who: Arc<str>,
    faults: Faults,
}

impl<S> Faulty<S> {
    /// Sends what `who` sends to `server`, subject to `faults`.
    pub fn new(server: S, who: impl Into<Arc<str>>, faults: Faults) -> Self {
        Self { server, who: who.into(), faults }
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
        let (head, body) = request.into_parts();
        // It is there already.
        let body = body.collect().now_or_never().and_then(Result::ok).map(Collected::to_bytes).unwrap_or_default();
        let user = head.extensions.get().map(|Requester(user)| user.clone()).unwrap_or_default();
        let target = Target { user, ..Target::of(&head.method, &head.uri).with_name_of(&body) };
        let request = Request::from_parts(head, Full::new(body));
        let mut release = faults.release_to_come();
        let fate = faults.fate(who, &target);
        if matches!(fate.end, Some(End::Lost)) {
            let mut outages = faults.outages();
            return Box::pin(async move {
                tokio::select! {
                    biased;
                    () = release.come() => {}
                    _ = outages.changed() => {}
                }
                Err(Broken::Reset.into())
            });
        }
        let carried =
            tokio::spawn(carry(server.clone(), request, Arc::clone(who), target, fate, release, faults.clone()));
        let faults = faults.clone();
        Box::pin(async move {
            let mut answer = carried.await.unwrap_or_else(|ended| Err(ended.into()))?;
            faults.date(answer.headers_mut());
            Ok(answer)
        })
    }
}
