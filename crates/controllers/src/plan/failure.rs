//! A write that was refused or lost, and what kind of refusal it was.

use std::collections::BTreeSet;
use std::time::Duration;

/// Why a request did not do what it was sent for.
///
/// Where the server answered, the fields are those of its `Status`. Where it did not, or was not asked, `code` is 0 and
/// `message` says why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The HTTP status; 0 where there was no answer.
    pub code: u16,
    /// `Status.reason`, such as `NotFound`; empty where the server gave none.
    pub reason: String,
    /// `Status.message`: what events, conditions and logs show.
    pub message: String,
    /// The reasons of `Status.details.causes`.
    pub causes: Vec<String>,
    /// How long the server asks to wait, from `Retry-After` or `details.retryAfterSeconds`.
    pub retry_after: Option<Duration>,
    /// The server was to be asked, and no answer came: it is away, or it may have acted without saying so.
    pub unanswered: bool,
}

impl Failure {
    /// A failure of our own that the server has no part in: it stays until an object changes.
    #[must_use]
    pub fn local(message: impl Into<String>) -> Self {
        Self {
            code: 0,
            reason: String::new(),
            message: message.into(),
            causes: Vec::new(),
            retry_after: None,
            unanswered: false,
        }
    }

    /// A failure to hear from the server: a request without an answer, or a watch that is behind. It ends by itself.
    #[must_use]
    pub fn unanswered(message: impl Into<String>) -> Self {
        Self { unanswered: true, ..Self::local(message) }
    }

    /// The same failure, told with words in front: `unable to delete pods: ...`.
    #[must_use]
    pub fn in_context(&self, words: &str) -> Self {
        Self { message: format!("{words}: {}", self.message), ..self.clone() }
    }

    /// One failure for several: alone itself, together their distinct messages as `[a, b]`.
    ///
    /// None for none. The code, reason and causes are those of the first.
    #[must_use]
    pub fn aggregate(failures: &[Self]) -> Option<Self> {
        let first = failures.first()?;
        let mut seen = BTreeSet::new();
        let distinct: Vec<&str> = failures.iter().map(|f| f.message.as_str()).filter(|m| seen.insert(*m)).collect();
        let message = match distinct.as_slice() {
            [only] => (*only).to_owned(),
            several => format!("[{}]", several.join(", ")),
        };
        Some(Self { message, ..first.clone() })
    }

    /// The object is not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.is("NotFound", 404)
    }

    /// The object, or a precondition about it, is not what the request believed.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.is("Conflict", 409)
    }

    /// Another object bears the name of the one to create.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// The object that the request would make is no valid one.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.is("Invalid", 422)
    }

    /// The namespace is being deleted: nothing can be created in it any more, and none needs to be.
    #[must_use]
    pub fn is_namespace_terminating(&self) -> bool {
        self.causes.iter().any(|cause| cause == "NamespaceTerminating")
    }

    /// Whether the server may have done the write all the same: no answer came, or one that does not say.
    #[must_use]
    pub fn is_uncertain(&self) -> bool {
        self.unanswered || matches!(self.code, 502 | 504)
    }

    /// What kind of refusal this is, as far as it decides how long to wait before trying again.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        if self.code == 429 || self.reason == "TooManyRequests" {
            Refusal::TooManyRequests
        } else if self.code == 403 && self.message.contains("exceeded quota") {
            Refusal::Quota
        } else if self.message.contains("admission webhook ") || self.message.contains("failed calling webhook") {
            Refusal::Webhook
        } else if self.unanswered || self.code >= 500 {
            Refusal::Unavailable
        } else {
            Refusal::Other
        }
    }

    /// The server's reason decides; a reason it did not know to give is read from the code.
    fn is(&self, reason: &str, code: u16) -> bool {
        self.reason == reason || (matches!(self.reason.as_str(), "" | "Unknown") && self.code == code)
    }
}

/// The kinds of refusal that end without a change of the object refused (B-09).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A ResourceQuota is used up: until something else goes, or the quota is raised.
    Quota,
    /// An admission webhook said no, or could not be reached.
    Webhook,
    /// The server is busy.
    TooManyRequests,
    /// The server is not there, or its storage is not.
    Unavailable,
    /// Anything else.
    Other,
}

impl Refusal {
    /// The longest backoff after such a refusal; none where the queue's own limit is right.
    ///
    /// The queue's backoff doubles up to 1000 s, so that a quota that was full for an hour would go on
    /// to hold its ReplicaSets back for a quarter of another after it was raised. A server that was away for an
    /// hour, and nobody touches the object when it is back, is the same; it is asked as often as a watch asks for it.
    #[must_use]
    pub const fn longest_backoff(self) -> Option<Duration> {
        match self {
            Self::Quota | Self::Webhook | Self::TooManyRequests => Some(Duration::from_secs(60)),
            Self::Unavailable => Some(Duration::from_secs(30)),
            Self::Other => None,
        }
    }
}
