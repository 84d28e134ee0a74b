//! Who gets in, what is answered about the server itself, and what a bad client can do to it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use muster_apiserver::serve::{serve, serve_stream};
use muster_apiserver::tls::Tls;
use muster_apiserver::{ApiServer, Options};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{listen, options, start, start_with};

/// Contract: API-01
#[tokio::test]
async fn https_with_the_authority_and_the_token_gets_in() {
    let api = ApiServer::new(options());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let tls = Tls::generate(&[IpAddr::V4(Ipv4Addr::LOCALHOST)]).expect("certificates");
    let handle = serve(listener, &api, Some(&tls)).expect("a server");

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(tls.ca_pem().as_bytes()).expect("PEM")).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let list = "/api/v1/namespaces";
    let wrong = (401, "Unauthorized");
    let anonymous = r#"namespaces is forbidden: User "system:anonymous" cannot list resource "namespaces" in API group "" at the cluster scope"#;
    let right = format!("Bearer {}", api.token());
    for (credential, path, (expected, message)) in [
        (Some(&*right), list, (200, "")),
        (Some("Bearer wrong"), list, wrong),
        (Some("Bearer wrong"), "/healthz", wrong),
        (Some("Basic YTpi"), list, (403, anonymous)),
        (None, list, (403, anonymous)),
        (None, "/metrics", (403, r#"forbidden: User "system:anonymous" cannot get path "/metrics""#)),
        (None, "/healthz", (200, "")),
        (
            None,
            "/healthz?timeout=zz",
            (400, r#"invalid timeout specified in the request URL - time: invalid duration "zz""#),
        ),
        (Some(&*right), "/api/v1/namespaces?timeout=34.5s", (200, "")),
        (Some(&*right), "/api/v1/pods?watch=1&timeoutSeconds=1&timeout=zz", (200, "")),
        (None, "/livez", (200, "")),
        (None, "/readyz", (200, "")),
        (None, "/version", (200, "")),
    ] {
        let stream = TcpStream::connect(handle.address()).await.expect("the server accepts");
        let name = ServerName::try_from("127.0.0.1").expect("an address");
        let stream =
            tokio_rustls::TlsConnector::from(Arc::new(config.clone())).connect(name, stream).await.expect("TLS");
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream)).await.expect("HTTP");
        tokio::spawn(connection);
        let mut request = http::Request::get(path).header("Host", "localhost");
        if let Some(credential) = credential {
            request = request.header("Authorization", credential);
        }
        let response = sender.send_request(request.body(Full::default()).expect("a request")).await.expect("an answer");
        assert_eq!(response.status(), expected, "{credential:?} {path}");
        if expected != 200 {
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            let status: serde_json::Value = serde_json::from_slice(&body).expect("a Status");
            assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(expected)));
            assert_eq!(status["message"], message, "{credential:?} {path}");
        }
    }
    let mut stream = TcpStream::connect(handle.address()).await.expect("the server accepts");
    stream.write_all(b"GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("a request without TLS");
    let mut said = String::new();
    stream.read_to_string(&mut said).await.expect("an answer without TLS");
    assert_eq!(said, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n");
    handle.shutdown().await;
}

/// Who reads the answer only once its body is sent, as most clients do, gets it.
///
/// Contract: API-01
#[tokio::test(start_paused = true)]
async fn a_refusal_arrives_whatever_was_sent_with_the_request() {
    let server = start();
    let authorized = format!("Bearer {}", server.api.token());
    let body = vec![b' '; 300_000];
    for (request, authorization, status) in [
        ("POST /api/v1/namespaces/default/configmaps", "Bearer wrong", "401 Unauthorized"),
        ("PUT /api/v1/namespaces", &*authorized, "405 Method Not Allowed"),
        ("POST /nowhere", &*authorized, "404 Not Found"),
        ("POST /version", &*authorized, "405 Method Not Allowed"),
    ] {
        let (mut near, far) = tokio::io::duplex(1 << 10);
        let api = server.api.clone();
        tokio::spawn(async move { serve_stream(far, &api).await });
        let length = body.len();
        let head = format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization}\r\nContent-Length: {length}\r\n\r\n"
        );
        near.write_all(head.as_bytes()).await.expect("the head is taken");
        near.write_all(&body).await.expect("the body is taken");
        let mut said = vec![0; 12 + status.len()];
        near.read_exact(&mut said[..9 + status.len()]).await.expect("an answer");
        assert!(said.starts_with(format!("HTTP/1.1 {status}").as_bytes()), "{request}: {}", said.escape_ascii());
    }
}

/// Contract: API-01
#[tokio::test(start_paused = true)]
async fn head_is_answered_without_a_body() {
    let server = start();
    let (near, far) = tokio::io::duplex(1 << 16);
    let api = server.api.clone();
    tokio::spawn(async move { serve_stream(far, &api).await });
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, Full<Bytes>>(executor, TokioIo::new(near)).await.expect("HTTP/2");
    tokio::spawn(connection);
    for (path, status, length) in [("/healthz", 200, "2"), ("/api/v1/namespaces/default", 405, "")] {
        let request = http::Request::head(format!("http://localhost{path}"));
        let request = request.header("Authorization", format!("Bearer {}", server.api.token()));
        let response = sender.send_request(request.body(Full::default()).expect("a request")).await.expect("an answer");
        assert_eq!(response.status(), status, "{path}");
        let told = response.headers().get("content-length").map(|length| length.to_str().expect("digits").to_owned());
        assert!(told.is_some_and(|told| length.is_empty() || told == length), "{path}");
        assert!(response.into_body().collect().await.expect("no body").to_bytes().is_empty(), "{path}");
    }
}

/// Contract: API-02
#[tokio::test(start_paused = true)]
async fn the_server_tells_its_version_health_and_metrics() {
    let server = start();
    let version = server.get("/version").await.json();
    assert_eq!((version["major"].as_str(), version["minor"].as_str()), (Some("1"), Some("36")));
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping"] {
        let answer = server.get(path).await;
        assert_eq!((answer.status, &answer.body[..]), (200, &b"ok"[..]), "{path}");
    }
    let verbose = server.get("/readyz?verbose").await;
    assert!(verbose.body.ends_with(b"readyz check passed\n"), "{:?}", verbose.body);
    server.get("/api/v1/namespaces/default/pods").await;
    let slis = String::from_utf8(server.get("/metrics/slis").await.body.to_vec()).expect("text");
    for line in [
        "kubernetes_healthcheck{name=\"ping\",type=\"readyz\"} 1",
        "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"readyz\"} 3",
    ] {
        assert!(slis.lines().any(|l| l == line), "{slis}");
    }
    let metrics = String::from_utf8(server.get("/metrics").await.body.to_vec()).expect("text");
    let line = "apiserver_request_total{verb=\"LIST\",resource=\"pods\",subresource=\"\",code=\"200\"} 1";
    assert!(metrics.lines().any(|l| l == line), "{metrics}");
    assert!(metrics.lines().any(|l| l == "apiserver_storage_objects{resource=\"namespaces\"} 4"), "{metrics}");
}

/// Contract: API-03
#[tokio::test(start_paused = true)]
async fn discovery_is_aggregated_where_the_client_asks_for_it() {
    let server = start();
    for version in ["v2", "v2beta1"] {
        let media = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
        let accept = format!("{media},application/json");
        let answer = server.send("GET", "/apis", &[("Accept", &accept)], "").await;
        assert_eq!((answer.status, answer.header("content-type")), (200, media.as_str()));
        let document = answer.json();
        assert_eq!(document["apiVersion"], format!("apidiscovery.k8s.io/{version}"));
        let apps = document["items"].as_array().expect("groups").iter().find(|g| g["metadata"]["name"] == "apps");
        let resources = &apps.expect("apps")["versions"][0]["resources"];
        let sets = resources.as_array().expect("resources").iter().find(|r| r["resource"] == "replicasets");
        let sets = sets.expect("replicasets");
        assert_eq!((&sets["scope"], &sets["shortNames"]), (&json!("Namespaced"), &json!(["rs"])));
        assert_eq!(
            sets["subresources"][0],
            json!({
                "subresource": "scale", "verbs": ["get", "patch", "update"],
                "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
            })
        );
        let core = server.send("GET", "/api", &[("Accept", &accept)], "").await.json();
        let core = core["items"][0]["versions"][0]["resources"].as_array().expect("resources").clone();
        let pods = core.iter().find(|r| r["resource"] == "pods").expect("pods");
        let kind = |part: &str| {
            let parts = pods["subresources"].as_array().expect("subresources");
            parts.iter().find(|p| p["subresource"] == part).expect("it is there")["responseKind"].clone()
        };
        assert_eq!(kind("exec"), json!({"group": "", "version": "", "kind": "PodExecOptions"}));
        assert_eq!(kind("eviction"), json!({"group": "policy", "version": "v1", "kind": "Eviction"}));
        let again =
            server.send("GET", "/apis", &[("Accept", &accept), ("If-None-Match", answer.header("etag"))], "").await;
        assert_eq!((again.status, again.body.len()), (304, 0));
    }
    assert_eq!(server.get("/apis").await.json()["kind"], "APIGroupList");
    assert_eq!(server.get("/api").await.json()["kind"], "APIVersions");
}

/// Contract: API-03
#[tokio::test(start_paused = true)]
async fn discovery_tells_what_objects_are_stored_as_by_the_references_hashes() {
    let server = start();
    for (path, plural, hash) in [
        ("/api/v1", "pods", "xPOwRZ+Yhw8="),
        ("/apis/apps/v1", "deployments", "8aSe+NMegvE="),
        ("/apis/batch/v1", "cronjobs", "sd5LIXh4Fjs="),
        // What is stored as another version or kind has the hash of that.
        ("/apis/autoscaling/v1", "horizontalpodautoscalers", "qwQve8ut294="),
        ("/apis/events.k8s.io/v1", "events", "r2yiGXH7wu8="),
    ] {
        let resources = server.get(path).await.json()["resources"].clone();
        let found = resources.as_array().expect("resources").iter().find(|resource| resource["name"] == plural);
        assert_eq!(found.expect("the resource")["storageVersionHash"], hash, "{plural}");
    }
}

/// Contract: API-22
#[tokio::test]
async fn garbage_and_aborted_clients_hurt_nobody() {
    let server = listen().await;
    let address = server.handle.as_ref().expect("it listens").address();
    let garbage: [&[u8]; 5] = [
        b"\x00\x01\x02\xff\xfe garbage\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nshort",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ];
    for bytes in garbage {
        let mut stream = TcpStream::connect(address).await.expect("the server accepts");
        stream.write_all(bytes).await.expect("a write");
        stream.shutdown().await.expect("an end");
        // Whatever is answered, the connection ends. A reset is an end, too.
        let _ = stream.read_to_end(&mut Vec::new()).await;
        assert_eq!(server.get("/readyz").await.status, 200, "after {bytes:?}");
    }
    // Two hundred watchers go away without a word.
    let mut watchers = Vec::new();
    for _ in 0..200 {
        watchers.push(server.watch("/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=4").await);
    }
    drop(watchers);
    assert_eq!(server.config_map("after", "1").await.status, 201);
    server.handle.expect("it listens").shutdown().await;
}

/// Contract: API-22
#[tokio::test]
async fn a_body_that_is_too_long_is_413_even_while_it_is_being_sent() {
    let server = listen().await;
    for length in [(3 << 20) + 1, 10 << 20] {
        let body = vec![b'x'; length];
        let headers = [("Content-Type", "application/json")];
        let answer = server.send("POST", "/api/v1/namespaces/default/pods", &headers, body).await;
        assert_eq!(answer.status, 413);
        assert_eq!(answer.json()["message"], "Request entity too large: limit is 3145728");
    }
    assert_eq!(server.get("/readyz").await.status, 200);
    server.handle.expect("it listens").shutdown().await;
}

/// Contract: API-22
#[tokio::test(start_paused = true)]
async fn too_many_requests_are_told_to_come_back() {
    let server = start_with(Options { most_in_flight: 0, ..options() });
    let answer = server.get("/api/v1/namespaces").await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, "1"));
    assert_eq!(&answer.body[..], b"Too many requests, please try again later.\n");
}

/// Contract: API-22
#[tokio::test(start_paused = true)]
async fn bytes_in_flight_are_bounded_until_they_are_sent() {
    let server = start_with(Options { most_bytes_in_flight: 150 << 10, ..options() });
    let maps = "/api/v1/namespaces/default/configmaps";
    let large = json!({"metadata": {"name": "large"}, "data": {"key": "x".repeat(100 << 10)}});
    assert_eq!(server.post(maps, &large).await.status, 201);
    let unread = || {
        let request = http::Request::get(format!("{maps}/large")).header("Accept", "application/yaml");
        let request = request.body(http_body_util::Empty::<bytes::Bytes>::new()).expect("a request");
        let service = server.api.service();
        async move { service.answer(request).await }
    };
    let (first, second) = (unread().await, unread().await);
    assert_eq!((first.status().as_u16(), second.status().as_u16()), (200, 200), "the one that goes beyond is answered");
    assert_eq!(unread().await.status(), 429, "a third is not");
    assert_eq!(server.post(maps, &large).await.status, 429, "nor is a body read");
    assert_eq!(server.get("/readyz").await.status, 200, "small answers are not counted");
    drop(first);
    assert_eq!(unread().await.status(), 200);
}

/// Contract: API-23
#[tokio::test(start_paused = true)]
async fn containers_are_simulated_and_say_so() {
    let server = start();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]},
    });
    assert_eq!(server.post(pods, &pod).await.status, 201);
    let log = server.get(&format!("{pods}/p/log")).await;
    assert_eq!((log.status, log.header("content-type")), (200, "text/plain"));
    assert_eq!(String::from_utf8_lossy(&log.body).lines().count(), 1);
    assert!(String::from_utf8_lossy(&log.body).contains("node-1"));
    for (options, status, why) in [
        ("sinceTime=", 200, ""),
        ("sinceTime=x", 400, r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#),
        (
            "sinceSeconds=0&sinceTime=2020-01-01T00:00:00Z",
            422,
            r#"PodLogOptions "p" is invalid: []: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"#,
        ),
        ("stream=Stdout", 422, r#"PodLogOptions "p" is invalid: stream: Forbidden: may not be specified"#),
        (
            "sinceSeconds=0&tailLines=-1",
            422,
            "PodLogOptions \"p\" is invalid: [tailLines: Invalid value: -1: must be greater than or equal to 0, \
             sinceSeconds: Invalid value: 0: must be greater than 0]",
        ),
    ] {
        let answer = server.get(&format!("{pods}/p/log?{options}")).await;
        assert_eq!(answer.status, status, "{options}");
        if status != 200 {
            assert_eq!(answer.json()["message"], why, "{options}");
        }
    }
    let bindings = "/api/v1/namespaces/default/bindings";
    for (binding, status, why) in [
        (json!({}), 500, "target.name: Required value"),
        (json!({"target": {"kind": "Node", "name": "n"}}), 400, "Name parameter required."),
    ] {
        let answer = server.post(bindings, &binding).await;
        assert_eq!((answer.status, &answer.json()["message"]), (status, &json!(why)), "{binding}");
    }
    let stale = json!({"metadata": {"name": "p", "resourceVersion": "1"}, "target": {"kind": "Node", "name": "n"}});
    let conflict = server.post(&format!("{bindings}?dryRun=All"), &stale).await.json();
    assert!(conflict["message"].as_str().is_some_and(|said| said.contains(" Key: /pods/default/p,")), "{conflict}");
    for verb in ["exec", "attach", "portforward"] {
        let answer = server.send("POST", &format!("{pods}/p/{verb}"), &[], "").await;
        assert_eq!(answer.status, 400);
        assert!(answer.json()["message"].as_str().expect("a message").contains("simulated"), "{verb}");
    }
    let waiting = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    assert_eq!(server.post(pods, &waiting).await.status, 201);
    for (path, why) in [
        ("w/exec", "pod w does not have a host assigned"),
        ("w/attach?container=c", "pod w does not have a host assigned"),
        ("w/portforward", "pod w does not have a host assigned"),
        ("w/exec?container=zz", "container zz is not valid for pod w"),
        ("p/attach?container=zz", "container zz is not valid for pod p"),
    ] {
        let answer = server.send("POST", &format!("{pods}/{path}"), &[], "").await;
        assert_eq!((answer.status, &answer.json()["message"]), (400, &json!(why)), "{path}");
    }
}

/// The answers of a kube-apiserver 1.36.2 with RBAC and no role but its own. `kubectl auth can-i --as` asks so.
///
/// Contract: API-31, API-32
#[tokio::test(start_paused = true)]
async fn an_administrator_can_act_as_somebody_else() {
    type Headers = &'static [(&'static str, &'static str)];
    const BOB: Headers = &[("Impersonate-User", "bob")];
    const NOBODY: Headers = &[("Impersonate-User", "system:anonymous")];
    let server = start();
    let sent = async |headers: Headers, method: &str, path: &str, body: &Value| {
        let headers: Vec<_> = headers.iter().copied().chain([("Content-Type", "application/json")]).collect();
        let answer = server.send(method, path, &headers, body.to_string()).await;
        (answer.status, answer.json())
    };

    for (headers, path, status, message) in [
        (BOB, "/api", 200, ""),
        (BOB, "/apis/apps/v1", 200, ""),
        (BOB, "/openapi/v3", 200, ""),
        (BOB, "/metrics", 403, r#"forbidden: User "bob" cannot get path "/metrics""#),
        (NOBODY, "/version", 200, ""),
        (NOBODY, "/api", 403, r#"forbidden: User "system:anonymous" cannot get path "/api""#),
        (&[("Impersonate-User", "bob"), ("Impersonate-Group", "system:masters")], "/api/v1/pods", 200, ""),
        (&[("Impersonate-User", "")], "/api/v1/pods", 200, ""),
        (
            BOB,
            "/api/v1/pods",
            403,
            r#"pods is forbidden: User "bob" cannot list resource "pods" in API group "" at the cluster scope"#,
        ),
        (
            &[("Impersonate-Group", "x")],
            "/api/v1/pods",
            400,
            r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"x"}, Extra:map[string][]string(nil)} without impersonating a user name"#,
        ),
        (
            &[("Impersonate-Uid", "x"), ("Impersonate-Extra-a", "y")],
            "/api/v1/pods",
            400,
            r#"requested &user.DefaultInfo{Name:"", UID:"x", Groups:[]string(nil), Extra:map[string][]string{"a":[]string{"y"}}} without impersonating a user name"#,
        ),
    ] {
        let (code, answer) = sent(headers, "GET", path, &Value::Null).await;
        assert_eq!((code, answer["message"].as_str().unwrap_or_default()), (status, message), "{headers:?} {path}");
    }

    let myself = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    for (headers, info) in [
        (&[][..], json!({"username": "admin", "uid": "admin", "groups": ["system:masters", "system:authenticated"]})),
        (BOB, json!({"username": "bob", "groups": ["system:authenticated"]})),
        (
            &[
                ("Impersonate-User", "bob"),
                ("Impersonate-Uid", "u1"),
                ("Impersonate-Group", "g"),
                ("Impersonate-Extra-scopes%2fx", "y"),
            ],
            json!({
                "username": "bob", "uid": "u1", "groups": ["g", "system:authenticated"], "extra": {"scopes/x": ["y"]},
            }),
        ),
        (
            &[("Impersonate-User", "system:serviceaccount:ns:name")],
            json!({
                "username": "system:serviceaccount:ns:name",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
            }),
        ),
    ] {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let (code, answer) = sent(headers, "POST", myself, &review).await;
        assert_eq!((code, &answer["status"]["userInfo"]), (201, &info), "{headers:?}");
    }
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    assert_eq!(sent(NOBODY, "POST", myself, &review).await.0, 403);

    let pods = json!({"namespace": "default", "verb": "get", "resource": "pods"});
    let asked = |what: &str, attributes: &Value| json!({what: attributes});
    let version = asked("nonResourceAttributes", &json!({"path": "/version", "verb": "get"}));
    let api = asked("nonResourceAttributes", &json!({"path": "/api/v1", "verb": "get"}));
    let create = json!({"group": "authorization.k8s.io", "resource": "selfsubjectaccessreviews", "verb": "create"});
    let of = |user: &str, groups: &[&str]| json!({"user": user, "groups": groups, "resourceAttributes": pods});
    let subject = "subjectaccessreviews";
    for (headers, plural, spec, allowed) in [
        (&[][..], "selfsubjectaccessreviews", asked("resourceAttributes", &pods), true),
        (BOB, "selfsubjectaccessreviews", asked("resourceAttributes", &pods), false),
        (BOB, "selfsubjectaccessreviews", asked("resourceAttributes", &create), true),
        (BOB, "selfsubjectaccessreviews", version, true),
        (BOB, "selfsubjectaccessreviews", api, true),
        (&[], subject, of("bob", &[]), false),
        (&[], subject, of("x", &["system:masters"]), true),
        (&[], "namespaces/default/localsubjectaccessreviews", of("bob", &[]), false),
    ] {
        let (code, answer) =
            sent(headers, "POST", &format!("/apis/authorization.k8s.io/v1/{plural}"), &json!({"spec": spec})).await;
        assert_eq!((code, &answer["status"]["allowed"]), (201, &json!(allowed)), "{headers:?} {plural} {spec}");
        let reason = answer["status"]["reason"].as_str().unwrap_or_default();
        assert_eq!(reason.starts_with("RBAC: allowed by ClusterRoleBinding"), allowed && headers == BOB, "{reason}");
    }

    for (plural, spec, message) in [
        (
            subject,
            json!({}),
            r#".authorization.k8s.io "" is invalid: [spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified, spec.user: Invalid value: "": at least one of user or group must be specified]"#,
        ),
        (
            "selfsubjectaccessreviews",
            json!({"resourceAttributes": pods, "nonResourceAttributes": {"path": "/", "verb": "get"}}),
            r#".authorization.k8s.io "" is invalid: spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":"get"}: cannot be specified in combination with resourceAttributes"#,
        ),
        (
            "namespaces/other/localsubjectaccessreviews",
            of("bob", &[]),
            r#".authorization.k8s.io "" is invalid: spec.resourceAttributes.namespace: Invalid value: "default": must match metadata.namespace"#,
        ),
    ] {
        let path = format!("/apis/authorization.k8s.io/v1/{plural}");
        let (code, answer) = sent(&[], "POST", &path, &json!({"spec": spec})).await;
        assert_eq!((code, answer["message"].as_str()), (422, Some(message)));
    }

    let rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let (_, all) = sent(&[], "POST", rules, &json!({"spec": {"namespace": "default"}})).await;
    let (_, few) = sent(BOB, "POST", rules, &json!({"spec": {"namespace": "default"}})).await;
    let count = |answer: &Value| answer["status"]["resourceRules"].as_array().map(Vec::len);
    assert_eq!((count(&all), count(&few)), (Some(3), Some(2)));
    let (code, answer) = sent(BOB, "POST", rules, &json!({"spec": {}})).await;
    assert_eq!((code, &answer["message"]), (400, &json!("no namespace on request")));
}
