//! The kubeconfig that `muster up` writes, so that kubectl and every client find the cluster.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::Result;
use muster_apiserver::serve::kubeconfig;

/// Writes a kubeconfig for the server at `url`, readable by its owner only.
///
/// The file appears whole or not at all: it is written beside its place and moved there.
///
/// # Errors
/// Where the file cannot be written.
pub(crate) fn write(path: &Path, url: &str, ca_pem: &str, token: &str) -> Result<()> {
    let text = kubeconfig(url, ca_pem, token);
    let beside = path.with_extension(format!("{}.tmp", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        // `mode` is for a file that is new; one left over keeps its own.
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())?;
        fs::rename(&beside, path)
    };
    write().map_err(|e| {
        let _ = fs::remove_file(&beside);
        anyhow::Error::new(e).context(format!("{}: the kubeconfig cannot be written", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use kube::config::Kubeconfig;

    use super::*;

    /// Contract: API-01
    #[test]
    fn the_file_is_private_and_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.kubeconfig");
        fs::write(&path, "older, and open to all").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        write(&path, "https://127.0.0.1:6443", "PEM", "secret").unwrap();

        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let read = Kubeconfig::read_from(&path).unwrap();
        assert_eq!(read.clusters[0].cluster.as_ref().unwrap().server.as_deref(), Some("https://127.0.0.1:6443"));
        assert_eq!(read.current_context.as_deref(), Some("muster"));
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("secret"), "the token is there: {text}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error_with_the_path() {
        let error = write(Path::new("/nowhere/at/all.kubeconfig"), "u", "c", "t").unwrap_err();
        assert!(format!("{error:#}").contains("/nowhere/at/all.kubeconfig"));
    }
}
