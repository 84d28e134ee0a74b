//! Rules: which fault strikes which requests, how often, and when.

use std::ops::Range;
use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::bookmark;
use super::draw::Draw;
use super::event;
use super::target::{Target, Verb};
use crate::history::digest;
use crate::text;

/// What can happen to a request, to its answer, or to what a watch delivers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// The request takes this much longer to arrive.
    Delay(#[serde(with = "text::range")] Range<Duration>),
    /// The answer takes this much longer to come back; the server has acted before.
    Slow(#[serde(with = "text::range")] Range<Duration>),
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
    Behind(#[serde(with = "text::range")] Range<Duration>),
    /// A watch loses its bookmarks, the one at the end of a list too.
    BookmarkLost,
    /// A bookmark gives a version from before what the watch has delivered.
    BookmarkOld,
    /// A watch loses an event, and goes on with the next.
    EventLost,
    /// A watch delivers an event twice.
    EventTwice,
    /// What is sent and what is delivered waits until others that are ready have had their turn, at most so many times.
    Reorder(u64),
    /// The same, just so many times.
    Yield(u64),
    /// A watch breaks off somewhere in what it was about to deliver, in the middle of an event too.
    Cut,
    /// The same, at one place.
    CutAt {
        /// How many bytes of the piece still arrive.
        bytes: u64,
        /// Whether the watch ends as if it were over, without an error.
        quietly: bool,
    },
    /// A watch delivers nothing more, and does not end.
    Stall,
    /// A watch delivers this much later; later events wait behind it.
    Lag(#[serde(with = "text::range")] Range<Duration>),
}

/// A refusal with a `Status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
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
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<u32>,
    },
    /// 504.
    Timeout,
}

impl Fault {
    /// The only verb that it can strike, where it cannot strike every one.
    fn only(&self) -> Option<Verb> {
        match self {
            Self::Mutate => Some(Verb::Create),
            Self::Stale => Some(Verb::List),
            Self::Behind(_) | Self::Refuse(Refusal::VersionTooLarge) => Some(Verb::Watch),
            _ => self.is_about_pieces().then_some(Verb::Watch),
        }
    }

    /// Whether it strikes pieces of a watch rather than requests.
    pub(super) fn is_about_pieces(&self) -> bool {
        matches!(
            self,
            Self::Cut
                | Self::CutAt { .. }
                | Self::Stall
                | Self::Lag(_)
                | Self::BookmarkLost
                | Self::BookmarkOld
                | Self::EventLost
                | Self::EventTwice
        )
    }

    /// Whether this is possible for such a piece of a watch.
    pub(super) fn is_about(&self, piece: &[u8]) -> bool {
        match self {
            Self::BookmarkLost | Self::BookmarkOld => bookmark::is_one(piece),
            Self::EventLost | Self::EventTwice => event::is_one(piece) && !bookmark::is_one(piece),
            _ => true,
        }
    }

    /// What it is called in a file, with the refusal where it is one: `lag`, `refuse conflict`.
    #[must_use]
    pub fn kind(&self) -> String {
        match self {
            Self::Refuse(refusal) | Self::ActAndRefuse(refusal) => format!("{} {}", variant(self), variant(refusal)),
            _ => variant(self),
        }
    }

    /// Whether it only takes time, or an order: nothing is lost or refused.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        matches!(self, Self::Delay(_) | Self::Slow(_) | Self::Lag(_) | Self::Reorder(_) | Self::Yield(_))
    }

    /// Whether a watch is behind by it for as long as it lasts, whatever becomes of the rule.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        matches!(self, Self::Behind(_))
    }

    /// The durations that it has.
    fn range(&self) -> Option<&Range<Duration>> {
        match self {
            Self::Delay(range) | Self::Slow(range) | Self::Behind(range) | Self::Lag(range) => Some(range),
            _ => None,
        }
    }

    /// How long it takes, where it takes time and nothing is left to chance.
    pub(crate) fn duration(&self) -> Option<Duration> {
        self.range().filter(|range| range.start == range.end).map(|range| range.start)
    }

    /// The same, taking this long.
    #[must_use]
    pub(crate) fn lasting(&self, duration: Duration) -> Self {
        let range = duration..duration;
        match self {
            Self::Delay(_) => Self::Delay(range),
            Self::Slow(_) => Self::Slow(range),
            Self::Behind(_) => Self::Behind(range),
            Self::Lag(_) => Self::Lag(range),
            other => other.clone(),
        }
    }

    /// The same with nothing left to chance, for a piece of a watch of this length.
    pub(super) fn drawn(&self, draw: &mut Draw, length: usize) -> Self {
        if let Some(range) = self.range() {
            return self.lasting(draw.within(range));
        }
        match self {
            Self::Reorder(most) => Self::Yield(draw.below(most.saturating_add(1))),
            Self::Cut => {
                let bytes = draw.below(u64::try_from(length).unwrap_or(u64::MAX));
                Self::CutAt { bytes, quietly: draw.strikes(500) }
            }
            other => other.clone(),
        }
    }
}

/// The name of a variant, in a file.
fn variant(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(serde_json::Value::Object(fields)) => fields.into_iter().map(|(name, _)| name).collect(),
        _ => String::new(),
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

/// One fault, with the requests that it strikes, how often, and when. As YAML:
///
/// ```yaml
/// fault: {delay: 0s..2s}
/// client: controllers
/// verbs: [create]
/// resources: [pods]
/// perMille: 50
/// from: 10s
/// until: 1m
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// What happens.
    pub fault: Fault,
    /// Whose requests; everybody's where it is left out. By HTTP it is the user agent, whole or up to its first slash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Of the user of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// All, where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<Verb>,
    /// Plurals, such as `pods`; all, where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Of objects in this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Of objects of this name, or created with this `generateName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// With this subresource; the empty one is the object itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    /// Only this one of the requests that the fields above are about, counted from 1; of a fault that strikes what a watch
    /// tells, of all that such watches tell, bookmarks too. Verbs that the fault cannot strike do not count; a watch does that names no
    /// version, which [`Refusal::VersionTooLarge`] lets pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<u64>,
    /// How many of a thousand.
    #[serde(default = "always", skip_serializing_if = "is_always")]
    pub per_mille: u32,
    /// Not before this time, since the [`Faults`](super::Faults) were made.
    #[serde(default, skip_serializing_if = "Duration::is_zero", with = "text::duration")]
    pub from: Duration,
    /// Before this time, since then.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text::optional_duration")]
    pub until: Option<Duration>,
}

const ALWAYS: u32 = 1_000;

/// No time in a file is longer: clocks would overflow.
pub const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

fn always() -> u32 {
    ALWAYS
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_always(per_mille: &u32) -> bool {
    *per_mille == ALWAYS
}

/// A request lets fewer others go first.
const MOST_TURNS: u64 = 10_000;

impl Rule {
    /// A fault that strikes every request, always.
    #[must_use]
    pub fn always(fault: Fault) -> Self {
        Self {
            fault,
            client: None,
            user: None,
            verbs: Vec::new(),
            resources: Vec::new(),
            namespace: None,
            name: None,
            subresource: None,
            nth: None,
            per_mille: ALWAYS,
            from: Duration::ZERO,
            until: None,
        }
    }

    /// Strikes only this many of a thousand requests or pieces of a watch.
    #[must_use]
    pub fn per_mille(self, per_mille: u32) -> Self {
        Self { per_mille, ..self }
    }

    /// Strikes only at these times, since the [`Faults`](super::Faults) were made.
    #[must_use]
    pub fn within(self, window: Range<Duration>) -> Self {
        Self { from: window.start, until: Some(window.end), ..self }
    }

    /// The same with its times counted from so much later on.
    #[must_use]
    pub fn later(self, by: Duration) -> Self {
        Self { from: self.from.saturating_add(by), until: self.until.map(|until| until.saturating_add(by)), ..self }
    }

    /// Strikes only these verbs.
    #[must_use]
    pub fn verbs(self, verbs: &[Verb]) -> Self {
        Self { verbs: verbs.to_vec(), ..self }
    }

    /// Strikes only these resources.
    #[must_use]
    pub fn resources(self, resources: &[&str]) -> Self {
        Self { resources: resources.iter().map(|&resource| resource.to_owned()).collect(), ..self }
    }

    /// Strikes only requests of this sender.
    #[must_use]
    pub fn of(self, who: &str) -> Self {
        Self { client: Some(who.to_owned()), ..self }
    }

    /// Checks what the form of a field does not say.
    ///
    /// # Errors
    /// With the field, what was found and what was expected.
    pub fn check(&self) -> Result<(), String> {
        let Self { fault, verbs, nth, per_mille, from, until, .. } = self;
        if let Some(only) = fault.only().filter(|only| !verbs.is_empty() && !verbs.contains(only)) {
            let found: Vec<&str> = verbs.iter().map(|verb| verb.word()).collect();
            let (found, kind) = (found.join(", "), fault.kind());
            return Err(format!("verbs: found {found}, expected {} among them: {kind} strikes no other", only.word()));
        }
        if *per_mille > ALWAYS {
            return Err(format!("perMille: found {per_mille}, expected at most {ALWAYS}"));
        }
        if *nth == Some(0) {
            return Err("nth: found 0, expected a number from 1 on".to_owned());
        }
        if let Fault::Reorder(turns @ MOST_TURNS..) | Fault::Yield(turns @ MOST_TURNS..) = fault {
            return Err(format!("fault: found {turns} turns, expected less than {MOST_TURNS}"));
        }
        if let Some(until) = until.filter(|until| until <= from) {
            let [until, from] = [until, *from].map(text::written);
            return Err(format!("until: found {until}, expected later than from, which is {from}"));
        }
        let longest = [("fault", fault.range().map(|range| range.end)), ("from", Some(*from)), ("until", *until)];
        match longest.into_iter().find_map(|(field, found)| Some((field, found.filter(|found| *found > LONGEST)?))) {
            Some((field, found)) => Err(format!("{field}: found {found:?}, expected at most a year")),
            None => Ok(()),
        }
    }

    /// A number for the rule's own chance: that of what it does and to whom, however often and when.
    pub(super) fn digest(&self) -> u64 {
        let Self { fault, client, user, verbs, resources, namespace, name, subresource, .. } = self;
        let whom = format!("{client:?} {user:?} {verbs:?} {resources:?} {namespace:?} {name:?} {subresource:?}");
        digest(format!("{fault:?} {whom}").as_bytes())
    }

    /// Whether it is about such requests, or their watches, at all.
    pub(super) fn is_about(&self, who: &str, target: &Target) -> bool {
        let only = |only: &Option<String>, found: &str| only.as_deref().is_none_or(|only| only == found);
        let product = |only: &str| who.strip_prefix(only).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.fault.only().is_none_or(|verb| verb == target.verb)
            && self.client.as_deref().is_none_or(product)
            && only(&self.user, &target.user)
            && (self.verbs.is_empty() || self.verbs.contains(&target.verb))
            && (self.resources.is_empty() || self.resources.contains(&target.resource))
            && only(&self.namespace, &target.namespace)
            && only(&self.name, &target.name)
            && only(&self.subresource, &target.subresource)
    }

    /// Whether it may strike this one of those that it is about, at a time; chance has the last word.
    pub(super) fn applies(&self, target: &Target, nth: u64, at: Duration) -> bool {
        self.nth.is_none_or(|only| only == nth)
            && at >= self.from
            && self.until.is_none_or(|until| at < until)
            // A request that names no version is answered with the newest there is.
            && (target.resumes || self.fault != Fault::Refuse(Refusal::VersionTooLarge))
    }
}
