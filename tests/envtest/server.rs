//! The API server as a suite meets it.

use std::ffi::OsString;
use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::plane::{Assets, Plane, Running, free_port};
use crate::wait::eventually;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Contract: API-36
pub(crate) fn it_is_ready_at_once_and_ends_at_once() {
    let plane = Plane::start(&[], "");
    let nobody = plane.nobody();
    for path in ["/healthz", "/readyz", "/livez"] {
        assert_eq!(nobody.healthy(path), Ok(()), "{path}");
    }
    assert_eq!(nobody.get("/api/v1/namespaces").expect_err("nobody may").code, 403);
    assert_eq!(plane.api.get("/api/v1/namespaces/default").expect("a namespace")["status"]["phase"], "Active");
    assert_eq!(plane.api.get("/api/v1/nodes").expect("nodes")["items"], json!([]));
    let before = fs::read_dir(plane.folder.path().join("serving")).expect("the folder").count();
    let Plane { server, folder, .. } = plane;
    assert_eq!(server.terminate().code(), Some(0));
    assert_eq!(fs::read_dir(folder.path().join("serving")).expect("the folder").count(), before, "nothing is left");
}

/// Contract: API-36
pub(crate) fn a_file_says_what_needs_no_credential() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n\
                anonymous:\n  enabled: true\n  conditions:\n  - path: /livez\n";
    let file = crate::outside::write(folder.path(), "authentication.yaml", text);
    let plane = Plane::start(&["--authentication-config", &file], "");
    let nobody = plane.nobody();
    assert_eq!(nobody.healthy("/livez"), Ok(()));
    assert!(nobody.healthy("/healthz").is_err_and(|said| said.contains("401")), "{:?}", nobody.healthy("/healthz"));
    assert_eq!(nobody.get(MAPS).expect_err("without a credential").code, 401);
    assert!(plane.api.get(MAPS).is_ok());
}

/// Contract: API-36
pub(crate) fn certificates_are_users_and_groups() {
    let plane = Plane::start(&[], "");
    plane.api.create(MAPS, &json!({"metadata": {"name": "a"}})).expect("a member of system:masters may");
    let user = plane.user("alice", "devs");
    let refused = user.get(MAPS).expect_err("the group has no rights");
    let expected = "configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" in API group \"\" in the \
                    namespace \"default\"";
    assert_eq!((refused.code, refused.message.as_str()), (403, expected));
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({
        "metadata": {"name": "devs"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
    });
    plane.api.create(&format!("{rbac}/roles"), &role).expect("a role");
    let binding = json!({
        "metadata": {"name": "devs"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "devs"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "devs"}],
    });
    plane.api.create(&format!("{rbac}/rolebindings"), &binding).expect("a binding");
    assert_eq!(user.get(MAPS).expect("now it may")["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(plane.user("bob", "ops").get(MAPS).expect_err("another group").code, 403);
    assert_eq!(plane.by_token("guessed").get(MAPS).expect_err("no token of ours").code, 401);
}

/// Contract: API-36
pub(crate) fn tokens_are_signed_by_the_given_key() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let tokens = crate::outside::write(folder.path(), "tokens.csv", "s3cret,carol,c1,system:masters\n");
    let plane = Plane::start(&["--token-auth-file", &tokens, "--service-account-max-token-expiration=1h"], "");
    assert!(plane.by_token("s3cret").get(MAPS).is_ok(), "a token of the file");
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    plane.api.create(accounts, &json!({"metadata": {"name": "robot"}})).expect("an account");
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}});
    let answer = plane.api.create(&format!("{accounts}/robot/token"), &request).expect("a token");
    assert_eq!(answer["spec"]["expirationSeconds"], 3600, "the longest");
    let token = answer["status"]["token"].as_str().expect("a token");
    let part = |index: usize| -> Value {
        let bytes = URL_SAFE_NO_PAD.decode(token.split('.').nth(index).expect("a part")).expect("base64");
        serde_json::from_slice(&bytes).expect("JSON")
    };
    let issuer = part(1)["iss"].as_str().expect("an issuer").to_owned();
    assert!(issuer.starts_with("https://127.0.0.1:") && issuer.ends_with('/'), "{issuer}");
    assert_eq!(part(1)["aud"], json!([issuer]));
    let keys = plane.api.get("/openid/v1/jwks").expect("keys");
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(1), "the public key is that of the private one");
    assert_eq!((&part(0)["kid"], &part(0)["alg"]), (&keys["keys"][0]["kid"], &keys["keys"][0]["alg"]));
    let refused = plane.by_token(token).get(MAPS).expect_err("it has no rights");
    assert_eq!(refused.code, 403);
    assert!(refused.message.contains("User \"system:serviceaccount:default:robot\""), "{refused}");
}

/// An owner and what it owns.
fn family(plane: &Plane, name: &str) -> String {
    let owner = plane.api.create(MAPS, &json!({"metadata": {"name": name}})).expect("an owner");
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true});
    let child = format!("{name}-child");
    plane.api.create(MAPS, &json!({"metadata": {"name": child, "ownerReferences": [reference]}})).expect("a dependent");
    child
}

/// Contract: API-36
pub(crate) fn garbage_and_namespaces_go_unless_asked_otherwise() {
    let gone = |plane: &Plane, path: &str| {
        eventually(path, || match plane.api.get(path) {
            Err(refusal) if refusal.code == 404 => Ok(()),
            other => Err(format!("{other:?}")),
        });
    };
    let foreground = json!({"propagationPolicy": "Foreground"});
    let plane = Plane::start(&[], "");
    let child = family(&plane, "owner");
    plane.api.delete(&format!("{MAPS}/owner"), &foreground).expect("deleted");
    gone(&plane, &format!("{MAPS}/{child}"));
    gone(&plane, &format!("{MAPS}/owner"));
    plane.api.create("/api/v1/namespaces", &json!({"metadata": {"name": "temporary"}})).expect("a namespace");
    plane.api.create("/api/v1/namespaces/temporary/configmaps", &json!({"metadata": {"name": "a"}})).expect("a map");
    plane.api.delete("/api/v1/namespaces/temporary", &json!({})).expect("deleted");
    gone(&plane, "/api/v1/namespaces/temporary");

    let plane = Plane::start(&["--muster-controllers=namespaces"], "controllers=gc");
    let child = family(&plane, "owner");
    plane.api.delete(&format!("{MAPS}/owner"), &foreground).expect("marked");
    // What does run has come round meanwhile.
    plane.api.create("/api/v1/namespaces", &json!({"metadata": {"name": "temporary"}})).expect("a namespace");
    plane.api.delete("/api/v1/namespaces/temporary", &json!({})).expect("deleted");
    gone(&plane, "/api/v1/namespaces/temporary");
    assert!(plane.api.get(&format!("{MAPS}/{child}")).is_ok(), "nobody collects garbage");
    let owner = plane.api.get(&format!("{MAPS}/owner")).expect("the owner is kept");
    assert_eq!(owner["metadata"]["finalizers"], json!(["foregroundDeletion"]));
}

/// Contract: API-36
pub(crate) fn services_are_given_what_the_flags_say() {
    let plane = Plane::start(&["--service-node-port-range=31000-31001", "--advertise-address=192.0.2.7"], "");
    let services = "/api/v1/namespaces/default/services";
    let own = plane.api.get(&format!("{services}/kubernetes")).expect("the server's own");
    assert_eq!(own["spec"]["clusterIP"], "10.0.0.1");
    let endpoints = plane.api.get("/api/v1/namespaces/default/endpoints/kubernetes").expect("its endpoints");
    assert_eq!(endpoints["subsets"][0]["addresses"], json!([{"ip": "192.0.2.7"}]));
    let made = |name: &str| {
        let body = json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
        plane.api.create(services, &body)
    };
    for name in ["a", "b"] {
        let service = made(name).expect("a Service");
        let ip = service["spec"]["clusterIP"].as_str().expect("a cluster IP").to_owned();
        assert!(ip.starts_with("10.0.0."), "{ip}");
        let port = service["spec"]["ports"][0]["nodePort"].as_u64().expect("a port");
        assert!((31000..=31001).contains(&port), "{port}");
    }
    assert!(made("c").expect_err("no port is left").message.contains("range is full"));
}

/// Contract: API-36
pub(crate) fn plugins_and_kinds_can_be_switched_off() {
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({
        "metadata": {"name": "a"},
        "spec": {"serviceAccountName": "missing", "containers": [{"name": "c", "image": "i"}]},
    });
    let strange = "/api/v1/namespaces/nowhere/configmaps";
    let map = json!({"metadata": {"name": "a"}});

    let plane = Plane::start(&[], "");
    plane.api.create(pods, &pod).expect("envtest switches ServiceAccount off");
    assert_eq!(plane.api.create(strange, &map).expect_err("no such namespace").code, 404);
    assert!(plane.api.get("/apis/batch/v1").is_ok());

    let flags = ["--disable-admission-plugins=NamespaceLifecycle", "--runtime-config=batch/v1=false,api/beta=true"];
    let plane = Plane::start(&flags, "");
    plane.api.create(strange, &map).expect("nobody asks for the namespace");
    assert_eq!(plane.api.get("/apis/batch/v1").expect_err("it is not served").code, 404);
    assert!(plane.api.get("/apis/apps/v1").is_ok());
}

/// Contract: API-36
pub(crate) fn controllers_and_nodes_by_the_environment() {
    let plane = Plane::start(&[], "controllers=deployments,replicasets;nodes=1;pod-startup=0s;seed=7");
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let labels = json!({"app": "web"});
    let body = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    });
    plane.api.create(deployments, &body).expect("a Deployment");
    eventually("two pods that are ready", || {
        let found = plane.api.get(&format!("{deployments}/web")).map_err(|refusal| refusal.to_string())?;
        if found["status"]["readyReplicas"] == 2 { Ok(()) } else { Err(found["status"].to_string()) }
    });
    assert_eq!(plane.api.get("/api/v1/nodes").expect("nodes")["items"].as_array().map(Vec::len), Some(1));
}

/// Contract: API-36
pub(crate) fn a_certificate_is_made_where_there_is_none() {
    let (assets, folder) = (Assets::install(), tempfile::tempdir().expect("a temporary folder"));
    let certificates = folder.path().join("new");
    let port = free_port();
    let start = || {
        let arguments = [
            format!("--cert-dir={}", certificates.display()),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            "--advertise-address=192.0.2.7".to_owned(),
            "--service-cluster-ip-range=10.3.0.0/24".to_owned(),
            "--v=2".to_owned(),
        ];
        let mut server = Running::start(&assets.program("kube-apiserver"), &arguments.map(OsString::from), &[]);
        server.line_with("serving");
        assert_eq!(server.terminate().code(), Some(0));
        ["apiserver.crt", "apiserver.key"].map(|name| fs::read_to_string(certificates.join(name)).expect("a file"))
    };
    let made = start();
    assert!(made[0].starts_with("-----BEGIN CERTIFICATE-----") && made[1].contains("PRIVATE KEY"), "{made:?}");
    assert_eq!(start(), made, "what is there is used");
    let der: String = made[0].lines().skip(1).take_while(|line| !line.starts_with("---")).collect();
    let der = STANDARD.decode(der).expect("base64");
    let has = |tag: u8, name: &[u8]| {
        let name = [&[tag, u8::try_from(name.len()).expect("a short name")], name].concat();
        der.windows(name.len()).any(|window| window == name)
    };
    let service = "kubernetes.default.svc.cluster.local";
    for name in ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", service] {
        assert!(has(0x82, name.as_bytes()), "{name}");
    }
    for address in [[127, 0, 0, 1], [192, 0, 2, 7], [10, 3, 0, 1]] {
        assert!(has(0x87, &address), "{address:?}");
    }
}
