//! What a Service is given when it is written: the families of its addresses, its cluster IP and its node ports.
//!
//! ```text
//!   body -> what the old one was given -> clusterIP = clusterIPs[0] -> families -> cluster IPs -> node ports -> validation
//! ```
//!
//! This cluster knows IPv4 only. What is in use is read off the Services that are there, under a lock that is held
//! until the new one is stored, so that nothing is given twice and nothing has to be given back.

mod addresses;
mod families;
mod own;
mod ports;

use std::sync::{MutexGuard, PoisonError};

use serde_json::json;

use super::options::DeleteOptions;
use super::{Registry, Served};
use crate::field::FieldError;
use crate::model::Object;
use crate::model::fields::{Fields as _, metadata};
use crate::model::service::{needs_cluster_ip, needs_health_check};
use crate::status::ApiError;
use crate::storage::{Entry, Range};

impl Registry {
    /// Keeps others from being given anything, for kinds whose objects are given something.
    pub(super) fn allocating(&self, served: &Served) -> Option<MutexGuard<'_, ()>> {
        served.resource().allocates.then(|| self.allocation.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives a Service what it needs. `old` is what is there, on updates.
    ///
    /// # Errors
    /// 422 for what it asks for and cannot have.
    pub(super) fn allocate(
        &self,
        served: &Served,
        service: &mut Object,
        old: Option<&Object>,
        dry_run: bool,
    ) -> Result<(), ApiError> {
        if let Some(old) = old {
            keep_given(service, old);
        }
        align_cluster_ips(service, old);
        let name = metadata(service).text("name").to_owned();
        let invalid = |errors: Vec<FieldError>| served.invalid(&name, &errors);
        families::set(service, old).map_err(invalid)?;
        let given = Given { registry: self, served, dry_run };
        addresses::give(&given, service, old).map_err(|error| invalid(vec![error]))?;
        ports::give(&given, service, old).map_err(|error| invalid(vec![error]))
    }

    /// After a Service is gone, so are its Endpoints: a new Service of that name is not to be found with old addresses.
    pub(super) fn service_is_gone(&self, served: &Served, namespace: &str, name: &str) {
        if !served.resource().allocates {
            return;
        }
        let Some(endpoints) = self.find("", "v1", "endpoints") else { return };
        // Where there are none, or somebody else was faster, nothing is left to do.
        let _ = self.delete(&endpoints, namespace, name, &DeleteOptions::default());
    }
}

/// What has been given to Services so far.
struct Given<'a> {
    registry: &'a Registry,
    served: &'a Served,
    /// Nothing is given for good: the answer shows what the reference server shows then.
    dry_run: bool,
}

impl Given<'_> {
    /// Whether `has` holds for the spec of any Service that is there.
    fn any(&self, has: impl Fn(&Object) -> bool) -> bool {
        let everything = Range::default();
        let listed = self.registry.storage.list(self.served.id, &everything, None);
        let entries = listed.map(|listed| listed.entries).unwrap_or_default();
        entries.iter().map(|entry| Entry::object(entry)).any(|object| object.object("spec").is_some_and(&has))
    }

    /// The first of `count` values that is free, from a random one on and around.
    fn first_free(&self, count: u32, free: impl Fn(u32) -> bool) -> Option<u32> {
        // The product is below `count`, which is 32 bits.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let start = (self.registry.generator.fraction() * f64::from(count)) as u32;
        (0..count).map(|step| (start % count + step) % count).find(|value| free(*value))
    }
}

/// A Service that is sent again without what it was given keeps it.
fn keep_given(service: &mut Object, old: &Object) {
    let empty = Object::new();
    let old_spec = old.object("spec").unwrap_or(&empty);
    let both = |needs: fn(&Object) -> bool, spec: &Object| needs(old_spec) && needs(spec);
    let spec = service.object_or_new("spec");
    if both(needs_cluster_ip, spec) {
        if spec.text("clusterIP").is_empty() {
            spec.carry("clusterIP", old_spec);
        }
        if spec.list("clusterIPs").is_empty() && !old_spec.list("clusterIPs").is_empty() {
            spec.carry("clusterIPs", old_spec);
        }
    }
    if both(ports::are_given, spec) {
        ports::keep(spec, old_spec);
    }
    if both(needs_health_check, spec) && spec.int("healthCheckNodePort") == 0 {
        spec.carry("healthCheckNodePort", old_spec);
    }
}

/// Of the two fields for the same thing, clients that know only the older one set only that.
fn align_cluster_ips(service: &mut Object, old: Option<&Object>) {
    let empty = Object::new();
    let old = old.map(|old| old.object("spec").unwrap_or(&empty));
    let spec = service.object_or_new("spec");
    let own = spec.text("clusterIP").to_owned();
    let Some(old) = old else {
        if !own.is_empty() && spec.list("clusterIPs").is_empty() {
            spec.insert("clusterIPs".to_owned(), json!([own]));
        }
        return;
    };
    if old.text("clusterIP") == own {
        if spec.list("clusterIPs").is_empty() && !old.list("clusterIPs").is_empty() {
            spec.carry("clusterIPs", old);
        }
        return;
    }
    if spec.list("clusterIPs") != old.list("clusterIPs") {
        return;
    }
    if own.is_empty() {
        spec.remove("clusterIPs");
    } else {
        spec.insert("clusterIPs".to_owned(), json!([own]));
    }
}
