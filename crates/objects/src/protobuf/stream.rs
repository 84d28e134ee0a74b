//! The envelopes of protobuf: the frames of a watch, bookmarks, the pages of a list.

use super::{Envelope, Fields, Malformed};
use crate::meta::ResourceVersion;
use crate::object::DecodeError;
use crate::stream::{Bookmark, INITIAL_EVENTS_END, ListPage, WatchEvent, event_type};
use crate::wire;

impl<'a> WatchEvent<'a> {
    /// Takes a frame of a watch in protobuf apart, its length already taken off, without looking into the
    /// object.
    ///
    /// # Errors
    ///
    /// Where the frame is no `WatchEvent` of a known type, or its object is not in protobuf.
    pub fn decode_protobuf(frame: &'a [u8]) -> Result<Self, DecodeError> {
        event(frame).map_err(DecodeError::of("watch event"))
    }
}

fn event(frame: &[u8]) -> Result<WatchEvent<'_>, Malformed> {
    let (mut kind, mut body): (&[u8], &[u8]) = (&[], &[]);
    for field in Fields::of(frame) {
        let field = field?;
        match field.number {
            1 => kind = field.bytes()?,
            2 => {
                // A RawExtension, which is nothing but its bytes.
                for field in Fields::of(field.bytes()?) {
                    let field = field?;
                    if field.number == 1 {
                        body = field.bytes()?;
                    }
                }
            }
            _ => {}
        }
    }
    let kind = event_type(kind).ok_or_else(|| Malformed::EventType(String::from_utf8_lossy(kind).into()))?;
    Ok(WatchEvent { kind, object: Envelope::decode(body)?.message })
}

impl Bookmark {
    /// Reads the message of a bookmark's object, of whichever kind.
    ///
    /// # Errors
    ///
    /// Where it is no object with metadata and a resourceVersion.
    pub fn decode_protobuf(message: &[u8]) -> Result<Self, DecodeError> {
        bookmark(message).map_err(DecodeError::of("bookmark"))
    }
}

fn bookmark(message: &[u8]) -> Result<Bookmark, Malformed> {
    let mut bookmark = Bookmark { resource_version: ResourceVersion::UNKNOWN, initial_events_end: false };
    for field in Fields::of_metadata(message) {
        let field = field?;
        match field.number {
            6 => bookmark.resource_version = wire::protobuf::version(&field)?,
            12 => {
                let (key, value) = wire::protobuf::entry(field.bytes()?)?;
                if key == INITIAL_EVENTS_END.as_bytes() {
                    bookmark.initial_events_end = value == b"true";
                }
            }
            _ => {}
        }
    }
    if bookmark.resource_version.is_known() { Ok(bookmark) } else { Err(Malformed::NoResourceVersion) }
}

impl<'a> ListPage<'a> {
    /// Takes the body of a list in protobuf apart. The items are messages.
    ///
    /// # Errors
    ///
    /// Where it is no list.
    pub fn decode_protobuf(body: &'a [u8]) -> Result<Self, DecodeError> {
        page(body).map_err(DecodeError::of("list"))
    }
}

fn page(body: &[u8]) -> Result<ListPage<'_>, Malformed> {
    let mut page = ListPage {
        resource_version: ResourceVersion::UNKNOWN,
        continue_token: None,
        remaining_item_count: None,
        is_sharded: false,
        items: Vec::new(),
    };
    for field in Fields::of(Envelope::decode(body)?.message) {
        let field = field?;
        match field.number {
            1 => {
                for field in Fields::of(field.bytes()?) {
                    let field = field?;
                    match field.number {
                        2 => page.resource_version = wire::protobuf::version(&field)?,
                        3 => page.continue_token = token(field.text()?),
                        5 => page.is_sharded = true,
                        4 => page.remaining_item_count = Some(field.int64()?),
                        _ => {}
                    }
                }
            }
            2 => page.items.push(field.bytes()?),
            _ => {}
        }
    }
    Ok(page)
}

fn token(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
