//! `muster snapshot`: a whole cluster into one file, and back.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use clap::{Args, Subcommand};
use http::Request;
use http_body_util::BodyExt as _;
use muster_apiserver::disk::{Contents, Folder};
use muster_apiserver::snapshot::Snapshot;
use muster_apiserver::storage::disk::Disk as _;
use muster_manager::arguments::say;
use muster_runtime::client::configuration;

use crate::data;

/// Where a running server tells it.
const PATH: &str = "/muster/snapshot";

const SAVE_EXAMPLES: &str = "\
Examples:
  # A cluster that is running
  muster snapshot save backup.muster

  # One that is not
  muster snapshot save backup.muster --data-dir ~/clusters/one";

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
    /// The file to write; one that is there is replaced once the new one is whole
    file: PathBuf,

    /// The running cluster: a kubeconfig of `muster up`, whose user is in the group system:masters
    #[arg(long, value_name = "FILE", default_value = "muster.kubeconfig", conflicts_with = "data_dir")]
    kubeconfig: PathBuf,

    /// The folder of a cluster that is not running
    #[arg(long, value_name = "DIR")]
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
    let Save { file, kubeconfig, data_dir } = arguments;
    // Of a link, what it leads to is replaced.
    let file = &fs::canonicalize(file).unwrap_or_else(|_| file.clone());
    if fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        bail!("{}: is there and is no file, so that it cannot be replaced; name another", file.display());
    }
    let beside = file.with_extension(format!("{}.tmp", std::process::id()));
    let written = async {
        let mut options = OpenOptions::new();
        let opened = options.write(true).create(true).truncate(true).mode(0o600).open(&beside);
        let mut out = opened.with_context(|| format!("{}", beside.display()))?;
        match data_dir {
            Some(folder) => {
                let (identity, Contents { version, stored }) = Folder::read(folder)?;
                let snapshot = Snapshot { identity, version, stored };
                snapshot.write().try_for_each(|piece| out.write_all(&piece))?;
            }
            None => download(kubeconfig, &mut out).await?,
        }
        out.sync_all()?;
        // A connection that ended early has left a part.
        let Snapshot { version, stored, .. } =
            Snapshot::read(File::open(&beside)?).context("what arrived is not whole")?;
        fs::rename(&beside, file)?;
        say(&format!("{}: {} objects at version {version}\n", file.display(), stored.len()))
    };
    let written: Result<()> = written.await;
    if written.is_err() {
        // It may not be there at all.
        let _ = fs::remove_file(&beside);
    }
    written.with_context(|| format!("{}: no snapshot was written", file.display()))
}

async fn download(kubeconfig: &Path, out: &mut impl io::Write) -> Result<()> {
    let config = configuration(Some(kubeconfig)).await?;
    let client = kube::Client::try_from(config)?;
    let request = Request::get(PATH).body(kube::client::Body::empty())?;
    let answer = client.send(request).await.context("the server does not answer")?;
    let (head, mut body) = answer.into_parts();
    let mut refusal = Vec::new();
    while let Some(frame) = body.frame().await {
        let data: Bytes = frame.context("the connection was lost")?.into_data().unwrap_or_default();
        if head.status.is_success() { out.write_all(&data)? } else { refusal.extend_from_slice(&data) }
    }
    match head.status.as_u16() {
        200 => Ok(()),
        404 => bail!("the server of {} keeps no snapshots: it is none of `muster up`", kubeconfig.display()),
        code => {
            let status: serde_json::Value = serde_json::from_slice(&refusal).unwrap_or_default();
            bail!("{code}: {}", status["message"].as_str().unwrap_or("the server says no more"))
        }
    }
}

fn restore(arguments: &Restore) -> Result<()> {
    let (identity, contents) = data::read(&arguments.file)?;
    let (_folder, engine) = Folder::create(&arguments.data_dir, identity, &contents, true)?;
    Box::new(engine).close();
    let (folder, count) = (arguments.data_dir.display(), contents.stored.len());
    say(&format!("{folder}: {count} objects at version {}\n", contents.version))
}
