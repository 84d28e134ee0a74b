//! The functions that expressions call: the operators here, each library in a file of its own.

pub(super) mod authz;
mod convert;
pub(super) mod format;
mod kubernetes;
mod lists;
mod semver;
mod strings;
mod times;

use std::cmp::Ordering;
use std::sync::Arc;

use cel::common::ast::operators;

use super::eval::Failure;
use super::time::{self, Instant};
use super::value::{Map, Value};

pub(super) use semver::Semver;
pub(super) use strings::matched;

/// A function's result.
type Outcome<'a> = Result<Value<'a>, Failure>;

fn error<T>(message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Error(message.into()))
}

/// Calls a function; the first argument is its target, where it has one.
///
/// # Errors
/// What it cannot do, in the words of cel-go.
pub(super) fn call<'a>(name: &str, args: &[Value<'a>]) -> Outcome<'a> {
    operator(name, args)
        .or_else(|| convert::call(name, args))
        .or_else(|| strings::call(name, args))
        .or_else(|| times::call(name, args))
        .or_else(|| lists::call(name, args))
        .or_else(|| optional(name, args))
        .or_else(|| kubernetes::call(name, args))
        .or_else(|| authz::call(name, args))
        .unwrap_or_else(|| Err(lacking(name, &args.iter().collect::<Vec<_>>())))
}

/// That no function of a name takes these values. An operator is named where its first operand knows none like it.
fn lacking(name: &str, args: &[&Value<'_>]) -> Failure {
    use Value::{Bool, Bytes, Double, Duration, Int, List, String, Timestamp, Uint};
    let Some(first) = args.first() else { return Failure::no_overload() };
    let knows = match name {
        operators::ADD => {
            matches!(first, Int(_) | Uint(_) | Double(_) | String(_) | Bytes(_) | List(_) | Duration(_) | Timestamp(_))
        }
        operators::SUBSTRACT => matches!(first, Int(_) | Uint(_) | Double(_) | Duration(_) | Timestamp(_)),
        operators::MULTIPLY | operators::DIVIDE => matches!(first, Int(_) | Uint(_) | Double(_)),
        operators::MODULO => matches!(first, Int(_) | Uint(_)),
        operators::NEGATE => matches!(first, Bool(_) | Int(_) | Double(_) | Duration(_)),
        operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS => {
            lists::has_order(first)
        }
        "size" => false,
        // Those that a kind of value brings along, of which there is one for all.
        "contains" | "startsWith" | "endsWith" | operators::LOGICAL_NOT | operators::INDEX | operators::IN => true,
        _ => {
            let kinds: Vec<&str> = args.iter().map(|arg| arg.type_name()).collect();
            return Failure::Error(format!("no such overload: {name}({})", kinds.join(", ")));
        }
    };
    if knows { Failure::no_overload() } else { Failure::Error(format!("no such overload: {name}")) }
}

fn operator<'a>(name: &str, args: &[Value<'a>]) -> Option<Outcome<'a>> {
    let outcome = match (name, args) {
        (operators::EQUALS, [a, b]) => Ok(Value::Bool(a.equals(b))),
        (operators::NOT_EQUALS, [a, b]) => Ok(Value::Bool(!a.equals(b))),
        (operators::LOGICAL_NOT, [Value::Bool(a)]) => Ok(Value::Bool(!a)),
        (operators::LESS, [a, b]) => compared(name, a, b, |order| order == Ordering::Less),
        (operators::LESS_EQUALS, [a, b]) => compared(name, a, b, |order| order != Ordering::Greater),
        (operators::GREATER, [a, b]) => compared(name, a, b, |order| order == Ordering::Greater),
        (operators::GREATER_EQUALS, [a, b]) => compared(name, a, b, |order| order != Ordering::Less),
        (operators::NEGATE, [Value::Int(a)]) => whole(a.checked_neg(), "integer"),
        (operators::NEGATE, [Value::Double(a)]) => Ok(Value::Double(-a)),
        (
            operators::ADD | operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE | operators::MODULO,
            [a, b],
        ) => arithmetic(name, a, b),
        (operators::INDEX, [of, key]) => index(of, key).and_then(|found| match found {
            Ok(value) => Ok(value),
            Err(missing) => error(missing),
        }),
        (operators::OPT_INDEX, [of, key]) => index(of, key).map(|found| match (of, found) {
            (Value::Optional(_), Ok(value)) => value,
            (_, found) => Value::Optional(found.ok().map(Arc::new)),
        }),
        (operators::IN, [item, Value::List(list)]) => Ok(Value::Bool(list.iter().any(|own| own.equals(item)))),
        (operators::IN, [key, Value::Map(map)]) => {
            map.get(key).map(|found| Value::Bool(found.is_some())).map_err(Failure::from)
        }
        ("cel.@mapInsert", [Value::Map(map), key, value]) => inserted(map, [(key.clone(), value.clone())]),
        ("cel.@mapInsert", [Value::Map(map), Value::Map(more)]) => {
            let pairs = more.keys().into_iter().map(|key| {
                let value = more.get(&key).ok().flatten().unwrap_or(Value::Null);
                (key, value)
            });
            inserted(map, pairs)
        }
        _ => return None,
    };
    Some(outcome)
}

fn compared<'a, 'b>(name: &str, one: &Value<'b>, other: &Value<'b>, test: impl Fn(Ordering) -> bool) -> Outcome<'a> {
    match one.compare(other) {
        Some(order) => Ok(Value::Bool(test(order))),
        None if matches!((one, other), (Value::Double(_), _) | (_, Value::Double(_))) => {
            error("NaN values cannot be ordered")
        }
        None => Err(lacking(name, &[one, other])),
    }
}

/// A number that may not have fitted.
fn whole<'a>(number: Option<i64>, what: &str) -> Outcome<'a> {
    number.map(Value::Int).ok_or_else(|| Failure::Error(format!("{what} overflow")))
}

fn arithmetic<'a>(operator: &str, one: &Value<'a>, other: &Value<'a>) -> Outcome<'a> {
    use Value::{Bytes, Double, Duration, Int, List, String, Timestamp, Uint};
    match (one, other) {
        (Int(a), Int(b)) => match operator {
            operators::ADD => whole(a.checked_add(*b), "integer"),
            operators::SUBSTRACT => whole(a.checked_sub(*b), "integer"),
            operators::MULTIPLY => whole(a.checked_mul(*b), "integer"),
            operators::DIVIDE if *b == 0 => error("division by zero"),
            operators::DIVIDE => whole(a.checked_div(*b), "integer"),
            _ if *b == 0 => error("modulus by zero"),
            _ => whole(a.checked_rem(*b), "integer"),
        },
        (Uint(a), Uint(b)) => {
            let result = match operator {
                operators::ADD => a.checked_add(*b),
                operators::SUBSTRACT => a.checked_sub(*b),
                operators::MULTIPLY => a.checked_mul(*b),
                operators::DIVIDE if *b == 0 => return error("division by zero"),
                operators::DIVIDE => a.checked_div(*b),
                _ if *b == 0 => return error("modulus by zero"),
                _ => a.checked_rem(*b),
            };
            result.map(Uint).ok_or_else(|| Failure::Error("unsigned integer overflow".to_owned()))
        }
        (Double(a), Double(b)) => match operator {
            operators::ADD => Ok(Double(a + b)),
            operators::SUBSTRACT => Ok(Double(a - b)),
            operators::MULTIPLY => Ok(Double(a * b)),
            operators::DIVIDE => Ok(Double(a / b)),
            _ => Err(lacking(operator, &[one, other])),
        },
        (String(a), String(b)) if operator == operators::ADD => Ok(Value::text(format!("{a}{b}"))),
        (Bytes(a), Bytes(b)) if operator == operators::ADD => Ok(Bytes([&**a, &**b].concat().into())),
        (List(a), List(b)) if operator == operators::ADD => Ok(a.plus(b)),
        (Duration(a), Duration(b)) => {
            let result = match operator {
                operators::ADD => a.checked_add(*b),
                operators::SUBSTRACT => a.checked_sub(*b),
                _ => return Err(lacking(operator, &[one, other])),
            };
            result.map(Duration).ok_or_else(|| Failure::Error("duration overflow".to_owned()))
        }
        (Timestamp(a), Duration(b)) | (Duration(b), Timestamp(a)) if operator == operators::ADD => {
            instant(a + i128::from(*b))
        }
        (Timestamp(a), Duration(b)) if operator == operators::SUBSTRACT => instant(a - i128::from(*b)),
        (Timestamp(a), Timestamp(b)) if operator == operators::SUBSTRACT => {
            i64::try_from(a - b).map(Duration).map_err(|_| Failure::Error("timestamp overflow".to_owned()))
        }
        _ => Err(lacking(operator, &[one, other])),
    }
}

/// A point in time that may not have fitted.
fn instant<'a>(at: Instant) -> Outcome<'a> {
    if time::fits(at) { Ok(Value::Timestamp(at)) } else { error("timestamp overflow") }
}

/// An element or member; or what is said where it is missing.
fn index<'a>(of: &Value<'a>, key: &Value<'a>) -> Result<Result<Value<'a>, String>, Failure> {
    let missing = || {
        let shown = convert::text(key).unwrap_or_else(|| key.type_name().to_owned());
        format!("no such key: {shown}")
    };
    match (of, key) {
        (Value::List(list), Value::Int(at)) => {
            let found = usize::try_from(*at).ok().map(|at| list.get(at)).transpose()?.flatten();
            Ok(found.ok_or_else(|| format!("index out of bounds: {at}")))
        }
        (Value::List(list), Value::Uint(at)) => {
            let found = usize::try_from(*at).ok().map(|at| list.get(at)).transpose()?.flatten();
            Ok(found.ok_or_else(|| format!("index out of bounds: {at}")))
        }
        (Value::Map(map), key) => Ok(map.get(key)?.ok_or_else(missing)),
        (Value::List(_), key) => error(format!("unsupported index type '{}' in list", key.type_name())),
        (Value::Optional(None), _) => Ok(Ok(Value::Optional(None))),
        (Value::Optional(Some(inner)), key) => Ok(Ok(Value::Optional(index(inner, key)?.ok().map(Arc::new)))),
        // Of what has nothing in it, the reference says that this is missing.
        _ => Ok(Err(missing())),
    }
}

fn inserted<'a>(map: &Map<'a>, more: impl IntoIterator<Item = (Value<'a>, Value<'a>)>) -> Outcome<'a> {
    let mut pairs: Vec<(Value<'a>, Value<'a>)> = match map {
        Map::Made(pairs) => (**pairs).clone(),
        Map::Json { .. } => map
            .keys()
            .into_iter()
            .map(|key| Ok((key.clone(), map.get(&key)?.unwrap_or(Value::Null))))
            .collect::<Result<_, String>>()?,
    };
    for (key, value) in more {
        if pairs.iter().any(|(known, _)| known.equals(&key)) {
            let shown = convert::text(&key).unwrap_or_default();
            return error(format!("insert failed: key {shown} already exists"));
        }
        pairs.push((key, value));
    }
    Ok(Value::Map(Map::Made(Arc::new(pairs))))
}

/// Values that may be absent.
fn optional<'a>(name: &str, args: &[Value<'a>]) -> Option<Outcome<'a>> {
    Some(match (name, args) {
        ("optional.none", []) => Ok(Value::Optional(None)),
        ("optional.of", [value]) => Ok(Value::Optional(Some(Arc::new(value.clone())))),
        ("optional.ofNonZeroValue", [value]) => {
            let zero = match value {
                Value::Null => true,
                Value::Bool(flag) => !flag,
                Value::Int(number) => *number == 0,
                Value::Uint(number) => *number == 0,
                Value::Double(number) => *number == 0.0,
                Value::Duration(nanos) => *nanos == 0,
                Value::Timestamp(instant) => *instant == time::YEAR_ONE,
                Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => value.size() == 0,
                _ => false,
            };
            Ok(Value::Optional((!zero).then(|| Arc::new(value.clone()))))
        }
        ("hasValue", [Value::Optional(inner)]) => Ok(Value::Bool(inner.is_some())),
        ("value", [Value::Optional(Some(inner))]) => Ok((**inner).clone()),
        ("value", [Value::Optional(None)]) => error("optional.none() dereference"),
        ("optional.unwrap" | "unwrapOpt", [Value::List(list)]) => Ok(Value::list(
            list.iter()
                .filter_map(|item| match item {
                    Value::Optional(inner) => inner.map(|inner| (*inner).clone()),
                    other => Some(other),
                })
                .collect(),
        )),
        _ => return None,
    })
}

/// A value as a text shows it, for tests.
#[cfg(test)]
pub(super) fn shown(value: &Value<'_>) -> String {
    match value {
        Value::List(list) => format!("[{}]", list.iter().map(|item| shown(&item)).collect::<Vec<_>>().join(", ")),
        other => convert::text(other).unwrap_or_else(|| other.type_name().to_owned()),
    }
}
