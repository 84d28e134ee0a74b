//! Field errors: what validation says of one field, in Kubernetes' own words.
//!
//! The texts are those of apimachinery's `util/validation/field`; clients show them to people and
//! tests compare them, so they are part of the protocol (API-06).

pub mod path;

use std::collections::HashSet;
use std::fmt;

use muster_objects::names::GoQuoted;
use muster_tree::Value;

/// What is wrong with a field; the variants are the reasons a `Status` cause can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// `FieldValueNotFound`
    NotFound,
    /// `FieldValueRequired`
    Required,
    /// `FieldValueDuplicate`
    Duplicate,
    /// `FieldValueInvalid`
    Invalid,
    /// `FieldValueNotSupported`
    NotSupported,
    /// `FieldValueForbidden`
    Forbidden,
    /// `FieldValueTooLong`
    TooLong,
    /// `FieldValueTooMany`
    TooMany,
    /// `InternalError`
    Internal,
    /// `FieldValueTypeInvalid`
    TypeInvalid,
}

impl ErrorKind {
    /// The reason written into a `StatusCause`.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    /// The words that begin the message.
    fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }
}

/// One field's error. `Display` gives `<field>: <body>`; [`FieldError::body`] the part after it,
/// which is what a `StatusCause` carries as its message.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// What kind of error.
    pub kind: ErrorKind,
    /// The path of the field, such as `spec.containers[0].image`.
    pub field: String,
    /// The value found, where the message shows it.
    pub value: Option<Shown>,
    /// What was expected.
    pub detail: String,
}

/// How a found value is written into a message, as Go would print it.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    /// A string: quoted.
    Str(String),
    /// A number, a boolean, or anything whose text stands as it is.
    Bare(String),
    /// A structure: its JSON.
    Json(Value),
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Str(s) => write!(f, "{}", go_quote(s)),
            Self::Bare(s) => f.write_str(s),
            Self::Json(v) => write!(f, "{v}"),
        }
    }
}

impl From<&str> for Shown {
    fn from(s: &str) -> Self {
        Self::Str(s.to_owned())
    }
}
impl From<String> for Shown {
    fn from(s: String) -> Self {
        Self::Str(s)
    }
}
impl From<i64> for Shown {
    fn from(n: i64) -> Self {
        Self::Bare(n.to_string())
    }
}
impl From<bool> for Shown {
    fn from(b: bool) -> Self {
        Self::Bare(b.to_string())
    }
}
impl From<&Value> for Shown {
    fn from(v: &Value) -> Self {
        match v {
            Value::Null => Self::Bare("null".to_owned()),
            Value::String(s) => Self::Str(s.to_string()),
            Value::Bool(_) | Value::Number(_) => Self::Bare(v.to_string()),
            Value::Array(_) | Value::Object(_) => Self::Json(v.clone()),
        }
    }
}

/// How many items there may be: one, or several.
pub fn at_most(most: impl fmt::Display) -> String {
    let most = most.to_string();
    let items = if most == "1" { "item" } else { "items" };
    format!("must have at most {most} {items}")
}

impl FieldError {
    /// `Required value`, with an optional explanation.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Required, field: field.into(), value: None, detail: detail.into() }
    }
    /// `Invalid value: <value>: <detail>`.
    pub fn invalid(field: impl Into<String>, value: impl Into<Shown>, detail: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Invalid, field: field.into(), value: Some(value.into()), detail: detail.into() }
    }
    /// `Forbidden: <detail>`.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Forbidden, field: field.into(), value: None, detail: detail.into() }
    }
    /// `Duplicate value: <value>`.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Shown>) -> Self {
        Self { kind: ErrorKind::Duplicate, field: field.into(), value: Some(value.into()), detail: String::new() }
    }
    /// `Not found: <value>`.
    pub fn not_found(field: impl Into<String>, value: impl Into<Shown>) -> Self {
        Self { kind: ErrorKind::NotFound, field: field.into(), value: Some(value.into()), detail: String::new() }
    }
    /// `Unsupported value: <value>: supported values: "a", "b"`.
    pub fn not_supported(field: impl Into<String>, value: impl Into<Shown>, supported: &[&str]) -> Self {
        let detail = if supported.is_empty() {
            String::new()
        } else {
            let quoted: Vec<String> = supported.iter().map(|s| go_quote(s)).collect();
            format!("supported values: {}", quoted.join(", "))
        };
        Self { kind: ErrorKind::NotSupported, field: field.into(), value: Some(value.into()), detail }
    }
    /// `Internal error: <detail>`.
    pub fn internal(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Internal, field: field.into(), value: None, detail: detail.into() }
    }
    /// `Invalid value: <detail>`, where the value would not help.
    pub fn wrong(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Invalid, field: field.into(), value: None, detail: detail.into() }
    }
    /// `Too many: <found>: must have at most <max> items`.
    pub fn too_many(field: impl Into<String>, found: usize, max: usize) -> Self {
        Self {
            kind: ErrorKind::TooMany,
            field: field.into(),
            value: Some(Shown::Bare(found.to_string())),
            detail: at_most(max),
        }
    }
    /// `Too long: may not be more than <max> bytes`.
    pub fn too_long(field: impl Into<String>, max: usize) -> Self {
        Self {
            kind: ErrorKind::TooLong,
            field: field.into(),
            value: None,
            detail: format!("may not be more than {max} bytes"),
        }
    }

    /// The message without the field's path.
    #[must_use]
    pub fn body(&self) -> String {
        let mut out = self.kind.words().to_owned();
        if let Some(value) = &self.value {
            out.push_str(&format!(": {value}"));
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// Several errors as one message: alone as it is, else bracketed and comma separated, each text once.
#[must_use]
pub fn aggregate(errors: &[FieldError]) -> String {
    join(errors.iter().map(ToString::to_string))
}

/// Several messages as one, each once.
#[must_use]
pub fn join(messages: impl IntoIterator<Item = String>) -> String {
    let (mut known, mut told) = (HashSet::new(), Vec::new());
    for message in messages {
        if !known.contains(&message) {
            known.insert(message.clone());
            told.push(message);
        }
    }
    match told.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// What Go's JSON library calls a value.
#[must_use]
pub fn json_word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A string in double quotes as Go's `%q` writes it.
#[must_use]
pub fn go_quote(s: &str) -> String {
    GoQuoted(s).to_string()
}
