//! Trees of JSON that share what they have in common, and read what they are asked for.
//!
//! A [`Value`] is like that of `serde_json`, whose numbers it has, with three differences:
//!
//! - **Copies are shared.** What a [`Map`] or a [`List`] holds is behind a reference count, and copied, one level of it,
//!   by the first change of one that others have too. So a copy of an object costs nothing, and an object and one that was
//!   made from it by a change have in common what was not changed, which comparing them sees at once.
//! - **Text is read where it is looked at.** An object that is made from its JSON ([`Map::stored`]) keeps the text of each of its
//!   members, and reads one level of it when it is asked for.
//! - **What was not changed is written by copying its text** ([`Value::write`]).
//!
//! Short strings are held in place ([`Text`]), and the members of a small object side by side, sorted by their names.

mod convert;
pub mod float;
mod list;
mod map;
mod members;
mod node;
mod place;
mod read;
mod serial;
mod value;
mod write;

pub use compact_str::CompactString as Text;
pub use list::List;
pub use map::{Entry, Map};
pub use members::{IntoIter, Iter, IterMut};
pub use place::Place;
pub use serde_json::Number;
pub use serial::from_value;
pub use value::Value;
pub use write::write_text;

/// For [`json!`].
#[doc(hidden)]
pub mod private {
    pub use serde_json::json;
}

/// A tree as it is written down, as by `serde_json::json!`.
#[macro_export]
macro_rules! json {
    ($($tree:tt)+) => { $crate::Value::from($crate::private::json!($($tree)+)) };
}

#[cfg(test)]
mod tests;
