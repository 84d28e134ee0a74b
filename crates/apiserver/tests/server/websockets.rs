//! Watches over WebSocket.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::HeaderMap;
use http_body_util::BodyExt as _;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::support::{Answer, Server, forgetful, listen, start, start_with};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=true";
/// What every client sends; the key is that of RFC 6455.
const ASKS: [(&str, &str); 5] = [
    ("Upgrade", "WebSocket"),
    ("Connection", "keep-alive, Upgrade"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("Origin", "https://localhost"),
];

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// A WebSocket and the head of its answer, or the answer that is none.
async fn ask(server: &Server, path: &str, headers: &[(&str, &str)]) -> Result<(HeaderMap, Socket), Answer> {
    let request = server.request("GET", path, headers, Bytes::new());
    let mut answer = server.connect().await.send_request(request).await.expect("an answer");
    if answer.status() != 101 {
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        return Err(Answer { status: parts.status.as_u16(), headers: parts.headers, body });
    }
    let head = answer.headers().clone();
    let stream = hyper::upgrade::on(&mut answer).await.expect("a stream");
    Ok((head, WebSocketStream::from_raw_socket(TokioIo::new(stream), Role::Client, None).await))
}

async fn open(server: &Server, path: &str) -> Socket {
    ask(server, path, &ASKS).await.expect("a WebSocket").1
}

/// The next message, which is an event.
async fn event(socket: &mut Socket) -> Value {
    match socket.next().await {
        Some(Ok(Message::Text(text))) => serde_json::from_str(&text).expect("one event"),
        other => panic!("{other:?}"),
    }
}

/// Contract: API-42
#[tokio::test(start_paused = true)]
async fn every_event_of_a_watch_is_a_message() {
    let server = start();
    server.config_map("a", "x").await;
    let mut socket = open(&server, WATCH).await;
    let first = event(&mut socket).await;
    assert_eq!((&first["type"], &first["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("a")));
    // Several that come at once, and one of more than a piece.
    let large = "x".repeat(100_000);
    server.merge(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"b": large}})).await;
    server.config_map("b", "x").await;
    server.delete(&format!("{CONFIG_MAPS}/a"), None).await;
    let mut events = Vec::new();
    for _ in 0..3 {
        events.push(event(&mut socket).await);
    }
    let told: Vec<_> = events.iter().map(|event| (&event["type"], &event["object"]["metadata"]["name"])).collect();
    let [added, modified, deleted] = ["ADDED", "MODIFIED", "DELETED"].map(Value::from);
    let [a, b] = ["a", "b"].map(Value::from);
    assert_eq!(told, [(&modified, &a), (&added, &b), (&deleted, &a)]);
    assert_eq!(events[0]["object"]["data"]["b"], json!(large));
    // What a client says is not heard, but for what the protocol asks an answer to.
    socket.send(Message::text("hello")).await.unwrap();
    socket.send(Message::Ping(Bytes::from_static(b"1"))).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Pong(Bytes::from_static(b"1")));
    server.config_map("c", "x").await;
    assert_eq!(event(&mut socket).await["object"]["metadata"]["name"], "c");
    socket.close(None).await.unwrap();
    assert!(matches!(socket.next().await, Some(Ok(Message::Close(_)))));
    assert!(socket.next().await.is_none(), "the connection ends");
}

/// Contract: API-42
#[tokio::test(start_paused = true)]
async fn frames_of_protobuf_are_binary_messages() {
    let server = start();
    for name in ["a", "b"] {
        server.config_map(name, "x").await;
    }
    let asks = [&ASKS[..], &[("Accept", "application/vnd.kubernetes.protobuf;stream=watch")]].concat();
    let (_, mut socket) = ask(&server, WATCH, &asks).await.expect("a WebSocket");
    for name in [b"a", b"b"] {
        let Some(Ok(Message::Binary(event))) = socket.next().await else { panic!("no binary message") };
        let begins = event.windows(4).position(|bytes| bytes == b"k8s\0").expect("an object");
        assert!(begins < 20 && event.windows(3).any(|bytes| bytes == [&[10, 1], &name[..]].concat()), "{event:?}");
    }
}

/// Contract: API-42
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_closes_its_websocket() {
    let server = start();
    for path in [&format!("{WATCH}&timeoutSeconds=5")[..], "/api/v1/watch/configmaps?timeoutSeconds=5"] {
        let mut socket = open(&server, path).await;
        let Some(Ok(Message::Close(frame))) = socket.next().await else { panic!("not closed") };
        assert_eq!(frame.map(|frame| frame.code), Some(CloseCode::Normal));
        assert!(socket.next().await.is_none());
    }
    // What cannot be watched any more is told by an event.
    let server = start_with(forgetful());
    for number in 0..200 {
        server.config_map(&format!("c-{number}"), &"x".repeat(60)).await;
    }
    let mut socket = open(&server, &format!("{WATCH}&resourceVersion=1")).await;
    let told = event(&mut socket).await;
    assert_eq!((&told["type"], &told["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert!(matches!(socket.next().await, Some(Ok(Message::Close(_)))));
}

/// Who says too much, or not in frames, is told why it is closed; who asks for answers and reads none has to wait.
///
/// Contract: API-42, CM-06
#[tokio::test(start_paused = true)]
async fn a_client_can_harm_its_own_websocket_only() {
    let server = start();
    for (size, closed) in [(64 << 10, None), ((64 << 10) + 1, Some(CloseCode::Size))] {
        let mut socket = open(&server, WATCH).await;
        // What is too much need not be taken.
        let _ = socket.send(Message::binary(vec![0; size])).await;
        let told = tokio::time::timeout(Duration::from_secs(60), socket.next()).await.ok();
        let told = told.map(|message| match message {
            Some(Ok(Message::Close(Some(frame)))) => frame.code,
            other => panic!("{other:?}"),
        });
        assert_eq!(told, closed);
    }
    let stream = open(&server, WATCH).await.into_inner();
    let mut unmasked = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    unmasked.send(Message::text("x")).await.unwrap();
    let mut bytes = Vec::new();
    unmasked.get_mut().read_to_end(&mut bytes).await.unwrap();
    assert_eq!(bytes[..4], [0x88, 2, 3, 234], "1002");

    let mut socket = open(&server, WATCH).await;
    let mut pings = 0;
    let sending = async {
        loop {
            socket.send(Message::Ping(Bytes::from_static(&[0; 100]))).await.unwrap();
            pings += 1;
        }
    };
    let sent = tokio::time::timeout(Duration::from_secs(60), sending).await;
    assert!(sent.is_err() && pings < 10_000, "{pings}: its pings are taken for as long as it sends them");
}

/// Contract: API-42
#[tokio::test]
async fn a_server_that_stops_ends_websockets() {
    let mut server = listen().await;
    let mut socket = open(&server, WATCH).await;
    let stopping = tokio::spawn(server.handle.take().expect("a listener").shutdown());
    assert!(matches!(socket.next().await, Some(Ok(Message::Close(_)))));
    assert!(socket.next().await.is_none());
    stopping.await.expect("stopped");
}

/// Contract: API-42
#[tokio::test(start_paused = true)]
async fn a_handshake_is_answered_as_in_the_reference() {
    let server = start();
    let (head, _) = ask(&server, WATCH, &ASKS).await.expect("a WebSocket");
    assert_eq!(head["Sec-WebSocket-Accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert!(!head.contains_key("Sec-WebSocket-Protocol"));
    let with = |name: &'static str, value: &'static str| {
        let others = ASKS.into_iter().filter(move |(other, _)| *other != name);
        others.chain((!value.is_empty()).then_some((name, value))).collect::<Vec<_>>()
    };
    const VERSION: &str = "missing or bad WebSocket Version";
    for (headers, status, why) in [
        (with("Origin", ""), 403, ""),
        (with("Origin", "null"), 403, ""),
        (with("Origin", "1:"), 403, ""),
        (with("Sec-WebSocket-Key", ""), 400, "mismatch challenge/response"),
        (with("Sec-WebSocket-Version", ""), 400, VERSION),
        (with("Sec-WebSocket-Version", "8"), 400, VERSION),
        (with("Sec-WebSocket-Protocol", "a, b"), 400, ""),
    ] {
        let refused = ask(&server, WATCH, &headers).await.expect_err("refused");
        assert_eq!((refused.status, &*String::from_utf8_lossy(&refused.body)), (status, why), "{headers:?}");
        let versions = refused.header("Sec-WebSocket-Version");
        let is_of_version = headers.iter().all(|header| *header != ("Sec-WebSocket-Version", "13"));
        assert_eq!(versions, if is_of_version { "13" } else { "" });
    }
    let (head, _) = ask(&server, WATCH, &with("Sec-WebSocket-Protocol", "a")).await.expect("a WebSocket");
    assert_eq!(head["Sec-WebSocket-Protocol"], "a");
    for origin in ["file://", "/a", "a+b-c.d:e"] {
        assert!(ask(&server, WATCH, &with("Origin", origin)).await.is_ok(), "{origin}");
    }
    // Who asks for none, or for something else than a watch, or for what is refused, gets the answer of everybody else.
    for (path, headers, status, kind) in [
        (CONFIG_MAPS, with("Origin", "https://localhost"), 200, "ConfigMapList"),
        (CONFIG_MAPS, with("Origin", ""), 200, "ConfigMapList"),
        (&format!("{WATCH}&fieldSelector=x=y"), ASKS.to_vec(), 400, "Status"),
        (WATCH, [&ASKS[..], &[("Authorization", "Bearer wrong")]].concat(), 401, "Status"),
    ] {
        let answer = ask(&server, path, &headers).await.expect_err("no WebSocket");
        assert_eq!((answer.status, &answer.json()["kind"]), (status, &json!(kind)), "{path}");
    }
    for headers in [with("Upgrade", "h2c"), with("Upgrade", ""), with("Connection", "")] {
        let request = server.request("GET", &format!("{WATCH}&timeoutSeconds=1"), &headers, Bytes::new());
        let answer = server.connect().await.send_request(request).await.expect("an answer");
        assert_eq!(answer.status(), 200, "{headers:?}");
    }
}

/// A page in a browser can set no header.
///
/// Contract: API-42, API-01
#[tokio::test(start_paused = true)]
async fn a_websocket_may_have_its_token_as_a_subprotocol() {
    const NAME: &str = "base64url.bearer.authorization.k8s.io";
    let server = start();
    let token = server.api.token().to_owned();
    let [given, wrong, empty] = [&*token, "wrong", ""].map(|token| format!("{NAME}.{}", URL_SAFE_NO_PAD.encode(token)));
    let padded = format!("{NAME}.{}=", STANDARD_NO_PAD.encode("ab"));
    let both = |first: &str, second: &str| format!("{first}, {second}");
    for (protocols, status) in [
        (both(&given, "chat"), 101),
        (both("chat", &given), 101),
        (given.clone(), 401),
        (both(&wrong, "chat"), 401),
        (both(&padded, "chat"), 401),
        (both(&format!("{NAME}.!"), "chat"), 401),
        (both(&format!("{NAME}.{}", URL_SAFE_NO_PAD.encode([0xff])), "chat"), 401),
        (both(&both(&given, &given), "chat"), 401),
        // No token: nobody, who may not watch.
        (both(&empty, "chat"), 403),
        ("chat".to_owned(), 403),
    ] {
        let headers = [&ASKS[..], &[("Authorization", ""), ("Sec-WebSocket-Protocol", &protocols)]].concat();
        match ask(&server, WATCH, &headers).await {
            Ok((head, mut socket)) => {
                assert_eq!((101, &head["Sec-WebSocket-Protocol"]), (status, &"chat".parse().unwrap()), "{protocols}");
                server.config_map("a", "x").await;
                assert_eq!(event(&mut socket).await["object"]["metadata"]["name"], "a");
            }
            Err(answer) => assert_eq!(answer.status, status, "{protocols}: {}", answer.json()),
        }
    }
    // Of other requests subprotocols are not read, and one of two credentials is enough.
    let protocols = both(&given, "chat");
    let headers = [("Authorization", ""), ("Sec-WebSocket-Protocol", &*protocols)];
    assert_eq!(server.send("GET", CONFIG_MAPS, &headers, "").await.status, 403);
    let one = [&ASKS[..], &[("Authorization", "Bearer wrong"), ("Sec-WebSocket-Protocol", &protocols)]].concat();
    assert!(ask(&server, WATCH, &one).await.is_ok());
    let protocols = both(&wrong, "chat");
    let right = [&ASKS[..], &[("Sec-WebSocket-Protocol", &*protocols)]].concat();
    assert!(ask(&server, WATCH, &right).await.is_ok());
}
