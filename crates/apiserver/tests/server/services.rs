//! What a Service is given, and what another one can have after it.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_apiserver::registry::services::network::Network;
use muster_apiserver::registry::settings::Settings;
use muster_apiserver::{ApiServer, Options, kinds};
use serde_json::{Value, json};

use crate::support::webhook::{Webhook, allow, configuration, deny};
use crate::support::{Server, options, start};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";

async fn create(server: &Server, name: &str, spec: Value) -> (u16, Value) {
    let mut spec = spec;
    spec["ports"] = json!([{"port": 80}]);
    let answer = server.post(SERVICES, &json!({"metadata": {"name": name}, "spec": spec})).await;
    (answer.status, answer.json())
}

/// Contract: API-16
#[tokio::test(start_paused = true)]
async fn everyone_is_given_addresses_and_ports_of_their_own() {
    let server = start();
    let (mut ips, mut ports) = (BTreeSet::from(["10.96.0.1".to_owned()]), BTreeSet::new());
    for index in 0..50 {
        let (status, service) = create(&server, &format!("s{index}"), json!({"type": "NodePort"})).await;
        assert_eq!(status, 201, "{service}");
        let ip = service["spec"]["clusterIP"].as_str().expect("an address").to_owned();
        assert_eq!(service["spec"]["clusterIPs"], json!([ip]));
        let octets: Vec<u8> = ip.split('.').map(|octet| octet.parse().expect("a number")).collect();
        assert!(octets[0] == 10 && (96..112).contains(&octets[1]), "{ip}");
        assert!(ips.insert(ip), "an address was given twice");
        let port = service["spec"]["ports"][0]["nodePort"].as_u64().expect("a port");
        assert!((30000..32768).contains(&port) && ports.insert(port), "{port}");
    }
}

/// Contract: API-17
#[tokio::test(start_paused = true)]
async fn what_is_named_is_given_once_until_its_service_is_gone() {
    let server = start();
    let wanted = json!({"clusterIP": "10.96.7.7", "type": "NodePort"});
    assert_eq!(create(&server, "a", wanted.clone()).await.0, 201);
    let (status, refused) = create(&server, "b", wanted.clone()).await;
    assert_eq!(status, 422);
    assert_eq!(
        refused["message"],
        "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.7.7\"]: failed to allocate IP 10.96.7.7: provided IP is already allocated"
    );
    // The API server's own is taken from the start.
    assert_eq!(create(&server, "b", json!({"clusterIP": "10.96.0.1"})).await.0, 422);
    assert_eq!(server.send("DELETE", &format!("{SERVICES}/a"), &[], String::new()).await.status, 200);
    assert_eq!(create(&server, "b", wanted).await.0, 201);
}

/// Contract: API-17
#[tokio::test(start_paused = true)]
async fn an_address_of_another_network_is_refused() {
    let server = start();
    for ip in ["1.2.3.4", "10.96.0.0", "10.111.255.255"] {
        for (query, want) in [
            ("", "the provided network does not match the current range".to_owned()),
            (
                "?dryRun=All",
                format!("the provided IP ({ip}) is not in the valid range. The range of valid IPs is 10.96.0.0/12"),
            ),
        ] {
            let body = json!({"metadata": {"name": "a"}, "spec": {"clusterIP": ip, "ports": [{"port": 80}]}});
            let refused = server.post(&format!("{SERVICES}{query}"), &body).await;
            let want = format!(
                "Service \"a\" is invalid: spec.clusterIPs: Invalid value: [\"{ip}\"]: failed to allocate IP {ip}: {want}"
            );
            assert_eq!((refused.status, &refused.json()["message"]), (422, &json!(want)));
        }
    }
}

/// A server with few addresses and ports.
fn small(addresses: &str, ports: &str) -> Server {
    let network = Network::default().with_addresses(addresses).expect("a range");
    let network = network.with_node_ports(ports).expect("ports");
    let options = Options { settings: Settings { network, ..Settings::default() }, ..options() };
    Server { api: ApiServer::with_kinds(kinds::all(), options), handle: None }
}

/// The names of all IPAddresses.
async fn addresses(server: &Server) -> Vec<String> {
    let list = server.get(ADDRESSES).await.json();
    let names = list["items"].as_array().into_iter().flatten();
    names.map(|address| address["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
}

/// Contract: API-41
#[tokio::test(start_paused = true)]
async fn each_cluster_ip_has_an_address_object_for_as_long_as_its_service_has_it() {
    let server = start();
    assert_eq!(addresses(&server).await, ["10.96.0.1"]);
    assert_eq!(create(&server, "a", json!({"clusterIP": "10.96.7.7"})).await.0, 201);
    let path = format!("{ADDRESSES}/10.96.7.7");
    let address = server.get(&path).await.json();
    assert_eq!(
        address["metadata"]["labels"],
        json!({"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"})
    );
    assert_eq!(address["spec"], json!({"parentRef": {"resource": "services", "namespace": "default", "name": "a"}}));
    assert_eq!(address["metadata"]["managedFields"][0]["manager"], "kube-apiserver");

    // It comes back while the Service has the address, unlike one of which no Service knows.
    let stray =
        json!({"metadata": {"name": "10.96.7.8"}, "spec": {"parentRef": {"resource": "services", "name": "a"}}});
    assert_eq!(server.post(ADDRESSES, &stray).await.status, 201);
    let (status, refused) = create(&server, "b", json!({"clusterIP": "10.96.7.8"})).await;
    assert_eq!(status, 422, "{refused}");
    for ip in ["10.96.7.7", "10.96.7.8"] {
        assert_eq!(server.delete(&format!("{ADDRESSES}/{ip}"), None).await.status, 200);
    }
    assert_eq!(addresses(&server).await, ["10.96.0.1", "10.96.7.7"]);
    assert_ne!(server.get(&path).await.json()["metadata"]["uid"], address["metadata"]["uid"]);

    // What is refused leaves nothing behind, nor does what is only tried.
    for (name, query, status) in [("a", "", 409), ("A", "", 422), ("c", "?dryRun=All", 201)] {
        let body = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
        assert_eq!(server.post(&format!("{SERVICES}{query}"), &body).await.status, status, "{name}");
        let bad = json!({"metadata": {"name": "c"}, "spec": {"clusterIP": "10.96.9.9", "ports": [{"port": 0}]}});
        assert_eq!(server.post(SERVICES, &bad).await.status, 422);
        assert_eq!(addresses(&server).await, ["10.96.0.1", "10.96.7.7"], "{name}");
    }
    let external =
        json!({"spec": {"type": "ExternalName", "externalName": "a.b", "clusterIP": "", "clusterIPs": null}});
    assert_eq!(server.merge(&format!("{SERVICES}/a?dryRun=All"), &external).await.status, 200);
    assert_eq!(addresses(&server).await, ["10.96.0.1", "10.96.7.7"]);
    assert_eq!(server.merge(&format!("{SERVICES}/a"), &external).await.status, 200);
    assert_eq!(addresses(&server).await, ["10.96.0.1"]);
    let back = json!({"spec": {"type": "ClusterIP", "externalName": null, "clusterIP": "10.96.7.7"}});
    assert_eq!(server.merge(&format!("{SERVICES}/a"), &back).await.status, 200);
    assert_eq!(addresses(&server).await, ["10.96.0.1", "10.96.7.7"]);
    // The last finalizer takes the address with it.
    let finalizers = async |list: Value| {
        let answer = server.merge(&format!("{SERVICES}/a"), &json!({"metadata": {"finalizers": list}})).await;
        assert_eq!(answer.status, 200);
    };
    finalizers(json!(["a.b/c"])).await;
    assert_eq!(server.delete(&format!("{SERVICES}/a"), None).await.status, 200);
    assert_eq!(addresses(&server).await, ["10.96.0.1", "10.96.7.7"]);
    finalizers(json!(null)).await;
    assert_eq!(addresses(&server).await, ["10.96.0.1"]);
}

/// Contract: API-41
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_is_its_services_while_webhooks_are_asked_about_that() {
    let server = Arc::new(start());
    let others = Arc::clone(&server);
    let webhook = Webhook::start(move |request, _| {
        // What others do meanwhile.
        let meanwhile = async {
            match request["name"].as_str() {
                Some("deleted") => assert_eq!(others.delete(&format!("{ADDRESSES}/10.96.7.1"), None).await.status, 200),
                Some("wanted") => {
                    let (status, refused) = create(&others, "another", json!({"clusterIP": "10.96.7.2"})).await;
                    let message = refused["message"].as_str().unwrap_or_default();
                    assert!(status == 422 && message.contains("provided IP is already allocated"), "{refused}");
                }
                _ => {}
            }
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(meanwhile));
        if request["name"] == "refused" { deny("no") } else { allow() }
    });
    let webhook = webhook.await;
    let rules =
        json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"]}]);
    let asked = configuration("Validating", "services", &webhook.client_config(), &json!({"rules": rules}));
    let configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert_eq!(server.post(configurations, &asked).await.status, 201);

    for (name, ip, status) in
        [("deleted", "10.96.7.1", 201), ("wanted", "10.96.7.2", 201), ("refused", "10.96.7.3", 400)]
    {
        let (got, answer) = create(&server, name, json!({"clusterIP": ip})).await;
        assert_eq!(got, status, "{name}: {answer}");
    }
    assert_eq!(webhook.heard().len(), 3, "who gets no address is not asked about");
    assert_eq!(addresses(&server).await, ["10.96.0.1", "10.96.7.1", "10.96.7.2"]);
    let address = server.get(&format!("{ADDRESSES}/10.96.7.1")).await.json();
    assert_eq!(address["spec"]["parentRef"]["name"], "deleted");
    assert_eq!(create(&server, "another", json!({"clusterIP": "10.96.7.3"})).await.0, 201);
}

/// Contract: API-41
#[tokio::test(start_paused = true)]
async fn addresses_are_brought_in_line_with_a_state_that_was_restored() {
    let server = start();
    assert_eq!(create(&server, "a", json!({"clusterIP": "10.96.7.7"})).await.0, 201);
    let registry = server.api.registry();
    let records = registry.find("networking.k8s.io", "v1", "ipaddresses").expect("a kind");
    // As when a disk takes one of two commits: a Service without its address, and an address without its Service.
    let kept = registry.storage.get(records.id, "", "10.96.7.7").expect("an address");
    registry.storage.delete(records.id, "", "10.96.7.7", kept.version).expect("it is there");
    let labels = json!({"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"});
    let parent = json!({"resource": "services", "namespace": "default", "name": "gone"});
    let left = json!({"metadata": {"name": "10.96.7.8", "labels": labels}, "spec": {"parentRef": parent}});
    assert_eq!(server.post(ADDRESSES, &left).await.status, 201);
    assert_eq!(create(&server, "b", json!({"clusterIP": "10.96.7.8"})).await.0, 422);
    let state = registry.storage.version();
    registry.storage.restore(state).expect("it is kept");
    assert_eq!(create(&server, "b", json!({"clusterIP": "10.96.7.8"})).await.0, 201);
    assert_eq!(create(&server, "c", json!({"clusterIP": "10.96.7.7"})).await.0, 422);
    assert_eq!(addresses(&server).await, ["10.96.0.1", "10.96.7.7", "10.96.7.8"]);
}

/// Contract: API-41
#[tokio::test(start_paused = true)]
async fn a_server_without_these_kinds_has_the_range_of_its_settings() {
    let all = kinds::all().into_iter().filter(|kind| {
        let resource = kind.resource();
        resource.group != "networking.k8s.io"
    });
    let network = Network::default().with_addresses("10.0.0.0/29").expect("a range");
    let options = Options { settings: Settings { network, ..Settings::default() }, ..options() };
    let server = Server { api: ApiServer::with_kinds(all.collect(), options), handle: None };
    assert_eq!(create(&server, "a", json!({"clusterIP": "10.0.0.1"})).await.0, 422, "it is the server's own");
    for index in 0..5 {
        assert_eq!(create(&server, &format!("s{index}"), json!({})).await.0, 201);
    }
    assert_eq!(create(&server, "a", json!({})).await.0, 500);
}

/// Contract: API-41, API-17
#[tokio::test(start_paused = true)]
async fn addresses_are_given_of_every_range_that_is_ready() {
    let server = small("10.0.0.0/29", "30000-30001");
    let own = server.get(&format!("{RANGES}/kubernetes")).await.json();
    assert_eq!(own["spec"], json!({"cidrs": ["10.0.0.0/29"]}));
    let condition = &own["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&json!("Ready"), &json!("True"), &json!(""))
    );
    assert_eq!(own["metadata"]["managedFields"][0]["manager"], "kubernetes-service-cidr-controller");
    for index in 0..5 {
        assert_eq!(create(&server, &format!("s{index}"), json!({})).await.0, 201, "of 6 one is the server's");
    }
    let full = "Internal error occurred: failed to allocate a serviceIP for Service \"more\": range is full";
    let (status, refused) = create(&server, "more", json!({})).await;
    assert_eq!((status, &refused["message"]), (500, &json!(full)));

    let other = "failed to allocate IP 10.0.9.1: the provided network does not match the current range";
    let (status, refused) = create(&server, "more", json!({"clusterIP": "10.0.9.1"})).await;
    assert!(status == 422 && refused["message"].as_str().is_some_and(|why| why.ends_with(other)), "{refused}");
    let range = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.0.9.0/30", "fd00::/112"]}});
    assert_eq!(server.post(RANGES, &range).await.status, 201);
    let unready = |status: &str| {
        let time = "2026-01-01T00:00:00Z";
        json!({"status": {"conditions": [
            {"type": "Ready", "status": status, "reason": "R", "message": "", "lastTransitionTime": time},
        ]}})
    };
    assert_eq!(server.merge(&format!("{RANGES}/more/status"), &unready("False")).await.status, 200);
    assert_eq!(create(&server, "more", json!({})).await.0, 500, "it is not ready");
    assert_eq!(create(&server, "more", json!({"clusterIP": "10.0.9.1"})).await.0, 422);
    assert_eq!(server.merge(&format!("{RANGES}/more/status"), &unready("True")).await.status, 200);
    let (status, service) = create(&server, "more", json!({})).await;
    assert_eq!(status, 201, "{service}");
    assert!(["10.0.9.1", "10.0.9.2"].contains(&service["spec"]["clusterIP"].as_str().unwrap_or_default()), "{service}");
    // Two of one range are one, and ready where one of them is.
    let twin = json!({"metadata": {"name": "twin"}, "spec": {"cidrs": ["10.0.9.0/30"]}});
    assert_eq!(server.post(RANGES, &twin).await.status, 201);
    assert_eq!(server.merge(&format!("{RANGES}/twin/status"), &unready("False")).await.status, 200);
    assert_eq!(create(&server, "other", json!({})).await.0, 201);
    assert_eq!(server.delete(&format!("{SERVICES}/other"), None).await.status, 200);
    // A write of the status is one of nothing else.
    let more = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"cidrs": ["10.7.0.0/16"]}});
    let answer = server.merge(&format!("{RANGES}/more/status"), &more).await.json();
    assert_eq!((&answer["metadata"]["labels"], &answer["spec"]["cidrs"][0]), (&Value::Null, &json!("10.0.9.0/30")));
    // On its way out it gives none.
    let finalizer = json!({"metadata": {"finalizers": ["a.b/c"]}});
    assert_eq!(server.merge(&format!("{RANGES}/more"), &finalizer).await.status, 200);
    assert_eq!(server.delete(&format!("{RANGES}/more"), None).await.status, 200);
    assert_eq!(create(&server, "last", json!({})).await.0, 500);

    // That of the server comes back at once, with the Service that can only be in it, and gives what it has.
    let own_path = format!("{RANGES}/kubernetes");
    assert_eq!(server.merge(&own_path, &finalizer).await.status, 200);
    assert_eq!(server.delete(&own_path, None).await.status, 200);
    let service = format!("{SERVICES}/kubernetes");
    assert_eq!(server.delete(&service, None).await.status, 200);
    assert_eq!(server.get(&service).await.status, 404, "there is no range");
    assert_eq!(server.merge(&own_path, &json!({"metadata": {"finalizers": null}})).await.status, 200);
    assert_eq!(server.get(&service).await.json()["spec"]["clusterIP"], "10.0.0.1");
    assert_ne!(server.get(&format!("{RANGES}/kubernetes")).await.json()["metadata"]["uid"], own["metadata"]["uid"]);
    assert_eq!(server.delete(&format!("{SERVICES}/s0"), None).await.status, 200);
    assert_eq!(create(&server, "last", json!({})).await.0, 201);
}

/// Contract: API-41
#[tokio::test(start_paused = true)]
async fn the_lowest_addresses_are_left_to_who_names_one() {
    let server = small("10.0.0.0/24", "30000-30001");
    let low = |service: &Value| {
        let ip = service["spec"]["clusterIP"].as_str().expect("an address").to_owned();
        ip.rsplit('.').next().and_then(|last| last.parse::<u8>().ok()).expect("a number") <= 16
    };
    let mut given = Vec::new();
    for index in 0..253 {
        let (status, service) = create(&server, &format!("s{index}"), json!({})).await;
        assert_eq!(status, 201, "{service}");
        given.push(low(&service));
    }
    assert!(!given[..238].contains(&true) && given[238..].iter().all(|low| *low), "{given:?}");
    assert_eq!(create(&server, "more", json!({})).await.0, 500);
}

/// Contract: API-41
#[tokio::test(start_paused = true)]
async fn ports_that_cannot_be_had_are_told_in_the_reference_servers_words() {
    let server = small("10.0.0.0/24", "30000-30002");
    let service =
        |name: &str, ports: &Value| json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": ports}});
    let tcp = json!({"name": "t", "port": 80});
    let udp = json!({"name": "u", "port": 81, "protocol": "UDP"});
    assert_eq!(server.post(SERVICES, &service("a", &json!([tcp]))).await.status, 201);
    let with = |port: &Value, node_port: u16| {
        let mut port = port.clone();
        port["nodePort"] = json!(node_port);
        port
    };
    let had = server.get(&format!("{SERVICES}/a")).await.json()["spec"]["ports"][0]["nodePort"].clone();
    let free: Vec<u16> = (30000..=30002).filter(|port| json!(port) != had).collect();
    let change = async |ports: Value| {
        let answer = server.merge(&format!("{SERVICES}/a"), &json!({"spec": {"ports": ports}})).await;
        (answer.status, answer.json()["message"].as_str().unwrap_or_default().to_owned())
    };
    // One number serves both protocols, and one protocol once.
    assert_eq!(change(json!([with(&tcp, free[0]), with(&udp, free[0])])).await, (200, String::new()));
    let twice = json!([with(&tcp, free[1]), with(&json!({"name": "v", "port": 82}), free[1])]);
    assert_eq!(change(twice).await, (500, format!("duplicate nodePort: {{TCP {}}}", free[1])));
    let far = change(json!([with(&tcp, 31000)])).await;
    let range = "provided port is not in the valid range. The range of valid ports is 30000-30002";
    assert!(far.0 == 422 && far.1.ends_with(range), "{far:?}");

    let had = with(&tcp, u16::try_from(had.as_u64().expect("a port")).expect("a port"));
    assert_eq!(server.post(SERVICES, &service("b", &json!([had, with(&udp, free[1])]))).await.status, 201);
    let full = server.post(SERVICES, &service("c", &json!([tcp]))).await;
    let why = "Internal error occurred: failed to allocate a nodePort: range is full";
    assert_eq!((full.status, &full.json()["message"]), (500, &json!(why)));
    let checked = |port: Value| {
        json!({"metadata": {"name": "c"}, "spec": {
            "type": "LoadBalancer", "externalTrafficPolicy": "Local", "allocateLoadBalancerNodePorts": false,
            "healthCheckNodePort": port, "ports": [tcp],
        }})
    };
    for (port, what) in [
        (json!(free[1]), format!("requested HealthCheck NodePort {}: provided port is already allocated", free[1])),
        (json!(0), "a HealthCheck NodePort 0: range is full".to_owned()),
    ] {
        let refused = server.post(SERVICES, &checked(port)).await;
        let why = format!("Internal error occurred: failed to allocate {what}");
        assert_eq!((refused.status, &refused.json()["message"]), (500, &json!(why)));
    }
    assert_eq!(addresses(&server).await.len(), 3, "who was refused has no address");
}

/// Contract: API-41
#[tokio::test(start_paused = true)]
async fn addresses_and_ranges_are_checked() {
    let server = start();
    let refused = async |path: &str, body: &Value| {
        let answer = server.post(path, body).await;
        let causes = answer.json()["details"]["causes"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let told = causes.iter().map(|cause| format!("{} {}", text(&cause["field"]), text(&cause["message"])));
        (answer.status, told.collect::<Vec<_>>())
    };
    let parent = json!({"resource": "services", "namespace": "default", "name": "a"});
    let spec = json!({"parentRef": parent});
    for (name, spec, want) in [
        ("10.0.0.01", &spec, &["metadata.name Invalid value: \"10.0.0.01\": must not have leading 0s"][..]),
        ("FD00::1", &spec, &["metadata.name Invalid value: \"FD00::1\": must be in canonical form (\"fd00::1\")"]),
        (
            "web",
            &json!({}),
            &[
                "metadata.name Invalid value: \"web\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "spec.parentRef Required value",
            ],
        ),
        (
            "10.0.0.1",
            &json!({"parentRef": {"group": "A"}}),
            &[
                "spec.parentRef.group Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                "spec.parentRef.resource Required value",
                "spec.parentRef.name Required value",
            ],
        ),
        (
            "10.0.0.1",
            &json!({"parentRef": {"resource": "a/b", "name": "c", "namespace": ".."}}),
            &[
                "spec.parentRef.resource Invalid value: \"a/b\": may not contain '/'",
                "spec.parentRef.namespace Invalid value: \"..\": may not be '..'",
            ],
        ),
    ] {
        let (status, told) = refused(ADDRESSES, &json!({"metadata": {"name": name}, "spec": spec})).await;
        assert_eq!((status, told), (422, want.iter().map(|line| (*line).to_owned()).collect()));
    }
    let address = json!({"metadata": {"name": "fd00::1"}, "spec": {"parentRef": parent}});
    assert_eq!(server.post(ADDRESSES, &address).await.status, 201);
    let other = server.merge(&format!("{ADDRESSES}/fd00::1"), &json!({"spec": {"parentRef": {"name": "b"}}})).await;
    assert_eq!(
        other.json()["message"],
        "IPAddress.networking.k8s.io \"fd00::1\" is invalid: spec.parentRef: Invalid value: {\"Group\":\"\",\"Resource\":\"services\",\"Namespace\":\"default\",\"Name\":\"b\"}: field is immutable"
    );
    let accept = [("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let table = server.send("GET", &format!("{ADDRESSES}/fd00::1"), &accept, String::new()).await.json();
    assert_eq!(table["columnDefinitions"].as_array().map(Vec::len), Some(2));
    assert_eq!(table["rows"][0]["cells"], json!(["fd00::1", "services/default/a", "0s"]));

    for (cidrs, want) in [
        (json!([]), "spec.cidrs Required value: at least one CIDR required"),
        (
            json!(["a", "b", "c"]),
            "spec.cidrs Invalid value: {\"CIDRs\":[\"a\",\"b\",\"c\"]}: may only hold up to 2 values",
        ),
        (
            json!(["10.0.0.1/24"]),
            "spec.cidrs[0] Invalid value: \"10.0.0.1/24\": must not have bits set beyond the prefix length",
        ),
        (json!(["FD00::/64"]), "spec.cidrs[0] Invalid value: \"FD00::/64\": must be in canonical form (\"fd00::/64\")"),
        (
            json!(["10.0.0.0/24", "10.1.0.0/24"]),
            "spec.cidrs Invalid value: [\"10.0.0.0/24\",\"10.1.0.0/24\"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
        ),
    ] {
        let (status, told) = refused(RANGES, &json!({"metadata": {"name": "r"}, "spec": {"cidrs": cidrs}})).await;
        assert_eq!((status, told), (422, vec![want.to_owned()]));
    }
    let range = json!({"metadata": {"name": "r"}, "spec": {"cidrs": ["10.0.0.0/24"]}, "status": {"conditions": []}});
    assert_eq!(server.post(RANGES, &range).await.json()["status"], json!({}));
    let change = async |cidrs: Value| {
        let answer = server.merge(&format!("{RANGES}/r"), &json!({"spec": {"cidrs": cidrs}})).await;
        (answer.status, answer.json()["message"].as_str().unwrap_or_default().to_owned())
    };
    for (cidrs, want) in [
        (json!(["10.1.0.0/24"]), "spec.cidrs[0]: Invalid value: \"10.1.0.0/24\": field is immutable"),
        (json!(null), "spec.cidrs: Invalid value: null: field is immutable"),
        (json!(["10.1.0.0/24", "fd00::/64"]), "spec.cidrs[0]: Invalid value: \"10.1.0.0/24\": field is immutable"),
        (
            json!(["10.0.0.0/24", "x"]),
            "spec.cidrs[1]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        ),
    ] {
        let (status, why) = change(cidrs).await;
        assert!(status == 422 && why.ends_with(want), "{why}");
    }
    assert_eq!(change(json!(["10.0.0.0/24", "fd00::/64"])).await.0, 200, "the other family may come later");
    let table = server.send("GET", &format!("{RANGES}/r"), &accept, String::new()).await.json();
    assert_eq!(table["rows"][0]["cells"], json!(["r", "10.0.0.0/24,fd00::/64", "0s"]));
}

/// Contract: API-20, API-27
#[tokio::test(start_paused = true)]
async fn the_api_server_has_a_service_with_endpoints_that_come_back() {
    const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
    const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    let server = start();
    let service = format!("{SERVICES}/kubernetes");
    let own = server.get(&service).await.json();
    assert_eq!(own["metadata"]["labels"], json!({"component": "apiserver", "provider": "kubernetes"}));
    assert_eq!(own["spec"]["clusterIP"], "10.96.0.1");
    assert_eq!(own["spec"]["ports"][0]["port"], 443);

    let endpoints = server.get(ENDPOINTS).await.json();
    assert_eq!(endpoints["metadata"]["labels"], json!({"endpointslice.kubernetes.io/skip-mirror": "true"}));
    let port = json!({"name": "https", "port": own["spec"]["ports"][0]["targetPort"], "protocol": "TCP"});
    assert_eq!(endpoints["subsets"][0]["ports"], json!([port]));
    let address = &endpoints["subsets"][0]["addresses"][0]["ip"];

    let slice = server.get(SLICE).await.json();
    assert_eq!(slice["metadata"]["labels"], json!({"kubernetes.io/service-name": "kubernetes"}));
    assert_eq!(slice["addressType"], "IPv4");
    assert_eq!(slice["endpoints"], json!([{"addresses": [address], "conditions": {"ready": true}}]));
    assert_eq!(slice["ports"], json!([port]));

    for path in [&*service, ENDPOINTS, SLICE] {
        let old = server.get(path).await.json();
        assert_eq!(server.send("DELETE", path, &[], String::new()).await.status, 200, "{path}");
        let new = server.get(path).await.json();
        assert_ne!(old["metadata"]["uid"], new["metadata"]["uid"], "{path}");
        for part in ["spec", "subsets", "endpoints", "ports"] {
            assert_eq!(old[part], new[part], "{path}: {part}");
        }
    }
}

/// An extension API server, or a controller that serves HTTPS, looks up here whose certificates it trusts.
///
/// Contract: API-32
#[tokio::test(start_paused = true)]
async fn the_authority_of_client_certificates_is_told_where_others_look_it_up() {
    const AUTHENTICATION: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let server = start();
    assert_eq!(server.get(AUTHENTICATION).await.status, 404, "there is no authority");
    server.api.registry().publish_client_ca("PEM");
    assert_eq!(server.get(AUTHENTICATION).await.json()["data"], json!({"client-ca-file": "PEM"}));
    assert_eq!(server.send("DELETE", AUTHENTICATION, &[], String::new()).await.status, 200);
    assert_eq!(server.get(AUTHENTICATION).await.json()["data"], json!({"client-ca-file": "PEM"}));
}
