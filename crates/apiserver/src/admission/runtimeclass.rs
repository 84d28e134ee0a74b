//! RuntimeClass: a pod takes over what its runtime costs, and where that runs.

use muster_tree::Value;

use super::Write;
use crate::model::fields::Fields as _;
use crate::model::{Object, ResourceList};
use crate::status::ApiError;

const OTHER_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/// Sets overhead, node selector and tolerations of a new pod.
pub(super) fn create(write: &Write<'_>, pod: &mut Object) -> Result<(), ApiError> {
    let Some(class) = class_of(write, pod)? else { return Ok(()) };
    let name = super::name_of(pod).to_owned();
    let forbidden = |why: &str| write.forbidden(&name, why);
    let spec = pod.object_or_new("spec");
    if let Some(overhead) = class.object("overhead") {
        if !spec.part("overhead").is_empty() && !same(spec.object("overhead"), overhead.object("podFixed")) {
            return Err(forbidden(OTHER_OVERHEAD));
        }
        match overhead.get("podFixed") {
            Some(fixed) => spec.insert("overhead", fixed.clone()),
            None => spec.remove("overhead"),
        };
    }
    let Some(scheduling) = class.object("scheduling") else { return Ok(()) };
    for (key, value) in scheduling.pairs("nodeSelector") {
        let selector = spec.object_or_new("nodeSelector");
        if let Some(own) = selector.maybe_text(key).filter(|own| *own != value) {
            return Err(forbidden(&format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
            )));
        }
        selector.insert(key, value.into());
    }
    let all: Vec<&Object> = spec.items("tolerations").chain(scheduling.items("tolerations")).collect();
    let tolerations = merged(&all);
    if !tolerations.is_empty() {
        spec.insert("tolerations", tolerations.into());
    }
    Ok(())
}

/// Refuses an overhead that is not the class's.
pub(super) fn validate(write: &Write<'_>, pod: &Object) -> Result<(), ApiError> {
    let class = class_of(write, pod)?;
    let own = pod.part("spec").object("overhead");
    let why = match class.as_ref().and_then(|class| class.object("overhead")) {
        Some(overhead) if !same(own, overhead.object("podFixed")) => OTHER_OVERHEAD,
        None if own.is_some() => "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        _ => return Ok(()),
    };
    Err(write.forbidden(super::name_of(pod), why))
}

fn class_of(write: &Write<'_>, pod: &Object) -> Result<Option<Object>, ApiError> {
    let Some(name) = pod.part("spec").maybe_text("runtimeClassName") else { return Ok(None) };
    if name.is_empty() {
        return Err(ApiError::plain("resource name may not be empty"));
    }
    let found = super::find(write.registry, "node.k8s.io", "runtimeclasses", name);
    found.map(Some).ok_or_else(|| {
        let why = format!("pod rejected: RuntimeClass {} not found", crate::field::go_quote(name));
        write.forbidden(super::name_of(pod), &why)
    })
}

fn same(one: Option<&Object>, other: Option<&Object>) -> bool {
    ResourceList::read(one).equals(&ResourceList::read(other))
}

/// Tolerations without those that others of them cover.
fn merged(all: &[&Object]) -> Vec<Value> {
    let mut kept: Vec<&Object> = Vec::new();
    for (i, one) in all.iter().enumerate() {
        let covered = kept.iter().any(|other| covers(other, one))
            || all[i + 1..].iter().any(|other| other != one && covers(other, one));
        if !covered {
            kept.push(one);
        }
    }
    kept.into_iter().cloned().map(Value::Object).collect()
}

/// Whether a toleration tolerates all that another does.
fn covers(wide: &Object, narrow: &Object) -> bool {
    if wide == narrow {
        return true;
    }
    let operator = wide.text("operator");
    if narrow.text("key") != wide.text("key") && (!wide.text("key").is_empty() || operator != "Exists") {
        return false;
    }
    if narrow.text("effect") != wide.text("effect") && !wide.text("effect").is_empty() {
        return false;
    }
    if let Some(seconds) = wide.maybe_int("tolerationSeconds").filter(|_| wide.text("effect") == "NoExecute")
        && narrow.maybe_int("tolerationSeconds").is_none_or(|own| own > seconds)
    {
        return false;
    }
    match operator {
        "Equal" | "" => narrow.text("operator") == "Equal" && narrow.text("value") == wide.text("value"),
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    /// Contract: API-25
    #[test]
    fn tolerations_that_others_cover_go() {
        let exists = json!({"key": "a", "operator": "Exists"});
        let equal = json!({"key": "a", "operator": "Equal", "value": "1"});
        let short = json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
        let long = json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 50});
        let all = json!({"operator": "Exists"});
        let cases = [
            (vec![&exists, &exists], vec![&exists]),
            (vec![&equal, &exists], vec![&exists]),
            (vec![&exists, &equal], vec![&exists]),
            (vec![&short, &long], vec![&long]),
            (vec![&equal, &short], vec![&equal, &short]),
            (vec![&equal, &exists, &all], vec![&all]),
        ];
        for (given, want) in cases {
            let given: Vec<&Object> = given.into_iter().filter_map(Value::as_object).collect();
            assert_eq!(merged(&given), want.into_iter().cloned().collect::<Vec<_>>(), "{given:?}");
        }
    }
}
