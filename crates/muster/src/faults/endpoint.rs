//! `/muster/faults` on the API server of `muster up`: what the page does in the process, for `muster faults` outside of it.
//!
//! | Request | Body | Answer |
//! |---|---|---|
//! | `GET /muster/faults` | | [`Seen`] |
//! | `POST /muster/faults/hold` | `{"resource": "pods", "seconds": 5}` | `{"watches": 2}` |
//! | `POST /muster/faults/cut` | `{"resource": "pods"}` or `{}` | `{"watches": 2}` |
//! | `POST /muster/faults/kill-leader` | | `{"killed": "muster-1"}` |
//! | `POST /muster/faults/add` | a [`Plan`] | [`SeenFaults`](super::live::SeenFaults) |
//! | `POST /muster/faults/clear` | | the same |
//! | `GET /muster/faults/strikes` | | `{"strikes": [...]}`, as they are logged |
//!
//! Who may is for the server to say: the group system:masters.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{self, BoxFuture};
use http::{Method, Response, StatusCode};
use muster_apiserver::ApiServer;
use muster_apiserver::http::muster::{Asked, Extension};
use muster_manager::explain::authorizer::refusal;
use muster_manager::explain::endpoint::{response, status};
use muster_runtime::client::ApiError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::live::LiveFaults;
use super::plan::Plan;
use super::resource::Resource;
use super::stage::{HoldTime, Seen, Stage};

/// Its name below `/muster/`.
pub(super) const NAME: &str = "faults";

/// What answers.
pub(crate) struct Endpoint {
    stage: Stage,
    live: LiveFaults,
}

/// The body of a `hold`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hold {
    pub(super) resource: String,
    pub(super) seconds: f64,
}

/// The body of a `cut`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cut {
    /// None for all.
    pub(super) resource: Option<String>,
}

impl Endpoint {
    /// To this stage, and to these faults.
    pub(super) fn of(stage: &Stage, live: &LiveFaults) -> Self {
        Self { stage: stage.clone(), live: live.clone() }
    }

    /// Has the server of this stage answer.
    pub(crate) fn open(server: &ApiServer, stage: &Stage, live: &LiveFaults) {
        server.extend(NAME, Arc::new(Self::of(stage, live)));
    }

    fn done(&self, asked: &Asked) -> Result<Value, Box<ApiError>> {
        let Self { stage, live } = self;
        match (&*asked.rest, &asked.method) {
            ("", &Method::GET) => Ok(json!(Seen { faults: live.seen(), ..stage.seen() })),
            ("strikes", &Method::GET) => Ok(json!({"strikes": live.strikes()})),
            ("add", &Method::POST) => {
                let plan: Plan = body(&asked.body)?;
                live.take_up(plan).map_err(|error| refused(400, "BadRequest", format!("{error:#}")))?;
                Ok(json!(live.seen()))
            }
            ("clear", &Method::POST) => {
                live.clear();
                Ok(json!(live.seen()))
            }
            ("hold", &Method::POST) => {
                let Hold { resource, seconds } = body(&asked.body)?;
                let time = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string());
                let time = time.and_then(HoldTime::of).map_err(|said| bad("seconds", &said))?;
                Ok(json!({"watches": stage.hold(named(&resource)?, time)}))
            }
            ("cut", &Method::POST) => {
                let Cut { resource } = body(&asked.body)?;
                let resource = resource.as_deref().map(named).transpose()?;
                Ok(json!({"watches": stage.cut(resource)}))
            }
            ("kill-leader", &Method::POST) => match stage.kill_leader() {
                Ok(killed) => Ok(json!({"killed": killed})),
                Err(why) => Err(refused(409, "Conflict", why.to_string())),
            },
            ("" | "strikes" | "hold" | "cut" | "kill-leader" | "add" | "clear", method) => {
                let said = format!("{method} is not allowed here, only {}", allowed(&asked.rest));
                Err(refused(405, "MethodNotAllowed", said))
            }
            (rest, _) => {
                let known = "hold, cut, kill-leader, add, clear and strikes";
                Err(refused(404, "NotFound", format!("{rest:?} is no fault: there are {known}")))
            }
        }
    }
}

impl Extension for Endpoint {
    fn answer(&self, asked: Asked) -> BoxFuture<'_, Response<Bytes>> {
        let answer = match self.done(&asked) {
            Ok(json) => response(StatusCode::OK, Bytes::from(json.to_string())),
            Err(error) => status(&error, allowed(&asked.rest)),
        };
        Box::pin(future::ready(answer))
    }
}

fn allowed(rest: &str) -> &'static str {
    if matches!(rest, "" | "strikes") { "GET" } else { "POST" }
}

fn named(resource: &str) -> Result<Resource, Box<ApiError>> {
    Resource::of(resource).map_err(|said| bad("resource", &said))
}

fn body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Box<ApiError>> {
    serde_json::from_slice(bytes).map_err(|error| refused(400, "BadRequest", format!("the body: {error}")))
}

fn bad(field: &str, said: &str) -> Box<ApiError> {
    refused(400, "BadRequest", format!("{field}: {said}"))
}

fn refused(code: u16, reason: &str, message: String) -> Box<ApiError> {
    Box::new(refusal(code, reason, message))
}
