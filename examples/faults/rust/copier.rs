//! A controller of kube-rs on a bad day: it keeps a copy of each ConfigMap with the label copy=yes, `NAME-copy`, with the same data.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use http::header::{HeaderValue, USER_AGENT};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::{wait, watcher};
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};

async fn reconcile(source: Arc<ConfigMap>, maps: Arc<Api<ConfigMap>>) -> Result<Action, kube::Error> {
    let name = format!("{}-copy", source.name_any());
    let data = source.data.clone();
    match maps.get_opt(&name).await? {
        None => {
            let metadata = ObjectMeta { name: Some(name), ..Default::default() };
            maps.create(&PostParams::default(), &ConfigMap { metadata, data, ..Default::default() }).await?;
        }
        Some(copy) if copy.data != data => {
            maps.replace(&name, &PostParams::default(), &ConfigMap { data, ..copy }).await?;
        }
        Some(_) => {}
    }
    Ok(Action::await_change())
}

async fn run(client: Client) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let sources = Controller::new(maps.clone(), watcher::Config::default().labels("copy=yes"));
    let retry =
        |_: Arc<ConfigMap>, _: &kube::Error, _: Arc<Api<ConfigMap>>| Action::requeue(Duration::from_millis(200));
    sources.run(reconcile, retry, Arc::new(maps)).for_each(|_| std::future::ready(())).await;
}

#[tokio::test]
async fn the_copy_follows_whatever_strikes() -> Result<(), Box<dyn Error>> {
    let cluster = Cluster::start()?;
    let copier = tokio::spawn(run(cluster.client("copier").await?));
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client("test").await?);
    let source = json!({"metadata": {"name": "page", "labels": {"copy": "yes"}}, "data": {"round": "0"}});
    maps.create(&PostParams::default(), &serde_json::from_value(source)?).await?;
    for round in 0..4 {
        let data = BTreeMap::from([("round".to_owned(), round.to_string())]);
        maps.patch("page", &PatchParams::default(), &Patch::Merge(json!({"data": data}))).await?;
        let copied = |copy: Option<&ConfigMap>| copy.is_some_and(|copy| copy.data.as_ref() == Some(&data));
        tokio::time::timeout(Duration::from_secs(60), wait::await_condition(maps.clone(), "page-copy", copied))
            .await??;
    }
    copier.abort();

    let strikes = cluster.strikes()?;
    assert!(strikes.iter().all(|strike| strike["client"] == "copier"), "{strikes:?}");
    for (verb, fault) in
        [("create", "answer-lost"), ("update", "conflict"), ("watch", "lag"), ("watch", "cut-at"), ("watch", "expired")]
    {
        let found = |strike: &Value| strike["verb"] == verb && strike["fault"].to_string().contains(fault);
        assert!(strikes.iter().any(found), "no {fault} of a {verb}: {strikes:?}");
    }
    Ok(())
}

/// The program. In a project of your own it is on the PATH.
const MUSTER: &str = match option_env!("CARGO_BIN_EXE_muster") {
    Some(program) => program,
    None => "muster",
};

/// A cluster with faults. Ended when dropped.
struct Cluster {
    process: Child,
    folder: tempfile::TempDir,
}

impl Cluster {
    fn start() -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/faults/copier.yaml");
        let mut process = Command::new(MUSTER)
            .args(["up", "--listen", "127.0.0.1:0", "--nodes", "0", "--output", "json", "--exit-with-parent"])
            .args(["--faults", plan, "--seed", "1", "--kubeconfig"])
            .arg(folder.path().join("kubeconfig"))
            .stdout(Stdio::piped())
            .spawn()?;
        let mut ready = String::new();
        BufReader::new(process.stdout.take().ok_or("no pipe")?).read_line(&mut ready)?;
        assert!(ready.contains(r#""event":"ready""#), "{ready}");
        Ok(Self { process, folder })
    }

    async fn client(&self, user_agent: &'static str) -> Result<Client, Box<dyn Error>> {
        let kubeconfig = Kubeconfig::read_from(self.folder.path().join("kubeconfig"))?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.headers.push((USER_AGENT, HeaderValue::from_static(user_agent)));
        Ok(Client::try_from(config)?)
    }

    fn strikes(&self) -> Result<Vec<Value>, Box<dyn Error>> {
        let kubeconfig = self.folder.path().join("kubeconfig");
        let output = Command::new(MUSTER).args(["faults", "strikes", "--kubeconfig"]).arg(kubeconfig).output()?;
        Ok(serde_json::Deserializer::from_slice(&output.stdout).into_iter().collect::<Result<_, _>>()?)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
