//! The registry's view of the schema: bodies to objects, patches to objects, and who owns which field.

use std::borrow::Cow;

use muster_objects::time::Timestamp;
use muster_tree::Value;

use crate::codec::json_patch::Touched;
pub use crate::model::Model;
use crate::model::{FieldValidation, Object, api_version};
use crate::schema::strategic::{self, PatchError};
use crate::schema::{self, Validation};
use crate::status::ApiError;

pub mod custom;
pub mod json_patch;
pub mod openapi_v2;
mod ordered;
mod protobuf;

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

impl From<FieldValidation> for Validation {
    fn from(validation: FieldValidation) -> Self {
        match validation {
            FieldValidation::Strict => Self::Strict,
            FieldValidation::Warn => Self::Warn,
            FieldValidation::Ignore => Self::Ignore,
        }
    }
}

/// Reads a body as an object of a type. Unknown and doubled fields are refused, or dropped and warned of.
///
/// # Errors
/// 400 with the real server's words.
pub fn decode(
    model: &Model<'_>,
    body: &[u8],
    format: Format,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<Object, ApiError> {
    let (body, format) = match format {
        Format::Json => (Cow::Borrowed(body), schema::Format::Json),
        Format::Yaml => (Cow::Borrowed(body), schema::Format::Yaml),
        Format::Protobuf => (Cow::Owned(from_protobuf(model, body)?), schema::Format::Json),
    };
    let (object, found) = schema::decode(model.group, model.version, model.kind, &body, format, validation.into())
        .map_err(|error| ApiError::bad_request(error.message))?;
    warnings.extend(found);
    Ok(object)
}

/// The JSON of a protobuf body. One of an unknown type is told by its type alone, for the reader of JSON to refuse.
fn from_protobuf(model: &Model<'_>, body: &[u8]) -> Result<Vec<u8>, ApiError> {
    let unreadable = |why: String| {
        let (kind, summary) = (model.kind, schema::summary(body));
        let message = format!("the object provided is unrecognized (must be of type {kind}): {why} ({summary})");
        ApiError::bad_request(message)
    };
    let unknown = protobuf::open(body).map_err(unreadable)?;
    let (group, version) = match unknown.api_version.as_str() {
        "" => (model.group, model.version),
        text => text.split_once('/').unwrap_or(("", text)),
    };
    let kind = if unknown.kind.is_empty() { model.kind } else { unknown.kind.as_str() };
    let mut object = Object::new();
    if let Some(id) = schema::table::Table::get().kind(group, version, kind) {
        let ty = schema::table::Table::get().ty(id);
        object = protobuf::object(ty, unknown.raw).map_err(unreadable)?;
    }
    object.insert("apiVersion", Value::from(api_version(group, version)));
    object.insert("kind", Value::from(kind));
    Ok(Value::Object(object).to_string().into_bytes())
}

/// Reads a body that has no type of its own here.
///
/// # Errors
/// 400 for what is no object.
pub fn untyped(model: &Model<'_>, body: &[u8], format: Format) -> Result<Object, ApiError> {
    let json = match format {
        Format::Json => Cow::Borrowed(body),
        Format::Yaml => Cow::Owned(schema::yaml_to_json(body).map_err(ApiError::bad_request)?),
        Format::Protobuf => Cow::Owned(from_protobuf(model, body)?),
    };
    match schema::read_json(&json).map_err(ApiError::bad_request)? {
        Value::Object(object) => Ok(object),
        _ => Err(ApiError::bad_request("the object provided is unrecognized")),
    }
}

/// Reads a patched tree back as an object of a type; answers also what a strict reader has against it. What it has in common
/// with `known`, such an object, is as it is there.
///
/// # Errors
/// The words for what is wrong.
pub fn read_back(
    model: &Model<'_>,
    value: &Value,
    known: Option<&Object>,
    validation: FieldValidation,
) -> Result<(Object, Vec<String>), String> {
    // A strict reader's complaints are put together with those about the patch, by the caller.
    let validation = if validation == FieldValidation::Ignore { Validation::Ignore } else { Validation::Warn };
    schema::round_trip(model.group, model.version, model.kind, value, known, validation).map_err(|error| error.message)
}

/// An object, a list or metadata as a protobuf body; `None` where protobuf has no form for it.
#[must_use]
pub fn to_protobuf(value: &Value) -> Option<Vec<u8>> {
    protobuf::write::body(value)
}

/// The line of a watch's event as a protobuf frame; empty where protobuf has no form for its object.
#[must_use]
pub fn to_frame(line: &[u8]) -> Vec<u8> {
    let event: Value = serde_json::from_slice(line).unwrap_or_default();
    protobuf::write::frame(event["type"].as_str().unwrap_or_default(), &event["object"]).unwrap_or_default()
}

/// Reads what a strategic merge patch made as an object of a type.
///
/// # Errors
/// The words for what is wrong.
pub fn read_merged(
    model: &Model<'_>,
    value: &Value,
    validation: FieldValidation,
) -> Result<(Object, Vec<String>), String> {
    let validation = if validation == FieldValidation::Ignore { Validation::Ignore } else { Validation::Warn };
    let (mut object, found) = schema::from_unstructured(model.group, model.version, model.kind, value, validation)
        .map_err(|error| error.message)?;
    // Whatever the patch said that it is, it was read as the kind that it was.
    object.insert("kind", Value::from(model.kind));
    object.insert("apiVersion", Value::from(api_version(model.group, model.version)));
    Ok((object, found))
}

/// Applies a strategic merge patch; `patch` loses what has been applied of it.
///
/// # Errors
/// 400 or 422 for a patch whose directives are wrong.
pub fn strategic_merge(model: &Model<'_>, live: Object, patch: &mut Value) -> Result<Value, ApiError> {
    strategic::merge(model.group, model.version, model.kind, Value::Object(live), patch).map_err(|error| match error {
        PatchError::Bad(why) => ApiError::bad_request(why),
        PatchError::Unprocessable(_) => ApiError::unprocessable(),
        PatchError::Other(why) => ApiError::plain(why),
    })
}

/// Records in a scale's managed fields who wrote it.
pub fn update_scale_managed_fields(live: &Object, scale: &mut Object, manager: &str, now: Timestamp) {
    schema::managed::update_one_version(Model::SCALE, Some(live), scale, manager, "scale", now);
}

/// Reads the body of a delete.
///
/// # Errors
/// 400 for what is no `DeleteOptions`.
pub fn delete_options(body: &[u8], format: Format) -> Result<Object, ApiError> {
    let unreadable = |why| ApiError::bad_request(format!("couldn't get version/kind; json parse error: {why}"));
    let json = match format {
        Format::Json => Cow::Borrowed(body),
        Format::Yaml => Cow::Owned(schema::yaml_to_json(body).map_err(unreadable)?),
        Format::Protobuf => {
            Cow::Owned(from_protobuf(&Model { group: "", version: "v1", kind: "DeleteOptions" }, body)?)
        }
    };
    let value = schema::read_json(&json).map_err(unreadable)?;
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let kind = text("kind");
    if !matches!(kind, "" | "DeleteOptions") {
        let version = match text("apiVersion") {
            "" => "meta.k8s.io/v1",
            version => version,
        };
        return Err(ApiError::bad_request(format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
        )));
    }
    schema::round_trip("", "v1", "DeleteOptions", &value, None, Validation::Ignore)
        .map(|(object, _)| object)
        .map_err(|error| ApiError::bad_request(error.message))
}

/// Adds an answer to a body, with its members in the reference's order (API-35), over several lines where it is to be
/// read.
pub fn to_json(out: &mut Vec<u8>, value: &Value, pretty: bool) {
    ordered::write(out, value, pretty);
}

/// A patched object as messages show it.
#[must_use]
pub fn shown(model: &Model<'_>, value: &Value, touched: &Touched) -> String {
    ordered::to_string(model, value, Some(touched))
}

/// The metadata of an object as messages show it.
#[must_use]
pub fn metadata_in_order(model: &Model<'_>, object: &Object) -> String {
    let mut only = Object::new();
    only.extend(object.get("metadata").map(|metadata| ("metadata".to_owned(), metadata.clone())));
    let text = ordered::to_string(model, &Value::Object(only), None);
    text.strip_prefix(r#"{"metadata":"#).and_then(|text| text.strip_suffix('}')).unwrap_or("{}").to_owned()
}
