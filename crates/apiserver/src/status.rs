//! Errors as the real server answers them: `Status` objects, word for word (API-06).

use std::borrow::Cow;

use muster_tree::{Map, Value, json};

use crate::field::{FieldError, aggregate};

/// A group and the plural name of a resource, as error messages name it: `replicasets.apps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupResource<'a> {
    /// The API group; empty for core.
    pub group: &'a str,
    /// The plural name; or a kind, where the real server uses one in its place.
    pub resource: &'a str,
}

impl std::fmt::Display for GroupResource<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.resource)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

/// One of the `causes` in a `Status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// A machine-readable reason, such as `FieldValueInvalid`; may be empty.
    pub reason: String,
    /// Words for a person.
    pub message: String,
    /// The field's path; may be empty.
    pub field: String,
}

/// The `details` of a `Status`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// The object's name; may be empty.
    pub name: String,
    /// The API group; may be empty.
    pub group: String,
    /// A kind or a plural name, whichever the real server puts there.
    pub kind: String,
    /// The object's uid; may be empty.
    pub uid: String,
    /// What is wrong, in parts.
    pub causes: Vec<Cause>,
    /// When to try again, in seconds; 0 is unsaid.
    pub retry_after: u32,
}

/// A request's failure, as a `Status` object says it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP status code.
    pub code: u16,
    /// The reason, such as `NotFound`; empty where the real server gives none.
    pub reason: Cow<'static, str>,
    /// Words for a person.
    pub message: String,
    /// What the failure is about. `None` is absent, which differs from empty.
    pub details: Option<Box<Details>>,
    /// A continue token, for an expired list that can be continued inconsistently.
    pub continue_token: Option<String>,
}

impl ApiError {
    fn new(code: u16, reason: &'static str, message: String) -> Self {
        Self { code, reason: Cow::Borrowed(reason), message, details: None, continue_token: None }
    }

    fn about(mut self, resource: GroupResource<'_>, name: &str) -> Self {
        self.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: resource.group.to_owned(),
            kind: resource.resource.to_owned(),
            ..Details::default()
        }));
        self
    }

    fn with_empty_details(mut self) -> Self {
        self.details = Some(Box::default());
        self
    }

    /// 404: the object is not there.
    #[must_use]
    pub fn not_found(resource: GroupResource<'_>, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{resource} \"{name}\" not found")).about(resource, name)
    }

    /// 404: there is no such path below a known group and version.
    #[must_use]
    pub fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource".to_owned()).with_empty_details()
    }

    /// 405: the path is there, but not with this method.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource".to_owned();
        Self::new(405, "MethodNotAllowed", message).with_empty_details()
    }

    /// 405: not now.
    #[must_use]
    pub fn not_allowed_now(resource: GroupResource<'_>, why: &str) -> Self {
        Self::new(405, "MethodNotAllowed", why.to_owned()).about(resource, "")
    }

    /// 409: the name is taken.
    #[must_use]
    pub fn already_exists(resource: GroupResource<'_>, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{resource} \"{name}\" already exists")).about(resource, name)
    }

    /// 409: eight generated names were all taken (API-14).
    #[must_use]
    pub fn generated_name_conflict(resource: GroupResource<'_>, name: &str) -> Self {
        let message = format!(
            "{resource} \"{name}\" already exists, the server was not able to generate a unique name for the object"
        );
        let mut error = Self::new(409, "AlreadyExists", message).about(resource, name);
        error.set_retry_after(1);
        error
    }

    /// 409: the object changed, or is not the one that was meant (API-11).
    #[must_use]
    pub fn conflict(resource: GroupResource<'_>, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// 409: the resourceVersion that came with a write is not the current one.
    #[must_use]
    pub fn modified(resource: GroupResource<'_>, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 409 for fields of other managers, which the causes name.
    #[must_use]
    pub fn apply_conflict(message: String) -> Self {
        Self::new(409, "Conflict", message)
    }

    /// 403.
    #[must_use]
    pub fn forbidden(resource: GroupResource<'_>, name: &str, why: &str) -> Self {
        let message = match (resource.resource, name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{resource} is forbidden: {why}"),
            _ => format!("{resource} \"{name}\" is forbidden: {why}"),
        };
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    /// 403 for a path that is no resource.
    #[must_use]
    pub fn forbidden_path(why: &str) -> Self {
        Self::new(403, "Forbidden", format!("forbidden: {why}")).with_empty_details()
    }

    /// 422: fields are wrong. `resource.resource` is the kind here, as on the real server.
    #[must_use]
    pub fn invalid(kind: GroupResource<'_>, name: &str, errors: &[FieldError]) -> Self {
        let message = format!("{kind} {} is invalid: {}", crate::field::go_quote(name), aggregate(errors));
        let mut error = Self::new(422, "Invalid", message).about(kind, name);
        if let Some(details) = &mut error.details {
            details.causes = errors
                .iter()
                .map(|e| Cause { reason: e.kind.reason().to_owned(), message: e.body(), field: e.field.clone() })
                .collect();
        }
        error
    }

    /// 422: an options object is wrong (`CreateOptions.meta.k8s.io "" is invalid: ...`).
    #[must_use]
    pub fn invalid_options(kind: &str, errors: &[FieldError]) -> Self {
        Self::invalid(GroupResource { group: "meta.k8s.io", resource: kind }, "", errors)
    }

    /// 422 without a word more, as for a JSON patch that does not apply.
    #[must_use]
    pub fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request".to_owned();
        Self::new(422, "Invalid", message).with_empty_details()
    }

    /// 400.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message.into())
    }

    /// 401: a wrong credential (API-01).
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized".to_owned())
    }

    /// 406 from the router, which lists what the path can answer with.
    #[must_use]
    pub fn not_acceptable_route(produces: &[&str]) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", produces.join(", "));
        Self::new(406, "NotAcceptable", message).with_empty_details()
    }

    /// 406 from a handler.
    #[must_use]
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message.into())
    }

    /// 415 from the router: a patch of no known type.
    #[must_use]
    pub fn unsupported_media_type_route() -> Self {
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type".to_owned()).with_empty_details()
    }

    /// 415 from a handler: a body of no known type.
    #[must_use]
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 413: the body is longer than `limit` bytes (API-22).
    #[must_use]
    pub fn too_large(limit: usize) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
    }

    /// 413, with a reason of its own.
    #[must_use]
    pub fn too_large_because(why: &str) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: {why}"))
    }

    /// 410: a version, or a continue token, from before the history begins (API-08, API-09).
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message.into())
    }

    /// 504: a version that does not exist yet (API-08).
    #[must_use]
    pub fn version_too_large(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let mut error = Self::new(504, "Timeout", message);
        error.details = Some(Box::new(Details {
            causes: vec![Cause {
                reason: "ResourceVersionTooLarge".to_owned(),
                message: "Too large resource version".to_owned(),
                field: String::new(),
            }],
            retry_after: 1,
            ..Details::default()
        }));
        error
    }

    /// 504: the request took too long.
    #[must_use]
    pub fn timeout(why: &str) -> Self {
        Self::new(504, "Timeout", format!("Timeout: {why}")).with_empty_details()
    }

    /// 429: not now. Where `retry_after` is not 0, it says when to try again, in seconds.
    #[must_use]
    pub fn too_many_requests(message: &str, retry_after: u32) -> Self {
        let mut error = Self::new(429, "TooManyRequests", message.to_owned());
        error.set_retry_after(retry_after);
        error
    }

    /// 500 with the reason `InternalError`.
    #[must_use]
    pub fn internal(what: &str) -> Self {
        let mut error = Self::new(500, "InternalError", format!("Internal error occurred: {what}"));
        error.details = Some(Box::new(Details {
            causes: vec![Cause { reason: String::new(), message: what.to_owned(), field: String::new() }],
            ..Details::default()
        }));
        error
    }

    /// 500 without a reason: what the real server makes of an error that is no `Status`.
    #[must_use]
    pub fn plain(message: impl Into<String>) -> Self {
        Self::new(500, "", message.into())
    }

    /// Adds a cause.
    #[must_use]
    pub fn with_cause(mut self, reason: &str, message: String, field: &str) -> Self {
        self.details.get_or_insert_default().causes.push(Cause {
            reason: reason.to_owned(),
            message,
            field: field.to_owned(),
        });
        self
    }

    /// Says when to try again, in seconds.
    pub fn set_retry_after(&mut self, seconds: u32) {
        self.details.get_or_insert_default().retry_after = seconds;
    }

    /// When to try again, in seconds, for the `Retry-After` header.
    #[must_use]
    pub fn retry_after(&self) -> Option<u32> {
        self.details.as_ref().map(|d| d.retry_after).filter(|s| *s > 0)
    }

    /// The `Status` object.
    #[must_use]
    pub fn to_status(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue", json!(token));
        }
        let mut status = Map::new();
        status.insert("kind", json!("Status"));
        status.insert("apiVersion", json!("v1"));
        status.insert("metadata", Value::Object(metadata));
        status.insert("status", json!("Failure"));
        if !self.message.is_empty() {
            status.insert("message", json!(self.message));
        }
        if !self.reason.is_empty() {
            status.insert("reason", json!(self.reason));
        }
        if let Some(details) = &self.details {
            status.insert("details", details.to_value());
        }
        status.insert("code", json!(self.code));
        Value::Object(status)
    }
}

impl Details {
    /// The JSON of these details, without what is empty.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut out = Map::new();
        for (key, value) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)] {
            if !value.is_empty() {
                out.insert(key, json!(value));
            }
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(|cause| {
                let mut out = Map::new();
                for (key, value) in [("reason", &cause.reason), ("message", &cause.message), ("field", &cause.field)] {
                    if !value.is_empty() {
                        out.insert(key, json!(value));
                    }
                }
                Value::Object(out)
            });
            out.insert("causes", causes.collect());
        }
        if self.retry_after > 0 {
            out.insert("retryAfterSeconds", json!(self.retry_after));
        }
        Value::Object(out)
    }
}

/// A `Status` that says success, with what it is about.
#[must_use]
pub fn success(details: Option<&Details>, code: Option<u16>) -> Value {
    let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    if let Some(details) = details {
        status["details"] = details.to_value();
    }
    if let Some(code) = code {
        status["code"] = json!(code);
    }
    status
}
