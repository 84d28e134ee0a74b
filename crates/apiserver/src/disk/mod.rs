//! A folder that a cluster is kept in: what is there now, in one file of redb, and who the cluster is (API-24, API-37).
//!
//! ```text
//!   DIR/lock            who has it: one process at a time
//!   DIR/format          which of Muster's formats it has
//!   DIR/identity.json   certificate authority, keys, token, port
//!   DIR/state.redb      every object, and the version of the last commit
//! ```
//!
//! All objects live in memory, as without a folder; the file is read when the server starts, and written after that. What is
//! in it is the present state: a row for each object, in transactions that each are one group of commits. Every row has a
//! checksum of its own, and redb has one for each page; all are checked at the start.

mod backend;
mod engine;
mod folder;
mod rows;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

pub use engine::{Contents, Engine};
pub use folder::Folder;

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// Another process has it.
    #[error("{} is in use by process {pid}: a folder serves one cluster at a time (lock file {})", folder.display(), folder.join("lock").display())]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// What the lock file says.
        pid: String,
    },
    /// It is none of Muster's.
    #[error("{} is not a folder of muster's data: {found}; expected an empty folder, or one that an earlier --data-dir filled", folder.display())]
    Foreign {
        /// The folder.
        folder: PathBuf,
        /// What is wrong with it.
        found: String,
    },
    /// It was written by a later version of this program.
    #[error("{} has format {found}, and this version of muster knows {known}: use a newer muster, or another folder", folder.display())]
    Newer {
        /// The folder.
        folder: PathBuf,
        /// Its format.
        found: u32,
        /// The newest that is known.
        known: u32,
    },
    /// It should be empty.
    #[error("{} is not empty: it has {found}; name an empty folder, or one that does not exist", folder.display())]
    Occupied {
        /// The folder.
        folder: PathBuf,
        /// The first thing in it.
        found: String,
    },
    /// Others may look into it.
    #[error("{} has mode {mode:04o}: keys are to be in it, and its mode cannot be changed to 0700; name a folder of your own", folder.display())]
    Open {
        /// The folder.
        folder: PathBuf,
        /// Its mode.
        mode: u32,
        /// Why.
        source: io::Error,
    },
    /// It should have something in it.
    #[error("{} holds no cluster: {} is missing", folder.display(), folder.join("format").display())]
    Empty {
        /// The folder.
        folder: PathBuf,
    },
    /// What was written is not what is there.
    #[error("{} is corrupt at offset {offset}: {what}; nothing was changed. `muster snapshot restore FILE --data-dir OTHER` brings a snapshot back into another folder; or start with another --data-dir", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// Where in the file the first bytes are that are wrong, or the page that they are in.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A file cannot be read or written.
    #[error("{} cannot be used", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl DiskError {
    fn io(file: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let file = file.into();
        |source| Self::Io { file, source }
    }
}
