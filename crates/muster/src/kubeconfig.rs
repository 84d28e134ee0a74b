//! The kubeconfig that `muster up` writes, so that kubectl and every client find the cluster.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use kube::config::Kubeconfig;
use muster_apiserver::serve::kubeconfig;
use muster_runtime::client::{Client, Options, configuration};
use tokio::time::timeout;

/// The name of the cluster in every kubeconfig that `muster up` writes.
const CLUSTER: &str = "muster";
/// How long a server on this machine may take to answer that it is there.
const ANSWER: Duration = Duration::from_secs(2);

/// Writes a kubeconfig for the server at `url`, readable by its owner only.
///
/// A file appears whole or not at all: it is written beside its place and moved there.
///
/// # Errors
/// Where the file cannot be written.
pub(crate) fn write(path: &Path, url: &str, ca_pem: &str, token: &str) -> Result<()> {
    let text = kubeconfig(url, ca_pem, token);
    let written = match fs::canonicalize(path) {
        // What is no file, such as /dev/null or a pipe, is written into.
        Ok(place) if !place.is_file() => fs::write(place, &text),
        // Of a link, what it leads to is replaced.
        Ok(place) => replace(&place, &text),
        Err(_) => replace(path, &text),
    };
    written.map_err(|e| anyhow::Error::new(e).context(format!("{}: the kubeconfig cannot be written", path.display())))
}

/// Whether a kubeconfig may be written in place of what is there: nothing, or one of an earlier `muster up` that has ended.
///
/// # Errors
/// Where it is another file, or holds the only token of a cluster that runs.
pub(crate) async fn replaceable(path: &Path) -> Result<()> {
    let Ok(place) = fs::canonicalize(path) else { return Ok(()) };
    if !place.is_file() || fs::metadata(&place).is_ok_and(|found| found.len() == 0) {
        return Ok(());
    }
    let written = Kubeconfig::read_from(&place)
        .ok()
        .filter(|found| !found.clusters.is_empty() && found.clusters.iter().all(|cluster| cluster.name == CLUSTER));
    let shown = path.display();
    if written.is_none() {
        bail!(
            "--kubeconfig {shown}: is there and was not written by `muster up`, so that it is not replaced; name another"
        );
    }
    // It may be one that cannot be used, of a cluster that nobody could reach by it.
    let Ok(config) = configuration(Some(&place)).await else { return Ok(()) };
    let Ok(client) = Client::connect(&config, &Options::default()) else { return Ok(()) };
    if let Ok(Ok(_)) = timeout(ANSWER, client.get("/version")).await {
        let url = config.cluster_url;
        bail!("--kubeconfig {shown}: is of a cluster that runs, {url}, and is the only way into it; name another");
    }
    Ok(())
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension(format!("{}.tmp", std::process::id()));
    let write = || {
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        // `mode` is for a file that is new; one left over keeps its own.
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())?;
        fs::rename(&beside, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&beside)))
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
        fs::write(&path, kubeconfig("https://127.0.0.1:1", "", "older, and open to all")).unwrap();
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
    fn what_is_no_file_is_written_into_and_a_link_leads_to_what_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, file, link) = (folder.path().join("pipe"), folder.path().join("file"), folder.path().join("link"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).unwrap()
        });
        write(&pipe, "https://127.0.0.1:6443", "PEM", "secret").unwrap();
        assert!(!fs::metadata(&pipe).unwrap().is_file());
        assert!(reader.join().unwrap().contains("secret"));

        fs::write(&file, "older").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, "https://127.0.0.1:6443", "PEM", "secret").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&file).unwrap().contains("secret"));
    }

    #[tokio::test]
    async fn only_a_file_of_a_cluster_that_has_ended_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.kubeconfig");
        replaceable(&path).await.unwrap();
        fs::write(&path, "").unwrap();
        replaceable(&path).await.unwrap();
        // Nobody listens there.
        write(&path, "https://127.0.0.1:1", "", "secret").unwrap();
        replaceable(&path).await.unwrap();
        let foreign = fs::read_to_string(&path).unwrap().replace("muster", "mine");
        for text in ["a: note\n", &*foreign] {
            fs::write(&path, text).unwrap();
            let said = replaceable(&path).await.unwrap_err().to_string();
            assert!(said.contains("a.kubeconfig") && said.contains("not written by `muster up`"), "{said}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error_with_the_path() {
        let error = write(Path::new("/nowhere/at/all.kubeconfig"), "u", "c", "t").unwrap_err();
        assert!(format!("{error:#}").contains("/nowhere/at/all.kubeconfig"));
    }
}
