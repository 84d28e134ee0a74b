//! The replicas of a custom object: a number and a text at paths that its definition names.

use muster_tree::Value;

use super::Object;
use super::definition::Scale;
use crate::field::FieldError;
use crate::schema::go;
use crate::validation::Errors;

/// The number at a path; `None` where there is none.
///
/// # Errors
/// What stands there instead.
pub fn number(object: &Object, path: &str) -> Result<Option<i64>, String> {
    match find(object, path)? {
        None => Ok(None),
        Some(Value::Number(number)) if number.is_i64() => Ok(number.as_i64()),
        Some(other) => Err(wrong(path, other, "int64")),
    }
}

/// The text at a path; `None` where there is none.
///
/// # Errors
/// What stands there instead.
pub fn text<'o>(object: &'o Object, path: &str) -> Result<Option<&'o str>, String> {
    match find(object, path)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(wrong(path, other, "string")),
    }
}

/// Sets the number at a path.
///
/// # Errors
/// What stands in the way.
pub fn set(object: &mut Object, path: &str, number: i64) -> Result<(), String> {
    let steps: Vec<&str> = steps(path).collect();
    let Some((last, above)) = steps.split_last() else { return Ok(()) };
    let mut place = object;
    for (depth, step) in above.iter().enumerate() {
        let below = place.entry(*step).or_insert_with(|| Value::Object(Object::new()));
        let Value::Object(below) = below else {
            return Err(format!(
                "value cannot be set because .{} is not a map[string]interface{{}}",
                steps[..=depth].join(".")
            ));
        };
        place = below;
    }
    place.insert((*last).to_owned(), Value::from(number));
    Ok(())
}

/// What is wrong with the wanted replicas.
pub fn validate_spec(object: &Object, scale: &Scale, errors: &mut Errors) {
    validate(object, &scale.spec_replicas_path, errors);
}

/// What is wrong with the replicas that there are, and with the selector.
pub fn validate_status(object: &Object, scale: &Scale, errors: &mut Errors) {
    validate(object, &scale.status_replicas_path, errors);
    if let Some(path) = &scale.label_selector_path
        && let Err(why) = text(object, path)
    {
        errors.push(FieldError::invalid(path.as_str(), "", why));
    }
}

fn validate(object: &Object, path: &str, errors: &mut Errors) {
    let most = i64::from(i32::MAX);
    match number(object, path) {
        Err(why) => errors.push(FieldError::invalid(path, 0_i64, why)),
        Ok(Some(n)) if n < 0 => errors.push(FieldError::invalid(path, n, "should be a non-negative integer")),
        Ok(Some(n)) if n > most => {
            errors.push(FieldError::invalid(path, n, format!("should be less than or equal to {most}")));
        }
        Ok(_) => {}
    }
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('.').unwrap_or(path).split('.')
}

fn find<'o>(object: &'o Object, path: &str) -> Result<Option<&'o Value>, String> {
    let mut place: Option<&Value> = None;
    let mut seen = String::new();
    for step in steps(path) {
        seen.push('.');
        seen.push_str(step);
        let members = match place {
            None => object,
            Some(Value::Object(members)) => members,
            Some(other) => return Err(wrong(&seen, other, "map[string]interface{}")),
        };
        match members.get(step) {
            None => return Ok(None),
            found => place = found,
        }
    }
    Ok(place)
}

fn wrong(path: &str, found: &Value, wanted: &str) -> String {
    let dot = if path.starts_with('.') { "" } else { "." };
    let kind = match found {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    format!("{dot}{path} accessor error: {} is of the type {kind}, expected {wanted}", go::sprint(found))
}
