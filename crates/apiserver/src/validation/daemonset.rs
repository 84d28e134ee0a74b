//! DaemonSets (API-25).

use crate::field::{FieldError, Shown};
use crate::model::{Object, fields::Fields};

use super::workload::{validate_collisions, validate_counts, validate_long_running, validate_selector_unchanged};
use super::{Errors, Path, internal, intstr, non_negative, pod, selector};

const SPEC: Path<'_> = Path::new("spec");

/// Checks a DaemonSet's spec.
pub fn validate(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    if let Some(old) = old {
        validate_selector_unchanged(object, old, errors);
    }
    let spec = object.part("spec");
    let path = SPEC.child("selector");
    let own = spec.object("selector");
    if let Some(own) = own {
        selector::validate(own, false, &path, errors);
    }
    let template = spec.part("template");
    let template_path = SPEC.child("template");
    if let Ok(parsed) = selector::parse(own) {
        selector::matches_template(&parsed, template, &template_path, errors);
    }
    if own.is_some_and(selector::is_empty) {
        let shown = Shown::Bare("{}".to_owned());
        errors.push(FieldError::invalid(path, shown, "empty selector is invalid for daemonset"));
    }
    let before = old.map(|old| old.part("spec").part("template"));
    pod::validate_template(template, before, &template_path, errors);
    validate_long_running(template, "DaemonSet", &template_path, errors);
    non_negative(spec.int("minReadySeconds"), &SPEC.child("minReadySeconds"), errors);
    validate_update_strategy(spec.part("updateStrategy"), errors);
    non_negative(spec.int("revisionHistoryLimit"), &SPEC.child("revisionHistoryLimit"), errors);
}

fn validate_update_strategy(strategy: &Object, errors: &mut Errors) {
    let path = SPEC.child("updateStrategy");
    let rolling_path = path.child("rollingUpdate");
    match (strategy.text("type"), strategy.object("rollingUpdate")) {
        ("OnDelete", _) => {}
        ("RollingUpdate", None) => errors.push(FieldError::required(rolling_path, "")),
        ("RollingUpdate", Some(rolling)) => validate_rolling(rolling, &rolling_path, errors),
        _ => {
            let shown = internal::shown("DaemonSetUpdateStrategy", strategy);
            errors.push(FieldError::not_supported(path, shown, &["RollingUpdate", "OnDelete"]));
        }
    }
}

/// Pods are replaced either with some missing meanwhile or with some too many, not both.
fn validate_rolling(rolling: &Object, path: &Path<'_>, errors: &mut Errors) {
    let fields = ["maxUnavailable", "maxSurge"];
    let [unavailable, surge] = fields.map(|field| rolling.get(field).cloned().unwrap_or_else(|| 0.into()));
    let [unavailable_path, surge_path] = fields.map(|field| path.child(field));
    intstr::non_negative_or_percent(&unavailable, &unavailable_path, errors);
    intstr::non_negative_or_percent(&surge, &surge_path, errors);
    intstr::at_most_all(&unavailable, &unavailable_path, errors);
    intstr::at_most_all(&surge, &surge_path, errors);
    match (intstr::amount(&unavailable) != 0, intstr::amount(&surge) != 0) {
        (true, true) => {
            errors.push(FieldError::invalid(surge_path, &surge, "may not be set when maxUnavailable is non-zero"));
        }
        (false, false) => errors.push(FieldError::required(unavailable_path, "cannot be 0 when maxSurge is 0")),
        _ => {}
    }
}

/// Checks a DaemonSet's status.
pub fn validate_status(object: &Object, old: &Object, errors: &mut Errors) {
    let counts = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    validate_counts(object.part("status"), &counts, errors);
    validate_collisions(object, old, errors);
}
