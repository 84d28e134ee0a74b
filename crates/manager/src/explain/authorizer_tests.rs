//! The authorizer against API servers of the tests' making.

use std::convert::Infallible;
use std::sync::Mutex;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::{Ready, ready};
use http::{Request, Response};
use http_body_util::Full;

use super::*;

/// The code that a path is answered with.
type Answer = fn(&str) -> u16;
/// The tokens and paths that were asked, in their order.
type Asked = Arc<Mutex<Vec<(String, String)>>>;

/// A server that answers each path with a code, and remembers what it was asked.
#[derive(Clone)]
struct Server {
    answer: Answer,
    asked: Asked,
    /// The token of the client that speaks to it.
    token: String,
}

impl<B> tower::Service<Request<B>> for Server {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let path = request.uri().to_string();
        assert_eq!(request.method(), http::Method::GET, "nothing is written");
        let accept = request.headers()[http::header::ACCEPT].to_str().expect("text").to_owned();
        assert!(accept.contains("PartialObjectMetadata"), "metadata only: {accept}");
        let code = (self.answer)(&path);
        self.asked.lock().expect("no panic").push((self.token.clone(), path));
        let said =
            format!(r#"{{"kind":"Status","status":"Failure","code":{code},"reason":"R","message":"said {code}"}}"#);
        let body = if code == 200 { "{}".to_owned() } else { said };
        ready(Ok(Response::builder().status(code).body(Full::new(Bytes::from(body))).expect("an answer")))
    }
}

/// An authorizer, and what its server was asked.
fn authorizer(answer: Answer) -> (Authorizer, Asked) {
    let asked = Asked::default();
    let seen = Arc::clone(&asked);
    let authorizer = Authorizer::deciding(move |token| {
        let server = Server { answer, asked: Arc::clone(&seen), token: token.to_owned() };
        Ok(Client::in_process(server, &Options::default()))
    });
    (authorizer, asked)
}

/// Whether the bearer may know what is known of an object of this kind, or else of all.
async fn pass(authorizer: &Authorizer, header: Option<&str>, kind: impl Into<Option<Kind>>) -> Result<(), ApiError> {
    let header = header.map(|text| HeaderValue::from_str(text).expect("a header"));
    let key = ObjectKey::new("shop", "web");
    authorizer.pass(header.as_ref(), kind.into().map(|kind| (kind, &key))).await
}

#[tokio::test]
async fn the_api_server_is_asked_with_the_callers_token_for_what_is_told() {
    let (authorizer, asked) = authorizer(|_| 200);
    pass(&authorizer, Some("Bearer one"), Kind::ReplicaSet).await.unwrap();
    pass(&authorizer, Some("bearer  two"), Kind::Deployment).await.unwrap();
    pass(&authorizer, Some("bearer three"), None).await.unwrap();
    let asked = asked.lock().unwrap();
    let asked: Vec<(&str, &str)> = asked.iter().map(|(token, path)| (&**token, &**path)).collect();
    assert_eq!(
        asked,
        [
            ("one", "/apis/apps/v1/namespaces/shop/replicasets/web"),
            ("one", "/api/v1/namespaces/shop/pods?limit=1"),
            ("two", "/apis/apps/v1/namespaces/shop/deployments/web"),
            ("two", "/api/v1/namespaces/shop/pods?limit=1"),
            ("two", "/apis/apps/v1/namespaces/shop/replicasets?limit=1"),
            ("three", "/apis/apps/v1/deployments?limit=1"),
            ("three", "/apis/apps/v1/replicasets?limit=1"),
            ("three", "/api/v1/replicationcontrollers?limit=1"),
            ("three", "/api/v1/pods?limit=1"),
        ]
    );
}

#[tokio::test]
async fn without_a_token_nobody_is_asked() {
    let (authorizer, asked) = authorizer(|_| 200);
    let long = format!("Bearer {}", "x".repeat(LONGEST_TOKEN + 1));
    for header in [None, Some("Basic dTpw"), Some("Bearer"), Some("Bearer "), Some("Bearer a b"), Some(&*long)] {
        for kind in [Some(Kind::ReplicaSet), None] {
            let refused = pass(&authorizer, header, kind).await.unwrap_err();
            assert_eq!((refused.code, &*refused.reason), (401, "Unauthorized"));
        }
    }
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_the_api_server_refuses_is_refused_in_its_words() {
    let answers: [(Answer, u16); 4] = [
        (|_| 401, 401),
        (|path| if path.ends_with("/web") { 404 } else { 200 }, 404),
        (|path| if path.contains("/pods") { 403 } else { 200 }, 403),
        (|path| if path.contains("/replicasets?") { 403 } else { 200 }, 403),
    ];
    for (answer, code) in answers {
        let (authorizer, _) = authorizer(answer);
        let refused = pass(&authorizer, Some("Bearer token"), Kind::Deployment).await.unwrap_err();
        assert_eq!((refused.code, refused.message), (code, format!("said {code}")));
    }
}

/// Contract: PG-02
#[tokio::test]
async fn of_all_objects_nobody_knows_who_may_not_list_every_kind() {
    let answers: [Answer; 4] = [
        |path| if path.contains("/deployments?") { 403 } else { 200 },
        |path| if path.contains("/replicasets?") { 403 } else { 200 },
        |path| if path.contains("/replicationcontrollers?") { 403 } else { 200 },
        |path| if path.contains("/pods?") { 403 } else { 200 },
    ];
    for answer in answers {
        let (authorizer, _) = authorizer(answer);
        let refused = pass(&authorizer, Some("Bearer token"), None).await.unwrap_err();
        assert_eq!((refused.code, &*refused.message), (403, "said 403"));
    }
}

#[tokio::test]
async fn an_api_server_that_cannot_be_reached_lets_nobody_pass() {
    let config = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
    let refused = pass(&Authorizer::new(&config), Some("Bearer secret"), Kind::ReplicaSet).await.unwrap_err();
    assert_eq!((refused.code, refused.message.contains("secret")), (503, false));
}

#[tokio::test]
async fn a_token_that_is_no_header_is_refused_and_not_told() {
    let authorizer = Authorizer::deciding(|_| {
        Err(ClientError::Configuration { what: "authentication".into(), source: "secret is no header".into() })
    });
    let refused = pass(&authorizer, Some("Bearer secret"), Kind::ReplicaSet).await.unwrap_err();
    assert_eq!((refused.code, refused.message.contains("secret")), (401, false));
}
