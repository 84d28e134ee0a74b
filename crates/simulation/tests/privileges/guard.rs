//! A server behind a check of permissions.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Either, Full};
use muster_runtime::client::{Client, PatchType};
use muster_tree::json;
use tower::Service;

use super::rights::{Right, Rights, wanted, wanted_for_owners};

/// A server that answers 403 to every request that the rights do not grant.
#[derive(Clone)]
pub(crate) struct Guarded<S> {
    inner: S,
    rights: Arc<Mutex<Rights>>,
    /// Who changes the first pod that is to be deleted, right before that: the deletion then meets a conflict.
    meddler: Client,
    meddled: Arc<Mutex<bool>>,
    streams_lists: bool,
}

impl<S> Guarded<S> {
    pub(crate) fn new(inner: S, rights: &Arc<Mutex<Rights>>, meddler: Client) -> Self {
        Self { inner, rights: Arc::clone(rights), meddler, meddled: Arc::default(), streams_lists: true }
    }

    /// The same as a server of a release that has no streaming lists.
    pub(crate) fn without_streaming_lists(self) -> Self {
        Self { streams_lists: false, ..self }
    }

    /// What is missing for this request, if anything is.
    fn missing(&self, request: &Request<()>, body: &[u8]) -> Option<String> {
        let mut rights = self.rights.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(asked) = wanted(request) else { return Some(request.uri().path().to_owned()) };
        let besides = wanted_for_owners(&asked, body);
        let refuse = |right: Right| (!rights.may(right.clone())).then(|| right.to_string());
        std::iter::once(asked).chain(besides).find_map(refuse)
    }

    fn meddles(&self, request: &Request<()>) -> bool {
        let deletes_pod = wanted(request).is_some_and(|right| right.resource == "pods" && right.verb == "delete");
        deletes_pod && !std::mem::replace(&mut *self.meddled.lock().unwrap_or_else(PoisonError::into_inner), true)
    }
}

impl<S, B> Service<Request<Full<Bytes>>> for Guarded<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Send,
{
    type Response = Response<Either<Full<Bytes>, B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let mut this = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let Ok(body) = body.collect().await.map(http_body_util::Collected::to_bytes);
            let head = Request::from_parts(head, ());
            if let Some(missing) = this.missing(&head, &body) {
                return Ok(refusal(StatusCode::FORBIDDEN, "Forbidden", &format!("cannot {missing}")));
            }
            let streams = head.uri().query().is_some_and(|query| query.contains("sendInitialEvents=true"));
            if streams && !this.streams_lists {
                let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
                return Ok(refusal(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", why));
            }
            if this.meddles(&head) {
                let patch = Bytes::from(json!({"metadata": {"annotations": {"touched": "yes"}}}).to_string());
                this.meddler.patch(head.uri().path(), PatchType::Merge, patch).await.expect("the pod is there");
            }
            let (head, ()) = head.into_parts();
            Ok(this.inner.call(Request::from_parts(head, Full::new(body))).await?.map(Either::Right))
        })
    }
}

fn refusal<B>(code: StatusCode, reason: &str, message: &str) -> Response<Either<Full<Bytes>, B>> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code.as_u16(),
        "message": message,
    });
    let mut response = Response::new(Either::Left(Full::new(Bytes::from(status.to_string()))));
    *response.status_mut() = code;
    response
}
