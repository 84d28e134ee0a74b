//! A whole cluster in one file: who it is, and every object at one version (API-37).
//!
//! The file is gzip of lines of JSON:
//!
//! ```text
//!   {"format":"muster-snapshot","version":1}
//!   {"resourceVersion":42,"identity":{...}}
//!   {"table":"apps/deployments","resourceVersion":7,"object":{...}}       one for each object
//!   {"objects":1,"checksum":"89abcdef"}                                   how many there were, and CRC-32 of all lines before
//! ```

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::Crc;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use muster_tree::json;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::identity::Identity;
use crate::storage::disk::{LAST_VERSION, Stored};
use crate::storage::{Entry, Storage};

const FORMAT: &str = "muster-snapshot";
/// The format that this version writes, and the newest that it reads.
const VERSION: u32 = 1;
/// About how many bytes a piece of a written snapshot has.
const PIECE: usize = 64 << 10;
/// A line is not longer than this, in bytes: no object is.
const LONGEST_LINE: u64 = 64 << 20;

/// What a snapshot holds.
#[derive(Debug)]
pub struct Snapshot {
    /// Who the cluster is, but for where it listens: that is not for a file to say.
    pub identity: Identity,
    /// The version at which the objects are what they are.
    pub version: u64,
    /// The objects.
    pub stored: Vec<Stored>,
}

/// Why a file is no snapshot, or not a whole one.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct SnapshotError {
    /// The line of the uncompressed text, from 1.
    pub line: u64,
    /// What is wrong.
    pub what: String,
}

impl Snapshot {
    /// Reads a file.
    ///
    /// # Errors
    /// [`SnapshotError`] for what is cut, changed, or of a later format.
    pub fn read(file: impl Read) -> Result<Self, SnapshotError> {
        let mut lines = Lines { text: BufReader::new(GzDecoder::new(BufReader::new(file))), line: 0, crc: Crc::new() };
        let head: Head = lines.next("the format")?;
        if head.format != FORMAT {
            return Err(lines.error(format!("the format is {:?}, expected {FORMAT:?}", head.format)));
        }
        if head.version > VERSION {
            let what = format!("the format has version {}, and this version of muster knows {VERSION}", head.version);
            return Err(lines.error(what));
        }
        let cluster: ClusterLine = lines.next("who the cluster is")?;
        let identity = Identity::from_json(cluster.identity.get().as_bytes())
            .map_err(|error| lines.error(format!("identity: {error}")))?
            .without_address();
        let version = cluster.resource_version;
        if version > LAST_VERSION {
            let what = format!("resourceVersion: found {version}, expected {LAST_VERSION} at most");
            return Err(lines.error(what));
        }
        let mut stored = Vec::new();
        let mut table: Arc<str> = "".into();
        loop {
            let sum = lines.crc.sum();
            match lines.next("an object, or the end")? {
                ObjectLine { end: Some(end), .. } => {
                    lines.check(&end, stored.len(), sum)?;
                    return Ok(Self { identity, version, stored });
                }
                ObjectLine { row: Some(row), .. } => {
                    if *table != *row.table {
                        table = row.table.as_str().into();
                    }
                    stored.push(row.stored(&table, version).map_err(|what| lines.error(what))?);
                }
                _ => return Err(lines.error("it is neither an object nor the end".to_owned())),
            }
        }
    }

    /// Its file, in pieces.
    pub fn write(&self) -> impl Iterator<Item = Bytes> + use<'_> {
        let rows = self.stored.iter().map(|stored| (&*stored.table, stored.version, stored.json.clone()));
        pieces(&self.identity, self.version, rows)
    }
}

/// The file of what a storage holds now, in pieces.
pub(crate) fn of_storage(storage: &Storage, identity: &Identity) -> impl Iterator<Item = Bytes> + use<> {
    let (version, tables) = storage.everything();
    let rows = tables.into_iter().flat_map(|(table, entries)| {
        entries.into_iter().map(move |entry| (Arc::clone(&table), entry.version, Entry::json(&entry).joined()))
    });
    pieces(identity, version, rows)
}

fn pieces<T: AsRef<str>, R: Iterator<Item = (T, u64, Bytes)>>(
    identity: &Identity,
    version: u64,
    rows: R,
) -> impl Iterator<Item = Bytes> + use<T, R> {
    let head = json!({"format": FORMAT, "version": VERSION}).to_string();
    let identity = identity.clone().without_address().to_json();
    let cluster = format!("{{\"resourceVersion\":{version},\"identity\":{identity}}}");
    let mut rows = rows.fuse();
    let mut before = Vec::from([cluster, head]);
    let (mut crc, mut count) = (Crc::new(), 0_u64);
    let mut file = Some(GzEncoder::new(Vec::new(), Compression::fast()));
    std::iter::from_fn(move || {
        loop {
            let out = file.as_mut()?;
            let line = if let Some(line) = before.pop() {
                line.into_bytes()
            } else if let Some((table, version, object)) = rows.next() {
                count += 1;
                let mut line =
                    format!("{{\"table\":{},\"resourceVersion\":{version},\"object\":", json!(table.as_ref()))
                        .into_bytes();
                line.extend_from_slice(&object);
                line.push(b'}');
                line
            } else {
                let end = format!("{{\"objects\":{count},\"checksum\":\"{:08x}\"}}\n", crc.sum());
                // What is written to memory is written.
                let _ = out.write_all(end.as_bytes());
                return file.take().and_then(|file| file.finish().ok()).map(Bytes::from);
            };
            for part in [&line[..], b"\n"] {
                crc.update(part);
                let _ = out.write_all(part);
            }
            if out.get_ref().len() >= PIECE {
                return Some(Bytes::from(std::mem::take(out.get_mut())));
            }
        }
    })
}

#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClusterLine {
    resource_version: u64,
    identity: Box<RawValue>,
}

/// One of the two.
struct ObjectLine {
    row: Option<Row>,
    end: Option<End>,
}

impl<'de> Deserialize<'de> for ObjectLine {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        struct Either<'a> {
            #[serde(borrow)]
            table: Option<Cow<'a, str>>,
            resource_version: Option<u64>,
            object: Option<Box<RawValue>>,
            objects: Option<usize>,
            checksum: Option<String>,
        }
        let Either { table, resource_version, object, objects, checksum } = Either::deserialize(deserializer)?;
        let row = match (table, resource_version, object) {
            (Some(table), Some(version), Some(object)) => Some(Row { table: table.into_owned(), version, object }),
            _ => None,
        };
        let end = objects.zip(checksum).map(|(objects, checksum)| End { objects, checksum });
        Ok(Self { row, end })
    }
}

struct Row {
    table: String,
    version: u64,
    object: Box<RawValue>,
}

struct End {
    objects: usize,
    checksum: String,
}

impl Row {
    fn stored(&self, table: &Arc<str>, newest: u64) -> Result<Stored, String> {
        #[derive(Deserialize)]
        struct Named<'a> {
            #[serde(borrow)]
            metadata: Metadata<'a>,
        }
        #[derive(Deserialize)]
        struct Metadata<'a> {
            #[serde(borrow, default)]
            namespace: Cow<'a, str>,
            #[serde(borrow)]
            name: Cow<'a, str>,
        }
        let Named { metadata: Metadata { namespace, name } } =
            serde_json::from_str(self.object.get()).map_err(|error| format!("object: {error}"))?;
        if self.version > newest {
            return Err(format!("{table} {namespace}/{name} has version {}, and the whole has {newest}", self.version));
        }
        if [&**table, &*namespace, &*name].iter().any(|part| part.contains('\0')) || name.is_empty() {
            return Err(format!("{table} {namespace:?}/{name:?} is no name"));
        }
        Ok(Stored {
            table: Arc::clone(table),
            namespace: namespace.as_ref().into(),
            name: name.as_ref().into(),
            version: self.version,
            json: Bytes::copy_from_slice(self.object.get().as_bytes()),
        })
    }
}

/// The lines of a file, and where it is read.
struct Lines<R: Read> {
    text: BufReader<GzDecoder<BufReader<R>>>,
    line: u64,
    crc: Crc,
}

impl<R: Read> Lines<R> {
    fn next<T: for<'de> Deserialize<'de>>(&mut self, expected: &str) -> Result<T, SnapshotError> {
        self.line += 1;
        let mut line = Vec::new();
        let read = (&mut self.text).take(LONGEST_LINE).read_until(b'\n', &mut line);
        read.map_err(|error| self.error(damaged(&error)))?;
        if line.last() != Some(&b'\n') {
            return Err(self.error(format!("the file ends here, expected {expected}")));
        }
        self.crc.update(&line);
        serde_json::from_slice(&line).map_err(|error| self.error(format!("expected {expected}: {error}")))
    }

    fn check(&mut self, end: &End, objects: usize, sum: u32) -> Result<(), SnapshotError> {
        if end.objects != objects {
            return Err(self.error(format!("{} objects were written, and {objects} are here", end.objects)));
        }
        if end.checksum != format!("{sum:08x}") {
            let what = format!("the checksum of all lines is {sum:08x}, and {} was written", end.checksum);
            return Err(self.error(what));
        }
        // The end of the compressed data has a checksum of its own.
        let after = |text: &mut BufReader<GzDecoder<BufReader<R>>>| match text.read(&mut [0])? {
            // Behind it the file ends too.
            0 => text.get_mut().get_mut().read(&mut [0]),
            more => Ok(more),
        };
        match after(&mut self.text) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.error("something follows on the end".to_owned())),
            Err(error) => Err(self.error(damaged(&error))),
        }
    }

    fn error(&self, what: String) -> SnapshotError {
        SnapshotError { line: self.line, what }
    }
}

fn damaged(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the file is cut here".to_owned(),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            format!("the file is no gzip, or was changed: {error}")
        }
        _ => error.to_string(),
    }
}
