//! The checker: what each part of an expression is, and which signatures its calls may mean.

use std::collections::{BTreeSet, HashMap};

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, SourceInfo, StructExpr, operators,
};

use super::functions::{Cost, Overload, overloads};
use super::parse::{MOST_ERRORS, place, told_all};
use super::types::{JSON_PATCH, NAMES, OBJECT, Substitutions, Type};
use super::{Beside, Variable};

mod literals;

/// What checking found out, by the numbers of the tree's nodes.
#[derive(Debug, Default)]
pub struct Types<'s> {
    kinds: HashMap<u64, Type<'s>>,
    /// The signatures that a call may mean, by what they cost.
    pub calls: HashMap<u64, Vec<Cost>>,
    /// The variables that the expression names.
    pub names: BTreeSet<String>,
    /// What the variables are.
    pub variables: Vec<Variable<'s>>,
}

impl<'s> Types<'s> {
    /// What a node is.
    #[must_use]
    pub fn of(&self, id: u64) -> Type<'s> {
        self.kinds.get(&id).cloned().unwrap_or(Type::Error)
    }
}

/// Checks a tree.
///
/// # Errors
/// Everything that is wrong, in the words of cel-go.
pub fn check<'s>(
    tree: &IdedExpr,
    source: &SourceInfo,
    text: &str,
    variables: &[Variable<'s>],
    beside: Beside,
) -> Result<Types<'s>, String> {
    let mut checker = Checker {
        types: Types { variables: variables.to_vec(), ..Types::default() },
        substitutions: Substitutions::default(),
        scopes: Vec::new(),
        errors: Vec::new(),
        patches: beside == Beside::Patches,
    };
    checker.check(tree);
    if checker.errors.is_empty() {
        checker.literals(tree, false);
    }
    if checker.errors.is_empty() {
        let Checker { mut types, substitutions, .. } = checker;
        for kind in types.kinds.values_mut() {
            *kind = substitutions.apply(kind, true);
        }
        return Ok(types);
    }
    let more = checker.errors.len().saturating_sub(MOST_ERRORS);
    let told = checker.errors.into_iter().take(MOST_ERRORS);
    let mut placed: Vec<((isize, isize), String)> =
        told.map(|(id, message)| (place(text, source, id), message)).collect();
    placed.sort_by_key(|(place, _)| *place);
    Err(told_all(text, placed, more))
}

/// A type may have so many parts.
const LARGEST_TYPE: usize = 1_000;

struct Checker<'s> {
    types: Types<'s>,
    substitutions: Substitutions<'s>,
    /// The variables of the comprehensions around.
    scopes: Vec<(String, Type<'s>)>,
    errors: Vec<(u64, String)>,
    /// Whether objects that describe a change may be made.
    patches: bool,
}

impl<'s> Checker<'s> {
    fn error(&mut self, id: u64, message: String) -> Type<'s> {
        self.errors.push((id, message));
        Type::Error
    }

    fn check(&mut self, expr: &IdedExpr) -> Type<'s> {
        let kind = match &expr.expr {
            Expr::Literal(literal) => literal_type(literal),
            Expr::Ident(name) => self.ident(expr.id, name),
            Expr::Select(select) => self.select(expr.id, select),
            Expr::Call(call) => self.call(expr.id, call),
            Expr::List(list) => {
                let mut kind = None;
                for (at, element) in list.elements.iter().enumerate() {
                    let own = self.check(element);
                    let own = if list.optional_indices.contains(&at) { self.unwrap(element.id, own) } else { own };
                    kind = Some(self.join(kind, own));
                }
                Type::list(kind.unwrap_or_else(|| self.substitutions.fresh()))
            }
            Expr::Map(map) => {
                let mut kinds = (None, None);
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    let key = self.check(&entry.key);
                    kinds.0 = Some(self.join(kinds.0, key));
                    let value = self.check(&entry.value);
                    let value = if entry.optional { self.unwrap(entry.value.id, value) } else { value };
                    kinds.1 = Some(self.join(kinds.1, value));
                }
                match kinds {
                    (Some(key), Some(value)) => Type::map(key, value),
                    _ => Type::map(self.substitutions.fresh(), self.substitutions.fresh()),
                }
            }
            Expr::Struct(object) => self.made(expr.id, object),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Unspecified => Type::Error,
        };
        // A type that is named twice in the next one doubles at each step, and would soon be larger than memory.
        let kind = match kind {
            kind if self.substitutions.is_larger(&kind, LARGEST_TYPE) => {
                self.error(expr.id, format!("the type has more than {LARGEST_TYPE} parts"))
            }
            kind => kind,
        };
        self.types.kinds.insert(expr.id, kind.clone());
        kind
    }

    /// An object that describes a change, with its fields.
    fn made(&mut self, id: u64, object: &StructExpr) -> Type<'s> {
        let name = object.type_name.as_str();
        let is_json = name == JSON_PATCH;
        if !self.patches || !(is_json || name == OBJECT || name.starts_with("Object.")) {
            return self.error(id, format!("undeclared reference to '{name}' (in container '')"));
        }
        for entry in &object.entries {
            let EntryExpr::StructField(field) = &entry.expr else { continue };
            let kind = self.check(&field.value);
            let kind = if field.optional { self.unwrap(field.value.id, kind) } else { kind };
            let expected = match field.field.as_str() {
                "op" | "path" | "from" if is_json => Type::String,
                "value" => Type::Dyn,
                // Of a field that the type does not have, the reference knows no type.
                name if is_json => {
                    let shown = self.shown(&kind);
                    let message = format!("expected type of field '{name}' is '' but provided type is '{shown}'");
                    self.error(entry.id, message);
                    continue;
                }
                _ => Type::Dyn,
            };
            if !self.substitutions.assign(&kind, &expected) {
                let message = format!(
                    "expected type of field '{}' is '{expected}' but provided type is '{}'",
                    field.field,
                    self.shown(&kind)
                );
                self.error(entry.id, message);
            }
        }
        Type::Made(name.into())
    }

    /// The value of an optional one.
    fn unwrap(&mut self, id: u64, kind: Type<'s>) -> Type<'s> {
        match kind {
            Type::Optional(inner) => (*inner).clone(),
            kind if kind.is_dyn() => kind,
            kind => {
                let message = format!("expected type 'optional_type({kind})' but found '{kind}'");
                self.error(id, message);
                kind
            }
        }
    }

    fn join(&mut self, before: Option<Type<'s>>, kind: Type<'s>) -> Type<'s> {
        let Some(before) = before else { return kind };
        if self.substitutions.assign(&before, &kind) {
            return before.most_general(kind);
        }
        // What does not fit is told of when the rest does.
        Type::Dyn
    }

    fn shown(&self, kind: &Type<'s>) -> Type<'s> {
        self.substitutions.apply(kind, false)
    }

    fn variable(&mut self, name: &str) -> Option<Type<'s>> {
        if let Some((_, kind)) = self.scopes.iter().rev().find(|(own, _)| own == name) {
            return Some(kind.clone());
        }
        if let Some(variable) = self.types.variables.iter().find(|v| v.name == name) {
            self.types.names.insert(name.to_owned());
            return Some(variable.kind.clone());
        }
        NAMES.contains(&name).then_some(Type::Type)
    }

    fn ident(&mut self, id: u64, name: &str) -> Type<'s> {
        match self.variable(name) {
            Some(kind) => kind,
            None => self.error(id, format!("undeclared reference to '{name}' (in container '')")),
        }
    }

    fn select(&mut self, id: u64, select: &SelectExpr) -> Type<'s> {
        if !select.test
            && let Some(name) = qualified(&select.operand)
            && let Some(kind) = self.variable(&format!("{name}.{}", select.field))
        {
            return kind;
        }
        let kind = self.field(id, &select.operand, &select.field, false);
        if select.test { Type::Bool } else { kind }
    }

    fn field(&mut self, id: u64, operand: &IdedExpr, field: &str, optional: bool) -> Type<'s> {
        let operand = self.check(operand);
        let operand = self.shown(&operand);
        let (target, was_optional) = match operand {
            Type::Optional(inner) => ((*inner).clone(), true),
            other => (other, false),
        };
        let kind = match &target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(object) => match object.field(field) {
                Some(kind) => kind,
                None => self.error(id, format!("undefined field '{field}'")),
            },
            Type::Made(name) if &**name != JSON_PATCH => Type::Dyn,
            Type::Made(_) => match field {
                "op" | "path" | "from" => Type::String,
                "value" => Type::Dyn,
                _ => self.error(id, format!("undefined field '{field}'")),
            },
            Type::Param(_) => {
                self.substitutions.assign(&Type::Dyn, &target);
                Type::Dyn
            }
            kind if kind.is_dyn() => Type::Dyn,
            kind => {
                let message = format!("type '{kind}' does not support field selection");
                self.error(id, message);
                Type::Dyn
            }
        };
        if optional || was_optional { Type::optional(kind) } else { kind }
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> Type<'s> {
        if call.func_name == operators::OPT_SELECT
            && let [operand, field] = call.args.as_slice()
        {
            let Expr::Literal(LiteralValue::String(name)) = &field.expr else {
                return self.error(field.id, "unsupported optional field selection".to_owned());
            };
            self.types.kinds.insert(field.id, Type::String);
            self.types.calls.insert(id, vec![Cost::Unit]);
            return self.field(id, operand, name.inner(), true);
        }
        let mut kinds: Vec<Type<'s>> = call.args.iter().map(|arg| self.check(arg)).collect();
        let Some(target) = &call.target else {
            return match overloads(&call.func_name) {
                Some(list) => self.resolve(id, call, &call.func_name, list, &kinds, false),
                None => self.error(id, format!("undeclared reference to '{}' (in container '')", call.func_name)),
            };
        };
        if let Some(prefix) = qualified(target)
            && self.scopes.iter().all(|(name, _)| *name != prefix)
        {
            let name = format!("{prefix}.{}", call.func_name);
            let known = overloads(&name).filter(|_| self.patches || !name.starts_with("jsonpatch."));
            if let Some(list) = known {
                return self.resolve(id, call, &name, list, &kinds, false);
            }
        }
        kinds.insert(0, self.check(target));
        match overloads(&call.func_name) {
            Some(list) => self.resolve(id, call, &call.func_name, list, &kinds, true),
            None => self.error(id, format!("undeclared reference to '{}' (in container '')", call.func_name)),
        }
    }

    fn resolve(
        &mut self,
        id: u64,
        call: &CallExpr,
        name: &str,
        list: &'static [Overload],
        kinds: &[Type<'s>],
        member: bool,
    ) -> Type<'s> {
        if matches!(name, operators::LOGICAL_AND | operators::LOGICAL_OR) {
            let mut fits = true;
            for (kind, arg) in kinds.iter().zip(&call.args) {
                if !self.substitutions.assign(kind, &Type::Bool) {
                    let message = format!("expected type 'bool' but found '{}'", self.shown(kind));
                    self.error(arg.id, message);
                    fits = false;
                }
            }
            self.types.calls.insert(id, vec![Cost::Logic]);
            return if fits { Type::Bool } else { Type::Error };
        }
        let mut result: Option<Type<'s>> = None;
        let mut costs = Vec::new();
        for overload in list.iter().filter(|o| o.member == member) {
            let open: Vec<Type<'s>> = (0..overload.open).map(|_| self.substitutions.fresh()).collect();
            let parameters: Vec<Type<'s>> = overload.parameters.iter().map(|p| instance(p, &open)).collect();
            if !self.substitutions.assign_all(kinds, &parameters) {
                continue;
            }
            costs.push(overload.cost);
            let own = self.shown(&instance(&overload.result, &open));
            result = Some(match result {
                None => own,
                Some(before) if before.is_dyn() || before.same(&own) => before,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            let shown: Vec<String> = kinds.iter().map(|k| self.substitutions.apply(k, true).to_string()).collect();
            let signature = match shown.split_first() {
                Some((target, args)) if member => format!("{target}.({})", args.join(", ")),
                _ => format!("({})", shown.join(", ")),
            };
            return self.error(id, format!("found no matching overload for '{name}' applied to '{signature}'"));
        };
        self.types.calls.insert(id, costs);
        result
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Type<'s> {
        let range = self.check(&comprehension.iter_range);
        let accumulator = self.check(&comprehension.accu_init);
        let range = self.shown(&range);
        let depth = self.scopes.len();
        self.scopes.push((comprehension.accu_var.clone(), accumulator.clone()));
        let two = comprehension.iter_var2.is_some();
        let (first, second) = match &range {
            Type::List(element) if two => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Dyn),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Param(_) => {
                self.substitutions.assign(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            Type::Dyn | Type::Error => (Type::Dyn, Type::Dyn),
            kind => {
                let message = format!(
                    "expression of type '{kind}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.error(comprehension.iter_range.id, message);
                (Type::Error, Type::Error)
            }
        };
        self.scopes.push((comprehension.iter_var.clone(), first));
        if let Some(name) = &comprehension.iter_var2 {
            self.scopes.push((name.clone(), second));
        }
        self.check(&comprehension.loop_cond);
        self.expect(&comprehension.loop_cond, &Type::Bool);
        self.check(&comprehension.loop_step);
        self.expect(&comprehension.loop_step, &accumulator);
        self.scopes.truncate(depth + 1);
        let result = self.check(&comprehension.result);
        self.scopes.truncate(depth);
        self.shown(&result)
    }

    fn expect(&mut self, expr: &IdedExpr, kind: &Type<'s>) {
        let own = self.types.of(expr.id);
        if !self.substitutions.assign(kind, &own) {
            let message = format!("expected type '{}' but found '{}'", self.shown(kind), self.shown(&own));
            self.error(expr.id, message);
        }
    }
}

/// A type of a signature, with its open types.
fn instance<'s>(kind: &Type<'static>, open: &[Type<'s>]) -> Type<'s> {
    match kind {
        Type::Param(at) => open.get(*at).cloned().unwrap_or(Type::Dyn),
        Type::List(inner) => Type::list(instance(inner, open)),
        Type::Optional(inner) => Type::optional(instance(inner, open)),
        Type::Map(key, value) => Type::map(instance(key, open), instance(value, open)),
        other => other.clone(),
    }
}

fn literal_type(literal: &LiteralValue) -> Type<'static> {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) => Type::Int,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(_) => Type::String,
        LiteralValue::UInt(_) => Type::Uint,
    }
}

/// `a.b.c`, where an expression is nothing but names.
#[must_use]
pub fn qualified(expr: &IdedExpr) -> Option<String> {
    match &expr.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => Some(format!("{}.{}", qualified(&select.operand)?, select.field)),
        _ => None,
    }
}
