//! The client against a scripted server.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use tokio::time::Instant;

use super::*;
use crate::script::{server, server_at, server_with};

const REFUSED: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too many requests","reason":"TooManyRequests","details":{"retryAfterSeconds":3},"code":429}"#;

/// Contract: CM-03
#[tokio::test(start_paused = true)]
async fn a_post_is_sent_again_after_429_because_that_is_a_sure_refusal() {
    let (client, mut server) = server();
    let start = Instant::now();
    let posted = tokio::spawn(async move { client.create("/api/v1/namespaces/a/pods", "{}".into()).await });
    server.next().await.answer_with(429, &[("Retry-After", "2")], REFUSED);
    server.next().await.answer(429, REFUSED);
    assert_eq!(start.elapsed().as_secs(), 2, "the header comes before the details");
    let again = server.next().await;
    assert_eq!(start.elapsed().as_secs(), 5, "without a header, the details say how long");
    assert_eq!((again.method.as_str(), &again.body[..]), ("POST", &b"{}"[..]));
    again.answer(201, r#"{"kind":"PartialObjectMetadata","metadata":{"name":"a-x","uid":"u","resourceVersion":"7"}}"#);
    let written = posted.await.unwrap().unwrap();
    assert_eq!(written, Written { name: "a-x".into(), uid: "u".into(), resource_version: "7".parse().ok() });
}

/// Contract: CM-03
#[tokio::test(start_paused = true)]
async fn no_post_is_sent_again_where_it_may_have_been_received() {
    let (client, mut server) = server();
    let post = |client: Client| tokio::spawn(async move { client.post("/x", "{}".into()).await });

    let refused = post(client.clone());
    server.next().await.answer_with(503, &[("Retry-After", "1")], "");
    let error = refused.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some(503));

    let lost = post(client.clone());
    server.next().await.fail();
    let error = lost.await.unwrap().unwrap_err();
    assert!(matches!(error, ClientError::Transport { received: Received::Perhaps, .. }), "{error}");
    assert!(error.may_have_been_received());

    let silent = post(client);
    let asked = server.next().await;
    assert!(silent.await.unwrap().unwrap_err().may_have_been_received(), "a silent server is given up");
    drop(asked);
    assert!(server.try_next().await.is_none());
}

/// Contract: CM-03
#[tokio::test(start_paused = true)]
async fn a_503_is_retried_after_its_retry_after_and_not_for_ever() {
    let (client, mut server) = server();
    let got = tokio::spawn({
        let client = client.clone();
        async move { client.get("/x").await }
    });
    for _ in 0..=RETRIES {
        server.next().await.answer_with(503, &[("Retry-After", "0")], "");
    }
    assert_eq!(got.await.unwrap().unwrap_err().code(), Some(503));
    assert!(server.try_next().await.is_none());

    // One that names no time is the caller's to judge.
    let got = tokio::spawn(async move { client.get("/x").await });
    server.next().await.answer(503, "");
    assert_eq!(got.await.unwrap().unwrap_err().code(), Some(503));
}

/// A long `Retry-After` is left to the caller.
///
/// Contract: CM-03
#[tokio::test(start_paused = true)]
async fn a_retry_after_is_waited_for_ten_seconds_in_all_and_reported_up_to_a_minute() {
    // Retry-After in seconds; after how many requests and seconds the caller gets the refusal; the wait that it reports
    let cases =
        [("4", 3, 8, 4), ("10", 2, 10, 10), ("11", 1, 0, 11), ("3600", 1, 0, 60), ("18446744073709551615", 1, 0, 60)];
    for (after, requests, seconds, told) in cases {
        let (client, mut server) = server();
        let start = Instant::now();
        let posted = tokio::spawn(async move { client.create("/api/v1/namespaces/a/pods", "{}".into()).await });
        for _ in 0..requests {
            server.next().await.answer_with(429, &[("Retry-After", after)], "");
        }
        let error = posted.await.unwrap().unwrap_err();
        assert_eq!(start.elapsed(), Duration::from_secs(seconds), "Retry-After: {after}");
        let ClientError::Api(error) = error else { panic!("{error}") };
        assert_eq!(error.retry_after(), Some(Duration::from_secs(told)), "Retry-After: {after}");
        assert!(server.try_next().await.is_none());
    }
}

/// Contract: B-11
#[tokio::test(start_paused = true)]
async fn the_servers_clock_is_read_from_its_answers() {
    let local = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
    let (client, mut server) = server_at(Clock::starting_at(local));
    assert_eq!(client.server_now(), local);
    for second in 0..3 {
        let got = tokio::spawn({
            let client = client.clone();
            async move { client.get("/x").await }
        });
        let date = format!("Thu, 01 Jan 2026 01:00:0{second} GMT");
        server.next().await.answer_with(200, &[("Date", &date)], "{}");
        got.await.unwrap().unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert_eq!(client.server_now().to_string(), "2026-01-01T01:00:03Z");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_a_status_names_no_object() {
    let (client, mut server) = server();
    let deleted = tokio::spawn(async move { client.delete_metadata("/x", "{}".into()).await });
    let asked = server.next().await;
    assert_eq!(asked.headers[header::CONTENT_TYPE], "application/json");
    asked.answer(200, r#"{"kind":"Status","metadata":{},"status":"Success","details":{"uid":"u"}}"#);
    assert_eq!(deleted.await.unwrap().unwrap().resource_version, None);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_displayed_as_the_servers_message() {
    let (client, mut server) = server();
    let got = tokio::spawn(async move { client.get("/x").await });
    server.next().await.refuse(404, "NotFound", "pods \"x\" not found");
    let error = got.await.unwrap().unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(error.to_string(), "pods \"x\" not found");
}

/// Contract: B-14, CM-03
#[tokio::test(start_paused = true)]
async fn by_default_the_client_sets_no_limit_of_its_own() {
    let (client, mut server) = server();
    let start = Instant::now();
    let asking: Vec<_> = (0..500)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.get("/x").await })
        })
        .collect();
    let mut asked = Vec::new();
    for _ in 0..500 {
        asked.push(server.next().await);
    }
    assert_eq!(start.elapsed(), Duration::ZERO, "all at once, before the first is answered");
    asked.into_iter().for_each(|asked| asked.answer(200, "{}"));
    for answered in asking {
        answered.await.unwrap().unwrap();
    }
}

/// Where the server answers at once, who sends many requests does not keep the others waiting until it has sent all.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn between_two_requests_to_a_server_in_this_process_other_tasks_run() {
    let service = tower::service_fn(|_request: Request<RequestBody>| async {
        Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from_static(b"{}"))))
    });
    let client = Client::in_process(service, &Options::default());
    // Both on the one worker.
    let sending = tokio::spawn(async move {
        let sent = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let seen = Arc::clone(&sent);
        let other = tokio::spawn(async move {
            let mut seen_each = Vec::new();
            for _ in 0..3 {
                seen_each.push(seen.load(std::sync::atomic::Ordering::Relaxed));
                tokio::task::yield_now().await;
            }
            seen_each
        });
        for _ in 0..20 {
            client.get("/x").await.unwrap();
            sent.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        other.await.unwrap()
    });
    let seen = sending.await.unwrap();
    assert!(seen.iter().all(|sent| *sent <= 3), "it ran after {seen:?} requests");
}

/// Writes request their answer in the shortest form that a server may support.
#[tokio::test(start_paused = true)]
async fn a_write_asks_for_metadata_in_protobuf_and_reads_what_it_gets() {
    const METADATA: &[u8] = include_bytes!("../../../objects/tests/vectors/protobuf/metadata.pb");
    let (client, mut server) = server();
    let create = |client: Client| tokio::spawn(async move { client.create("/x", "{}".into()).await });
    let created = create(client.clone());
    let asked = server.next().await;
    let partial = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    let accept = format!("application/vnd.kubernetes.protobuf{partial}{partial}");
    assert_eq!(asked.headers[header::ACCEPT], accept);
    assert_eq!(asked.headers[header::CONTENT_TYPE], "application/json");
    asked.answer_with(201, &[("Content-Type", "application/vnd.kubernetes.protobuf")], METADATA);
    let written = created.await.unwrap().unwrap();
    assert_eq!((&*written.name, written.resource_version), ("plain", "219".parse().ok()));

    let refused = create(client);
    let status = serde_json::json!({"kind": "Status", "message": "no room", "reason": "Forbidden", "code": 403});
    let body = crate::script::protobuf::body(&status);
    server.next().await.answer_with(403, &[("Content-Type", "application/vnd.kubernetes.protobuf")], body);
    let error = refused.await.unwrap().unwrap_err();
    assert_eq!((error.code(), error.to_string()), (Some(403), "no room".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_command_says_what_it_waits_for_and_gives_up_a_server_that_never_answered() {
    static TOLD: AtomicU32 = AtomicU32::new(0);
    let told = || TOLD.load(Ordering::Relaxed);
    let tell: fn(&str) = |_| {
        TOLD.fetch_add(1, Ordering::Relaxed);
    };
    let (client, mut server) = server_with(&Options { silence: Some(tell), ..Options::default() });
    let get = || {
        let client = client.clone();
        tokio::spawn(async move { client.get("/x").await })
    };
    let start = Instant::now();
    let silent = [get(), get()];
    let kept = [server.next().await, server.next().await];
    tokio::time::sleep(Duration::from_millis(2_900)).await;
    assert_eq!(told(), 0);
    for got in silent {
        let error = got.await.unwrap().unwrap_err().to_string();
        assert_eq!((start.elapsed().as_secs(), told()), (30, 1), "once for both: {error}");
        assert!(error.ends_with("no answer within 30s"), "{error}");
    }
    drop(kept);

    // One that has answered may be busy.
    let got = get();
    server.next().await.answer(200, "{}");
    got.await.unwrap().unwrap();
    let got = get();
    let busy = server.next().await;
    tokio::time::sleep(Duration::from_secs(74)).await;
    assert_eq!(told(), 2);
    busy.answer(200, "{}");
    got.await.unwrap().unwrap();
    let got = get();
    let _kept = server.next().await;
    let error = got.await.unwrap().unwrap_err().to_string();
    assert!(error.ends_with("no answer within 75s"), "{error}");
    assert_eq!(told(), 3);
}
