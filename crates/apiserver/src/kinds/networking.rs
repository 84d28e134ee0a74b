//! IPAddress and ServiceCIDR: which addresses Services may have, and which of them have one.

use muster_tree::Value;

use super::{AGE_COLUMN, Column, NAME_COLUMN, NameRule, Object, Part, Resource, Row, Subresource, keep_metadata};
use crate::model::{Fields as _, metadata};
use crate::validation::meta::Look;
use crate::validation::networking as rules;

/// The group of both.
pub const GROUP: &str = "networking.k8s.io";
/// The label of an IPAddress that says of which family it is.
pub const FAMILY_LABEL: &str = "ipaddress.kubernetes.io/ip-family";
/// The label of an IPAddress that says who made it.
pub const MANAGER_LABEL: &str = "ipaddress.kubernetes.io/managed-by";
/// Who makes those of Services.
pub const MANAGER: &str = "ipallocator.k8s.io";

/// An address that somebody has.
pub(super) fn address() -> Row {
    Row {
        name_rule: NameRule::Ip,
        metadata: Look::WHOLE,
        validate: rules::validate_address,
        columns: &ADDRESS_COLUMNS,
        // As in the reference, a row has an age that no column tells.
        cells: Some(|address, now| {
            let age = AGE_COLUMN.cell.of(address, now);
            vec![metadata(address).text("name").into(), parent(address).into(), age]
        }),
        ..Row::new(Resource::cluster(GROUP, "v1", "IPAddress", "ipaddresses").short(&["ip"]))
    }
}

static ADDRESS_COLUMNS: [Column; 2] = [
    NAME_COLUMN,
    Column::text(
        "ParentRef",
        "ParentRef references the resource that an IPAddress is attached to. An IPAddress must reference a parent object.",
    ),
];

/// What has an address, such as `services/default/kubernetes`.
fn parent(address: &Object) -> String {
    let Some(parent) = address.part("spec").object("parentRef") else { return "<none>".to_owned() };
    let (resource, group) = (parent.text("resource"), parent.text("group"));
    let kind = if group.is_empty() { resource.to_lowercase() } else { format!("{resource}.{group}").to_lowercase() };
    let place = [parent.text("namespace"), parent.text("name")];
    place.into_iter().filter(|part| !part.is_empty()).fold(kind, |path, part| format!("{path}/{part}"))
}

/// A range of addresses for Services.
pub(super) fn range() -> Row {
    Row {
        prepare: |part, object, old| {
            if let Some(old) = old.filter(|_| part != Part::Main) {
                keep_metadata(object, old);
            }
        },
        validate: rules::validate_range,
        columns: &RANGE_COLUMNS,
        ..Row::new(Resource::cluster(GROUP, "v1", "ServiceCIDR", "servicecidrs").parts(&[Subresource::Status]))
    }
}

static RANGE_COLUMNS: [Column; 3] = [
    NAME_COLUMN,
    Column::text(
        "CIDRs",
        "CIDRs defines the IP blocks in CIDR notation (e.g. \"192.168.0.0/24\" or \"2001:db8::/64\") from which to assign service cluster IPs. Max of two CIDRs is allowed, one of each IP family. This field is immutable.",
    )
    .by(|range, _| range.part("spec").strings("cidrs").collect::<Vec<_>>().join(",").into()),
    AGE_COLUMN,
];

/// What a ServiceCIDR says of whether it is ready.
pub fn ready_condition(range: &Object) -> Option<&Object> {
    range.part("status").items("conditions").find(|condition| condition.text("type") == "Ready")
}

/// Whether addresses may be given of a ServiceCIDR: not of one that is on its way out, and of one of which nothing is said.
pub fn is_ready(range: &Object) -> bool {
    ready_condition(range).is_none_or(|ready| ready.text("status") == "True")
        && metadata(range).get("deletionTimestamp").is_none_or(Value::is_null)
}
