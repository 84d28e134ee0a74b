//! Who may have policies read parameters: only who may read those (API-30, API-31). A policy shows to everybody what it
//! reads, by its messages and by what it changes.

use super::{Registry, Served};
use crate::access::User;
use crate::access::attributes::ResourceAttributes;
use crate::field::FieldError;
use crate::kinds::admissionregistration::GROUP;
use crate::model::{Fields as _, Object};

/// What the kind of a policy's parameters is taken for, as far as it is known.
struct Parameters {
    group: String,
    resource: String,
    /// Why it is not known.
    unknown: Option<String>,
}

impl Registry {
    /// What is wrong with a policy or a binding that has parameters which its writer may not read. Other kinds pass. `old`
    /// is what an update changes.
    pub(super) fn check_parameters(
        &self,
        served: &Served,
        object: &Object,
        old: Option<&Object>,
        user: &User,
    ) -> Option<FieldError> {
        let resource = served.resource();
        if resource.group != GROUP || user.may_do_anything() {
            return None;
        }
        let (field, why) = match &*resource.plural {
            "validatingadmissionpolicies" | "mutatingadmissionpolicies" => {
                ("spec.paramKind", self.refuse_kind(object, old, user)?)
            }
            "validatingadmissionpolicybindings" => {
                ("spec.paramRef", self.refuse_reference(served, "validatingadmissionpolicies", object, old, user)?)
            }
            "mutatingadmissionpolicybindings" => {
                ("spec.paramRef", self.refuse_reference(served, "mutatingadmissionpolicies", object, old, user)?)
            }
            _ => return None,
        };
        Some(FieldError::forbidden(field, why))
    }

    fn refuse_kind(&self, object: &Object, old: Option<&Object>, user: &User) -> Option<String> {
        let kind = object.part("spec").object("paramKind")?;
        if old.and_then(|old| old.part("spec").object("paramKind")) == Some(kind) {
            return None;
        }
        let Parameters { group, resource, .. } = self.parameters(kind);
        let all = ResourceAttributes {
            verb: "get".into(),
            group: &group,
            resource: &resource,
            namespace: "*",
            name: "*",
            ..ResourceAttributes::default()
        };
        let (kind, version, user_shown) = (kind.text("kind"), kind.text("apiVersion"), shown(user));
        (!self.authorizer.allows(user, all)).then(|| {
            format!(
                "user {user_shown} must have \"get\" permission on all objects of the referenced paramKind (kind={kind}, apiVersion={version})"
            )
        })
    }

    fn refuse_reference(
        &self,
        served: &Served,
        policies: &str,
        object: &Object,
        old: Option<&Object>,
        user: &User,
    ) -> Option<String> {
        let spec = object.part("spec");
        let reference = spec.object("paramRef")?;
        let same = |old: &Object| {
            let old = old.part("spec");
            old.object("paramRef") == Some(reference) && old.text("policyName") == spec.text("policyName")
        };
        if old.is_some_and(same) {
            return None;
        }
        let policy = spec.text("policyName");
        let kind = self
            .find(GROUP, &served.resource().version, policies)
            .and_then(|policies| self.storage.get(policies.id, "", policy))
            .map(|policy| policy.object().part("spec").object("paramKind").cloned());
        let all = || ("*".to_owned(), "*".to_owned());
        let (group, resource, unknown) = match kind {
            None => (all().0, all().1, Some(format!("unable to get policy {policy}"))),
            Some(None) => (all().0, all().1, None),
            Some(Some(kind)) => {
                let Parameters { group, resource, unknown } = self.parameters(&kind);
                (group, resource, unknown)
            }
        };
        let verb = if reference.text("name").is_empty() { "list" } else { "get" };
        let one = ResourceAttributes {
            verb: verb.into(),
            group: &group,
            resource: &resource,
            namespace: reference.text("namespace"),
            name: reference.text("name"),
            ..ResourceAttributes::default()
        };
        if self.authorizer.allows(user, one) {
            return None;
        }
        let user = shown(user);
        Some(match unknown {
            Some(unknown) => format!(
                "{unknown} to determine minimum required permissions and user {user} does not have \"{verb}\" permission for all groups, versions and resources"
            ),
            // As the reference has it.
            None if policies.starts_with("mutating") => {
                format!("user {verb} does not have \"{user}\" permission on the object referenced by paramRef")
            }
            None => format!("user {user} does not have \"{verb}\" permission on the object referenced by paramRef"),
        })
    }

    /// What has to be allowed to read parameters of a `paramKind`.
    fn parameters(&self, kind: &Object) -> Parameters {
        let (group, version) = kind.text("apiVersion").split_once('/').unwrap_or(("", kind.text("apiVersion")));
        let known =
            self.catalogue().of_kind(group, version, kind.text("kind")).map(|kind| kind.resource().plural.to_string());
        let unknown = known
            .is_none()
            .then(|| format!("unable to resolve paramKind &{{{} {}}}", kind.text("apiVersion"), kind.text("kind")));
        Parameters { group: group.to_owned(), resource: known.unwrap_or_else(|| "*".to_owned()), unknown }
    }
}

/// A user as Go prints one with `%v`.
fn shown(user: &User) -> String {
    let extra: Vec<String> = user.extra.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" "))).collect();
    format!("&{{{} {} [{}] map[{}]}}", user.name, user.uid, user.groups.join(" "), extra.join(" "))
}
