//! The rules of a schema, run over an object: `x-kubernetes-validations`.

use std::cell::OnceCell;
use std::sync::OnceLock;

use muster_tree::Value;

use super::Object;
use super::lists::Before;
use super::metadata::child;
use super::path::{FieldPathOptions, valid_field_path};
use super::props::Rule;
use super::structural::Structural;
use super::was::Was;
use crate::cel::{self, Budget, Failure, Program};
use crate::field::{ErrorKind, FieldError, Shown, go_quote};
use crate::validation::Errors;

/// A rule, with its expressions; they are compiled when it is first run.
#[derive(Debug)]
pub struct CompiledRule {
    /// As it is written.
    pub rule: Rule,
    program: OnceLock<Result<Program, String>>,
    message: OnceLock<Option<Program>>,
}

impl CompiledRule {
    /// A rule that validation has let through.
    #[must_use]
    pub fn new(rule: Rule) -> Self {
        Self { rule, program: OnceLock::new(), message: OnceLock::new() }
    }

    /// What messages call it.
    fn shown(&self) -> &str {
        if self.rule.message.is_empty() { self.rule.rule.trim() } else { self.rule.message.trim() }
    }
}

impl Clone for CompiledRule {
    fn clone(&self) -> Self {
        Self::new(self.rule.clone())
    }
}

impl PartialEq for CompiledRule {
    fn eq(&self, other: &Self) -> bool {
        self.rule == other.rule
    }
}

/// What the rules have against an object. With an old one, what was wrong before and has not changed is let be, and only
/// warned of.
#[must_use]
pub fn object(object: &Object, old: Option<&Object>, schema: &Structural, warnings: &mut Vec<String>) -> Errors {
    let mut errors = Errors::new();
    if !schema.holds.rules {
        return errors;
    }
    let new = Value::Object(object.clone());
    let old = old.cloned().map(Value::Object);
    let mut run = Run { budget: cel::REQUEST_BUDGET, errors: &mut errors, warnings };
    let here = old.as_ref().map(|old| Kept::new(&new, Was::new(old, schema)));
    run.node(&new, old.as_ref(), schema, true, "", Ratchet { here: here.as_ref(), around: None });
    errors
}

/// What the rules have against a value that stands at a path, within a budget.
pub fn value(
    value: &Value,
    old: Option<&Value>,
    schema: &Structural,
    root: bool,
    path: &str,
    budget: &mut i64,
) -> Errors {
    let mut errors = Errors::new();
    let mut run = Run { budget: *budget, errors: &mut errors, warnings: &mut Vec::new() };
    run.node(value, old, schema, root, path, Ratchet::default());
    *budget = run.budget;
    errors
}

/// A value beside what it was, and whether it still is, which is found out when it is first asked.
struct Kept<'a> {
    now: &'a Value,
    was: Was<'a>,
    same: OnceCell<bool>,
}

impl<'a> Kept<'a> {
    fn new(now: &'a Value, was: Was<'a>) -> Self {
        Self { now, was, same: OnceCell::new() }
    }
}

/// Whether a value is as it was, or the nearest one around that can be found in the old object is.
#[derive(Clone, Copy, Default)]
struct Ratchet<'r, 'a> {
    here: Option<&'r Kept<'a>>,
    around: Option<&'r Kept<'a>>,
}

impl<'r, 'a> Ratchet<'r, 'a> {
    fn unchanged(self) -> bool {
        self.here.or(self.around).is_some_and(|kept| *kept.same.get_or_init(|| kept.was.is(kept.now)))
    }

    /// The same of a part of the value.
    fn below<'s>(self, kept: Option<&'s Kept<'a>>) -> Ratchet<'s, 'a>
    where
        'r: 's,
    {
        if self.here.is_none() { self } else { Ratchet { here: kept, around: self.here } }
    }
}

struct Run<'e> {
    budget: i64,
    errors: &'e mut Errors,
    /// What is let be.
    warnings: &'e mut Vec<String>,
}

impl Run<'_> {
    fn node<'a>(
        &mut self,
        value: &'a Value,
        old: Option<&'a Value>,
        schema: &'a Structural,
        root: bool,
        path: &str,
        ratchet: Ratchet<'_, 'a>,
    ) {
        if value.is_null() || !schema.holds.rules {
            return;
        }
        self.rules(value, old.filter(|old| !old.is_null()), schema, root, path, ratchet);
        if self.budget < 0 {
            return;
        }
        match value {
            Value::Array(list) => {
                let Some(items) = &schema.items else { return };
                let before = Before::new(old, &schema.list_type);
                for (index, item) in list.iter().enumerate() {
                    let old = before.of(item);
                    let kept = old.filter(|_| ratchet.here.is_some()).map(|old| Kept::new(item, Was::new(old, items)));
                    let ratchet = ratchet.below(kept.as_ref());
                    self.node(item, old, items, items.embedded, &format!("{path}[{index}]"), ratchet);
                    if self.budget < 0 {
                        return;
                    }
                }
            }
            Value::Object(object) => {
                let before = old.and_then(Value::as_object);
                for (name, value) in object {
                    let old = before.and_then(|before| before.get(name));
                    let (schema, path) = match (schema.property(name), schema.additional()) {
                        (Some(property), _) => (property, child(path, name)),
                        (None, Some(additional)) => (additional, format!("{path}[{name}]")),
                        (None, None) => continue,
                    };
                    // Both have been made of one version.
                    let hidden = ratchet.around.is_none() && matches!(&**name, "apiVersion" | "kind");
                    let was = ratchet.here.and_then(|kept| kept.was.member(name));
                    let kept = was.map(|was| Kept::new(value, was));
                    let ratchet = if hidden { Ratchet::default() } else { ratchet.below(kept.as_ref()) };
                    self.node(value, old, schema, schema.embedded, &path, ratchet);
                    if self.budget < 0 {
                        return;
                    }
                }
            }
            _ => {}
        }
    }

    fn rules<'a>(
        &mut self,
        value: &'a Value,
        old: Option<&'a Value>,
        schema: &'a Structural,
        root: bool,
        path: &str,
        ratchet: Ratchet<'_, 'a>,
    ) {
        if schema.rules.is_empty() {
            return;
        }
        let path = if path.is_empty() { "<nil>" } else { path };
        let failed = |why: String| FieldError::invalid(path, schema.kind_name(), why);
        if self.budget <= 0 {
            self.errors.push(failed(OUT_OF_BUDGET.to_owned()));
            self.budget = -1;
            return;
        }
        for compiled in &schema.rules {
            let rule = &compiled.rule;
            let program = compiled.program.get_or_init(|| cel::recompile(&rule.rule));
            let program = match program {
                Ok(program) => program,
                Err(why) => {
                    self.errors.push(failed(format!("rule compile error: compilation failed: {why}")));
                    continue;
                }
            };
            let optional = rule.optional_old_self == Some(true);
            let uses_old = program.uses("oldSelf");
            if uses_old && old.is_none() && !optional {
                continue;
            }
            let variables = match variables(value, old, schema, root, optional) {
                Ok(variables) => variables,
                Err(why) => {
                    self.errors.push(failed(format!("{why} evaluating rule: {}", compiled.shown())));
                    continue;
                }
            };
            let mut budget = Budget::default();
            let result = program.run(&variables, &mut budget);
            if !self.spend(budget.spent) {
                self.errors.push(failed(OUT_OF_BUDGET.to_owned()));
                return;
            }
            let error = match result {
                Ok(cel::Value::Bool(true)) => continue,
                Ok(_) => {
                    let (error, ended) = self.explained(compiled, &variables, value, schema, path);
                    if !uses_old && ratchet.unchanged() {
                        self.warnings.push(error.to_string());
                    } else {
                        self.errors.push(error);
                    }
                    if ended {
                        self.budget = -1;
                        return;
                    }
                    continue;
                }
                Err(Failure::Limit) => {
                    self.errors.push(failed(format!(
                        "'{}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                        Failure::Limit,
                        compiled.shown()
                    )));
                    self.budget = -1;
                    return;
                }
                Err(Failure::Error(why)) if why.starts_with("no such overload") => failed(format!(
                    "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                    compiled.shown()
                )),
                Err(Failure::Error(why)) => failed(format!("{why} evaluating rule: {}", compiled.shown())),
            };
            self.errors.push(error);
        }
    }

    fn spend(&mut self, cost: u64) -> bool {
        let cost = i64::try_from(cost).unwrap_or(i64::MAX);
        if cost > self.budget {
            self.budget = -1;
            return false;
        }
        self.budget -= cost;
        true
    }

    /// What is said of a rule that does not hold, and whether nothing more can be run.
    fn explained<'a>(
        &mut self,
        compiled: &'a CompiledRule,
        variables: &[(&str, cel::Value<'a>)],
        value: &Value,
        schema: &'a Structural,
        path: &str,
    ) -> (FieldError, bool) {
        let rule = &compiled.rule;
        let mut field = path.to_owned();
        if !rule.field_path.is_empty()
            && let Ok((below, _)) = valid_field_path(&rule.field_path, schema, FieldPathOptions { arrays: true })
        {
            field = child(if path == "<nil>" { "" } else { path }, &below);
        }
        let mut detail = None;
        if !rule.message_expression.is_empty() {
            let program = compiled.message.get_or_init(|| cel::recompile(&rule.message_expression).ok());
            if let Some(program) = program {
                let mut budget = Budget::default();
                let result = program.run(variables, &mut budget);
                let ended = if !self.spend(budget.spent) {
                    Some("messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run".to_owned())
                } else if matches!(result, Err(Failure::Limit)) {
                    let quoted = go_quote(&rule.message_expression);
                    Some(format!(
                        "no further validation rules will be run due to call cost exceeds limit for messageExpression: {quoted}"
                    ))
                } else {
                    None
                };
                if let Some(why) = ended {
                    return (FieldError::invalid(field, schema.kind_name(), why), true);
                }
                detail = match result {
                    Ok(cel::Value::String(text)) => Some(text.trim().to_owned()),
                    _ => None,
                };
                detail = detail.filter(|text| !text.is_empty() && text.len() <= 5 * 1024 && !text.contains('\n'));
            }
        }
        let detail = detail.unwrap_or_else(|| {
            if rule.message.is_empty() {
                format!("failed rule: {}", compiled.shown())
            } else {
                rule.message.trim().to_owned()
            }
        });
        let parts = matches!(schema.kind_name(), "object" | "array");
        let shown = (!parts).then(|| Shown::from(value));
        let error = |kind, value, detail| FieldError { kind, field: field.clone(), value, detail };
        let error = match rule.reason.as_deref() {
            Some("FieldValueForbidden") => error(ErrorKind::Forbidden, None, detail),
            Some("FieldValueRequired") => error(ErrorKind::Required, None, detail),
            Some("FieldValueDuplicate") => error(ErrorKind::Duplicate, shown, String::new()),
            _ => error(ErrorKind::Invalid, shown, detail),
        };
        (error, false)
    }
}

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

fn variables<'a>(
    value: &'a Value,
    old: Option<&'a Value>,
    schema: &'a Structural,
    root: bool,
    optional: bool,
) -> Result<Vec<(&'static str, cel::Value<'a>)>, String> {
    let seen = |value: &'a Value| cel::Value::of(value, Some(schema), root);
    let mut out = vec![("self", seen(value)?)];
    let old = old.map(seen).transpose()?;
    match (old, optional) {
        (old, true) => out.push(("oldSelf", cel::Value::Optional(old.map(std::sync::Arc::new)))),
        (Some(old), false) => out.push(("oldSelf", old)),
        (None, false) => {}
    }
    Ok(out)
}
