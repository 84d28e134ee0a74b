//! What a map or a list holds: shared, and read from its text when it is first looked at.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

/// What a container holds.
pub(crate) trait Content: Clone + Default + PartialEq + 'static {
    /// Nothing.
    const NOTHING: &'static Self;

    /// What a container holds whose JSON is this, as [`crate::Value::write`] writes it, and which stands so deep below what was
    /// stored.
    fn read(text: &Bytes, depth: usize) -> Self;

    /// Whether that is nothing.
    fn is_nothing(&self) -> bool;
}

/// The content of a container. Nothing has no allocation.
#[derive(Debug)]
pub(crate) struct Node<C>(Option<Arc<Inner<C>>>);

#[derive(Debug)]
struct Inner<C> {
    /// The JSON of the container, as it would be written; empty where that is not known.
    text: Bytes,
    depth: usize,
    content: OnceLock<C>,
}

impl<C> Clone for Node<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C> Default for Node<C> {
    fn default() -> Self {
        Self(None)
    }
}

impl<C: Content> Node<C> {
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    pub(crate) fn of(content: C) -> Self {
        if content.is_nothing() {
            return Self(None);
        }
        Self(Some(Arc::new(Inner::of(content))))
    }

    /// A container by its JSON, written as [`crate::Value::write`] writes it, and how deep it stands.
    pub(crate) fn of_text(text: Bytes, depth: usize) -> Self {
        // Two brackets.
        if text.len() <= 2 {
            return Self(None);
        }
        Self(Some(Arc::new(Inner { text, depth, content: OnceLock::new() })))
    }

    /// Whether it holds nothing, which is known without reading a text.
    pub(crate) fn is_nothing(&self) -> bool {
        self.0.as_ref().is_none_or(|inner| inner.text.is_empty() && inner.content().is_nothing())
    }

    pub(crate) fn content(&self) -> &C {
        self.0.as_ref().map_or(C::NOTHING, |inner| inner.content())
    }

    /// The content, to change: it is copied where others have it too.
    pub(crate) fn content_mut(&mut self) -> &mut C {
        let inner = self.0.get_or_insert_with(|| Arc::new(Inner::of(C::default())));
        if Arc::get_mut(inner).is_none() {
            *inner = Arc::new(Inner::of(inner.content().clone()));
        }
        let inner = Arc::get_mut(inner).expect("nobody else has what was made on the line above");
        inner.content();
        inner.text = Bytes::new();
        inner.content.get_mut().expect("it was read on the line above")
    }

    pub(crate) fn into_content(self) -> C {
        let Some(inner) = self.0 else { return C::default() };
        match Arc::try_unwrap(inner) {
            Ok(inner) => {
                inner.content();
                inner.content.into_inner().unwrap_or_default()
            }
            Err(shared) => shared.content().clone(),
        }
    }

    /// The text, where it is known.
    pub(crate) fn text(&self) -> Option<&Bytes> {
        self.0.as_ref().map(|inner| &inner.text).filter(|text| !text.is_empty())
    }

    /// Whether two have their content in common. That of others may be equal as well.
    pub(crate) fn is_shared_with(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        }
    }
}

impl<C: Content> PartialEq for Node<C> {
    /// What is written in one way only need not be read to be compared.
    fn eq(&self, other: &Self) -> bool {
        self.is_shared_with(other)
            || match (self.text(), other.text()) {
                (Some(one), Some(other)) => one == other,
                _ => self.content() == other.content(),
            }
    }
}

impl<C: Content> Inner<C> {
    fn of(content: C) -> Self {
        Self { text: Bytes::new(), depth: 0, content: OnceLock::from(content) }
    }

    fn content(&self) -> &C {
        self.content.get_or_init(|| C::read(&self.text, self.depth))
    }
}
