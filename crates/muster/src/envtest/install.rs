//! `muster envtest --install DIR`: a folder for `KUBEBUILDER_ASSETS`, in which this binary stands under the names of the
//! programs that envtest starts.

use std::env;
use std::fs;
use std::hint::black_box;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use rand::{TryRngCore as _, rngs::OsRng};

use super::Program;

const EXAMPLES: &str = "\
Examples:
  # A folder of programs, and a Go project's suite with it
  muster envtest --install ./assets
  KUBEBUILDER_ASSETS=$PWD/assets go test ./...

  # Deployments are rolled out and pods become ready in every test environment of the suite
  MUSTER_ENVTEST='controllers=gc,namespaces,deployments,replicasets;nodes=3' go test ./...

More: docs/test-server.md";

/// What every one of our binaries has in it, and no program of others, nor any text.
static MARK: &[u8] = b"muster\0envtest\0may be replaced by a later one\0";

/// What `muster envtest` takes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Envtest {
    /// Fill this folder with `kube-apiserver` and `etcd`, which are this program under other names, and `kubectl`, where
    /// one is found; the folder is made if it is not there
    #[arg(long, value_name = "DIR")]
    install: PathBuf,

    /// The kubectl to link into the folder; else the first one on PATH, if any
    #[arg(long, value_name = "FILE")]
    kubectl: Option<PathBuf>,

    /// Replace programs of others in that folder; else only those of an earlier `muster envtest` are replaced
    #[arg(long)]
    force: bool,
}

/// Fills the folder, and says what is in it. Everything is looked at before anything is changed.
///
/// # Errors
/// Where a file cannot be made, or one of somebody else is in the way.
pub(crate) fn install(arguments: &Envtest) -> Result<()> {
    let folder = &arguments.install;
    let here = |what: &str| format!("--install {}: {what}", folder.display());
    let own = env::current_exe().context("this program's own file cannot be found")?;
    let named = arguments.kubectl.as_ref();
    let named = named.map(|file| fs::canonicalize(file).with_context(|| format!("--kubectl {}", file.display())));
    let named = named.transpose()?;
    fs::create_dir_all(folder).with_context(|| here("cannot be made"))?;
    let foreign =
        |place: &Path| anyhow::anyhow!("{}: a program of somebody else is there; --force replaces it", place.display());
    let places = Program::ALL.map(|program| folder.join(program.name()));
    for place in &places {
        if !arguments.force && !is_ours(&own, place)? {
            return Err(foreign(place));
        }
    }
    let link = folder.join("kubectl");
    let there = fs::symlink_metadata(&link).is_ok();
    let leads_to = |kubectl: &Path| fs::canonicalize(&link).is_ok_and(|target| target == kubectl);
    if let Some(named) = &named
        && there
        && !arguments.force
        && !leads_to(named)
    {
        return Err(foreign(&link));
    }
    for place in &places {
        if !same_file(&own, place) {
            // A hard link, or a copy where there can be none.
            put(place, |new| fs::hard_link(&own, new).or_else(|_| fs::copy(&own, new).map(drop)))?;
        }
        println!("{}", place.display());
    }
    match named.or_else(|| on_path("kubectl")) {
        Some(kubectl) if !there || arguments.force || leads_to(&kubectl) => {
            if !leads_to(&kubectl) {
                put(&link, |new| symlink(&kubectl, new))?;
            }
            println!("{} -> {}", link.display(), kubectl.display());
        }
        _ if there => println!("{} is as it was; --force replaces it", link.display()),
        _ => println!("no kubectl on PATH: none is linked; name one by --kubectl"),
    }
    let folder = fs::canonicalize(folder).with_context(|| here("cannot be found"))?;
    println!("try: export KUBEBUILDER_ASSETS={}", folder.display());
    Ok(())
}

/// Puts what is made at a new place to its own, in one moment with the going of what was there.
fn put(place: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<()> {
    // In a new folder of nobody else's, on the same file system.
    let put = || {
        let beside = place.with_file_name(format!(".muster-{:016x}", OsRng.try_next_u64().map_err(io::Error::other)?));
        fs::create_dir(&beside)?;
        let new = beside.join("new");
        let done = make(&new).and_then(|()| fs::rename(&new, place));
        fs::remove_dir_all(&beside).and(done)
    };
    put().with_context(|| format!("{}: cannot be written", place.display()))
}

/// Whether both are names of one file.
fn same_file(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()));
    id(one).is_some() && id(one) == id(other)
}

/// Whether nothing is there, or a program that we put there: one in the form of our own file, with the mark in it.
fn is_ours(own: &Path, place: &Path) -> Result<bool> {
    let is_ours = || {
        match fs::symlink_metadata(place) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            found => found?,
        };
        if same_file(own, place) {
            return Ok(true);
        }
        let (mut form, mut bytes) = ([0; 4], Vec::new());
        fs::File::open(own)?.read_exact(&mut form)?;
        fs::File::open(place)?.read_to_end(&mut bytes)?;
        // What is compared with a constant need not have it in one piece.
        let mark = black_box(MARK);
        Ok(bytes.starts_with(&form) && bytes.windows(mark.len()).any(|window| window == mark))
    };
    is_ours().or_else(|error: io::Error| match error.kind() {
        // A link that leads nowhere.
        ErrorKind::NotFound => Ok(false),
        _ => Err(error).with_context(|| format!("{}", place.display())),
    })
}

/// The first program of a name on PATH.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find_map(|file| {
        let found = fs::canonicalize(file).ok()?;
        let is_program = fs::metadata(&found).is_ok_and(|about| about.is_file() && about.mode() & 0o111 != 0);
        is_program.then_some(found)
    })
}
