//! Where a version of a group is served (API-17).

use crate::field::FieldError;
use crate::model::{Fields as _, Object, metadata};

use super::{Errors, Path, complain, name};

const SPEC: Path<'_> = Path::new("spec");

/// Checks an APIService.
pub fn validate(service: &Object, errors: &mut Errors) {
    let empty = Object::new();
    let spec = service.object("spec").unwrap_or(&empty);
    let (group, version) = (spec.text("group"), spec.text("version"));
    let wanted = format!("{version}.{group}");
    for (field, prefix) in [("generateName", true), ("name", false)] {
        let own = metadata(service).text(field);
        if !own.is_empty() && name::is_path_segment(own, prefix).is_empty() && own != wanted {
            let why = format!("must be `spec.version+\".\"+spec.group`: {}", crate::field::go_quote(&wanted));
            errors.push(FieldError::invalid(Path::new("metadata").child(field), own, why));
        }
    }
    let path = SPEC.child("group");
    if group.is_empty() && version != "v1" {
        errors.push(FieldError::required(path, "only v1 may have an empty group and it better be legacy kube"));
    }
    if !group.is_empty() {
        complain(group, name::is_dns1123_subdomain(group), &path, errors);
    }
    complain(version, name::is_dns1035_label(version), &SPEC.child("version"), errors);
    for (field, most, word) in [("groupPriorityMinimum", 20_000, "20000"), ("versionPriority", 1_000, "1000")] {
        let priority = spec.int(field);
        if priority <= 0 || priority > most {
            let why = format!("must be positive and less than {word}");
            errors.push(FieldError::invalid(SPEC.child(field), priority, why));
        }
    }
    let (bundle, insecure) = (spec.text("caBundle"), spec.flag("insecureSkipTLSVerify"));
    let Some(target) = spec.object("service") else {
        if !bundle.is_empty() {
            let shown = format!("{} bytes", decoded_len(bundle));
            let why = "local APIServices may not have a caBundle";
            errors.push(FieldError::invalid(SPEC.child("caBundle"), shown, why));
        }
        if insecure {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(FieldError::invalid(SPEC.child("insecureSkipTLSVerify"), insecure, why));
        }
        return;
    };
    let path = SPEC.child("service");
    for field in ["namespace", "name"] {
        if target.text(field).is_empty() {
            errors.push(FieldError::required(path.child(field), ""));
        }
    }
    let port = target.int("port");
    let complaints = name::is_port_number(port);
    if !complaints.is_empty() {
        let why = format!("port is not valid: {}", complaints.join(", "));
        errors.push(FieldError::invalid(path.child("port"), port, why));
    }
    if insecure && !bundle.is_empty() {
        let why = "may not be true if caBundle is present";
        errors.push(FieldError::invalid(SPEC.child("insecureSkipTLSVerify"), insecure, why));
    }
}

/// How many bytes a text in base64 stands for.
fn decoded_len(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|b| *b == b'=').count();
    base64.len() / 4 * 3 - padding.min(2)
}

/// Checks an APIService's status.
pub fn validate_status(service: &Object, errors: &mut Errors) {
    const STATES: [&str; 3] = ["True", "False", "Unknown"];
    let Some(status) = service.object("status") else { return };
    let path = Path::new("status");
    let list = path.child("conditions");
    for (i, condition) in status.items("conditions").enumerate() {
        let state = condition.text("status");
        if !STATES.contains(&state) {
            errors.push(FieldError::not_supported(list.index(i).child("status"), state, &STATES));
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::{Value, json};

    use super::*;

    /// Contract: API-25
    #[test]
    fn services_by_the_table() {
        let with = |fields: Value| {
            let mut spec = json!({"group": "a.io", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1});
            for (key, value) in fields.as_object().into_iter().flatten() {
                spec[key] = value.clone();
            }
            spec
        };
        let cases = [
            (with(json!({})), vec![]),
            (
                with(json!({"group": "b.io"})),
                vec!["metadata.name: Invalid value: \"v1.a.io\": must be `spec.version+\".\"+spec.group`: \"v1.b.io\""],
            ),
            (
                with(json!({"groupPriorityMinimum": 0, "versionPriority": 1001})),
                vec![
                    "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
                    "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
                ],
            ),
            (
                with(json!({"caBundle": "YWJj"})),
                vec!["spec.caBundle: Invalid value: \"3 bytes\": local APIServices may not have a caBundle"],
            ),
            (
                with(json!({"service": {"name": "n", "port": 0}, "insecureSkipTLSVerify": true, "caBundle": "YQ=="})),
                vec![
                    "spec.service.namespace: Required value",
                    "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
                    "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
                ],
            ),
        ];
        for (spec, want) in cases {
            let service = json!({"metadata": {"name": "v1.a.io"}, "spec": spec});
            let mut errors = Errors::new();
            validate(service.as_object().expect("an object"), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want, "{service}");
        }
    }
}
