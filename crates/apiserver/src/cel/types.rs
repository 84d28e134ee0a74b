//! Types of expressions, and when one stands for another.

use std::fmt;
use std::sync::Arc;

use super::schema::ObjectType;

/// The type of one operation of a JSON patch.
pub const JSON_PATCH: &str = "JSONPatch";
/// The type of what is applied to an object; those of what is below begin with it and a dot.
pub const OBJECT: &str = "Object";

/// The types that an expression may name.
pub const NAMES: &[&str] = &[
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
    "optional_type",
    "google.protobuf.Timestamp",
    "google.protobuf.Duration",
    "kubernetes.Quantity",
    "kubernetes.URL",
    "kubernetes.Semver",
    "kubernetes.NamedFormat",
    "net.IP",
    "net.CIDR",
];

/// What an expression evaluates to.
#[derive(Debug, Clone)]
pub enum Type<'s> {
    /// Anything; checked when it is evaluated.
    Dyn,
    /// One value, of any type.
    Any,
    /// What has been complained of already.
    Error,
    /// `null`
    Null,
    /// True or false.
    Bool,
    /// A 64-bit integer.
    Int,
    /// One without a sign.
    Uint,
    /// A 64-bit float.
    Double,
    /// A text.
    String,
    /// Bytes.
    Bytes,
    /// A point in time.
    Timestamp,
    /// A length of time.
    Duration,
    /// The type of something.
    Type,
    /// A list.
    List(Arc<Type<'s>>),
    /// A map.
    Map(Arc<Type<'s>>, Arc<Type<'s>>),
    /// A value that may be absent.
    Optional(Arc<Type<'s>>),
    /// An object with fields.
    Object(ObjectType<'s>),
    /// An object that describes a change, by its type's name.
    Made(Arc<str>),
    /// A type of a library, by its name.
    Opaque(&'static str),
    /// A type that is still to be found out.
    Param(usize),
}

impl<'s> Type<'s> {
    /// A list of something.
    #[must_use]
    pub fn list(element: Self) -> Self {
        Self::List(Arc::new(element))
    }

    /// A map from something to something.
    #[must_use]
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    /// Something that may be absent.
    #[must_use]
    pub fn optional(inner: Self) -> Self {
        Self::Optional(Arc::new(inner))
    }

    /// Its name, as Kubernetes shows what an expression evaluates to.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Any => "google.protobuf.Any".to_owned(),
            Self::Null => "null_type".to_owned(),
            Self::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Self::Duration => "google.protobuf.Duration".to_owned(),
            Self::List(inner) => format!("list({})", inner.name()),
            Self::Map(key, value) => format!("map({}, {})", key.name(), value.name()),
            Self::Optional(inner) => format!("optional_type({})", inner.name()),
            other => other.to_string(),
        }
    }

    /// Whether it is known only when it is evaluated.
    #[must_use]
    pub fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any | Self::Error)
    }

    /// Whether two types are the same.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.same(b),
            (Self::Map(a, b), Self::Map(c, d)) => a.same(c) && b.same(d),
            (Self::Object(a), Self::Object(b)) => a.same(b),
            (Self::Opaque(a), Self::Opaque(b)) => a == b,
            (Self::Made(a), Self::Made(b)) => a == b,
            (Self::Param(a), Self::Param(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }

    /// Whether both are of one sort, so that they may stand side by side in a list or a map that an expression makes.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn | Self::Param(_), Self::Dyn | Self::Param(_))
            | (Self::Object(_) | Self::Made(_), Self::Object(_) | Self::Made(_)) => true,
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.is_like(b),
            (Self::Map(a, b), Self::Map(c, d)) => a.is_like(c) && b.is_like(d),
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }

    /// Whether null may stand for it.
    fn takes_null(&self) -> bool {
        matches!(
            self,
            Self::Object(_)
                | Self::Made(_)
                | Self::Null
                | Self::Duration
                | Self::Timestamp
                | Self::Opaque(_)
                | Self::Optional(_)
        )
    }

    fn is_more_general(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn | Self::Any | Self::Param(_), _) => true,
            (_, Self::Dyn | Self::Any | Self::Param(_)) => false,
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.is_more_general(b),
            (Self::Map(a, b), Self::Map(c, d)) => a.is_more_general(c) && b.is_more_general(d),
            (a, b) => a.same(b),
        }
    }

    /// The one of two types that stands for more.
    #[must_use]
    pub fn most_general(self, other: Self) -> Self {
        if self.is_more_general(&other) { self } else { other }
    }
}

/// As messages of the checker show it.
impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn | Self::Param(_) => f.write_str("dyn"),
            Self::Any => f.write_str("any"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::Type => f.write_str("type"),
            Self::List(inner) => write!(f, "list({inner})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Object(object) => object.fmt(f),
            Self::Opaque(name) => f.write_str(name),
            Self::Made(name) => f.write_str(name),
        }
    }
}

/// What types that were to be found out have turned out to be.
#[derive(Debug, Clone, Default)]
pub struct Substitutions<'s> {
    found: Vec<Option<Type<'s>>>,
    /// What was found before, of each that the present attempt has found out: the last one last.
    before: Vec<(usize, Option<Type<'s>>)>,
}

impl<'s> Substitutions<'s> {
    /// A type that is to be found out.
    pub fn fresh(&mut self) -> Type<'s> {
        self.found.push(None);
        Type::Param(self.found.len() - 1)
    }

    /// A type with what has been found out; with `to_dyn`, what has not is anything.
    #[must_use]
    pub fn apply(&self, kind: &Type<'s>, to_dyn: bool) -> Type<'s> {
        match kind {
            Type::Param(param) => match self.found.get(*param) {
                Some(Some(found)) => self.apply(found, to_dyn),
                _ if to_dyn => Type::Dyn,
                _ => kind.clone(),
            },
            Type::List(inner) => Type::list(self.apply(inner, to_dyn)),
            Type::Optional(inner) => Type::optional(self.apply(inner, to_dyn)),
            Type::Map(key, value) => Type::map(self.apply(key, to_dyn), self.apply(value, to_dyn)),
            other => other.clone(),
        }
    }

    /// Whether values of one type can be taken for those of another; finds out types on the way.
    pub fn assign(&mut self, actual: &Type<'s>, formal: &Type<'s>) -> bool {
        self.attempt(|attempt| attempt.fits(actual, formal))
    }

    /// As [`Substitutions::assign`], all at once.
    pub fn assign_all(&mut self, actual: &[Type<'s>], formal: &[Type<'s>]) -> bool {
        actual.len() == formal.len()
            && self.attempt(|attempt| actual.iter().zip(formal).all(|(a, f)| attempt.fits(a, f)))
    }

    /// Undoes what an attempt that does not fit has found out.
    fn attempt(&mut self, fits: impl FnOnce(&mut Self) -> bool) -> bool {
        self.before.clear();
        let fits = fits(self);
        if !fits {
            while let Some((param, before)) = self.before.pop() {
                self.found[param] = before;
            }
        }
        fits
    }

    /// Whether a parameter is a part of a type, by what has been found out of others: then it cannot be that type.
    fn mentions(&self, kind: &Type<'s>, param: usize) -> bool {
        match kind {
            Type::Param(own) if *own == param => true,
            Type::Param(own) => {
                self.found.get(*own).is_some_and(|found| found.as_ref().is_some_and(|kind| self.mentions(kind, param)))
            }
            Type::List(a) | Type::Optional(a) => self.mentions(a, param),
            Type::Map(a, b) => self.mentions(a, param) || self.mentions(b, param),
            _ => false,
        }
    }

    /// Whether a type has more parts than this, by what has been found out.
    #[must_use]
    pub fn is_larger(&self, kind: &Type<'s>, most: usize) -> bool {
        let mut left = most;
        !self.fits_in(kind, &mut left)
    }

    fn fits_in(&self, kind: &Type<'s>, left: &mut usize) -> bool {
        let Some(rest) = left.checked_sub(1) else { return false };
        *left = rest;
        match kind {
            Type::Param(own) => match self.found.get(*own) {
                Some(Some(found)) => self.fits_in(found, left),
                _ => true,
            },
            Type::List(a) | Type::Optional(a) => self.fits_in(a, left),
            Type::Map(a, b) => self.fits_in(a, left) && self.fits_in(b, left),
            _ => true,
        }
    }

    fn find(&mut self, param: usize, kind: Type<'s>) {
        let before = self.found[param].replace(kind);
        self.before.push((param, before));
    }

    fn fits(&mut self, actual: &Type<'s>, formal: &Type<'s>) -> bool {
        if let Type::Param(param) = formal {
            let (fits, known) = self.stands_for(actual, *param);
            if fits {
                return true;
            }
            if known {
                return false;
            }
        }
        if let Type::Param(param) = actual {
            return self.stands_for(formal, *param).0;
        }
        match (actual, formal) {
            (a, b) if a.is_dyn() || b.is_dyn() => true,
            (Type::Null, other) | (other, Type::Null) => other.takes_null(),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.fits(a, b),
            (Type::Map(a, b), Type::Map(c, d)) => self.fits(a, c) && self.fits(b, d),
            (a, b) => a.same(b),
        }
    }

    /// Whether a type can be what a parameter stands for, and whether that was known already.
    fn stands_for(&mut self, kind: &Type<'s>, param: usize) -> (bool, bool) {
        if matches!(kind, Type::Param(own) if *own == param) {
            return (true, true);
        }
        if let Some(found) = self.found.get(param).cloned().flatten() {
            if kind.same(&found) {
                return (true, true);
            }
            if !self.fits(kind, &found) {
                return (false, true);
            }
            let general = kind.clone().most_general(found);
            if !self.mentions(&general, param) {
                self.find(param, general);
            }
            return (true, true);
        }
        if self.mentions(kind, param) || param >= self.found.len() {
            return (false, false);
        }
        self.find(param, kind.clone());
        (true, false)
    }
}
