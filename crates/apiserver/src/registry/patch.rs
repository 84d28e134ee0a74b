//! Patches: from bytes and the present object to the next one (API-12).

use serde_json::Value;

use super::options::{FieldValidation, WriteOptions};
use super::update::Update;
use super::{Answer, Registry, Served};
use crate::codec::{self, Model};
use crate::field::{FieldError, Shown};
use crate::kinds::Object;
use crate::schema;
use crate::status::{ApiError, GroupResource};

/// A patch may hold this many JSON patch operations.
const MOST_OPERATIONS: usize = 10_000;

/// How a patch is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`
    Strategic,
    /// `application/apply-patch+yaml`
    Apply,
}

impl PatchType {
    /// The type that a `Content-Type` names.
    #[must_use]
    pub fn of(media_type: &str) -> Option<Self> {
        match media_type {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            "application/apply-patch+yaml" => Some(Self::Apply),
            _ => None,
        }
    }
}

/// A patch as it came.
#[derive(Debug, Clone, Copy)]
pub struct Patch<'a> {
    /// How it is written.
    pub kind: PatchType,
    /// Its bytes.
    pub body: &'a [u8],
}

impl Registry {
    /// Patches an object.
    ///
    /// # Errors
    /// 400 for a patch that cannot be read, 422 for one that does not apply, and those of an update.
    pub fn patch(
        &self,
        served: &Served,
        update: Update<'_>,
        patch: Patch<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, ApiError> {
        let model = Model::of(served);
        self.change(served, update, None, warnings, |live, warnings| {
            let mut next = apply(&model, live, patch, update.options, warnings)?;
            served.kind.default(&mut next);
            Ok(next)
        })
    }
}

/// Applies a patch to an object of any model, and reads the result back as that model.
///
/// # Errors
/// 400 for a patch that cannot be read, 422 for one that does not apply or whose result is no such object.
pub fn apply(
    model: &Model<'_>,
    live: &Object,
    patch: Patch<'_>,
    options: &WriteOptions,
    warnings: &mut Vec<String>,
) -> Result<Object, ApiError> {
    let validation = options.field_validation;
    let (patched, mut strict, shown) = match patch.kind {
        PatchType::Json => {
            let (operations, strict) = read(patch.body, Shape::JsonPatch, validation)?;
            let count = operations.as_array().map_or(0, Vec::len);
            if count > MOST_OPERATIONS {
                return Err(ApiError::too_large_because(&format!(
                    "The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {count}"
                )));
            }
            let patched = json_patch(Value::Object(live.clone()), &operations)?;
            (patched, strict, None)
        }
        PatchType::Merge => {
            let (merge, strict) = read(patch.body, Shape::Object, validation)?;
            let mut patched = Value::Object(live.clone());
            json_patch::merge(&mut patched, &merge);
            (patched, strict, None)
        }
        PatchType::Strategic => {
            let (mut merge, strict) = read(patch.body, Shape::Strategic, validation)?;
            let patched = codec::strategic_merge(model, live, &mut merge)?;
            (patched, strict, Some(merge))
        }
        PatchType::Apply => return Err(ApiError::unsupported_media_type_route()),
    };
    let shown_value = match &shown {
        Some(merge) => Shown::Str(schema::go::sprint(merge)),
        None => Shown::Str(patched.to_string()),
    };
    let invalid = |value: Shown, why: String| {
        let nothing = GroupResource { group: "", resource: "" };
        ApiError::invalid(nothing, "", &[FieldError::invalid("patch", value, why)])
    };
    let read = if shown.is_some() {
        codec::read_merged(model, patched, validation)
    } else {
        codec::read_back(model, &patched, validation)
    };
    let (object, found) = read.map_err(|why| invalid(shown_value.clone(), why))?;
    strict.extend(found);
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => warnings.extend(strict),
        FieldValidation::Strict if strict.is_empty() => {}
        FieldValidation::Strict => {
            return Err(invalid(shown_value, format!("strict decoding error: {}", strict.join(", "))));
        }
    }
    Ok(object)
}

/// What a patch's JSON must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    JsonPatch,
    Object,
    Strategic,
}

/// Reads a patch's JSON; answers also what a strict reader has against it.
fn read(body: &[u8], shape: Shape, validation: FieldValidation) -> Result<(Value, Vec<String>), ApiError> {
    let refuse = |why: String| match shape {
        // The strategic reader words its errors itself.
        Shape::Strategic => ApiError::bad_request(why),
        Shape::JsonPatch | Shape::Object if validation == FieldValidation::Ignore => {
            ApiError::bad_request("invalid JSON patch")
        }
        Shape::JsonPatch | Shape::Object => ApiError::bad_request(format!("error decoding patch: {why}")),
    };
    let (value, duplicates) = codec::read_json(body).map_err(refuse)?;
    let mut strict = Vec::new();
    let word = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    match (shape, &value) {
        (Shape::JsonPatch, Value::Array(operations)) => {
            for (index, operation) in operations.iter().enumerate() {
                let Some(operation) = operation.as_object() else {
                    let why = format!("json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp", word(operation));
                    return Err(refuse(why));
                };
                for (key, value) in operation {
                    match key.as_str() {
                        "value" => {}
                        "op" | "path" | "from" if value.is_string() || value.is_null() => {}
                        "op" | "path" | "from" => {
                            let why = format!(
                                "json: cannot unmarshal {} into Go struct field jsonPatchOp.{key} of type string",
                                word(value)
                            );
                            return Err(refuse(why));
                        }
                        _ => strict.push(format!("json patch unknown field \"[{index}].{key}\"")),
                    }
                }
            }
            strict.extend(duplicates.into_iter().map(|d| format!("json patch {d}")));
        }
        (Shape::JsonPatch, Value::Null) => return Ok((Value::Array(Vec::new()), strict)),
        (Shape::JsonPatch, other) => {
            return Err(refuse(format!(
                "json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                word(other)
            )));
        }
        (Shape::Object | Shape::Strategic, Value::Object(_)) => strict = duplicates,
        (Shape::Object | Shape::Strategic, Value::Null) => return Ok((Value::Object(Object::new()), strict)),
        (Shape::Object | Shape::Strategic, other) => {
            return Err(refuse(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                word(other)
            )));
        }
    }
    if validation == FieldValidation::Ignore {
        strict.clear();
    }
    Ok((value, strict))
}

/// Applies JSON patch operations; any that does not apply is the same error.
fn json_patch(mut document: Value, operations: &Value) -> Result<Value, ApiError> {
    let operations: json_patch::Patch =
        serde_json::from_value(operations.clone()).map_err(|_| ApiError::unprocessable())?;
    json_patch::patch(&mut document, &operations).map_err(|_| ApiError::unprocessable())?;
    Ok(document)
}
