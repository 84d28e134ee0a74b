//! A value.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::mem;

use serde_json::Number;

use crate::{List, Map, Place, Text, write};

/// Any JSON value.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Value {
    /// `null`
    #[default]
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(Text),
    /// An array.
    Array(List),
    /// An object.
    Object(Map),
}

impl Value {
    /// A part: the member of an object, or the element of an array.
    #[must_use]
    pub fn get(&self, place: impl Place) -> Option<&Self> {
        place.of(self)
    }

    /// A part, to change.
    pub fn get_mut(&mut self, place: impl Place) -> Option<&mut Self> {
        place.of_mut(self)
    }

    /// The members, where this is an object.
    #[must_use]
    pub fn as_object(&self) -> Option<&Map> {
        match self {
            Self::Object(map) => Some(map),
            _ => None,
        }
    }

    /// The members, to change, where this is an object.
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        match self {
            Self::Object(map) => Some(map),
            _ => None,
        }
    }

    /// The elements, where this is an array.
    #[must_use]
    pub fn as_array(&self) -> Option<&List> {
        match self {
            Self::Array(list) => Some(list),
            _ => None,
        }
    }

    /// The elements, to change, where this is an array.
    pub fn as_array_mut(&mut self) -> Option<&mut List> {
        match self {
            Self::Array(list) => Some(list),
            _ => None,
        }
    }

    /// The text, where this is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The number, where this is one.
    #[must_use]
    pub fn as_number(&self) -> Option<&Number> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The number, where this is a whole one of 64 bits with a sign.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number().and_then(Number::as_i64)
    }

    /// The number, where this is a whole one of 64 bits without a sign.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number().and_then(Number::as_u64)
    }

    /// The number as a float, where this is one.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number().and_then(Number::as_f64)
    }

    /// Whether it is true, where this is a boolean.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// Whether this is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether this is a number.
    #[must_use]
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Number(_))
    }

    /// Whether this is a whole number of 64 bits with a sign.
    #[must_use]
    pub fn is_i64(&self) -> bool {
        self.as_i64().is_some()
    }

    /// Whether this is a float.
    #[must_use]
    pub fn is_f64(&self) -> bool {
        self.as_number().is_some_and(Number::is_f64)
    }

    /// Whether this is a string.
    #[must_use]
    pub fn is_string(&self) -> bool {
        matches!(self, Self::String(_))
    }

    /// Whether this is an array.
    #[must_use]
    pub fn is_array(&self) -> bool {
        matches!(self, Self::Array(_))
    }

    /// Whether this is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// Takes the value, and leaves null.
    pub fn take(&mut self) -> Self {
        mem::take(self)
    }

    /// A part by a JSON pointer (RFC 6901).
    #[must_use]
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        steps(pointer)?.try_fold(self, |value, step| match value {
            Self::Object(map) => map.get(&step),
            Self::Array(list) => list.get(index(&step)?),
            _ => None,
        })
    }

    /// A part by a JSON pointer (RFC 6901), to change.
    pub fn pointer_mut(&mut self, pointer: &str) -> Option<&mut Self> {
        steps(pointer)?.try_fold(self, |value, step| match value {
            Self::Object(map) => map.get_mut(&step),
            Self::Array(list) => list.get_mut(index(&step)?),
            _ => None,
        })
    }

    /// Whether this and another are one string, number and so on, or have in common what they hold: then they are equal. Other
    /// maps and lists may be equal as well.
    #[must_use]
    pub fn is_shared_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Object(one), Self::Object(other)) => one.is_shared_with(other),
            (Self::Array(one), Self::Array(other)) => one.is_shared_with(other),
            (one, other) => one == other,
        }
    }
}

fn steps(pointer: &str) -> Option<impl Iterator<Item = Cow<'_, str>>> {
    let rest = pointer.strip_prefix('/');
    if rest.is_none() && !pointer.is_empty() {
        return None;
    }
    let unescaped = |step| match str::contains(step, '~') {
        true => Cow::Owned(step.replace("~1", "/").replace("~0", "~")),
        false => Cow::Borrowed(step),
    };
    Some(rest.into_iter().flat_map(|rest| rest.split('/')).map(unescaped))
}

fn index(step: &str) -> Option<usize> {
    let odd = step.starts_with('+') || (step.starts_with('0') && step.len() > 1);
    if odd { None } else { step.parse().ok() }
}

impl Display for Value {
    /// Compact JSON, or with `#` over several lines, as `serde_json` writes it; but floats as they stand in text that is copied.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return f.write_str(&serde_json::to_string_pretty(self).map_err(|_| fmt::Error)?);
        }
        let mut out = Vec::new();
        write::value(&mut out, self, &mut write::as_rust);
        f.write_str(str::from_utf8(&out).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(flag) => write!(f, "{flag}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::String(text) => write!(f, "{:?}", text.as_str()),
            Self::Array(list) => list.fmt(f),
            Self::Object(map) => map.fmt(f),
        }
    }
}
