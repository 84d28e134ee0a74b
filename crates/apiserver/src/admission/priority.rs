//! Priority: every pod has a number, its class's; and only one class is for those that name none.

use muster_tree::Value;

use super::{Write, stored};
use crate::model::Object;
use crate::model::fields::{Fields as _, metadata};
use crate::registry::{Registry, Served};
use crate::status::ApiError;
use crate::validation::scheduling::SYSTEM_CLASSES;

const GROUP: &str = "scheduling.k8s.io";
const CLASSES: &str = "priorityclasses";

/// Sets what a new pod's class says, or the default class.
pub(super) fn create(write: &Write<'_>, pod: &mut Object) -> Result<(), ApiError> {
    let name = super::name_of(pod).to_owned();
    let forbidden = |why: &str| write.forbidden(&name, why);
    let spec = pod.object_or_new("spec");
    let class = match spec.text("priorityClassName") {
        "" => default_class(write.registry),
        class => match super::find(write.registry, GROUP, CLASSES, class) {
            Some(class) => Some(class),
            None => return Err(forbidden(&format!("no PriorityClass with name {class} was found"))),
        },
    };
    let (priority, preemption) = match &class {
        Some(class) => {
            spec.insert("priorityClassName", metadata(class).text("name").into());
            (class.int("value"), class.maybe_text("preemptionPolicy"))
        }
        None => (0, Some("PreemptLowerPriority")),
    };
    if let Some(given) = spec.maybe_int("priority")
        && given != priority
    {
        return Err(forbidden(&format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
        )));
    }
    spec.insert("priority", Value::from(priority));
    let Some(preemption) = preemption else { return Ok(()) };
    if let Some(given) = spec.maybe_text("preemptionPolicy")
        && given != preemption
    {
        return Err(forbidden(&format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {preemption} from the given PriorityClass name"
        )));
    }
    spec.insert("preemptionPolicy", Value::from(preemption));
    Ok(())
}

/// An update that leaves these out keeps them.
pub(super) fn update(write: &Write<'_>, pod: &mut Object) -> Result<(), ApiError> {
    let Some(before) = write.live.and_then(|old| old.object("spec")) else { return Ok(()) };
    let spec = pod.object_or_new("spec");
    for key in ["priority", "preemptionPolicy"] {
        if !spec.contains_key(key)
            && let Some(value) = before.get(key)
        {
            spec.insert(key, value.clone());
        }
    }
    Ok(())
}

/// Refuses a second default class.
pub(super) fn validate_class(write: &Write<'_>, class: &Object) -> Result<(), ApiError> {
    let Some(default) = default_class(write.registry).filter(|_| class.flag("globalDefault")) else { return Ok(()) };
    let (name, default) = (metadata(class).text("name"), metadata(&default).text("name"));
    if write.live.is_some() && name == default {
        return Ok(());
    }
    let why = format!("PriorityClass {default} is already marked as default. Only one default can exist");
    Err(write.forbidden(name, &why))
}

/// Keeps the classes that every cluster has.
pub(super) fn delete_class(served: &Served, name: &str) -> Result<(), ApiError> {
    if super::kind(served) != (GROUP, CLASSES) || SYSTEM_CLASSES.iter().all(|(system, ..)| *system != name) {
        return Ok(());
    }
    let why = "this is a system priority class and cannot be deleted";
    Err(ApiError::forbidden(served.group_resource(), name, why))
}

/// The class of pods that name none: of several, the one of the least priority.
fn default_class(registry: &Registry) -> Option<Object> {
    let marked = stored(registry, GROUP, CLASSES, "", "\"globalDefault\":true");
    marked.into_iter().filter(|class| class.flag("globalDefault")).min_by_key(|class| class.int("value"))
}
