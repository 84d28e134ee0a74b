//! ServiceCIDRs: one is ready while it is there, and goes when no Service is left without a range.
//!
//! It is the `service-cidr-controller` of kube-controller-manager. The API server gives no address of a range that is not
//! ready, or on its way out.

use std::net::IpAddr;
use std::time::Duration;

use futures::future::BoxFuture;
use muster_apiserver::kinds::networking::{GROUP, MANAGER, MANAGER_LABEL};
use muster_apiserver::validation::ip::Cidr;
use muster_machinery::{Cache, Change};
use muster_objects::{Meta, ObjectKey, Timestamp};
use muster_runtime::client::Client;
use muster_runtime::informer::{Store, WatchedResource};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::control::{Again, Body, Control, Frame, Slim, Trouble, Writes};
use crate::json::{list, or_default};
use crate::volumes::protection;

/// Under which name it applies.
const FIELD_MANAGER: &str = "service-cidr-controller";
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// How long after its deletion a range stays at least: until every server has heard of it.
const GRACE: Duration = Duration::from_secs(10);

/// A ServiceCIDR.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct ServiceCidr {
    #[serde(deserialize_with = "or_default")]
    metadata: Finalizers,
    #[serde(deserialize_with = "or_default")]
    spec: Spec,
    #[serde(deserialize_with = "or_default")]
    status: Status,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Finalizers {
    #[serde(deserialize_with = "list")]
    finalizers: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(deserialize_with = "list")]
    cidrs: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "list")]
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
    reason: String,
    message: String,
}

impl Body for ServiceCidr {
    const API_VERSION: &'static str = "networking.k8s.io/v1";
    const KIND: &'static str = "ServiceCIDR";
    type Indexes = ();
}

impl ServiceCidr {
    fn networks(&self) -> impl Iterator<Item = Cidr> {
        self.spec.cidrs.iter().filter_map(|cidr| Cidr::parse(cidr))
    }

    fn gives(&self, ip: IpAddr) -> bool {
        self.networks().any(|network| network.gives(ip))
    }
}

/// An IPAddress: its name and its labels say it all.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct IpAddress {}

impl Body for IpAddress {
    const API_VERSION: &'static str = "networking.k8s.io/v1";
    const KIND: &'static str = "IPAddress";
    type Indexes = ();
}

fn ranges() -> WatchedResource {
    WatchedResource::new(GROUP, "v1", "servicecidrs")
}

fn all_addresses() -> WatchedResource {
    WatchedResource::new(GROUP, "v1", "ipaddresses")
}

/// Sets up the `service-cidr-controller`.
pub(crate) fn keep_ranges(frame: &mut Frame<'_>) {
    if !frame.serves(&ranges()) || !frame.serves(&all_addresses()) {
        return;
    }
    let client = frame.client.clone();
    let mut setup = frame.controller("ipaddresses");
    let known = setup.read::<Slim<ServiceCidr>>(&ranges());
    let (seen, looked) = (known.clone(), known.clone());
    setup.watch::<Slim<ServiceCidr>>(&ranges(), move |change, queue| {
        let range = change.object();
        queue.add([range.meta.key()]);
        // One that is new may free another one of its addresses.
        if matches!(change, Change::Added(_)) {
            queue.add(having(&seen.read(), |other| {
                range.body.networks().any(|new| other.networks().any(|old| old.overlaps(new)))
            }));
        }
    });
    let addresses = setup.watch::<Slim<IpAddress>>(&all_addresses(), move |change, queue| {
        let address = change.object();
        if let (Change::Added(_) | Change::Deleted { .. }, Some(ip)) = (change, service_address(&address.meta)) {
            queue.add(having(&looked.read(), |range| range.gives(ip)));
        }
    });
    setup.run(5, RangeControl { client, ranges: known, addresses });
}

/// The address that an IPAddress says a Service has.
fn service_address(meta: &Meta) -> Option<IpAddr> {
    (meta.labels.get(MANAGER_LABEL) == Some(MANAGER)).then(|| meta.name.parse().ok())?
}

fn having(ranges: &Cache<Slim<ServiceCidr>>, has: impl Fn(&ServiceCidr) -> bool) -> Vec<ObjectKey> {
    ranges.iter().filter(|range| has(&range.body)).map(|range| range.meta.key()).collect()
}

struct RangeControl {
    client: Client,
    ranges: Store<Slim<ServiceCidr>>,
    addresses: Store<Slim<IpAddress>>,
}

impl Control for RangeControl {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Again, Trouble>> {
        Box::pin(async move {
            let decision = {
                let (ranges, addresses) = (self.ranges.read(), self.addresses.read());
                let Some(range) = ranges.get(key) else { return Ok(Again::Never) };
                decide(range, &ranges, &addresses, self.client.server_now())
            };
            let writes = Writes { client: &self.client, store: &self.ranges };
            let path = ranges().object(None, &key.name);
            if let Some(patch) = &decision.finalizers {
                writes.merge(&path, patch).await?;
            }
            if let Some(status) = &decision.status {
                writes.apply(&format!("{path}/status"), FIELD_MANAGER, status).await?;
            }
            Ok(decision.again)
        })
    }
}

/// What is to be done with a range.
#[derive(Debug, PartialEq)]
pub(super) struct Decision {
    pub(super) finalizers: Option<Value>,
    pub(super) status: Option<Value>,
    pub(super) again: Again,
}

/// Decides on a range: it is ready until it is deleted, and stays then while a Service needs it.
pub(super) fn decide(
    range: &Slim<ServiceCidr>,
    ranges: &Cache<Slim<ServiceCidr>>,
    addresses: &Cache<Slim<IpAddress>>,
    now: Timestamp,
) -> Decision {
    let (meta, body) = (&range.meta, &range.body);
    let needed = meta.is_being_deleted() && is_needed(range, ranges, addresses);
    let since = meta.deletion_timestamp.map(|deleted| now.saturating_since(deleted));
    let early = since.and_then(|since| GRACE.checked_sub(since)).filter(|left| !needed && !left.is_zero());
    let finalizers = protection(meta, &body.metadata.finalizers, FINALIZER, || needed || early.is_some());
    let condition = match (meta.is_being_deleted(), needed) {
        (false, _) => Some(("True", "", "Kubernetes Service CIDR is ready")),
        (true, true) => Some((
            "False",
            "Terminating",
            "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
        )),
        (true, false) => None,
    };
    let known = body.status.conditions.iter().find(|condition| condition.r#type == "Ready");
    let condition = condition.filter(|(status, reason, message)| {
        known.is_none_or(|known| (&*known.status, &*known.reason, &*known.message) != (*status, *reason, *message))
    });
    let status = condition.map(|(status, reason, message)| {
        json!({
            "apiVersion": ServiceCidr::API_VERSION,
            "kind": ServiceCidr::KIND,
            "metadata": {"name": meta.name},
            "status": {"conditions": [{
                "type": "Ready", "status": status, "reason": reason, "message": message,
                "lastTransitionTime": now.to_string(),
            }]},
        })
    });
    Decision { finalizers, status, again: early.map_or(Again::Never, Again::After) }
}

/// Whether a Service would be left with an address of no range.
fn is_needed(range: &Slim<ServiceCidr>, ranges: &Cache<Slim<ServiceCidr>>, addresses: &Cache<Slim<IpAddress>>) -> bool {
    let others = || ranges.iter().filter(|other| other.meta.name != range.meta.name).map(|other| &other.body);
    let is_within = |network: Cidr| others().any(|other| other.networks().any(|outer| outer.contains(network)));
    if range.body.networks().all(is_within) {
        return false;
    }
    let mut given = addresses.iter().filter_map(|address| service_address(&address.meta));
    given.any(|ip| range.body.gives(ip) && !others().any(|other| other.gives(ip)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{merge, slim, uid_text};

    const NOW: &str = "2026-01-01T00:00:30Z";

    fn range(name: &str, cidrs: &[&str], change: &Value) -> Slim<ServiceCidr> {
        let metadata = json!({
            "name": name, "uid": uid_text(1), "resourceVersion": "5", "finalizers": [FINALIZER],
        });
        let mut range = json!({"metadata": metadata, "spec": {"cidrs": cidrs}});
        merge(&mut range, change);
        slim(&range)
    }

    fn ready(status: &str, reason: &str, message: &str) -> Value {
        let condition = json!({"type": "Ready", "status": status, "reason": reason, "message": message});
        json!({"status": {"conditions": [condition]}})
    }

    /// What becomes of a range beside others, where Services have these addresses.
    fn decided(own: &Slim<ServiceCidr>, others: &[&[&str]], ips: &[&str]) -> Decision {
        let mut ranges: Cache<Slim<ServiceCidr>> = Cache::new();
        ranges.apply(own.clone());
        for (index, cidrs) in others.iter().enumerate() {
            ranges.apply(range(&format!("other-{index}"), cidrs, &json!({})));
        }
        let mut addresses: Cache<Slim<IpAddress>> = Cache::new();
        let mut add = |ip: &str, manager: &str| {
            let metadata = json!({"name": ip, "uid": ip, "resourceVersion": "1", "labels": {MANAGER_LABEL: manager}});
            addresses.apply(slim(&json!({"metadata": metadata})));
        };
        ips.iter().for_each(|ip| add(ip, MANAGER));
        add("10.0.0.99", "somebody");
        decide(own, &ranges, &addresses, Timestamp::parse(NOW).expect("a time"))
    }

    /// Contract: API-41
    #[test]
    fn a_range_that_is_there_is_protected_and_ready() {
        let bare = json!({"metadata": {"finalizers": ["a/b"]}});
        let decision = decided(&range("r", &["10.0.0.0/24"], &bare), &[], &[]);
        let finalizers = decision.finalizers.expect("a patch");
        assert_eq!(finalizers["metadata"]["finalizers"], json!(["a/b", FINALIZER]));
        assert_eq!(finalizers["metadata"]["resourceVersion"], "5");
        let status = decision.status.expect("a status");
        assert_eq!(
            status["status"]["conditions"],
            json!([{
                "type": "Ready", "status": "True", "reason": "", "message": "Kubernetes Service CIDR is ready",
                "lastTransitionTime": NOW,
            }])
        );
        // Whatever the server said of its own range is said again in the controller's words.
        let own = ready("True", "", "Kubernetes default Service CIDR is ready");
        assert!(decided(&range("r", &["10.0.0.0/24"], &own), &[], &[]).status.is_some());
        let said = ready("True", "", "Kubernetes Service CIDR is ready");
        let nothing = Decision { finalizers: None, status: None, again: Again::Never };
        assert_eq!(decided(&range("r", &["10.0.0.0/24"], &said), &[], &["10.0.0.1"]), nothing);
    }

    /// Contract: API-41
    #[test]
    fn a_range_goes_when_no_service_is_left_without_one() {
        let deleted = |at: &str| json!({"metadata": {"deletionTimestamp": at}});
        let long_ago = deleted("2026-01-01T00:00:20Z");
        let own = |cidrs: &[&str]| range("r", cidrs, &long_ago);
        for (cidrs, others, ips, goes) in [
            (&["10.0.0.0/24"][..], &[][..], &[][..], true),
            (&["10.0.0.0/24"], &[], &["10.0.0.1"], false),
            (&["10.0.0.0/24"], &[], &["10.0.1.1"], true),
            (&["10.0.0.0/24"], &[&["10.0.0.0/24"][..]], &["10.0.0.1"], true),
            (&["10.0.0.0/24"], &[&["10.0.0.0/16"]], &["10.0.0.1"], true),
            (&["10.0.0.0/24"], &[&["10.0.0.0/28"]], &["10.0.0.1"], true),
            (&["10.0.0.0/24"], &[&["10.0.0.0/28"]], &["10.0.0.1", "10.0.0.77"], false),
            // The last address of the other one is for broadcasts there.
            (&["10.0.0.0/24"], &[&["10.0.0.0/28"]], &["10.0.0.15"], false),
            (&["10.0.0.0/24", "fd00::/112"], &[&["10.0.0.0/16"]], &["10.0.0.1"], true),
            (&["10.0.0.0/24", "fd00::/112"], &[&["10.0.0.0/16"]], &["10.0.0.1", "fd00::1"], false),
        ] {
            let decision = decided(&own(cidrs), others, ips);
            let case = format!("{cidrs:?} {others:?} {ips:?}");
            assert_eq!(decision.finalizers.is_some(), goes, "{case}");
            let condition = decision.status.map(|status| status["status"]["conditions"][0].clone());
            assert_eq!(condition.is_none(), goes, "{case}");
            if let Some(condition) = condition {
                assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("Terminating")));
            }
            assert_eq!(decision.again, Again::Never, "{case}");
        }
        // Every server has to hear of the deletion first.
        let early = range("r", &["10.0.0.0/24"], &deleted("2026-01-01T00:00:21Z"));
        let wait = Decision { finalizers: None, status: None, again: Again::After(Duration::from_secs(1)) };
        assert_eq!(decided(&early, &[], &[]), wait);
    }
}
