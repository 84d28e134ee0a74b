//! LimitRange.

use muster_tree::Value;

use super::{Column, NAME_COLUMN, Object, Resource, Row, defaults};
use crate::model::{CREATED_AT_COLUMN, Fields as _};
use crate::validation::limitrange;
use crate::validation::meta::Look;

/// How much one object of a namespace may ask for.
pub(super) fn kind() -> Row {
    Row {
        metadata: Look::WHOLE,
        default,
        // One without a name gets one that nothing else has.
        prepare: |_, range, old| {
            let metadata = range.object_or_new("metadata");
            if let (None, Some(uid)) = (old, metadata.get("uid").and_then(Value::as_str).map(str::to_owned)) {
                metadata.set_if_empty("name", &uid);
            }
        },
        validate: |range, _, errors| limitrange::validate(range, errors),
        columns: &COLUMNS,
        ..Row::new(Resource::namespaced("", "v1", "LimitRange", "limitranges").short(&["limits"]).create_on_update())
    }
}

static COLUMNS: [Column; 2] = [NAME_COLUMN, CREATED_AT_COLUMN];

/// What a container may have at most is what it gets, and that is what it asks for; at least what it must.
fn default(range: &mut Object) {
    for item in range.object_or_new("spec").items_mut("limits") {
        for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            defaults::resource_list(item, list);
        }
        if item.text("type") != "Container" {
            continue;
        }
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            let Some(from) = item.object(from).filter(|from| !from.is_empty()).cloned() else { continue };
            let to = item.object_or_new(to);
            from.into_iter().for_each(|(resource, quantity)| to.set_if_absent(&resource, quantity));
        }
        for list in ["default", "defaultRequest"] {
            if item.get(list).and_then(Value::as_object).is_some_and(Object::is_empty) {
                item.remove(list);
            }
        }
    }
}
