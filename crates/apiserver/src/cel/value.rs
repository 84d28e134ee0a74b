//! Values that expressions work on. Those of an object are seen through its schema, without being copied.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use muster_schema::quantity::Quantity;
use muster_tree::Value as Json;

use super::eval::Failure;
use super::library::authz::Check;
use super::schema::{escape, format, unescape};
use super::time::Instant;
use super::url::Url;
use super::{duration, time};
use crate::custom::structural::{Additional, Kind, ListType, Structural};

/// A value.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// True or false.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// One without a sign.
    Uint(u64),
    /// A 64-bit float.
    Double(f64),
    /// A text.
    String(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A point in time, in nanoseconds from 1970.
    Timestamp(Instant),
    /// A length of time, in nanoseconds.
    Duration(i64),
    /// A type.
    Type(&'static str),
    /// A list.
    List(List<'a>),
    /// A map, or an object with fields.
    Map(Map<'a>),
    /// An object of a named type, which describes a change.
    Made(&'a str, Map<'a>),
    /// A value that may be absent.
    Optional(Option<Arc<Value<'a>>>),
    /// A quantity.
    Quantity(Arc<Quantity>),
    /// A URL.
    Url(Arc<Url>),
    /// An address.
    Ip(IpAddr),
    /// A network.
    Cidr(IpAddr, u8),
    /// A version of semantic versioning.
    Semver(Arc<super::library::Semver>),
    /// A named format.
    Format(&'static str),
    /// A question to an authorizer, or its answer.
    Check(Arc<Check<'a>>),
    /// An object whose fields are made when they are asked for.
    Lazy(Arc<dyn Lookup<'a> + 'a>),
}

/// Fields that are made when they are asked for.
pub trait Lookup<'a>: fmt::Debug + Send + Sync {
    /// The value of a field; `None` where there is no such field.
    fn field(&self, name: &str) -> Option<Result<Value<'a>, Failure>>;
}

/// A list.
#[derive(Debug, Clone)]
pub enum List<'a> {
    /// One that an expression made.
    Made(Arc<Vec<Value<'a>>>),
    /// One of an object.
    Json {
        /// Its elements.
        items: &'a [Json],
        /// Its schema.
        schema: Option<&'a Structural>,
    },
}

/// A map, or an object with fields.
#[derive(Debug, Clone)]
pub enum Map<'a> {
    /// One that an expression made.
    Made(Arc<Vec<(Value<'a>, Value<'a>)>>),
    /// One of an object.
    Json {
        /// Its members.
        members: &'a crate::custom::Object,
        /// Its schema.
        schema: Option<&'a Structural>,
        /// Whether it is a whole object.
        root: bool,
    },
}

impl<'a> Value<'a> {
    /// A value of an object, as its schema sees it.
    ///
    /// # Errors
    /// That a text is not of its format, or a number not of its type.
    pub fn of(json: &'a Json, schema: Option<&'a Structural>, root: bool) -> Result<Self, String> {
        Ok(match json {
            Json::Null => Self::Null,
            Json::Bool(flag) => Self::Bool(*flag),
            Json::Number(number) => {
                let is_integer = schema.is_some_and(|s| s.kind == Some(Kind::Integer) && !s.int_or_string);
                if is_integer && number.is_f64() {
                    return Err("invalid data, expected int, got float64".to_owned());
                }
                let as_double = schema.is_some_and(|s| s.kind == Some(Kind::Number) && !s.int_or_string);
                match number.as_i64() {
                    Some(int) if !as_double => Self::Int(int),
                    _ => Self::Double(number.as_f64().unwrap_or_default()),
                }
            }
            Json::String(text) => return of_text(text, schema),
            Json::Array(items) => Self::List(List::Json { items, schema }),
            Json::Object(members) => Self::Map(Map::Json { members, schema, root }),
        })
    }

    /// A text.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::String(text.into())
    }

    /// A list that was made.
    #[must_use]
    pub fn list(items: Vec<Value<'a>>) -> Self {
        Self::List(List::Made(Arc::new(items)))
    }

    /// What `type()` says of it.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Type(_) => "type",
            Self::List(_) => "list",
            Self::Map(Map::Json { schema: Some(schema), .. }) if schema.additional().is_none() => "object",
            Self::Map(_) => "map",
            Self::Made(..) => "object",
            Self::Optional(_) => "optional_type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(..) => "net.CIDR",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Check(check) => check.type_name(),
            Self::Lazy(_) => "object",
        }
    }

    /// How many characters, elements or members it has; 1 for what has none.
    #[must_use]
    pub fn size(&self) -> u64 {
        let size = match self {
            Self::String(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            Self::Optional(Some(inner)) => return inner.size(),
            Self::Url(url) => url.text().chars().count(),
            Self::Ip(ip) => {
                if ip.is_ipv4() {
                    4
                } else {
                    16
                }
            }
            Self::Cidr(ip, _) => {
                if ip.is_ipv4() {
                    4
                } else {
                    16
                }
            }
            _ => 1,
        };
        size as u64
    }

    /// Whether two values are equal: numbers by their worth, lists that are sets or maps without their order.
    #[must_use]
    pub fn equals(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::String(a), Value::String(b)) => a == b,
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
            (Value::Duration(a), Value::Duration(b)) => a == b,
            (Value::Type(a), Value::Type(b)) | (Value::Format(a), Value::Format(b)) => a == b,
            (Value::List(a), Value::List(b)) => a.equals(b),
            (Value::Map(a), Value::Map(b)) => a.equals(b),
            (Value::Made(name, a), Value::Made(other, b)) => name == other && a.equals(b),
            (Value::Optional(a), Value::Optional(b)) => match (a, b) {
                (None, None) => true,
                (Some(a), Some(b)) => a.equals(b),
                _ => false,
            },
            (Value::Quantity(a), Value::Quantity(b)) => a.compare(b) == Ordering::Equal,
            (Value::Url(a), Value::Url(b)) => a == b,
            (Value::Ip(a), Value::Ip(b)) => a == b,
            (Value::Cidr(a, m), Value::Cidr(b, n)) => a == b && m == n,
            (Value::Semver(a), Value::Semver(b)) => a.compare(b) == Ordering::Equal,
            (a, b) => compare_numbers(a, b) == Some(Ordering::Equal),
        }
    }

    /// The order of two values; `None` for those without one.
    #[must_use]
    pub fn compare(&self, other: &Value<'_>) -> Option<Ordering> {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
            (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
            (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
            (a, b) => compare_numbers(a, b),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of different types are compared as floats")]
fn compare_numbers(one: &Value<'_>, other: &Value<'_>) -> Option<Ordering> {
    use Value::{Double, Int, Uint};
    match (one, other) {
        (Int(a), Int(b)) => Some(a.cmp(b)),
        (Uint(a), Uint(b)) => Some(a.cmp(b)),
        (Double(a), Double(b)) => a.partial_cmp(b),
        (Int(a), Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Uint(a), Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Int(a), Double(b)) => (*a as f64).partial_cmp(b),
        (Double(a), Int(b)) => a.partial_cmp(&(*b as f64)),
        (Uint(a), Double(b)) => (*a as f64).partial_cmp(b),
        (Double(a), Uint(b)) => a.partial_cmp(&(*b as f64)),
        _ => None,
    }
}

fn of_text<'a>(text: &str, schema: Option<&Structural>) -> Result<Value<'a>, String> {
    let Some(schema) = schema.filter(|schema| !schema.int_or_string) else { return Ok(Value::text(text)) };
    Ok(match format(schema) {
        "duration" => Value::Duration(
            duration::parse(text).map_err(|why| format!("Invalid duration format: {text}: time: {why}"))?,
        ),
        "date" => Value::Timestamp(
            time::parse(&format!("{text}T00:00:00Z")).ok_or_else(|| format!("Invalid date formatted string {text}"))?,
        ),
        "date-time" => {
            Value::Timestamp(time::parse(text).ok_or_else(|| format!("Invalid date formatted string {text}"))?)
        }
        "byte" => {
            use base64::Engine as _;
            let bytes = base64::engine::general_purpose::STANDARD.decode(text);
            Value::Bytes(bytes.map_err(|why| format!("Invalid byte formatted string {text}: {why}"))?.into())
        }
        _ => Value::text(text),
    })
}

impl<'a> List<'a> {
    /// How many elements it has.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Made(items) => items.len(),
            Self::Json { items, .. } => items.len(),
        }
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An element.
    ///
    /// # Errors
    /// That it is not of its format.
    pub fn get(&self, at: usize) -> Result<Option<Value<'a>>, String> {
        match self {
            Self::Made(items) => Ok(items.get(at).cloned()),
            Self::Json { items, schema } => {
                let schema = schema.and_then(|s| s.items.as_deref());
                let root = schema.is_some_and(|s| s.embedded);
                items.get(at).map(|item| Value::of(item, schema, root)).transpose()
            }
        }
    }

    /// The elements; those that are not of their format are null.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        (0..self.len()).map(|at| self.get(at).ok().flatten().unwrap_or(Value::Null))
    }

    /// The list's keys, where it is a map, or that it is a set.
    fn list_type(&self) -> &'a ListType {
        match self {
            Self::Json { schema: Some(schema), .. } => &schema.list_type,
            _ => &ListType::Atomic,
        }
    }

    fn equals(&self, other: &List<'_>) -> bool {
        if self.len() != other.len() {
            return false;
        }
        if *self.list_type() == ListType::Atomic {
            return self.iter().zip(other.iter()).all(|(a, b)| a.equals(&b));
        }
        let known = Found::new(self.list_type(), other);
        self.iter().all(|a| match known.place(&a) {
            Place::At(at) => other.get(at).ok().flatten().is_some_and(|b| a.equals(&b)),
            Place::Nowhere => false,
            Place::Unknown => other.iter().any(|b| a.equals(&b)),
        })
    }

    /// Both lists as one: of sets what they share once, of maps the other's elements for the same keys.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Value<'a> {
        let mut out: Vec<Value<'a>> = self.iter().collect();
        if *self.list_type() == ListType::Atomic {
            out.extend(other.iter());
            return Value::list(out);
        }
        let mut known = Found::new(self.list_type(), self);
        for item in other.iter() {
            let place = match known.place(&item) {
                Place::Unknown => out.iter().position(|own| own.equals(&item)).map_or(Place::Nowhere, Place::At),
                place => place,
            };
            match place {
                Place::At(at) if matches!(self.list_type(), ListType::Map(_)) => out[at] = item,
                Place::At(_) => {}
                Place::Nowhere | Place::Unknown => {
                    known.note(&item, out.len());
                    out.push(item);
                }
            }
        }
        Value::list(out)
    }
}

/// Where the elements of a list that is a set or a map are, by what they are told apart by.
struct Found<'t> {
    list_type: &'t ListType,
    places: HashMap<String, usize>,
}

/// Where an element is.
enum Place {
    At(usize),
    Nowhere,
    /// It has nothing that it is told apart by.
    Unknown,
}

impl<'t> Found<'t> {
    fn new(list_type: &'t ListType, list: &List<'_>) -> Self {
        let mut found = Self { list_type, places: HashMap::new() };
        list.iter().enumerate().for_each(|(at, item)| found.note(&item, at));
        found
    }

    fn note(&mut self, item: &Value<'_>, at: usize) {
        if let Some(key) = self.key(item) {
            self.places.entry(key).or_insert(at);
        }
    }

    fn place(&self, item: &Value<'_>) -> Place {
        match self.key(item) {
            Some(key) => self.places.get(&key).map_or(Place::Nowhere, |at| Place::At(*at)),
            None => Place::Unknown,
        }
    }

    /// Equal elements have equal keys, and, of a set, only they have.
    fn key(&self, item: &Value<'_>) -> Option<String> {
        match (self.list_type, item) {
            (ListType::Map(keys), Value::Map(Map::Json { members, .. })) => {
                let key = keys.iter().map(|key| members.get(key).map(Json::to_string).unwrap_or_default());
                Some(key.collect::<Vec<_>>().join("\0"))
            }
            (ListType::Set, Value::String(text)) => Some(format!("s{text}")),
            (ListType::Set, Value::Int(number)) => Some(format!("i{number}")),
            (ListType::Set, Value::Bool(flag)) => Some(format!("b{flag}")),
            _ => None,
        }
    }
}

impl<'a> Map<'a> {
    /// How many members it has.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Made(pairs) => pairs.len(),
            Self::Json { members, schema: Some(schema), .. } if schema.additional().is_some() => members.len(),
            Self::Json { members, schema: None, .. } => members.len(),
            Self::Json { .. } => self.each_key().count(),
        }
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its keys: of an object, the names of the fields that its schema knows.
    #[must_use]
    pub fn keys(&self) -> Vec<Value<'a>> {
        self.each_key().collect()
    }

    /// As [`Map::keys`], each when it is asked for.
    pub fn each_key(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        let (made, own) = match self {
            Self::Made(pairs) => (Some(pairs.iter().map(|(key, _)| key.clone())), None),
            Self::Json { members, schema, root } => {
                let names = members.keys().filter_map(move |name| match schema {
                    Some(schema) if schema.additional().is_none() => {
                        let known = schema.property(name).is_some()
                            || (*root && matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
                        known.then(|| escape(name)).flatten()
                    }
                    _ => Some(name.to_string()),
                });
                (None, Some(names.map(Value::text)))
            }
        };
        made.into_iter().flatten().chain(own.into_iter().flatten())
    }

    /// The value of a key.
    ///
    /// # Errors
    /// That it is not of its format.
    pub fn get(&self, key: &Value<'_>) -> Result<Option<Value<'a>>, String> {
        match self {
            Self::Made(pairs) => Ok(pairs.iter().find(|(own, _)| own.equals(key)).map(|(_, value)| value.clone())),
            Self::Json { .. } => match key {
                Value::String(name) => self.field(name),
                _ => Ok(None),
            },
        }
    }

    /// The value of a field, by the name that expressions use.
    ///
    /// # Errors
    /// That it is not of its format.
    pub fn field(&self, name: &str) -> Result<Option<Value<'a>>, String> {
        let Self::Json { members, schema, root } = self else { return self.get(&Value::text(name)) };
        let Some(schema) = schema else {
            return members.get(name).map(|value| Value::of(value, None, false)).transpose();
        };
        if let Additional::Schema(values) = &schema.additional {
            return members.get(name).map(|value| Value::of(value, Some(values), values.embedded)).transpose();
        }
        if *root && matches!(name, "apiVersion" | "kind" | "metadata") {
            return members.get(name).map(|value| Value::of(value, None, false)).transpose();
        }
        let Some(own) = unescape(name) else { return Ok(None) };
        let Some(property) = schema.property(&own) else { return Ok(None) };
        members.get(&own).map(|value| Value::of(value, Some(property), property.embedded)).transpose()
    }

    fn equals(&self, other: &Map<'_>) -> bool {
        let keys = self.keys();
        keys.len() == other.len()
            && keys.iter().all(|key| match (self.get(key), other.get(key)) {
                (Ok(Some(a)), Ok(Some(b))) => a.equals(&b),
                _ => false,
            })
    }
}
