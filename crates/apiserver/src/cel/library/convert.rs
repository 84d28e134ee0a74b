//! Types, conversions between them, and sizes.

use super::{Outcome, error};
use crate::cel::eval::Failure;
use crate::cel::value::Value;
use crate::cel::{duration, time};

/// What is told of bytes that are no text.
pub(super) const NO_TEXT: &str = "invalid UTF-8 in bytes, cannot convert to string";

pub(super) fn call<'a>(name: &str, args: &[Value<'a>]) -> Option<Outcome<'a>> {
    let [value] = args else { return None };
    let converted = match name {
        "type" => return Some(Ok(Value::Type(value.type_name()))),
        "dyn" => return Some(Ok(value.clone())),
        "size" => {
            let has_size = matches!(value, Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_));
            return has_size.then(|| Ok(Value::Int(i64::try_from(value.size()).unwrap_or(i64::MAX))));
        }
        "bool" => match value {
            Value::Bool(_) => Ok(value.clone()),
            Value::String(text) => match &**text {
                "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
                "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
                _ => unlike(value, "bool"),
            },
            _ => return None,
        },
        "bytes" => match value {
            Value::Bytes(_) => Ok(value.clone()),
            Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
            _ => return None,
        },
        "int" => int(value)?,
        "uint" => uint(value)?,
        "double" => double(value)?,
        "string" => match value {
            Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Value::text(text)),
                Err(_) => error(NO_TEXT),
            },
            value => Ok(Value::text(text(value)?)),
        },
        "duration" => match value {
            Value::Duration(_) => Ok(value.clone()),
            Value::String(text) => match duration::parse(text) {
                Ok(nanos) => Ok(Value::Duration(nanos)),
                Err(_) => unlike(value, "google.protobuf.Duration"),
            },
            Value::Int(_) => unlike(value, "google.protobuf.Duration"),
            _ => return None,
        },
        "timestamp" => match value {
            Value::Timestamp(_) => Ok(value.clone()),
            Value::Int(seconds) => super::instant(i128::from(*seconds) * 1_000_000_000),
            Value::String(text) => match time::parse(text) {
                Some(at) => super::instant(at),
                None => unlike(value, "google.protobuf.Timestamp"),
            },
            _ => return None,
        },
        _ => return None,
    };
    Some(converted)
}

/// That a value does not look like one of another type.
fn unlike<'a>(value: &Value<'_>, kind: &str) -> Outcome<'a> {
    error(format!("type conversion error from '{}' to '{kind}'", value.type_name()))
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

#[expect(clippy::cast_possible_truncation, reason = "within the range that was checked")]
fn int<'a>(value: &Value<'a>) -> Option<Outcome<'a>> {
    let overflow = || Failure::Error("integer overflow".to_owned());
    Some(match value {
        Value::Int(_) => Ok(value.clone()),
        Value::Uint(number) => i64::try_from(*number).map(Value::Int).map_err(|_| overflow()),
        Value::Double(number) if number.abs() < TWO_TO_63 => Ok(Value::Int(*number as i64)),
        Value::Double(_) => Err(overflow()),
        Value::Duration(nanos) => Ok(Value::Int(*nanos)),
        Value::Timestamp(instant) => {
            Ok(Value::Int(i64::try_from(instant.div_euclid(1_000_000_000)).unwrap_or_default()))
        }
        Value::String(text) => text.parse().map_or_else(|_| unlike(value, "int"), |number| Ok(Value::Int(number))),
        _ => return None,
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the range that was checked")]
fn uint<'a>(value: &Value<'a>) -> Option<Outcome<'a>> {
    let overflow = || Failure::Error("unsigned integer overflow".to_owned());
    Some(match value {
        Value::Uint(_) => Ok(value.clone()),
        Value::Int(number) => u64::try_from(*number).map(Value::Uint).map_err(|_| overflow()),
        Value::Double(number) if *number >= 0.0 && *number < 2.0 * TWO_TO_63 => Ok(Value::Uint(*number as u64)),
        Value::Double(_) => Err(overflow()),
        // Go takes no sign here.
        Value::String(text) => match text.parse() {
            Ok(number) if !text.starts_with('+') => Ok(Value::Uint(number)),
            _ => unlike(value, "uint"),
        },
        _ => return None,
    })
}

#[expect(clippy::cast_precision_loss, reason = "as the language says")]
fn double<'a>(value: &Value<'a>) -> Option<Outcome<'a>> {
    Some(match value {
        Value::Double(_) => Ok(value.clone()),
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Uint(number) => Ok(Value::Double(*number as f64)),
        Value::String(text) => match text.parse::<f64>() {
            // What is too large is no infinity.
            Ok(number) if number.is_infinite() && text.contains(|c: char| c.is_ascii_digit()) => {
                unlike(value, "double")
            }
            Ok(number) => Ok(Value::Double(number)),
            Err(_) => unlike(value, "double"),
        },
        _ => return None,
    })
}

/// What `string()` makes of a value; `None` for what it does not take.
pub(super) fn text(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::String(text) => text.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => muster_tree::float::shown(*number),
        Value::Bytes(bytes) => String::from_utf8(bytes.to_vec()).ok()?,
        Value::Duration(nanos) => duration::seconds(*nanos),
        Value::Timestamp(instant) => time::text(*instant),
        Value::Ip(ip) => ip.to_string(),
        Value::Cidr(ip, prefix) => format!("{ip}/{prefix}"),
        _ => return None,
    })
}
