//! FlowSchemas and PriorityLevelConfigurations (API-25).

use muster_tree::Value;

use crate::field::{FieldError, Shown};
use crate::model::{Fields as _, Object, metadata};

use super::{Errors, Path, complain, internal, name};

/// The one that the administrators' requests are of, which nothing limits.
pub const EXEMPT: &str = "exempt";

const HIGHEST_PRECEDENCE: i64 = 10_000;
const MOST_QUEUES: i64 = 10_000_000;
/// How many bits of a hash a hand may take.
const HASH_BITS: i64 = 60;

const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

/// Checks a FlowSchema; `fixed` is the spec that it has to have, where every server has one of its name.
pub fn validate_schema(schema: &Object, fixed: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (schema.part("spec"), Path::new("spec"));
    let (precedence, at) = (spec.int("matchingPrecedence"), path.child("matchingPrecedence"));
    if precedence <= 0 {
        errors.push(FieldError::invalid(at, precedence, "must be a positive value"));
    }
    if precedence > HIGHEST_PRECEDENCE {
        errors.push(FieldError::invalid(at, precedence, format!("must not be greater than {HIGHEST_PRECEDENCE}")));
    }
    if precedence == 1 && metadata(schema).text("name") != EXEMPT {
        let why = "only the schema named 'exempt' may have matchingPrecedence 1";
        errors.push(FieldError::invalid(at, precedence, why));
    }
    if let Some(method) = spec.object("distinguisherMethod") {
        let methods = ["ByNamespace", "ByUser"];
        if !methods.contains(&method.text("type")) {
            let (path, shown) = (path.child("distinguisherMethod"), internal::shown("FlowDistinguisherMethod", method));
            errors.push(FieldError::not_supported(path.child("type"), shown, &methods));
        }
    }
    let level = path.child("priorityLevelConfiguration");
    match spec.part("priorityLevelConfiguration").text("name") {
        "" => errors.push(FieldError::required(level.child("name"), "must reference a priority level")),
        own => complain(own, name::is_dns1123_subdomain(own), &level.child("name"), errors),
    }
    for (i, rule) in spec.items("rules").enumerate() {
        validate_rule(rule, &path.child("rules").index(i), errors);
    }
    if fixed.is_some_and(|fixed| fixed.as_object() != Some(spec)) {
        let why = format!("spec of '{}' must equal the fixed value", metadata(schema).text("name"));
        errors.push(FieldError::invalid(path, internal::shown("FlowSchemaSpec", spec), why));
    }
    validate_status(schema, errors);
}

fn validate_rule(rule: &Object, path: &Path<'_>, errors: &mut Errors) {
    let subjects = path.child("subjects");
    if rule.list("subjects").is_empty() {
        errors.push(FieldError::required(subjects, "subjects must contain at least one value"));
    }
    for (i, subject) in rule.items("subjects").enumerate() {
        validate_subject(subject, &subjects.index(i), errors);
    }
    if rule.list("resourceRules").is_empty() && rule.list("nonResourceRules").is_empty() {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(FieldError::required(*path, why));
    }
    for (i, rule) in rule.items("resourceRules").enumerate() {
        validate_resource_rule(rule, &path.child("resourceRules").index(i), errors);
    }
    for (i, rule) in rule.items("nonResourceRules").enumerate() {
        validate_non_resource_rule(rule, &path.child("nonResourceRules").index(i), errors);
    }
}

/// A field, and the kind of subject that it names.
type Named = (&'static str, &'static str);

/// What a subject of each kind is named by, in the order in which the others are refused.
const SUBJECTS: [(&str, &str, [Named; 2]); 3] = [
    ("ServiceAccount", "serviceAccount", [("user", "User"), ("group", "Group")]),
    ("User", "user", [("serviceAccount", "ServiceAccount"), ("group", "Group")]),
    ("Group", "group", [("serviceAccount", "ServiceAccount"), ("user", "User")]),
];

fn validate_subject(subject: &Object, path: &Path<'_>, errors: &mut Errors) {
    let kind = subject.text("kind");
    let Some((_, field, others)) = SUBJECTS.iter().find(|(known, ..)| *known == kind) else {
        let kinds = ["Group", "ServiceAccount", "User"];
        errors.push(FieldError::not_supported(path.child("kind"), kind, &kinds));
        return;
    };
    let at = path.child(field);
    match subject.object(field) {
        None => errors.push(FieldError::required(at, format!("{field} is required when subject kind is '{kind}'"))),
        Some(named) => {
            let own = named.text("name");
            if own.is_empty() {
                errors.push(FieldError::required(at.child("name"), ""));
            } else if kind == "ServiceAccount" && own != "*" {
                complain(own, name::is_dns1123_subdomain(own), &at.child("name"), errors);
            }
            if kind == "ServiceAccount" {
                match named.text("namespace") {
                    "" => errors.push(FieldError::required(
                        at.child("namespace"),
                        "must specify namespace for service account",
                    )),
                    own => complain(own, name::is_dns1123_label(own), &at.child("namespace"), errors),
                }
            }
        }
    }
    for (other, of) in others {
        if subject.object(other).is_some() {
            let why = format!("{other} is forbidden when subject kind is not '{of}'");
            errors.push(FieldError::forbidden(path.child(other), why));
        }
    }
}

fn validate_verbs(rule: &Object, path: &Path<'_>, errors: &mut Errors) {
    let (path, verbs) = (path.child("verbs"), rule.list("verbs"));
    if verbs.is_empty() {
        errors.push(FieldError::required(path, "verbs must contain at least one value"));
    } else if has_wildcard(verbs) {
        alone(verbs, &path, "verbs", errors);
    } else if !rule.strings("verbs").all(|verb| VERBS.contains(&verb)) {
        errors.push(FieldError::not_supported(path, Shown::Json(Value::from(verbs)), &VERBS));
    }
}

fn validate_resource_rule(rule: &Object, path: &Path<'_>, errors: &mut Errors) {
    validate_verbs(rule, path, errors);
    for (field, one, many) in [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")] {
        let (path, list) = (path.child(field), rule.list(field));
        if list.is_empty() {
            errors.push(FieldError::required(path, format!("resource rules must supply at least one {one}")));
        } else if has_wildcard(list) {
            alone(list, &path, many, errors);
        }
    }
    let (path, namespaces) = (path.child("namespaces"), rule.list("namespaces"));
    if namespaces.is_empty() && !rule.flag("clusterScope") {
        let why = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(FieldError::required(path, why));
    } else if has_wildcard(namespaces) {
        alone(namespaces, &path, "namespaces", errors);
    } else {
        for (i, own) in rule.strings("namespaces").enumerate() {
            for why in name::is_dns1123_label(own) {
                let why = format!("each member of this list must be '*' or a DNS-1123 label; {why}");
                errors.push(FieldError::invalid(path.index(i), own, why));
            }
        }
    }
}

fn validate_non_resource_rule(rule: &Object, path: &Path<'_>, errors: &mut Errors) {
    validate_verbs(rule, path, errors);
    let (path, urls) = (path.child("nonResourceURLs"), rule.list("nonResourceURLs"));
    if urls.is_empty() {
        errors.push(FieldError::required(path, "nonResourceURLs must contain at least one value"));
    } else if has_wildcard(urls) {
        alone(urls, &path, "non-resource URLs", errors);
    } else {
        for (i, url) in rule.strings("nonResourceURLs").enumerate() {
            if let Some(why) = is_wrong_url(url) {
                errors.push(FieldError::invalid(path.index(i), url, why));
            }
        }
    }
}

fn is_wrong_url(url: &str) -> Option<&'static str> {
    let wildcards = url.matches('*').count();
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !url.starts_with('/') => Some("must start with slash"),
        _ if url.contains(' ') => Some("must not contain white-space"),
        _ if url.contains("//") => Some("must not contain double slash"),
        _ if wildcards > 1 || (wildcards == 1 && !url.ends_with("/*")) => Some("wildcard can only do suffix matching"),
        _ => None,
    }
}

fn has_wildcard(list: &[Value]) -> bool {
    list.iter().any(|item| item == "*")
}

/// A wildcard stands for everything, beside which nothing else is said.
fn alone(list: &[Value], path: &Path<'_>, what: &str, errors: &mut Errors) {
    if list.len() > 1 {
        let why = format!("if '*' is present, must not specify other {what}");
        errors.push(FieldError::invalid(*path, Shown::Json(Value::from(list)), why));
    }
}

/// Checks a PriorityLevelConfiguration; `fixed` is the spec that it has to have, where every server has one of its name.
pub fn validate_level(level: &Object, fixed: Option<&Value>, errors: &mut Errors) {
    const ROUND_TRIP: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";
    if metadata(level).part("annotations").contains_key(ROUND_TRIP) {
        let path = Path::new("metadata");
        let why = format!("annotation '{ROUND_TRIP}' is forbidden");
        errors.push(FieldError::forbidden(path.child("annotations"), why));
    }
    let (spec, path) = (level.part("spec"), Path::new("spec"));
    let (own, kind) = (metadata(level).text("name"), spec.text("type"));
    if (own == EXEMPT) != (kind == "Exempt") {
        let why = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(FieldError::invalid(path.child("type"), kind, why));
    }
    let (limited, exempt) = (spec.object("limited"), spec.object("exempt"));
    let kinds = ["Exempt", "Limited"];
    match kind {
        "Exempt" => {
            if limited.is_some() {
                errors.push(FieldError::forbidden(path.child("limited"), "must be nil if the type is not Limited"));
            }
            if let Some(exempt) = exempt {
                validate_shares(exempt, &path.child("exempt"), errors);
                validate_lendable(exempt, &path.child("exempt"), errors);
            }
        }
        "Limited" => {
            if exempt.is_some() {
                errors.push(FieldError::forbidden(path.child("exempt"), "must be nil if the type is Limited"));
            }
            match limited {
                Some(limited) => validate_limited(limited, &path.child("limited"), errors),
                None => {
                    errors.push(FieldError::required(path.child("limited"), "must not be empty when type is Limited"));
                }
            }
        }
        _ => errors.push(FieldError::not_supported(path.child("type"), kind, &kinds)),
    }
    if let Some(fixed) = fixed.and_then(Value::as_object) {
        let shown = || internal::shown("PriorityLevelConfigurationSpec", spec);
        let without = |spec: &Object| {
            let mut spec = spec.clone();
            spec.remove("exempt");
            spec
        };
        if own == EXEMPT && without(spec) != without(fixed) {
            let why = format!("spec of '{own}' except the 'spec.exempt' field must equal the fixed value");
            errors.push(FieldError::invalid(path, shown(), why));
        } else if own != EXEMPT && spec != fixed {
            errors.push(FieldError::invalid(path, shown(), format!("spec of '{own}' must equal the fixed value")));
        }
    }
    validate_status(level, errors);
}

fn validate_shares(limits: &Object, path: &Path<'_>, errors: &mut Errors) {
    let shares = limits.int("nominalConcurrencyShares");
    if shares < 0 {
        let why = "must be a non-negative integer";
        errors.push(FieldError::invalid(path.child("nominalConcurrencyShares"), shares, why));
    }
}

fn validate_lendable(limits: &Object, path: &Path<'_>, errors: &mut Errors) {
    let lendable = limits.int("lendablePercent");
    if !(0..=100).contains(&lendable) {
        let why = "must be between 0 and 100, inclusive";
        errors.push(FieldError::invalid(path.child("lendablePercent"), lendable, why));
    }
}

fn validate_limited(limited: &Object, path: &Path<'_>, errors: &mut Errors) {
    validate_shares(limited, path, errors);
    let (response, at) = (limited.part("limitResponse"), path.child("limitResponse"));
    let (queuing, inside) = (response.object("queuing"), at.child("queuing"));
    let kinds = ["Queue", "Reject"];
    match (response.text("type"), queuing) {
        ("Reject", Some(_)) => {
            errors.push(FieldError::forbidden(inside, "must be nil if limited.limitResponse.type is not Limited"));
        }
        ("Queue", None) => {
            errors.push(FieldError::required(inside, "must not be empty if limited.limitResponse.type is Limited"));
        }
        ("Queue", Some(queuing)) => validate_queuing(queuing, &inside, errors),
        ("Reject", None) => {}
        (kind, _) => errors.push(FieldError::not_supported(at.child("type"), kind, &kinds)),
    }
    validate_lendable(limited, path, errors);
    let borrowing = limited.int("borrowingLimitPercent");
    if borrowing < 0 {
        let why = "if specified, must be a non-negative integer";
        errors.push(FieldError::invalid(path.child("borrowingLimitPercent"), borrowing, why));
    }
}

fn validate_queuing(queuing: &Object, path: &Path<'_>, errors: &mut Errors) {
    let [length, queues, hand] = ["queueLengthLimit", "queues", "handSize"].map(|field| queuing.int(field));
    if length <= 0 {
        errors.push(FieldError::invalid(path.child("queueLengthLimit"), length, "must be positive"));
    }
    if queues <= 0 {
        errors.push(FieldError::invalid(path.child("queues"), queues, "must be positive"));
    } else if queues > MOST_QUEUES {
        let why = format!("must not be greater than {MOST_QUEUES}");
        errors.push(FieldError::invalid(path.child("queues"), queues, why));
    }
    let at = path.child("handSize");
    if hand <= 0 {
        errors.push(FieldError::invalid(at, hand, "must be positive"));
    } else if hand > queues {
        errors.push(FieldError::invalid(at, hand, format!("should not be greater than queues ({queues})")));
    } else if entropy(queues, hand) > HASH_BITS {
        let why = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        );
        errors.push(FieldError::invalid(at, hand, why));
    }
}

/// How many bits of a hash it takes to deal a hand out of so many queues. Both are positive.
fn entropy(queues: i64, hand: i64) -> i64 {
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    let bits = ((queues as f64).log2() * hand as f64).ceil() as i64;
    bits
}

/// Checks the status of either: each condition has a type, and each type one.
pub fn validate_status(object: &Object, errors: &mut Errors) {
    let path = Path::new("status");
    let path = path.child("conditions");
    let mut seen: Vec<&str> = Vec::new();
    for (i, condition) in object.part("status").items("conditions").enumerate() {
        let (path, own) = (path.index(i), condition.text("type"));
        if seen.contains(&own) {
            errors.push(FieldError::duplicate(path.child("type"), own));
        }
        seen.push(own);
        if own.is_empty() {
            errors.push(FieldError::required(path.child("type"), ""));
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    fn found(object: &Value, validate: fn(&Object, Option<&Value>, &mut Errors), fixed: Option<&Value>) -> Vec<String> {
        let mut errors = Errors::new();
        validate(object.as_object().expect("an object"), fixed, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    /// Contract: API-25
    #[test]
    fn schemas_by_the_table() {
        let user = json!({"kind": "User", "user": {"name": "u"}});
        let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["*"]});
        let of = |rule: Value| json!({"spec": {"matchingPrecedence": 9, "priorityLevelConfiguration": {"name": "a"}, "rules": [rule]}});
        let by = |subject: Value| of(json!({"subjects": [subject], "resourceRules": [rule]}));
        let on = |rule: Value| of(json!({"subjects": [user], "resourceRules": [rule]}));
        let url = |url: &str| {
            of(json!({"subjects": [user], "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": [url]}]}))
        };
        let cases: Vec<(Value, Vec<&str>)> = vec![
            (by(user.clone()), vec![]),
            (
                json!({"spec": {"matchingPrecedence": 1, "distinguisherMethod": {"type": "ByMoon"}}}),
                vec![
                    "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
                    "spec.distinguisherMethod.type: Unsupported value: {\"Type\":\"ByMoon\"}: supported values: \"ByNamespace\", \"ByUser\"",
                    "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
                ],
            ),
            (
                of(json!({})),
                vec![
                    "spec.rules[0].subjects: Required value: subjects must contain at least one value",
                    "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
                ],
            ),
            (
                by(json!({"kind": "Group", "user": {"name": "u"}})),
                vec![
                    "spec.rules[0].subjects[0].group: Required value: group is required when subject kind is 'Group'",
                    "spec.rules[0].subjects[0].user: Forbidden: user is forbidden when subject kind is not 'User'",
                ],
            ),
            (
                by(json!({"kind": "ServiceAccount", "serviceAccount": {"name": "*"}})),
                vec![
                    "spec.rules[0].subjects[0].serviceAccount.namespace: Required value: must specify namespace for service account",
                ],
            ),
            (
                on(json!({"verbs": ["*", "get"], "apiGroups": ["*", ""], "resources": []})),
                vec![
                    "spec.rules[0].resourceRules[0].verbs: Invalid value: [\"*\",\"get\"]: if '*' is present, must not specify other verbs",
                    "spec.rules[0].resourceRules[0].apiGroups: Invalid value: [\"*\",\"\"]: if '*' is present, must not specify other api groups",
                    "spec.rules[0].resourceRules[0].resources: Required value: resource rules must supply at least one resource",
                    "spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace",
                ],
            ),
            (url("/a/*"), vec![]),
            (
                url("/a*"),
                vec![
                    "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: \"/a*\": wildcard can only do suffix matching",
                ],
            ),
        ];
        for (schema, want) in cases {
            assert_eq!(found(&schema, validate_schema, None), want, "{schema}");
        }
        let mut schema = by(user.clone());
        schema["metadata"] = json!({"name": "catch-all"});
        let fixed = schema["spec"].clone();
        assert_eq!(found(&schema, validate_schema, Some(&fixed)), Vec::<String>::new());
        schema["spec"]["matchingPrecedence"] = json!(8);
        let refused = found(&schema, validate_schema, Some(&fixed));
        assert!(refused[0].ends_with(": spec of 'catch-all' must equal the fixed value"), "{refused:?}");
    }

    /// Contract: API-25
    #[test]
    fn levels_by_the_table() {
        let queue = |queuing: Value| json!({"metadata": {"name": "a"}, "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": queuing}}}});
        let at = "spec.limited.limitResponse.queuing";
        let cases: Vec<(Value, Vec<String>)> = vec![
            (queue(json!({"queues": 64, "handSize": 8, "queueLengthLimit": 50})), vec![]),
            (
                queue(json!({"queues": 64, "handSize": 11, "queueLengthLimit": 0})),
                vec![
                    format!("{at}.queueLengthLimit: Invalid value: 0: must be positive"),
                    format!(
                        "{at}.handSize: Invalid value: 11: required entropy bits of deckSize 64 and handSize 11 should not be greater than 60"
                    ),
                ],
            ),
            (
                queue(json!({"queues": 4, "handSize": 8, "queueLengthLimit": 50})),
                vec![format!("{at}.handSize: Invalid value: 8: should not be greater than queues (4)")],
            ),
            (
                json!({"metadata": {"name": "a"}, "spec": {"type": "Exempt", "limited": {}}}),
                vec![
                    "spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"
                        .to_owned(),
                    "spec.limited: Forbidden: must be nil if the type is not Limited".to_owned(),
                ],
            ),
        ];
        for (level, want) in cases {
            assert_eq!(found(&level, validate_level, None), want, "{level}");
        }
    }
}
