//! ClusterRoles that are put together of others: the union of the rules of those that their selectors match (API-31).
//!
//! It is the `clusterrole-aggregation-controller` of kube-controller-manager.

use futures::future::BoxFuture;
use muster_machinery::{Cache, Change};
use muster_objects::selector::LabelSelector;
use muster_objects::{ObjectKey, Selector};
use muster_runtime::client::Client;
use muster_runtime::informer::{Store, WatchedResource};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::control::{Again, Body, Control, Frame, Slim, Trouble, Writes};
use crate::json::{list, or_default};

/// How many roles are synced at once.
const WORKERS: usize = 5;
/// Whose the rules are.
const MANAGER: &str = "clusterrole-aggregation-controller";

fn roles() -> WatchedResource {
    WatchedResource::new("rbac.authorization.k8s.io", "v1", "clusterroles")
}

/// Sets up the `clusterrole-aggregation-controller`.
pub(crate) fn aggregate_roles(frame: &mut Frame<'_>) {
    if !frame.serves(&roles()) {
        return;
    }
    let client = frame.client.clone();
    let mut setup = frame.controller("ClusterRoleAggregator");
    let store = setup.read::<Slim<Role>>(&roles());
    let seen = store.clone();
    setup.watch::<Slim<Role>>(&roles(), move |_: &Change<Slim<Role>>, queue| {
        // Which are put together of which is not known, and they are few.
        let roles = seen.read();
        queue.add(roles.iter().filter(|role| role.body.selectors.is_some()).map(|role| role.meta.key()));
    });
    setup.run(WORKERS, RoleControl { client, roles: store });
}

/// A ClusterRole.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "Wire")]
struct Role {
    /// Which roles it is put together of; none where it has its own rules.
    selectors: Option<Vec<LabelSelector>>,
    rules: Vec<Rule>,
}

/// A rule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rule {
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    verbs: Vec<Box<str>>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    api_groups: Vec<Box<str>>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    resources: Vec<Box<str>>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    resource_names: Vec<Box<str>>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    non_resource_urls: Vec<Box<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    aggregation_rule: Option<WireAggregation>,
    #[serde(default, deserialize_with = "list")]
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireAggregation {
    #[serde(default, deserialize_with = "or_default")]
    cluster_role_selectors: Vec<LabelSelector>,
}

impl From<Wire> for Role {
    fn from(wire: Wire) -> Self {
        Self { selectors: wire.aggregation_rule.map(|rule| rule.cluster_role_selectors), rules: wire.rules }
    }
}

impl Body for Role {
    const API_VERSION: &'static str = "rbac.authorization.k8s.io/v1";
    const KIND: &'static str = "ClusterRole";
    type Indexes = ();
}

/// The rules that a role should have; none where it has them, or its own.
///
/// # Errors
/// Where a selector is none.
fn decide(role: &Slim<Role>, roles: &Cache<Slim<Role>>) -> Result<Option<Vec<Rule>>, String> {
    let Some(selectors) = &role.body.selectors else { return Ok(None) };
    let mut rules: Vec<Rule> = Vec::new();
    for selector in selectors {
        let selector = Selector::try_from(selector).map_err(|error| error.to_string())?;
        let mut matching: Vec<&Slim<Role>> = roles
            .iter()
            .map(AsRef::as_ref)
            .filter(|other| other.meta.name != role.meta.name && selector.matches(&other.meta.labels))
            .collect();
        matching.sort_unstable_by(|a, b| a.meta.name.cmp(&b.meta.name));
        for rule in matching.into_iter().flat_map(|other| &other.body.rules) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    Ok((rules != role.body.rules).then_some(rules))
}

struct RoleControl {
    client: Client,
    roles: Store<Slim<Role>>,
}

impl Control for RoleControl {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Again, Trouble>> {
        Box::pin(async move {
            let rules = {
                let roles = self.roles.read();
                let Some(role) = roles.get(key) else { return Ok(Again::Never) };
                decide(role, &roles).map_err(Trouble::Objects)?
            };
            if let Some(rules) = rules {
                let metadata = json!({"name": key.name});
                let mut role: Value =
                    json!({"apiVersion": Role::API_VERSION, "kind": Role::KIND, "metadata": metadata});
                if !rules.is_empty() {
                    role["rules"] = json!(rules);
                }
                let path = roles().object(None, &key.name);
                Writes { client: &self.client, store: &self.roles }.apply(&path, MANAGER, &role).await?;
            }
            Ok(Again::Never)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::slim;

    fn role(name: &str, labels: &Value, body: Value) -> Slim<Role> {
        let mut role = body;
        role["metadata"] = json!({"name": name, "uid": name, "resourceVersion": "1", "labels": labels});
        slim(&role)
    }

    /// Contract: API-31
    #[test]
    fn a_role_has_the_rules_of_those_that_it_selects_each_once() {
        let pods = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        let urls = json!({"verbs": ["get"], "nonResourceURLs": ["/metrics"]});
        let one = json!({"rules": [pods, urls]});
        let two = json!({"rules": [pods, {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]});
        let aggregation = json!({"clusterRoleSelectors": [
            {"matchLabels": {"to-view": "true"}}, {"matchLabels": {"to-edit": "true"}},
        ]});
        let view = |rules: Value| {
            role("view", &json!({"to-view": "true"}), json!({"aggregationRule": aggregation, "rules": rules}))
        };
        let mut roles: Cache<Slim<Role>> = Cache::new();
        roles.apply(role("b", &json!({"to-view": "true"}), one.clone()));
        roles.apply(role("a", &json!({"to-edit": "true"}), two));
        roles.apply(role("other", &json!({"to-view": "false"}), one));
        let itself = view(json!([{"verbs": ["*"], "apiGroups": ["x"], "resources": ["x"]}]));
        roles.apply(itself.clone());
        let rules = decide(&itself, &roles).expect("it can be told").expect("they differ");
        let rules = serde_json::to_value(&rules).expect("JSON");
        assert_eq!(
            rules,
            json!([pods, urls, {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]),
            "in the order of the selectors, then of the names; not its own"
        );
        assert_eq!(decide(&view(rules), &roles), Ok(None));
        assert_eq!(decide(&role("b", &json!({}), json!({"rules": null})), &roles), Ok(None), "it has its own");
        let wrong = json!({"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Bogus"}]}]});
        assert!(decide(&role("c", &json!({}), json!({"aggregationRule": wrong})), &roles).is_err());
        let nothing = view(json!(null));
        roles.delete_key(&ObjectKey::new("", "a"));
        roles.delete_key(&ObjectKey::new("", "b"));
        assert_eq!(decide(&nothing, &roles), Ok(None), "of nothing there is nothing");
    }
}
