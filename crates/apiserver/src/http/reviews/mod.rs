//! Questions about users: who am I, what may I or somebody else do, whose token is this (API-31, API-32).

mod selectors;

use muster_objects::time::Timestamp;
use muster_tree::{Map, Value, json};

use super::Shared;
use crate::access::User;
use crate::access::attributes::{Attributes, ResourceAttributes};
use crate::admission::{Admission, Operation};
use crate::codec::{self, Format};
use crate::field::{FieldError, Shown};
use crate::model::{Fields as _, Object, Resource, metadata};
use crate::registry::options::WriteOptions;
use crate::schema::managed;
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

/// A review that somebody sent.
pub struct Asked<'a> {
    /// The server.
    pub shared: &'a Shared,
    /// The kind.
    pub review: &'a Resource,
    /// The path's namespace.
    pub namespace: &'a str,
    /// Who sent it.
    pub user: &'a User,
    /// The options.
    pub options: &'a WriteOptions,
    /// The webhooks that are asked about it. Policies are not: reviews of access are needed to mend them.
    pub admission: Admission<'a>,
}

/// Answers a review.
///
/// # Errors
/// 400 for a body that cannot be read or lacks what is asked about, 422 for one that asks about nothing, or too much, and what a
/// webhook has against it.
pub async fn answer(
    asked: &Asked<'_>,
    body: &[u8],
    format: Format,
    warnings: &mut Vec<String>,
) -> Result<Value, ApiError> {
    let Asked { shared, review, namespace, user, options, admission } = asked;
    let kind = &review.kind;
    let now = shared.registry.clock.now();
    let mut object = codec::decode(&review.model(), body, format, options.field_validation, warnings)?;
    match_namespace(&mut object, review, namespace)?;
    for field in ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        object.object_or_new("metadata").remove(field);
    }
    managed::update_one_version(review.model(), None, &mut object, &options.manager, "", now);
    let none = Object::new();
    let check = |object: &Object| {
        let spec = object.object("spec").unwrap_or(&none);
        match &**kind {
            "SelfSubjectReview" => Ok(()),
            "SelfSubjectRulesReview" if spec.text("namespace").is_empty() => {
                Err(ApiError::bad_request("no namespace on request"))
            }
            "SelfSubjectRulesReview" => Ok(()),
            "TokenReview" if spec.text("token").is_empty() => {
                Err(ApiError::bad_request("token is required for TokenReview in authentication"))
            }
            "TokenReview" => Ok(()),
            "SelfSubjectAccessReview" => validate(asked, object, spec, user),
            _ => validate(asked, object, spec, &subject(spec)),
        }
    };
    admission.send(&shared.registry, Operation::Create, (review, None), &mut object, warnings, check).await?;
    let spec = object.object("spec").unwrap_or(&none);
    let status = match &**kind {
        "SelfSubjectReview" => {
            let metadata = json!({"creationTimestamp": now.to_string()});
            return Ok(written(review, Some(metadata), None, json!({"userInfo": user.info()})));
        }
        "SelfSubjectRulesReview" => {
            return Ok(written(review, None, Some(json!({})), rules(asked, spec.text("namespace"))));
        }
        "TokenReview" => token(asked, spec, now),
        "SelfSubjectAccessReview" => access(asked, spec, user),
        _ => access(asked, spec, &subject(spec)),
    };
    let (metadata, spec) = (object.get("metadata").cloned(), object.get("spec").cloned());
    Ok(written(review, metadata, spec, status))
}

fn written(review: &Resource, metadata: Option<Value>, spec: Option<Value>, status: Value) -> Value {
    let mut out = Map::new();
    out.insert("kind", json!(review.kind));
    out.insert("apiVersion", json!(review.api_version()));
    out.insert("metadata", metadata.unwrap_or_else(|| json!({})));
    if let Some(spec) = spec {
        out.insert("spec", spec);
    }
    out.insert("status", status);
    Value::Object(out)
}

/// Makes the review's namespace the path's, or says that they differ.
fn match_namespace(object: &mut Object, review: &Resource, namespace: &str) -> Result<(), ApiError> {
    let found = metadata(object).text("namespace");
    if review.namespaced && !found.is_empty() && found != namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(message));
    }
    let metadata = object.object_or_new("metadata");
    metadata.remove("namespace");
    if review.namespaced {
        metadata.insert("namespace", json!(namespace));
    }
    Ok(())
}

/// The status of a review of a token.
fn token(asked: &Asked<'_>, spec: &Object, now: Timestamp) -> Value {
    let mut audiences: Vec<String> = spec.strings("audiences").map(str::to_owned).collect();
    if audiences.is_empty() {
        audiences = asked.shared.authenticator.issuer.audiences().to_vec();
    }
    let Shared { registry, authenticator, .. } = asked.shared;
    // What follows a blank is no part of a token.
    let token = spec.text("token").trim_end().split(' ').next().unwrap_or_default();
    if token.is_empty() && authenticator.allows_anonymous() {
        // Who shows no token is nobody, and known as that.
        return json!({"authenticated": true, "user": User::anonymous().info(), "audiences": audiences});
    }
    match authenticator.recognise(token, &audiences, &**registry, now) {
        Ok(found) => json!({"authenticated": true, "user": found.user.info(), "audiences": found.audiences}),
        Err(why) => json!({"user": {}, "error": why}),
    }
}

/// The status of a review of all that a user may do in a namespace.
fn rules(asked: &Asked<'_>, namespace: &str) -> Value {
    let found = asked.shared.registry.authorizer.rules_for(asked.user, namespace, |missing| missing.to_string());
    let of_resources = found.rules.iter().filter(|rule| !rule.resources.is_empty()).map(|rule| {
        let mut out = json!({"verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources});
        if !rule.resource_names.is_empty() {
            out["resourceNames"] = json!(rule.resource_names);
        }
        out
    });
    let of_paths = found.rules.iter().filter(|rule| !rule.paths.is_empty());
    let of_paths = of_paths.map(|rule| json!({"verbs": rule.verbs, "nonResourceURLs": rule.paths}));
    let mut status = json!({
        "resourceRules": of_resources.collect::<Vec<_>>(), "nonResourceRules": of_paths.collect::<Vec<_>>(),
        "incomplete": false,
    });
    if !found.errors.is_empty() {
        status["evaluationError"] = json!(crate::access::rbac::aggregate(&found.errors));
    }
    status
}

/// The user that a review of somebody else's access names.
fn subject(spec: &Object) -> User {
    let strings = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = spec.object("extra").into_iter().flatten().map(|(key, values)| (key.to_string(), strings(values)));
    User {
        name: spec.text("user").to_owned(),
        uid: spec.text("uid").to_owned(),
        groups: spec.get("groups").map(strings).unwrap_or_default(),
        extra: extra.collect(),
    }
}

/// The status of a review of access.
fn access(asked: &Asked<'_>, spec: &Object, user: &User) -> Value {
    let attributes = match (spec.object("resourceAttributes"), spec.object("nonResourceAttributes")) {
        (Some(asked), _) => Attributes::Resource(ResourceAttributes {
            verb: asked.text("verb").into(),
            group: asked.text("group"),
            resource: asked.text("resource"),
            subresource: asked.text("subresource"),
            namespace: asked.text("namespace"),
            name: asked.text("name"),
        }),
        (None, asked) => Attributes::Path {
            verb: asked.map_or("", |asked| asked.text("verb")).into(),
            path: asked.map_or("", |asked| asked.text("path")),
        },
    };
    let decision = asked.shared.registry.authorizer.decide(user, &attributes);
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = json!(decision.reason);
    }
    let ignored = spec.object("resourceAttributes").map(selectors::ignored).unwrap_or_default();
    if !ignored.is_empty() {
        status["evaluationError"] = json!(ignored.join("; "));
    }
    status
}

fn validate(asked: &Asked<'_>, object: &Object, spec: &Object, user: &User) -> Result<(), ApiError> {
    let (resource, path) = (spec.object("resourceAttributes"), spec.object("nonResourceAttributes"));
    let path_shown = |path: &Object| Shown::Json(json!({"Path": path.text("path"), "Verb": path.text("verb")}));
    let mut errors = Vec::new();
    match (resource, path) {
        (Some(_), Some(path)) => errors.push(FieldError::invalid(
            "spec.nonResourceAttributes",
            path_shown(path),
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
        errors.push(FieldError::invalid("spec.user", "", "at least one of user or group must be specified"));
    }
    if let Some(resource) = resource {
        selectors::validate(resource, &mut errors);
    }
    let local = asked.review.namespaced;
    let about = metadata(object);
    if about.keys().any(|field| field != "managedFields" && !(local && field == "namespace")) {
        let why = if local { "must be empty except for namespace" } else { "must be empty" };
        let shown = codec::metadata_in_order(&asked.review.model(), object);
        errors.push(FieldError::invalid("metadata", Shown::Bare(shown), why));
    }
    if local && let Some(elsewhere) = resource.map(|it| it.text("namespace")).filter(|it| *it != asked.namespace) {
        let why = "must match metadata.namespace";
        errors.push(FieldError::invalid("spec.resourceAttributes.namespace", elsewhere, why));
    }
    if local && let Some(path) = path {
        let why = "disallowed on this kind of request";
        errors.push(FieldError::invalid("spec.nonResourceAttributes", path_shown(path), why));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(GroupResource { group: AUTHORIZATION, resource: "" }, "", &errors))
}
