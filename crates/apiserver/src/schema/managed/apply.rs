//! Server-side apply: a manager says what it wants of an object, and owns what it says.
//!
//! ```text
//!   live + applied -> merged -> pruned of what the manager applied last time and nobody owns any more
//!                                  |
//!                 compared with live: what changes, and somebody else owns, is a conflict
//! ```
//!
//! The rules are those of apimachinery's `managedfields` over structured-merge-diff's `merge.Updater`. (Contract:
//! API-13.)

use muster_objects::time::Timestamp;
use muster_tree::{Value, json};

use super::check::check;
use super::compare::{self, compare};
use super::conflict::Conflict;
use super::last_applied;
use super::merge::merge;
use super::open::{Root, Subject};
use super::owned::field_set;
use super::place::Place;
use super::prune::prune;
use super::versions::{Convert, Versions, unconverted};
use super::{Owner, managed_fields, order, read, take_managed_fields, text, update};
use crate::model::Model;
use crate::schema::fields::{self, Set};
use crate::schema::{Object, Validation, from_unstructured};

pub use super::conflict::message;

/// The manager of what was there before anybody applied, where nobody was recorded.
const BEFORE: &str = "before-first-apply";

/// A configuration that is applied.
#[derive(Debug, Clone, Copy)]
pub struct Configuration<'a> {
    /// The kind.
    pub subject: Subject<'a>,
    /// The subresource that is written; empty for none.
    pub subresource: &'a str,
    /// What was sent.
    pub tree: &'a Value,
    /// Who applies it.
    pub manager: &'a str,
    /// Whether fields are taken from the managers that own them.
    pub force: bool,
    /// The time that is recorded.
    pub now: Timestamp,
}

/// Why a configuration cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It is no configuration of this kind.
    Bad(String),
    /// It has not the form of the kind.
    Malformed(String),
    /// Other managers own fields that it sets otherwise. In the order of their managers.
    Conflicts(Vec<Conflict>),
}

/// Applies a configuration to an object, `None` where it is to be created. Gives the object before defaulting,
/// with its `metadata.managedFields`. Managers may have written other versions of the kind: `convert` tells an
/// object in another one.
///
/// # Errors
///
/// Why not, in the reference's words.
pub fn apply(
    configuration: &Configuration<'_>,
    live: Option<&Object>,
    convert: &Convert<'_>,
) -> Result<Object, Refusal> {
    let Configuration { subject, manager, tree, .. } = *configuration;
    let Model { group, version, kind } = subject.model;
    let gvk = shown_kind(tree);
    let root = subject.root().filter(|_| gvk == format!("{}, Kind={kind}", slashed(group, version)));
    let root = root.ok_or_else(|| Refusal::Bad(format!("invalid object type: {gvk}")))?;
    if tree["metadata"]["managedFields"].as_array().is_some_and(|list| list.iter().all(Value::is_object)) {
        return Err(Refusal::Bad("metadata.managedFields must be nil".to_owned()));
    }
    let place = root.place();
    let named = format!("({}/{}; {gvk})", metadata_text(tree, "namespace"), metadata_text(tree, "name"));
    if let Some(why) = check(place, tree) {
        return Err(Refusal::Malformed(format!("failed to create typed patch object {named}: {why}")));
    }

    let entries = live.map(|live| recorded(configuration, live)).unwrap_or_default();
    let mut present = live.cloned().unwrap_or_else(|| root.zero());
    take_managed_fields(&mut present);
    let versions = Versions::new(subject, convert);
    let merging = Merging { configuration, versions, root, place, present: Value::Object(present), entries };
    let outcome = match merging.attempt(configuration.force) {
        // Who applied with an annotation before may go on as a manager.
        Err(Refusal::Conflicts(conflicts)) if manager == last_applied::MANAGER => {
            let conflicts = last_applied::unexpected(place, configuration, &merging.present, conflicts);
            if conflicts.is_empty() { merging.attempt(true) } else { Err(Refusal::Conflicts(conflicts)) }
        }
        outcome => outcome,
    };
    let (object, entries) = outcome?;
    let mut object = match (subject.open, object) {
        (Some(_), Value::Object(object)) => object,
        (_, object) => {
            let read = from_unstructured(group, version, kind, &object, Validation::Ignore).map_err(|error| {
                Refusal::Malformed(format!(
                    "failed to convert new object {named} to proper version: unable to convert unstructured object to {gvk}: {}",
                    error.message
                ))
            });
            read?.0
        }
    };
    object.insert("apiVersion", Value::from(merging.versions.own()));
    object.insert("kind", Value::from(kind));
    if manager == last_applied::MANAGER {
        last_applied::refresh(&mut object, tree);
    }
    if let Some(Value::Object(metadata)) = object.get_mut("metadata")
        && !entries.is_empty()
    {
        metadata.insert("managedFields", entries.into_iter().map(Value::Object).collect());
    }
    Ok(object)
}

/// Group and version as Go prints them, with a slash for the core group too.
fn slashed(group: &str, version: &str) -> String {
    format!("{group}/{version}")
}

/// What a tree says that it is, as Go prints it.
fn shown_kind(tree: &Value) -> String {
    let said = |key: &str| tree[key].as_str().unwrap_or_default();
    let (api_version, kind) = (said("apiVersion"), said("kind"));
    match api_version.split_once('/') {
        _ if matches!(api_version, "" | "/") => format!("/, Kind={kind}"),
        None => format!("/{api_version}, Kind={kind}"),
        Some((_, version)) if version.contains('/') => "/, Kind=".to_owned(),
        Some(_) => format!("{api_version}, Kind={kind}"),
    }
}

fn metadata_text<'a>(tree: &'a Value, key: &str) -> &'a str {
    tree["metadata"][key].as_str().unwrap_or_default()
}

/// The entries of an object; where it has none, all that it has belongs to one manager.
fn recorded(configuration: &Configuration<'_>, live: &Object) -> Vec<Object> {
    let Configuration { subject, subresource, now, .. } = *configuration;
    let entries = |object: &Object| managed_fields(object).and_then(|m| read(m.clone(), true)).unwrap_or_default();
    let found = entries(live);
    if !found.is_empty() {
        return found;
    }
    let mut untracked = live.clone();
    take_managed_fields(&mut untracked);
    update(&subject, None, &mut untracked, BEFORE, subresource, now, &unconverted);
    entries(&untracked)
}

/// An object, who owns what of it, and what is applied to it.
struct Merging<'a> {
    configuration: &'a Configuration<'a>,
    versions: Versions<'a>,
    root: Root<'a>,
    place: Place<'a>,
    /// The object without its entries.
    present: Value,
    entries: Vec<Object>,
}

impl Merging<'_> {
    /// The object as it becomes, and its entries; or the conflicts, where they are not forced.
    fn attempt(&self, force: bool) -> Result<(Value, Vec<Object>), Refusal> {
        let Configuration { subject, subresource, tree, manager, now, .. } = *self.configuration;
        let own = Owner { manager, operation: "Apply", api_version: self.versions.own(), subresource };
        let (mine, mut entries): (Vec<Object>, Vec<Object>) =
            self.entries.iter().cloned().partition(|entry| own.same(Owner::of(entry)));
        let mine = mine.first();
        // What there was has to be told in the versions of all, the manager itself among them.
        let known = |entries: &[Object]| -> Vec<Object> {
            entries.iter().filter(|entry| subject.knows(text(entry, "apiVersion"))).cloned().collect()
        };
        let present = self.present.as_object();
        let before = self.versions.before(&known(&self.entries), present).map_err(Refusal::Malformed)?;
        let mut set = field_set(self.place, tree);
        compare::drop_ignored(&mut set, &subject, subresource);

        let mut next = merge(self.place, Some(&self.present), Some(tree)).unwrap_or_else(|| json!({}));
        if let Some(last) = mine.filter(|mine| owned_by(mine).is_some_and(|last| !last.is_empty())) {
            next = prune(&self.versions, next, last, &set, &entries).map_err(Refusal::Malformed)?;
        }

        entries = known(&entries);
        let new = next.as_object().cloned().unwrap_or_default();
        let after = self.versions.after(&entries, &new).map_err(Refusal::Malformed)?;
        let difference = compare(self.root, &subject, subresource, present, &new).unwrap_or_default();
        let differences = self.versions.differences(subresource, (before.as_ref(), &after), difference, &entries);
        let difference = |entry: &Object| differences.get(text(entry, "apiVersion"));
        if !force {
            let conflicts = conflicts(&entries, |entry| difference(entry).map(|(changed, _)| changed));
            if !conflicts.is_empty() {
                return Err(Refusal::Conflicts(conflicts));
            }
        }
        for entry in &mut entries {
            let Some((changed, removed)) = difference(entry) else { continue };
            if let Some(Value::Object(fields)) = entry.get_mut("fieldsV1") {
                fields::subtract(fields, changed);
                fields::subtract(fields, removed);
            }
        }
        entries.retain(|e| owned_by(e).is_some_and(|fields| !fields.is_empty()));

        fields::subtract(&mut set, &compare::unowned());
        if !set.is_empty() {
            // The time is that of the last apply that changed something.
            let unchanged = next == self.present;
            let before = mine.and_then(|mine| mine.get("time")).cloned();
            let time = if unchanged { before } else { Some(Value::from(now.to_string())) };
            let mut entry = own.entry(set, time.unwrap_or_default());
            entry.retain(|_, value| !value.is_null());
            entries.push(entry);
        }
        entries.sort_by(|a, b| order(a).cmp(&order(b)));
        Ok((next, entries))
    }
}

pub(super) fn owned_by(entry: &Object) -> Option<&Set> {
    entry.get("fieldsV1").and_then(Value::as_object)
}

/// What others own of what changes, by their names.
fn conflicts<'a>(entries: &[Object], changed: impl Fn(&Object) -> Option<&'a Set>) -> Vec<Conflict> {
    let mut sorted: Vec<&Object> = entries.iter().collect();
    sorted.sort_by_cached_key(|entry| Owner::of(entry).identifier());
    let over = |entry: &Object| {
        let set = owned_by(entry).zip(changed(entry)).map(|(owned, changed)| fields::intersection(owned, changed));
        Conflict::over(&set.unwrap_or_default(), Owner::of(entry))
    };
    sorted.into_iter().flat_map(over).collect()
}

#[cfg(test)]
mod tests;
