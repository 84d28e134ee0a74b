//! Mutating admission policies: what they make of a write (API-30).
//!
//! ```text
//!   all invocations -> one after the other: conditions -> mutations in order --> a patch of operations
//!                                                                           \-> a configuration that is applied
//! ```
//!
//! They come before mutating webhooks, and with these see the object again that others have changed.

use std::sync::Arc;

use muster_tree::{Value as Json, json};

use super::attributes::{Attributes, Seen};
use super::conditions::Verdict;
use super::expression::{EvalError, Expression, Inputs, Values};
use super::policy::{BUDGET, Definition, Invocation, Policy, Request, Unusable, Work};
use super::reinvocation::Memory;
use super::written::{Form, View};
use crate::cel::Value;
use crate::cel::admission::{Environment, Purpose};
use crate::cel::value::Map;
use crate::codec::json_patch::{self, Touched};
use crate::field::go_quote;
use crate::model::{Fields as _, Object, metadata};
use crate::schema::managed::mutate;
use crate::status::{ApiError, Cause};

/// What a mutating policy does, in order.
#[derive(Debug)]
pub(super) struct Mutations {
    steps: Vec<Mutation>,
    /// Whether it wants to see an object again that another has changed after it.
    is_reinvoked: bool,
}

#[derive(Debug)]
enum Mutation {
    /// Makes the operations of a JSON patch.
    Patch(Expression),
    /// Makes a configuration to be applied.
    Configuration(Expression),
}

impl Work for Mutations {
    fn compile(environment: &Environment, spec: &Object) -> Self {
        let expression = |one: &Object, field: &str, purpose| {
            let text = one.object(field).map_or("", |inner| inner.text("expression"));
            Expression::new(environment, text, purpose)
        };
        let mutation = |one: &Object| match one.text("patchType") {
            "JSONPatch" => Mutation::Patch(expression(one, "jsonPatch", Purpose::JsonPatch)),
            _ => Mutation::Configuration(expression(one, "applyConfiguration", Purpose::Configuration)),
        };
        Self {
            steps: spec.items("mutations").map(mutation).collect(),
            is_reinvoked: spec.text("reinvocationPolicy") == "IfNeeded",
        }
    }
}

/// Why a mutation is not done.
enum Failure {
    /// The write is refused, whatever the policy says of failures.
    Refused(ApiError),
    /// What the policy says of failures counts.
    Counted(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Counted(why)
    }
}

/// Has policies change the object of a write.
///
/// # Errors
/// What failed, of policies whose failures count.
pub(super) fn mutate(
    policies: &[Arc<Policy<Mutations>>],
    request: &Request<'_>,
    memory: &mut Memory,
    object: &mut Object,
    mut view: View<'_>,
) -> Result<(), ApiError> {
    let mut failures = Failures::default();
    let mut invocations = Vec::new();
    // Which policies a write meets is found out before any of them changes it.
    for policy in policies {
        for invocation in policy.invocations(request, &mut view) {
            match invocation {
                Ok(invocation) => invocations.push(invocation),
                Err(unusable) => failures.unusable(&policy.definition, &unusable),
            }
        }
    }
    memory.begin(Some(object));
    let mut mutates = false;
    for invocation in &invocations {
        mutates |= invoke(invocation, request, memory, &mut view, &mut failures)?;
    }
    let finished = view.finish().map_err(|why| ApiError::internal(&format!("failed to convert object: {why}")));
    if let Some(mutated) = finished? {
        *object = mutated;
    }
    if mutates {
        memory.change();
    }
    memory.end(Some(object));
    failures.told(request.attributes, object)
}

/// Does what a policy says; answers whether it came to any mutation.
fn invoke(
    invocation: &Invocation<'_, Mutations>,
    request: &Request<'_>,
    memory: &mut Memory,
    view: &mut View<'_>,
    failures: &mut Failures,
) -> Result<bool, ApiError> {
    let definition = invocation.definition;
    let work = &definition.compiled().work;
    let inputs = match inputs(invocation, request, view) {
        Ok(inputs) => inputs,
        Err(why) => {
            failures.unusable(definition, &Unusable { binding: None, why });
            return Ok(false);
        }
    };
    match definition.verdict(&values(invocation, request, &inputs)) {
        Verdict::Met => {}
        Verdict::Unmet => return Ok(false),
        Verdict::Failed(why) => {
            failures.of(invocation, &why);
            return Ok(false);
        }
    }
    let key = key(invocation);
    if memory.skips(&key) {
        return Ok(false);
    }
    let before = view.known(&invocation.seen).0.cloned();
    let mut mutates = false;
    for step in &work.steps {
        match step.apply(invocation, request, view) {
            Ok(()) => mutates = true,
            Err(Failure::Refused(error)) => return Err(error),
            Err(Failure::Counted(why)) => failures.of(invocation, &why),
        }
    }
    if view.known(&invocation.seen).0 != before.as_ref() {
        memory.change();
    }
    if work.is_reinvoked {
        memory.remember(key);
    }
    Ok(mutates)
}

/// A policy, a binding and a parameter are asked again together.
fn key(invocation: &Invocation<'_, Mutations>) -> String {
    let meta = invocation.params.as_ref().and_then(Json::as_object).map(metadata);
    let (namespace, name) = meta.map_or(("", ""), |meta| (meta.text("namespace"), meta.text("name")));
    format!("{}/{}/{namespace}/{name}", invocation.definition.name, invocation.binding.name)
}

fn inputs(
    invocation: &Invocation<'_, Mutations>,
    request: &Request<'_>,
    view: &mut View<'_>,
) -> Result<Inputs, String> {
    let (new, old) = view.of(&invocation.seen)?;
    Ok(Inputs::new(request.registry, request.attributes, &invocation.seen, new, old))
}

fn values<'a>(invocation: &'a Invocation<'a, Mutations>, request: &'a Request<'_>, inputs: &'a Inputs) -> Values<'a> {
    let variables = &invocation.definition.compiled().variables;
    Values::new(inputs, invocation.params.as_ref(), Some(request.authorizer), variables)
}

impl Mutation {
    fn apply(
        &self,
        invocation: &Invocation<'_, Mutations>,
        request: &Request<'_>,
        view: &mut View<'_>,
    ) -> Result<(), Failure> {
        let (registry, form, seen) = (request.registry, view.form, &invocation.seen);
        let (Self::Patch(expression) | Self::Configuration(expression)) = self;
        let made = {
            let inputs = inputs(invocation, request, view)?;
            let values = values(invocation, request, &inputs);
            let value = expression.eval(&values, &mut { BUDGET }).map_err(|error| match error {
                EvalError::One(why) | EvalError::All(why) => why,
            })?;
            match self {
                Self::Patch(_) => operations(&value).map(Json::from),
                Self::Configuration(_) => configuration(&value),
            }?
        };
        let shown = view.known(seen).0.cloned().unwrap_or_default();
        let next = match made {
            Json::Array(operations) => {
                let mut document = Json::Object(shown);
                match json_patch::apply(&mut document, &operations, &mut Touched::default()) {
                    Ok(()) => {}
                    // A test that does not hold keeps the object as it is.
                    Err(why) if why.0.ends_with(": test failed") => return Ok(()),
                    Err(why) => return Err(Failure::Counted(format!("JSON Patch: {}", why.0))),
                }
                form.read_strictly(registry, seen, &document).map_err(Failure::Refused)?
            }
            Json::Object(configuration) => {
                let merged = merged(form, request, seen, &shown, configuration);
                let merged = merged.map_err(|why| format!("error applying patch: {why}"))?;
                form.read_merged(registry, seen, &merged)?
            }
            _ => return Ok(()),
        };
        view.change(next);
        Ok(())
    }
}

fn merged(
    form: Form<'_>,
    request: &Request<'_>,
    seen: &Seen,
    object: &Object,
    configuration: Object,
) -> Result<Json, String> {
    let model = request.attributes.model;
    // The schema of a group has only the types of its own resources.
    if let Some(model) = model.filter(|model| *model.group != *seen.group) {
        return Err(mutate::no_type(model));
    }
    match (form, model) {
        (Form::Stored(served), None) => {
            let (subject, model) = (served.subject(), seen.model());
            mutate::merged(crate::schema::managed::open::Subject { model, ..subject }, object, configuration)
        }
        _ => mutate::merged(seen.model().into(), object, configuration),
    }
}

/// The operations that an expression has made.
fn operations(value: &Value<'_>) -> Result<Vec<Json>, String> {
    let Value::List(list) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    list.iter().map(|item| operation(&item)).collect()
}

fn operation(value: &Value<'_>) -> Result<Json, String> {
    let Value::Made(_, Map::Made(fields)) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch".to_owned());
    };
    let mut operation = Object::from_iter([("op".to_owned(), json!("")), ("path".to_owned(), json!(""))]);
    for (name, value) in fields.iter() {
        let Value::String(name) = name else { continue };
        if &**name == "value" {
            well_named(value)?;
        }
        let json = value.to_json().map_err(|why| {
            format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}")
        })?;
        operation.insert(name.to_string(), json);
    }
    Ok(Json::Object(operation))
}

/// The configuration that an expression has made.
fn configuration(value: &Value<'_>) -> Result<Json, String> {
    well_named(value)?;
    value
        .to_configuration("")
        .map_err(|why| format!("error applying patch: failed to convert patch object to typed object: {why}"))
}

fn well_named(value: &Value<'_>) -> Result<(), String> {
    let mut found = Vec::new();
    if let Value::Made(name, _) = value {
        value.misnamed(name, &mut found);
    }
    if found.is_empty() { Ok(()) } else { Err(format!("type mismatch: {}", found.join("\n"))) }
}

/// What went wrong, in the order of its causes.
#[derive(Debug, Default)]
struct Failures {
    messages: Vec<String>,
    reason: &'static str,
}

impl Failures {
    fn of(&mut self, invocation: &Invocation<'_, Mutations>, why: &str) {
        self.add(invocation.definition, Some(&invocation.binding.name), why, "Invalid");
    }

    fn unusable(&mut self, definition: &Definition<Mutations>, unusable: &Unusable<'_>) {
        let what = if unusable.binding.is_some() { "binding" } else { "policy" };
        let why = format!("failed to configure {what}: {}", unusable.why);
        self.add(definition, unusable.binding.map(|binding| binding.name.as_str()), &why, "Forbidden");
    }

    /// Keeps a failure, if those of its policy count.
    fn add(&mut self, definition: &Definition<Mutations>, binding: Option<&str>, why: &str, reason: &'static str) {
        if !definition.fails {
            return;
        }
        let policy = &definition.name;
        let by = match binding {
            Some(binding) => format!("policy '{policy}' with binding '{binding}'"),
            None => format!("policy {}", go_quote(policy)),
        };
        if self.messages.is_empty() {
            self.reason = reason;
        }
        self.messages.push(format!("{by} denied request: {why}"));
    }

    /// 403 with the first failure.
    fn told(self, attributes: &Attributes<'_>, object: &Object) -> Result<(), ApiError> {
        let Some(first) = self.messages.first() else { return Ok(()) };
        let mut error = attributes.forbidden(Some(object), "");
        error.message = first.clone();
        error.reason = self.reason.into();
        let cause = |message| Cause { reason: String::new(), message, field: String::new() };
        if let Some(details) = &mut error.details {
            details.causes = self.messages.into_iter().map(cause).collect();
        }
        Err(error)
    }
}
