//! What an object becomes when a configuration is applied to it, before anything is taken away.

use std::collections::{BTreeMap, BTreeSet};

use muster_tree::{Map, Text, Value};

use super::place::{Granularity, Place};

/// Merges what is applied into what is there. What is applied counts, as a whole where managers own it as a whole.
/// `None` where nothing is left.
///
/// What is applied has been checked, so that its elements have path elements; of what is there, elements
/// without one are left out.
pub(super) fn merge(place: Place<'_>, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    let whole = || applied.or(live).cloned();
    let place = place.seen(applied.or(live));
    match place.granularity() {
        Granularity::Whole => whole(),
        Granularity::Members => {
            let (left, right) = (members(live), members(applied));
            if left.is_none() && right.is_none() {
                return whole();
            }
            let names: BTreeSet<&Text> = left.into_iter().chain(right).flat_map(Map::keys).collect();
            let mut out = Map::new();
            for name in names {
                let Some(member) = place.member(name) else { continue };
                let value = merge(member, left.and_then(|l| l.get(name)), right.and_then(|r| r.get(name)));
                out.extend(value.map(|value| (name.clone(), value)));
            }
            Some(Value::Object(out)).filter(|out| out.as_object().is_some_and(|o| !o.is_empty()))
        }
        Granularity::Elements => {
            let (left, right) = (items(live), items(applied));
            if left.is_empty() && right.is_empty() {
                return whole();
            }
            let out = merge_elements(place, left, right);
            (!out.is_empty()).then_some(Value::Array(out.into()))
        }
    }
}

fn members(value: Option<&Value>) -> Option<&Map> {
    value.and_then(Value::as_object).filter(|o| !o.is_empty())
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], muster_tree::List::as_slice)
}

/// Merges elements by their paths. Those that both have come in the order in which they are applied, the others
/// stay between the neighbours that they had.
fn merge_elements(place: Place<'_>, live: &[Value], applied: &[Value]) -> Vec<Value> {
    let Some(element) = place.element() else { return Vec::new() };
    let indexed = |items: &[Value]| -> Vec<(String, Value)> {
        items.iter().filter_map(|item| Some((place.element_path(item).ok()?, item.clone()))).collect()
    };
    let (left, right) = (indexed(live), indexed(applied));
    let mut known: BTreeMap<&str, &Value> = BTreeMap::new();
    for (path, item) in &left {
        // Elements that share a path are replaced by what is applied, not merged with it.
        known.entry(path).and_modify(|known| *known = &Value::Null).or_insert(item);
    }
    let wanted: BTreeMap<&str, &Value> = right.iter().map(|(path, item)| (path.as_str(), item)).collect();
    let mut shared = right.iter().map(|(path, _)| path.as_str()).filter(|path| known.contains_key(path));
    let mut next_shared = shared.next();
    let mut merged: BTreeSet<&str> = BTreeSet::new();
    let mut out = Vec::with_capacity(left.len().max(right.len()));
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        if let (Some((path, _)), Some((other, item))) = (left.get(l), right.get(r)) {
            if path == other {
                merged.insert(path);
                out.extend(merge(element, known.get(path.as_str()).copied(), Some(item)));
                l += 1;
                r += 1;
                next_shared = shared.next();
                continue;
            }
            if wanted.contains_key(path.as_str()) && next_shared.is_some_and(|next| next != path) {
                // Shared, but another one comes first.
                l += 1;
                continue;
            }
        }
        if let Some((path, item)) = left.get(l) {
            if !wanted.contains_key(path.as_str()) {
                out.extend(merge(element, Some(item), None));
                l += 1;
                continue;
            }
            if merged.contains(path.as_str()) {
                l += 1;
            }
        }
        if let Some((path, item)) = right.get(r) {
            merged.insert(path);
            out.extend(merge(element, known.get(path.as_str()).copied(), Some(item)));
            r += 1;
            if next_shared == Some(path) {
                next_shared = shared.next();
            }
        }
    }
    out
}
