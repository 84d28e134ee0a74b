//! Health, audit ids and proxies.

use std::collections::BTreeSet;

use serde_json::json;

use crate::support::{listen, start};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Contract: API-02
#[tokio::test(start_paused = true)]
async fn checks_of_health_are_named_and_excluded_as_in_the_reference() {
    let server = start();
    let excluded = "[+]ping excluded: ok\n[+]etcd ok\n\
                    warn: some health checks cannot be excluded: no matches for \"x\",\"y\"\nlivez check passed\n";
    for (path, status, expected) in [
        ("/readyz?verbose", 200, "[+]ping ok\n[+]etcd ok\nreadyz check passed\n"),
        ("/livez?verbose&exclude=y&exclude=ping&exclude=x", 200, excluded),
        ("/livez?exclude=etcd", 200, "ok"),
        ("/readyz/etcd", 200, "ok"),
        ("/livez/ping?verbose", 200, "ok"),
        ("/livez/ping?verbose&exclude=ping", 200, "ok"),
        ("/readyz/?verbose", 404, "404 page not found\n"),
        ("/livez/ping/", 404, "404 page not found\n"),
        ("/livez/none", 404, "404 page not found\n"),
    ] {
        let answer = server.get(path).await;
        assert_eq!((answer.status, &*String::from_utf8_lossy(&answer.body)), (status, expected), "{path}");
    }
}

/// Contract: API-23
#[tokio::test(start_paused = true)]
async fn a_proxy_is_refused_whatever_path_is_below_it() {
    let server = start();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(server.post(PODS, &pod).await.status, 201);
    for below in ["proxy", "proxy/", "proxy/a", "proxy/a//b/?x=y"] {
        for method in ["GET", "POST", "PUT", "DELETE"] {
            let answer = server.send(method, &format!("{PODS}/p/{below}"), &[], "").await;
            let message = answer.json()["message"].as_str().unwrap_or_default().to_owned();
            assert!(answer.status == 400 && message.contains("simulated"), "{method} {below}: {message}");
        }
    }
    for path in [
        &*format!("{PODS}/none/proxy/a"),
        &*format!("{PODS}/p/log/a"),
        "/api/v1/namespaces/default/configmaps/c/proxy/a",
        "/apis/apps/v1/namespaces/default/deployments/d/proxy/a",
    ] {
        let answer = server.get(path).await;
        assert_eq!((answer.status, &answer.json()["kind"]), (404, &json!("Status")), "{path}");
    }
}

#[tokio::test]
async fn every_answer_on_a_socket_names_its_request() {
    let server = listen().await;
    let mut ids = BTreeSet::new();
    for (path, credential, status) in [
        ("/healthz", None, 200),
        ("/none", None, 404),
        (PODS, None, 200),
        (PODS, Some("Bearer wrong"), 401),
        (PODS, Some(""), 403),
    ] {
        let mut headers: Vec<(&str, &str)> = credential.map(|given| ("Authorization", given)).into_iter().collect();
        let fresh = server.send("GET", path, &headers, "").await;
        let id = fresh.header("audit-id").to_owned();
        assert_eq!((fresh.status, id.len(), id.as_bytes().get(14)), (status, 36, Some(&b'4')), "{path}: {id}");
        assert!(ids.insert(id), "{ids:?}");
        let given = "x".repeat(200);
        headers.push(("Audit-ID", &given));
        let echoed = server.send("GET", path, &headers, "").await;
        assert_eq!((echoed.status, echoed.header("audit-id")), (status, &*given), "{path}");
    }
}
