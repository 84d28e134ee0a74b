//! Admission policies: which of them a write meets, with which parameters (API-30).
//!
//! ```text
//!   policy matches? -> each binding that matches -> each parameter -> an invocation -> validating, mutating
//! ```

use std::sync::{Arc, OnceLock};

use muster_tree::Value as Json;

use super::attributes::{Attributes, Seen};
use super::conditions::{Conditions, Verdict};
use super::expression::{Expression, Values};
use super::matching::Constraints;
use super::params::{ParamKind, ParamRef};
use super::written::View;
use crate::cel::Authorizer;
use crate::cel::admission::Environment;
use crate::model::{Fields as _, Object, metadata};
use crate::registry::Registry;
use crate::status::ApiError;
use crate::storage::Entry;

/// What the expressions of one policy may cost, for one parameter.
pub(super) const BUDGET: u64 = 10_000_000;

/// What policies of one kind do, compiled.
pub(super) trait Work: Sized {
    /// Compiles what a policy does. The environment has the policy's parameters and variables.
    fn compile(environment: &Environment, spec: &Object) -> Self;
}

/// A policy with what binds it.
#[derive(Debug)]
pub(super) struct Policy<W> {
    /// The policy itself.
    pub(super) definition: Arc<Definition<W>>,
    bindings: Vec<Binding>,
}

/// A policy.
#[derive(Debug)]
pub(super) struct Definition<W> {
    /// Its name.
    pub(super) name: String,
    version: u64,
    constraints: Constraints,
    conditions: Conditions,
    /// Whether a failure refuses the write.
    pub(super) fails: bool,
    param_kind: Option<ParamKind>,
    /// Its spec.
    pub(super) spec: Object,
    /// Compiled when it is needed.
    compiled: OnceLock<Compiled<W>>,
}

/// The expressions of a policy.
#[derive(Debug)]
pub(super) struct Compiled<W> {
    /// What others may name.
    pub(super) variables: Vec<(String, Expression)>,
    /// What the policy does.
    pub(super) work: W,
}

/// What applies a policy.
#[derive(Debug)]
pub(super) struct Binding {
    /// Its name.
    pub(super) name: String,
    /// `None` for everything that the policy is about.
    constraints: Option<Constraints>,
    params: Option<ParamRef>,
    /// What is to be done about what it denies.
    pub(super) actions: Vec<String>,
}

/// A policy that a write meets, by one binding and with one parameter.
#[derive(Debug)]
pub(super) struct Invocation<'p, W> {
    /// The policy.
    pub(super) definition: &'p Definition<W>,
    /// The binding.
    pub(super) binding: &'p Binding,
    /// As what the policy sees the write.
    pub(super) seen: Seen,
    /// The parameter.
    pub(super) params: Option<Json>,
}

/// A policy, or one of its bindings, that cannot be followed.
#[derive(Debug)]
pub(super) struct Unusable<'p> {
    /// The binding, if it is not the whole policy.
    pub(super) binding: Option<&'p Binding>,
    /// Why.
    pub(super) why: String,
}

/// The write that policies are asked about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    /// Where everything is.
    pub(super) registry: &'a Registry,
    /// The write.
    pub(super) attributes: &'a Attributes<'a>,
    /// What the user may do.
    pub(super) authorizer: &'a dyn Authorizer,
}

impl Request<'_> {
    fn matches(&self, constraints: &Constraints, view: &mut View<'_>) -> Result<Option<Seen>, ApiError> {
        let (object, old) = view.latest(&self.attributes.seen).map_err(|why| ApiError::internal(&why))?;
        constraints.matches(self.registry, self.attributes, object, old)
    }
}

impl<W: Work> Policy<W> {
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

    /// How a write meets the policy, or why that cannot be found out.
    pub(super) fn invocations(
        &self,
        request: &Request<'_>,
        view: &mut View<'_>,
    ) -> Vec<Result<Invocation<'_, W>, Unusable<'_>>> {
        let definition = &*self.definition;
        let unusable = |why| vec![Err(Unusable { binding: None, why })];
        let seen = match request.matches(&definition.constraints, view) {
            Ok(Some(seen)) => seen,
            Ok(None) => return Vec::new(),
            Err(error) => return unusable(error.message.to_string()),
        };
        let kind = definition.param_kind.as_ref().map(|kind| kind.find(request.registry)).transpose();
        let kind = match kind {
            Ok(kind) => kind,
            Err(why) => return unusable(why),
        };
        let mut all = Vec::new();
        for binding in &self.bindings {
            let of_binding = |why| Unusable { binding: Some(binding), why };
            match binding.constraints.as_ref().map(|constraints| request.matches(constraints, view)) {
                None | Some(Ok(Some(_))) => {}
                Some(Ok(None)) => continue,
                Some(Err(error)) => {
                    all.push(Err(of_binding(error.message.to_string())));
                    continue;
                }
            }
            let namespace = &request.attributes.namespace;
            let params = match (&kind, &binding.params) {
                (Some(served), Some(reference)) => reference.collect(request.registry, served, namespace),
                _ => Ok(vec![None]),
            };
            match params {
                Ok(params) => all.extend(
                    params.into_iter().map(|params| Ok(Invocation { definition, binding, seen: seen.clone(), params })),
                ),
                Err(why) => all.push(Err(of_binding(why))),
            }
        }
        all
    }
}

impl<W: Work> Definition<W> {
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

    /// Its expressions.
    pub(super) fn compiled(&self) -> &Compiled<W> {
        self.compiled.get_or_init(|| {
            let mut environment = Environment { has_params: self.param_kind.is_some(), variables: Some(Vec::new()) };
            let variables = self.spec.items("variables").map(|one| (one.text("name"), one.text("expression")));
            let variables = Expression::variables(&mut environment, variables);
            Compiled { variables, work: W::compile(&environment, &self.spec) }
        })
    }

    /// What its conditions say of a write.
    pub(super) fn verdict<'a>(&'a self, values: &Values<'a>) -> Verdict {
        if self.conditions.is_empty() { Verdict::Met } else { self.conditions.verdict(values, self.fails) }
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
}
