//! Who set which field: `metadata.managedFields`, on ordinary writes.
//!
//! A write is compared with what was there. What it added or changed belongs to its manager from then
//! on and to nobody else; what it removed belongs to nobody. The comparison goes by the schema: keyed
//! lists by their keys, sets by their values, atomic lists and maps as a whole. It works on the JSON
//! trees and writes the sets straight in the form in which they are stored, because every write pays for
//! it. The rules are those of apimachinery's `managedfields` over structured-merge-diff. (Contract: API-13.)

use muster_objects::time::Timestamp;
use serde_json::{Map, Value};

use super::decode::zero;
use super::fields::{self, Set};
use super::table::{Field, Kind, Shape, Table, Topology, TypeId};
use super::Object;

/// More managers that update than this are folded into one.
const MOST_UPDATERS: usize = 10;
/// The manager that they are folded into.
const ANCIENT: &str = "ancient-changes";
/// Metadata that no manager owns.
const UNOWNED: &[&str] = &[
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// Records an ordinary write in `new`'s `metadata.managedFields`.
///
/// `new` is the object as it came out of decoding and defaulting, before the kind's own preparation;
/// `live` is what is stored, `None` for a creation. A client may send `managedFields` itself: back
/// as it got them, or `[]` or `[{}]` to have them forgotten. Writes to a subresource leave what the
/// client says of them aside. A write that changes nothing leaves them as they were.
#[expect(clippy::too_many_arguments, reason = "the kind, the two objects, and what an entry says")]
pub fn update(
    group: &str,
    version: &str,
    kind: &str,
    live: Option<&Object>,
    new: &mut Object,
    manager: &str,
    subresource: &str,
    now: Timestamp,
) {
    let sent = take_managed_fields(new);
    let stored = live.and_then(managed_fields);
    let Some(id) = Table::get().kind(group, version, kind) else { return };
    let mut entries = match entries(stored, sent.as_ref(), subresource) {
        Some(entries) => entries,
        None => Vec::new(),
    };
    let tracked = !entries.is_empty() || live.is_none_or(|l| uid(l).is_none());
    if tracked {
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let Some((changed, removed)) = compare(id, kind, subresource, live, new) else {
            // An element without its key: nobody can say who owns what.
            return;
        };
        entries.retain(|e| known_version(group, kind, &e.api_version));
        for entry in &mut entries {
            fields::subtract(&mut entry.fields, &changed);
            fields::subtract(&mut entry.fields, &removed);
        }
        if !changed.is_empty() {
            let manager = if manager.is_empty() { "unknown" } else { manager };
            let own = |e: &Entry| {
                e.operation == "Update"
                    && e.manager == manager
                    && e.api_version == api_version
                    && e.subresource == subresource
            };
            let time = Some(now.to_string());
            match entries.iter_mut().find(|e| own(e)) {
                Some(entry) => {
                    fields::union(&mut entry.fields, &changed);
                    entry.time = time;
                }
                None => entries.push(Entry {
                    manager: manager.to_owned(),
                    operation: "Update".to_owned(),
                    api_version,
                    subresource: subresource.to_owned(),
                    time,
                    fields: changed,
                }),
            }
        }
        entries.retain(|e| !e.fields.is_empty());
        fold_ancient(&mut entries);
    }
    entries.sort_by(|a, b| a.order().cmp(&b.order()));
    if !entries.is_empty() {
        let written = entries.into_iter().map(Entry::into_json).collect();
        if let Some(Value::Object(metadata)) = new.get_mut("metadata") {
            metadata.insert("managedFields".to_owned(), Value::Array(written));
        }
    }
}

/// One manager's entry.
#[derive(Debug, Clone)]
struct Entry {
    manager: String,
    operation: String,
    api_version: String,
    subresource: String,
    /// RFC 3339, to the second.
    time: Option<String>,
    fields: Set,
}

impl Entry {
    /// Reads an entry; `None` where it is not valid.
    fn read(value: &Value, trusted: bool) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (operation, api_version) = (text("operation"), text("apiVersion"));
        if !matches!(operation.as_str(), "Apply" | "Update") || api_version.is_empty() || text("fieldsType") != "FieldsV1" {
            return None;
        }
        let fields = match value.get("fieldsV1") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(fields)) if trusted => fields.clone(),
            Some(sent) => fields::canonical(sent)?,
        };
        Some(Self {
            manager: text("manager"),
            operation,
            api_version,
            subresource: text("subresource"),
            time: value.get("time").and_then(Value::as_str).map(str::to_owned),
            fields,
        })
    }

    fn into_json(self) -> Value {
        let mut out = Map::new();
        out.insert("apiVersion".to_owned(), Value::String(self.api_version));
        out.insert("fieldsType".to_owned(), Value::String("FieldsV1".to_owned()));
        out.insert("fieldsV1".to_owned(), Value::Object(self.fields));
        if !self.manager.is_empty() {
            out.insert("manager".to_owned(), Value::String(self.manager));
        }
        out.insert("operation".to_owned(), Value::String(self.operation));
        if !self.subresource.is_empty() {
            out.insert("subresource".to_owned(), Value::String(self.subresource));
        }
        if let Some(time) = self.time {
            out.insert("time".to_owned(), Value::String(time));
        }
        Value::Object(out)
    }

    /// What entries are sorted by.
    fn order(&self) -> [&str; 5] {
        let time = self.time.as_deref().unwrap_or_default();
        [&self.operation, time, &self.manager, &self.api_version, &self.subresource]
    }

    /// Whether two entries are of one manager: applied ones whatever their version.
    fn same(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == "Apply" || self.api_version == other.api_version)
    }
}

/// The entries to go on from: the client's where it sent valid ones, else the stored ones; `None`
/// where the client wants them forgotten.
fn entries(stored: Option<&Value>, sent: Option<&Value>, subresource: &str) -> Option<Vec<Entry>> {
    let read = |list: &Value, trusted: bool| -> Option<Vec<Entry>> {
        let mut out: Vec<Entry> = Vec::new();
        for value in list.as_array()? {
            let entry = Entry::read(value, trusted)?;
            match out.iter_mut().find(|e| e.same(&entry)) {
                Some(known) => *known = entry,
                None => out.push(entry),
            }
        }
        Some(out)
    };
    let stored_entries = || stored.and_then(|s| read(s, true)).unwrap_or_default();
    let Some(sent) = sent.filter(|_| subresource.is_empty()) else { return Some(stored_entries()) };
    if let Value::Array(list) = sent {
        let reset = match list.as_slice() {
            [] => true,
            [one] => one.as_object().is_some_and(Map::is_empty),
            _ => false,
        };
        if reset {
            return None;
        }
    }
    if stored == Some(sent) {
        return Some(stored_entries());
    }
    let mine = read(sent, false).filter(|entries| !entries.is_empty());
    Some(mine.unwrap_or_else(stored_entries))
}

fn managed_fields(object: &Object) -> Option<&Value> {
    object.get("metadata")?.get("managedFields").filter(|m| !m.is_null())
}

fn take_managed_fields(object: &mut Object) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields").filter(|m| !m.is_null())
}

fn uid(object: &Object) -> Option<&str> {
    object.get("metadata")?.get("uid")?.as_str().filter(|u| !u.is_empty())
}

/// Whether the kind still exists in the version that an entry is of.
fn known_version(group: &str, kind: &str, api_version: &str) -> bool {
    let (entry_group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    // The two kinds of events are the same objects.
    let related = entry_group == group || kind == "Event";
    related && Table::get().kind(entry_group, version, kind).is_some()
}

/// Folds the oldest updaters of each version into one entry, until few enough are left.
fn fold_ancient(entries: &mut Vec<Entry>) {
    let updaters = |entries: &[Entry]| entries.iter().filter(|e| e.operation == "Update").count();
    if updaters(entries) <= MOST_UPDATERS {
        return;
    }
    // As the reference: by time, then by the text of what identifies a manager.
    let identifier = |e: &Entry| {
        let quoted = |s: &str| Value::String(s.to_owned()).to_string();
        let mut text = format!("{{\"manager\":{},\"operation\":\"Update\",\"apiVersion\":{}", quoted(&e.manager), quoted(&e.api_version));
        if !e.subresource.is_empty() {
            text.push_str(&format!(",\"subresource\":{}", quoted(&e.subresource)));
        }
        text.push('}');
        (e.time.clone().unwrap_or_default(), text)
    };
    let mut oldest: Vec<Entry> = Vec::new();
    entries.retain(|e| {
        let updater = e.operation == "Update";
        if updater {
            oldest.push(e.clone());
        }
        !updater
    });
    oldest.sort_by_cached_key(identifier);
    let mut left = oldest.len();
    // The first of each version becomes the bucket once there is a second one to go into it.
    let mut folded: Vec<Entry> = Vec::new();
    for entry in oldest {
        if left > MOST_UPDATERS
            && let Some(bucket) = folded.iter_mut().find(|e| e.api_version == entry.api_version)
        {
            fields::union(&mut bucket.fields, &entry.fields);
            ANCIENT.clone_into(&mut bucket.manager);
            bucket.subresource.clear();
            bucket.time = entry.time;
            left -= 1;
        } else {
            folded.push(entry);
        }
    }
    entries.append(&mut folded);
}

/// What a write added or changed, and what it removed. `None` where an element of a keyed list has
/// no key.
fn compare(
    id: TypeId,
    kind: &str,
    subresource: &str,
    live: Option<&Object>,
    new: &Object,
) -> Option<(Set, Set)> {
    let nothing;
    let live = match live {
        Some(live) => live,
        None => {
            // Even an object that is not there has the fields that Go always writes.
            nothing = match zero(&Shape { kind: Kind::Struct(id), named: None }) {
                Value::Object(object) => object,
                _ => Map::new(),
            };
            &nothing
        }
    };
    let ty = Table::get().ty(id);
    let (mut changed, mut removed) = (Map::new(), Map::new());
    for field in &ty.fields {
        // What this URL cannot write is not looked at.
        let ignored = match field.json {
            "apiVersion" | "kind" => true,
            "status" => subresource != "status",
            "spec" => subresource == "status",
            _ => false,
        };
        let (before, after) = (live.get(field.json), new.get(field.json));
        if ignored || before == after {
            continue;
        }
        if field.json == "metadata" {
            let (own, gone) = compare_metadata(field, kind, subresource, before, after)?;
            put(&mut changed, field, own);
            put(&mut removed, field, gone);
            continue;
        }
        let change = walk(Place::field(field), before, after)?;
        put_node(&mut changed, field, change.changed);
        put_node(&mut removed, field, change.removed);
    }
    Some((changed, removed))
}

fn compare_metadata(
    field: &Field,
    kind: &str,
    subresource: &str,
    before: Option<&Value>,
    after: Option<&Value>,
) -> Option<(Set, Set)> {
    let (mut changed, mut removed) = (Map::new(), Map::new());
    let Kind::Struct(id) = field.shape.kind else { return Some((changed, removed)) };
    for field in &Table::get().ty(id).fields {
        let ignored = UNOWNED.contains(&field.json)
            || (subresource == "status"
                && matches!(
                    (kind, field.json),
                    ("Pod", "deletionTimestamp" | "ownerReferences") | ("Deployment", "labels")
                ));
        let (before, after) = (before.and_then(|b| b.get(field.json)), after.and_then(|a| a.get(field.json)));
        if ignored || before == after {
            continue;
        }
        let change = walk(Place::field(field), before, after)?;
        put_node(&mut changed, field, change.changed);
        put_node(&mut removed, field, change.removed);
    }
    Some((changed, removed))
}

fn put(set: &mut Set, field: &Field, below: Set) {
    if !below.is_empty() {
        set.insert(format!("f:{}", field.json), Value::Object(below));
    }
}

fn put_node(set: &mut Set, field: &Field, node: Option<Value>) {
    if let Some(node) = node {
        set.insert(format!("f:{}", field.json), node);
    }
}

/// A place in the object: its type, and how managers share it.
#[derive(Clone, Copy)]
struct Place<'a> {
    shape: &'a Shape,
    /// The field that holds it, where it is a field.
    field: Option<&'a Field>,
}

/// What changed at and below a place: nodes of two sets.
#[derive(Default)]
struct Change {
    changed: Option<Value>,
    removed: Option<Value>,
}

impl<'a> Place<'a> {
    fn field(field: &'a Field) -> Self {
        Self { shape: &field.shape, field: Some(field) }
    }

    fn topology(self) -> Topology {
        let declared = self.field.map_or(Topology::Default, |f| f.topology);
        match (&self.shape.kind, declared) {
            (Kind::List(_), Topology::Default) => Topology::Atomic,
            (Kind::Struct(id), Topology::Default) if Table::get().ty(*id).atomic => Topology::Atomic,
            (_, declared) => declared,
        }
    }
}

/// Compares a place. The caller has found the two to differ.
fn walk(place: Place<'_>, before: Option<&Value>, after: Option<&Value>) -> Option<Change> {
    let topology = place.topology();
    let (mut changed, mut removed) = (Map::new(), Map::new());
    let leaf = match (&place.shape.kind, topology) {
        (_, Topology::Atomic) => true,
        (Kind::Struct(id), _) => {
            let (left, right) = (members(before), members(after));
            if left.is_none() && right.is_none() {
                true
            } else {
                structure(*id, left, right, &mut changed, &mut removed)?;
                false
            }
        }
        (Kind::Map(inner), _) => {
            let (left, right) = (members(before), members(after));
            if left.is_none() && right.is_none() {
                true
            } else {
                map(inner, left, right, &mut changed, &mut removed)?;
                false
            }
        }
        (Kind::List(inner), _) => {
            let (left, right) = (items(before), items(after));
            if left.is_empty() && right.is_empty() {
                true
            } else {
                list(inner, place.field, left, right, &mut changed, &mut removed)?;
                false
            }
        }
        _ => true,
    };
    if leaf {
        return Some(match (before, after) {
            (Some(_), None) => Change { changed: None, removed: Some(fields::member(Map::new())) },
            (Some(before), Some(after)) if before == after => Change::default(),
            _ => Change { changed: Some(fields::member(Map::new())), removed: None },
        });
    }
    let node = |below: Set, whole: bool| match (whole, below.is_empty()) {
        (true, _) => Some(fields::member(below)),
        (false, true) => None,
        (false, false) => Some(Value::Object(below)),
    };
    Some(Change { changed: node(changed, before.is_none()), removed: node(removed, after.is_none()) })
}

/// The members of an object that has some.
fn members(value: Option<&Value>) -> Option<&Object> {
    value.and_then(Value::as_object).filter(|o| !o.is_empty())
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn structure(
    id: TypeId,
    before: Option<&Object>,
    after: Option<&Object>,
    changed: &mut Set,
    removed: &mut Set,
) -> Option<()> {
    let ty = Table::get().ty(id);
    let mut one = |name: &str, left: Option<&Value>, right: Option<&Value>| -> Option<()> {
        if left == right {
            return Some(());
        }
        let Some(field) = ty.field(name) else { return Some(()) };
        let change = walk(Place::field(field), left, right)?;
        put_node(changed, field, change.changed);
        put_node(removed, field, change.removed);
        Some(())
    };
    for (name, value) in after.into_iter().flatten() {
        one(name, before.and_then(|b| b.get(name)), Some(value))?;
    }
    for (name, value) in before.into_iter().flatten() {
        if !after.is_some_and(|a| a.contains_key(name)) {
            one(name, Some(value), None)?;
        }
    }
    Some(())
}

fn map(
    inner: &Shape,
    before: Option<&Object>,
    after: Option<&Object>,
    changed: &mut Set,
    removed: &mut Set,
) -> Option<()> {
    let place = Place { shape: inner, field: None };
    for (name, value) in after.into_iter().flatten() {
        let left = before.and_then(|b| b.get(name));
        if left != Some(value) {
            add(changed, removed, format!("f:{name}"), walk(place, left, Some(value))?);
        }
    }
    for (name, value) in before.into_iter().flatten() {
        if !after.is_some_and(|a| a.contains_key(name)) {
            add(changed, removed, format!("f:{name}"), walk(place, Some(value), None)?);
        }
    }
    Some(())
}

fn add(changed: &mut Set, removed: &mut Set, path: String, change: Change) {
    if let Some(node) = change.changed {
        changed.insert(path.clone(), node);
    }
    if let Some(node) = change.removed {
        removed.insert(path, node);
    }
}

/// Compares a keyed list or a set. Elements that share a path are compared as one.
fn list(
    inner: &Shape,
    field: Option<&Field>,
    before: &[Value],
    after: &[Value],
    changed: &mut Set,
    removed: &mut Set,
) -> Option<()> {
    let place = Place { shape: inner, field: None };
    let paths = |items: &[Value]| -> Option<Vec<String>> { items.iter().map(|i| path(inner, field, i)).collect() };
    let (left_paths, right_paths) = (paths(before)?, paths(after)?);
    let of = |paths: &[String], wanted: &str| -> Vec<usize> {
        paths.iter().enumerate().filter(|(_, p)| *p == wanted).map(|(at, _)| at).collect()
    };
    let mut done: Vec<&str> = Vec::new();
    for path in left_paths.iter().chain(&right_paths) {
        if done.contains(&path.as_str()) {
            continue;
        }
        done.push(path);
        let (left, right) = (of(&left_paths, path), of(&right_paths, path));
        let whole = || fields::member(Map::new());
        let first = |items: &'_ [usize]| items.first().copied();
        match (left.len(), right.len()) {
            (0 | 1, 0 | 1) => {
                let (left, right) = (first(&left).map(|at| &before[at]), first(&right).map(|at| &after[at]));
                if left != right {
                    add(changed, removed, path.clone(), walk(place, left, right)?);
                }
            }
            (2.., 2..) => {
                let same = left.len() == right.len() && left.iter().zip(&right).all(|(l, r)| before[*l] == after[*r]);
                if !same {
                    changed.insert(path.clone(), whole());
                }
            }
            (2.., _) => {
                if let Some(at) = first(&right) {
                    add(changed, removed, path.clone(), walk(place, None, Some(&after[at]))?);
                }
                mark(removed, path);
            }
            _ => {
                if let Some(at) = first(&left) {
                    add(changed, removed, path.clone(), walk(place, Some(&before[at]), None)?);
                }
                mark(changed, path);
            }
        }
    }
    Some(())
}

/// Puts a path into a set, beside what is there below it.
fn mark(set: &mut Set, path: &str) {
    let one = Map::from_iter([(path.to_owned(), fields::member(Map::new()))]);
    fields::union(set, &one);
}

/// The path element of a list's element.
fn path(inner: &Shape, field: Option<&Field>, item: &Value) -> Option<String> {
    let keys = field.map_or(&[][..], |f| f.list_keys.as_slice());
    if keys.is_empty() {
        return Some(format!("v:{item}"));
    }
    let Kind::Struct(id) = inner.kind else { return None };
    let ty = Table::get().ty(id);
    let entries = item.as_object()?;
    if let ([key], Some(Value::String(value))) = (keys, entries.get(keys[0])) {
        // By far the most common: one key, a string.
        let mut out = String::with_capacity(key.len() + value.len() + 9);
        out.push_str("k:{\"");
        out.push_str(key);
        out.push_str("\":");
        out.push_str(&Value::String(value.clone()).to_string());
        out.push('}');
        return Some(out);
    }
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let value = match entries.get(*key) {
            Some(value) => value.clone(),
            None => default(ty.field(key)?)?,
        };
        found.push(((*key).to_owned(), value));
    }
    Some(fields::element_key(found))
}

/// The default of a field, by its marker.
fn default(field: &Field) -> Option<Value> {
    let marker = field.markers.split(';').find_map(|m| m.strip_prefix("default="))?;
    serde_json::from_str(marker).ok()
}

#[cfg(test)]
mod tests;
