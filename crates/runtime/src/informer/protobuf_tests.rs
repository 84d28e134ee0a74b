//! The same protocol in protobuf, and with a server that has none.

use muster_objects::ReplicaSet;

use super::*;
use crate::{
    client::Options,
    clock::Clock,
    script::{protobuf, server_with},
};

const PROTOBUF: (&str, &str) = ("Content-Type", "application/vnd.kubernetes.protobuf");

fn accept(asked: &Asked) -> &str {
    asked.headers["accept"].to_str().unwrap()
}

fn page(items: &[Value], version: u64, token: &str) -> Vec<u8> {
    protobuf::body(&serde_json::from_str(&list(items, version, token)).unwrap())
}

fn expired() -> Value {
    json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"})
}

/// Contract: INF-01, INF-05
#[tokio::test(start_paused = true)]
async fn pods_are_read_in_protobuf_where_the_server_has_it() {
    let (mut server, log, _task) = start(1);
    let asked = server.next().await;
    assert_eq!(accept(&asked), "application/vnd.kubernetes.protobuf,application/json");
    let stream = asked.stream_in_protobuf();
    stream.event("ADDED", &pod("a", 7));
    stream.event("ADDED", &pod("b", 3));
    stream.bookmark(9, false);
    settle().await;
    assert!(log.take().is_empty(), "half a list is no state");
    stream.bookmark(10, true);
    stream.event("MODIFIED", &pod("b", 11));
    stream.event("DELETED", &pod("a", 12));
    settle().await;
    assert_eq!(log.take(), ["all a b at 10", "put b 11", "gone a 12"]);
    stream.bookmark(40, false);
    settle().await;
    assert_eq!(log.take(), ["reached 40"]);

    // Cut off in the middle of a frame: it is resumed from what was whole.
    let cut = protobuf::frame("ADDED", &pod("c", 41));
    stream.raw(cut[..cut.len() - 1].to_vec());
    stream.fail();
    let again = server.next().await;
    assert_eq!(query(&again, "resourceVersion").as_deref(), Some("40"));
    assert!(log.take().is_empty());

    // In the pieces that it happens to come in.
    let stream = again.stream_in_protobuf();
    for byte in cut {
        stream.raw(vec![byte]);
    }
    settle().await;
    assert_eq!(log.take(), ["put c 41"]);
}

/// Contract: INF-01
#[tokio::test(start_paused = true)]
async fn pages_come_in_protobuf_and_each_answer_says_for_itself_what_it_is() {
    let (mut server, log, _task) = start(1);
    let status = json!({"kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid", "message": "no"});
    server.next().await.answer_with(422, &[PROTOBUF], protobuf::body(&status));
    let first = server.next().await;
    assert_eq!(accept(&first), "application/vnd.kubernetes.protobuf,application/json");
    first.answer_with(200, &[PROTOBUF], page(&[pod("a", 1), pod("b", 2)], 10, "t"));
    let second = server.next().await;
    assert_eq!(second.path, "/api/v1/pods?limit=500&continue=t");
    // Another server behind the same address, which has no protobuf.
    second.answer_with(200, &[("Content-Type", "application/json")], list(&[pod("c", 3)], 10, ""));
    let stream = server.next().await.stream();
    stream.event("MODIFIED", &pod("a", 11));
    settle().await;
    assert_eq!(log.take(), ["all a b c at 10", "put a 11"]);
    drop(stream);
    let stream = server.next().await.stream_in_protobuf();
    stream.event("MODIFIED", &pod("a", 12));
    settle().await;
    assert_eq!(log.take(), ["put a 12"]);
}

/// Contract: INF-05
#[tokio::test(start_paused = true)]
async fn expired_in_protobuf_relists() {
    let (mut server, log, stream, _task) = watching(1).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(stream);
    let stream = server.next().await.stream_in_protobuf();
    stream.event("ERROR", &expired());
    let relist = server.next().await;
    assert_eq!(query(&relist, "sendInitialEvents").as_deref(), Some("true"));
    let stream = relist.stream_in_protobuf();
    stream.event("ADDED", &pod("b", 30));
    stream.bookmark(31, true);
    settle().await;
    assert_eq!(log.take(), ["all b at 31"]);

    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(stream);
    server.next().await.answer_with(410, &[PROTOBUF], protobuf::body(&expired()));
    assert_eq!(query(&server.next().await, "sendInitialEvents").as_deref(), Some("true"));
}

/// Contract: INF-05
#[tokio::test(start_paused = true)]
async fn a_frame_that_is_no_event_is_a_failure_and_an_unreadable_object_is_not() {
    let (mut server, log, stream, _task) = watching(1).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(stream);
    let stream = server.next().await.stream_in_protobuf();
    // The name is `\u{fffd}` in JSON and no text at all here.
    let mut frame = protobuf::frame("ADDED", &pod("x", 11));
    let name = frame.windows(3).position(|bytes| bytes == b"\x0a\x01x").unwrap();
    frame[name + 2] = 0xff;
    stream.raw(frame);
    stream.event("ADDED", &pod("b", 12));
    settle().await;
    assert_eq!(log.take(), ["put b 12"]);

    let before = Instant::now();
    stream.raw(b"\0\0\0\x02{}".to_vec());
    assert_eq!(query(&server.next().await, "sendInitialEvents").as_deref(), Some("true"), "as client-go");
    assert!(before.elapsed() >= Duration::from_millis(800));
}

/// A ReplicaSet's template is passed on byte for byte, so it is read as JSON.
///
/// Contract: B-13
#[tokio::test(start_paused = true)]
async fn objects_with_a_template_are_read_as_json() {
    let (client, mut server) = server();
    tokio::spawn(async move {
        crate::informer::Informer::<ReplicaSet>::new(client, WatchedResource::replicasets(), Duration::ZERO, 1)
            .run()
            .await;
    });
    assert_eq!(accept(&server.next().await), "application/json");
}

#[tokio::test(start_paused = true)]
async fn protobuf_can_be_turned_off() {
    let options = Options { clock: Clock::system(), protobuf: false, ..Options::default() };
    let (client, mut server) = server_with(&options);
    tokio::spawn(async move {
        crate::informer::Informer::<Pod>::new(client, WatchedResource::pods(), Duration::ZERO, 1).run().await;
    });
    assert_eq!(accept(&server.next().await), "application/json");
}
