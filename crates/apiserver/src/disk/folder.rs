//! The folder: who has it, which format it has, and the files in it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::engine::Contents;
use super::{DiskError, Engine};
use crate::identity::Identity;

/// The format that this version writes, and the newest that it reads.
const FORMAT: u32 = 1;
const FORMAT_NAME: &str = "muster-data";

const LOCK: &str = "lock";
const FORMAT_FILE: &str = "format";
const IDENTITY: &str = "identity.json";
const STATE: &str = "state.redb";
/// The same while it is made.
const NEW_STATE: &str = "state.redb.tmp";
/// What a folder has that is being made.
const UNFINISHED: [&str; 4] = [IDENTITY, "identity.json.tmp", NEW_STATE, "format.tmp"];

/// A folder that this process has for itself.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Who the cluster is.
    pub identity: Identity,
    /// Locked while it is open.
    _lock: File,
}

impl Folder {
    /// Opens a folder with what is in it, or makes a new one. With `syncs`, what is written is on the disk.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn open(path: &Path, syncs: bool) -> Result<(Self, Engine, Contents), DiskError> {
        let lock = Self::take(path)?;
        let filled = Self::is_filled(path)?;
        Self::close_to_others(path)?;
        if !filled {
            let identity = Identity::generate().map_err(DiskError::io(path))?;
            let (folder, engine) = Self::fill(path, lock, identity, &Contents::default(), syncs)?;
            return Ok((folder, engine, Contents::default()));
        }
        let identity = Self::read_identity(path)?;
        let (engine, contents) = Engine::open(&path.join(STATE), syncs)?;
        Ok((Self { path: path.to_owned(), identity, _lock: lock }, engine, contents))
    }

    /// Reads a folder, and changes no file in it.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn read(path: &Path) -> Result<(Identity, Contents), DiskError> {
        if !path.join(FORMAT_FILE).exists() {
            return Err(DiskError::Empty { folder: path.to_owned() });
        }
        let _lock = Self::take(path)?;
        if !Self::is_filled(path)? {
            return Err(DiskError::Empty { folder: path.to_owned() });
        }
        Ok((Self::read_identity(path)?, Engine::read(&path.join(STATE))?))
    }

    /// Makes a new folder of these contents.
    ///
    /// # Errors
    /// [`DiskError::Occupied`] where something is in it already, and others.
    pub fn create(
        path: &Path,
        identity: Identity,
        contents: &Contents,
        syncs: bool,
    ) -> Result<(Self, Engine), DiskError> {
        let lock = Self::take(path)?;
        let found = fs::read_dir(path).map_err(DiskError::io(path))?;
        let mut found = found.filter_map(Result::ok).map(|entry| entry.file_name()).filter(|name| name != LOCK);
        if let Some(found) = found.next() {
            let found = found.to_string_lossy().into_owned();
            return Err(DiskError::Occupied { folder: path.to_owned(), found });
        }
        Self::close_to_others(path)?;
        Self::fill(path, lock, identity, contents, syncs)
    }

    /// Remembers where the server listens.
    ///
    /// # Errors
    /// [`DiskError::Io`].
    pub fn set_address(&mut self, address: std::net::SocketAddr) -> Result<(), DiskError> {
        if self.identity.address == Some(address) {
            return Ok(());
        }
        self.identity.address = Some(address);
        write_whole(&self.path, IDENTITY, &self.identity.to_json())
    }

    /// The objects come last: where they are, all is. Where they are only beside their place, and the format is there, all is
    /// but for that.
    fn fill(
        path: &Path,
        lock: File,
        identity: Identity,
        contents: &Contents,
        syncs: bool,
    ) -> Result<(Self, Engine), DiskError> {
        let (beside, state) = (path.join(NEW_STATE), path.join(STATE));
        Engine::create(&beside, contents, syncs)?;
        write_whole(path, IDENTITY, &identity.to_json())?;
        write_whole(path, FORMAT_FILE, &format!("{FORMAT_NAME} {FORMAT}\n"))?;
        put_in_place(&beside, &state).map_err(DiskError::io(&state))?;
        let (engine, _) = Engine::open(&state, syncs)?;
        Ok((Self { path: path.to_owned(), identity, _lock: lock }, engine))
    }

    /// Makes the folder where there is none, and takes it for this process.
    fn take(path: &Path) -> Result<File, DiskError> {
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let new: Vec<&Path> =
            path.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).collect();
        builder.recursive(true).create(path).map_err(DiskError::io(path))?;
        for parent in new.into_iter().filter_map(Path::parent) {
            sync_folder(parent).map_err(DiskError::io(parent))?;
        }
        let file = path.join(LOCK);
        let mut lock = private().create(true).truncate(false).open(&file).map_err(DiskError::io(&file))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let said = fs::read_to_string(&file).unwrap_or_default();
                let pid = if said.trim().is_empty() { "of an unknown id".to_owned() } else { said.trim().to_owned() };
                return Err(DiskError::InUse { folder: path.to_owned(), pid });
            }
            Err(TryLockError::Error(error)) => return Err(DiskError::io(&file)(error)),
        }
        // Who has it is for people to read; where a full disk does not take it, the lock holds all the same.
        let _ = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        Ok(lock)
    }

    /// Lets nobody else into a folder that is there: keys are in it.
    #[cfg(unix)]
    fn close_to_others(path: &Path) -> Result<(), DiskError> {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(path).map_err(DiskError::io(path))?.permissions().mode() & 0o777;
        if mode & 0o077 == 0 {
            return Ok(());
        }
        let closed = fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700));
        closed.map_err(|source| DiskError::Open { folder: path.to_owned(), mode, source })
    }

    #[cfg(not(unix))]
    fn close_to_others(_: &Path) -> Result<(), DiskError> {
        Ok(())
    }

    /// Whether a cluster is in the folder. One that was never finished is none.
    fn is_filled(path: &Path) -> Result<bool, DiskError> {
        let foreign = |found: String| DiskError::Foreign { folder: path.to_owned(), found };
        let file = path.join(FORMAT_FILE);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let others = fs::read_dir(path).map_err(DiskError::io(path))?.filter_map(Result::ok);
                let others: Vec<_> = others.map(|entry| entry.file_name()).filter(|name| name != LOCK).collect();
                if let Some(other) = others.iter().find(|other| UNFINISHED.iter().all(|name| *other != name)) {
                    return Err(foreign(format!("{} is there, and {FORMAT_FILE} is not", other.display())));
                }
                // A process that ended while it made the folder has left these, and nobody was told of them.
                for other in others {
                    fs::remove_file(path.join(&other)).map_err(DiskError::io(path.join(&other)))?;
                }
                return Ok(false);
            }
            Err(error) => return Err(DiskError::io(&file)(error)),
        };
        let format = text.trim_end().strip_prefix(FORMAT_NAME).and_then(|rest| rest.trim_start().parse::<u32>().ok());
        match format {
            Some(FORMAT) => {}
            Some(found) if found > FORMAT => {
                return Err(DiskError::Newer { folder: path.to_owned(), found, known: FORMAT });
            }
            _ => {
                return Err(foreign(format!(
                    "{} says {:?}",
                    file.display(),
                    text.trim_end().chars().take(40).collect::<String>()
                )));
            }
        }
        let (beside, state) = (path.join(NEW_STATE), path.join(STATE));
        if beside.exists() && !state.exists() {
            // It ended before it gave the last file its name.
            put_in_place(&beside, &state).map_err(DiskError::io(&state))?;
        }
        match [IDENTITY, STATE].into_iter().find(|name| !path.join(name).exists()) {
            Some(missing) => Err(foreign(format!("{missing} is missing"))),
            None => Ok(true),
        }
    }

    fn read_identity(path: &Path) -> Result<Identity, DiskError> {
        let file = path.join(IDENTITY);
        fs::read(&file).and_then(|text| Identity::from_json(&text)).map_err(DiskError::io(file))
    }
}

/// For a file that only its owner may read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Gives a file its name, for good.
fn put_in_place(beside: &Path, place: &Path) -> io::Result<()> {
    fs::rename(beside, place)?;
    place.parent().map_or(Ok(()), sync_folder)
}

/// The names in a folder are on the disk.
fn sync_folder(folder: &Path) -> io::Result<()> {
    let here = Path::new(".");
    File::open(if folder.as_os_str().is_empty() { here } else { folder })?.sync_all()
}

/// Writes a file that is there whole, or as it was.
fn write_whole(folder: &Path, name: &str, text: &str) -> Result<(), DiskError> {
    let (place, beside) = (folder.join(name), folder.join(format!("{name}.tmp")));
    let write = || {
        let mut file = private().create(true).truncate(true).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        put_in_place(&beside, &place)
    };
    write().map_err(DiskError::io(&place))
}
