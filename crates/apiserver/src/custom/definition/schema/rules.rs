//! The rules of a schema: what they say beside their expressions, whether they compile, and what they may cost.

use super::{Context, Place, RULE_LIMIT, Walk};
use crate::cel::{self, Bounds, Estimate, LARGEST_REQUEST, Type, Variable};
use crate::custom::definition::{go, structure};
use crate::custom::metadata::child;
use crate::custom::path::{FieldPathOptions, valid_field_path};
use crate::custom::props::{Props, Rule};
use crate::custom::structural::Structural;
use crate::field::{FieldError, Shown};
use crate::validation::Errors;

impl Walk<'_> {
    /// What a rule says beside its expressions.
    pub(super) fn rule(&mut self, rule: &Rule, schema: &Props, path: &str) {
        const REASONS: &[&str] =
            &["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
        let at = |name: &str| child(path, name);
        let errors = &mut self.schema_errors;
        let broken = |text: &str| text.contains(['\n', '\r']);
        let (text, message) = (rule.rule.trim(), rule.message.trim());
        if text.is_empty() {
            errors.push(FieldError::required(at("rule"), "rule is not specified"));
        } else if !rule.message.is_empty() && message.is_empty() {
            let why = "must be non-empty if specified";
            errors.push(FieldError::invalid(at("message"), rule.message.as_str(), why));
        } else if broken(message) {
            errors.push(FieldError::invalid(at("message"), rule.message.as_str(), "must not contain line breaks"));
        } else if broken(text) && message.is_empty() {
            let why = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(at("message"), why));
        }
        if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(at("messageExpression"), why));
        }
        if let Some(reason) = rule.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
            errors.push(FieldError::not_supported(at("reason"), reason, REASONS));
        }
        if rule.field_path.is_empty() {
            return;
        }
        let shown = rule.field_path.as_str();
        if shown.trim().is_empty() {
            errors.push(FieldError::invalid(at("fieldPath"), shown, "must be non-empty if specified"));
        }
        if broken(shown) {
            errors.push(FieldError::invalid(at("fieldPath"), shown, "must not contain line breaks"));
        }
        if structure::unsupported(schema).is_none()
            && valid_field_path(shown, &Structural::new(schema), FieldPathOptions { arrays: true }).is_err()
        {
            errors.push(FieldError::invalid(at("fieldPath"), shown, "must be a valid path"));
        }
    }

    /// Whether a schema's rules compile, and what they may cost.
    pub(super) fn rules(&mut self, schema: &Props, path: &str, place: &Place, context: Context<'_>) -> Errors {
        let mut errors = Errors::new();
        let root = context.root || schema.embedded_resource;
        let path = format!("{path}.x-kubernetes-validations");
        let Some(kind) = cel::schema::type_of(context.schema, root) else {
            let why = "internal error: failed to retrieve type information for x-kubernetes-validations";
            errors.push(FieldError::internal(&path, why));
            return errors;
        };
        let fitting = LARGEST_REQUEST / (cel::schema::least_size(context.schema) + 1);
        let times = context.cardinality.unwrap_or(fitting);
        for (index, rule) in schema.validations.iter().enumerate() {
            if rule.rule.trim().is_empty() {
                continue;
            }
            let at = |name: &str| format!("{path}[{index}].{name}");
            let optional = rule.optional_old_self == Some(true);
            let variables = variables(context.schema, root, &kind, optional);
            let shown = || Shown::Bare(go::rule(rule).text());
            let mut uses_old = false;
            let mut wrong = None;
            let mut cost = 0;
            match cel::compile(&rule.rule, &variables) {
                Err(why) => wrong = Some(format!("compilation failed: {why}")),
                Ok(checked) if !matches!(checked.output, Type::Bool) => {
                    wrong = Some("cel expression must evaluate to a bool".to_owned());
                }
                Ok(checked) => {
                    uses_old = checked.program.uses("oldSelf");
                    match checked.program.instantiate("program") {
                        Err(why) => wrong = Some(why),
                        Ok(()) => cost = checked.cost.max,
                    }
                }
            }
            let total = cost.saturating_mul(times);
            self.afford("estimated rule cost", total, at("rule"), &mut errors);
            self.total.add(at("rule"), total);
            let compiled = wrong.is_none();
            if let Some(why) = wrong {
                errors.push(FieldError::invalid(at("rule"), shown(), why));
            }
            if compiled && !rule.message_expression.is_empty() {
                match message_cost(&rule.message_expression, &variables) {
                    Err(why) => errors.push(FieldError::invalid(at("messageExpression"), shown(), why)),
                    Ok(Estimate { max, .. }) => {
                        let what = "estimated messageExpression cost";
                        self.afford(what, max, at("messageExpression"), &mut errors);
                        self.total.add(at("messageExpression"), max);
                    }
                }
            }
            match &place.uncorrelated {
                Some(around) if uses_old => {
                    let why =
                        format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {around}");
                    errors.push(FieldError::invalid(at("rule"), rule.rule.as_str(), why));
                }
                _ if uses_old => {}
                _ => {
                    if let Some(flag) = rule.optional_old_self {
                        let why = "may not be set if oldSelf is not used in rule";
                        errors.push(FieldError::invalid(at("optionalOldSelf"), flag, why));
                    }
                }
            }
        }
        errors
    }

    fn afford(&self, what: &str, cost: u64, path: String, errors: &mut Errors) {
        if !self.options.ignore_rule_cost && cost > RULE_LIMIT {
            errors.push(FieldError::forbidden(path, over_budget(what, cost, RULE_LIMIT)));
        }
    }
}

/// The variables of a rule.
fn variables<'s>(schema: &'s Structural, root: bool, kind: &Type<'s>, optional: bool) -> [Variable<'s>; 2] {
    let old = if optional { Type::optional(kind.clone()) } else { kind.clone() };
    let bounds = Some(Bounds::Schema { schema, root });
    [Variable { name: "self", kind: kind.clone(), bounds }, Variable { name: "oldSelf", kind: old, bounds }]
}

fn message_cost(text: &str, variables: &[Variable<'_>]) -> Result<Estimate, String> {
    match cel::compile(text, variables) {
        Err(why) => Err(format!("messageExpression compilation failed: {why}")),
        Ok(checked) if !matches!(checked.output, Type::String) => {
            Err("messageExpression must evaluate to a string".to_owned())
        }
        Ok(checked) => {
            checked.program.instantiate("messageExpression")?;
            Ok(checked.cost)
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a factor in words")]
pub(super) fn over_budget(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
