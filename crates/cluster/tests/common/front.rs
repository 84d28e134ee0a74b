//! What stands before a server: it records what is asked, plays a server that does not shard, and ends, holds back and
//! refuses watches.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use muster_apiserver::http::Service;
use tokio::sync::watch;

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// What the server does about a shard selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It shards.
    Shards,
    /// It does not know the parameter, as all older servers.
    Ignores,
    /// It refuses the parameter.
    Refuses,
}

/// What becomes of the watches that are open.
#[derive(Clone, Copy)]
enum Flow {
    Goes,
    Stalls,
    Ends,
}

#[derive(Clone)]
pub(crate) struct Front {
    server: Service,
    state: Arc<Mutex<State>>,
}

struct State {
    mode: Mode,
    asked: Vec<String>,
    /// Of the watches that are open.
    flow: watch::Sender<Flow>,
    /// Whether the next watch is refused, as one from a version that has expired.
    expired: bool,
}

impl Front {
    pub(crate) fn new(server: Service, mode: Mode) -> Self {
        let state = State { mode, asked: Vec::new(), flow: watch::Sender::new(Flow::Goes), expired: false };
        Self { server, state: Arc::new(Mutex::new(state)) }
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.lock().mode = mode;
    }

    /// What was asked since the last call.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().asked)
    }

    /// How many watches are open that nothing was done to.
    pub(crate) fn watches(&self) -> usize {
        self.lock().flow.receiver_count()
    }

    /// Ends all watches.
    pub(crate) fn end(&self) {
        self.all(Flow::Ends);
    }

    /// Nothing comes from the present watches any more, and they do not end.
    pub(crate) fn stall(&self) {
        self.all(Flow::Stalls);
    }

    /// Ends all watches, and the next one is from a version that has expired.
    pub(crate) fn expire(&self) {
        self.all(Flow::Ends);
        self.lock().expired = true;
    }

    fn all(&self, what: Flow) {
        std::mem::replace(&mut self.lock().flow, watch::Sender::new(Flow::Goes)).send_replace(what);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The path to ask the server for, or the answer.
    fn passes(&self, path: &str) -> Result<String, Box<Response<Body>>> {
        let mut state = self.lock();
        state.asked.push(path.to_owned());
        if path.contains("watch=true") && std::mem::take(&mut state.expired) {
            return Err(refusal(410, "Expired"));
        }
        let Some((before, selector)) = path.split_once("&shardSelector=") else { return Ok(path.to_owned()) };
        match state.mode {
            Mode::Shards => Ok(path.to_owned()),
            Mode::Ignores => Ok(format!("{before}{}", selector.find('&').map_or("", |at| &selector[at..]))),
            Mode::Refuses => Err(refusal(400, "BadRequest")),
        }
    }
}

/// A value as it stands in a query.
pub(crate) fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn refusal(code: u16, reason: &str) -> Box<Response<Body>> {
    let status = format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","reason":"{reason}","code":{code}}}"#
    );
    let body = Full::new(Bytes::from(status)).map_err(|never: Infallible| match never {}).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(code).unwrap();
    Box::new(answer)
}

impl tower::Service<Request<Full<Bytes>>> for Front {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Full<Bytes>>) -> Self::Future {
        let path = match self.passes(&request.uri().to_string()) {
            Ok(path) => path,
            Err(answer) => return Box::pin(async { Ok(*answer) }),
        };
        *request.uri_mut() = path.parse().unwrap();
        let watched = path.contains("watch=true").then(|| self.lock().flow.subscribe());
        let server = self.server.clone();
        Box::pin(async move {
            let answer = tower::ServiceExt::oneshot(server, request).await.unwrap_or_else(|never| match never {});
            Ok(answer.map(|body| {
                let body = body.map_err(|error| std::io::Error::other(format!("{error:?}"))).boxed_unsync();
                match watched {
                    Some(flow) => StreamBody::new(futures::stream::unfold((body, flow), next)).boxed_unsync(),
                    None => body,
                }
            }))
        })
    }
}

type Frame = Result<http_body::Frame<Bytes>, std::io::Error>;

async fn next((mut body, mut flow): (Body, watch::Receiver<Flow>)) -> Option<(Frame, (Body, watch::Receiver<Flow>))> {
    loop {
        let now = *flow.borrow_and_update();
        match now {
            Flow::Ends => return None,
            Flow::Stalls => std::future::pending().await,
            Flow::Goes => {}
        }
        tokio::select! {
            biased;
            Ok(()) = flow.changed() => {}
            frame = body.frame() => return frame.map(|frame| (frame, (body, flow))),
        }
    }
}
