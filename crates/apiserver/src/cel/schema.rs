//! Objects with fields: what a schema declares to expressions, and how large values of it may get.

use std::fmt;

use muster_tree::Value;

use super::LARGEST_REQUEST;
use super::types::Type;
use crate::custom::structural::{Additional, Kind, Structural};
use crate::validation::name::CEL_WORDS;

/// An object whose fields are known.
#[derive(Debug, Clone, Copy)]
pub enum ObjectType<'s> {
    /// By a schema; `root` says that it has `apiVersion`, `kind` and the names in `metadata` as well.
    Schema {
        /// The schema.
        schema: &'s Structural,
        /// Whether it is a whole object.
        root: bool,
    },
    /// The metadata of a whole object: `name` and `generateName`.
    Metadata,
    /// By a table of fields.
    Fields(&'static FieldTable),
    /// By a list of fields.
    Listed {
        /// The type's name.
        name: &'static str,
        /// Its fields and their types.
        fields: &'s [(String, Type<'static>)],
    },
}

/// A field, and what makes its type.
pub type Member = (&'static str, fn() -> Type<'static>);

/// A table of fields, for variables that are not custom objects.
#[derive(Debug)]
pub struct FieldTable {
    /// The type's name.
    pub name: &'static str,
    /// Its fields.
    pub fields: &'static [Member],
}

impl<'s> ObjectType<'s> {
    /// Whether two are the same type.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Schema { schema: a, root: r }, Self::Schema { schema: b, root: s }) => {
                std::ptr::eq(*a, *b) && r == s
            }
            (Self::Metadata, Self::Metadata) => true,
            (Self::Fields(a), Self::Fields(b)) => a.name == b.name,
            (Self::Listed { name: a, .. }, Self::Listed { name: b, .. }) => a == b,
            _ => false,
        }
    }

    /// The type of a field, by the name that expressions use.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<Type<'s>> {
        match self {
            Self::Schema { schema, root } => {
                if *root {
                    match name {
                        "apiVersion" | "kind" => return Some(Type::String),
                        "metadata" => return Some(Type::Object(Self::Metadata)),
                        _ => {}
                    }
                }
                let property = schema.property(&unescape(name)?)?;
                type_of(property, property.embedded)
            }
            Self::Metadata => matches!(name, "name" | "generateName").then_some(Type::String),
            Self::Fields(table) => {
                let (_, kind) = table.fields.iter().find(|(field, _)| *field == name)?;
                Some(kind())
            }
            Self::Listed { fields, .. } => {
                fields.iter().rev().find(|(field, _)| field == name).map(|(_, kind)| kind.clone())
            }
        }
    }
}

impl fmt::Display for ObjectType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fields(table) => table.name,
            Self::Listed { name, .. } => name,
            Self::Schema { .. } | Self::Metadata => "object",
        })
    }
}

/// The type that a schema declares; `None` for what expressions cannot see.
#[must_use]
pub fn type_of(schema: &Structural, root: bool) -> Option<Type<'_>> {
    if schema.int_or_string {
        return Some(Type::Dyn);
    }
    Some(match schema.kind? {
        Kind::Array => {
            let items = schema.items.as_deref()?;
            Type::list(type_of(items, items.embedded)?)
        }
        Kind::Object => match &schema.additional {
            Additional::Schema(values) if !root => Type::map(Type::String, type_of(values, values.embedded)?),
            _ => Type::Object(ObjectType::Schema { schema, root }),
        },
        Kind::String => match format(schema) {
            "byte" => Type::Bytes,
            "duration" => Type::Duration,
            "date" | "date-time" => Type::Timestamp,
            _ => Type::String,
        },
        Kind::Boolean => Type::Bool,
        Kind::Number => Type::Double,
        Kind::Integer => Type::Int,
    })
}

/// The format of a text.
#[must_use]
pub fn format(schema: &Structural) -> &str {
    schema.checks.as_ref().map_or("", |checks| &checks.format)
}

/// How many characters, elements or members a value may have.
#[must_use]
pub fn most_elements(schema: &Structural) -> u64 {
    let checks = schema.checks.as_deref();
    let bound = |bound: Option<i64>| bound.map(|bound| u64::try_from(bound).unwrap_or_default());
    let longest = bound(checks.and_then(|c| c.max_length));
    if schema.int_or_string {
        return longest.map_or(LARGEST_REQUEST - 2, |most| most * 4);
    }
    match schema.kind {
        Some(Kind::Array) => bound(checks.and_then(|c| c.max_items)).unwrap_or_else(|| {
            let element = schema.items.as_deref().map_or(1, least_size);
            (LARGEST_REQUEST - 2) / (element + 1)
        }),
        Some(Kind::Object) => match schema.additional() {
            Some(values) => bound(checks.and_then(|c| c.max_properties))
                .unwrap_or_else(|| (LARGEST_REQUEST - 2) / (least_size(values) + 6)),
            None => 0,
        },
        Some(Kind::String) => match (format(schema), longest) {
            ("duration", _) => 32,
            ("date", _) => 12,
            ("date-time", _) => 32,
            ("byte", Some(most)) => most,
            (_, Some(most)) => most * 4,
            (_, None) => checks.and_then(longest_value).unwrap_or(LARGEST_REQUEST - 2),
        },
        _ => 0,
    }
}

fn longest_value(checks: &crate::custom::structural::Checks) -> Option<u64> {
    let lengths = checks.values.iter().filter_map(Value::as_str).map(|text| text.len() as u64);
    (!checks.values.is_empty()).then(|| lengths.max().unwrap_or_default())
}

/// How few bytes a value may have in JSON.
#[must_use]
pub fn least_size(schema: &Structural) -> u64 {
    if schema.int_or_string {
        return 1;
    }
    match schema.kind {
        Some(Kind::Object) if schema.additional().is_none() => {
            let required = schema.checks.iter().flat_map(|checks| &checks.required);
            let sizes = required.filter_map(|name| {
                let property = schema.property(name)?;
                let exposed = type_of(property, property.embedded).is_some();
                (exposed && property.default.is_none()).then(|| name.len() as u64 + least_size(property) + 4)
            });
            2 + sizes.sum::<u64>()
        }
        Some(Kind::Array | Kind::Object) => 2,
        Some(Kind::String) => match format(schema) {
            "duration" => 3,
            "date" => 12,
            "date-time" => 21,
            _ => 2,
        },
        Some(Kind::Boolean) => 4,
        _ => 1,
    }
}

/// The name that expressions use for a field; `None` where they cannot name it.
#[must_use]
pub fn escape(name: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/');
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(allowed) {
        return None;
    }
    if CEL_WORDS.contains(&name) {
        return Some(format!("__{name}__"));
    }
    Some(
        name.replace("__", "__underscores__")
            .replace('.', "__dot__")
            .replace('-', "__dash__")
            .replace('/', "__slash__"),
    )
}

/// The field that a name of an expression means; `None` where it means none. A word that the language has for itself
/// also stands for the field of that name.
#[must_use]
pub fn unescape(name: &str) -> Option<String> {
    if !name.contains("__") {
        return Some(name.to_owned());
    }
    let word = name.strip_prefix("__").and_then(|n| n.strip_suffix("__"));
    if let Some(word) = word.filter(|word| CEL_WORDS.contains(word)) {
        return Some(word.to_owned());
    }
    let plain = name
        .replace("__dot__", ".")
        .replace("__dash__", "-")
        .replace("__slash__", "/")
        .replace("__underscores__", "__");
    (escape(&plain).as_deref() == Some(name)).then_some(plain)
}
