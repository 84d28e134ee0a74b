//! `muster export`: what people made in a cluster, as YAML that `kubectl apply` takes on another one.
//!
//! ```text
//!   API server (of a kubeconfig, or of a folder or a snapshot in memory) --> lists of all kinds --> clean --> sorted YAML
//! ```

pub(crate) mod clean;
mod order;

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use muster_apiserver::disk::Folder;
use muster_apiserver::model::Object;
use muster_apiserver::{ApiServer, Kept, Options, yaml};
use muster_cluster::kinds::Kinds;
use muster_manager::arguments::{client_options, say};
use muster_manager::explain::target::OwnClusterFlags;
use muster_runtime::client::{Client, Options as ClientOptions};
use muster_tree::Value;
use serde::Deserialize;

use crate::data;
use crate::kubeconfig::replace;

const EXAMPLES: &str = "\
Examples:
  # One namespace of the cluster that `muster up` started, to another cluster
  muster export -n shop | kubectl --context staging apply -f -

  # Everything that people made, of any cluster
  muster export -A --kubeconfig ~/.kube/config -o cluster.yaml

  # Of a cluster that is not running
  muster export -A --data-dir ~/clusters/one
  muster export -A --from backup.muster

kubectl looks up all kinds before it applies anything: where the file has CustomResourceDefinitions and objects of \
them, apply it twice. Secrets are in it as they are.";

/// What `muster export` takes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Export {
    /// Only the objects of this namespace, and the namespace
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default", conflicts_with = "all_namespaces")]
    namespace: String,

    /// Everything: all namespaces, and what is in none
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    #[command(flatten)]
    cluster: OwnClusterFlags,

    /// The folder of a cluster that is not running
    #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "kubeconfig"])]
    data_dir: Option<PathBuf>,

    /// A file of `muster snapshot save`
    #[arg(long, value_name = "FILE", conflicts_with = "kubeconfig")]
    from: Option<PathBuf>,

    /// Where to write it; standard output where absent, or `-`
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs `muster export`.
///
/// # Errors
/// Where the cluster cannot be read, or the file not be written.
pub(crate) async fn run(arguments: &Export) -> Result<()> {
    let client = client(arguments).await?;
    let text = export(&client, (!arguments.all_namespaces).then_some(&*arguments.namespace)).await?;
    match arguments.output.as_ref().filter(|file| file.as_os_str() != "-") {
        Some(file) => write(file, &text).with_context(|| format!("{}", file.display())),
        None => say(&text),
    }
}

/// Writes a file that only its owner may read: there are Secrets in it.
fn write(file: &Path, text: &str) -> io::Result<()> {
    // Of a link, what it leads to is replaced. What is no file, such as a pipe, has nothing to lose.
    let file = &fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        return OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes());
    }
    replace(file, text)
}

/// A client of the cluster; one that is not running is served in memory.
async fn client(arguments: &Export) -> Result<Client> {
    let (identity, contents) = match (&arguments.data_dir, &arguments.from) {
        (Some(folder), _) => Folder::read(folder)?,
        (None, Some(file)) => data::read(file)?,
        (None, None) => {
            let (config, _) = arguments.cluster.config().await?;
            return Ok(Client::connect(&config, &ClientOptions { protobuf: false, ..client_options() })?);
        }
    };
    let options = Options::system().context("this machine gives no randomness")?;
    let kept = Kept { version: contents.version, stored: contents.stored, identity: Some(identity), ..Kept::default() };
    let server = ApiServer::resume(options, kept)?;
    Ok(Client::in_process(server.service(), &ClientOptions { protobuf: false, ..ClientOptions::default() }))
}

/// Everything of a namespace, or of the cluster, as YAML.
async fn export(client: &Client, namespace: Option<&str>) -> Result<String> {
    let kinds = Kinds::discover(client).await.context("the server's kinds")?;
    if let Some(namespace) = namespace {
        // Of one that is not there nothing could be told from one that is empty.
        client
            .get(&format!("/api/v1/namespaces/{namespace}"))
            .await
            .with_context(|| format!("--namespace {namespace}"))?;
    }
    let mut objects: Vec<Object> = Vec::new();
    for kind in kinds.iter().filter(|kind| kind.preferred) {
        let is_namespace = &*kind.api_version == "v1" && &*kind.kind == "Namespace";
        let comes_by_itself = clean::is_left_out(&kind.resource.group, &kind.kind);
        if !kind.collectable || comes_by_itself || (namespace.is_some() && !kind.namespaced && !is_namespace) {
            continue;
        }
        let mut path = kind.resource.collection(namespace.filter(|_| kind.namespaced));
        if let (true, Some(namespace)) = (is_namespace, namespace) {
            path.push_str(&format!("?fieldSelector=metadata.name%3D{namespace}"));
        }
        let answer = client.get(&path).await.with_context(|| format!("{} cannot be listed", kind.kind))?;
        let list: List = serde_json::from_slice(&answer.body).with_context(|| format!("the list of {}", kind.kind))?;
        for mut object in list.items {
            // Items of a list do not say what they are.
            object.insert("apiVersion".to_owned(), Value::from(&*kind.api_version));
            object.insert("kind".to_owned(), Value::from(&*kind.kind));
            objects.extend(clean::cleaned(object));
        }
    }
    objects.sort_by_cached_key(order::place);
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&yaml::to_string(&Value::Object(object)));
    }
    Ok(text)
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: Vec<Object>,
}
