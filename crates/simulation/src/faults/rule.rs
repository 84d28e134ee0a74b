//! Rules: which fault strikes which requests, how often, and when.

use std::ops::Range;
use std::time::Duration;

use http::StatusCode;

use super::bookmark;
use super::target::{Target, Verb};
use crate::history::digest;

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
    /// An admission webhook adds an annotation and a container to what is created.
    Mutate,
    /// Of several API servers, one whose cache is this far behind takes a watch, for as long as the watch lasts.
    Behind(Range<Duration>),
    /// A watch loses its bookmarks, the one at the end of a list too.
    BookmarkLost,
    /// A bookmark gives a version from before what the watch has delivered.
    BookmarkOld,
    /// What is sent and what is delivered waits until others that are ready have had their turn, so many times.
    Reorder(u64),
    /// A watch breaks off somewhere in what it was about to deliver, in the middle of an event too.
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
    /// 403, by an admission webhook.
    Denied,
    /// 403, by a ResourceQuota.
    QuotaExceeded,
    /// 504 for a version that the cache of this API server has not come to: another one told it.
    VersionTooLarge,
    /// 422, as by parameters that the server does not take.
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

impl Fault {
    /// Whether this is possible for such a request at all.
    fn can_strike(&self, target: &Target) -> bool {
        match self {
            Self::Mutate => target.verb == Verb::Create,
            Self::Behind(_) => target.verb == Verb::Watch,
            // A request that names no version is answered with the newest there is.
            Self::Refuse(Refusal::VersionTooLarge) => target.verb == Verb::Watch && target.resumes,
            Self::Stale => target.verb == Verb::List,
            _ => true,
        }
    }

    /// Whether this is possible for such a piece of a watch.
    pub(super) fn is_about(&self, piece: &[u8]) -> bool {
        !matches!(self, Self::BookmarkLost | Self::BookmarkOld) || bookmark::is_one(piece)
    }
}

impl Refusal {
    /// The HTTP status.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::Conflict => StatusCode::CONFLICT,
            Self::Expired => StatusCode::GONE,
            Self::Denied | Self::QuotaExceeded => StatusCode::FORBIDDEN,
            Self::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            Self::TooManyRequests { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Timeout | Self::VersionTooLarge => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// The `Status.reason`.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Conflict => "Conflict",
            Self::Expired => "Expired",
            Self::Denied | Self::QuotaExceeded => "Forbidden",
            Self::Invalid => "Invalid",
            Self::TooManyRequests { .. } => "TooManyRequests",
            Self::InternalError => "InternalError",
            Self::Unavailable { .. } => "ServiceUnavailable",
            Self::Timeout | Self::VersionTooLarge => "Timeout",
        }
    }

    /// The `Status.message`, by which Kubernetes' clients tell some refusals from others.
    pub(super) fn message(self, target: &Target) -> String {
        let Target { resource, name, .. } = target;
        match self {
            Self::Denied => "admission webhook \"policy.example.com\" denied the request: not today".to_owned(),
            Self::QuotaExceeded => format!("{resource} {name:?} is forbidden: exceeded quota: compute"),
            Self::VersionTooLarge => "Too large resource version".to_owned(),
            _ => format!("{resource} {name:?}: {}, by a fault", self.reason()),
        }
    }

    /// The `Retry-After` in seconds.
    #[must_use]
    pub fn retry_after(self) -> Option<u32> {
        match self {
            Self::TooManyRequests { retry_after } => Some(retry_after),
            Self::Unavailable { retry_after } => retry_after,
            Self::VersionTooLarge => Some(1),
            Self::Conflict
            | Self::Denied
            | Self::QuotaExceeded
            | Self::Expired
            | Self::Invalid
            | Self::InternalError
            | Self::Timeout => None,
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

    /// A number for the rule's own stream of chance: that of what it does and to whom, however often.
    pub(super) fn digest(&self) -> u64 {
        let Self { fault, verbs, resources, who, per_mille: _, window: _ } = self;
        digest(format!("{fault:?} {verbs:?} {resources:?} {who:?}").as_bytes())
    }

    /// Whether it may strike this at a time; chance has the last word.
    pub(super) fn applies(&self, who: &str, target: &Target, at: Duration) -> bool {
        self.window.contains(&at)
            && self.who.is_none_or(|only| only == who)
            && self.fault.can_strike(target)
            && (self.verbs.is_empty() || self.verbs.contains(&target.verb))
            && (self.resources.is_empty() || self.resources.contains(&target.resource.as_str()))
    }

    /// How many of a thousand it strikes.
    pub(super) fn chance(&self) -> u32 {
        self.per_mille
    }

    /// Whether it strikes pieces of a watch rather than requests.
    pub(super) fn is_about_pieces(&self) -> bool {
        matches!(self.fault, Fault::Cut | Fault::Stall | Fault::Lag(_) | Fault::BookmarkLost | Fault::BookmarkOld)
    }
}
