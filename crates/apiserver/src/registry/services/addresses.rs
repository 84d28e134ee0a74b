//! Cluster IPs: one for each Service that is not headless and has no name elsewhere.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::Given;
use crate::field::FieldError;
use crate::model::Object;
use crate::model::fields::Fields as _;
use crate::model::service::needs_cluster_ip;
use crate::validation::Path;
use crate::validation::ip::parse_sloppy;

/// The network's first address, which is not given.
const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);
/// How many addresses it has, the first and the last included.
const SIZE: u32 = 1 << 20;
/// How it is written.
const RANGE: &str = "10.96.0.0/12";

/// Gives the Service its cluster IP, where it needs one and has none, or reserves the one that it names.
pub(super) fn give(given: &Given<'_>, service: &mut Object, old: Option<&Object>) -> Result<(), FieldError> {
    let empty = Object::new();
    let spec = service.object_or_new("spec");
    let had = old.is_some_and(|old| needs_cluster_ip(old.object("spec").unwrap_or(&empty)));
    let headless = spec.strings("clusterIPs").next() == Some("None");
    // What it has, it keeps: validation says so to those who want another.
    if !needs_cluster_ip(spec) || headless || had {
        return Ok(());
    }
    let refuse = |named: &[Value], why: String| {
        FieldError::invalid(Path::new("spec").child("clusterIPs"), &Value::Array(named.to_vec()), why)
    };
    let taken = |ip: &str| given.any(|spec| spec.strings("clusterIPs").any(|other| other == ip));
    let named = spec.list("clusterIPs");
    let ip = match spec.strings("clusterIPs").next() {
        Some(ip) => {
            let why = if parse_sloppy(ip).is_none_or(|parsed| !in_range(parsed)) {
                format!("the provided IP ({ip}) is not in the valid range. The range of valid IPs is {RANGE}")
            } else if !given.dry_run && taken(ip) {
                "provided IP is already allocated".to_owned()
            } else {
                return Ok(());
            };
            return Err(refuse(named, format!("failed to allocate IP {ip}: {why}")));
        }
        None if given.dry_run => NETWORK.to_string(),
        None => {
            let at = |offset: u32| Ipv4Addr::from(u32::from(NETWORK) + offset + 1).to_string();
            let Some(offset) = given.first_free(SIZE - 2, |offset| !taken(&at(offset))) else {
                return Err(refuse(named, "failed to allocate IP: range is full".to_owned()));
            };
            at(offset)
        }
    };
    spec.insert("clusterIPs".to_owned(), json!([ip]));
    spec.insert("clusterIP".to_owned(), json!(ip));
    Ok(())
}

fn in_range(ip: std::net::IpAddr) -> bool {
    let std::net::IpAddr::V4(ip) = ip else { return false };
    let offset = u32::from(ip).wrapping_sub(u32::from(NETWORK));
    (1..SIZE - 1).contains(&offset)
}
