//! `muster envtest --install DIR`: a folder for `KUBEBUILDER_ASSETS`, in which this binary stands under the names of the
//! programs that envtest starts.

use std::env;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use super::Program;

const EXAMPLES: &str = "\
Examples:
  # A folder of programs, and a Go project's suite with it
  muster envtest --install ./assets
  KUBEBUILDER_ASSETS=$PWD/assets go test ./...

  # Deployments are rolled out and pods become ready in every test environment of the suite
  MUSTER_ENVTEST='controllers=gc,namespaces,deployments,replicasets;nodes=3' go test ./...

More: docs/test-server.md";

/// What every one of our binaries has in it, and no program of the reference.
const MARK: &[u8] = b"MUSTER_ENVTEST";

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

/// Fills the folder, and says what is in it.
///
/// # Errors
/// Where a file cannot be made, or one of somebody else is in the way.
pub(crate) fn install(arguments: &Envtest) -> Result<()> {
    let folder = &arguments.install;
    let here = |what: &str| format!("--install {}: {what}", folder.display());
    let own = env::current_exe().context("this program's own file cannot be found")?;
    let kubectl = match &arguments.kubectl {
        Some(file) => Some(fs::canonicalize(file).with_context(|| format!("--kubectl {}", file.display()))?),
        None => on_path("kubectl"),
    };
    fs::create_dir_all(folder).with_context(|| here("cannot be made"))?;
    let places = Program::ALL.map(|program| folder.join(program.name()));
    let link = folder.join("kubectl");
    for place in &places {
        if !arguments.force && !is_ours(place)? {
            bail!("{}: a program of somebody else is there; --force replaces it", place.display());
        }
    }
    for place in &places {
        put(&own, place)?;
        println!("{}", place.display());
    }
    match kubectl {
        None => println!("no kubectl on PATH: none is linked; name one by --kubectl"),
        Some(kubectl) if fs::canonicalize(&link).is_ok_and(|there| there == kubectl) => {
            println!("{} -> {}", link.display(), kubectl.display());
        }
        Some(kubectl) => {
            match fs::symlink_metadata(&link) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                // A link is no program of somebody's: what it leads to stays.
                Ok(found) if found.is_symlink() || arguments.force => {
                    fs::remove_file(&link).with_context(|| format!("{}", link.display()))?;
                }
                Ok(_) => bail!("{}: a program of somebody else is there; --force replaces it", link.display()),
                Err(error) => return Err(error).with_context(|| format!("{}", link.display())),
            }
            symlink(&kubectl, &link).with_context(|| format!("{}", link.display()))?;
            println!("{} -> {}", link.display(), kubectl.display());
        }
    }
    let folder = fs::canonicalize(folder).with_context(|| here("cannot be found"))?;
    println!("try: export KUBEBUILDER_ASSETS={}", folder.display());
    Ok(())
}

/// Puts a program at a place: a hard link, or a copy where there can be none. What is there goes in the same moment.
fn put(own: &Path, place: &Path) -> Result<()> {
    let new = place.with_extension("new");
    let put = || {
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if fs::hard_link(own, &new).is_err() {
            fs::copy(own, &new)?;
        }
        if same_file(&new, place) {
            // Two names of one file are not exchanged by a renaming.
            return fs::remove_file(&new);
        }
        fs::rename(&new, place)
    };
    put().with_context(|| format!("{}: cannot be written", place.display()))
}

fn same_file(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()));
    id(one).is_some() && id(one) == id(other)
}

/// Whether nothing is there, or a program that we put there.
fn is_ours(place: &Path) -> Result<bool> {
    let mut file = match fs::File::open(place) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error).with_context(|| format!("{}", place.display())),
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).with_context(|| format!("{}", place.display()))?;
    Ok(bytes.windows(MARK.len()).any(|window| window == MARK))
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
