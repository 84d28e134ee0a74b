//! The object of a write, in the versions in which webhooks and policies want to see it.

use std::borrow::Cow;
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

/// The object of a write, new and old, in some form.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written<'a> {
    /// The form of both.
    pub(super) form: Form<'a>,
    /// The new one; absent in a deletion.
    pub(super) object: Option<&'a Object>,
    /// The old one; absent in a creation.
    pub(super) old: Option<&'a Object>,
}

/// The object of a write, new and old, as a kind.
pub(super) type Shown<'a> = (Option<Cow<'a, Object>>, Option<Cow<'a, Object>>);

impl<'a> Written<'a> {
    /// With another new object.
    pub(super) fn with<'o>(self, object: &'o Object) -> Written<'o>
    where
        'a: 'o,
    {
        Written { object: Some(object), ..self }
    }

    /// Both, as a kind.
    ///
    /// # Errors
    /// 500 with what a webhook that converts has against it.
    pub(super) fn shown(&self, registry: &Registry, seen: &Seen) -> Result<Shown<'a>, ApiError> {
        let show = |object: Option<&'a Object>| object.map(|object| self.form.show(registry, seen, object)).transpose();
        Ok((show(self.object)?, show(self.old)?))
    }
}

impl<'a> Form<'a> {
    fn show(self, registry: &Registry, seen: &Seen, object: &'a Object) -> Result<Cow<'a, Object>, ApiError> {
        Ok(match self {
            Self::Sent => Cow::Borrowed(object),
            // One that has none, for its paths lead elsewhere, is refused by whoever writes it.
            Self::Scale(served) => Cow::Owned(scale::scale_of(served, object).unwrap_or_default()),
            Self::Stored(served) => match versions(registry, served, seen) {
                Versions::Own if !served.converts() => Cow::Borrowed(object),
                Versions::Own => Cow::Owned(served.present(object.clone())),
                // Custom objects are in the version of the request.
                Versions::Other(other) => Cow::Owned(match other.kind.custom() {
                    Some(_) => in_version(&other, object)?,
                    None => other.present(object.clone()),
                }),
            },
        })
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
    ///
    /// # Errors
    /// 500 with what a webhook that converts has against it.
    pub(super) fn put(
        self,
        registry: &Registry,
        seen: &Seen,
        object: &mut Object,
        mut next: Object,
    ) -> Result<(), ApiError> {
        match self {
            Self::Sent => *object = next,
            Self::Scale(_) => {
                let replicas = next.object("spec").map_or(0, |spec| spec.int("replicas"));
                object.object_or_new("spec").insert("replicas", Value::from(replicas));
            }
            Self::Stored(served) => {
                let kind = versions(registry, served, seen).kind(served);
                kind.default(&mut next);
                kind.to_stored(&mut next);
                *object = if kind.custom().is_some() { in_version(served, &next)? } else { next };
            }
        }
        Ok(())
    }
}

/// A custom object in another version of its kind.
fn in_version(served: &Served, object: &Object) -> Result<Object, ApiError> {
    let custom = served.kind.custom();
    custom
        .map_or_else(|| Ok(object.clone()), |custom| custom.in_version(object, &served.resource().api_version()))
        .map_err(|why| ApiError::internal(&why))
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
