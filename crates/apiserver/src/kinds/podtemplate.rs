//! PodTemplate.

use super::{Column, NAME_COLUMN, Object, Part, Resource, Row, cells, defaults};
use crate::model::fields::{Fields as _, metadata, set_generation};
use crate::validation::{Path, pod};

/// A template by itself.
pub(super) fn kind() -> Row {
    Row {
        counts_spec: true,
        default: |object| defaults::template(object, "template"),
        prepare,
        validate: |object, old, errors| {
            let before = old.map(|old| old.part("template"));
            pod::validate_template(object.part("template"), before, &Path::new("template"), errors);
        },
        warnings: |object, old| {
            let before = old.map(|old| old.part("template"));
            pod::warnings::template(&Path::new("template"), object.part("template"), before)
        },
        columns: &COLUMNS,
        ..Row::new(Resource::namespaced("", "v1", "PodTemplate", "podtemplates").returns_deleted())
    }
}

static COLUMNS: [Column; 4] = [
    NAME_COLUMN,
    cells::CONTAINERS.always(),
    cells::IMAGES.always(),
    Column::text("Pod Labels", "The labels for the pod template.").by(|object, _| {
        let labels = object.part("template").part("metadata").object("labels");
        cells::labels(labels).into()
    }),
];

/// There is no spec: the template is all that counts.
fn prepare(_: Part, object: &mut Object, old: Option<&Object>) {
    if let Some(spec) = object.object_mut("template").and_then(|template| template.object_mut("spec")) {
        defaults::drop_disabled(spec);
    }
    if let Some(old) = old.filter(|old| old.get("template") != object.get("template")) {
        set_generation(object, metadata(old).int("generation") + 1);
    }
}
