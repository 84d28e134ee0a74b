//! What a manager that applies takes away: what it does not apply any more.

use std::collections::BTreeMap;

use muster_tree::{Map, Value};

use super::apply::owned_by;
use super::owned::{field_set, with_named_fields, without};
use super::text;
use super::versions::Versions;
use crate::schema::Object;
use crate::schema::fields::{self, Set};

/// Takes away what a manager applied the last time, as its entry says, but for what is owned now, by it or by
/// another, and for what it never applied itself.
///
/// # Errors
/// What a webhook that converts has against it.
pub(super) fn prune(
    versions: &Versions<'_>,
    merged: Value,
    last: &Object,
    own: &Set,
    others: &[Object],
) -> Result<Value, String> {
    Ok(pruned(versions, &merged, last, own, others)?.unwrap_or(merged))
}

fn pruned(
    versions: &Versions<'_>,
    merged: &Value,
    last: &Object,
    own: &Set,
    others: &[Object],
) -> Result<Option<Value>, String> {
    // All of this is done in the version of the last time.
    let version = text(last, "apiVersion");
    let (Some(place), Some(last)) = (versions.place_of(version), owned_by(last)) else { return Ok(None) };
    let named = |set: &Set| with_named_fields(set, Some(place));
    let converted = versions.told(merged, version);
    let converted = converted.map_err(|why| format!("failed to convert merged object to last applied version: {why}"));
    let Some(merged) = converted? else { return Ok(None) };
    let last = named(last);

    let mut owned: BTreeMap<&str, Set> = BTreeMap::new();
    let entries = others.iter().filter_map(|entry| Some((text(entry, "apiVersion"), owned_by(entry)?)));
    for (theirs, fields) in entries.chain([(versions.own(), own)]) {
        // What cannot be told in its version is looked for in this one.
        let known = theirs == version || versions.told(&merged, theirs)?.is_some();
        fields::union(owned.entry(if known { theirs } else { version }).or_default(), fields);
    }
    let mut rest = without(place, &merged, &last);
    // This version first: what it gives back may be needed to tell the object in another one.
    let first = owned.remove(version).map(|fields| (version, fields));
    for (theirs, fields) in first.into_iter().chain(owned) {
        if let Some(more) = with_owned(versions, &merged, &rest, theirs, &fields)? {
            let Some(told) = versions.told(&more, version)? else { return Ok(None) };
            rest = told;
        }
    }

    let mut gone = named(&field_set(place, &merged));
    fields::subtract(&mut gone, &named(&field_set(place, &rest)));
    let left = match without(place, &merged, &fields::intersection(&gone, &last)) {
        Value::Null => Value::Object(Map::new()),
        left => left,
    };
    versions.told(&left, versions.own())
}

/// What is left, and what is owned of what was there, in the version of who owns it.
fn with_owned(
    versions: &Versions<'_>,
    merged: &Value,
    rest: &Value,
    version: &str,
    owned: &Set,
) -> Result<Option<Value>, String> {
    let Some(place) = versions.place_of(version) else { return Ok(None) };
    let named = |set: &Set| with_named_fields(set, Some(place));
    let (Some(merged), Some(rest)) = (versions.told(merged, version)?, versions.told(rest, version)?) else {
        return Ok(None);
    };
    let mut keep = named(&field_set(place, &rest));
    fields::union(&mut keep, &named(owned));
    let mut gone = named(&field_set(place, &merged));
    fields::subtract(&mut gone, &keep);
    Ok(Some(without(place, &merged, &gone)))
}
