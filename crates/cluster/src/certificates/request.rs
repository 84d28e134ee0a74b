//! A CertificateSigningRequest, as far as its controllers read it, and what nodes may ask for.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_objects::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Asked;
use crate::control::Body;
use crate::json::{list, or_default};

/// The signer of what kubelets show to the API server.
pub(super) const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// A request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Request {
    #[serde(default)]
    pub(super) spec: Spec,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) status: Status,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    /// The request itself, PEM in base64.
    request: String,
    pub(super) signer_name: String,
    pub(super) expiration_seconds: Option<i64>,
    #[serde(deserialize_with = "list")]
    pub(super) usages: Vec<String>,
    pub(super) username: String,
    pub(super) uid: String,
    #[serde(deserialize_with = "list")]
    pub(super) groups: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) extra: BTreeMap<String, Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    /// PEM in base64; empty for none.
    #[serde(deserialize_with = "or_default")]
    certificate: String,
    #[serde(deserialize_with = "list")]
    pub(super) conditions: Vec<Condition>,
}

/// A condition; what is not known of it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_update_time: Option<Timestamp>,
    #[serde(flatten)]
    pub(super) rest: BTreeMap<String, Value>,
}

impl Body for Request {
    const API_VERSION: &'static str = "certificates.k8s.io/v1";
    const KIND: &'static str = "CertificateSigningRequest";
    type Indexes = ();
}

impl Request {
    /// The request in PEM.
    pub(super) fn pem(&self) -> String {
        decoded(&self.spec.request)
    }

    /// The certificate in PEM, once it was issued.
    pub(super) fn certificate(&self) -> Option<String> {
        self.is_issued().then(|| decoded(&self.status.certificate))
    }

    /// Whether there is a certificate.
    pub(super) fn is_issued(&self) -> bool {
        !self.status.certificate.is_empty()
    }

    /// Whether it has a condition of that type, whatever its status.
    pub(super) fn has(&self, kind: &str) -> bool {
        self.status.conditions.iter().any(|condition| condition.kind == kind)
    }

    /// Whether it has a condition of that type that is True.
    pub(super) fn is(&self, kind: &str) -> bool {
        self.status.conditions.iter().any(|condition| condition.kind == kind && condition.status == "True")
    }

    /// Its conditions with one more.
    pub(super) fn conditions_and(&self, condition: Value) -> Vec<Value> {
        let own = self.status.conditions.iter().map(|own| serde_json::to_value(own).unwrap_or_default());
        own.chain([condition]).collect()
    }
}

fn decoded(text: &str) -> String {
    // The server takes nothing else for bytes.
    let bytes = STANDARD.decode(text).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What a node's serving certificate may be.
///
/// # Errors
/// In upstream's words, what is not as it should be.
pub(super) fn check_kubelet_serving(asked: &Asked, usages: &[String]) -> Result<(), String> {
    check_organization(asked)?;
    if asked.dns == 0 && asked.ips == 0 {
        return refuse("DNS or IP subjectAltName is required");
    }
    check_none(asked.emails, "Email")?;
    check_none(asked.uris, "URI")?;
    const USAGES: [&str; 3] = ["digital signature", "key encipherment", "server auth"];
    if !are(usages, &USAGES) && !are(usages, &["digital signature", "server auth"]) {
        return Err(format!("usages did not match [{}]", USAGES.join(" ")));
    }
    check_common_name(asked)
}

/// What a node may show to the API server.
///
/// # Errors
/// In upstream's words, what is not as it should be.
pub(super) fn check_kubelet_client(asked: &Asked, usages: &[String]) -> Result<(), String> {
    check_organization(asked)?;
    check_none(asked.dns, "DNS")?;
    check_none(asked.emails, "Email")?;
    check_none(asked.ips, "IP")?;
    check_none(asked.uris, "URI")?;
    check_common_name(asked)?;
    const USAGES: [&str; 3] = ["client auth", "digital signature", "key encipherment"];
    if !are(usages, &USAGES) && !are(usages, &["client auth", "digital signature"]) {
        return Err(format!("usages did not match [{}]", USAGES.join(" ")));
    }
    Ok(())
}

/// What anybody may show to the API server.
///
/// # Errors
/// In upstream's words, what is not as it should be.
pub(super) fn check_client(usages: &[String]) -> Result<(), String> {
    const OPTIONAL: [&str; 2] = ["digital signature", "key encipherment"];
    let is_other = |usage: &&String| *usage != "client auth" && !OPTIONAL.contains(&usage.as_str());
    if let Some(other) = usages.iter().find(is_other) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    if !usages.iter().any(|usage| usage == "client auth") {
        return refuse("missing required usage for client certificate: client auth");
    }
    Ok(())
}

fn check_organization(asked: &Asked) -> Result<(), String> {
    if asked.organizations != ["system:nodes"] {
        return refuse("subject organization is not system:nodes");
    }
    Ok(())
}

fn check_common_name(asked: &Asked) -> Result<(), String> {
    if !asked.common_name.starts_with("system:node:") {
        return refuse("subject common name does not begin with system:node:");
    }
    Ok(())
}

fn check_none(count: usize, what: &str) -> Result<(), String> {
    if count > 0 { Err(format!("{what} subjectAltNames are not allowed")) } else { Ok(()) }
}

fn refuse(why: &str) -> Result<(), String> {
    Err(why.to_owned())
}

fn are(usages: &[String], wanted: &[&str]) -> bool {
    let usages: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    usages == wanted.iter().copied().collect()
}
