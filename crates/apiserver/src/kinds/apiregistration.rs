//! APIService.

use muster_tree::json;

use super::{Column, NAME_COLUMN, Object, Part, Resource, Row, Subresource, keep_metadata};
use crate::model::{AGE_COLUMN, Fields as _, NameRule};
use crate::validation::apiservice;
use crate::validation::meta::Look;

/// Its API group.
pub const GROUP: &str = "apiregistration.k8s.io";
/// Its plural name.
pub const PLURAL: &str = "apiservices";

/// Where a version of a group is served. Those of this server are kept by it; others are stored, and lead nowhere.
pub(super) fn kind() -> Row {
    Row {
        name_rule: NameRule::PathSegment,
        metadata: Look::BOTH.lenient(),
        default: |object| {
            if let Some(service) = object.object_mut("spec").and_then(|spec| spec.object_mut("service")) {
                service.set_if_absent("port", 443);
            }
        },
        prepare: |part, object, old| match (part, old) {
            (Part::Main, None) => {
                object.insert("status", json!({}));
            }
            (Part::Main, Some(_)) => {}
            (_, old) => old.into_iter().for_each(|old| keep_metadata(object, old)),
        },
        stamp: |part, object, old, now| {
            let local = object.object("spec").is_some_and(|spec| !spec.contains_key("service"));
            if (part, old.is_none(), local) == (Part::Main, true, true) {
                let condition = json!({
                    "type": "Available",
                    "status": "True",
                    "lastTransitionTime": now.to_string(),
                    "reason": "Local",
                    "message": "Local APIServices are always available",
                });
                object.insert("status", json!({"conditions": [condition]}));
            }
        },
        validate: |object, _, errors| apiservice::validate(object, errors),
        validate_part: |_, object, _, errors| apiservice::validate_status(object, errors),
        columns: &COLUMNS,
        ..Row::new(
            Resource::cluster(GROUP, "v1", "APIService", PLURAL)
                .category("api-extensions")
                .parts(&[Subresource::Status])
                .conditional_update()
                .stored_under("apiregistration.k8s.io/apiservices"),
        )
    }
}

static COLUMNS: [Column; 4] = [
    NAME_COLUMN,
    Column::text("Service", "The reference to the service that hosts this API endpoint.").by(|object, _| {
        let service = object.object("spec").and_then(|spec| spec.object("service"));
        service.map_or_else(|| "Local".into(), |s| format!("{}/{}", s.text("namespace"), s.text("name")).into())
    }),
    Column::text("Available", "Whether this service is available.").by(|object, _| available(object).into()),
    AGE_COLUMN,
];

fn available(object: &Object) -> String {
    let mut conditions = object.object("status").into_iter().flat_map(|status| status.items("conditions"));
    let Some(condition) = conditions.find(|condition| condition.text("type") == "Available") else {
        return "Unknown".to_owned();
    };
    match (condition.text("status"), condition.text("reason")) {
        ("True", _) => "True".to_owned(),
        (status, "") => status.to_owned(),
        (status, reason) => format!("{status} ({reason})"),
    }
}
