//! `/explain/{resource}/{namespace}/{name}`: what this manager sees of an object and would do, as JSON; with
//! `?history=true` what it did, at most `&since=SECONDS` ago.
//!
//! It names objects, so that not everybody who reaches the port may ask: [`Door`] has the API server decide. A few
//! questions are answered at a time and the rest refused, so that nobody's curiosity is in the way of a sync.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::Full;
use muster_inspect::explain::Role;
use muster_objects::meta::ObjectKey;
use muster_objects::names::is_dns1123_subdomain;
use muster_runtime::client::ApiError;
use muster_runtime::election::Leadership;
use muster_runtime::explain::{Explainer, Kind, NotExplained};
use serde_json::json;
use tokio::sync::{Semaphore, watch};

use super::door::{Door, refusal};

/// How many questions are answered at a time.
const AT_A_TIME: usize = 4;
/// How many places of an order of deletion are told.
const MOST_PLACES: usize = 1_000;

/// What answers.
#[derive(Clone)]
pub(crate) struct Explaining {
    explainer: Explainer,
    door: Door,
    /// Whether this process leads; none where there is no election.
    leading: Option<watch::Receiver<bool>>,
    turns: Arc<Semaphore>,
}

impl Explaining {
    /// Answers out of `explainer` to whom `door` lets pass.
    pub(crate) fn new(explainer: Explainer, door: Door, leadership: Option<&Leadership>) -> Self {
        let leading = leadership.map(Leadership::leading);
        Self { explainer, door, leading, turns: Arc::new(Semaphore::new(AT_A_TIME)) }
    }

    /// The answer to a request whose path, after `/explain/`, is `rest`.
    pub(crate) async fn answer(
        &self,
        method: &Method,
        rest: &str,
        query: &str,
        authorization: Option<&HeaderValue>,
    ) -> Response<Full<Bytes>> {
        let answer = match self.explained(method, rest, query, authorization).await {
            Ok(json) => response(StatusCode::OK, json),
            Err(refused) => status(&refused, "GET"),
        };
        answer.map(Full::new)
    }

    async fn explained(
        &self,
        method: &Method,
        rest: &str,
        query: &str,
        authorization: Option<&HeaderValue>,
    ) -> Result<Bytes, ApiError> {
        if *method != Method::GET {
            return Err(refusal(405, "MethodNotAllowed", format!("{method} is not allowed here, only GET")));
        }
        let (kind, key) = object(rest).ok_or_else(|| {
            let known = Kind::ALL.map(|kind| kind.resource().plural).join(", ");
            refusal(404, "NotFound", format!("expected /explain/RESOURCE/NAMESPACE/NAME; resources are {known}"))
        })?;
        let question = Question::of(query).map_err(|said| refusal(400, "BadRequest", said))?;
        let _turn = self.turns.try_acquire().map_err(|_| {
            refusal(429, "TooManyRequests", format!("{AT_A_TIME} questions are being answered, try again in a moment"))
        })?;
        self.door.pass(authorization, kind, &key).await?;
        let json = match question {
            Question::Now => {
                let explained = self.explainer.explain(kind, &key, self.role(), MOST_PLACES).await;
                serde_json::to_vec(&explained.map_err(|error| not_explained(&error))?)
            }
            Question::History { since } => {
                let told = self.explainer.history(kind, &key, self.role(), since);
                told.map_err(|error| not_explained(&error))?.to_json().map(|json| json.to_string().into_bytes())
            }
        };
        tracing::debug!(kind = kind.resource().kind, %key, ?question, "explained");
        json.map(Bytes::from).map_err(|error| refusal(500, "InternalError", error.to_string()))
    }

    fn role(&self) -> Role {
        match &self.leading {
            None => Role::Unelected,
            Some(leading) if *leading.borrow() => Role::Leader,
            Some(_) => Role::Standby,
        }
    }
}

/// What is asked of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// What would be done now.
    Now,
    /// What was done.
    History { since: Option<Duration> },
}

impl Question {
    /// # Errors
    /// In words, where a parameter is not what it should be.
    fn of(query: &str) -> Result<Self, String> {
        let bad = |name: &str, value: &str, expected: &str| {
            format!("query parameter {name:?}: found {value:?}, expected {expected}")
        };
        let (mut history, mut since) = (false, None);
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match name {
                "history" => history = value.parse().map_err(|_| bad(name, value, "true or false"))?,
                "since" => {
                    let seconds = value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                    since = Some(seconds.ok_or_else(|| bad(name, value, "a number of seconds"))?);
                }
                _ => {}
            }
        }
        Ok(if history { Self::History { since } } else { Self::Now })
    }
}

/// The object that a path names. Nothing else may stand in the paths that are asked of the API server.
fn object(rest: &str) -> Option<(Kind, ObjectKey)> {
    let mut parts = rest.split('/');
    let (kind, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
    let good = parts.next().is_none() && is_dns1123_subdomain(namespace) && is_dns1123_subdomain(name);
    Some((Kind::of_plural(kind)?, ObjectKey::new(namespace, name))).filter(|_| good)
}

fn not_explained(error: &NotExplained) -> ApiError {
    match error {
        // It is there, or the caller would not have come so far.
        NotExplained::NotFound { .. } => refusal(404, "NotFound", format!("{error} in the cache of this manager yet")),
        NotExplained::NotRun(_) | NotExplained::NothingRuns | NotExplained::NotRecorded => {
            refusal(404, "NotFound", error.to_string())
        }
        NotExplained::NotSynced(_) => refusal(503, "ServiceUnavailable", error.to_string()),
        NotExplained::Client(_) => refusal(500, "InternalError", error.to_string()),
    }
}

/// A refusal as Kubernetes tells it; where it is that of a method, `allowed` is the one to use.
pub(crate) fn status(refused: &ApiError, allowed: &'static str) -> Response<Bytes> {
    let ApiError { code, reason, message, .. } = refused;
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    let status = StatusCode::from_u16(*code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = response(status, Bytes::from(body.to_string()));
    let also = match *code {
        401 => Some((header::WWW_AUTHENTICATE, "Bearer")),
        405 => Some((header::ALLOW, allowed)),
        429 | 503 => Some((header::RETRY_AFTER, "1")),
        _ => None,
    };
    response.headers_mut().extend(also.map(|(name, value)| (name, HeaderValue::from_static(value))));
    response
}

/// An answer in JSON.
pub(crate) fn response(status: StatusCode, json: Bytes) -> Response<Bytes> {
    let mut response = Response::new(json);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
