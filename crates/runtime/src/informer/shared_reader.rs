//! The task that follows a shared watch: where it begins, what it asks for, and who gets what it says.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use muster_objects::{
    HashRange, ResourceVersion, shard,
    stream::{ListPage, WatchEventType},
};
use rand::{Rng, rngs::SmallRng};
use tokio::time::Instant;

use super::{
    WatchedResource,
    backoff::Backoff,
    reflector::{self, Ended, GRACE, SHORT, WATCH_SECONDS, cannot_resume, watch_form},
    resource::Page,
    shared_watch::Shared,
    subscription::Item,
};
use crate::client::{Client, ClientError, Encoding, Form, Frames};

/// A watch asks for at most so many ranges: each takes some 150 bytes of the request, which proxies bound.
const MOST_RANGES: usize = 24;

/// Follows one resource for all who have subscribed.
pub(super) struct Reader {
    client: Client,
    /// Without a range.
    resource: WatchedResource,
    encoding: Encoding,
    random: SmallRng,
    backoff: Backoff,
    shared: Arc<Shared>,
    /// Where the next watch resumes: everything up to here has been given away.
    position: Option<ResourceVersion>,
    /// Whether to ask if the server shards before the next watch: it may be another one.
    unsure: bool,
}

/// The part of everything that an open watch includes.
struct Open {
    frames: Frames,
    within: Vec<HashRange>,
    /// The number that the next subscriber had when it was about to be opened.
    next: u64,
}

impl Reader {
    pub(super) fn new(
        client: Client,
        resource: WatchedResource,
        encoding: Encoding,
        random: SmallRng,
        shared: Arc<Shared>,
    ) -> Self {
        let backoff = Backoff::default();
        Self { client, resource, encoding, random, backoff, shared, position: None, unsure: true }
    }

    /// Follows the watch while it is polled.
    pub(super) async fn run(mut self) -> Infallible {
        let _guard = Guard(Arc::clone(&self.shared));
        loop {
            let ended = self.round().await;
            let resource = &*self.resource.plural;
            if ended.is_to_be_listed() {
                self.position = None;
                self.shared.begin_anew();
            }
            match &ended {
                Ended::Quietly => {
                    tracing::trace!(resource, "shared watch ended");
                    continue;
                }
                Ended::Expired(error) => tracing::info!(resource, %error, "everyone relists"),
                _ => {
                    tracing::warn!(resource, error = %ended, "shared watch failed");
                    self.shared.failing.set(true);
                }
            }
            self.unsure = true;
            let wait = self.backoff.next(Instant::now(), &mut self.random);
            tokio::time::sleep(wait.max(ended.retry_after().unwrap_or_default())).await;
        }
    }

    /// Opens a watch from the position, and follows it until it ends or someone comes whom it does not include.
    async fn round(&mut self) -> Ended {
        while self.shared.ranges(1).is_empty() {
            self.shared.came.notified().await;
        }
        let seconds = self.random.random_range(WATCH_SECONDS);
        let deadline = Instant::now() + Duration::from_secs(seconds) + GRACE;
        match self.open(seconds).await {
            Ok(open) => self.follow(open, deadline).await,
            Err(ended) => ended,
        }
    }

    async fn open(&mut self, seconds: u64) -> Result<Open, Ended> {
        let position = match self.position {
            Some(position) if !self.unsure => position,
            known => {
                let present = self.ask().await?;
                self.unsure = false;
                match known {
                    Some(known) if known <= present => known,
                    // The server was put back to an earlier version: a list would not reach the position again.
                    Some(known) => {
                        tracing::info!(resource = &*self.resource.plural, %known, %present, "everyone relists");
                        self.shared.begin_anew();
                        present
                    }
                    None => present,
                }
            }
        };
        self.position = Some(position);
        let next = self.shared.next_number();
        let shards = self.shared.shards();
        let ranges = if shards { self.shared.ranges(MOST_RANGES) } else { Vec::new() };
        let path = self.resource.watch_within(&ranges, Some(&position.to_string()), seconds);
        let opening = self.client.watch_in(&path, watch_form(&self.resource), self.encoding);
        let frames = opening.await.map_err(|error| match error {
            ClientError::Api(error) if cannot_resume(&error) => Ended::Expired(error),
            error => Ended::Refused(error),
        })?;
        Ok(Open { frames, within: if shards { ranges } else { vec![HashRange::ALL] }, next })
    }

    /// The present version, from a list of one object; and finds out whether the server shards. One that is older does not
    /// look at the parameter, and says nothing of it.
    async fn ask(&self) -> Result<ResourceVersion, Ended> {
        let sharded = WatchedResource { range: Some(HashRange::ALL), ..self.resource.clone() };
        let page = match self.first_page(&sharded).await {
            // 500 is how the reference refuses a selector that it does not understand.
            Err(Ended::Refused(error)) if matches!(error.code(), Some(400 | 422 | 500)) => {
                self.first_page(&self.resource).await
            }
            page => page,
        };
        let (version, shards) = page?;
        self.shared.set_shards(shards);
        Ok(version)
    }

    async fn first_page(&self, resource: &WatchedResource) -> Result<(ResourceVersion, bool), Ended> {
        let path = resource.list(1, &Page::First);
        let answer = self.client.get_in(&path, Form::Full, self.encoding).await?;
        let page = match answer.encoding() {
            Encoding::Json => ListPage::decode(&answer.body),
            Encoding::Protobuf => ListPage::decode_protobuf(&answer.body),
        };
        // The position is as good as it was: only what a watch brings says otherwise.
        let page =
            page.map_err(|error| ClientError::Answer { method: http::Method::GET, path, source: Box::new(error) })?;
        Ok((page.resource_version, page.is_sharded))
    }

    async fn follow(&mut self, open: Open, deadline: Instant) -> Ended {
        let Open { mut frames, within, next } = open;
        self.shared.failing.set(false);
        let start = Instant::now();
        let mut said_something = false;
        let alarm = tokio::time::sleep_until(deadline);
        tokio::pin!(alarm);
        loop {
            // Whoever is not included waits for another watch, which goes on where this one is left.
            let position = self.position.unwrap_or_default();
            if self.shared.admit(&within, next, position) {
                return Ended::Quietly;
            }
            let frame = loop {
                // A busy watch must leave room for the other tasks of its thread.
                tokio::task::consume_budget().await;
                if let Some(frame) = frames.next().now_or_never() {
                    break frame;
                }
                tokio::select! {
                    biased;
                    frame = frames.next() => break frame,
                    () = self.shared.came.notified() => {
                        if self.shared.admit(&within, next, position) {
                            return Ended::Quietly;
                        }
                    }
                    () = &mut alarm => break None,
                }
            };
            match frame {
                None if said_something || start.elapsed() >= SHORT => return Ended::Quietly,
                None => return Ended::AtOnce,
                Some(Err(error)) => return Ended::Broken(error),
                Some(Ok(frame)) => {
                    said_something = true;
                    if let Err(ended) = self.give(frames.encoding(), &frame) {
                        return ended;
                    }
                }
            }
        }
    }

    /// Gives a frame to whom it is for.
    fn give(&mut self, encoding: Encoding, frame: &Bytes) -> Result<(), Ended> {
        let event = reflector::event(encoding, frame)?;
        match event.kind {
            WatchEventType::Added | WatchEventType::Modified | WatchEventType::Deleted => {
                let head = reflector::head(encoding, event.object);
                let hash = head.as_ref().map(|head| shard::hash(&head.namespace));
                let version = head.map(|head| head.resource_version);
                self.shared.give(hash, || Item::Frame(encoding, frame.clone()));
                self.position = self.position.max(version);
            }
            WatchEventType::Bookmark => {
                let version = reflector::bookmark(encoding, event.object)?.resource_version;
                self.shared.give(None, || Item::Reached(version));
                self.position = self.position.max(Some(version));
            }
            WatchEventType::Error => return Err(reflector::reported(encoding, event.object)),
        }
        Ok(())
    }
}

/// Tells the subscribers of a task that has panicked, so that they do not wait for it.
struct Guard(Arc<Shared>);

impl Drop for Guard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.break_off();
        }
    }
}
