//! The table of custom objects: the columns that a version declares, and what is in them.

use muster_objects::time::Timestamp;
use muster_tree::Value;

use super::Object;
use super::definition::{PrinterColumn, Version};
use super::path::{JsonPath, printed};
use crate::model::AGE_COLUMN;
use crate::model::column::since;

/// A column behind the name.
#[derive(Debug)]
pub struct Column {
    /// What the definition says.
    pub printer: PrinterColumn,
    path: JsonPath,
}

/// The columns of a version: its own, or the age. The first that cannot be read ends them, as by the reference.
#[must_use]
pub fn columns(version: &Version) -> Vec<Column> {
    let age = [PrinterColumn {
        name: "Age".to_owned(),
        kind: "date".to_owned(),
        description: AGE_COLUMN.description.into_owned(),
        json_path: ".metadata.creationTimestamp".to_owned(),
        ..PrinterColumn::default()
    }];
    let own = version.additional_printer_columns.as_slice();
    let declared = if own.is_empty() { &age[..] } else { own };
    declared
        .iter()
        .map_while(|column| {
            let mut printer = column.clone();
            if printer.description.is_empty() {
                printer.description =
                    format!("Custom resource definition column (in JSONPath format): {}", column.json_path);
            }
            JsonPath::parse(&column.json_path).map(|path| Column { printer, path })
        })
        .collect()
}

/// The cells of a row behind the name.
#[must_use]
pub fn cells(columns: &[Column], object: &Object, now: Timestamp) -> Vec<Value> {
    let whole = Value::Object(object.clone());
    columns
        .iter()
        .map(|column| match column.path.find(&whole).first() {
            Some(found) => cell(&column.printer.kind, found, now),
            None => Value::Null,
        })
        .collect()
}

#[expect(clippy::cast_possible_truncation, reason = "as the reference turns a float into an integer")]
fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", value) => Value::from(printed(value)),
        ("integer", Value::Number(number)) => {
            number.as_i64().or_else(|| number.as_f64().map(|n| n as i64)).map_or(Value::Null, Value::from)
        }
        ("number", Value::Number(number)) => number.as_f64().map_or(Value::Null, |n| super::props::number_of(n).into()),
        ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match Timestamp::parse(text) {
            Ok(_) => since(text, now).into(),
            Err(_) if text.is_empty() || text == "null" => Value::from("<unknown>"),
            Err(_) => Value::from("<invalid>"),
        },
        _ => Value::Null,
    }
}
