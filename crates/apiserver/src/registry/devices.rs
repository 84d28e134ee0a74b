//! Who may have devices that others have too, give devices to claims, and tell of them (API-43).

use std::collections::{BTreeMap, BTreeSet};

use super::options::WriteOptions;
use super::{Registry, Served};
use crate::access::attributes::{Attributes, ResourceAttributes, forbidden};
use crate::access::tokens::Objects;
use crate::access::{NODE_NAME, User, service_account};
use crate::field::{FieldError, go_quote};
use crate::kinds::devices::GROUP;
use crate::model::{Fields as _, Object, Part, metadata};
use crate::validation::devices::DeviceId;
use crate::validation::name::is_dns1123_subdomain;

/// The label of the namespaces in which devices may be had that others have too, to look after them.
const ADMIN_LABEL: &str = "resource.kubernetes.io/admin-access";

impl Registry {
    /// What is wrong with a write about devices because of who writes it, and where. Other kinds pass. `old` is what an
    /// update changes.
    pub(super) fn check_devices(
        &self,
        served: &Served,
        part: Part,
        object: &Object,
        old: Option<&Object>,
        options: &WriteOptions,
    ) -> Vec<FieldError> {
        if served.resource().group != GROUP {
            return Vec::new();
        }
        let spec = object.part("spec");
        match (&*served.resource().plural, part, old) {
            ("resourceclaims", Part::Main, None) => self.refuse_admin(object, spec).into_iter().collect(),
            ("resourceclaimtemplates", Part::Main, None) => {
                self.refuse_admin(object, spec.part("spec")).into_iter().collect()
            }
            ("resourceclaims", Part::Status, Some(old)) => self.check_status_of_claim(object, old, options),
            _ => Vec::new(),
        }
    }

    /// Devices that others have may be asked for in some namespaces only.
    fn refuse_admin(&self, object: &Object, spec: &Object) -> Option<FieldError> {
        let is_admin = |request: &Object| request.object("exactly").is_some_and(|exactly| exactly.flag("adminAccess"));
        let at = spec.part("devices").items("requests").position(is_admin)?;
        self.refuse_namespace(object, format!("spec.devices.requests[{at}].adminAccess"))
    }

    fn refuse_namespace(&self, object: &Object, field: String) -> Option<FieldError> {
        let name = metadata(object).text("namespace");
        let Some(namespace) = Objects::find(self, "namespaces", "", name) else {
            let missing = format!("namespaces {} not found", go_quote(name));
            let detail = format!("could not retrieve namespace to verify admin access: {missing}");
            return Some(FieldError::internal(field, detail));
        };
        (metadata(&namespace).part("labels").text(ADMIN_LABEL) != "true").then(|| {
            let why =
                format!("admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace");
            FieldError::forbidden(field, why)
        })
    }

    fn check_status_of_claim(&self, claim: &Object, old: &Object, options: &WriteOptions) -> Vec<FieldError> {
        let (status, was) = (claim.part("status"), old.part("status"));
        let mut errors: Vec<FieldError> = Vec::new();
        let admin = |status: &Object| {
            let results = status.part("allocation").part("devices");
            results.items("results").position(|result| result.flag("adminAccess"))
        };
        if let (None, Some(at)) = (admin(was), admin(status)) {
            let field = format!("status.allocation.devices.results[{at}].adminAccess");
            errors.extend(self.refuse_namespace(claim, field));
        }
        let verb = options.verb;
        if ["allocation", "reservedFor"].iter().any(|field| status.get(field) != was.get(field)) {
            let binding = ResourceAttributes { verb: verb.into(), subresource: "binding", ..of_claims() };
            if let Some(why) = self.refusal(&options.user, binding) {
                let what = format!("resource=\"resourceclaims/binding\", verb=\"{verb}\"");
                let why = format!("changing status.allocation or status.reservedFor requires {what} permission: {why}");
                errors.push(FieldError::forbidden("status.allocation", why));
            }
        }
        if status.contains_key("allocation") {
            errors.extend(self.refuse_drivers(claim, old, options));
        }
        errors
    }

    /// What is told of a driver's devices is told by who may speak for the driver: on the node of the claim, or on any.
    fn refuse_drivers(&self, claim: &Object, old: &Object, options: &WriteOptions) -> Vec<FieldError> {
        let (status, was) = (claim.part("status"), old.part("status"));
        let is_near = node_of(status).is_some_and(|node| is_on(&options.user, node));
        let places = ["associated-node", "arbitrary-node"].into_iter().skip(usize::from(!is_near));
        let verbs: Vec<String> = places.map(|place| format!("{place}:{}", options.verb)).collect();
        let namespace = metadata(claim).text("namespace");
        let mut errors = Vec::new();
        for driver in changed_drivers(status, was) {
            let speaking = |verb: &String| ResourceAttributes {
                verb: verb.clone().into(),
                subresource: "driver",
                namespace,
                name: driver,
                ..of_claims()
            };
            let refused: Option<Vec<String>> =
                verbs.iter().map(|verb| self.refusal(&options.user, speaking(verb))).collect();
            if let Some(why) = refused.as_ref().and_then(|refused| refused.first()) {
                let what = format!("resource=\"resourceclaims/driver\", verb=\"[{}]\"", verbs.join(" "));
                let why = format!("changing status.devices requires {what} permission: {why}");
                errors.push(FieldError::forbidden("status.devices", why));
            }
        }
        errors
    }

    /// Why somebody may not do something; `None` where they may.
    fn refusal(&self, user: &User, asked: ResourceAttributes<'_>) -> Option<String> {
        let asked = Attributes::Resource(asked);
        let decision = self.authorizer.decide(user, &asked);
        (!decision.allowed).then(|| forbidden(user, &asked, &decision.reason).message)
    }
}

fn of_claims() -> ResourceAttributes<'static> {
    ResourceAttributes { group: GROUP, resource: "resourceclaims", ..ResourceAttributes::default() }
}

/// The drivers of whose devices something else is told than before.
fn changed_drivers<'o>(status: &'o Object, was: &'o Object) -> BTreeSet<&'o str> {
    let told = |status: &'o Object| -> BTreeMap<DeviceId<'o>, &'o Object> {
        status.items("devices").map(|device| (DeviceId::of(device), device)).collect()
    };
    let (now, before) = (told(status), told(was));
    let is_other = |id: &DeviceId<'o>| now.get(id) != before.get(id);
    now.keys().chain(before.keys()).filter(|id| is_other(id)).map(DeviceId::driver).collect()
}

/// The one node from which a claim's devices are reached.
fn node_of(status: &Object) -> Option<&str> {
    let terms = status.part("allocation").part("nodeSelector").list("nodeSelectorTerms");
    let [term] = terms else { return None };
    let term = term.as_object()?;
    let mut fields = term.items("matchFields");
    let (field, None) = (fields.next()?, fields.next()) else { return None };
    let is_name = field.text("key") == "metadata.name" && field.text("operator") == "In";
    let mut values = field.strings("values");
    let (node, None) = (values.next()?, values.next()) else { return None };
    (is_name && term.list("matchExpressions").is_empty() && !node.is_empty()).then_some(node)
}

/// Whether a user is a service account whose pod runs on a node.
fn is_on(user: &User, node: &str) -> bool {
    let own = user.extra.get(NODE_NAME).map(Vec::as_slice);
    service_account(&user.name).is_some()
        && matches!(own, Some([own]) if own == node && is_dns1123_subdomain(own).is_empty())
}

#[cfg(test)]
mod tests {
    use muster_tree::{Value, json};

    use super::*;

    /// Contract: API-43
    #[test]
    fn a_claim_is_of_the_node_that_is_named_alone() {
        let of =
            |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        let name = of("metadata.name", "In", &["n"]);
        let expression = json!({"key": "a", "operator": "Exists"});
        let fields = |fields: Value| json!([{"matchFields": fields}]);
        for (terms, expected) in [
            (fields(json!([name])), Some("n")),
            (json!([{"matchFields": [name], "matchExpressions": []}]), Some("n")),
            (fields(json!([of("metadata.name", "In", &["A b"])])), Some("A b")),
            (Value::Null, None),
            (json!([]), None),
            (json!([{}]), None),
            (fields(json!([])), None),
            (json!([{"matchFields": [name]}, {"matchFields": [name]}]), None),
            (json!([{"matchFields": [name]}, {}]), None),
            (fields(json!([name, name])), None),
            (fields(json!([of("metadata.name", "NotIn", &["n"])])), None),
            (fields(json!([of("metadata.name", "in", &["n"])])), None),
            (fields(json!([of("metadata.namespace", "In", &["n"])])), None),
            (fields(json!([of("metadata.name", "In", &["n", "m"])])), None),
            (fields(json!([of("metadata.name", "In", &["n", "n"])])), None),
            (fields(json!([of("metadata.name", "In", &[])])), None),
            (fields(json!([of("metadata.name", "In", &[""])])), None),
            (json!([{"matchFields": [name], "matchExpressions": [expression]}]), None),
            (json!([{"matchExpressions": [of("metadata.name", "In", &["n"])]}]), None),
        ] {
            let status = json!({"allocation": {"nodeSelector": {"nodeSelectorTerms": terms}}});
            assert_eq!(node_of(status.as_object().expect("a status")), expected, "{terms}");
        }
        for status in [json!({}), json!({"allocation": null}), json!({"allocation": {"devices": {}}})] {
            assert_eq!(node_of(status.as_object().expect("a status")), None, "{status}");
        }
    }

    /// Contract: API-43
    #[test]
    fn a_service_account_is_on_the_node_of_its_pod() {
        let account = |nodes: &[&str]| {
            let mut user = User::service_account("default", "driver");
            user.extra.insert(NODE_NAME.to_owned(), nodes.iter().map(|node| (*node).to_owned()).collect());
            user
        };
        let named = |name: &str| User { name: name.to_owned(), ..account(&["n"]) };
        assert!(is_on(&account(&["n"]), "n"));
        assert!(is_on(&account(&["n.example.com"]), "n.example.com"));
        assert!(is_on(&named("system:serviceaccount:a:b.c"), "n"));
        let elsewhere = {
            let mut user = User::service_account("default", "driver");
            user.extra.insert("authentication.kubernetes.io/pod-name".to_owned(), vec!["n".to_owned()]);
            user
        };
        for (user, node) in [
            (account(&["m"]), "n"),
            (account(&["N"]), "n"),
            (account(&[]), "n"),
            (account(&["n", "n"]), "n"),
            (account(&["n", "m"]), "n"),
            (account(&["A b"]), "A b"),
            (account(&[""]), ""),
            (User::service_account("default", "driver"), "n"),
            (elsewhere, "n"),
            (named("driver"), "n"),
            (named("system:node:n"), "n"),
            (named("system:serviceaccount:default"), "n"),
            (named("system:serviceaccount:default:"), "n"),
            (named("system:serviceaccount::driver"), "n"),
            (named("system:serviceaccount:a.b:driver"), "n"),
            (named("system:serviceaccount:default:a:b"), "n"),
            (named("system:serviceaccount:default:A"), "n"),
        ] {
            assert!(!is_on(&user, node), "{} {:?} {node}", user.name, user.extra);
        }
    }
}
