//! ResourceQuota.

use muster_schema::quantity::Quantity;

use muster_tree::Text;

use super::{AGE_COLUMN, Column, NAME_COLUMN, Object, Resource, Row, Subresource, defaults};
use crate::model::Fields as _;
use crate::validation::{Errors, quota};

/// How much a namespace may use.
pub(super) fn kind() -> Row {
    Row {
        default,
        validate,
        validate_part: |_, object, _, errors| quota::validate_status(object, errors),
        warnings,
        columns: &COLUMNS,
        ..Row::new(
            Resource::namespaced("", "v1", "ResourceQuota", "resourcequotas")
                .short(&["quota"])
                .parts(&[Subresource::Status])
                .returns_deleted(),
        )
    }
}

static COLUMNS: [Column; 4] = [
    NAME_COLUMN,
    Column::text("Request", "Request represents a minimum amount of cpu/memory that a container may consume.")
        .by(|object, _| shown(object, false).into()),
    Column::text(
        "Limit",
        "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
    )
    .by(|object, _| shown(object, true).into()),
    AGE_COLUMN,
];

/// What is used of each limit, or of all that is no limit.
fn shown(object: &Object, limits: bool) -> String {
    let status = object.part("status");
    let (hard, used) = (status.part("hard"), status.part("used"));
    let of = |list: &Object, name: &str| list.maybe_text(name).unwrap_or("0").to_owned();
    let mut names: Vec<&Text> = hard.keys().filter(|name| name.starts_with("limits.") == limits).collect();
    names.sort_unstable();
    let each = names.into_iter().map(|name| format!("{name}: {}/{}", of(used, name), of(hard, name)));
    each.collect::<Vec<_>>().join(", ")
}

fn default(object: &mut Object) {
    defaults::resource_list(object.object_or_new("spec"), "hard");
    let status = object.object_or_new("status");
    defaults::resource_list(status, "hard");
    defaults::resource_list(status, "used");
}

fn validate(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    quota::validate_spec(object, errors);
    match old {
        Some(old) => quota::validate_scopes_unchanged(object, old, errors),
        None => quota::validate_status(object, errors),
    }
}

fn warnings(object: &Object, old: Option<&Object>) -> Vec<String> {
    let hard = object.part("spec").part("hard");
    let mut out = Vec::new();
    for resource in ["cpu", "memory", "storage", "ephemeral-storage"].into_iter().filter(|_| old.is_none()) {
        let request = format!("requests.{resource}");
        // Cpu and memory may be asked for by their bare names.
        let bare = matches!(resource, "cpu" | "memory") && !hard.contains_key(&request);
        let request = if bare { resource.to_owned() } else { request };
        let limit = format!("limits.{resource}");
        let (Some(least), Some(most)) = (hard.maybe_text(&request), hard.maybe_text(&limit)) else { continue };
        if Quantity::of(least).compare(&Quantity::of(most)).is_gt() {
            out.push(format!("ResourceQuota {request} ({least}) should be less than {limit} ({most})"));
        }
    }
    out
}
