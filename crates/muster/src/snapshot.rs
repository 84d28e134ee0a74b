//! `muster snapshot`: a whole cluster into one file, and back.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Subcommand};
use http_body_util::BodyExt as _;
use muster_apiserver::disk::{Contents, Folder};
use muster_apiserver::snapshot::Snapshot;
use muster_apiserver::storage::disk::Disk as _;
use muster_manager::arguments::{client_options, say};
use muster_manager::explain::target::OwnClusterFlags;
use muster_runtime::client::Client;

use crate::data;

/// Where a running server tells it.
const PATH: &str = "/muster/snapshot";

const SAVE_EXAMPLES: &str = "\
Examples:
  # A cluster that is running
  muster snapshot save backup.muster

  # One that is not
  muster snapshot save backup.muster --data-dir ~/clusters/one

Only a server of `muster up` can be saved, and only by the group system:masters.";

const RESTORE_EXAMPLES: &str = "\
Examples:
  # Into a folder, with its identity: at the same address, old kubeconfigs are good for it
  muster snapshot restore backup.muster --data-dir ~/clusters/two
  muster up --data-dir ~/clusters/two --listen 127.0.0.1:6443

  # The same in one step, or in memory
  muster up --from backup.muster --data-dir ~/clusters/two
  muster up --from backup.muster";

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Save a cluster into a file: every object at one version, and the identity (it is secret: mode 0600)
    Save(Save),
    /// Fill a folder with the cluster of a file
    Restore(Restore),
}

/// What `muster snapshot save` takes.
#[derive(Debug, Args)]
#[command(after_help = SAVE_EXAMPLES)]
pub(crate) struct Save {
    /// The file to write; one that is there is replaced once the new one is whole. `-` is standard output
    file: PathBuf,

    #[command(flatten)]
    cluster: OwnClusterFlags,

    /// The folder of a cluster that is not running
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    data_dir: Option<PathBuf>,
}

/// What `muster snapshot restore` takes.
#[derive(Debug, Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub(crate) struct Restore {
    /// A file of `muster snapshot save`
    file: PathBuf,

    /// The folder to fill: an empty one, or one that does not exist
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
}

/// Runs `muster snapshot`.
///
/// # Errors
/// Where the cluster cannot be read or the file not be written, by name.
pub(crate) async fn run(command: &SnapshotCommand) -> Result<()> {
    match command {
        SnapshotCommand::Save(arguments) => save(arguments).await,
        SnapshotCommand::Restore(arguments) => restore(arguments),
    }
}

async fn save(arguments: &Save) -> Result<()> {
    if arguments.file.as_os_str() == "-" {
        return print(arguments).await.context("standard output: no snapshot was written");
    }
    // Of a link, what it leads to is replaced.
    let file = &fs::canonicalize(&arguments.file).unwrap_or_else(|_| arguments.file.clone());
    if fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        bail!("{}: is there and is no file, so that it cannot be replaced; name another", file.display());
    }
    let beside = file.with_extension(format!("{}.tmp", std::process::id()));
    let written = async {
        let mut options = OpenOptions::new();
        let opened = options.write(true).create(true).truncate(true).mode(0o600).open(&beside);
        let mut out = opened.with_context(|| format!("{}", beside.display()))?;
        take(arguments, &mut out).await?;
        out.sync_all()?;
        let told = told(File::open(&beside)?)?;
        fs::rename(&beside, file)?;
        say(&format!("{}: {told}\n", file.display()))
    };
    let written: Result<()> = written.await;
    if written.is_err() {
        // It may not be there at all.
        let _ = fs::remove_file(&beside);
    }
    written.with_context(|| format!("{}: no snapshot was written", file.display()))
}

/// Writes it to standard output once it is whole.
async fn print(arguments: &Save) -> Result<()> {
    if io::stdout().is_terminal() {
        bail!("it is a terminal, expected a file or a pipe: a snapshot is compressed, and secret");
    }
    let mut whole = Vec::new();
    take(arguments, &mut whole).await?;
    let told = told(&*whole)?;
    let mut out = io::stdout().lock();
    out.write_all(&whole)?;
    out.flush()?;
    eprintln!("{told}");
    Ok(())
}

/// Reads a cluster into a snapshot.
async fn take(arguments: &Save, out: &mut impl io::Write) -> Result<()> {
    let Some(folder) = &arguments.data_dir else { return download(&arguments.cluster, out).await };
    let (identity, Contents { version, stored }) = Folder::read(folder)?;
    let snapshot = Snapshot { identity, version, stored };
    Ok(snapshot.write().try_for_each(|piece| out.write_all(&piece))?)
}

/// What is in a snapshot. A connection that ended early has left a part.
fn told(file: impl io::Read) -> Result<String> {
    let Snapshot { version, stored, .. } = Snapshot::read(file).context("what arrived is not whole")?;
    Ok(format!("{} objects at version {version}", stored.len()))
}

async fn download(cluster: &OwnClusterFlags, out: &mut impl io::Write) -> Result<()> {
    let (config, found) = cluster.config().await?;
    let client = Client::connect(&config, &client_options())?;
    let mut body = match client.download(PATH).await {
        Ok(body) => body,
        Err(error) if error.code() == Some(404) => {
            bail!("the server of {found} keeps no snapshots: it is none of `muster up`; name another by --kubeconfig")
        }
        Err(error) => return Err(error.into()),
    };
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| anyhow!("the connection was lost: {error}"))?;
        out.write_all(&frame.into_data().unwrap_or_default())?;
    }
    Ok(())
}

fn restore(arguments: &Restore) -> Result<()> {
    let (identity, contents) = data::read(&arguments.file)?;
    let (_folder, engine) = Folder::create(&arguments.data_dir, identity, &contents, true)?;
    Box::new(engine).close();
    let (folder, count) = (arguments.data_dir.display(), contents.stored.len());
    say(&format!("{folder}: {count} objects at version {}\n", contents.version))
}
