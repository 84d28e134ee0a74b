//! What a value is asked for a part of itself by: a member's name, or an element's number.

use std::ops::{Index, IndexMut};

use crate::{Text, Value};

/// A member's name, or an element's number.
pub trait Place {
    /// The part; `None` where there is none.
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value>;
    /// The part, to change.
    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value>;
    /// The part, to change. A member that is not there is made, and an object of null.
    ///
    /// # Panics
    /// Where the value has no such parts, or fewer elements.
    fn made<'v>(&self, value: &'v mut Value) -> &'v mut Value;
}

impl Place for str {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.as_object()?.get(self)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        value.as_object_mut()?.get_mut(self)
    }

    fn made<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        if value.is_null() {
            *value = Value::Object(crate::Map::new());
        }
        let Value::Object(map) = value else { panic!("no object, and asked for its member {self:?}") };
        map.entry(self).or_insert(Value::Null)
    }
}

impl Place for usize {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.as_array()?.get(*self)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        value.as_array_mut()?.get_mut(*self)
    }

    fn made<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        let Value::Array(list) = value else { panic!("no array, and asked for its element {self}") };
        &mut list[*self]
    }
}

macro_rules! by_another {
    ($($own:ty => $other:ty),*) => {$(
        impl Place for $own {
            fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
                <$other as Place>::of(self, value)
            }

            fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
                <$other as Place>::of_mut(self, value)
            }

            fn made<'v>(&self, value: &'v mut Value) -> &'v mut Value {
                <$other as Place>::made(self, value)
            }
        }
    )*};
}

by_another!(String => str, Text => str);

impl<P: Place + ?Sized> Place for &P {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        (**self).of(value)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        (**self).of_mut(value)
    }

    fn made<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        (**self).made(value)
    }
}

impl<P: Place> Index<P> for Value {
    type Output = Value;

    /// Null where there is no such part.
    fn index(&self, place: P) -> &Value {
        place.of(self).unwrap_or(&Value::Null)
    }
}

impl<P: Place> IndexMut<P> for Value {
    fn index_mut(&mut self, place: P) -> &mut Value {
        place.made(self)
    }
}
