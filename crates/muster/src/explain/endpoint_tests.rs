//! What the endpoint answers before anything is asked, and to too many at once.

use std::convert::Infallible;

use http::Request;
use http_body_util::BodyExt as _;
use muster_runtime::client::{Client, Options};
use serde_json::Value;

use super::*;

/// Answers of a manager that runs no controller, at a door that lets everybody pass.
fn explaining() -> Explaining {
    let everybody = tower::service_fn(|_: Request<Full<Bytes>>| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("{}"))))
    });
    let door = Door::deciding(move |_| Ok(Client::in_process(everybody, &Options::default())));
    Explaining::new(Explainer::default(), door, None)
}

async fn told(response: Response<Full<Bytes>>) -> (u16, Value) {
    let code = response.status().as_u16();
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
    (code, serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap())
}

async fn asked(explaining: &Explaining, method: Method, rest: &str) -> (u16, Value) {
    let token = HeaderValue::from_static("Bearer token");
    told(explaining.answer(&method, rest, "", Some(&token)).await).await
}

#[tokio::test]
async fn paths_that_name_no_object_are_not_found() {
    let explaining = explaining();
    for rest in [
        "",
        "replicasets",
        "replicasets/shop",
        "replicasets/shop/web/more",
        "pods/shop/web",
        "secrets/shop/web",
        "rs/shop/web",
        "replicasets/shop/..",
        "replicasets/shop/..%2fsecrets",
        "replicasets//web",
        "replicasets/shop/web?x",
    ] {
        let (code, status) = asked(&explaining, Method::GET, rest).await;
        assert_eq!((code, &status["reason"], &status["kind"]), (404, &json!("NotFound"), &json!("Status")), "{rest}");
        assert!(status["message"].as_str().unwrap().contains("replicasets"), "{status}");
    }
}

#[test]
fn what_is_asked_is_in_the_query() {
    let history = |since: Option<f64>| Question::History { since: since.map(Duration::from_secs_f64) };
    for (query, question) in [
        ("", Question::Now),
        ("history=false&since=3", Question::Now),
        ("other=1", Question::Now),
        ("history=true", history(None)),
        ("since=1.5&history=true", history(Some(1.5))),
    ] {
        assert_eq!(Question::of(query).expect(query), question);
    }
    for query in ["history=yes", "history=true&since=-1", "history=true&since=1m", "since=1e300"] {
        let refused = Question::of(query).expect_err(query);
        assert!(refused.contains("expected"), "{refused}");
    }
}

#[tokio::test]
async fn only_get_is_allowed() {
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::HEAD] {
        let (code, status) = asked(&explaining(), method, "replicasets/shop/web").await;
        assert_eq!((code, &status["reason"]), (405, &json!("MethodNotAllowed")));
    }
}

#[tokio::test]
async fn a_controller_that_does_not_run_knows_nothing() {
    let (code, status) = asked(&explaining(), Method::GET, "replicasets/shop/web").await;
    assert_eq!(code, 404);
    assert_eq!(status["message"], "this manager does not run the replicaset-controller");
}

#[tokio::test]
async fn too_many_at_a_time_are_sent_away() {
    let never = tower::service_fn(|_: Request<Full<Bytes>>| {
        std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>()
    });
    let door = Door::deciding(move |_| Ok(Client::in_process(never, &Options::default())));
    let explaining = Explaining::new(Explainer::default(), door, None);
    let mut waiting = Vec::new();
    for _ in 0..AT_A_TIME {
        let asking = asked(&explaining, Method::GET, "replicasets/shop/web");
        let mut asking = Box::pin(asking);
        assert!(futures::poll!(&mut asking).is_pending(), "the API server does not decide");
        waiting.push(asking);
    }
    let (code, status) = asked(&explaining, Method::GET, "replicasets/shop/web").await;
    assert_eq!((code, &status["reason"]), (429, &json!("TooManyRequests")));
    drop(waiting);
    let mut asking = Box::pin(asked(&explaining, Method::GET, "replicasets/shop/web"));
    assert!(futures::poll!(&mut asking).is_pending(), "whoever goes away leaves his turn to others");
}
