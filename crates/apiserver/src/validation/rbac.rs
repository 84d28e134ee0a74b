//! Roles and bindings.

use muster_tree::json;

use super::{Errors, Path, complain, name};
use crate::field::{FieldError, Shown};
use crate::model::{Fields as _, Object};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Checks a Role, or with `cluster` a ClusterRole.
pub fn validate_role(role: &Object, cluster: bool, lenient: bool, errors: &mut Errors) {
    let rules = Path::new("rules");
    for (index, rule) in role.items("rules").enumerate() {
        validate_rule(rule, cluster, &rules.index(index), errors);
    }
    let Some(rule) = role.object("aggregationRule").filter(|_| cluster) else { return };
    let (path, list) = (Path::new("aggregationRule"), "clusterRoleSelectors");
    let path = path.child(list);
    if rule.list(list).is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(path, why));
    }
    for (index, selector) in rule.items(list).enumerate() {
        let path = path.index(index);
        super::selector::validate(selector, lenient, &path, errors);
        if super::selector::parse(Some(selector)).is_err() {
            // What the reference could not make it into is shown, which is nothing.
            errors.push(FieldError::invalid(path, Shown::Bare("null".to_owned()), "invalid label selector."));
        }
    }
}

/// Whether a ClusterRole that is stored selects by label values that are none.
#[must_use]
pub fn has_wrong_values(role: &Object) -> bool {
    let mut errors = Errors::new();
    for selector in role.object("aggregationRule").into_iter().flat_map(|rule| rule.items("clusterRoleSelectors")) {
        super::selector::validate(selector, false, &Path::new("selector"), &mut errors);
    }
    !errors.is_empty()
}

fn validate_rule(rule: &Object, cluster: bool, path: &Path<'_>, errors: &mut Errors) {
    if rule.list("verbs").is_empty() {
        errors.push(FieldError::required(path.child("verbs"), "verbs must contain at least one value"));
    }
    let (groups, resources) = (rule.list("apiGroups"), rule.list("resources"));
    let urls = rule.list("nonResourceURLs");
    if !urls.is_empty() {
        let mut wrong = |why: &str| {
            let shown = Shown::Json(json!(urls));
            errors.push(FieldError::invalid(path.child("nonResourceURLs"), shown, why));
        };
        if !cluster {
            wrong("namespaced rules cannot apply to non-resource URLs");
        }
        if !groups.is_empty() || !resources.is_empty() || !rule.list("resourceNames").is_empty() {
            wrong("rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if groups.is_empty() {
        let why = "resource rules must supply at least one api group";
        errors.push(FieldError::required(path.child("apiGroups"), why));
    }
    if resources.is_empty() {
        let why = "resource rules must supply at least one resource";
        errors.push(FieldError::required(path.child("resources"), why));
    }
}

/// Checks a RoleBinding, or with `cluster` a ClusterRoleBinding.
pub fn validate_binding(binding: &Object, old: Option<&Object>, cluster: bool, errors: &mut Errors) {
    let (path, none) = (Path::new("roleRef"), Object::new());
    let role = binding.object("roleRef").unwrap_or(&none);
    let (group, kind, role_name) = (role.text("apiGroup"), role.text("kind"), role.text("name"));
    if group != GROUP {
        errors.push(FieldError::not_supported(path.child("apiGroup"), group, &[GROUP]));
    }
    let kinds: &[&str] = if cluster { &["ClusterRole"] } else { &["Role", "ClusterRole"] };
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported(path.child("kind"), kind, kinds));
    }
    if role_name.is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    } else {
        complain(role_name, name::is_path_segment(role_name, false), &path.child("name"), errors);
    }
    let subjects = Path::new("subjects");
    for (index, subject) in binding.items("subjects").enumerate() {
        validate_subject(subject, cluster, &subjects.index(index), errors);
    }
    if old.is_some_and(|old| old.object("roleRef").unwrap_or(&none) != role) {
        let shown = Shown::Json(json!({"APIGroup": group, "Kind": kind, "Name": role_name}));
        errors.push(FieldError::invalid(path, shown, "cannot change roleRef"));
    }
}

fn validate_subject(subject: &Object, cluster: bool, path: &Path<'_>, errors: &mut Errors) {
    let (kind, own_name, group) = (subject.text("kind"), subject.text("name"), subject.text("apiGroup"));
    if own_name.is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    }
    match kind {
        "ServiceAccount" => {
            if !own_name.is_empty() {
                complain(own_name, name::is_dns1123_subdomain(own_name), &path.child("name"), errors);
            }
            if !group.is_empty() {
                errors.push(FieldError::not_supported(path.child("apiGroup"), group, &[""]));
            }
            if cluster && subject.text("namespace").is_empty() {
                errors.push(FieldError::required(path.child("namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.push(FieldError::not_supported(path.child("apiGroup"), group, &[GROUP]));
            }
        }
        _ => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(path.child("kind"), kind, &kinds));
        }
    }
}
