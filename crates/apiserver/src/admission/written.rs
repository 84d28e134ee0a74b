//! The object of a write, in the versions in which webhooks and policies want to see it.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::attributes::Seen;
use crate::codec;
use crate::model::{FieldValidation, Fields as _, Model, Object};
use crate::registry::{Registry, Served, scale};
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

impl<'a> Written<'a> {
    /// Both, as a kind.
    pub(super) fn shown(&self, registry: &Registry, seen: &Seen) -> (Option<Cow<'a, Object>>, Option<Cow<'a, Object>>) {
        let show = |object| self.form.show(registry, seen, object);
        (self.object.map(show), self.old.map(show))
    }
}

impl<'a> Form<'a> {
    fn show(self, registry: &Registry, seen: &Seen, object: &'a Object) -> Cow<'a, Object> {
        match self {
            Self::Sent => Cow::Borrowed(object),
            // One that has none, for its paths lead elsewhere, is refused by whoever writes it.
            Self::Scale(served) => Cow::Owned(scale::scale_of(served, object).unwrap_or_default()),
            Self::Stored(served) => match versions(registry, served, seen) {
                Versions::Own if !served.converts() => Cow::Borrowed(object),
                Versions::Own => Cow::Owned(served.present(object.clone())),
                Versions::Other(other) => Cow::Owned(other.present(object.clone())),
            },
        }
    }

    /// Puts an object, which was shown as a kind and changed since, in the place of what is at hand.
    ///
    /// # Errors
    /// 500 for what is no such object any more.
    pub(super) fn put(
        self,
        registry: &Registry,
        seen: &Seen,
        object: &mut Object,
        changed: &Value,
    ) -> Result<(), ApiError> {
        let model = match self {
            Self::Scale(_) => Model::SCALE,
            Self::Sent | Self::Stored(_) => seen.model(),
        };
        let (mut next, _) =
            codec::read_back(&model, changed, FieldValidation::Ignore).map_err(|why| unreadable(&why))?;
        match self {
            Self::Sent => *object = next,
            Self::Scale(_) => {
                let replicas = next.object("spec").map_or(0, |spec| spec.int("replicas"));
                object.object_or_new("spec").insert("replicas".to_owned(), Value::from(replicas));
            }
            Self::Stored(served) => {
                let versions = versions(registry, served, seen);
                let kind = match &versions {
                    Versions::Own => &served.kind,
                    Versions::Other(other) => &other.kind,
                };
                kind.default(&mut next);
                kind.to_stored(&mut next);
                *object = next;
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

fn versions(registry: &Registry, served: &Served, seen: &Seen) -> Versions {
    if *seen == Seen::of(served.resource(), None) {
        return Versions::Own;
    }
    match registry.find(&seen.group, &seen.version, &seen.plural) {
        Some(other) if other.id == served.id => Versions::Other(other),
        _ => Versions::Own,
    }
}
