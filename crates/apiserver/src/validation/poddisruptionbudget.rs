//! PodDisruptionBudgets (API-25, API-27).

use crate::field::FieldError;
use crate::model::{Object, fields::Fields};

use super::workload::validate_counts;
use super::{Errors, Path, conditions, internal, intstr, selector};

const SPEC: Path<'_> = Path::new("spec");

/// Checks a budget's spec.
pub fn validate(object: &Object, _old: Option<&Object>, errors: &mut Errors) {
    let spec = object.part("spec");
    let amounts = ["minAvailable", "maxUnavailable"];
    if amounts.iter().all(|field| spec.contains_key(field)) {
        let shown = internal::shown("PodDisruptionBudgetSpec", spec);
        let why = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid(SPEC, shown, why));
    }
    for field in amounts {
        if let Some(amount) = spec.get(field) {
            let path = SPEC.child(field);
            intstr::non_negative_or_percent(amount, &path, errors);
            intstr::at_most_all(amount, &path, errors);
        }
    }
    if let Some(own) = spec.object("selector") {
        selector::validate(own, false, &SPEC.child("selector"), errors);
    }
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    if let Some(policy) = spec.maybe_text("unhealthyPodEvictionPolicy").filter(|policy| !policies.contains(policy)) {
        errors.push(FieldError::not_supported(SPEC.child("unhealthyPodEvictionPolicy"), policy, &policies));
    }
}

/// Checks a budget's status.
pub fn validate_status(object: &Object, errors: &mut Errors) {
    let status = object.part("status");
    conditions::validate(status, &Path::new("status"), errors);
    validate_counts(status, &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"], errors);
}
