//! From the JSON tree that a strategic merge patch made to an object.
//!
//! The reference does not go through JSON text here: it walks the tree with its unstructured
//! converter, whose errors are its own and poorer ones. The result is in the same form as
//! [`super::decode`]'s. (Contract: API-06, API-12.)

use std::ops::RangeInclusive;

use muster_tree::{Map, Number, Text, Value};

use super::decode::{self, DecodeError, Validation};
use super::table::{Kind, Shape, Table, TypeId};
use super::{Object, normal, time};

/// Converts what a strategic merge patch made of an object. Gives the object and the warnings.
///
/// # Errors
///
/// The bare error, such as `cannot restore slice from map` or `strict decoding error: ...`; the
/// reference puts it into an `Invalid` answer for the field `patch`.
pub fn from_unstructured(
    group: &str,
    version: &str,
    kind: &str,
    patched: &Value,
    validation: Validation,
) -> Result<(Object, Vec<String>), DecodeError> {
    let id = Table::get()
        .kind(group, version, kind)
        .ok_or_else(|| DecodeError { message: format!("no kind {kind:?} is registered for version {version:?}") })?;
    let mut converter = Converter {
        strict: validation != Validation::Ignore,
        exact: false,
        depth: 0,
        path: String::new(),
        unknown: Vec::new(),
    };
    let shape = Shape { kind: Kind::Struct(id), named: None };
    let value = converter.value(&shape, patched, None).map_err(|message| DecodeError { message })?;
    let Value::Object(object) = value else {
        return Err(DecodeError { message: "cannot restore struct from: null".to_owned() });
    };
    converter.unknown.sort();
    if validation == Validation::Strict && !converter.unknown.is_empty() {
        return Err(DecodeError { message: decode::strict_message(&converter.unknown) });
    }
    Ok((object, converter.unknown))
}

/// An object of a type as [`super::decode`] would read it from its text, where there is nothing in it that is read in a way of its
/// own or refused; `None` where there may be. What it has in common with `known`, an object of that type, is as it is there.
pub(super) fn exactly(id: TypeId, patched: &Value, known: Option<&Object>) -> Option<Object> {
    let mut converter = Converter { strict: false, exact: true, depth: 0, path: String::new(), unknown: Vec::new() };
    converter.structure(id, patched.as_object()?, known).ok()
}

struct Converter {
    strict: bool,
    /// Whether what the reader of text may see otherwise is an error.
    exact: bool,
    /// How deep the value that is being read stands: types may hold themselves.
    depth: usize,
    path: String,
    unknown: Vec<String>,
}

impl Converter {
    fn value(&mut self, shape: &Shape, value: &Value, known: Option<&Value>) -> Result<Value, String> {
        if value.is_null() {
            return Ok(normal::zero(shape));
        }
        if known.is_some_and(|known| known.is_shared_with(value)) {
            return Ok(value.clone());
        }
        match (&shape.kind, value) {
            (Kind::String, Value::String(_)) | (Kind::Bool, Value::Bool(_)) => Ok(value.clone()),
            (Kind::String, Value::Number(n)) if !n.is_f64() => {
                Err(format!("cannot convert int64 to {}", shape.go_type()))
            }
            (Kind::Int32, Value::Number(n)) =>
            {
                #[expect(clippy::cast_possible_truncation, reason = "Go's conversion wraps as well")]
                self.integer(n, i64::from(i32::MIN)..=i64::from(i32::MAX), shape).map(|n| Value::from(n as i32))
            }
            (Kind::Int64, Value::Number(n)) => self.integer(n, i64::MIN..=i64::MAX, shape).map(Value::from),
            (Kind::Float, Value::Number(n)) => Ok(normal::float(n.as_f64().unwrap_or(0.0))),
            (Kind::Quantity, value) => normal::quantity(value.to_string().as_bytes()),
            (Kind::Time | Kind::MicroTime, Value::String(text)) => {
                let time = time::canonical(text, matches!(shape.kind, Kind::MicroTime))?;
                Ok(time.map_or(Value::Null, Value::from))
            }
            (Kind::Time | Kind::MicroTime, value) => Err(wrong(value, "string")),
            (Kind::IntOrString, Value::String(_)) => Ok(value.clone()),
            (Kind::IntOrString, Value::Number(n)) => {
                let small = n.as_i64().and_then(|n| i32::try_from(n).ok());
                small
                    .map(Value::from)
                    .ok_or_else(|| format!("json: cannot unmarshal number {n} into Go value of type int32"))
            }
            (Kind::IntOrString, value) => Err(wrong(value, "int32")),
            (Kind::Fields | Kind::Raw | Kind::Json | Kind::Either(_), _) if self.exact => {
                Err("the reader of text says what this is".to_owned())
            }
            (Kind::Fields | Kind::Raw | Kind::Json, value) => Ok(value.clone()),
            (Kind::Either(_), value) => decode::read_as(shape, value.to_string().as_bytes()),
            (Kind::Bytes, Value::String(text)) => {
                normal::base64(text).map(Value::from).map_err(|e| format!("error decoding from json: {e}"))
            }
            (Kind::Struct(id), Value::Object(object)) => {
                self.structure(*id, object, known.and_then(Value::as_object)).map(Value::Object)
            }
            (Kind::Struct(_), value) => Err(format!("cannot restore struct from: {}", kind(value))),
            (Kind::Map(inner), Value::Object(object)) => {
                let known = known.and_then(Value::as_object);
                let member = |(key, value): (&Text, &Value)| {
                    Ok((key.clone(), self.value(inner, value, known.and_then(|known| known.get(key)))?))
                };
                object.iter().map(member).collect::<Result<Map, String>>().map(Value::Object)
            }
            (Kind::Map(_), value) => Err(format!("cannot restore map from {}", kind(value))),
            (Kind::List(inner), Value::Array(items)) => {
                let depth = self.path.len();
                let known = known.and_then(Value::as_array);
                let mut out = Vec::with_capacity(items.len());
                for item in items {
                    if self.strict {
                        self.path.push_str(&format!("[{}]", out.len()));
                    }
                    out.push(self.value(inner, item, known.and_then(|known| known.get(out.len())))?);
                    self.path.truncate(depth);
                }
                Ok(Value::Array(out.into()))
            }
            (Kind::List(_) | Kind::Bytes, value) => Err(format!("cannot restore slice from {}", kind(value))),
            (Kind::String, _) => Err("unrecognized type: string".to_owned()),
            (Kind::Bool, _) => Err("unrecognized type: bool".to_owned()),
            (Kind::Int32, _) => Err("unrecognized type: int32".to_owned()),
            (Kind::Int64, _) => Err("unrecognized type: int64".to_owned()),
            (Kind::Float, _) => Err("unrecognized type: float64".to_owned()),
        }
    }

    fn structure(&mut self, id: TypeId, from: &Object, known: Option<&Object>) -> Result<Object, String> {
        if self.depth >= decode::DEEPEST {
            return Err("exceeded max depth".to_owned());
        }
        self.depth += 1;
        let read = self.fields(id, from, known);
        self.depth -= 1;
        read
    }

    fn fields(&mut self, id: TypeId, from: &Object, known: Option<&Object>) -> Result<Object, String> {
        let ty = Table::get().ty(id);
        let depth = self.path.len();
        let mut out: Vec<(Text, Value)> = Vec::with_capacity(from.len());
        let mut met = 0;
        for field in &ty.fields {
            let Some(value) = from.get(field.json) else { continue };
            met += 1;
            if value.is_null() && (field.pointer || field.omitted) {
                continue;
            }
            if self.strict {
                if depth > 0 {
                    self.path.push('.');
                }
                self.path.push_str(field.json);
            }
            let value = self.value(&field.shape, value, known.and_then(|known| known.get(field.json)))?;
            self.path.truncate(depth);
            normal::put(&mut out, ty, field, Some(value));
        }
        if met < from.len() {
            if self.exact {
                return Err("the reader of text knows names in any case".to_owned());
            }
            if self.strict {
                let dot = if depth > 0 { "." } else { "" };
                let unknown = from.keys().filter(|name| ty.field(name).is_none());
                self.unknown.extend(unknown.map(|name| format!("unknown field \"{}{dot}{name}\"", self.path)));
            }
        }
        let mut out: Object = out.into_iter().collect();
        normal::finish(&mut out, id);
        Ok(out)
    }

    fn integer(&self, number: &Number, range: RangeInclusive<i64>, shape: &Shape) -> Result<i64, String> {
        match number.as_i64() {
            Some(n) if !self.exact || range.contains(&n) => Ok(n),
            None if !self.exact => integer(number, shape),
            _ => Err("the reader of text refuses it".to_owned()),
        }
    }
}

fn integer(number: &Number, shape: &Shape) -> Result<i64, String> {
    #[expect(clippy::cast_possible_truncation, reason = "Go converts the same way")]
    match number.as_f64() {
        Some(f) if f.fract() == 0.0 => Ok(f as i64),
        _ => Err(format!("cannot convert float64 to {}", shape.go_type())),
    }
}

fn wrong(value: &Value, ty: &str) -> String {
    let what = match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::Bool(_) => "bool",
        Value::String(_) => "string",
        _ => "number",
    };
    format!("json: cannot unmarshal {what} into Go value of type {ty}")
}

/// What Go's reflection calls a value of a decoded tree.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}
