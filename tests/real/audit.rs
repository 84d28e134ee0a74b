//! What the managers asked the server, by the server's own audit log.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

/// The users that managers run as where they have a certificate.
pub(crate) const MANAGERS: [&str; 3] = ["manager-a", "manager-b", "manager-c"];

/// The policy of the log: who, what and how it ended, of each request of a manager; nothing of anybody else's.
pub(crate) fn policy() -> Value {
    serde_json::json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "rules": [
            {"level": "Metadata", "users": MANAGERS},
            {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
            {"level": "None"},
        ],
    })
}

/// A request of a manager.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) user: String,
    pub(crate) verb: String,
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Whether the server refused it for want of a grant.
    pub(crate) forbidden: bool,
}

impl Asked {
    /// Whether it asks for a change.
    pub(crate) fn writes(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }
}

/// The requests in a log, in the order in which they were received. One whose answer never came is among them.
pub(crate) fn read(log: &Path) -> Vec<Asked> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let mut order = Vec::new();
    let mut asked: BTreeMap<String, Asked> = BTreeMap::new();
    // The last line of a server that was killed may be half there.
    for record in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let said = |pointer: &str| record.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let id = said("/auditID");
        let subresource = said("/objectRef/subresource");
        let slash = if subresource.is_empty() { "" } else { "/" };
        let found = Asked {
            user: said("/user/username"),
            verb: said("/verb"),
            resource: format!("{}{slash}{subresource}", said("/objectRef/resource")),
            namespace: said("/objectRef/namespace"),
            name: said("/objectRef/name"),
            forbidden: said("/annotations/authorization.k8s.io~1decision") == "forbid",
        };
        if asked.insert(id.clone(), found).is_none() {
            order.push(id);
        }
    }
    order.iter().filter_map(|id| asked.remove(id)).collect()
}
