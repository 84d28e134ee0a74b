//! Admission policies and what binds them (API-17, API-30). What an expression says is for whoever can compile it.

use std::collections::BTreeSet;

use muster_tree::Value;

use crate::field::{ErrorKind, FieldError};
use crate::model::{Fields as _, Object, metadata};

use super::expression::Wrong;
use super::webhook::{one_of, validate_rule};
use super::{Errors, Path, complain, name, selector};

const SPEC: Path<'_> = Path::new("spec");
/// A policy may not have more audit annotations than this.
const ANNOTATIONS_MOST: usize = 20;
/// The expression of an audit annotation may not be longer than this, in bytes.
const ANNOTATION_MAX: usize = 5 * 1024;
/// A policy or a webhook may not have more match conditions than this.
const CONDITIONS_MOST: usize = 64;

/// What compiles the expressions of policies and webhooks.
pub trait Expressions {
    /// Checks an expression. `variables` are the names and expressions of those before it.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check(&self, expression: &str, sort: Sort, variables: &[(&str, &str)]) -> Result<(), Wrong>;
}

/// What an expression is for: which variables it sees, and what it has to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sort {
    /// What it gives.
    pub gives: Gives,
    /// Whether `params` is there.
    pub params: bool,
    /// Whether `authorizer` is there.
    pub authorizer: bool,
}

/// What an expression has to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gives {
    /// A boolean.
    Bool,
    /// A string.
    Text,
    /// A string or nothing.
    TextOrNull,
    /// Whatever it gives: a variable.
    Anything,
    /// An object of the type that is patched.
    Object,
    /// A list of JSON patch operations.
    Patches,
}

impl Sort {
    /// A condition under which a policy or a webhook is asked at all.
    pub const CONDITION: Self = Self { gives: Gives::Bool, params: true, authorizer: true };

    const fn of(gives: Gives, params: bool, authorizer: bool) -> Self {
        Self { gives, params, authorizer }
    }
}

/// Takes every expression for a good one.
#[cfg(test)]
#[derive(Debug, Clone, Copy)]
pub struct Unchecked;

#[cfg(test)]
impl Expressions for Unchecked {
    fn check(&self, _: &str, _: Sort, _: &[(&str, &str)]) -> Result<(), Wrong> {
        Ok(())
    }
}

/// What the checks of one policy share.
struct Checker<'a> {
    expressions: &'a dyn Expressions,
    params: bool,
    variables: Vec<(&'a str, &'a str)>,
}

impl Checker<'_> {
    fn check(&self, expression: &str, gives: Gives, authorizer: bool, path: &Path<'_>, errors: &mut Errors) {
        let sort = Sort::of(gives, self.params, authorizer);
        if let Err(wrong) = self.expressions.check(expression, sort, &self.variables) {
            errors.push(wrong.of(path, expression));
        }
    }
}

/// Checks a ValidatingAdmissionPolicy.
pub fn validate_validating(policy: &Object, old: Option<&Object>, expressions: &dyn Expressions, errors: &mut Errors) {
    let empty = Object::new();
    let spec = policy.object("spec").unwrap_or(&empty);
    let checker = validate_common(spec, old, expressions, errors);
    let (checks, annotations) = (SPEC.child("validations"), SPEC.child("auditAnnotations"));
    if spec.list("validations").is_empty() && spec.list("auditAnnotations").is_empty() {
        for path in [checks, annotations] {
            let why = "validations or auditAnnotations must contain at least one item";
            errors.push(FieldError::required(path, why));
        }
        return;
    }
    for (i, check) in spec.items("validations").enumerate() {
        validate_check(check, &checker, &checks.index(i), errors);
    }
    if spec.list("auditAnnotations").len() > ANNOTATIONS_MOST {
        let why = format!("must not have more than {ANNOTATIONS_MOST} auditAnnotations");
        errors.push(FieldError::invalid(annotations, &spec["auditAnnotations"], why));
    }
    let own = metadata(policy).text("name");
    let mut keys = BTreeSet::new();
    for (i, annotation) in spec.items("auditAnnotations").enumerate() {
        let path = annotations.index(i);
        let key = annotation.text("key");
        if own.is_empty() {
            errors.push(FieldError::invalid(path.child("key"), key, "requires metadata.name be non-empty"));
        } else {
            let whole = format!("{own}/{key}");
            complain(&whole, name::is_qualified_name(&whole), &path.child("key"), errors);
        }
        let at = path.child("valueExpression");
        let expression = annotation.text("valueExpression").trim();
        if expression.is_empty() {
            errors.push(FieldError::required(at, "valueExpression is not specified"));
        } else if expression.len() > ANNOTATION_MAX {
            errors.push(FieldError::required(at, format!("must not exceed {ANNOTATION_MAX} bytes in length")));
        } else {
            checker.check(expression, Gives::TextOrNull, true, &at, errors);
        }
        if !keys.insert(key) {
            errors.push(FieldError::duplicate(path.child("key"), key));
        }
    }
}

/// Checks a MutatingAdmissionPolicy.
pub fn validate_mutating(policy: &Object, old: Option<&Object>, expressions: &dyn Expressions, errors: &mut Errors) {
    let empty = Object::new();
    let spec = policy.object("spec").unwrap_or(&empty);
    let rules = spec.object("matchConstraints");
    let checker = validate_common(spec, old, expressions, errors);
    validate_mutated(rules, "matchConstraints", errors);
    let list = SPEC.child("mutations");
    if spec.list("mutations").is_empty() {
        errors.push(FieldError::required(list, "mutations must contain at least one item"));
    }
    for (i, mutation) in spec.items("mutations").enumerate() {
        validate_mutation(mutation, &checker, &list.index(i), errors);
    }
    if spec.text("reinvocationPolicy").is_empty() {
        errors.push(FieldError::required(SPEC.child("reinvocationPolicy"), ""));
    } else {
        one_of(spec, "reinvocationPolicy", &["IfNeeded", "Never"], &SPEC, errors);
    }
}

/// What both sorts of policies have.
fn validate_common<'a>(
    spec: &'a Object,
    old: Option<&Object>,
    expressions: &'a dyn Expressions,
    errors: &mut Errors,
) -> Checker<'a> {
    if spec.contains_key("failurePolicy") {
        one_of(spec, "failurePolicy", &["Fail", "Ignore"], &SPEC, errors);
    } else {
        errors.push(FieldError::required(SPEC.child("failurePolicy"), ""));
    }
    let kind = spec.object("paramKind");
    if let Some(kind) = kind {
        validate_param_kind(kind, &SPEC.child("paramKind"), errors);
    }
    let constraints = SPEC.child("matchConstraints");
    match spec.object("matchConstraints") {
        None => errors.push(FieldError::required(constraints, "")),
        Some(own) => {
            validate_match_resources(own, &constraints, errors);
            if own.list("resourceRules").is_empty() {
                errors.push(FieldError::required(constraints.child("resourceRules"), ""));
            }
        }
    }
    let before = old.and_then(|old| old.object("spec"));
    let same = |field: &str| before.is_some_and(|before| before.get(field) == spec.get(field));
    if !same("paramKind") || !same("matchConditions") {
        let sort = Sort { params: kind.is_some(), ..Sort::CONDITION };
        validate_match_conditions(spec, sort, expressions, &SPEC.child("matchConditions"), errors);
    }
    let mut checker = Checker { expressions, params: kind.is_some(), variables: Vec::new() };
    let list = SPEC.child("variables");
    for (i, variable) in spec.items("variables").enumerate() {
        let path = list.index(i);
        let (own, expression) = (variable.text("name"), variable.text("expression"));
        if own.trim().is_empty() {
            errors.push(FieldError::required(path.child("name"), "name is not specified"));
        } else if !name::is_cel_identifier(own) {
            errors.push(FieldError::invalid(path.child("name"), own, "must be a valid CEL identifier"));
        }
        if expression.trim().is_empty() {
            errors.push(FieldError::required(path.child("expression"), "expression is not specified"));
        } else {
            checker.check(expression, Gives::Anything, true, &path.child("expression"), errors);
            checker.variables.push((own, expression));
        }
    }
    checker
}

fn validate_param_kind(kind: &Object, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("apiVersion");
    let joined = |errors: &mut Errors, path: &Path<'_>, value: &str, before: &str, complaints: Vec<String>| {
        if !complaints.is_empty() {
            errors.push(FieldError::invalid(path, value, format!("{before}{}", complaints.join(","))));
        }
    };
    let whole = kind.text("apiVersion");
    match whole.matches('/').count() {
        _ if whole.is_empty() => errors.push(FieldError::required(at, "")),
        0 | 1 => {
            let (group, version) = if whole == "/" { ("", "") } else { whole.split_once('/').unwrap_or(("", whole)) };
            if !group.is_empty() {
                joined(errors, &at, group, "", name::is_dns1123_subdomain(group));
            }
            if version.is_empty() {
                errors.push(FieldError::invalid(at, whole, "version must be specified"));
            } else {
                joined(errors, &at, version, "", name::is_dns1035_label(version));
            }
        }
        _ => errors.push(FieldError::invalid(at, whole, format!("unexpected GroupVersion string: {whole}"))),
    }
    let own = kind.text("kind");
    if own.is_empty() {
        errors.push(FieldError::required(path.child("kind"), ""));
    } else {
        let before = "may have mixed case, but should otherwise match: ";
        joined(errors, &path.child("kind"), own, before, name::is_dns1035_label(&own.to_lowercase()));
    }
}

fn validate_match_resources(own: &Object, path: &Path<'_>, errors: &mut Errors) {
    if own.contains_key("matchPolicy") {
        one_of(own, "matchPolicy", &["Equivalent", "Exact"], path, errors);
    } else {
        errors.push(FieldError::required(path.child("matchPolicy"), ""));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        match own.object(field) {
            None => errors.push(FieldError::required(path.child(field), "")),
            Some(own) => selector::validate(own, false, &path.child(field), errors),
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let list = path.child(field);
        for (i, rule) in own.items(field).enumerate() {
            let path = list.index(i);
            let names = path.child("resourceNames");
            let mut seen = BTreeSet::new();
            for (j, own) in rule.strings("resourceNames").enumerate() {
                complain(own, name::is_path_segment(own, false), &names.index(j), errors);
                if !seen.insert(own) {
                    errors.push(FieldError::duplicate(names.index(j), own));
                }
            }
            validate_rule(rule, &path, errors);
        }
    }
}

/// A deletion is not mutated.
fn validate_mutated(rules: Option<&Object>, field: &str, errors: &mut Errors) {
    const OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
    let path = SPEC.child(field);
    let path = path.child("resourceRules");
    let operations = rules.into_iter().flat_map(|r| r.items("resourceRules")).flat_map(|r| r.strings("operations"));
    for operation in operations.filter(|operation| !OPERATIONS.contains(operation)) {
        errors.push(FieldError::not_supported(path.child("operations"), operation, &OPERATIONS));
    }
}

/// Checks the conditions under which a policy or a webhook is asked at all.
pub(super) fn validate_match_conditions(
    parent: &Object,
    sort: Sort,
    expressions: &dyn Expressions,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let count = parent.list("matchConditions").len();
    if count > CONDITIONS_MOST {
        errors.push(FieldError {
            kind: ErrorKind::TooMany,
            field: path.to_string(),
            value: Some(i64::try_from(count).unwrap_or(i64::MAX).into()),
            detail: format!("must have at most {CONDITIONS_MOST} items"),
        });
    }
    let mut names = BTreeSet::new();
    for (i, condition) in parent.items("matchConditions").enumerate() {
        let path = path.index(i);
        let (own, expression) = (condition.text("name"), condition.text("expression").trim());
        if expression.is_empty() {
            errors.push(FieldError::required(path.child("expression"), ""));
        } else if let Err(wrong) = expressions.check(expression, sort, &[]) {
            errors.push(wrong.of(path.child("expression"), expression));
        }
        if own.is_empty() {
            errors.push(FieldError::required(path.child("name"), ""));
            continue;
        }
        complain(own, name::is_qualified_name(own), &path.child("name"), errors);
        if !names.insert(own) {
            errors.push(FieldError::duplicate(path.child("name"), own));
        }
    }
}

fn validate_check(check: &Object, checker: &Checker<'_>, path: &Path<'_>, errors: &mut Errors) {
    let expression = check.text("expression");
    if expression.trim().is_empty() {
        errors.push(FieldError::required(path.child("expression"), "expression is not specified"));
    } else {
        checker.check(expression, Gives::Bool, true, &path.child("expression"), errors);
    }
    let (of_message, message) = (check.text("messageExpression"), check.text("message"));
    if !of_message.is_empty() {
        let at = path.child("messageExpression");
        if of_message.trim().is_empty() {
            errors.push(FieldError::invalid(at, of_message, "must be non-empty if specified"));
        } else {
            checker.check(of_message, Gives::Text, false, &at, errors);
        }
    }
    if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(path.child("message"), message, "must be non-empty if specified"));
    } else if message.trim().contains(['\n', '\r']) {
        errors.push(FieldError::invalid(path.child("message"), message, "must not contain line breaks"));
    }
    one_of(check, "reason", &["Forbidden", "Invalid", "RequestEntityTooLarge"], path, errors);
}

fn validate_mutation(mutation: &Object, checker: &Checker<'_>, path: &Path<'_>, errors: &mut Errors) {
    const SORTS: [(&str, &str, Gives); 2] =
        [("ApplyConfiguration", "applyConfiguration", Gives::Object), ("JSONPatch", "jsonPatch", Gives::Patches)];
    let kind = mutation.text("patchType");
    if kind.is_empty() {
        errors.push(FieldError::required(path.child("patchType"), ""));
        return;
    }
    let Some((_, field, gives)) = SORTS.iter().find(|(name, ..)| *name == kind) else {
        one_of(mutation, "patchType", &["ApplyConfiguration", "JSONPatch"], path, errors);
        return;
    };
    let at = path.child(field);
    match mutation.object(field) {
        None => errors.push(FieldError::required(at, format!("must be specified when patchType is {kind}"))),
        Some(own) => match own.text("expression").trim() {
            "" => errors.push(FieldError::required(at.child("expression"), "")),
            expression => checker.check(expression, *gives, true, &at.child("expression"), errors),
        },
    }
    for (_, other, _) in SORTS.iter().filter(|(name, other, _)| *name != kind && mutation.contains_key(other)) {
        let why = format!("must not be specified when patchType is {kind}");
        errors.push(FieldError::invalid(path.child(other), format!("{{{other}}}"), why));
    }
}

/// Checks a ValidatingAdmissionPolicyBinding.
pub fn validate_validating_binding(binding: &Object, errors: &mut Errors) {
    const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
    let empty = Object::new();
    let spec = binding.object("spec").unwrap_or(&empty);
    validate_binding(spec, errors);
    let list = SPEC.child("validationActions");
    let mut seen = BTreeSet::new();
    for (i, action) in spec.strings("validationActions").enumerate() {
        if !ACTIONS.contains(&action) {
            errors.push(FieldError::not_supported(list.index(i), action, &ACTIONS));
        }
        if !seen.insert(action) {
            errors.push(FieldError::duplicate(list.index(i), action));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(FieldError::invalid(list, &spec["validationActions"], why));
    }
    if seen.is_empty() {
        errors.push(FieldError::required(list, "at least one validation action is required"));
    }
}

/// Checks a MutatingAdmissionPolicyBinding.
pub fn validate_mutating_binding(binding: &Object, errors: &mut Errors) {
    let empty = Object::new();
    let spec = binding.object("spec").unwrap_or(&empty);
    validate_binding(spec, errors);
    validate_mutated(spec.object("matchResources"), "matchResources", errors);
}

fn validate_binding(spec: &Object, errors: &mut Errors) {
    let path = SPEC.child("policyName");
    match spec.text("policyName") {
        "" => errors.push(FieldError::required(path, "")),
        policy => complain(policy, name::is_dns1123_subdomain(policy), &path, errors),
    }
    if let Some(reference) = spec.object("paramRef") {
        validate_param_ref(reference, &SPEC.child("paramRef"), errors);
    }
    if let Some(own) = spec.object("matchResources") {
        validate_match_resources(own, &SPEC.child("matchResources"), errors);
    }
}

fn validate_param_ref(reference: &Object, path: &Path<'_>, errors: &mut Errors) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let (own, by) = (reference.text("name"), reference.object("selector"));
    if !own.is_empty() {
        complain(own, name::is_path_segment(own, false), &path.child("name"), errors);
        if by.is_some() {
            errors.push(FieldError::forbidden(path.child("name"), EXCLUSIVE));
        }
    }
    match by {
        Some(by) => {
            selector::validate(by, false, &path.child("selector"), errors);
            if !own.is_empty() {
                errors.push(FieldError::forbidden(path.child("selector"), EXCLUSIVE));
            }
        }
        None if own.is_empty() => {
            errors.push(FieldError::required(path, "one of name or selector must be specified"));
        }
        None => {}
    }
    if reference.text("parameterNotFoundAction").is_empty() {
        errors.push(FieldError::required(path.child("parameterNotFoundAction"), ""));
    } else {
        one_of(reference, "parameterNotFoundAction", &["Deny", "Allow"], path, errors);
    }
}

/// Checks the status of a ValidatingAdmissionPolicy: what was found when its expressions were looked at by type.
pub fn validate_status(policy: &Object, errors: &mut Errors) {
    let Some(status) = policy.object("status") else { return };
    let path = Path::new("status");
    let path = path.child("typeChecking");
    let list = path.child("expressionWarnings");
    let warnings = status.object("typeChecking").map(|t| t.items("expressionWarnings"));
    for (i, warning) in warnings.into_iter().flatten().enumerate() {
        for field in ["warning", "fieldRef"] {
            if warning.get(field).and_then(Value::as_str).unwrap_or_default().trim().is_empty() {
                errors.push(FieldError::required(list.index(i).child(field), ""));
            }
        }
    }
}

#[cfg(test)]
mod tests;
