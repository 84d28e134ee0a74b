//! Node ports: for Services that are reached from outside, one for each port, and one for health checks.

use std::collections::{BTreeMap, BTreeSet};

use muster_tree::Value;

use super::Given;
use crate::field::FieldError;
use crate::model::Object;
use crate::model::fields::Fields as _;
use crate::model::service::{needs_health_check, needs_node_ports};
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
    let named = |spec: &Object| -> BTreeSet<i64> {
        spec.items("ports").map(|port| port.int("nodePort")).filter(|port| *port != 0).collect()
    };
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
pub(super) fn give(given: &Given<'_>, service: &mut Object, old: Option<&Object>) -> Result<(), FieldError> {
    let empty = Object::new();
    let old_spec = old.map(|old| old.object("spec").unwrap_or(&empty));
    let had: BTreeSet<i64> = old_spec.map(ports_of).unwrap_or_default();
    let checked_before = old_spec.is_some_and(needs_health_check);
    let spec = service.object_or_new("spec");
    let mut taking = Taking { given, taken: BTreeSet::new(), had };
    if needs_node_ports(spec) {
        give_ports(&mut taking, spec, old.is_none())?;
    }
    if needs_health_check(spec) && !checked_before {
        let named = spec.int("healthCheckNodePort");
        let path = Path::new("spec");
        let path = path.child("healthCheckNodePort");
        let port = if named == 0 { taking.next(path)? } else { taking.take(named, path)? };
        spec.insert("healthCheckNodePort", port.into());
    }
    Ok(())
}

fn give_ports(taking: &mut Taking<'_, '_>, spec: &mut Object, created: bool) -> Result<(), FieldError> {
    let all_given = are_given(spec);
    // Of several ports of the same number (for TCP and for UDP), one that names its node port names it for all.
    let mut wanted: BTreeMap<i64, i64> = BTreeMap::new();
    for port in spec.items("ports").filter(|port| created && port.int("nodePort") != 0) {
        wanted.entry(port.int("port")).or_insert(port.int("nodePort"));
    }
    let mut shared: BTreeMap<i64, i64> = BTreeMap::new();
    let list = Path::new("spec");
    let list = list.child("ports");
    for (index, port) in spec.items_mut("ports").enumerate() {
        let (number, named) = (port.int("port"), port.int("nodePort"));
        if named == 0 && !all_given {
            continue;
        }
        let element = list.index(index);
        let path = element.child("nodePort");
        let node_port = match (shared.get(&number), wanted.get(&number)) {
            (Some(before), _) if named == 0 || named == *before => *before,
            (Some(_), _) => taking.take(named, path)?,
            (None, Some(wanted)) => taking.take(*wanted, path)?,
            (None, None) if named != 0 => taking.take(named, path)?,
            (None, None) => taking.next(path)?,
        };
        if created {
            shared.entry(number).or_insert(node_port);
        }
        port.insert("nodePort", node_port.into());
    }
    Ok(())
}

fn ports_of(spec: &Object) -> BTreeSet<i64> {
    let health = std::iter::once(spec.int("healthCheckNodePort"));
    spec.items("ports").map(|port| port.int("nodePort")).chain(health).filter(|port| *port != 0).collect()
}

/// The ports that one write takes.
struct Taking<'a, 'r> {
    given: &'a Given<'r>,
    taken: BTreeSet<i64>,
    /// What the Service has already.
    had: BTreeSet<i64>,
}

impl Taking<'_, '_> {
    fn take(&mut self, port: i64, path: Path<'_>) -> Result<i64, FieldError> {
        if self.had.contains(&port) {
            return Ok(port);
        }
        let (first, last) = self.range();
        let checked = !self.given.dry_run;
        let why = if checked && !(first..=last).contains(&port) {
            format!("provided port is not in the valid range. The range of valid ports is {first}-{last}")
        } else if self.taken.contains(&port) || self.is_used(port) {
            "provided port is already allocated".to_owned()
        } else {
            self.taken.insert(port);
            return Ok(port);
        };
        Err(FieldError::invalid(path, &Value::from(port), why))
    }

    /// The first and the last of the ports of nodes that Services may have.
    fn range(&self) -> (i64, i64) {
        let ports = &self.given.registry.settings.network.node_ports;
        (i64::from(*ports.start()), i64::from(*ports.end()))
    }

    fn next(&mut self, path: Path<'_>) -> Result<i64, FieldError> {
        let port = if self.given.dry_run {
            Some(self.taken.last().copied().unwrap_or(DRY) + 1)
        } else {
            let (first, last) = self.range();
            let at = |offset: u32| first + i64::from(offset);
            let free = |port: i64| !self.taken.contains(&port) && !self.had.contains(&port) && !self.is_used(port);
            self.given
                .first_free(u32::try_from(last - first + 1).unwrap_or_default(), |offset| free(at(offset)))
                .map(at)
        };
        let Some(port) = port else {
            let why = "failed to allocate a nodePort: range is full";
            return Err(FieldError::invalid(path, 0_i64, why));
        };
        self.taken.insert(port);
        Ok(port)
    }

    fn is_used(&self, port: i64) -> bool {
        self.given.any(|spec| ports_of(spec).contains(&port))
    }
}
