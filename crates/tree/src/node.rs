//! What a map or a list holds: shared, and read from its text when it is first looked at.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

/// What can be read from the text of a container.
pub(crate) trait Item: Clone + 'static {
    /// The items of a container, by its JSON as [`crate::Value::write`] writes it.
    fn read(text: &Bytes) -> Vec<Self>;
}

/// The items of a container. None has no allocation.
#[derive(Debug)]
pub(crate) struct Node<T>(Option<Arc<Inner<T>>>);

#[derive(Debug)]
struct Inner<T> {
    /// The JSON of the container, as it would be written; empty where that is not known.
    text: Bytes,
    items: OnceLock<Vec<T>>,
}

impl<T> Clone for Node<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Item> Node<T> {
    const NOTHING: &'static Vec<T> = &Vec::new();

    pub(crate) const fn new() -> Self {
        Self(None)
    }

    pub(crate) fn of(items: Vec<T>) -> Self {
        if items.is_empty() {
            return Self(None);
        }
        Self(Some(Arc::new(Inner { text: Bytes::new(), items: OnceLock::from(items) })))
    }

    /// A container by its JSON, written as [`crate::Value::write`] writes it.
    pub(crate) fn of_text(text: Bytes) -> Self {
        // Two brackets.
        if text.len() <= 2 {
            return Self(None);
        }
        Self(Some(Arc::new(Inner { text, items: OnceLock::new() })))
    }

    pub(crate) fn items(&self) -> &Vec<T> {
        match &self.0 {
            None => Self::NOTHING,
            Some(inner) => inner.items(),
        }
    }

    /// The items, to change: they are copied where others have them too.
    pub(crate) fn items_mut(&mut self) -> &mut Vec<T> {
        let inner = self.0.get_or_insert_with(|| Arc::new(Inner { text: Bytes::new(), items: OnceLock::new() }));
        if Arc::get_mut(inner).is_none() {
            let items = inner.items().clone();
            *inner = Arc::new(Inner { text: Bytes::new(), items: OnceLock::from(items) });
        }
        let inner = Arc::get_mut(inner).expect("nobody else has what was made on the line above");
        inner.items();
        inner.text = Bytes::new();
        inner.items.get_mut().expect("they were read on the line above")
    }

    pub(crate) fn into_items(self) -> Vec<T> {
        let Some(inner) = self.0 else { return Vec::new() };
        match Arc::try_unwrap(inner) {
            Ok(inner) => {
                inner.items();
                inner.items.into_inner().unwrap_or_default()
            }
            Err(shared) => shared.items().clone(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.items().len()
    }

    /// The text, where it is known.
    pub(crate) fn text(&self) -> Option<&Bytes> {
        self.0.as_ref().map(|inner| &inner.text).filter(|text| !text.is_empty())
    }

    /// Whether two have their items in common. Others may be equal as well.
    pub(crate) fn is_shared_with(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        }
    }

    /// Whether the items are equal. What is written in one way only need not be read for it.
    pub(crate) fn equals(&self, other: &Self) -> bool
    where
        T: PartialEq,
    {
        self.is_shared_with(other)
            || match (self.text(), other.text()) {
                (Some(one), Some(other)) => one == other,
                _ => self.items() == other.items(),
            }
    }
}

impl<T: Item> Inner<T> {
    fn items(&self) -> &Vec<T> {
        self.items.get_or_init(|| T::read(&self.text))
    }
}
