//! Priority: every pod has a number. Without priority classes of the user's own it is 0, or a system class's.

use serde_json::Value;

use crate::model::Object;
use crate::model::fields::Fields as _;
use crate::registry::Served;
use crate::status::ApiError;

/// The classes that every cluster has.
const SYSTEM: [(&str, i64); 2] = [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// The preemption policy of every class here.
const PREEMPTION: &str = "PreemptLowerPriority";

pub(super) fn create(served: &Served, pod: &mut Object) -> Result<(), ApiError> {
    let name = super::name_of(pod).to_owned();
    let forbidden = |why: &str| ApiError::forbidden(served.group_resource(), &name, why);
    let spec = pod.object_or_new("spec");
    let priority = match spec.text("priorityClassName") {
        "" => 0,
        class => match SYSTEM.iter().find(|(system, _)| *system == class) {
            Some((_, priority)) => *priority,
            None => return Err(forbidden(&format!("no PriorityClass with name {class} was found"))),
        },
    };
    if let Some(given) = spec.maybe_int("priority")
        && given != priority
    {
        return Err(forbidden(&format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
        )));
    }
    spec.insert("priority".to_owned(), Value::from(priority));
    if let Some(given) = spec.maybe_text("preemptionPolicy")
        && given != PREEMPTION
    {
        return Err(forbidden(&format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {PREEMPTION} from the given PriorityClass name"
        )));
    }
    spec.insert("preemptionPolicy".to_owned(), Value::from(PREEMPTION));
    Ok(())
}

/// An update that leaves these out keeps them.
pub(super) fn update(pod: &mut Object, old: &Object) {
    let Some(before) = old.object("spec") else { return };
    let spec = pod.object_or_new("spec");
    for key in ["priority", "preemptionPolicy"] {
        if !spec.contains_key(key)
            && let Some(value) = before.get(key)
        {
            spec.insert(key.to_owned(), value.clone());
        }
    }
}
