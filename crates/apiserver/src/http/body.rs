//! Bodies of answers: bytes, a list written as it is read, or a watch.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http_body::{Frame, SizeHint};

use super::in_flight::Hold;
use crate::storage::{Entry, Pieces};

/// The body of an answer.
pub struct Body(Kind);

/// Said of an answer, as an extension: it lasts for as long as its client wants, as that to a watch does.
#[derive(Debug, Clone, Copy)]
pub struct Lasting;

enum Kind {
    Whole(Option<Bytes>),
    /// What is left of the bytes, and of the line feed.
    Line(Pieces, bool),
    List(ListBody),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

/// How much of a stored object is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// All of it.
    Whole,
    /// What follows on the opening brace, but for what it is: an item of a list.
    Item,
    /// Its metadata, as an object of this version of `meta.k8s.io`.
    Partial(&'static str),
}

impl Form {
    /// So much of an object.
    #[must_use]
    pub fn of(self, entry: &Entry) -> Pieces {
        match self {
            Self::Whole => entry.json(),
            Self::Item => entry.item_tail(),
            Self::Partial(version) => entry.partial(version),
        }
    }
}

/// Bytes that are counted for as long as somebody has them.
struct Held {
    bytes: Bytes,
    _hold: Hold,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A list whose items are copied out piece by piece, so that a long one never exists twice in memory.
struct ListBody {
    head: Option<Vec<u8>>,
    entries: std::vec::IntoIter<Arc<Entry>>,
    form: Form,
    first: bool,
    done: bool,
    /// What is counted of it until it is sent.
    hold: Option<Hold>,
}

/// A list up to this many bytes goes out in one piece.
const PIECE: usize = 256 << 10;
/// So many pieces of a longer one are in memory at once: here, in the frames of HTTP/2, and in what TLS makes of them.
const PIECES_ON_THEIR_WAY: usize = 4;

impl Body {
    /// Nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self(Kind::Whole(None))
    }

    /// These bytes.
    #[must_use]
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Whole(Some(bytes.into())))
    }

    /// What is stored, and a line feed.
    #[must_use]
    pub fn line(json: Pieces) -> Self {
        Self(Kind::Line(json, true))
    }

    /// A stream of pieces.
    #[must_use]
    pub fn stream(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Kind::Stream(Box::pin(pieces)))
    }

    /// How many bytes it holds that nothing else does. A stored object shares its own with the storage, as does a list but for
    /// the pieces that are on their way.
    pub(super) fn held(&self) -> usize {
        match &self.0 {
            Kind::Whole(bytes) => bytes.as_ref().map_or(0, Bytes::len),
            Kind::List(_) => PIECES_ON_THEIR_WAY * PIECE,
            Kind::Line(..) | Kind::Stream(_) => 0,
        }
    }

    /// Counts its bytes until they are sent, wherever they wait.
    pub(super) fn hold(&mut self, hold: Hold) {
        match &mut self.0 {
            Kind::Whole(Some(bytes)) => {
                *bytes = Bytes::from_owner(Held { bytes: std::mem::take(bytes), _hold: hold });
            }
            Kind::List(list) => list.hold = Some(hold),
            _ => {}
        }
    }

    /// `head`, which ends with an opening bracket; the objects; `]}`.
    #[must_use]
    pub fn list(head: Vec<u8>, entries: Vec<Arc<Entry>>, form: Form) -> Self {
        let mut list =
            ListBody { head: Some(head), entries: entries.into_iter(), form, first: true, done: false, hold: None };
        match list.piece() {
            Some(piece) if list.done => Self::whole(piece),
            Some(piece) => {
                list.head = Some(piece);
                Self(Kind::List(list))
            }
            None => Self::empty(),
        }
    }
}

impl ListBody {
    fn piece(&mut self) -> Option<Vec<u8>> {
        if self.done {
            return None;
        }
        let mut out = self.head.take().unwrap_or_default();
        while out.len() < PIECE {
            let Some(entry) = self.entries.next() else {
                out.extend_from_slice(b"]}\n");
                self.done = true;
                break;
            };
            if !self.first {
                out.push(b',');
            }
            self.first = false;
            if self.form == Form::Item {
                out.push(b'{');
            }
            self.form.of(&entry).write(&mut out);
        }
        Some(out)
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match &mut self.get_mut().0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take()),
            Kind::Line(json, feed) => {
                Poll::Ready(json.next().or_else(|| std::mem::take(feed).then(|| Bytes::from_static(b"\n"))))
            }
            Kind::List(list) => Poll::Ready(list.piece().map(Bytes::from)),
            Kind::Stream(stream) => stream.as_mut().poll_next(cx),
        };
        data.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(bytes) => bytes.is_none(),
            Kind::Line(json, feed) => json.size() == 0 && !feed,
            Kind::List(list) => list.done && list.head.is_none(),
            Kind::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Kind::Line(json, feed) => SizeHint::with_exact(json.size() as u64 + u64::from(*feed)),
            Kind::List(_) | Kind::Stream(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match &self.0 {
            Kind::Whole(_) | Kind::Line(..) => "Body::Whole",
            Kind::List(_) => "Body::List",
            Kind::Stream(_) => "Body::Stream",
        })
    }
}
