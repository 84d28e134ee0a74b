//! Role, ClusterRole, RoleBinding, ClusterRoleBinding.

use super::Row;
use crate::model::column::CREATED_AT_COLUMN;
use crate::model::{AGE_COLUMN, Column, Fields as _, NAME_COLUMN, NameRule, Object, Resource, column};
use crate::validation::meta::Look;
use crate::validation::rbac::{has_wrong_values, validate_binding, validate_role};

const GROUP: &str = "rbac.authorization.k8s.io";
const VERSION: &str = "v1";

static ROLE_COLUMNS: [Column; 2] = [NAME_COLUMN, CREATED_AT_COLUMN];

static ROLE_BINDING_COLUMNS: [Column; 6] = [
    NAME_COLUMN,
    role_column(
        "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error.",
    ),
    AGE_COLUMN,
    Column::wide_text("Users", "Users in the roleBinding").by(|binding, _| subjects(binding, "User").into()),
    Column::wide_text("Groups", "Groups in the roleBinding").by(|binding, _| subjects(binding, "Group").into()),
    Column::wide_text("ServiceAccounts", "ServiceAccounts in the roleBinding")
        .by(|binding, _| subjects(binding, "ServiceAccount").into()),
];

static CLUSTER_ROLE_BINDING_COLUMNS: [Column; 6] = [
    NAME_COLUMN,
    role_column(
        "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error.",
    ),
    AGE_COLUMN,
    Column::wide_text("Users", "Users in the clusterRoleBinding").by(|binding, _| subjects(binding, "User").into()),
    Column::wide_text("Groups", "Groups in the clusterRoleBinding").by(|binding, _| subjects(binding, "Group").into()),
    Column::wide_text("ServiceAccounts", "ServiceAccounts in the clusterRoleBinding")
        .by(|binding, _| subjects(binding, "ServiceAccount").into()),
];

const fn role_column(description: &'static str) -> Column {
    Column::text("Role", description).by(|binding, _| {
        let part = |pointer| column::at(binding, pointer).and_then(|value| value.as_str()).unwrap_or_default();
        format!("{}/{}", part("/roleRef/kind"), part("/roleRef/name")).into()
    })
}

/// The names of a binding's subjects of one kind.
fn subjects(binding: &Object, kind: &str) -> String {
    let of_kind = binding.items("subjects").filter(|subject| subject.text("kind") == kind);
    let names = of_kind.map(|subject| match kind {
        "ServiceAccount" => format!("{}/{}", subject.text("namespace"), subject.text("name")),
        _ => subject.text("name").to_owned(),
    });
    names.collect::<Vec<_>>().join(", ")
}

/// All four, in the order of discovery.
pub(super) fn kinds() -> [Row; 4] {
    let base = |resource: Resource, columns| Row {
        name_rule: NameRule::PathSegment,
        metadata: Look::BOTH_CHANGE_LAST,
        columns,
        ..Row::new(resource.create_on_update())
    };
    let cluster = |kind, plural| Resource::cluster(GROUP, VERSION, kind, plural);
    let namespaced = |kind, plural| Resource::namespaced(GROUP, VERSION, kind, plural);
    [
        Row {
            default: default_binding,
            validate: |binding, old, errors| validate_binding(binding, old, true, errors),
            ..base(cluster("ClusterRoleBinding", "clusterrolebindings"), &CLUSTER_ROLE_BINDING_COLUMNS)
        },
        Row {
            validate: |role, old, errors| validate_role(role, true, old.is_some_and(has_wrong_values), errors),
            ..base(cluster("ClusterRole", "clusterroles"), &ROLE_COLUMNS)
        },
        Row {
            default: default_binding,
            validate: |binding, old, errors| validate_binding(binding, old, false, errors),
            ..base(namespaced("RoleBinding", "rolebindings"), &ROLE_BINDING_COLUMNS)
        },
        Row {
            validate: |role, _, errors| validate_role(role, false, false, errors),
            ..base(namespaced("Role", "roles"), &ROLE_COLUMNS)
        },
    ]
}

fn default_binding(binding: &mut Object) {
    binding.object_or_new("roleRef").set_if_empty("apiGroup", GROUP);
    for subject in binding.items_mut("subjects") {
        if matches!(subject.text("kind"), "User" | "Group") {
            subject.set_if_empty("apiGroup", GROUP);
        }
    }
}
