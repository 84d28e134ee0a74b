//! The shapes that JSON is read through: everything borrowed, null taken for absent, the rest skipped.

pub(crate) mod protobuf;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::intern::Interner;
use crate::labels::Labels;
use crate::meta::{Meta, ResourceVersion, Uid};
use crate::time::Timestamp;

/// A string borrowed from the input where it holds no escapes. `null` is the empty string, as it is
/// for Go.
#[derive(Debug, Default, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text)))
            }

            fn visit_none<E>(self) -> Result<Self::Value, E> {
                Ok(Text::default())
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Text::default())
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
                deserializer.deserialize_str(self)
            }
        }
        deserializer.deserialize_option(TextVisitor)
    }
}

/// A map of strings in the order in which it was written; of a repeated key the last value counts.
#[derive(Debug, Default)]
pub struct StringMap<'a>(pub(crate) Vec<(Text<'a>, Text<'a>)>);

impl StringMap<'_> {
    pub(crate) fn to_labels(&self) -> Labels {
        self.0.iter().map(|(key, value)| (&**key, &**value)).collect()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for StringMap<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor;
        impl<'de> Visitor<'de> for MapVisitor {
            type Value = StringMap<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(StringMap(pairs))
            }
        }
        deserializer.deserialize_map(MapVisitor)
    }
}

/// A moment of `metav1.Time`. `None` for an empty string and for Go's zero time, which lies outside
/// of a [`Timestamp`]'s reach.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(pub(crate) Option<Timestamp>);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Text::deserialize(deserializer)?;
        if text.is_empty() || text.starts_with("0001-01-01T00:00:00") {
            return Ok(Self(None));
        }
        Timestamp::parse(&text).map(|time| Self(Some(time))).map_err(de::Error::custom)
    }
}

/// For `#[serde(with = "wire::optional_time")]`: Go's zero time is null, and null is `None`.
pub(crate) mod optional_time {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Time;
    use crate::time::Timestamp;

    #[allow(clippy::ref_option, reason = "the signature is serde's")]
    pub(crate) fn serialize<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        time.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        Time::deserialize(deserializer).map(|time| time.0)
    }
}

/// A sequence folded into an accumulator element by element, without a `Vec`; null is the empty one.
pub(crate) struct Folded<T, A>(pub(crate) A, PhantomData<T>);

/// How [`Folded`] takes one element.
pub(crate) trait Fold<T>: Default {
    /// Takes the next element.
    fn take(&mut self, element: T);
}

impl<T, A: Default> Default for Folded<T, A> {
    fn default() -> Self {
        Self(A::default(), PhantomData)
    }
}

impl<'de, T: Deserialize<'de>, A: Fold<T>> Deserialize<'de> for Folded<T, A> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FoldVisitor<T, A>(PhantomData<(T, A)>);
        impl<'de, T: Deserialize<'de>, A: Fold<T>> Visitor<'de> for FoldVisitor<T, A> {
            type Value = A;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_unit<E>(self) -> Result<A, E> {
                Ok(A::default())
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<A, S::Error> {
                let mut folded = A::default();
                while let Some(element) = seq.next_element()? {
                    folded.take(element);
                }
                Ok(folded)
            }
        }
        deserializer.deserialize_any(FoldVisitor::<T, A>(PhantomData)).map(|folded| Self(folded, PhantomData))
    }
}

/// An object's metadata as it is read. `A` is what becomes of the annotations: `IgnoredAny` skips them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "A: Deserialize<'de>"))]
pub(crate) struct MetaWire<'a, A> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    namespace: Text<'a>,
    #[serde(borrow, default)]
    uid: Text<'a>,
    #[serde(default)]
    resource_version: ResourceVersion,
    generation: Option<i64>,
    #[serde(default)]
    creation_timestamp: Time,
    #[serde(default)]
    deletion_timestamp: Time,
    #[serde(borrow)]
    labels: Option<StringMap<'a>>,
    #[serde(borrow, default)]
    owner_references: Folded<OwnerWire<'a>, Controller<'a>>,
    pub(crate) annotations: Option<A>,
}

impl<A> Default for MetaWire<'_, A> {
    fn default() -> Self {
        Self {
            name: Text::default(),
            namespace: Text::default(),
            uid: Text::default(),
            resource_version: ResourceVersion::UNKNOWN,
            generation: None,
            creation_timestamp: Time(None),
            deletion_timestamp: Time(None),
            labels: None,
            owner_references: Folded::default(),
            annotations: None,
        }
    }
}

impl<A> MetaWire<'_, A> {
    /// The slim form, with every recurring string shared. A name does not recur.
    pub(crate) fn into_meta(self, interner: &mut Interner) -> Meta {
        let controller = self.owner_references.0.0;
        Meta {
            namespace: interner.text(&self.namespace),
            name: Arc::from(&*self.name),
            uid: Uid::new(&self.uid),
            resource_version: self.resource_version,
            generation: self.generation.unwrap_or(0),
            creation_timestamp: self.creation_timestamp.0,
            deletion_timestamp: self.deletion_timestamp.0,
            labels: self.labels.map_or(Labels::EMPTY, |labels| interner.labels_of(labels)),
            controller: controller
                .map(|owner| interner.controller(&owner.api_version, &owner.kind, &owner.name, &Uid::new(&owner.uid))),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OwnerWire<'a> {
    #[serde(borrow, default)]
    api_version: Text<'a>,
    #[serde(borrow, default)]
    kind: Text<'a>,
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    uid: Text<'a>,
    controller: Option<bool>,
}

/// The first owner that is a controller, as `metav1.GetControllerOf` finds it.
#[derive(Default)]
pub(crate) struct Controller<'a>(Option<OwnerWire<'a>>);

impl<'a> Fold<OwnerWire<'a>> for Controller<'a> {
    fn take(&mut self, owner: OwnerWire<'a>) {
        if self.0.is_none() && owner.controller == Some(true) {
            self.0 = Some(owner);
        }
    }
}

/// The value of one key of a map of strings, the others skipped. `KEY` names the key.
pub(crate) struct Single<'a, K>(pub(crate) Option<Text<'a>>, PhantomData<K>);

/// Names the key that a [`Single`] looks for.
pub(crate) trait Key {
    /// The key.
    const KEY: &'static str;
}

impl<'de: 'a, 'a, K: Key> Deserialize<'de> for Single<'a, K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SingleVisitor<K>(PhantomData<K>);
        impl<'de, K: Key> Visitor<'de> for SingleVisitor<K> {
            type Value = Option<Text<'de>>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut found = None;
                while let Some(key) = map.next_key::<Text<'de>>()? {
                    if *key == *K::KEY {
                        found = Some(map.next_value()?);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(found)
            }
        }
        deserializer.deserialize_map(SingleVisitor::<K>(PhantomData)).map(|value| Self(value, PhantomData))
    }
}
