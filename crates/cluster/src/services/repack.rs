//! The one form of a list of subsets: addresses that offer the same ports together, everything sorted.

use std::collections::BTreeMap;

use muster_objects::Uid;

use super::wire::{Address, Subset, SubsetPort};

/// By what an address is known.
type Key = (String, Uid);

/// Brings subsets into that form. Where an address is both ready and not ready for a port, it is not.
pub(super) fn repack(subsets: &[Subset]) -> Vec<Subset> {
    let mut addresses: BTreeMap<Key, &Address> = BTreeMap::new();
    // A subset without ports is kept as well: `None` stands for that.
    let mut by_port: BTreeMap<Option<&SubsetPort>, BTreeMap<Key, bool>> = BTreeMap::new();
    for subset in subsets {
        let ports: Vec<Option<&SubsetPort>> = match &subset.ports[..] {
            [] => vec![None],
            several => several.iter().map(Some).collect(),
        };
        let ready = subset.addresses.iter().map(|address| (address, true));
        for (address, ready) in ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false))) {
            let key = key(address);
            addresses.entry(key.clone()).or_insert(address);
            for port in &ports {
                let known = by_port.entry(*port).or_default().entry(key.clone()).or_insert(ready);
                *known &= ready;
            }
        }
    }
    // Which ports the same addresses offer, ready or not as they are.
    let mut groups: BTreeMap<Vec<(Key, bool)>, Vec<SubsetPort>> = BTreeMap::new();
    for (port, offering) in by_port {
        groups.entry(offering.into_iter().collect()).or_default().extend(port.cloned());
    }
    let groups = groups.into_iter().map(|(offering, ports)| {
        let of = |wanted: bool| {
            let keys = offering.iter().filter(|(_, ready)| *ready == wanted);
            keys.filter_map(|(key, _)| addresses.get(key).map(|address| (*address).clone())).collect()
        };
        Subset { addresses: of(true), not_ready_addresses: of(false), ports }
    });
    groups.collect()
}

fn key(address: &Address) -> Key {
    (address.ip.clone(), address.target_ref.as_ref().map(|target| target.uid.clone()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn repacked(subsets: Value) -> Value {
        let subsets: Vec<Subset> = serde_json::from_value(subsets).expect("subsets");
        serde_json::to_value(repack(&subsets)).expect("JSON")
    }

    /// Contract: API-27
    #[test]
    fn addresses_with_the_same_ports_stand_together() {
        for (name, subsets, expected) in [
            ("nothing", json!([]), json!([])),
            ("no port", json!([{"addresses": [{"ip": "1.2.3.4"}]}]), json!([{"addresses": [{"ip": "1.2.3.4"}]}])),
            (
                "two ports of one address",
                json!([
                    {"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 222}]},
                    {"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 111}]},
                ]),
                json!([{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 111}, {"port": 222}]}]),
            ),
            (
                "two addresses of one port, ready and not",
                json!([
                    {"addresses": [{"ip": "5.6.7.8"}], "ports": [{"port": 111}]},
                    {"notReadyAddresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 111}]},
                ]),
                json!([{
                    "addresses": [{"ip": "5.6.7.8"}], "notReadyAddresses": [{"ip": "1.2.3.4"}],
                    "ports": [{"port": 111}],
                }]),
            ),
            (
                "an address that is both is not ready",
                json!([
                    {"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 111}]},
                    {"notReadyAddresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 111}]},
                ]),
                json!([{"notReadyAddresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 111}]}]),
            ),
            (
                "different ports",
                json!([
                    {"addresses": [{"ip": "1.2.3.4"}, {"ip": "5.6.7.8"}], "ports": [{"port": 111}]},
                    {"addresses": [{"ip": "5.6.7.8"}], "ports": [{"port": 222}]},
                ]),
                json!([
                    {"addresses": [{"ip": "1.2.3.4"}, {"ip": "5.6.7.8"}], "ports": [{"port": 111}]},
                    {"addresses": [{"ip": "5.6.7.8"}], "ports": [{"port": 222}]},
                ]),
            ),
            (
                "one address of two pods",
                json!([
                    {"addresses": [{"ip": "1.2.3.4", "targetRef": {"uid": "b"}}], "ports": [{"port": 111}]},
                    {"addresses": [{"ip": "1.2.3.4", "targetRef": {"uid": "a"}}], "ports": [{"port": 111}]},
                ]),
                json!([{
                    "addresses": [
                        {"ip": "1.2.3.4", "targetRef": {"kind": "", "namespace": "", "name": "", "uid": "a"}},
                        {"ip": "1.2.3.4", "targetRef": {"kind": "", "namespace": "", "name": "", "uid": "b"}},
                    ],
                    "ports": [{"port": 111}],
                }]),
            ),
        ] {
            let once = repacked(subsets);
            let strip = |value: &Value| value.to_string();
            assert_eq!(strip(&once), strip(&expected), "{name}");
            assert_eq!(repacked(once.clone()), once, "{name}: again");
        }
    }
}
