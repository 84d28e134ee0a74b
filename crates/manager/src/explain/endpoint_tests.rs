//! What the endpoint answers before anything is asked, and to too many at once.

use std::collections::BTreeSet;
use std::convert::Infallible;

use http::Request;
use http_body_util::Full;
use muster_apiserver::ApiServer;
use muster_runtime::client::{Client, Options};
use muster_runtime::manager::{Manager, Options as ManagerOptions, REPLICASET};
use muster_runtime::shutdown;
use serde_json::Value;

use super::*;
use crate::explain::teller;
use muster_runtime::explain::Explainer;

/// Answers of a manager that runs no controller.
fn explaining() -> Explaining {
    Explaining::new(teller::alone(Explainer::default(), None))
}

/// A client of a server that lets everybody do anything.
fn everybody() -> Client {
    let server = tower::service_fn(|_: Request<Full<Bytes>>| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("{}"))))
    });
    Client::in_process(server, &Options::default())
}

/// An authorizer that lets everybody pass.
fn open() -> Authorizer {
    Authorizer::deciding(|_| Ok(everybody()))
}

fn told(response: &Response<Bytes>) -> (u16, Value) {
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
    (response.status().as_u16(), serde_json::from_slice(response.body()).unwrap())
}

async fn asked(explaining: &Explaining, authorizer: &Authorizer, method: Method, path: &str) -> (u16, Value) {
    let token = HeaderValue::from_static("Bearer token");
    told(&explaining.answer(Caller::Bearer(authorizer, Some(&token)), &method, path, "").await)
}

const WEB: &str = "/explain/replicasets/shop/web";

#[tokio::test]
async fn paths_that_name_no_object_are_not_found() {
    let explaining = explaining();
    for path in [
        "/explain/",
        "/explain/replicasets",
        "/explain/replicasets/shop",
        "/explain/replicasets/shop/web/more",
        "/explain/pods/shop/web",
        "/explain/secrets/shop/web",
        "/explain/rs/shop/web",
        "/explain/replicasets/shop/..",
        "/explain/replicasets/shop/..%2fsecrets",
        "/explain/replicasets//web",
        "/explain/replicasets/shop/web?x",
        "/inside/",
        "/inside/shop",
        "/elsewhere",
    ] {
        let (code, status) = asked(&explaining, &open(), Method::GET, path).await;
        assert_eq!((code, &status["reason"], &status["kind"]), (404, &json!("NotFound"), &json!("Status")), "{path}");
        assert!(status["message"].as_str().unwrap().contains("replicasets"), "{status}");
    }
}

#[test]
fn what_is_asked_is_in_the_query() {
    let web = || (Kind::ReplicaSet, ObjectKey::new("shop", "web"));
    let history = |since: Option<f64>| Question::History(web(), since.map(Duration::from_secs_f64));
    for (query, question) in [
        ("", Question::Now(web())),
        ("history=false&since=3", Question::Now(web())),
        ("other=1", Question::Now(web())),
        ("history=true", history(None)),
        ("since=1.5&history=true", history(Some(1.5))),
    ] {
        assert_eq!(Question::of(WEB, query).expect(query), question);
    }
    for query in ["history=yes", "history=true&since=-1", "history=true&since=1m", "since=1e300"] {
        let refused = Question::of(WEB, query).expect_err(query);
        assert!(refused.code == 400 && refused.message.contains("expected"), "{refused:?}");
    }
    assert_eq!(Question::of("/inside", "history=true").expect("no object"), Question::Inside);
}

#[tokio::test]
async fn only_get_is_allowed() {
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::HEAD] {
        for path in [WEB, "/inside"] {
            let (code, status) = asked(&explaining(), &open(), method.clone(), path).await;
            assert_eq!((code, &status["reason"]), (405, &json!("MethodNotAllowed")));
        }
    }
}

#[tokio::test]
async fn a_controller_that_does_not_run_knows_nothing() {
    let (code, status) = asked(&explaining(), &open(), Method::GET, WEB).await;
    assert_eq!(code, 404);
    assert_eq!(status["message"], "this manager does not run the replicaset-controller");
    let (code, status) = asked(&explaining(), &open(), Method::GET, "/inside").await;
    assert_eq!((code, &status["message"]), (404, &json!("this manager runs no controller")));
}

/// Asks as somebody who may do anything.
async fn asked_of_web(explaining: &Explaining, query: &str) -> (u16, Value) {
    told(&explaining.answer(Caller::Master, &Method::GET, "/explain/replicasets/default/web", query).await)
}

/// The same, again and again until the answer is as `wanted`.
async fn until(explaining: &Explaining, query: &str, wanted: impl Fn(u16, &Value) -> bool) {
    let mut last = None;
    for _ in 0..1_000 {
        let (code, json) = asked_of_web(explaining, query).await;
        if wanted(code, &json) {
            return;
        }
        last = Some((code, json));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{query:?} was last answered with {last:?}")
}

/// Contract: FR-02
#[tokio::test]
async fn the_history_of_what_is_gone_is_told_and_what_never_was_is_not_found() {
    let server = ApiServer::new(muster_apiserver::Options::system().unwrap());
    let client = Client::in_process(server.service(), &Options::default());
    let options = ManagerOptions { controllers: BTreeSet::from([REPLICASET]), ..ManagerOptions::default() };
    let manager = Manager::new(&client, options);
    let explaining = Explaining::new(teller::alone(manager.explainer(), None));
    let (_trigger, stop) = shutdown::channel();
    let _running = tokio::spawn(manager.run(stop));
    let is_missing = |code: u16, status: &Value| {
        code == 404 && status["message"].as_str().is_some_and(|said| said.contains("default/web not found"))
    };
    let has_synced =
        |code: u16, history: &Value| code == 200 && history["syncs"].as_array().is_some_and(|syncs| !syncs.is_empty());

    // Once the caches are filled.
    until(&explaining, "", is_missing).await;
    for query in ["history=true", "history=true&since=60"] {
        until(&explaining, query, is_missing).await;
    }

    let web = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    client.create(sets, web.to_string().into()).await.expect("it is created");
    until(&explaining, "history=true", has_synced).await;

    client.delete(&format!("{sets}/web"), None).await.expect("it is deleted");
    until(&explaining, "", is_missing).await;
    let (code, history) = asked_of_web(&explaining, "history=true").await;
    assert!(has_synced(code, &history), "{code} {history}");
    // Whether or not they are as young as that.
    let (code, history) = asked_of_web(&explaining, "history=true&since=0").await;
    assert_eq!((code, &history["kind"]), (200, &json!("History")), "{history}");
}

/// Contract: FR-02
#[tokio::test]
async fn a_shadow_has_the_history_only() {
    let shadow =
        |bytes| Explaining::of_shadow(Kept::new(bytes, BTreeSet::from(["ReplicaSet"]), everybody(), "kube-system"));
    let site = "/explain/deployments/shop/site";
    for (bytes, path, query, words) in [
        (100, WEB, "", "this is a shadow, which has no queue"),
        (100, "/inside", "", "this is a shadow, which has no queue"),
        (100, site, "history=true", "does not watch the deployment-controller (--controllers)"),
        (0, WEB, "history=true", "keeps no history (--history-bytes=0)"),
    ] {
        let answer = shadow(bytes).answer(Caller::Master, &Method::GET, path, query).await;
        let (code, status) = told(&answer);
        assert_eq!((code, &status["reason"]), (404, &json!("NotFound")), "{path}");
        assert!(status["message"].as_str().unwrap().contains(words), "{status}");
    }
    let (code, history) = told(&shadow(100).answer(Caller::Master, &Method::GET, WEB, "history=true").await);
    assert_eq!((code, &history["kind"], &history["lines"]), (200, &json!("ShadowHistory"), &json!([])));
    let answer = shadow(100).answer(Caller::Bearer(&open(), None), &Method::GET, WEB, "history=true").await;
    assert_eq!(told(&answer).0, 401);
}

/// Contract: PG-02
#[tokio::test]
async fn nobody_is_told_whom_the_door_does_not_let_pass() {
    for path in [WEB, "/inside"] {
        let answer = explaining().answer(Caller::Bearer(&open(), None), &Method::GET, path, "").await;
        assert_eq!(
            (told(&answer).0, &answer.headers()[header::WWW_AUTHENTICATE]),
            (401, &HeaderValue::from_static("Bearer"))
        );
        let answer = explaining().answer(Caller::Master, &Method::GET, path, "").await;
        assert_eq!(told(&answer).0, 404, "the embedded server let them pass");
    }
}

#[tokio::test]
async fn where_no_manager_leads_none_is_asked() {
    let explaining = Explaining::new(Arc::new(|| None));
    for path in [WEB, "/inside"] {
        let answer = explaining.answer(Caller::Master, &Method::GET, path, "").await;
        assert_eq!((told(&answer).0, &answer.headers()[header::RETRY_AFTER]), (503, &HeaderValue::from_static("1")));
    }
}

#[tokio::test]
async fn too_many_at_a_time_are_sent_away() {
    let never = tower::service_fn(|_: Request<Full<Bytes>>| {
        std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>()
    });
    let authorizer = Authorizer::deciding(move |_| Ok(Client::in_process(never, &Options::default())));
    let explaining = explaining();
    let mut waiting = Vec::new();
    for _ in 0..MOST_CALLERS {
        let asking = asked(&explaining, &authorizer, Method::GET, WEB);
        let mut asking = Box::pin(asking);
        assert!(futures::poll!(&mut asking).is_pending(), "the API server does not decide");
        waiting.push(asking);
    }
    for path in [WEB, "/inside"] {
        let (code, status) = asked(&explaining, &authorizer, Method::GET, path).await;
        assert_eq!((code, &status["reason"]), (429, &json!("TooManyRequests")));
    }
    // Those who are not known yet take no turn from those who are.
    let answer = explaining.answer(Caller::Master, &Method::GET, WEB, "").await;
    assert_ne!(told(&answer).0, 429);
    drop(waiting);
    let mut asking = Box::pin(asked(&explaining, &authorizer, Method::GET, "/inside"));
    assert!(futures::poll!(&mut asking).is_pending(), "whoever goes away leaves his turn to others");
}
