//! How a request can fail: a typed refusal of the server, or a transport error.

use std::{borrow::Cow, fmt, time::Duration};

use http::{Method, StatusCode};
use serde::Deserialize;

use super::{encoding::Encoding, protobuf};

/// The longest `Retry-After` that is followed.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Any boxed error, as tower services have them.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a request has no good answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server answered, and refused. Displayed as the server's own message.
    #[error(transparent)]
    Api(Box<ApiError>),
    /// There was no whole answer.
    #[error("{method} {address}: {}", with_causes(&**source))]
    Transport {
        /// What was asked.
        method: Method,
        /// Of which address; of a server in this process only the path.
        address: String,
        /// Whether the server may have acted on it.
        received: Received,
        /// What the transport said.
        #[source]
        source: BoxError,
    },
    /// The answer is not what the request asks for.
    #[error("{method} {path}: the answer cannot be read: {source}")]
    Answer {
        /// What was asked.
        method: Method,
        /// Of which path.
        path: String,
        /// What is wrong with it.
        #[source]
        source: BoxError,
    },
    /// The request was not sent: the client may not write at this moment (CM-05).
    #[error("{method} {path}: not sent, for the leader's lease is not held")]
    Fenced {
        /// What was to be asked.
        method: Method,
        /// Of which path.
        path: String,
    },
    /// The request could not be built, or the configuration does not make a client.
    #[error("{what}: {source}")]
    Configuration {
        /// What was being set up.
        what: Cow<'static, str>,
        /// Why it cannot be.
        #[source]
        source: BoxError,
    },
}

/// Whether a request without an answer may have been acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// No connection was made: the server has not seen it.
    Never,
    /// It was on its way, or its answer was.
    Perhaps,
}

impl ClientError {
    /// The server's refusal, if it is one.
    #[must_use]
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Api(error) => Some(error),
            _ => None,
        }
    }

    /// The answer's HTTP status, where there was an answer.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        self.api().map(|error| error.code)
    }

    /// 404 NotFound.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.api().is_some_and(|error| error.reason == "NotFound")
    }

    /// 409 Conflict: a resourceVersion or a precondition did not hold.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.api().is_some_and(|error| error.reason == "Conflict")
    }

    /// 504 of a list as of a version that the server's cache has not reached in time.
    #[must_use]
    pub fn is_too_new(&self) -> bool {
        self.api().is_some_and(ApiError::is_too_new)
    }

    /// 409 AlreadyExists.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.api().is_some_and(|error| error.reason == "AlreadyExists")
    }

    /// 422 Invalid.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.api().is_some_and(|error| error.reason == "Invalid")
    }

    /// 410: the resourceVersion (or the continue token) has expired.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.api().is_some_and(|error| matches!(error.reason.as_str(), "Expired" | "Gone") || error.code == 410)
    }

    /// Whether the server may have acted on the request although it did not say so.
    #[must_use]
    pub fn may_have_been_received(&self) -> bool {
        match self {
            Self::Transport { received, .. } => *received == Received::Perhaps,
            Self::Answer { .. } => true,
            Self::Api(error) => error.code == 504 || error.code >= 500,
            Self::Configuration { .. } | Self::Fenced { .. } => false,
        }
    }
}

/// The words of an error that names only its own layer, with those of the layers below: that a connection was refused, say.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut said = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !said.contains(&words) {
            said = format!("{said}: {words}");
        }
        next = cause.source();
    }
    said
}

/// A `Status` of the server that says Failure, in the fields that are acted on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiError {
    /// The HTTP status.
    pub code: u16,
    /// The machine-readable reason, such as `AlreadyExists`; empty where the server gave none.
    pub reason: String,
    /// What a person reads.
    pub message: String,
    /// What it is about, and why.
    pub details: Option<Details>,
}

/// What a `Status` says beside its message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    /// The object's name.
    pub name: String,
    /// The object's group.
    pub group: String,
    /// The object's resource or kind.
    pub kind: String,
    /// The object's uid.
    pub uid: String,
    /// One entry for each thing wrong.
    pub causes: Vec<Cause>,
    /// Seconds after which to try again; 0 says nothing.
    pub retry_after_seconds: u64,
}

/// One thing wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cause {
    /// Machine-readable, such as `NamespaceTerminating` or `FieldValueInvalid`.
    pub reason: String,
    /// What a person reads.
    pub message: String,
    /// The path of the field.
    pub field: String,
}

impl ApiError {
    /// Reads the body of a failed answer. A body that is not a `Status` (a proxy's page) gets the message that
    /// client-go gives it.
    #[must_use]
    pub fn read(method: &Method, status: StatusCode, body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Kind<'a> {
            #[serde(borrow)]
            kind: std::borrow::Cow<'a, str>,
        }
        let is_status = serde_json::from_slice::<Kind<'_>>(body).is_ok_and(|object| object.kind == "Status");
        if is_status && let Ok(error) = serde_json::from_slice::<Self>(body) {
            return error.or_code(status);
        }
        Self::generic(method, status, &String::from_utf8_lossy(body))
    }

    /// Reads such a body as it was written.
    pub(crate) fn read_in(encoding: Encoding, method: &Method, status: StatusCode, body: &[u8]) -> Self {
        match encoding {
            Encoding::Json => Self::read(method, status, body),
            Encoding::Protobuf => protobuf::status(body)
                .map(|error| error.or_code(status))
                .unwrap_or_else(|| Self::generic(method, status, &String::from_utf8_lossy(body))),
        }
    }

    /// Reads the `Status` that a watch reports in an ERROR event, from the event's object.
    pub(crate) fn reported(encoding: Encoding, object: &[u8]) -> Self {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        match encoding {
            Encoding::Json => Self::read(&Method::GET, status, object),
            Encoding::Protobuf => protobuf::status_message(object)
                .map(|error| error.or_code(status))
                .unwrap_or_else(|error| Self::generic(&Method::GET, status, &error.to_string())),
        }
    }

    /// A Status that names no code has that of the answer.
    fn or_code(mut self, status: StatusCode) -> Self {
        if self.code == 0 {
            self.code = status.as_u16();
        }
        self
    }

    /// Whether a cause of this reason is among the details.
    #[must_use]
    pub fn has_cause(&self, reason: &str) -> bool {
        self.details.iter().flat_map(|details| &details.causes).any(|cause| cause.reason == reason)
    }

    /// A version was asked for that the server, or its cache, has not reached.
    #[must_use]
    pub fn is_too_new(&self) -> bool {
        self.has_cause("ResourceVersionTooLarge")
    }

    /// A create refused because its namespace is going away (RS-12).
    #[must_use]
    pub fn is_namespace_terminating(&self) -> bool {
        self.has_cause("NamespaceTerminating")
    }

    /// How long the server asks to wait before a retry, by its `Retry-After` or its Status; at most 60 s (CM-03).
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER))
    }

    /// Adds the answer's `Retry-After`, which takes precedence over the Status.
    pub(super) fn with_retry_after(mut self, seconds: Option<u64>) -> Self {
        if let Some(seconds) = seconds {
            self.details.get_or_insert_default().retry_after_seconds = seconds;
        }
        self
    }

    fn generic(method: &Method, status: StatusCode, said: &str) -> Self {
        let code = status.as_u16();
        let (reason, message) = match code {
            400 => ("BadRequest", "the server rejected our request for an unknown reason".to_owned()),
            401 => ("Unauthorized", "the server has asked for the client to provide credentials".to_owned()),
            403 => ("Forbidden", said.to_owned()),
            404 => ("NotFound", "the server could not find the requested resource".to_owned()),
            405 => {
                ("MethodNotAllowed", "the server does not allow this method on the requested resource".to_owned())
            }
            406 => ("NotAcceptable", said.to_owned()),
            409 if *method == Method::POST => ("AlreadyExists", "the server reported a conflict".to_owned()),
            409 => ("Conflict", "the server reported a conflict".to_owned()),
            410 => ("Expired", said.to_owned()),
            415 => ("UnsupportedMediaType", said.to_owned()),
            422 => ("Invalid", "the server rejected our request due to an error in our request".to_owned()),
            429 => (
                "TooManyRequests",
                "the server has received too many requests and has asked us to try again later".to_owned(),
            ),
            503 => {
                ("ServiceUnavailable", "the server is currently unable to handle the request".to_owned())
            }
            504 => (
                "Timeout",
                "the server was unable to return a response in the time allotted, but may still be processing the request"
                    .to_owned(),
            ),
            500.. => (
                "InternalError",
                format!("an error on the server ({said:?}) has prevented the request from succeeding"),
            ),
            _ => (
                "",
                format!("the server responded with the status code {code} but did not return more information"),
            ),
        };
        Self { code, reason: reason.to_owned(), message, details: None }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.is_empty() {
            write!(f, "the server answered {} {}", self.code, self.reason)
        } else {
            f.write_str(&self.message)
        }
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_error_names_what_is_below_its_own_layer_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("{said}")]
        struct Layer {
            said: &'static str,
            source: Option<Box<Layer>>,
        }
        let layer = |said, below: Option<Layer>| Layer { said, source: below.map(Box::new) };
        let refused = layer("tcp connect error", Some(layer("Connection refused", None)));
        let again = layer("client error (Connect): tcp connect error", Some(refused));
        let (method, address) = (Method::GET, "/api".to_owned());
        let error = ClientError::Transport { method, address, received: Received::Never, source: Box::new(again) };
        assert_eq!(error.to_string(), "GET /api: client error (Connect): tcp connect error: Connection refused");
    }

    #[test]
    fn a_status_is_read_with_its_causes() {
        let body = br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"a\" is forbidden: unable to create new content in namespace b because it is being terminated","reason":"Forbidden","details":{"name":"a","kind":"pods","causes":[{"reason":"NamespaceTerminating","message":"namespace b is being terminated","field":"metadata.namespace"}]},"code":403}"#;
        let error = ApiError::read(&Method::POST, StatusCode::FORBIDDEN, body);
        assert!(error.is_namespace_terminating());
        assert!(!error.has_cause("QuotaExceeded"));
        assert_eq!((error.code, error.reason.as_str()), (403, "Forbidden"));
        assert!(error.to_string().starts_with("pods \"a\" is forbidden"));
        assert_eq!(error.retry_after(), None);
    }

    #[test]
    fn a_body_that_is_no_status_gets_the_usual_words() {
        let page = b"<html>bad gateway</html>";
        let error = ApiError::read(&Method::GET, StatusCode::BAD_GATEWAY, page);
        assert_eq!(
            error.message,
            "an error on the server (\"<html>bad gateway</html>\") has prevented the request from succeeding"
        );
        let reason = |method, status| ApiError::read(&method, status, b"").reason;
        assert_eq!(reason(Method::POST, StatusCode::CONFLICT), "AlreadyExists");
        assert_eq!(reason(Method::PUT, StatusCode::CONFLICT), "Conflict");
        assert_eq!(reason(Method::PUT, StatusCode::TOO_MANY_REQUESTS), "TooManyRequests");
    }
}
