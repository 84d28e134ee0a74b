//! ControllerRevision.

use muster_tree::Value;

use super::{AGE_COLUMN, Column, NAME_COLUMN, Object, Resource, Row};
use crate::field::FieldError;
use crate::model::{Fields as _, metadata};
use crate::validation::meta::Look;
use crate::validation::{Errors, IMMUTABLE, Path, non_negative};

/// What a controller's object once was.
pub(super) fn kind() -> Row {
    Row {
        validate,
        metadata: Look::BOTH,
        immutable: &[("/data", IMMUTABLE)],
        columns: &COLUMNS,
        ..Row::new(Resource::namespaced("apps", "v1", "ControllerRevision", "controllerrevisions"))
    }
}

static COLUMNS: [Column; 4] = [
    NAME_COLUMN,
    Column::text("Controller", "Controller of the object").by(|object, _| controller(object).into()),
    Column::text("Revision", "Revision indicates the revision of the state represented by Data.")
        .number_at("/revision"),
    AGE_COLUMN,
];

/// The controller's kind, group and name: `statefulset.apps/web`.
fn controller(object: &Object) -> String {
    let mut owners = metadata(object).items("ownerReferences");
    let Some(owner) = owners.find(|owner| owner.flag("controller")) else { return "<none>".to_owned() };
    let kind = owner.text("kind").to_lowercase();
    match owner.text("apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", owner.text("name")),
        None => format!("{kind}/{}", owner.text("name")),
    }
}

fn validate(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    non_negative(object.int("revision"), &Path::new("revision"), errors);
    if old.is_some() {
        return;
    }
    match object.get("data") {
        Some(Value::Object(_)) => {}
        None | Some(Value::Null) => errors.push(FieldError::required("data", "data is mandatory")),
        Some(_) => errors.push(FieldError::required("data", "data must be a valid JSON object")),
    }
}
