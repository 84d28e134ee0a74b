//! The bodies of requests: read whole, or dropped.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, EXPECT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt as _;

use super::Service;
use super::in_flight::Hold;
use crate::status::ApiError;

/// A body may be this many bytes long (API-22).
pub const LARGEST_BODY: usize = 3 << 20;
/// How long a body may take to arrive.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long what nobody needs of it may take.
const PATIENCE_WITH_REST: Duration = Duration::from_secs(5);
/// Of a body that is too long, this many bytes are read before the connection is given up.
const MOST_DROPPED: usize = 256 << 20;

/// Why a body was not read.
pub(super) enum Unread {
    Refused(ApiError),
    /// Too many bytes are in flight.
    TooMany,
}

impl From<ApiError> for Unread {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}

/// Takes and drops what of a body nobody has read, up to a point: a client that is still sending does not read the answer,
/// and over HTTP/1.1 what it sends would end the connection before the answer is there. One that waits until its body is
/// asked for is not asked.
pub(super) async fn drop_rest<B>(headers: &HeaderMap, mut body: Pin<&mut B>)
where
    B: http_body::Body<Data = Bytes>,
{
    let waits = |expected: &HeaderValue| expected.as_bytes().eq_ignore_ascii_case(b"100-continue");
    if body.is_end_stream() || headers.get(EXPECT).is_some_and(waits) {
        return;
    }
    let rest = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, Bytes::len);
            if read > MOST_DROPPED {
                break;
            }
        }
    };
    // Who is slower than that is answered all the same.
    let _ = tokio::time::timeout(PATIENCE_WITH_REST, rest).await;
}

impl Service {
    /// Reads a body, up to its largest size; its bytes are counted until the hold is dropped.
    pub(super) async fn read<B>(&self, parts: &Parts, body: B) -> Result<(Bytes, Option<Hold>), Unread>
    where
        B: http_body::Body<Data = Bytes>,
    {
        let late = |_| Unread::Refused(ApiError::bad_request("the request's body took too long"));
        tokio::time::timeout(PATIENCE, self.read_all(parts, body)).await.map_err(late)?
    }

    async fn read_all<B>(&self, parts: &Parts, body: B) -> Result<(Bytes, Option<Hold>), Unread>
    where
        B: http_body::Body<Data = Bytes>,
    {
        let declared = parts.headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
        let mut too_large = declared.is_some_and(|length| length > LARGEST_BODY as u64);
        let mut read = 0;
        let mut body = std::pin::pin!(body);
        let mut first: Option<Bytes> = None;
        let mut joined = BytesMut::new();
        let mut hold = self.shared.in_flight.bytes(0).ok_or(Unread::TooMany)?;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                return Err(Unread::Refused(ApiError::bad_request("the request's body could not be read")));
            };
            let Ok(data) = frame.into_data() else { continue };
            read += data.len();
            too_large |= read > LARGEST_BODY;
            if too_large {
                // A client that is still sending does not read the answer: what it sends is taken and dropped, up to a
                // point.
                if read > MOST_DROPPED {
                    break;
                }
                (first, joined) = (None, BytesMut::new());
                continue;
            }
            hold.grow(data.len());
            match first.take() {
                None if joined.is_empty() => first = Some(data),
                None => joined.extend_from_slice(&data),
                Some(one) => {
                    joined.extend_from_slice(&one);
                    joined.extend_from_slice(&data);
                }
            }
        }
        if too_large {
            return Err(Unread::Refused(ApiError::too_large(LARGEST_BODY)));
        }
        Ok((first.unwrap_or_else(|| joined.freeze()), Some(hold)))
    }
}
