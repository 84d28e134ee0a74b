//! What is looked at once an expression is known to fit together: what functions take as it stands, formats and their
//! arguments, and the parts of lists and maps.

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use super::Checker;
use crate::cel::eval::literal_value;
use crate::cel::library;
use crate::cel::library::format::{self, BROKEN, ENDED, Part};
use crate::cel::types::Type;

impl Checker<'_> {
    /// What is wrong with what an expression says as it stands. What is `formatted` may be a list of this and that.
    pub(super) fn literals(&mut self, expr: &IdedExpr, formatted: bool) {
        match &expr.expr {
            Expr::Call(call) => {
                self.argument(call);
                self.format(expr.id, call);
                let formatted = formatted || call.func_name == "format";
                call.target.iter().map(|t| &**t).chain(&call.args).for_each(|e| self.literals(e, formatted));
            }
            Expr::Select(select) => self.literals(&select.operand, formatted),
            Expr::List(list) => {
                if !formatted {
                    let elements = list.elements.iter().enumerate();
                    let parts = elements.map(|(at, e)| (e.id, list.optional_indices.contains(&at)));
                    self.alike(parts, true);
                }
                list.elements.iter().for_each(|e| self.literals(e, formatted));
            }
            Expr::Map(map) => {
                let entries = || {
                    map.entries.iter().filter_map(|entry| match &entry.expr {
                        EntryExpr::MapEntry(entry) => Some(entry),
                        EntryExpr::StructField(_) => None,
                    })
                };
                if !formatted {
                    self.alike(entries().map(|entry| (entry.key.id, false)), false);
                    self.alike(entries().map(|entry| (entry.value.id, entry.optional)), false);
                }
                for entry in entries() {
                    self.literals(&entry.key, formatted);
                    self.literals(&entry.value, formatted);
                }
            }
            Expr::Struct(object) => {
                for entry in &object.entries {
                    if let EntryExpr::StructField(field) = &entry.expr {
                        self.literals(&field.value, formatted);
                    }
                }
            }
            Expr::Comprehension(c) => {
                [&c.iter_range, &c.accu_init, &c.loop_cond, &c.loop_step, &c.result]
                    .into_iter()
                    .for_each(|e| self.literals(e, formatted));
            }
            _ => {}
        }
    }

    /// Checks what a function takes first, where it is said as it stands.
    fn argument(&mut self, call: &CallExpr) {
        let Some((id, literal)) = call.args.first().and_then(|arg| match &arg.expr {
            Expr::Literal(literal) => Some((arg.id, literal)),
            _ => None,
        }) else {
            return;
        };
        let name = call.func_name.as_str();
        let wrong = match (name, literal) {
            ("duration" | "timestamp", literal) if call.target.is_none() => {
                library::call(name, &[literal_value(literal)]).is_err()
            }
            ("matches", LiteralValue::String(text)) => crate::custom::pattern::check(text.inner()).is_err(),
            _ => false,
        };
        if wrong {
            self.errors.push((id, format!("invalid {name} argument")));
        }
    }

    /// Checks a format and a list of arguments that are both said as they stand.
    fn format(&mut self, id: u64, call: &CallExpr) {
        let (Some(Expr::Literal(LiteralValue::String(text))), "format", [list]) =
            (call.target.as_ref().map(|target| &target.expr), call.func_name.as_str(), call.args.as_slice())
        else {
            return;
        };
        let Expr::List(list) = &list.expr else { return };
        let mut asked = 0;
        for part in format::parts(text.inner()) {
            let clause = match part {
                Part::Text(_) => continue,
                Part::End => return self.errors.push((id, ENDED.to_owned())),
                Part::Clause(clause) => clause,
            };
            let Some(arg) = list.elements.get(asked) else { return self.errors.push((id, format::no_argument(asked))) };
            asked += 1;
            match clause {
                Err(why) => return self.errors.push((id, why)),
                Ok(clause) => {
                    if let Some((id, kind)) = self.unfit(clause.verb, arg) {
                        let why = format!("{BROKEN}{}", format::refused(clause.verb, &kind));
                        return self.errors.push((id, why));
                    }
                }
            }
        }
        let given = list.elements.len();
        if given > asked {
            let why = format!("too many arguments supplied to string.format (expected {asked}, got {given})");
            self.errors.push((id, why));
        }
    }

    /// The part of an argument that a clause cannot show, and its type.
    fn unfit(&self, verb: char, arg: &IdedExpr) -> Option<(u64, String)> {
        let kind = self.substitutions.apply(&self.types.of(arg.id), true);
        let fits = kind.is_dyn()
            || match verb {
                'd' | 'o' => matches!(kind, Type::Int | Type::Uint),
                'f' | 'e' => matches!(kind, Type::Double | Type::String),
                'b' => matches!(kind, Type::Int | Type::Uint | Type::Bool),
                'x' | 'X' => matches!(kind, Type::Int | Type::Uint | Type::String | Type::Bytes),
                _ => !matches!(kind, Type::Opaque(_) | Type::Optional(_) | Type::Object(_) | Type::Made(_)),
            };
        if !fits {
            let name = kind.name();
            return Some((arg.id, name.split('(').next().unwrap_or_default().to_owned()));
        }
        if verb != 's' {
            return None;
        }
        match &arg.expr {
            Expr::List(list) => list.elements.iter().find_map(|element| self.unfit(verb, element)),
            Expr::Map(map) => map.entries.iter().find_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => self.unfit(verb, &entry.key).or_else(|| self.unfit(verb, &entry.value)),
                EntryExpr::StructField(_) => None,
            }),
            _ => None,
        }
    }

    /// Tells what is of another sort than the first of its list or map: what is known only later is of its own sort.
    /// `once` says that the first such is enough.
    fn alike(&mut self, parts: impl Iterator<Item = (u64, bool)>, once: bool) {
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
