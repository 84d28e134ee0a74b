//! Values as JSON: what the patches and configurations of policies are made of.

use base64::Engine as _;
use muster_tree::{Map as Members, Value as Json};

use super::value::{Map, Value};
use super::{duration, time};
use crate::field::go_quote;

/// Whole numbers beyond this do not fit a number of JSON, as protobuf has it.
const LARGEST_NUMBER: u64 = (1 << 53) - 1;

impl Value<'_> {
    /// The value as the JSON of protobuf, which knows no whole numbers.
    ///
    /// # Errors
    /// That it has no such form, in the words of cel-go.
    pub fn to_json(&self) -> Result<Json, String> {
        Ok(match self {
            Self::Null => Json::Null,
            Self::Bool(value) => Json::from(*value),
            Self::Int(value) if value.unsigned_abs() <= LARGEST_NUMBER => Json::from(*value),
            Self::Int(value) => Json::from(value.to_string()),
            Self::Uint(value) if *value <= LARGEST_NUMBER => Json::from(*value),
            Self::Uint(value) => Json::from(value.to_string()),
            Self::Double(value) => number(*value),
            Self::String(text) => Json::from(&**text),
            Self::Bytes(bytes) => Json::from(base64::engine::general_purpose::STANDARD.encode(bytes)),
            Self::Timestamp(instant) => Json::from(time::text(*instant)),
            Self::Duration(nanos) => Json::from(duration::seconds(*nanos)),
            Self::List(list) => Json::Array(list.iter().map(|item| item.to_json()).collect::<Result<_, _>>()?),
            Self::Map(map) | Self::Made(_, map) => members(map, |_, value| value.to_json())?,
            Self::Optional(Some(inner)) => inner.to_json()?,
            Self::Optional(None) => return Err("optional.none() dereference".to_owned()),
            Self::Type(_) => return Err("type conversion not supported for 'type'".to_owned()),
            other => {
                let name = other.type_name();
                let short = name.rsplit('.').next().unwrap_or(name);
                return Err(format!("type conversion error from '{short}' to '*structpb.Value'"));
            }
        })
    }

    /// The value as a part of an object, at a path in it.
    ///
    /// # Errors
    /// That an object cannot have such a value.
    pub fn to_configuration(&self, path: &str) -> Result<Json, String> {
        Ok(match self {
            Self::Bool(value) => Json::from(*value),
            Self::Int(value) => Json::from(*value),
            Self::Double(value) => number(*value),
            Self::String(text) => Json::from(&**text),
            Self::List(list) => {
                let item = |(at, item): (usize, Value<'_>)| item.to_configuration(&format!("{path}[{at}]"));
                Json::Array(list.iter().enumerate().map(item).collect::<Result<_, _>>()?)
            }
            Self::Map(map) | Self::Made(_, map) => {
                members(map, |name, value| value.to_configuration(&format!("{path}.{name}")))?
            }
            Self::Optional(Some(inner)) => inner.to_configuration(path)?,
            other => return Err(format!("{path}: expected a value of JSON, got {}", other.type_name())),
        })
    }

    /// What is wrong with the names of the objects that it is made of: each has to be called by the path to it. `path` is
    /// the one to this value.
    pub fn misnamed(&self, path: &str, found: &mut Vec<String>) {
        match self {
            Self::Made(name, map) => {
                if *name != path {
                    let (name, path) = (go_quote(name), go_quote(path));
                    found.push(format!(
                        "unexpected type name {name}, expected {path}, which matches field name path from root Object type"
                    ));
                }
                for (key, value) in pairs(map) {
                    let Value::String(key) = key else { continue };
                    value.misnamed(&format!("{path}.{key}"), found);
                }
            }
            Self::List(list) => list.iter().for_each(|item| item.misnamed(path, found)),
            Self::Map(map) => pairs(map).for_each(|(_, value)| value.misnamed(path, found)),
            _ => {}
        }
    }
}

/// A number, without a point where it is whole.
#[expect(clippy::cast_possible_truncation, reason = "only whole numbers that fit are taken")]
#[expect(clippy::cast_precision_loss, reason = "the largest number is one of a float")]
fn number(value: f64) -> Json {
    if value.fract() == 0.0 && value.abs() <= LARGEST_NUMBER as f64 {
        return Json::from(value as i64);
    }
    Json::from(value)
}

/// What was made by an expression; what is of the object itself contains nothing of that.
fn pairs<'m, 'a>(map: &'m Map<'a>) -> impl Iterator<Item = &'m (Value<'a>, Value<'a>)> {
    match map {
        Map::Made(pairs) => pairs.iter(),
        Map::Json { .. } => [].iter(),
    }
}

fn members<'a>(map: &Map<'a>, show: impl Fn(&str, &Value<'a>) -> Result<Json, String>) -> Result<Json, String> {
    if let Map::Json { members, .. } = map {
        return Ok(Json::Object((*members).clone()));
    }
    let member = |(key, value): &(Value<'a>, Value<'a>)| match key {
        Value::String(key) => Ok((key.to_string(), show(key, value)?)),
        other => Err(format!("unsupported type conversion from '{}' to string", other.type_name())),
    };
    pairs(map).map(member).collect::<Result<Members, _>>().map(Json::Object)
}
