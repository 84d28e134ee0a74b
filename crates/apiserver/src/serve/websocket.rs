//! Watches over WebSocket: each event is a message.
//!
//! A watch is answered as to anybody else; where its client has asked for a WebSocket, the head of the answer is put in order for one, and
//! the events of its body are sent as messages. Every other answer goes out as it is, as that of kube-apiserver does. That wants an
//! `Origin`, takes no more than one subprotocol, and ignores what the client sends.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf as _, Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::{FutureExt as _, SinkExt as _, StreamExt as _};
use http::header::{
    CONNECTION, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body::Body;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use ring::digest::{Context as Digest, SHA1_FOR_LEGACY_USE_ONLY};
use tokio::io::AsyncWrite as _;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tracing::debug;

use super::BoxError;
use crate::access::authentication::subprotocol::{is_websocket, offered};
use crate::http::watch::Events;

/// What RFC 6455 appends to a client's key.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// A client has nothing to say, and may not say more at once, in bytes.
const MOST: usize = 64 << 10;
/// How long a client may take to answer that its WebSocket is closed.
const GOODBYE: Duration = Duration::from_secs(1);

/// A connection that is one of HTTP no more.
type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// A service whose watches are answered over WebSocket where they are asked for so.
#[derive(Clone)]
pub(super) struct Upgrading<S> {
    inner: S,
    session: Slot,
}

/// What goes on on a connection when it is one of HTTP no more.
#[derive(Clone, Default)]
pub(super) struct Slot(Arc<Mutex<Option<BoxFuture<'static, ()>>>>);

impl Slot {
    /// Sends and receives until the WebSocket ends, if there is one.
    pub(super) async fn finish(self) {
        let session = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(session) = session {
            session.await;
        }
    }
}

impl<S> Upgrading<S> {
    /// `inner` for one connection, and what is to be finished after it.
    pub(super) fn new(inner: S) -> (Self, Slot) {
        let session = Slot::default();
        (Self { inner, session: session.clone() }, session)
    }
}

impl<S, B> tower::Service<Request<Incoming>> for Upgrading<S>
where
    S: tower::Service<Request<Incoming>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Either<B, Full<Bytes>>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        let asks = request.version() == Version::HTTP_11 && is_websocket(request.headers());
        let asked = asks.then(|| (hyper::upgrade::on(&mut request), handshake(request.method(), request.headers())));
        let answering = self.inner.call(request);
        let slot = self.session.clone();
        async move {
            let answer = answering.await?;
            let (Some((upgrade, head)), Some(events)) = (asked, answer.extensions().get().copied()) else {
                return Ok(answer.map(Either::Left));
            };
            if head.status() == StatusCode::SWITCHING_PROTOCOLS {
                let session = talk(upgrade, answer.into_body(), events).boxed();
                *slot.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
            }
            Ok(head.map(Either::Right))
        }
        .boxed()
    }
}

/// Why no WebSocket is opened.
#[derive(Debug, Clone, Copy)]
enum Refused {
    /// There is no key, or the request is not a GET.
    Key,
    /// It is not version 13 of the protocol.
    Version,
    /// There is no origin, or none that is a URI.
    Origin,
    /// Several subprotocols are offered; the reference chooses none.
    Protocols,
}

/// The answer to who asks for a WebSocket; a refusal has the status and the words of the reference's.
fn handshake(method: &Method, headers: &HeaderMap) -> Response<Full<Bytes>> {
    let (status, said) = match accept(method, headers) {
        Ok(fields) => {
            let mut head = Response::new(Full::default());
            *head.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            *head.headers_mut() = fields;
            return head;
        }
        Err(Refused::Key) => (StatusCode::BAD_REQUEST, "mismatch challenge/response"),
        Err(Refused::Version) => (StatusCode::BAD_REQUEST, "missing or bad WebSocket Version"),
        Err(Refused::Origin) => (StatusCode::FORBIDDEN, ""),
        Err(Refused::Protocols) => (StatusCode::BAD_REQUEST, ""),
    };
    let mut refused = Response::new(Full::from(said));
    *refused.status_mut() = status;
    if !is_version(headers) {
        refused.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    }
    refused
}

/// The fields of the answer that opens a WebSocket.
fn accept(method: &Method, headers: &HeaderMap) -> Result<HeaderMap, Refused> {
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty() && method == Method::GET);
    let key = key.ok_or(Refused::Key)?;
    if !is_version(headers) {
        return Err(Refused::Version);
    }
    let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
    if !origin.is_some_and(is_uri) {
        return Err(Refused::Origin);
    }
    let mut protocols = offered(headers).filter(|protocol| !protocol.is_empty());
    let (protocol, another) = (protocols.next(), protocols.next());
    if another.is_some() {
        return Err(Refused::Protocols);
    }
    let mut digest = Digest::new(&SHA1_FOR_LEGACY_USE_ONLY);
    digest.update(key.as_bytes());
    digest.update(GUID);
    let accepted = STANDARD.encode(digest.finish());
    let fields = [
        (UPGRADE, Some("websocket")),
        (CONNECTION, Some("Upgrade")),
        (SEC_WEBSOCKET_ACCEPT, Some(&*accepted)),
        (SEC_WEBSOCKET_PROTOCOL, protocol),
    ];
    Ok(fields.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::from_str(value?).ok()?))).collect())
}

fn is_version(headers: &HeaderMap) -> bool {
    headers.get(SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13")
}

/// Whether it has a scheme, or is a path: `file://` is an origin, and `null` is none.
fn is_uri(origin: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|each| each.is_ascii_alphanumeric() || matches!(each, '+' | '-' | '.'))
    };
    origin.starts_with('/') || origin.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme))
}

/// Sends the events of a body as messages, until it ends or the client does. A body that is cut cuts the connection.
async fn talk<B>(upgrade: OnUpgrade, body: B, events: Events)
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let stream = match upgrade.await {
        Ok(upgraded) => TokioIo::new(upgraded),
        Err(error) => return debug!(%error, "no WebSocket came of it"),
    };
    let config = WebSocketConfig::default().max_message_size(Some(MOST)).max_frame_size(Some(MOST));
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let mut body = Box::pin(body.map_err(drop));
    let Some(code) = exchange(&mut socket, &mut body, events).await else { return };
    let farewell = async {
        let _ = socket.send(Message::Close(Some(CloseFrame { code, reason: Utf8Bytes::default() }))).await;
        // The client answers that.
        while socket.next().await.is_some_and(|received| received.is_ok()) {}
        let _ = poll_fn(|context| Pin::new(socket.get_mut()).poll_shutdown(context)).await;
    };
    let _ = tokio::time::timeout(GOODBYE, farewell).await;
}

/// Sends and receives. The code by which the WebSocket is closed then; none where it is cut.
///
/// Nothing is received while something is to be sent: who sends pings and reads no pong has to wait.
async fn exchange<B>(socket: &mut Socket, body: &mut Pin<Box<B>>, events: Events) -> Option<CloseCode>
where
    B: Body<Data = Bytes, Error = ()> + Send + 'static,
{
    let mut begun = BytesMut::new();
    loop {
        tokio::select! {
            biased;
            frame = body.frame() => {
                let Some(frame) = frame else { return Some(CloseCode::Normal) };
                let Ok(piece) = frame.ok()?.into_data() else { continue };
                begun.extend_from_slice(&piece);
                while let Some(message) = message(&mut begun, events) {
                    socket.feed(message).await.ok()?;
                }
                socket.flush().await.ok()?;
            }
            received = socket.next() => match received {
                // The client has closed it.
                None => return Some(CloseCode::Normal),
                Some(Ok(Message::Ping(_))) => socket.flush().await.ok()?,
                Some(Ok(_)) => tokio::task::yield_now().await,
                Some(Err(Error::Protocol(_))) => return Some(CloseCode::Protocol),
                Some(Err(Error::Capacity(_))) => return Some(CloseCode::Size),
                Some(Err(_)) => return None,
            },
        }
    }
}

/// Takes the next whole event, if there is one.
fn message(begun: &mut BytesMut, events: Events) -> Option<Message> {
    match events {
        Events::Lines => {
            let end = begun.iter().position(|byte| *byte == b'\n')? + 1;
            // What is stored is UTF-8.
            Utf8Bytes::try_from(begun.split_to(end).freeze()).ok().map(Message::Text)
        }
        Events::Frames => {
            let length = usize::try_from(begun.get(..4)?.get_u32()).ok()?;
            let end = length.checked_add(4).filter(|end| begun.len() >= *end)?;
            Some(Message::Binary(begun.split_to(end).freeze().slice(4..)))
        }
    }
}
