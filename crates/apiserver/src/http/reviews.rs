//! Questions about the caller: who am I, what may I do. Whoever has the credential may do anything.

use muster_objects::time::Timestamp;
use serde_json::{Map, Value, json};

use crate::codec::{self, Format, Model};
use crate::status::ApiError;

/// The one user there is.
const USER: &str = "admin";

/// Answers a review.
///
/// # Errors
/// 400 for a body that cannot be read.
pub fn answer(
    kind: &str,
    api_version: &str,
    body: &[u8],
    format: Format,
    now: Timestamp,
    known_token: impl Fn(&str) -> bool,
) -> Result<Value, ApiError> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let model = Model { group, version, kind };
    let review = codec::untyped(&model, body, format)?;
    let spec = review.get("spec").cloned();
    let user = json!({"username": USER, "uid": USER, "groups": ["system:masters", "system:authenticated"]});
    let status = match kind {
        "SelfSubjectReview" => json!({"userInfo": user}),
        "SelfSubjectAccessReview" => json!({"allowed": true}),
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        _ => {
            let token = spec.as_ref().and_then(|s| s.get("token")).and_then(Value::as_str).unwrap_or_default();
            if known_token(token) {
                json!({"authenticated": true, "user": user})
            } else {
                json!({"user": {}, "error": "invalid bearer token"})
            }
        }
    };
    let mut out = Map::new();
    out.insert("kind".to_owned(), json!(kind));
    out.insert("apiVersion".to_owned(), json!(api_version));
    let mut metadata = review.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    if kind == "SelfSubjectReview" {
        metadata.insert("creationTimestamp".to_owned(), json!(now.to_string()));
    }
    out.insert("metadata".to_owned(), Value::Object(metadata));
    if let Some(spec) = spec {
        out.insert("spec".to_owned(), spec);
    }
    out.insert("status".to_owned(), status);
    Ok(Value::Object(out))
}
