//! What a Service is given when it is written: the families of its addresses, its cluster IP and its node ports.
//!
//! ```text
//!   body -> what the old one was given -> clusterIP = clusterIPs[0] -> families -> cluster IPs -> node ports -> validation
//! ```
//!
//! This cluster knows IPv4 only. What is in use is read off the Services that are there, and off those that have been
//! given something and are still to be stored.

mod addresses;
mod families;
pub mod network;
mod own;
mod ports;

use std::sync::{Arc, Mutex, PoisonError};

use muster_tree::json;

use super::options::DeleteOptions;
use super::{Registry, Served};
use crate::admission::{Admission, at_once};
use crate::field::FieldError;
use crate::model::Object;
use crate::model::fields::{Fields as _, metadata};
use crate::model::service::{needs_cluster_ip, needs_health_check};
use crate::status::ApiError;
use crate::storage::{Entry, Range};

/// The specs of Services that have been given something and are still to be stored.
pub(super) type Unstored = Mutex<Vec<Arc<Object>>>;

/// Keeps from others what a Service has been given, until it is stored or refused.
pub(super) struct Reserved<'a> {
    unstored: &'a Unstored,
    own: Arc<Object>,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut unstored = self.unstored.lock().unwrap_or_else(PoisonError::into_inner);
        unstored.retain(|spec| !Arc::ptr_eq(spec, &self.own));
    }
}

impl Registry {
    /// Gives a Service what it needs, and other objects nothing. `old` is what is there, on updates.
    ///
    /// # Errors
    /// 422 for what it asks for and cannot have.
    pub(super) fn allocate(
        &self,
        served: &Served,
        service: &mut Object,
        old: Option<&Object>,
        dry_run: bool,
    ) -> Result<Option<Reserved<'_>>, ApiError> {
        if !served.resource().allocates {
            return Ok(None);
        }
        if let Some(old) = old {
            keep_given(service, old);
        }
        align_cluster_ips(service, old);
        let name = metadata(service).text("name").to_owned();
        let invalid = |errors: Vec<FieldError>| served.invalid(&name, &errors);
        families::set(service, old).map_err(invalid)?;
        let mut unstored = self.unstored.lock().unwrap_or_else(PoisonError::into_inner);
        let given = Given { registry: self, served, unstored: &unstored, dry_run };
        addresses::give(&given, service, old).map_err(|error| invalid(vec![error]))?;
        ports::give(&given, service, old).map_err(|error| invalid(vec![error]))?;
        let own = Arc::new(service.object_or_new("spec").clone());
        unstored.push(Arc::clone(&own));
        Ok(Some(Reserved { unstored: &self.unstored, own }))
    }

    /// After a Service is gone, so are its Endpoints: a new Service of that name is not to be found with old addresses.
    pub(super) fn service_is_gone(&self, served: &Served, namespace: &str, name: &str) {
        if !served.resource().allocates {
            return;
        }
        let Some(endpoints) = self.find("", "v1", "endpoints") else { return };
        // Where there are none, or somebody else was faster, nothing is left to do.
        let options = DeleteOptions::default();
        let _ = at_once(self.delete(&endpoints, namespace, name, &options, Admission::OWN, &mut Vec::new()));
    }
}

/// What has been given to Services so far.
struct Given<'a> {
    registry: &'a Registry,
    served: &'a Served,
    unstored: &'a [Arc<Object>],
    /// Nothing is given for good: the answer shows what the reference server shows then.
    dry_run: bool,
}

impl Given<'_> {
    /// Whether `has` holds for the spec of any Service that is there, or is about to be.
    fn any(&self, has: impl Fn(&Object) -> bool) -> bool {
        if self.unstored.iter().any(|spec| has(spec)) {
            return true;
        }
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
            spec.insert("clusterIPs", json!([own]));
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
        spec.insert("clusterIPs", json!([own]));
    }
}
