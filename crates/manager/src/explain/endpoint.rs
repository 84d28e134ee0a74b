//! `/explain/{resource}/{namespace}/{name}`: what this manager sees of an object and would do, as JSON; with
//! `?history=true` what it did, at most `&since=SECONDS` ago. `/inside`: what it is doing now. A shadow tells
//! the history only.
//!
//! They name objects, so that not everybody who reaches the port may ask: [`Authorizer`] has the API server decide. Below
//! `/muster` of an embedded server they are answered too, which lets nobody but its masters come so far. A few questions
//! are answered at a time and the rest refused, so that nobody's curiosity is in the way of a sync.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use muster_inspect::explain::{Explanation, Role, Shard};
use muster_objects::meta::ObjectKey;
use muster_objects::names::is_dns1123_subdomain;
use muster_runtime::client::ApiError;
use muster_runtime::explain::{Explainer, Kind, NotExplained};
use muster_runtime::group::{Found, MemberHandle};
use serde_json::json;
use tokio::sync::Semaphore;

use super::authorizer::{Authorizer, refusal};
use super::teller::Teller;
use crate::shadow::Kept;

/// How many questions are answered at a time.
const AT_A_TIME: usize = 4;
/// How many callers the API server is asked about at a time.
const MOST_CALLERS: usize = 16;
/// How many places of an order of deletion are told.
const MOST_PLACES: usize = 1_000;

/// What answers.
#[derive(Clone)]
pub struct Explaining {
    known: Known,
    turns: Arc<Semaphore>,
    /// Those who are not known yet take no turn from those who are.
    callers: Arc<Semaphore>,
}

/// Where the answers come from.
#[derive(Clone)]
enum Known {
    /// The managers of a process.
    Manager(Teller),
    /// A member of a group, which knows who has what.
    Member(MemberHandle),
    /// What a shadow keeps.
    Shadow(Kept),
}

/// Who asks.
#[derive(Clone, Copy)]
pub enum Caller<'a> {
    /// The bearer of this header, who may know what the authorizer lets them.
    Bearer(&'a Authorizer, Option<&'a HeaderValue>),
    /// Somebody who may do anything, as the embedded server has found.
    Master,
}

impl Explaining {
    /// Answers out of the manager that `teller` names.
    pub fn new(teller: Teller) -> Self {
        Self::out_of(Known::Manager(teller))
    }

    /// Answers out of the shards that a member has.
    pub(crate) fn of_member(handle: MemberHandle) -> Self {
        Self::out_of(Known::Member(handle))
    }

    /// Answers out of what a shadow keeps.
    pub(crate) fn of_shadow(kept: Kept) -> Self {
        Self::out_of(Known::Shadow(kept))
    }

    fn out_of(known: Known) -> Self {
        Self { known, turns: Arc::new(Semaphore::new(AT_A_TIME)), callers: Arc::new(Semaphore::new(MOST_CALLERS)) }
    }

    /// Whether requests of this path are answered here.
    pub(crate) fn answers(path: &str) -> bool {
        path == INSIDE || path.starts_with(EXPLAIN)
    }

    /// The answer to a request.
    pub async fn answer(&self, caller: Caller<'_>, method: &Method, path: &str, query: &str) -> Response<Bytes> {
        match self.answered(caller, method, path, query).await {
            Ok(json) => response(StatusCode::OK, json),
            Err(refused) => status(&refused, "GET"),
        }
    }

    async fn answered(&self, caller: Caller<'_>, method: &Method, path: &str, query: &str) -> Result<Bytes, ApiError> {
        if *method != Method::GET {
            return Err(refusal(405, "MethodNotAllowed", format!("{method} is not allowed here, only GET")));
        }
        let question = Question::of(path, query).map_err(|refused| *refused)?;
        let busy =
            |what: &str| refusal(429, "TooManyRequests", format!("{what} are being answered, try again in a moment"));
        if let Caller::Bearer(authorizer, authorization) = caller {
            let asks = self.callers.try_acquire();
            let _asks = asks.map_err(|_| busy(&format!("the questions of {MOST_CALLERS} callers")))?;
            authorizer.pass(authorization, question.object().map(|(kind, key)| (*kind, key))).await?;
        }
        let _turn = self.turns.try_acquire().map_err(|_| busy(&format!("{AT_A_TIME} questions")))?;
        let json = match &self.known {
            Known::Manager(teller) => {
                let leading = teller().ok_or_else(|| unavailable("no manager leads at the moment"))?;
                by_manager(&leading.0, (leading.1, None), &question).map_err(|refused| *refused)?
            }
            Known::Member(handle) => by_member(handle, &question).map_err(|refused| *refused)?,
            Known::Shadow(kept) => {
                by_shadow(kept, &question).await.map_err(|error| refusal(404, "NotFound", error.to_string()))?
            }
        };
        tracing::debug!(?question, "explained");
        json.map(Bytes::from).map_err(|error| refusal(500, "InternalError", error.to_string()))
    }
}

/// An answer, or why it is not written.
type Json = serde_json::Result<Vec<u8>>;

fn by_manager(
    explainer: &Explainer,
    (role, shard): (Role, Option<Shard>),
    question: &Question,
) -> Result<Json, Box<ApiError>> {
    let not_explained = |error| Box::new(not_explained(&error));
    Ok(match question {
        Question::Now((kind, key)) => {
            let explained = explainer.explain(*kind, key, role, MOST_PLACES).map_err(not_explained)?;
            serde_json::to_vec(&Explanation { shard, ..explained })
        }
        Question::History((kind, key), since) => {
            let told = explainer.history(*kind, key, role, *since).map_err(not_explained)?;
            // Of what is gone the syncs are told for as long as they are kept; of what never was there is nothing to tell.
            if told.is_empty()
                && let Err(error @ NotExplained::NotFound { .. }) = explainer.explain(*kind, key, role, 0)
            {
                return Err(not_explained(error));
            }
            told.to_json().map(|json| json.to_string().into_bytes())
        }
        Question::Inside => serde_json::to_vec(&explainer.inside(role).map_err(not_explained)?),
    })
}

fn by_member(handle: &MemberHandle, question: &Question) -> Result<Json, Box<ApiError>> {
    let Some((_, key)) = question.object() else {
        let inside = Explainer::inside_of(&handle.explainers(), Role::Member);
        return Ok(serde_json::to_vec(&inside.map_err(|error| Box::new(not_explained(&error)))?));
    };
    match handle.find(&key.namespace) {
        Found::Mine(explainer, shard) => by_manager(&explainer, (Role::Member, Some(shard)), question),
        Found::Other(identity) => {
            let said =
                format!("namespace {:?} is in a shard of another member of the group: {identity}", key.namespace);
            Err(Box::new(refusal(421, "MisdirectedRequest", said)))
        }
        Found::Nobody => {
            let why = format!("no member of the group has the shard of namespace {:?}", key.namespace);
            Err(Box::new(unavailable(&why)))
        }
    }
}

fn unavailable(why: &str) -> ApiError {
    refusal(503, "ServiceUnavailable", format!("{why}, try again in a moment"))
}

/// The error says what a shadow does not tell.
async fn by_shadow(kept: &Kept, question: &Question) -> anyhow::Result<Json> {
    let Question::History((kind, key), since) = question else {
        bail!(
            "this is a shadow, which has no queue and no syncs of its own: it tells what it would have done with an \
             object beside what was done (muster explain --history, ?history=true)"
        )
    };
    Ok(serde_json::to_vec(&kept.told(*kind, key, *since).await?))
}

/// The beginning of paths that name an object.
const EXPLAIN: &str = "/explain/";
/// The path that names none.
const INSIDE: &str = "/inside";

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Question {
    /// What would be done of an object now.
    Now((Kind, ObjectKey)),
    /// What was done of an object, at most so long ago.
    History((Kind, ObjectKey), Option<Duration>),
    /// What is being done, of all objects.
    Inside,
}

impl Question {
    /// # Errors
    /// The refusal, where a path or a parameter is not what it should be.
    fn of(path: &str, query: &str) -> Result<Self, Box<ApiError>> {
        if path == INSIDE {
            return Ok(Self::Inside);
        }
        let object = path.strip_prefix(EXPLAIN).and_then(object).ok_or_else(|| {
            let known = Kind::ALL.map(|kind| kind.resource().plural).join(", ");
            let expected = format!("expected {EXPLAIN}RESOURCE/NAMESPACE/NAME or {INSIDE}; resources are {known}");
            Box::new(refusal(404, "NotFound", expected))
        })?;
        let bad = |name: &str, value: &str, expected: &str| {
            let said = format!("query parameter {name:?}: found {value:?}, expected {expected}");
            Box::new(refusal(400, "BadRequest", said))
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
        Ok(if history { Self::History(object, since) } else { Self::Now(object) })
    }

    /// The object that it is about; `None` for all.
    fn object(&self) -> Option<&(Kind, ObjectKey)> {
        match self {
            Self::Now(object) | Self::History(object, _) => Some(object),
            Self::Inside => None,
        }
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
pub fn status(refused: &ApiError, allowed: &'static str) -> Response<Bytes> {
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
pub fn response(status: StatusCode, json: Bytes) -> Response<Bytes> {
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
