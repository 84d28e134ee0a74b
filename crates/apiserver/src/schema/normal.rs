//! The form in which Go writes values: what it leaves out, what it adds, how it spells them.

use muster_tree::{Map, Number, Text, Value};

use super::Object;
use super::quantity::Quantity;
use super::table::{Field, Kind, Shape, Table, Type, TypeId};

/// A quantity from the text of a JSON value, which need not be a string.
pub(super) fn quantity(raw: &[u8]) -> Result<Value, String> {
    let text = String::from_utf8_lossy(raw);
    let inner = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(&text);
    Quantity::parse(inner.trim()).map(|q| Value::String(q.to_string().into())).map_err(|e| e.to_string())
}

/// A float as Go writes it: without a fraction where it has none.
pub(super) fn float(number: f64) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "only where it is exact")]
    if number.fract() == 0.0 && number.abs() < 9e15 {
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// Base64 as Go reads it (line breaks do not count), written again.
///
/// # Errors
/// What Go says of what is not base64.
pub fn base64(text: &str) -> Result<String, String> {
    use base64::Engine as _;
    use base64::alphabet::STANDARD;
    use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
    let lenient = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
    let engine = GeneralPurpose::new(&STANDARD, lenient);
    let plain: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    match engine.decode(plain.as_bytes()) {
        Ok(bytes) => Ok(engine.encode(bytes)),
        Err(_) => Err(format!("illegal base64 data at input byte {}", corrupt_at(text.as_bytes()))),
    }
}

/// Bytes in base64.
pub(super) fn encode(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Where Go's decoder stops in what is not base64.
fn corrupt_at(text: &[u8]) -> usize {
    let mut at = 0;
    let skip = |at: &mut usize| {
        while matches!(text.get(*at), Some(b'\r' | b'\n')) {
            *at += 1;
        }
    };
    loop {
        let mut place = 0;
        while place < 4 {
            let Some(c) = text.get(at) else { return at.saturating_sub(place) };
            at += 1;
            match c {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => place += 1,
                b'\r' | b'\n' => {}
                b'=' if place >= 2 => {
                    if place == 2 {
                        skip(&mut at);
                        match text.get(at) {
                            None => return text.len(),
                            Some(b'=') => at += 1,
                            Some(_) => return at - 1,
                        }
                    }
                    skip(&mut at);
                    return at;
                }
                _ => return at - 1,
            }
        }
    }
}

/// Fields, and their types, whose empty value says something else than none: forget the managed fields; and lists and
/// maps that are refused when they are empty, and not only when they are none, or in other words.
const TOLD_FROM_NONE: [(&str, &str); 5] = [
    ("ObjectMeta", "managedFields"),
    ("PersistentVolumeSpec", "capacity"),
    ("CustomResourceDefinitionSpec", "versions"),
    ("HPAScalingRules", "policies"),
    ("PodFailurePolicyOnExitCodesRequirement", "values"),
];

/// Puts a field's value into an object of a type, unless Go would leave it out.
pub(super) fn put(out: &mut impl Extend<(Text, Value)>, ty: &Type, field: &Field, value: Option<Value>) {
    let Some(value) = value else { return };
    if !field.pointer {
        let none = is_empty(&value) && !TOLD_FROM_NONE.contains(&(ty.go, field.json));
        if field.omitted && none {
            return;
        }
        // Storage does not tell an empty list from none.
        if none && matches!(field.shape.kind, Kind::List(_) | Kind::Map(_)) {
            out.extend([(Text::const_new(field.json), Value::Null)]);
            return;
        }
    }
    out.extend([(Text::const_new(field.json), value)]);
}

/// Adds the fields that Go writes even when they are empty.
pub(super) fn finish(out: &mut Object, id: TypeId) {
    for field in Table::get().ty(id).always() {
        if !out.contains_key(field.json) {
            let value = if field.pointer { Value::Null } else { zero(&field.shape) };
            out.insert(Text::const_new(field.json), value);
        }
    }
}

/// Whether Go calls a value that is no struct empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.is_empty(),
    }
}

/// What Go writes for the empty value of a type.
pub(super) fn zero(shape: &Shape) -> Value {
    match &shape.kind {
        Kind::String => Value::String(String::new().into()),
        Kind::Int32 | Kind::Int64 | Kind::Float | Kind::IntOrString => Value::from(0),
        Kind::Bool => Value::Bool(false),
        Kind::Quantity => Value::from("0"),
        Kind::Struct(id) => Value::Object(zero_struct(*id)),
        Kind::Bytes
        | Kind::Time
        | Kind::MicroTime
        | Kind::Fields
        | Kind::Raw
        | Kind::Json
        | Kind::Either(_)
        | Kind::List(_)
        | Kind::Map(_) => Value::Null,
    }
}

pub(super) fn zero_struct(id: TypeId) -> Object {
    let mut out = Map::new();
    finish(&mut out, id);
    out
}
