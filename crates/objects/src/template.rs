//! A pod template, carried as the JSON that it arrived in and never decoded further.
//!
//! What goes into a pod goes there byte for byte (RS-10), so that a field which this version does
//! not know survives (B-13). Only the labels are parsed: they are counted with and selected by.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::intern::Interner;
use crate::labels::Labels;
use crate::meta::ControllerRef;
use crate::names::pod_name_prefix;
use crate::object::DecodeError;
use crate::wire::StringMap;

/// A `PodTemplateSpec`.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    /// The template's JSON.
    raw: Box<str>,
    /// The template's labels, parsed.
    labels: Labels,
    /// Where in `raw` the parts stand.
    metadata_labels: Option<Range<usize>>,
    annotations: Option<Range<usize>>,
    finalizers: Option<Range<usize>>,
    spec: Option<Range<usize>>,
}

impl Template {
    /// Takes a template's JSON apart.
    ///
    /// # Errors
    ///
    /// Where it is no JSON, or its labels are no map of strings.
    pub fn decode(json: &str, interner: &mut Interner) -> Result<Self, DecodeError> {
        Self::take_apart(json, interner).map_err(DecodeError::of("PodTemplateSpec"))
    }

    /// The template of a spec; without one, that from which no pod can be made.
    pub(crate) fn of_spec(raw: Option<&RawValue>, interner: &mut Interner) -> Result<Self, DecodeError> {
        raw.map_or_else(|| Ok(Self::default()), |raw| Self::decode(raw.get(), interner))
    }

    fn take_apart(json: &str, interner: &mut Interner) -> Result<Self, serde_json::Error> {
        let wire: TemplateWire<'_> = serde_json::from_str(json)?;
        let metadata = wire.metadata.unwrap_or_default();
        let labels = match metadata.labels {
            Some(labels) => {
                interner.labels_of(serde_json::from_str::<Option<StringMap<'_>>>(labels.get())?.unwrap_or_default())
            }
            None => Labels::EMPTY,
        };
        let place = |part: Option<&RawValue>| {
            let part = part?.get();
            let start = (part.as_ptr() as usize).checked_sub(json.as_ptr() as usize)?;
            Some(start..start + part.len()).filter(|place| json.get(place.clone()) == Some(part))
        };
        Ok(Self {
            labels,
            metadata_labels: place(metadata.labels),
            annotations: place(metadata.annotations),
            finalizers: place(metadata.finalizers),
            spec: place(wire.spec),
            raw: json.into(),
        })
    }

    /// The labels that every pod gets.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The whole template as it arrived.
    #[must_use]
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// The JSON of `metadata.labels`, where the template has it.
    #[must_use]
    pub fn raw_labels(&self) -> Option<&str> {
        self.part(&self.metadata_labels)
    }

    /// The JSON of `metadata.annotations`, where the template has it.
    #[must_use]
    pub fn raw_annotations(&self) -> Option<&str> {
        self.part(&self.annotations)
    }

    /// The JSON of `metadata.finalizers`, where the template has it.
    #[must_use]
    pub fn raw_finalizers(&self) -> Option<&str> {
        self.part(&self.finalizers)
    }

    /// The JSON of `spec`, where the template has it.
    #[must_use]
    pub fn raw_spec(&self) -> Option<&str> {
        self.part(&self.spec)
    }

    /// The JSON body that creates a pod of this template for `owner` (RS-10): labels, annotations,
    /// finalizers and spec byte for byte, `generateName` after the owner, and one owner reference.
    ///
    /// # Errors
    ///
    /// Where the template has no labels: the pod could never be found again.
    pub fn pod_body(&self, owner: &ControllerRef) -> Result<Vec<u8>, TemplateError> {
        let labels = self.raw_labels().filter(|_| !self.labels.is_empty()).ok_or(TemplateError::NoLabels)?;
        let mut body = Vec::with_capacity(self.raw.len() + 512);
        body.extend_from_slice(br#"{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"#);
        write_json(&mut body, &pod_name_prefix(&owner.name));
        body.extend_from_slice(br#","labels":"#);
        body.extend_from_slice(labels.as_bytes());
        for (name, part) in [("annotations", self.raw_annotations()), ("finalizers", self.raw_finalizers())] {
            if let Some(part) = part {
                body.extend_from_slice(b",\"");
                body.extend_from_slice(name.as_bytes());
                body.extend_from_slice(b"\":");
                body.extend_from_slice(part.as_bytes());
            }
        }
        body.extend_from_slice(br#","ownerReferences":["#);
        write_json(&mut body, &owner.to_owner_reference());
        body.extend_from_slice(br#"]},"spec":"#);
        body.extend_from_slice(self.raw_spec().unwrap_or("{}").as_bytes());
        body.push(b'}');
        Ok(body)
    }

    fn part(&self, place: &Option<Range<usize>>) -> Option<&str> {
        self.raw.get(place.clone()?)
    }
}

impl Default for Template {
    /// An empty template, from which no pod can be made.
    fn default() -> Self {
        Self {
            raw: "{}".into(),
            labels: Labels::EMPTY,
            metadata_labels: None,
            annotations: None,
            finalizers: None,
            spec: None,
        }
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Template({})", self.raw)
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.raw).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::take_apart(raw.get(), &mut Interner::new()).map_err(serde::de::Error::custom)
    }
}

/// Why no pod can be made of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It has no labels; the words are upstream's.
    #[error("unable to create pods, no labels")]
    NoLabels,
}

#[derive(Deserialize)]
struct TemplateWire<'a> {
    #[serde(borrow)]
    metadata: Option<TemplateMetaWire<'a>>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct TemplateMetaWire<'a> {
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
    #[serde(borrow)]
    finalizers: Option<&'a RawValue>,
}

fn write_json<T: Serialize + ?Sized>(body: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(body, value).expect("strings, booleans and uids always have a JSON form, and a Vec takes it");
}
