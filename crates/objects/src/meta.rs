//! Metadata: who an object is, which version of it this is, and who controls it.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::labels::Labels;
use crate::time::Timestamp;

/// The metadata that every controller reads, of every kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// The namespace; empty for a kind that has none.
    pub namespace: Arc<str>,
    /// The name, unique for the kind in its namespace.
    pub name: Arc<str>,
    /// What tells two objects of the same name at different times apart.
    pub uid: Uid,
    /// The version of this state of the object; 0 where the server sent none.
    pub resource_version: ResourceVersion,
    /// Rises with every change of the spec; 0 for kinds that do not count.
    pub generation: i64,
    /// When the server created it; `None` is Go's zero time.
    pub creation_timestamp: Option<Timestamp>,
    /// Present once a graceful deletion was asked for.
    pub deletion_timestamp: Option<Timestamp>,
    /// The labels.
    pub labels: Labels,
    /// The one owner reference with `controller: true`, where there is one.
    pub controller: Option<Arc<ControllerRef>>,
}

impl Meta {
    /// The key by which queues and caches know the object.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey { namespace: Arc::clone(&self.namespace), name: Arc::clone(&self.name) }
    }

    /// Whether a deletion was asked for.
    #[must_use]
    pub fn is_being_deleted(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Whether `owner`'s uid is that of this object's controller, as `metav1.IsControlledBy` asks.
    #[must_use]
    pub fn is_controlled_by(&self, owner: &Uid) -> bool {
        self.controller.as_ref().is_some_and(|controller| controller.uid == *owner)
    }
}

impl Default for Meta {
    fn default() -> Self {
        Self {
            namespace: Arc::from(""),
            name: Arc::from(""),
            uid: Uid::default(),
            resource_version: ResourceVersion::default(),
            generation: 0,
            creation_timestamp: None,
            deletion_timestamp: None,
            labels: Labels::EMPTY,
            controller: None,
        }
    }
}

/// An object's uid: sixteen bytes where it is written as a canonical uuid (as every API server
/// does), the text itself otherwise. Ordered as its text is.
#[derive(Clone)]
pub struct Uid(UidForm);

#[derive(Clone)]
enum UidForm {
    Uuid([u8; 16]),
    Text(Arc<str>),
}

impl Uid {
    /// The uid of that text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(parse_uuid(text).map_or_else(|| UidForm::Text(Arc::from(text)), UidForm::Uuid))
    }

    /// The uid whose text is the canonical form of these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(UidForm::Uuid(bytes))
    }

    /// Whether it is the empty text, which is no object's uid.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, UidForm::Text(text) if text.is_empty())
    }
}

impl Default for Uid {
    /// The empty uid.
    fn default() -> Self {
        Self::new("")
    }
}

impl PartialEq for Uid {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (UidForm::Uuid(a), UidForm::Uuid(b)) => a == b,
            (UidForm::Text(a), UidForm::Text(b)) => a == b,
            // A canonical uuid is always held as bytes.
            _ => false,
        }
    }
}

impl Eq for Uid {}

impl PartialOrd for Uid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Uid {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            // Lower-case hex digits sort as the numbers do, and the dashes stand in the same places.
            (UidForm::Uuid(a), UidForm::Uuid(b)) => a.cmp(b),
            (UidForm::Text(a), UidForm::Text(b)) => a.cmp(b),
            (UidForm::Uuid(a), UidForm::Text(b)) => uuid_text(a).as_slice().cmp(b.as_bytes()),
            (UidForm::Text(a), UidForm::Uuid(b)) => a.as_bytes().cmp(uuid_text(b).as_slice()),
        }
    }
}

impl Hash for Uid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            UidForm::Uuid(bytes) => state.write(bytes),
            UidForm::Text(text) => text.hash(state),
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            UidForm::Uuid(bytes) => uuid_text(bytes).iter().try_for_each(|byte| f.write_char(char::from(*byte))),
            UidForm::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uid({self})")
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl Serialize for Uid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::wire::Text::deserialize(deserializer).map(|text| Self::new(&text))
    }
}

/// Where the dashes stand in a uuid's 36 characters.
const DASHES: [usize; 4] = [8, 13, 18, 23];

/// The bytes of a uuid in canonical form: 36 characters, lower case, dashes in their places.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let text: &[u8; 36] = text.as_bytes().try_into().ok()?;
    let mut bytes = [0; 16];
    let mut digits = 0;
    for (at, byte) in text.iter().enumerate() {
        let nibble = match byte {
            b'-' if DASHES.contains(&at) => continue,
            _ if DASHES.contains(&at) => return None,
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        bytes[digits / 2] = bytes[digits / 2] << 4 | nibble;
        digits += 1;
    }
    Some(bytes)
}

fn uuid_text(bytes: &[u8; 16]) -> [u8; 36] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; 36];
    let mut at = 0;
    for byte in bytes {
        if DASHES.contains(&at) {
            at += 1;
        }
        text[at] = HEX[usize::from(byte >> 4)];
        text[at + 1] = HEX[usize::from(byte & 15)];
        at += 2;
    }
    text
}

/// The version of an object's state: one counter for the whole server (API-07), comparable between
/// objects of one kind. 0 means that none is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ResourceVersion(pub u64);

impl ResourceVersion {
    /// No version is known.
    pub const UNKNOWN: Self = Self(0);

    /// Whether a version is known at all.
    #[must_use]
    pub const fn is_known(self) -> bool {
        self.0 != 0
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ResourceVersion {
    type Err = ResourceVersionError;

    /// Takes a decimal number without sign or leading zeros, as apimachinery's comparison does.
    fn from_str(text: &str) -> Result<Self, ResourceVersionError> {
        let canonical = text == "0" || (!text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit()));
        let number = if canonical { text.parse().ok() } else { None };
        number.map(Self).ok_or_else(|| ResourceVersionError { text: text.into() })
    }
}

impl Serialize for ResourceVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ResourceVersion {
    /// An empty text or null is [`ResourceVersion::UNKNOWN`]; other non-numbers are errors.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = crate::wire::Text::deserialize(deserializer)?;
        if text.is_empty() { Ok(Self::UNKNOWN) } else { text.parse().map_err(serde::de::Error::custom) }
    }
}

/// A resource version that is no decimal number, and therefore cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("resource version is not well formed: {text}")]
pub struct ResourceVersionError {
    /// What stood there.
    pub text: Box<str>,
}

/// Namespace and name: what queues, caches and expectations are keyed by. `Display` writes
/// `namespace/name`, or the name alone for a kind without namespaces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace; empty for a kind that has none.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of that namespace and name.
    #[must_use]
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// The owner reference that is the controller: the type itself says `controller: true`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControllerRef {
    /// The owner's group and version.
    pub api_version: Arc<str>,
    /// The owner's kind.
    pub kind: Arc<str>,
    /// The owner's name; its namespace is that of the object.
    pub name: Arc<str>,
    /// The owner's uid: a reference to another object of the same name resolves to nothing.
    pub uid: Uid,
}

impl ControllerRef {
    /// A reference to the object of this kind and metadata, as `metav1.NewControllerRef` makes it.
    #[must_use]
    pub fn to(api_version: &str, kind: &str, owner: &Meta) -> Self {
        Self {
            api_version: Arc::from(api_version),
            kind: Arc::from(kind),
            name: Arc::clone(&owner.name),
            uid: owner.uid.clone(),
        }
    }

    /// The full wire form, with `controller` and `blockOwnerDeletion` true (RS-08, RS-10).
    #[must_use]
    pub fn to_owner_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: self.api_version.to_string(),
            kind: self.kind.to_string(),
            name: self.name.to_string(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

/// An owner reference in its full wire form, in the order in which Go writes its fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// The owner's group and version.
    #[serde(default)]
    pub api_version: String,
    /// The owner's kind.
    #[serde(default)]
    pub kind: String,
    /// The owner's name.
    #[serde(default)]
    pub name: String,
    /// The owner's uid.
    #[serde(default)]
    pub uid: Uid,
    /// Whether this owner is the managing controller; at most one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether a foreground deletion of the owner waits for this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}
