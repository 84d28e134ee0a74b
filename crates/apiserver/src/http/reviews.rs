//! Questions about users: who am I, what may I or somebody else do, whose token is this (API-31, API-32).

use muster_objects::time::Timestamp;
use serde_json::{Map, Value, json};

use crate::access::attributes::Attributes;
use crate::access::{User, roles};
use crate::codec::{self, Format};
use crate::field::{FieldError, Shown};
use crate::model::fields::Fields as _;
use crate::model::{Object, Resource};
use crate::status::{ApiError, GroupResource};

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// Kinds that are only ever created, and answered at once; and the older way to bind pods, which is too.
pub fn resources() -> impl Iterator<Item = Resource> {
    let cluster = |group, kind, plural| Resource::cluster(group, "v1", kind, plural);
    let all = [
        Resource::namespaced("", "v1", "Binding", "bindings"),
        cluster(AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews"),
        cluster(AUTHENTICATION, "TokenReview", "tokenreviews"),
        Resource::namespaced(AUTHORIZATION, "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews"),
        cluster(AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
        cluster(AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews"),
        cluster(AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews"),
    ];
    all.into_iter().map(|resource| resource.only(&["create"]))
}

/// Answers a review for a user; `namespace` is the path's.
///
/// # Errors
/// 400 for a body that cannot be read or lacks what is asked about, 422 for one that asks about nothing, or too much.
pub fn answer(
    review: &Resource,
    (body, format): (&[u8], Format),
    namespace: &str,
    user: &User,
    now: Timestamp,
    known: impl Fn(&str) -> Option<User>,
) -> Result<Value, ApiError> {
    let Resource { group, version, kind, .. } = review;
    let object = codec::untyped(&review.model(), body, format)?;
    let none = Object::new();
    let spec = object.object("spec").unwrap_or(&none);
    let status = match &**kind {
        "SelfSubjectReview" => json!({"userInfo": user.info()}),
        "SelfSubjectAccessReview" => access(spec, user, None)?,
        "LocalSubjectAccessReview" => access(spec, &subject(spec), Some(namespace))?,
        "SubjectAccessReview" => access(spec, &subject(spec), None)?,
        "SelfSubjectRulesReview" if spec.text("namespace").is_empty() => {
            return Err(ApiError::bad_request("no namespace on request"));
        }
        "SelfSubjectRulesReview" => roles::rules_of(user),
        _ if spec.text("token").is_empty() => {
            return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
        }
        _ => match known(spec.text("token")) {
            Some(user) => json!({"authenticated": true, "user": user.info()}),
            None => json!({"user": {}, "error": "invalid bearer token"}),
        },
    };
    let mut out = Map::new();
    out.insert("kind".to_owned(), json!(kind));
    out.insert("apiVersion".to_owned(), json!(format!("{group}/{version}")));
    let mut metadata = object.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    if kind == "SelfSubjectReview" {
        metadata.insert("creationTimestamp".to_owned(), json!(now.to_string()));
    }
    out.insert("metadata".to_owned(), Value::Object(metadata));
    if let Some(spec) = object.get("spec") {
        out.insert("spec".to_owned(), spec.clone());
    }
    out.insert("status".to_owned(), status);
    Ok(Value::Object(out))
}

/// The user that a review of somebody else's access names.
fn subject(spec: &Object) -> User {
    let strings = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = spec.object("extra").into_iter().flatten().map(|(key, values)| (key.clone(), strings(values)));
    User {
        name: spec.text("user").to_owned(),
        uid: spec.text("uid").to_owned(),
        groups: spec.get("groups").map(strings).unwrap_or_default(),
        extra: extra.collect(),
    }
}

/// The status of a review of access; `local` is the one namespace that it may be about.
fn access(spec: &Object, user: &User, local: Option<&str>) -> Result<Value, ApiError> {
    let (resource, path) = (spec.object("resourceAttributes"), spec.object("nonResourceAttributes"));
    let mut errors = Vec::new();
    match (resource, path) {
        (Some(_), Some(path)) => errors.push(FieldError::invalid(
            "spec.nonResourceAttributes",
            Shown::Json(json!({"Path": path.text("path"), "Verb": path.text("verb")})),
            "cannot be specified in combination with resourceAttributes",
        )),
        (None, None) => errors.push(FieldError::invalid(
            "spec.resourceAttributes",
            Shown::Bare("null".to_owned()),
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    if user.name.is_empty() && user.groups.is_empty() {
        let what = "at least one of user or group must be specified";
        errors.push(FieldError::invalid("spec.user", Shown::Str(String::new()), what));
    }
    let elsewhere =
        resource.map(|resource| resource.text("namespace")).filter(|it| local.is_some_and(|own| own != *it));
    if let Some(elsewhere) = elsewhere {
        let found = Shown::Str(elsewhere.to_owned());
        errors.push(FieldError::invalid("spec.resourceAttributes.namespace", found, "must match metadata.namespace"));
    }
    if !errors.is_empty() {
        return Err(ApiError::invalid(GroupResource { group: AUTHORIZATION, resource: "" }, "", &errors));
    }
    let attributes = match (resource, path) {
        (Some(asked), _) => Attributes::Resource {
            verb: asked.text("verb"),
            group: asked.text("group"),
            resource: asked.text("resource"),
            subresource: asked.text("subresource"),
            namespace: asked.text("namespace"),
            name: asked.text("name"),
        },
        (None, asked) => Attributes::Path {
            verb: asked.map_or("", |asked| asked.text("verb")).to_owned(),
            path: asked.map_or("", |asked| asked.text("path")),
        },
    };
    Ok(match roles::allow(user, &attributes) {
        Some(reason) if reason.is_empty() => json!({"allowed": true}),
        Some(reason) => json!({"allowed": true, "reason": reason}),
        None => json!({"allowed": false}),
    })
}
