//! What becomes a value, and what one is compared with.

use std::borrow::Cow;

use serde_json::{Number, Value as Plain};

use crate::{List, Map, Text, Value};

macro_rules! numbers {
    ($($whole:ty),*) => {$(
        impl From<$whole> for Value {
            fn from(number: $whole) -> Self {
                Self::Number(number.into())
            }
        }

        impl PartialEq<$whole> for Value {
            fn eq(&self, other: &$whole) -> bool {
                self.as_number().is_some_and(|number| *number == Number::from(*other))
            }
        }

        impl PartialEq<Value> for $whole {
            fn eq(&self, other: &Value) -> bool {
                other == self
            }
        }
    )*};
}

numbers!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

impl From<f64> for Value {
    /// Null where it is not finite.
    fn from(number: f64) -> Self {
        Number::from_f64(number).map_or(Self::Null, Self::Number)
    }
}

impl PartialEq<f64> for Value {
    fn eq(&self, other: &f64) -> bool {
        self.as_f64() == Some(*other)
    }
}

macro_rules! is_a {
    ($($from:ty => $variant:ident),*) => {$(
        impl From<$from> for Value {
            fn from(inner: $from) -> Self {
                Self::$variant(inner.into())
            }
        }
    )*};
}

is_a!(bool => Bool, Number => Number, &str => String, String => String, &String => String, Text => String,
      Cow<'_, str> => String, Box<str> => String, List => Array, Map => Object);

impl From<()> for Value {
    fn from((): ()) -> Self {
        Self::Null
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Clone + Into<Value>> From<&[T]> for Value {
    fn from(items: &[T]) -> Self {
        items.iter().cloned().collect()
    }
}

impl<T: Into<Value>, const N: usize> From<[T; N]> for Value {
    fn from(items: [T; N]) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Into<Value>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::Array(items.into_iter().collect())
    }
}

impl<K: Into<Text>, V: Into<Value>> FromIterator<(K, V)> for Value {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        Self::Object(members.into_iter().collect())
    }
}

impl From<Plain> for Value {
    fn from(plain: Plain) -> Self {
        match plain {
            Plain::Null => Self::Null,
            Plain::Bool(flag) => Self::Bool(flag),
            Plain::Number(number) => Self::Number(number),
            Plain::String(text) => Self::String(text.into()),
            Plain::Array(items) => Self::Array(items.into_iter().collect()),
            Plain::Object(members) => Self::Object(members.into()),
        }
    }
}

impl From<serde_json::Map<String, Plain>> for Map {
    fn from(plain: serde_json::Map<String, Plain>) -> Self {
        plain.into_iter().collect()
    }
}

impl From<Value> for Plain {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Bool(flag),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::String(text.into()),
            Value::Array(items) => Self::Array(items.into_iter().map(Into::into).collect()),
            Value::Object(members) => Self::Object(members.into()),
        }
    }
}

impl From<Map> for serde_json::Map<String, Plain> {
    fn from(map: Map) -> Self {
        map.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
    }
}

macro_rules! compared {
    ($($other:ty: $own:ident => $text:expr),*) => {$(
        impl PartialEq<$other> for Value {
            fn eq(&self, other: &$other) -> bool {
                let $own = other;
                self.as_str() == Some($text)
            }
        }

        impl PartialEq<Value> for $other {
            fn eq(&self, other: &Value) -> bool {
                other == self
            }
        }
    )*};
}

compared!(str: text => text, &str: text => *text, String: text => text.as_str(), Text: text => text.as_str());

impl PartialEq<bool> for Value {
    fn eq(&self, other: &bool) -> bool {
        self.as_bool() == Some(*other)
    }
}

impl From<&Text> for Value {
    fn from(text: &Text) -> Self {
        Self::String(text.clone())
    }
}
