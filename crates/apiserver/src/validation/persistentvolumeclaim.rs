//! Claims of persistent volumes (API-17).

use muster_tree::{Value, json};

use crate::field::FieldError;
use crate::model::{Fields as _, Object, metadata};
use muster_schema::quantity::Quantity;

use super::pod::claims::validate_claim_spec;
use super::pod::diff;
use super::pod::resources::{is_native_resource, validate_quantity_value};
use super::{Errors, IMMUTABLE, Path, complain, internal, name};

const SPEC: Path<'_> = Path::new("spec");
/// The annotation that named a claim's class before there was a field for it.
pub const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The class that a claim asks for: by the annotation, else by its field. `None` where it says nothing of it.
#[must_use]
pub fn class(claim: &Object) -> Option<&str> {
    let annotated = metadata(claim).object("annotations").and_then(|a| a.maybe_text(CLASS_ANNOTATION));
    annotated.or_else(|| claim.object("spec")?.maybe_text("storageClassName"))
}

/// Checks a claim.
pub fn validate(claim: &Object, old: Option<&Object>, errors: &mut Errors) {
    let empty = Object::new();
    let spec = claim.object("spec").unwrap_or(&empty);
    let before = old.and_then(|old| old.object("spec"));
    validate_claim_spec(spec, before, &SPEC, errors);
    if let (Some(old), Some(before)) = (old, before) {
        validate_change(claim, old, spec, before, errors);
    }
}

fn validate_change(claim: &Object, old: &Object, spec: &Object, before: &Object, errors: &mut Errors) {
    let (mut new, mut was) = (spec.clone(), before.clone());
    if before.text("volumeName").is_empty() {
        was.carry("volumeName", spec);
    }
    let annotation = |o: &Object| -> Option<String> {
        Some(metadata(o).object("annotations")?.maybe_text(CLASS_ANNOTATION)?.to_owned())
    };
    let (annotated, was_annotated) = (annotation(claim), annotation(old));
    let (class, old_class) = (spec.maybe_text("storageClassName"), before.maybe_text("storageClassName"));
    let moved = was_annotated.is_some()
        && old_class.is_none()
        && class == was_annotated.as_deref()
        && (annotated.is_none() || annotated == was_annotated);
    if moved {
        new.remove("storageClassName");
    } else {
        if annotated.as_deref().unwrap_or_default() != was_annotated.as_deref().unwrap_or_default() {
            let meta = Path::new("metadata");
            let path = meta.child("annotations");
            errors.push(FieldError::invalid(path.child(CLASS_ANNOTATION), annotated.unwrap_or_default(), IMMUTABLE));
        }
        if class.is_some() && old_class.is_none() && was_annotated.is_none_or(|was| class == Some(&was)) {
            new.carry("storageClassName", before);
        }
    }
    let status = |o: &Object, field: &str| o.object("status").and_then(|s| s.get(field)).cloned();
    let storage =
        |spec: &Object| -> Option<Value> { spec.object("resources")?.object("requests")?.get("storage").cloned() };
    if status(claim, "phase") == Some(Value::from("Bound")) {
        if let Some(requests) = new.object_mut("resources").and_then(|r| r.object_mut("requests")) {
            // Upstream writes a zero where there was none.
            requests.insert("storage", storage(before).unwrap_or_else(|| json!("0")));
        }
        new.carry("volumeAttributesClassName", before);
    }
    normalize_sources(&mut was);
    if new != was {
        let lines = |spec: &Object| internal::lines("PersistentVolumeClaimSpec", spec);
        let difference = diff::unified(&lines(&was), &lines(&new));
        let why = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{difference}"
        );
        errors.push(FieldError::forbidden(SPEC, why));
    }
    let quantity = |value: Option<Value>| Quantity::of(value.as_ref().and_then(Value::as_str).unwrap_or("0"));
    let asked = quantity(storage(spec));
    if asked.compare(&quantity(storage(before))).is_lt() {
        let capacity = status(old, "capacity").and_then(|c| c.get("storage").cloned());
        if asked.compare(&quantity(capacity)).is_le() {
            let path = "spec.resources.requests.storage";
            errors.push(FieldError::forbidden(path, "field can not be less than status.capacity"));
        }
    }
    let (mode, old_mode) = (spec.get("volumeMode"), before.get("volumeMode"));
    if mode != old_mode {
        errors.push(FieldError::invalid(Path::new("volumeMode"), mode.unwrap_or(&Value::Null), IMMUTABLE));
    }
    let attributes = spec.maybe_text("volumeAttributesClassName");
    if attributes != before.maybe_text("volumeAttributesClassName")
        && status(old, "currentVolumeAttributesClassName").is_some_and(|c| !c.is_null())
        && attributes.is_none_or(str::is_empty)
    {
        let what = if attributes.is_none() { "nil" } else { "empty string" };
        let why = format!("update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil");
        errors.push(FieldError::forbidden(SPEC.child("volumeAttributesClassName"), why));
    }
}

/// A claim has its source in an old field and in a newer one, which say the same.
pub fn normalize_sources(spec: &mut Object) {
    let copied = |source: &Object| {
        let each = ["apiGroup", "kind", "name"].into_iter();
        each.filter_map(|field| Some((field.to_owned(), source.get(field)?.clone()))).collect::<Object>()
    };
    match (spec.object("dataSource"), spec.object("dataSourceRef")) {
        (Some(source), None) => {
            let reference = copied(source);
            spec.insert("dataSourceRef", Value::Object(reference));
        }
        (None, Some(reference)) if reference.text("namespace").is_empty() => {
            let source = copied(reference);
            spec.insert("dataSource", Value::Object(source));
        }
        _ => {}
    }
}

/// Leaves out what a claim may not be made from: in the old field, whatever is neither a claim nor a snapshot; and what
/// lies in another namespace.
pub fn drop_other_sources(spec: &mut Object, old: Option<&Object>) {
    if spec.object("dataSourceRef").is_some_and(|r| !r.text("namespace").is_empty())
        && old.is_none_or(|old| !old.contains_key("dataSourceRef"))
    {
        spec.remove("dataSourceRef");
    }
    let had = old.is_some_and(|old| old.contains_key("dataSource") || old.contains_key("dataSourceRef"));
    if had || spec.contains_key("dataSourceRef") {
        return;
    }
    let known = spec.object("dataSource").is_some_and(|source| {
        matches!(
            (source.text("kind"), source.text("apiGroup")),
            ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
        )
    });
    if !known {
        spec.remove("dataSource");
    }
}

/// Checks a write of a claim's status.
pub fn validate_status(claim: &Object, errors: &mut Errors) {
    const STATES: [&str; 5] = [
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizePending",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
    ];
    if metadata(claim).text("resourceVersion").is_empty() {
        errors.push(FieldError::required(Path::new("resourceVersion"), ""));
    }
    if claim.object("spec").is_none_or(|spec| spec.list("accessModes").is_empty()) {
        errors.push(FieldError::required(Path::new("Spec").child("accessModes"), ""));
    }
    let Some(status) = claim.object("status") else { return };
    let path = Path::new("status");
    let capacity = path.child("capacity");
    for (resource, text) in status.pairs("capacity") {
        validate_amount(text, &capacity.key(resource), errors);
    }
    let states = path.child("allocatedResourceStatuses");
    for (resource, state) in status.pairs("allocatedResourceStatuses") {
        validate_resource(resource, &states, errors);
        if !STATES.contains(&state) {
            let mut sorted = STATES;
            sorted.sort_unstable();
            errors.push(FieldError::not_supported(states, resource, &sorted));
        }
    }
    let allocated = path.child("allocatedResources");
    for (resource, text) in status.pairs("allocatedResources") {
        let found = errors.len();
        validate_resource(resource, &allocated, errors);
        if errors.len() == found {
            validate_amount(text, &allocated.key(resource), errors);
        }
        if errors.len() == found {
            validate_quantity_value(text, false, &allocated.key(resource), errors);
        }
    }
}

fn validate_amount(text: &str, path: &Path<'_>, errors: &mut Errors) {
    let value = Quantity::of(text).value();
    if value < 0 {
        errors.push(FieldError::invalid(path, value, "must be a valid resource quantity"));
    }
}

fn validate_resource(resource: &str, path: &Path<'_>, errors: &mut Errors) {
    let complaints = name::is_qualified_name(resource);
    if complaints.is_empty() && is_native_resource(resource) && resource != "storage" {
        errors.push(FieldError::not_supported(path, resource, &["storage"]));
    }
    complain(resource, complaints, path, errors);
}

/// Warnings for a claim.
#[must_use]
pub fn warnings(claim: &Object) -> Vec<String> {
    let mut out = Vec::new();
    if metadata(claim).object("annotations").is_some_and(|a| a.contains_key(CLASS_ANNOTATION)) {
        out.push(format!(
            "metadata.annotations[{CLASS_ANNOTATION}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
        ));
    }
    if let Some(spec) = claim.object("spec") {
        out.extend(spec_warnings(&SPEC, spec));
    }
    out
}

/// Warnings for the spec of a claim: storage comes in whole bytes.
#[must_use]
pub fn spec_warnings(path: &Path<'_>, spec: &Object) -> Vec<String> {
    let resources = spec.object("resources");
    let mut out = Vec::new();
    for list in ["requests", "limits"] {
        let Some(text) = resources.and_then(|r| r.object(list)).and_then(|l| l.maybe_text("storage")) else { continue };
        if Quantity::of(text).milli_value() % 1000 != 0 {
            let at = path.child("resources");
            let at = at.child(list);
            let quoted = crate::field::go_quote(text);
            let at = at.key("storage");
            out.push(format!("{at}: fractional byte value {quoted} is invalid, must be an integer"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(change: impl FnOnce(&mut Value)) -> Object {
        let mut claim = json!({
            "metadata": {"name": "c"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, "volumeMode": "Filesystem"},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
        });
        change(&mut claim);
        claim.as_object().cloned().unwrap_or_default()
    }

    fn texts(new: &Object, old: &Object) -> Vec<String> {
        let mut errors = Errors::new();
        validate(new, Some(old), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    /// Contract: API-25
    #[test]
    fn what_may_change_of_a_claim() {
        let plain = claim(|_| ());
        let size = |size: &str| claim(|c| c["spec"]["resources"]["requests"]["storage"] = json!(size));
        let none: [String; 0] = [];
        assert_eq!(texts(&size("3Gi"), &plain), none);
        // Down again, while the volume is not that large yet.
        assert_eq!(texts(&size("1500Mi"), &plain), none);
        assert_eq!(
            texts(&size("1Gi"), &plain),
            ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]
        );
        assert_eq!(texts(&claim(|c| c["spec"]["volumeName"] = json!("v")), &plain), none);
        assert_eq!(texts(&claim(|c| c["spec"]["storageClassName"] = json!("s")), &plain), none);
        let annotated = claim(|c| c["metadata"]["annotations"] = json!({CLASS_ANNOTATION: "s"}));
        assert_eq!(texts(&claim(|c| c["spec"]["storageClassName"] = json!("s")), &annotated), none);
        assert_eq!(
            texts(&annotated, &plain),
            ["metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: \"s\": field is immutable"]
        );
        let modes = texts(&claim(|c| c["spec"]["accessModes"] = json!(["ReadWriteMany"])), &plain);
        assert!(modes[0].contains("\n-  \"ReadWriteOnce\"\n+  \"ReadWriteMany\"\n"), "{modes:?}");
    }

    /// Contract: API-25
    #[test]
    fn sources_say_the_same_twice() {
        let normal = |mut spec: Value| {
            let own = spec.as_object_mut().expect("an object");
            drop_other_sources(own, None);
            normalize_sources(own);
            spec
        };
        let of = |kind: &str| json!({"kind": kind, "name": "n"});
        assert_eq!(
            normal(json!({"dataSource": of("PersistentVolumeClaim")})),
            json!({"dataSource": of("PersistentVolumeClaim"), "dataSourceRef": of("PersistentVolumeClaim")})
        );
        assert_eq!(normal(json!({"dataSource": of("Pod")})), json!({}));
        assert_eq!(
            normal(json!({"dataSourceRef": of("Pod")})),
            json!({"dataSource": of("Pod"), "dataSourceRef": of("Pod")})
        );
        assert_eq!(normal(json!({"dataSourceRef": {"kind": "P", "name": "n", "namespace": "o"}})), json!({}));
    }

    /// Contract: API-25
    #[test]
    fn storage_comes_in_whole_bytes() {
        let odd = claim(|c| c["spec"]["resources"]["requests"]["storage"] = json!("1500m"));
        assert_eq!(
            warnings(&odd),
            ["spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer"]
        );
    }
}
