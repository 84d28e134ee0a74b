//! Endpoints.

use std::sync::LazyLock;

use muster_objects::time::Timestamp;
use serde_json::Value;

use super::{AGE_COLUMN, Column, Kind, NAME_COLUMN, NameRule, Object, Part, Resource, cells, keep_generation};
use crate::field::FieldError;
use crate::model::fields::{Fields, metadata};
use crate::validation::{self, Errors};

/// The addresses behind a Service, the older way.
#[derive(Debug)]
pub struct Endpoints;

static RESOURCE: LazyLock<Resource> = LazyLock::new(|| {
    Resource::namespaced("", "v1", "Endpoints", "endpoints")
        .short(&["ep"])
        .create_on_update()
        .stored_under("services/endpoints")
});

static COLUMNS: [Column; 3] = [
    NAME_COLUMN,
    Column::text(
        "Endpoints",
        "The set of all endpoints is the union of all subsets. Addresses are placed into subsets according to the IPs they share. A single address with multiple ports, some of which are ready and some of which are not (because they come from different containers) will result in the address being displayed in different subsets for the different ports. No address will appear in both Addresses and NotReadyAddresses in the same subset. Sets of addresses and ports that comprise a service.",
    ),
    AGE_COLUMN,
];

/// So many addresses are shown, the others counted.
const SHOWN: usize = 3;

impl Kind for Endpoints {
    fn resource(&self) -> &Resource {
        &RESOURCE
    }
    fn default(&self, object: &mut Object) {
        for subset in object.items_mut("subsets") {
            subset.items_mut("ports").for_each(|port| port.set_if_empty("protocol", "TCP"));
        }
    }
    fn prepare_update(&self, _part: Part, object: &mut Object, old: &Object) {
        keep_generation(object, old);
    }
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core(metadata(object), true, NameRule::Subdomain, &mut errors);
        validation::endpoints::validate(object, None, &mut errors);
        errors
    }
    fn validate_update(&self, _part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validation::meta::validate_core_update(metadata(object), metadata(old), &mut errors);
        validation::meta::validate_core(metadata(object), true, NameRule::Subdomain, &mut errors);
        validation::endpoints::validate(object, Some(old), &mut errors);
        errors
    }
    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let _ = old;
        validation::endpoints::warnings(object)
    }
    fn deprecation(&self) -> Option<&'static str> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }
    fn columns(&self) -> &[Column] {
        &COLUMNS
    }
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let mut each: Vec<String> = Vec::new();
        for subset in object.items("subsets") {
            let addresses = || subset.items("addresses").map(|address| address.text("ip"));
            if subset.list("ports").is_empty() {
                each.extend(addresses().map(str::to_owned));
            }
            for port in subset.items("ports").map(|port| port.int("port")) {
                each.extend(
                    addresses().map(
                        |ip| {
                            if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
                        },
                    ),
                );
            }
        }
        let none = object.list("subsets").is_empty();
        let shown = if none { "<none>".to_owned() } else { cells::first(&each, SHOWN) };
        vec![cells::name(object), shown.into(), cells::age(object, now)]
    }
}
