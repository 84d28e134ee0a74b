//! Watches: from a place in the history to lines of JSON or frames of protobuf (API-09).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use muster_tree::{Map, Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use super::negotiate::Transform;
use super::respond::partial;
use super::table::{self, Include};
use crate::codec;
use crate::registry::aside::{aside, turn};
use crate::registry::list::Start;
use crate::registry::selection::Selection;
use crate::registry::{Registry, Served};
use crate::schema;
use crate::status::ApiError;
use crate::storage::{Cursor, Entry, Event, EventKind, Pieces, line};

/// About how often a bookmark is sent.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long before the end of a watch its last bookmark is sent.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// Pieces of several events are joined up to this many bytes.
const PIECE: usize = 32 << 10;

/// How events are told apart in the body of the answer to a watch, of which it is an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Events {
    /// Each is a line of JSON.
    Lines,
    /// Each is a frame of protobuf, with its length before it in four bytes.
    Frames,
}

/// What a watch was asked for.
#[derive(Debug)]
pub struct Wanted {
    /// Which objects.
    pub selection: Selection,
    /// What each becomes.
    pub transform: Option<Transform>,
    /// How much of its object each row of a table carries.
    pub include: Include,
    /// Whether bookmarks are sent.
    pub bookmarks: bool,
    /// Whether events are frames of protobuf, or else lines of JSON.
    pub protobuf: bool,
    /// How long it lasts.
    pub timeout: Duration,
}

/// The state of one watch.
pub struct Watch {
    registry: Arc<Registry>,
    served: Arc<Served>,
    wanted: Wanted,
    initial: std::vec::IntoIter<Arc<Entry>>,
    /// The version to announce once the initial objects are out.
    announce: Option<u64>,
    cursor: Cursor,
    pending: VecDeque<Arc<Event>>,
    batch: Vec<Arc<Event>>,
    deadline: Instant,
    next_bookmark: Instant,
    /// Whether objects are sent as they are stored.
    plain: bool,
    /// Whether a webhook is asked about them.
    waits: bool,
    /// Whether a table has told its columns.
    headed: bool,
    /// What is left of a line that has been begun.
    rest: Pieces,
    stopping: Receiver<bool>,
}

/// A stream with one ERROR event.
pub fn failed(error: &ApiError, protobuf: bool) -> impl Stream<Item = Bytes> + Send + use<> {
    futures::stream::iter([encoded(error_line(error), protobuf)])
}

/// The line of an ERROR event.
fn error_line(error: &ApiError) -> Bytes {
    let mut status = Vec::with_capacity(256);
    codec::to_json(&mut status, &error.to_status(), false);
    line("ERROR", &status)
}

/// An event's line as the client reads it.
fn encoded(line: Bytes, protobuf: bool) -> Bytes {
    if protobuf { Bytes::from(codec::to_frame(&line)) } else { line }
}

/// As [`encoded`], of a line in pieces.
fn all_encoded(line: Pieces, protobuf: bool) -> Pieces {
    if protobuf { encoded(line.joined(), true).into() } else { line }
}

impl Watch {
    /// A watch from `start`; it ends early when `stopping` becomes true.
    #[must_use]
    pub fn new(
        registry: Arc<Registry>,
        served: Arc<Served>,
        start: Start,
        wanted: Wanted,
        stopping: Receiver<bool>,
    ) -> Self {
        let now = Instant::now();
        let deadline = now + wanted.timeout;
        let last = deadline.checked_sub(LAST_BOOKMARK).filter(|at| *at > now);
        let next_bookmark = last.map_or(now + BOOKMARK_EVERY, |last| last.min(now + BOOKMARK_EVERY));
        Self {
            plain: wanted.transform.is_none() && !served.converts(),
            waits: served.calls_out(),
            registry,
            served,
            wanted,
            initial: start.initial.into_iter(),
            announce: start.announce_end.then_some(start.version),
            cursor: start.cursor,
            pending: VecDeque::new(),
            batch: Vec::new(),
            deadline,
            next_bookmark,
            headed: false,
            rest: Pieces::default(),
            stopping,
        }
    }

    /// The watch's lines, in pieces.
    pub fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        futures::stream::unfold(self, |mut watch| async move {
            let piece = watch.next().await?;
            Some((piece, watch))
        })
    }

    /// The next piece; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            // Who tells objects in another version by a webhook waits for it.
            let served = Arc::clone(&self.served);
            let turn = tokio::select! {
                biased;
                turn = turn(&served) => turn,
                () = sleep_until(self.deadline) => return None,
                _ = self.stopping.wait_for(|stops| *stops) => return None,
            };
            if let Some(piece) = aside(self.waits, || self.ready()) {
                return Some(piece);
            }
            drop(turn);
            if *self.stopping.borrow_and_update() {
                return None;
            }
            let bookmarks = self.wanted.bookmarks;
            tokio::select! {
                biased;
                () = sleep_until(self.deadline) => return None,
                changed = self.stopping.changed() => {
                    if changed.is_err() || *self.stopping.borrow() {
                        return None;
                    }
                }
                // Fallen behind the history: the client resumes from what it has seen, or lists again.
                read = self.cursor.next(&mut self.batch) => {
                    read.ok()?;
                    self.pending.extend(self.batch.drain(..));
                }
                () = sleep_until(self.next_bookmark), if bookmarks => {
                    if let Some(piece) = self.bookmark() {
                        return Some(encoded(piece, self.wanted.protobuf));
                    }
                }
            }
        }
    }

    /// What can be sent without waiting.
    fn ready(&mut self) -> Option<Bytes> {
        let mut first: Option<Bytes> = None;
        let mut joined = BytesMut::new();
        while joined.len() < PIECE {
            let Some(piece) = self.rest.next() else {
                let Some(line) = self.next_line() else { break };
                self.rest = all_encoded(line, self.wanted.protobuf);
                continue;
            };
            // What is long goes out as it is.
            if piece.len() >= PIECE {
                if first.is_none() && joined.is_empty() {
                    return Some(piece);
                }
                self.rest.put_back(piece);
                break;
            }
            match first.take() {
                None if joined.is_empty() => first = Some(piece),
                None => joined.extend_from_slice(&piece),
                Some(one) => {
                    // Room at once for about as much as is there: each time it grows, it is copied.
                    let events = 1 + self.pending.len() + self.initial.len();
                    joined.reserve(one.len() + piece.len().saturating_mul(events).min(PIECE) + piece.len());
                    joined.extend_from_slice(&one);
                    joined.extend_from_slice(&piece);
                }
            }
        }
        if joined.is_empty() { first } else { Some(joined.freeze()) }
    }

    fn next_line(&mut self) -> Option<Pieces> {
        for entry in self.initial.by_ref() {
            if self.wanted.selection.matches(&entry) {
                return Some(self.line("ADDED", &entry));
            }
        }
        if let Some(version) = self.announce.take() {
            return Some(self.marker(version, true).into());
        }
        while let Some(event) = self.pending.pop_front() {
            if let Some(line) = self.event_line(&event) {
                return Some(line);
            }
        }
        None
    }

    /// The line of an event as this watcher's selectors see it; `None` when they do not.
    fn event_line(&mut self, event: &Event) -> Option<Pieces> {
        let selection = &self.wanted.selection;
        if selection.is_everything() {
            return Some(self.plain_line(event));
        }
        let now = event.kind != EventKind::Deleted && selection.matches(&event.entry);
        let before = event.previous.as_ref().is_some_and(|previous| selection.matches(previous));
        match (before, now) {
            (false, false) => None,
            (true, false) if event.kind == EventKind::Modified => {
                // It left the selector: shown as it last matched, at the version at which it left.
                let last = event.previous.as_ref().map(|previous| previous.line_at(event.version, "DELETED"))?;
                if self.plain {
                    return Some(last);
                }
                let event: Map = serde_json::from_slice(&last.joined()).unwrap_or_default();
                let object = event.get("object").and_then(Value::as_object).cloned().unwrap_or_default();
                Some(self.transformed_line("DELETED", &object).into())
            }
            (false, true) => Some(self.line("ADDED", &event.entry)),
            _ => Some(self.plain_line(event)),
        }
    }

    fn plain_line(&mut self, event: &Event) -> Pieces {
        if self.plain {
            return event.line();
        }
        self.line(event.kind.word(), &event.entry)
    }

    fn line(&mut self, word: &str, entry: &Entry) -> Pieces {
        if self.plain {
            return entry.line_at(entry.version, word);
        }
        if let (Some(Transform::Partial(version) | Transform::PartialList(version)), true) =
            (self.wanted.transform, self.served.tells_metadata_as_stored())
        {
            return line(word, &entry.partial(version).joined()).into();
        }
        self.transformed_line(word, &entry.object()).into()
    }

    fn transformed_line(&mut self, word: &str, object: &Map) -> Bytes {
        let served = &self.served;
        let mut read = None;
        if served.kind.custom().is_some() {
            let read = read.insert([object.clone()]);
            if let Err(error) = served.read(read) {
                return error_line(&error);
            }
        }
        let object = read.as_ref().map_or(object, |[read]| read);
        let shown = match self.wanted.transform {
            Some(Transform::Table(version)) => {
                let version_now = object.get("metadata").and_then(|m| m.get("resourceVersion"));
                let metadata = json!({"resourceVersion": version_now});
                let row = table::row(served, object, self.wanted.include, version, self.registry.clock.now());
                let headers = !std::mem::replace(&mut self.headed, true);
                table::table(served, version, metadata, vec![row], headers)
            }
            Some(Transform::Partial(version) | Transform::PartialList(version)) => partial(served, object, version),
            None => Value::Object(served.present(object.clone())),
        };
        line(word, shown.to_string().as_bytes())
    }

    /// A bookmark, if there is anything new to mark; sets when the next is due.
    fn bookmark(&mut self) -> Option<Bytes> {
        let now = Instant::now();
        let last = self.deadline.checked_sub(LAST_BOOKMARK).unwrap_or(now);
        let next = now + BOOKMARK_EVERY;
        self.next_bookmark = if now < last { next.min(last) } else { next };
        // Whatever is there now is read first, so that the bookmark's version is not ahead of its events.
        if self.cursor.read(&mut self.batch).is_err() {
            return None;
        }
        self.pending.extend(self.batch.drain(..));
        if !self.pending.is_empty() {
            return None;
        }
        Some(self.marker(self.cursor.version(), false))
    }

    fn marker(&mut self, version: u64, end_of_initial: bool) -> Bytes {
        let mut object = schema::zero(&self.served.resource().model());
        self.served.kind.complete_zero(&mut object);
        let mut object = Value::Object(object);
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        if end_of_initial {
            object["metadata"]["annotations"]["k8s.io/initial-events-end"] = json!("true");
        }
        match (object, self.wanted.transform) {
            (Value::Object(object), Some(_)) => self.transformed_line("BOOKMARK", &object),
            // Those of custom objects are sorted.
            (object, _) if self.served.kind.custom().is_some() => line("BOOKMARK", object.to_string().as_bytes()),
            (object, _) => {
                let mut text = Vec::with_capacity(256);
                codec::to_json(&mut text, &object, false);
                line("BOOKMARK", &text)
            }
        }
    }
}
