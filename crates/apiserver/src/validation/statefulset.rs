//! StatefulSets (API-25).

use muster_tree::{Value, json};

use crate::field::{FieldError, Shown};
use crate::model::{Object, fields::Fields};

use super::workload::{not_more, validate_collisions, validate_counts, validate_long_running};
use super::{Errors, Path, complain, internal, intstr, name, non_negative, pod, selector};

const SPEC: Path<'_> = Path::new("spec");

/// What of a spec may change.
const CHANGEABLE: [&str; 7] = [
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];

/// Checks a StatefulSet's spec.
pub fn validate(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    let spec = object.part("spec");
    let Some(before) = old.map(|old| old.part("spec")) else {
        return validate_spec(spec, None, true, errors);
    };
    // Where the stored template is not valid, the new one need not be.
    let mut known = Errors::new();
    validate_spec(before, Some(before), true, &mut known);
    validate_spec(spec, Some(before), known.is_empty(), errors);
    let mut rest = spec.clone();
    for field in CHANGEABLE {
        rest.carry(field, before);
    }
    if rest != *before {
        let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.push(FieldError::forbidden(SPEC, why));
    }
}

/// Checks a spec; `whole_template` says whether the pods' own spec is looked at. What cannot change is not looked at again.
fn validate_spec(spec: &Object, before: Option<&Object>, whole_template: bool, errors: &mut Errors) {
    let path = SPEC.child("podManagementPolicy");
    match spec.text("podManagementPolicy") {
        "" => errors.push(FieldError::required(path, "")),
        "OrderedReady" | "Parallel" => {}
        other => errors.push(FieldError::invalid(path, other, "must be 'OrderedReady' or 'Parallel'")),
    }
    validate_update_strategy(spec.part("updateStrategy"), errors);
    if let Some(policy) = spec.object("persistentVolumeClaimRetentionPolicy") {
        let path = SPEC.child("persistentVolumeClaimRetentionPolicy");
        for field in ["whenDeleted", "whenScaled"] {
            let value = policy.text(field);
            if !matches!(value, "Retain" | "Delete") {
                errors.push(FieldError::not_supported(path.child(field), value, &["Retain", "Delete"]));
            }
        }
    }
    if before.is_none() {
        let path = SPEC.child("volumeClaimTemplates");
        for (i, claim) in spec.items("volumeClaimTemplates").enumerate() {
            pod::claims::validate_claim_spec(claim.part("spec"), None, &path.index(i).child("spec"), errors);
        }
    }
    non_negative(spec.int("replicas"), &SPEC.child("replicas"), errors);
    non_negative(spec.int("minReadySeconds"), &SPEC.child("minReadySeconds"), errors);
    non_negative(spec.part("ordinals").int("start"), &SPEC.child("ordinals.start"), errors);
    let service = spec.text("serviceName");
    if before.is_none() && !service.is_empty() {
        complain(service, name::is_dns1123_label(service), &SPEC.child("serviceName"), errors);
    }
    validate_selector_and_template(spec, before, whole_template, errors);
}

fn validate_update_strategy(strategy: &Object, errors: &mut Errors) {
    let path = SPEC.child("updateStrategy");
    let rolling_path = path.child("rollingUpdate");
    let rolling = strategy.object("rollingUpdate");
    match (strategy.text("type"), rolling) {
        ("", _) => errors.push(FieldError::required(path, "")),
        ("OnDelete" | "RollingUpdate", None) => {}
        ("OnDelete", Some(rolling)) => {
            let shown = internal::shown("RollingUpdateStatefulSetStrategy", rolling);
            errors.push(FieldError::invalid(rolling_path, shown, "only allowed for updateStrategy 'RollingUpdate'"));
        }
        ("RollingUpdate", Some(rolling)) => {
            non_negative(rolling.int("partition"), &rolling_path.child("partition"), errors);
            if let Some(unavailable) = rolling.get("maxUnavailable") {
                let path = rolling_path.child("maxUnavailable");
                intstr::non_negative_or_percent(unavailable, &path, errors);
                if intstr::amount(unavailable) == 0 {
                    errors.push(FieldError::invalid(path, unavailable, "cannot be 0"));
                }
                intstr::at_most_all(unavailable, &path, errors);
            }
        }
        _ => {
            let shown = internal::shown("StatefulSetUpdateStrategy", strategy);
            errors.push(FieldError::invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'"));
        }
    }
}

fn validate_selector_and_template(spec: &Object, before: Option<&Object>, whole: bool, errors: &mut Errors) {
    let path = SPEC.child("selector");
    let own = spec.object("selector");
    match own {
        None => errors.push(FieldError::required(path, "")),
        Some(own) => {
            selector::validate(own, false, &path, errors);
            if selector::is_empty(own) {
                let shown = Shown::Bare("{}".to_owned());
                errors.push(FieldError::invalid(path, shown, "empty selector is invalid for statefulset"));
            }
        }
    }
    let template = spec.part("template");
    let path = SPEC.child("template");
    match selector::parse(own) {
        Err(_) => errors.push(FieldError::invalid(SPEC.child("selector"), selector::shown(own), "")),
        Ok(parsed) => {
            selector::matches_template(&parsed, template, &path, errors);
            let old = before.map(|before| before.part("template"));
            pod::validate_set_template(&pod_template(spec), old, whole, &path, errors);
        }
    }
    validate_long_running(template, "StatefulSet", &path, errors);
}

/// The template as the controller completes it: it names each pod, and mounts the claims that it makes.
fn pod_template(spec: &Object) -> Object {
    let mut template = spec.part("template").clone();
    let pod = template.object_or_new("spec");
    pod.remove("hostname");
    pod.remove("subdomain");
    let claims: Vec<&str> =
        spec.items("volumeClaimTemplates").map(|claim| claim.part("metadata").text("name")).collect();
    if !claims.is_empty() {
        let mut volumes: Vec<Value> = Vec::new();
        for (at, claim) in claims.iter().enumerate() {
            if !claims[..at].contains(claim) {
                volumes.push(json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}));
            }
        }
        let others = pod.list("volumes").iter().filter(|v| !claims.iter().any(|claim| v["name"] == **claim));
        volumes.extend(others.cloned());
        pod.insert("volumes", Value::Array(volumes.into()));
    }
    template
}

/// Checks a StatefulSet's status.
pub fn validate_status(object: &Object, old: &Object, errors: &mut Errors) {
    let status = object.part("status");
    let counts = ["replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    validate_counts(status, &counts, errors);
    validate_counts(status, &["observedGeneration", "collisionCount"], errors);
    not_more(status, &counts[1..], "status.readyReplicas", errors);
    validate_collisions(object, old, errors);
}
