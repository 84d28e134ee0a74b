//! What an expression may cost at worst, by the sizes that schemas allow.
//!
//! Kubernetes refuses a definition whose rules may cost too much, so the estimates are those of cel-go and of the
//! libraries of Kubernetes, call by call: a rule that the one takes the other has to take.

use std::collections::HashMap;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};

use super::Bounds;
use super::check::Types;
use super::functions::Cost;
use super::schema::most_elements;
use super::types::Type;
use crate::custom::structural::{Additional, Structural};

/// Reading a text costs this much for each character.
const READ: f64 = 0.1;
/// A regular expression costs this much for each of its characters.
const PATTERN: f64 = 0.25;

/// The least and the most that something may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Estimate {
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
}

/// The least and the most that something may hold.
type Size = Estimate;

impl Estimate {
    const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    const fn fixed(amount: u64) -> Self {
        Self { min: amount, max: amount }
    }

    fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn by(self, factor: f64) -> Self {
        Self { min: scaled(self.min, factor), max: scaled(self.max, factor) }
    }

    fn or(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// A number times a factor, rounded up.
#[must_use]
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
pub fn scaled(number: u64, factor: f64) -> u64 {
    (number as f64 * factor).ceil() as u64
}

/// Estimates a checked tree.
#[must_use]
pub fn estimate(tree: &IdedExpr, types: &Types<'_>) -> Estimate {
    let mut coster =
        Coster { types, paths: HashMap::new(), sizes: HashMap::new(), entries: HashMap::new(), scopes: Vec::new() };
    coster.cost(tree)
}

/// The sizes of the keys and values of a list or map that an expression makes.
#[derive(Clone, Copy)]
struct Entries {
    is_list: bool,
    key: Size,
    value: Size,
}

/// A variable of a comprehension.
#[derive(Clone)]
struct Local {
    name: String,
    path: Vec<String>,
    size: Option<Size>,
    entries: Option<Entries>,
}

struct Coster<'t, 's> {
    types: &'t Types<'s>,
    /// Where in the variables a node's value is.
    paths: HashMap<u64, Vec<String>>,
    sizes: HashMap<u64, Size>,
    entries: HashMap<u64, Entries>,
    scopes: Vec<Local>,
}

impl Coster<'_, '_> {
    fn cost(&mut self, expr: &IdedExpr) -> Estimate {
        match &expr.expr {
            Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => Estimate::default(),
            Expr::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |local| local.path.clone());
                self.paths.insert(expr.id, path);
                Estimate::fixed(1)
            }
            Expr::Select(select) => {
                let operand = self.cost(&select.operand);
                if select.test {
                    return operand;
                }
                self.step(expr.id, &select.operand, &select.field);
                let counts = matches!(
                    self.types.of(select.operand.id),
                    Type::Map(..) | Type::Object(_) | Type::Opaque(_) | Type::Param(_)
                );
                if counts { operand.plus(Estimate::fixed(1)) } else { operand }
            }
            Expr::Call(call) => self.call(expr, call),
            Expr::List(list) => {
                let mut cost = Estimate::fixed(10);
                let mut size = Size { min: if list.elements.is_empty() { 0 } else { u64::MAX }, max: 0 };
                for element in &list.elements {
                    cost = cost.plus(self.cost(element));
                    size = size.or(self.size_or_unknown(element));
                }
                self.entries.insert(expr.id, Entries { is_list: true, key: Size::fixed(1), value: size });
                cost
            }
            Expr::Map(map) => {
                let mut cost = Estimate::fixed(30);
                let none = Size { min: if map.entries.is_empty() { 0 } else { u64::MAX }, max: 0 };
                let (mut keys, mut values) = (none, none);
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    cost = cost.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    keys = keys.or(self.size_or_unknown(&entry.key));
                    values = values.or(self.size_or_unknown(&entry.value));
                }
                self.entries.insert(expr.id, Entries { is_list: false, key: keys, value: values });
                cost
            }
            Expr::Comprehension(comprehension) => self.comprehension(expr, comprehension),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.scopes.iter().rev().find(|local| local.name == name)
    }

    fn path(&self, expr: &IdedExpr) -> Vec<String> {
        if let Expr::Ident(name) = &expr.expr
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    fn step(&mut self, id: u64, from: &IdedExpr, step: &str) {
        let mut path = self.path(from);
        path.push(step.to_owned());
        self.paths.insert(id, path);
    }

    /// The size of what is at a path in the variables.
    fn declared(&self, path: &[String]) -> Option<Size> {
        let (name, steps) = path.split_first()?;
        let variables = &self.types.variables;
        let by_schema = |bounds: &Option<Bounds<'_>>| matches!(bounds, Some(Bounds::Schema { .. }));
        // The name of a type is no variable; the reference measures the first variable with a schema in its place.
        let variable = variables.iter().find(|v| v.name == name);
        let variable = variable.or_else(|| variables.iter().find(|v| by_schema(&v.bounds)))?;
        let max = match variable.bounds? {
            Bounds::Schema { schema, root } => most_at(schema, root, steps),
            Bounds::Steps(most) => most(steps),
        };
        max.map(|max| Size { min: 0, max })
    }

    fn size(&mut self, expr: &IdedExpr) -> Option<Size> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        let literal = match &expr.expr {
            Expr::Literal(LiteralValue::String(text)) => Some(text.inner().chars().count()),
            Expr::Literal(LiteralValue::Bytes(bytes)) => Some(bytes.inner().len()),
            Expr::Literal(_) => Some(1),
            Expr::List(list) => Some(list.elements.len()),
            Expr::Map(map) => Some(map.entries.len()),
            _ => None,
        };
        if let Some(literal) = literal {
            return Some(Size::fixed(literal as u64));
        }
        let path = self.path(expr);
        if let Some(size) = self.declared(&path) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(&self.types.of(expr.id)) {
            return Some(Size::fixed(1));
        }
        match &expr.expr {
            Expr::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, expr: &IdedExpr) -> Size {
        self.size(expr).unwrap_or(Size::UNKNOWN)
    }

    fn entries_of(&self, expr: &IdedExpr) -> Option<Entries> {
        if let Some(entries) = self.entries.get(&expr.id) {
            return Some(*entries);
        }
        match &expr.expr {
            Expr::Ident(name) => self.local(name).and_then(|local| local.entries),
            _ => None,
        }
    }

    /// How large the elements of a list may be: known only of one that is in a variable.
    fn size_of_elements(&self, list: &IdedExpr) -> Size {
        let mut path = self.path(list);
        if path.is_empty() {
            return Size::UNKNOWN;
        }
        path.push("@items".to_owned());
        self.declared(&path).unwrap_or(Size::UNKNOWN)
    }

    /// An expression with a name for a part of it, which is evaluated where it is named.
    fn binding(&mut self, expr: &IdedExpr, binding: &ComprehensionExpr) -> Estimate {
        let cost = self.cost(&binding.iter_range).plus(self.cost(&binding.accu_init));
        let depth = self.scopes.len();
        let bound = Local {
            name: binding.accu_var.clone(),
            path: self.path(&binding.accu_init),
            size: self.size(&binding.accu_init),
            entries: self.entries_of(&binding.accu_init),
        };
        self.scopes.push(bound);
        let cost = cost.plus(self.cost(&binding.result));
        let (size, entries) = (self.size(&binding.result), self.entries_of(&binding.result));
        self.scopes.truncate(depth);
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
        if let Some(entries) = entries {
            self.entries.insert(expr.id, entries);
        }
        cost
    }

    fn comprehension(&mut self, expr: &IdedExpr, comprehension: &ComprehensionExpr) -> Estimate {
        let c = comprehension;
        if is_binding(c) {
            return self.binding(expr, c);
        }
        let mut sum = self.cost(&c.iter_range).plus(self.cost(&c.accu_init));
        let depth = self.scopes.len();
        let size = self.size(&c.accu_init);
        self.scopes.push(Local {
            name: c.accu_var.clone(),
            path: self.path(&c.accu_init),
            size,
            entries: self.entries_of(&c.accu_init),
        });
        let range = self.path(&c.iter_range);
        let entries = self.entries_of(&c.iter_range);
        let is_list = entries.map_or_else(|| matches!(self.types.of(c.iter_range.id), Type::List(_)), |e| e.is_list);
        let below = |step: &str| {
            let mut path = range.clone();
            path.push(step.to_owned());
            path
        };
        let (key, value) = (entries.map(|e| e.key), entries.map(|e| e.value));
        let keys = Local {
            name: c.iter_var.clone(),
            path: below(if is_list { "@indices" } else { "@keys" }),
            size: key,
            entries: None,
        };
        let values = below(if is_list { "@items" } else { "@values" });
        match &c.iter_var2 {
            Some(second) => {
                self.scopes.push(keys);
                self.scopes.push(Local { name: second.clone(), path: values, size: value, entries: None });
            }
            None if is_list => {
                self.scopes.push(Local { name: c.iter_var.clone(), path: values, size: value, entries: None });
            }
            None => self.scopes.push(keys),
        }
        let each = self.cost(&c.loop_cond).plus(self.cost(&c.loop_step));
        self.scopes.truncate(depth + 1);
        sum = sum.plus(self.cost(&c.result));
        self.scopes.truncate(depth);
        let count = self.size_or_unknown(&c.iter_range);
        sum = sum.plus(count.times(each));
        match &c.accu_init.expr {
            Expr::Literal(_) => {
                if let Some(size) = self.size(&c.accu_init) {
                    self.sizes.insert(expr.id, size);
                }
            }
            Expr::List(_) | Expr::Map(_) => {
                self.sizes.insert(expr.id, count);
                if let Some(entries) = self.entries_of(&c.loop_step) {
                    self.entries.insert(expr.id, entries);
                }
            }
            _ => {}
        }
        sum
    }

    fn call(&mut self, expr: &IdedExpr, call: &CallExpr) -> Estimate {
        let args = &call.args;
        let costs: Vec<Estimate> = args.iter().map(|arg| self.cost(arg)).collect();
        if call.func_name == "dyn"
            && let [arg] = args.as_slice()
        {
            if let Some(size) = self.size(arg) {
                self.sizes.insert(expr.id, size);
            }
            return costs[0].plus(Estimate::fixed(1));
        }
        // A target that is only the first part of a function's name costs nothing.
        let target = call.target.as_deref().filter(|target| !matches!(self.types.of(target.id), Type::Error));
        let before = target.map(|target| self.cost(target)).unwrap_or_default();
        let rules = self.types.calls.get(&expr.id).cloned().unwrap_or_default();
        let mut total = Estimate { min: u64::MAX, max: 0 };
        let mut result: Option<Size> = None;
        for rule in rules {
            let (cost, size) = self.rule(rule, expr, target, args, &costs);
            total = total.or(cost);
            if let Some(size) = size {
                result = Some(result.map_or(size, |known: Size| known.or(size)));
            }
            if matches!(rule, Cost::IndexList | Cost::IndexMap) {
                let values = if rule == Cost::IndexList { "@items" } else { "@values" };
                result = self.entries_of(&args[0]).map(|entries| entries.value);
                self.step(expr.id, &args[0], values);
            }
            if result.is_none() {
                result = self.size(expr);
            }
        }
        if let Some(result) = result {
            self.sizes.insert(expr.id, result);
        }
        if total.min > total.max { before } else { before.plus(total) }
    }

    fn rule(
        &mut self,
        rule: Cost,
        expr: &IdedExpr,
        target: Option<&IdedExpr>,
        args: &[IdedExpr],
        costs: &[Estimate],
    ) -> (Estimate, Option<Size>) {
        let sum = costs.iter().fold(Estimate::default(), |sum, cost| sum.plus(*cost));
        let subject = target.or(args.first());
        let mut size_of = |expr: Option<&IdedExpr>| expr.map_or(Size::UNKNOWN, |expr| self.size_or_unknown(expr));
        let own = size_of(subject);
        let arg = |at: usize| if target.is_some() { args.get(at) } else { args.get(at + 1) };
        let (first, second) = (size_of(arg(0)), size_of(arg(1)));
        let argument = size_of(args.first());
        let read = |size: Size| size.by(READ);
        let (cost, size) = match rule {
            Cost::Unit | Cost::IndexList | Cost::IndexMap => (Estimate::fixed(1), None),
            Cost::Authorization => (Estimate::fixed(350_000), None),
            Cost::Same => (Estimate::fixed(1), Some(own)),
            Cost::Logic => {
                let mut sum = Estimate { min: costs.first().map_or(0, |cost| cost.min), max: 0 };
                sum.max = costs.iter().fold(0, |sum, cost| sum.saturating_add(cost.max));
                return (sum, None);
            }
            Cost::Choice => {
                let [condition, yes, no] = costs else { return (sum, None) };
                if let [_, one, other] = args
                    && let (Some(one), Some(other)) = (self.entries_of(one), self.entries_of(other))
                {
                    let entries =
                        Entries { is_list: one.is_list, key: one.key.or(other.key), value: one.value.or(other.value) };
                    self.entries.insert(expr.id, entries);
                }
                return (condition.plus(yes.or(*no)), Some(first.or(second)));
            }
            Cost::In => (first, None),
            Cost::Compare => return (self.compared(expr, args, own, first).plus(sum), None),
            Cost::AddText | Cost::AddList => {
                if let [one, other] = args
                    && let (Some(one), Some(other)) = (self.entries_of(one), self.entries_of(other))
                {
                    let entries =
                        Entries { is_list: one.is_list, key: one.key.or(other.key), value: one.value.or(other.value) };
                    self.entries.insert(expr.id, entries);
                }
                let size = own.plus(first);
                (if rule == Cost::AddList { Estimate::fixed(1) } else { read(size) }, Some(size))
            }
            Cost::Argument => (read(argument), None),
            Cost::ArgumentSized => (read(argument), Some(argument)),
            Cost::ArgumentTwice => (argument.by(2.0 * READ), None),
            Cost::ToBytes => (read(argument), Some(Size { min: argument.min, max: argument.max.saturating_mul(4) })),
            Cost::ToText => (read(argument), Some(Size { min: argument.min / 4, max: argument.max })),
            Cost::Target => (read(own), Some(own)),
            Cost::TargetOnly => (read(own), None),
            Cost::Contains => (read(own).times(read(first)), None),
            Cost::Match | Cost::Find => {
                let tries = read(own.plus(Size::fixed(1))).times(first.by(PATTERN));
                (tries, (rule == Cost::Find).then_some(Size { min: 0, max: own.max }))
            }
            Cost::Elements => {
                let mut each = Estimate::fixed(1);
                if let Some(target) = target
                    && let Type::List(element) = self.types.of(target.id)
                    && matches!(*element, Type::String | Type::Bytes)
                {
                    each = each.plus(read(self.size_of_elements(target)));
                }
                (own.times(each), None)
            }
            Cost::Copied => new_list(own, 1.0),
            Cost::Sliced => {
                let (from, to) = (number(args.first()).unwrap_or(0), number(args.get(1)).unwrap_or(own.max));
                new_list(Size::fixed(to.wrapping_sub(from)), 1.0)
            }
            Cost::Counted => new_list(Size::fixed(number(args.first()).unwrap_or(u64::MAX)), 1.0),
            Cost::Flattened => {
                let depth = args.first().map_or(Some(1), |depth| number(Some(depth))).unwrap_or(u64::MAX);
                (new_list(own.times(Size::fixed(depth)), 1.0).0, Some(own))
            }
            Cost::Distinct => new_list(own.times(own), 2.0),
            Cost::Sorted | Cost::SortedBy => {
                let (keys, size) = if rule == Cost::Sorted { (target, own) } else { (args.first(), argument) };
                let kind = keys.map_or(Type::Dyn, |keys| self.types.of(keys.id));
                let (least, most) = match kind {
                    Type::List(kind) if matches!(*kind, Type::String | Type::Bytes) => (2.0 + READ, 2.0 + READ),
                    Type::List(kind) if !kind.is_dyn() => (2.0, 2.0),
                    _ => (2.0, 2.0 + READ),
                };
                let size = size.times(size);
                (Estimate { min: new_list(size, least).0.min, max: new_list(size, most).0.max }, Some(size))
            }
            Cost::Replace => (own.by(2.0 * READ), Some(replaced(own, first, second))),
            Cost::Split => {
                let bound = args.get(1).and_then(|arg| match &arg.expr {
                    Expr::Literal(LiteralValue::Int(bound)) => u64::try_from(*bound.inner()).ok(),
                    _ => None,
                });
                (own.by(2.0 * READ), Some(Size { min: 0, max: bound.unwrap_or(own.max) }))
            }
            Cost::Join => {
                let mut size = Size::default();
                if let Some(target) = target {
                    size = own.times(self.size_of_elements(target));
                }
                if !args.is_empty() {
                    let gaps = Size { min: own.min.saturating_sub(1), max: own.max.saturating_sub(1) };
                    size = size.plus(first.times(gaps));
                }
                (read(size), Some(size))
            }
            Cost::ContainsIp | Cost::ContainsCidr => {
                let address = Size { min: 4, max: 16 };
                let mut cost = read(address.plus(address));
                if rule == Cost::ContainsCidr {
                    cost = cost.plus(read(address)).plus(Estimate::fixed(1));
                }
                if args.first().is_some_and(|arg| matches!(self.types.of(arg.id), Type::String | Type::Dyn)) {
                    cost = cost.plus(read(argument));
                }
                (cost, None)
            }
            Cost::Validate => (read(argument).by(128.0 * PATTERN), None),
            Cost::Sets => (own.times(first).plus(Estimate::fixed(1)), None),
            Cost::SetsTwice => (own.times(first).by(2.0).plus(Estimate::fixed(1)), None),
        };
        (cost.plus(sum), size)
    }

    /// What comparing two values costs.
    fn compared(&mut self, expr: &IdedExpr, args: &[IdedExpr], one: Size, other: Size) -> Estimate {
        let is_equality = matches!(&expr.expr, Expr::Call(call) if call.func_name == operators::EQUALS);
        if is_equality
            && let [left, right] = args
            && let Type::Opaque(name) = self.types.of(left.id)
            && self.types.of(right.id).same(&Type::Opaque(name))
        {
            match name {
                "kubernetes.NamedFormat" => return Estimate { min: 1, max: 64 }.by(READ),
                "kubernetes.URL" => return Estimate { min: 1, max: one.max.max(other.max) }.by(READ),
                _ => return Estimate::fixed(1),
            }
        }
        let most = one.max.min(other.max);
        Estimate { min: u64::from(most > 0), max: most }.by(READ)
    }
}

/// Whether a comprehension only gives a name to a part of its result.
fn is_binding(comprehension: &ComprehensionExpr) -> bool {
    let never = matches!(&comprehension.loop_cond.expr, Expr::Literal(LiteralValue::Boolean(more)) if !*more.inner());
    let nothing = matches!(&comprehension.iter_range.expr, Expr::List(list) if list.elements.is_empty());
    never && nothing && comprehension.accu_var != super::parse::ACCUMULATOR
}

/// Whether all values of a type are of one size.
fn is_scalar(kind: &Type<'_>) -> bool {
    match kind {
        Type::Optional(kind) => is_scalar(kind),
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        _ => false,
    }
}

/// A number that stands in an expression; one below zero counts as zero.
fn number(expr: Option<&IdedExpr>) -> Option<u64> {
    match &expr?.expr {
        Expr::Literal(LiteralValue::Int(number)) => Some(u64::try_from(*number.inner()).unwrap_or(0)),
        _ => None,
    }
}

/// What it costs to make a list, at so much for each element, and its size.
fn new_list(size: Size, each: f64) -> (Estimate, Option<Size>) {
    (size.by(each).plus(Estimate::fixed(1 + 10)), Some(size))
}

/// How long a text may be after a replacement.
fn replaced(text: Size, found: Size, with: Size) -> Size {
    let (mut count, mut kept) = (Size::default(), Size::default());
    if found.min == 0 {
        count.max = text.max.saturating_add(1);
        kept.max = text.max;
    } else if with.max <= found.min {
        kept.max = text.max;
    } else {
        count.max = text.max.div_ceil(found.min);
    }
    if found.max == 0 {
        count.min = text.min.saturating_add(1);
        kept.min = text.min;
    } else if found.max <= with.min {
        kept.min = text.min;
    } else {
        count.min = text.min.div_ceil(found.max);
    }
    count.times(with).plus(kept)
}

/// How many characters, elements or members the value at a path may have.
fn most_at(schema: &Structural, root: bool, steps: &[String]) -> Option<u64> {
    let Some((step, rest)) = steps.split_first() else { return Some(most_elements(schema)) };
    match step.as_str() {
        "@items" => most_at(schema.items.as_deref()?, false, rest),
        "@values" => most_at(schema.additional()?, false, rest),
        // The keys of a map are texts of any length.
        "@keys" => matches!(schema.additional, Additional::Schema(_)).then_some(0),
        "apiVersion" | "kind" if root && rest.is_empty() => Some(super::LARGEST_REQUEST - 2),
        "metadata" if root => match rest {
            [] => Some(0),
            [name] if matches!(name.as_str(), "name" | "generateName") => Some(super::LARGEST_REQUEST - 2),
            _ => None,
        },
        name => {
            let property = schema.property(&super::schema::unescape(name)?)?;
            super::schema::type_of(property, property.embedded)?;
            most_at(property, property.embedded, rest)
        }
    }
}
