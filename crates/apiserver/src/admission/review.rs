//! Reviews: what a webhook is sent, and what it may answer.

use std::borrow::Cow;

use base64::Engine as _;
use bytes::Bytes;
use muster_tree::{Map, Value, json};

use super::attributes::{Attributes, Seen};
use crate::field::{go_quote, json_word};
use crate::model::{Fields as _, Object};
use crate::schema;
use crate::status::{ApiError, Cause, Details};
use crate::webhook::Answer;

/// A version of `admission.k8s.io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// `v1`
    V1,
    /// `v1beta1`, whose answers are checked less.
    V1Beta1,
}

impl Version {
    /// The one of a name.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// What a webhook says of a write.
#[derive(Debug, Default)]
pub(super) struct Response {
    /// Whether it is allowed.
    pub(super) allowed: bool,
    /// Why it is not.
    pub(super) result: Option<Object>,
    /// What is to be changed.
    pub(super) patch: Vec<u8>,
    /// How `patch` is written.
    pub(super) patch_type: String,
    /// What the client is to be warned of.
    pub(super) warnings: Vec<String>,
}

/// The body of a review.
pub(super) fn request(
    version: Version,
    uid: &str,
    attributes: &Attributes<'_>,
    seen: &Seen,
    object: Option<&Object>,
    old: Option<&Object>,
) -> Bytes {
    let json = |object: Option<&Object>| object.cloned().map_or(Value::Null, Value::Object);
    let mut request = Map::new();
    request.insert("uid", json!(uid));
    request.extend(attributes.request(seen));
    request.insert("object", json(object));
    request.insert("oldObject", json(old));
    let review = json!({"kind": "AdmissionReview", "apiVersion": version.api_version(), "request": request});
    Bytes::from(review.to_string())
}

/// Reads a webhook's answer; `mutates` says that it may change the object.
///
/// # Errors
/// Why it is none, in the reference's words.
pub(super) fn read(answer: &Answer, version: Version, uid: &str, mutates: bool) -> Result<Response, String> {
    let failed = |why: String| format!("failed to call webhook: {why}");
    let review = tree(answer).and_then(|tree| well_typed(tree, version)).map_err(failed)?;
    let response = response(&review, version, uid)?;
    let patch = schema::base64(response.text("patch")).map_err(failed)?;
    let patch = base64::engine::general_purpose::STANDARD.decode(patch).unwrap_or_default();
    let invalid = |why: &str| Err(format!("received invalid webhook response: {why}"));
    let mut patch_type = response.maybe_text("patchType");
    match (version, mutates) {
        (Version::V1, false) if !patch.is_empty() => {
            return invalid("validating webhook may not return response.patch");
        }
        (Version::V1, false) if patch_type.is_some() => {
            return invalid("validating webhook may not return response.patchType");
        }
        (Version::V1, true) => match (patch.is_empty(), patch_type) {
            (false, None) => return invalid("webhook returned response.patch but not response.patchType"),
            (true, Some(_)) => return invalid("webhook returned response.patchType but not response.patch"),
            (_, Some("")) => return invalid("webhook returned invalid response.patchType of \"\""),
            _ => {}
        },
        (Version::V1Beta1, true) if !patch.is_empty() => patch_type = Some("JSONPatch"),
        _ => {}
    }
    Ok(Response {
        allowed: response.flag("allowed"),
        result: response.object("status").cloned(),
        patch: if mutates { patch } else { Vec::new() },
        patch_type: patch_type.unwrap_or_default().to_owned(),
        warnings: response.strings("warnings").map(str::to_owned).collect(),
    })
}

/// The JSON of an answer that says success.
fn tree(answer: &Answer) -> Result<Object, String> {
    // What does not look like JSON is taken for YAML.
    let json = match answer.body.trim_ascii_start().first() {
        Some(b'{') | None => Ok(Cow::Borrowed(&*answer.body)),
        Some(_) => schema::yaml_to_json(&answer.body).map(Cow::Owned),
    };
    let unreadable = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let body = json.and_then(|json| match schema::read_json(&json).map_err(unreadable)? {
        Value::Object(body) => Ok(body),
        other => {
            let head = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
            Err(unreadable(format!("json: cannot unmarshal {} into Go value of type {head}", json_word(&other))))
        }
    });
    let refused = body.as_ref().ok().filter(|body| body.text("kind") == "Status" && body.text("status") != "Success");
    let message = refused.map(|status| status.text("message").to_owned());
    if !(200..=206).contains(&answer.status) {
        return Err(message.unwrap_or_else(|| answer.refusal()));
    }
    if let Some(message) = message {
        return Err(message);
    }
    if answer.body.is_empty() {
        let (status, kind) = (answer.status, &answer.content_type);
        return Err(format!("0-length response with status code: {status} and content type: {kind}"));
    }
    body
}

/// The answer, if it has the form of a review of this version; what it does not say is taken for granted.
fn well_typed(review: Object, version: Version) -> Result<Object, String> {
    let (kind, api_version) = match (review.text("kind"), review.text("apiVersion")) {
        ("", "") => ("AdmissionReview", version.api_version()),
        ("", found) => ("AdmissionReview", found),
        (found, "") => (found, version.api_version()),
        found => found,
    };
    let wanted = version.api_version();
    if (kind, api_version) != ("AdmissionReview", wanted) {
        let short = |version: &str| version.rsplit('/').next().unwrap_or_default().to_owned();
        let known = matches!(
            (kind, api_version),
            ("AdmissionReview", "admission.k8s.io/v1" | "admission.k8s.io/v1beta1") | ("Status", "v1")
        );
        return Err(if known {
            let (found, wanted) = (short(api_version), short(wanted));
            format!("converting ({found}.{kind}) to ({wanted}.AdmissionReview): unknown conversion")
        } else {
            let (kind, version, scheme) = (go_quote(kind), go_quote(api_version), "pkg/util/webhook/client.go:71");
            format!("no kind {kind} is registered for version {version} in scheme \"{scheme}\"")
        });
    }
    let response = review.object("response");
    for (field, word, go) in RESPONSE {
        let Some(found) = response.and_then(|response| response.get(field)).filter(|found| !found.is_null()) else {
            continue;
        };
        if json_word(found) != word {
            let (found, field) = (json_word(found), format!("AdmissionResponse.response.{field}"));
            return Err(format!("json: cannot unmarshal {found} into Go struct field {field} of type {go}"));
        }
    }
    Ok(review)
}

/// The fields of a response, what they have to be, and how Go calls that.
const RESPONSE: [(&str, &str, &str); 7] = [
    ("uid", "string", "types.UID"),
    ("allowed", "bool", "bool"),
    ("status", "object", "v1.Status"),
    ("patch", "string", "[]uint8"),
    ("patchType", "string", "v1.PatchType"),
    ("auditAnnotations", "object", "map[string]string"),
    ("warnings", "array", "[]string"),
];

/// The response of a review, if it is one to this request.
fn response<'r>(review: &'r Object, version: Version, uid: &str) -> Result<&'r Object, String> {
    let invalid = |why: String| format!("received invalid webhook response: {why}");
    let (kind, api_version) = (review.text("kind"), review.text("apiVersion"));
    let response = review.object("response").ok_or_else(|| invalid("webhook response was absent".to_owned()))?;
    if version == Version::V1Beta1 {
        return Ok(response);
    }
    if response.text("uid") != uid {
        let (wanted, found) = (go_quote(uid), go_quote(response.text("uid")));
        return Err(invalid(format!("expected response.uid={wanted}, got {found}")));
    }
    let (wanted, found) = (version.api_version(), if api_version.is_empty() { "/" } else { api_version });
    if kind != "AdmissionReview" || api_version != wanted {
        let why = format!("expected webhook response of {wanted}, Kind=AdmissionReview, got {found}, Kind={kind}");
        return Err(invalid(why));
    }
    Ok(response)
}

/// What a client is answered whose write a webhook does not allow.
pub(super) fn denied(webhook: &str, result: Option<&Object>) -> ApiError {
    let empty = Object::new();
    let result = result.unwrap_or(&empty);
    let mut error = ApiError::plain(String::new());
    error.code = u16::try_from(result.int("code")).unwrap_or(400).max(400);
    error.reason = result.text("reason").to_owned().into();
    let by = format!("admission webhook {} denied the request", go_quote(webhook));
    error.message = match (result.text("message"), result.text("reason")) {
        ("", "") => format!("{by} without explanation"),
        ("", reason) => format!("{by}: {reason}"),
        (message, _) => format!("{by}: {message}"),
    };
    error.details = result.object("details").map(|details| {
        let cause = |cause: &Object| Cause {
            reason: cause.text("reason").to_owned(),
            message: cause.text("message").to_owned(),
            field: cause.text("field").to_owned(),
        };
        Box::new(Details {
            name: details.text("name").to_owned(),
            group: details.text("group").to_owned(),
            kind: details.text("kind").to_owned(),
            uid: details.text("uid").to_owned(),
            causes: details.items("causes").map(cause).collect(),
            retry_after: u32::try_from(details.int("retryAfterSeconds")).unwrap_or_default(),
        })
    });
    error
}
