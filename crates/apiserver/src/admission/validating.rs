//! Validating admission policies: what they have against a write (API-30).
//!
//! ```text
//!   each invocation -> conditions -> validations -> actions
//! ```

use std::sync::Arc;

use super::attributes::{Attributes, Seen};
use super::conditions::Verdict;
use super::expression::{EvalError, Expression, Inputs, Values};
use super::policy::{BUDGET, Binding, Definition, Invocation, Policy, Request, Work};
use super::written::View;
use crate::cel::Value;
use crate::cel::admission::{Environment, Purpose};
use crate::model::{Fields as _, Object};
use crate::status::ApiError;

/// A message that an expression makes may be this many bytes long.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// What a validating policy looks at.
#[derive(Debug)]
pub(super) struct Validations {
    validations: Vec<Validation>,
    annotations: Vec<Expression>,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    worded: Option<Expression>,
    reason: String,
}

/// Why a write is denied.
#[derive(Debug)]
struct Denial {
    message: String,
    reason: String,
}

impl Denial {
    fn of(message: String) -> Self {
        Self { message, reason: String::new() }
    }
}

/// The first denial, which the client is told.
#[derive(Debug, Default)]
struct Denied(Option<Denial>);

impl Denied {
    fn by(&mut self, policy: &str, binding: Option<&Binding>, denial: Denial) {
        let with = binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
        self.0.get_or_insert_with(|| Denial {
            message: format!("ValidatingAdmissionPolicy '{policy}'{with} denied request: {}", denial.message),
            ..denial
        });
    }
}

/// Asks policies about a write.
///
/// # Errors
/// What the first of them has against it.
pub(super) fn validate(
    policies: &[Arc<Policy<Validations>>],
    request: &Request<'_>,
    view: &mut View<'_>,
    object: Option<&Object>,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let mut denied = Denied::default();
    let mut known: Vec<(Seen, Inputs)> = Vec::new();
    for policy in policies {
        let name = &policy.definition.name;
        for invocation in policy.invocations(request, view) {
            let invocation = match invocation {
                Ok(invocation) => invocation,
                // Its policy says whether that matters.
                Err(unusable) if policy.definition.fails => {
                    let what = if unusable.binding.is_some() { "binding" } else { "policy" };
                    let why = format!("failed to configure {what}: {}", unusable.why);
                    denied.by(name, unusable.binding, Denial::of(why));
                    continue;
                }
                Err(_) => continue,
            };
            let seen = &invocation.seen;
            let at = match known.iter().position(|(of, _)| of == seen) {
                Some(at) => at,
                None => match view.of(seen) {
                    Ok((object, old)) => {
                        let inputs = Inputs::new(request.registry, request.attributes, seen, object, old);
                        known.push((seen.clone(), inputs));
                        known.len() - 1
                    }
                    Err(why) if policy.definition.fails => {
                        let why = format!("failed to configure binding: failed to convert object version: {why}");
                        denied.by(name, Some(invocation.binding), Denial::of(why));
                        continue;
                    }
                    Err(_) => continue,
                },
            };
            for denial in denials(&invocation, &known[at].1, request) {
                act(name, invocation.binding, denial, &mut denied, warnings);
            }
        }
    }
    refusal(denied, request.attributes, object)
}

fn refusal(denied: Denied, attributes: &Attributes<'_>, object: Option<&Object>) -> Result<(), ApiError> {
    let Some(Denial { message, reason }) = denied.0 else { return Ok(()) };
    let mut error = attributes.forbidden(object, &message).with_cause("", message, "");
    (error.code, error.reason) = match reason.as_str() {
        "Forbidden" => (403, "Forbidden".into()),
        "Unauthorized" => (401, "Unauthorized".into()),
        "RequestEntityTooLarge" => (413, "RequestEntityTooLarge".into()),
        "" => (422, "Invalid".into()),
        _ => (422, reason.into()),
    };
    Err(error)
}

impl Work for Validations {
    fn compile(environment: &Environment, spec: &Object) -> Self {
        let compile = |text: &str, purpose| Expression::new(environment, text, purpose);
        let validation = |one: &Object| Validation {
            expression: compile(one.text("expression"), Purpose::Condition),
            message: one.text("message").trim().to_owned(),
            worded: Some(one.text("messageExpression"))
                .filter(|text| !text.is_empty())
                .map(|text| compile(text, Purpose::Message)),
            reason: one.text("reason").to_owned(),
        };
        let annotations = spec.items("auditAnnotations");
        Self {
            validations: spec.items("validations").map(validation).collect(),
            annotations: annotations.map(|one| compile(one.text("valueExpression"), Purpose::Annotation)).collect(),
        }
    }
}

/// Everything that a policy has against a write, for one parameter.
fn denials(invocation: &Invocation<'_, Validations>, inputs: &Inputs, request: &Request<'_>) -> Vec<Denial> {
    let definition: &Definition<Validations> = invocation.definition;
    let failed = |why: String| if definition.fails { vec![Denial::of(why)] } else { Vec::new() };
    let compiled = definition.compiled();
    let params = invocation.params.as_ref();
    let values = Values::new(inputs, params, Some(request.authorizer), &compiled.variables);
    match definition.verdict(&values) {
        Verdict::Met => {}
        Verdict::Unmet => return Vec::new(),
        Verdict::Failed(why) => return failed(why),
    }
    let without_authorizer = Values::new(inputs, params, None, &compiled.variables);
    let mut denials = Vec::new();
    let mut left = BUDGET;
    for validation in &compiled.work.validations {
        match validation.expression.eval(&values, &mut left) {
            Ok(Value::Bool(true)) => {}
            Ok(_) => denials.push(Denial {
                message: validation.message(&without_authorizer, &mut left),
                reason: validation.reason.clone(),
            }),
            Err(EvalError::One(why)) => denials.extend(failed(why)),
            Err(EvalError::All(why)) => return failed(why),
        }
    }
    let mut left = BUDGET;
    for annotation in &compiled.work.annotations {
        // Nobody reads the annotations, but that they can be made is a part of the policy.
        match annotation.eval(&without_authorizer, &mut left) {
            Ok(Value::String(_) | Value::Null) => {}
            Ok(other) => denials.push(Denial::of(format!(
                "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or null.",
                annotation.text,
                other.type_name()
            ))),
            Err(EvalError::One(why)) => denials.extend(failed(why)),
            Err(EvalError::All(why)) => return failed(why),
        }
    }
    denials
}

impl Validation {
    /// What is said where the expression is not true.
    fn message<'a>(&'a self, values: &Values<'a>, left: &mut u64) -> String {
        let made = match self.worded.as_ref().map(|expression| expression.eval(values, left)) {
            Some(Ok(Value::String(text))) => text.trim().to_owned(),
            _ => String::new(),
        };
        if !made.is_empty() && made.len() <= LONGEST_MESSAGE && !made.contains('\n') {
            return made;
        }
        if self.message.is_empty() {
            return format!("failed expression: {}", self.expression.text.trim());
        }
        self.message.clone()
    }
}

/// Does what is to be done about a denial. An audit has no readers here.
fn act(policy: &str, binding: &Binding, denial: Denial, denied: &mut Denied, warnings: &mut Vec<String>) {
    if binding.actions.iter().any(|action| action == "Warn") {
        warnings.push(format!(
            "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{}': {}",
            binding.name, denial.message
        ));
    }
    if binding.actions.iter().any(|action| action == "Deny") {
        denied.by(policy, Some(binding), denial);
    }
}
