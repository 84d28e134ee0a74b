//! The kubeconfig that `muster up` writes, so that kubectl and every client find the cluster.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use kube::config::{Cluster, Context, KubeConfigOptions, Kubeconfig, NamedCluster, NamedContext};
use muster_apiserver::serve::kubeconfig;
use muster_runtime::client::{Client, Options};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The name of the cluster, the user and the context in every kubeconfig that `muster up` writes.
const NAME: &str = "muster";
/// How long a server on this machine may take to answer that it is there.
const ANSWER: Duration = Duration::from_secs(2);

/// Writes a kubeconfig for the server at `url`, readable by its owner only.
///
/// A file appears whole or not at all: it is written beside its place and moved there.
///
/// # Errors
/// Where the file cannot be written.
pub(crate) async fn write(path: &Path, url: &str, ca_pem: &str, token: &str) -> Result<()> {
    let text = kubeconfig(url, ca_pem, token);
    let written = match fs::canonicalize(path) {
        // What is no file, such as /dev/null or a pipe, is written into; a pipe waits until somebody reads it.
        Ok(place) if !place.is_file() => spawn_blocking(move || fs::write(place, text)).await?,
        // Of a link, what it leads to is replaced.
        Ok(place) => replace(&place, &text),
        Err(_) => match fs::read_link(path) {
            Ok(leads_to) => replace(&path.parent().unwrap_or(path).join(leads_to), &text),
            Err(_) => replace(path, &text),
        },
    };
    written.map_err(|e| anyhow::Error::new(e).context(format!("{}: the kubeconfig cannot be written", path.display())))
}

/// Whether a kubeconfig may be written in place of what is there: nothing, or one of an earlier `muster up` that has ended.
///
/// # Errors
/// Where it is something else, or holds the only token of a cluster that runs.
pub(crate) async fn replaceable(path: &Path) -> Result<()> {
    let Ok(place) = fs::canonicalize(path) else { return Ok(()) };
    let shown = path.display();
    if place.is_dir() {
        bail!("--kubeconfig {shown}: is a directory, expected a file");
    }
    if !place.is_file() || fs::metadata(&place).is_ok_and(|found| found.len() == 0) {
        return Ok(());
    }
    let cluster = Kubeconfig::read_from(&place).ok().and_then(written);
    let Some(cluster) = cluster else {
        bail!(
            "--kubeconfig {shown}: is there and holds what `muster up` has not written, so that it is not replaced; name another"
        );
    };
    if answers(&cluster).await {
        let url = cluster.server.unwrap_or_default();
        bail!("--kubeconfig {shown}: is of a cluster that runs, {url}, and is the only way into it; name another");
    }
    Ok(())
}

/// The cluster of a kubeconfig in which there is nothing else than what `muster up` writes.
fn written(found: Kubeconfig) -> Option<Cluster> {
    let Kubeconfig { clusters, contexts, auth_infos, .. } = found;
    let names = clusters.iter().map(|cluster| &cluster.name).chain(contexts.iter().map(|context| &context.name));
    let is_ours = names.chain(auth_infos.iter().map(|user| &user.name)).all(|name| name == NAME);
    clusters.into_iter().next().filter(|_| is_ours)?.cluster
}

/// Whether a cluster runs: whether there is a server at its address, and none of another authority.
async fn answers(cluster: &Cluster) -> bool {
    let server = cluster.server.as_deref().and_then(|server| server.parse::<http::Uri>().ok());
    let Some((host, port)) = server.as_ref().and_then(|server| Some((server.host()?, server.port_u16()?))) else {
        return false;
    };
    let connected = timeout(ANSWER, TcpStream::connect((host.trim_matches(['[', ']']), port))).await;
    if !matches!(connected, Ok(Ok(_))) {
        return false;
    }
    // Without the user: one that runs a program is not asked for.
    let named = NamedCluster { name: NAME.to_owned(), cluster: Some(cluster.clone()), ..NamedCluster::default() };
    let context = Context { cluster: NAME.to_owned(), ..Context::default() };
    let context = NamedContext { name: NAME.to_owned(), context: Some(context), ..NamedContext::default() };
    let alone = Kubeconfig {
        clusters: vec![named],
        contexts: vec![context],
        current_context: Some(NAME.to_owned()),
        ..Kubeconfig::default()
    };
    let config = kube::Config::from_custom_kubeconfig(alone, &KubeConfigOptions::default()).await;
    let Some(client) = config.ok().and_then(|config| Client::connect(&config, &Options::default()).ok()) else {
        return true;
    };
    match timeout(ANSWER, client.get("/version")).await {
        Ok(Err(error)) => error.api().is_some() || !error.to_string().contains("certificate"),
        // What does not answer in time may be stopped.
        Ok(Ok(_)) | Err(_) => true,
    }
}

/// Writes a file that only its owner may read. One that is there stays until the new one is whole.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
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
    use super::*;

    /// Contract: API-01
    #[tokio::test]
    async fn the_file_is_private_and_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.kubeconfig");
        fs::write(&path, kubeconfig("https://127.0.0.1:1", "", "older, and open to all")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        write(&path, "https://127.0.0.1:6443", "PEM", "secret").await.unwrap();

        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let read = Kubeconfig::read_from(&path).unwrap();
        assert_eq!(read.clusters[0].cluster.as_ref().unwrap().server.as_deref(), Some("https://127.0.0.1:6443"));
        assert_eq!(read.current_context.as_deref(), Some("muster"));
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("secret"), "the token is there: {text}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[tokio::test]
    async fn what_is_no_file_is_written_into_and_a_link_leads_to_what_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, file, link) = (folder.path().join("pipe"), folder.path().join("file"), folder.path().join("link"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).unwrap()
        });
        write(&pipe, "https://127.0.0.1:6443", "PEM", "secret").await.unwrap();
        assert!(!fs::metadata(&pipe).unwrap().is_file());
        assert!(reader.join().unwrap().contains("secret"));

        fs::write(&file, "older").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, "https://127.0.0.1:6443", "PEM", "secret").await.unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&file).unwrap().contains("secret"));
        fs::remove_file(&file).unwrap();
        write(&link, "https://127.0.0.1:6443", "PEM", "secret").await.unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink() && file.is_file());
    }

    #[tokio::test]
    async fn only_a_file_of_a_cluster_that_has_ended_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.kubeconfig");
        replaceable(&path).await.unwrap();
        fs::write(&path, "").unwrap();
        replaceable(&path).await.unwrap();
        // Nobody listens there.
        write(&path, "https://127.0.0.1:1", "", "secret").await.unwrap();
        replaceable(&path).await.unwrap();
        let ours = fs::read_to_string(&path).unwrap();
        let foreign = ours.replace("muster", "mine");
        let another = ours.replacen("users:\n", "users:\n- name: prod\n  user: {token: secret}\n", 1);
        assert_ne!(another, ours);
        for text in ["a: note\n", &*foreign, &*another] {
            fs::write(&path, text).unwrap();
            let said = replaceable(&path).await.unwrap_err().to_string();
            assert!(said.contains("a.kubeconfig") && said.contains("`muster up` has not written"), "{said}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[tokio::test]
    async fn a_folder_that_is_not_there_is_an_error_with_the_path() {
        let error = write(Path::new("/nowhere/at/all.kubeconfig"), "u", "c", "t").await.unwrap_err();
        assert!(format!("{error:#}").contains("/nowhere/at/all.kubeconfig"));
    }
}
