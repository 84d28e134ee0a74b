//! The expressions of webhooks and policies, and the values that they work on.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use muster_tree::{Map, Value as Json, json};

use super::attributes::{Attributes, Seen};
use crate::cel::admission::{Environment, Purpose};
use crate::cel::{Asked, Authorizer, Budget, CALL_LIMIT, Check, Failure, Lookup, Program, Type, Value};
use crate::model::{Model, Object, metadata};
use crate::registry::Registry;

/// An expression, compiled, or what the compiler has against it.
#[derive(Debug)]
pub(super) struct Expression {
    /// As it was written.
    pub(super) text: String,
    program: Result<Program, String>,
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EvalError {
    /// It failed.
    One(String),
    /// It failed, and all after it do: what they may cost together is spent.
    All(String),
}

impl Expression {
    /// Compiles an expression.
    pub(super) fn new(environment: &Environment, text: &str, purpose: Purpose) -> Self {
        Self::typed(environment, text, purpose).0
    }

    /// The same, with the expression's type.
    fn typed(environment: &Environment, text: &str, purpose: Purpose) -> (Self, Type<'static>) {
        let (program, kind) = match environment.compile(text, purpose) {
            Ok((program, kind)) => (Ok(program), kind),
            Err(why) => (Err(why.to_string()), Type::Dyn),
        };
        (Self { text: text.to_owned(), program }, kind)
    }

    /// Compiles the variables of a policy, which are known to the expressions after them.
    pub(super) fn variables<'v>(
        environment: &mut Environment,
        variables: impl Iterator<Item = (&'v str, &'v str)>,
    ) -> Vec<(String, Self)> {
        let compile = |(name, text)| {
            let (expression, kind) = Self::typed(environment, text, Purpose::Variable);
            environment.declare(name, kind);
            (name.to_owned(), expression)
        };
        variables.map(compile).collect()
    }

    /// Evaluates it. What it has cost, and the variables that it came to, is taken from what is left.
    ///
    /// # Errors
    /// [`EvalError`], in the reference's words.
    pub(super) fn eval<'a>(&'a self, values: &Values<'a>, left: &mut u64) -> Result<Value<'a>, EvalError> {
        let program = self.program.as_ref().map_err(|why| EvalError::One(format!("compilation error: {why}")))?;
        let mut budget = Budget::default();
        let outcome = program.run(&values.all, &mut budget);
        let variables = values.variables.as_ref().map_or(0, |variables| variables.take_cost());
        let spent = budget.spent.min(CALL_LIMIT).saturating_add(variables);
        *left = left.checked_sub(spent).ok_or_else(|| {
            let why = "validation failed due to running out of cost budget, no further validation rules will be run";
            EvalError::All(why.to_owned())
        })?;
        outcome.map_err(|why| EvalError::One(format!("expression '{}' resulted in error: {why}", self.text)))
    }
}

/// The JSON that variables are made of.
#[derive(Debug)]
pub(super) struct Inputs {
    object: Json,
    old: Json,
    request: Json,
    namespace: Json,
    resource: Asked,
}

impl Inputs {
    /// Those of a request that is seen as some kind, of which `object` and `old` are.
    pub(super) fn new(
        registry: &Registry,
        attributes: &Attributes<'_>,
        seen: &Seen,
        object: Option<&Object>,
        old: Option<&Object>,
    ) -> Self {
        let json = |object: Option<&Object>| object.cloned().map_or(Json::Null, Json::Object);
        let mut request = attributes.request(seen);
        for (field, value) in [("uid", json!("")), ("object", Json::Null), ("oldObject", Json::Null)] {
            request.insert(field.to_owned(), value);
        }
        Self {
            object: json(object),
            old: json(old),
            request: Json::Object(request),
            namespace: namespace(registry, attributes).map_or(Json::Null, Json::Object),
            resource: Asked {
                group: attributes.seen.group.to_string(),
                resource: attributes.seen.plural.to_string(),
                subresource: attributes.subresource.to_owned(),
                namespace: attributes.namespace.clone(),
                name: attributes.name.clone(),
                ..Asked::default()
            },
        }
    }
}

/// The namespace of what is written, as far as expressions see it; a namespace is in none.
fn namespace(registry: &Registry, attributes: &Attributes<'_>) -> Option<Object> {
    const NAMESPACE: Model<'_> = Model { group: "", version: "v1", kind: "Namespace" };
    if attributes.namespace.is_empty() || attributes.seen.model() == NAMESPACE {
        return None;
    }
    let kind = registry.find("", "v1", "namespaces")?;
    let stored = registry.storage.get(kind.id, "", &attributes.namespace)?.object();
    let mut shown = Map::new();
    for field in ["spec", "status"] {
        shown.insert(field.to_owned(), stored.get(field).cloned().unwrap_or_else(|| json!({})));
    }
    let mut meta = metadata(&stored).clone();
    for field in ["managedFields", "ownerReferences", "selfLink"] {
        meta.remove(field);
    }
    shown.insert("metadata", Json::Object(meta));
    Some(shown)
}

/// The values of an expression's variables.
#[derive(Debug)]
pub(super) struct Values<'a> {
    all: Vec<(&'static str, Value<'a>)>,
    variables: Option<Arc<Variables<'a>>>,
}

impl<'a> Values<'a> {
    /// Those of inputs, with the parameters of a policy, who may be asked what is allowed, and a policy's variables,
    /// where there are such.
    pub(super) fn new(
        inputs: &'a Inputs,
        params: Option<&'a Json>,
        authorizer: Option<&'a dyn Authorizer>,
        variables: &'a [(String, Expression)],
    ) -> Self {
        // Without a schema there is no format that a text could break.
        let value = |json: &'a Json| Value::of(json, None, false).unwrap_or(Value::Null);
        let mut all = vec![
            ("object", value(&inputs.object)),
            ("oldObject", value(&inputs.old)),
            ("request", value(&inputs.request)),
            ("namespaceObject", value(&inputs.namespace)),
            ("params", params.map_or(Value::Null, value)),
        ];
        if let Some(authorizer) = authorizer {
            all.push(("authorizer", Value::Check(Arc::new(Check::authorizer(authorizer)))));
            let resource = Check::resource(authorizer, inputs.resource.clone());
            all.push(("authorizer.requestResource", Value::Check(Arc::new(resource))));
        }
        if variables.is_empty() {
            return Self { all, variables: None };
        }
        let lazy = Arc::new_cyclic(|this| Variables {
            this: this.clone(),
            defined: variables,
            others: all.clone(),
            found: Mutex::default(),
            cost: Mutex::default(),
        });
        all.push(("variables", Value::Lazy(lazy.clone())));
        Self { all, variables: Some(lazy) }
    }
}

/// A variable's name and value.
type Found<'a> = (&'a str, Result<Value<'a>, Failure>);

/// The variables of a policy, each evaluated when it is first named.
struct Variables<'a> {
    this: Weak<Self>,
    defined: &'a [(String, Expression)],
    /// What they are made of, themselves left out.
    others: Vec<(&'static str, Value<'a>)>,
    found: Mutex<Vec<Found<'a>>>,
    /// What they have cost since that was last asked.
    cost: Mutex<u64>,
}

impl fmt::Debug for Variables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.defined.iter().map(|(name, _)| name)).finish()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Variables<'a> {
    fn take_cost(&self) -> u64 {
        std::mem::take(&mut *locked(&self.cost))
    }

    fn make(&self, name: &str, expression: &'a Expression) -> Result<Value<'a>, Failure> {
        let failed = |what: &str, why: &dyn fmt::Display| {
            let name = crate::field::go_quote(name);
            Failure::Error(format!("composited variable {name} fails to {what}: {why}"))
        };
        let program = expression.program.as_ref().map_err(|why| failed("compile", why))?;
        let mut values = self.others.clone();
        if let Some(this) = self.this.upgrade() {
            values.push(("variables", Value::Lazy(this)));
        }
        let mut budget = Budget::default();
        let outcome = program.run(&values, &mut budget);
        *locked(&self.cost) += budget.spent;
        outcome.map_err(|why| failed("evaluate", &why))
    }
}

impl<'a> Lookup<'a> for Variables<'a> {
    fn field(&self, name: &str) -> Option<Result<Value<'a>, Failure>> {
        // Of two of one name the last counts.
        let (name, expression) = self.defined.iter().rev().find(|(own, _)| own == name)?;
        if let Some((_, known)) = locked(&self.found).iter().find(|(own, _)| own == name) {
            return Some(known.clone());
        }
        let made = self.make(name, expression);
        locked(&self.found).push((name, made.clone()));
        Some(made)
    }
}
