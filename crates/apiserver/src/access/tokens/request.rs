//! `serviceaccounts/token`: a token for an account, on request (API-32).

use muster_objects::time::Timestamp;
use muster_tree::{Value, json};

use super::{Bound, Claims, Issuer, Objects};
use crate::field::{FieldError, go_quote};
use crate::model::{Fields as _, Model, Object, metadata};
use crate::status::{ApiError, GroupResource};

/// A request without a lifetime gets this one, in seconds.
const LIFETIME: i64 = 60 * 60;
/// No lifetime is shorter.
const SHORTEST: i64 = 10 * 60;
/// No lifetime is longer.
const LONGEST: i64 = 1 << 32;
/// What kubelets ask for: a token that is stale after this time, and good for a year.
const STALE_AFTER: i64 = 60 * 60 + 7;
const YEAR: i64 = 365 * 24 * 60 * 60;

const KIND: GroupResource<'static> =
    GroupResource { group: Model::TOKEN_REQUEST.group, resource: Model::TOKEN_REQUEST.kind };

/// Fills in what a TokenRequest leaves to the server.
pub fn default(request: &mut Object) {
    request.object_or_new("spec").set_if_absent("expirationSeconds", LIFETIME);
}

/// Answers a TokenRequest, with its defaults, for an account: with itself, completed. `id` is to be unique.
///
/// # Errors
/// 404 for an account or a bound object that is not there, 409 for another one of that name, 400 for an object that
/// tokens cannot be bound to, 422 for what validation finds.
pub fn answer(
    issuer: &Issuer,
    objects: &impl Objects,
    (namespace, name): (&str, &str),
    mut request: Object,
    id: &str,
    now: Timestamp,
    warnings: &mut Vec<String>,
) -> Result<Object, ApiError> {
    let asked = metadata(&request).text("name");
    if !asked.is_empty() && asked != name {
        let error = FieldError::invalid("metadata.name", asked, "must match the service account name if specified");
        return Err(ApiError::invalid(KIND, name, &[error]));
    }
    let find = |plural: &str, namespace: &str, name: &str| {
        let missing = || ApiError::not_found(GroupResource { group: "", resource: plural }, name);
        if name.is_empty() {
            return Err(ApiError::bad_request("Name parameter required."));
        }
        objects.find(plural, namespace, name).ok_or_else(missing)
    };
    let account = find("serviceaccounts", namespace, name)?;
    let uid = metadata(&account).text("uid");
    let asked = metadata(&request).text("uid");
    if !asked.is_empty() && asked != uid {
        let why =
            format!("the UID in the token request ({asked}) does not match the UID of the service account ({uid})");
        return Err(ApiError::conflict(KIND, name, &why));
    }

    let about = request.object_or_new("metadata");
    about.insert("name", json!(name));
    about.insert("namespace", json!(namespace));
    about.insert("uid", json!(uid));
    about.insert("creationTimestamp", json!(now.to_string()));
    let spec = request.object_or_new("spec");
    if spec.list("audiences").is_empty() {
        spec.insert("audiences", json!(issuer.audiences()));
    }
    spec.entry("boundObjectRef").or_insert(Value::Null);
    let asked = spec.int("expirationSeconds");
    validate(asked)?;
    let seconds = issuer.at_most(asked);
    if seconds < asked {
        warnings.push(format!("requested expiration of {asked} seconds shortened to {seconds} seconds"));
        spec.insert("expirationSeconds", json!(seconds));
    }

    let bound = match spec.object("boundObjectRef") {
        Some(reference) => bind(reference, (namespace, name), find)?,
        None => Bound::default(),
    };
    let audiences: Vec<String> = spec.strings("audiences").map(str::to_owned).collect();
    let own = audiences.iter().all(|audience| issuer.audiences().contains(audience));
    let extended = bound.pod.is_some() && seconds == STALE_AFTER && own;
    let claims = Claims {
        namespace,
        account: (name, uid),
        bound: &bound,
        audiences: &audiences,
        seconds: if extended { YEAR } else { seconds },
        stale_after: extended.then_some(seconds),
    };
    let token = issuer.issue(&claims, id, now).ok_or_else(|| ApiError::internal("failed to generate token"))?;
    let until = Timestamp::from_nanos(now.as_nanos().saturating_add(seconds.saturating_mul(1_000_000_000)));
    request.insert("status", json!({"token": token, "expirationTimestamp": until.to_string()}));
    Ok(request)
}

fn validate(seconds: i64) -> Result<(), ApiError> {
    let why = match seconds {
        ..SHORTEST => "may not specify a duration less than 10 minutes",
        SHORTEST..=LONGEST => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    Err(ApiError::invalid(KIND, "", &[FieldError::invalid("spec.expirationSeconds", seconds, why)]))
}

/// The object that a token is to be bound to.
fn bind(
    reference: &Object,
    (namespace, account): (&str, &str),
    find: impl Fn(&str, &str, &str) -> Result<Object, ApiError>,
) -> Result<Bound, ApiError> {
    let (kind, name) = (reference.text("kind"), reference.text("name"));
    // What cannot be read as a version is none, of the core group.
    let (group, version) = match reference.text("apiVersion").split('/').collect::<Vec<_>>()[..] {
        [version] => ("", version),
        [group, version] => (group, version),
        _ => ("", ""),
    };
    let identity = |object: &Object| {
        let metadata = metadata(object);
        (metadata.text("name").to_owned(), metadata.text("uid").to_owned())
    };
    let mut bound = Bound::default();
    let found = match (group, kind) {
        ("", "Pod") => {
            let pod = find("pods", namespace, name)?;
            let none = Object::new();
            let spec = pod.object("spec").unwrap_or(&none);
            if spec.text("serviceAccountName") != account {
                return Err(ApiError::bad_request(format!(
                    "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                    go_quote(account),
                )));
            }
            let node = spec.text("nodeName");
            if !node.is_empty() {
                // One that is not there is told by its name.
                let known = find("nodes", "", node).map(|node| identity(&node));
                bound.node = Some(known.unwrap_or_else(|_| (node.to_owned(), String::new())));
            }
            bound.pod.insert(identity(&pod)).clone()
        }
        ("", "Node") => bound.node.insert(identity(&find("nodes", "", name)?)).clone(),
        ("", "Secret") => bound.secret.insert(identity(&find("secrets", namespace, name)?)).clone(),
        _ => {
            let what = format!("{group}/{version}, Kind={kind}");
            return Err(ApiError::bad_request(format!("cannot bind token to object of type {what}")));
        }
    };
    let uid = reference.text("uid");
    if !uid.is_empty() && uid != found.1 {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(ApiError::conflict(GroupResource { group, resource: kind }, name, &why));
    }
    Ok(bound)
}
