//! The registry's view of the schema: bodies to objects, patches to objects, and who owns which field.

use muster_objects::time::Timestamp;
use serde_json::Value;

use crate::kinds::Object;
use crate::registry::Served;
use crate::registry::options::FieldValidation;
use crate::schema::strategic::{self, PatchError};
use crate::schema::{self, Validation};
use crate::status::ApiError;

pub use crate::schema::Format;

mod duplicates;

/// Which type of object a body holds.
#[derive(Debug, Clone, Copy)]
pub struct Model<'a> {
    /// The API group; empty for core.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
}

impl Model<'static> {
    /// `autoscaling/v1` Scale.
    pub const SCALE: Self = Self { group: "autoscaling", version: "v1", kind: "Scale" };
    /// `v1` Binding.
    pub const BINDING: Self = Self { group: "", version: "v1", kind: "Binding" };
    /// `policy/v1` Eviction.
    pub const EVICTION: Self = Self { group: "policy", version: "v1", kind: "Eviction" };

    /// The type of a kind's objects.
    #[must_use]
    pub fn of(served: &Served) -> Self {
        let resource = served.resource();
        Self { group: resource.group, version: resource.version, kind: resource.kind }
    }
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
    let (object, found) = schema::decode(model.group, model.version, model.kind, body, format, validation.into())
        .map_err(|error| ApiError::bad_request(error.message))?;
    warnings.extend(found);
    Ok(object)
}

/// Reads a body that has no type of its own here.
///
/// # Errors
/// 400 for what is no object.
pub fn untyped(body: &[u8], format: Format, validation: FieldValidation) -> Result<Object, ApiError> {
    let _ = validation;
    let json = match format {
        Format::Json => std::borrow::Cow::Borrowed(body),
        Format::Yaml => std::borrow::Cow::Owned(schema::yaml_to_json(body).map_err(ApiError::bad_request)?),
    };
    match read_json(&json).map_err(ApiError::bad_request)?.0 {
        Value::Object(object) => Ok(object),
        _ => Err(ApiError::bad_request("the object provided is unrecognized")),
    }
}

/// Parses JSON with Go's error messages; answers also the doubled fields.
///
/// # Errors
/// The words for what is wrong.
pub fn read_json(body: &[u8]) -> Result<(Value, Vec<String>), String> {
    let value = schema::read_json(body)?;
    Ok((value, duplicates::find(body)))
}

/// Reads a patched tree back as an object of a type; answers also what a strict reader has against it.
///
/// # Errors
/// The words for what is wrong.
pub fn read_back(model: &Model<'_>, value: &Value, validation: FieldValidation) -> Result<(Object, Vec<String>), String> {
    // A strict reader's complaints are put together with those about the patch, by the caller.
    let validation = if validation == FieldValidation::Ignore { Validation::Ignore } else { Validation::Warn };
    schema::round_trip(model.group, model.version, model.kind, value, validation).map_err(|error| error.message)
}

/// Reads what a strategic merge patch made as an object of a type.
///
/// # Errors
/// The words for what is wrong.
pub fn read_merged(model: &Model<'_>, value: Value, validation: FieldValidation) -> Result<(Object, Vec<String>), String> {
    let validation = if validation == FieldValidation::Ignore { Validation::Ignore } else { Validation::Warn };
    schema::from_unstructured(model.group, model.version, model.kind, value, validation).map_err(|error| error.message)
}

/// Applies a strategic merge patch; `patch` loses what has been applied of it.
///
/// # Errors
/// 400 or 422 for a patch whose directives are wrong.
pub fn strategic_merge(model: &Model<'_>, live: &Object, patch: &mut Value) -> Result<Value, ApiError> {
    strategic::merge(model.group, model.version, model.kind, Value::Object(live.clone()), patch).map_err(|error| match error {
        PatchError::Bad(why) => ApiError::bad_request(why),
        PatchError::Unprocessable(_) => ApiError::unprocessable(),
        PatchError::Other(why) => ApiError::plain(why),
    })
}

/// Records in `metadata.managedFields` who wrote what.
pub fn update_managed_fields(
    served: &Served,
    live: Option<&Object>,
    object: &mut Object,
    manager: &str,
    subresource: &str,
    now: Timestamp,
) {
    // What the server does on its own has no manager.
    if !manager.is_empty() {
        let resource = served.resource();
        schema::managed::update(
            resource.group, resource.version, resource.kind, live, object, manager, subresource, now,
        );
    }
}

/// Reads the body of a delete.
///
/// # Errors
/// 400 for what is no `DeleteOptions`.
pub fn delete_options(body: &[u8], format: Format) -> Result<Object, ApiError> {
    untyped(body, format, FieldValidation::Ignore)
}
