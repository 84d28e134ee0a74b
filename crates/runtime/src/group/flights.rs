//! The writes of a shard that are on their way: the shard is nobody else's before they have landed.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use muster_controllers::plan::{Failure, Refusal, Resource, Written};
use muster_objects::meta::ObjectKey;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::writer::{Write, Writer};

/// A writer that knows which of its writes are not answered.
pub(super) struct Flights<W> {
    writer: W,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    flights: Mutex<Open>,
    landed: Notify,
}

#[derive(Default)]
struct Open {
    /// How many writes were sent and not answered.
    on_the_way: usize,
    /// When a write was last given up without an answer: it may arrive later.
    given_up: Option<Instant>,
}

/// One write on its way.
struct Flight {
    state: Arc<State>,
    answered: bool,
}

impl<W: Writer> Flights<W> {
    /// No writes yet.
    pub(super) fn new(writer: W) -> Self {
        Self { writer, state: Arc::default() }
    }

    /// Waits until all writes are answered, and those that were given up cannot arrive any more: `doubt` later.
    pub(super) async fn landed(&self, doubt: Duration) {
        loop {
            let landed = self.state.landed.notified();
            let (on_the_way, given_up) = {
                let open = self.state.lock();
                (open.on_the_way, open.given_up)
            };
            match given_up.map(|at| at + doubt).filter(|end| *end > Instant::now()) {
                _ if on_the_way > 0 => landed.await,
                Some(end) => sleep_until(end).await,
                None => return,
            }
        }
    }
}

impl<W: Writer> Writer for Flights<W> {
    fn write<'a>(&'a self, write: Write<'a>) -> BoxFuture<'a, Result<Written, Failure>> {
        Box::pin(async move {
            let mut flight = Flight::begin(&self.state);
            let written = self.writer.write(write).await;
            flight.answered = !written.as_ref().is_err_and(may_have_happened);
            written
        })
    }

    fn read<'a>(&'a self, resource: &'a Resource, key: &'a ObjectKey) -> BoxFuture<'a, Result<Bytes, Failure>> {
        self.writer.read(resource, key)
    }
}

/// Whether a write that failed may be carried out all the same: nobody answered, or somebody who need not know, as a proxy, or a
/// server whose storage did not answer in time. A webhook is asked before anything is stored.
fn may_have_happened(failure: &Failure) -> bool {
    failure.is_uncertain() || failure.code >= 500 && failure.refusal() != Refusal::Webhook
}

impl Flight {
    fn begin(state: &Arc<State>) -> Self {
        state.lock().on_the_way += 1;
        Self { state: Arc::clone(state), answered: false }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut open = self.state.lock();
        open.on_the_way -= 1;
        if !self.answered {
            open.given_up = Some(Instant::now());
        }
        drop(open);
        self.state.landed.notify_one();
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::server;

    /// Contract: SH-02
    #[tokio::test(start_paused = true)]
    async fn a_shard_waits_for_its_answers_and_for_what_was_given_up() {
        const DOUBT: Duration = Duration::from_secs(15);
        let (client, mut server) = server();
        let flights = Arc::new(Flights::new(client));
        flights.landed(DOUBT).await;
        let write = || {
            let flights = Arc::clone(&flights);
            tokio::spawn(async move {
                let body = Bytes::from_static(b"{}");
                let create = Write::Create { resource: &Resource::PODS, namespace: "ns", body: &body };
                flights.write(create).await.map(|_| ()).map_err(|failure| failure.code)
            })
        };
        let begun = Instant::now();
        let (first, one) = (write(), server.next().await);
        let (second, two) = (write(), server.next().await);
        let landed = {
            let flights = Arc::clone(&flights);
            tokio::spawn(async move { flights.landed(DOUBT).await })
        };
        tokio::time::sleep(Duration::from_secs(20)).await;
        one.answer(409, "{}");
        assert_eq!(first.await.unwrap(), Err(409));
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert!(!landed.is_finished(), "however long it takes");
        second.abort();
        drop(two);
        landed.await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_secs(20 + 20 + 15));
    }

    /// Contract: SH-02
    #[tokio::test(start_paused = true)]
    async fn a_write_that_was_not_sent_leaves_nothing_open() {
        let (client, mut server) = server();
        let flights = Flights::new(client.fenced(Arc::new(|| false)));
        let body = Bytes::from_static(b"{}");
        let write = Write::Create { resource: &Resource::PODS, namespace: "ns", body: &body };
        assert!(flights.write(write).await.unwrap_err().unanswered);
        assert!(server.try_next().await.is_none());
        let begun = Instant::now();
        flights.landed(Duration::from_secs(15)).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    /// Who answers in the server's place does not know what comes of the write.
    ///
    /// Contract: SH-02
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_leaves_open_what_happened_is_none() {
        const WEBHOOK: &str = "failed calling webhook \"w\": timeout";
        let cases = [
            (409, "", 0),
            (403, "", 0),
            (500, "etcdserver: request timed out", 15),
            (500, WEBHOOK, 0),
            (503, "", 15),
            (504, "", 15),
        ];
        for (code, message, waits) in cases {
            let (client, mut server) = server();
            let flights = Arc::new(Flights::new(client));
            let writing = Arc::clone(&flights);
            let writing = tokio::spawn(async move {
                let body = Bytes::from_static(b"{}");
                writing.write(Write::Create { resource: &Resource::PODS, namespace: "ns", body: &body }).await.map(drop)
            });
            server.next().await.refuse(code, "", message);
            assert!(writing.await.unwrap().is_err());
            let begun = Instant::now();
            flights.landed(Duration::from_secs(15)).await;
            assert_eq!(begun.elapsed(), Duration::from_secs(waits), "{code}");
        }
    }
}
