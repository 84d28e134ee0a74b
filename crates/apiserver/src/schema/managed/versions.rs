//! One object in the versions of its kind that its managers wrote.

use std::collections::{BTreeMap, BTreeSet};

use muster_tree::Value;

use super::check::{check, check_object};
use super::compare::compare;
use super::open::{Root, Subject};
use super::place::Place;
use super::text;
use crate::schema::Object;
use crate::schema::fields::Set;

/// Tells an object, which says what it is, in another `apiVersion`; or why it cannot be told so.
pub type Convert<'a> = dyn Fn(&Object, &str) -> Result<Object, String> + 'a;

/// An object in several versions.
pub(super) type Told = BTreeMap<String, Object>;

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

    /// As [`Versions::tell`]; `None` where there is no such version.
    ///
    /// # Errors
    /// What a webhook that converts has against it.
    pub(super) fn told(&self, object: &Value, api_version: &str) -> Result<Option<Value>, String> {
        let Some(object) = object.as_object() else { return Ok(None) };
        match self.tell(object, api_version) {
            Ok(told) => Ok(Some(Value::Object(told))),
            Err(why) if self.subject.open.is_some() && self.root_of(api_version).is_some() => Err(why),
            Err(_) => Ok(None),
        }
    }

    /// An object in the other versions that entries are of; those of Kubernetes' own kinds where it can be told in them.
    ///
    /// # Errors
    /// What keeps an object of a kind that came at run time from being told in the versions that its managers wrote, or from
    /// being what the schemas say.
    fn all(&self, entries: &[Object], object: &Object) -> Result<Told, String> {
        let is_open = self.subject.open.is_some();
        let others: BTreeSet<&str> =
            entries.iter().map(|entry| text(entry, "apiVersion")).filter(|version| *version != self.own).collect();
        let mut out = BTreeMap::new();
        for version in others {
            let told = self.tell(object, version).and_then(|told| {
                let place = self.place_of(version).filter(|_| is_open);
                let why = place.and_then(|place| check(place, &Value::Object(told.clone())));
                why.map_or(Ok(told), Err)
            });
            match told {
                Ok(told) => drop(out.insert(version.to_owned(), told)),
                Err(why) if is_open => return Err(why),
                Err(_) => {}
            }
        }
        Ok(out)
    }

    /// As [`Versions::all`], of an object as it was before a write; `None` where there was none.
    ///
    /// # Errors
    /// As of [`Versions::all`].
    pub(super) fn before(&self, entries: &[Object], live: Option<&Object>) -> Result<Option<Told>, String> {
        let Some(live) = live else { return Ok(None) };
        self.fits(live).map_err(|why| format!("failed to convert old object: {why}"))?;
        self.all(entries, live).map(Some)
    }

    /// As [`Versions::all`], of an object as it is after a write.
    ///
    /// # Errors
    /// As of [`Versions::all`].
    pub(super) fn after(&self, entries: &[Object], new: &Object) -> Result<Told, String> {
        let told = self.fits(new).and_then(|()| self.all(entries, new));
        told.map_err(|why| format!("failed to convert new object: {why}"))
    }

    /// Whether an object of a kind that came at run time is what the schema of the written version says.
    fn fits(&self, object: &Object) -> Result<(), String> {
        let place = self.subject.open.and_then(|_| self.place_of(self.own()));
        place.and_then(|place| check_object(place, object)).map_or(Ok(()), Err)
    }

    /// What a write adds or changes, and what it removes, in the terms of each version that entries are of. `own` says it in
    /// those of the version that is written, which stand for what cannot be told in another one.
    pub(super) fn differences(
        &self,
        subresource: &str,
        (before, after): (Option<&Told>, &Told),
        own: Difference,
        entries: &[Object],
    ) -> BTreeMap<String, Difference> {
        let mut out = BTreeMap::new();
        for version in entries.iter().map(|entry| text(entry, "apiVersion")) {
            if version == self.own || out.contains_key(version) {
                continue;
            }
            let told = after.get(version).zip(self.root_of(version));
            let told = told.and_then(|(after, root)| {
                let before = match before {
                    Some(before) => Some(before.get(version)?),
                    None => None,
                };
                compare(root, &self.subject, subresource, before, after)
            });
            out.insert(version.to_owned(), told.unwrap_or_else(|| own.clone()));
        }
        out.insert(self.own.clone(), own);
        out
    }
}
