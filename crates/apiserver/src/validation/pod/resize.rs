//! What of a pod's resources may change while it runs (API-25): its cpu and memory.

use crate::field::FieldError;
use crate::model::qos::qos_class;
use crate::model::{
    Object,
    fields::{Fields, metadata},
};
use crate::validation::{Errors, Path, meta};

use super::options::Options;
use super::{SPEC, annotations, validate_metadata_and_spec};

const LISTS: [&str; 2] = ["containers", "initContainers"];
/// What may change.
const MUTABLE: [&str; 2] = ["cpu", "memory"];

/// Checks a change of a pod's resources.
pub fn validate_resize(pod: &Object, old: &Object, errors: &mut Errors) {
    let (spec, before) = (pod.part("spec"), old.part("spec"));
    if let Some(why) = cannot_be_resized(old) {
        errors.push(FieldError::forbidden("[]", why));
        return;
    }
    meta::validate_core_update(metadata(pod), metadata(old), errors);
    validate_metadata_and_spec(pod, &Options::for_pod(Some(old)), errors);
    let class = |pod: &Object| pod.part("status").text("qosClass").to_owned();
    let was = if class(old).is_empty() { qos_class(before).to_owned() } else { class(old) };
    if was != qos_class(spec) {
        errors.push(FieldError::invalid(SPEC, class(pod), "Pod QOS Class may not change as a result of resizing"));
    }
    if !node_resizes(old) {
        errors.push(FieldError::forbidden(SPEC, "Pod running on node without support for resize"));
    }
    let mut rest = spec.clone();
    if [before, spec].iter().any(|spec| has_resources(spec.part("resources"))) {
        validate_pod_level(spec, before, &mut rest, errors);
    }
    if !old.part("status").list("nodeAllocatableResourceClaimStatuses").is_empty() {
        let why = "pods with node allocatable resource claims cannot be resized";
        errors.push(FieldError::forbidden(SPEC, why));
    }
    if !same_containers(spec, before, errors) {
        return;
    }
    for list in ["initContainers", "containers"] {
        let path = SPEC.child(list);
        for (i, (new, old)) in spec.items(list).zip(before.items(list)).enumerate() {
            let at = path.index(i);
            nothing_removed(new.part("resources"), old.part("resources"), &at.child("resources"), "resource ", errors);
        }
    }
    for list in LISTS {
        let path = SPEC.child(list);
        for (i, (container, old)) in rest.items_mut(list).zip(before.items(list)).enumerate() {
            validate_container(list, container, old, &path.index(i), errors);
        }
    }
    if errors.is_empty() && rest != *before {
        errors.push(FieldError::forbidden(SPEC, "only cpu and memory resources are mutable"));
    }
}

fn cannot_be_resized(old: &Object) -> Option<&'static str> {
    if metadata(old).part("annotations").contains_key(annotations::MIRROR) {
        return Some("static pods cannot be resized");
    }
    (old.part("spec").part("os").text("name") == "windows").then_some("windows pods cannot be resized")
}

/// Whether the pod's node can do it, as far as is known: then it says what running containers have.
fn node_resizes(old: &Object) -> bool {
    let mut running =
        old.part("status").items("containerStatuses").filter(|status| status.part("state").contains_key("running"));
    running.next().is_none_or(|status| status.contains_key("resources"))
}

fn has_resources(resources: &Object) -> bool {
    ["requests", "limits"].iter().any(|list| !resources.part(list).is_empty())
}

/// Checks the resources of the pod as a whole; `rest` gets the old ones where they may change.
fn validate_pod_level(spec: &Object, before: &Object, rest: &mut Object, errors: &mut Errors) {
    let path = SPEC.child("resources");
    if before.contains_key("resources") {
        if !spec.contains_key("resources") {
            errors.push(FieldError::forbidden(path, "pod-level resources cannot be removed"));
            return;
        }
        nothing_removed(spec.part("resources"), before.part("resources"), &path, "pod-level resource ", errors);
    }
    if let Some(resources) = rest.object_mut("resources") {
        undo(resources, before.part("resources"));
        if resources.is_empty() && !before.contains_key("resources") {
            rest.remove("resources");
        }
    }
    if rest.get("resources") != before.get("resources") {
        let why = "only cpu and memory resources are mutable at pod-level";
        errors.push(FieldError::forbidden(SPEC, why));
    }
}

/// Containers do not come, go, or change places.
fn same_containers(spec: &Object, before: &Object, errors: &mut Errors) -> bool {
    let known = errors.len();
    for list in LISTS {
        let path = SPEC.child(list);
        if spec.list(list).len() != before.list(list).len() {
            errors.push(FieldError::forbidden(path, format!("{list} may not be added or removed on resize")));
            continue;
        }
        for (i, (new, old)) in spec.items(list).zip(before.items(list)).enumerate() {
            if new.text("name") != old.text("name") {
                let why = format!("{list} may not be renamed or reordered on resize");
                errors.push(FieldError::forbidden(path.index(i).child("name"), why));
            }
        }
    }
    errors.len() == known
}

fn nothing_removed(new: &Object, old: &Object, path: &Path<'_>, what: &str, errors: &mut Errors) {
    for list in ["requests", "limits"] {
        if old.part(list).keys().any(|name| !new.part(list).contains_key(name)) {
            errors.push(FieldError::forbidden(path.child(list), format!("{what}{list} cannot be removed")));
        }
    }
}

/// Checks one container, which gets the old resources where they may change.
fn validate_container(list: &str, container: &mut Object, old: &Object, path: &Path<'_>, errors: &mut Errors) {
    let changed = container != old;
    let resources = container.object_or_new("resources");
    // Upstream forgets the claims here, so that a container that has some cannot be resized.
    resources.remove("claims");
    undo(resources, old.part("resources"));
    let other = container != old;
    if list == "containers" {
        if other {
            errors.push(FieldError::forbidden(SPEC, "only cpu and memory resources are mutable"));
        }
        return;
    }
    if other {
        let why = "only cpu and memory resources for init or sidecar containers are mutable";
        errors.push(FieldError::forbidden(path, why));
    }
    if changed && container.text("restartPolicy") != "Always" {
        let restarts = container.items("resizePolicy").filter(|p| p.text("restartPolicy") == "RestartContainer");
        for _ in restarts {
            let why = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
            errors.push(FieldError::forbidden(path, why));
        }
    }
}

/// Gives resources the old cpu and memory.
fn undo(resources: &mut Object, old: &Object) {
    for list in ["requests", "limits"] {
        let known = resources.object_or_new(list);
        for name in MUTABLE {
            known.carry(name, old.part(list));
        }
        if known.is_empty() {
            resources.remove(list);
        }
    }
}
