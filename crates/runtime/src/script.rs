//! A server of the tests' making: each request waits until the test answers it.

pub(crate) mod protobuf;

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{StreamExt, future::BoxFuture};
use http::{HeaderMap, Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use tokio::sync::{mpsc, oneshot};

use crate::{
    client::{BoxError, Client, Options, RequestBody, ResponseBody},
    clock::Clock,
};

/// The test's end of the server.
pub(crate) struct Server {
    requests: mpsc::UnboundedReceiver<Asked>,
}

/// One request, to be answered.
pub(crate) struct Asked {
    pub(crate) method: Method,
    /// The path and query.
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    answer: oneshot::Sender<Result<Response<ResponseBody>, BoxError>>,
}

/// The open end of a streaming answer.
pub(crate) struct Stream {
    sender: mpsc::UnboundedSender<Result<Bytes, BoxError>>,
    /// How its events are written.
    encode: fn(&str, &serde_json::Value) -> Bytes,
}

/// A client, and the server that it speaks to.
pub(crate) fn server() -> (Client, Server) {
    server_at(Clock::system())
}

/// The same, by this clock.
pub(crate) fn server_at(clock: Clock) -> (Client, Server) {
    server_with(&Options { clock, ..Options::default() })
}

/// The same, of a client that is set up like this.
pub(crate) fn server_with(options: &Options) -> (Client, Server) {
    let (sender, requests) = mpsc::unbounded_channel();
    (Client::in_process(Service(sender), options), Server { requests })
}

impl Server {
    /// The next request; a test in which none comes fails.
    pub(crate) async fn next(&mut self) -> Asked {
        let wait = std::time::Duration::from_secs(3_600);
        tokio::time::timeout(wait, self.requests.recv()).await.expect("a request within the hour").expect("a client")
    }

    /// The next request if it is there by the time that nothing else can happen.
    pub(crate) async fn try_next(&mut self) -> Option<Asked> {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        self.requests.try_recv().ok()
    }
}

impl Asked {
    /// Answers with a status and a body.
    pub(crate) fn answer(self, status: u16, body: impl Into<Bytes>) {
        self.answer_with(status, &[], body);
    }

    /// Answers with headers as well.
    pub(crate) fn answer_with(self, status: u16, headers: &[(&str, &str)], body: impl Into<Bytes>) {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let body = Full::new(body.into()).map_err(|never: Infallible| match never {}).boxed_unsync();
        let _ = self.answer.send(Ok(response.body(body).expect("a response")));
    }

    /// Answers with a Status.
    pub(crate) fn refuse(self, code: u16, reason: &str, message: &str) {
        let body = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code,
        });
        self.answer(code, body.to_string());
    }

    /// Breaks the connection.
    pub(crate) fn fail(self) {
        let _ = self.answer.send(Err("connection reset".into()));
    }

    /// Answers 200 and leaves the body open.
    pub(crate) fn stream(self) -> Stream {
        self.stream_as("application/json", |kind, object| {
            format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into()
        })
    }

    /// The same in protobuf.
    pub(crate) fn stream_in_protobuf(self) -> Stream {
        let content_type = "application/vnd.kubernetes.protobuf;stream=watch";
        self.stream_as(content_type, |kind, object| protobuf::frame(kind, object).into())
    }

    fn stream_as(self, content_type: &str, encode: fn(&str, &serde_json::Value) -> Bytes) -> Stream {
        let (sender, mut receiver) = mpsc::unbounded_channel::<Result<Bytes, BoxError>>();
        let frames = futures::stream::poll_fn(move |cx| receiver.poll_recv(cx)).map(|bytes| bytes.map(Frame::data));
        let response = Response::builder().header("Content-Type", content_type);
        let response = response.body(StreamBody::new(frames).boxed_unsync()).expect("a response");
        let _ = self.answer.send(Ok(response));
        Stream { sender, encode }
    }
}

impl Stream {
    /// Sends one watch event.
    pub(crate) fn event(&self, kind: &str, object: &serde_json::Value) {
        let _ = self.sender.send(Ok((self.encode)(kind, object)));
    }

    /// Sends a bookmark, maybe the one that ends a streaming list.
    pub(crate) fn bookmark(&self, version: u64, end_of_list: bool) {
        let mut metadata = serde_json::json!({"resourceVersion": version.to_string()});
        if end_of_list {
            metadata["annotations"] = serde_json::json!({"k8s.io/initial-events-end": "true"});
        }
        self.event("BOOKMARK", &serde_json::json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata}));
    }

    /// Sends raw bytes.
    pub(crate) fn raw(&self, bytes: impl Into<Bytes>) {
        let _ = self.sender.send(Ok(bytes.into()));
    }

    /// Whether the client still reads.
    pub(crate) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Breaks the stream.
    pub(crate) fn fail(self) {
        let _ = self.sender.send(Err("connection reset".into()));
    }
}

#[derive(Clone)]
struct Service(mpsc::UnboundedSender<Asked>);

impl tower::Service<Request<RequestBody>> for Service {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let sender = self.0.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let (answer, answered) = oneshot::channel();
            let asked = Asked {
                method: parts.method,
                path: parts.uri.to_string(),
                headers: parts.headers,
                body: body.collect().await?.to_bytes(),
                answer,
            };
            sender.send(asked).map_err(|_| "the server is gone")?;
            answered.await.map_err(|_| BoxError::from("the server dropped the request"))?
        })
    }
}
