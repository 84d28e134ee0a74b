//! ConfigMap.

use super::{AGE_COLUMN, Column, NAME_COLUMN, NameRule, Object, Resource, Row};
use crate::model::{Fields as _, metadata};
use crate::validation::{Errors, data, meta};

/// Configuration that pods read.
pub(super) fn kind() -> Row {
    Row {
        validate,
        columns: &COLUMNS,
        ..Row::new(Resource::namespaced("", "v1", "ConfigMap", "configmaps").short(&["cm"]))
    }
}

static COLUMNS: [Column; 3] = [
    NAME_COLUMN,
    Column::text(
        "Data",
        "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' or '.'. Values with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in Data must not overlap with the keys in the BinaryData field, this is enforced during validation process.",
    )
    .by(|object, _| (object.part("data").len() + object.part("binaryData").len()).into()),
    AGE_COLUMN,
];

fn validate(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    if let Some(old) = old {
        data::validate_config_map_change(object, old, errors);
        meta::validate_core(metadata(object), true, NameRule::Subdomain, errors);
    }
    data::validate_config_map(object, errors);
}
