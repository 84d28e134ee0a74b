//! The page over HTTP: its few files, the stream of what changes, and what its buttons ask for.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /open/TOKEN` | the cookie and the key, and the way to the page |
//! | `GET /`, `/rollout/...`, ... | the page, empty: what it shows comes by the stream |
//! | `GET /page.js`, `/worker.js`, `/enter.js`, `/style.css`, `/icon.svg` | its files |
//! | `GET /place/KIND/NAMESPACE/OWNER/POD` | a pod's place in the order of deletion |
//! | `GET /live?watch=true` (so that its connection may last) | the stream of [frames](crate::live::Frame), as server-sent events; its first event is its number |
//! | `POST /views` | which views a stream is to tell of |
//! | `POST /act` | what a button does |

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame as BodyFrame, Incoming};
use maud::{DOCTYPE, html};
use muster_apiserver::serve::Lasting;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;

use crate::acts::Act;
use crate::live::{Hub, Viewer};
use crate::sessions::{Needs, Sessions, Verdict};
use crate::view::{Scene, View};

/// How much a request may say.
const MOST_BYTES: usize = 64 * 1024;
/// How many views one stream may tell of.
const MOST_VIEWS: usize = 64;
/// How often a stream says that it is there, so that a browser's proxy keeps it, and an end of it is noticed.
const ALIVE: Duration = Duration::from_secs(15);

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The page as a service.
#[derive(Clone)]
pub(crate) struct Site {
    inner: Arc<Inner>,
}

struct Inner {
    sessions: Sessions,
    hub: Hub,
    scene: Arc<Scene>,
    /// The views of each open stream, by their names.
    streams: Mutex<HashMap<u64, watch::Sender<Views>>>,
    next: AtomicU64,
    stop: watch::Receiver<bool>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Views {
    stream: u64,
    views: Vec<String>,
    /// Those of them that the browser has nothing of.
    #[serde(default)]
    anew: Vec<String>,
}

impl Site {
    pub(crate) fn new(sessions: Sessions, hub: Hub, scene: Arc<Scene>, stop: watch::Receiver<bool>) -> Self {
        let inner = Inner { sessions, hub, scene, streams: Mutex::default(), next: AtomicU64::new(1), stop };
        Self { inner: Arc::new(inner) }
    }
}

impl tower::Service<Request<Incoming>> for Site {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let inner = Arc::clone(&self.inner);
        async move { Ok(guarded(inner.answer(request).await)) }.boxed()
    }
}

impl Inner {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        let told = matches!(path, "/live" | "/views" | "/act") || path.starts_with("/place/");
        let needs = if told { Needs::Key } else { Needs::Cookie };
        match self.sessions.judge(&parts.method, &parts.uri, &parts.headers, needs) {
            Verdict::Pass => {}
            Verdict::Enter(cookie, key) => return self.entered(&cookie, &key),
            Verdict::Refuse(status, why) => return refused(status, why, &parts.headers),
        }
        match (&parts.method, path) {
            (&Method::GET, "/page.js") => text("text/javascript", include_str!("../assets/page.js")),
            (&Method::GET, "/worker.js") => text("text/javascript", include_str!("../assets/worker.js")),
            (&Method::GET, "/enter.js") => text("text/javascript", include_str!("../assets/enter.js")),
            (&Method::GET, "/style.css") => text("text/css", include_str!("../assets/style.css")),
            (&Method::GET, "/icon.svg") => text("image/svg+xml", include_str!("../assets/icon.svg")),
            (&Method::GET, "/live") => self.live(),
            // A pod that has gone since it was shown has none, and that is no error.
            (&Method::GET, path) if path.starts_with("/place/") => {
                said(200, &View::more(path, &self.scene).unwrap_or_default())
            }
            (&Method::GET, _) => match View::parse(parts.uri.path_and_query().map_or(path, |it| it.as_str())) {
                Some(view) => text("text/html", &view.shell(&self.scene)),
                None => refused(404, "there is no such view", &parts.headers),
            },
            (&Method::POST, "/views" | "/act") => {
                let Ok(body) = Limited::new(body, MOST_BYTES).collect().await else {
                    return refused(413, "the request says too much", &parts.headers);
                };
                let body = body.to_bytes();
                if path == "/views" { self.views(&body) } else { self.act(&body).await }
            }
            _ => refused(405, "only GET, and POST to /views and /act", &parts.headers),
        }
    }

    /// A page that keeps the key for its origin and goes on by itself: a redirect from a link of another site would not
    /// send the cookie.
    fn entered(&self, cookie: &str, key: &str) -> Response<Body> {
        let to = self.sessions.first_view();
        let markup = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    title { "Muster" }
                    link rel="icon" href="/icon.svg";
                    script src="/enter.js" data-key=(key) data-to=(to) {}
                }
                body { noscript { "The page needs its script." } }
            }
        };
        let mut response = text("text/html", &markup.into_string());
        response.headers_mut().extend(HeaderValue::from_str(cookie).ok().map(|cookie| (header::SET_COOKIE, cookie)));
        response
    }

    /// What is not known, and what is too much, is left out: other views of the browser are not to suffer.
    fn views(&self, body: &[u8]) -> Response<Body> {
        let mut views: Views = match serde_json::from_slice(body) {
            Ok(views) => views,
            Err(error) => return said(400, &format!("POST /views: {error}")),
        };
        views.views.retain(|view| View::parse(view).is_some());
        views.views.truncate(MOST_VIEWS);
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        match streams.get(&views.stream) {
            Some(wanted) => {
                wanted.send_replace(views);
                said(200, "")
            }
            None => said(404, &format!("POST /views: no stream {}", views.stream)),
        }
    }

    async fn act(&self, body: &[u8]) -> Response<Body> {
        let act: Act = match serde_json::from_slice(body) {
            Ok(act) => act,
            Err(error) => return said(400, &format!("POST /act: {error}")),
        };
        match act.run(&self.scene).await {
            Ok(done) => said(200, &done),
            Err(error) => said(409, &error),
        }
    }

    /// A stream of events, with no views at first.
    fn live(self: Arc<Self>) -> Response<Body> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (want, wanted) = watch::channel(Views::default());
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).insert(id, want);
        let stop = self.stop.clone();
        let stream = Stream { id, site: self, wanted, viewers: Vec::new(), stop, begun: false };
        let events = futures::stream::unfold(stream, |mut stream| async move {
            let event = stream.next().await?;
            Some((Ok::<_, Infallible>(BodyFrame::data(Bytes::from(event))), stream))
        });
        let mut response = Response::new(StreamBody::new(events.boxed()).boxed_unsync());
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response.extensions_mut().insert(Lasting);
        response
    }
}

/// One browser's stream.
struct Stream {
    id: u64,
    site: Arc<Inner>,
    wanted: watch::Receiver<Views>,
    viewers: Vec<Viewer>,
    stop: watch::Receiver<bool>,
    begun: bool,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.site.streams.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

impl Stream {
    /// The next event, none once the page is closed.
    async fn next(&mut self) -> Option<String> {
        if !self.begun {
            self.begun = true;
            // A browser that lost its stream comes back after a second.
            return Some(format!("retry: 1000\nevent: stream\ndata: {}\n\n", self.id));
        }
        loop {
            let looks = self.viewers.iter_mut().map(|viewer| viewer.next().boxed());
            let next = async {
                if looks.len() == 0 {
                    return futures::future::pending().await;
                }
                futures::future::select_all(looks).await.0
            };
            tokio::select! {
                biased;
                _ = self.stop.wait_for(|stop| *stop) => return None,
                changed = self.wanted.changed() => {
                    changed.ok()?;
                }
                frame = next => return Some(event(&serde_json::to_string(&frame).ok()?)),
                () = tokio::time::sleep(ALIVE) => return Some(": here\n\n".to_owned()),
            }
            let Views { views, anew, .. } = self.wanted.borrow_and_update().clone();
            self.viewers.retain(|viewer| views.contains(&viewer.name) && !anew.contains(&viewer.name));
            for name in views {
                if self.viewers.iter().all(|viewer| viewer.name != name)
                    && let Some(view) = View::parse(&name)
                {
                    self.viewers.push(self.site.hub.look(&name, &view));
                }
            }
        }
    }
}

/// JSON has no line breaks.
fn event(json: &str) -> String {
    format!("data: {json}\n\n")
}

fn text(kind: &'static str, text: &str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(text.as_bytes())).boxed_unsync());
    let value = match kind {
        "text/html" => "text/html; charset=utf-8",
        "text/javascript" => "text/javascript; charset=utf-8",
        "text/css" => "text/css; charset=utf-8",
        other => other,
    };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(value));
    response
}

fn said(status: u16, message: &str) -> Response<Body> {
    let mut response = text("application/json", &json!({ "message": message }).to_string());
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    response
}

/// A refusal, as a page for a person.
fn refused(status: u16, why: &str, headers: &HeaderMap) -> Response<Body> {
    let wants_page = headers.get(header::ACCEPT).is_some_and(|accept| accept.as_bytes().starts_with(b"text/html"));
    let markup = html! {
        (DOCTYPE)
        html lang="en" { head { title { "Muster" } } body { h1 { (status) } p { (why) } } }
    };
    let mut response =
        if wants_page { text("text/html", &markup.into_string()) } else { text("text/plain", &format!("{why}\n")) };
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    response
}

/// No other site may frame or read it, and it asks none for anything.
fn guarded(mut response: Response<Body>) -> Response<Body> {
    let rules = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self'; \
                 connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, rules),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
