//! What the dashboard shows and the alerts ask about, against what a manager tells.

use std::collections::BTreeSet;
use std::fs;

use muster_apiserver::{ApiServer, Options as ServerOptions};
use muster_machinery::election::Config;
use muster_runtime::client::{Client, Options as ClientOptions};
use muster_runtime::election::Elector;
use muster_runtime::manager::{Manager, Options};
use serde_json::Value;

use crate::objects::{folder, manifests};

/// The time series of a manager, by their names.
fn exposed() -> BTreeSet<String> {
    let server = ApiServer::new(ServerOptions::system().expect("randomness"));
    let client = Client::in_process(server.service(), &ClientOptions::default());
    let manager = Manager::new(&client, Options::default());
    let metrics = manager.metrics();
    let config = Config::new("kube-system", "muster-controller-manager", "test".to_owned());
    Elector::new(config, client, 0).expect("the defaults are sound").register(&metrics);
    // Each of these has a label, and is there once it has counted something.
    metrics.replicaset_sync_skipped("", "pods");
    metrics.deployment_sync_skipped("apps", "replicasets");
    metrics.audited("pods", true);
    let text = metrics.encode();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.map(|line| line.split(['{', ' ']).next().unwrap_or_default().to_owned()).collect()
}

/// The names before a selector: every time series of our expressions has one, for the job.
fn asked_for(expression: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in expression.match_indices('{') {
        let before = &expression[..at];
        let start = before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |end| end + 1);
        names.push(before[start..].to_owned());
        let selector = expression[at..].split('}').next().unwrap_or_default();
        assert!(selector.contains("job=") || selector.contains("name=~"), "{expression}: which job?");
    }
    let balance = |open, close| {
        assert_eq!(expression.matches(open).count(), expression.matches(close).count(), "{expression}: {open} {close}");
    };
    balance('(', ')');
    balance('{', '}');
    balance('[', ']');
    assert!(!names.is_empty(), "{expression}: asks for nothing");
    names
}

/// Contract: CM-08
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn what_is_watched_and_alerted_on_is_told_by_a_manager() {
    let exposed = exposed();
    let mut expressions = Vec::new();
    let dashboard = fs::read_to_string(folder("deploy/chart/muster/dashboards/muster.json")).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("the dashboard is JSON");
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("targets") {
            expressions.push(target["expr"].as_str().expect("an expression").to_owned());
        }
    }
    expressions.push(dashboard["templating"]["list"][1]["query"].as_str().expect("a query").to_owned());
    let rules = manifests("deploy/monitoring").into_iter().find(|object| object.kind() == "PrometheusRule");
    let rules = rules.expect("alerts");
    let mut alerts = BTreeSet::new();
    for rule in rules.value["spec"]["groups"][0]["rules"].as_array().expect("rules") {
        let field = |pointer: &str| rule.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("{rule}"));
        assert!(alerts.insert(field("/alert")), "{rule} is there twice");
        assert!(["critical", "warning"].contains(&field("/labels/severity")), "{rule}");
        assert!(!field("/annotations/summary").is_empty() && !field("/annotations/description").is_empty());
        assert!(field("/for").ends_with('m'), "{rule}");
        expressions.push(field("/expr").to_owned());
    }
    let mut shown = BTreeSet::new();
    for expression in &expressions {
        for name in asked_for(expression) {
            // What Prometheus itself tells of a target.
            assert!(name == "up" || exposed.contains(&name), "{expression}: no manager tells {name}: {exposed:?}");
            shown.insert(name);
        }
    }
    assert!(expressions.len() > 20 && shown.len() > 10, "{expressions:?}");
}

pub(crate) fn the_monitor_scrapes_the_port_of_the_service() {
    let monitor = manifests("deploy/monitoring").into_iter().find(|object| object.kind() == "ServiceMonitor");
    let service = manifests("deploy/manifests").into_iter().find(|object| object.kind() == "Service");
    let (monitor, service) = (monitor.expect("a monitor").value, service.expect("a service").value);
    let endpoint = &monitor["spec"]["endpoints"][0];
    assert_eq!(endpoint["port"], service["spec"]["ports"][0]["name"]);
    assert_eq!(endpoint["scheme"], "https");
    assert_eq!(monitor["spec"]["selector"]["matchLabels"], service["metadata"]["labels"]);
    assert_eq!(monitor["spec"]["namespaceSelector"]["matchNames"][0], service["metadata"]["namespace"]);
}
