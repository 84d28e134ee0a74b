//! IPAddresses: each says which Service has the address of its name.
//!
//! Creating one takes the address, for only one of that name can be there; it is deleted when the Service has the address
//! no more. A server without this kind reads off the Services what is taken.

use std::net::IpAddr;
use std::sync::Arc;

use muster_tree::{Value, json};

use super::Given;
use crate::admission::{Admission, at_once};
use crate::kinds::networking::{FAMILY_LABEL, GROUP, MANAGER, MANAGER_LABEL};
use crate::model::Object;
use crate::model::fields::{Fields as _, metadata};
use crate::model::service::needs_cluster_ip;
use crate::registry::options::DeleteOptions;
use crate::registry::{Registry, Served, first};
use crate::status::ApiError;
use crate::storage::{Entry, Range};
use crate::validation::ip::parse_sloppy;

impl Given<'_> {
    /// Takes an address for the Service; false where another one has it.
    pub(super) fn take(&self, ip: IpAddr, namespace: &str) -> Result<bool, ApiError> {
        match self.registry.records() {
            Some(records) => self.registry.record(&records, ip, namespace, self.name),
            None => Ok(!self.found(|spec| ips_of(spec).collect::<Vec<_>>()).contains(&ip)),
        }
    }
}

impl Registry {
    fn records(&self) -> Option<Arc<Served>> {
        self.find(GROUP, "v1", "ipaddresses")
    }

    /// Creates the IPAddress of a Service; false where there is one.
    fn record(&self, records: &Served, ip: IpAddr, namespace: &str, service: &str) -> Result<bool, ApiError> {
        let name = ip.to_string();
        if self.storage.get(records.id, "", &name).is_some() {
            return Ok(false);
        }
        let address = json!({
            "kind": "IPAddress",
            "apiVersion": "networking.k8s.io/v1",
            "metadata": {"name": name, "labels": {FAMILY_LABEL: family(ip), MANAGER_LABEL: MANAGER}},
            "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": service}},
        });
        let Value::Object(address) = address else { return Ok(false) };
        match at_once(self.create(records, "", address, &first::own(), Admission::OWN, &mut Vec::new())) {
            Ok(_) => Ok(true),
            Err(error) if error.reason == "AlreadyExists" => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes the IPAddresses of addresses that a Service has no more, unless they are another's by now.
    pub(super) fn release(&self, ips: impl IntoIterator<Item = IpAddr>, namespace: &str, service: &str) {
        let Some(records) = self.records() else { return };
        for ip in ips {
            let record = self.storage.get(records.id, "", &ip.to_string());
            if let Some(record) = record.filter(|record| is_of(&record.object(), namespace, service)) {
                self.delete_record(&records, &record);
            }
        }
    }

    fn delete_record(&self, records: &Served, record: &Entry) {
        // Where somebody else was faster, nothing is left to do.
        let options = DeleteOptions::default();
        let _ = at_once(self.delete(records, "", &record.name, &options, Admission::OWN, &mut Vec::new()));
    }

    /// Has the IPAddress of an address that a stored Service has, should it be gone.
    pub(super) fn keep_record(&self, ip: IpAddr, namespace: &str, service: &str) {
        let Some(records) = self.records() else { return };
        match self.record(&records, ip, namespace, service) {
            // The Service may be gone since it was looked at.
            Ok(true) if !self.has(namespace, service, ip) => self.release([ip], namespace, service),
            Ok(_) => {}
            Err(error) => tracing::error!(%ip, namespace, service, %error, "cannot create the IPAddress of a Service"),
        }
    }

    /// After an IPAddress is gone: the Service that it was for, if it still has the address, gets another one.
    pub(super) fn address_is_gone(&self, gone: &Object) {
        let parent = gone.part("spec").part("parentRef");
        let (namespace, name) = (parent.text("namespace"), parent.text("name"));
        if let Some(ip) = address_of(gone).filter(|ip| self.has(namespace, name, *ip)) {
            self.keep_record(ip, namespace, name);
        }
    }

    /// After an IPAddress has changed: one that does not say any more that it is a Service's is made anew.
    pub(super) fn address_is_changed(&self, records: &Served, changed: &Entry) {
        let object = changed.object();
        let parent = object.part("spec").part("parentRef");
        let (namespace, name) = (parent.text("namespace"), parent.text("name"));
        let lost = |ip: &IpAddr| !is_right(&object, *ip, namespace, name) && self.has(namespace, name, *ip);
        if address_of(&object).filter(lost).is_some() {
            self.delete_record(records, changed);
        }
    }

    /// Brings IPAddresses in line with the Services that are stored, and with those that are given something now: a disk
    /// may have failed between the two, a state may have been restored, and older versions kept none.
    pub(super) fn repair_addresses(&self, unstored: &[Arc<Object>]) {
        let (Some(records), Some(services)) = (self.records(), self.find("", "v1", "services")) else { return };
        let pending = |ip: IpAddr| unstored.iter().any(|spec| ips_of(spec).any(|own| own == ip));
        for record in self.all(&records) {
            let object = record.object();
            let parent = object.part("spec").part("parentRef");
            let (namespace, name) = (parent.text("namespace"), parent.text("name"));
            let left = |ip: &IpAddr| !pending(*ip) && !self.has(namespace, name, *ip);
            if is_managed(&object) && address_of(&object).filter(left).is_some() {
                self.delete_record(&records, &record);
            }
        }
        for service in self.all(&services) {
            for ip in addresses(&service.object()) {
                let (namespace, name) = (&*service.namespace, &*service.name);
                if let Some(record) = self.storage.get(records.id, "", &ip.to_string()) {
                    let object = record.object();
                    let parent = object.part("spec").part("parentRef");
                    // Of two that have it, one is right.
                    let other = self.has(parent.text("namespace"), parent.text("name"), ip);
                    if is_right(&object, ip, namespace, name) || other && !is_of(&object, namespace, name) {
                        continue;
                    }
                    self.delete_record(&records, &record);
                }
                self.keep_record(ip, namespace, name);
            }
        }
    }

    /// Whether a stored Service has an address.
    fn has(&self, namespace: &str, service: &str, ip: IpAddr) -> bool {
        let services = self.find("", "v1", "services");
        let service = services.and_then(|services| self.storage.get(services.id, namespace, service));
        service.is_some_and(|service| addresses(&service.object()).any(|own| own == ip))
    }

    fn all(&self, served: &Served) -> Vec<Arc<Entry>> {
        self.storage.list(served.id, &Range::default(), None).map(|listed| listed.entries).unwrap_or_default()
    }
}

/// The cluster IPs that a Service has.
pub(super) fn addresses(service: &Object) -> impl Iterator<Item = IpAddr> {
    ips_of(service.part("spec"))
}

/// The cluster IPs of a Service of this spec.
pub(super) fn ips_of(spec: &Object) -> impl Iterator<Item = IpAddr> {
    let spec = Some(spec).filter(|spec| needs_cluster_ip(spec));
    spec.into_iter().flat_map(|spec| spec.strings("clusterIPs")).filter_map(parse_sloppy)
}

fn address_of(record: &Object) -> Option<IpAddr> {
    metadata(record).text("name").parse().ok()
}

fn family(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "IPv4" } else { "IPv6" }
}

fn is_managed(record: &Object) -> bool {
    metadata(record).part("labels").text(MANAGER_LABEL) == MANAGER
}

/// Whether an IPAddress names a Service.
fn is_of(record: &Object, namespace: &str, service: &str) -> bool {
    let parent = record.part("spec").part("parentRef");
    let fields = ["group", "resource", "namespace", "name"].map(|field| parent.text(field));
    fields == ["", "services", namespace, service]
}

/// Whether an IPAddress is as that of a Service should be.
fn is_right(record: &Object, ip: IpAddr, namespace: &str, service: &str) -> bool {
    let of_family = metadata(record).part("labels").text(FAMILY_LABEL) == family(ip);
    is_of(record, namespace, service) && is_managed(record) && of_family
}
