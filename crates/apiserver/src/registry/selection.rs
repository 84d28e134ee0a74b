//! Which objects a list or a watch is about: label and field selectors (API-10), shards (API-38).

use std::sync::Arc;

use muster_objects::selector::Selector;

use super::Served;
use super::sharding::ShardSelector;
use crate::kinds::Kind;
use crate::model::Object;
use crate::status::ApiError;
use crate::storage::{Common, Entry, Of};

/// Parsed selectors.
#[derive(Debug)]
pub struct Selection {
    labels: Selector,
    fields: Vec<FieldTerm>,
    shard: Option<ShardSelector>,
    /// The kind, where its objects have to be read to select by a field.
    read: Option<Arc<dyn Kind>>,
}

#[derive(Debug)]
struct FieldTerm {
    field: Field,
    /// `=` where true, `!=` where false.
    equal: bool,
    value: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
    /// One of the kind's own, by its place in `Resource::field_labels`.
    Own(usize),
    /// One of a custom kind, whose versions select by what each of them has.
    Custom(String),
}

impl Selection {
    /// Parses both selectors for a kind.
    ///
    /// # Errors
    /// 400 for one that cannot be parsed, or a field that the kind does not select by.
    pub fn parse(served: &Served, labels: &str, fields: &str) -> Result<Self, ApiError> {
        let labels = if labels.is_empty() {
            Selector::everything()
        } else {
            Selector::parse(labels).map_err(|e| ApiError::bad_request(e.to_string()))?
        };
        let fields = parse_fields(served, fields)?;
        let reads = fields.iter().any(|term| matches!(term.field, Field::Custom(_)));
        Ok(Self { labels, fields, shard: None, read: reads.then(|| Arc::clone(&served.kind)) })
    }

    /// Adds a shard selector, where there is one.
    ///
    /// # Errors
    /// 500, as on the real server, for what is none.
    pub fn shard(&mut self, text: &str) -> Result<(), ApiError> {
        self.shard = ShardSelector::parse(text)?;
        Ok(())
    }

    /// What a list of this selection says of itself, where it is of a shard.
    #[must_use]
    pub fn shard_info(&self) -> Option<String> {
        self.shard.as_ref().map(ToString::to_string)
    }

    /// Whether everything is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.shard.is_none() && self.is_every_attribute()
    }

    /// Whether everything is selected but for the shard.
    #[must_use]
    pub fn is_every_attribute(&self) -> bool {
        self.fields.is_empty() && self.labels.is_everything()
    }

    /// Whether an object is selected.
    #[must_use]
    pub fn matches(&self, entry: &Entry) -> bool {
        if self.shard.as_ref().is_some_and(|shard| !shard.matches(entry)) {
            return false;
        }
        let object = self.read.as_ref().map(|kind| {
            let mut object = entry.object();
            // What cannot be told in this version has no fields in it.
            if kind.custom().is_some_and(|custom| custom.read(std::slice::from_mut(&mut object)).is_err()) {
                object = Object::new();
            }
            (kind, object)
        });
        self.fields.iter().all(|term| {
            let own;
            let value = match &term.field {
                Field::Name => &*entry.name,
                Field::Namespace => &*entry.namespace,
                Field::Own(index) => entry.field(*index),
                Field::Custom(label) => {
                    own = object.as_ref().and_then(|(kind, object)| kind.field(object, label));
                    own.as_deref().unwrap_or_default()
                }
            };
            (value == term.value) == term.equal
        }) && self.labels.matches_fn(|key| entry.label(key))
    }

    /// The one name that can match, where there is one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.exactly(&Field::Name)
    }

    /// What the objects have in common that storage can find by itself.
    #[must_use]
    pub fn common(&self, namespace: &str) -> Common {
        let own = self.fields.iter().filter(|term| term.equal).find_map(|term| match term.field {
            Field::Own(at) => Some((Of::Field(at), term.value.as_str())),
            _ => None,
        });
        Common::from(namespace).with(own.or_else(|| Some((Of::Name, self.name()?))))
    }

    /// The one namespace that can match, where there is one.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.exactly(&Field::Namespace)
    }

    /// Narrows to one name, for a path that names an object.
    ///
    /// # Errors
    /// 400 when the field selector is about another name, or about anything else.
    pub fn narrow(&mut self, name: &str) -> Result<(), ApiError> {
        if !self.fields.is_empty() {
            if self.name() == Some(name) {
                return Ok(());
            }
            return Err(ApiError::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        self.fields.push(FieldTerm { field: Field::Name, equal: true, value: name.to_owned() });
        Ok(())
    }

    fn exactly(&self, field: &Field) -> Option<&str> {
        self.fields.iter().find(|t| t.equal && t.field == *field).map(|t| t.value.as_str())
    }
}

/// The one name that a field selector asks for, before it is known for which kind. One with an escape is none.
#[must_use]
pub fn name_in(text: &str) -> Option<&str> {
    let mut name = None;
    for part in split_terms(text).into_iter().filter(|part| !part.is_empty()) {
        let (label, equal, value) = split_term(part)?;
        if equal && label == "metadata.name" && name.is_none() {
            name = Some(value);
        }
    }
    name.filter(|name| !name.contains('\\'))
}

/// Whether a text is a field selector, for whichever kind.
#[must_use]
pub fn are_fields(text: &str) -> bool {
    let mut terms = split_terms(text).into_iter().filter(|term| !term.is_empty());
    terms.all(|term| split_term(term).is_some_and(|(_, _, value)| unescape(value).is_ok()))
}

fn parse_fields(served: &Served, text: &str) -> Result<Vec<FieldTerm>, ApiError> {
    let mut parts = split_terms(text);
    parts.sort_unstable();
    let mut terms = Vec::new();
    for part in parts.into_iter().filter(|p| !p.is_empty()) {
        let Some((label, equal, value)) = split_term(part) else {
            return Err(ApiError::bad_request(format!("invalid selector: '{text}'; can't understand '{part}'")));
        };
        let value = unescape(value)?;
        if label.is_empty() && value.is_empty() {
            continue;
        }
        terms.push(FieldTerm { field: field_of(served, label)?, equal, value });
    }
    Ok(terms)
}

fn field_of(served: &Served, label: &str) -> Result<Field, ApiError> {
    let resource = served.resource();
    match label {
        "metadata.name" => return Ok(Field::Name),
        // Cluster-scoped kinds with a list of their own do not have it.
        "metadata.namespace" if resource.namespaced || !served.resource().own_field_labels => {
            return Ok(Field::Namespace);
        }
        _ => {}
    }
    if let Some(custom) = served.kind.custom()
        && custom.version().selectable.iter().any(|(name, _)| name == label)
    {
        return Ok(Field::Custom(label.to_owned()));
    }
    if let Some(index) = resource.field_labels.iter().position(|l| *l == label) {
        return Ok(Field::Own(index));
    }
    Err(ApiError::bad_request(if served.resource().own_field_labels {
        (resource.unknown_label)(label)
    } else {
        let quoted = crate::field::go_quote(label);
        format!("{quoted} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    }))
}

/// Splits at commas that no backslash precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (at, _) in term.char_indices() {
        let rest = &term[at..];
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Some((&term[..at], equal, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, ApiError> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                Some(other) => {
                    let message = format!("invalid field selector: invalid escape sequence: \\{other}");
                    return Err(ApiError::bad_request(message));
                }
                None => return Err(ApiError::bad_request("invalid field selector: invalid escape sequence: \\")),
            },
            ',' | '=' => {
                return Err(ApiError::bad_request(format!(
                    "invalid field selector: unescaped character in value: {}",
                    c as u32
                )));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}
