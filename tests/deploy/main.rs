//! What `deploy/` holds: the chart is rendered and is the manifests, every object is one that Kubernetes knows, the
//! flags are ours, and what is watched and alerted on is what a manager tells.

mod chart;
#[path = "../harness/mod.rs"]
mod harness;
mod metrics;
mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use bytes::Bytes;
use muster_apiserver::{ApiServer, Options};
use muster_runtime::client::{Client, ClientError, Options as ClientOptions};
use serde_json::{Value, json};

use harness::tests;
use objects::{Object, by_identity, documents, folder, is_of_its_type, manifests};

tests! {
    the_chart_with_its_own_values_is_the_manifests,
    helm_renders_the_same: "helm",
    every_object_is_one_that_kubernetes_knows,
    the_embedded_server_takes_every_object_that_it_serves,
    every_selector_meets_its_pods,
    every_flag_is_one_of_ours_and_takes_its_value,
    pods_have_no_more_than_they_need,
    the_image_is_that_of_this_version,
    the_image_starts_what_is_built_for_it,
    the_notes_warn_of_two_writers,
    the_schema_has_the_values_of_the_chart,
    metrics::what_is_watched_and_alerted_on_is_told_by_a_manager,
    metrics::the_monitor_scrapes_the_port_of_the_service,
}

/// Values that reach every branch of the templates, each with what the chart is called then.
fn variants() -> Vec<(&'static str, Value)> {
    let everything = json!({
        "name": "apps",
        "image": {"repository": "registry.example/muster", "digest": format!("sha256:{}", "0".repeat(64))},
        "imagePullSecrets": [{"name": "registry"}],
        "replicas": 1,
        "controllers": ["*", "-replicationcontroller"],
        "extraArgs": ["--concurrent-deployment-syncs=10", "--burst-replicas=50"],
        "tls": {"secretName": "muster-tls"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "hostNetwork": true,
        "podAnnotations": {"example.com/on": "true"},
        "podDisruptionBudget": {"enabled": false},
        "serviceMonitor": {"enabled": true, "labels": {"release": "prometheus"}, "serverName": "muster.example"},
        "prometheusRule": {"enabled": true, "labels": {"release": "prometheus"}},
        "dashboard": {"enabled": true},
    });
    let bare = json!({"tolerations": [], "affinity": {}, "resources": {}, "image": {"tag": "canary"}});
    let shards = json!({"shards": 16, "replicas": 3});
    vec![
        ("defaults", json!({})),
        ("monitored", monitored()),
        ("shadow", shadow()),
        ("shards", shards),
        ("all", everything),
        ("bare", bare),
    ]
}

fn monitored() -> Value {
    json!({"serviceMonitor": {"enabled": true}, "prometheusRule": {"enabled": true}})
}

/// What `deploy/manifests-shadow` is made with.
fn shadow() -> Value {
    json!({"name": "muster-shadow", "shadow": true, "replicas": 1, "podDisruptionBudget": {"enabled": false}})
}

/// Every object of the folder, of whichever variant.
fn everything() -> Vec<Object> {
    let folders = ["deploy/manifests", "deploy/manifests-shadow", "deploy/monitoring", "deploy/static-pod"];
    let mut objects: Vec<Object> = folders.iter().flat_map(|folder| manifests(folder)).collect();
    objects.extend(variants().iter().flat_map(|(_, values)| chart::render(values)));
    objects
}

fn the_chart_with_its_own_values_is_the_manifests() {
    let same = |values: &Value, folders: &[&str]| {
        let plain: Vec<Object> = folders.iter().flat_map(|folder| manifests(folder)).collect();
        let (rendered, plain) = (by_identity(chart::render(values)), by_identity(plain));
        assert_eq!(rendered.keys().collect::<Vec<_>>(), plain.keys().collect::<Vec<_>>());
        for (identity, object) in plain {
            assert_eq!(rendered[&identity], object, "{identity:?}: left the chart, right {folders:?}");
        }
    };
    same(&json!({}), &["deploy/manifests"]);
    same(&shadow(), &["deploy/manifests-shadow"]);
    same(&monitored(), &["deploy/manifests", "deploy/monitoring"]);
}

/// What is rendered here is what Helm renders.
fn helm_renders_the_same() {
    let helm = || Command::new("helm");
    let folder = folder("deploy/chart/muster");
    for (variant, values) in variants() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        fs::write(file.path(), values.to_string()).expect("a temporary file");
        let output = helm()
            .args(["template", "muster", "--namespace=kube-system", "--values"])
            .arg(file.path())
            .arg(&folder)
            .output()
            .expect("helm runs");
        assert!(output.status.success(), "{variant}: {}", String::from_utf8_lossy(&output.stderr));
        let theirs = by_identity(documents("helm", &format!("\n{}", String::from_utf8_lossy(&output.stdout))));
        assert_eq!(by_identity(chart::render(&values)), theirs, "{variant}: left ours, right helm's");
    }
    let lint = helm().args(["lint", "--strict"]).arg(&folder).output().expect("helm runs");
    assert!(lint.status.success(), "{}", String::from_utf8_lossy(&lint.stdout));
}

fn every_object_is_one_that_kubernetes_knows() {
    let mut others = BTreeSet::new();
    for object in everything() {
        if !is_of_its_type(&object) {
            others.insert(object.kind().to_owned());
        }
    }
    let others: Vec<String> = others.into_iter().collect();
    assert_eq!(others, ["PrometheusRule", "ServiceMonitor"], "kinds that are not Kubernetes' own");
}

/// The server that is in the box takes whatever is of a kind that it serves, and finds no field that it does not know.
#[tokio::main(flavor = "current_thread")]
async fn the_embedded_server_takes_every_object_that_it_serves() {
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    for object in everything() {
        let server = ApiServer::new(Options::system().expect("randomness"));
        let client =
            Client::in_process(server.service(), &ClientOptions { protobuf: false, ..ClientOptions::default() });
        let collection = object.collection();
        match client.get(&collection).await {
            Ok(_) => {}
            Err(ClientError::Api(error)) if error.code == 404 => continue,
            Err(error) => panic!("{collection}: {error}"),
        }
        let body = Bytes::from(object.value.to_string());
        let answer = client.post(&format!("{collection}?fieldValidation=Strict"), body).await;
        let answer =
            answer.unwrap_or_else(|error| panic!("{}: {} {}: {error}", object.file, object.kind(), object.name()));
        assert!(!answer.headers.contains_key("warning"), "{}: {:?}", object.file, answer.headers);
        *taken.entry(object.kind().to_owned()).or_default() += 1;
    }
    let kinds: Vec<&str> = taken.keys().map(String::as_str).collect();
    assert_eq!(
        kinds,
        [
            "ClusterRole",
            "ClusterRoleBinding",
            "ConfigMap",
            "Deployment",
            "FlowSchema",
            "Pod",
            "PodDisruptionBudget",
            "Role",
            "RoleBinding",
            "Service",
            "ServiceAccount",
        ]
    );
}

fn every_selector_meets_its_pods() {
    for object in everything() {
        let labels = &object.value["spec"]["template"]["metadata"]["labels"];
        if object.kind() == "Deployment" {
            assert_eq!(&object.value["spec"]["selector"]["matchLabels"], labels, "{}", object.file);
            let pod = &object.value["spec"]["template"]["spec"];
            for spread in pod["topologySpreadConstraints"].as_array().expect("constraints") {
                assert_eq!(&spread["labelSelector"]["matchLabels"], labels, "{}", object.file);
            }
        }
    }
    for (variant, values) in variants() {
        let objects = by_identity(chart::render(&values));
        let of = |kind: &str| objects.iter().find(|((found, _), _)| found == kind).map(|(_, object)| object);
        let deployment = of("Deployment").expect("a Deployment");
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        for (kind, selector) in [
            ("Service", "/spec/selector"),
            ("PodDisruptionBudget", "/spec/selector/matchLabels"),
            ("ServiceMonitor", "/spec/selector/matchLabels"),
        ] {
            let Some(object) = of(kind) else { continue };
            assert_eq!(object.pointer(selector), Some(labels), "{variant}: {kind}");
        }
        let account = of("ServiceAccount").expect("a ServiceAccount");
        assert_eq!(deployment["spec"]["template"]["spec"]["serviceAccountName"], account["metadata"]["name"]);
    }
}

/// The pods of every variant.
fn pods() -> Vec<(String, Value)> {
    let pod = |object: Object| match object.kind() {
        "Deployment" => Some((object.file, object.value["spec"]["template"]["spec"].clone())),
        "Pod" => Some((object.file, object.value["spec"].clone())),
        _ => None,
    };
    everything().into_iter().filter_map(pod).collect()
}

fn every_flag_is_one_of_ours_and_takes_its_value() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_muster")).args(arguments).arg("--help").output();
        let output = output.expect("the program runs");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned(), output.stderr)
    };
    // A flag of kube-controller-manager that has no effect here would be accepted as well: the help tells ours.
    let (_, help, _) = run(&["controller-manager"]);
    for (file, pod) in pods() {
        let arguments: Vec<&str> =
            pod["containers"][0]["args"].as_array().expect("arguments").iter().map(text).collect();
        assert_eq!(arguments[0], "controller-manager");
        let (taken, _, said) = run(&arguments);
        assert!(taken, "{file}: {arguments:?}: {}", String::from_utf8_lossy(&said));
        for argument in &arguments[1..] {
            let flag = argument.split('=').next().unwrap_or_default();
            let flag = if flag == "--v" { "-v, --v" } else { flag };
            let known = ["{} <", "{}[", "{}\n"].iter().any(|shape| help.contains(&shape.replace("{}", flag)));
            assert!(known, "{file}: {flag}");
        }
    }
}

fn pods_have_no_more_than_they_need() {
    for (file, pod) in pods() {
        let container = &pod["containers"][0];
        let security = &container["securityContext"];
        assert_eq!(security["allowPrivilegeEscalation"], false, "{file}");
        assert_eq!(security["readOnlyRootFilesystem"], true, "{file}");
        assert_eq!(security["capabilities"], json!({"drop": ["ALL"]}), "{file}");
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault", "{file}");
        // A static pod's kubeconfig is root's.
        if pod["serviceAccountName"].is_string() {
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{file}");
        }
        for (probe, path) in [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
            let get = &container[probe]["httpGet"];
            assert_eq!((text(&get["path"]), text(&get["scheme"])), (path, "HTTPS"), "{file}");
        }
        let port = container["args"]
            .as_array()
            .expect("arguments")
            .iter()
            .find_map(|argument| text(argument).strip_prefix("--secure-port=")?.parse::<u64>().ok());
        let probed = &container["livenessProbe"]["httpGet"]["port"];
        let probed = if probed == "metrics" { &container["ports"][0]["containerPort"] } else { probed };
        assert_eq!(probed.as_u64(), port, "{file}");
    }
}

fn the_image_is_that_of_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    for folder in ["deploy/manifests", "deploy/manifests-shadow", "deploy/static-pod"] {
        for object in manifests(folder) {
            let pointer = if object.kind() == "Pod" { "/spec" } else { "/spec/template/spec" };
            let Some(pod) = object.value.pointer(pointer) else { continue };
            let Some(image) = pod["containers"][0]["image"].as_str() else { continue };
            assert_eq!(image, format!("muster:{version}"), "{folder}");
        }
    }
    let rendered = |values: Value| {
        let objects = chart::render(&values);
        let deployment = objects.iter().find(|object| object.kind() == "Deployment").expect("a Deployment");
        text(&deployment.value["spec"]["template"]["spec"]["containers"][0]["image"]).to_owned()
    };
    assert_eq!(rendered(json!({})), format!("muster:{version}"));
    assert_eq!(rendered(json!({"image": {"tag": "canary"}})), "muster:canary");
    assert_eq!(rendered(json!({"image": {"tag": "canary", "digest": "sha256:0"}})), "muster@sha256:0");
}

/// No machine of these tests has to have Docker: its file is read.
fn the_image_starts_what_is_built_for_it() {
    let file = fs::read_to_string(folder("deploy/Dockerfile")).expect("a Dockerfile");
    let behind = |start: &str| {
        let mut found = file.lines().filter_map(|line| line.strip_prefix(start));
        let words = found.next().unwrap_or_else(|| panic!("{start} is missing"));
        assert_eq!(found.next(), None, "{start}");
        words.to_owned()
    };
    let list = |start: &str| -> Vec<String> { serde_json::from_str(&behind(start)).expect("a list of words") };
    let built = behind("RUN sh deploy/build ");
    assert_eq!(behind("COPY --from=build "), format!("{built} {built}"));
    assert_eq!(list("ENTRYPOINT "), [built]);
    let started = Command::new(env!("CARGO_BIN_EXE_muster")).args(list("CMD ")).arg("--help").output();
    assert!(started.expect("the program runs").status.success());
    // The folder that is sent to be built lacks nothing that the build names.
    let ignored = fs::read_to_string(folder(".dockerignore")).expect("a .dockerignore");
    let ignored: BTreeSet<&str> = ignored.lines().collect();
    assert!(["crates", "tests", "Cargo.toml", "Cargo.lock"].iter().all(|needed| !ignored.contains(needed)));
    assert!(ignored.contains("!deploy/build"));
    let wrong = Command::new("sh").arg(folder("deploy/build")).output().expect("sh runs");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).starts_with("usage: sh "), "{wrong:?}");
}

fn the_notes_warn_of_two_writers() {
    let notes = chart::notes(&json!({"name": "apps"}));
    assert!(notes.contains("TWO WRITERS") && notes.contains("patch lease apps"), "{notes}");
    let notes = chart::notes(&shadow());
    assert!(notes.contains("writes nothing") && !notes.contains("lease"), "{notes}");
}

/// A value that the schema does not know cannot be set, and one that the chart does not have is of no use.
fn the_schema_has_the_values_of_the_chart() {
    let schema = fs::read_to_string(folder("deploy/chart/muster/values.schema.json")).expect("the schema");
    let schema: Value = serde_json::from_str(&schema).expect("the schema is JSON");
    let mut missing = Vec::new();
    compare(&schema, &chart::values(), "", &mut missing);
    assert_eq!(missing, Vec::<String>::new());
}

fn compare(schema: &Value, value: &Value, path: &str, missing: &mut Vec<String>) {
    let (Some(properties), Some(values)) = (schema["properties"].as_object(), value.as_object()) else { return };
    assert_eq!(schema["additionalProperties"], false, "{path}");
    for (name, value) in values {
        match properties.get(name) {
            Some(schema) => compare(schema, value, &format!("{path}.{name}"), missing),
            None => missing.push(format!("{path}.{name} is not in the schema")),
        }
    }
    let unused = properties.keys().filter(|name| !values.contains_key(*name) && *name != "global");
    missing.extend(unused.map(|name| format!("{path}.{name} is only in the schema")));
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}
