//! What a value was before an update, as far as that can be told: what was wrong with it and has not changed is let be.

use muster_tree::Value;

use super::lists::Before;
use super::structural::{ListType, Structural};

/// What a value was, and its schema.
#[derive(Debug, Clone, Copy)]
pub struct Was<'a> {
    value: &'a Value,
    schema: &'a Structural,
}

impl<'a> Was<'a> {
    /// What a value of this schema was.
    #[must_use]
    pub fn new(value: &'a Value, schema: &'a Structural) -> Self {
        Self { value, schema }
    }

    /// What a member was. It cannot be told of one that the schema does not have.
    #[must_use]
    pub fn member(self, name: &str) -> Option<Self> {
        let schema = self.schema.property(name).or_else(|| self.schema.additional())?;
        Some(Self { value: self.value.get(name)?, schema })
    }

    /// What the elements were.
    #[must_use]
    pub fn elements(self) -> Elements<'a> {
        Elements { before: Before::new(Some(self.value), &self.schema.list_type), schema: self.schema.items.as_deref() }
    }

    /// Whether it still is the same: the elements of a list that is a map may stand in another order.
    #[must_use]
    pub fn is(self, now: &Value) -> bool {
        match (self.value, now) {
            (Value::Array(old), Value::Array(new)) if matches!(self.schema.list_type, ListType::Map(_)) => {
                let elements = self.elements();
                old.len() == new.len() && new.iter().all(|now| elements.of(now).is_some_and(|was| was.is(now)))
            }
            (Value::Object(old), Value::Object(new)) => {
                old.len() == new.len() && new.iter().all(|(name, now)| self.member(name).is_some_and(|was| was.is(now)))
            }
            (old, new) => old == new,
        }
    }
}

/// What the elements of a list were.
pub struct Elements<'a> {
    before: Before<'a>,
    schema: Option<&'a Structural>,
}

impl<'a> Elements<'a> {
    /// What one was that has the keys of this one.
    #[must_use]
    pub fn of(&self, now: &Value) -> Option<Was<'a>> {
        Some(Was { value: self.before.of(now)?, schema: self.schema? })
    }
}
