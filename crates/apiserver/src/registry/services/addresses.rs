//! Cluster IPs: one for each Service that is not headless and has no name elsewhere.

use muster_tree::{Value, json};

use super::Given;
use crate::field::FieldError;
use crate::model::Object;
use crate::model::fields::Fields as _;
use crate::model::service::needs_cluster_ip;
use crate::validation::Path;
use crate::validation::ip::parse_sloppy;

/// Gives the Service its cluster IP, where it needs one and has none, or reserves the one that it names.
pub(super) fn give(given: &Given<'_>, service: &mut Object, old: Option<&Object>) -> Result<(), FieldError> {
    let empty = Object::new();
    let network = &given.registry.settings.network;
    let spec = service.object_or_new("spec");
    let had = old.is_some_and(|old| needs_cluster_ip(old.object("spec").unwrap_or(&empty)));
    let headless = spec.strings("clusterIPs").next() == Some("None");
    // What it has, it keeps: validation says so to those who want another.
    if !needs_cluster_ip(spec) || headless || had {
        return Ok(());
    }
    let refuse = |named: &[Value], why: String| {
        FieldError::invalid(Path::new("spec").child("clusterIPs"), &Value::Array(named.to_vec().into()), why)
    };
    let taken = |ip: &str| given.any(|spec| spec.strings("clusterIPs").any(|other| other == ip));
    let named = spec.list("clusterIPs");
    let ip = match spec.strings("clusterIPs").next() {
        Some(ip) => {
            let foreign = parse_sloppy(ip).is_none_or(|parsed| !network.has(parsed));
            let why = if foreign && given.dry_run {
                format!(
                    "the provided IP ({ip}) is not in the valid range. The range of valid IPs is {}",
                    network.cidr()
                )
            } else if foreign {
                // The allocator is chosen by the address first, and there is none.
                "the provided network does not match the current range".to_owned()
            } else if !given.dry_run && taken(ip) {
                "provided IP is already allocated".to_owned()
            } else {
                return Ok(());
            };
            return Err(refuse(named, format!("failed to allocate IP {ip}: {why}")));
        }
        None if given.dry_run => network.first().to_string(),
        None => {
            let at = |offset: u32| network.at(offset + 1).to_string();
            let Some(offset) = given.first_free(network.size() - 2, |offset| !taken(&at(offset))) else {
                return Err(refuse(named, "failed to allocate IP: range is full".to_owned()));
            };
            at(offset)
        }
    };
    spec.insert("clusterIPs", json!([ip]));
    spec.insert("clusterIP", json!(ip));
    Ok(())
}
