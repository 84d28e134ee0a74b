//! A failed write, and the kind of its failure.

use std::collections::BTreeSet;
use std::time::Duration;

/// Why a request failed.
///
/// If the server answered, the fields are those of its `Status`. If it did not answer, or nothing was sent, `code` is 0
/// and `message` says why.
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
    /// A request was sent, or was due, and no answer came: the server is away, or acted without answering.
    pub unanswered: bool,
    /// Nothing was sent, for want of a connection or of the right to write at that moment: of what is unanswered this surely did not
    /// happen.
    pub never_sent: bool,
}

impl Failure {
    /// A failure found here and not by the server: it persists until an object changes.
    #[must_use]
    pub fn local(message: impl Into<String>) -> Self {
        Self {
            code: 0,
            reason: String::new(),
            message: message.into(),
            causes: Vec::new(),
            retry_after: None,
            unanswered: false,
            never_sent: false,
        }
    }

    /// No news from the server: a request without an answer, or a watch that is behind. It ends by itself.
    #[must_use]
    pub fn unanswered(message: impl Into<String>) -> Self {
        Self { unanswered: true, ..Self::local(message) }
    }

    /// The same failure with a prefix: `unable to delete pods: ...`.
    #[must_use]
    pub fn in_context(&self, words: &str) -> Self {
        Self { message: format!("{words}: {}", self.message), ..self.clone() }
    }

    /// One failure for several: a single one unchanged, more with their distinct messages as `[a, b]`.
    ///
    /// `None` for none. The code, reason and causes are those of the first.
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

    /// The object does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.is("NotFound", 404)
    }

    /// The object does not meet a precondition of the request.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.is("Conflict", 409)
    }

    /// The name of the object to create is taken.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// The object in the request is invalid.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.is("Invalid", 422)
    }

    /// The namespace is being deleted: nothing can be created in it, and nothing needs to be.
    #[must_use]
    pub fn is_namespace_terminating(&self) -> bool {
        self.causes.iter().any(|cause| cause == "NamespaceTerminating")
    }

    /// Whether the write may have happened all the same: no answer came, or one that leaves it open.
    #[must_use]
    pub fn is_uncertain(&self) -> bool {
        self.unanswered && !self.never_sent || matches!(self.code, 502 | 504)
    }

    /// The kind of refusal, which decides how long to wait before a retry.
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

    /// The server's reason decides; without one, the code does.
    fn is(&self, reason: &str, code: u16) -> bool {
        self.reason == reason || (matches!(self.reason.as_str(), "" | "Unknown") && self.code == code)
    }
}

/// The kinds of refusal that can end without a change of the refused object (B-09).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A ResourceQuota is used up: until an object is deleted, or the quota is raised.
    Quota,
    /// An admission webhook said no, or could not be reached.
    Webhook,
    /// The server is busy.
    TooManyRequests,
    /// The server or its storage is unavailable.
    Unavailable,
    /// Anything else.
    Other,
}

impl Refusal {
    /// The longest backoff after such a refusal; `None` if the queue's own limit applies.
    ///
    /// The queue's backoff doubles up to 1000 s. A quota that was full for an hour would hold its ReplicaSets back for
    /// up to a quarter of an hour after it was raised, and so would a server that was away for an hour. A server that
    /// is away is retried as often as its watches are.
    #[must_use]
    pub const fn longest_backoff(self) -> Option<Duration> {
        match self {
            Self::Quota | Self::Webhook | Self::TooManyRequests => Some(Duration::from_secs(60)),
            Self::Unavailable => Some(Duration::from_secs(30)),
            Self::Other => None,
        }
    }
}
