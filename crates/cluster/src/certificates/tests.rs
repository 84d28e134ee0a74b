use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::approve::recognize;
use super::request::Request;
use super::*;
use crate::control::Slim;
use crate::testing::{merge, slim, uid_text};

/// An authority whose requests and certificates are JSON.
#[derive(Debug)]
struct Fake;

impl Authority for Fake {
    fn read(&self, request: &str) -> Result<Asked, String> {
        let asked: Value = serde_json::from_str(request).map_err(|_| "it is none".to_owned())?;
        let count = |field: &str| usize::try_from(asked[field].as_u64().unwrap_or(0)).unwrap_or(0);
        Ok(Asked {
            common_name: asked["cn"].as_str().unwrap_or_default().to_owned(),
            organizations: asked["o"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            dns: count("dns"),
            ips: count("ips"),
            emails: count("emails"),
            uris: count("uris"),
        })
    }

    fn sign(&self, _: &str, usages: &[&str], from: Timestamp, until: Timestamp) -> Result<String, String> {
        Ok(json!({"usages": usages, "from": from.to_string(), "until": until.to_string()}).to_string())
    }

    fn good_until(&self, certificate: &str) -> Option<Timestamp> {
        let certificate: Value = serde_json::from_str(certificate).ok()?;
        Timestamp::parse(certificate["until"].as_str()?).ok()
    }
}

const NOW: &str = "2026-01-01T12:00:00Z";

fn now() -> Timestamp {
    Timestamp::parse(NOW).expect("a time")
}

fn request(asked: &Value, change: &Value) -> Slim<Request> {
    let mut request = json!({
        "metadata": {"name": "r", "uid": uid_text(900), "resourceVersion": "5", "creationTimestamp": NOW},
        "spec": {
            "request": STANDARD.encode(asked.to_string()),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"], "username": "jane", "groups": ["a"],
        },
        "status": {"conditions": [{"type": "Approved", "status": "True", "lastUpdateTime": NOW}]},
    });
    merge(&mut request, change);
    slim(&request)
}

fn decided(request: &Slim<Request>) -> Value {
    sign::decide(&request.body, &Fake, now()).expect("it can be read").unwrap_or_default()
}

/// Contract: API-32
#[test]
fn what_was_approved_is_signed_for_as_long_as_was_asked() {
    let jane = json!({"cn": "jane"});
    let status = decided(&request(&jane, &json!({})));
    let certificate = STANDARD.decode(status["certificate"].as_str().expect("a text")).expect("base64");
    let certificate: Value = serde_json::from_slice(&certificate).expect("JSON");
    assert_eq!(
        certificate,
        json!({"usages": ["client auth"], "from": "2026-01-01T11:55:00Z", "until": "2027-01-01T11:55:00Z"})
    );
    for (name, seconds, lasts) in [
        ("an hour", 3600, 3600),
        ("less than is given", 60, 600),
        ("nine hours, less the five minutes before", 9 * 3600, 9 * 3600 - 300),
        ("longer than is given", 800 * 24 * 3600, 365 * 24 * 3600 - 300),
    ] {
        let (from, until) = sign::validity(Some(seconds), now());
        assert_eq!(
            (now().saturating_since(from).as_secs(), until.saturating_since(now()).as_secs()),
            (300, lasts),
            "{name}"
        );
    }
    for (name, change) in [
        ("not approved", json!({"status": {"conditions": null}})),
        (
            "denied",
            json!({"status": {"conditions": [{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}]}}),
        ),
        (
            "failed",
            json!({"status": {"conditions": [{"type": "Approved", "status": "True"}, {"type": "Failed", "status": "True"}]}}),
        ),
        ("issued", json!({"status": {"certificate": "AAAA"}})),
        ("another's signer", json!({"spec": {"signerName": "example.com/mine"}})),
    ] {
        assert_eq!(decided(&request(&jane, &change)), Value::Null, "{name}");
    }
    let unreadable = request(&json!({}), &json!({"spec": {"request": "AAAA"}}));
    assert_eq!(sign::decide(&unreadable.body, &Fake, now()), Err("unable to parse csr: it is none".to_owned()));
}

/// Contract: API-32
#[test]
fn what_a_signer_does_not_sign_fails_in_upstreams_words() {
    let node = json!({"cn": "system:node:a", "o": ["system:nodes"]});
    let with = |change: &Value| {
        let mut asked = node.clone();
        merge(&mut asked, change);
        asked
    };
    let serving = ["digital signature", "server auth"];
    let client = ["digital signature", "client auth", "key encipherment"];
    let (serving_signer, client_signer) =
        ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet");
    for (signer, asked, usages, message) in [
        (serving_signer, with(&json!({"dns": 1})), &serving[..], ""),
        (serving_signer, with(&json!({"o": ["x"], "dns": 1})), &serving, "subject organization is not system:nodes"),
        (serving_signer, with(&json!({})), &serving, "DNS or IP subjectAltName is required"),
        (serving_signer, with(&json!({"ips": 1, "emails": 1})), &serving, "Email subjectAltNames are not allowed"),
        (
            serving_signer,
            with(&json!({"ips": 1})),
            &client,
            "usages did not match [digital signature key encipherment server auth]",
        ),
        (
            serving_signer,
            with(&json!({"cn": "x", "ips": 1})),
            &serving,
            "subject common name does not begin with system:node:",
        ),
        (client_signer, with(&json!({})), &client, ""),
        (client_signer, with(&json!({"dns": 1})), &client, "DNS subjectAltNames are not allowed"),
        (client_signer, with(&json!({"uris": 1})), &client, "URI subjectAltNames are not allowed"),
        (
            client_signer,
            with(&json!({})),
            &serving,
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (
            "kubernetes.io/kube-apiserver-client",
            with(&json!({})),
            &serving,
            "invalid usage for client certificate: server auth",
        ),
        (
            "kubernetes.io/kube-apiserver-client",
            with(&json!({})),
            &serving[..1],
            "missing required usage for client certificate: client auth",
        ),
        ("kubernetes.io/legacy-unknown", with(&json!({})), &serving, ""),
    ] {
        let request = request(&asked, &json!({"spec": {"signerName": signer, "usages": usages}}));
        let status = decided(&request);
        if message.is_empty() {
            assert!(status["certificate"].is_string(), "{signer} {asked}");
        } else {
            let failed = &status["conditions"][1];
            assert_eq!((&failed["type"], &failed["message"]), (&json!("Failed"), &json!(message)), "{signer}");
            assert_eq!(failed["reason"], "SignerValidationFailure");
        }
    }
}

/// Contract: API-32
#[test]
fn what_nodes_ask_for_themselves_or_others_is_recognized() {
    let node = json!({"cn": "system:node:a", "o": ["system:nodes"]});
    let spec = |username: &str| {
        json!({"spec": {
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet", "username": username,
            "usages": ["client auth", "digital signature"],
        }})
    };
    let ways = |asked: &Value, change: &Value| -> Vec<&str> {
        let asked_for = Fake.read(&asked.to_string()).expect("it can be read");
        recognize(&request(asked, change).body, &asked_for).iter().map(|way| way.subresource).collect()
    };
    assert_eq!(ways(&node, &spec("system:node:a")), ["selfnodeclient", "nodeclient"]);
    assert_eq!(ways(&node, &spec("system:bootstrap:x")), ["nodeclient"]);
    assert_eq!(ways(&json!({"cn": "jane"}), &spec("jane")), Vec::<&str>::new());
    assert_eq!(ways(&node, &json!({})), Vec::<&str>::new(), "of another signer");
}

/// Contract: API-32
#[test]
fn requests_are_kept_for_a_while() {
    let condition = |kind: &str| json!([{"type": kind, "status": "True", "lastUpdateTime": NOW}]);
    let certificate = |until: &str| STANDARD.encode(json!({"until": until}).to_string());
    let hours = |count: u64| Some(now() + Duration::from_secs(count * 3600));
    let soon = Timestamp::parse("2026-01-01T12:30:00Z").ok();
    for (name, status, expected) in [
        ("nothing happened", json!({"conditions": null}), hours(24)),
        ("approved, not issued", json!({"conditions": condition("Approved")}), hours(24)),
        ("denied", json!({"conditions": condition("Denied")}), hours(1)),
        ("failed", json!({"conditions": condition("Failed")}), hours(1)),
        (
            "issued",
            json!({"conditions": condition("Approved"), "certificate": certificate("2027-01-01T00:00:00Z")}),
            hours(1),
        ),
        (
            "issued, soon expired",
            json!({"conditions": condition("Approved"), "certificate": certificate("2026-01-01T12:30:00Z")}),
            soon,
        ),
    ] {
        let request = request(&json!({"cn": "jane"}), &json!({"status": status}));
        assert_eq!(clean::deadline(&request, &Fake), expected, "{name}");
    }
}
