//! Fields: what a status write would change, field by field.

use std::collections::BTreeMap;
use std::fmt;

use muster_objects::Annotations;
use serde_json::Value;

/// One field of a status, or an annotation written with it: the current value and the intended one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Such as `readyReplicas`, `condition Available`, `annotation deployment.kubernetes.io/revision`.
    pub name: String,
    /// The current value.
    pub found: String,
    /// The intended value.
    pub would: String,
}

/// `readyReplicas 2 -> 3`
impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} -> {}", self.name, self.found, self.would)
    }
}

/// The fields that a status patch would change. Times are left out, since two controllers never write a condition at
/// the same moment. `before` are the owner's annotations, `annotations` those that the patch writes.
#[must_use]
pub fn changed(
    status: &Value,
    patch: &Value,
    before: &Annotations,
    annotations: &BTreeMap<String, String>,
) -> Vec<Field> {
    let mut fields = Vec::new();
    for (name, would) in patch.as_object().into_iter().flatten() {
        if name == "conditions" {
            fields.extend(would.as_array().into_iter().flatten().filter_map(|would| condition(status, would)));
        } else if !name.starts_with('$') && number(name, &status[name]) != number(name, would) {
            let (found, would) = (number(name, &status[name]), number(name, would));
            fields.push(Field { name: name.clone(), found, would });
        }
    }
    fields.extend(annotations.iter().map(|(key, value)| Field {
        name: format!("annotation {key}"),
        found: before.get(key).unwrap_or("absent").to_owned(),
        would: value.clone(),
    }));
    fields
}

/// A number as text. An absent count is 0, except for `terminatingReplicas` and `collisionCount`, where absent means
/// unset.
fn number(name: &str, value: &Value) -> String {
    match (name, value) {
        ("terminatingReplicas" | "collisionCount", Value::Null) => "absent".to_owned(),
        (_, Value::Null) => "0".to_owned(),
        (_, value) => value.to_string(),
    }
}

fn condition(status: &Value, would: &Value) -> Option<Field> {
    let kind = would["type"].as_str().unwrap_or_default();
    let conditions = status["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == kind));
    let found = found.map_or_else(|| "absent".to_owned(), said);
    let would = if would["$patch"] == "delete" { "absent".to_owned() } else { said(would) };
    (found != would).then(|| Field { name: format!("condition {kind}"), found, would })
}

/// A condition without its times.
fn said(condition: &Value) -> String {
    let text = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
    format!("{} {} {:?}", text("status"), text("reason"), text("message"))
}
