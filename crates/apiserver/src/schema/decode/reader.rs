//! The reading of a body by the schema.

use std::collections::BTreeSet;

use muster_tree::{Map, Text, Value};

use super::{DEEPEST, Untyped};
use crate::field::go_quote;
use crate::schema::normal::{base64, encode, finish, float, put, quantity, zero, zero_struct};
use crate::schema::scan::Cursor;
use crate::schema::table::{Kind, Shape, Table, TypeId};
use crate::schema::{Object, time};

/// Reads one body by the schema.
pub(super) struct Decoder<'a> {
    cursor: Cursor<'a>,
    /// Whether unknown and repeated fields are noted.
    strict: bool,
    /// Where unknown and repeated fields are: `spec.containers[0]`.
    path: String,
    pub(super) strict_errors: Vec<String>,
    /// The struct whose field is being read, and the fields that lead to it: what a type error names.
    owner: &'static str,
    fields: Vec<&'static str>,
    /// The same of the reading that this one is part of.
    around: Option<(&'static str, Vec<&'static str>)>,
    /// The first type error.
    saved: Option<String>,
    /// How deep the value that is being read stands: types may hold themselves.
    depth: usize,
}

/// Something that ends the reading: a value that its own type could not parse.
struct Fatal(String);

impl<'a> Decoder<'a> {
    pub(super) fn new(json: &'a [u8], strict: bool) -> Self {
        Self {
            cursor: Cursor::new(json),
            strict,
            path: String::new(),
            strict_errors: Vec::new(),
            owner: "",
            fields: Vec::new(),
            around: None,
            saved: None,
            depth: 0,
        }
    }

    pub(super) fn root(&mut self, id: TypeId) -> Result<Object, String> {
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

    /// Reads a value that stands for itself.
    pub(super) fn alone(&mut self, shape: &Shape) -> Result<Value, String> {
        let value = self.value(shape, false, None).map_err(|Fatal(message)| message)?;
        self.saved.take().map_or_else(|| Ok(value.unwrap_or_else(|| zero(shape))), Err)
    }

    /// Reads a value. `None` is what Go calls nil or leaves as it was with nothing before.
    fn value(&mut self, shape: &Shape, pointer: bool, before: Option<Value>) -> Result<Option<Value>, Fatal> {
        match (self.cursor.peek(), &shape.kind) {
            (first, Kind::Either(id)) if first != b'n' => {
                let raw = self.cursor.raw();
                self.either(*id, first, raw).map(Some)
            }
            (b'{' | b'[', _) => {
                if self.depth >= DEEPEST {
                    return Err(Fatal("exceeded max depth".to_owned()));
                }
                self.depth += 1;
                let value = self.plain(shape, pointer, before);
                self.depth -= 1;
                value
            }
            _ => self.plain(shape, pointer, before),
        }
    }

    /// Reads what is one of two things: a reading of its own, which of where it stands knows what type errors name.
    fn either(&mut self, id: TypeId, first: u8, raw: &[u8]) -> Result<Value, Fatal> {
        let ty = Table::get().ty(id);
        let Some(field) = ty.either(first) else {
            // What is a boolean otherwise says what it expects; the others take anything for nothing.
            let error = || Fatal("boolean or JSON schema expected".to_owned());
            return if ty.either(b't').is_some() { Err(error()) } else { Ok(Value::Null) };
        };
        let mut decoder = Decoder::new(raw, false);
        decoder.depth = self.depth;
        decoder.around = Some(self.place());
        let value = decoder.alone(&field.shape).map_err(Fatal)?;
        let nothing = value.as_array().is_some_and(muster_tree::List::is_empty);
        Ok(if nothing { Value::Null } else { value })
    }

    fn plain(&mut self, shape: &Shape, pointer: bool, before: Option<Value>) -> Result<Option<Value>, Fatal> {
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

    fn structure(&mut self, id: TypeId, known: Object) -> Result<Object, Fatal> {
        let ty = Table::get().ty(id);
        let owner = self.owner;
        let depth = self.path.len();
        let mut seen: u128 = 0;
        // The same object may have been given before: Go then reads over what it has.
        let over = !known.is_empty();
        // They become a map at once, which is made faster than member by member.
        let mut out: Vec<(Text, Value)> = known.into_iter().collect();
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
            let above = self.fields.len();
            let mut inline = field.inline;
            while let Some(index) = inline {
                self.fields.insert(above, ty.inlines[index].go);
                inline = ty.inlines[index].within;
            }
            self.fields.push(field.json);
            self.owner = ty.go;
            let given = if repeated || over { out.iter().position(|(key, _)| key == field.json) } else { None };
            let before = given.map(|at| out.swap_remove(at).1);
            let value = self.value(&field.shape, field.pointer, before)?;
            put(&mut out, ty, field, value);
            self.owner = owner;
            self.fields.truncate(above);
            self.path.truncate(depth);
            more = self.cursor.another();
        }
        let mut out = out.into_iter().collect();
        finish(&mut out, id);
        Ok(out)
    }

    fn map(&mut self, inner: &Shape, mut out: Object) -> Result<Object, Fatal> {
        let depth = self.path.len();
        // What is there before comes from an earlier field of the same name, not from this map.
        let mut seen: BTreeSet<String> = BTreeSet::new();
        let had = !out.is_empty();
        let mut more = self.cursor.enter(b'}');
        while more {
            let key = self.cursor.key();
            if self.strict {
                let repeated = if had { seen.contains(key.as_ref()) } else { out.contains_key(key.as_ref()) };
                if repeated {
                    self.note("duplicate", &key);
                }
                if had {
                    seen.insert(key.to_string());
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
        if let Kind::Bytes = shape.kind {
            return self.bytes().map(Some);
        }
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
        Ok(Some(Value::Array(out.into())))
    }

    /// Bytes as a list of numbers, which Go takes as well.
    fn bytes(&mut self) -> Result<Value, Fatal> {
        let mut out: Vec<u8> = Vec::new();
        let mut more = self.cursor.enter(b']');
        while more {
            let first = self.cursor.peek();
            let raw = self.cursor.raw();
            let text = std::str::from_utf8(raw).unwrap_or_default();
            let byte = match (first, text.parse::<u8>()) {
                (b'n', _) => 0,
                (_, Ok(byte)) => byte,
                (b'-' | b'0'..=b'9', Err(_)) => {
                    let error = self.type_error(&format!("number {text}"), "uint8");
                    self.saved.get_or_insert(error);
                    0
                }
                (other, Err(_)) => {
                    let error = self.type_error(super::word(other), "uint8");
                    self.saved.get_or_insert(error);
                    0
                }
            };
            out.push(byte);
            more = self.cursor.another();
        }
        Ok(Value::String(encode(&out).into()))
    }

    fn string(&mut self, shape: &Shape, before: Option<Value>) -> Result<Option<Value>, Fatal> {
        match &shape.kind {
            Kind::String => Ok(Some(Value::String(self.cursor.string().into_owned().into()))),
            Kind::IntOrString => Ok(Some(Value::String(self.cursor.string().into_owned().into()))),
            Kind::Time | Kind::MicroTime => {
                let text = self.cursor.string();
                let time = time::canonical(&text, matches!(shape.kind, Kind::MicroTime)).map_err(Fatal)?;
                Ok(time.map(Value::from))
            }
            Kind::Bytes => {
                let text = self.cursor.string();
                match base64(&text) {
                    Ok(bytes) => Ok(Some(Value::String(bytes.into()))),
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
    fn literal(
        &mut self,
        shape: &Shape,
        what: &str,
        raw: &[u8],
        before: Option<Value>,
    ) -> Result<Option<Value>, Fatal> {
        match shape.kind {
            Kind::Quantity => quantity(raw).map(Some).map_err(Fatal),
            Kind::Time | Kind::MicroTime => Err(Fatal(self.type_error(what, "string"))),
            Kind::IntOrString => Err(Fatal(self.type_error(what, "int32"))),
            Kind::Fields | Kind::Raw | Kind::Json => Untyped::new(raw).value(self.depth).map(Some).map_err(Fatal),
            _ => {
                let error = self.type_error(what, &shape.go_type());
                self.saved.get_or_insert(error);
                Ok(before)
            }
        }
    }

    fn type_error(&self, what: &str, ty: &str) -> String {
        let (owner, fields) = self.place();
        if fields.is_empty() {
            return format!("json: cannot unmarshal {what} into Go value of type {ty}");
        }
        format!("json: cannot unmarshal {what} into Go struct field {owner}.{} of type {ty}", fields.join("."))
    }

    /// The outermost struct and all fields that lead to what is being read.
    fn place(&self) -> (&'static str, Vec<&'static str>) {
        match &self.around {
            Some((owner, around)) => (owner, [&around[..], &self.fields[..]].concat()),
            None => (self.owner, self.fields.clone()),
        }
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
