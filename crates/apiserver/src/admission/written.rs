//! The object of a write, in the versions in which webhooks and policies want to see it.

use std::sync::Arc;

use muster_tree::Value;

use super::attributes::Seen;
use crate::codec;
use crate::kinds::Kind;
use crate::model::{FieldValidation, Fields as _, Model, Object};
use crate::registry::{Registry, Served, scale};
use crate::schema;
use crate::status::ApiError;

/// What is at hand of the object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form<'a> {
    /// The object as it is stored.
    Stored(&'a Served),
    /// The object as it is stored, of which the scale is written.
    Scale(&'a Served),
    /// What was sent to a subresource that has a type of its own, or to a kind that is not stored.
    Sent,
}

/// The object of a write, new and old, as the kinds that those who are asked about it name. What one of them changes it changes
/// in its own kind, which is put back when another kind is asked for, and at the end: so those that name one kind see all
/// of what others of that kind have made, also what the kind at hand does not have.
#[derive(Debug)]
pub(super) struct View<'a> {
    registry: &'a Registry,
    /// The form of both.
    pub(super) form: Form<'a>,
    /// The new one at hand; absent in a deletion.
    object: Option<Object>,
    /// The old one; absent in a creation.
    old: Option<&'a Object>,
    /// As what it has been told; where it has been changed, only that.
    told: Vec<Told>,
    /// The one that was asked for last.
    last: usize,
    is_changed: bool,
}

#[derive(Debug)]
struct Told {
    seen: Seen,
    object: Option<Object>,
    old: Option<Object>,
}

/// The object of a write, new and old, as a kind.
pub(super) type Shown<'a> = (Option<&'a Object>, Option<&'a Object>);

impl<'a> View<'a> {
    pub(super) fn new(
        registry: &'a Registry,
        form: Form<'a>,
        object: Option<&Object>,
        old: Option<&'a Object>,
    ) -> Self {
        Self { registry, form, object: object.cloned(), old, told: Vec::new(), last: 0, is_changed: false }
    }

    /// Both, as a kind.
    ///
    /// # Errors
    /// What a webhook that converts has against it.
    pub(super) fn of(&mut self, seen: &Seen) -> Result<Shown<'_>, String> {
        if self.is_changed && self.told[0].seen != *seen {
            self.settle()?;
        }
        self.last = match self.told.iter().position(|told| told.seen == *seen) {
            Some(at) => at,
            None => {
                let show = |object: Option<&Object>| {
                    object.map(|object| self.form.show(self.registry, seen, object)).transpose()
                };
                let told = Told { object: show(self.object.as_ref())?, old: show(self.old)?, seen: seen.clone() };
                self.told.push(told);
                self.told.len() - 1
            }
        };
        Ok(self.told[self.last].shown())
    }

    /// The same of a kind that has been asked for.
    pub(super) fn known(&self, seen: &Seen) -> Shown<'_> {
        self.told.iter().find(|told| told.seen == *seen).map_or((None, None), Told::shown)
    }

    /// Both as they are now, whatever the kind; as that one, where none has been changed.
    ///
    /// # Errors
    /// As of [`View::of`].
    pub(super) fn latest(&mut self, seen: &Seen) -> Result<Shown<'_>, String> {
        if self.is_changed { Ok(self.told[0].shown()) } else { self.of(seen) }
    }

    /// Puts another object in the place of the one that was asked for last. Whether it is another one.
    pub(super) fn change(&mut self, mut next: Object) -> bool {
        self.told.swap(0, self.last);
        self.told.truncate(1);
        self.last = 0;
        let Some(told) = self.told.first_mut() else { return false };
        self.form.default(self.registry, &told.seen, &mut next);
        let changes = told.object.as_ref() != Some(&next);
        told.object = Some(next);
        self.is_changed |= changes;
        changes
    }

    /// The object at hand, with all that was changed.
    ///
    /// # Errors
    /// As of [`View::of`].
    pub(super) fn finish(mut self) -> Result<Option<Object>, String> {
        self.settle()?;
        Ok(self.object)
    }

    /// Puts back what was changed; where that fails it stays to be put back, so that nothing is lost.
    fn settle(&mut self) -> Result<(), String> {
        if self.is_changed
            && let Some(Told { seen, object: Some(next), .. }) = self.told.first()
            && let Some(object) = &mut self.object
        {
            self.form.put(self.registry, seen, object, next.clone())?;
        }
        self.is_changed = false;
        self.told.clear();
        Ok(())
    }
}

impl Told {
    fn shown(&self) -> Shown<'_> {
        (self.object.as_ref(), self.old.as_ref())
    }
}

impl<'a> Form<'a> {
    fn show(self, registry: &Registry, seen: &Seen, object: &Object) -> Result<Object, String> {
        Ok(match self {
            Self::Sent => object.clone(),
            // One that has none, for its paths lead elsewhere, is refused by whoever writes it.
            Self::Scale(served) => scale::scale_of(served, object).unwrap_or_default(),
            Self::Stored(served) => match versions(registry, served, seen) {
                Versions::Own if !served.converts() => object.clone(),
                Versions::Own => served.present(object.clone()),
                // Custom objects are in the version of the request.
                Versions::Other(other) => match other.kind.custom() {
                    Some(custom) => custom.in_version(object, &other.resource().api_version())?,
                    None => other.present(object.clone()),
                },
            },
        })
    }

    /// Fills in what an object of that kind is where it is not said.
    fn default(self, registry: &Registry, seen: &Seen, object: &mut Object) {
        if let Self::Stored(served) = self {
            versions(registry, served, seen).kind(served).default(object);
        }
    }

    /// Reads an object that was shown as a kind and changed since.
    ///
    /// # Errors
    /// 500 for what is no such object any more.
    pub(super) fn read(self, registry: &Registry, seen: &Seen, changed: &Value) -> Result<Object, ApiError> {
        Ok(self.read_back(registry, seen, changed).map_err(|why| unreadable(&why))?.0)
    }

    /// As [`Form::read`], with no fields that its type does not have; of a kind that came at run time they are dropped.
    ///
    /// # Errors
    /// 500 for what is no such object any more.
    pub(super) fn read_strictly(self, registry: &Registry, seen: &Seen, changed: &Value) -> Result<Object, ApiError> {
        let (object, strict) = self.read_back(registry, seen, changed).map_err(|why| ApiError::internal(&why))?;
        match self.custom(registry, seen) {
            None if !strict.is_empty() => Err(ApiError::internal(&schema::decode::strict_message(&strict))),
            _ => Ok(object),
        }
    }

    /// Reads an object that was shown as a kind and into which something was merged since.
    ///
    /// # Errors
    /// Why it is no such object any more.
    pub(super) fn read_merged(self, registry: &Registry, seen: &Seen, merged: &Value) -> Result<Object, String> {
        let read = match self.custom(registry, seen) {
            Some(_) => self.read_back(registry, seen, merged),
            None => codec::read_merged(&self.model(seen), merged, FieldValidation::Ignore).map_err(|why| {
                let Model { group, version, kind } = self.model(seen);
                format!("unable to convert unstructured object to {group}/{version}, Kind={kind}: {why}")
            }),
        };
        Ok(read?.0)
    }

    fn model(self, seen: &Seen) -> Model<'_> {
        match self {
            Self::Scale(_) => Model::SCALE,
            Self::Sent | Self::Stored(_) => seen.model(),
        }
    }

    fn custom(self, registry: &Registry, seen: &Seen) -> Option<Arc<dyn Kind>> {
        let Self::Stored(served) = self else { return None };
        Some(versions(registry, served, seen).kind(served)).filter(|kind| kind.custom().is_some())
    }

    fn read_back(self, registry: &Registry, seen: &Seen, changed: &Value) -> Result<(Object, Vec<String>), String> {
        match self.custom(registry, seen).as_deref().and_then(|kind| kind.custom()) {
            Some(kind) => codec::custom::read_back(kind, changed),
            None => codec::read_back(&self.model(seen), changed, None, FieldValidation::Warn),
        }
    }

    /// Puts an object, which was shown as a kind and changed since, in the place of what is at hand.
    fn put(self, registry: &Registry, seen: &Seen, object: &mut Object, mut next: Object) -> Result<(), String> {
        match self {
            Self::Sent => *object = next,
            Self::Scale(_) => {
                let replicas = next.object("spec").map_or(0, |spec| spec.int("replicas"));
                object.object_or_new("spec").insert("replicas", Value::from(replicas));
            }
            Self::Stored(served) => {
                let kind = versions(registry, served, seen).kind(served);
                kind.to_stored(&mut next);
                *object = match kind.custom() {
                    Some(custom) => custom.in_version(&next, &served.resource().api_version())?,
                    None => next,
                };
            }
        }
        Ok(())
    }
}

/// 500 for what is no such object any more; the reference finds last that it is another one.
fn unreadable(why: &str) -> ApiError {
    if why.starts_with("converting (") { ApiError::plain(why) } else { ApiError::internal(why) }
}

enum Versions {
    Own,
    Other(Arc<Served>),
}

impl Versions {
    fn kind(&self, own: &Served) -> Arc<dyn Kind> {
        match self {
            Self::Own => Arc::clone(&own.kind),
            Self::Other(other) => Arc::clone(&other.kind),
        }
    }
}

fn versions(registry: &Registry, served: &Served, seen: &Seen) -> Versions {
    if *seen == Seen::of(served.resource(), None) {
        return Versions::Own;
    }
    match registry.find(&seen.group, &seen.version, &seen.plural) {
        Some(other) if other.id == served.id => Versions::Other(other),
        _ => Versions::Own,
    }
}
