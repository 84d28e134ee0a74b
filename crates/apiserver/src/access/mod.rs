//! Access: who asks, and whether they may (API-01, API-31, API-32).
//!
//! ```text
//!   request -> credential -> user -> impersonated user -> attributes -> authorizer -> handled, or 403
//!              (authentication)      (impersonation)                       ^
//!                                                    roles and bindings ---/ (rbac; the first of them: bootstrap)
//! ```
//!
//! Members of the group `system:masters` may do anything; whoever has no credential is `system:anonymous`. Nobody can
//! grant more than they have ([`escalation`]).

pub mod attributes;
pub mod authentication;
pub mod authorizer;
pub mod bootstrap;
pub mod escalation;
pub mod impersonation;
pub mod questions;
pub mod rbac;
pub mod tokens;

use std::collections::BTreeMap;

use muster_tree::{Map, Value, json};

use crate::validation::name::{is_dns1123_label, is_dns1123_subdomain};

/// The group that may do anything.
const MASTERS: &str = "system:masters";
/// The group of everybody who has a name.
const AUTHENTICATED: &str = "system:authenticated";
/// The group of who has none.
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Who has no credential.
const ANONYMOUS: &str = "system:anonymous";
/// The group of all nodes.
const NODES: &str = "system:nodes";
/// What the name of a service account begins with, before its namespace and a colon.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// The extra that names the node of a service account's pod.
pub const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// The extra that names the credential.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Somebody who sends requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The uid; empty where there is none.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Whatever else an authenticator knows.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The user whose credential the server makes.
    #[must_use]
    pub fn administrator() -> Self {
        let groups = [MASTERS, AUTHENTICATED].map(str::to_owned).to_vec();
        Self { name: "admin".to_owned(), uid: "admin".to_owned(), groups, ..Self::default() }
    }

    /// Whoever has no credential.
    #[must_use]
    pub fn anonymous() -> Self {
        let groups = vec![UNAUTHENTICATED.to_owned()];
        Self { name: ANONYMOUS.to_owned(), groups, ..Self::default() }
    }

    /// The user, recognised by a certificate in DER.
    #[must_use]
    pub fn with_certificate(mut self, der: &[u8]) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, der);
        let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        self.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={hex}")]);
        self
    }

    /// A service account.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let all = "system:serviceaccounts";
        let groups = vec![all.to_owned(), format!("{all}:{namespace}"), AUTHENTICATED.to_owned()];
        let name = format!("system:serviceaccount:{namespace}:{name}");
        Self { name, uid: String::new(), groups, extra: BTreeMap::new() }
    }

    /// Whether the user may do anything.
    #[must_use]
    pub fn may_do_anything(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// Whether the user is in a group.
    #[must_use]
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// The groups of every service account of a namespace.
    #[must_use]
    pub fn groups_of_service_account(namespace: &str) -> Vec<String> {
        vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
    }

    /// As `userInfo` has it.
    #[must_use]
    pub fn info(&self) -> Value {
        let mut info = Map::new();
        info.insert("username", json!(self.name));
        if !self.uid.is_empty() {
            info.insert("uid", json!(self.uid));
        }
        if !self.groups.is_empty() {
            info.insert("groups", json!(self.groups));
        }
        if !self.extra.is_empty() {
            info.insert("extra", json!(self.extra));
        }
        Value::Object(info)
    }
}

/// The namespace and name of the service account that a user is.
#[must_use]
pub fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (is_dns1123_label(namespace).is_empty() && is_dns1123_subdomain(name).is_empty()).then_some((namespace, name))
}
