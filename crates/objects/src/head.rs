//! Where an object belongs, found in its bytes without decoding the rest: of most events of a shared watch that is all
//! that anyone wants to know.

use std::borrow::Cow;

use crate::meta::ResourceVersion;
use crate::protobuf::{Fields, Malformed};
use crate::wire;

/// The namespace and version of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head<'a> {
    /// The namespace; empty for a kind that has none.
    pub namespace: Cow<'a, str>,
    /// The version; 0 where there is none.
    pub resource_version: ResourceVersion,
}

impl<'a> Head<'a> {
    /// Finds it in an object's JSON, reading no further than both are known: whether the rest is JSON is not checked.
    /// `None` where they cannot be found, which is for the decoder of the whole object to judge.
    #[must_use]
    pub fn find(object: &'a [u8]) -> Option<Self> {
        let mut top = Scanner { rest: object };
        top.open(b'{')?;
        let mut at = top.key()?;
        while let Some(key) = at {
            if key == "metadata" {
                return top.metadata();
            }
            top.skip_value()?;
            at = top.next_key()?;
        }
        None
    }

    /// Finds it in an object's message.
    #[must_use]
    pub fn find_protobuf(message: &'a [u8]) -> Option<Self> {
        in_message(message).ok()
    }
}

fn in_message(message: &[u8]) -> Result<Head<'_>, Malformed> {
    let mut head = Head { namespace: Cow::Borrowed(""), resource_version: ResourceVersion::UNKNOWN };
    for field in Fields::of_metadata(message) {
        let field = field?;
        match field.number {
            3 => head.namespace = Cow::Borrowed(field.text()?),
            6 => head.resource_version = wire::protobuf::version(&field)?,
            _ => {}
        }
    }
    Ok(head)
}

/// What is left of a text of JSON.
struct Scanner<'a> {
    rest: &'a [u8],
}

impl<'a> Scanner<'a> {
    fn metadata(&mut self) -> Option<Head<'a>> {
        let (mut namespace, mut version) = (None, None);
        self.open(b'{')?;
        let mut at = self.key()?;
        while let Some(key) = at {
            match &*key {
                "namespace" => namespace = Some(self.text()?),
                "resourceVersion" => version = Some(self.text()?),
                _ => self.skip_value()?,
            }
            if namespace.is_some() && version.is_some() {
                break;
            }
            at = self.next_key()?;
        }
        let version = version.filter(|version| !version.is_empty());
        let resource_version = version.map_or(Some(ResourceVersion::UNKNOWN), |version| version.parse().ok())?;
        Some(Head { namespace: namespace.unwrap_or_default(), resource_version })
    }

    /// The first key of an object that has been opened, and its colon; within, `None` where the object ends.
    fn key(&mut self) -> Option<Option<Cow<'a, str>>> {
        if self.peek()? == b'}' {
            return Some(None);
        }
        let key = self.string()?;
        self.open(b':')?;
        Some(Some(key))
    }

    /// The key after a value.
    fn next_key(&mut self) -> Option<Option<Cow<'a, str>>> {
        if self.peek()? == b'}' {
            return Some(None);
        }
        self.open(b',')?;
        // A comma is followed by a key.
        self.key().filter(Option::is_some)
    }

    /// A text, or null, which is an empty one.
    fn text(&mut self) -> Option<Cow<'a, str>> {
        if self.peek()? == b'"' {
            return self.string();
        }
        self.rest = self.rest.strip_prefix(b"null")?;
        Some(Cow::Borrowed(""))
    }

    /// A text, with what is escaped in it.
    fn string(&mut self) -> Option<Cow<'a, str>> {
        self.peek()?;
        let (start, escaped) = (self.rest, self.skip_string()?);
        let whole = &start[..start.len() - self.rest.len()];
        if escaped {
            return serde_json::from_slice(whole).ok().map(Cow::Owned);
        }
        std::str::from_utf8(&whole[1..whole.len() - 1]).ok().map(Cow::Borrowed)
    }

    /// Passes over a text; says whether anything in it is escaped.
    fn skip_string(&mut self) -> Option<bool> {
        let text = self.rest.strip_prefix(b"\"")?;
        let (mut at, mut escaped) = (0, false);
        loop {
            match text.get(at)? {
                b'"' => break,
                b'\\' => {
                    escaped = true;
                    at += 2;
                }
                _ => at += 1,
            }
        }
        self.rest = &text[at + 1..];
        Some(escaped)
    }

    /// Passes over a value of whatever kind.
    fn skip_value(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.skip_string()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.rest = &self.rest[1..];
                    continue;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.rest = &self.rest[1..];
                }
                b',' | b':' if depth > 0 => {
                    self.rest = &self.rest[1..];
                    continue;
                }
                _ => {
                    // A number or a word.
                    let length = self.rest.iter().take_while(|byte| !b",:}] \t\r\n\"".contains(byte)).count();
                    self.rest = self.rest.get(length..).filter(|_| length > 0)?;
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    fn open(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.rest = &self.rest[1..])
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_ascii_start();
        self.rest.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::{Interner, Object as _, Pod};

    fn found(text: &str) -> Option<(String, u64)> {
        Head::find(text.as_bytes()).map(|head| (head.namespace.into_owned(), head.resource_version.0))
    }

    /// Contract: SH-04
    #[test]
    fn a_head_is_found_wherever_it_stands() {
        for (text, namespace, version) in [
            (r#"{"kind":"Pod","metadata":{"name":"a","namespace":"b","resourceVersion":"7"},"#, "b", 7),
            (r#"{"metadata":{"resourceVersion":"7","namespace":"b""#, "b", 7),
            (
                r#"{"spec":{"metadata":{"namespace":"x","resourceVersion":"1"}},"metadata":{"namespace":"b","resourceVersion":"7"}}"#,
                "b",
                7,
            ),
            (
                r#"{"metadata":{"labels":{"namespace":"x","resourceVersion":"1"},"namespace":"b","resourceVersion":"7"}}"#,
                "b",
                7,
            ),
            (
                r#"{"metadata":{"managedFields":[{"namespace":"}"},["]"],1.5e3,true],"namespace":"b","resourceVersion":"7"}}"#,
                "b",
                7,
            ),
            ("{ \"a\\\"\" : [ ] ,\n\t\"metadata\" : { \"namespace\" : \"b\" , \"resourceVersion\" : \"7\" } }", "b", 7),
            (r#"{"met\u0061data":{"n\u0061mespace":"\u0062","resourceVersion":"\u0037"}}"#, "b", 7),
            (r#"{"metadata":{"name":"a","resourceVersion":"7"}}"#, "", 7),
            (r#"{"metadata":{"namespace":null,"resourceVersion":null}}"#, "", 0),
            (r#"{"metadata":{"namespace":"b","resourceVersion":""}}"#, "b", 0),
            (r#"{"metadata":{}}"#, "", 0),
        ] {
            assert_eq!(found(text), Some((namespace.to_owned(), version)), "{text}");
        }
        for text in [
            "",
            "{",
            "{}",
            "[]",
            "null",
            r#"{"kind":"Pod"}"#,
            r#"{"metadata":null}"#,
            r#"{"metadata":{"namespace":7}}"#,
            r#"{"metadata":{"resourceVersion":"x","namespace":"b"}}"#,
            r#"{"metadata":{"name":"a""#,
            r#"{"kind":,"metadata":{}}"#,
            r#"{"a":1,}"#,
            r#"{"metadata":{"resourceVersion":"7",}}"#,
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let word = prop_oneof![
            Just("namespace".to_owned()),
            Just("resourceVersion".to_owned()),
            Just("metadata".to_owned()),
            any::<String>(),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            word.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, move |inner| {
            let entry = (word.clone(), inner.clone());
            prop_oneof![
                prop::collection::vec(inner, 0..5).prop_map(Value::from),
                prop::collection::vec(entry, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Contract: SH-04
        #[test]
        fn it_is_what_the_decoder_of_the_whole_object_finds(
            namespace in any::<String>(), version in any::<u64>(), others in prop::collection::vec(("[a-z]{1,3}", value()), 0..6),
            pretty in any::<bool>(), first in any::<bool>(),
        ) {
            let mut metadata = Map::new();
            let others = |into: &mut Map<String, Value>| {
                into.extend(others.iter().map(|(key, value)| (format!("x-{key}"), value.clone())));
            };
            if first {
                others(&mut metadata);
            }
            metadata.insert("namespace".to_owned(), json!(namespace));
            metadata.insert("resourceVersion".to_owned(), json!(version.to_string()));
            let mut object = Map::new();
            others(&mut object);
            object.insert("metadata".to_owned(), Value::Object(metadata));
            let object = Value::Object(object);
            let text = if pretty { format!("{object:#}") } else { object.to_string() };
            let pod = Pod::decode(text.as_bytes(), &mut Interner::default()).unwrap();
            let head = Head::find(text.as_bytes()).unwrap();
            prop_assert_eq!(&*head.namespace, &*pod.meta.namespace);
            prop_assert_eq!(head.resource_version, pod.meta.resource_version);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), cut in 0_usize..90) {
            let _ = (Head::find(&bytes), Head::find_protobuf(&bytes));
            let text = br#"{"a":["b\"",1,{}],"metadata":{"resourceVersion":"7","x":null,"namespace":"b"}}"#;
            let _ = Head::find(&text[..cut.min(text.len())]);
            let mixed = [&text[..cut.min(text.len())], &bytes].concat();
            let _ = Head::find(&mixed);
        }
    }

    /// Contract: SH-04
    #[test]
    fn it_is_found_in_a_recorded_pod() {
        let body = include_bytes!("../tests/vectors/protobuf/metadata.pb");
        let message = crate::protobuf::Envelope::decode(body).unwrap().message;
        let head = Head::find_protobuf(message).unwrap();
        assert_eq!((&*head.namespace, head.resource_version), ("default", ResourceVersion(219)));
        assert_eq!(Head::find_protobuf(&[0x0a, 0x05]), None);
    }
}
