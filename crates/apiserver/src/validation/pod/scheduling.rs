//! What decides when and where a pod runs: gates, tolerations, topology spread.

use std::collections::BTreeSet;

use crate::field::FieldError;
use crate::model::{Object, fields::Fields};
use crate::validation::node::validate_taint_effect;
use crate::validation::{Errors, Path, complain, name, selector};

use super::{Context, affinity};

/// Checks `readinessGates`.
pub(super) fn validate_readiness_gates(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    for (i, gate) in spec.items("readinessGates").enumerate() {
        let own = gate.text("conditionType");
        complain(own, name::is_qualified_name(own), &path.index(i).child("conditionType"), errors);
    }
}

/// Checks `schedulingGates`.
pub(super) fn validate_scheduling_gates(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (i, gate) in spec.items("schedulingGates").enumerate() {
        let own = gate.text("name");
        complain(own, name::is_qualified_name(own), &path.index(i), errors);
        if !seen.insert(own) {
            errors.push(FieldError::duplicate(path.index(i), own));
        }
    }
}

/// Checks `tolerations`.
pub(in crate::validation) fn validate_tolerations(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    for (i, toleration) in spec.items("tolerations").enumerate() {
        let path = path.index(i);
        let (key, value) = (toleration.text("key"), toleration.text("value"));
        let (operator, effect) = (toleration.text("operator"), toleration.text("effect"));
        if !key.is_empty() {
            complain(key, name::is_qualified_name(key), &path.child("key"), errors);
        }
        let operator_path = path.child("operator");
        if key.is_empty() && operator != "Exists" {
            errors.push(FieldError::invalid(
                operator_path,
                operator,
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ));
        }
        if toleration.contains_key("tolerationSeconds") && effect != "NoExecute" {
            errors.push(FieldError::invalid(
                path.child("effect"),
                effect,
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            ));
        }
        match operator {
            "Equal" | "" => {
                let complaints = name::is_label_value(value);
                if !complaints.is_empty() {
                    errors.push(FieldError::invalid(operator_path, value, complaints.join(";")));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    errors.push(FieldError::invalid(
                        operator_path,
                        value,
                        "value must be empty when `operator` is 'Exists'",
                    ));
                }
            }
            "Lt" | "Gt" => {
                errors.push(FieldError::not_supported(operator_path, operator, &["Equal", "Exists", "Lt", "Gt"]));
            }
            other => errors.push(FieldError::not_supported(operator_path, other, &["Equal", "Exists"])),
        }
        if !effect.is_empty() {
            validate_taint_effect(effect, true, &path.child("effect"), errors);
        }
    }
}

/// Checks `topologySpreadConstraints`.
pub(super) fn validate_spread(context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    let constraints: Vec<&Object> = context.spec.items("topologySpreadConstraints").collect();
    for (i, constraint) in constraints.iter().enumerate() {
        let path = path.index(i);
        let (key, action) = (constraint.text("topologyKey"), constraint.text("whenUnsatisfiable"));
        positive(constraint.int("maxSkew"), &path.child("maxSkew"), errors);
        if key.is_empty() {
            errors.push(FieldError::required(path.child("topologyKey"), "can not be empty"));
        }
        if !matches!(action, "DoNotSchedule" | "ScheduleAnyway") {
            errors.push(FieldError::not_supported(
                path.child("whenUnsatisfiable"),
                action,
                &["DoNotSchedule", "ScheduleAnyway"],
            ));
        }
        let same = |c: &&&Object| c.text("topologyKey") == key && c.text("whenUnsatisfiable") == action;
        if constraints[i + 1..].iter().any(|c| same(&c)) {
            errors.push(FieldError::duplicate(
                path.child("{topologyKey, whenUnsatisfiable}"),
                format!("{{{key}, {action}}}"),
            ));
        }
        if let Some(domains) = constraint.maybe_int("minDomains") {
            let path = path.child("minDomains");
            positive(domains, &path, errors);
            if action != "DoNotSchedule" {
                errors.push(FieldError::invalid(
                    path,
                    domains,
                    format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"),
                ));
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(policy) = constraint.maybe_text(field).filter(|p| !matches!(*p, "Honor" | "Ignore")) {
                errors.push(FieldError::not_supported(path.child(field), policy, &["Honor", "Ignore"]));
            }
        }
        affinity::validate_label_keys(constraint, &path, errors);
        if !context.options.invalid_spread_selectors
            && let Some(own) = constraint.object("labelSelector")
        {
            selector::validate(own, false, &path.child("labelSelector"), errors);
        }
    }
}

fn positive(value: i64, path: &Path<'_>, errors: &mut Errors) {
    if value <= 0 {
        errors.push(FieldError::invalid(path, value, "must be greater than zero"));
    }
}
