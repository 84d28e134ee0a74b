//! What a claim has got.

use std::collections::BTreeSet;

use muster_tree::json;

use super::super::csi::validate_driver_name;
use super::super::ip::validate_interface_address;
use super::super::pod::affinity::validate_node_selector;
use super::super::{IMMUTABLE, conditions, internal};
use super::claim::Requests;
use super::{
    Errors, FieldError, MOST_CONFIGS, MOST_REQUESTS, Object, Path, Shown, each, each_text, is_same, once,
    validate_binding, validate_configuration, validate_label, validate_pool_name, validate_raw,
};
use crate::field::go_quote;
use crate::model::{Fields as _, metadata};

/// How many may have a claim reserved.
const MOST_CONSUMERS: usize = 256;
/// How many conditions a device may have.
const MOST_CONDITIONS: usize = 8;
/// What a driver says of a device may be this long, in bytes.
const DATA_MAX: usize = 10 * 1024;
/// How many addresses a device may have.
const MOST_ADDRESSES: usize = 16;
/// The name of an interface may be this long, in bytes.
const INTERFACE_MAX: usize = 256;
/// The address of hardware may be this long, in bytes.
const HARDWARE_MAX: usize = 128;

/// A device, or a share of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceId<'o> {
    driver: &'o str,
    pool: &'o str,
    device: &'o str,
    share: &'o str,
}

impl<'o> DeviceId<'o> {
    /// The one that is given or told of here.
    #[must_use]
    pub fn of(device: &'o Object) -> Self {
        let [driver, pool, device, share] = ["driver", "pool", "device", "shareID"].map(|field| device.text(field));
        Self { driver, pool, device, share }
    }

    /// Whose device it is.
    #[must_use]
    pub fn driver(&self) -> &'o str {
        self.driver
    }

    /// Those that a claim has been given.
    pub fn given(claim: &'o Object) -> impl Iterator<Item = Self> {
        claim.part("status").part("allocation").part("devices").items("results").map(Self::of)
    }
}

impl From<DeviceId<'_>> for Shown {
    fn from(id: DeviceId<'_>) -> Self {
        let DeviceId { driver, pool, device, share } = id;
        Self::Bare(format!(
            r#"{{"Driver":{},"Pool":{},"Device":{},"ShareID":{}}}"#,
            json!(driver),
            json!(pool),
            json!(device),
            json!(share)
        ))
    }
}

/// Checks a change of the status of a ResourceClaim.
pub fn validate_status(claim: &Object, old: &Object, errors: &mut Errors) {
    const PATH: Path<'_> = Path::new("status");
    let (status, was) = (claim.part("status"), old.part("status"));
    let requests = Requests::of(claim.part("spec").part("devices"));
    if each(status, "reservedFor", MOST_CONSUMERS, &PATH, errors, |consumer, path, errors| {
        for field in ["resource", "name", "uid"].into_iter().filter(|field| consumer.text(field).is_empty()) {
            errors.push(FieldError::required(path.child(field), ""));
        }
    }) {
        once(status.items("reservedFor").map(|consumer| consumer.text("uid")), &PATH.child("reservedFor"), errors);
    }
    let given: BTreeSet<DeviceId<'_>> = DeviceId::given(claim).collect();
    each(status, "devices", usize::MAX, &PATH, errors, |device, path, errors| {
        validate_device(device, &given, path, errors);
    });
    once(status.items("devices").map(DeviceId::of), &PATH.child("devices"), errors);

    let (allocation, before) = (status.object("allocation"), was.object("allocation"));
    if !status.list("reservedFor").is_empty() {
        let mut forbid = |why: &str| errors.push(FieldError::forbidden(PATH.child("reservedFor"), why));
        let is_new = || status.list("reservedFor").iter().any(|one| !was.list("reservedFor").contains(one));
        if allocation.is_none() {
            forbid("may not be specified when `allocated` is not set");
        } else if metadata(claim).contains_key("deletionTimestamp") && is_new() {
            forbid("new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set");
        }
    }
    let path = PATH.child("allocation");
    match (allocation, before) {
        (Some(allocation), Some(before)) if !is_same(allocation, before) => {
            errors.push(FieldError::invalid(path, internal::shown("AllocationResult", allocation), IMMUTABLE));
        }
        (Some(allocation), None) => validate_allocation(allocation, &requests, &path, errors),
        _ => {}
    }
}

fn validate_allocation(allocation: &Object, requests: &Requests<'_>, path: &Path<'_>, errors: &mut Errors) {
    let (devices, at) = (allocation.part("devices"), path.child("devices"));
    each(devices, "results", MOST_REQUESTS, &at, errors, |result, path, errors| {
        requests.validate(result.text("request"), &path.child("request"), errors);
        validate_place(result, path, errors);
        validate_binding(result, path, errors);
        validate_share(result, path, errors);
    });
    each(devices, "config", 2 * MOST_CONFIGS, &at, errors, |config, path, errors| {
        let source = path.child("source");
        match config.text("source") {
            "FromClaim" | "FromClass" => {}
            "" => errors.push(FieldError::required(source, "")),
            other => errors.push(FieldError::not_supported(source, other, &["FromClaim", "FromClass"])),
        }
        requests.validate_all(config, path, errors);
        validate_configuration(config, false, path, errors);
    });
    if let Some(selector) = allocation.object("nodeSelector") {
        validate_node_selector(selector, false, &path.child("nodeSelector"), errors);
    }
}

/// Whose device it is, and which one.
fn validate_place(device: &Object, path: &Path<'_>, errors: &mut Errors) {
    validate_driver_name(device.text("driver"), &path.child("driver"), errors);
    validate_pool_name(device.text("pool"), &path.child("pool"), errors);
    validate_label(device.text("device"), &path.child("device"), errors);
}

fn validate_share(device: &Object, path: &Path<'_>, errors: &mut Errors) {
    let Some(share) = device.maybe_text("shareID") else { return };
    if let Some(why) = uuid_complaint(share) {
        errors.push(FieldError::invalid(path.child("shareID"), share, why));
    }
}

/// What is wrong with a UUID, of which there are four ways of writing it, and one that may be used.
fn uuid_complaint(uid: &str) -> Option<String> {
    const USUAL: &str = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters";
    let invalid = |why: &str| Some(format!("error validating uid: {why}"));
    let bare = match uid.len() {
        32 | 36 => uid,
        38 => match uid.strip_prefix('{').and_then(|uid| uid.strip_suffix('}')) {
            Some(bare) => bare,
            None => return invalid("invalid bracketed UUID format"),
        },
        45 => match uid.split_at_checked(9) {
            Some((prefix, bare)) if prefix.eq_ignore_ascii_case("urn:uuid:") => bare,
            prefix => {
                let prefix = prefix.map_or(uid, |(prefix, _)| prefix);
                return invalid(&format!("invalid urn prefix: {}", go_quote(prefix)));
            }
        },
        length => return invalid(&format!("invalid UUID length: {length}")),
    };
    let fits = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 if bare.len() == 36 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    if !bare.bytes().enumerate().all(fits) {
        return invalid("invalid UUID format");
    }
    (uid.len() != 36 || uid.bytes().any(|byte| byte.is_ascii_uppercase())).then(|| USUAL.to_owned())
}

/// What a driver says of a device.
fn validate_device(device: &Object, given: &BTreeSet<DeviceId<'_>>, path: &Path<'_>, errors: &mut Errors) {
    validate_place(device, path, errors);
    validate_share(device, path, errors);
    let id = DeviceId::of(device);
    if !given.contains(&id) {
        errors.push(FieldError::invalid(path, id, "must be an allocated device in the claim"));
    }
    let count = device.list("conditions").len();
    if count > MOST_CONDITIONS {
        errors.push(FieldError::too_many(path.child("conditions"), count, MOST_CONDITIONS));
    }
    conditions::validate(device, path, errors);
    if let Some(data) = device.get("data").filter(|data| !data.is_null()) {
        validate_raw(Some(data), DATA_MAX, &path.child("data"), errors);
    }
    let Some(network) = device.object("networkData") else { return };
    let path = path.child("networkData");
    for (field, most) in [("interfaceName", INTERFACE_MAX), ("hardwareAddress", HARDWARE_MAX)] {
        if network.text(field).len() > most {
            errors.push(FieldError::too_long(path.child(field), most));
        }
    }
    each_text(network, "ips", MOST_ADDRESSES, &path, errors, validate_interface_address);
}
