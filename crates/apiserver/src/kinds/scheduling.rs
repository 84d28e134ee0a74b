//! PriorityClass and RuntimeClass: what pods name to be treated and run in a certain way.

use super::{AGE_COLUMN, Column, NAME_COLUMN, Resource, Row, defaults};
use crate::model::Fields as _;
use crate::model::fields::set_generation;
use crate::validation::meta::Look;
use crate::validation::{IMMUTABLE, scheduling};

/// How important pods are.
pub(super) fn priority() -> Row {
    Row {
        default: |class| class.set_if_absent("preemptionPolicy", "PreemptLowerPriority"),
        prepare: |_, class, old| {
            // It never rises.
            if old.is_none() {
                set_generation(class, 1);
            }
        },
        validate: scheduling::validate_priority,
        immutable: &[("/preemptionPolicy", IMMUTABLE)],
        columns: &PRIORITY_COLUMNS,
        ..Row::new(Resource::cluster("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses").short(&["pc"]))
    }
}

static PRIORITY_COLUMNS: [Column; 5] = [
    NAME_COLUMN,
    Column::number("Value", "value represents the integer value of this priority class. This is the actual priority that pods receive when they have the name of this class in their pod spec.")
        .number_at("/value"),
    Column::flag("Global-Default", "globalDefault specifies whether this PriorityClass should be considered as the default priority for pods that do not have any priority class. Only one PriorityClass can be marked as `globalDefault`. However, if more than one PriorityClasses exists with their `globalDefault` field set to true, the smallest value of such global default PriorityClasses will be used as the default priority.")
        .by(|class, _| class.flag("globalDefault").into()),
    AGE_COLUMN,
    Column::text("PreemptionPolicy", "preemptionPolicy is the Policy for preempting pods with lower priority. One of Never, PreemptLowerPriority. Defaults to PreemptLowerPriority if unset.")
        .at("/preemptionPolicy"),
];

/// What runs pods.
pub(super) fn runtime() -> Row {
    Row {
        metadata: Look::BOTH.lenient(),
        default: |class| {
            if let Some(overhead) = class.object_mut("overhead") {
                defaults::resource_list(overhead, "podFixed");
            }
        },
        validate: |class, _, errors| scheduling::validate_runtime(class, errors),
        immutable: &[("/handler", IMMUTABLE)],
        warnings: |class, _| scheduling::runtime_warnings(class),
        columns: &RUNTIME_COLUMNS,
        ..Row::new(
            Resource::cluster("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses")
                .create_on_update()
                .conditional_update(),
        )
    }
}

static RUNTIME_COLUMNS: [Column; 3] = [NAME_COLUMN, Column::text("Handler", "").at("/handler"), AGE_COLUMN];
