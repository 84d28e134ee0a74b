//! What an expression says as it is, computed before it is run, as cel-go's planner does: what fails then is refused.

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr};

use super::budget::Budget;
use super::eval::{self, Failure};
use super::patterns::Constants;
use super::value::Value;
use crate::custom::pattern;

/// The functions that are computed where their argument is known.
const CONVERSIONS: &[&str] =
    &["bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint"];

/// Whether the value of an expression is known before it is run.
///
/// # Errors
/// What fails: a conversion of a value that is known, or a regular expression.
pub(super) fn is_known(expr: &IdedExpr) -> Result<bool, String> {
    match &expr.expr {
        Expr::Literal(_) => Ok(true),
        Expr::Ident(_) | Expr::Unspecified => Ok(false),
        Expr::Select(select) => is_known(&select.operand).map(|_| false),
        Expr::List(list) => all(list.elements.iter()),
        Expr::Map(map) => all(map
            .entries
            .iter()
            .flat_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => [Some(&entry.key), Some(&entry.value)],
                EntryExpr::StructField(field) => [Some(&field.value), None],
            })
            .flatten()),
        Expr::Struct(object) => all(object.entries.iter().filter_map(|entry| match &entry.expr {
            EntryExpr::StructField(field) => Some(&field.value),
            EntryExpr::MapEntry(_) => None,
        }))
        .map(|_| false),
        Expr::Comprehension(c) => {
            all([&c.iter_range, &c.accu_init, &c.loop_cond, &c.loop_step, &c.result].into_iter()).map(|_| false)
        }
        Expr::Call(call) => {
            let known = all(call.target.iter().map(|target| &**target).chain(&call.args))?;
            called(expr, call, known)
        }
    }
}

/// Whether all parts of an expression are known.
fn all<'e>(mut parts: impl Iterator<Item = &'e IdedExpr>) -> Result<bool, String> {
    parts.try_fold(true, |known, part| Ok(is_known(part)? && known))
}

fn called(expr: &IdedExpr, call: &CallExpr, known: bool) -> Result<bool, String> {
    match (call.func_name.as_str(), call.args.as_slice()) {
        (name, [_]) if known && call.target.is_none() && CONVERSIONS.contains(&name) => Ok(value(expr)?.is_some()),
        ("matches", [.., text]) | ("find" | "findAll", [text, ..]) if is_known(text)? => {
            if let Some(Value::String(text)) = value(text)? {
                pattern::compile(&text)?;
            }
            Ok(false)
        }
        _ => Ok(false),
    }
}

/// The value of what is known; `None` where it costs too much.
fn value(expr: &IdedExpr) -> Result<Option<Value<'_>>, String> {
    match eval::run(expr, &Constants::default(), &[], &mut Budget::default()) {
        Ok(value) => Ok(Some(value)),
        Err(Failure::Limit) => Ok(None),
        Err(Failure::Error(why)) => Err(why),
    }
}
