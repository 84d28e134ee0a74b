//! Connections that say nothing, over pipes whose time is paused.

use std::convert::Infallible;
use std::future::ready;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::client::conn::{http1, http2};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::*;

type Answer = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

/// More than fits into the pipe.
const LARGE: usize = 1 << 20;

/// Answers `/watch` with a body that goes on for ever, `/slow` after five minutes, `/large` with a large body, and
/// everything else at once.
#[derive(Clone)]
struct Service;

impl tower::Service<Request<Incoming>> for Service {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        async move {
            let whole = || Full::new(Bytes::from_static(b"ok")).boxed_unsync();
            let path = request.uri().path();
            let mut answer = Response::new(match path {
                "/watch" => {
                    let first = futures::stream::once(ready(Ok(http_body::Frame::data(Bytes::from_static(b"event")))));
                    StreamBody::new(futures::StreamExt::chain(first, futures::stream::pending())).boxed_unsync()
                }
                "/slow" => {
                    tokio::time::sleep(Duration::from_secs(300)).await;
                    whole()
                }
                "/large" => Full::new(Bytes::from(vec![b'x'; LARGE])).boxed_unsync(),
                _ => whole(),
            });
            if path == "/watch" {
                answer.extensions_mut().insert(Lasting);
            }
            Ok(answer)
        }
        .boxed()
    }
}

/// The near end of a connection that is served, with TLS or without.
fn connect(tls: Option<&Tls>) -> DuplexStream {
    let (near, far) = tokio::io::duplex(1 << 16);
    let tls = tls.cloned();
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let peer = SocketAddr::from(([127, 0, 0, 1], 0));
    tokio::spawn(async move {
        connection(far, peer, Service, (Counter::new(), Patience::API), tls, Arc::new(builder()), stopping).await;
        drop(stop);
    });
    near
}

/// After how many seconds the server closes the connection; none where it does not within a day.
async fn closed_after(mut near: impl AsyncRead + Unpin) -> Option<u64> {
    let start = Instant::now();
    let closed = async { while near.read(&mut [0; 1024]).await.is_ok_and(|bytes| bytes > 0) {} };
    let in_time = tokio::time::timeout(Duration::from_secs(24 * 3600), closed).await;
    in_time.ok().map(|()| start.elapsed().as_secs())
}

async fn says(near: &mut DuplexStream, what: &[u8]) {
    near.write_all(what).await.unwrap();
}

/// Contract: API-01, CM-06
#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_finish_its_handshake_is_closed_after_ten_seconds() {
    let tls = Tls::generate(&[]).unwrap();
    assert_eq!(closed_after(connect(Some(&tls))).await, Some(10));
    let mut near = connect(Some(&tls));
    says(&mut near, b"\x16\x03\x01").await;
    assert_eq!(closed_after(near).await, Some(10), "in the middle of its hello");
}

/// Contract: API-01, CM-06
#[tokio::test(start_paused = true)]
async fn a_peer_that_asks_nothing_is_closed_after_32_seconds() {
    // Nothing; a byte that may begin either protocol; a part of a head.
    for said in [&b""[..], b"P", b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\nX: "] {
        let mut near = connect(None);
        says(&mut near, said).await;
        let closed = closed_after(near).await.expect("closed");
        assert!(AFTER_HEAD.contains(&closed), "{}: after {closed} s", said.escape_ascii());
    }
    // A head that comes byte by byte takes no longer.
    let mut near = connect(None);
    let start = Instant::now();
    while near.write_all(b"P").await.is_ok() {
        assert!(start.elapsed() < Duration::from_secs(60), "it goes on for ever");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(AFTER_HEAD.contains(&start.elapsed().as_secs()), "after {:?}", start.elapsed());
}

/// The settings are the first frame of an HTTP/2 server.
///
/// Contract: API-34
#[tokio::test(start_paused = true)]
async fn an_http2_connection_has_a_hundred_streams() {
    let mut near = connect(None);
    says(&mut near, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    let mut head = [0; 9];
    near.read_exact(&mut head).await.unwrap();
    assert_eq!(head[3], 4, "SETTINGS");
    let mut settings = vec![0; usize::from(head[2])];
    near.read_exact(&mut settings).await.unwrap();
    let told = |number| {
        let found = settings.chunks_exact(6).find(|setting| setting[..2] == [0, number]);
        found.map(|setting| u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]))
    };
    for (number, name, value) in [
        (3, "SETTINGS_MAX_CONCURRENT_STREAMS", 100),
        (5, "SETTINGS_MAX_FRAME_SIZE", 256 << 10),
        (6, "SETTINGS_MAX_HEADER_LIST_SIZE", 1 << 20),
    ] {
        assert_eq!(told(number), Some(value), "{name}");
    }
}

/// Contract: API-34
#[tokio::test(start_paused = true)]
async fn a_head_may_be_long_and_have_many_headers() {
    let groups = || (0..900).map(|nth| ("Impersonate-Group", format!("a-group-with-a-name-of-some-length-{nth}")));
    let long = || [("X", "x".repeat(900_000))].into_iter();
    let with = |headers: &mut dyn Iterator<Item = (&'static str, String)>| {
        let mut request = Request::get("http://host/");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.body(Empty::<Bytes>::new()).unwrap()
    };
    for request in [with(&mut groups()), with(&mut long())] {
        let (mut sender, connection) = http1::handshake(TokioIo::new(connect(None))).await.unwrap();
        tokio::spawn(connection);
        assert_eq!(sender.send_request(request.clone()).await.unwrap().status(), 200);
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(connect(None))).await.unwrap();
        tokio::spawn(connection);
        assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
    }
}

/// When a connection is closed that never asked, in seconds: where a part of a head has come, it may still be finished
/// in the time of the farewell.
const AFTER_HEAD: std::ops::RangeInclusive<u64> = 32..=37;

fn request(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("http://host{path}")).body(Empty::new()).unwrap()
}

/// Contract: API-01, CM-06
#[tokio::test(start_paused = true)]
async fn a_connection_of_http_2_without_streams_is_closed() {
    let (_sender, connection) =
        http2::handshake::<_, _, Empty<Bytes>>(TokioExecutor::new(), TokioIo::new(connect(None))).await.unwrap();
    let start = Instant::now();
    let _ = tokio::time::timeout(Duration::from_secs(3600), connection).await.expect("closed within the hour");
    assert_eq!(start.elapsed().as_secs(), 32);
}

/// Contract: API-01, CM-06
#[tokio::test(start_paused = true)]
async fn a_connection_is_idle_for_90_seconds_at_most() {
    let (mut sender, connection) = http1::handshake(TokioIo::new(connect(None))).await.unwrap();
    let ended = tokio::spawn(connection);
    let start = Instant::now();
    // Each request begins the time anew, and one that is being answered does not count as idle.
    for path in ["/", "/slow", "/", "/"] {
        let answer = sender.send_request(request(path)).await.unwrap();
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok");
        tokio::time::sleep(Duration::from_secs(80)).await;
    }
    assert_eq!(start.elapsed().as_secs(), 300 + 4 * 80);
    assert!(!ended.is_finished());
    let _ = tokio::time::timeout(Duration::from_secs(3600), ended).await.expect("closed within the hour");
    assert_eq!(start.elapsed().as_secs(), 300 + 3 * 80 + 90);
}

/// Contract: API-01, API-09
#[tokio::test(start_paused = true)]
async fn a_watch_is_not_idle() {
    let (mut sender, connection) = http1::handshake(TokioIo::new(connect(None))).await.unwrap();
    tokio::spawn(connection);
    let mut first = sender.send_request(request("/watch")).await.unwrap().into_body();
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(connect(None))).await.unwrap();
    tokio::spawn(connection);
    let mut second = sender.send_request(request("/watch")).await.unwrap().into_body();
    let start = Instant::now();
    for body in [&mut first, &mut second] {
        assert!(body.frame().await.unwrap().is_ok());
        let more = tokio::time::timeout(Duration::from_secs(3600), body.frame()).await;
        assert!(more.is_err(), "still open after an hour");
    }
    assert_eq!(start.elapsed(), Duration::from_secs(7200));
}

/// Serves so many connections at once, and says where.
async fn listen(places: usize) -> (SocketAddr, Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let patience = Patience { connections: places, ..Patience::API };
    tokio::spawn(accept(listener, (Service, patience), None, stopping));
    (address, stop)
}

type Asking = http1::SendRequest<Empty<Bytes>>;

async fn dial(address: SocketAddr) -> (Asking, JoinHandle<hyper::Result<()>>) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    (sender, tokio::spawn(connection))
}

/// Contract: API-01, CM-06
#[tokio::test]
async fn a_connection_too_many_waits_where_all_others_have_requests() {
    let (address, _stop) = listen(1).await;
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut first, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let watched = first.send_request(request("/watch")).await.unwrap();
    let (mut second, _running) = dial(address).await;
    let mut answered = Box::pin(second.send_request(request("/")));
    for _ in 0..100 {
        first.send_request(request("/")).await.unwrap();
        assert!((&mut answered).now_or_never().is_none(), "answered beside the first");
    }
    drop((first, watched));
    assert_eq!(answered.await.unwrap().status(), 200);
}

/// Contract: API-01, CM-06
#[tokio::test]
async fn a_connection_too_many_takes_the_place_of_one_that_asks_nothing() {
    let (address, _stop) = listen(2).await;
    let (mut watching, watches) = dial(address).await;
    let _watched = watching.send_request(request("/watch")).await.unwrap();
    let (mut asked, had_asked) = dial(address).await;
    asked.send_request(request("/")).await.unwrap().into_body().collect().await.unwrap();
    let (mut next, _running) = dial(address).await;
    next.send_request(request("/")).await.unwrap().into_body().collect().await.unwrap();
    let _ = had_asked.await;
    // And who watches stays.
    let (mut last, _running) = dial(address).await;
    last.send_request(request("/")).await.unwrap();
    assert!(!watches.is_finished());
}

/// Who is there, so long without a request, or without having asked any.
fn there(places: &mut Places, has_asked: bool) -> Counter {
    let requests = Counter::new();
    if has_asked {
        drop(requests.begin());
    }
    let task = tokio::spawn(std::future::pending::<()>());
    places.taken.push((task.abort_handle(), requests.clone()));
    requests
}

/// Contract: API-01, CM-06
#[tokio::test(start_paused = true)]
async fn who_has_said_nothing_for_long_goes_first_and_who_has_just_come_last() {
    let mut places = Places::new(20);
    let wait = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
    let _old = there(&mut places, true);
    wait(10).await;
    let younger = there(&mut places, true);
    let working = there(&mut places, true);
    let request = working.begin();
    let _silent = there(&mut places, false);
    wait(1).await;
    let first = |places: &Places| places.first_to_go(|_, _| true);
    assert_eq!(first(&places), Some(0), "the longest of those that have asked");
    wait(2).await;
    assert_eq!(first(&places), Some(3), "the one that has said nothing for 3 seconds");
    let _fresh = there(&mut places, false);
    for (gone, left) in [(3, Some(0)), (0, Some(1))] {
        places.taken[gone].1 = working.clone();
        assert_eq!(first(&places), left);
    }
    let again = younger.begin();
    assert_eq!(first(&places), Some(4), "where nobody else is at rest");
    drop((again, request));
}

/// Contract: API-01, CM-06
#[tokio::test(start_paused = true)]
async fn who_asks_nothing_is_told_to_leave_before_there_are_too_many() {
    let mut places = Places::new(20);
    let all: Vec<Counter> = (0..18).map(|_| there(&mut places, true)).collect();
    let leaving = || all.iter().filter(|requests| requests.leaves()).count();
    for come in 1..=2 {
        let place = places.next().await;
        assert_eq!(leaving(), come);
        assert_eq!(places.taken.len(), 18, "nobody is closed at once");
        place.forget();
    }
}

/// Contract: API-01, CM-06
#[tokio::test(start_paused = true)]
async fn who_has_just_come_is_not_told_to_leave_while_there_are_places() {
    let mut places = Places::new(20);
    let all: Vec<Counter> = (0..18).map(|_| there(&mut places, false)).collect();
    places.next().await.forget();
    assert!(all.iter().all(|requests| !requests.leaves()));
    tokio::time::sleep(FIRST_WORD).await;
    places.next().await.forget();
    assert_eq!(all.iter().filter(|requests| requests.leaves()).count(), 1);
    assert_eq!(places.taken.len(), 18);
    // And where there is none it goes.
    let mut places = Places::new(1);
    let _new = there(&mut places, false);
    places.free.forget_permits(1);
    assert!(places.next().now_or_never().is_none());
    assert!(places.taken.is_empty());
}

#[test]
fn there_are_no_more_connections_than_half_of_the_files() {
    let most = |files| Patience::API.within(files).connections;
    assert_eq!((most(1 << 20), most(1_024), most(1), most(u64::MAX)), (4_000, 512, 1, 4_000));
}

/// A connection that is to leave answers what it has been asked, and takes no more.
///
/// Contract: API-01, CM-06
#[tokio::test(start_paused = true)]
async fn a_connection_that_is_to_leave_ends_once_it_has_answered() {
    for asks in [None, Some(("/slow", 2)), Some(("/large", LARGE))] {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (_stop, stopping) = tokio::sync::watch::channel(false);
        let (requests, peer) = (Counter::new(), SocketAddr::from(([127, 0, 0, 1], 0)));
        let counted = (requests.clone(), Patience::API);
        tokio::spawn(async move { connection(far, peer, Service, counted, None, Arc::new(builder()), stopping).await });
        let (mut sender, connection) = http1::handshake(TokioIo::new(near)).await.unwrap();
        let ended = tokio::spawn(connection);
        sender.send_request(request("/")).await.unwrap().into_body().collect().await.unwrap();
        let slow = asks.map(|(path, length)| (tokio::spawn(sender.send_request(request(path))), length));
        tokio::time::sleep(Duration::from_secs(1)).await;
        requests.leave();
        if let Some((slow, length)) = slow {
            let answer = slow.await.unwrap().unwrap();
            // It takes its time to read it.
            tokio::time::sleep(Duration::from_secs(30)).await;
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), length);
        }
        let begun = Instant::now();
        let _ = ended.await;
        assert!(begun.elapsed() < Duration::from_secs(6), "asks: {asks:?}");
    }
}

/// Contract: CM-06
#[tokio::test(start_paused = true)]
async fn where_answers_are_short_none_is_waited_for_long() {
    let (near, far) = tokio::io::duplex(1 << 10);
    let (_stop, stopping) = tokio::sync::watch::channel(false);
    let peer = SocketAddr::from(([127, 0, 0, 1], 0));
    let counted = (Counter::new(), Patience::SHORT);
    let serving =
        tokio::spawn(async move { connection(far, peer, Service, counted, None, Arc::new(builder()), stopping).await });
    let mut narrow = http2::Builder::new(TokioExecutor::new());
    narrow.initial_stream_window_size(0);
    let (mut sender, connection) = narrow.handshake(TokioIo::new(near)).await.unwrap();
    tokio::spawn(connection);
    let _unread = sender.send_request(request("/large")).await.unwrap();
    let begun = Instant::now();
    tokio::time::timeout(Duration::from_secs(3600), serving).await.expect("it ends").unwrap();
    assert!((10..=16).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

/// An answer that its peer has no room for holds its connection for a minute, whatever the peer answers below HTTP.
///
/// Contract: API-01, CM-06
#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_its_answer_is_closed_after_a_minute() {
    // What is no watch does not last because somebody says that it is one, nor by what is asked beside it.
    for (path, beside) in [("/large", false), ("/large?watch=1", false), ("/large", true)] {
        let mut narrow = http2::Builder::new(TokioExecutor::new());
        narrow.initial_stream_window_size(0);
        let (mut sender, connection) = narrow.handshake(TokioIo::new(connect(None))).await.unwrap();
        let ended = tokio::spawn(connection);
        let start = Instant::now();
        let _unread = sender.send_request(request(path)).await.unwrap();
        let asking = tokio::spawn(async move {
            let mut answers = Vec::new();
            if beside {
                loop {
                    tokio::time::sleep(Duration::from_secs(20)).await;
                    answers.push(sender.send_request(request("/")).await);
                }
            }
            // A client that nobody has any more would end the connection.
            std::future::pending::<()>().await;
            drop((sender, answers));
        });
        let _ = tokio::time::timeout(Duration::from_secs(3600), ended).await.expect("closed within the hour");
        let (limit, took) = (Duration::from_secs(60), start.elapsed());
        assert!((limit..=limit + FAREWELL).contains(&took), "{path}, beside others: {beside}: {took:?}");
        asking.abort();
    }
    // Somebody who reads slowly is no such peer.
    let mut narrow = http2::Builder::new(TokioExecutor::new());
    narrow.initial_stream_window_size(1 << 16);
    let (mut sender, connection) = narrow.handshake(TokioIo::new(connect(None))).await.unwrap();
    tokio::spawn(connection);
    let (mut large, mut read) = (sender.send_request(request("/large")).await.unwrap().into_body(), 0);
    while let Some(frame) = large.frame().await {
        let data = frame.unwrap().into_data().unwrap();
        read += data.len();
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(read, LARGE);
    // Beside a watch the connection stays, and the answer is given up.
    let mut watched = sender.send_request(request("/watch")).await.unwrap().into_body();
    for seconds in [50, 600] {
        let unread = sender.send_request(request("/large")).await.unwrap().into_body();
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let read = unread.collect().await.map(|read| read.to_bytes().len());
        assert_eq!(read.ok(), (seconds < 60).then_some(LARGE), "after {seconds} s");
    }
    assert_eq!(watched.frame().await.unwrap().unwrap().into_data().unwrap(), "event");
    sender.send_request(request("/")).await.expect("the connection is there");
}

/// What asks for a WebSocket, and is more than fits into a narrow pipe.
const UPGRADE: &[u8] =
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://a\r\n\r\n";

/// The near end of a connection to one who answers everything with an event and a part of another, then fails, or waits for ever; and
/// its end.
fn connect_to_events(narrow: usize, fails: bool) -> (DuplexStream, JoinHandle<()>) {
    let service = tower::service_fn(move |_: Request<Incoming>| {
        let pieces =
            ["one\ntw", "o\nthr"].map(|piece| Ok(http_body::Frame::data(Bytes::from_static(piece.as_bytes()))));
        let first = futures::stream::iter(pieces);
        let rest = futures::stream::once(async move {
            if !fails {
                futures::future::pending::<()>().await;
            }
            Err(io::Error::other("cut"))
        });
        let body = StreamBody::new(futures::StreamExt::chain(first, rest));
        let mut answer = Response::new(body.boxed_unsync());
        answer.extensions_mut().insert(crate::http::watch::Events::Lines);
        ready(Ok::<_, Infallible>(answer))
    });
    let (near, far) = tokio::io::duplex(narrow);
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let serving = tokio::spawn(async move {
        connection(
            far,
            SocketAddr::from(([127, 0, 0, 1], 0)),
            service,
            (Counter::new(), Patience::API),
            None,
            Arc::new(builder()),
            stopping,
        )
        .await;
        drop(stop);
    });
    (near, serving)
}

/// Contract: API-42
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_cut_cuts_its_websocket() {
    let (mut near, serving) = connect_to_events(1 << 16, true);
    near.write_all(UPGRADE).await.unwrap();
    let mut said = Vec::new();
    near.read_to_end(&mut said).await.unwrap();
    let head = said.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head") + 4;
    assert!(said.starts_with(b"HTTP/1.1 101 "), "{}", said.escape_ascii());
    assert_eq!(said[head..], *b"\x81\x04one\n\x81\x04two\n", "two messages, and not that it was closed");
    serving.await.unwrap();
}

/// Contract: API-42, CM-06
#[tokio::test(start_paused = true)]
async fn a_websocket_that_does_not_come_about_ends_with_its_connection() {
    // Its client is gone before it is asked for, or before the head of the answer has room.
    for after in [0, 1] {
        let (mut near, serving) = connect_to_events(64, false);
        near.write_all(UPGRADE).await.unwrap();
        tokio::time::sleep(Duration::from_millis(after)).await;
        drop(near);
        tokio::time::timeout(Duration::from_secs(3600), serving).await.expect("it ends").unwrap();
    }
}
