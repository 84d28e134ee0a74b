//! The text of a stored version: read by many when it is new, then seldom, and held compressed from then on.
//!
//! Objects of one kind repeat each other: the pods of a ReplicaSet have nearly all of their fields in common. So one of
//! them serves as the dictionary of the others, which then take a tenth of their size.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use lz4_flex::block::{compress_with_dict, decompress_with_dict};

use super::ResourceId;

/// Shorter ones stay as they are.
const LEAST: usize = 512;
/// A dictionary serves as long as what is compressed with it has at most the size over this.
const WORTH: usize = 3;

/// Bytes that never change, though the form in which they are held may.
pub(super) struct Text(Mutex<Form>);

enum Form {
    Plain(Bytes),
    Packed {
        packed: Box<[u8]>,
        /// How many bytes they stand for.
        size: usize,
        dictionary: Bytes,
    },
}

/// What the texts of each kind are compressed with.
#[derive(Debug, Default)]
pub(super) struct Dictionaries(Mutex<BTreeMap<ResourceId, Bytes>>);

impl Text {
    /// The bytes: shared with who else reads them while they are new, else a copy.
    pub(super) fn bytes(&self) -> Bytes {
        match &*self.form() {
            Form::Plain(bytes) => bytes.clone(),
            // What was compressed here is whole: it was read back once.
            Form::Packed { packed, size, dictionary } => {
                decompress_with_dict(packed, *size, dictionary).unwrap_or_default().into()
            }
        }
    }

    /// How many bytes they are.
    pub(super) fn len(&self) -> usize {
        match &*self.form() {
            Form::Plain(bytes) => bytes.len(),
            Form::Packed { size, .. } => *size,
        }
    }

    /// Holds them compressed from now on, if that makes them much smaller. Who is reading them keeps them.
    pub(super) fn pack(&self, of: ResourceId, dictionaries: &Dictionaries) {
        let plain = match &*self.form() {
            Form::Plain(bytes) if bytes.len() >= LEAST => bytes.clone(),
            _ => return,
        };
        let Some(dictionary) = dictionaries.of(of, &plain) else { return };
        let packed = compress_with_dict(&plain, &dictionary);
        if packed.len() > plain.len() / WORTH {
            dictionaries.put(of, plain);
            return;
        }
        // A fault of the compressor must not cost an object.
        if decompress_with_dict(&packed, plain.len(), &dictionary).is_ok_and(|again| again == plain) {
            *self.form() = Form::Packed { packed: packed.into(), size: plain.len(), dictionary };
        }
    }

    fn form(&self) -> MutexGuard<'_, Form> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Bytes> for Text {
    fn from(bytes: Bytes) -> Self {
        Self(Mutex::new(Form::Plain(bytes)))
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Text {}

impl Debug for Text {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text: Cow<'_, str> = String::from_utf8_lossy(&self.bytes()).into_owned().into();
        text.fmt(f)
    }
}

impl Dictionaries {
    /// The dictionary of a kind. The first text that asks for one becomes it, and stays as it is.
    fn of(&self, kind: ResourceId, text: &Bytes) -> Option<Bytes> {
        let mut dictionaries = self.all();
        match dictionaries.get(&kind) {
            Some(dictionary) => Some(dictionary.clone()),
            None => {
                dictionaries.insert(kind, text.clone());
                None
            }
        }
    }

    fn put(&self, kind: ResourceId, text: Bytes) {
        self.all().insert(kind, text);
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<ResourceId, Bytes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KIND: ResourceId = ResourceId(1);

    fn pod(number: u32) -> Bytes {
        let fields: String = (0..60).map(|field| format!("\"field-{field}\":\"the same of all\",")).collect();
        format!("{{\"name\":\"web-{number}\",{fields}\"uid\":\"{:032x}\"}}", u128::from(number) * 0x9e37_79b9_7f4a_7c15)
            .into()
    }

    fn held(text: &Text) -> Option<usize> {
        match &*text.form() {
            Form::Plain(_) => None,
            Form::Packed { packed, .. } => Some(packed.len()),
        }
    }

    #[test]
    fn objects_of_a_kind_take_little_beside_the_first() {
        let dictionaries = Dictionaries::default();
        let texts: Vec<Text> = (0..100).map(|number| Text::from(pod(number))).collect();
        texts.iter().for_each(|text| text.pack(KIND, &dictionaries));
        assert_eq!(held(&texts[0]), None, "it is the dictionary");
        for (number, text) in (0..).zip(&texts).skip(1) {
            assert!(held(text).is_some_and(|held| held < pod(number).len() / 10), "{number}: {:?}", held(text));
            assert_eq!((text.bytes(), text.len()), (pod(number), pod(number).len()));
            text.pack(KIND, &dictionaries);
            assert_eq!(text.bytes(), pod(number), "packed twice");
        }
    }

    #[test]
    fn what_is_short_or_unlike_the_dictionary_stays_as_it_is() {
        let dictionaries = Dictionaries::default();
        Text::from(pod(0)).pack(KIND, &dictionaries);
        let short = Text::from(Bytes::from_static(b"{\"name\":\"web-1\"}"));
        short.pack(KIND, &dictionaries);
        assert_eq!(held(&short), None);

        // Another shape becomes the dictionary of those that follow it.
        let unlike = |number: u32| -> Bytes {
            let noise = (0..400_u64).map(|at| (at + 7).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            noise.map(|word| format!("{word:016x}")).chain([number.to_string()]).collect::<String>().into()
        };
        let texts = [Text::from(unlike(1)), Text::from(unlike(2))];
        texts.iter().for_each(|text| text.pack(KIND, &dictionaries));
        assert!(held(&texts[0]).is_none() && held(&texts[1]).is_some());
        assert_eq!([texts[0].bytes(), texts[1].bytes()], [unlike(1), unlike(2)]);
    }

    proptest! {
        #[test]
        fn bytes_are_read_as_they_were_written(texts in prop::collection::vec(prop::collection::vec(0_u8..4, 0..3000), 1..8)) {
            let dictionaries = Dictionaries::default();
            for bytes in texts {
                let text = Text::from(Bytes::from(bytes.clone()));
                text.pack(KIND, &dictionaries);
                prop_assert_eq!(text.bytes(), bytes);
            }
        }
    }
}
