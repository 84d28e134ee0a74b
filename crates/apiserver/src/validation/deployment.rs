//! Deployments (API-17).

use muster_tree::Value;

use crate::field::FieldError;
use crate::model::{
    Object,
    fields::{Fields, metadata},
};

use super::workload::{not_more, validate_collisions, validate_counts, validate_selector_and_template};
use super::{Errors, Path, internal, intstr, non_negative};

const SPEC: Path<'_> = Path::new("spec");

/// Checks a Deployment's spec.
pub fn validate(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    let empty = Object::new();
    let spec = object.object("spec").unwrap_or(&empty);
    non_negative(spec.int("replicas"), &SPEC.child("replicas"), errors);
    validate_selector_and_template(spec, old.and_then(|o| o.object("spec")), errors);
    validate_strategy(spec.object("strategy").unwrap_or(&empty), errors);
    non_negative(spec.int("minReadySeconds"), &SPEC.child("minReadySeconds"), errors);
    non_negative(spec.int("revisionHistoryLimit"), &SPEC.child("revisionHistoryLimit"), errors);
    // Where `apps/v1beta1` had a field.
    let version = metadata(object).part("annotations").text("deprecated.deployment.rollback.to");
    non_negative(version.parse().unwrap_or(0), &SPEC.child("rollback").child("version"), errors);
    if let Some(deadline) = spec.maybe_int("progressDeadlineSeconds") {
        let path = SPEC.child("progressDeadlineSeconds");
        non_negative(deadline, &path, errors);
        if deadline <= spec.int("minReadySeconds") {
            errors.push(FieldError::invalid(path, deadline, "must be greater than minReadySeconds"));
        }
    }
}

fn validate_strategy(strategy: &Object, errors: &mut Errors) {
    let path = SPEC.child("strategy");
    let rolling = strategy.object("rollingUpdate");
    match (strategy.text("type"), rolling) {
        ("Recreate", None) => {}
        ("Recreate", Some(_)) => errors.push(FieldError::forbidden(
            path.child("rollingUpdate"),
            "may not be specified when strategy `type` is 'Recreate'",
        )),
        ("RollingUpdate", None) => {
            errors.push(FieldError::required(path.child("rollingUpdate"), "this should be defaulted and never be nil"));
        }
        ("RollingUpdate", Some(rolling)) => validate_rolling(rolling, &path.child("rollingUpdate"), errors),
        _ => {
            let shown = internal::shown("DeploymentStrategy", strategy);
            errors.push(FieldError::not_supported(path, shown, &["Recreate", "RollingUpdate"]));
        }
    }
}

fn validate_rolling(rolling: &Object, path: &Path<'_>, errors: &mut Errors) {
    let (unavailable, surge) = (part(rolling, "maxUnavailable"), part(rolling, "maxSurge"));
    let unavailable_path = path.child("maxUnavailable");
    intstr::non_negative_or_percent(&unavailable, &unavailable_path, errors);
    intstr::non_negative_or_percent(&surge, &path.child("maxSurge"), errors);
    if intstr::amount(&unavailable) == 0 && intstr::amount(&surge) == 0 {
        errors.push(FieldError::invalid(unavailable_path, &unavailable, "may not be 0 when `maxSurge` is 0"));
    }
    intstr::at_most_all(&unavailable, &unavailable_path, errors);
}

fn part(rolling: &Object, field: &str) -> Value {
    rolling.get(field).cloned().unwrap_or_else(|| 0.into())
}

/// Checks a Deployment's status.
pub fn validate_status(object: &Object, old: &Object, errors: &mut Errors) {
    let status = object.part("status");
    let fields = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    validate_counts(status, &fields, errors);
    not_more(status, &["updatedReplicas", "readyReplicas", "availableReplicas"], "readyReplicas", errors);
    validate_collisions(object, old, errors);
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    /// Contract: API-17
    #[test]
    fn strategies_by_the_table() {
        let cases = [
            (json!({"type": "Recreate"}), vec![]),
            (
                json!({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
                vec!["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
            ),
            (
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
                vec!["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
            ),
            (
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "0%", "maxUnavailable": "0%"}}),
                vec![
                    "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
                ],
            ),
            (
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "150%", "maxUnavailable": "120%"}}),
                vec![
                    "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"120%\": must not be greater than 100%",
                ],
            ),
            (
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": -1, "maxUnavailable": "25%"}}),
                vec!["spec.strategy.rollingUpdate.maxSurge: Invalid value: -1: must be greater than or equal to 0"],
            ),
            (
                json!({"type": "Bluegreen"}),
                vec![
                    "spec.strategy: Unsupported value: {\"Type\":\"Bluegreen\",\"RollingUpdate\":null}: supported values: \"Recreate\", \"RollingUpdate\"",
                ],
            ),
        ];
        for (strategy, want) in cases {
            let mut errors = Errors::new();
            validate_strategy(strategy.as_object().expect("object"), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want, "{strategy}");
        }
    }
}
