//! Rules: which fault strikes which requests, how often, and when.

use std::ops::Range;
use std::time::Duration;

use http::StatusCode;

use super::target::{Target, Verb};

/// What can happen to a request, to its answer, or to what a watch delivers.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The request takes this much longer to arrive.
    Delay(Range<Duration>),
    /// The answer takes this much longer to come back; the server has acted before.
    Slow(Range<Duration>),
    /// The request never arrives, without an error: it ends by the client's own time limit.
    Lost,
    /// The connection breaks before the request has arrived.
    Reset,
    /// The server acts on the request; then the connection breaks, and there is no answer.
    AnswerLost,
    /// The server refuses the request.
    Refuse(Refusal),
    /// The server acts on the request, and answers with a refusal: it did not wait for its storage.
    ActAndRefuse(Refusal),
    /// A list is answered with an earlier state, as by a cache that is behind; only if the request permits that.
    Stale,
    /// A watch breaks off somewhere in what it was about to deliver, possibly in the middle of an event.
    Cut,
    /// A watch delivers nothing more, and does not end.
    Stall,
    /// A watch delivers this much later; later events wait behind it.
    Lag(Range<Duration>),
}

/// A refusal with a `Status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// 409, as for a stale resourceVersion.
    Conflict,
    /// 410: the resourceVersion is too old.
    Expired,
    /// 422, as for parameters that the server does not support.
    Invalid,
    /// 429, with its `Retry-After` in seconds.
    TooManyRequests {
        /// `Retry-After`.
        retry_after: u32,
    },
    /// 500.
    InternalError,
    /// 503.
    Unavailable {
        /// `Retry-After`, if there is one.
        retry_after: Option<u32>,
    },
    /// 504.
    Timeout,
}

impl Refusal {
    /// The HTTP status.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::Conflict => StatusCode::CONFLICT,
            Self::Expired => StatusCode::GONE,
            Self::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            Self::TooManyRequests { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// The `Status.reason`.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Conflict => "Conflict",
            Self::Expired => "Expired",
            Self::Invalid => "Invalid",
            Self::TooManyRequests { .. } => "TooManyRequests",
            Self::InternalError => "InternalError",
            Self::Unavailable { .. } => "ServiceUnavailable",
            Self::Timeout => "Timeout",
        }
    }

    /// The `Retry-After` in seconds.
    #[must_use]
    pub fn retry_after(self) -> Option<u32> {
        match self {
            Self::TooManyRequests { retry_after } => Some(retry_after),
            Self::Unavailable { retry_after } => retry_after,
            Self::Conflict | Self::Expired | Self::Invalid | Self::InternalError | Self::Timeout => None,
        }
    }
}

/// One fault, with the requests that it strikes, how often, and when.
#[derive(Debug, Clone)]
pub struct Rule {
    pub(super) fault: Fault,
    per_mille: u32,
    window: Range<Duration>,
    verbs: Vec<Verb>,
    resources: Vec<&'static str>,
    who: Option<&'static str>,
}

impl Rule {
    /// A fault that strikes every request, always.
    #[must_use]
    pub fn always(fault: Fault) -> Self {
        let window = Duration::ZERO..Duration::MAX;
        Self { fault, per_mille: 1_000, window, verbs: Vec::new(), resources: Vec::new(), who: None }
    }

    /// Strikes only this many of a thousand requests or pieces of a watch.
    #[must_use]
    pub fn per_mille(self, per_mille: u32) -> Self {
        Self { per_mille, ..self }
    }

    /// Strikes only at these times, since the [`Faults`](super::Faults) were made.
    #[must_use]
    pub fn within(self, window: Range<Duration>) -> Self {
        Self { window, ..self }
    }

    /// Strikes only these verbs.
    #[must_use]
    pub fn verbs(self, verbs: &[Verb]) -> Self {
        Self { verbs: verbs.to_vec(), ..self }
    }

    /// Strikes only these resources.
    #[must_use]
    pub fn resources(self, resources: &[&'static str]) -> Self {
        Self { resources: resources.to_vec(), ..self }
    }

    /// Strikes only requests of this sender.
    #[must_use]
    pub fn of(self, who: &'static str) -> Self {
        Self { who: Some(who), ..self }
    }

    /// Whether it may strike this request at this time; the draw decides after that.
    pub(super) fn applies(&self, who: &str, target: &Target, at: Duration) -> bool {
        self.window.contains(&at)
            && self.who.is_none_or(|only| only == who)
            && (self.verbs.is_empty() || self.verbs.contains(&target.verb))
            && (self.resources.is_empty() || self.resources.contains(&target.resource.as_str()))
    }

    /// How many of a thousand it strikes.
    pub(super) fn chance(&self) -> u32 {
        self.per_mille
    }

    /// Whether it strikes pieces of a watch rather than requests.
    pub(super) fn is_about_pieces(&self) -> bool {
        matches!(self.fault, Fault::Cut | Fault::Stall | Fault::Lag(_))
    }
}
