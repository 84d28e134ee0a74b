//! Metadata out of protobuf, into the same shapes that it is read into out of JSON.

use std::borrow::Cow;
use std::marker::PhantomData;

use super::{Fold, Key, MetaWire, OwnerWire, Single, StringMap, Text, Time};
use crate::meta::ResourceVersion;
use crate::protobuf::{Field, Fields, Malformed};
use crate::time::Timestamp;

/// The seconds of Go's zero time, 0001-01-01T00:00:00Z.
const ZERO_TIME: i64 = -62_135_596_800;

impl<'a, K: Key> MetaWire<'a, Single<'a, K>> {
    /// Takes an `ObjectMeta` in. Of the annotations it keeps the one that `K` names.
    pub(crate) fn merge_protobuf(&mut self, message: &'a [u8]) -> Result<(), Malformed> {
        for field in Fields::of(message) {
            let field = field?;
            match field.number {
                1 => self.name = text(&field)?,
                3 => self.namespace = text(&field)?,
                5 => self.uid = text(&field)?,
                6 => self.resource_version = version(&field)?,
                7 => self.generation = Some(field.int64()?),
                8 => self.creation_timestamp = time(field.bytes()?)?,
                9 => self.deletion_timestamp = time(field.bytes()?)?,
                11 => {
                    let pair = label(&field)?;
                    self.labels.get_or_insert_with(StringMap::default).0.push(pair);
                }
                12 => {
                    let (key, value) = entry(field.bytes()?)?;
                    if key == K::KEY.as_bytes() {
                        self.annotations = Some(Single(Some(Text(String::from_utf8_lossy(value))), PhantomData));
                    }
                }
                13 => self.owner_references.0.take(owner(field.bytes()?)?),
                _ => {}
            }
        }
        Ok(())
    }
}

pub(crate) fn text<'a>(field: &Field<'a>) -> Result<Text<'a>, Malformed> {
    field.text().map(|text| Text(Cow::Borrowed(text)))
}

/// A version in its text; an empty one is unknown.
pub(crate) fn version(field: &Field<'_>) -> Result<ResourceVersion, Malformed> {
    let text = field.text()?;
    if text.is_empty() { Ok(ResourceVersion::UNKNOWN) } else { Ok(text.parse()?) }
}

/// A `metav1.Time`: no bytes at all are Go's zero time. Fractions of a second are passed over, as Go
/// passes over them.
pub(crate) fn time(message: &[u8]) -> Result<Time, Malformed> {
    if message.is_empty() {
        return Ok(Time(None));
    }
    let mut seconds = 0;
    for field in Fields::of(message) {
        let field = field?;
        if field.number == 1 {
            seconds = field.int64()?;
        }
    }
    Ok(Time((seconds != ZERO_TIME).then(|| Timestamp::from_seconds(seconds))))
}

/// One entry of a map of strings.
pub(crate) fn entry(message: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (mut key, mut value): (&[u8], &[u8]) = (&[], &[]);
    for field in Fields::of(message) {
        let field = field?;
        match field.number {
            1 => key = field.bytes()?,
            2 => value = field.bytes()?,
            _ => {}
        }
    }
    Ok((key, value))
}

fn label<'a>(field: &Field<'a>) -> Result<(Text<'a>, Text<'a>), Malformed> {
    let utf8 = |bytes| {
        let text = std::str::from_utf8(bytes).map(|text| Text(Cow::Borrowed(text)));
        text.map_err(|_| Malformed::Type { field: field.number, expected: "UTF-8" })
    };
    let (key, value) = entry(field.bytes()?)?;
    Ok((utf8(key)?, utf8(value)?))
}

fn owner(message: &[u8]) -> Result<OwnerWire<'_>, Malformed> {
    let mut owner = OwnerWire {
        api_version: Text::default(),
        kind: Text::default(),
        name: Text::default(),
        uid: Text::default(),
        controller: None,
    };
    for field in Fields::of(message) {
        let field = field?;
        match field.number {
            1 => owner.kind = text(&field)?,
            3 => owner.name = text(&field)?,
            4 => owner.uid = text(&field)?,
            5 => owner.api_version = text(&field)?,
            6 => owner.controller = Some(field.truth()?),
            _ => {}
        }
    }
    Ok(owner)
}
