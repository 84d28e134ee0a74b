//! One object in the versions of its kind that its managers wrote.

use std::collections::BTreeMap;

use muster_tree::Value;

use super::check::check_object;
use super::compare::compare;
use super::open::{Root, Subject};
use super::place::Place;
use super::text;
use crate::schema::Object;
use crate::schema::fields::Set;

/// Tells an object, which says what it is, in another `apiVersion`; or why it cannot be told so.
pub type Convert<'a> = dyn Fn(&Object, &str) -> Result<Object, String> + 'a;

/// What a write added or changed, and what it removed.
pub(super) type Difference = (Set, Set);

/// The versions of a kind.
pub(super) struct Versions<'a> {
    subject: Subject<'a>,
    own: String,
    convert: &'a Convert<'a>,
}

/// Of a kind whose objects are told in one version only.
///
/// # Errors
/// Always.
pub fn unconverted(_: &Object, api_version: &str) -> Result<Object, String> {
    Err(format!("it cannot be told in {api_version}"))
}

impl<'a> Versions<'a> {
    /// The versions of a kind, of which one is written.
    pub(super) fn new(subject: Subject<'a>, convert: &'a Convert<'a>) -> Self {
        Self { subject, own: subject.api_version(), convert }
    }

    /// The `apiVersion` that is written.
    pub(super) fn own(&self) -> &str {
        &self.own
    }

    /// The type of an `apiVersion`.
    pub(super) fn root_of(&self, api_version: &str) -> Option<Root<'a>> {
        self.subject.root_in(api_version)
    }

    /// As [`Versions::root_of`], as a place.
    pub(super) fn place_of(&self, api_version: &str) -> Option<Place<'a>> {
        self.root_of(api_version).map(Root::place)
    }

    /// An object in an `apiVersion`.
    ///
    /// # Errors
    /// Why it cannot be told so.
    pub(super) fn tell(&self, object: &Object, api_version: &str) -> Result<Object, String> {
        let said = text(object, "apiVersion");
        // What is not there yet does not say what it is.
        if said == api_version || (said.is_empty() && api_version == self.own) {
            return Ok(object.clone());
        }
        (self.convert)(object, api_version)
    }

    /// As [`Versions::tell`], where it can be told so.
    pub(super) fn told(&self, object: &Value, api_version: &str) -> Option<Value> {
        self.tell(object.as_object()?, api_version).ok().map(Value::Object)
    }

    /// What a write adds or changes, and what it removes, in the terms of each version that entries are of. `own` says it in
    /// those of the version that is written, which stand for what cannot be told in another one.
    pub(super) fn differences(
        &self,
        subresource: &str,
        (before, after): (Option<&Object>, &Object),
        own: Difference,
        entries: &[Object],
    ) -> BTreeMap<String, Difference> {
        let mut out = BTreeMap::new();
        for version in entries.iter().map(|entry| text(entry, "apiVersion")) {
            if version == self.own || out.contains_key(version) {
                continue;
            }
            let told = || {
                let root = self.root_of(version)?;
                let before = before.map(|before| self.tell(before, version)).transpose().ok()?;
                let after = self.tell(after, version).ok()?;
                compare(root, &self.subject, subresource, before.as_ref(), &after)
            };
            let told = told().unwrap_or_else(|| own.clone());
            out.insert(version.to_owned(), told);
        }
        out.insert(self.own.clone(), own);
        out
    }

    /// What keeps objects of a kind that came at run time from being told in the versions that its managers wrote.
    pub(super) fn misfit(&self, entries: &[Object], live: Option<&Object>, new: &Object) -> Option<String> {
        self.subject.open?;
        for version in entries.iter().map(|entry| text(entry, "apiVersion")).chain([self.own()]) {
            let Some(place) = self.place_of(version) else { continue };
            for (object, what) in [(live, "old"), (Some(new), "new")] {
                let Some(object) = object else { continue };
                let why = match self.tell(object, version) {
                    Ok(told) => check_object(place, &told),
                    Err(why) => Some(why),
                };
                if let Some(why) = why {
                    return Some(format!("failed to convert {what} object: {why}"));
                }
            }
        }
        None
    }
}
