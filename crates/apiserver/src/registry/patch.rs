//! Patches: from bytes and the present object to the next one (API-12).

use std::borrow::Cow;

use muster_tree::{Text, Value};

use super::options::{FieldValidation, WriteOptions};
use super::update::Update;
use super::{Answer, Registry, Served};
use crate::codec::json_patch::{self, Touched};
use crate::codec::{self, Model};
use crate::field::{FieldError, Shown, go_quote, json_word};
use crate::kinds::custom::CustomKind;
use crate::model::{Fields as _, Object};
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
}

impl PatchType {
    /// The type that a `Content-Type` names. [`super::apply::CONTENT_TYPE`] is none of them.
    #[must_use]
    pub fn of(media_type: &str) -> Option<Self> {
        match media_type {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
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

/// What an object is that a patch has made.
#[derive(Debug, Clone, Copy)]
pub enum Form<'a> {
    /// One of a type of the table.
    Builtin,
    /// The scale of a custom object, which need not say its version.
    CustomScale,
    /// A custom object.
    Custom(&'a CustomKind),
}

impl Registry {
    /// Patches an object.
    ///
    /// # Errors
    /// 400 for a patch that cannot be read, 422 for one that does not apply, and those of an update.
    pub async fn patch(
        &self,
        served: &Served,
        update: Update<'_>,
        patch: Patch<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, ApiError> {
        let model = served.resource().model();
        let form = served.kind.custom().map_or(Form::Builtin, Form::Custom);
        let changed = self.change(served, update, None, warnings, |live, warnings| {
            let converts = served.kind.stored_as().is_some();
            let present = if converts { Cow::Owned(served.present(live.clone())) } else { Cow::Borrowed(live) };
            let mut next = apply(&model, form, &present, patch, update.options, warnings)?;
            served.kind.default(&mut next);
            served.kind.to_stored(&mut next);
            Ok(next)
        });
        changed.await
    }
}

/// Applies a patch to an object of any model, and reads the result back as that model.
///
/// # Errors
/// 400 for a patch that cannot be read, 422 for one that does not apply or whose result is no such object.
pub fn apply(
    model: &Model<'_>,
    form: Form<'_>,
    live: &Object,
    patch: Patch<'_>,
    options: &WriteOptions,
    warnings: &mut Vec<String>,
) -> Result<Object, ApiError> {
    let validation = options.field_validation;
    let read_back = |tree: &Value| {
        let (object, strict) = match form {
            Form::Custom(kind) => codec::custom::read_back(kind, tree)?,
            Form::Builtin if is_unversioned(model, tree) => unversioned(tree),
            Form::Builtin | Form::CustomScale => codec::read_back(model, tree, Some(live), validation)?,
        };
        Ok::<_, String>((object, if validation == FieldValidation::Ignore { Vec::new() } else { strict }))
    };
    let (object, strict) = match patch.kind {
        PatchType::Json => {
            let (operations, mut strict) = read(patch.body, Shape::JsonPatch, validation)?;
            let operations = operations.as_array().map_or(&[][..], muster_tree::List::as_slice);
            let count = operations.len();
            if count > MOST_OPERATIONS {
                return Err(ApiError::too_large_because(&format!(
                    "The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {count}"
                )));
            }
            let mut touched = Touched::default();
            let mut patched = Value::Object(live.clone());
            json_patch::apply(&mut patched, operations, &mut touched).map_err(|_| ApiError::unprocessable())?;
            let shown = || codec::shown(model, &patched, &touched);
            let (object, found) = read_back(&patched).map_err(|why| invalid(shown(), why))?;
            strict.extend(found);
            refuse_strict(validation, &strict, shown)?;
            (object, strict)
        }
        PatchType::Merge => {
            let (merge, mut strict) = read(patch.body, Shape::Object, validation)?;
            let merge = match merge {
                Value::Object(merge) => merge,
                // It takes the place of the object.
                mut list @ Value::Array(_) => {
                    json_patch::prune(&mut list, None);
                    let shown = || codec::shown(model, &list, &Touched::default());
                    return read_back(&list).map(|(object, _)| object).map_err(|why| invalid(shown(), why));
                }
                _ => return Err(ApiError::bad_request(BAD_MERGE)),
            };
            let outline = outline(&merge);
            let mut partial = touched_part(live, &outline);
            json_patch::merge(&mut partial, merge, None);
            let whole = || {
                let mut touched = Touched::default();
                let mut whole = live.clone();
                if let Ok((Value::Object(merge), _)) = read(patch.body, Shape::Object, validation) {
                    json_patch::merge(&mut whole, merge, Some(&mut touched));
                }
                (Value::Object(whole), touched)
            };
            let shown = || {
                let (whole, touched) = whole();
                codec::shown(model, &whole, &touched)
            };
            // Of what no longer says what it is, other parts count as well.
            let said = ["kind", "apiVersion"].iter().all(|field| !partial.text(field).is_empty());
            let patched = if said { Value::Object(partial) } else { whole().0 };
            let (mut object, found) = read_back(&patched).map_err(|why| invalid(shown(), why))?;
            strict.extend(found);
            refuse_strict(validation, &strict, shown)?;
            if said {
                put_back(&mut object, live, &outline);
            }
            (object, strict)
        }
        PatchType::Strategic => {
            let (mut merge, mut strict) = read(patch.body, Shape::Strategic, validation)?;
            let outline = merge.as_object().map(outline).unwrap_or_default();
            let partial = codec::strategic_merge(model, touched_part(live, &outline), &mut merge)?;
            let shown = || schema::go::sprint(&merge);
            let (mut object, found) =
                codec::read_merged(model, &partial, validation).map_err(|why| invalid(shown(), why))?;
            strict.extend(found);
            refuse_strict(validation, &strict, shown)?;
            put_back(&mut object, live, &outline);
            (object, strict)
        }
    };
    if validation == FieldValidation::Warn {
        warnings.extend(strict);
    }
    Ok(object)
}

/// Whether a tree says that it is of the model's kind, or nothing, and does not say of which version.
fn is_unversioned(model: &Model<'_>, tree: &Value) -> bool {
    let unsaid = |field: &str| tree.get(field).is_none_or(|value| value.is_null() || value == "");
    tree.is_object() && unsaid("apiVersion") && (unsaid("kind") || tree["kind"] == model.kind)
}

/// Reads an object that does not say its version. The reference reads it as its internal type, whose fields have other names:
/// all are unknown, the metadata with the name as well.
fn unversioned(tree: &Value) -> (Object, Vec<String>) {
    let fields = tree
        .as_object()
        .into_iter()
        .flat_map(Object::keys)
        .filter(|key| !matches!(key.as_str(), "kind" | "apiVersion"));
    let mut unknown: Vec<String> = fields.map(|field| format!("unknown field {}", go_quote(field))).collect();
    unknown.sort_unstable();
    (Object::new(), unknown)
}

/// 422 for a result that is no such object.
fn invalid(shown: String, why: String) -> ApiError {
    let nothing = GroupResource { group: "", resource: "" };
    ApiError::invalid(nothing, "", &[FieldError::invalid("patch", Shown::Str(shown), why)])
}

fn refuse_strict(validation: FieldValidation, strict: &[String], shown: impl Fn() -> String) -> Result<(), ApiError> {
    if validation == FieldValidation::Strict && !strict.is_empty() {
        return Err(invalid(shown(), format!("strict decoding error: {}", strict.join(", "))));
    }
    Ok(())
}

/// A patch without what it says: the names at its top, and those in its metadata.
fn outline(patch: &Object) -> Object {
    let names = |members: &Object| members.keys().map(|key| (key.clone(), Value::Null)).collect();
    let of = |(key, value): (&Text, &Value)| match value {
        Value::Object(metadata) if key == "metadata" => (key.clone(), Value::Object(names(metadata))),
        _ => (key.clone(), Value::Null),
    };
    patch.iter().map(of).collect()
}

/// Whether a merging patch is about a field of the object at all. What it is not about needs no merging and no reading
/// back: it is as it was stored. Directives at the top may be about anything.
fn is_about(patch: &Object, key: &str) -> bool {
    patch.contains_key(key) || matches!(key, "kind" | "apiVersion") || patch.keys().any(|k| k.starts_with('$'))
}

/// Whether a patch is about managed fields, which are the longest part of metadata.
fn is_about_managers(patch: &Object) -> bool {
    match patch.get("metadata") {
        Some(Value::Object(metadata)) => metadata.keys().any(|k| k == "managedFields" || k.starts_with('$')),
        _ => true,
    }
}

/// The part of an object that a merging patch is about.
fn touched_part(live: &Object, patch: &Object) -> Object {
    let copied = |(key, value): (&Text, &Value)| (key.clone(), value.clone());
    let whole = is_about_managers(patch);
    live.iter()
        .filter(|(key, _)| is_about(patch, key))
        .map(|(key, value)| match value {
            Value::Object(metadata) if key == "metadata" && !whole => {
                let but_managers = metadata.iter().filter(|(key, _)| *key != "managedFields");
                (key.clone(), Value::Object(but_managers.map(copied).collect()))
            }
            _ => copied((key, value)),
        })
        .collect()
}

/// Puts back what [`touched_part`] left out.
fn put_back(object: &mut Object, live: &Object, patch: &Object) {
    for (key, value) in live {
        if !is_about(patch, key) {
            object.insert(key.clone(), value.clone());
        }
    }
    if !is_about_managers(patch)
        && let Some(Value::Object(metadata)) = object.get_mut("metadata")
        && let Some(managers) = live.get("metadata").and_then(|m| m.get("managedFields"))
    {
        metadata.insert("managedFields", managers.clone());
    }
}

/// What is said of a merge patch that is none.
const BAD_MERGE: &str = "Invalid JSON Patch";

/// What a patch's JSON must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    JsonPatch,
    Object,
    Strategic,
}

/// Reads a patch's JSON; answers also what a strict reader has against it.
fn read(body: &[u8], shape: Shape, validation: FieldValidation) -> Result<(Value, Vec<String>), ApiError> {
    // Who ignores what is wrong has the libraries' own types and errors.
    let is_lax = validation == FieldValidation::Ignore;
    let (list, item) = match is_lax {
        true => ("jsonpatch.Patch", "jsonpatch.Operation"),
        false => ("[]handlers.jsonPatchOp", "handlers.jsonPatchOp"),
    };
    let refuse = |why: String| match shape {
        // The strategic reader words its errors itself.
        Shape::Strategic => ApiError::bad_request(why),
        Shape::JsonPatch if is_lax => ApiError::bad_request(why),
        Shape::Object if is_lax => ApiError::bad_request(BAD_MERGE),
        Shape::JsonPatch | Shape::Object => ApiError::bad_request(format!("error decoding patch: {why}")),
    };
    let (value, duplicates) = schema::read_noting(body).map_err(refuse)?;
    let mut strict = Vec::new();
    match (shape, &value) {
        (Shape::JsonPatch, Value::Array(operations)) => {
            for (index, operation) in operations.iter().enumerate() {
                if operation.is_null() {
                    continue;
                }
                let Some(operation) = operation.as_object() else {
                    let word = json_word(operation);
                    return Err(refuse(format!("json: cannot unmarshal {word} into Go value of type {item}")));
                };
                for (key, value) in operation {
                    match key.as_str() {
                        _ if is_lax => {}
                        "value" => {}
                        "op" | "path" | "from" if value.is_string() || value.is_null() => {}
                        "op" | "path" | "from" => {
                            let why = format!(
                                "json: cannot unmarshal {} into Go struct field jsonPatchOp.{key} of type string",
                                json_word(value)
                            );
                            return Err(refuse(why));
                        }
                        _ => strict.push(format!("json patch unknown field \"[{index}].{key}\"")),
                    }
                }
            }
            strict.extend(duplicates.into_iter().map(|d| format!("json patch {d}")));
        }
        (Shape::JsonPatch, Value::Null) => return Ok((Value::Array(Vec::new().into()), strict)),
        (Shape::JsonPatch, other) => {
            let word = json_word(other);
            return Err(refuse(format!("json: cannot unmarshal {word} into Go value of type {list}")));
        }
        (Shape::Object | Shape::Strategic, Value::Object(_)) => strict = duplicates,
        // For the merge itself to refuse.
        (Shape::Object, Value::Null) => return Ok((Value::Null, strict)),
        (Shape::Object, Value::Array(_)) if is_lax => return Ok((value, strict)),
        (Shape::Strategic, Value::Null) => return Ok((Value::Object(Object::new()), strict)),
        (Shape::Object | Shape::Strategic, other) => {
            return Err(refuse(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                json_word(other)
            )));
        }
    }
    if is_lax {
        strict.clear();
    }
    Ok((value, strict))
}
