//! A cluster on disk, from outside: killed and started again, saved, restored and exported.

mod harness;
mod outside;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures::TryStreamExt as _;
use harness::tests;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use outside::{MUSTER, kubectl, muster, text};

tests! {
    nothing_acknowledged_is_lost_and_no_version_is_given_twice,
    a_cluster_is_the_same_after_it_was_killed: "kubectl",
    a_cluster_goes_through_a_file_into_another_folder: "kubectl",
    what_is_exported_applies_on_another_cluster: "kubectl",
    what_cannot_be_opened_is_named,
    manifests_are_kept_all_or_none,
}

/// A `muster up --data-dir` with its kubeconfig beside the folder.
struct Kept {
    parent: tempfile::TempDir,
    arguments: Vec<String>,
    child: Option<Child>,
}

impl Kept {
    fn new(arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let mut kept = Self { parent: tempfile::tempdir().expect("a temporary folder"), arguments, child: None };
        kept.start(&["--listen", "127.0.0.1:0"]);
        kept
    }

    fn folder(&self) -> PathBuf {
        self.parent.path().join("data")
    }

    fn kubeconfig(&self) -> PathBuf {
        self.parent.path().join("kubeconfig")
    }

    fn start(&mut self, more: &[&str]) {
        let mut child = Command::new(MUSTER)
            .arg("up")
            .arg("--data-dir")
            .arg(self.folder())
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(&self.arguments)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        self.child = Some(child);
        let mut lines = said.lines().map_while(Result::ok);
        assert!(lines.any(|line| line.starts_with("kubeconfig:")), "the program ended before it was ready");
        // It would stop at a pipe that nobody reads.
        std::thread::spawn(move || lines.count());
    }

    /// `kill -9`.
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().and_then(|()| child.wait()).expect("it is ended");
        }
    }

    /// An orderly end.
    fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
        assert!(kill.expect("kill runs").success() && child.wait().expect("it ends").success());
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        kubectl(&self.kubeconfig(), self.parent.path(), arguments, "")
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs kubectl, whatever comes of it.
fn try_kubectl(kept: &Kept, arguments: &[&str]) -> std::process::Output {
    outside::try_kubectl(&kept.kubeconfig(), kept.parent.path(), arguments, "")
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("a cluster");
    Client::try_from(config).expect("a client")
}

/// What clients were told, over all starts.
#[derive(Default)]
struct Told {
    /// What each version was: a name, and the count that its object had.
    versions: Mutex<BTreeMap<u64, (String, u64)>>,
    /// By name, the last count that was acknowledged.
    acknowledged: Mutex<BTreeMap<String, u64>>,
    writes: AtomicU64,
}

impl Told {
    fn saw(&self, object: &ConfigMap) {
        let version = object.resource_version().and_then(|version| version.parse().ok()).expect("a version");
        let what = (object.name_any(), count(object));
        let before = self.versions.lock().unwrap().insert(version, what.clone());
        assert!(before.as_ref().is_none_or(|before| *before == what), "version {version}: {before:?} and {what:?}");
    }
}

fn count(object: &ConfigMap) -> u64 {
    object.data.as_ref().and_then(|data| data["count"].parse().ok()).expect("a count")
}

/// Writes one object again and again until the server is gone.
async fn write(client: Client, name: String, told: Arc<Told>) {
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let mut object = match api.get_opt(&name).await {
        Ok(Some(object)) => object,
        Ok(None) => {
            let data = Some(BTreeMap::from([("count".to_owned(), "0".to_owned())]));
            let new = ConfigMap { data, ..ConfigMap::default() };
            let mut new = new;
            new.metadata.name = Some(name.clone());
            let Ok(made) = api.create(&PostParams::default(), &new).await else { return };
            told.saw(&made);
            told.acknowledged.lock().unwrap().insert(name.clone(), 0);
            made
        }
        Err(_) => return,
    };
    loop {
        let next = count(&object) + 1;
        object.data.get_or_insert_default().insert("count".to_owned(), next.to_string());
        let Ok(written) = api.replace(&name, &PostParams::default(), &object).await else { return };
        told.saw(&written);
        told.acknowledged.lock().unwrap().insert(name.clone(), next);
        told.writes.fetch_add(1, Ordering::Relaxed);
        object = written;
    }
}

/// Reads a watch until the server is gone.
async fn watch(client: Client, told: Arc<Told>) {
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let Ok(events) = api.watch(&WatchParams::default(), "0").await else { return };
    let _ = events
        .try_for_each(|event| {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = &event
                && object.name_any().starts_with("w-")
            {
                told.saw(object);
            }
            futures::future::ok(())
        })
        .await;
}

/// Contract: API-24, API-37
fn nothing_acknowledged_is_lost_and_no_version_is_given_twice() {
    let rounds = std::env::var("MUSTER_KILLS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(4);
    let mut random = std::env::var("MUSTER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1_u64);
    let mut kept = Kept::new(&["--nodes", "0", "--controllers", ""]);
    let told = Arc::new(Told::default());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    for round in 0..rounds {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Some are killed before the first answer.
        let until = told.writes.load(Ordering::Relaxed) + (random >> 33) % 150;
        let writers = runtime.block_on(async {
            let client = client(&kept.kubeconfig()).await;
            let watcher = tokio::spawn(watch(client.clone(), Arc::clone(&told)));
            let names = (0..16).map(|at| format!("w-{at}"));
            let mut tasks: Vec<_> =
                names.map(|name| tokio::spawn(write(client.clone(), name, Arc::clone(&told)))).collect();
            while told.writes.load(Ordering::Relaxed) < until {
                tokio::task::yield_now().await;
            }
            tasks.push(watcher);
            tasks
        });
        kept.kill();
        runtime.block_on(async {
            for task in writers {
                task.await.expect("no assertion failed");
            }
        });
        kept.start(&[]);
        runtime.block_on(async {
            let api: Api<ConfigMap> = Api::namespaced(client(&kept.kubeconfig()).await, "default");
            let list = api.list(&kube::api::ListParams::default()).await.expect("a list");
            let newest: u64 =
                list.metadata.resource_version.as_deref().and_then(|v| v.parse().ok()).expect("a version");
            let seen = told.versions.lock().unwrap().keys().next_back().copied().unwrap_or_default();
            assert!(newest >= seen, "round {round}: the server has version {newest}, and {seen} was seen");
            let found: BTreeMap<String, u64> = list
                .items
                .iter()
                .filter(|object| object.name_any().starts_with("w-"))
                .map(|object| {
                    told.saw(object);
                    (object.name_any(), count(object))
                })
                .collect();
            for (name, acknowledged) in &*told.acknowledged.lock().unwrap() {
                let found = found.get(name);
                assert!(found >= Some(acknowledged), "round {round}: {name}: {found:?}, acknowledged {acknowledged}");
            }
        });
    }
    println!("{rounds} kills, {} acknowledged writes", told.writes.load(Ordering::Relaxed));
}

const WIDGETS: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
 "metadata": {"name": "widgets.example.com"},
 "spec": {"group": "example.com", "names": {"kind": "Widget", "plural": "widgets"}, "scope": "Namespaced",
  "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
   {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}]}}"#;
const WIDGET: &str =
    r#"{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}}"#;

/// A deployment, a service, a definition with an object, a role, and a service account whose token it answers.
fn furnish(kept: &Kept) -> String {
    let run = |arguments: &[&str]| kept.kubectl(arguments);
    let apply = |manifest: &str| kubectl(&kept.kubeconfig(), kept.parent.path(), &["apply", "-f", "-"], manifest);
    run(&["create", "deployment", "web", "--image=nginx", "--replicas=3"]);
    run(&["expose", "deployment", "web", "--port=80", "--type=NodePort"]);
    run(&["create", "serviceaccount", "robot"]);
    run(&["create", "role", "reader", "--verb=get,list", "--resource=configmaps"]);
    run(&["create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:robot"]);
    run(&["create", "quota", "few", "--hard=count/secrets=1"]);
    apply(WIDGETS);
    run(&["wait", "--for=condition=Established", "crd/widgets.example.com"]);
    apply(WIDGET);
    run(&["rollout", "status", "deployment/web"]);
    run(&["create", "token", "robot", "--duration=1h"]).trim().to_owned()
}

/// What must be the same afterwards.
fn picture(kept: &Kept) -> String {
    let columns = "custom-columns=K:.kind,NS:.metadata.namespace,N:.metadata.name,UID:.metadata.uid,IP:.spec.clusterIP,\
                   PORT:.spec.ports[*].nodePort,NODE:.spec.nodeName,START:.status.startTime,SIZE:.spec.size";
    let kinds = "pods,services,deployments,replicasets,widgets,serviceaccounts,roles,clusterroles,namespaces,nodes";
    kept.kubectl(&["get", kinds, "-A", "-o", columns])
}

/// The version that the server has.
fn version(kept: &Kept) -> u64 {
    let list: serde_json::Value =
        serde_json::from_str(&kept.kubectl(&["get", "--raw", "/api/v1/namespaces"])).expect("JSON");
    list["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok()).expect("a version")
}

/// Contract: API-24, API-37
fn a_cluster_is_the_same_after_it_was_killed() {
    let mut kept = Kept::new(&["--pod-startup", "0s"]);
    let token = furnish(&kept);
    let (before, kubeconfig) = (picture(&kept), std::fs::read_to_string(kept.kubeconfig()).expect("a kubeconfig"));
    let before_it = version(&kept);
    for orderly in [false, true] {
        if orderly {
            kept.stop();
        } else {
            kept.kill();
        }
        kept.start(&[]);
        assert_eq!(std::fs::read_to_string(kept.kubeconfig()).expect("a kubeconfig"), kubeconfig);
        assert_eq!(picture(&kept), before);
    }
    // Versions went on, and what was before is gone for watches.
    assert!(version(&kept) >= before_it);
    let gone = kept.kubectl(&["get", "--raw", "/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion=1"]);
    assert!(gone.contains("\"code\":410"), "{gone}");
    // The token of the service account is good, and its role is known.
    let get = ["--token", &token, "auth", "can-i", "--list", "-n", "default"];
    assert!(kept.kubectl(&get).contains("configmaps"));
    // A quota knows what there is, and a rollout goes on.
    kept.kubectl(&["create", "secret", "generic", "one"]);
    let second = try_kubectl(&kept, &["create", "secret", "generic", "two"]);
    assert!(text(&second.stderr).contains("exceeded quota: few"), "{}", text(&second.stderr));
    kept.kubectl(&["set", "image", "deployment/web", "nginx=nginx:2"]);
    kept.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    kept.kubectl(&["delete", "crd", "widgets.example.com"]);
    kept.kill();
    kept.start(&[]);
    assert!(!kept.kubectl(&["api-resources", "--api-group=example.com"]).contains("widgets"));
}

/// Contract: API-37
fn a_cluster_goes_through_a_file_into_another_folder() {
    let mut kept = Kept::new(&["--pod-startup", "0s"]);
    let token = furnish(&kept);
    let before = picture(&kept);
    let refused = try_kubectl(&kept, &["--token", &token, "get", "--raw", "/muster/snapshot"]);
    assert!(text(&refused.stderr).contains("cannot get path"), "{}", text(&refused.stderr));
    let file = kept.parent.path().join("saved").to_string_lossy().into_owned();
    let saved = muster(&["snapshot", "save", &file, "--kubeconfig", &kept.kubeconfig().to_string_lossy()]);
    assert!(saved.status.success(), "{}", text(&saved.stderr));
    let printed = muster(&["snapshot", "save", "-", "--kubeconfig", &kept.kubeconfig().to_string_lossy()]);
    let restored = kept.parent.path().join("printed");
    std::fs::write(&restored, &printed.stdout).expect("a file");
    let beside = kept.parent.path().join("beside").to_string_lossy().into_owned();
    let restored = muster(&["snapshot", "restore", &restored.to_string_lossy(), "--data-dir", &beside]);
    assert!(restored.status.success(), "{}{}", text(&printed.stderr), text(&restored.stderr));
    let device = muster(&["snapshot", "save", "/dev/null", "--kubeconfig", &kept.kubeconfig().to_string_lossy()]);
    assert_eq!(device.status.code(), Some(1));
    assert!(text(&device.stderr).contains("/dev/null: is there and is no file"), "{}", text(&device.stderr));
    kept.stop();
    let other = kept.parent.path().join("other").to_string_lossy().into_owned();
    let restored = muster(&["snapshot", "restore", &file, "--data-dir", &other]);
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    let again = muster(&["snapshot", "restore", &file, "--data-dir", &other]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("is not empty: it has "), "{}", text(&again.stderr));
    std::fs::remove_dir_all(kept.folder()).expect("it is stopped");
    std::fs::rename(&other, kept.folder()).expect("they are beside each other");
    // Where it listens is not in the file.
    let address = std::fs::read_to_string(kept.folder().join("identity.json")).expect("a file");
    assert!(!address.contains("\"address\""), "{address}");
    kept.start(&["--listen", "127.0.0.1:0"]);
    assert_eq!(picture(&kept), before);

    // A folder can be saved too; a file that was cut is refused with its name and the line.
    kept.stop();
    let saved = muster(&["snapshot", "save", &file, "--data-dir", &kept.folder().to_string_lossy()]);
    assert!(saved.status.success(), "{}", text(&saved.stderr));
    let whole = std::fs::read(&file).expect("a file");
    let printed = muster(&["snapshot", "save", "-", "--data-dir", &kept.folder().to_string_lossy()]);
    assert!(printed.status.success() && printed.stdout == whole, "{}", text(&printed.stderr));
    assert!(text(&printed.stderr).contains(" objects at version "), "{}", text(&printed.stderr));
    std::fs::write(&file, &whole[..whole.len() / 2]).expect("a file");
    let cut = muster(&["up", "--from", &file, "--listen", "127.0.0.1:0"]);
    assert_eq!(cut.status.code(), Some(1));
    assert!(text(&cut.stderr).contains(&format!("{file} is not a whole snapshot: line ")), "{}", text(&cut.stderr));
}

/// Contract: API-37
fn what_is_exported_applies_on_another_cluster() {
    let kept = Kept::new(&["--pod-startup", "0s"]);
    furnish(&kept);
    kept.kubectl(&["create", "namespace", "shop"]);
    kept.kubectl(&["create", "configmap", "c", "-n", "shop", "--from-literal=a=1"]);
    let kubeconfig = kept.kubeconfig().to_string_lossy().into_owned();
    let exported = muster(&["export", "-A", "--kubeconfig", &kubeconfig]);
    assert!(exported.status.success(), "{}", text(&exported.stderr));
    let yaml = text(&exported.stdout);
    for absent in
        ["uid:", "resourceVersion:", "managedFields:", "creationTimestamp:", "clusterIP", "nodePort:", "status:"]
    {
        assert!(!yaml.contains(absent), "{absent} in:\n{yaml}");
    }
    let kinds: Vec<&str> = yaml.lines().filter_map(|line| line.strip_prefix("kind: ")).collect();
    let expected = [
        "Namespace",
        "CustomResourceDefinition",
        "ResourceQuota",
        "ServiceAccount",
        "ConfigMap",
        "Role",
        "RoleBinding",
        "Service",
        "Deployment",
        "Widget",
    ];
    assert_eq!(kinds, expected, "{yaml}");

    let other = Kept::new(&["--pod-startup", "0s"]);
    // kubectl looks up all kinds before it applies any.
    let apply = |stdin: &str| kubectl(&other.kubeconfig(), other.parent.path(), &["apply", "-f", "-"], stdin);
    let at = yaml.find("---\napiVersion: example.com/v1").expect("the widget");
    apply(&yaml[..at]);
    other.kubectl(&["wait", "--for=condition=Established", "crd/widgets.example.com"]);
    apply(&yaml[at..]);
    other.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let again = muster(&["export", "-A", "--kubeconfig", &other.kubeconfig().to_string_lossy()]);
    assert_eq!(text(&again.stdout), yaml);
}

/// Contract: API-24, API-37
fn what_cannot_be_opened_is_named() {
    let mut kept = Kept::new(&["--nodes", "0", "--controllers", ""]);
    let folder = kept.folder().to_string_lossy().into_owned();
    let up =
        |folder: &str| muster(&["up", "--data-dir", folder, "--listen", "127.0.0.1:0", "--kubeconfig", "/dev/null"]);
    let used = up(&folder);
    assert_eq!(used.status.code(), Some(1));
    let pid = kept.child.as_ref().expect("it runs").id();
    assert!(text(&used.stderr).contains(&format!("{folder} is in use by process {pid}")), "{}", text(&used.stderr));
    kept.kill();
    let state = kept.folder().join("state.redb");
    let mut bytes = std::fs::read(&state).expect("a file");
    // An older copy of a page may be left behind it: each is damaged, of which one is read.
    let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"kube-node")).collect();
    assert!(!places.is_empty(), "a namespace");
    for at in places {
        bytes[at] ^= 1;
    }
    std::fs::write(&state, &bytes).expect("a file");
    let corrupt = up(&folder);
    assert_eq!(corrupt.status.code(), Some(1));
    let said = text(&corrupt.stderr);
    assert!(said.contains(&format!("{} is corrupt at offset ", state.display())), "{said}");
    assert!(said.contains("muster snapshot restore"), "{said}");
    assert!(std::fs::read(&state).expect("a file") == bytes, "nothing is changed");
}

/// Contract: API-37
fn manifests_are_kept_all_or_none() {
    let mut kept = Kept::new(&["--nodes", "0", "--controllers", ""]);
    kept.stop();
    let manifest = kept.parent.path().join("both.yaml");
    let file = manifest.to_string_lossy().into_owned();
    let map = |name: &str| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n");
    std::fs::write(&manifest, map("good") + &map("Bad")).expect("a file");
    let (folder, kubeconfig) = (kept.folder().to_string_lossy().into_owned(), kept.kubeconfig());
    let kubeconfig = kubeconfig.to_string_lossy().into_owned();
    let arguments = ["up", "--data-dir", &folder, "--listen", "127.0.0.1:0", "--kubeconfig", &kubeconfig, "-f", &file];
    let refused = muster(&arguments);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("nothing was applied"), "{}", text(&refused.stderr));
    kept.start(&[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let names = |kubeconfig: &Path| {
        runtime.block_on(async {
            let api: Api<ConfigMap> = Api::namespaced(client(kubeconfig).await, "default");
            let list = api.list(&kube::api::ListParams::default()).await.expect("a list");
            list.items.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>()
        })
    };
    let found = names(&kept.kubeconfig());
    assert!(!found.iter().any(|name| name == "good"), "{found:?}");
    kept.stop();
    std::fs::write(&manifest, map("good") + &map("better")).expect("a file");
    kept.start(&["-f", &file]);
    kept.kill();
    kept.start(&[]);
    let found = names(&kept.kubeconfig());
    assert!(["good", "better"].iter().all(|wanted| found.iter().any(|name| name == wanted)), "{found:?}");
}
