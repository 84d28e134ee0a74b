//! What a write of a pod may not choose.

use std::collections::BTreeMap;

use muster_tree::{Value, json};

use super::super::defaults::{drop_disabled, drop_disabled_status};
use super::super::{Object, Part, keep_generation, raise_generation};
use crate::model::fields::{Fields, metadata, set_generation};
use crate::model::pod::{APP_ARMOR_ANNOTATION, app_armor_field};
use crate::model::qos::qos_class;

/// A new pod is pending, whatever it says, and of the first generation.
pub(super) fn create(pod: &mut Object) {
    set_generation(pod, 1);
    drop_disabled(pod.object_or_new("spec"));
    let created = metadata(pod).get("creationTimestamp").cloned().unwrap_or_default();
    let empty = Object::new();
    let spec = pod.object("spec").unwrap_or(&empty);
    let mut status = Object::new();
    status.insert("phase", "Pending".into());
    if !spec.list("schedulingGates").is_empty() {
        status.insert(
            "conditions".to_owned(),
            json!([{
                "type": "PodScheduled", "status": "False", "lastProbeTime": null, "lastTransitionTime": created,
                "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
            }]),
        );
    }
    // A class that it comes with is believed.
    let class = Some(pod.part("status").text("qosClass")).filter(|class| !class.is_empty());
    status.insert("qosClass", class.unwrap_or_else(|| qos_class(spec)).into());
    pod.insert("status", Value::Object(status));
    merge_label_keys(pod);
    app_armor_fields(pod);
}

/// Annotations that once set a container's AppArmor profile become the field that does so now, unless
/// the field is there or the pod's says the same.
fn app_armor_fields(pod: &mut Object) {
    let Some(annotations) = metadata(pod).object("annotations").filter(|a| !a.is_empty()).cloned() else { return };
    let spec = pod.object_or_new("spec");
    if spec.object("os").is_some_and(|os| os.text("name") == "windows") {
        return;
    }
    let of_pod = spec.object("securityContext").and_then(|c| c.get("appArmorProfile")).cloned();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.items_mut(list) {
            let key = format!("{APP_ARMOR_ANNOTATION}{}", container.text("name"));
            let Some(profile) = annotations.maybe_text(&key).and_then(app_armor_field) else { continue };
            let has_own = container.object("securityContext").is_some_and(|c| c.contains_key("appArmorProfile"));
            if !has_own && of_pod.as_ref() != Some(&profile) {
                container.object_or_new("securityContext").insert("appArmorProfile", profile);
            }
        }
    }
}

/// Carries over what this part of a write leaves alone.
pub(super) fn update(part: Part, pod: &mut Object, old: &Object) {
    match part {
        Part::Status => return update_status(pod, old),
        Part::EphemeralContainers => keep_but(pod, old, &["ephemeralContainers"]),
        Part::Resize => resize(pod, old),
        _ => pod.carry("status", old),
    }
    drop_disabled(pod.object_or_new("spec"));
    raise_generation(pod, old);
}

/// Of a pod nothing but these fields of its spec is written.
fn keep_but(pod: &mut Object, old: &Object, fields: &[&str]) {
    let new = pod.part("spec").clone();
    pod.carry("spec", old);
    pod.carry("status", old);
    let spec = pod.object_or_new("spec");
    for field in fields {
        spec.carry(field, &new);
    }
    let meta = pod.object_or_new("metadata");
    for field in ["deletionTimestamp", "generation", "labels", "annotations", "finalizers", "ownerReferences"] {
        meta.carry(field, metadata(old));
    }
}

/// Of a pod nothing but the resources of its containers and its own are written. Where the containers are others,
/// everything stays as it is written, for validation to refuse.
fn resize(pod: &mut Object, old: &Object) {
    const LISTS: [&str; 2] = ["containers", "initContainers"];
    let (new, before) = (pod.part("spec"), old.part("spec"));
    if LISTS.iter().any(|list| new.list(list).len() != before.list(list).len()) {
        return;
    }
    let mut resized = LISTS.map(|list| new.get(list).cloned());
    for (list, resized) in LISTS.iter().zip(&mut resized) {
        let mut pairs = new.items(list).zip(before.items(list));
        if pairs.any(|(new, old)| new.text("name") != old.text("name")) {
            continue;
        }
        let containers = new.items(list).zip(before.items(list)).map(|(new, old)| {
            let mut container = old.clone();
            for field in ["resources", "resizePolicy"] {
                container.carry(field, new);
            }
            Value::Object(container)
        });
        *resized = resized.as_ref().map(|_| containers.collect());
    }
    keep_but(pod, old, &["resources"]);
    let spec = pod.object_or_new("spec");
    for (list, resized) in LISTS.iter().zip(resized) {
        match resized {
            Some(containers) => spec.insert((*list).to_owned(), containers),
            None => spec.remove(list),
        };
    }
}

fn update_status(pod: &mut Object, old: &Object) {
    keep_generation(pod, old);
    pod.carry("spec", old);
    let meta = pod.object_or_new("metadata");
    meta.remove("deletionTimestamp");
    // Old nodes would garble the owners.
    meta.carry("ownerReferences", metadata(old));
    let empty = Object::new();
    let before = old.object("status").unwrap_or(&empty);
    let status = pod.object_or_new("status");
    drop_disabled_status(status);
    if status.text("qosClass").is_empty() {
        status.carry("qosClass", before);
    }
    if status.int("observedGeneration") == 0 {
        status.carry("observedGeneration", before);
    }
    let mut observed: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for condition in before.items("conditions") {
        observed.entry(condition.text("type")).or_default().push(condition.int("observedGeneration"));
    }
    for condition in status.items_mut("conditions") {
        let known = observed.get_mut(condition.text("type")).filter(|list| !list.is_empty()).map(|list| list.remove(0));
        if let Some(known) = known.filter(|known| *known != 0)
            && condition.int("observedGeneration") == 0
        {
            condition.insert("observedGeneration", known.into());
        }
    }
}

/// Affinity terms may name labels of the pod itself: their values become part of the term's selector.
fn merge_label_keys(pod: &mut Object) {
    let wanted =
        pod.object("spec").is_some_and(|s| s.contains_key("affinity") || s.contains_key("topologySpreadConstraints"));
    if !wanted {
        return;
    }
    let labels = metadata(pod).object("labels").cloned().unwrap_or_default();
    let spec = pod.object_or_new("spec");
    if let Some(affinity) = spec.object_mut("affinity") {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let Some(terms) = affinity.object_mut(kind) else { continue };
            for preferred in terms.items_mut("preferredDuringSchedulingIgnoredDuringExecution") {
                if let Some(term) = preferred.object_mut("podAffinityTerm") {
                    merge_term(term, &labels);
                }
            }
            for term in terms.items_mut("requiredDuringSchedulingIgnoredDuringExecution") {
                merge_term(term, &labels);
            }
        }
    }
    for constraint in spec.items_mut("topologySpreadConstraints") {
        let keys: Vec<String> = constraint.strings("matchLabelKeys").map(str::to_owned).collect();
        merge_keys(constraint, &keys, "In", &labels);
    }
}

fn merge_term(term: &mut Object, labels: &Object) {
    let keys = |field: &str| -> Vec<String> { term.strings(field).map(str::to_owned).collect() };
    let (matching, mismatching) = (keys("matchLabelKeys"), keys("mismatchLabelKeys"));
    merge_keys(term, &matching, "In", labels);
    merge_keys(term, &mismatching, "NotIn", labels);
}

fn merge_keys(parent: &mut Object, keys: &[String], operator: &str, labels: &Object) {
    let Some(selector) = parent.object_mut("labelSelector") else { return };
    for key in keys {
        let Some(value) = labels.maybe_text(key) else { continue };
        let requirement = json!({"key": key, "operator": operator, "values": [value]});
        match selector.get_mut("matchExpressions") {
            Some(Value::Array(list)) => list.push(requirement),
            _ => {
                selector.insert("matchExpressions", json!([requirement]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        let Value::Object(object) = value else { panic!("not an object") };
        object
    }

    /// Contract: API-15
    #[test]
    fn a_new_pod_is_pending_whatever_it_says() {
        let mut pod = object(json!({"spec": {"containers": []}, "status": {"phase": "Running", "podIP": "1.1.1.1"}}));
        create(&mut pod);
        assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
        assert_eq!(pod["metadata"]["generation"], 1);
    }

    /// Contract: API-15
    #[test]
    fn status_and_spec_are_written_apart() {
        let old = object(
            json!({"metadata": {"generation": 1, "ownerReferences": [{"uid": "u"}]}, "spec": {"a": 1}, "status": {"phase": "Pending", "qosClass": "Burstable", "conditions": [{"type": "Ready", "observedGeneration": 3}]}}),
        );
        let new = object(
            json!({"metadata": {"generation": 9}, "spec": {"a": 2}, "status": {"phase": "Running", "conditions": [{"type": "Ready"}]}}),
        );

        let mut main = new.clone();
        update(Part::Main, &mut main, &old);
        assert_eq!(
            (&main["spec"]["a"], &main["status"], &main["metadata"]["generation"]),
            (&json!(2), &old["status"], &json!(2))
        );

        let mut status = new;
        update(Part::Status, &mut status, &old);
        assert_eq!((&status["spec"]["a"], &status["metadata"]["generation"]), (&json!(1), &json!(1)));
        assert_eq!(
            status["status"],
            json!({"phase": "Running", "qosClass": "Burstable", "conditions": [{"type": "Ready", "observedGeneration": 3}]})
        );
        assert_eq!(status["metadata"]["ownerReferences"], json!([{"uid": "u"}]));
    }

    /// Contract: API-16
    #[test]
    fn affinity_takes_the_pods_own_labels() {
        let mut pod = object(
            json!({"metadata": {"labels": {"v": "1"}}, "spec": {"containers": [], "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {}, "matchLabelKeys": ["v", "none"], "mismatchLabelKeys": ["v"]}]}}}}),
        );
        create(&mut pod);
        assert_eq!(
            pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"],
            json!({"matchExpressions": [{"key": "v", "operator": "In", "values": ["1"]}, {"key": "v", "operator": "NotIn", "values": ["1"]}]})
        );
    }
}
