//! The merging of lists: by key, by value, and in whose order.

use std::collections::{BTreeMap, BTreeSet};

use muster_tree::Value;

use super::{
    DIRECTIVE, Outcome, PatchError, SET_ORDER, Schema, dynamic_type, key_of, merge_map, no_merge_key, object,
    sprint_map, strategy, string_verb,
};
use crate::schema::go::sprint;
use crate::schema::table::Field;

/// Whether the patch's elements come in the order that the patch gives.
pub(super) fn check_order(change: Option<&[Value]>, order: &[Value], merge_key: &str) -> Outcome<()> {
    let Some(change) = change else {
        return Ok(());
    };
    if order.is_empty() || change.is_empty() {
        return Ok(());
    }
    let mut kept: Vec<&Value> = Vec::new();
    for item in change {
        let deleted =
            if merge_key.is_empty() { false } else { object(item)?.get(DIRECTIVE).is_some_and(|d| d == "delete") };
        if !deleted {
            kept.push(item);
        }
    }
    let (mut at, mut place) = (0, 0);
    while at < kept.len() && place < order.len() {
        if kept[at].as_object().is_some_and(|o| o.contains_key(DIRECTIVE)) {
            at += 1;
            continue;
        }
        let equal = if merge_key.is_empty() {
            kept[at] == &order[place]
        } else {
            key_of(kept[at], merge_key)? == key_of(&order[place], merge_key)?
        };
        if equal {
            at += 1;
        }
        place += 1;
    }
    if at < kept.len() && place >= order.len() {
        return Err(PatchError::Other(format!(
            "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
            sprint(&Value::Array(change.to_vec().into())),
            sprint(&Value::Array(order.to_vec().into()))
        )));
    }
    Ok(())
}

pub(super) fn merge_lists(
    before: Vec<Value>,
    change: &[Value],
    inner: Schema<'_>,
    field: &Field,
    deleting: bool,
) -> Outcome<Vec<Value>> {
    if strategy(field)? != "merge" && !deleting {
        return Ok(change.to_vec());
    }
    if before.is_empty() && change.is_empty() {
        return Ok(before);
    }
    let maps = element_type(&[&before, change])? == "map[string]interface {}";
    let merge_key = field.merge_key;
    if !maps {
        if deleting {
            let gone = Places::new(change, "");
            return Ok(before.into_iter().filter(|v| gone.of(v).is_none()).collect());
        }
        let merged = distinct(before.iter().chain(change.iter()).cloned().collect());
        let (mine, others) = partition(merged, change, merge_key)?;
        return in_order(mine, others, change, &before, merge_key, false);
    }
    if merge_key.is_empty() {
        let name = inner.go_kind();
        return Err(PatchError::Other(format!("cannot merge lists without merge key for {name}")));
    }
    let (before, change) = special_elements(before, change, merge_key)?;
    let mut merged = before.clone();
    let live = Places::new(&before, merge_key);
    // Elements that the patch itself has added, for one that comes twice.
    let mut added: BTreeMap<String, usize> = BTreeMap::new();
    for mut item in change.iter().cloned() {
        let wanted = key_of(&item, merge_key)?.clone();
        let known = live.with_key(&wanted)?.or_else(|| added.get(&wanted.to_string()).copied());
        match (known, &mut item) {
            (Some(at), Value::Object(entries)) => {
                if let Value::Object(known) = merged[at].take() {
                    merged[at] = Value::Object(merge_map(known, entries, inner)?);
                }
            }
            _ => {
                added.insert(wanted.to_string(), merged.len());
                merged.push(item);
            }
        }
    }
    let (mine, others) = partition(merged, &change, merge_key)?;
    in_order(mine, others, &change, &before, merge_key, true)
}

/// Does what elements with `$patch` say; gives the list without what goes and the patch without them.
fn special_elements(mut before: Vec<Value>, change: &[Value], merge_key: &str) -> Outcome<(Vec<Value>, Vec<Value>)> {
    let mut plain = Vec::new();
    let mut replace = false;
    let mut deleted: BTreeSet<String> = BTreeSet::new();
    for item in change {
        let entries = object(item)?;
        let Some(directive) = entries.get(DIRECTIVE) else {
            plain.push(item.clone());
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let wanted = entries.get(merge_key).ok_or_else(|| no_merge_key(entries, merge_key))?;
                deleted.insert(wanted.to_string());
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(PatchError::Other("merging lists cannot yet be specified in the patch".to_owned()));
            }
            _ => {
                let message = format!("unknown patch type: {} in map: {}", string_verb(directive), sprint_map(entries));
                return Err(PatchError::Other(message));
            }
        }
    }
    if !deleted.is_empty() {
        before.retain(|item| !item.get(merge_key).is_some_and(|key| deleted.contains(&key.to_string())));
    }
    // A replaced list is the patch's alone.
    Ok(if replace { (plain, Vec::new()) } else { (before, plain) })
}

/// Splits a list into what another list has and what it has not.
pub(super) fn partition(items: Vec<Value>, by: &[Value], merge_key: &str) -> Outcome<(Vec<Value>, Vec<Value>)> {
    let (mut mine, mut others) = (Vec::new(), Vec::new());
    let places = Places::new(by, merge_key);
    for item in items {
        let found = if merge_key.is_empty() {
            places.of(&item).is_some()
        } else {
            places.with_key(key_of(&item, merge_key)?)?.is_some()
        };
        if found {
            mine.push(item);
        } else {
            others.push(item);
        }
    }
    Ok((mine, others))
}

/// Merges the patch's elements, in the patch's order, with the others, in the live order: an element of
/// the others goes before the first of the patch's that comes after it in the live list.
pub(super) fn in_order(
    mine: Vec<Value>,
    others: Vec<Value>,
    order: &[Value],
    live: &[Value],
    merge_key: &str,
    maps: bool,
) -> Outcome<Vec<Value>> {
    let mine = sorted(mine, order, merge_key, maps)?;
    let others = sorted(others, live, merge_key, maps)?;
    let places = Places::new(live, if maps { merge_key } else { "" });
    let mut out = Vec::with_capacity(mine.len() + others.len());
    let (mut mine, mut others) = (mine.into_iter().peekable(), others.into_iter().peekable());
    while let Some(other) = others.peek() {
        let Some(own) = mine.peek() else { break };
        let (left, right) = (places.of(other), places.of(own));
        let before = matches!((left, right), (Some(left), Some(right)) if left < right);
        out.extend(if before { others.next() } else { mine.next() });
    }
    out.extend(others);
    out.extend(mine);
    Ok(out)
}

fn sorted(items: Vec<Value>, order: &[Value], merge_key: &str, maps: bool) -> Outcome<Vec<Value>> {
    let mut deleted = Vec::new();
    let mut kept = Vec::new();
    if maps {
        for item in items.iter().chain(order) {
            key_of(item, merge_key)?;
        }
        for item in items {
            let gone = item.get(DIRECTIVE).is_some_and(|d| d == "delete");
            if gone { deleted.push(item) } else { kept.push(item) }
        }
    } else {
        kept = items;
    }
    let places = Places::new(order, if maps { merge_key } else { "" });
    kept.sort_by_cached_key(|item| places.of(item));
    kept.append(&mut deleted);
    Ok(kept)
}

/// Where in a list an element is, by its key or, without a key, by its value. Long lists are indexed, so
/// that a patch of a thousand elements to a list of a thousand is not a million comparisons.
struct Places<'a> {
    list: &'a [Value],
    merge_key: &'a str,
    index: Option<BTreeMap<String, usize>>,
}

impl<'a> Places<'a> {
    /// Below this a search is cheaper than an index.
    const LONG: usize = 16;

    fn new(list: &'a [Value], merge_key: &'a str) -> Self {
        let identity = |item: &Value| {
            if merge_key.is_empty() { Some(item.to_string()) } else { item.get(merge_key).map(Value::to_string) }
        };
        let index = (list.len() > Self::LONG).then(|| {
            let mut index = BTreeMap::new();
            for (at, item) in list.iter().enumerate() {
                if let Some(identity) = identity(item) {
                    index.entry(identity).or_insert(at);
                }
            }
            index
        });
        Self { list, merge_key, index }
    }

    /// The place of the first element that is the same as this one.
    fn of(&self, item: &Value) -> Option<usize> {
        let wanted = if self.merge_key.is_empty() { Some(item) } else { item.get(self.merge_key) };
        match &self.index {
            Some(index) => index.get(&wanted?.to_string()).copied(),
            None if self.merge_key.is_empty() => self.list.iter().position(|v| v == item),
            None => self.list.iter().position(|v| v.get(self.merge_key) == wanted),
        }
    }

    /// The place of the first element with a key; all before it must be maps.
    fn with_key(&self, wanted: &Value) -> Outcome<Option<usize>> {
        if let Some(index) = &self.index {
            return Ok(index.get(&wanted.to_string()).copied());
        }
        for (at, item) in self.list.iter().enumerate() {
            let Value::Object(entries) = item else {
                return Err(PatchError::Other(format!("value for key {at} is not a map")));
            };
            if entries.get(self.merge_key) == Some(wanted) {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}

/// Scalars without repetitions. A repeated one gives its place to the last, as in the reference.
fn distinct(mut items: Vec<Value>) -> Vec<Value> {
    let mut left: BTreeMap<String, usize> = BTreeMap::new();
    for item in &items {
        *left.entry(item.to_string()).or_insert(0) += 1;
    }
    let mut at = 0;
    while at < items.len() {
        let count = left.get(&items[at].to_string()).copied().unwrap_or(1);
        let mut next = at + 1;
        // Only what does come again is looked for.
        let mut again = count.saturating_sub(1);
        while again > 0 && next < items.len() {
            if items[at] == items[next] {
                items.swap_remove(next);
                again -= 1;
            } else {
                next += 1;
            }
        }
        left.insert(items[at].to_string(), 1);
        at += 1;
    }
    items
}

/// What Go calls the type of the elements of some lists, which must all be of one.
pub(super) fn element_type(lists: &[&[Value]]) -> Outcome<&'static str> {
    let mut found = None;
    for item in lists.iter().flat_map(|l| l.iter()) {
        let ty = dynamic_type(item);
        match found {
            None if ty == "[]interface {}" => {
                return Err(PatchError::Unprocessable("lists of lists are not supported".to_owned()));
            }
            None => found = Some(ty),
            Some(known) if known != ty => {
                let all: Vec<String> = lists.iter().map(|l| sprint(&Value::Array(l.to_vec().into()))).collect();
                let message = format!("list element types are not identical: [{}]", all.join(" "));
                return Err(PatchError::Other(message));
            }
            Some(_) => {}
        }
    }
    found.ok_or_else(|| PatchError::Other("no elements in any of the given slices".to_owned()))
}
