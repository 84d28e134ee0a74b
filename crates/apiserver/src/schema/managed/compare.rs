//! What a write changed, as sets of fields.

use std::mem::discriminant;

use muster_tree::{Map, Text, Value};

use crate::schema::Object;
use crate::schema::fields::{self, Set};

use super::open::{Root, Subject};
use super::place::{Granularity, Place};

/// Metadata that no manager owns.
const UNOWNED: &[&str] =
    &["name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "managedFields", "resourceVersion"];

/// What a write added or changed, and what it removed. `None` where an element of a keyed list has
/// no key.
pub(super) fn compare(
    root: Root<'_>,
    subject: &Subject<'_>,
    subresource: &str,
    live: Option<&Object>,
    new: &Object,
) -> Option<(Set, Set)> {
    let nothing;
    let live = match live {
        Some(live) => live,
        None => {
            // Even an object that is not there has the fields that Go always writes.
            nothing = root.zero();
            &nothing
        }
    };
    let place = root.place();
    let (mut changed, mut removed) = (Map::new(), Map::new());
    for (name, before, after) in pairs(Some(live), Some(new)) {
        if matches!(name, "apiVersion" | "kind") || subject.ignores(name, subresource) {
            continue;
        }
        let Some(member) = place.member(name) else { continue };
        if name == "metadata" {
            let (own, gone) = compare_metadata(member, subject, subresource, before, after)?;
            put(&mut changed, member.path(name), own);
            put(&mut removed, member.path(name), gone);
            continue;
        }
        let change = walk(member, before, after)?;
        put_node(&mut changed, member.path(name), change.changed);
        put_node(&mut removed, member.path(name), change.removed);
    }
    for set in [&mut changed, &mut removed] {
        keep_written(set, subject.model.kind, subresource);
    }
    Some((changed, removed))
}

fn compare_metadata(
    place: Place<'_>,
    subject: &Subject<'_>,
    subresource: &str,
    before: Option<&Value>,
    after: Option<&Value>,
) -> Option<(Set, Set)> {
    let (mut changed, mut removed) = (Map::new(), Map::new());
    for (name, before, after) in pairs(before.and_then(Value::as_object), after.and_then(Value::as_object)) {
        if UNOWNED.contains(&name) || subject.ignores_metadata(name, subresource) {
            continue;
        }
        let Some(member) = place.member(name) else { continue };
        let change = walk(member, before, after)?;
        put_node(&mut changed, member.path(name), change.changed);
        put_node(&mut removed, member.path(name), change.removed);
    }
    Some((changed, removed))
}

/// The members of two objects that differ: those of the second, then those that only the first has.
fn pairs<'v>(
    before: Option<&'v Object>,
    after: Option<&'v Object>,
) -> impl Iterator<Item = (&'v str, Option<&'v Value>, Option<&'v Value>)> {
    let now = after
        .into_iter()
        .flatten()
        .map(move |(name, value)| (name.as_str(), before.and_then(|before| before.get(name)), Some(value)));
    let gone =
        before.into_iter().flatten().filter(move |(name, _)| after.is_none_or(|after| !after.contains_key(name)));
    now.filter(|(_, left, right)| left != right).chain(gone.map(|(name, value)| (name.as_str(), Some(value), None)))
}

/// All that a write to an object or a subresource writes, where that is less than what is not [`ignored`].
fn written(kind: &str, subresource: &str) -> Option<&'static [&'static [&'static str]]> {
    match (kind, subresource) {
        ("CertificateSigningRequest", "") => Some(&[&["f:metadata"]]),
        ("CertificateSigningRequest", "status") => Some(&[&["f:metadata"], &["f:status", "f:certificate"]]),
        ("CertificateSigningRequest", "approval") => Some(&[&["f:metadata"], &["f:status", "f:conditions"]]),
        _ => None,
    }
}

/// Takes out of a set what a write does not write.
fn keep_written(set: &mut Set, kind: &str, subresource: &str) {
    if let Some(written) = written(kind, subresource) {
        keep(set, written);
    }
}

fn keep(set: &mut Set, paths: &[&[&str]]) {
    set.retain(|own, node| {
        let rests: Vec<&[&str]> = paths
            .iter()
            .filter_map(|path| path.split_first().filter(|(first, _)| *first == own).map(|(_, rest)| rest))
            .collect();
        match node {
            Value::Object(_) if rests.iter().any(|rest| rest.is_empty()) => true,
            Value::Object(node) => {
                keep(node, &rests);
                !node.is_empty()
            }
            _ => false,
        }
    });
}

/// Takes out of a set what a write to a subresource cannot write.
pub(super) fn drop_ignored(set: &mut Set, subject: &Subject<'_>, subresource: &str) {
    let name = |path: &str| path.trim_start_matches("f:").to_owned();
    set.retain(|path, _| !subject.ignores(&name(path), subresource));
    keep_written(set, subject.model.kind, subresource);
    if let Some(Value::Object(metadata)) = set.get_mut("f:metadata") {
        metadata.retain(|path, _| !subject.ignores_metadata(&name(path), subresource));
    }
}

/// What no manager owns, as a set.
pub(super) fn unowned() -> Set {
    let whole = || fields::member(Map::new());
    let metadata = UNOWNED.iter().map(|name| (format!("f:{name}"), whole())).collect();
    [("f:apiVersion", whole()), ("f:kind", whole()), ("f:metadata", fields::member(metadata))]
        .map(|(path, node)| (path.to_owned(), node))
        .into_iter()
        .collect()
}

fn put(set: &mut Set, path: String, below: Set) {
    if !below.is_empty() {
        set.insert(path, Value::Object(below));
    }
}

fn put_node(set: &mut Set, path: String, node: Option<Value>) {
    if let Some(node) = node {
        set.insert(path, node);
    }
}

/// What differs between two objects of a type, whoever may write it: what was added or changed, and what was
/// removed. `None` where an element of a keyed list has no key.
pub(super) fn difference(place: Place<'_>, before: &Value, after: &Value) -> Option<(Set, Set)> {
    if before == after {
        return Some((Map::new(), Map::new()));
    }
    let below = |node: Option<Value>| match node {
        Some(Value::Object(below)) => below,
        _ => Map::new(),
    };
    let change = walk(place, Some(before), Some(after))?;
    Some((below(change.changed), below(change.removed)))
}

/// What changed at and below a place: nodes of two sets.
#[derive(Default)]
struct Change {
    changed: Option<Value>,
    removed: Option<Value>,
}

/// The nodes of a set below one place, in the order in which they were found.
type Nodes = Vec<(String, Value)>;

/// The path of a place itself, beside what is below it.
const SELF: &str = ".";

/// Compares a place. The caller has found the two to differ. What is something else now is compared as what it was, and as
/// what it is.
fn walk(place: Place<'_>, before: Option<&Value>, after: Option<&Value>) -> Option<Change> {
    let (was, is) = (place.seen(before), place.seen(after));
    if before.is_some() && after.is_some() && discriminant(&was) != discriminant(&is) {
        let (one, other) = (walk_as(was, before, after)?, walk_as(is, before, after)?);
        return Some(Change {
            changed: either(one.changed, other.changed),
            removed: either(one.removed, other.removed),
        });
    }
    walk_as(place.seen(after.or(before)), before, after)
}

/// What is in one of two nodes.
fn either(one: Option<Value>, other: Option<Value>) -> Option<Value> {
    let (Some(one), Some(other)) = (&one, &other) else { return one.or(other) };
    let set = |node: &Value| Map::from_iter([(String::new(), node.clone())]);
    let mut all = set(one);
    fields::union(&mut all, &set(other));
    all.remove("")
}

fn walk_as(place: Place<'_>, before: Option<&Value>, after: Option<&Value>) -> Option<Change> {
    let (mut changed, mut removed) = (Vec::new(), Vec::new());
    // What comes or goes as a whole is in the set itself. Its mark sorts before everything below it.
    let mark = || (SELF.to_owned(), Value::Object(Map::new()));
    let begin = |changed: &mut Nodes, removed: &mut Nodes| {
        if before.is_none() {
            changed.reserve(1 + after.map_or(0, size));
            changed.push(mark());
        }
        if after.is_none() {
            removed.push(mark());
        }
    };
    let leaf = match place.granularity() {
        Granularity::Whole => true,
        Granularity::Members => {
            let (left, right) = (members(before), members(after));
            if left.is_none() && right.is_none() {
                true
            } else {
                begin(&mut changed, &mut removed);
                each_member(place, left, right, &mut changed, &mut removed)?;
                false
            }
        }
        Granularity::Elements => {
            let (left, right) = (items(before), items(after));
            if left.is_empty() && right.is_empty() {
                true
            } else {
                begin(&mut changed, &mut removed);
                list(place, left, right, &mut changed, &mut removed)?;
                false
            }
        }
    };
    if leaf {
        return Some(match (before, after) {
            (Some(_), None) => Change { changed: None, removed: Some(fields::member(Map::new())) },
            (Some(before), Some(after)) if is_same(before, after) => Change::default(),
            _ => Change { changed: Some(fields::member(Map::new())), removed: None },
        });
    }
    let node = |below: Nodes, whole: bool| match (whole, below.len()) {
        (true, 0 | 1) => Some(fields::member(Map::new())),
        (false, 0) => None,
        _ => Some(Value::Object(below.into_iter().collect())),
    };
    Some(Change { changed: node(changed, before.is_none()), removed: node(removed, after.is_none()) })
}

/// Whether two values are equal: numbers by their worth.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) if one.is_f64() || other.is_f64() => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |(name, one): (&Text, &Value)| other.get(name).is_some_and(|other| is_same(one, other));
            one.len() == other.len() && one.iter().all(same)
        }
        (one, other) => one == other,
    }
}

/// How many members or elements there are.
fn size(value: &Value) -> usize {
    match value {
        Value::Object(entries) => entries.len(),
        Value::Array(items) => items.len(),
        _ => 0,
    }
}

/// The members of an object that has some.
fn members(value: Option<&Value>) -> Option<&Object> {
    value.and_then(Value::as_object).filter(|o| !o.is_empty())
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], muster_tree::List::as_slice)
}

fn each_member(
    place: Place<'_>,
    before: Option<&Object>,
    after: Option<&Object>,
    changed: &mut Nodes,
    removed: &mut Nodes,
) -> Option<()> {
    for (name, left, right) in pairs(before, after) {
        if let Some(member) = place.member(name) {
            add(changed, removed, member.path(name), walk(member, left, right)?);
        }
    }
    Some(())
}

fn add(changed: &mut Nodes, removed: &mut Nodes, path: String, change: Change) {
    match (change.changed, change.removed) {
        (Some(node), None) => changed.push((path, node)),
        (None, Some(node)) => removed.push((path, node)),
        (Some(node), Some(gone)) => {
            changed.push((path.clone(), node));
            removed.push((path, gone));
        }
        (None, None) => {}
    }
}

/// Compares a keyed list or a set. Elements that share a path are compared as one.
fn list(list: Place<'_>, before: &[Value], after: &[Value], changed: &mut Nodes, removed: &mut Nodes) -> Option<()> {
    let Some(place) = list.element() else { return Some(()) };
    let paths = |items: &[Value]| -> Option<Vec<String>> { items.iter().map(|i| list.element_path(i).ok()).collect() };
    let (left_paths, right_paths) = (paths(before)?, paths(after)?);
    // Nearly always they are the same elements, each once and in the same order.
    if left_paths == right_paths && is_short_set(&right_paths) {
        let mut nodes: Vec<usize> = (0..after.len()).filter(|at| before[*at] != after[*at]).collect();
        nodes.sort_by(|a, b| right_paths[*a].cmp(&right_paths[*b]));
        return nodes.into_iter().try_for_each(|at| {
            let change = walk(place, Some(&before[at]), Some(&after[at]))?;
            add(changed, removed, right_paths[at].clone(), change);
            Some(())
        });
    }
    // Every element by its path; of one path those before come first, each in its order.
    let places =
        |paths: &'_ [String], later: bool| -> Vec<(usize, bool)> { (0..paths.len()).map(|at| (at, later)).collect() };
    let path_of = |(at, later): (usize, bool)| if later { right_paths[at].as_str() } else { left_paths[at].as_str() };
    let mut all = places(&left_paths, false);
    all.extend(places(&right_paths, true));
    all.sort_by(|a, b| path_of(*a).cmp(path_of(*b)));
    for group in all.chunk_by(|a, b| path_of(*a) == path_of(*b)) {
        let (left, right) = group.split_at(group.partition_point(|(_, later)| !later));
        let path = path_of(group[0]);
        match (left, right) {
            ([] | [_], [] | [_]) => {
                let (left, right) =
                    (left.first().map(|(at, _)| &before[*at]), right.first().map(|(at, _)| &after[*at]));
                if left != right {
                    add(changed, removed, path.to_owned(), walk(place, left, right)?);
                }
            }
            ([_, _, ..], [_, _, ..]) => {
                let same =
                    left.len() == right.len() && left.iter().zip(right).all(|((l, _), (r, _))| before[*l] == after[*r]);
                if !same {
                    changed.push((path.to_owned(), fields::member(Map::new())));
                }
            }
            ([_, _, ..], _) => {
                if let Some((at, _)) = right.first() {
                    add(changed, removed, path.to_owned(), walk(place, None, Some(&after[*at]))?);
                }
                mark(removed, path);
            }
            _ => {
                if let Some((at, _)) = left.first() {
                    add(changed, removed, path.to_owned(), walk(place, Some(&before[*at]), None)?);
                }
                mark(changed, path);
            }
        }
    }
    Some(())
}

/// Whether there are few paths, and none is there twice.
fn is_short_set(paths: &[String]) -> bool {
    paths.len() <= 32 && paths.iter().enumerate().all(|(at, path)| !paths[..at].contains(path))
}

/// Puts a path into a set, beside what is there below it. What is there was put there last.
fn mark(nodes: &mut Nodes, path: &str) {
    match nodes.last_mut() {
        Some((known, Value::Object(below))) if known == path => {
            if !below.is_empty() {
                below.insert(SELF.to_owned(), Value::Object(Map::new()));
            }
        }
        _ => nodes.push((path.to_owned(), fields::member(Map::new()))),
    }
}
