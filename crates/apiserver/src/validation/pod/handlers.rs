//! Probes and lifecycle hooks: what is done, and how often.

use muster_tree::Value;

use crate::field::FieldError;
use crate::model::{Object, fields::Fields};
use crate::validation::{Errors, Path, complain, name, non_negative};

use super::{Context, one_of};

/// Checks the three probes of a container.
pub(super) fn validate_probes(container: &Object, path: &Path<'_>, errors: &mut Errors) {
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.object(kind) else { continue };
        let path = path.child(kind);
        validate_handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], None, &path, errors);
        for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            non_negative(probe.int(field), &path.child(field), errors);
        }
        let grace = probe.maybe_int("terminationGracePeriodSeconds");
        let grace_path = path.child("terminationGracePeriodSeconds");
        if let Some(seconds) = grace.filter(|g| *g <= 0) {
            errors.push(FieldError::invalid(grace_path, seconds, "must be greater than 0"));
        }
        if kind == "readinessProbe" {
            if let Some(seconds) = grace {
                errors.push(FieldError::invalid(grace_path, seconds, "must not be set for readinessProbes"));
            }
        } else if probe.int("successThreshold") != 1 {
            errors.push(FieldError::invalid(
                path.child("successThreshold"),
                probe.int("successThreshold"),
                "must be 1",
            ));
        }
    }
}

/// Checks the lifecycle hooks of a container.
pub(super) fn validate_lifecycle(context: &Context<'_>, lifecycle: &Object, path: &Path<'_>, errors: &mut Errors) {
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = lifecycle.object(hook) {
            let kinds = ["exec", "httpGet", "tcpSocket", "sleep"];
            validate_handler(handler, &kinds, context.grace, &path.child(hook), errors);
        }
    }
}

fn validate_handler(handler: &Object, kinds: &[&str], grace: Option<i64>, path: &Path<'_>, errors: &mut Errors) {
    let mut found = false;
    for kind in kinds {
        let Some(action) = handler.object(kind) else { continue };
        let path = path.child(kind);
        if found {
            errors.push(FieldError::forbidden(path, "may not specify more than 1 handler type"));
            continue;
        }
        found = true;
        match *kind {
            "exec" => {
                if action.list("command").is_empty() {
                    errors.push(FieldError::required(path.child("command"), ""));
                }
            }
            "httpGet" => validate_http(action, &path, errors),
            "sleep" => validate_sleep(action, grace, &path, errors),
            _ => validate_port(action.get("port"), &path.child("port"), errors),
        }
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a handler type"));
    }
}

fn validate_http(action: &Object, path: &Path<'_>, errors: &mut Errors) {
    if action.text("path").is_empty() {
        errors.push(FieldError::required(path.child("path"), ""));
    }
    validate_port(action.get("port"), &path.child("port"), errors);
    let scheme = action.text("scheme");
    if scheme.is_empty() {
        errors.push(FieldError::not_supported(path.child("scheme"), scheme, &["HTTP", "HTTPS"]));
    }
    one_of(action, "scheme", &["HTTP", "HTTPS"], false, path, errors);
    for header in action.items("httpHeaders") {
        let own = header.text("name");
        complain(own, name::is_http_header_name(own), &path.child("httpHeaders"), errors);
    }
}

fn validate_sleep(action: &Object, grace: Option<i64>, path: &Path<'_>, errors: &mut Errors) {
    let seconds = action.int("seconds");
    if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
        errors.push(FieldError::invalid(
            path,
            seconds,
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})"),
        ));
    }
}

/// A port by number or by name.
pub(super) fn validate_port(port: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if let Some(own) = port.and_then(Value::as_str) {
        complain(own, name::is_port_name(own), path, errors);
        return;
    }
    let number = port.and_then(Value::as_i64).unwrap_or_default();
    for complaint in name::is_port_number(number) {
        errors.push(FieldError::invalid(path, number, complaint));
    }
}
