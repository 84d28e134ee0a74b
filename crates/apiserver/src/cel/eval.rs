//! The evaluation of an expression.

use std::sync::Arc;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, StructExpr, operators};

use super::budget::{Budget, actual_cost};
use super::check::qualified;
use super::functions::overloads;
use super::library;
use super::patterns::{Constants, Met};
use super::types::{JSON_PATCH, NAMES};
use super::value::{List, Map, Value};

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// What failed, in the words of cel-go.
    Error(String),
    /// The limit of what one expression may cost was reached.
    Limit,
}

impl Failure {
    /// That no function takes these values.
    #[must_use]
    pub fn no_overload() -> Self {
        Self::Error("no such overload".to_owned())
    }
}

/// In the words of cel-go.
impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Error(message) => f.write_str(message),
            Self::Limit => f.write_str("operation cancelled: actual cost limit exceeded"),
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Error(message)
    }
}

type Outcome<'a> = Result<Value<'a>, Failure>;

/// What a comprehension goes over.
type Pairs<'v, 'a> = Box<dyn Iterator<Item = Result<(Value<'a>, Value<'a>), String>> + 'v>;

/// Evaluates a tree with values for its variables.
///
/// # Errors
/// What failed.
pub(super) fn run<'a>(
    tree: &'a IdedExpr,
    patterns: &Constants,
    variables: &[(&str, Value<'a>)],
    budget: &mut Budget,
) -> Outcome<'a> {
    Evaluator { variables, patterns: Met::new(patterns), scopes: Vec::new(), budget }.eval(tree)
}

struct Evaluator<'v, 'a> {
    variables: &'v [(&'v str, Value<'a>)],
    patterns: Met<'v>,
    scopes: Vec<(&'a str, Value<'a>)>,
    budget: &'v mut Budget,
}

impl<'a> Evaluator<'_, 'a> {
    fn eval(&mut self, expr: &'a IdedExpr) -> Outcome<'a> {
        match &expr.expr {
            Expr::Literal(literal) => Ok(literal_value(literal)),
            Expr::Ident(name) => {
                self.budget.spend(1)?;
                self.variable(name).ok_or_else(|| Failure::Error(format!("no such attribute(s): {name}")))
            }
            Expr::Select(select) => {
                if !select.test
                    && let Some(name) = qualified(expr)
                    && let Some(value) = self.variable(&name)
                {
                    self.budget.spend(1)?;
                    return Ok(value);
                }
                let operand = self.eval(&select.operand)?;
                if select.test {
                    return presence(&operand, &select.field);
                }
                self.budget.spend(1)?;
                field(&operand, &select.field)
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let mut items = Vec::with_capacity(list.elements.len());
                for (at, element) in list.elements.iter().enumerate() {
                    let value = self.eval(element)?;
                    match value {
                        Value::Optional(inner) if list.optional_indices.contains(&at) => {
                            items.extend(inner.map(|inner| (*inner).clone()));
                        }
                        value => items.push(value),
                    }
                }
                self.budget.spend(10)?;
                Ok(Value::list(items))
            }
            Expr::Map(map) => {
                let mut pairs: Vec<(Value<'a>, Value<'a>)> = Vec::with_capacity(map.entries.len());
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    let (key, value) = (self.eval(&entry.key)?, self.eval(&entry.value)?);
                    let value = match value {
                        Value::Optional(inner) if entry.optional => match inner {
                            Some(inner) => (*inner).clone(),
                            None => continue,
                        },
                        value => value,
                    };
                    pairs.retain(|(known, _)| !known.equals(&key));
                    pairs.push((key, value));
                }
                self.budget.spend(30)?;
                Ok(Value::Map(Map::Made(Arc::new(pairs))))
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(object) => self.made(object),
            Expr::Unspecified => Err(Failure::no_overload()),
        }
    }

    fn made(&mut self, object: &'a StructExpr) -> Outcome<'a> {
        let mut fields: Vec<(Value<'a>, Value<'a>)> = Vec::with_capacity(object.entries.len());
        for entry in &object.entries {
            let EntryExpr::StructField(field) = &entry.expr else { continue };
            let value = match self.eval(&field.value)? {
                Value::Optional(inner) if field.optional => match inner {
                    Some(inner) => (*inner).clone(),
                    None => continue,
                },
                value => value,
            };
            let name = Value::text(&*field.field);
            // Of an operation, what is empty is not there.
            let is_nothing =
                object.type_name == JSON_PATCH && &*field.field != "value" && value.equals(&Value::text(""));
            if is_nothing {
                continue;
            }
            fields.push((name, value));
        }
        self.budget.spend(40)?;
        Ok(Value::Made(&object.type_name, Map::Made(Arc::new(fields))))
    }

    fn variable(&self, name: &str) -> Option<Value<'a>> {
        if let Some((_, value)) = self.scopes.iter().rev().find(|(own, _)| *own == name) {
            return Some(value.clone());
        }
        if let Some((_, value)) = self.variables.iter().find(|(own, _)| *own == name) {
            return Some(value.clone());
        }
        NAMES.iter().find(|own| **own == name).map(|own| Value::Type(own))
    }

    fn comprehension(&mut self, c: &'a ComprehensionExpr) -> Outcome<'a> {
        let range = self.eval(&c.iter_range)?;
        let start = self.eval(&c.accu_init)?;
        let two = c.iter_var2.is_some();
        // One after the other: it may end with the first.
        let pairs: Pairs<'_, 'a> = match &range {
            Value::List(list) if two => Box::new((0..list.len()).map(|at| {
                let index = Value::Int(i64::try_from(at).unwrap_or_default());
                Ok((index, list.get(at)?.unwrap_or(Value::Null)))
            })),
            Value::List(list) => {
                Box::new((0..list.len()).map(|at| Ok((list.get(at)?.unwrap_or(Value::Null), Value::Null))))
            }
            Value::Map(map) => Box::new(map.each_key().map(move |key| {
                let value = if two { map.get(&key)?.unwrap_or(Value::Null) } else { Value::Null };
                Ok((key, value))
            })),
            _ => return Err(Failure::no_overload()),
        };
        let depth = self.scopes.len();
        self.scopes.push((&c.accu_var, start));
        // An error does not end a comprehension: a later element may make it not matter.
        let mut failed: Option<Failure> = None;
        for pair in pairs {
            let (first, second) = match pair {
                Ok(pair) => pair,
                Err(why) => {
                    self.scopes.truncate(depth);
                    return Err(Failure::Error(why));
                }
            };
            self.scopes.push((&c.iter_var, first));
            if let Some(name) = &c.iter_var2 {
                self.scopes.push((name, second));
            }
            let goes_on = match (&failed, self.eval(&c.loop_cond)) {
                (_, Err(Failure::Limit)) => return Err(Failure::Limit),
                (None, Ok(Value::Bool(false))) => false,
                (None | Some(_), _) => true,
            };
            if !goes_on {
                self.scopes.truncate(depth + 1);
                break;
            }
            let step = match self.gather(&c.loop_step, &c.accu_var, depth) {
                Some(gathered) => gathered,
                None => self.step(&c.loop_step, failed.take()).map(Some),
            };
            self.scopes.truncate(depth + 1);
            match step {
                Ok(value) => {
                    if let Some(value) = value {
                        self.scopes[depth].1 = value;
                    }
                }
                Err(Failure::Limit) => return Err(Failure::Limit),
                Err(failure) => {
                    // Gathering goes on only where a truth value is gathered.
                    if !is_logic(&c.loop_step) {
                        self.scopes.truncate(depth);
                        return Err(failure);
                    }
                    failed = Some(failure);
                }
            }
        }
        let result = match failed {
            Some(failure) => Err(failure),
            None => self.eval(&c.result),
        };
        self.scopes.truncate(depth);
        result
    }

    /// One step of a comprehension that adds elements to a list, which is not copied for that; `None` for other steps.
    fn gather(
        &mut self,
        step: &'a IdedExpr,
        accumulator: &str,
        depth: usize,
    ) -> Option<Result<Option<Value<'a>>, Failure>> {
        let Expr::Call(call) = &step.expr else { return None };
        let is_own = |expr: &IdedExpr| matches!(&expr.expr, Expr::Ident(name) if name == accumulator);
        let adds = |expr: &'a IdedExpr| match &expr.expr {
            Expr::Call(call) if call.func_name == operators::ADD => match call.args.as_slice() {
                [own, added] if is_own(own) && matches!(added.expr, Expr::List(_)) => Some(added),
                _ => None,
            },
            _ => None,
        };
        let added = match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, yes, no]) if is_own(no) => {
                let added = adds(yes)?;
                match self.eval(condition) {
                    Ok(Value::Bool(true)) => added,
                    Ok(Value::Bool(false)) => return Some(self.budget.spend(1).map(|()| None)),
                    Ok(_) => return Some(Err(Failure::no_overload())),
                    Err(failure) => return Some(Err(failure)),
                }
            }
            _ => adds(step)?,
        };
        let added = match self.eval(added) {
            Ok(Value::List(added)) => added,
            Ok(_) => return Some(Err(Failure::no_overload())),
            Err(failure) => return Some(Err(failure)),
        };
        // As much as naming the list, and adding to it.
        if let Err(limit) = self.budget.spend(2) {
            return Some(Err(limit));
        }
        match &mut self.scopes.get_mut(depth)?.1 {
            Value::List(List::Made(gathered)) => {
                Arc::make_mut(gathered).extend(added.iter());
                Some(Ok(None))
            }
            Value::List(gathered) => Some(Ok(Some(gathered.plus(&added)))),
            _ => Some(Err(Failure::no_overload())),
        }
    }

    /// One step of a comprehension, whose accumulator may be an error.
    fn step(&mut self, step: &'a IdedExpr, failed: Option<Failure>) -> Outcome<'a> {
        let Some(failure) = failed else { return self.eval(step) };
        let Expr::Call(call) = &step.expr else { return Err(failure) };
        let [_, element] = call.args.as_slice() else { return Err(failure) };
        let ends = call.func_name == operators::LOGICAL_OR;
        match self.eval(element)? {
            Value::Bool(value) if value == ends => Ok(Value::Bool(value)),
            _ => Err(failure),
        }
    }

    fn call(&mut self, call: &'a CallExpr) -> Outcome<'a> {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::LOGICAL_AND, args) => return self.logic(args, false),
            (operators::LOGICAL_OR, args) => return self.logic(args, true),
            (operators::CONDITIONAL, [condition, yes, no]) => {
                return match self.eval(condition)? {
                    Value::Bool(true) => self.eval(yes),
                    Value::Bool(false) => self.eval(no),
                    _ => Err(Failure::no_overload()),
                };
            }
            (operators::NOT_STRICTLY_FALSE, [arg]) => {
                let value = match self.eval(arg) {
                    Err(Failure::Limit) => return Err(Failure::Limit),
                    Ok(Value::Bool(false)) => false,
                    _ => true,
                };
                self.budget.spend(1)?;
                return Ok(Value::Bool(value));
            }
            (operators::OPT_SELECT, [operand, name]) => {
                let operand = self.eval(operand)?;
                self.budget.spend(1)?;
                let Expr::Literal(LiteralValue::String(name)) = &name.expr else {
                    return Err(Failure::no_overload());
                };
                return optional_field(&operand, name.inner());
            }
            // The value of one that may be absent, or another: which is evaluated only when it is needed.
            ("or" | "orValue", [other]) => {
                if let Some(target) = &call.target
                    && let Value::Optional(inner) = self.eval(target)?
                {
                    self.budget.spend(1)?;
                    return match inner {
                        Some(inner) if call.func_name == "or" => Ok(Value::Optional(Some(inner))),
                        Some(inner) => Ok((*inner).clone()),
                        None => self.eval(other),
                    };
                }
                return Err(Failure::no_overload());
            }
            _ => {}
        }
        let mut args: Vec<Value<'a>> = Vec::with_capacity(call.args.len() + 1);
        let mut name = call.func_name.as_str();
        let joined;
        if let Some(target) = &call.target {
            match qualified(target).map(|prefix| format!("{prefix}.{name}")).filter(|n| overloads(n).is_some()) {
                Some(own) => {
                    joined = own;
                    name = &joined;
                }
                None => args.push(self.eval(target)?),
            }
        }
        for arg in &call.args {
            args.push(self.eval(arg)?);
        }
        self.budget.make(name, &args)?;
        let result = match (name, args.as_slice()) {
            ("matches" | "find" | "findAll", [Value::String(text), Value::String(pattern), rest @ ..]) => {
                let said = call.args.get(usize::from(call.target.is_none())).map(|said| &said.expr);
                let is_constant = matches!(said, Some(Expr::Literal(_)));
                let pattern = self.patterns.get(pattern, is_constant, self.budget)?;
                library::matched(name, text, &pattern, rest)?
            }
            _ => library::call(name, &args)?,
        };
        self.budget.spend(actual_cost(name, &args, &result))?;
        Ok(result)
    }

    /// `&&` and `||`: an error does not matter where the other side decides.
    fn logic(&mut self, args: &'a [IdedExpr], decides: bool) -> Outcome<'a> {
        let mut failed = None;
        for arg in args {
            match self.eval(arg) {
                Ok(Value::Bool(value)) if value == decides => return Ok(Value::Bool(value)),
                Ok(Value::Bool(_)) => {}
                Err(Failure::Limit) => return Err(Failure::Limit),
                Err(failure) => failed = failed.or(Some(failure)),
                Ok(_) => failed = failed.or_else(|| Some(Failure::no_overload())),
            }
        }
        failed.map_or(Ok(Value::Bool(!decides)), Err)
    }
}

fn is_logic(step: &IdedExpr) -> bool {
    matches!(&step.expr, Expr::Call(call) if matches!(call.func_name.as_str(), operators::LOGICAL_AND | operators::LOGICAL_OR))
}

pub(super) fn literal_value<'a>(literal: &LiteralValue) -> Value<'a> {
    match literal {
        LiteralValue::Boolean(value) => Value::Bool(*value.inner()),
        LiteralValue::Bytes(value) => Value::Bytes(value.inner().into()),
        LiteralValue::Double(value) => Value::Double(*value.inner()),
        LiteralValue::Int(value) => Value::Int(*value.inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::String(value) => Value::text(value.inner()),
        LiteralValue::UInt(value) => Value::Uint(*value.inner()),
    }
}

/// A field of an object, or a member of a map.
fn field<'a>(operand: &Value<'a>, name: &str) -> Outcome<'a> {
    match operand {
        Value::Map(map) => map.field(name)?.ok_or_else(|| Failure::Error(format!("no such key: {name}"))),
        Value::Made(kind, map) => {
            let absent = if *kind == JSON_PATCH { Value::text("") } else { Value::Null };
            Ok(map.field(name)?.unwrap_or(absent))
        }
        Value::Lazy(object) => {
            object.field(name).unwrap_or_else(|| Err(Failure::Error(format!("no such key: {name}"))))
        }
        Value::Optional(_) => optional_field(operand, name),
        Value::List(_) => Err(of_list()),
        // Of what has no fields, the reference says that this one is missing.
        _ => Err(Failure::Error(format!("no such key: {name}"))),
    }
}

fn of_list() -> Failure {
    Failure::Error("unsupported index type 'string' in list".to_owned())
}

fn optional_field<'a>(operand: &Value<'a>, name: &str) -> Outcome<'a> {
    match operand {
        Value::Map(map) | Value::Made(_, map) => Ok(Value::Optional(map.field(name)?.map(Arc::new))),
        Value::Lazy(object) => Ok(Value::Optional(object.field(name).transpose()?.map(Arc::new))),
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => optional_field(inner, name),
        Value::List(_) => Err(of_list()),
        _ => Ok(Value::Optional(None)),
    }
}

/// `has(...)`
fn presence<'a>(operand: &Value<'a>, name: &str) -> Outcome<'a> {
    match operand {
        Value::Map(map) | Value::Made(_, map) => Ok(Value::Bool(map.field(name)?.is_some())),
        Value::Lazy(object) => Ok(Value::Bool(object.field(name).is_some())),
        Value::Optional(None) => Ok(Value::Bool(false)),
        Value::Optional(Some(inner)) => presence(inner, name),
        Value::List(_) => Err(of_list()),
        _ => Ok(Value::Bool(false)),
    }
}

/// The list of a value.
pub(super) fn as_list<'v, 'a>(value: &'v Value<'a>) -> Result<&'v List<'a>, Failure> {
    match value {
        Value::List(list) => Ok(list),
        _ => Err(Failure::no_overload()),
    }
}
