//! Who set which field: `metadata.managedFields`, on ordinary writes.
//!
//! A write is compared with what was there. What it added or changed belongs to its manager from then
//! on and to nobody else; what it removed belongs to nobody. The comparison goes by the schema: keyed
//! lists by their keys, sets by their values, atomic lists and maps as a whole. It works on the JSON
//! trees and writes the sets straight in the form in which they are stored, because every write pays for
//! it. The rules are those of apimachinery's `managedfields` over structured-merge-diff. (Contract: API-13.)

use muster_objects::time::Timestamp;
use muster_tree::{Map, Value};

use super::Object;
use super::fields::{self, Set};
use crate::model::Model;

pub mod apply;
mod check;
mod compare;
mod conflict;
mod last_applied;
mod merge;
pub mod mutate;
pub mod open;
mod owned;
mod place;
mod prune;
pub mod versions;

use compare::compare;
pub use open::Subject;
use versions::{Convert, Versions};

/// More managers that update than this are folded into one.
const MOST_UPDATERS: usize = 10;
/// The manager that they are folded into.
const ANCIENT: &str = "ancient-changes";

/// Records an ordinary write in `new`'s `metadata.managedFields`.
///
/// `new` is the object as it came out of decoding and defaulting, before the kind's own preparation;
/// `live` is what is stored, `None` for a creation. A client may send `managedFields` itself: back
/// as it got them, or `[]` or `[{}]` to have them forgotten. Writes to a subresource leave what the
/// client says of them aside. A write that changes nothing leaves them as they were. Managers may have written other
/// versions of the kind: `convert` tells an object in another one.
pub fn update(
    subject: &Subject<'_>,
    live: Option<&Object>,
    new: &mut Object,
    manager: &str,
    subresource: &str,
    now: Timestamp,
    convert: &Convert<'_>,
) {
    let sent = take_managed_fields(new);
    let stored = live.and_then(managed_fields);
    let Some(root) = subject.root() else { return };
    let mut entries = entries(stored, sent, subresource);
    let tracked = !entries.is_empty() || live.is_none_or(|l| uid(l).is_none());
    if tracked {
        let Some(difference) = compare(root, subject, subresource, live, new) else {
            // An element without its key: nobody can say who owns what.
            return;
        };
        entries.retain(|e| subject.knows(text(e, "apiVersion")));
        let versions = Versions::new(*subject, convert);
        let told = versions.before(&entries, live).and_then(|before| Ok((before, versions.after(&entries, new)?)));
        let Ok((before, after)) = told else { return };
        let mut differences = versions.differences(subresource, (before.as_ref(), &after), difference, &entries);
        let own = Owner {
            manager: if manager.is_empty() { "unknown" } else { manager },
            operation: "Update",
            api_version: versions.own(),
            subresource,
        };
        for entry in &mut entries {
            // What changed is put into its own below.
            let loses = Owner::of(entry) != own;
            let Some((changed, removed)) = differences.get(text(entry, "apiVersion")) else { continue };
            if let Some(Value::Object(fields)) = entry.get_mut("fieldsV1") {
                if loses {
                    fields::subtract(fields, changed);
                }
                fields::subtract(fields, removed);
            }
        }
        let changed = differences.remove(versions.own()).map(|(changed, _)| changed).unwrap_or_default();
        if !changed.is_empty() {
            let time = Value::String(now.to_string().into());
            match entries.iter_mut().find(|e| Owner::of(e) == own) {
                Some(entry) => {
                    match entry.get_mut("fieldsV1") {
                        Some(Value::Object(fields)) => fields::union(fields, &changed),
                        _ => {
                            entry.insert("fieldsV1", Value::Object(changed));
                        }
                    }
                    entry.insert("time", time);
                }
                None => entries.push(own.entry(changed, time)),
            }
        }
        entries.retain(|e| e.get("fieldsV1").and_then(Value::as_object).is_some_and(|f| !f.is_empty()));
        fold_ancient(&mut entries);
    }
    entries.sort_by(|a, b| order(a).cmp(&order(b)));
    if !entries.is_empty() {
        let written = entries.into_iter().map(Value::Object).collect();
        if let Some(Value::Object(metadata)) = new.get_mut("metadata") {
            metadata.insert("managedFields", Value::Array(written));
        }
    }
}

/// As [`update`], of a kind whose objects are told in one version only.
pub fn update_one_version(
    model: Model<'_>,
    live: Option<&Object>,
    new: &mut Object,
    manager: &str,
    subresource: &str,
    now: Timestamp,
) {
    update(&model.into(), live, new, manager, subresource, now, &versions::unconverted);
}

/// Takes the fields of one set out of another, both in the form in which entries carry them.
pub fn subtract(fields: &mut Object, gone: &Value) {
    if let Value::Object(gone) = gone {
        fields::subtract(fields, gone);
    }
}

/// Who an entry is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner<'a> {
    manager: &'a str,
    operation: &'a str,
    api_version: &'a str,
    subresource: &'a str,
}

impl<'a> Owner<'a> {
    fn of(entry: &'a Object) -> Self {
        Self {
            manager: text(entry, "manager"),
            operation: text(entry, "operation"),
            api_version: text(entry, "apiVersion"),
            subresource: text(entry, "subresource"),
        }
    }

    /// Whether two entries are of one manager: applied ones whatever their version.
    fn same(self, other: Self) -> bool {
        let api_version = if self.operation == "Apply" { self.api_version } else { other.api_version };
        self == Self { api_version, ..other }
    }

    /// The text that identifies a manager; the reference sorts by it.
    fn identifier(self) -> String {
        let quoted = |text: &str| Value::from(text).to_string();
        let mut out = format!("{{\"manager\":{},\"operation\":{}", quoted(self.manager), quoted(self.operation));
        if self.operation != "Apply" {
            out.push_str(&format!(",\"apiVersion\":{}", quoted(self.api_version)));
        }
        if !self.subresource.is_empty() {
            out.push_str(&format!(",\"subresource\":{}", quoted(self.subresource)));
        }
        out.push('}');
        out
    }

    fn entry(self, fields: Set, time: Value) -> Object {
        let mut out = Map::new();
        out.insert("apiVersion", Value::from(self.api_version));
        out.insert("fieldsType", Value::from("FieldsV1"));
        out.insert("fieldsV1", Value::Object(fields));
        out.insert("manager", Value::from(self.manager));
        out.insert("operation", Value::from(self.operation));
        if !self.subresource.is_empty() {
            out.insert("subresource", Value::from(self.subresource));
        }
        out.insert("time", time);
        out
    }
}

fn text<'a>(entry: &'a Object, name: &str) -> &'a str {
    entry.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// What entries are sorted by.
fn order(entry: &Object) -> [&str; 5] {
    ["operation", "time", "manager", "apiVersion", "subresource"].map(|name| text(entry, name))
}

/// What is wrong with an object's managed fields, if anything is; others than clients may have written them.
#[must_use]
pub fn complaint(object: &Object) -> Option<String> {
    let entries = managed_fields(object)?.as_array()?;
    entries.iter().enumerate().find_map(|(index, entry)| {
        let entry = entry.as_object()?;
        head_complaint(entry, index).or_else(|| match entry.get("fieldsV1") {
            Some(set) if !set.is_null() && fields::canonical(set).is_none() => {
                Some(format!("error decoding versioned set from {}", Value::Object(entry.clone())))
            }
            _ => None,
        })
    })
}

/// What is wrong with an entry, its set left aside.
fn head_complaint(entry: &Object, index: usize) -> Option<String> {
    if !matches!(text(entry, "operation"), "Apply" | "Update") {
        return Some("operation must be `Apply` or `Update`".to_owned());
    }
    if text(entry, "apiVersion").is_empty() {
        return Some("apiVersion must not be empty".to_owned());
    }
    match text(entry, "fieldsType") {
        "FieldsV1" => None,
        "" => Some(format!("missing fieldsType in managed fields entry {index}")),
        other => Some(format!("invalid fieldsType {other:?} in managed fields entry {index}")),
    }
}

/// Whether an entry is valid; one that a client sent gets its set in canonical form.
fn validate(entry: &mut Object, trusted: bool) -> Option<()> {
    if head_complaint(entry, 0).is_some() {
        return None;
    }
    match entry.get_mut("fieldsV1") {
        Some(Value::Object(_)) if trusted => {}
        None | Some(Value::Null) => {}
        Some(sent) => *sent = Value::Object(fields::canonical(sent)?),
    }
    Some(())
}

/// The entries to go on from: the client's where it sent valid ones, else the stored ones; none
/// where the client wants them forgotten.
fn entries(stored: Option<&Value>, sent: Option<Value>, subresource: &str) -> Vec<Object> {
    if stored == sent.as_ref() {
        // As it should be: the client sent back what it got. Nothing needs to be copied.
        return sent.and_then(|s| read(s, true)).unwrap_or_default();
    }
    if let Some(sent) = sent.filter(|_| subresource.is_empty()) {
        if let Value::Array(list) = &sent {
            let reset = match list.as_slice() {
                [] => true,
                [one] => one.as_object().is_some_and(Map::is_empty),
                _ => false,
            };
            if reset {
                return Vec::new();
            }
        }
        if let Some(entries) = read(sent, false).filter(|entries| !entries.is_empty()) {
            return entries;
        }
    }
    stored.and_then(|s| read(s.clone(), true)).unwrap_or_default()
}

/// Entries as they are written; `None` where one is not valid. Of two of one manager the last counts.
fn read(list: Value, trusted: bool) -> Option<Vec<Object>> {
    let Value::Array(list) = list else { return None };
    let mut out: Vec<Object> = Vec::with_capacity(list.len());
    for value in list {
        let Value::Object(mut entry) = value else { return None };
        validate(&mut entry, trusted)?;
        match out.iter_mut().find(|e| Owner::of(e).same(Owner::of(&entry))) {
            Some(known) => *known = entry,
            None => out.push(entry),
        }
    }
    Some(out)
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

/// Folds the oldest updaters of each version into one entry, until few enough are left.
fn fold_ancient(entries: &mut Vec<Object>) {
    let updater = |e: &Object| text(e, "operation") == "Update";
    let mut left = entries.iter().filter(|e| updater(e)).count();
    if left <= MOST_UPDATERS {
        return;
    }
    // As the reference: by time, then by the text of what identifies a manager.
    let age = |e: &Object| (text(e, "time").to_owned(), Owner::of(e).identifier());
    let (mut oldest, applied): (Vec<Object>, Vec<Object>) = std::mem::take(entries).into_iter().partition(updater);
    oldest.sort_by_cached_key(age);
    // The first of each version becomes the bucket once there is a second one to go into it.
    let mut folded: Vec<Object> = Vec::new();
    for mut entry in oldest {
        let bucket = folded.iter_mut().find(|e| text(e, "apiVersion") == text(&entry, "apiVersion"));
        match bucket {
            Some(bucket) if left > MOST_UPDATERS => {
                if let (Some(Value::Object(into)), Some(Value::Object(fields))) =
                    (bucket.get_mut("fieldsV1"), entry.get("fieldsV1"))
                {
                    fields::union(into, fields);
                }
                bucket.insert("manager", Value::from(ANCIENT));
                bucket.remove("subresource");
                match entry.remove("time") {
                    Some(time) => bucket.insert("time", time),
                    None => bucket.remove("time"),
                };
                left -= 1;
            }
            _ => folded.push(entry),
        }
    }
    entries.extend(applied);
    entries.append(&mut folded);
}

#[cfg(test)]
mod tests;
