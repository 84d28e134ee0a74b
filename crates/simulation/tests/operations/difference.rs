//! Where two JSON values differ.

use muster_tree::Value;

/// Adds a line for each place where `found` is not what was expected.
pub(crate) fn differences(expected: &Value, found: &Value, path: &str, lines: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            for (key, value) in expected {
                let path = format!("{path}.{key}");
                match found.get(key) {
                    Some(found) => differences(value, found, &path, lines),
                    None => lines.push(format!("{path}: expected {value}, absent")),
                }
            }
            for (key, value) in found.iter().filter(|(key, _)| !expected.contains_key(key)) {
                lines.push(format!("{path}.{key}: not expected, found {value}"));
            }
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (at, (expected, found)) in expected.iter().zip(found).enumerate() {
                differences(expected, found, &format!("{path}[{at}]"), lines);
            }
        }
        (expected, found) if expected == found => {}
        (expected, found) => lines.push(format!("{path}: expected {expected}, found {found}")),
    }
}
