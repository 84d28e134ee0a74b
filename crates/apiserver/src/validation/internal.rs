//! How the reference prints its own structures, where its messages show them.

use muster_tree::Value;

use crate::field::Shown;
use crate::model::Object;
use crate::schema::go;

/// A structure as a message shows it: the JSON of the reference's internal type of that name.
#[must_use]
pub fn shown(type_name: &str, value: &Object) -> Shown {
    let value = Value::Object(value.clone());
    match go::internal_compact(type_name, &value) {
        Some(text) => Shown::Bare(text),
        None => Shown::Json(value),
    }
}

/// The same on many lines: what differences are made of.
#[must_use]
pub fn lines(type_name: &str, value: &Object) -> String {
    go::internal_json(type_name, &Value::Object(value.clone()))
}
