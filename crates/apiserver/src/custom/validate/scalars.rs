//! What texts and numbers have to be beside their type.

use muster_tree::Value;

use super::Found;
use crate::custom::structural::{Checks, Kind, Structural};
use crate::field::{FieldError, Shown};
use crate::schema::go;
use muster_tree::float;

pub(super) fn check_values(value: &Value, checks: &Checks, path: &str, found: &mut Found) {
    if checks.values.is_empty() || checks.values.iter().any(|allowed| is_value(value, allowed)) {
        return;
    }
    let texts: Vec<String> =
        checks.values.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let error = FieldError::not_supported(path, shown(value), &texts);
    found.add(format!("{path} in body should be one of {texts:?}"), error);
}

/// Whether a value is one of an enumeration: numbers by their worth.
fn is_value(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Null, _) => false,
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (one, other) => one == other,
    }
}

/// A value as Go prints it.
pub(super) fn shown(value: &Value) -> Shown {
    match value {
        Value::Number(number) if number.is_f64() => Shown::Bare(go::sprint(value)),
        value => Shown::from(value),
    }
}

pub(super) fn check_text(text: &str, checks: &Checks, path: &str, found: &mut Found) {
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(most) = checks.max_length.filter(|most| length > *most) {
        let error = FieldError::too_long(path, usize::try_from(most).unwrap_or_default());
        found.add(format!("{path} in body should be at most {most} chars long"), error);
    } else if let Some(least) = checks.min_length.filter(|least| length < *least) {
        found.invalid(path, text, format!("{path} in body should be at least {least} chars long"));
    } else if let Some(pattern) = &checks.pattern {
        let body = format!("{path} in body should match '{}", pattern.text());
        match pattern.regex() {
            Ok(regex) if regex.is_match(text) => {}
            Ok(_) => found.invalid(path, text, format!("{body}'")),
            Err(why) => found.invalid(path, text, format!("{body}, but pattern is invalid: {why}'")),
        }
    }
}

/// A number as a schema's bounds see it.
#[expect(clippy::cast_possible_truncation, reason = "as the reference, which compares integers with truncated bounds")]
pub(super) fn check_number(value: &Value, schema: &Structural, checks: &Checks, path: &str, found: &mut Found) {
    let numeric = if schema.int_or_string { None } else { schema.kind };
    let in_range = |found: &mut Found, number: &Value, what: &str| -> bool {
        let fits = match (numeric, &*checks.format) {
            (Some(Kind::Integer), "int32") => whole(number).is_some_and(|n| i32::try_from(n).is_ok()),
            (Some(Kind::Integer), _) => whole(number).is_some(),
            (Some(Kind::Number), "float") => number.as_f64().is_none_or(|n| (n as f32).is_finite()),
            _ => true,
        };
        if !fits {
            let name = numeric.map_or("", Kind::name);
            let format = match (&*checks.format, name) {
                (format @ ("int32" | "int64"), "integer") | (format @ ("float" | "double"), "number") => {
                    format!("with format {format}")
                }
                _ => "(default format)".to_owned(),
            };
            found.plain(format!("{what} value must be of type {name} {format} in {path}"));
        }
        fits
    };
    in_range(found, value, "Checked");
    let (int, float) = (value.as_i64(), value.as_f64().unwrap_or_default());
    let bound_value = |bound: f64| Value::Number(crate::custom::props::number_of(bound));
    // A bound that an integer could not have is compared as a float.
    let native = |found: &mut Found, bound: f64, what: &str| in_range(found, &bound_value(bound), what);
    if let Some(factor) = checks.multiple_of {
        let compatible = native(found, factor, "MultipleOf");
        let (factor_text, right) = match int.filter(|_| compatible) {
            Some(int) => {
                let factor = factor as i64;
                (factor.to_string(), (factor > 0).then(|| int % factor == 0))
            }
            None => {
                let times = if factor < 1.0 { 1.0 / factor * float } else { float / factor };
                (float::shown(factor), (factor > 0.0).then(|| is_json_integer(times)))
            }
        };
        match right {
            Some(true) => {}
            Some(false) => {
                found.invalid(path, shown(value), format!("{path} in body should be a multiple of {factor_text}"));
            }
            None => found.invalid(
                path,
                Shown::Bare(factor_text.clone()),
                format!("factor MultipleOf declared for {path} must be positive: {factor_text}"),
            ),
        }
    }
    let mut minimum = Found::default();
    let mut maximum = Found::default();
    for (bound, what, least, found) in [
        (checks.maximum, "Maximum boundary", false, &mut maximum),
        (checks.minimum, "Minimum boundary", true, &mut minimum),
    ] {
        let Some((bound, exclusive)) = bound else { continue };
        let compatible = native(found, bound, what);
        let order = match int.filter(|_| compatible) {
            Some(int) => Some(int.cmp(&(bound as i64))),
            None => float.partial_cmp(&bound),
        };
        let beyond = if least { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater };
        if order == Some(beyond) || (exclusive && order == Some(std::cmp::Ordering::Equal)) {
            let bound = match int.filter(|_| compatible) {
                Some(_) => (bound as i64).to_string(),
                None => float::shown(bound),
            };
            let words = match (least, exclusive) {
                (true, false) => "greater than or equal to",
                (true, true) => "greater than",
                (false, false) => "less than or equal to",
                (false, true) => "less than",
            };
            found.invalid(path, shown(value), format!("{path} in body should be {words} {bound}"));
        }
    }
    found.merge(minimum);
    found.merge(maximum);
}

/// A number as a 64-bit integer, where it is one.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "only what comes back the same")]
fn whole(number: &Value) -> Option<i64> {
    number.as_i64().or_else(|| {
        let float = number.as_f64()?;
        let int = float as i64;
        ((int as f64) == float && float.abs() < 9.2e18).then_some(int)
    })
}

/// Whether a float is an integer as far as its precision tells.
pub(super) fn is_json_integer(float: f64) -> bool {
    const EPSILON: f64 = 1e-9;
    if !float.is_finite() || float.abs() > 9_007_199_254_740_991.0 {
        return false;
    }
    let nearest = float.trunc();
    let difference = (float - nearest).abs();
    float == nearest || difference / (float.abs() + nearest.abs()).min(f64::MAX) < EPSILON
}
