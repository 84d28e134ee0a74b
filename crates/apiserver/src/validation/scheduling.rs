//! Classes that pods name: of their priority, and of what runs them (API-17).

use crate::field::FieldError;
use crate::model::{Fields as _, Object, metadata};

use super::pod::{resources, scheduling};
use super::{Errors, Path, labels};

/// The priority classes that every cluster has, and their values.
pub const SYSTEM_CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];
/// What begins the names of classes that are not the user's.
const SYSTEM_PREFIX: &str = "system-";
/// The highest value that a user's class may have.
const HIGHEST: i64 = 1_000_000_000;

/// Checks a PriorityClass. Its value never changes.
pub fn validate_priority(class: &Object, old: Option<&Object>, errors: &mut Errors) {
    let value = class.int("value");
    if let Some(old) = old {
        if value != old.int("value") {
            errors.push(FieldError::forbidden(Path::new("value"), "may not be changed in an update."));
        }
        return;
    }
    let name = metadata(class).text("name");
    if name.starts_with(SYSTEM_PREFIX) {
        if let Err(why) = is_system_class(name, value, class.flag("globalDefault")) {
            let meta = Path::new("metadata");
            let why = format!(
                "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}"
            );
            errors.push(FieldError::forbidden(meta.child("name"), why));
        }
    } else if value > HIGHEST {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        errors.push(FieldError::forbidden(Path::new("value"), why));
    }
    let policies = ["PreemptLowerPriority", "Never"];
    let path = Path::new("preemptionPolicy");
    match class.maybe_text("preemptionPolicy") {
        Some("") => errors.push(FieldError::required(path, "")),
        Some(policy) if !policies.contains(&policy) => {
            errors.push(FieldError::not_supported(path, policy, &policies));
        }
        _ => {}
    }
}

fn is_system_class(name: &str, value: i64, default: bool) -> Result<(), String> {
    let Some((_, own, _)) = SYSTEM_CLASSES.iter().find(|(system, ..)| *system == name) else {
        return Err(format!("{name} is not a known system priority class"));
    };
    if value != *own {
        return Err(format!("value of {name} PriorityClass must be {own}"));
    }
    if default {
        return Err(format!("globalDefault of {name} PriorityClass must be false"));
    }
    Ok(())
}

/// Checks a RuntimeClass.
pub fn validate_runtime(class: &Object, errors: &mut Errors) {
    let path = Path::new("handler");
    match class.text("handler") {
        "" => errors.push(FieldError::required(path, "")),
        handler => super::complain(handler, super::name::is_dns1123_label(handler), &path, errors),
    }
    if let Some(overhead) = class.object("overhead") {
        resources::validate_overhead(overhead.object("podFixed"), &Path::new("overhead"), errors);
    }
    let Some(own) = class.object("scheduling") else { return };
    let path = Path::new("scheduling");
    labels::validate_labels(own, "nodeSelector", &path.child("nodeSelector"), errors);
    let list = path.child("tolerations");
    scheduling::validate_tolerations(own, &list, errors);
    let mut seen: Vec<Object> = Vec::new();
    for (i, toleration) in own.items("tolerations").enumerate() {
        let mut key = toleration.clone();
        key.remove("tolerationSeconds");
        if seen.contains(&key) {
            let shown = super::internal::shown("Toleration", toleration);
            errors.push(FieldError::duplicate(list.index(i), shown));
        } else {
            seen.push(key);
        }
    }
}

/// Warnings for a RuntimeClass: labels that have got another name.
#[must_use]
pub fn runtime_warnings(class: &Object) -> Vec<String> {
    let Some(own) = class.object("scheduling") else { return Vec::new() };
    let deprecated = own.pairs("nodeSelector").filter_map(|(key, _)| super::pod::warnings::deprecated_node_label(key));
    deprecated.map(|why| format!("scheduling.nodeSelector: {why}")).collect()
}

#[cfg(test)]
mod tests {
    use muster_tree::{Value, json};

    use super::*;

    /// Contract: API-25
    #[test]
    fn priorities_by_the_table() {
        let prefix = "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: ";
        let cases = [
            ("a", 1_000_000_000, false, None),
            ("a", -5, true, None),
            ("system-node-critical", 2_000_001_000, false, None),
            ("system-node-critical", 1, false, Some("value of system-node-critical PriorityClass must be 2000001000")),
            (
                "system-cluster-critical",
                2_000_000_000,
                true,
                Some("globalDefault of system-cluster-critical PriorityClass must be false"),
            ),
        ];
        for (name, value, default, want) in cases {
            let class = json!({"metadata": {"name": name}, "value": value, "globalDefault": default});
            let mut errors = Errors::new();
            validate_priority(class.as_object().expect("an object"), None, &mut errors);
            let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(found, want.map(|why| format!("{prefix}{why}")).into_iter().collect::<Vec<_>>(), "{name}");
        }
    }

    /// Contract: API-25
    #[test]
    fn runtimes_by_the_table() {
        let cases = [
            (json!({"overhead": {"podFixed": {"cpu": "1"}}, "scheduling": {"tolerations": [{"key": "k"}]}}), vec![]),
            (
                json!({"overhead": {"podFixed": {"cpu": "-1", "nope": "1"}}}),
                vec![
                    "overhead.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                    "overhead.limits[nope]: Invalid value: \"nope\": must be a standard resource type or fully qualified",
                    "overhead.limits[nope]: Invalid value: \"nope\": must be a standard resource for containers",
                ],
            ),
            (
                json!({"scheduling": {"tolerations": [{"key": "k"}, {"key": "k", "effect": "NoExecute", "tolerationSeconds": 1}, {"key": "k"}]}}),
                vec![
                    "scheduling.tolerations[2]: Duplicate value: {\"Key\":\"k\",\"Operator\":\"\",\"Value\":\"\",\"Effect\":\"\",\"TolerationSeconds\":null}",
                ],
            ),
        ];
        for (mut class, want) in cases {
            class["handler"] = Value::from("h");
            let mut errors = Errors::new();
            validate_runtime(class.as_object().expect("an object"), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want, "{class}");
        }
    }
}
