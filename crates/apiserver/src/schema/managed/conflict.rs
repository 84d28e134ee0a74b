//! Fields that a manager wants to set otherwise than another manager that owns them.

use std::cmp::Ordering;

use muster_tree::{Text, Value};

use super::Owner;
use super::place::shown;
use crate::field::go_quote;
use crate::schema::fields::{self, Set};

/// One field, and who owns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The manager as messages show it: `"me" using apps/v1`, with its quotes.
    pub manager: String,
    /// The field's path as messages show it.
    pub field: String,
    /// The field's path elements.
    path: Vec<String>,
}

impl Conflict {
    /// The conflicts over a set of fields with one owner.
    pub(super) fn over(set: &Set, owner: Owner<'_>) -> Vec<Self> {
        let mut manager = go_quote(owner.manager);
        if !owner.subresource.is_empty() {
            manager.push_str(&format!(" with subresource {}", go_quote(owner.subresource)));
        }
        if owner.operation == "Update" {
            manager.push_str(&format!(" using {}", owner.api_version));
        }
        let mut paths = Vec::new();
        members(set, &mut Vec::new(), &mut paths);
        let conflict = |path: Vec<String>| Self {
            manager: manager.clone(),
            field: path.iter().map(|element| shown(element)).collect(),
            path,
        };
        paths.into_iter().map(conflict).collect()
    }

    /// Whether the field is in a set.
    pub(super) fn is_in(&self, set: &Set) -> bool {
        let Some((last, above)) = self.path.split_last() else { return false };
        let mut level = set;
        for element in above {
            match level.get(element).map(fields::open) {
                Some((_, Some(below))) => level = below,
                _ => return false,
            }
        }
        level.get(last).is_some_and(|node| fields::open(node).0)
    }
}

/// The message of the answer that refuses an apply.
#[must_use]
pub fn message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", only.manager, only.field);
    }
    let mut lines = Vec::new();
    let mut manager = "";
    for conflict in conflicts {
        if conflict.manager != manager {
            manager = &conflict.manager;
            lines.push(format!("conflicts with {manager}:"));
        }
        lines.push(format!("- {}", conflict.field));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// The paths of a set: of each level first what is in the set itself, then what is below.
fn members(set: &Set, above: &mut Vec<String>, out: &mut Vec<Vec<String>>) {
    let mut sorted: Vec<(&Text, &Value)> = fields::elements(set).collect();
    sorted.sort_by(|a, b| order(a.0, b.0));
    for (path, node) in &sorted {
        if fields::open(node).0 {
            let mut whole = above.clone();
            whole.push(path.to_string());
            out.push(whole);
        }
    }
    for (path, node) in sorted {
        if let (_, Some(below)) = fields::open(node) {
            above.push(path.to_string());
            members(below, above, out);
            above.pop();
        }
    }
}

/// Orders path elements as the reference does: fields, keyed elements, values; numbers as numbers.
fn order(one: &str, other: &str) -> Ordering {
    let rank = |element: &str| "fkvi".find(element.chars().next().unwrap_or('i'));
    rank(one).cmp(&rank(other)).then_with(|| match (one.split_once(':'), other.split_once(':')) {
        (Some(("k" | "v", left)), Some((_, right))) => {
            let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
            order_values(&read(left), &read(right))
        }
        _ => one.cmp(other),
    })
}

fn order_values(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => {
            a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default())
        }
        (Value::Object(a), Value::Object(b)) => {
            let pairs = a.iter().zip(b).map(|((name, a), (other, b))| name.cmp(other).then_with(|| order_values(a, b)));
            pairs.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
        }
        _ => one.to_string().cmp(&other.to_string()),
    }
}
