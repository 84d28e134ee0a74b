//! What a Service is given, and what another one can have after it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Server, start};

const SERVICES: &str = "/api/v1/namespaces/default/services";

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
