//! One object in the versions of its kind that its managers wrote.

use muster_tree::Value;

use super::open::{Root, Subject};
use super::place::Place;
use crate::schema::Object;

/// Tells an object, which says what it is, in another `apiVersion`; `None` where there is no such version.
pub type Convert<'a> = dyn Fn(&Object, &str) -> Option<Object> + 'a;

/// The versions of a kind.
pub(super) struct Versions<'a> {
    subject: Subject<'a>,
    own: String,
    convert: &'a Convert<'a>,
}

impl<'a> Versions<'a> {
    /// The versions of a kind, of which one is applied.
    pub(super) fn new(subject: Subject<'a>, convert: &'a Convert<'a>) -> Self {
        Self { subject, own: subject.api_version(), convert }
    }

    /// The `apiVersion` that is applied.
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
    pub(super) fn tell(&self, object: &Value, api_version: &str) -> Option<Value> {
        if object["apiVersion"] == api_version {
            return Some(object.clone());
        }
        (self.convert)(object.as_object()?, api_version).map(Value::Object)
    }
}
