//! Match conditions: whether a webhook or a policy is asked at all.

use std::sync::OnceLock;

use super::expression::{EvalError, Expression, Values};
use crate::cel::Value;
use crate::cel::admission::{Environment, Purpose};
use crate::model::{Fields as _, Object};

/// What all conditions of one webhook or policy may cost.
const BUDGET: u64 = 2_500_000;

/// The match conditions of a webhook or a policy, compiled when they are needed.
#[derive(Debug)]
pub(super) struct Conditions {
    texts: Vec<String>,
    has_params: bool,
    compiled: OnceLock<Vec<Expression>>,
}

/// What conditions say of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All are true.
    Met,
    /// One is false, or one failed and failures do not count.
    Unmet,
    /// One failed.
    Failed(String),
}

impl Conditions {
    pub(super) fn new(parent: &Object, has_params: bool) -> Self {
        let texts = parent.items("matchConditions").map(|condition| condition.text("expression").to_owned()).collect();
        Self { texts, has_params, compiled: OnceLock::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Evaluates them; `fails` says that a failure counts.
    pub(super) fn verdict<'a>(&'a self, values: &Values<'a>, fails: bool) -> Verdict {
        let failed = |why: String| if fails { Verdict::Failed(why) } else { Verdict::Unmet };
        let mut left = BUDGET;
        let mut errors: Vec<String> = Vec::new();
        let mut unmet = false;
        for expression in self.compiled() {
            match expression.eval(values, &mut left) {
                Ok(Value::Bool(false)) => unmet = true,
                Ok(_) => {}
                Err(EvalError::One(why)) if errors.contains(&why) => {}
                Err(EvalError::One(why)) => errors.push(why),
                Err(EvalError::All(why)) => return failed(why),
            }
        }
        match errors.as_slice() {
            // One that is false decides, whatever failed.
            _ if unmet => Verdict::Unmet,
            [] => Verdict::Met,
            [one] => failed(one.clone()),
            several => failed(format!("[{}]", several.join(", "))),
        }
    }

    fn compiled(&self) -> &[Expression] {
        let environment = Environment { has_params: self.has_params, variables: None };
        let compile = |text: &String| Expression::new(&environment, text, Purpose::Condition);
        self.compiled.get_or_init(|| self.texts.iter().map(compile).collect())
    }
}
