//! Bodies of kinds that came with CustomResourceDefinitions: trees that a schema prunes, and nothing more.

use std::borrow::Cow;

use muster_tree::Value;

use super::Format;
use crate::custom::structural::Structural;
use crate::custom::{default, metadata, prune};
use crate::kinds::custom::CustomKind;
use crate::model::{FieldValidation, Fields as _, Object, api_version};
use crate::schema;
use crate::schema::decode::{interpret, refusal, strict_message};
use crate::status::ApiError;

/// Reads a body. Unknown and doubled fields are refused, or dropped and warned of.
///
/// # Errors
/// 400 with the real server's words.
pub fn decode(
    kind: &CustomKind,
    body: &[u8],
    format: Format,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<Object, ApiError> {
    let model = crate::kinds::Kind::resource(kind).model();
    let refuse = |found, why: String| ApiError::bad_request(refusal(why, found, model.kind, body));
    if format == Format::Protobuf {
        let said = super::protobuf::open(body).map_err(|why| refuse(None, why))?;
        let version = said.api_version.rsplit('/').next().unwrap_or_default().to_owned();
        return Err(refuse(Some((said.kind, version)), NO_PROTOBUF.to_owned()));
    }
    let json = match format {
        Format::Yaml => Cow::Owned(schema::yaml_to_json(body).map_err(|why| refuse(None, why))?),
        Format::Json | Format::Protobuf => Cow::Borrowed(body),
    };
    let (own_version, own_kind) =
        interpret(&json).map_err(|why| refuse(None, format!("couldn't get version/kind; json parse error: {why}")))?;
    let named = || {
        let version = own_version.split_once('/').map_or(&*own_version, |(_, version)| version);
        (!own_kind.is_empty()).then(|| (own_kind.to_string(), version.to_owned()))
    };
    let (tree, mut strict) = schema::read_checked(&json).map_err(|why| refuse(named(), why))?;
    let Some((mut object, said)) = open(tree) else {
        let text = String::from_utf8_lossy(&json);
        return Err(refuse(None, format!("Object 'Kind' is missing in '{text}'")));
    };
    let version = said.split_once('/').map_or(said.as_str(), |(_, version)| version);
    let found = Some((object.text("kind").to_owned(), version.to_owned()));
    strict.extend(trim(kind, &mut object).map_err(|why| refuse(found.clone(), why))?);
    if format == Format::Yaml {
        strict.splice(0..0, schema::yaml_duplicates(body));
    }
    match validation {
        FieldValidation::Strict if !strict.is_empty() => return Err(refuse(found, strict_message(&strict))),
        FieldValidation::Warn => warnings.extend(strict),
        FieldValidation::Strict | FieldValidation::Ignore => {}
    }
    let wanted = api_version(model.group, model.version);
    if said != wanted {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({said}) does not match the expected API version ({wanted})"
        )));
    }
    Ok(object)
}

/// What the real server says of protobuf for such a kind.
const NO_PROTOBUF: &str = "object *unstructured.Unstructured does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message";

/// Reads a patched tree back; answers also what a strict reader has against it.
///
/// # Errors
/// The words for what is wrong.
pub fn read_back(kind: &CustomKind, tree: &Value) -> Result<(Object, Vec<String>), String> {
    let is_odd = |field| tree.get(field).is_some_and(|said: &Value| !said.is_null() && !said.is_string());
    if !tree.is_object() || ["apiVersion", "kind"].into_iter().any(is_odd) {
        interpret(tree.to_string().as_bytes())
            .map_err(|why| format!("couldn't get version/kind; json parse error: {why}"))?;
    }
    let Some((mut object, said)) = open(tree.clone()) else {
        return Err(format!("Object 'Kind' is missing in '{tree}'"));
    };
    if object.get("apiVersion").is_some_and(Value::is_null) {
        return Err(".apiVersion accessor error: <nil> is of the type <nil>, expected string".to_owned());
    }
    if said.matches('/').count() > 1 {
        return Err(format!("unexpected GroupVersion string: {said}"));
    }
    let strict = trim(kind, &mut object)?;
    Ok((object, strict))
}

/// An object that says its kind, and its `apiVersion`.
fn open(tree: Value) -> Option<(Object, String)> {
    let Value::Object(object) = tree else { return None };
    if object.text("kind").is_empty() {
        return None;
    }
    let said = object.text("apiVersion").to_owned();
    Some((object, said))
}

/// Drops what the schema does not know; answers what that was.
fn trim(kind: &CustomKind, object: &mut Object) -> Result<Vec<String>, String> {
    let family = kind.family();
    let mut unknown = metadata::read(object)?;
    let group = object.text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    if group == family.group && object.text("kind") == family.names.kind {
        let nothing = Structural::default();
        let schema = family.version_of(object).map_or(&nothing, |at| family.schema(at));
        unknown.extend(prune::unknown_fields(object, schema));
        default::drop_nulls(object, Some(schema));
        unknown.extend(metadata::coerce(object, schema).map_err(|error| error.to_string())?);
    }
    Ok(unknown.into_iter().map(|path| format!("unknown field {}", crate::field::go_quote(&path))).collect())
}
