//! One stored version of an object: its JSON, and the little that selecting needs.

use std::io::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf as _, Bytes};
use muster_tree::{Map, Value};

use super::ResourceId;
use super::text::{Dictionaries, Text};
use super::watch::EventKind;

/// An object's labels, sorted by key.
pub type LabelSet = Arc<[(Box<str>, Box<str>)]>;

/// One version of an object, immutable.
///
/// The JSON begins with `kind` and `apiVersion`, so that a list item (which has neither) is the rest of the same
/// bytes; and where `resourceVersion` stands in it is known, so that a commit, which is the first to know the
/// version, copies and does not serialise.
///
/// A large member that is the same as in the version before is shared with it: the versions of a definition with its
/// schema, which differ in their status, take the schema's bytes once.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// The namespace; empty for a cluster's object.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
    /// The uid.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub version: u64,
    /// The labels.
    pub labels: LabelSet,
    /// The values that field selectors can ask for, each ended by a zero byte.
    fields: Box<str>,
    /// The line of the watch event that made this version, of which the object's JSON is a part: up to the shared member.
    head: Text,
    /// A large member, which other versions may share; empty where there is none.
    shared: Bytes,
    /// What follows on the shared member; empty where there is none.
    tail: Bytes,
    /// Whether the version before has the shared member already.
    inherits: bool,
    /// Where in the line the object begins.
    object_at: u8,
    /// Where the object goes on after `kind` and `apiVersion`.
    item_at: u16,
    /// Where the digits of `resourceVersion` are.
    version_at: u32,
    /// Where metadata ends, if the version had no digits.
    metadata_end: u32,
    /// Whether it is its object's present state.
    present: Present,
    /// The object as a tree, for a while after it was written.
    tree: Tree,
}

/// An object as it was written, whatever version it had: no part of what an entry says.
#[derive(Debug, Default)]
struct Tree(Mutex<Option<Map>>);

impl Tree {
    fn lock(&self) -> MutexGuard<'_, Option<Map>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Tree {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Tree {}

/// Whether an entry is in its table: no part of what it says.
#[derive(Debug, Default)]
struct Present(AtomicBool);

impl PartialEq for Present {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Present {}

impl Entry {
    /// Whether it is its object's present state.
    pub(super) fn is_present(&self) -> bool {
        self.present.0.load(Ordering::Relaxed)
    }

    /// Told by the table that takes it in, or gives it up.
    pub(super) fn set_present(&self, present: bool) {
        self.present.0.store(present, Ordering::Relaxed);
    }

    /// The object's JSON.
    #[must_use]
    pub fn json(&self) -> Pieces {
        let mut pieces = self.line();
        pieces.0[0].advance(usize::from(self.object_at));
        let last = pieces.0.iter_mut().rfind(|piece| !piece.is_empty());
        last.into_iter().for_each(|last| last.truncate(last.len() - LINE_END.len()));
        pieces
    }

    /// The line of the watch event that made this version.
    #[must_use]
    pub fn line(&self) -> Pieces {
        Pieces([self.head.bytes(), self.shared.clone(), self.tail.clone()])
    }

    /// The object's JSON as an item of a list: without `kind` and `apiVersion`, and without the opening brace.
    #[must_use]
    pub fn item_tail(&self) -> Pieces {
        let mut pieces = self.json();
        pieces.0[0].advance(usize::from(self.item_at));
        pieces
    }

    /// Its metadata alone, as the object `PartialObjectMetadata` of a version of `meta.k8s.io`.
    #[must_use]
    pub fn partial(&self, version: &str) -> Pieces {
        let at = usize::from(self.object_at);
        let (begin, end) = (at + usize::from(self.item_at), at + self.metadata_end as usize + self.digits());
        // Metadata comes before every member that may be shared.
        let metadata = self.head.bytes().slice(begin..end);
        let kind = format!("{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/{version}\",");
        Pieces([kind.into(), metadata, Bytes::from_static(b"}")])
    }

    /// The `index`-th of the values for field selectors.
    #[must_use]
    pub fn field(&self, index: usize) -> &str {
        self.fields.split('\0').nth(index).unwrap_or_default()
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(k, _)| k.as_ref().cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }

    /// The object as a tree, for a write to change.
    #[must_use]
    pub fn object(&self) -> Map {
        let Some(mut object) = self.tree.lock().clone() else {
            return Map::stored(&self.json().joined(), "metadata");
        };
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.insert("resourceVersion", Value::from(self.version.to_string()));
        }
        object
    }

    /// Holds this as its tree from now on, in place of reading its text each time; or no tree any more.
    pub(super) fn hold(&self, tree: Option<Map>) {
        let before = std::mem::replace(&mut *self.tree.lock(), tree);
        drop(before);
    }

    /// Whether it holds a tree.
    #[cfg(test)]
    pub(super) fn is_held(&self) -> bool {
        self.tree.lock().is_some()
    }

    /// The same state as the last one, under the version of its deletion.
    #[must_use]
    pub(super) fn deleted_at(&self, version: u64) -> Self {
        let [head, shared, tail] = self.line_at(version, EventKind::Deleted.word()).0;
        Self {
            namespace: Arc::clone(&self.namespace),
            name: Arc::clone(&self.name),
            uid: self.uid.clone(),
            version,
            labels: Arc::clone(&self.labels),
            fields: self.fields.clone(),
            object_at: object_at(EventKind::Deleted.word()),
            head: head.into(),
            shared,
            tail,
            inherits: true,
            item_at: self.item_at,
            version_at: self.version_at,
            metadata_end: self.metadata_end,
            present: Present::default(),
            tree: Tree::default(),
        }
    }

    /// The line of an event that shows this state under another version.
    #[must_use]
    pub fn line_at(&self, version: u64, word: &str) -> Pieces {
        let end = if self.shared.is_empty() { LINE_END } else { "" };
        let line = self.head.bytes();
        let json = &line[usize::from(self.object_at)..line.len() - end.len()];
        let head = spliced(json, self.version_at as usize, self.digits(), version, word, end);
        Pieces([head, self.shared.clone(), self.tail.clone()])
    }

    /// Whether `draft` says the same as this entry, but for the version.
    #[must_use]
    pub fn same_as(&self, draft: &Draft) -> bool {
        let at = self.version_at as usize;
        let [head, shared, tail] = self.json().0;
        let (draft_head, draft_tail) = draft.json.split_at(draft.cut);
        at == draft.version_at
            && shared == draft.shared
            && head.get(..at) == draft_head.get(..at)
            && head.get(at + self.digits()..) == draft_head.get(at..)
            && tail == draft_tail
    }

    /// About how many bytes this version takes that the one before does not.
    #[must_use]
    pub(super) fn size(&self) -> usize {
        let shared = if self.inherits { 0 } else { self.shared.len() };
        self.head.len() + shared + self.tail.len() + self.fields.len() + 350
    }

    /// How many digits the version has.
    fn digits(&self) -> usize {
        self.version.checked_ilog10().map_or(1, |log| log as usize + 1)
    }

    /// Holds its text compressed from now on: it is no longer new.
    pub(super) fn pack(&self, of: ResourceId, dictionaries: &Dictionaries) {
        self.head.pack(of, dictionaries);
    }
}

/// JSON in its stored pieces, each shared. The middle one is a large member that other versions have too.
#[derive(Debug, Clone, Default)]
pub struct Pieces([Bytes; 3]);

impl From<Bytes> for Pieces {
    fn from(whole: Bytes) -> Self {
        Self([whole, Bytes::new(), Bytes::new()])
    }
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        self.0.iter_mut().find(|piece| !piece.is_empty()).map(std::mem::take)
    }
}

impl Pieces {
    /// Undoes a `next`.
    pub fn put_back(&mut self, piece: Bytes) {
        let at = self.0.iter().position(|piece| !piece.is_empty()).unwrap_or(self.0.len());
        if let Some(place) = at.checked_sub(1) {
            self.0[place] = piece;
        }
    }

    /// How many bytes they have together.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// Adds them to a text.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.0.iter().for_each(|piece| out.extend_from_slice(piece));
    }

    /// All in one: a copy only where there are several.
    #[must_use]
    pub fn joined(self) -> Bytes {
        if self.0[1..].iter().all(Bytes::is_empty) {
            let [whole, ..] = self.0;
            return whole;
        }
        let mut out = Vec::with_capacity(self.size());
        self.write(&mut out);
        out.into()
    }
}

/// A member of so many bytes is shared with the version before.
const SHARED_FROM: usize = 16 << 10;

/// Of what takes more bytes no tree is held.
const LARGEST_TREE: usize = 16 << 10;

/// An object that is ready to be stored, but for its version.
#[derive(Debug, Clone)]
pub struct Draft {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) uid: Box<str>,
    labels: LabelSet,
    fields: Box<str>,
    /// All of the JSON but the shared member, with nothing where the version's digits go.
    pub(super) json: Vec<u8>,
    /// Where in it the shared member was.
    cut: usize,
    /// A large member; empty where there is none.
    shared: Bytes,
    /// Whether the version before has it already.
    inherits: bool,
    item_at: u16,
    version_at: usize,
    metadata_end: usize,
    /// The object, where it reads as it was written.
    pub(super) tree: Option<Map>,
}

impl Draft {
    /// Serialises an object. `fields` are the values for field selectors, each ended by a zero byte; `previous` is
    /// the version that this one replaces, whose unchanged parts are shared.
    #[must_use]
    pub fn new(object: &Map, fields: String, previous: Option<&Entry>) -> Self {
        let metadata = object.get("metadata").and_then(Value::as_object);
        let text = |key: &str| metadata.and_then(|m| m.get(key)).and_then(Value::as_str).unwrap_or_default();
        let labels = label_set(metadata, previous);
        let (namespace, name) = match previous {
            Some(p) if &*p.name == text("name") && &*p.namespace == text("namespace") => {
                (Arc::clone(&p.namespace), Arc::clone(&p.name))
            }
            _ => (text("namespace").into(), text("name").into()),
        };
        let mut json = Vec::with_capacity(previous.map_or(2048, |p| p.line().size() + 256));
        let Written { item_at, version_at, metadata_end, largest, floats } = write_object(&mut json, object);
        let tree = (!floats && json.len() <= LARGEST_TREE).then(|| object.clone());
        let (mut cut, mut shared, mut inherits) = (json.len(), Bytes::new(), false);
        if largest.len() >= SHARED_FROM {
            let member = &json[largest.clone()];
            let known = previous.map(|previous| &previous.shared).filter(|known| **known == member);
            inherits = known.is_some();
            shared = known.map_or_else(|| Bytes::copy_from_slice(member), Bytes::clone);
            cut = largest.start;
            json.drain(largest);
        }
        let (uid, fields) = (text("uid").into(), fields.into());
        Self {
            namespace,
            name,
            uid,
            labels,
            fields,
            json,
            cut,
            shared,
            inherits,
            item_at,
            version_at,
            metadata_end,
            tree,
        }
    }

    /// How many bytes the JSON has, without a version.
    #[must_use]
    pub fn size(&self) -> usize {
        self.json.len() + self.shared.len()
    }

    /// The entry that this becomes at `version`.
    pub(super) fn at(self, version: u64, made_by: EventKind) -> Entry {
        let (head, tail) = self.json.split_at(self.cut);
        let end = if self.shared.is_empty() { LINE_END } else { "" };
        let head = spliced(head, self.version_at, 0, version, made_by.word(), end);
        let tail = if self.shared.is_empty() { Bytes::new() } else { [tail, LINE_END.as_bytes()].concat().into() };
        Entry {
            namespace: self.namespace,
            name: self.name,
            uid: self.uid,
            version,
            labels: self.labels,
            fields: self.fields,
            object_at: object_at(made_by.word()),
            head: head.into(),
            shared: self.shared,
            tail,
            inherits: self.inherits,
            item_at: self.item_at,
            version_at: u32::try_from(self.version_at).unwrap_or(u32::MAX),
            metadata_end: u32::try_from(self.metadata_end).unwrap_or(u32::MAX),
            present: Present::default(),
            tree: Tree::default(),
        }
    }
}

const LINE_BEGIN: &str = "{\"type\":\"";
const LINE_OBJECT: &str = "\",\"object\":";
const LINE_END: &str = "}\n";

/// Where the object begins in an event's line.
fn object_at(word: &str) -> u8 {
    u8::try_from(LINE_BEGIN.len() + word.len() + LINE_OBJECT.len()).unwrap_or(u8::MAX)
}

/// The line of an event, with `version` in place of the `digits` bytes of the object's JSON at `at`, up to `end`.
fn spliced(json: &[u8], at: usize, digits: usize, version: u64, word: &str, end: &str) -> Bytes {
    let mut out = Vec::with_capacity(json.len() + word.len() + 44);
    out.extend_from_slice(LINE_BEGIN.as_bytes());
    out.extend_from_slice(word.as_bytes());
    out.extend_from_slice(LINE_OBJECT.as_bytes());
    out.extend_from_slice(&json[..at]);
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{version}");
    out.extend_from_slice(&json[at + digits..]);
    out.extend_from_slice(end.as_bytes());
    out.shrink_to_fit();
    Bytes::from(out)
}

/// The line of an event that shows any JSON.
#[must_use]
pub fn line(word: &str, object: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(object.len() + word.len() + 24);
    out.extend_from_slice(LINE_BEGIN.as_bytes());
    out.extend_from_slice(word.as_bytes());
    out.extend_from_slice(LINE_OBJECT.as_bytes());
    out.extend_from_slice(object);
    out.extend_from_slice(LINE_END.as_bytes());
    Bytes::from(out)
}

fn label_set(metadata: Option<&Map>, previous: Option<&Entry>) -> LabelSet {
    let labels = metadata.and_then(|m| m.get("labels")).and_then(Value::as_object);
    let mut pairs: Vec<(&str, &str)> =
        labels.into_iter().flatten().filter_map(|(k, v)| Some((k.as_str(), v.as_str()?))).collect();
    pairs.sort_unstable();
    if let Some(previous) = previous
        && previous.labels.len() == pairs.len()
        && previous.labels.iter().zip(&pairs).all(|((k, v), (k2, v2))| **k == **k2 && **v == **v2)
    {
        return Arc::clone(&previous.labels);
    }
    pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect()
}

/// The fields of metadata in the order in which the real server writes them; the rest follow.
const METADATA_ORDER: [&str; 4] = ["name", "generateName", "namespace", "uid"];

/// Where things are in an object that has been written.
struct Written {
    /// Where it goes on after `kind` and `apiVersion`.
    item_at: u16,
    /// Where the version's digits go.
    version_at: usize,
    /// Where metadata ends.
    metadata_end: usize,
    /// The largest member but metadata.
    largest: Range<usize>,
    /// Whether there are floats, which may read as whole numbers.
    floats: bool,
}

/// Writes the object.
fn write_object(out: &mut Vec<u8>, object: &Map) -> Written {
    let mut floats = false;
    out.push(b'{');
    for key in ["kind", "apiVersion"] {
        if let Some(value) = object.get(key) {
            floats |= member(out, key, value);
        }
    }
    let item_at = u16::try_from(out.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(b"\"metadata\":{");
    let empty = Map::new();
    let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    for key in METADATA_ORDER {
        if let Some(value) = metadata.get(key) {
            floats |= member(out, key, value);
        }
    }
    out.extend_from_slice(b"\"resourceVersion\":\"");
    let version_at = out.len();
    out.extend_from_slice(b"\",");
    for (key, value) in metadata {
        if key != "resourceVersion" && key != "managedFields" && !METADATA_ORDER.contains(&key.as_str()) {
            floats |= member(out, key, value);
        }
    }
    if let Some(value) = metadata.get("managedFields") {
        member(out, "managedFields", value);
    }
    close(out);
    let metadata_end = out.len();
    out.push(b',');
    let mut largest = 0..0;
    let others =
        object.iter().filter(|(key, _)| !matches!(key.as_str(), "kind" | "apiVersion" | "metadata" | "status"));
    for (key, value) in others.chain(object.get_key_value("status")) {
        let begin = out.len();
        floats |= member(out, key, value);
        if out.len() - begin > largest.len() {
            // Without the comma.
            largest = begin..out.len() - 1;
        }
    }
    close(out);
    Written { item_at, version_at, metadata_end, largest, floats }
}

/// Writes `"key":value,`; says whether there are floats in it.
fn member(out: &mut Vec<u8>, key: &str, value: &Value) -> bool {
    muster_tree::write_text(out, key);
    out.push(b':');
    let floats = value.write(out);
    out.push(b',');
    floats
}

/// Turns the comma after the last member into the closing brace.
fn close(out: &mut Vec<u8>) {
    match out.last_mut() {
        Some(last) if *last == b',' => *last = b'}',
        _ => out.push(b'}'),
    }
}
