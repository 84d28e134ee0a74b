//! Cluster IPs: one for each Service that is not headless and has no name elsewhere.
//!
//! A range is a ServiceCIDR's; a server without that kind has the one of its settings.

use std::net::{IpAddr, Ipv4Addr};

use muster_tree::{Value, json};

use super::Given;
use super::network::Addresses;
use crate::field::FieldError;
use crate::kinds::networking;
use crate::model::Object;
use crate::model::fields::{Fields as _, metadata};
use crate::model::service::{is_headless, needs_cluster_ip};
use crate::registry::Registry;
use crate::status::ApiError;
use crate::storage::Range;
use crate::validation::Path;
use crate::validation::ip::parse_sloppy;

/// Gives the Service its cluster IP, where it needs one and has none, or reserves the one that it names. Says which one
/// was taken for it.
pub(super) fn give(given: &Given<'_>, service: &mut Object, old: Option<&Object>) -> Result<Option<IpAddr>, ApiError> {
    let had = old.is_some_and(|old| needs_cluster_ip(old.part("spec")));
    let namespace = metadata(service).text("namespace").to_owned();
    let spec = service.object_or_new("spec");
    // What it has, it keeps: validation says so to those who want another.
    if !needs_cluster_ip(spec) || is_headless(spec) || had {
        return Ok(None);
    }
    let named = spec.strings("clusterIPs").next().map(str::to_owned);
    // The reference has put an empty one there by then.
    let all = if named.is_some() { Value::Array(spec.list("clusterIPs").to_vec().into()) } else { json!([""]) };
    let refuse = |why: String| {
        let which = named.as_deref().map(|ip| format!(" {ip}")).unwrap_or_default();
        let why = format!("failed to allocate IP{which}: {why}");
        given.invalid(FieldError::invalid(Path::new("spec").child("clusterIPs"), &all, why))
    };
    let take = |ip| given.take(ip, &namespace).map_err(|error| refuse(error.message));
    let ranges = given.registry.ranges();
    let ip = match &named {
        _ if given.dry_run => rehearse(&ranges, named.as_deref()).map_err(refuse)?,
        Some(named) => {
            let ready = |ip: &IpAddr| ranges.iter().any(|(range, ready)| *ready && range.has(*ip));
            let ip = parse_sloppy(named).filter(ready);
            let ip = ip.ok_or_else(|| refuse("the provided network does not match the current range".to_owned()))?;
            if !take(ip)? {
                return Err(refuse("provided IP is already allocated".to_owned()));
            }
            ip
        }
        None => {
            let mut free = None;
            for (range, _) in ranges.iter().filter(|(_, ready)| *ready) {
                free = take_free(given, *range, |ip| take(ip.into()))?;
                if free.is_some() {
                    break;
                }
            }
            let full = || format!("failed to allocate a serviceIP for Service {:?}: range is full", given.name);
            free.ok_or_else(|| ApiError::internal(&full()))?.into()
        }
    };
    if named.is_none() {
        spec.insert("clusterIPs", json!([ip]));
        spec.insert("clusterIP", json!(ip));
    }
    Ok(Some(ip).filter(|_| !given.dry_run))
}

/// What a dry run shows, or says: the reference asks any one of the ranges, and gives nothing.
fn rehearse(ranges: &[(Addresses, bool)], named: Option<&str>) -> Result<IpAddr, String> {
    let Some((range, true)) = ranges.first() else { return Err("allocator not ready".to_owned()) };
    let Some(named) = named else { return Ok(range.first().into()) };
    parse_sloppy(named).filter(|ip| range.has(*ip)).ok_or_else(|| {
        format!("the provided IP ({named}) is not in the valid range. The range of valid IPs is {range}")
    })
}

/// Takes a free address, from a random one on and around; one that is set aside where no other is free.
fn take_free(
    given: &Given<'_>,
    range: Addresses,
    take: impl Fn(Ipv4Addr) -> Result<bool, ApiError>,
) -> Result<Option<Ipv4Addr>, ApiError> {
    for offset in given.in_turn(range.count(), range.set_aside()) {
        let ip = range.at(1 + offset);
        if take(ip)? {
            return Ok(Some(ip));
        }
    }
    Ok(None)
}

impl Registry {
    /// The ranges of addresses for Services, each with whether it may be used.
    fn ranges(&self) -> Vec<(Addresses, bool)> {
        let Some(served) = self.find(networking::GROUP, "v1", "servicecidrs") else {
            return vec![(self.settings.network.addresses, true)];
        };
        let listed = self.storage.list(served.id, &Range::default(), None);
        let mut ranges: Vec<(Addresses, bool)> = Vec::new();
        for entry in listed.into_iter().flat_map(|listed| listed.entries) {
            let object = entry.object();
            let ready = networking::is_ready(&object);
            for range in object.part("spec").strings("cidrs").filter_map(Addresses::parse) {
                match ranges.iter_mut().find(|(other, _)| *other == range) {
                    Some((_, usable)) => *usable |= ready,
                    None => ranges.push((range, ready)),
                }
            }
        }
        ranges
    }
}
