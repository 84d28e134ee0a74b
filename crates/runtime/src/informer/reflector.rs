//! The protocol by which a cache follows the server: list, watch, resume, list again (INF-01, INF-05).
//!
//! ```text
//!              +-- streaming list --(failed, or silent)--> paged list --+
//!   no version |        |                                              |
//!   +----------+        +--(end-of-list bookmark, same stream)--+      |
//!   |                                                           v      v
//!   +<--(410)-- watch from the last version seen <---(ended)-- following
//!   +<--(asked to)-- whatever it does
//! ```
//!
//! The reflector knows nothing of caches: it hands whole states and batches of changes to a [`Target`].

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use muster_objects::{
    DecodeError, Head, Interner, Object,
    meta::ResourceVersion,
    stream::{Bookmark, ListPage, WatchEvent, WatchEventType},
};
use rand::{Rng, rngs::SmallRng};
use tokio::{sync::watch, time::Instant};

use super::{WatchedResource, backoff::Backoff, resource::Page, shared_watch::SharedWatch, subscription::Over};
use crate::client::{ApiError, BoxError, Client, ClientError, Encoding, Form, Frames, Received};

/// Objects in one page of a list.
pub(super) const PAGE: u32 = 500;
/// Changes that are applied together at most, so that no reader of the cache waits long.
pub(super) const BATCH: usize = 256;
/// Watches are asked to end at a random time in this range, in seconds.
pub(super) const WATCH_SECONDS: std::ops::Range<u64> = 300..600;
/// How long after its time a watch that did not end is given up: its connection is dead.
pub(super) const GRACE: Duration = Duration::from_secs(30);
/// How long a streaming list may take for its first byte, and for its end after the last object. A server may queue a
/// request for 15 s under load, and then wait some seconds until its cache is as new as its storage.
const FIRST_BYTE: Duration = Duration::from_secs(30);
/// How long a streaming list may be silent. client-go warns after this time, and keeps waiting.
const SILENCE: Duration = Duration::from_secs(10);
/// A watch that ends sooner than this without having said anything counts as a failure.
pub(super) const SHORT: Duration = Duration::from_secs(1);

/// What one change of the watch does to the cache.
#[derive(Debug)]
pub(super) enum Delta<T> {
    /// The object is this now.
    Put(T),
    /// The object is gone; this was its last state.
    Gone(T),
    /// Nothing has happened up to this version.
    Reached(ResourceVersion),
}

impl<T: Object> Delta<T> {
    /// The version at which it happened.
    pub(super) fn version(&self) -> ResourceVersion {
        match self {
            Self::Put(object) | Self::Gone(object) => object.meta().resource_version,
            Self::Reached(version) => *version,
        }
    }
}

/// Where the reflector puts what it reads.
pub(super) trait Target<T> {
    /// Everything is about to be listed: the next replacement is no older than this moment.
    fn listing(&mut self);
    /// This is all there is, as of `version`.
    fn replace(&mut self, objects: Vec<Arc<T>>, version: ResourceVersion);
    /// These are changes in their order. Empties the batch.
    fn apply(&mut self, batch: &mut Vec<Delta<T>>);
    /// The watch is open, or has failed.
    fn watched(&mut self, _open: bool) {}
    /// When the next resync is due.
    fn resync_at(&self) -> Instant;
    /// It is due.
    fn resync(&mut self);
}

/// Follows one resource.
pub(super) struct Reflector<T> {
    pub(super) client: Client,
    pub(super) resource: WatchedResource,
    random: SmallRng,
    interner: Interner,
    backoff: Backoff,
    /// Where the next watch resumes; `None` if everything is to be listed again.
    position: Option<ResourceVersion>,
    /// Whether the server supports streaming lists, as far as is known.
    streaming: bool,
    pub(super) batch: Vec<Delta<T>>,
    /// Of a range: the watch that it shares with others.
    shared: Option<Arc<SharedWatch>>,
    /// Whether a list was asked for that a watch is to follow which was not open then.
    pub(super) fresh: bool,
}

/// Why a round of listing and watching ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    /// As watches do: the next one starts at once.
    #[error("the watch ended")]
    Quietly,
    /// The version to resume from has expired, or is unknown to the server.
    #[error("the watch cannot be resumed: {0}")]
    Expired(Box<ApiError>),
    /// A watch that said nothing and did not last.
    #[error("the watch ended at once")]
    AtOnce,
    /// The server refused, or could not be reached.
    #[error(transparent)]
    Refused(#[from] ClientError),
    /// The watch reported an error.
    #[error("the watch reported: {0}")]
    Reported(Box<ApiError>),
    /// The stream broke off.
    #[error("the watch broke off: {0}")]
    Broken(BoxError),
    /// What comes from a shared watch is over.
    #[error(transparent)]
    Over(#[from] Over),
    /// A list is older than where the shared watch has come: events between the two would be missed.
    #[error("the list is as of version {listed}, and the watch goes on from {position}")]
    Older { listed: ResourceVersion, position: ResourceVersion },
    /// A list of a range is of everything.
    #[error("the server takes no shard selector")]
    NotSharded,
    /// The answer is not a watch.
    #[error("the watch cannot be read: {0}")]
    Unreadable(#[from] DecodeError),
}

impl Ended {
    /// Whether the server is unreachable or busy, so that another request now is of no use.
    fn is_away(&self) -> bool {
        match self {
            Self::Refused(ClientError::Transport { received, .. }) => *received == Received::Never,
            Self::Refused(error) => error.code() == Some(429),
            _ => false,
        }
    }

    /// Whether the server does not know the parameters of a streaming list, or has none of this resource.
    pub(super) fn is_not_understood(&self) -> bool {
        matches!(self, Self::Refused(error) if matches!(error.code(), Some(400 | 405 | 406 | 415 | 422)))
    }

    /// Whether there is nothing to resume from: as in client-go, after whatever a watch reports but that the server is busy, and
    /// after one that ends at once: a server that was put back to an earlier state may not have come to the version yet, and
    /// once it has, what came before would never be told.
    pub(super) fn is_to_be_listed(&self) -> bool {
        match self {
            Self::AtOnce | Self::Expired(_) | Self::Unreadable(_) => true,
            Self::Reported(error) => error.code != 429 && error.reason != "TooManyRequests",
            _ => false,
        }
    }

    /// How long the server asks to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(ClientError::Api(error)) => error.retry_after(),
            _ => None,
        }
    }
}

impl<T: Object> Reflector<T> {
    /// A reflector of `resource`, by the watch that is `shared` if there is one.
    pub(super) fn new(
        client: Client,
        resource: WatchedResource,
        shared: Option<Arc<SharedWatch>>,
        random: SmallRng,
    ) -> Self {
        Self {
            shared,
            fresh: false,
            client,
            resource,
            random,
            interner: Interner::default(),
            backoff: Backoff::default(),
            position: None,
            streaming: true,
            batch: Vec::new(),
        }
    }

    /// Keeps `target` up to date for ever. At each change of `anew`, everything is listed again at once.
    pub(super) async fn run(
        &mut self,
        target: &mut impl Target<T>,
        mut anew: watch::Receiver<u64>,
    ) -> std::convert::Infallible {
        loop {
            tokio::select! {
                biased;
                Ok(()) = anew.changed() => {
                    tracing::debug!(resource = %self.resource.plural, "told to read everything anew");
                    self.position = None;
                    self.fresh = true;
                }
                never = self.keep(target) => match never {},
            }
        }
    }

    /// Lists everything into `target`, without a watch.
    pub(super) async fn read_once(&mut self, target: &mut impl Target<T>) -> Result<(), ClientError> {
        let listed = match self.resource.range {
            None => self.paged_list(target).await,
            Some(_) => {
                let mut objects = Vec::new();
                let listed = self.list_range(None, &mut objects).await.map(|listed| listed.oldest());
                listed.inspect(|version| target.replace(objects, *version))
            }
        };
        match listed {
            Ok(_) => Ok(()),
            Err(Ended::Refused(error)) => Err(error),
            Err(ended) => {
                let path = self.resource.collection(self.resource.namespace.as_deref());
                Err(ClientError::Answer { method: http::Method::GET, path, source: Box::new(ended) })
            }
        }
    }

    /// Keeps `target` up to date while it is polled. At an await, everything that was read has been applied: the future
    /// can be dropped there and called again.
    async fn keep(&mut self, target: &mut impl Target<T>) -> std::convert::Infallible {
        let resource = self.resource.plural.clone();
        loop {
            let ended = match self.shared.clone() {
                Some(shared) => self.round_of_range(&shared, target).await,
                None => self.round(target).await,
            };
            if ended.is_to_be_listed() {
                self.position = None;
            }
            match &ended {
                Ended::Quietly => {
                    tracing::trace!(%resource, "watch ended");
                    continue;
                }
                Ended::Over(Over::Anew) => {
                    tracing::debug!(%resource, "listing again for a shared watch");
                    continue;
                }
                Ended::Expired(error) => tracing::info!(%resource, %error, "relisting"),
                Ended::AtOnce
                | Ended::Refused(_)
                | Ended::Reported(_)
                | Ended::Broken(_)
                | Ended::Unreadable(_)
                | Ended::Over(Over::Behind)
                | Ended::Older { .. }
                | Ended::NotSharded => {
                    tracing::warn!(%resource, error = %ended, "watch failed");
                    target.watched(false);
                }
            }
            let wait = self.backoff.next(Instant::now(), &mut self.random);
            tokio::time::sleep(wait.max(ended.retry_after().unwrap_or_default())).await;
        }
    }

    /// Lists if there is no version to resume from, then follows one watch until it ends.
    async fn round(&mut self, target: &mut impl Target<T>) -> Ended {
        let seconds = self.random.random_range(WATCH_SECONDS);
        let deadline = Instant::now() + Duration::from_secs(seconds) + GRACE;
        let opened = match self.position {
            Some(version) => self.watch_from(version, seconds).await,
            None => self.list(target, seconds, deadline).await,
        };
        match opened {
            Ok(frames) => self.follow(frames, target, deadline).await,
            Err(ended) => ended,
        }
    }

    async fn watch_from(&self, version: ResourceVersion, seconds: u64) -> Result<Frames, Ended> {
        let path = self.resource.watch(Some(&version.to_string()), seconds);
        self.client.watch_in(&path, self.watch_form(), self.encoding()).await.map_err(|error| match error {
            ClientError::Api(error) if cannot_resume(&error) => Ended::Expired(error),
            error => Ended::Refused(error),
        })
    }

    /// Lists everything and opens a watch from there: both in one by a streaming list, else by pages. As in client-go,
    /// any failure of a streaming list is followed by pages at once, except when the server is unreachable or busy.
    async fn list(&mut self, target: &mut impl Target<T>, seconds: u64, deadline: Instant) -> Result<Frames, Ended> {
        if self.streaming {
            let ended = match self.streaming_list(target, seconds, deadline).await {
                Ok(frames) => return Ok(frames),
                Err(ended) if ended.is_away() => return Err(ended),
                Err(ended) => ended,
            };
            let resource = &self.resource.plural;
            if ended.is_not_understood() {
                tracing::info!(%resource, error = %ended, "the server takes no streaming lists, listing by pages");
                self.streaming = false;
            } else {
                tracing::warn!(%resource, error = %ended, "the streaming list failed, listing by pages");
            }
        }
        let version = self.paged_list(target).await?;
        self.watch_from(version, seconds).await
    }

    /// Reads everything as the beginning of a watch, which then goes on.
    async fn streaming_list(
        &mut self,
        target: &mut impl Target<T>,
        seconds: u64,
        deadline: Instant,
    ) -> Result<Frames, Ended> {
        let path = self.resource.watch(None, seconds);
        target.listing();
        let mut limit = Instant::now() + FIRST_BYTE;
        let opening = self.client.watch_in(&path, self.watch_form(), self.encoding());
        let opened = tokio::time::timeout_at(limit, opening).await;
        let mut frames = opened.map_err(|_| Ended::Broken("the list did not begin".into()))??;
        let encoding = frames.encoding();
        let mut objects = Vec::new();
        // Whether an event came that is not part of the initial list.
        let mut past = false;
        loop {
            let frame = tokio::time::timeout_at(limit.min(deadline), frames.next()).await;
            let frame = match frame {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => return Err(Ended::Broken(error)),
                Ok(None) | Err(_) => return Err(Ended::Broken("the list did not come to its end".into())),
            };
            let event = event(encoding, &frame)?;
            if !past {
                past = event.kind != WatchEventType::Added;
                limit = Instant::now() + if past { FIRST_BYTE } else { SILENCE };
            }
            match event.kind {
                WatchEventType::Added | WatchEventType::Modified => {
                    objects.extend(self.decode(encoding, event.object).map(Arc::new));
                }
                WatchEventType::Deleted => {
                    // An initial list has no deletions; one that comes all the same is applied.
                    if let Some(gone) = self.decode(encoding, event.object) {
                        objects.retain(|object: &Arc<T>| object.meta().uid != gone.meta().uid);
                    }
                }
                WatchEventType::Bookmark => {
                    let bookmark = bookmark(encoding, event.object)?;
                    if bookmark.initial_events_end {
                        target.replace(objects, bookmark.resource_version);
                        self.position = Some(bookmark.resource_version);
                        return Ok(frames);
                    }
                }
                WatchEventType::Error => return Err(reported(encoding, event.object)),
            }
        }
    }

    /// Reads everything, page by page, as of one version.
    async fn paged_list(&mut self, target: &mut impl Target<T>) -> Result<ResourceVersion, Ended> {
        target.listing();
        let mut objects = Vec::new();
        let version = self.list_into(&self.resource.clone(), None, &mut objects).await?;
        target.replace(objects, version);
        self.position = Some(version);
        Ok(version)
    }

    /// Adds everything of `resource` that is within the range, read page by page, as it is now, or was at some version or later;
    /// answers the version of it.
    pub(super) async fn list_into(
        &mut self,
        resource: &WatchedResource,
        not_older: Option<ResourceVersion>,
        objects: &mut Vec<Arc<T>>,
    ) -> Result<ResourceVersion, Ended> {
        let form = if resource.metadata_only { Form::MetadataList } else { Form::Full };
        let before = objects.len();
        let mut next = Page::first(not_older);
        let mut limit = PAGE;
        loop {
            let path = resource.list(limit, &next);
            let page = match self.client.get_in(&path, form, self.encoding()).await {
                Ok(page) => page,
                Err(error) if error.is_expired() && matches!(next, Page::After(_)) && limit > 0 => {
                    // The pages have grown too old in the reading: all at once, then, and once only.
                    objects.truncate(before);
                    next = Page::First;
                    limit = 0;
                    continue;
                }
                Err(error) if next.is_behind(&error) => {
                    next = Page::First;
                    continue;
                }
                Err(error) => return Err(Ended::Refused(error)),
            };
            let encoding = page.encoding();
            let page = match encoding {
                Encoding::Json => ListPage::decode(&page.body)?,
                Encoding::Protobuf => ListPage::decode_protobuf(&page.body)?,
            };
            // A list of metadata does not say that it is of a shard.
            if resource.range.is_some() && !resource.metadata_only && !page.is_sharded {
                return Err(Ended::NotSharded);
            }
            for item in &page.items {
                if self.may_have(encoding, item) {
                    objects.extend(self.decode(encoding, item).filter(|object| self.has(object)).map(Arc::new));
                }
            }
            match page.continue_token {
                Some(token) => next = Page::After(token),
                None => return Ok(page.resource_version),
            }
        }
    }

    /// Applies what a watch says until it ends.
    async fn follow(&mut self, mut frames: Frames, target: &mut impl Target<T>, deadline: Instant) -> Ended {
        target.watched(true);
        let start = Instant::now();
        let mut said_something = false;
        // One timer for the whole watch, since each event would otherwise set and clear one.
        let alarm = tokio::time::sleep_until(deadline.min(target.resync_at()));
        tokio::pin!(alarm);
        loop {
            if Instant::now() >= target.resync_at() {
                target.resync();
                alarm.as_mut().reset(deadline.min(target.resync_at()));
            }
            let frame = match frames.next().now_or_never() {
                Some(frame) => frame,
                None => tokio::select! {
                    biased;
                    frame = frames.next() => frame,
                    () = &mut alarm => {
                        if Instant::now() < deadline {
                            continue;
                        }
                        None
                    }
                },
            };
            let ended = match frame {
                None if said_something || start.elapsed() >= SHORT => Some(Ended::Quietly),
                None => Some(Ended::AtOnce),
                Some(frame) => {
                    said_something = true;
                    self.take(frame, &mut frames)
                }
            };
            let more = self.batch.len() >= BATCH;
            if !self.batch.is_empty() {
                target.apply(&mut self.batch);
            }
            if let Some(ended) = ended {
                return ended;
            }
            if more {
                // A busy watch must leave room for the other tasks of its thread: a batch takes it some milliseconds.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Takes a frame and those that have come with it into the batch. Says if the watch ends here.
    fn take(&mut self, first: Result<Bytes, BoxError>, frames: &mut Frames) -> Option<Ended> {
        let mut next = Some(Some(first));
        while let Some(frame) = next.take() {
            match frame {
                None => return Some(Ended::Quietly),
                Some(Err(error)) => return Some(Ended::Broken(error)),
                Some(Ok(frame)) => {
                    if let Err(ended) = self.take_event(frames.encoding(), &frame) {
                        return Some(ended);
                    }
                }
            }
            if self.batch.len() < BATCH {
                next = frames.next().now_or_never();
            }
        }
        None
    }

    fn take_event(&mut self, encoding: Encoding, frame: &[u8]) -> Result<(), Ended> {
        let event = event(encoding, frame)?;
        let delta = match event.kind {
            WatchEventType::Added | WatchEventType::Modified => self.decode(encoding, event.object).map(Delta::Put),
            WatchEventType::Deleted => self.decode(encoding, event.object).map(Delta::Gone),
            WatchEventType::Bookmark => Some(Delta::Reached(bookmark(encoding, event.object)?.resource_version)),
            WatchEventType::Error => return Err(reported(encoding, event.object)),
        };
        let Some(delta) = delta else { return Ok(()) };
        self.position = self.position.max(Some(delta.version()));
        self.batch.push(delta);
        Ok(())
    }

    /// Decodes an object. One that cannot be is left out: the others must not stop for it.
    pub(super) fn decode(&mut self, encoding: Encoding, object: &[u8]) -> Option<T> {
        let decode = match encoding {
            Encoding::Json => T::decode,
            // Protobuf that was not requested is not JSON, and is reported as such.
            Encoding::Protobuf => T::PROTOBUF.unwrap_or(T::decode),
        };
        match decode(object, &mut self.interner) {
            Ok(object) => Some(object),
            Err(error) => {
                tracing::error!(resource = %self.resource.plural, %error, "an object cannot be read");
                None
            }
        }
    }

    /// Whether an object may be within the range that is read, by as little of it as possible.
    fn may_have(&self, encoding: Encoding, object: &[u8]) -> bool {
        let Some(range) = self.resource.range else { return true };
        head(encoding, object).is_none_or(|head| range.has_namespace(&head.namespace))
    }

    /// Whether an object is within the range that is read.
    pub(super) fn has(&self, object: &T) -> bool {
        self.resource.range.is_none_or(|range| range.has_namespace(&object.meta().namespace))
    }

    /// What to ask for: protobuf where the kind is read in it, because it costs a fraction (INF-10).
    fn encoding(&self) -> Encoding {
        encoding_of::<T>(&self.resource)
    }

    fn watch_form(&self) -> Form {
        watch_form(&self.resource)
    }
}

/// What a resource is asked for in, where it is read as a `T`.
pub(super) fn encoding_of<T: Object>(resource: &WatchedResource) -> Encoding {
    if T::PROTOBUF.is_some() && !resource.metadata_only { Encoding::Protobuf } else { Encoding::Json }
}

pub(super) fn watch_form(resource: &WatchedResource) -> Form {
    if resource.metadata_only { Form::Metadata } else { Form::Full }
}

/// Where an object belongs, if that can be found without decoding it.
pub(super) fn head(encoding: Encoding, object: &[u8]) -> Option<Head<'_>> {
    match encoding {
        Encoding::Json => Head::find(object),
        Encoding::Protobuf => Head::find_protobuf(object),
    }
}

pub(super) fn event(encoding: Encoding, frame: &[u8]) -> Result<WatchEvent<'_>, DecodeError> {
    match encoding {
        Encoding::Json => WatchEvent::decode(frame),
        Encoding::Protobuf => WatchEvent::decode_protobuf(frame),
    }
}

pub(super) fn bookmark(encoding: Encoding, object: &[u8]) -> Result<Bookmark, DecodeError> {
    match encoding {
        Encoding::Json => Bookmark::decode(object),
        Encoding::Protobuf => Bookmark::decode_protobuf(object),
    }
}

/// What the `Status` in an ERROR event means.
pub(super) fn reported(encoding: Encoding, status: &[u8]) -> Ended {
    let error = Box::new(ApiError::reported(encoding, status));
    if cannot_resume(&error) { Ended::Expired(error) } else { Ended::Reported(error) }
}

/// Whether only a new list helps: the version is too old, or newer than any that the server knows (it
/// was restored from a backup).
pub(super) fn cannot_resume(error: &ApiError) -> bool {
    error.code == 410 || matches!(error.reason.as_str(), "Expired" | "Gone") || error.is_too_new()
}

#[cfg(test)]
#[path = "reflector_tests.rs"]
mod tests;
