//! A compiled schema: what every walk over an object looks at, and nothing else.
//!
//! It is made from a [`Props`] that validation has let through. Descriptions are not in it, and what few schemas have
//! (bounds, alternatives, rules) is apart, so that a server with hundreds of definitions stays small.

use muster_tree::Value;

use super::pattern::Pattern;
use super::props::{Items, Props, PropsOrBool};
use super::rules::CompiledRule;

/// What the type of a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A list.
    Array,
    /// True or false.
    Boolean,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// Named members.
    Object,
    /// A text.
    String,
}

impl Kind {
    /// The kind with a name; `None` for an unknown one.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "array" => Self::Array,
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "object" => Self::Object,
            "string" => Self::String,
            _ => return None,
        })
    }

    /// Its name in schemas.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Object => "object",
            Self::String => "string",
        }
    }
}

/// What the elements of a list are to each other.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum ListType {
    /// Nothing: the list is one value.
    #[default]
    Atomic,
    /// Distinct.
    Set,
    /// Told apart by these members.
    Map(Box<[Box<str>]>),
}

/// What the members that a schema does not name are.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Additional {
    /// Not said.
    #[default]
    Unsaid,
    /// Anything, or nothing.
    Bool(bool),
    /// This.
    Schema(Box<Structural>),
}

/// A compiled schema of a value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Structural {
    /// What it is; `None` for anything.
    pub kind: Option<Kind>,
    /// Whether null is a value.
    pub nullable: bool,
    /// Whether unknown members stay.
    pub preserve_unknown: bool,
    /// Whether it is a whole object of Kubernetes.
    pub embedded: bool,
    /// Whether it is an integer or a string.
    pub int_or_string: bool,
    /// Whether it is said to have a format, known or not; bytes are written as plain text.
    pub formatted: bool,
    /// Whether field managers own a map as a whole.
    pub atomic_map: bool,
    /// What the elements are to each other.
    pub list_type: ListType,
    /// What an absent value becomes.
    pub default: Option<Box<Value>>,
    /// What the elements are.
    pub items: Option<Box<Structural>>,
    /// What the named members are, by name.
    pub properties: Box<[(Box<str>, Structural)]>,
    /// What the other members are.
    pub additional: Additional,
    /// What a value has to be beside its type.
    pub checks: Option<Box<Checks>>,
    /// Rules in CEL.
    pub rules: Box<[CompiledRule]>,
    /// What few schemas have, here or below: walks that are only about that pass all others by.
    pub holds: Holds,
}

/// What a schema has, itself or below.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holds {
    /// Rules.
    pub rules: bool,
    /// Whole objects of Kubernetes.
    pub embedded: bool,
    /// Lists whose elements are distinct.
    pub distinct: bool,
}

/// What a value has to be beside its type.
#[derive(Debug, Clone, Default)]
pub struct Checks {
    /// What a text or number is; empty where the format is unknown.
    pub format: Box<str>,
    /// The largest number, and whether it is itself too large.
    pub maximum: Option<(f64, bool)>,
    /// The smallest number, and whether it is itself too small.
    pub minimum: Option<(f64, bool)>,
    /// What a number is a multiple of.
    pub multiple_of: Option<f64>,
    /// The most characters.
    pub max_length: Option<i64>,
    /// The fewest characters.
    pub min_length: Option<i64>,
    /// What a text matches.
    pub pattern: Option<Pattern>,
    /// The most elements.
    pub max_items: Option<i64>,
    /// The fewest elements.
    pub min_items: Option<i64>,
    /// The most members.
    pub max_properties: Option<i64>,
    /// The fewest members.
    pub min_properties: Option<i64>,
    /// The values that there are.
    pub values: Vec<Value>,
    /// The members that have to be there.
    pub required: Vec<Box<str>>,
    /// All of these hold.
    pub all_of: Vec<Structural>,
    /// At least one of these holds.
    pub any_of: Vec<Structural>,
    /// Exactly one of these holds.
    pub one_of: Vec<Structural>,
    /// This does not hold.
    pub not: Option<Structural>,
}

impl PartialEq for Checks {
    fn eq(&self, other: &Self) -> bool {
        // Patterns are equal by their text; everything else by value.
        let text = |c: &Self| c.pattern.as_ref().map(|p| p.text().to_owned());
        let scalars = |c: &Self| {
            (
                (c.format.clone(), c.maximum, c.minimum, c.multiple_of),
                (c.max_length, c.min_length, c.max_items, c.min_items, c.max_properties, c.min_properties),
            )
        };
        text(self) == text(other)
            && scalars(self) == scalars(other)
            && self.values == other.values
            && self.required == other.required
            && self.all_of == other.all_of
            && self.any_of == other.any_of
            && self.one_of == other.one_of
            && self.not == other.not
    }
}

impl Structural {
    /// Compiles a schema.
    #[must_use]
    pub fn new(props: &Props) -> Self {
        let list_type = match props.list_type.as_deref() {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(props.list_map_keys.iter().map(|k| k.as_str().into()).collect()),
            _ => ListType::Atomic,
        };
        let compiled = Self {
            kind: Kind::of(&props.kind),
            nullable: props.nullable,
            preserve_unknown: props.preserve_unknown_fields == Some(true),
            embedded: props.embedded_resource,
            int_or_string: props.int_or_string,
            formatted: !matches!(props.format.as_str(), "" | "byte"),
            atomic_map: props.map_type.as_deref() == Some("atomic"),
            list_type,
            default: props.default.clone().map(Box::new),
            items: match &props.items {
                Some(Items::One(item)) => Some(Box::new(Self::new(item))),
                _ => None,
            },
            properties: props.properties.iter().map(|(name, p)| (name.as_str().into(), Self::new(p))).collect(),
            additional: match &props.additional_properties {
                None => Additional::Unsaid,
                Some(PropsOrBool::Bool(allowed)) => Additional::Bool(*allowed),
                Some(PropsOrBool::Props(below)) => Additional::Schema(Box::new(Self::new(below))),
            },
            checks: checks(props).map(Box::new),
            rules: props.validations.iter().cloned().map(CompiledRule::new).collect(),
            holds: Holds::default(),
        };
        Self { holds: compiled.held(), ..compiled }
    }

    fn held(&self) -> Holds {
        let own = Holds {
            rules: !self.rules.is_empty(),
            embedded: self.embedded,
            distinct: self.list_type != ListType::Atomic,
        };
        let members = self.properties.iter().map(|(_, property)| property);
        members.chain(self.items.as_deref()).chain(self.additional()).fold(own, |all, below| Holds {
            rules: all.rules | below.holds.rules,
            embedded: all.embedded | below.holds.embedded,
            distinct: all.distinct | below.holds.distinct,
        })
    }

    /// The schema of a named member.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&Self> {
        let at = self.properties.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
        Some(&self.properties[at].1)
    }

    /// The schema of members without a name here.
    #[must_use]
    pub fn additional(&self) -> Option<&Self> {
        match &self.additional {
            Additional::Schema(schema) => Some(schema),
            _ => None,
        }
    }

    /// The schema of a member, named or not.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Self> {
        self.property(name).or_else(|| self.additional())
    }

    /// The type as messages show it; empty for anything.
    #[must_use]
    pub fn kind_name(&self) -> &'static str {
        self.kind.map_or("", Kind::name)
    }
}

/// The checks of a schema; `None` where it has none.
fn checks(props: &Props) -> Option<Checks> {
    let many = |list: &[Props]| list.iter().map(Structural::new).collect::<Vec<_>>();
    let format = if super::formats::is_known(props) { props.format.as_str() } else { "" };
    let checks = Checks {
        format: format.into(),
        maximum: props.maximum.map(|bound| (bound, props.exclusive_maximum)),
        minimum: props.minimum.map(|bound| (bound, props.exclusive_minimum)),
        multiple_of: props.multiple_of,
        max_length: props.max_length,
        min_length: props.min_length,
        pattern: (!props.pattern.is_empty()).then(|| Pattern::new(&props.pattern)),
        max_items: props.max_items,
        min_items: props.min_items,
        max_properties: props.max_properties,
        min_properties: props.min_properties,
        values: props.values.clone(),
        required: props.required.iter().map(|name| name.as_str().into()).collect(),
        all_of: many(&props.all_of),
        any_of: many(&props.any_of),
        one_of: many(&props.one_of),
        not: props.not.as_deref().map(Structural::new),
    };
    (checks != Checks::default()).then_some(checks)
}
