//! DeviceClass, ResourceClaim, ResourceClaimTemplate and ResourceSlice: devices, and who has them (API-43).

use std::collections::BTreeSet;

use muster_objects::time::Timestamp;
use muster_tree::Value;

use super::{
    AGE_COLUMN, Column, NAME_COLUMN, Object, Part, Resource, Row, Subresource, keep_metadata, raise_if_changed,
};
use crate::cel::devices::check;
use crate::model::fields::set_generation;
use crate::model::{Fields as _, metadata};
use crate::validation::devices::{self as rules, DeviceId};
use crate::validation::meta::Look;

/// The group of all four.
pub const GROUP: &str = "resource.k8s.io";

/// Which devices can be asked for by one name.
pub(super) fn class() -> Row {
    Row {
        metadata: Look::BOTH.any_prefix(),
        counts_spec: true,
        validate: |class, old, errors| rules::validate_class(class, old, check, errors),
        ..Row::new(Resource::cluster(GROUP, "v1", "DeviceClass", "deviceclasses").returns_deleted())
    }
}

/// What somebody asks for, and what has been given.
pub(super) fn claim() -> Row {
    Row {
        metadata: Look::BOTH,
        default: |claim| {
            default_requests(claim.object_mut("spec"));
            let allocation = claim.object_mut("status").and_then(|status| status.object_mut("allocation"));
            if let Some(devices) = allocation.and_then(|allocation| allocation.object_mut("devices")) {
                devices.items_mut("results").for_each(default_tolerations);
            }
        },
        prepare: |part, claim, old| {
            if let Some(old) = old.filter(|_| part != Part::Main) {
                keep_metadata(claim, old);
                forget_devices_given_back(claim, old);
            }
        },
        validate: |claim, old, errors| rules::validate_claim(claim, old, check, errors),
        validate_part: |_, claim, old, errors| rules::validate_status(claim, old, errors),
        columns: &CLAIM_COLUMNS,
        ..Row::new(
            Resource::namespaced(GROUP, "v1", "ResourceClaim", "resourceclaims")
                .parts(&[Subresource::Status])
                .returns_deleted(),
        )
    }
}

static CLAIM_COLUMNS: [Column; 3] = [
    NAME_COLUMN,
    Column::text("State", "A summary of the current state (allocated, pending, reserved, etc.).")
        .by(|claim, _| state(claim).into()),
    AGE_COLUMN,
];

fn state(claim: &Object) -> String {
    let status = claim.part("status");
    let (deleted, given) = (metadata(claim).contains_key("deletionTimestamp"), status.contains_key("allocation"));
    let states = [
        ("deleted", deleted),
        ("pending", !given && !deleted),
        ("allocated", given),
        ("reserved", given && !status.list("reservedFor").is_empty()),
    ];
    states.iter().filter(|(_, is_so)| *is_so).map(|(state, _)| *state).collect::<Vec<_>>().join(",")
}

/// What is told of devices goes with them.
fn forget_devices_given_back(claim: &mut Object, old: &Object) {
    let kept: BTreeSet<DeviceId<'_>> = DeviceId::given(claim).collect();
    let gone: BTreeSet<DeviceId<'_>> = DeviceId::given(old).filter(|id| !kept.contains(id)).collect();
    let stays = |device: &&Value| !device.as_object().is_some_and(|device| gone.contains(&DeviceId::of(device)));
    let devices: Vec<Value> = claim.part("status").list("devices").iter().filter(stays).cloned().collect();
    let Some(status) = claim.object_mut("status") else { return };
    if devices.is_empty() {
        status.remove("devices");
    } else if devices.len() < status.list("devices").len() {
        status.insert("devices", devices.into());
    }
}

/// What a claim is made from.
pub(super) fn template() -> Row {
    Row {
        metadata: Look::BOTH,
        default: |template| default_requests(template.object_mut("spec").and_then(|spec| spec.object_mut("spec"))),
        validate: |template, old, errors| rules::validate_template(template, old, check, errors),
        ..Row::new(
            Resource::namespaced(GROUP, "v1", "ResourceClaimTemplate", "resourceclaimtemplates").returns_deleted(),
        )
    }
}

/// The devices that a driver offers.
pub(super) fn slice() -> Row {
    let mut resource = Resource::cluster(GROUP, "v1", "ResourceSlice", "resourceslices");
    resource = resource.labels(&["spec.nodeName", "spec.driver"]).returns_deleted();
    resource.unknown_label =
        |label| format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {label}");
    Row {
        stamp: |_, slice, old, now| {
            stamp_taints(slice, now);
            // What is dropped afterwards counts as a change.
            match old {
                None => set_generation(slice, 1),
                Some(old) => raise_if_changed(slice, old),
            }
            drop_disabled(slice, old);
        },
        validate: rules::validate_slice,
        warnings: |slice, _| {
            let driver = slice.part("spec").text("driver");
            if driver == driver.to_lowercase() {
                return Vec::new();
            }
            let shown = crate::field::go_quote(driver);
            vec![format!("spec.driver: driver names should be lowercase; {shown} contains uppercase characters")]
        },
        columns: &SLICE_COLUMNS,
        ..Row::new(resource)
    }
}

static SLICE_COLUMNS: [Column; 5] = [
    NAME_COLUMN,
    Column::text("Node", "NodeName identifies the node which provides the resources in this pool. A field selector can be used to list only ResourceSlice objects belonging to a certain node.\n\nThis field can be used to limit access from nodes to ResourceSlices with the same node name. It also indicates to autoscalers that adding new nodes of the same type as some old node might also make new resources available.\n\nExactly one of NodeName, NodeSelector, AllNodes, and PerDeviceNodeSelection must be set. This field is immutable.")
        .by(|slice, _| slice.part("spec").text("nodeName").into()),
    Column::text("Driver", "Driver identifies the DRA driver providing the capacity information. A field selector can be used to list only ResourceSlice objects with a certain driver name.\n\nMust be a DNS subdomain and should end with a DNS domain owned by the vendor of the driver. It should use only lower case characters. This field is immutable.")
        .by(|slice, _| slice.part("spec").text("driver").into()),
    Column::text("Pool", "Name is used to identify the pool. For node-local devices, this is often the node name, but this is not required.\n\nIt must not be longer than 253 characters and must consist of one or more DNS sub-domains separated by slashes. This field is immutable.")
        .by(|slice, _| slice.part("spec").part("pool").text("name").into()),
    AGE_COLUMN,
];

/// How many devices are asked for where that is not said.
fn default_requests(spec: Option<&mut Object>) {
    let Some(devices) = spec.and_then(|spec| spec.object_mut("devices")) else { return };
    for request in devices.items_mut("requests") {
        if let Some(exactly) = request.object_mut("exactly") {
            default_request(exactly);
        }
        request.items_mut("firstAvailable").for_each(default_request);
    }
}

fn default_request(request: &mut Object) {
    request.set_if_empty("allocationMode", "ExactCount");
    if request.text("allocationMode") == "ExactCount" && request.int("count") == 0 {
        request.insert("count", 1_i64.into());
    }
    default_tolerations(request);
}

fn default_tolerations(request: &mut Object) {
    request.items_mut("tolerations").for_each(|toleration| toleration.set_if_empty("operator", "Equal"));
}

/// Takes away what belongs to features that are off by default, unless it was used before.
fn drop_disabled(slice: &mut Object, old: Option<&Object>) {
    const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];
    const MAPPINGS: &str = "nodeAllocatableResourceMappings";
    let used = |has: &dyn Fn(&Object) -> bool| old.is_some_and(|old| old.part("spec").items("devices").any(has));
    let has_lists = |device: &Object| {
        let mut attributes = device.part("attributes").values().filter_map(Value::as_object);
        attributes.any(|attribute| LISTS.iter().any(|list| attribute.contains_key(list)))
    };
    let keep_lists = used(&has_lists);
    let keep_mappings = used(&|device| !device.part(MAPPINGS).is_empty());
    let Some(spec) = slice.object_mut("spec") else { return };
    for device in spec.items_mut("devices") {
        if !keep_mappings {
            device.remove(MAPPINGS);
        }
        if !keep_lists && has_lists(device) {
            let attributes = device.object_mut("attributes").into_iter().flat_map(Object::values_mut);
            for attribute in attributes.filter_map(Value::as_object_mut) {
                for list in LISTS {
                    attribute.remove(list);
                }
            }
        }
    }
}

/// A taint that does not say since when it is there is there since now.
fn stamp_taints(slice: &mut Object, now: Timestamp) {
    let is_dated = |device: &Object| device.items("taints").all(|taint| taint.contains_key("timeAdded"));
    if slice.part("spec").items("devices").all(is_dated) {
        return;
    }
    let Some(spec) = slice.object_mut("spec") else { return };
    for device in spec.items_mut("devices") {
        device.items_mut("taints").for_each(|taint| taint.set_if_absent("timeAdded", now.to_string()));
    }
}
