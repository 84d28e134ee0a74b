//! A bearer token among the subprotocols of a WebSocket: a page in a browser can set no header.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};

/// What such a subprotocol begins with; the token follows in base64url.
const BEARER: &str = "base64url.bearer.authorization.k8s.io.";

/// Whether the headers ask for a WebSocket.
#[must_use]
pub fn is_websocket(headers: &HeaderMap) -> bool {
    let is_named = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"websocket");
    let mut connection = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    headers.get(UPGRADE).is_some_and(is_named) && connection.any(|value| value.to_ascii_lowercase().contains("upgrade"))
}

/// The subprotocols that a client offers, but for the one that is a token.
pub fn offered(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    all(headers).filter(|protocol| !protocol.starts_with(BEARER))
}

fn all(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// There are two tokens, one cannot be read, or no other subprotocol is offered that the server could choose.
#[derive(Debug)]
pub(super) struct Unreadable;

/// The token of a request for a WebSocket, if there is one.
pub(super) fn token(headers: &HeaderMap) -> Option<Result<Cow<'_, str>, Unreadable>> {
    let mut tokens = all(headers).filter_map(|protocol| protocol.strip_prefix(BEARER));
    let token = tokens.next().filter(|_| is_websocket(headers))?;
    let read = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    match read.filter(|_| tokens.next().is_none()) {
        Some(token) if token.is_empty() => None,
        Some(token) if offered(headers).next().is_some() => Some(Ok(Cow::Owned(token))),
        _ => Some(Err(Unreadable)),
    }
}
