//! What the labels `pod-security.kubernetes.io/…` of a namespace forbid, from outside. The texts are kube-apiserver 1.36.2's.

use muster_apiserver::admission::plugins::Plugin;
use serde_json::{Value, json};

use crate::support::{self, Answer, Server, options, start, start_with};

const NAMESPACES: &str = "/api/v1/namespaces";
const PODS: &str = "/api/v1/namespaces/team/pods";

/// A server with a namespace that has these labels.
async fn with_labels(labels: &[(&str, &str)]) -> Server {
    let server = start();
    assert_eq!(server.post(NAMESPACES, &namespace(labels)).await.status, 201);
    server
}

fn namespace(labels: &[(&str, &str)]) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": named(labels)}})
}

fn named(labels: &[(&str, &str)]) -> Value {
    let all = labels.iter().map(|(label, text)| (format!("pod-security.kubernetes.io/{label}"), json!(text)));
    Value::Object(all.collect())
}

/// A pod of one container with these fields, and these of the pod.
fn pod(name: &str, container: Value, spec: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    for (from, at) in [(container, "/spec/containers/0"), (spec, "/spec")] {
        let Some(Value::Object(into)) = pod.pointer_mut(at) else { panic!("{at}") };
        into.extend(from.as_object().cloned().expect("fields"));
    }
    pod
}

fn plain(name: &str) -> Value {
    pod(name, json!({}), json!({}))
}

/// One that nothing is forbidden of.
fn good(name: &str) -> Value {
    let context = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let of_pod = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    pod(name, json!({"securityContext": context}), json!({"securityContext": of_pod}))
}

fn told(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["message"].as_str().unwrap_or_default().to_owned())
}

fn warned(answer: &Answer) -> Vec<String> {
    let all = answer.headers.get_all("warning").iter();
    all.map(|text| text.to_str().expect("text").replace('\\', "")).collect()
}

const RESTRICTED: &str = "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), \
     unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), \
     runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), \
     seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";

/// Contract: API-40
#[tokio::test]
async fn a_pod_that_breaks_what_is_enforced_is_refused() {
    let server = with_labels(&[("enforce", "restricted"), ("enforce-version", "v1.36")]).await;
    let refused = server.post(PODS, &plain("web")).await;
    let why = format!("pods \"web\" is forbidden: violates PodSecurity \"restricted:v1.36\": {RESTRICTED}");
    assert_eq!(told(&refused), (403, why));
    assert!(warned(&refused).is_empty());
    let mut generated = plain("web");
    generated["metadata"] = json!({"generateName": "web-"});
    let (status, why) = told(&server.post(PODS, &generated).await);
    assert_eq!(status, 403);
    assert!(why.starts_with("pods \"web-") && !why.starts_with("pods \"web-\""), "its own name is told: {why}");

    assert_eq!(server.post(PODS, &good("web")).await.status, 201);
    // What changes nothing of its containers is no new pod.
    let path = format!("{PODS}/web");
    assert_eq!(server.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await.status, 200);
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "sh"}]}});
    let refused = server.merge(&format!("{path}/ephemeralcontainers"), &debug).await;
    assert_eq!(refused.status, 403);
    assert!(told(&refused).1.contains("container \"debug\" must set securityContext.capabilities.drop=[\"ALL\"]"));
}

/// Contract: API-40
#[tokio::test]
async fn an_image_makes_a_pod_of_before_be_looked_at_again() {
    let server = with_labels(&[]).await;
    let requests = json!({"resources": {"requests": {"cpu": "2m"}}});
    assert_eq!(server.post(PODS, &pod("web", requests, json!({}))).await.status, 201);
    let stricter = json!({"metadata": {"labels": named(&[("enforce", "restricted")])}});
    let relabelled = server.merge(&format!("{NAMESPACES}/team"), &stricter).await;
    assert_eq!(relabelled.status, 200);
    let path = format!("{PODS}/web");
    assert_eq!(server.merge(&path, &json!({"metadata": {"annotations": {"a": "b"}}})).await.status, 200);
    let patch = [("Content-Type", "application/strategic-merge-patch+json")];
    let bigger = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}]}});
    let resized = server.send("PATCH", &format!("{path}/resize"), &patch, bigger.to_string()).await;
    assert_eq!(resized.status, 200, "{}", resized.json());
    let image = json!({"spec": {"containers": [{"name": "c", "image": "other"}]}});
    let refused = server.send("PATCH", &path, &patch, image.to_string()).await;
    let why = format!("pods \"web\" is forbidden: violates PodSecurity \"restricted:latest\": {RESTRICTED}");
    assert_eq!(told(&refused), (403, why));
}

/// Contract: API-40
#[tokio::test]
async fn a_template_is_warned_of_and_stored() {
    let server = with_labels(&[("enforce", "restricted")]).await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": plain("x")["spec"]});
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = json!("Never");
    let selected = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let would = format!("299 - \"would violate PodSecurity \"restricted:latest\": {RESTRICTED}\"");
    for (api_version, kind, plural, key, value) in [
        ("apps/v1", "Deployment", "deployments", "spec", selected.clone()),
        ("apps/v1", "ReplicaSet", "replicasets", "spec", selected.clone()),
        ("apps/v1", "StatefulSet", "statefulsets", "spec", selected.clone()),
        ("apps/v1", "DaemonSet", "daemonsets", "spec", selected),
        ("batch/v1", "Job", "jobs", "spec", json!({"template": once})),
        (
            "batch/v1",
            "CronJob",
            "cronjobs",
            "spec",
            json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": once}}}),
        ),
        (
            "v1",
            "ReplicationController",
            "replicationcontrollers",
            "spec",
            json!({"selector": {"a": "b"}, "template": template}),
        ),
        ("v1", "PodTemplate", "podtemplates", "template", template.clone()),
    ] {
        let root = if api_version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{api_version}") };
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}, key: value});
        let answer = server.post(&format!("{root}/namespaces/team/{plural}"), &object).await;
        assert_eq!((answer.status, warned(&answer)), (201, vec![would.clone()]), "{kind}: {}", answer.json());
    }
    let none = json!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "none"},
        "spec": {"replicas": 0, "selector": {"a": "b"}},
    });
    let answer = server.post("/api/v1/namespaces/team/replicationcontrollers", &none).await;
    assert!(warned(&answer).is_empty(), "{}", answer.json());
}

/// Contract: API-40
#[tokio::test]
async fn labels_that_say_nothing_known_are_refused() {
    let server = start();
    let wrong = [("enforce", "strict"), ("warn-version", "1.30")];
    let refused = server.post(NAMESPACES, &namespace(&wrong)).await;
    let why = "Namespace \"team\" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": \
               must be one of privileged, baseline, restricted, metadata.labels[pod-security.kubernetes.io/warn-version]: \
               Invalid value: \"1.30\": must be \"latest\" or \"v1.x\"]";
    assert_eq!(told(&refused), (422, why.to_owned()));
    assert_eq!(server.post(NAMESPACES, &namespace(&[])).await.status, 201);
    let path = format!("{NAMESPACES}/team");
    let labels = json!({"metadata": {"labels": named(&wrong)}});
    assert_eq!(told(&server.merge(&path, &labels).await), (422, why.to_owned()));
}

/// Contract: API-40
#[tokio::test]
async fn a_stricter_label_tells_which_pods_break_it() {
    let server = with_labels(&[("enforce", "privileged")]).await;
    let shared = || json!({"hostNetwork": true});
    for pod in [plain("b"), plain("a"), plain("d"), good("good"), pod("shares", json!({}), shared())] {
        assert_eq!(server.post(PODS, &pod).await.status, 201);
    }
    let path = format!("{NAMESPACES}/team");
    let relabel = async |labels: &[(&str, &str)]| {
        let answer = server.merge(&path, &json!({"metadata": {"labels": named(labels)}})).await;
        assert_eq!(answer.status, 200);
        warned(&answer)
    };
    assert_eq!(
        relabel(&[("enforce", "baseline")]).await,
        [
            "299 - \"existing pods in namespace \"team\" violate the new PodSecurity enforce level \"baseline:latest\"\"",
            "299 - \"shares: host namespaces\"",
        ]
    );
    let all = "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile";
    assert_eq!(
        relabel(&[("enforce", "restricted")]).await,
        [
            "299 - \"existing pods in namespace \"team\" violate the new PodSecurity enforce level \"restricted:latest\"\"",
            &format!("299 - \"a (and 2 other pods): {all}\""),
            &format!("299 - \"shares: host namespaces, {all}\""),
        ]
    );
    // Nothing is forbidden that was not before.
    assert!(relabel(&[("warn", "baseline")]).await.is_empty());
    assert!(relabel(&[("enforce", "baseline")]).await.is_empty());
}

/// What a version forbids of one thing that a pod has.
///
/// Contract: API-40
#[tokio::test]
async fn versions_forbid_what_they_did() {
    let server = with_labels(&[]).await;
    let context = |context: Value| json!({"securityContext": context});
    let sysctl = |name: &str| context(json!({"sysctls": [{"name": name, "value": "1"}]}));
    let none = || json!({});
    let unmasked = || context(json!({"procMount": "Unmasked"}));
    for (version, container, spec, found) in [
        (
            "v1.26",
            none(),
            sysctl("net.ipv4.ip_local_reserved_ports"),
            "forbidden sysctls (net.ipv4.ip_local_reserved_ports)",
        ),
        ("v1.27", none(), sysctl("net.ipv4.ip_local_reserved_ports"), ""),
        ("v1.28", none(), sysctl("net.ipv4.tcp_keepalive_probes"), "forbidden sysctls (net.ipv4.tcp_keepalive_probes)"),
        ("v1.29", none(), sysctl("net.ipv4.tcp_keepalive_probes"), ""),
        ("v1.31", none(), sysctl("net.ipv4.tcp_rmem"), "forbidden sysctls (net.ipv4.tcp_rmem)"),
        ("v1.99", none(), sysctl("net.ipv4.tcp_rmem"), ""),
        (
            "v1.30",
            none(),
            context(json!({"seLinuxOptions": {"type": "container_engine_t"}})),
            "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type \"container_engine_t\")",
        ),
        ("v1.31", none(), context(json!({"seLinuxOptions": {"type": "container_engine_t"}})), ""),
        (
            "latest",
            json!({"livenessProbe": {"httpGet": {"port": 80, "host": "b"}, "periodSeconds": 9},
                   "lifecycle": {"preStop": {"tcpSocket": {"port": 80, "host": "a"}}}}),
            none(),
            "probe or lifecycle host (container \"c\" uses probe or lifecycle hosts \"a\", \"b\")",
        ),
        ("v1.33", json!({"livenessProbe": {"httpGet": {"port": 80, "host": "b"}}}), none(), ""),
        (
            "v1.34",
            unmasked(),
            json!({"hostUsers": false}),
            "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")",
        ),
        ("v1.35", unmasked(), json!({"hostUsers": false}), ""),
    ] {
        let labels = named(&[("enforce", "baseline"), ("enforce-version", version)]);
        server.merge(&format!("{NAMESPACES}/team"), &json!({"metadata": {"labels": labels}})).await;
        let answer = server.post(&format!("{PODS}?dryRun=All"), &pod("web", container, spec.clone())).await;
        let expected = if found.is_empty() {
            (201, String::new())
        } else {
            (403, format!("pods \"web\" is forbidden: violates PodSecurity \"baseline:{version}\": {found}"))
        };
        assert_eq!(told(&answer), expected, "{version} {spec}");
    }
}

/// Contract: API-36, API-40
#[tokio::test]
async fn a_plugin_that_is_switched_off_forbids_nothing() {
    let mut options = options();
    options.settings.plugins.disable(Plugin::PodSecurity);
    let server = start_with(options);
    assert_eq!(server.post(NAMESPACES, &namespace(&[("enforce", "nobody-knows")])).await.status, 201);
    assert_eq!(server.post(PODS, &plain("web")).await.status, 201);

    // Whoever lets objects into a namespace that is not there cannot have what is forbidden in it looked up.
    let mut options = support::options();
    options.settings.plugins.disable(Plugin::NamespaceLifecycle);
    let server = start_with(options);
    let why = "Internal error occurred: failed to lookup namespace \"team\"".to_owned();
    assert_eq!(told(&server.post(PODS, &plain("web")).await), (500, why));
}
