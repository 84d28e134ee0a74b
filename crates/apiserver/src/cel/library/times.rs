//! The parts of times and durations.

use super::{Outcome, error};
use crate::cel::time::{Parts, offset_at};
use crate::cel::value::Value;

pub(super) fn call<'a>(name: &str, args: &[Value<'a>]) -> Option<Outcome<'a>> {
    let part: fn(Parts) -> i64 = match name {
        "getFullYear" => |p| p.year,
        "getMonth" => |p| p.month - 1,
        "getDate" => |p| p.day,
        "getDayOfMonth" => |p| p.day - 1,
        "getDayOfWeek" => |p| p.day_of_week,
        "getDayOfYear" => |p| p.day_of_year,
        "getHours" => |p| p.hour,
        "getMinutes" => |p| p.minute,
        "getSeconds" => |p| p.second,
        "getMilliseconds" => |p| p.nanos / 1_000_000,
        _ => return None,
    };
    Some(match args {
        [Value::Timestamp(instant)] => Ok(Value::Int(part(Parts::of(*instant, 0)))),
        [Value::Timestamp(instant), Value::String(zone)] => match offset_at(zone, *instant) {
            Some(offset) => Ok(Value::Int(part(Parts::of(*instant, offset)))),
            None => error(format!("unknown time zone {zone}")),
        },
        [Value::Duration(nanos)] => Ok(Value::Int(match name {
            "getHours" => nanos / 3_600_000_000_000,
            "getMinutes" => nanos / 60_000_000_000,
            "getSeconds" => nanos / 1_000_000_000,
            "getMilliseconds" => nanos / 1_000_000,
            _ => return None,
        })),
        _ => return None,
    })
}
