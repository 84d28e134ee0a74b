//! Endpoints that somebody keeps by hand, mirrored into EndpointSlices (API-27).
//!
//! It is the `endpointslice-mirroring-controller` of kube-controller-manager: for a Service without a selector, each
//! subset of the Endpoints of its name has a slice of its own.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use muster_machinery::Change;
use muster_objects::event::ObjectReference;
use muster_objects::{EventType, Labels, ObjectKey};
use muster_runtime::client::Client;
use muster_runtime::events::EventSink;
use muster_runtime::informer::Store;
use serde_json::{Map, Value, json};

use super::repack::repack;
use super::slices::{Identity, SlicePlan, equal_beyond_identity, identity, relabelled, sorted};
use super::wire::{
    Address, Conditions, Endpoint, EndpointPort, EndpointSlice, Endpoints, Family, Keeper, MANAGED_BY, MIRROR,
    SERVICE_NAME, Service, SliceIndexes,
};
use super::{WORKERS, all_endpoints, services, slices, write};
use crate::control::{Again, Control, Frame, Slim, Trouble, Writes};

/// The label of Endpoints that are not mirrored.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// The annotation of Endpoints that are the lock of an election.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// How many addresses of a subset are mirrored.
const MOST: usize = 1000;

/// Sets up the `endpointslice-mirroring-controller`.
pub(crate) fn mirror_endpoints(frame: &mut Frame<'_>) {
    if ![services(), slices(), all_endpoints()].iter().all(|resource| frame.serves(resource)) {
        return;
    }
    let (client, events) = (frame.client.clone(), frame.events.clone());
    let mut setup = frame.controller("endpoint_slice_mirroring");
    let services = setup.watch::<Slim<Service>>(&services(), |change, queue| {
        let free = |service: &Slim<Service>| service.body.selector.is_none();
        let concerns = match change {
            Change::Updated { old, new } => free(old) != free(new) || old.meta.uid != new.meta.uid,
            change => free(change.object()),
        };
        if concerns {
            queue.add([change.object().meta.key()]);
        }
    });
    let endpoints = setup.watch::<Slim<Endpoints>>(&all_endpoints(), |change, queue| {
        let before = matches!(change, Change::Updated { old, .. } if is_mirrored(old));
        if before || is_mirrored(change.object()) {
            queue.add([change.object().meta.key()]);
        }
    });
    let slices = setup.watch::<Slim<EndpointSlice>>(&slices(), |change, queue| {
        let meta = &change.object().meta;
        if let Some(service) = Keeper::Mirror.service_of(meta) {
            queue.add([ObjectKey::new(Arc::clone(&meta.namespace), service)]);
        }
    });
    setup.run(WORKERS, Mirror { client, events, services, endpoints, slices });
}

fn is_mirrored(endpoints: &Slim<Endpoints>) -> bool {
    endpoints.meta.labels.get(SKIP) != Some("true") && !endpoints.body.has_annotation(LEADER)
}

struct Mirror {
    client: Client,
    events: EventSink,
    services: Store<Slim<Service>>,
    endpoints: Store<Slim<Endpoints>>,
    slices: Store<Slim<EndpointSlice>>,
}

impl Control for Mirror {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Again, Trouble>> {
        Box::pin(async move {
            let by_hand = self.services.read().get(key).is_some_and(|service| service.body.selector.is_none());
            let endpoints = self.endpoints.read().get(key).cloned();
            let existing = SliceIndexes::of_service(&self.slices.read(), Keeper::Mirror, key);
            let plan = match endpoints.filter(|endpoints| by_hand && is_mirrored(endpoints)) {
                Some(endpoints) => {
                    let (plan, tell) = decide(&endpoints, &existing);
                    for (reason, message) in tell {
                        let about = ObjectReference::to("v1", "Endpoints", &endpoints.meta);
                        self.events.emit(about, MIRROR, EventType::Warning, reason, message);
                    }
                    plan
                }
                None => {
                    let delete = existing.iter().map(|slice| (Arc::clone(&slice.meta.name), slice.meta.uid.clone()));
                    SlicePlan { delete: delete.collect(), ..SlicePlan::default() }
                }
            };
            let writes = Writes { client: &self.client, store: &self.slices };
            write(&writes, &key.namespace, &plan).await?;
            Ok(Again::Never)
        })
    }
}

/// What is told of Endpoints.
type Tell = Vec<(&'static str, String)>;
/// What the addresses of one slice have in common.
type Group = (Family, Vec<EndpointPort>);

/// What makes slices show the Endpoints.
fn decide(endpoints: &Slim<Endpoints>, existing: &[Arc<Slim<EndpointSlice>>]) -> (SlicePlan, Tell) {
    let (desired, tell) = desired(&endpoints.body);
    let labels = labels(endpoints);
    let mut plan = SlicePlan::default();
    let mut gone: Vec<&Arc<Slim<EndpointSlice>>> = Vec::new();
    let mut of_group: BTreeMap<Group, Vec<&Arc<Slim<EndpointSlice>>>> = BTreeMap::new();
    for slice in existing {
        let family = if slice.body.address_type == Family::V6.as_str() { Family::V6 } else { Family::V4 };
        let group = (family, sorted(slice.body.ports.clone()));
        if desired.contains_key(&group) {
            of_group.entry(group).or_default().push(slice);
        } else {
            gone.push(slice);
        }
    }
    let mut missing = Vec::new();
    for (group, wanted) in &desired {
        let present = of_group.remove(group).unwrap_or_default();
        match present.split_first() {
            Some((first, rest)) => {
                gone.extend(rest);
                if !shows(first, endpoints, &labels, wanted) {
                    plan.update.push(patch(first, endpoints, &labels, group, wanted));
                }
            }
            None => missing.push((group, wanted)),
        }
    }
    for (group, wanted) in missing {
        // Rather than to delete one slice and create another, the one is made the other.
        match gone.iter().position(|slice| slice.body.address_type == group.0.as_str()) {
            Some(at) => plan.update.push(patch(gone.remove(at), endpoints, &labels, group, wanted)),
            None if endpoints.meta.is_being_deleted() => {}
            None => plan.create.push(object(endpoints, &labels, group, wanted)),
        }
    }
    plan.delete = gone.into_iter().map(|slice| (Arc::clone(&slice.meta.name), slice.meta.uid.clone())).collect();
    (plan, tell)
}

/// The endpoints of each slice that should be there, and what is told of those that are left out.
fn desired(endpoints: &Endpoints) -> (BTreeMap<Group, BTreeMap<Identity, Endpoint>>, Tell) {
    let mut desired: BTreeMap<Group, BTreeMap<Identity, Endpoint>> = BTreeMap::new();
    let (mut invalid, mut skipped) = (0, 0);
    for subset in repack(&endpoints.subsets) {
        let ports = sorted(
            subset
                .ports
                .iter()
                .map(|port| EndpointPort {
                    name: Some(port.name.clone()),
                    port: Some(port.port),
                    protocol: Some(port.protocol.clone()),
                    app_protocol: port.app_protocol.clone(),
                })
                .collect(),
        );
        let ready = subset.addresses.iter().map(|address| (address, true));
        let all = ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false)));
        let mut taken = 0;
        for (address, ready) in all {
            if taken == MOST {
                skipped += 1;
                continue;
            }
            let Some((family, endpoint)) = endpoint(address, ready) else {
                invalid += 1;
                continue;
            };
            taken += 1;
            desired.entry((family, ports.clone())).or_default().insert(identity(&endpoint), endpoint);
        }
    }
    let mut tell = Vec::new();
    if invalid > 0 {
        let message = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
        tell.push(("InvalidIPAddress", message));
    }
    if skipped > 0 {
        let all = invalid + skipped;
        let message = format!(
            "A max of {MOST} addresses can be mirrored to EndpointSlices per Endpoints subset. {all} addresses were skipped"
        );
        tell.push(("TooManyAddressesToMirror", message));
    }
    (desired, tell)
}

fn endpoint(address: &Address, ready: bool) -> Option<(Family, Endpoint)> {
    let ip: IpAddr = address.ip.parse().ok()?;
    let endpoint = Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Conditions { ready: Some(ready), ..Conditions::default() },
        hostname: Some(address.hostname.clone()).filter(|hostname| !hostname.is_empty()),
        target_ref: address.target_ref.clone(),
        node_name: address.node_name.clone(),
        ..Endpoint::default()
    };
    Some((Family::of(&address.ip), endpoint))
}

fn labels(endpoints: &Slim<Endpoints>) -> Labels {
    let mut labels: BTreeMap<&str, &str> = endpoints.meta.labels.iter().collect();
    labels.insert(SERVICE_NAME, &endpoints.meta.name);
    labels.insert(MANAGED_BY, MIRROR);
    labels.into_iter().collect()
}

/// Whether a slice is as it should be.
fn shows(
    slice: &Slim<EndpointSlice>,
    endpoints: &Slim<Endpoints>,
    labels: &Labels,
    wanted: &BTreeMap<Identity, Endpoint>,
) -> bool {
    let present = &slice.body.endpoints;
    let right =
        |endpoint: &Endpoint| wanted.get(&identity(endpoint)).is_some_and(|same| equal_beyond_identity(same, endpoint));
    present.len() == wanted.len()
        && present.iter().all(right)
        && slice.meta.labels == *labels
        && slice.body.annotations() == endpoints.body.annotations()
        && slice.body.is_owned_by("Endpoints", &endpoints.meta.uid)
}

fn owners(endpoints: &Slim<Endpoints>) -> Value {
    let meta = &endpoints.meta;
    json!([{
        "apiVersion": "v1", "kind": "Endpoints", "name": meta.name, "uid": meta.uid, "controller": true,
        "blockOwnerDeletion": true,
    }])
}

fn object(
    endpoints: &Slim<Endpoints>,
    labels: &Labels,
    (family, ports): &Group,
    wanted: &BTreeMap<Identity, Endpoint>,
) -> Value {
    let meta = &endpoints.meta;
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": format!("{}-", meta.name),
            "namespace": meta.namespace,
            "labels": labels,
            "annotations": endpoints.body.annotations(),
            "ownerReferences": owners(endpoints),
        },
        "addressType": family.as_str(),
        "endpoints": wanted.values().collect::<Vec<_>>(),
        "ports": ports,
    })
}

fn patch(
    slice: &Slim<EndpointSlice>,
    endpoints: &Slim<Endpoints>,
    labels: &Labels,
    (_, ports): &Group,
    wanted: &BTreeMap<Identity, Endpoint>,
) -> (Arc<str>, Value) {
    let (old, new) = (slice.body.annotations(), endpoints.body.annotations());
    let gone = old.keys().filter(|name| !new.contains_key(*name)).map(|name| (name.clone(), Value::Null));
    let annotations: Map<String, Value> =
        gone.chain(new.iter().map(|(name, value)| (name.clone(), value.as_str().into()))).collect();
    let patch = json!({
        "metadata": {
            "uid": slice.meta.uid,
            "resourceVersion": slice.meta.resource_version,
            "labels": relabelled(&slice.meta.labels, labels),
            "annotations": annotations,
            "ownerReferences": owners(endpoints),
        },
        "endpoints": wanted.values().collect::<Vec<_>>(),
        "ports": ports,
    });
    (Arc::clone(&slice.meta.name), patch)
}

#[cfg(test)]
mod tests {
    use muster_objects::{Interner, Object as _};

    use super::*;

    fn endpoints(change: &Value) -> Slim<Endpoints> {
        let mut object = json!({
            "metadata": {"name": "s", "namespace": "n", "uid": "e"},
            "subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [{"port": 80, "protocol": "TCP"}]}],
        });
        crate::testing::merge(&mut object, change);
        Slim::decode(object.to_string().as_bytes(), &mut Interner::new()).expect("Endpoints")
    }

    /// The slices that a plan leaves of those that there were.
    fn apply(plan: &SlicePlan, existing: &mut BTreeMap<String, Value>) {
        for (at, object) in plan.create.iter().enumerate() {
            let mut object = object.clone();
            let name = format!("s-{}", existing.len() + at);
            object["metadata"]["name"] = json!(name);
            object["metadata"]["uid"] = json!(name);
            existing.insert(name, object);
        }
        for (name, patch) in &plan.update {
            crate::testing::merge(existing.get_mut(&**name).expect("it is there"), patch);
        }
        for (name, _) in &plan.delete {
            existing.remove(&**name);
        }
    }

    fn decoded(existing: &BTreeMap<String, Value>) -> Vec<Arc<Slim<EndpointSlice>>> {
        let slim = |slice: &Value| Slim::decode(slice.to_string().as_bytes(), &mut Interner::new()).expect("a slice");
        existing.values().map(|slice| Arc::new(slim(slice))).collect()
    }

    /// Contract: API-27
    #[test]
    fn slices_follow_what_the_endpoints_say_with_as_few_writes_as_can_be() {
        let two_families = json!({"subsets": [
            {"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "ports": [{"port": 80, "protocol": "TCP"}]},
            {"notReadyAddresses": [{"ip": "10.0.0.9", "hostname": "h", "nodeName": "n0"}], "ports": [{"port": 81, "protocol": "TCP"}]},
        ]});
        let labelled = json!({"metadata": {"labels": {"a": "b"}, "annotations": {
            "c": "d", "endpoints.kubernetes.io/last-change-trigger-time": "x",
            "kubectl.kubernetes.io/last-applied-configuration": "y",
        }}});
        let mut existing = BTreeMap::new();
        // What is said, and how many slices are created, updated and deleted for it.
        let steps = [
            (json!({}), (1, 0, 0)),
            (
                json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80, "protocol": "TCP"}]}]}),
                (0, 1, 0),
            ),
            (two_families, (2, 0, 0)),
            (labelled, (0, 1, 2)),
            // A slice of other ports is made that of the new ones.
            (
                json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 82, "protocol": "TCP"}]}]}),
                (0, 1, 0),
            ),
            // Endpoints of the same name that are others.
            (
                json!({"metadata": {"uid": "f"}, "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 82, "protocol": "TCP"}]}]}),
                (0, 1, 0),
            ),
            (json!({"subsets": null}), (0, 0, 1)),
        ];
        for (at, (change, expected)) in steps.into_iter().enumerate() {
            let endpoints = endpoints(&change);
            let (plan, _) = decide(&endpoints, &decoded(&existing));
            assert_eq!((plan.create.len(), plan.update.len(), plan.delete.len()), expected, "step {at}");
            apply(&plan, &mut existing);
            let (again, _) = decide(&endpoints, &decoded(&existing));
            assert_eq!(again, SlicePlan::default(), "step {at}: again");
            if at == 2 {
                let of = |family: &str, port: i32| {
                    let is = |slice: &&Value| slice["addressType"] == family && slice["ports"][0]["port"] == port;
                    existing.values().find(is).expect("a slice")["endpoints"].clone()
                };
                assert_eq!(of("IPv6", 80), json!([{"addresses": ["fd00::1"], "conditions": {"ready": true}}]));
                let ninth = json!({
                    "addresses": ["10.0.0.9"], "conditions": {"ready": false}, "hostname": "h", "nodeName": "n0",
                });
                assert_eq!(of("IPv4", 81), json!([ninth]));
            }
            if at == 3 {
                let metadata = &existing.values().next().expect("a slice")["metadata"];
                assert_eq!(metadata["annotations"], json!({"c": "d"}));
                assert_eq!(metadata["labels"]["a"], "b");
            }
        }
    }

    /// Contract: API-27
    #[test]
    fn what_cannot_be_mirrored_is_told() {
        let many: Vec<Value> = (0..1500).map(|n| json!({"ip": format!("10.0.{}.{}", n / 250, n % 250)})).collect();
        let cases = [
            (json!([{"ip": "10.0.0.1"}, {"ip": "nothing"}]), 1, vec!["InvalidIPAddress"]),
            (json!(many), 1000, vec!["TooManyAddressesToMirror"]),
        ];
        for (addresses, shown, told) in cases {
            let (plan, tell) = decide(&endpoints(&json!({"subsets": [{"addresses": addresses}]})), &[]);
            assert_eq!(plan.create[0]["endpoints"].as_array().map(Vec::len), Some(shown));
            assert_eq!(tell.iter().map(|(reason, _)| *reason).collect::<Vec<_>>(), told);
        }
    }
}
