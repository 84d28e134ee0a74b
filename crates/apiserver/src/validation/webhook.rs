//! Webhook configurations: which requests go where (API-17).

use std::collections::BTreeSet;

use crate::field::FieldError;
use crate::model::{Fields as _, Object};

use super::admissionpolicy::{Expressions, Sort, validate_match_conditions};
use super::{Errors, Path, complain, name, selector};

/// The versions of a review that the server speaks.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
/// The side effects that a webhook may say that it has.
const NO_SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];

/// Which rules a configuration is held to: those that an old one broke already do not count.
#[derive(Debug, Clone, Copy)]
struct Rules {
    conditions: bool,
    no_side_effects: bool,
    known_review: bool,
    unique_names: bool,
    lenient_selectors: bool,
}

/// Checks a webhook configuration. Only one of mutating webhooks has a `reinvocationPolicy`.
pub fn validate(configuration: &Object, old: Option<&Object>, expressions: &dyn Expressions, errors: &mut Errors) {
    let rules = rules(configuration, old);
    let list = Path::new("webhooks");
    let mut names = BTreeSet::new();
    for (i, hook) in configuration.items("webhooks").enumerate() {
        let path = list.index(i);
        validate_hook(hook, rules, expressions, &path, errors);
        validate_reviews(hook, rules, &path.child("admissionReviewVersions"), errors);
        let own = hook.text("name");
        if rules.unique_names && !own.is_empty() && !names.insert(own) {
            errors.push(FieldError::duplicate(path.child("name"), own));
        }
    }
}

fn rules(new: &Object, old: Option<&Object>) -> Rules {
    let Some(old) = old else {
        return Rules {
            conditions: true,
            no_side_effects: true,
            known_review: true,
            unique_names: true,
            lenient_selectors: false,
        };
    };
    let hooks = || old.items("webhooks");
    let conditions =
        |o: &Object| o.items("webhooks").map(|hook| hook.get("matchConditions").cloned()).collect::<Vec<_>>();
    let invalid = |selector: Option<&Object>| {
        let mut errors = Errors::new();
        if let Some(own) = selector {
            selector::validate(own, false, &Path::new(""), &mut errors);
        }
        !errors.is_empty()
    };
    Rules {
        conditions: conditions(new) != conditions(old),
        no_side_effects: hooks().all(|hook| NO_SIDE_EFFECTS.contains(&hook.text("sideEffects"))),
        known_review: hooks().all(|hook| {
            let versions = hook.list("admissionReviewVersions");
            versions.is_empty() || hook.strings("admissionReviewVersions").any(|v| REVIEWS.contains(&v))
        }),
        unique_names: hooks().map(|hook| hook.text("name")).collect::<BTreeSet<_>>().len() == hooks().count(),
        lenient_selectors: hooks()
            .any(|hook| invalid(hook.object("namespaceSelector")) || invalid(hook.object("objectSelector"))),
    }
}

fn validate_hook(hook: &Object, rules: Rules, expressions: &dyn Expressions, path: &Path<'_>, errors: &mut Errors) {
    validate_name(hook.text("name"), &path.child("name"), errors);
    let list = path.child("rules");
    for (i, rule) in hook.items("rules").enumerate() {
        validate_rule(rule, &list.index(i), errors);
    }
    one_of(hook, "failurePolicy", &["Fail", "Ignore"], path, errors);
    one_of(hook, "matchPolicy", &["Equivalent", "Exact"], path, errors);
    let effects = if rules.no_side_effects { &NO_SIDE_EFFECTS[..] } else { &SIDE_EFFECTS[..] };
    match hook.maybe_text("sideEffects") {
        None => {
            let why = format!("must specify one of {}", effects.join(", "));
            errors.push(FieldError::required(path.child("sideEffects"), why));
        }
        Some(_) => one_of(hook, "sideEffects", effects, path, errors),
    }
    if let Some(seconds) = hook.maybe_int("timeoutSeconds").filter(|s| !(1..=30).contains(s)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(path.child("timeoutSeconds"), seconds, why));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        if let Some(own) = hook.object(field) {
            selector::validate(own, rules.lenient_selectors, &path.child(field), errors);
        }
    }
    one_of(hook, "reinvocationPolicy", &["IfNeeded", "Never"], path, errors);
    let empty = Object::new();
    validate_client(hook.object("clientConfig").unwrap_or(&empty), &path.child("clientConfig"), errors);
    if rules.conditions {
        let sort = Sort { params: false, ..Sort::CONDITION };
        validate_match_conditions(hook, sort, expressions, &path.child("matchConditions"), errors);
    }
}

/// Checks that a field that is there has one of some values.
pub(super) fn one_of(parent: &Object, field: &str, values: &[&str], path: &Path<'_>, errors: &mut Errors) {
    if let Some(value) = parent.maybe_text(field).filter(|value| !values.contains(value)) {
        errors.push(FieldError::not_supported(path.child(field), value, values));
    }
}

/// A name with at least two dots.
fn validate_name(own: &str, path: &Path<'_>, errors: &mut Errors) {
    if own.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let complaints = name::is_dns1123_subdomain(own);
    if !complaints.is_empty() {
        errors.push(FieldError::invalid(path, own, complaints.join(",")));
    } else if own.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(path, own, why));
    }
}

/// Checks a rule with operations.
pub(super) fn validate_rule(rule: &Object, path: &Path<'_>, errors: &mut Errors) {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    required(rule, "operations", path, errors);
    alone(rule, "operations", "operations", path, errors);
    let list = path.child("operations");
    for (i, operation) in rule.strings("operations").enumerate() {
        if !OPERATIONS.contains(&operation) {
            errors.push(FieldError::not_supported(list.index(i), operation, &OPERATIONS));
        }
    }
    required(rule, "apiGroups", path, errors);
    alone(rule, "apiGroups", "API groups", path, errors);
    required(rule, "apiVersions", path, errors);
    alone(rule, "apiVersions", "API versions", path, errors);
    let versions = path.child("apiVersions");
    for (i, _) in rule.strings("apiVersions").enumerate().filter(|(_, version)| version.is_empty()) {
        errors.push(FieldError::required(versions.index(i), ""));
    }
    validate_resources(rule, path, errors);
    one_of(rule, "scope", &["*", "Cluster", "Namespaced"], path, errors);
}

fn required(rule: &Object, field: &str, path: &Path<'_>, errors: &mut Errors) {
    if rule.list(field).is_empty() {
        errors.push(FieldError::required(path.child(field), ""));
    }
}

/// A wildcard stands alone.
fn alone(rule: &Object, field: &str, what: &str, path: &Path<'_>, errors: &mut Errors) {
    if rule.list(field).len() > 1 && rule.strings(field).any(|value| value == "*") {
        let why = format!("if '*' is present, must not specify other {what}");
        errors.push(FieldError::invalid(path.child(field), &rule[field], why));
    }
}

fn validate_resources(rule: &Object, path: &Path<'_>, errors: &mut Errors) {
    required(rule, "resources", path, errors);
    let list = path.child("resources");
    let mut whole: BTreeSet<&str> = BTreeSet::new();
    let mut everywhere: BTreeSet<&str> = BTreeSet::new();
    let (mut all, mut every, mut plain) = (false, false, false);
    for (i, own) in rule.strings("resources").enumerate() {
        let path = list.index(i);
        if own.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        all |= own == "*/*";
        every |= own == "*";
        let Some((resource, part)) = own.split_once('/') else {
            // The last one without a subresource is what counts.
            plain = own != "*";
            continue;
        };
        if whole.contains(resource) {
            let why = format!("if '{resource}/*' is present, must not specify {own}");
            errors.push(FieldError::invalid(path, own, why));
        }
        if everywhere.contains(part) {
            let why = format!("if '*/{part}' is present, must not specify {own}");
            errors.push(FieldError::invalid(path, own, why));
        }
        if part == "*" {
            whole.insert(resource);
        }
        if resource == "*" {
            everywhere.insert(part);
        }
    }
    if all && rule.list("resources").len() > 1 {
        let why = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(list, &rule["resources"], why));
    }
    if every && plain {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(list, &rule["resources"], why));
    }
}

fn validate_reviews(hook: &Object, rules: Rules, path: &Path<'_>, errors: &mut Errors) {
    let known = REVIEWS.join(", ");
    if hook.list("admissionReviewVersions").is_empty() {
        errors.push(FieldError::required(path, format!("must specify one of {known}")));
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, version) in hook.strings("admissionReviewVersions").enumerate() {
        if !seen.insert(version) {
            errors.push(FieldError::invalid(path.index(i), version, "duplicate version"));
            continue;
        }
        complain(version, name::is_dns1035_label(version), &path.index(i), errors);
    }
    if rules.known_review && !REVIEWS.iter().any(|version| seen.contains(version)) {
        let why = format!("must include at least one of {known}");
        errors.push(FieldError::invalid(path, &hook["admissionReviewVersions"], why));
    }
}

/// Checks where a webhook is: at a URL or behind a service.
pub fn validate_client(client: &Object, path: &Path<'_>, errors: &mut Errors) {
    match (client.maybe_text("url"), client.object("service")) {
        (Some(url), None) => validate_url(url, &path.child("url"), errors),
        (None, Some(service)) => validate_service(service, &path.child("service"), errors),
        _ => errors.push(FieldError::required(path, "exactly one of url or service is required")),
    }
}

/// Checks a webhook's URL.
pub fn validate_url(url: &str, path: &Path<'_>, errors: &mut Errors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let parts = match parse_url(url) {
        Ok(parts) => parts,
        Err(why) => {
            let why = format!("url must be a valid URL: parse {}: {why}{FORM}", crate::field::go_quote(url));
            errors.push(FieldError::required(path, why));
            return;
        }
    };
    if parts.scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{FORM}");
        errors.push(FieldError::invalid(path, parts.scheme, why));
    }
    if parts.host.is_empty() {
        errors.push(FieldError::invalid(path, "", format!("host must be specified{FORM}")));
    }
    for (found, why) in [
        (parts.user, "user information is not permitted in the URL"),
        (parts.fragment.filter(|f| !f.is_empty()), "fragments are not permitted in the URL"),
        (parts.query.filter(|q| !q.is_empty()), "query parameters are not permitted in the URL"),
    ] {
        if let Some(found) = found {
            errors.push(FieldError::invalid(path, found, why));
        }
    }
}

/// A URL, taken apart as Go's parser does.
struct Url<'a> {
    scheme: &'a str,
    user: Option<&'a str>,
    host: &'a str,
    query: Option<&'a str>,
    fragment: Option<&'a str>,
}

fn parse_url(url: &str) -> Result<Url<'_>, String> {
    if url.bytes().any(|b| b < b' ' || b == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let (rest, fragment) = url.split_once('#').map_or((url, None), |(rest, f)| (rest, Some(f)));
    if rest.is_empty() && fragment.is_none() {
        return Ok(Url { scheme: "", user: None, host: "", query: None, fragment });
    }
    let (scheme, rest) = match rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))) {
        Some(0) if rest.starts_with(':') => return Err("missing protocol scheme".to_owned()),
        Some(at) if rest[at..].starts_with(':') && rest.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            (&rest[..at], &rest[at + 1..])
        }
        _ => ("", rest),
    };
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, q)| (rest, Some(q)));
    if scheme.is_empty() && !rest.starts_with('/') && rest.split('/').next().is_some_and(|first| first.contains(':')) {
        return Err("first path segment in URL cannot contain colon".to_owned());
    }
    let Some(authority) = rest.strip_prefix("//") else {
        return Ok(Url { scheme, user: None, host: "", query, fragment });
    };
    let authority = authority.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if let Some(odd) = host.chars().find(|c| " <>\"{}|\\^`".contains(*c)) {
        return Err(format!("invalid character {} in host name", crate::field::go_quote(&odd.to_string())));
    }
    let after = if host.starts_with('[') { host.rsplit_once(']').map_or("", |(_, port)| port) } else { host };
    if let Some((_, port)) = after.rsplit_once(':')
        && !port.bytes().all(|b| b.is_ascii_digit())
    {
        let shown = crate::field::go_quote(&format!(":{port}"));
        return Err(format!("invalid port {shown} after host"));
    }
    Ok(Url { scheme, user, host, query, fragment })
}

/// Checks the service behind which a webhook is.
pub fn validate_service(service: &Object, path: &Path<'_>, errors: &mut Errors) {
    // Upstream hands the two over in the other order.
    for (field, shown) in [("namespace", "name"), ("name", "namespace")] {
        if service.text(field).is_empty() {
            errors.push(FieldError::required(path.child(shown), ""));
        }
    }
    let port = service.int("port");
    let complaints = name::is_port_number(port);
    if !complaints.is_empty() {
        let why = format!("port is not valid: {}", complaints.join(", "));
        errors.push(FieldError::invalid(path.child("port"), port, why));
    }
    let own = service.text("path");
    let path = path.child("path");
    let mut wrong = |why: String| errors.push(FieldError::invalid(path, own, why));
    match own {
        "" | "/" => return,
        "//" => return wrong("segment[0] may not be empty".to_owned()),
        _ => {}
    }
    if !own.starts_with('/') {
        wrong("must start with a '/'".to_owned());
    }
    let rest = own.char_indices().nth(1).map_or("", |(at, _)| &own[at..]);
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    for (i, step) in rest.split('/').enumerate() {
        if step.is_empty() {
            wrong(format!("segment[{i}] may not be empty"));
            continue;
        }
        for why in name::is_dns1123_subdomain(step) {
            wrong(format!("segment[{i}]: {why}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::{Value, json};

    use super::super::admissionpolicy::Unchecked;
    use super::*;

    fn configuration(change: impl FnOnce(&mut Value)) -> Object {
        let mut hook = json!({
            "name": "a.b.c",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://h/p"},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        });
        change(&mut hook);
        json!({"webhooks": [hook]}).as_object().cloned().unwrap_or_default()
    }

    fn texts(new: &Object, old: Option<&Object>) -> Vec<String> {
        let mut errors = Errors::new();
        validate(new, old, &Unchecked, &mut errors);
        errors.iter().map(|e| e.to_string().trim_start_matches("webhooks[0].").to_owned()).collect()
    }

    /// Contract: API-25
    #[test]
    fn webhooks_by_the_table() {
        let none: [String; 0] = [];
        assert_eq!(texts(&configuration(|_| ()), None), none);
        let cases: Vec<(Object, Vec<&str>)> = vec![
            (
                configuration(|h| h["name"] = json!("a.b")),
                vec!["name: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots"],
            ),
            (
                configuration(|h| h["rules"][0]["resources"] = json!(["*", "pods", "pods/*", "pods/log"])),
                vec![
                    "rules[0].resources[3]: Invalid value: \"pods/log\": if 'pods/*' is present, must not specify pods/log",
                    "rules[0].resources: Invalid value: [\"*\",\"pods\",\"pods/*\",\"pods/log\"]: if '*' is present, must not specify other resources without subresources",
                ],
            ),
            (
                configuration(|h| h["rules"][0]["operations"] = json!(["*", "GET"])),
                vec![
                    "rules[0].operations: Invalid value: [\"*\",\"GET\"]: if '*' is present, must not specify other operations",
                    "rules[0].operations[1]: Unsupported value: \"GET\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\"",
                ],
            ),
            (
                configuration(|h| h["sideEffects"] = json!(null)),
                vec!["sideEffects: Required value: must specify one of None, NoneOnDryRun"],
            ),
            (
                configuration(|h| h["admissionReviewVersions"] = json!(["v2", "v2"])),
                vec![
                    "admissionReviewVersions[1]: Invalid value: \"v2\": duplicate version",
                    "admissionReviewVersions: Invalid value: [\"v2\",\"v2\"]: must include at least one of v1, v1beta1",
                ],
            ),
            (
                configuration(|h| h["clientConfig"]["url"] = json!("http://u@h?q#f")),
                vec![
                    "clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
                    "clientConfig.url: Invalid value: \"u\": user information is not permitted in the URL",
                    "clientConfig.url: Invalid value: \"f\": fragments are not permitted in the URL",
                    "clientConfig.url: Invalid value: \"q\": query parameters are not permitted in the URL",
                ],
            ),
            (
                configuration(|h| {
                    h["clientConfig"] = json!({"service": {"name": "", "namespace": "n", "port": 0, "path": "a//B"}});
                }),
                vec![
                    "clientConfig.service.namespace: Required value",
                    "clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
                    "clientConfig.service.path: Invalid value: \"a//B\": must start with a '/'",
                    "clientConfig.service.path: Invalid value: \"a//B\": segment[0] may not be empty",
                    "clientConfig.service.path: Invalid value: \"a//B\": segment[1] may not be empty",
                ],
            ),
        ];
        for (object, want) in cases {
            let found = texts(&object, None);
            assert_eq!(found[..want.len().min(found.len())], want[..], "{object:?}");
        }
    }

    /// Contract: API-25
    #[test]
    fn what_was_wrong_already_may_stay() {
        let wrong = configuration(|h| {
            h["sideEffects"] = json!("Some");
            h["admissionReviewVersions"] = json!(["v2"]);
        });
        assert_eq!(texts(&wrong, None).len(), 2);
        assert_eq!(texts(&wrong, Some(&wrong)), Vec::<String>::new());
    }
}
