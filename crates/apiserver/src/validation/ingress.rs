//! Ingresses and their classes (API-17).

use crate::field::{FieldError, Shown};
use crate::model::{Fields as _, Object, metadata};

use super::{Errors, IMMUTABLE, Path, complain, ip, name};

const SPEC: Path<'_> = Path::new("spec");
/// The annotation that named an Ingress's class before there was a field for it.
pub const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
/// A controller's name may not be longer than this, in bytes.
const CONTROLLER_MAX: usize = 250;
/// What is said of a host that is an address.
const NOT_AN_ADDRESS: &str = "must be a DNS name, not an IP address";

/// What an old object had already, and may therefore keep.
#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    secret_names: bool,
    wildcard_rules: bool,
}

/// Checks an Ingress.
pub fn validate(ingress: &Object, old: Option<&Object>, errors: &mut Errors) {
    let empty = Object::new();
    let spec = ingress.object("spec").unwrap_or(&empty);
    let kept = old.and_then(|old| old.object("spec")).map(kept).unwrap_or_default();
    validate_spec(spec, kept, errors);
    if old.is_none()
        && let Some(class) = metadata(ingress).object("annotations").and_then(|a| a.maybe_text(CLASS_ANNOTATION))
        && spec.maybe_text("ingressClassName").is_some_and(|own| own != class)
    {
        let why = "must match `ingressClassName` when both are specified";
        errors.push(FieldError::invalid(Path::new("annotations").child(CLASS_ANNOTATION), class, why));
    }
}

fn kept(spec: &Object) -> Kept {
    let invalid = |rule: &Object| {
        let mut errors = Errors::new();
        validate_rule_value(rule, &SPEC, &mut errors);
        rule.text("host").contains('*') && !errors.is_empty()
    };
    Kept {
        secret_names: spec.items("tls").any(|tls| !secret_name(tls.text("secretName")).is_empty()),
        wildcard_rules: spec.items("rules").any(invalid),
    }
}

fn secret_name(name: &str) -> Vec<String> {
    if name.is_empty() { Vec::new() } else { name::is_dns1123_subdomain(name) }
}

fn validate_spec(spec: &Object, kept: Kept, errors: &mut Errors) {
    let backend = spec.object("defaultBackend");
    if spec.list("rules").is_empty() && backend.is_none() {
        let why = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid(SPEC, Shown::Bare("null".to_owned()), why));
    }
    if let Some(backend) = backend {
        validate_backend(backend, &SPEC.child("defaultBackend"), errors);
    }
    let rules = SPEC.child("rules");
    for (i, rule) in spec.items("rules").enumerate() {
        let path = rules.index(i);
        let host = rule.text("host");
        let wildcard = host.contains('*');
        if !host.is_empty() {
            if ip::parse_sloppy(host).is_some() {
                errors.push(FieldError::invalid(path.child("host"), host, NOT_AN_ADDRESS));
            }
            validate_host(host, &path.child("host"), errors);
        }
        if !wildcard || !kept.wildcard_rules {
            validate_rule_value(rule, &path, errors);
        }
    }
    let list = SPEC.child("tls");
    for (i, tls) in spec.items("tls").enumerate() {
        let path = list.index(i);
        for (j, host) in tls.strings("hosts").enumerate() {
            validate_host(host, &path.child("hosts").index(j), errors);
        }
        if !kept.secret_names {
            let secret = tls.text("secretName");
            complain(secret, secret_name(secret), &path.child("secretName"), errors);
        }
    }
    if let Some(class) = spec.maybe_text("ingressClassName") {
        complain(class, name::is_dns1123_subdomain(class), &SPEC.child("ingressClassName"), errors);
    }
}

fn validate_host(host: &str, path: &Path<'_>, errors: &mut Errors) {
    let wildcard = host.contains('*');
    let rule = if wildcard { name::is_wildcard_subdomain } else { name::is_dns1123_subdomain };
    complain(host, rule(host), path, errors);
}

fn validate_rule_value(rule: &Object, path: &Path<'_>, errors: &mut Errors) {
    let Some(http) = rule.object("http") else { return };
    let path = path.child("http");
    let list = path.child("paths");
    if http.list("paths").is_empty() {
        errors.push(FieldError::required(list, ""));
    }
    for (i, own) in http.items("paths").enumerate() {
        validate_path(own, &list.index(i), errors);
    }
}

fn validate_path(own: &Object, path: &Path<'_>, errors: &mut Errors) {
    const SEQUENCES: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
    const SUFFIXES: [&str; 2] = ["/..", "/."];
    let Some(kind) = own.maybe_text("pathType") else {
        errors.push(FieldError::required(path.child("pathType"), "pathType must be specified"));
        return;
    };
    let text = own.text("path");
    let mut wrong = |why: String| errors.push(FieldError::invalid(path.child("path"), text, why));
    match kind {
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                wrong("must be an absolute path".to_owned());
            }
            for sequence in SEQUENCES.iter().filter(|s| text.contains(**s)) {
                wrong(format!("must not contain '{sequence}'"));
            }
            for suffix in SUFFIXES.iter().filter(|s| text.ends_with(**s)) {
                wrong(format!("cannot end with '{suffix}'"));
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !text.starts_with('/') {
                wrong("must be an absolute path".to_owned());
            }
        }
        other => {
            let supported = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(FieldError::not_supported(path.child("pathType"), other, &supported));
        }
    }
    let empty = Object::new();
    validate_backend(own.object("backend").unwrap_or(&empty), &path.child("backend"), errors);
}

fn validate_backend(backend: &Object, path: &Path<'_>, errors: &mut Errors) {
    match (backend.object("resource"), backend.object("service")) {
        (Some(_), Some(_)) => {
            errors.push(FieldError::invalid(path, "", "cannot set both resource and service backends"));
        }
        (Some(resource), None) => validate_reference(resource, &path.child("resource"), errors),
        (None, Some(service)) => validate_service(service, path, errors),
        (None, None) => errors.push(FieldError::invalid(path, "", "resource or service backend is required")),
    }
}

fn validate_service(service: &Object, path: &Path<'_>, errors: &mut Errors) {
    let own = path.child("service");
    let name = service.text("name");
    if name.is_empty() {
        errors.push(FieldError::required(own.child("name"), ""));
    } else {
        complain(name, name::is_dns1123_label(name), &own.child("name"), errors);
    }
    let port_path = own.child("port");
    let port = service.object("port");
    let (port_name, number) = (port.map_or("", |p| p.text("name")), port.map_or(0, |p| p.int("number")));
    match (port_name, number) {
        ("", 0) => errors.push(FieldError::required(path, "port name or number is required")),
        ("", number) => {
            for why in name::is_port_number(number) {
                errors.push(FieldError::invalid(port_path.child("number"), number, why));
            }
        }
        (name, 0) => complain(name, name::is_port_name(name), &port_path.child("name"), errors),
        _ => errors.push(FieldError::invalid(path, "", "cannot set both port name & port number")),
    }
}

/// Checks a reference to an object by group, kind and name.
fn validate_reference(reference: &Object, path: &Path<'_>, errors: &mut Errors) {
    if let Some(group) = reference.maybe_text("apiGroup") {
        complain(group, name::is_dns1123_subdomain(group), &path.child("apiGroup"), errors);
    }
    for field in ["kind", "name"] {
        match reference.text(field) {
            "" => errors.push(FieldError::required(path.child(field), "")),
            value => complain(value, name::is_path_segment(value, false), &path.child(field), errors),
        }
    }
}

/// Checks an Ingress's status.
pub fn validate_status(ingress: &Object, old: &Object, errors: &mut Errors) {
    let balancer = |o: &Object| o.object("status").and_then(|s| s.object("loadBalancer")).cloned().unwrap_or_default();
    let (new, old) = (balancer(ingress), balancer(old));
    let known: Vec<&str> = old.items("ingress").map(|i| i.text("ip")).collect();
    let status = Path::new("status");
    let list = status.child("loadBalancer");
    let list = list.child("ingress");
    for (i, point) in new.items("ingress").enumerate() {
        let path = list.index(i);
        let (address, host) = (point.text("ip"), point.text("hostname"));
        if !address.is_empty() {
            ip::validate_legacy_ip(address, &known, &path.child("ip"), errors);
        }
        if !host.is_empty() {
            complain(host, name::is_dns1123_subdomain(host), &path.child("hostname"), errors);
            if ip::parse_sloppy(host).is_some() {
                errors.push(FieldError::invalid(path.child("hostname"), host, NOT_AN_ADDRESS));
            }
        }
    }
}

/// Warnings for the addresses in an Ingress's status.
#[must_use]
pub fn status_warnings(ingress: &Object) -> Vec<String> {
    let Some(balancer) = ingress.object("status").and_then(|s| s.object("loadBalancer")) else { return Vec::new() };
    let status = Path::new("status");
    let list = status.child("loadBalancer");
    let list = list.child("ingress");
    let points = balancer.items("ingress").enumerate().filter(|(_, point)| !point.text("ip").is_empty());
    points.flat_map(|(i, point)| ip::ip_warnings(&list.index(i), point.text("ip"))).collect()
}

/// Checks an IngressClass.
pub fn validate_class(class: &Object, old: Option<&Object>, errors: &mut Errors) {
    let empty = Object::new();
    let spec = class.object("spec").unwrap_or(&empty);
    let path = SPEC.child("controller");
    let controller = spec.text("controller");
    if old.and_then(|old| old.object("spec")).is_some_and(|old| old.text("controller") != controller) {
        errors.push(FieldError::invalid(path, controller, IMMUTABLE));
    }
    if controller.len() > CONTROLLER_MAX {
        errors.push(FieldError::too_long(path, CONTROLLER_MAX));
    }
    super::domain::validate_prefixed_path(controller, &path, errors);
    let Some(parameters) = spec.object("parameters") else { return };
    let path = SPEC.child("parameters");
    validate_reference(parameters, &path, errors);
    let (scope_path, namespace_path) = (path.child("scope"), path.child("namespace"));
    match (parameters.maybe_text("scope"), parameters.maybe_text("namespace")) {
        (None, _) => errors.push(FieldError::required(scope_path, "")),
        (Some("Namespace"), None) => {
            errors.push(FieldError::required(namespace_path, "`parameters.scope` is set to 'Namespace'"));
        }
        (Some("Namespace"), Some(namespace)) => {
            complain(namespace, name::is_dns1123_label(namespace), &namespace_path, errors);
        }
        (Some("Cluster"), Some(_)) => {
            errors.push(FieldError::forbidden(namespace_path, "`parameters.scope` is set to 'Cluster'"));
        }
        (Some("Cluster"), None) => {}
        (Some(other), _) => errors.push(FieldError::not_supported(scope_path, other, &["Cluster", "Namespace"])),
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::{Value, json};

    use super::*;

    fn texts(check: impl Fn(&Object, &mut Errors), spec: Value) -> Vec<String> {
        let object = Object::from_iter([("spec".to_owned(), spec)]);
        let mut errors = Errors::new();
        check(&object, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    /// Contract: API-25
    #[test]
    fn ingresses_by_the_table() {
        let path = |path: Value| json!({"rules": [{"host": "*.a.b", "http": {"paths": [path]}}]});
        let backend = json!({"service": {"name": "s", "port": {"name": "http"}}});
        let cases = [
            (json!({"defaultBackend": backend}), vec![]),
            (
                json!({"defaultBackend": {}}),
                vec!["spec.defaultBackend: Invalid value: \"\": resource or service backend is required"],
            ),
            (
                json!({"defaultBackend": {"resource": {"kind": "a/b", "name": "", "apiGroup": "A"}}}),
                vec![
                    "spec.defaultBackend.resource.apiGroup: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                    "spec.defaultBackend.resource.kind: Invalid value: \"a/b\": may not contain '/'",
                    "spec.defaultBackend.resource.name: Required value",
                ],
            ),
            (json!({"rules": [{"http": {}}]}), vec!["spec.rules[0].http.paths: Required value"]),
            (
                path(json!({"path": "/a/../b/.", "pathType": "Exact", "backend": backend})),
                vec![
                    "spec.rules[0].http.paths[0].path: Invalid value: \"/a/../b/.\": must not contain '/../'",
                    "spec.rules[0].http.paths[0].path: Invalid value: \"/a/../b/.\": cannot end with '/.'",
                ],
            ),
            (path(json!({"pathType": "ImplementationSpecific", "backend": backend})), vec![]),
            (
                json!({"defaultBackend": {"service": {"name": "", "port": {"number": 70000}}}}),
                vec![
                    "spec.defaultBackend.service.name: Required value",
                    "spec.defaultBackend.service.port.number: Invalid value: 70000: must be between 1 and 65535, inclusive",
                ],
            ),
        ];
        for (spec, want) in cases {
            assert_eq!(texts(|o, e| validate(o, None, e), spec.clone()), want, "{spec}");
        }
    }

    /// Contract: API-25
    #[test]
    fn what_was_wrong_already_may_stay() {
        let spec = json!({
            "rules": [{"host": "*.a.b", "http": {"paths": []}}],
            "tls": [{"secretName": "-"}],
        });
        assert_eq!(texts(|o, e| validate(o, None, e), spec.clone()).len(), 2);
        assert_eq!(texts(|o, e| validate(o, Some(o), e), spec), Vec::<String>::new());
    }

    /// Contract: API-25
    #[test]
    fn classes_by_the_table() {
        let cases = [
            (json!({"controller": "a.io/c"}), vec![]),
            (json!({"controller": ""}), vec!["spec.controller: Required value"]),
            (
                json!({"controller": "a.io/c", "parameters": {"kind": "K", "name": "n", "scope": "Cluster", "namespace": "x"}}),
                vec!["spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"],
            ),
            (
                json!({"controller": "a.io/c", "parameters": {"kind": "K", "name": "n", "scope": "World"}}),
                vec![
                    "spec.parameters.scope: Unsupported value: \"World\": supported values: \"Cluster\", \"Namespace\"",
                ],
            ),
        ];
        for (spec, want) in cases {
            assert_eq!(texts(|o, e| validate_class(o, None, e), spec.clone()), want, "{spec}");
        }
    }
}
