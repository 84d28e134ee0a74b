//! Node ports: for Services that are reached from outside, one for each port, and one for health checks.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use super::Given;
use crate::field::FieldError;
use crate::model::Object;
use crate::model::fields::Fields as _;
use crate::model::service::{needs_health_check, needs_node_ports};
use crate::status::ApiError;
use crate::validation::Path;

/// A dry run shows ports after this one.
const DRY: i64 = 32768;

/// Whether a Service of this spec is given node ports, and not only those that it names.
pub(super) fn are_given(spec: &Object) -> bool {
    needs_node_ports(spec)
        && (spec.text("type") != "LoadBalancer" || spec.maybe_flag("allocateLoadBalancerNodePorts").unwrap_or(true))
}

/// Ports that are sent again without their node ports keep them, by their names.
pub(super) fn keep(spec: &mut Object, old: &Object) {
    let named = |spec| node_ports(spec).collect::<BTreeSet<i64>>();
    let in_both: BTreeSet<i64> = named(old).intersection(&named(spec)).copied().collect();
    let by_name: BTreeMap<&str, i64> =
        old.items("ports").map(|port| (port.text("name"), port.int("nodePort"))).collect();
    for port in spec.items_mut("ports").filter(|port| port.int("nodePort") == 0) {
        let before = by_name.get(port.text("name")).copied().unwrap_or_default();
        if before != 0 && !in_both.contains(&before) {
            port.insert("nodePort", before.into());
        }
    }
}

/// Gives the Service the node ports that it needs and has not, and reserves those that it names.
pub(super) fn give(given: &Given<'_>, service: &mut Object, old: Option<&Object>) -> Result<(), ApiError> {
    let old = old.map(|old| old.part("spec"));
    let spec = service.object_or_new("spec");
    let checks = needs_health_check(spec) && !old.is_some_and(needs_health_check);
    if !needs_node_ports(spec) && !checks {
        return Ok(());
    }
    let mut taking = Taking { given, used: OnceCell::new(), taken: BTreeSet::new() };
    if needs_node_ports(spec) {
        match old {
            Some(old) => change_ports(&mut taking, spec, old)?,
            None => give_ports(&mut taking, spec)?,
        }
    }
    if checks {
        let named = spec.int("healthCheckNodePort");
        let what = if named == 0 { "a" } else { "requested" };
        let port = if named == 0 { taking.next() } else { taking.take(named) };
        let port = port.map_err(|why| {
            ApiError::internal(&format!("failed to allocate {what} HealthCheck NodePort {named}: {why}"))
        })?;
        spec.insert("healthCheckNodePort", port.into());
    }
    Ok(())
}

/// Those of a new Service. Of several ports of the same number (for TCP and for UDP), one that names its node port names it
/// for all.
fn give_ports(taking: &mut Taking<'_, '_>, spec: &mut Object) -> Result<(), ApiError> {
    let all_given = are_given(spec);
    let mut wanted: BTreeMap<i64, i64> = BTreeMap::new();
    for port in spec.items("ports").filter(|port| port.int("nodePort") != 0) {
        wanted.entry(port.int("port")).or_insert(port.int("nodePort"));
    }
    let mut shared: BTreeMap<i64, i64> = BTreeMap::new();
    for (index, port) in spec.items_mut("ports").enumerate() {
        let (number, named) = (port.int("port"), port.int("nodePort"));
        if named == 0 && !all_given {
            continue;
        }
        let node_port = match (shared.get(&number), wanted.get(&number)) {
            (Some(before), _) if named == 0 || named == *before => *before,
            (Some(_), _) => taking.take_for(index, named)?,
            (None, Some(wanted)) => taking.take_for(index, *wanted)?,
            (None, None) => taking.next_for_port()?,
        };
        shared.entry(number).or_insert(node_port);
        port.insert("nodePort", node_port.into());
    }
    Ok(())
}

/// Those of a Service that is there: it keeps what it has.
fn change_ports(taking: &mut Taking<'_, '_>, spec: &mut Object, old: &Object) -> Result<(), ApiError> {
    let all_given = are_given(spec);
    let had: BTreeSet<i64> = node_ports(old).collect();
    let (mut seen, mut own) = (BTreeSet::new(), had);
    for (index, port) in spec.items_mut("ports").enumerate() {
        let (protocol, named) = (port.text("protocol").to_owned(), port.int("nodePort"));
        if named == 0 && !all_given {
            continue;
        }
        let node_port = match named {
            0 => taking.next_for_port()?,
            // Named twice, it is taken once.
            named if own.contains(&named) => named,
            named => taking.take_for(index, named)?,
        };
        port.insert("nodePort", node_port.into());
        if named != 0 {
            own.insert(named);
        }
        if !seen.insert((protocol.clone(), node_port)) {
            return Err(ApiError::plain(format!("duplicate nodePort: {{{protocol} {node_port}}}")));
        }
    }
    Ok(())
}

fn node_ports(spec: &Object) -> impl Iterator<Item = i64> {
    spec.items("ports").map(|port| port.int("nodePort")).filter(|port| *port != 0)
}

/// All ports of nodes that a Service has.
fn all_ports(spec: &Object) -> Vec<i64> {
    let health = Some(spec.int("healthCheckNodePort")).filter(|port| *port != 0);
    node_ports(spec).chain(health).collect()
}

/// The ports that one write takes.
struct Taking<'a, 'r> {
    given: &'a Given<'r>,
    /// Those that Services have, once somebody asks: most writes keep what is there.
    used: OnceCell<BTreeSet<i64>>,
    taken: BTreeSet<i64>,
}

impl Taking<'_, '_> {
    fn used(&self) -> &BTreeSet<i64> {
        self.used.get_or_init(|| self.given.found(all_ports))
    }

    /// Takes a port, or says why it cannot be had.
    fn take(&mut self, port: i64) -> Result<i64, String> {
        let (first, last) = self.range();
        if !self.given.dry_run && !(first..=last).contains(&port) {
            return Err(format!("provided port is not in the valid range. The range of valid ports is {first}-{last}"));
        }
        if self.taken.contains(&port) || self.used().contains(&port) {
            return Err("provided port is already allocated".to_owned());
        }
        self.taken.insert(port);
        Ok(port)
    }

    /// Takes any port that is free.
    fn next(&mut self) -> Result<i64, String> {
        let (first, last) = self.range();
        let port = if self.given.dry_run {
            Some(self.taken.last().copied().unwrap_or(DRY) + 1)
        } else {
            let count = u64::try_from(last - first + 1).unwrap_or_default();
            let places = self.given.in_turn(count, set_aside(count));
            let mut ports = places.filter_map(|place| Some(first + i64::try_from(place).ok()?));
            ports.find(|port| !self.taken.contains(port) && !self.used().contains(port))
        };
        let port = port.ok_or("range is full")?;
        self.taken.insert(port);
        Ok(port)
    }

    fn take_for(&mut self, index: usize, port: i64) -> Result<i64, ApiError> {
        let list = Path::new("spec");
        let list = list.child("ports");
        let refused = |why| FieldError::invalid(list.index(index).child("nodePort"), port, why);
        self.take(port).map_err(|why| self.given.invalid(refused(why)))
    }

    fn next_for_port(&mut self) -> Result<i64, ApiError> {
        self.next().map_err(|why| ApiError::internal(&format!("failed to allocate a nodePort: {why}")))
    }

    /// The first and the last of the ports of nodes that Services may have.
    fn range(&self) -> (i64, i64) {
        let ports = &self.given.registry.settings.network.node_ports;
        (i64::from(*ports.start()), i64::from(*ports.end()))
    }
}

/// How many of the lowest of so many ports are given only where no other is free: a thirty-second, from 16 up to 128
/// (KEP-3668).
fn set_aside(count: u64) -> u64 {
    if count <= 16 { 0 } else { (count / 32).clamp(16, 128) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-41
    #[test]
    fn the_lowest_ports_are_set_aside() {
        for (count, aside) in [(1, 0), (16, 0), (17, 16), (600, 18), (2768, 86), (60000, 128)] {
            assert_eq!(set_aside(count), aside, "{count}");
        }
    }
}
