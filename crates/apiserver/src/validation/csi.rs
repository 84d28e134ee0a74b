//! What drivers of volumes tell of themselves: on a node, in the cluster, of their capacity; and attachments (API-17).

use std::collections::BTreeSet;

use muster_tree::Value;

use crate::field::FieldError;
use crate::model::{Fields as _, Object};
use muster_schema::quantity::Quantity;

use super::pod::warnings::deprecated_node_label;
use super::{Errors, IMMUTABLE, NEGATIVE, Path, complain, internal, name, non_negative, persistentvolume, selector};

const SPEC: Path<'_> = Path::new("spec");
/// A driver's own name for a node may not be longer than this, in bytes.
const NODE_ID_MAX: usize = 256;
/// What an attachment says of itself may not be larger than this, in bytes.
const ATTACHMENT_MAX: usize = 256 * 1024;
/// The message of an attachment's error may not be longer than this, in bytes.
const MESSAGE_MAX: usize = 1024;

/// Checks a CSINode.
pub fn validate_node(node: &Object, old: Option<&Object>, errors: &mut Errors) {
    let empty = Object::new();
    let spec = node.object("spec").unwrap_or(&empty);
    let list = SPEC.child("drivers");
    let mut names = BTreeSet::new();
    for (i, driver) in spec.items("drivers").enumerate() {
        let path = list.index(i);
        let own = driver.text("name");
        validate_driver_name(own, &path.child("name"), errors);
        match driver.text("nodeID") {
            "" => errors.push(FieldError::required(path.child("nodeID"), "")),
            id if id.len() > NODE_ID_MAX => {
                let why = format!("must be {NODE_ID_MAX} characters or less");
                errors.push(FieldError::invalid(path.child("nodeID"), id, why));
            }
            _ => {}
        }
        if let Some(count) = driver.object("allocatable").and_then(|a| a.maybe_int("count")) {
            non_negative(count, &path.child("allocatable").child("count"), errors);
        }
        if !names.insert(own) {
            errors.push(FieldError::duplicate(path.child("name"), own));
        }
        let mut keys = BTreeSet::new();
        for key in driver.strings("topologyKeys") {
            if key.is_empty() {
                errors.push(FieldError::required(path, ""));
            }
            if !keys.insert(key) {
                errors.push(FieldError::duplicate(path, key));
            }
            complain(key, name::is_qualified_name(key), &path, errors);
        }
    }
    let Some(old) = old.and_then(|old| old.object("spec")) else { return };
    for was in old.items("drivers") {
        for driver in spec.items("drivers").filter(|driver| driver.text("name") == was.text("name")) {
            // How many volumes fit may change.
            let fixed = |driver: &Object| {
                let mut driver = driver.clone();
                driver.remove("allocatable");
                driver
            };
            if fixed(driver) != fixed(was) {
                errors.push(FieldError::invalid(list, internal::shown("CSINodeDriver", &fixed(driver)), IMMUTABLE));
            }
        }
    }
}

/// Checks a driver's name: a subdomain of any case, at most 63 bytes.
pub fn validate_driver_name(driver: &str, path: &Path<'_>, errors: &mut Errors) {
    if driver.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if driver.len() > 63 {
        errors.push(FieldError::too_long(path, 63));
    }
    complain(driver, name::is_dns1123_subdomain(&driver.to_lowercase()), path, errors);
}

/// Checks a CSIDriver.
pub fn validate_driver(driver: &Object, old: Option<&Object>, errors: &mut Errors) {
    const POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
    const MODES: [&str; 2] = ["Persistent", "Ephemeral"];
    let empty = Object::new();
    let spec = driver.object("spec").unwrap_or(&empty);
    for (field, shown) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ] {
        if spec.maybe_flag(field).is_none() {
            errors.push(FieldError::required(SPEC.child(shown), ""));
        }
    }
    if let Some(policy) = spec.maybe_text("fsGroupPolicy").filter(|p| !POLICIES.contains(p)) {
        errors.push(FieldError::not_supported(SPEC.child("fsGroupPolicy"), policy, &POLICIES));
    }
    validate_tokens(spec, errors);
    let modes = SPEC.child("volumeLifecycleModes");
    for mode in spec.strings("volumeLifecycleModes").filter(|mode| !MODES.contains(mode)) {
        errors.push(FieldError::not_supported(modes, mode, &MODES));
    }
    if spec.maybe_flag("seLinuxMount").is_none() {
        errors.push(FieldError::required(SPEC.child("seLinuxMount"), ""));
    }
    if let Some(period) = spec.maybe_int("nodeAllocatableUpdatePeriodSeconds").filter(|period| *period < 10) {
        let path = SPEC.child("nodeAllocatableUpdatePeriodSeconds");
        errors.push(FieldError::invalid(path, period, "must be greater than or equal to 10 seconds"));
    }
    if let Some(secrets) = spec.maybe_flag("serviceAccountTokenInSecrets")
        && spec.list("tokenRequests").is_empty()
    {
        let why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.push(FieldError::invalid(SPEC.child("serviceAccountTokenInSecrets"), secrets, why));
    }
    let Some(old) = old.and_then(|old| old.object("spec")) else { return };
    for (field, shown) in [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")] {
        if spec.get(field) != old.get(field) {
            errors.push(FieldError::invalid(SPEC.child(shown), spec.get(field).unwrap_or(&Value::Null), IMMUTABLE));
        }
    }
}

fn validate_tokens(spec: &Object, errors: &mut Errors) {
    let list = SPEC.child("tokenRequests");
    let mut audiences = BTreeSet::new();
    for (i, request) in spec.items("tokenRequests").enumerate() {
        let path = list.index(i);
        let audience = request.text("audience");
        if !audiences.insert(audience) {
            errors.push(FieldError::duplicate(path.child("audience"), audience));
            continue;
        }
        let Some(seconds) = request.maybe_int("expirationSeconds") else { continue };
        let mut wrong = |why: &str| errors.push(FieldError::invalid(path.child("expirationSeconds"), seconds, why));
        if seconds < 600 {
            wrong("may not specify a duration less than 10 minutes");
        }
        if seconds > 1 << 32 {
            wrong("may not specify a duration larger than 2^32 seconds");
        }
    }
}

/// Checks a CSIStorageCapacity.
pub fn validate_capacity(capacity: &Object, old: Option<&Object>, errors: &mut Errors) {
    let path = Path::new("nodeTopology");
    if let Some(topology) = capacity.object("nodeTopology") {
        let mut known = Errors::new();
        if let Some(old) = old.and_then(|old| old.object("nodeTopology")) {
            selector::validate(old, false, &path, &mut known);
        }
        selector::validate(topology, !known.is_empty(), &path, errors);
    }
    let class = capacity.text("storageClassName");
    complain(class, name::is_dns1123_subdomain(class), &Path::new("storageClassName"), errors);
    if let Some(quantity) = capacity.maybe_text("capacity")
        && Quantity::of(quantity).is_negative()
    {
        errors.push(FieldError::invalid(Path::new("capacity"), quantity, NEGATIVE));
    }
    let Some(old) = old else { return };
    if capacity.get("nodeTopology") != old.get("nodeTopology") {
        errors.push(FieldError::invalid(path, selector::shown(capacity.object("nodeTopology")), IMMUTABLE));
    }
    if class != old.text("storageClassName") {
        errors.push(FieldError::invalid(Path::new("storageClassName"), class, IMMUTABLE));
    }
}

/// Warnings for a CSIStorageCapacity: labels that have got another name.
#[must_use]
pub fn capacity_warnings(capacity: &Object) -> Vec<String> {
    let Some(topology) = capacity.object("nodeTopology") else { return Vec::new() };
    let mut out = Vec::new();
    for (i, key) in topology.items("matchExpressions").map(|r| r.text("key")).enumerate() {
        if let Some(why) = deprecated_node_label(key) {
            out.push(format!("nodeTopology.matchExpressions[{i}].key: {key} is {why}"));
        }
    }
    for (key, _) in topology.pairs("matchLabels") {
        if let Some(why) = deprecated_node_label(key) {
            out.push(format!("nodeTopology.matchLabels.{key}: {why}"));
        }
    }
    out
}

/// Checks a VolumeAttachment.
pub fn validate_attachment(attachment: &Object, old: Option<&Object>, errors: &mut Errors) {
    let empty = Object::new();
    let spec = attachment.object("spec").unwrap_or(&empty);
    validate_driver_name(spec.text("attacher"), &SPEC.child("attacher"), errors);
    let source = spec.object("source").unwrap_or(&empty);
    let path = SPEC.child("source");
    let volume = source.maybe_text("persistentVolumeName");
    const EXACTLY_ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (source.object("inlineVolumeSpec"), volume) {
        (None, None) => errors.push(FieldError::required(path, EXACTLY_ONE)),
        (Some(_), Some(_)) => errors.push(FieldError::forbidden(path, EXACTLY_ONE)),
        (None, Some("")) => {
            let why = "must specify non empty persistentVolumeName";
            errors.push(FieldError::required(path.child("persistentVolumeName"), why));
        }
        (None, Some(_)) => {}
        (Some(inline), None) => {
            persistentvolume::validate_inline_spec(inline, &path.child("inlineVolumeSpec"), errors);
        }
    }
    let node = spec.text("nodeName");
    complain(node, name::is_dns1123_subdomain(node), &SPEC.child("nodeName"), errors);
    validate_attachment_status(attachment, errors);
    if let Some(volume) = volume {
        let path = Path::new("spec.source.persistentVolumeName");
        complain(volume, name::is_dns1123_subdomain(volume), &path, errors);
    }
    if let Some(old) = old
        && spec != old.object("spec").unwrap_or(&empty)
    {
        errors.push(FieldError::invalid(SPEC, internal::shown("VolumeAttachmentSpec", spec), IMMUTABLE));
    }
}

fn validate_attachment_status(attachment: &Object, errors: &mut Errors) {
    let Some(status) = attachment.object("status") else { return };
    let path = Path::new("status");
    let size: usize = status.pairs("attachmentMetadata").map(|(key, value)| key.len() + value.len()).sum();
    if size > ATTACHMENT_MAX {
        errors.push(FieldError::too_long(path.child("attachmentMetadata"), ATTACHMENT_MAX));
    }
    for field in ["attachError", "detachError"] {
        let Some(error) = status.object(field) else { continue };
        let path = path.child(field);
        if error.text("message").len() > MESSAGE_MAX {
            // Upstream names the other limit.
            errors.push(FieldError::too_long(path.child("message"), ATTACHMENT_MAX));
        }
        if let Some(code) = error.maybe_int("errorCode").filter(|code| *code < 0) {
            let why = name::inclusive_range(0, i64::from(i32::MAX));
            errors.push(FieldError::invalid(path.child("errorCode"), code, why));
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    type Check = fn(&Object, Option<&Object>, &mut Errors);

    fn texts(check: Check, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut errors = Errors::new();
        check(object.as_object().expect("an object"), old.and_then(Value::as_object), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    /// Contract: API-25
    #[test]
    fn nodes_by_the_table() {
        let node = |driver: Value| json!({"spec": {"drivers": [driver]}});
        let plain =
            node(json!({"name": "d.io", "nodeID": "n", "topologyKeys": ["a.io/k"], "allocatable": {"count": 3}}));
        assert_eq!(texts(validate_node, &plain, None), Vec::<String>::new());
        let more =
            node(json!({"name": "d.io", "nodeID": "n", "topologyKeys": ["a.io/k"], "allocatable": {"count": 4}}));
        assert_eq!(texts(validate_node, &more, Some(&plain)), Vec::<String>::new());
        let other = node(json!({"name": "d.io", "nodeID": "m"}));
        assert_eq!(
            texts(validate_node, &other, Some(&plain)),
            [
                "spec.drivers: Invalid value: {\"Name\":\"d.io\",\"NodeID\":\"m\",\"TopologyKeys\":null,\"Allocatable\":null}: field is immutable"
            ]
        );
        let wrong = json!({"spec": {"drivers": [
            {"name": "d.io", "nodeID": "", "allocatable": {"count": -1}},
            {"name": "d.io", "nodeID": "n", "topologyKeys": ["k", "k"]},
        ]}});
        assert_eq!(
            texts(validate_node, &wrong, None),
            [
                "spec.drivers[0].nodeID: Required value",
                "spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
                "spec.drivers[1].name: Duplicate value: \"d.io\"",
                "spec.drivers[1]: Duplicate value: \"k\"",
            ]
        );
    }

    /// Contract: API-25
    #[test]
    fn drivers_by_the_table() {
        let plain = json!({"spec": {
            "attachRequired": true, "podInfoOnMount": false, "storageCapacity": false, "seLinuxMount": false,
            "volumeLifecycleModes": ["Persistent"], "fsGroupPolicy": "File",
        }});
        assert_eq!(texts(validate_driver, &plain, None), Vec::<String>::new());
        let mut wrong = plain.clone();
        wrong["spec"]["attachRequired"] = json!(false);
        wrong["spec"]["volumeLifecycleModes"] = json!(["Odd"]);
        wrong["spec"]["tokenRequests"] = json!([{"audience": "a", "expirationSeconds": 5}, {"audience": "a"}]);
        assert_eq!(
            texts(validate_driver, &wrong, Some(&plain)),
            [
                "spec.tokenRequests[0].expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes",
                "spec.tokenRequests[1].audience: Duplicate value: \"a\"",
                "spec.volumeLifecycleModes: Unsupported value: \"Odd\": supported values: \"Persistent\", \"Ephemeral\"",
                "spec.attachedRequired: Invalid value: false: field is immutable",
                "spec.volumeLifecycleModes: Invalid value: [\"Odd\"]: field is immutable",
            ]
        );
    }

    /// Contract: API-25
    #[test]
    fn attachments_by_the_table() {
        let attachment = |source: Value| json!({"spec": {"attacher": "d.io", "nodeName": "n", "source": source}});
        let plain = attachment(json!({"persistentVolumeName": "v"}));
        assert_eq!(texts(validate_attachment, &plain, None), Vec::<String>::new());
        assert_eq!(
            texts(validate_attachment, &attachment(json!({})), Some(&plain)),
            [
                "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
                "spec: Invalid value: {\"Attacher\":\"d.io\",\"Source\":{\"PersistentVolumeName\":null,\"InlineVolumeSpec\":null},\"NodeName\":\"n\"}: field is immutable",
            ]
        );
        let inline =
            attachment(json!({"inlineVolumeSpec": {"capacity": {"storage": "1"}, "accessModes": ["ReadWriteOnce"]}}));
        assert_eq!(
            texts(validate_attachment, &inline, None),
            [
                "spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes",
                "spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes",
                "spec.source.inlineVolumeSpec: Required value: must specify a volume type",
            ]
        );
    }
}
