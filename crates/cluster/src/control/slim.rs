//! A kind by its metadata and the few fields that some controller reads.

use std::fmt::Debug;
use std::sync::Arc;

use muster_machinery::cache::{Cache, Cached, Index, Indexes, Slot};
use muster_objects::{DecodeError, Interner, Meta, Object};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::metadata::WireMeta;

/// The fields of a kind that controllers read, beside its metadata. What is not named is not kept.
pub(crate) trait Body: DeserializeOwned + Debug + PartialEq + Send + Sync + Sized + 'static {
    /// Group and version, as objects spell it.
    const API_VERSION: &'static str;
    /// The kind's name.
    const KIND: &'static str;
    /// The indexes of its cache.
    type Indexes: Indexes<Slim<Self>> + Debug;
}

/// An object of such a kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Slim<B> {
    /// The metadata, labels included.
    pub(crate) meta: Meta,
    /// The rest, as far as it is read.
    pub(crate) body: B,
}

impl<B: Body> Object for Slim<B> {
    const API_VERSION: &'static str = B::API_VERSION;
    const KIND: &'static str = B::KIND;

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn decode(json: &[u8], interner: &mut Interner) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(borrow, default)]
            metadata: WireMeta<'a>,
        }
        let wire: Wire<'_> = muster_objects::json::from_slice(json).map_err(DecodeError::of(B::KIND))?;
        let (meta, _, _) = wire.metadata.read(interner, true);
        // The fields are few, and so are the objects: a second walk costs less than a second decoder would.
        let body = muster_objects::json::from_slice(json).map_err(DecodeError::of(B::KIND))?;
        Ok(Self { meta, body })
    }
}

impl<B: Body> Cached for Slim<B> {
    type Indexes = B::Indexes;
}

/// The index by namespace.
#[derive(Debug, Default)]
pub(crate) struct ByNamespace(Index<Arc<str>>);

impl<T: Object> Indexes<T> for ByNamespace {
    fn insert(&mut self, slot: Slot, object: &T) {
        self.0.insert(Arc::clone(&object.meta().namespace), slot);
    }

    fn remove(&mut self, slot: Slot, object: &T) {
        self.0.remove(&object.meta().namespace, slot);
    }

    fn update(&mut self, _: Slot, _: &T, _: &T) {}
}

impl ByNamespace {
    /// The objects of a namespace, in the order of the slots.
    pub(crate) fn of<'c, T: Cached<Indexes = Self>>(
        cache: &'c Cache<T>,
        namespace: &Arc<str>,
    ) -> impl Iterator<Item = &'c Arc<T>> {
        cache.indexes().0.get(namespace).filter_map(|slot| cache.get_slot(slot))
    }
}
