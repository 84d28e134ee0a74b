//! The roles and bindings of a cluster, in the order in which a decision needs them.
//!
//! ```text
//!   user, groups -> names of bindings, of the cluster and of the namespace -> roles -> rules
//! ```
//!
//! A ServiceAccount that a binding names is the user `system:serviceaccount:<namespace>:<name>`. Bindings are visited in
//! the order of their names, those of the cluster first.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde::Deserialize;

use super::rule::{Rule, list};
use crate::access::{SERVICE_ACCOUNT, User};
use crate::field::go_quote;

/// Things by their names.
type Named<T> = HashMap<Box<str>, T>;

/// The roles and bindings of a cluster. What belongs to the cluster has the namespace "".
#[derive(Debug, Default)]
pub struct Policy {
    roles: Named<Named<Arc<[Rule]>>>,
    bindings: Named<Bindings>,
}

/// The bindings of a namespace, or of the cluster.
#[derive(Debug, Default)]
struct Bindings {
    by_name: BTreeMap<Box<str>, Binding>,
    /// The names of the bindings that name a user.
    users: Named<BTreeSet<Box<str>>>,
    /// The names of the bindings that name a group.
    groups: Named<BTreeSet<Box<str>>>,
}

/// A RoleBinding or ClusterRoleBinding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Binding {
    /// The role that it grants.
    pub role_ref: RoleRef,
    /// To whom.
    #[serde(deserialize_with = "list")]
    pub subjects: Vec<Subject>,
}

/// The role that a binding grants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RoleRef {
    /// The API group.
    pub api_group: String,
    /// `Role` or `ClusterRole`.
    pub kind: String,
    /// The role's name.
    pub name: String,
}

/// Somebody to whom a binding grants a role.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Subject {
    /// `User`, `Group` or `ServiceAccount`.
    pub kind: String,
    /// The name.
    pub name: String,
    /// Of a ServiceAccount, the namespace; empty for that of the binding.
    pub namespace: String,
}

#[derive(Deserialize)]
struct Role {
    #[serde(default, deserialize_with = "list")]
    rules: Vec<Rule>,
}

/// A role that a binding grants, and that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingRole<'a> {
    /// `Role` or `ClusterRole`.
    pub kind: &'a str,
    /// The role's name.
    pub name: &'a str,
}

impl fmt::Display for MissingRole<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = (self.kind.to_ascii_lowercase(), go_quote(self.name));
        write!(f, "{kind}.rbac.authorization.k8s.io {name} not found")
    }
}

/// Why somebody has a rule.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    namespace: &'a str,
    name: &'a str,
    binding: &'a Binding,
    subject: &'a Subject,
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name, binding, subject } = self;
        let role = format!("{} {}", binding.role_ref.kind, go_quote(&binding.role_ref.name));
        if namespace.is_empty() {
            write!(f, "ClusterRoleBinding {} of {role} to ", go_quote(name))?;
        } else {
            write!(f, "RoleBinding {} of {role} to ", go_quote(&format!("{name}/{namespace}")))?;
        }
        if subject.kind == "ServiceAccount" {
            let of = if subject.namespace.is_empty() { namespace } else { &*subject.namespace };
            write!(f, "{} {}", subject.kind, go_quote(&format!("{}/{of}", subject.name)))
        } else {
            write!(f, "{} {}", subject.kind, go_quote(&subject.name))
        }
    }
}

impl Policy {
    /// Takes a role as it is stored; `None` when it is gone.
    pub fn set_role(&mut self, namespace: &str, name: &str, json: Option<&[u8]>) {
        let roles = self.roles.entry(namespace.into()).or_default();
        match json.and_then(|json| serde_json::from_slice::<Role>(json).ok()) {
            Some(role) => {
                roles.insert(name.into(), role.rules.into());
            }
            None => {
                roles.remove(name);
                if roles.is_empty() {
                    self.roles.remove(namespace);
                }
            }
        }
    }

    /// Takes a binding as it is stored; `None` when it is gone.
    pub fn set_binding(&mut self, namespace: &str, name: &str, json: Option<&[u8]>) {
        let bindings = self.bindings.entry(namespace.into()).or_default();
        bindings.remove(namespace, name);
        if let Some(binding) = json.and_then(|json| serde_json::from_slice(json).ok()) {
            bindings.insert(namespace, name, binding);
        }
        if bindings.by_name.is_empty() {
            self.bindings.remove(namespace);
        }
    }

    /// The rules of a role that a binding in a namespace names.
    ///
    /// # Errors
    /// [`MissingRole`].
    pub fn rules_of<'r>(&self, role: &'r RoleRef, namespace: &str) -> Result<&[Rule], MissingRole<'r>> {
        let namespace = if role.kind == "Role" { namespace } else { "" };
        let rules = self.roles.get(namespace).and_then(|roles| roles.get(&*role.name));
        rules.map(|rules| &**rules).ok_or(MissingRole { kind: &role.kind, name: &role.name })
    }

    /// Visits the rules that a user has in a namespace, and the roles of the user's bindings that are not there, until
    /// the visitor breaks.
    pub fn visit<'p>(
        &'p self,
        user: &User,
        namespace: &'p str,
        mut visitor: impl FnMut(Result<(Source<'p>, &'p Rule), MissingRole<'p>>) -> ControlFlow<()>,
    ) {
        let places = if namespace.is_empty() { &[""][..] } else { &["", namespace] };
        for place in places.iter().copied() {
            let Some(bindings) = self.bindings.get(place) else { continue };
            for name in bindings.names_for(user) {
                let Some(binding) = bindings.by_name.get(name) else { continue };
                let Some(subject) = binding.subjects.iter().find(|subject| subject.is(user, place)) else { continue };
                let flow = match self.rules_of(&binding.role_ref, place) {
                    Err(missing) => visitor(Err(missing)),
                    Ok(rules) => {
                        let source = Source { namespace: place, name, binding, subject };
                        rules.iter().try_for_each(|rule| visitor(Ok((source, rule))))
                    }
                };
                if flow.is_break() {
                    return;
                }
            }
        }
    }
}

impl Bindings {
    /// The names of the bindings that name the user or one of the groups, in order.
    fn names_for(&self, user: &User) -> BTreeSet<&str> {
        let of_groups = user.groups.iter().filter_map(|group| self.groups.get(&**group));
        self.users.get(&*user.name).into_iter().chain(of_groups).flatten().map(|name| &**name).collect()
    }

    fn insert(&mut self, namespace: &str, name: &str, binding: Binding) {
        for subject in &binding.subjects {
            if let Some((who, index)) = self.index_of(subject, namespace) {
                index.entry(who).or_default().insert(name.into());
            }
        }
        self.by_name.insert(name.into(), binding);
    }

    fn remove(&mut self, namespace: &str, name: &str) {
        let Some(binding) = self.by_name.remove(name) else { return };
        for subject in &binding.subjects {
            let Some((who, index)) = self.index_of(subject, namespace) else { continue };
            let Some(names) = index.get_mut(&who) else { continue };
            names.remove(name);
            if names.is_empty() {
                index.remove(&who);
            }
        }
    }

    /// Where a subject is looked up, and as whom.
    #[allow(clippy::type_complexity, reason = "a key and its map")]
    fn index_of(
        &mut self,
        subject: &Subject,
        namespace: &str,
    ) -> Option<(Box<str>, &mut HashMap<Box<str>, BTreeSet<Box<str>>>)> {
        match &*subject.kind {
            "User" => Some((subject.name.as_str().into(), &mut self.users)),
            "Group" => Some((subject.name.as_str().into(), &mut self.groups)),
            "ServiceAccount" => Some((subject.account(namespace)?.into(), &mut self.users)),
            _ => None,
        }
    }
}

impl Subject {
    /// The user that a ServiceAccount is; `None` where nothing says its namespace.
    fn account(&self, namespace: &str) -> Option<String> {
        let namespace = if self.namespace.is_empty() { namespace } else { &self.namespace };
        (!namespace.is_empty()).then(|| format!("{SERVICE_ACCOUNT}{namespace}:{}", self.name))
    }

    fn is(&self, user: &User, namespace: &str) -> bool {
        match &*self.kind {
            "User" => user.name == self.name,
            "Group" => user.is_in(&self.name),
            "ServiceAccount" => self.account(namespace).is_some_and(|account| account == user.name),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    fn user(name: &str, groups: &[&str]) -> User {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        User { name: name.to_owned(), groups, ..User::anonymous() }
    }

    fn sources(policy: &Policy, user: &User, namespace: &str) -> Vec<String> {
        let mut found = Vec::new();
        policy.visit(user, namespace, |visited| {
            found.push(match visited {
                Ok((source, rule)) => format!("{} by {source}", rule.verbs[0]),
                Err(missing) => missing.to_string(),
            });
            ControlFlow::Continue(())
        });
        found
    }

    fn role(verb: &str) -> Vec<u8> {
        json!({"rules": [{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]}).to_string().into_bytes()
    }

    fn binding(role: &str, subjects: &muster_tree::Value) -> Vec<u8> {
        let (kind, name) = role.split_once('/').expect("kind and name");
        json!({"roleRef": {"kind": kind, "name": name}, "subjects": subjects}).to_string().into_bytes()
    }

    /// Contract: API-31
    #[test]
    fn rules_are_found_by_user_group_and_service_account() {
        let mut policy = Policy::default();
        policy.set_role("", "reader", Some(&role("get")));
        policy.set_role("ns", "reader", Some(&role("list")));
        policy.set_binding("", "b", Some(&binding("ClusterRole/reader", &json!([{"kind": "Group", "name": "devs"}]))));
        policy.set_binding("", "a", Some(&binding("ClusterRole/gone", &json!([{"kind": "User", "name": "al"}]))));
        let robots = json!([
            {"kind": "ServiceAccount", "name": "robot"},
            {"kind": "ServiceAccount", "name": "robot", "namespace": "other"},
            {"kind": "User", "name": "al"},
        ]);
        policy.set_binding("ns", "r", Some(&binding("Role/reader", &robots)));
        policy.set_binding("ns", "c", Some(&binding("ClusterRole/reader", &json!([{"kind": "User", "name": "al"}]))));

        let of_devs = r#"get by ClusterRoleBinding "b" of ClusterRole "reader" to Group "devs""#;
        let missing = r#"clusterrole.rbac.authorization.k8s.io "gone" not found"#;
        assert_eq!(sources(&policy, &user("bob", &["devs", "x"]), "ns"), [of_devs]);
        assert_eq!(
            sources(&policy, &user("al", &["devs"]), "ns"),
            [
                missing,
                of_devs,
                r#"get by RoleBinding "c/ns" of ClusterRole "reader" to User "al""#,
                r#"list by RoleBinding "r/ns" of Role "reader" to User "al""#,
            ]
        );
        assert_eq!(sources(&policy, &user("al", &[]), ""), [missing]);
        assert_eq!(
            sources(&policy, &user("system:serviceaccount:ns:robot", &[]), "ns"),
            [r#"list by RoleBinding "r/ns" of Role "reader" to ServiceAccount "robot/ns""#]
        );
        assert_eq!(
            sources(&policy, &user("system:serviceaccount:other:robot", &[]), "ns"),
            [r#"list by RoleBinding "r/ns" of Role "reader" to ServiceAccount "robot/other""#]
        );
        assert!(sources(&policy, &user("system:serviceaccount:ns:robot", &[]), "other").is_empty());

        // Changed, and gone again.
        policy.set_binding("", "b", Some(&binding("ClusterRole/reader", &json!([{"kind": "Group", "name": "ops"}]))));
        assert!(sources(&policy, &user("bob", &["devs"]), "ns").is_empty());
        assert_eq!(sources(&policy, &user("bob", &["ops"]), "").len(), 1);
        policy.set_role("", "reader", None);
        assert_eq!(
            sources(&policy, &user("bob", &["ops"]), ""),
            [r#"clusterrole.rbac.authorization.k8s.io "reader" not found"#]
        );
        for (namespace, name) in [("", "a"), ("", "b"), ("ns", "c"), ("ns", "r")] {
            policy.set_binding(namespace, name, None);
        }
        policy.set_role("ns", "reader", None);
        assert!(policy.bindings.is_empty() && policy.roles.is_empty(), "{policy:?}");
    }
}
