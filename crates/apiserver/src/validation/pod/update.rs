//! What of a pod may change: images, deadlines, tolerations that come and gates that go (API-17).

use muster_tree::Value;

use crate::field::{FieldError, Shown, go_quote};
use crate::model::{
    Object,
    fields::{Fields, metadata},
};
use crate::validation::{Errors, internal, meta, name, selector};

use super::options::Options;
use super::{METADATA, SPEC, affinity, annotations, diff, scheduling, validate_metadata_and_spec};

/// What a change may touch, as the refusal lists it.
const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Checks a change of a pod.
pub fn validate_update(pod: &Object, old: &Object, errors: &mut Errors) {
    let empty = Object::new();
    let spec = pod.object("spec").unwrap_or(&empty);
    let before = old.object("spec").unwrap_or(&empty);
    let options = Options::for_pod(Some(old));
    meta::validate_core_update(metadata(pod), metadata(old), errors);
    validate_metadata_and_spec(pod, &options, errors);
    let at = METADATA.child("annotations");
    annotations::validate_change(metadata(pod), metadata(old), &at, errors);
    annotations::validate(metadata(pod), spec, &at, &options, errors);
    for list in ["containers", "initContainers"] {
        let path = SPEC.child(list);
        if spec.list(list).len() != before.list(list).len() {
            errors.push(FieldError::forbidden(path, "pod updates may not add or remove containers"));
            return;
        }
        for (i, container) in spec.items(list).enumerate() {
            let image = container.text("image");
            let path = path.index(i);
            if image.is_empty() {
                errors.push(FieldError::required(path.child("image"), ""));
            }
            if image.trim().len() != image.len() {
                errors.push(FieldError::invalid(
                    path.child("image"),
                    image,
                    "must not have leading or trailing whitespace",
                ));
            }
        }
    }
    if !validate_deadline(spec, before, errors) {
        return;
    }
    validate_tolerations(spec, before, errors);
    validate_gates(spec, before, errors);
    if spec == before {
        return;
    }
    let mut munged = allowed_undone(spec, before);
    if !before.list("schedulingGates").is_empty() {
        validate_gated(&mut munged, before, errors);
    }
    if munged != *before {
        let text = |spec: &Object| internal::lines("PodSpec", spec);
        let difference = diff::unified(&text(before), &text(&munged));
        errors.push(FieldError::forbidden(
            SPEC,
            format!("pod updates may not change fields other than {CHANGEABLE}\n{difference}"),
        ));
    }
}

/// Checks what was added to a pod's ephemeral containers. Those that are there stay as they are.
pub fn validate_ephemeral_update(pod: &Object, old: &Object, errors: &mut Errors) {
    if metadata(old).part("annotations").contains_key(annotations::MIRROR) {
        errors.push(FieldError::forbidden("[]", "static pods do not support ephemeral containers"));
        return;
    }
    let options = Options::for_pod(Some(old));
    meta::validate_core_update(metadata(pod), metadata(old), errors);
    validate_metadata_and_spec(pod, &options, errors);
    let at = METADATA.child("annotations");
    annotations::validate_change(metadata(pod), metadata(old), &at, errors);
    annotations::validate(metadata(pod), pod.part("spec"), &at, &options, errors);
    let (list, path) = ("ephemeralContainers", SPEC.child("ephemeralContainers"));
    for old in old.part("spec").items(list) {
        let own = old.text("name");
        // Of two of one name the last counts.
        let why = match pod.part("spec").items(list).filter(|new| new.text("name") == own).last() {
            None => format!("existing ephemeral containers {} may not be removed\n", go_quote(own)),
            Some(new) if new != old => {
                let text = |container: &Object| internal::lines("EphemeralContainer", container);
                let difference = diff::unified(&text(old), &text(new));
                format!("existing ephemeral containers {} may not be changed\n{difference}", go_quote(own))
            }
            Some(_) => continue,
        };
        errors.push(FieldError::forbidden(path, why));
    }
}

/// A deadline may come, and come nearer. Says whether to look further.
fn validate_deadline(spec: &Object, before: &Object, errors: &mut Errors) -> bool {
    let path = SPEC.child("activeDeadlineSeconds");
    match (spec.maybe_int("activeDeadlineSeconds"), before.maybe_int("activeDeadlineSeconds")) {
        (Some(new), old) => {
            let max = i64::from(i32::MAX);
            if !(0..=max).contains(&new) {
                errors.push(FieldError::invalid(path, new, name::inclusive_range(0, max)));
                return false;
            }
            if old.is_some_and(|old| old < new) {
                errors.push(FieldError::invalid(path, new, "must be less than or equal to previous value"));
                return false;
            }
        }
        (None, Some(_)) => {
            errors.push(FieldError::invalid(
                path,
                &Value::Null,
                "must not update from a positive integer to nil value",
            ));
        }
        (None, None) => {}
    }
    true
}

/// Tolerations may come, and change their seconds.
fn validate_tolerations(spec: &Object, before: &Object, errors: &mut Errors) {
    let path = SPEC.child("tolerations");
    let same = |a: &Object, b: &Object| {
        ["key", "operator", "value", "effect"].iter().all(|field| a.text(field) == b.text(field))
    };
    for old in before.items("tolerations") {
        if !spec.items("tolerations").any(|new| same(old, new)) {
            errors.push(FieldError::forbidden(
                path,
                "existing toleration can not be modified except its tolerationSeconds",
            ));
            return;
        }
    }
    scheduling::validate_tolerations(spec, &path, errors);
}

/// Scheduling gates may go.
fn validate_gates(spec: &Object, before: &Object, errors: &mut Errors) {
    let path = SPEC.child("schedulingGates");
    let gates: Vec<&Object> = spec.items("schedulingGates").collect();
    for (i, gate) in gates.iter().enumerate() {
        let own = gate.text("name");
        let last = gates[i + 1..].iter().all(|g| g.text("name") != own);
        if last && before.items("schedulingGates").all(|old| old.text("name") != own) {
            errors.push(FieldError::forbidden(
                path.index(i).child("name"),
                format!("only deletion is allowed, but found new scheduling gate '{own}'"),
            ));
        }
    }
}

/// The new spec with everything that may change as it was before: what is left differs where it may not.
fn allowed_undone(spec: &Object, before: &Object) -> Object {
    let mut munged = spec.clone();
    for list in ["containers", "initContainers"] {
        for (container, old) in munged.items_mut(list).zip(before.items(list)) {
            container.carry("image", old);
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        munged.carry(field, before);
    }
    let grace = "terminationGracePeriodSeconds";
    if before.int(grace) < 0 && munged.int(grace) == 1 {
        munged.carry(grace, before);
    }
    munged
}

/// While gates hold a pod, where it may run can still be narrowed.
fn validate_gated(munged: &mut Object, before: &Object, errors: &mut Errors) {
    let (new, old) = (munged.object("nodeSelector").cloned(), before.object("nodeSelector"));
    if new.as_ref() != old {
        let kept = before
            .pairs("nodeSelector")
            .all(|(key, value)| new.as_ref().and_then(|n| n.maybe_text(key)) == Some(value));
        if !kept {
            errors.push(FieldError::invalid(
                SPEC.child("nodeSelector"),
                selector::shown_labels(new.as_ref()),
                "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
            ));
        }
        munged.carry("nodeSelector", before);
    }
    let node = |o: &Object| o.object("affinity").and_then(|a| a.object("nodeAffinity")).cloned();
    let (new, old) = (node(munged), node(before));
    if new == old {
        return;
    }
    validate_node_affinity_change(munged.object("affinity"), before.object("affinity"), errors);
    let others =
        munged.object("affinity").is_some_and(|a| a.contains_key("podAffinity") || a.contains_key("podAntiAffinity"));
    match (munged.contains_key("affinity"), old) {
        (false, Some(old)) => {
            munged.object_or_new("affinity").insert("nodeAffinity", Value::Object(old));
        }
        (true, None) if !before.contains_key("affinity") && !others => {
            munged.remove("affinity");
        }
        (true, Some(old)) => {
            munged.object_or_new("affinity").insert("nodeAffinity", Value::Object(old));
        }
        (true, None) => {
            munged.object_or_new("affinity").remove("nodeAffinity");
        }
        (false, None) => {}
    }
}

fn validate_node_affinity_change(new: Option<&Object>, old: Option<&Object>, errors: &mut Errors) {
    let Some(old) = affinity::required_node_terms(old).filter(|terms| !terms.is_empty()) else { return };
    let given = affinity::required_node_terms(new);
    let new = given.unwrap_or_default();
    let affinity = SPEC.child("affinity");
    let node = affinity.child("nodeAffinity");
    let required = node.child("requiredDuringSchedulingIgnoredDuringExecution");
    let path = required.child("nodeSelectorTerms");
    let dump =
        |term: &Value| internal::shown("NodeSelectorTerm", term.as_object().unwrap_or(&Object::new())).to_string();
    if new.len() != old.len() {
        let each: Vec<String> = new.iter().map(dump).collect();
        let shown = if given.is_none() { "null".to_owned() } else { format!("[{}]", each.join(",")) };
        errors.push(FieldError::invalid(
            path,
            Shown::Bare(shown),
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        ));
        return;
    }
    for (i, (new, old)) in new.iter().zip(old).enumerate() {
        let list = |term: &Value, field: &str| term.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
        let fields = ["matchExpressions", "matchFields"];
        let was_empty = fields.iter().all(|field| list(old, field).is_empty());
        let fine = if was_empty {
            fields.iter().all(|field| list(new, field).is_empty())
        } else {
            fields.iter().all(|field| list(new, field).starts_with(&list(old, field)))
        };
        if !fine {
            errors.push(FieldError::invalid(
                path.index(i),
                Shown::Bare(dump(new)),
                "only additions are allowed (no mutations or deletions)",
            ));
        }
    }
}
