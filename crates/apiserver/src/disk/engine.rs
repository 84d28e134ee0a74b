//! The file: opened and read whole once, then written a transaction for each group.
//!
//! A transaction is committed in two steps, each with its sync: first its pages, then the page that names them. So the page
//! that names the last one is never wrong after a crash, and whatever is wrong is corruption, not the end of a write.

use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{Builder, Database, Durability, ReadableDatabase as _, ReadableTable as _, StorageBackend, TableDefinition};

use super::backend::Backend;
use super::{DiskError, rows};
use crate::storage::disk::{Change, Disk, Group, LAST_VERSION, Stored, WriteError};

/// Objects, as [`rows`] says.
const OBJECTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("objects");
/// The last version, and whether the file was closed in order.
const STATE: TableDefinition<'_, &str, (u64, bool)> = TableDefinition::new("state");
const LAST: &str = "last";

/// How much of the file redb may keep in memory, in bytes. All of it is in memory once already.
const CACHE: usize = 16 << 20;
/// A file that is longer than this, in bytes, more than half empty, and four times as long as its objects, is made shorter at
/// the start.
const LONG: u64 = 64 << 20;

/// How far versions jump where the file was not closed in order: those of writes that the disk had refused before may have
/// been seen, on lists that were read since.
const LEAP: u64 = 1 << 20;

/// What opens the medium of a file; again after a failure.
type Medium = Box<dyn Fn() -> io::Result<Box<dyn StorageBackend>> + Send>;

/// A file of objects.
pub struct Engine {
    file: PathBuf,
    medium: Medium,
    syncs: bool,
    /// `None` after a write that failed: it is opened anew then.
    open: Option<Database>,
    /// The versions that it may have: that of the last write, and that of one that failed.
    versions: [u64; 2],
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("file", &self.file).finish_non_exhaustive()
    }
}

/// What is in a file.
#[derive(Debug, Default)]
pub struct Contents {
    /// The version of the last commit; versions to come are above it.
    pub version: u64,
    /// All objects.
    pub stored: Vec<Stored>,
}

impl Engine {
    /// Makes a file of these contents. With `syncs`, what is written is on the disk and not only with the operating system.
    ///
    /// # Errors
    /// [`DiskError::Io`].
    pub fn create(file: &Path, contents: &Contents, syncs: bool) -> Result<(), DiskError> {
        let engine = Self::create_on(file, Box::new(medium_of(file.to_owned(), true)), contents, syncs)?;
        Box::new(engine).close();
        Ok(())
    }

    /// Reads a file whole, and goes on with it.
    ///
    /// # Errors
    /// [`DiskError::Corrupt`], with nothing changed; [`DiskError::Io`].
    pub fn open(file: &Path, syncs: bool) -> Result<(Self, Contents), DiskError> {
        Self::open_on(file, Box::new(medium_of(file.to_owned(), false)), syncs)
    }

    /// Reads a file whole, and changes nothing.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn read(file: &Path) -> Result<Contents, DiskError> {
        let medium = medium_of(file.to_owned(), false)().map_err(DiskError::io(file))?;
        let (_, database, contents) = read(file, medium, false)?;
        // Closing writes, and what it writes is held back.
        drop(database);
        Ok(contents)
    }

    pub(super) fn create_on(file: &Path, medium: Medium, contents: &Contents, syncs: bool) -> Result<Self, DiskError> {
        let failed = |error: redb::Error| DiskError::io(file)(io::Error::other(error.to_string()));
        let backend = Backend::holding(medium().map_err(DiskError::io(file))?, syncs);
        let database = builder().create_with_backend(backend.clone()).map_err(|error| failed(error.into()))?;
        backend.release().map_err(DiskError::io(file))?;
        let versions = [contents.version; 2];
        let rows = contents.stored.iter().map(|object| {
            let key = rows::key(&object.table, &object.namespace, &object.name);
            let value = rows::value(&key, object.version, &[&object.json]);
            Row::Put(key, value)
        });
        commit(&database, contents.version, rows, true).map_err(failed)?;
        Ok(Self { file: file.to_owned(), medium, syncs, open: Some(database), versions })
    }

    pub(super) fn open_on(file: &Path, medium: Medium, syncs: bool) -> Result<(Self, Contents), DiskError> {
        let (backend, mut database, contents) = read(file, medium().map_err(DiskError::io(file))?, syncs)?;
        backend.release().map_err(DiskError::io(file))?;
        let bytes: usize = contents.stored.iter().map(|stored| stored.json.len()).sum();
        if is_mostly_empty(&database, &backend, bytes as u64) {
            // It goes on as it is where that fails.
            let _ = database.compact();
        }
        let versions = [contents.version; 2];
        let mut engine = Self { file: file.to_owned(), medium, syncs, open: Some(database), versions };
        let group = Group { version: contents.version, changes: Vec::new() };
        engine.write(&group).map_err(|error| DiskError::io(file)(io::Error::other(error.message)))?;
        Ok((engine, contents))
    }

    fn commit(&mut self, version: u64, rows: impl Iterator<Item = Row>, open: bool) -> Result<(), WriteError> {
        self.versions[1] = version;
        let database = match self.open.take() {
            Some(database) => database,
            None => self.reopened().map_err(|error| self.refused(&error))?,
        };
        // Given back only where all went well: after a failure redb takes no more.
        commit(&database, version, rows, open).map_err(|error| self.refused(&error))?;
        self.versions = [version; 2];
        self.open = Some(database);
        Ok(())
    }

    /// The file, read anew: what it holds is checked, for nobody knows what a failed write has left.
    fn reopened(&self) -> Result<Database, redb::Error> {
        let backend = Backend::holding((self.medium)()?, self.syncs);
        check_head(&backend)?;
        let database = builder().create_with_backend(backend.clone())?;
        let (version, _) = last(&database)?;
        if !self.versions.contains(&version) {
            let what = format!("it has version {version}, and {:?} were written", self.versions);
            return Err(redb::Error::Corrupted(what));
        }
        backend.release()?;
        Ok(database)
    }

    fn refused(&self, error: &redb::Error) -> WriteError {
        let full = matches!(error, redb::Error::Io(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded));
        WriteError { message: format!("cannot write {}: {error}", self.file.display()), full }
    }
}

/// A row to write, or rows to remove.
enum Row {
    Put(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
    RemoveFrom(Vec<u8>, Vec<u8>),
}

impl Disk for Engine {
    fn write(&mut self, group: &Group) -> Result<(), WriteError> {
        let rows = group.changes.iter().map(|change| match change {
            Change::Put(table, entry) => {
                let key = rows::key(table, &entry.namespace, &entry.name);
                let pieces: Vec<_> = entry.json().collect();
                let pieces: Vec<&[u8]> = pieces.iter().map(AsRef::as_ref).collect();
                let value = rows::value(&key, entry.version, &pieces);
                Row::Put(key, value)
            }
            Change::Remove(table, namespace, name) => Row::Remove(rows::key(table, namespace, name)),
            Change::Drop(table) => {
                let (first, end) = rows::keys(table);
                Row::RemoveFrom(first, end)
            }
        });
        self.commit(group.version, rows, true)
    }

    fn close(mut self: Box<Self>) {
        if self.open.is_some()
            && let Err(error) = self.commit(self.versions[0], std::iter::empty(), false)
        {
            tracing::warn!(%error, "the file was not closed in order");
        }
    }
}

fn commit(database: &Database, version: u64, rows: impl Iterator<Item = Row>, open: bool) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    transaction.set_two_phase_commit(true);
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        for row in rows {
            match row {
                Row::Put(key, value) => drop(objects.insert(key.as_slice(), value.as_slice())?),
                Row::Remove(key) => drop(objects.remove(key.as_slice())?),
                Row::RemoveFrom(first, end) => objects.retain_in(first.as_slice()..end.as_slice(), |_, _| false)?,
            }
        }
        transaction.open_table(STATE)?.insert(LAST, (version, open))?;
    }
    transaction.commit()?;
    Ok(())
}

/// Opens a file with all writes held back, and reads everything.
fn read(file: &Path, medium: Box<dyn StorageBackend>, syncs: bool) -> Result<(Backend, Database, Contents), DiskError> {
    if medium.len().map_err(DiskError::io(file))? == 0 {
        return Err(DiskError::Corrupt { file: file.to_owned(), offset: 0, what: "it is empty".to_owned() });
    }
    let backend = Backend::holding(medium, syncs);
    let read = || -> Result<(Database, Contents), redb::Error> {
        check_head(&backend)?;
        let database = builder().create_with_backend(backend.clone())?;
        let contents = contents(&database)?;
        Ok((database, contents))
    };
    match read() {
        Ok((database, contents)) => Ok((backend, database, contents)),
        Err(redb::Error::Io(source)) if !is_about_contents(&source) => {
            Err(DiskError::Io { file: file.to_owned(), source })
        }
        Err(error) => {
            let what = match error {
                redb::Error::Corrupted(what) => what,
                redb::Error::Io(error) => error.to_string(),
                other => other.to_string(),
            };
            Err(DiskError::Corrupt { file: file.to_owned(), offset: backend.last_read(), what })
        }
    }
}

fn check_head(backend: &Backend) -> Result<(), redb::Error> {
    if backend.is_sealed()? {
        return Ok(());
    }
    Err(redb::Error::Corrupted("the checksum of the first 320 bytes is not theirs".to_owned()))
}

/// Whether a file was read, and is not what it should be.
fn is_about_contents(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE).set_check_integrity_on_open(true);
    builder
}

/// The version, and whether the file was left open.
fn last(database: &Database) -> Result<(u64, bool), redb::Error> {
    let transaction = database.begin_read()?;
    let last = transaction.open_table(STATE)?.get(LAST)?.map(|last| last.value());
    last.ok_or_else(|| redb::Error::Corrupted("the version of the last commit is missing".to_owned()))
}

fn contents(database: &Database) -> Result<Contents, redb::Error> {
    let (version, open) = last(database)?;
    if version > LAST_VERSION {
        return Err(redb::Error::Corrupted(format!("its version is {version}, expected {LAST_VERSION} at most")));
    }
    let mut contents = Contents { version, stored: Vec::new() };
    let transaction = database.begin_read()?;
    let mut table = Arc::from("");
    for row in transaction.open_table(OBJECTS)?.iter()? {
        let (key, value) = row?;
        let read = rows::read(key.value(), value.value(), version, &mut table);
        contents.stored.push(read.map_err(redb::Error::Corrupted)?);
    }
    if open {
        contents.version += LEAP;
    }
    Ok(contents)
}

/// Whether a file of so many bytes of objects is long for them. Pages are half full at least, and counting them reads most.
fn is_mostly_empty(database: &Database, backend: &Backend, bytes: u64) -> bool {
    let used = || -> Result<u64, redb::Error> {
        let transaction = database.begin_write()?;
        let stats = transaction.stats()?;
        transaction.abort()?;
        Ok(stats.allocated_pages() * u64::try_from(stats.page_size()).unwrap_or(u64::MAX))
    };
    let length = backend.len().unwrap_or_default();
    length > LONG && bytes < length / 4 && used().is_ok_and(|used| used < length / 2)
}

/// What opens a file that only its owner may read.
fn medium_of(file: PathBuf, new: bool) -> impl Fn() -> io::Result<Box<dyn StorageBackend>> + Send {
    move || {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).create_new(new);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let opened = options.open(&file)?;
        // Beside the folder's lock, which somebody may have taken away as a leftover.
        if let Err(TryLockError::WouldBlock) = opened.try_lock() {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process writes it"));
        }
        let backend = redb::backends::FileBackend::new(opened).map_err(io::Error::other)?;
        Ok(Box::new(backend))
    }
}
