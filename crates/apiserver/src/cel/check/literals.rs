//! What is looked at once an expression is known to fit together: texts that functions take as they are, and the parts of
//! lists and maps.

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};

use super::Checker;
use crate::cel::types::Type;

impl Checker<'_> {
    /// What is wrong with the texts that an expression hands to functions as they are.
    pub(super) fn literals(&mut self, expr: &IdedExpr) {
        match &expr.expr {
            Expr::Call(call) => {
                let text = call.args.last().and_then(|arg| match &arg.expr {
                    Expr::Literal(LiteralValue::String(text)) => Some((arg.id, text.inner())),
                    _ => None,
                });
                if let Some((id, text)) = text {
                    let wrong = match call.func_name.as_str() {
                        "duration" if call.target.is_none() => {
                            crate::cel::duration::parse(text).is_err().then_some("invalid duration argument")
                        }
                        "timestamp" if call.target.is_none() => {
                            crate::cel::time::parse(text).is_none().then_some("invalid timestamp argument")
                        }
                        "matches" => crate::custom::pattern::check(text).is_err().then_some("invalid matches argument"),
                        _ => None,
                    };
                    if let Some(wrong) = wrong {
                        self.error(id, wrong.to_owned());
                    }
                }
                let formats = usize::from(call.func_name == "format");
                self.formatted += formats;
                call.target.iter().map(|t| &**t).chain(&call.args).for_each(|e| self.literals(e));
                self.formatted -= formats;
            }
            Expr::Select(select) => self.literals(&select.operand),
            Expr::List(list) => {
                let elements = list.elements.iter().enumerate();
                let parts = elements.map(|(at, e)| (e.id, list.optional_indices.contains(&at)));
                self.alike(parts, true);
                list.elements.iter().for_each(|e| self.literals(e));
            }
            Expr::Map(map) => {
                let entries = || {
                    map.entries.iter().filter_map(|entry| match &entry.expr {
                        EntryExpr::MapEntry(entry) => Some(entry),
                        EntryExpr::StructField(_) => None,
                    })
                };
                self.alike(entries().map(|entry| (entry.key.id, false)), false);
                self.alike(entries().map(|entry| (entry.value.id, entry.optional)), false);
                for entry in entries() {
                    self.literals(&entry.key);
                    self.literals(&entry.value);
                }
            }
            Expr::Struct(object) => {
                for entry in &object.entries {
                    if let EntryExpr::StructField(field) = &entry.expr {
                        self.literals(&field.value);
                    }
                }
            }
            Expr::Comprehension(c) => {
                [&c.iter_range, &c.accu_init, &c.loop_cond, &c.loop_step, &c.result]
                    .into_iter()
                    .for_each(|e| self.literals(e));
            }
            _ => {}
        }
    }

    /// Tells what is of another sort than the first of its list or map: what is known only later is of its own sort.
    /// `once` says that the first such is enough.
    fn alike(&mut self, parts: impl Iterator<Item = (u64, bool)>, once: bool) {
        if self.formatted > 0 {
            return;
        }
        let mut first: Option<Type<'_>> = None;
        for (id, optional) in parts {
            let kind = self.substitutions.apply(&self.types.of(id), true);
            let kind = match kind {
                Type::Optional(inner) if optional => (*inner).clone(),
                kind => kind,
            };
            let Some(first) = &first else {
                first = Some(kind);
                continue;
            };
            if !first.is_like(&kind) {
                let message = format!("expected type '{first}' but found '{kind}'");
                self.errors.push((id, message));
                if once {
                    return;
                }
            }
        }
    }
}
