//! Holds and cuts the watches of the managers, in front of the embedded server.
//!
//! ```text
//!   informer <== frames == Watched <== server       while nothing is wrong: one look at a flag for each frame
//!                            |
//!                          Watches: which are open, and what they are struck by
//! ```
//!
//! A watch that is held is not read, so that what happens meanwhile waits in the history of the server.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use http::{Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use muster_runtime::client::BoxError;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::Service;

use super::resource::Resource;
use crate::requests::target;

#[cfg(test)]
#[path = "watches_tests.rs"]
mod tests;

/// The open watches of the managers, and what holds. Shared by the service that they go through and by who strikes.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Until when the watches of a resource are held, those that are opened meanwhile too.
    held: BTreeMap<Resource, Instant>,
    /// Those that nobody reads any more are forgotten when the next is opened.
    open: Vec<Weak<Open>>,
}

/// One watch that is read.
#[derive(Debug)]
struct Open {
    resource: Resource,
    /// Whether anything strikes it: what is looked at for each frame.
    struck: AtomicBool,
    strike: Mutex<Strike>,
    /// Who waits for its next frame.
    reader: AtomicWaker,
}

/// What strikes a watch.
#[derive(Debug, Clone, Copy, Default)]
struct Strike {
    held: Option<Instant>,
    cut: bool,
}

impl Watches {
    /// Holds the watches of a resource until then, also those that are opened meanwhile, in place of an earlier hold of
    /// that resource. Says how many are open now.
    pub(super) fn hold(&self, resource: Resource, until: Instant) -> usize {
        let mut state = self.lock();
        state.held.insert(resource, until);
        let open = state.open_of(Some(resource));
        open.iter().for_each(|open| open.strike(|strike| strike.held = Some(until)));
        open.len()
    }

    /// Ends the open watches of a resource, or of all, as a connection that breaks does. Says how many there were.
    pub(super) fn cut(&self, resource: Option<Resource>) -> usize {
        let open = self.lock().open_of(resource);
        open.iter().for_each(|open| open.strike(|strike| strike.cut = true));
        open.len()
    }

    /// How many watches of a resource are open, and until when they are held.
    pub(super) fn of(&self, resource: Resource) -> (usize, Option<Instant>) {
        let state = self.lock();
        let held = state.held.get(&resource).copied().filter(|until| *until > Instant::now());
        (state.open_of(Some(resource)).len(), held)
    }

    fn open(&self, resource: Resource) -> Arc<Open> {
        let mut state = self.lock();
        let held = state.held.get(&resource).copied().filter(|until| *until > Instant::now());
        let open = Arc::new(Open {
            resource,
            struck: AtomicBool::new(held.is_some()),
            strike: Mutex::new(Strike { held, cut: false }),
            reader: AtomicWaker::new(),
        });
        state.open.retain(|open| open.strong_count() > 0);
        state.open.push(Arc::downgrade(&open));
        open
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn open_of(&self, resource: Option<Resource>) -> Vec<Arc<Open>> {
        let open = self.open.iter().filter_map(Weak::upgrade);
        open.filter(|open| resource.is_none_or(|wanted| open.resource == wanted)).collect()
    }
}

impl Open {
    /// Changes what strikes it, and has its reader look.
    fn strike(&self, change: impl FnOnce(&mut Strike)) {
        change(&mut self.lock());
        self.struck.store(true, Ordering::Release);
        self.reader.wake();
    }

    /// What strikes it now; a hold that is over does not.
    fn struck(&self) -> Strike {
        let mut strike = self.lock();
        strike.held = strike.held.filter(|until| *until > Instant::now());
        // Under the lock: whoever strikes next sets it again after this.
        self.struck.store(strike.cut || strike.held.is_some(), Ordering::Release);
        *strike
    }

    fn lock(&self) -> MutexGuard<'_, Strike> {
        self.strike.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A service through which the managers send their requests.
#[derive(Debug, Clone)]
pub(crate) struct Watched<S> {
    service: S,
    watches: Arc<Watches>,
}

impl<S> Watched<S> {
    /// The watches that are opened through it are those of `watches`.
    pub(crate) fn new(service: S, watches: &Arc<Watches>) -> Self {
        Self { service, watches: Arc::clone(watches) }
    }
}

impl<S, B, R> Service<Request<B>> for Watched<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
    S::Error: 'static,
{
    type Response = Response<Answer<R>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let watched = watched(&request);
        let watches = Arc::clone(&self.watches);
        self.service
            .call(request)
            .map(move |answer| {
                let answer = answer?;
                let open = watched.filter(|_| answer.status().is_success()).map(|resource| watches.open(resource));
                Ok(answer.map(|body| Answer { body, open, pause: None }))
            })
            .boxed()
    }
}

/// What a request wants to watch, if that can be held and cut.
fn watched<B>(request: &Request<B>) -> Option<Resource> {
    let uri = request.uri();
    let watches = uri.query()?.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
    let watches = watches && request.method() == Method::GET;
    watches.then(|| Resource::of_plural(target(uri.path()).0)).flatten()
}

/// The body of an answer; of a watch, its frames come when it lets them.
pub(crate) struct Answer<R> {
    body: R,
    /// None where it is no watch.
    open: Option<Arc<Open>>,
    /// Ends with the hold.
    pause: Option<Pin<Box<Sleep>>>,
}

impl<R> Body for Answer<R>
where
    R: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self { body, open, pause } = &mut *self;
        loop {
            if let Some(open) = open
                && open.struck.load(Ordering::Acquire)
            {
                // First, so that whatever changes after the look wakes it.
                open.reader.register(context.waker());
                match open.struck() {
                    Strike { cut: true, .. } => {
                        let cut = io::Error::new(io::ErrorKind::ConnectionReset, "it was cut by `muster faults`");
                        return Poll::Ready(Some(Err(cut.into())));
                    }
                    Strike { held: Some(until), .. } => {
                        let pause = pause.get_or_insert_with(|| Box::pin(sleep_until(until)));
                        if pause.deadline() != until {
                            pause.as_mut().reset(until);
                        }
                        ready!(pause.poll_unpin(context));
                        continue;
                    }
                    Strike { .. } => *pause = None,
                }
            }
            let frame = Pin::new(&mut *body).poll_frame(context);
            if let (Poll::Pending, Some(open)) = (&frame, &open) {
                open.reader.register(context.waker());
                if open.struck.load(Ordering::Acquire) {
                    continue;
                }
            }
            return frame.map_err(Into::into);
        }
    }

    fn is_end_stream(&self) -> bool {
        self.open.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
