//! Metadata's rules that are common to all kinds (API-14, API-17).

use std::borrow::Cow;

use muster_tree::Value;

use crate::field::{FieldError, Shown, go_quote};
use crate::model::{NameRule, Object, fields::Fields};

use super::labels::{validate_annotations, validate_labels};
use super::{Errors, IMMUTABLE, Path, complain, name, non_negative};

const METADATA: Path<'_> = Path::new("metadata");
/// A field manager's name may not be longer than this, in bytes.
const MANAGER_MAX: usize = 128;
/// A subresource's name in managed fields may not be longer than this, in bytes.
const SUBRESOURCE_MAX: usize = 256;

/// How a kind's own checks look at metadata: where kinds differ in the reference, in wording and in what is told twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The kind looks at all, and does not leave it to the rules that hold for all kinds.
    pub own: bool,
    /// Finalizers obey the stricter rule of Kubernetes' own kinds.
    pub strict: bool,
    /// The change of an update is looked at.
    pub change: bool,
    /// What an update makes is looked at as a whole.
    pub whole: bool,
    /// The change is looked at after everything else, and not first.
    pub change_last: bool,
    /// What a name was generated from is looked at as well.
    pub prefix: bool,
}

impl Look {
    /// As most kinds look: at an update's change.
    pub const CHANGE: Self =
        Self { own: true, strict: true, change: true, whole: false, change_last: false, prefix: true };
    /// At an update's change, and at what it makes.
    pub const BOTH: Self =
        Self { own: true, strict: true, change: true, whole: true, change_last: false, prefix: true };
    /// At what an update makes.
    pub const WHOLE: Self =
        Self { own: true, strict: true, change: false, whole: true, change_last: false, prefix: true };

    /// At what an update makes, and in the end at its change.
    pub const BOTH_CHANGE_LAST: Self = Self { change_last: true, ..Self::BOTH };

    /// Not at all.
    pub const NONE: Self =
        Self { own: false, strict: false, change: false, whole: false, change_last: false, prefix: true };

    /// Without regard to finalizers.
    #[must_use]
    pub const fn lenient(mut self) -> Self {
        self.strict = false;
        self
    }

    /// Without regard to what a name was generated from.
    #[must_use]
    pub const fn any_prefix(mut self) -> Self {
        self.prefix = false;
        self
    }

    /// Checks the metadata of a new object, or of an update.
    pub fn check(self, meta: &Object, old: Option<&Object>, namespaced: bool, rule: NameRule, errors: &mut Errors) {
        if !self.change_last {
            self.check_change(meta, old, errors);
        }
        if (old.is_none() && self.own) || self.whole {
            let whole = if self.strict { validate_core } else { validate };
            let mut meta = Cow::Borrowed(meta);
            if !self.prefix && meta.contains_key("generateName") {
                meta.to_mut().remove("generateName");
            }
            whole(&meta, namespaced, rule, errors);
        }
    }

    /// What [`Self::check`] left for later.
    pub fn check_last(self, meta: &Object, old: &Object, errors: &mut Errors) {
        if self.change_last {
            self.check_change(meta, Some(old), errors);
        }
    }

    fn check_change(self, meta: &Object, old: Option<&Object>, errors: &mut Errors) {
        if let Some(old) = old.filter(|_| self.change) {
            let change = if self.strict { validate_core_update } else { validate_update };
            change(meta, old, errors);
        }
    }
}

/// Checks metadata as it is, its name by `rule`.
pub fn validate(meta: &Object, namespaced: bool, rule: NameRule, errors: &mut Errors) {
    let generate_name = meta.text("generateName");
    if !generate_name.is_empty() {
        complain(generate_name, name::by_rule(rule, generate_name, true), &METADATA.child("generateName"), errors);
    }
    let own = meta.text("name");
    if own.is_empty() {
        errors.push(FieldError::required(METADATA.child("name"), "name or generateName is required"));
    } else {
        complain(own, name::by_rule(rule, own, false), &METADATA.child("name"), errors);
    }
    validate_common(meta, namespaced, errors);
}

/// [`validate`], and the finalizers by the stricter rule of Kubernetes' own kinds.
pub fn validate_core(meta: &Object, namespaced: bool, rule: NameRule, errors: &mut Errors) {
    validate(meta, namespaced, rule, errors);
    validate_own_finalizers(meta, errors);
}

/// [`validate_update`], and the finalizers by the stricter rule of Kubernetes' own kinds.
pub fn validate_core_update(meta: &Object, old: &Object, errors: &mut Errors) {
    validate_update(meta, old, errors);
    validate_own_finalizers(meta, errors);
}

/// A finalizer without a domain is one that Kubernetes itself knows.
fn validate_own_finalizers(meta: &Object, errors: &mut Errors) {
    let list = METADATA.child("finalizers");
    for (i, finalizer) in meta.strings("finalizers").enumerate() {
        if !finalizer.contains('/') && !is_standard_finalizer(finalizer) {
            errors.push(FieldError::invalid(
                list.index(i),
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
}

/// Whether Kubernetes itself knows the finalizer.
#[must_use]
pub fn is_standard_finalizer(finalizer: &str) -> bool {
    matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion")
}

/// All but the name.
fn validate_common(meta: &Object, namespaced: bool, errors: &mut Errors) {
    let namespace = meta.text("namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(FieldError::required(METADATA.child("namespace"), "")),
        (true, false) => {
            complain(namespace, name::is_dns1123_label(namespace), &METADATA.child("namespace"), errors);
        }
        (false, false) => {
            errors.push(FieldError::forbidden(METADATA.child("namespace"), "not allowed on this type"));
        }
        (false, true) => {}
    }
    non_negative(meta.int("generation"), &METADATA.child("generation"), errors);
    validate_labels(meta, "labels", &METADATA.child("labels"), errors);
    validate_annotations(meta, "annotations", &METADATA.child("annotations"), errors);
    validate_owner_references(meta, errors);
    validate_finalizers(meta, errors);
    validate_managed_fields(meta, errors);
}

/// Checks a change of metadata.
pub fn validate_update(meta: &Object, old: &Object, errors: &mut Errors) {
    if old.contains_key("deletionTimestamp") {
        let mut added: Vec<&str> =
            meta.strings("finalizers").filter(|f| old.strings("finalizers").all(|o| o != *f)).collect();
        if !added.is_empty() {
            added.sort_unstable();
            added.dedup();
            let quoted: Vec<String> = added.iter().map(|f| go_quote(f)).collect();
            errors.push(FieldError::forbidden(
                METADATA.child("finalizers"),
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    quoted.join(", ")
                ),
            ));
        }
    }
    if meta.int("generation") < old.int("generation") {
        errors.push(FieldError::invalid(
            METADATA.child("generation"),
            meta.int("generation"),
            "must not be decremented",
        ));
    }
    for field in ["name", "namespace", "uid"] {
        if meta.text(field) != old.text(field) {
            errors.push(FieldError::invalid(METADATA.child(field), meta.text(field), IMMUTABLE));
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (new, old) = (meta.get(field).unwrap_or(&Value::Null), old.get(field).unwrap_or(&Value::Null));
        if new != old {
            errors.push(FieldError::invalid(METADATA.child(field), new, IMMUTABLE));
        }
    }
    validate_labels(meta, "labels", &METADATA.child("labels"), errors);
    validate_annotations(meta, "annotations", &METADATA.child("annotations"), errors);
    validate_owner_references(meta, errors);
    validate_managed_fields(meta, errors);
}

fn validate_owner_references(meta: &Object, errors: &mut Errors) {
    if meta.list("ownerReferences").is_empty() {
        return;
    }
    let path = METADATA.child("ownerReferences");
    let mut first_controller: Option<String> = None;
    for owner in meta.items("ownerReferences") {
        let api_version = owner.text("apiVersion");
        let (group, version) = match api_version.split_once('/') {
            // More than one slash is not a group and a version: neither is understood then.
            Some((_, rest)) if rest.contains('/') => ("", ""),
            Some((group, version)) => (group, version),
            None => ("", api_version),
        };
        if version.is_empty() {
            errors.push(FieldError::invalid(path.child("apiVersion"), api_version, "version must not be empty"));
        }
        for field in ["kind", "name", "uid"] {
            if owner.text(field).is_empty() {
                errors.push(FieldError::invalid(path.child(field), "", "must not be empty"));
            }
        }
        if group.is_empty() && version == "v1" && owner.text("kind") == "Event" {
            errors.push(FieldError::invalid(
                path,
                Shown::Bare(owner_text(owner)),
                "/v1, Kind=Event is disallowed from being an owner",
            ));
        }
        if owner.flag("controller") {
            let this = format!("{}/{}", owner.text("kind"), owner.text("name"));
            if let Some(first) = &first_controller {
                let all: Vec<String> = meta.items("ownerReferences").map(owner_text).collect();
                errors.push(FieldError::invalid(
                    path,
                    Shown::Bare(format!("[{}]", all.join(","))),
                    format!("Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"),
                ));
            } else {
                first_controller = Some(this);
            }
        }
    }
}

/// An owner reference as JSON, its fields in the order of Kubernetes' own type.
fn owner_text(owner: &Object) -> String {
    let mut out = String::from("{");
    for (i, field) in ["apiVersion", "kind", "name", "uid"].iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&format!("\"{field}\":{}", Value::from(owner.text(field))));
    }
    for field in ["controller", "blockOwnerDeletion"] {
        if let Some(value) = owner.maybe_flag(field) {
            out.push_str(&format!(",\"{field}\":{value}"));
        }
    }
    out.push('}');
    out
}

fn validate_finalizers(meta: &Object, errors: &mut Errors) {
    let path = METADATA.child("finalizers");
    let (mut orphan, mut foreground) = (false, false);
    for finalizer in meta.strings("finalizers") {
        complain(finalizer, name::is_qualified_name(finalizer), &path, errors);
        orphan |= finalizer == "orphan";
        foreground |= finalizer == "foregroundDeletion";
    }
    if orphan && foreground {
        let all = Value::from(meta.list("finalizers").to_vec());
        errors.push(FieldError::invalid(path, &all, "finalizer orphan and foregroundDeletion cannot be both set"));
    }
}

fn validate_managed_fields(meta: &Object, errors: &mut Errors) {
    for (i, entry) in meta.items("managedFields").enumerate() {
        let list = METADATA.child("managedFields");
        let path = list.index(i);
        if !matches!(entry.text("operation"), "Apply" | "Update") {
            errors.push(FieldError::invalid(
                path.child("operation"),
                entry.text("operation"),
                "must be `Apply` or `Update`",
            ));
        }
        if !matches!(entry.text("fieldsType"), "" | "FieldsV1") {
            errors.push(FieldError::invalid(path.child("fieldsType"), entry.text("fieldsType"), "must be `FieldsV1`"));
        }
        let manager = entry.text("manager");
        if manager.len() > MANAGER_MAX {
            errors.push(FieldError::too_long(path.child("manager"), MANAGER_MAX));
        }
        for (at, c) in manager.char_indices().filter(|(_, c)| c.is_control()) {
            errors.push(FieldError::invalid(
                path.child("manager"),
                manager,
                format!("invalid character U+{:04X} (at position {at})", u32::from(c)),
            ));
        }
        if entry.text("subresource").len() > SUBRESOURCE_MAX {
            errors.push(FieldError::too_long(path.child("subresource"), SUBRESOURCE_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    fn errors_of(meta: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        validate(meta.as_object().expect("an object"), true, NameRule::Subdomain, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    /// Contract: API-14, API-17
    #[test]
    fn metadata_by_the_table() {
        let cases = [
            (json!({"name": "a", "namespace": "n"}), vec![]),
            (json!({"namespace": "n"}), vec!["metadata.name: Required value: name or generateName is required"]),
            (json!({"name": "a"}), vec!["metadata.namespace: Required value"]),
            (
                json!({"name": "a", "namespace": "n", "ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u", "controller": true}]}),
                vec![
                    "metadata.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"e\",\"uid\":\"u\",\"controller\":true}: /v1, Kind=Event is disallowed from being an owner",
                ],
            ),
            (
                json!({"name": "a", "namespace": "n", "ownerReferences": [{}]}),
                vec![
                    "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
                    "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
                    "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
                    "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
                ],
            ),
            (
                json!({"name": "a", "namespace": "n", "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1", "controller": true},
                    {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "2", "controller": true}]}),
                vec![
                    "metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"apps/v1\",\"kind\":\"ReplicaSet\",\"name\":\"r\",\"uid\":\"1\",\"controller\":true},{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"p\",\"uid\":\"2\",\"controller\":true}]: Only one reference can have Controller set to true. Found \"true\" in references for ReplicaSet/r and Pod/p",
                ],
            ),
            (
                json!({"name": "a", "namespace": "n", "finalizers": ["orphan", "foregroundDeletion"]}),
                vec![
                    "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set",
                ],
            ),
            (json!({"name": "a", "namespace": "n", "annotations": {"Example.com/A": "fine"}}), vec![]),
        ];
        for (meta, want) in cases {
            assert_eq!(errors_of(&meta), want, "{meta}");
        }
        let big = json!({"name": "a", "namespace": "n", "annotations": {"a": "x".repeat(256 * 1024)}});
        assert_eq!(errors_of(&big), ["metadata.annotations: Too long: may not be more than 262144 bytes"]);
    }

    /// Contract: API-17, API-18
    #[test]
    fn what_an_update_may_not_change() {
        let old = json!({"name": "a", "namespace": "n", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x.com/a"]});
        let new = json!({"name": "a", "namespace": "n", "uid": "v", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x.com/c", "x.com/b"]});
        let mut errors = Vec::new();
        validate_update(new.as_object().expect("object"), old.as_object().expect("object"), &mut errors);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"x.com/b\", \"x.com/c\"}",
                "metadata.uid: Invalid value: \"v\": field is immutable",
            ]
        );
    }
}
