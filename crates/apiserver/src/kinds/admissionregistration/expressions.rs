//! The expressions of webhooks and policies, compiled when they are written.

use crate::cel::Type;
use crate::cel::admission::{Environment, Purpose};
use crate::validation::admissionpolicy::{Expressions, Gives, Sort};
use crate::validation::expression::Wrong;

/// Compiles every expression.
#[derive(Debug)]
pub(super) struct Compiled;

impl Expressions for Compiled {
    fn check(&self, expression: &str, sort: Sort, variables: &[(&str, &str)]) -> Result<(), Wrong> {
        let (purpose, composes) = match sort.gives {
            Gives::Bool => (Purpose::Condition, false),
            Gives::Text => (Purpose::Message, false),
            Gives::TextOrNull => (Purpose::Annotation, false),
            Gives::Anything => (Purpose::Variable, true),
            Gives::Object => (Purpose::Configuration, true),
            Gives::Patches => (Purpose::JsonPatch, true),
        };
        let mut environment = Environment { has_params: sort.params, variables: composes.then(Vec::new) };
        for (name, own) in variables {
            // One that does not compile may be named all the same: it is told where it stands.
            let kind = environment.compile(own, Purpose::Variable).map_or(Type::Dyn, |(_, kind)| kind);
            environment.declare(name, kind);
        }
        environment.compile(expression, purpose).map(|_| ())
    }
}
