//! What stops an escalation of privileges: nobody grants more than they have (API-31).
//!
//! Whoever writes a role must have all that it allows, or the right to `escalate`; whoever writes a binding must have all
//! that its role allows, or the right to `bind` it.

use super::User;
use super::attributes::ResourceAttributes;
use super::authorizer::{Authorizer, Mode};
use super::rbac::{Binding, RoleRef, Rule, cover};
use crate::field::go_quote;
use crate::model::{Fields as _, Object, Resource};
use crate::status::{ApiError, GroupResource};

const GROUP: &str = "rbac.authorization.k8s.io";

/// A write of a role or a binding.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// Whose it is.
    pub user: &'a User,
    /// The kind that is written.
    pub resource: &'a Resource,
    /// The namespace; empty for a cluster's object.
    pub namespace: &'a str,
    /// The name in the path; empty for a creation.
    pub name: &'a str,
}

/// Refuses a write of a role or binding by somebody who has less than it grants. Other kinds pass. `old` is the object
/// that an update changes.
///
/// # Errors
/// 403; for a binding to a role that is not there 404, or 500 where it can be none.
pub fn check(authorizer: &Authorizer, write: Write<'_>, object: &Object, old: Option<&Object>) -> Result<(), ApiError> {
    if write.resource.group != GROUP || write.user.may_do_anything() || authorizer.mode() == Mode::AlwaysAllow {
        return Ok(());
    }
    let check = Check { authorizer, write };
    match &*write.resource.plural {
        "roles" | "clusterroles" => check.role(object, old),
        "rolebindings" | "clusterrolebindings" => check.binding(object, old),
        _ => Ok(()),
    }
}

struct Check<'a> {
    authorizer: &'a Authorizer,
    write: Write<'a>,
}

impl Check<'_> {
    fn role(&self, object: &Object, old: Option<&Object>) -> Result<(), ApiError> {
        let Write { user, resource, namespace, name } = self.write;
        let escalate = ResourceAttributes {
            verb: "escalate".into(),
            group: GROUP,
            resource: &resource.plural,
            namespace,
            name,
            ..Default::default()
        };
        if self.authorizer.allows(user, escalate) || old.is_some_and(|old| only_for_collection(object, old)) {
            return Ok(());
        }
        self.holds(object, &rules(object))?;
        let aggregates = |object: &Object| {
            object.object("aggregationRule").is_some_and(|rule| !rule.list("clusterRoleSelectors").is_empty())
        };
        if aggregates(object) || old.is_some_and(aggregates) {
            // What is gathered later can be anything.
            self.holds(object, &Rule::everything())
                .map_err(|_| self.forbidden(object, "must have cluster-admin privileges to use the aggregationRule"))?;
        }
        Ok(())
    }

    fn binding(&self, object: &Object, old: Option<&Object>) -> Result<(), ApiError> {
        let Write { user, resource, namespace, .. } = self.write;
        if old.is_some_and(|old| only_for_collection(object, old)) {
            return Ok(());
        }
        let binding: Binding = serde::Deserialize::deserialize(object).unwrap_or_default();
        let RoleRef { api_group, kind, name } = &binding.role_ref;
        let bound = match &**kind {
            "Role" => "roles",
            "ClusterRole" => "clusterroles",
            kind => {
                let message = format!("unsupported role reference kind: {}", go_quote(kind));
                return Err(ApiError::plain(message));
            }
        };
        let bind = ResourceAttributes {
            verb: "bind".into(),
            group: api_group,
            resource: bound,
            namespace,
            name,
            ..Default::default()
        };
        if self.authorizer.allows(user, bind) {
            return Ok(());
        }
        let rules = self.authorizer.rules_of(&binding.role_ref, namespace);
        // The reference names the kind that is written, not that which is missing.
        let missing = |_| ApiError::not_found(GroupResource { group: GROUP, resource: &resource.plural }, name);
        self.holds(object, &rules.map_err(missing)?)
    }

    /// Refuses what the user does not hold.
    fn holds(&self, object: &Object, wanted: &[Rule]) -> Result<(), ApiError> {
        let Write { user, resource, namespace, .. } = self.write;
        let owned = self.authorizer.rules_for(user, namespace, |missing| {
            format!("{}.{GROUP} {} not found", resource.plural, go_quote(missing.name))
        });
        let missing = cover::missing(&owned.rules, wanted);
        if missing.is_empty() {
            return Ok(());
        }
        Err(self.forbidden(object, &cover::complaint(user, &missing, &owned.errors)))
    }

    fn forbidden(&self, object: &Object, why: &str) -> ApiError {
        let resource = GroupResource { group: GROUP, resource: &self.write.resource.plural };
        ApiError::forbidden(resource, crate::model::metadata(object).text("name"), why)
    }
}

fn rules(object: &Object) -> Vec<Rule> {
    object.get("rules").and_then(|rules| muster_tree::from_value(rules).ok()).unwrap_or_default()
}

/// Whether nothing is changed but what the garbage collector needs to delete an object in the end.
fn only_for_collection(object: &Object, old: &Object) -> bool {
    let rest = |object: &Object| {
        let mut rest = object.clone();
        let metadata = rest.object_or_new("metadata");
        for field in ["ownerReferences", "finalizers", "selfLink", "managedFields"] {
            metadata.remove(field);
        }
        rest
    };
    rest(object) == rest(old)
}
