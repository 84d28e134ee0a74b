//! The first roles and bindings: what the reference gives a cluster at its start (API-31).
//!
//! They are written in `policy.txt`, in the order in which they are created. A line that is not indented begins an object,
//! an indented one is a rule or a subject of it:
//!
//! ```text
//! role NAME [+LABEL...]            a ClusterRole; with a namespace in front of the name and a slash, a Role
//!     VERBS GROUPS RESOURCES...    a rule, its lists with commas; "core" is the core group; [NAME...] at the end names objects
//!     VERBS /PATH...               a rule about paths
//!     collects LABEL               gathers the roles that have a label
//! binding NAME [ROLE]              to a role of that name, or another one
//!     Group|User NAME, ServiceAccount NAMESPACE/NAME
//! ```
//!
//! `read`, `write` and `all` stand for verbs. A label of such a role is `rbac.authorization.k8s.io/LABEL: "true"`.

use muster_tree::{Value, json};

use crate::model::{Fields as _, Object};

/// The group of all of them.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// An object that a cluster has from its start.
#[derive(Debug, PartialEq)]
pub struct First {
    /// The plural name of its kind, which is of the group `rbac.authorization.k8s.io`.
    pub plural: &'static str,
    /// The object.
    pub object: Object,
}

/// All of them, in the order in which they are created.
#[must_use]
pub fn objects() -> Vec<First> {
    let mut objects: Vec<First> = Vec::new();
    for line in include_str!("policy.txt").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (words.as_slice(), objects.last_mut()) {
            ([] | ["#", ..], _) => {}
            (words, Some(last)) if line.starts_with(' ') => last.add(words),
            (["role", name, labels @ ..], _) => objects.push(First::role(name, labels)),
            (["binding", name, role @ ..], _) => objects.push(First::binding(name, role.first().unwrap_or(name))),
            _ => {}
        }
    }
    objects
}

impl First {
    fn role(name: &str, labels: &[&str]) -> Self {
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        let (plural, kind) = if namespace.is_empty() { ("clusterroles", "ClusterRole") } else { ("roles", "Role") };
        let mut first = Self::new(plural, kind, namespace, name);
        // Those that gather have none, which is told.
        first.object.insert("rules", Value::Null);
        if let Some(own) = first.object.object_or_new("metadata").object_mut("labels") {
            own.extend(labels.iter().map(|label| (full_label(label.trim_start_matches('+')), json!("true"))));
        }
        first
    }

    fn binding(name: &str, role: &str) -> Self {
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        let (plural, kind, of) = if namespace.is_empty() {
            ("clusterrolebindings", "ClusterRoleBinding", "ClusterRole")
        } else {
            ("rolebindings", "RoleBinding", "Role")
        };
        let role = role.rsplit_once('/').map_or(role, |(_, role)| role);
        let mut first = Self::new(plural, kind, namespace, name);
        first.object.insert("roleRef", json!({"apiGroup": GROUP, "kind": of, "name": role}));
        first
    }

    fn new(plural: &'static str, kind: &str, namespace: &str, name: &str) -> Self {
        let mut object = Object::new();
        object.insert("apiVersion", json!(format!("{GROUP}/v1")));
        object.insert("kind", json!(kind));
        let about = json!({
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        });
        object.insert("metadata", about);
        if !namespace.is_empty() {
            object.object_or_new("metadata").insert("namespace", json!(namespace));
        }
        Self { plural, object }
    }

    /// Adds a rule, a subject, or what is gathered.
    fn add(&mut self, words: &[&str]) {
        let (list, item) = match words {
            ["collects", label] => {
                let selector = json!({"matchLabels": {full_label(label): "true"}});
                let rule = self.object.entry("aggregationRule").or_insert_with(|| json!({"clusterRoleSelectors": []}));
                push(rule.as_object_mut(), "clusterRoleSelectors", selector);
                return;
            }
            [kind @ ("Group" | "User"), name] => ("subjects", json!({"kind": kind, "apiGroup": GROUP, "name": name})),
            ["ServiceAccount", account] => {
                let (namespace, name) = account.split_once('/').unwrap_or_default();
                ("subjects", json!({"kind": "ServiceAccount", "name": name, "namespace": namespace}))
            }
            [verbs, paths @ ..] if paths.iter().all(|path| path.starts_with(['/', '*'])) && !paths.contains(&"*:") => {
                ("rules", json!({"verbs": full_verbs(verbs), "nonResourceURLs": paths}))
            }
            [verbs, groups, rest @ ..] => {
                let at = rest.iter().position(|word| word.starts_with('[')).unwrap_or(rest.len());
                let (resources, names) = rest.split_at(at);
                let groups: Vec<&str> = groups
                    .trim_end_matches(':')
                    .split(',')
                    .map(|group| if group == "core" { "" } else { group })
                    .collect();
                let mut rule = json!({"verbs": full_verbs(verbs), "apiGroups": groups, "resources": resources});
                if !names.is_empty() {
                    let names: Vec<&str> = names.iter().map(|name| name.trim_matches(['[', ']'])).collect();
                    rule["resourceNames"] = json!(names);
                }
                ("rules", rule)
            }
            _ => return,
        };
        push(Some(&mut self.object), list, item);
    }
}

fn push(object: Option<&mut Object>, list: &str, item: Value) {
    match object.map(|object| object.entry(list).or_insert(Value::Null)) {
        Some(Value::Array(list)) => list.push(item),
        Some(none) => *none = json!([item]),
        None => {}
    }
}

fn full_label(label: &str) -> String {
    format!("{GROUP}/{label}")
}

fn full_verbs(verbs: &str) -> Vec<&str> {
    match verbs {
        "read" => vec!["get", "list", "watch"],
        "write" => vec!["create", "delete", "deletecollection", "patch", "update"],
        "all" => vec!["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        verbs => verbs.split(',').collect(),
    }
}
