//! ComponentStatus: whether the other programs of a control plane run. Only read; what the server was told last.

use super::{Column, NAME_COLUMN, Resource, Row};
use crate::model::{Fields as _, Model, Object};

/// The row of the kind.
pub(super) fn kind() -> Row {
    Row {
        // It is not stored in the reference: of its metadata only the name is shown.
        stored_as: Some(Model { group: "", version: "v1", kind: "ComponentStatus" }),
        to_served: |object| object.object_or_new("metadata").retain(|key, _| key == "name"),
        deprecation: Some("v1 ComponentStatus is deprecated in v1.19+"),
        columns: &COLUMNS,
        ..Row::new(
            Resource::cluster("", "v1", "ComponentStatus", "componentstatuses").short(&["cs"]).only(&["get", "list"]),
        )
    }
}

static COLUMNS: [Column; 4] = [
    NAME_COLUMN,
    Column::text("Status", "Status of the component conditions").by(|object, _| {
        match condition(object).map(|condition| condition.text("status")) {
            Some("True") => "Healthy".into(),
            Some(_) => "Unhealthy".into(),
            None => "Unknown".into(),
        }
    }),
    Column::text("Message", "Message of the component conditions")
        .by(|object, _| condition(object).map_or("", |condition| condition.text("message")).into()),
    Column::text("Error", "Error of the component conditions")
        .by(|object, _| condition(object).map_or("", |condition| condition.text("error")).into()),
];

fn condition(object: &Object) -> Option<&Object> {
    object.items("conditions").find(|condition| condition.text("type") == "Healthy")
}
