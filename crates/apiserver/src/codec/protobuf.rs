//! Protobuf bodies: `k8s\0`, an envelope, and an object by its type's field numbers (API-05).
//!
//! What is read becomes JSON, and goes on as if it had come as JSON: what is empty and optional is dropped there.

pub(super) mod write;

use muster_tree::{Map, Number, Value};

use crate::schema::table::{Inline, Kind, Shape, Table, Type};

/// What begins every such body.
const MAGIC: &[u8; 4] = b"k8s\0";

/// An envelope's content.
pub(super) struct Unknown<'a> {
    /// `apiVersion` and `kind`; may be empty.
    pub(super) api_version: String,
    pub(super) kind: String,
    /// The object.
    pub(super) raw: &'a [u8],
}

/// Opens the envelope.
pub(super) fn open(body: &[u8]) -> Result<Unknown<'_>, String> {
    if body.is_empty() {
        return Err("empty data".to_owned());
    }
    let Some(message) = body.strip_prefix(MAGIC) else {
        return Err("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]".to_owned());
    };
    if message.is_empty() {
        return Err("empty body".to_owned());
    }
    let mut unknown = Unknown { api_version: String::new(), kind: String::new(), raw: &[] };
    each(message, |number, wire| {
        match (number, wire) {
            (1, Wire::Bytes(type_meta)) => each(type_meta, |number, wire| {
                match (number, wire) {
                    (1, Wire::Bytes(text)) => unknown.api_version = string(text)?,
                    (2, Wire::Bytes(text)) => unknown.kind = string(text)?,
                    _ => {}
                }
                Ok(())
            })?,
            (2, Wire::Bytes(raw)) => unknown.raw = raw,
            _ => {}
        }
        Ok(())
    })?;
    Ok(unknown)
}

/// Reads an object of a type.
pub(super) fn object(ty: &'static Type, message: &[u8]) -> Result<Map, String> {
    structure(ty, message, None, 0)
}

/// A tree of messages may be this deep.
const DEEPEST: usize = 100;

/// Reads the fields of a struct; those of one that it embeds under a number of its own stand in a message of theirs.
fn structure(ty: &'static Type, message: &[u8], inline: Option<usize>, depth: usize) -> Result<Map, String> {
    if depth > DEEPEST {
        return Err("proto: the message is nested too deeply".to_owned());
    }
    let mut out = Map::new();
    each(message, |number, wire| {
        if let Some(index) = embedded(ty, inline).find(|index| ty.inlines[*index].tag == number)
            && let Wire::Bytes(below) = wire
        {
            out.extend(structure(ty, below, Some(index), depth + 1)?);
            return Ok(());
        }
        let own = |f: &&crate::schema::table::Field| {
            f.tag == number
                && (f.inline == inline || (inline.is_none() && f.inline.is_some_and(|i| ty.inlines[i].tag == 0)))
        };
        let Some(field) = ty.fields.iter().find(own) else { return Ok(()) };
        match &field.shape.kind {
            Kind::List(element) => {
                let list = out.entry(field.json).or_insert_with(|| Value::Array(Vec::new().into()));
                if let Value::Array(items) = list {
                    elements(element, wire, items, depth)?;
                }
            }
            Kind::Map(element) => {
                let map = out.entry(field.json).or_insert_with(|| Value::Object(Map::new()));
                if let (Value::Object(members), Wire::Bytes(entry)) = (map, wire) {
                    let (key, value) = entry_of(element, entry, depth)?;
                    members.insert(key, value);
                }
            }
            _ => {
                let value = scalar(&field.shape, wire, depth)?;
                if !value.is_null() {
                    out.insert(field.json.to_owned(), value);
                }
            }
        }
        Ok(())
    })?;
    Ok(out)
}

/// The structs that a struct embeds, or one of those, under numbers of their own.
fn embedded(ty: &Type, within: Option<usize>) -> impl Iterator<Item = usize> {
    let own = move |(index, inline): (usize, &Inline)| (inline.tag != 0 && inline.within == within).then_some(index);
    ty.inlines.iter().enumerate().filter_map(own)
}

fn elements(shape: &'static Shape, wire: Wire<'_>, items: &mut Vec<Value>, depth: usize) -> Result<(), String> {
    let packable = matches!(shape.kind, Kind::Int32 | Kind::Int64 | Kind::Bool);
    if let (true, Wire::Bytes(packed)) = (packable, &wire) {
        let mut rest = *packed;
        while !rest.is_empty() {
            items.push(scalar(shape, Wire::Varint(varint(&mut rest)?), depth)?);
        }
        return Ok(());
    }
    items.push(scalar(shape, wire, depth)?);
    Ok(())
}

fn entry_of(shape: &'static Shape, entry: &[u8], depth: usize) -> Result<(String, Value), String> {
    let (mut key, mut value) = (String::new(), empty(shape));
    each(entry, |number, wire| {
        match (number, wire) {
            (1, Wire::Bytes(text)) => key = string(text)?,
            (2, wire) => value = scalar(shape, wire, depth)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok((key, value))
}

/// What a map's value is that is not written because it is empty.
fn empty(shape: &Shape) -> Value {
    match shape.kind {
        Kind::String | Kind::Bytes | Kind::Quantity => Value::from(""),
        Kind::Struct(_) => Value::Object(Map::new()),
        Kind::List(_) => Value::Array(Vec::new().into()),
        _ => Value::Null,
    }
}

fn scalar(shape: &'static Shape, wire: Wire<'_>, depth: usize) -> Result<Value, String> {
    Ok(match (&shape.kind, wire) {
        (Kind::String, Wire::Bytes(bytes)) => Value::from(string(bytes)?),
        // The low 32 bits, and all 64, as signed.
        #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
        (Kind::Int32, Wire::Varint(n)) => Value::from(n as i32),
        #[allow(clippy::cast_possible_wrap)]
        (Kind::Int64, Wire::Varint(n)) => Value::from(n as i64),
        (Kind::Bool, Wire::Varint(n)) => Value::from(n != 0),
        (Kind::Float, Wire::Fixed64(bits)) => Number::from_f64(f64::from_bits(bits)).map_or(Value::Null, Value::Number),
        (Kind::Bytes, Wire::Bytes(bytes)) => {
            use base64::Engine as _;
            Value::from(base64::engine::general_purpose::STANDARD.encode(bytes))
        }
        (Kind::Quantity, Wire::Bytes(message)) => {
            let mut text = "0".to_owned();
            each(message, |number, wire| {
                if let (1, Wire::Bytes(bytes)) = (number, wire) {
                    text = string(bytes)?;
                }
                Ok(())
            })?;
            Value::from(text)
        }
        (Kind::Time | Kind::MicroTime, Wire::Bytes([])) => Value::Null,
        (Kind::Time | Kind::MicroTime, Wire::Bytes(message)) => time(message, matches!(shape.kind, Kind::MicroTime))?,
        (Kind::IntOrString, Wire::Bytes(message)) => int_or_string(message)?,
        (Kind::Fields | Kind::Raw | Kind::Json, Wire::Bytes(message)) => {
            let mut json = Value::Null;
            each(message, |number, wire| {
                if let (1, Wire::Bytes(bytes)) = (number, wire) {
                    json = crate::schema::read_json(bytes)?;
                }
                Ok(())
            })?;
            json
        }
        (Kind::Either(id), Wire::Bytes(message)) => {
            let ty = Table::get().ty(*id);
            let mut fields = structure(ty, message, None, depth + 1)?;
            // A schema beside `allows` is what counts.
            let mut of = |first: u8| ty.either(first).and_then(|field| fields.remove(field.json));
            let (list, schema, bool) = (of(b'['), of(b'{'), of(b't'));
            let none = || if ty.either(b't').is_some() { Value::Bool(false) } else { Value::Null };
            list.or(schema).or(bool).unwrap_or_else(none)
        }
        (Kind::Struct(id), Wire::Bytes(message)) => {
            Value::Object(structure(Table::get().ty(*id), message, None, depth + 1)?)
        }
        // A list in a map stands in a message of its own.
        (Kind::List(element), Wire::Bytes(message)) => {
            let mut items = Vec::new();
            each(
                message,
                |number, wire| if number == 1 { elements(element, wire, &mut items, depth) } else { Ok(()) },
            )?;
            Value::Array(items.into())
        }
        _ => return Err("proto: wrong wireType for a field".to_owned()),
    })
}

fn time(message: &[u8], micro: bool) -> Result<Value, String> {
    let (mut seconds, mut nanos) = (0_i64, 0_i64);
    each(message, |number, wire| {
        #[allow(clippy::cast_possible_wrap)]
        match (number, wire) {
            (1, Wire::Varint(n)) => seconds = n as i64,
            (2, Wire::Varint(n)) => nanos = n as i64,
            _ => {}
        }
        Ok(())
    })?;
    Ok(crate::schema::time::from_parts(seconds, nanos, micro).map_or(Value::Null, Value::from))
}

fn int_or_string(message: &[u8]) -> Result<Value, String> {
    let (mut is_text, mut number_value, mut text) = (false, 0_i32, String::new());
    each(message, |number, wire| {
        match (number, wire) {
            (1, Wire::Varint(kind)) => is_text = kind == 1,
            #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
            (2, Wire::Varint(n)) => number_value = n as i32,
            (3, Wire::Bytes(bytes)) => text = string(bytes)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(if is_text { Value::from(text) } else { Value::from(number_value) })
}

/// A field's value as it stands in the message.
enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

/// Calls `f` with each field of a message.
fn each<'a>(mut message: &'a [u8], mut f: impl FnMut(u32, Wire<'a>) -> Result<(), String>) -> Result<(), String> {
    while !message.is_empty() {
        let key = varint(&mut message)?;
        let number = u32::try_from(key >> 3).map_err(|_| TRUNCATED.to_owned())?;
        let wire = match key & 7 {
            0 => Wire::Varint(varint(&mut message)?),
            1 => Wire::Fixed64(u64::from_le_bytes(*take::<8>(&mut message)?)),
            2 => {
                let length = usize::try_from(varint(&mut message)?).map_err(|_| TRUNCATED.to_owned())?;
                let (bytes, rest) = message.split_at_checked(length).ok_or_else(|| TRUNCATED.to_owned())?;
                message = rest;
                Wire::Bytes(bytes)
            }
            5 => {
                take::<4>(&mut message)?;
                Wire::Fixed32
            }
            other => return Err(format!("proto: illegal wireType {other}")),
        };
        f(number, wire)?;
    }
    Ok(())
}

const TRUNCATED: &str = "unexpected EOF";

fn take<'a, const N: usize>(message: &mut &'a [u8]) -> Result<&'a [u8; N], String> {
    let (bytes, rest) = message.split_first_chunk::<N>().ok_or_else(|| TRUNCATED.to_owned())?;
    *message = rest;
    Ok(bytes)
}

fn varint(message: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = message.split_first().ok_or_else(|| TRUNCATED.to_owned())?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("proto: integer overflow".to_owned())
}

fn string(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "proto: invalid UTF-8 string".to_owned())
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    /// A field of bytes.
    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(content.len()).expect("a short field")];
        out.extend_from_slice(content);
        out
    }

    fn text(number: u8, content: &str) -> Vec<u8> {
        bytes(number, content.as_bytes())
    }

    /// Contract: API-05
    #[test]
    fn an_envelope_holds_a_typed_object() {
        // ObjectMeta: name, an empty creation time, a label; ConfigMap: metadata, data.
        let label = [text(1, "k"), text(2, "v")].concat();
        let metadata = [text(1, "a"), bytes(8, &[]), bytes(11, &label)].concat();
        let data = [text(1, "key"), text(2, "value")].concat();
        let object = [bytes(1, &metadata), bytes(2, &data), bytes(2, &text(1, "empty"))].concat();
        let type_meta = [text(1, "v1"), text(2, "ConfigMap")].concat();
        let body = [b"k8s\0".to_vec(), bytes(1, &type_meta), bytes(2, &object)].concat();

        let unknown = open(&body).expect("an envelope");
        assert_eq!((unknown.api_version.as_str(), unknown.kind.as_str()), ("v1", "ConfigMap"));
        let table = Table::get();
        let ty = table.ty(table.kind("", "v1", "ConfigMap").expect("the type is known"));
        let read = super::object(ty, unknown.raw).expect("an object");
        assert_eq!(
            Value::Object(read),
            json!({"metadata": {"name": "a", "labels": {"k": "v"}}, "data": {"key": "value", "empty": ""}})
        );
    }

    /// Contract: API-05
    #[test]
    fn fields_of_every_type_are_read() {
        // Pod.spec: a volume whose source is embedded under a number of its own, a container with an int-or-string
        // port, a quantity, and numbers.
        let empty_dir = bytes(2, &[]);
        let volume = [text(1, "v"), bytes(2, &empty_dir)].concat();
        let port = [vec![1 << 3, 1], text(3, "http")].concat();
        let http_get = bytes(2, &port);
        let probe = [bytes(1, &bytes(2, &http_get)), vec![2 << 3, 5]].concat();
        let quantity = [text(1, "cpu"), bytes(2, &text(1, "100m"))].concat();
        let resources = bytes(2, &quantity);
        let container = [text(1, "c"), bytes(8, &resources), bytes(10, &probe)].concat();
        let spec = [bytes(1, &volume), bytes(2, &container), vec![4 << 3, 30]].concat();
        let table = Table::get();
        let ty = table.ty(table.kind("", "v1", "Pod").expect("the type is known"));
        let read = super::object(ty, &bytes(2, &spec)).expect("an object");
        assert_eq!(
            Value::Object(read),
            json!({"spec": {
                "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [{
                    "name": "c",
                    "resources": {"requests": {"cpu": "100m"}},
                    "livenessProbe": {"httpGet": {"port": "http"}, "initialDelaySeconds": 5},
                }],
                "terminationGracePeriodSeconds": 30,
            }})
        );
    }

    proptest::proptest! {
        /// Contract: API-06
        #[test]
        fn garbage_is_an_error_or_an_object_but_never_a_panic(body: Vec<u8>) {
            let body = [b"k8s\0".to_vec(), body].concat();
            let table = Table::get();
            let ty = table.ty(table.kind("", "v1", "Pod").expect("the type is known"));
            if let Ok(unknown) = open(&body) {
                let _ = super::object(ty, unknown.raw);
            }
            let _ = super::object(ty, &body);
        }
    }
}
