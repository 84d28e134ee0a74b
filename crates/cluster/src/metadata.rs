//! Metadata with owner references and finalizers: what garbage collection reads of every kind.

use std::fmt;
use std::sync::Arc;

use muster_objects::{
    DecodeError, Interner, Labels, Meta, Object, OwnerReference, ResourceVersion, StringMap, Timestamp, Uid,
};
use serde::Deserialize;
use serde::de::{self, Deserializer};

use crate::fate::PREFIX;
use crate::json::{Text, list, or_default};

/// The finalizer by which an object waits until its dependents have lost their reference to it.
pub const ORPHAN_FINALIZER: &str = "orphan";
/// The finalizer by which an object waits until its blocking dependents are gone.
pub const FOREGROUND_FINALIZER: &str = "foregroundDeletion";

/// Which of the garbage collector's finalizers an object has, and whether it has others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Finalizers {
    /// `orphan` is there.
    pub orphan: bool,
    /// `foregroundDeletion` is there.
    pub foreground: bool,
    /// Some other one is there.
    pub others: bool,
}

/// An object of any kind, by its metadata alone.
#[derive(Debug, Clone, PartialEq)]
pub struct PartialObject {
    /// The metadata, without labels, which nothing here reads.
    pub meta: Meta,
    /// The owner references.
    pub owners: Arc<[OwnerReference]>,
    /// The finalizers.
    pub finalizers: Finalizers,
}

impl Object for PartialObject {
    const API_VERSION: &'static str = "meta.k8s.io/v1";
    const KIND: &'static str = "PartialObjectMetadata";

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn decode(json: &[u8], interner: &mut Interner) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(borrow, default)]
            metadata: WireMeta<'a>,
        }
        let wire: Wire<'_> =
            muster_objects::json::from_slice(json).map_err(DecodeError::of("PartialObjectMetadata"))?;
        let (meta, owners, finalizers) = wire.metadata.read(interner, false);
        Ok(Self { meta, owners, finalizers })
    }
}

/// The annotations that direct this crate's loops; others are skipped.
#[derive(Default)]
pub(crate) struct OwnAnnotations<'a>(pub(crate) Vec<(Text<'a>, Text<'a>)>);

impl<'de: 'a, 'a> Deserialize<'de> for OwnAnnotations<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> de::Visitor<'de> for Pairs {
            type Value = OwnAnnotations<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut own = Vec::new();
                while let Some(key) = map.next_key::<Text<'de>>()? {
                    if key.starts_with(PREFIX) {
                        own.push((key, map.next_value()?));
                    } else {
                        map.next_value::<de::IgnoredAny>()?;
                    }
                }
                Ok(OwnAnnotations(own))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// Metadata on the wire.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WireMeta<'a> {
    #[serde(borrow)]
    pub(crate) name: Text<'a>,
    #[serde(borrow)]
    pub(crate) namespace: Option<Text<'a>>,
    pub(crate) uid: Uid,
    pub(crate) resource_version: ResourceVersion,
    pub(crate) generation: Option<i64>,
    pub(crate) creation_timestamp: Option<Timestamp>,
    pub(crate) deletion_timestamp: Option<Timestamp>,
    pub(crate) deletion_grace_period_seconds: Option<i64>,
    /// Read by those who want them only.
    #[serde(borrow)]
    pub(crate) labels: Option<StringMap<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(crate) annotations: OwnAnnotations<'a>,
    #[serde(deserialize_with = "list")]
    pub(crate) owner_references: Vec<OwnerReference>,
    #[serde(borrow, deserialize_with = "list")]
    pub(crate) finalizers: Vec<Text<'a>>,
}

impl WireMeta<'_> {
    /// The cached forms: metadata (with labels where wanted), owner references, finalizers.
    pub(crate) fn read(self, interner: &mut Interner, labels: bool) -> (Meta, Arc<[OwnerReference]>, Finalizers) {
        let controller = self
            .owner_references
            .iter()
            .find(|reference| reference.controller == Some(true))
            .map(|owner| interner.controller(&owner.api_version, &owner.kind, &owner.name, &owner.uid));
        let labels = if labels { interner.labels_of(self.labels.unwrap_or_default()) } else { Labels::EMPTY };
        let meta = Meta {
            namespace: interner.text(self.namespace.as_deref().unwrap_or_default()),
            name: Arc::from(&*self.name),
            uid: self.uid,
            resource_version: self.resource_version,
            generation: self.generation.unwrap_or(0),
            creation_timestamp: self.creation_timestamp,
            deletion_timestamp: self.deletion_timestamp,
            labels,
            controller,
        };
        let mut finalizers = Finalizers::default();
        for finalizer in &self.finalizers {
            match &**finalizer {
                ORPHAN_FINALIZER => finalizers.orphan = true,
                FOREGROUND_FINALIZER => finalizers.foreground = true,
                _ => finalizers.others = true,
            }
        }
        (meta, self.owner_references.into(), finalizers)
    }
}
