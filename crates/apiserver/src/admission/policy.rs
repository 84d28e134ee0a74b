//! Validating admission policies: what they say of a write (API-30).
//!
//! ```text
//!   policy matches? -> for each binding that matches -> for each parameter -> conditions -> validations -> actions
//! ```

use std::sync::{Arc, OnceLock};

use serde_json::Value as Json;

use super::attributes::{Attributes, Seen};
use super::conditions::{Conditions, Verdict};
use super::expression::{EvalError, Expression, Inputs, Values};
use super::matching::Constraints;
use super::params::{ParamKind, ParamRef};
use super::written::Written;
use crate::cel::admission::{Environment, Purpose};
use crate::cel::{Authorizer, Value};
use crate::model::{Fields as _, Object, metadata};
use crate::registry::Registry;
use crate::status::ApiError;
use crate::storage::Entry;

/// What the validations of one policy may cost, for one parameter.
const BUDGET: u64 = 10_000_000;
/// A message that an expression makes may be this many bytes long.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// A policy with what binds it.
#[derive(Debug)]
pub(super) struct Policy {
    definition: Arc<Definition>,
    bindings: Vec<Binding>,
}

/// A policy.
#[derive(Debug)]
struct Definition {
    name: String,
    version: u64,
    constraints: Constraints,
    conditions: Conditions,
    /// Whether a failure refuses the write.
    fails: bool,
    param_kind: Option<ParamKind>,
    spec: Object,
    /// Compiled when it is needed.
    compiled: OnceLock<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    variables: Vec<(String, Expression)>,
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

/// What applies a policy.
#[derive(Debug)]
struct Binding {
    name: String,
    /// `None` for everything that the policy is about.
    constraints: Option<Constraints>,
    params: Option<ParamRef>,
    actions: Vec<String>,
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
    fn by(&mut self, policy: &Policy, binding: Option<&Binding>, denial: Denial) {
        let policy = &policy.definition.name;
        let with = binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
        self.0.get_or_insert_with(|| Denial {
            message: format!("ValidatingAdmissionPolicy '{policy}'{with} denied request: {}", denial.message),
            ..denial
        });
    }

    /// A policy or a binding cannot be followed: its policy says whether that matters.
    fn unusable(&mut self, policy: &Policy, binding: Option<&Binding>, why: &str) {
        if policy.definition.fails {
            let what = if binding.is_some() { "binding" } else { "policy" };
            self.by(policy, binding, Denial::of(format!("failed to configure {what}: {why}")));
        }
    }
}

/// Asks policies about a write.
///
/// # Errors
/// What the first of them has against it.
pub(super) fn validate(
    policies: &[Arc<Policy>],
    registry: &Registry,
    attributes: &Attributes<'_>,
    written: Written<'_>,
    authorizer: &dyn Authorizer,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let mut denied = Denied::default();
    let request = Request { registry, attributes, written, authorizer };
    for policy in policies {
        policy.validate(&request, &mut denied, warnings)?;
    }
    let Some(Denial { message, reason }) = denied.0 else { return Ok(()) };
    let mut error = attributes.forbidden(written.object, &message).with_cause("", message, "");
    (error.code, error.reason) = match reason.as_str() {
        "Forbidden" => (403, "Forbidden".into()),
        "Unauthorized" => (401, "Unauthorized".into()),
        "RequestEntityTooLarge" => (413, "RequestEntityTooLarge".into()),
        "" => (422, "Invalid".into()),
        _ => (422, reason.into()),
    };
    Err(error)
}

struct Request<'a> {
    registry: &'a Registry,
    attributes: &'a Attributes<'a>,
    written: Written<'a>,
    authorizer: &'a dyn Authorizer,
}

impl Request<'_> {
    fn matches(&self, constraints: &Constraints) -> Result<Option<Seen>, ApiError> {
        let (object, old) = self.written.shown(self.registry, &self.attributes.seen);
        constraints.matches(self.registry, self.attributes, object.as_deref(), old.as_deref())
    }
}

impl Policy {
    /// The policy of an entry, with those of all bindings that are its own; `None` where there are none. What has not
    /// changed is taken from the policies that were known.
    pub(super) fn new(entry: &Entry, bindings: &[Arc<Entry>], known: &[Arc<Self>]) -> Option<Arc<Self>> {
        let bindings: Vec<Binding> = bindings.iter().filter_map(|binding| Binding::new(binding, &entry.name)).collect();
        if bindings.is_empty() {
            return None;
        }
        let same =
            |policy: &&Arc<Self>| policy.definition.version == entry.version && policy.definition.name == *entry.name;
        let definition = match known.iter().find(same) {
            Some(policy) => Arc::clone(&policy.definition),
            None => Arc::new(Definition::new(entry)),
        };
        Some(Arc::new(Self { definition, bindings }))
    }

    fn validate(&self, request: &Request<'_>, denied: &mut Denied, warnings: &mut Vec<String>) -> Result<(), ApiError> {
        let definition = &self.definition;
        let seen = match request.matches(&definition.constraints) {
            Ok(Some(seen)) => seen,
            Ok(None) => return Ok(()),
            Err(error) => {
                denied.unusable(self, None, &error.message);
                return Ok(());
            }
        };
        let params_of = match definition.param_kind.as_ref().map(|kind| kind.find(request.registry)).transpose() {
            Ok(served) => served,
            Err(why) => {
                denied.unusable(self, None, &why);
                return Ok(());
            }
        };
        let mut inputs = None;
        for binding in &self.bindings {
            match binding.constraints.as_ref().map(|constraints| request.matches(constraints)) {
                None | Some(Ok(Some(_))) => {}
                Some(Ok(None)) => continue,
                Some(Err(error)) => {
                    denied.unusable(self, Some(binding), &error.message);
                    continue;
                }
            }
            let namespace = &request.attributes.namespace;
            let params = match (&params_of, &binding.params) {
                (Some(served), Some(reference)) => reference.collect(request.registry, served, namespace),
                _ => Ok(vec![None]),
            };
            let params = match params {
                Ok(params) => params,
                Err(why) => {
                    denied.unusable(self, Some(binding), &why);
                    continue;
                }
            };
            let inputs = inputs.get_or_insert_with(|| {
                let (object, old) = request.written.shown(request.registry, &seen);
                Inputs::new(request.registry, request.attributes, &seen, object.as_deref(), old.as_deref())
            });
            let denials: Vec<Denial> = params
                .iter()
                .flat_map(|params| definition.denials(inputs, params.as_ref(), request.authorizer))
                .collect();
            for denial in denials {
                binding.act(self, denial, denied, warnings);
            }
        }
        Ok(())
    }
}

impl Definition {
    fn new(entry: &Entry) -> Self {
        let policy = entry.object();
        let spec = policy.object("spec").cloned().unwrap_or_default();
        let empty = Object::new();
        let param_kind = spec.object("paramKind").map(ParamKind::new);
        Self {
            name: entry.name.to_string(),
            version: entry.version,
            constraints: Constraints::of_policy(spec.object("matchConstraints").unwrap_or(&empty)),
            conditions: Conditions::new(&spec, param_kind.is_some()),
            fails: spec.text("failurePolicy") != "Ignore",
            param_kind,
            spec,
            compiled: OnceLock::new(),
        }
    }

    fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| {
            let mut environment = Environment { has_params: self.param_kind.is_some(), variables: Some(Vec::new()) };
            let variables = self.spec.items("variables").map(|one| (one.text("name"), one.text("expression")));
            let variables = Expression::variables(&mut environment, variables);
            let compile = |text: &str, purpose| Expression::new(&environment, text, purpose);
            let validation = |one: &Object| Validation {
                expression: compile(one.text("expression"), Purpose::Condition),
                message: one.text("message").trim().to_owned(),
                worded: Some(one.text("messageExpression"))
                    .filter(|text| !text.is_empty())
                    .map(|text| compile(text, Purpose::Message)),
                reason: one.text("reason").to_owned(),
            };
            let annotations = self.spec.items("auditAnnotations");
            Compiled {
                variables,
                validations: self.spec.items("validations").map(validation).collect(),
                annotations: annotations.map(|one| compile(one.text("valueExpression"), Purpose::Annotation)).collect(),
            }
        })
    }

    /// Everything that the policy has against a write, for one parameter.
    fn denials(&self, inputs: &Inputs, params: Option<&Json>, authorizer: &dyn Authorizer) -> Vec<Denial> {
        let failed = |why: String| if self.fails { vec![Denial::of(why)] } else { Vec::new() };
        let compiled = self.compiled();
        let values = Values::new(inputs, params, Some(authorizer), &compiled.variables);
        if !self.conditions.is_empty() {
            match self.conditions.verdict(&values, self.fails) {
                Verdict::Met => {}
                Verdict::Unmet => return Vec::new(),
                Verdict::Failed(why) => return failed(why),
            }
        }
        let without_authorizer = Values::new(inputs, params, None, &compiled.variables);
        let mut denials = Vec::new();
        let mut left = BUDGET;
        for validation in &compiled.validations {
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
        for annotation in &compiled.annotations {
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

impl Binding {
    fn new(entry: &Entry, policy: &str) -> Option<Self> {
        let binding = entry.object();
        let spec = binding.object("spec").filter(|spec| spec.text("policyName") == policy)?;
        Some(Self {
            name: metadata(&binding).text("name").to_owned(),
            constraints: spec.object("matchResources").map(Constraints::of_policy),
            params: spec.object("paramRef").map(ParamRef::new),
            actions: spec.strings("validationActions").map(str::to_owned).collect(),
        })
    }

    /// Does what is to be done about a denial. An audit has no readers here.
    fn act(&self, policy: &Policy, denial: Denial, denied: &mut Denied, warnings: &mut Vec<String>) {
        if self.actions.iter().any(|action| action == "Warn") {
            warnings.push(format!(
                "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                policy.definition.name, self.name, denial.message
            ));
        }
        if self.actions.iter().any(|action| action == "Deny") {
            denied.by(policy, Some(self), denial);
        }
    }
}
