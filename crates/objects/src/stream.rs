//! The envelopes that objects travel in: the lines of a watch and the pages of a list, in JSON.
//!
//! Both hand out the objects' bytes untouched, so that each is decoded once, straight into its slim
//! form. Their forms in protobuf are read in [`crate::protobuf`].

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::meta::ResourceVersion;
use crate::object::DecodeError;
use crate::wire::Text;

/// The annotation of the bookmark that ends a streaming list.
pub(crate) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// What a watch says happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WatchEventType {
    /// The object is new to this watch.
    Added,
    /// It changed.
    Modified,
    /// It is gone, or no longer selected.
    Deleted,
    /// Nothing happened up to the resourceVersion that the object carries.
    Bookmark,
    /// The watch ends; the object is a `Status`.
    Error,
}

/// One line of a watch.
#[derive(Debug, Clone, Copy)]
pub struct WatchEvent<'a> {
    /// What happened.
    pub kind: WatchEventType,
    /// The object's JSON, or its message where the watch is in protobuf.
    pub object: &'a [u8],
}

impl<'a> WatchEvent<'a> {
    /// Takes a line apart without looking into the object, where the line is written as every API
    /// server writes it; any other order and spacing is understood too, at the cost of a scan.
    ///
    /// # Errors
    ///
    /// Where the line is not `{"type": .., "object": ..}`, or of an unknown type.
    pub fn decode(line: &'a [u8]) -> Result<Self, DecodeError> {
        if let Some(event) = Self::canonical(line) {
            return Ok(event);
        }
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(borrow, rename = "type")]
            kind: Text<'a>,
            #[serde(borrow)]
            object: &'a RawValue,
        }
        let decode = || -> Result<Self, serde_json::Error> {
            let wire: Wire<'a> = serde_json::from_slice(line)?;
            let kind = event_type(wire.kind.as_bytes()).ok_or_else(|| {
                <serde_json::Error as serde::de::Error>::custom(format_args!("unknown event type {:?}", &*wire.kind))
            })?;
            Ok(Self { kind, object: wire.object.get().as_bytes() })
        };
        decode().map_err(DecodeError::of("watch event"))
    }

    /// `{"type":"ADDED","object":{...}}`. Anything wrong inside of the object is found when that is
    /// decoded, which must end exactly where it should.
    fn canonical(line: &'a [u8]) -> Option<Self> {
        let rest = line.trim_ascii_end().strip_prefix(br#"{"type":""#)?;
        let quote = rest.iter().take(16).position(|byte| *byte == b'"')?;
        let object = rest[quote..].strip_prefix(br#"","object":"#)?.strip_suffix(b"}")?;
        Some(Self { kind: event_type(&rest[..quote])?, object })
    }
}

pub(crate) fn event_type(text: &[u8]) -> Option<WatchEventType> {
    match text {
        b"ADDED" => Some(WatchEventType::Added),
        b"MODIFIED" => Some(WatchEventType::Modified),
        b"DELETED" => Some(WatchEventType::Deleted),
        b"BOOKMARK" => Some(WatchEventType::Bookmark),
        b"ERROR" => Some(WatchEventType::Error),
        _ => None,
    }
}

/// What a bookmark says: how far the watch has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bookmark {
    /// Everything up to this version has been sent.
    pub resource_version: ResourceVersion,
    /// Whether this is the bookmark that ends a streaming list
    /// (annotation `k8s.io/initial-events-end`).
    pub initial_events_end: bool,
}

impl Bookmark {
    /// Reads a bookmark's object.
    ///
    /// # Errors
    ///
    /// Where it is no object with metadata and a resourceVersion.
    pub fn decode(object: &[u8]) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(borrow)]
            metadata: MetadataWire<'a>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct MetadataWire<'a> {
            resource_version: ResourceVersion,
            #[serde(borrow)]
            annotations: Option<AnnotationsWire<'a>>,
        }
        #[derive(Deserialize)]
        struct AnnotationsWire<'a> {
            #[serde(borrow, default, rename = "k8s.io/initial-events-end")]
            end: Text<'a>,
        }
        let wire: Wire<'_> = serde_json::from_slice(object).map_err(DecodeError::of("bookmark"))?;
        if !wire.metadata.resource_version.is_known() {
            let source = <serde_json::Error as serde::de::Error>::custom("no resourceVersion");
            return Err(DecodeError::of("bookmark")(source));
        }
        Ok(Self {
            resource_version: wire.metadata.resource_version,
            initial_events_end: wire.metadata.annotations.is_some_and(|annotations| &*annotations.end == "true"),
        })
    }
}

/// One page of a list.
#[derive(Debug)]
pub struct ListPage<'a> {
    /// The version at which the whole list was read; the watch goes on from here.
    pub resource_version: ResourceVersion,
    /// The token for the next page; `None` on the last.
    pub continue_token: Option<String>,
    /// How many items the pages to come hold, where the server knows.
    pub remaining_item_count: Option<i64>,
    /// Whether the server says that this is the list of a shard, as it was asked to (KEP-5866).
    pub is_sharded: bool,
    /// The items' JSON, or their messages where the list is in protobuf.
    pub items: Vec<&'a [u8]>,
}

impl<'a> ListPage<'a> {
    /// Takes a list's body apart.
    ///
    /// # Errors
    ///
    /// Where it is no list.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(borrow)]
            metadata: MetadataWire<'a>,
            #[serde(borrow)]
            items: Option<Vec<&'a RawValue>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct MetadataWire<'a> {
            #[serde(default)]
            resource_version: ResourceVersion,
            #[serde(borrow, default, rename = "continue")]
            continue_token: Text<'a>,
            remaining_item_count: Option<i64>,
            shard_info: Option<IgnoredAny>,
        }
        let wire: Wire<'a> = serde_json::from_slice(body).map_err(DecodeError::of("list"))?;
        let token = wire.metadata.continue_token;
        Ok(Self {
            resource_version: wire.metadata.resource_version,
            continue_token: (!token.is_empty()).then(|| token.0.into_owned()),
            remaining_item_count: wire.metadata.remaining_item_count,
            is_sharded: wire.metadata.shard_info.is_some(),
            items: wire.items.unwrap_or_default().into_iter().map(|item| item.get().as_bytes()).collect(),
        })
    }
}
