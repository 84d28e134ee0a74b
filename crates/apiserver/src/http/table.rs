//! Tables: what kubectl prints (API-05).

use muster_objects::time::Timestamp;
use muster_tree::{Map, Value, json};

use super::respond::partial;
use crate::model::Object;
use crate::registry::Served;
use crate::status::ApiError;

/// How much of its object each row carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Include {
    /// Metadata only.
    Metadata,
    /// All of it.
    Object,
    /// Nothing.
    None,
}

impl Include {
    /// Reads the parameter `includeObject`.
    ///
    /// # Errors
    /// 400 for a value that is none of these.
    pub fn parse(text: Option<&str>) -> Result<Self, ApiError> {
        match text {
            None | Some("" | "Metadata") => Ok(Self::Metadata),
            Some("Object") => Ok(Self::Object),
            Some("None") => Ok(Self::None),
            Some(other) => {
                let quoted = crate::field::go_quote(other);
                Err(ApiError::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {quoted}: must be 'Metadata', 'Object', 'None', or empty"
                )))
            }
        }
    }
}

/// One row.
#[must_use]
pub fn row(served: &Served, object: &Object, include: Include, version: &str, now: Timestamp) -> Value {
    let mut row = Map::new();
    row.insert("cells", Value::Array(served.kind.cells(object, now).into()));
    let conditions = served.kind.row_conditions(object);
    if !conditions.is_empty() {
        row.insert("conditions", Value::Array(conditions.into()));
    }
    row.insert(
        "object".to_owned(),
        match include {
            Include::Metadata => partial(served, object, version),
            Include::Object => Value::Object(served.present(object.clone())),
            Include::None => Value::Null,
        },
    );
    Value::Object(row)
}

/// A table of rows; `headers` says whether it tells its columns.
#[must_use]
pub fn table(served: &Served, version: &str, metadata: Value, rows: Vec<Value>, headers: bool) -> Value {
    let columns = if headers {
        let columns = served.kind.columns().iter().map(|column| {
            json!({
                "name": column.name,
                "type": column.kind,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            })
        });
        Value::Array(columns.collect())
    } else {
        Value::Null
    };
    let mut table = Map::new();
    table.insert("kind", json!("Table"));
    table.insert("apiVersion", json!(format!("meta.k8s.io/{version}")));
    table.insert("metadata", metadata);
    table.insert("columnDefinitions", columns);
    table.insert("rows", Value::Array(rows.into()));
    Value::Object(table)
}

/// The table of a Scale.
#[must_use]
pub fn scale(served: &Served, object: &Object, include: Include, version: &str, now: Timestamp) -> Value {
    use crate::model::fields::{Fields as _, metadata};
    let columns = [("Name", "string"), ("Desired", "integer"), ("Available", "integer"), ("Age", "string")];
    let columns =
        columns.map(|(name, kind)| json!({"name": name, "type": kind, "format": "", "description": "", "priority": 0}));
    let replicas = |part: &str| object.object(part).map_or(0, |p| p.int("replicas"));
    let age = crate::kinds::cells::age(object, now);
    let shown = match include {
        Include::Metadata => partial(served, object, version),
        Include::Object => Value::Object(object.clone()),
        Include::None => Value::Null,
    };
    json!({
        "kind": "Table",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": {"resourceVersion": metadata(object).text("resourceVersion")},
        "columnDefinitions": columns,
        "rows": [{"cells": [metadata(object).text("name"), replicas("spec"), replicas("status"), age], "object": shown}],
    })
}
