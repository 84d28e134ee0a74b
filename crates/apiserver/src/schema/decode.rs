//! Request bodies to objects, with the reference's own idea of what a body may be.
//!
//! A body is read three times: once for its syntax ([`super::scan`]), once for its `apiVersion` and
//! `kind`, and once by the schema. The last reading keeps only known fields, in the form in which Go
//! would write them again: empty optional fields go, required ones appear, quantities and times take
//! their canonical form. Defaults are not its business. Its errors and their order are those of
//! `sigs.k8s.io/json`: the first type error counts, unless something later cannot be parsed at all.
//! (Contract: API-05, API-06.)

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Number, Value};

use super::quantity::Quantity;
use super::scan::{self, Cursor};
use super::table::{Field, Kind, Shape, Table, TypeId};
use super::{Object, time, yaml};
use crate::field::go_quote;

/// What to do about fields that the schema does not know, and about fields given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Validation {
    /// Leave them out and say nothing.
    Ignore,
    /// Leave them out and warn; what a request that does not say gets.
    #[default]
    Warn,
    /// Refuse the body.
    Strict,
}

/// What a body is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON.
    Json,
    /// YAML 1.1, which becomes JSON first.
    Yaml,
}

/// Why a body is not an object. The answer to it is 400 with reason `BadRequest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// The message, as the reference words it.
    pub message: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DecodeError {}

/// Decodes a request's body as an object of one kind. The body may leave out `apiVersion` and `kind`.
/// Gives the object and the warnings.
///
/// # Errors
///
/// The whole message of the 400 answer: `ReplicaSet in version "v1" cannot be handled as a ReplicaSet: ...`.
pub fn decode(
    group: &str,
    version: &str,
    kind: &str,
    body: &[u8],
    format: Format,
    validation: Validation,
) -> Result<(Object, Vec<String>), DecodeError> {
    let json = match format {
        Format::Json => Ok(Cow::Borrowed(body)),
        Format::Yaml => yaml::yaml_to_json(body).map(Cow::Owned),
    };
    let target = Gvk { group: Cow::Borrowed(group), version: Cow::Borrowed(version), kind: Cow::Borrowed(kind) };
    let result = json.map_err(Failure::bare).and_then(|json| decode_as(&target, &json, validation));
    let (object, mut strict) = result.map_err(|failure| failure.explain(kind, body))?;
    if validation != Validation::Ignore
        && format == Format::Yaml
        && let Some(duplicates) = yaml::duplicates(body)
    {
        strict.insert(0, duplicates);
    }
    if validation == Validation::Strict && !strict.is_empty() {
        let failure = Failure { message: strict_message(&strict), gvk: Some((kind.to_owned(), version.to_owned())) };
        return Err(failure.explain(kind, body));
    }
    Ok((object, strict))
}

/// Decodes what a JSON patch or a merge patch made of an object. Gives the object and the warnings.
///
/// # Errors
///
/// The bare error, such as `json: cannot unmarshal ...` or `strict decoding error: ...`; the reference
/// puts it into an `Invalid` answer for the field `patch`.
pub fn round_trip(
    group: &str,
    version: &str,
    kind: &str,
    patched: &Value,
    validation: Validation,
) -> Result<(Object, Vec<String>), DecodeError> {
    let target = Gvk { group: Cow::Borrowed(group), version: Cow::Borrowed(version), kind: Cow::Borrowed(kind) };
    let json = patched.to_string();
    let (object, strict) =
        decode_as(&target, json.as_bytes(), validation).map_err(|f| DecodeError { message: f.message })?;
    if validation == Validation::Strict && !strict.is_empty() {
        return Err(DecodeError { message: strict_message(&strict) });
    }
    Ok((object, strict))
}

/// `strict decoding error: ` and the errors.
pub(super) fn strict_message(errors: &[String]) -> String {
    format!("strict decoding error: {}", errors.join(", "))
}

/// Group, version and kind.
#[derive(Debug, Clone)]
struct Gvk<'a> {
    group: Cow<'a, str>,
    version: Cow<'a, str>,
    kind: Cow<'a, str>,
}

impl Gvk<'_> {
    fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The package of the type that the reference converts every version of this kind to.
    fn internal_package(&self) -> &str {
        match (self.group.as_ref(), self.kind.as_ref()) {
            ("", _) | ("events.k8s.io", "Event" | "EventList") => "core",
            (group, _) => group.split('.').next().unwrap_or(group),
        }
    }
}

/// An error on the way, and the kind that was found by then.
struct Failure {
    message: String,
    gvk: Option<(String, String)>,
}

impl Failure {
    fn bare(message: String) -> Self {
        Self { message, gvk: None }
    }

    /// The message of the answer.
    fn explain(self, target: &str, body: &[u8]) -> DecodeError {
        let Self { message, gvk } = self;
        let message = match gvk {
            Some((kind, _)) if kind.is_empty() => {
                format!("the object provided is unrecognized (must be of type {target}): {message} ({})", summary(body))
            }
            None => {
                format!("the object provided is unrecognized (must be of type {target}): {message} ({})", summary(body))
            }
            Some((_, version)) if version == MISMATCH => message,
            Some((kind, version)) => {
                format!("{kind} in version {} cannot be handled as a {target}: {message}", go_quote(&version))
            }
        };
        DecodeError { message }
    }
}

/// Stands for the version where the message is already whole.
const MISMATCH: &str = "\0";

/// The beginning of a body, for a message: as it is where it looks like JSON, else in hexadecimal.
fn summary(body: &[u8]) -> String {
    const MOST: usize = 30;
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    let (part, more) = if body.len() > MOST { (&body[..MOST], " ...") } else { (body, "") };
    let text = if body[0] == b'{' {
        String::from_utf8_lossy(part).into_owned()
    } else {
        part.iter().map(|b| format!("{b:02x}")).collect()
    };
    text + more
}

fn decode_as(target: &Gvk<'_>, json: &[u8], validation: Validation) -> Result<(Object, Vec<String>), Failure> {
    let (api_version, kind) =
        interpret(json).map_err(|e| Failure::bare(format!("couldn't get version/kind; json parse error: {e}")))?;
    let actual = complete(&api_version, kind, target)?;
    let found = || Some((actual.kind.to_string(), actual.version.to_string()));
    if actual.version.is_empty() {
        let body = String::from_utf8_lossy(json);
        return Err(Failure { message: format!("Object 'apiVersion' is missing in '{body}'"), gvk: found() });
    }
    let table = Table::get();
    let same = actual.group == target.group && actual.version == target.version && actual.kind == target.kind;
    let Some(id) = table.kind(&actual.group, &actual.version, &actual.kind) else {
        let message = if table.registered(&actual.group, &actual.version, &actual.kind) {
            unknown_conversion(&actual, target)
        } else {
            format!(
                "no kind {} is registered for version {} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
                go_quote(&actual.kind),
                go_quote(&actual.api_version())
            )
        };
        return Err(Failure { message, gvk: found() });
    };
    let mut decoder = Decoder::new(json, validation != Validation::Ignore);
    let mut object = decoder.root(id).map_err(|message| Failure { message, gvk: found() })?;
    if !same && actual.kind != "DeleteOptions" {
        if actual.kind == target.kind && actual.internal_package() == target.internal_package() {
            let message = format!(
                "the API version in the data ({}) does not match the expected API version ({})",
                actual.api_version(),
                target.api_version()
            );
            return Err(Failure { message, gvk: Some((actual.kind.to_string(), MISMATCH.to_owned())) });
        }
        return Err(Failure { message: unknown_conversion(&actual, target), gvk: found() });
    }
    object.insert("apiVersion".to_owned(), Value::String(target.api_version()));
    object.insert("kind".to_owned(), Value::String(target.kind.to_string()));
    Ok((object, decoder.strict_errors))
}

fn unknown_conversion(actual: &Gvk<'_>, target: &Gvk<'_>) -> String {
    format!(
        "converting ({}.{}) to ({}.{}): unknown conversion",
        actual.version,
        actual.kind,
        target.internal_package(),
        target.kind
    )
}

/// The kind that the body says it is, completed by the one that is expected.
fn complete<'a>(api_version: &'a str, kind: Cow<'a, str>, target: &Gvk<'a>) -> Result<Gvk<'a>, Failure> {
    let (group, version) = match api_version.split_once('/') {
        None => ("", api_version),
        Some(("", "")) => ("", ""),
        Some((group, version)) if !version.contains('/') => (group, version),
        Some(_) => return Err(Failure::bare(format!("unexpected GroupVersion string: {api_version}"))),
    };
    let kind = if kind.is_empty() { target.kind.clone() } else { kind };
    let mut out = Gvk { group: Cow::Borrowed(group), version: Cow::Borrowed(version), kind };
    if version.is_empty() && group.is_empty() {
        out.group = target.group.clone();
    }
    if version.is_empty() && out.group == target.group {
        out.version = target.version.clone();
    }
    Ok(out)
}

/// Checks a body's syntax, and finds `apiVersion` and `kind`, whose names may be in any case here.
fn interpret(json: &[u8]) -> Result<(Cow<'_, str>, Cow<'_, str>), String> {
    scan::check(json)?;
    let mut found = (Cow::Borrowed(""), Cow::Borrowed(""));
    let mut cursor = Cursor::new(json);
    let anonymous = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
    match cursor.peek() {
        b'{' => {}
        b'n' => return Ok(found),
        other => return Err(format!("json: cannot unmarshal {} into Go value of type {anonymous}", word(other))),
    }
    let mut error = None;
    let mut more = cursor.enter(b'}');
    while more {
        let key = cursor.key();
        let (name, slot) = match key.as_ref() {
            k if k.eq_ignore_ascii_case("apiVersion") => ("apiVersion", &mut found.0),
            k if k.eq_ignore_ascii_case("kind") => ("kind", &mut found.1),
            _ => {
                cursor.raw();
                more = cursor.another();
                continue;
            }
        };
        match cursor.peek() {
            b'"' => *slot = cursor.string(),
            b'n' => {
                cursor.raw();
            }
            other => {
                cursor.raw();
                error.get_or_insert_with(|| {
                    format!("json: cannot unmarshal {} into Go struct field .{name} of type string", word(other))
                });
            }
        }
        more = cursor.another();
    }
    error.map_or(Ok(found), Err)
}

/// What Go calls a value that begins with this byte.
fn word(first: u8) -> &'static str {
    match first {
        b'{' => "object",
        b'[' => "array",
        b'"' => "string",
        b't' | b'f' => "bool",
        _ => "number",
    }
}

/// Reads one body by the schema.
struct Decoder<'a> {
    cursor: Cursor<'a>,
    /// Whether unknown and repeated fields are noted.
    strict: bool,
    /// Where unknown and repeated fields are: `spec.containers[0]`.
    path: String,
    strict_errors: Vec<String>,
    /// The struct whose field is being read, and the fields that lead to it: what a type error names.
    owner: &'static str,
    fields: Vec<&'static str>,
    /// The first type error.
    saved: Option<String>,
}

/// Something that ends the reading: a value that its own type could not parse.
struct Fatal(String);

impl<'a> Decoder<'a> {
    fn new(json: &'a [u8], strict: bool) -> Self {
        Self {
            cursor: Cursor::new(json),
            strict,
            path: String::new(),
            strict_errors: Vec::new(),
            owner: "",
            fields: Vec::new(),
            saved: None,
        }
    }

    fn root(&mut self, id: TypeId) -> Result<Object, String> {
        let shape = Shape { kind: Kind::Struct(id), named: None };
        let value = self.value(&shape, false, None).map_err(|Fatal(message)| message)?;
        if let Some(error) = self.saved.take() {
            return Err(error);
        }
        match value {
            Some(Value::Object(object)) => Ok(object),
            _ => Ok(zero_struct(id)),
        }
    }

    /// Reads a value. `None` is what Go calls nil or leaves as it was with nothing before.
    fn value(&mut self, shape: &Shape, pointer: bool, before: Option<Value>) -> Result<Option<Value>, Fatal> {
        match self.cursor.peek() {
            b'{' => self.object(shape, before),
            b'[' => self.array(shape, before),
            b'"' => self.string(shape, before),
            b'n' => {
                self.cursor.raw();
                let nil = pointer
                    || matches!(
                        shape.kind,
                        Kind::List(_) | Kind::Map(_) | Kind::Bytes | Kind::Quantity | Kind::Time | Kind::MicroTime
                    );
                Ok(if nil { None } else { before })
            }
            first @ (b't' | b'f') => {
                let raw = self.cursor.raw();
                match shape.kind {
                    Kind::Bool => Ok(Some(Value::Bool(first == b't'))),
                    _ => self.literal(shape, "bool", raw, before),
                }
            }
            _ => {
                let raw = self.cursor.raw();
                self.number(shape, raw, before)
            }
        }
    }

    fn object(&mut self, shape: &Shape, before: Option<Value>) -> Result<Option<Value>, Fatal> {
        match &shape.kind {
            Kind::Struct(id) => {
                let known = match before {
                    Some(Value::Object(known)) => known,
                    _ => Map::new(),
                };
                self.structure(*id, known).map(|object| Some(Value::Object(object)))
            }
            Kind::Map(inner) => {
                let known = match before {
                    Some(Value::Object(known)) => known,
                    _ => Map::new(),
                };
                self.map(inner, known).map(|object| Some(Value::Object(object)))
            }
            _ => {
                let raw = self.cursor.raw();
                self.literal(shape, "object", raw, before)
            }
        }
    }

    fn structure(&mut self, id: TypeId, mut out: Object) -> Result<Object, Fatal> {
        let ty = Table::get().ty(id);
        let owner = self.owner;
        let depth = self.path.len();
        let mut seen: u128 = 0;
        // The same object may have been given before: Go then reads over what it has.
        let over = !out.is_empty();
        let mut more = self.cursor.enter(b'}');
        while more {
            let key = self.cursor.key();
            let Some(at) = ty.index(&key) else {
                if self.strict {
                    self.note("unknown", &key);
                }
                self.cursor.raw();
                more = self.cursor.another();
                continue;
            };
            let field = &ty.fields[at];
            let bit = 1u128 << (at % 128);
            let repeated = seen & bit != 0;
            seen |= bit;
            if self.strict {
                if repeated {
                    self.note("duplicate", field.json);
                }
                self.step(field.json);
            }
            let known = self.fields.len();
            if let Some(inline) = field.inline {
                self.fields.push(ty.inlines[inline].go);
            }
            self.fields.push(field.json);
            self.owner = ty.go;
            let before = if repeated || over { out.remove(field.json) } else { None };
            let value = self.value(&field.shape, field.pointer, before)?;
            put(&mut out, field, value);
            self.owner = owner;
            self.fields.truncate(known);
            self.path.truncate(depth);
            more = self.cursor.another();
        }
        finish(&mut out, id);
        Ok(out)
    }

    fn map(&mut self, inner: &Shape, mut out: Object) -> Result<Object, Fatal> {
        let depth = self.path.len();
        // What is there before comes from an earlier field of the same name, not from this map.
        let mut seen: Vec<String> = Vec::new();
        let had = !out.is_empty();
        let mut more = self.cursor.enter(b'}');
        while more {
            let key = self.cursor.key();
            if self.strict {
                let repeated = if had { seen.iter().any(|s| *s == key) } else { out.contains_key(key.as_ref()) };
                if repeated {
                    self.note("duplicate", &key);
                }
                if had {
                    seen.push(key.to_string());
                }
                self.step(&key);
            }
            let value = self.value(inner, false, None)?;
            out.insert(key.into_owned(), value.unwrap_or_else(|| zero(inner)));
            self.path.truncate(depth);
            more = self.cursor.another();
        }
        Ok(out)
    }

    fn array(&mut self, shape: &Shape, before: Option<Value>) -> Result<Option<Value>, Fatal> {
        let Kind::List(inner) = &shape.kind else {
            let raw = self.cursor.raw();
            return self.literal(shape, "array", raw, before);
        };
        let mut known = match before {
            Some(Value::Array(known)) => known.into_iter(),
            _ => Vec::new().into_iter(),
        };
        let depth = self.path.len();
        let mut out = Vec::new();
        let mut more = self.cursor.enter(b']');
        while more {
            if self.strict {
                self.path.push_str(&format!("[{}]", out.len()));
            }
            let value = self.value(inner, false, known.next())?;
            out.push(value.unwrap_or_else(|| zero(inner)));
            self.path.truncate(depth);
            more = self.cursor.another();
        }
        Ok(Some(Value::Array(out)))
    }

    fn string(&mut self, shape: &Shape, before: Option<Value>) -> Result<Option<Value>, Fatal> {
        match &shape.kind {
            Kind::String => Ok(Some(Value::String(self.cursor.string().into_owned()))),
            Kind::IntOrString => Ok(Some(Value::String(self.cursor.string().into_owned()))),
            Kind::Time | Kind::MicroTime => {
                let text = self.cursor.string();
                let time = time::canonical(&text, matches!(shape.kind, Kind::MicroTime)).map_err(Fatal)?;
                Ok(time.map(Value::String))
            }
            Kind::Bytes => {
                let text = self.cursor.string();
                match base64(&text) {
                    Ok(bytes) => Ok(Some(Value::String(bytes))),
                    Err(error) => {
                        self.saved.get_or_insert(error);
                        Ok(before)
                    }
                }
            }
            _ => {
                let raw = self.cursor.raw();
                self.literal(shape, "string", raw, before)
            }
        }
    }

    fn number(&mut self, shape: &Shape, raw: &[u8], before: Option<Value>) -> Result<Option<Value>, Fatal> {
        let text = std::str::from_utf8(raw).unwrap_or_default();
        let value = match shape.kind {
            Kind::Int32 | Kind::IntOrString => text.parse::<i32>().ok().map(Value::from),
            Kind::Int64 => text.parse::<i64>().ok().map(Value::from),
            Kind::Float => text.parse::<f64>().ok().filter(|f| f.is_finite()).map(float),
            _ => return self.literal(shape, "number", raw, before),
        };
        match value {
            Some(value) => Ok(Some(value)),
            None if matches!(shape.kind, Kind::IntOrString) => {
                Err(Fatal(self.type_error(&format!("number {text}"), "int32")))
            }
            None => {
                let error = self.type_error(&format!("number {text}"), &shape.go_type());
                self.saved.get_or_insert(error);
                Ok(before)
            }
        }
    }

    /// A value whose form its type does not expect: the types that parse themselves have a word in it,
    /// for the others it is a type error.
    fn literal(&mut self, shape: &Shape, what: &str, raw: &[u8], before: Option<Value>) -> Result<Option<Value>, Fatal> {
        match shape.kind {
            Kind::Quantity => quantity(raw).map(Some).map_err(Fatal),
            Kind::Time | Kind::MicroTime => Err(Fatal(self.type_error(what, "string"))),
            Kind::IntOrString => Err(Fatal(self.type_error(what, "int32"))),
            Kind::Fields | Kind::Raw => serde_json::from_slice(raw).map(Some).map_err(|e| Fatal(e.to_string())),
            _ => {
                let error = self.type_error(what, &shape.go_type());
                self.saved.get_or_insert(error);
                Ok(before)
            }
        }
    }

    fn type_error(&self, what: &str, ty: &str) -> String {
        if self.fields.is_empty() {
            return format!("json: cannot unmarshal {what} into Go value of type {ty}");
        }
        format!(
            "json: cannot unmarshal {what} into Go struct field {}.{} of type {ty}",
            self.owner,
            self.fields.join(".")
        )
    }

    /// Notes an unknown or repeated field; the first hundred, each once.
    fn note(&mut self, what: &str, name: &str) {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        let error = format!("{what} field {}", go_quote(&path));
        if self.strict_errors.len() < 100 && !self.strict_errors.contains(&error) {
            self.strict_errors.push(error);
        }
    }

    fn step(&mut self, name: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
    }
}

/// A quantity from the text of a JSON value, which need not be a string.
pub(super) fn quantity(raw: &[u8]) -> Result<Value, String> {
    let text = String::from_utf8_lossy(raw);
    let inner = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(&text);
    Quantity::parse(inner.trim()).map(|q| Value::String(q.to_string())).map_err(|e| e.to_string())
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
pub(super) fn base64(text: &str) -> Result<String, String> {
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

/// Puts a field's value into an object, unless Go would leave it out.
pub(super) fn put(out: &mut Object, field: &Field, value: Option<Value>) {
    let Some(value) = value else { return };
    if !field.pointer {
        // An empty `managedFields` says something: forget them.
        if field.omitted && is_empty(&value) && field.json != "managedFields" {
            return;
        }
        // Storage does not tell an empty list from none.
        if !field.omitted && matches!(field.shape.kind, Kind::List(_) | Kind::Map(_)) && is_empty(&value) {
            out.insert(field.json.to_owned(), Value::Null);
            return;
        }
    }
    out.insert(field.json.to_owned(), value);
}

/// Adds the fields that Go writes even when they are empty.
pub(super) fn finish(out: &mut Object, id: TypeId) {
    for field in Table::get().ty(id).always() {
        if !out.contains_key(field.json) {
            let value = if field.pointer { Value::Null } else { zero(&field.shape) };
            out.insert(field.json.to_owned(), value);
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
        Kind::String => Value::String(String::new()),
        Kind::Int32 | Kind::Int64 | Kind::Float | Kind::IntOrString => Value::from(0),
        Kind::Bool => Value::Bool(false),
        Kind::Quantity => Value::String("0".to_owned()),
        Kind::Struct(id) => Value::Object(zero_struct(*id)),
        Kind::Bytes | Kind::Time | Kind::MicroTime | Kind::Fields | Kind::Raw | Kind::List(_) | Kind::Map(_) => {
            Value::Null
        }
    }
}

fn zero_struct(id: TypeId) -> Object {
    let mut out = Map::new();
    finish(&mut out, id);
    out
}

#[cfg(test)]
mod tests;
