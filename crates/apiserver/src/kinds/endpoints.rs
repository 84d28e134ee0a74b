//! Endpoints.

use super::{AGE_COLUMN, Column, NAME_COLUMN, Object, Resource, Row, cells};
use crate::model::Fields as _;
use crate::validation::{endpoints as rules, meta};

/// The addresses behind a Service, the older way.
pub(super) fn kind() -> Row {
    Row {
        metadata: meta::Look::BOTH,
        deprecation: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        default: |object| {
            for subset in object.items_mut("subsets") {
                subset.items_mut("ports").for_each(|port| port.set_if_empty("protocol", "TCP"));
            }
        },
        validate: rules::validate,
        warnings: |object, _| rules::warnings(object),
        columns: &COLUMNS,
        ..Row::new(
            Resource::namespaced("", "v1", "Endpoints", "endpoints")
                .short(&["ep"])
                .create_on_update()
                .stored_under("services/endpoints"),
        )
    }
}

static COLUMNS: [Column; 3] = [
    NAME_COLUMN,
    Column::text(
        "Endpoints",
        "The set of all endpoints is the union of all subsets. Addresses are placed into subsets according to the IPs they share. A single address with multiple ports, some of which are ready and some of which are not (because they come from different containers) will result in the address being displayed in different subsets for the different ports. No address will appear in both Addresses and NotReadyAddresses in the same subset. Sets of addresses and ports that comprise a service.",
    )
    .by(|object, _| shown(object).into()),
    AGE_COLUMN,
];

/// So many addresses are shown, the others counted.
const SHOWN: usize = 3;

fn shown(object: &Object) -> String {
    if object.list("subsets").is_empty() {
        return "<none>".to_owned();
    }
    let mut each: Vec<String> = Vec::new();
    for subset in object.items("subsets") {
        let addresses = || subset.items("addresses").map(|address| address.text("ip"));
        if subset.list("ports").is_empty() {
            each.extend(addresses().map(str::to_owned));
        }
        for port in subset.items("ports").map(|port| port.int("port")) {
            let with_port = |ip: &str| if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") };
            each.extend(addresses().map(with_port));
        }
    }
    cells::first(&each, SHOWN)
}
