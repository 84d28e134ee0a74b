//! What a cluster goes on with: a folder (`--data-dir`), a snapshot (`--from`), both, or nothing.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use muster_apiserver::Kept;
use muster_apiserver::disk::{Contents, Folder};
use muster_apiserver::identity::Identity;
use muster_apiserver::snapshot::Snapshot;

/// Where a cluster is kept, and what it begins with.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DataFlags {
    /// Keep the cluster in this folder, and go on with what is in it: what was answered is on disk, and so are the port, the
    /// certificate authority, the token and the keys, so that the kubeconfig stays true. In memory where absent
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Do not wait until the disk has what is written to `--data-dir`: faster, and safe from the end of the process but not
    /// of the machine
    #[arg(long, requires = "data_dir")]
    pub(crate) no_fsync: bool,

    /// Begin with the cluster of this file of `muster snapshot save`; with `--data-dir`, that must be empty
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
}

/// A cluster that is to be started.
#[derive(Debug)]
pub(crate) struct Data {
    /// Its objects, and where they are kept: from when the manifests are applied.
    pub(crate) kept: Kept,
    /// Who it is.
    pub(crate) identity: Identity,
    /// Whether it was there before.
    pub(crate) goes_on: bool,
    folder: Option<Folder>,
}

impl Data {
    /// Reads whatever there is to go on with.
    ///
    /// # Errors
    /// Where a file cannot be used, by its name.
    pub(crate) fn open(flags: &DataFlags) -> Result<Self> {
        let syncs = !flags.no_fsync;
        let (identity, contents, folder) = match (&flags.data_dir, &flags.from) {
            (None, None) => (Identity::generate().context("the certificate authority")?, Contents::default(), None),
            (None, Some(file)) => {
                let (identity, contents) = read(file)?;
                (identity, contents, None)
            }
            (Some(folder), None) => {
                let (folder, engine, contents) = Folder::open(folder, syncs)?;
                (folder.identity.clone(), contents, Some((folder, engine)))
            }
            (Some(folder), Some(file)) => {
                let (identity, contents) = read(file)?;
                let kept = Folder::create(folder, identity.clone(), &contents, syncs)?;
                (identity, contents, Some(kept))
            }
        };
        let (folder, engine) = folder.unzip();
        let goes_on = contents.version > 0;
        let kept = Kept {
            version: contents.version,
            stored: contents.stored,
            identity: Some(identity.clone()),
            disk: engine.map(|engine| Box::new(engine) as Box<_>),
            held: true,
        };
        Ok(Self { kept, identity, goes_on, folder })
    }

    /// Remembers where the server listens, for its next start.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub(crate) fn listens(&mut self, address: SocketAddr) -> Result<()> {
        Ok(self.folder.as_mut().map_or(Ok(()), |folder| folder.set_address(address))?)
    }
}

/// Reads a snapshot.
///
/// # Errors
/// What is wrong with it, with the file and the line.
pub(crate) fn read(file: &Path) -> Result<(Identity, Contents)> {
    let opened = File::open(file).with_context(|| format!("{}", file.display()))?;
    let Snapshot { identity, version, stored } =
        Snapshot::read(opened).with_context(|| format!("{} is not a whole snapshot", file.display()))?;
    Ok((identity, Contents { version, stored }))
}
