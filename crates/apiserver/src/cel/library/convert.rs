//! Types, conversions between them, and sizes.

use base64::Engine as _;

use super::{Outcome, error};
use crate::cel::eval::Failure;
use crate::cel::value::Value;
use crate::cel::{duration, time};

pub(super) fn call<'a>(name: &str, args: &[Value<'a>]) -> Option<Outcome<'a>> {
    let [value] = args else { return None };
    Some(match name {
        "type" => Ok(Value::Type(value.type_name())),
        "dyn" => Ok(value.clone()),
        "size" => match value {
            Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => {
                Ok(Value::Int(i64::try_from(value.size()).unwrap_or(i64::MAX)))
            }
            _ => Err(Failure::no_overload()),
        },
        "bool" => match value {
            Value::Bool(_) => Ok(value.clone()),
            Value::String(text) => match &**text {
                "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
                "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
                _ => error(format!("strconv.ParseBool: parsing {}: invalid syntax", crate::field::go_quote(text))),
            },
            _ => Err(Failure::no_overload()),
        },
        "bytes" => match value {
            Value::Bytes(_) => Ok(value.clone()),
            Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
            _ => Err(Failure::no_overload()),
        },
        "int" => int(value),
        "uint" => uint(value),
        "double" => double(value),
        "string" => text(value).map(Value::text).ok_or_else(Failure::no_overload),
        "duration" => match value {
            Value::Duration(_) => Ok(value.clone()),
            Value::Int(seconds) => seconds
                .checked_mul(1_000_000_000)
                .map(Value::Duration)
                .ok_or_else(|| Failure::Error("duration overflow".to_owned())),
            Value::String(text) => {
                duration::parse(text).map(Value::Duration).map_err(|why| Failure::Error(format!("time: {why}")))
            }
            _ => Err(Failure::no_overload()),
        },
        "timestamp" => match value {
            Value::Timestamp(_) => Ok(value.clone()),
            Value::Int(seconds) => Ok(Value::Timestamp(i128::from(*seconds) * 1_000_000_000)),
            Value::String(text) => time::parse(text).map(Value::Timestamp).ok_or_else(|| {
                let quoted = crate::field::go_quote(text);
                Failure::Error(format!(
                    "parsing time {quoted} as \"2006-01-02T15:04:05Z07:00\": cannot parse {quoted} as \"2006\""
                ))
            }),
            _ => Err(Failure::no_overload()),
        },
        _ => return None,
    })
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

#[expect(clippy::cast_possible_truncation, reason = "within the range that was checked")]
fn int<'a>(value: &Value<'a>) -> Outcome<'a> {
    match value {
        Value::Int(_) => Ok(value.clone()),
        Value::Uint(number) => {
            i64::try_from(*number).map(Value::Int).map_err(|_| Failure::Error("integer overflow".to_owned()))
        }
        Value::Double(number) if number.abs() < TWO_TO_63 => Ok(Value::Int(*number as i64)),
        Value::Double(_) => error("integer overflow"),
        Value::Duration(nanos) => Ok(Value::Int(*nanos)),
        Value::Timestamp(instant) => {
            Ok(Value::Int(i64::try_from(instant.div_euclid(1_000_000_000)).unwrap_or_default()))
        }
        Value::String(text) => match text.parse::<i64>() {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) => error(format!("strconv.ParseInt: parsing {}: invalid syntax", crate::field::go_quote(text))),
        },
        _ => Err(Failure::no_overload()),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the range that was checked")]
fn uint<'a>(value: &Value<'a>) -> Outcome<'a> {
    let overflow = || Failure::Error("unsigned integer overflow".to_owned());
    match value {
        Value::Uint(_) => Ok(value.clone()),
        Value::Int(number) => u64::try_from(*number).map(Value::Uint).map_err(|_| overflow()),
        Value::Double(number) if *number >= 0.0 && *number < 2.0 * TWO_TO_63 => Ok(Value::Uint(*number as u64)),
        Value::Double(_) => Err(overflow()),
        Value::String(text) => match text.parse::<u64>() {
            Ok(number) => Ok(Value::Uint(number)),
            Err(_) => error(format!("strconv.ParseUint: parsing {}: invalid syntax", crate::field::go_quote(text))),
        },
        _ => Err(Failure::no_overload()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "as the language says")]
fn double<'a>(value: &Value<'a>) -> Outcome<'a> {
    match value {
        Value::Double(_) => Ok(value.clone()),
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Uint(number) => Ok(Value::Double(*number as f64)),
        Value::String(text) => match text.parse::<f64>() {
            Ok(number) => Ok(Value::Double(number)),
            Err(_) => error(format!("strconv.ParseFloat: parsing {}: invalid syntax", crate::field::go_quote(text))),
        },
        _ => Err(Failure::no_overload()),
    }
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

/// Bytes in base64, for messages.
pub(super) fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
