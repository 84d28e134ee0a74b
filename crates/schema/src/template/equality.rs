//! Whether two templates are the same but for the hash label.
//!
//! Most comparisons are of templates that are the same text, or that differ in one field, so texts are
//! compared before anything is parsed: two structs field by field, two lists item by item, down to
//! where the texts differ. Only there the canonical texts decide.

use std::borrow::Cow;

use serde_json::Value;

use super::canonical::canonical;
use super::raw::without_hash_label;
use super::scan::{Object, items};
use super::shape;
use crate::table::{Kind, Shape, Table, Type};

/// Whether two pod templates, in raw JSON, are semantically equal when the label
/// [`HASH_LABEL`](super::HASH_LABEL) does not count. To compare one with many, use [`Template`].
/// (Contract: DEP-03.)
///
/// Absent, null and empty lists and maps are equal, quantities are compared by amount and times by
/// instant; a field that the table does not know counts as well, as JSON. A text that is no JSON
/// equals itself.
#[must_use]
pub fn equal_ignoring_hash(a: &str, b: &str) -> bool {
    Template::new(a).equals_ignoring_hash(&Template::new(b))
}

/// A pod template to be compared with others.
#[derive(Debug, Clone)]
pub struct Template<'a> {
    /// Its JSON without the hash label.
    json: Cow<'a, str>,
}

impl<'a> Template<'a> {
    /// A template from its raw JSON, which is not parsed.
    #[must_use]
    pub fn new(json: &'a str) -> Self {
        Self { json: without_hash_label(json) }
    }

    /// Whether both are semantically equal when the hash label does not count; see
    /// [`equal_ignoring_hash`].
    #[must_use]
    pub fn equals_ignoring_hash(&self, other: &Template<'_>) -> bool {
        equal(&self.json, &other.json, shape())
    }
}

/// Whether two values of a type, both there, are equal.
fn equal(a: &str, b: &str, shape: &Shape) -> bool {
    if a == b {
        return true;
    }
    match &shape.kind {
        Kind::Struct(id) => {
            let ty = Table::get().ty(*id);
            if let (Some(a), Some(b)) = (fields(a, ty), fields(b, ty)) {
                let mut pairs = a.into_iter().zip(b).zip(&ty.fields);
                return pairs.all(|((a, b), field)| equal_fields(a, b, &field.shape, field.pointer));
            }
        }
        Kind::List(inner) => {
            if let (Some(a), Some(b)) = (items(a), items(b)) {
                return a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b, inner));
            }
        }
        _ => {}
    }
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => canonical(&a, shape) == canonical(&b, shape),
        _ => false,
    }
}

/// Whether two fields, either of which may be absent, are equal.
fn equal_fields(a: Option<&str>, b: Option<&str>, shape: &Shape, pointer: bool) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => equal(a, b, shape),
        (None, None) => true,
        // Without a pointer, what is empty is not told from what is absent.
        (Some(there), None) | (None, Some(there)) => {
            !pointer && parse(there).is_some_and(|value| canonical(&value, shape).is_empty())
        }
    }
}

/// The texts of a struct's fields in the table's order; a null one is absent. `None` where that does not
/// say everything: for what is no object, has a field that the table does not know, or has one twice.
fn fields<'t>(text: &'t str, ty: &Type) -> Option<Vec<Option<&'t str>>> {
    let mut object = Object::open(text, 0)?;
    let mut out = vec![None; ty.fields.len()];
    while let Some(member) = object.next()? {
        let slot = &mut out[ty.index(&member.key)?];
        let value = text.get(member.value)?;
        if slot.is_some() {
            return None;
        }
        *slot = Some(value);
    }
    for slot in &mut out {
        *slot = slot.filter(|value| *value != "null");
    }
    Some(out)
}

fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests;
