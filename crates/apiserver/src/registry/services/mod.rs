//! What a Service is given when it is written: the families of its addresses, its cluster IP and its node ports.
//!
//! ```text
//!   body -> what the old one was given -> clusterIP = clusterIPs[0] -> families -> cluster IPs -> node ports -> validation
//! ```
//!
//! This cluster knows IPv4 only. An address is taken by creating the IPAddress of its name. Which ports are in use is read
//! off the Services that are there, and off those that have been given something and are still to be stored.

mod addresses;
mod families;
pub mod network;
mod own;
mod ports;
mod taken;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::{iter, mem};

use muster_tree::json;

use super::options::DeleteOptions;
use super::{Registry, Served};
use crate::admission::{Admission, at_once};
use crate::field::FieldError;
use crate::kinds::networking;
use crate::model::Object;
use crate::model::fields::{Fields as _, metadata};
use crate::model::service::{needs_cluster_ip, needs_health_check};
use crate::status::ApiError;
use crate::storage::{Entry, Range};

/// What is known of Services that have been given something and are still to be stored.
pub(super) type Unstored = Mutex<Pending>;

/// Services that have been given something and are still to be stored.
#[derive(Debug, Default)]
pub(super) struct Pending {
    specs: Vec<Arc<Object>>,
    /// How often the storage had been put back when IPAddresses were last compared with Services.
    restores: u64,
}

/// Keeps from others what a Service has been given, until it is stored or refused.
pub(super) struct Reserved<'a> {
    registry: &'a Registry,
    own: Arc<Object>,
    namespace: String,
    name: String,
    /// The address that was taken for it, and that others may have if it is refused.
    taken: Option<IpAddr>,
    /// The addresses that others may have once it is stored.
    left: Vec<IpAddr>,
}

impl Reserved<'_> {
    /// The Service is stored as it is.
    pub(super) fn keep(mut self) {
        let (namespace, name) = (mem::take(&mut self.namespace), mem::take(&mut self.name));
        // Somebody may have deleted its IPAddress while webhooks were asked.
        self.taken.take().into_iter().for_each(|ip| self.registry.keep_record(ip, &namespace, &name));
        self.registry.release(mem::take(&mut self.left), &namespace, &name);
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut unstored = self.registry.unstored.lock().unwrap_or_else(PoisonError::into_inner);
        unstored.specs.retain(|spec| !Arc::ptr_eq(spec, &self.own));
        drop(unstored);
        self.registry.release(self.taken, &self.namespace, &self.name);
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
        let [namespace, name] = ["namespace", "name"].map(|field| metadata(service).text(field).to_owned());
        families::set(service, old).map_err(|errors| served.invalid(&name, &errors))?;
        let mut unstored = self.unstored.lock().unwrap_or_else(PoisonError::into_inner);
        let restores = self.storage.restores();
        if mem::replace(&mut unstored.restores, restores) != restores {
            self.repair_addresses(&unstored.specs);
        }
        let given = Given { registry: self, served, name: &name, unstored: &unstored.specs, dry_run };
        let taken = addresses::give(&given, service, old)?;
        let ports = ports::give(&given, service, old);
        if dry_run {
            return ports.map(|()| None);
        }
        let own = Arc::new(service.object_or_new("spec").clone());
        unstored.specs.push(Arc::clone(&own));
        drop(unstored);
        let left = old.filter(|_| !needs_cluster_ip(&own)).into_iter().flat_map(taken::addresses).collect();
        let reserved = Reserved { registry: self, own, namespace, name, taken, left };
        // Where it gets no port, its address goes back.
        ports.map(|()| Some(reserved))
    }

    /// Brings the IPAddresses of a state that was kept in line with its Services.
    pub fn repair_kept_addresses(&self) {
        self.repair_addresses(&[]);
    }

    /// After an object has changed.
    pub(super) fn after_update(&self, served: &Served, changed: &Entry) {
        if is_records(served) {
            self.address_is_changed(served, changed);
        }
    }

    /// After an object is gone, so is what belongs to it; and what every server has comes back.
    pub(super) fn after_deletion(&self, served: &Served, gone: &Entry) {
        if served.resource().allocates {
            self.service_is_gone(gone);
        } else if is_records(served) {
            self.address_is_gone(&gone.object());
        }
        self.restore_own(&gone.namespace, &gone.name);
    }

    /// Others may have its addresses, and a new Service of that name is not to be found with old endpoints.
    fn service_is_gone(&self, gone: &Entry) {
        self.release(taken::addresses(&gone.object()), &gone.namespace, &gone.name);
        let Some(endpoints) = self.find("", "v1", "endpoints") else { return };
        // Where there are none, or somebody else was faster, nothing is left to do.
        let (options, admission) = (DeleteOptions::default(), Admission::OWN);
        let _ = at_once(self.delete(&endpoints, &gone.namespace, &gone.name, &options, admission, &mut Vec::new()));
    }
}

/// Whether a kind is that of IPAddresses.
fn is_records(served: &Served) -> bool {
    let resource = served.resource();
    resource.plural == "ipaddresses" && resource.group == networking::GROUP
}

/// What has been given to Services so far.
struct Given<'a> {
    registry: &'a Registry,
    served: &'a Served,
    /// The name of the Service that is given something.
    name: &'a str,
    unstored: &'a [Arc<Object>],
    /// Nothing is given for good: the answer shows what the reference server shows then.
    dry_run: bool,
}

impl Given<'_> {
    /// What `of` finds in the specs of all Services that are there, or are about to be.
    fn found<T, I: IntoIterator<Item = T>>(&self, of: impl Fn(&Object) -> I) -> BTreeSet<T>
    where
        T: Ord,
    {
        let everything = Range::default();
        let listed = self.registry.storage.list(self.served.id, &everything, None);
        let entries = listed.map(|listed| listed.entries).unwrap_or_default();
        let mut found: BTreeSet<T> = self.unstored.iter().flat_map(|spec| of(spec)).collect();
        entries.iter().for_each(|entry| found.extend(of(entry.object().part("spec"))));
        found
    }

    /// All of so many places: those that are not set aside first, each part from a random one on and around.
    fn in_turn(&self, count: u64, aside: u64) -> impl Iterator<Item = u64> {
        // The second draw is made only where it is needed.
        let low = iter::once_with(move || self.around(aside)).flatten();
        self.around(count - aside).map(move |place| aside + place).chain(low)
    }

    /// All of so many places, from a random one on and around.
    fn around(&self, count: u64) -> impl Iterator<Item = u64> {
        // The product is below `count`, which an address space of 32 bits limits.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let start = (self.registry.generator.fraction() * count as f64) as u64;
        (0..count).map(move |step| (start + step) % count)
    }

    /// What is said to who asks for what the Service cannot have.
    fn invalid(&self, error: FieldError) -> ApiError {
        self.served.invalid(self.name, &[error])
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
