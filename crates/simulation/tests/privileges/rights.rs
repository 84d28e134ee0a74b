//! RBAC as a real server evaluates it: what a role grants, what a request needs, and which grants were ever used.

use std::collections::BTreeSet;
use std::fmt;

use http::{Method, Request};
use muster_apiserver::schema::yaml_to_json;
use muster_tree::Value;

/// One permission: the smallest piece of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    /// Empty for the core group.
    pub(crate) group: String,
    /// With its subresource: `replicasets/status`.
    pub(crate) resource: String,
    pub(crate) verb: String,
    /// The namespace that a Role is bound to; any where there is none.
    pub(crate) namespace: Option<String>,
    /// The only object that is meant; any where there is none.
    pub(crate) name: Option<String>,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, resource, verb, namespace, name } = self;
        let (namespace, name) = (namespace.as_deref().unwrap_or("*"), name.as_deref().unwrap_or("*"));
        write!(f, "{verb} {resource} of {group:?}, {namespace}/{name}")
    }
}

impl Right {
    /// Whether this right permits `wanted`.
    fn covers(&self, wanted: &Self) -> bool {
        let within = |mine: &Option<String>, asked: &Option<String>| mine.is_none() || mine == asked;
        self.group == wanted.group
            && self.resource == wanted.resource
            && self.verb == wanted.verb
            && within(&self.namespace, &wanted.namespace)
            && within(&self.name, &wanted.name)
    }
}

/// What is granted, which of it was used, and what was requested beyond it.
#[derive(Debug, Default)]
pub(crate) struct Rights {
    granted: BTreeSet<Right>,
    used: BTreeSet<Right>,
    refused: BTreeSet<Right>,
}

impl Rights {
    /// Everything that the ClusterRoles and Roles of a file grant to their subjects.
    pub(crate) fn granted_by(yaml: &str) -> Self {
        let objects = documents(yaml);
        let of = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
        let mut granted = BTreeSet::new();
        for (role, binding) in [("ClusterRole", "ClusterRoleBinding"), ("Role", "RoleBinding")] {
            for role in of(role) {
                let refers = |object: &&Value| {
                    object["roleRef"]["name"] == role["metadata"]["name"]
                        && object["roleRef"]["kind"] == role["kind"]
                        && object["metadata"]["namespace"] == role["metadata"]["namespace"]
                };
                assert!(of(binding).any(|object| refers(&object)), "no subject is bound to {}", role["metadata"]);
                let namespace = role["metadata"]["namespace"].as_str();
                for rule in role["rules"].as_array().expect("a role has rules") {
                    granted.extend(pieces(rule, namespace));
                }
            }
        }
        Self { granted, ..Self::default() }
    }

    /// Whether this may be done; remembered either way.
    pub(crate) fn may(&mut self, wanted: Right) -> bool {
        let covering: Vec<&Right> = self.granted.iter().filter(|right| right.covers(&wanted)).collect();
        let granted = !covering.is_empty();
        self.used.extend(covering.into_iter().cloned());
        if !granted {
            self.refused.insert(wanted);
        }
        granted
    }

    /// Everything that is granted.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Right> {
        self.granted.iter()
    }

    /// What is granted and was never used.
    pub(crate) fn unused(&self) -> Vec<String> {
        self.granted.difference(&self.used).map(ToString::to_string).collect()
    }

    /// What was requested and is not granted.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.refused.iter().map(ToString::to_string).collect()
    }
}

/// What a request asks for, as a server reads it off the method and the path; none for a path of no resource.
pub(crate) fn wanted<B>(request: &Request<B>) -> Option<Right> {
    let uri = request.uri();
    let parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
        rest => (None, rest),
    };
    let (resource, name, subresource) = match rest {
        [resource] => (*resource, None, None),
        [resource, name] => (*resource, Some((*name).to_owned()), None),
        [resource, name, subresource] => (*resource, Some((*name).to_owned()), Some(*subresource)),
        _ => return None,
    };
    let watch = uri.query().is_some_and(|query| query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1")));
    let verb = match (request.method(), &name) {
        (&Method::GET, None) if watch => "watch",
        (&Method::GET, None) => "list",
        (&Method::GET, Some(_)) => "get",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, Some(_)) => "delete",
        (&Method::DELETE, None) => "deletecollection",
        _ => return None,
    };
    let resource = subresource.map_or_else(|| resource.to_owned(), |sub| format!("{resource}/{sub}"));
    Some(Right { group: group.to_owned(), resource, verb: verb.to_owned(), namespace, name })
}

/// What the admission plugin OwnerReferencesPermissionEnforcement asks for besides, where a write sets owner
/// references: that the owner could be finalized, where they block its deletion; and that the dependent could be
/// deleted, where it was there before.
pub(crate) fn wanted_for_owners(request: &Right, body: &[u8]) -> Vec<Right> {
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return Vec::new() };
    let mut owners = Vec::new();
    let changes = owner_references(&body, &mut owners);
    let mut wanted = Vec::new();
    if changes && request.verb != "create" {
        wanted.push(Right { verb: "delete".to_owned(), ..request.clone() });
    }
    for owner in owners.into_iter().filter(|owner| owner["blockOwnerDeletion"] == true) {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
        wanted.push(Right {
            group: group.to_owned(),
            resource: format!("{}s/finalizers", text("kind").to_lowercase()),
            verb: "update".to_owned(),
            namespace: request.namespace.clone(),
            name: Some(text("name").to_owned()),
        });
    }
    wanted
}

/// Collects the owner references anywhere in an object or a patch; true where there is such a field at all.
fn owner_references<'a>(value: &'a Value, found: &mut Vec<&'a Value>) -> bool {
    match value {
        Value::Object(fields) => fields.iter().fold(false, |any, (name, value)| {
            if name == "ownerReferences" {
                found.extend(value.as_array().into_iter().flatten());
                return true;
            }
            owner_references(value, found) || any
        }),
        Value::Array(items) => items.iter().filter(|item| owner_references(item, found)).count() > 0,
        _ => false,
    }
}

/// A rule as its smallest pieces.
fn pieces(rule: &Value, namespace: Option<&str>) -> Vec<Right> {
    let list = |field: &str| -> Vec<String> {
        let items = rule[field].as_array().into_iter().flatten();
        items.map(|item| item.as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(rule.get("nonResourceURLs"), None, "{rule}");
    let names: Vec<Option<String>> = match list("resourceNames") {
        names if names.is_empty() => vec![None],
        names => names.into_iter().map(Some).collect(),
    };
    let mut pieces = Vec::new();
    for group in list("apiGroups") {
        for resource in list("resources") {
            for verb in list("verbs") {
                for name in &names {
                    let (group, resource) = (group.clone(), resource.clone());
                    let (verb, name, namespace) = (verb.clone(), name.clone(), namespace.map(ToOwned::to_owned));
                    pieces.push(Right { group, resource, verb, namespace, name });
                }
            }
        }
    }
    pieces
}

fn documents(yaml: &str) -> Vec<Value> {
    let parse = |text: &str| serde_json::from_slice(&yaml_to_json(text.as_bytes()).unwrap()).unwrap();
    yaml.split("\n---\n").map(parse).collect()
}
