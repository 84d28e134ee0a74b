//! The Common Expression Language, as Kubernetes uses it: rules of custom resources, and admission policies (API-30).
//!
//! ```text
//!   text --parse--> tree --check--> types, overloads --cost--> the worst case
//!                     |
//!                     +--eval--> a value, and what it cost
//! ```
//!
//! Grammar, macros and syntax errors are those of the crate `cel`. Types, the libraries of Kubernetes, and both costs
//! are here: the crate has no types at compile time and counts nothing when it runs, and Kubernetes refuses by both.

pub mod admission;
pub mod budget;
pub mod check;
mod constants;
pub mod cost;
pub mod devices;
pub mod duration;
pub mod eval;
pub mod functions;
pub mod json;
mod library;
mod nesting;
pub mod parse;
mod patterns;
pub mod schema;
pub mod time;
pub mod types;
pub mod url;
pub mod value;

use cel::common::ast::IdedExpr;

use crate::custom::structural::Structural;

pub use budget::Budget;
pub use cost::Estimate;
pub use eval::Failure;
pub use library::authz::{Asked, Authorizer, Check, Decision};
pub use types::Type;
pub use value::{Lookup, Value};

/// The most that one expression may cost when it runs.
pub const CALL_LIMIT: u64 = 1_000_000;
/// The most that all expressions of a request may cost when they run.
pub const REQUEST_BUDGET: i64 = 10_000_000;
/// The largest request that costs are estimated for, in bytes.
pub const LARGEST_REQUEST: u64 = 3 * 1024 * 1024;

/// A variable of an expression, and its type.
#[derive(Debug, Clone)]
pub struct Variable<'s> {
    /// Its name.
    pub name: &'s str,
    /// What it is.
    pub kind: Type<'s>,
    /// How large its values may be; `None` for one without bounds.
    pub bounds: Option<Bounds<'s>>,
}

/// How large the values of a variable may be.
#[derive(Debug, Clone, Copy)]
pub enum Bounds<'s> {
    /// By a schema; `root` says that it is a whole object's.
    Schema {
        /// The schema.
        schema: &'s Structural,
        /// Whether it is a whole object's.
        root: bool,
    },
    /// How many characters, elements or members there are at most where these steps lead; `None` where that is not known.
    Steps(fn(&[String]) -> Option<u64>),
}

/// What the language has in some places only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// Nothing.
    Nothing,
    /// Objects that describe a change: `Object{...}` and `JSONPatch{...}`.
    Patches,
    /// Names for parts of an expression: `cel.bind(name, value, expression)`.
    Bindings,
}

/// A checked expression.
#[derive(Debug)]
pub struct Program {
    tree: IdedExpr,
    patterns: patterns::Constants,
    /// The variables that it names.
    pub names: Vec<String>,
}

/// What checking found out of an expression.
#[derive(Debug)]
pub struct Checked<'s> {
    /// What can be run.
    pub program: Program,
    /// What it evaluates to.
    pub output: Type<'s>,
    /// What it may cost.
    pub cost: Estimate,
}

/// Compiles an expression with the variables that it may name.
///
/// # Errors
/// Everything that is wrong with it, in the words of cel-go.
pub fn compile<'s>(text: &str, variables: &[Variable<'s>]) -> Result<Checked<'s>, String> {
    compile_with(text, variables, Beside::Nothing)
}

/// As [`compile`], with what the language has in some places only.
///
/// # Errors
/// As [`compile`].
pub fn compile_with<'s>(text: &str, variables: &[Variable<'s>], beside: Beside) -> Result<Checked<'s>, String> {
    let (tree, source) = parse::parse(text, beside)?;
    let types = check::check(&tree, &source, text, variables, beside)?;
    let cost = cost::estimate(&tree, &types);
    let output = types.of(tree.id);
    let names = types.names.into_iter().collect();
    Ok(Checked { program: Program { tree, names, patterns: patterns::Constants::default() }, output, cost })
}

/// Compiles an expression that was checked before, and is only to be run.
///
/// # Errors
/// As [`compile`], of what its syntax tells.
pub fn recompile(text: &str) -> Result<Program, String> {
    let (tree, _) = parse::parse(text, Beside::Nothing)?;
    let mut names = Vec::new();
    parse::names(&tree, &mut names);
    Ok(Program { tree, names, patterns: patterns::Constants::default() })
}

impl Program {
    /// Computes what it says as it is, before it is run; `what` names it in errors.
    ///
    /// # Errors
    /// What fails whatever it is run with, in the words of cel-go: a conversion, or a regular expression.
    pub fn instantiate(&self, what: &str) -> Result<(), String> {
        constants::is_known(&self.tree).map(|_| ()).map_err(|why| format!("{what} instantiation failed: {why}"))
    }

    /// Whether the expression names a variable.
    #[must_use]
    pub fn uses(&self, variable: &str) -> bool {
        self.names.iter().any(|name| name == variable)
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    /// What failed, in the words of cel-go; that the budget is spent.
    pub fn run<'a>(&'a self, variables: &[(&str, Value<'a>)], budget: &mut Budget) -> Result<Value<'a>, Failure> {
        eval::run(&self.tree, &self.patterns, variables, budget)
    }
}

#[cfg(test)]
mod tests;
