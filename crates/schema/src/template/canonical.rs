//! One text for all templates that are semantically equal.
//!
//! Equality is that of `apiequality.Semantic.DeepEqual` on the Go types: an absent, a null and an empty
//! list or map are the same, so are an absent scalar and its zero value where Go holds no pointer;
//! quantities are equal by amount and times by instant. A pointer to something empty is not the same as
//! none. What the table does not know is kept as JSON, with sorted keys and without nulls.

use std::fmt::Write as _;

use serde_json::Value;

use super::instant::instant;
use crate::quantity::Quantity;
use crate::table::{Kind, Shape, Table, Type};

/// The canonical text of a value of a type. It is for comparing and hashing only.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Canonical {
    text: String,
    written: Written,
}

impl Canonical {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is the type's empty value, which a field without a pointer does not tell from none.
    pub(super) fn is_empty(&self) -> bool {
        self.written == Empty
    }
}

/// Brings a value of a type into its canonical form.
pub(super) fn canonical(value: &Value, shape: &Shape) -> Canonical {
    let mut writer = Writer { out: String::new(), table: Table::get() };
    let written = writer.value(value, shape);
    Canonical { text: writer.out, written }
}

struct Writer {
    out: String,
    table: &'static Table,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// The type's empty value.
    Empty,
    /// Anything else.
    Something,
}

use Written::{Empty, Something};

impl Writer {
    fn value(&mut self, value: &Value, shape: &Shape) -> Written {
        match (&shape.kind, value) {
            (Kind::Struct(id), Value::Object(_) | Value::Null) => self.structure(value, self.table.ty(*id)),
            (Kind::List(inner), Value::Array(items)) => {
                self.out.push('[');
                for item in items {
                    self.value(item, inner);
                    self.out.push(',');
                }
                self.out.push(']');
                if items.is_empty() { Empty } else { Something }
            }
            (Kind::List(_), Value::Null) => self.empty("[]"),
            (Kind::Map(inner), Value::Object(_)) => {
                self.out.push('{');
                let entries = sorted(value);
                for (key, value) in &entries {
                    self.json_string(key);
                    self.out.push(':');
                    self.value(value, inner);
                    self.out.push(',');
                }
                self.out.push('}');
                if entries.is_empty() { Empty } else { Something }
            }
            (Kind::Map(_), Value::Null) => self.empty("{}"),
            (Kind::String, Value::String(text)) => {
                self.json_string(text);
                if text.is_empty() { Empty } else { Something }
            }
            (Kind::String, Value::Null) => self.empty("\"\""),
            (Kind::Int32 | Kind::Int64 | Kind::IntOrString, Value::Number(number)) => {
                // Writing into a string does not fail.
                let _ = write!(self.out, "{number}");
                if number.as_i64() == Some(0) { Empty } else { Something }
            }
            (Kind::Int32 | Kind::Int64 | Kind::IntOrString, Value::Null) => self.empty("0"),
            (Kind::Bool, Value::Bool(true)) => self.something("true"),
            (Kind::Bool, Value::Bool(false) | Value::Null) => self.empty("false"),
            (Kind::Quantity, Value::String(text)) => match Quantity::parse(text) {
                Ok(quantity) => {
                    self.out.push_str(&quantity.amount_text());
                    if quantity.is_zero() { Empty } else { Something }
                }
                Err(_) => self.json(value),
            },
            (Kind::Quantity, Value::Null) => self.empty("0"),
            (Kind::Time | Kind::MicroTime, Value::String(text)) => match instant(text) {
                Some((seconds, fraction)) => {
                    let _ = write!(self.out, "{seconds}{}", fraction.trim_end_matches('0'));
                    Something
                }
                None => self.json(value),
            },
            (Kind::Time | Kind::MicroTime, Value::Null) => self.empty("null"),
            _ => self.json(value),
        }
    }

    /// Known fields in Go's order, then those that are not known.
    fn structure(&mut self, value: &Value, ty: &Type) -> Written {
        let start = self.out.len();
        self.out.push('{');
        for field in &ty.fields {
            let Some(value) = value.get(field.json).filter(|v| !v.is_null()) else { continue };
            let before = self.out.len();
            self.out.push_str(field.json);
            self.out.push(':');
            if self.value(value, &field.shape) == Empty && !field.pointer {
                self.out.truncate(before);
            } else {
                self.out.push(',');
            }
        }
        for (key, value) in sorted(value) {
            if !value.is_null() && ty.index(key).is_none() {
                self.json_string(key);
                self.out.push(':');
                self.json(value);
                self.out.push(',');
            }
        }
        self.out.push('}');
        if self.out.len() == start + 2 { Empty } else { Something }
    }

    /// Anything, as JSON.
    fn json(&mut self, value: &Value) -> Written {
        match value {
            Value::Object(_) => {
                self.out.push('{');
                for (key, value) in sorted(value) {
                    if !value.is_null() {
                        self.json_string(key);
                        self.out.push(':');
                        self.json(value);
                        self.out.push(',');
                    }
                }
                self.out.push('}');
            }
            Value::Array(items) => {
                self.out.push('[');
                for item in items {
                    self.json(item);
                    self.out.push(',');
                }
                self.out.push(']');
            }
            Value::String(text) => self.json_string(text),
            scalar => {
                let _ = write!(self.out, "{scalar}");
            }
        }
        Something
    }

    /// A string in quotes, with what would end it early escaped.
    fn json_string(&mut self, text: &str) {
        self.out.push('"');
        let mut rest = text;
        while let Some(at) = rest.find(['"', '\\']) {
            self.out.push_str(&rest[..at]);
            self.out.push('\\');
            self.out.push_str(&rest[at..=at]);
            rest = &rest[at + 1..];
        }
        self.out.push_str(rest);
        self.out.push('"');
    }

    fn empty(&mut self, text: &str) -> Written {
        self.out.push_str(text);
        Empty
    }

    fn something(&mut self, text: &str) -> Written {
        self.out.push_str(text);
        Something
    }
}

/// The entries of an object by key, whatever order the tree keeps; none for anything else.
fn sorted(value: &Value) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = value.as_object().into_iter().flatten().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}
