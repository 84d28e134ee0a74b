use serde_json::{Value, json};

use super::endpoints::{self, EndpointsWrite};
use super::slices::{self, SlicePlan};
use super::*;
use crate::testing::{decode_pod, merge, pod_json, slim, uid_text};

/// When the Service was created.
const CREATED: &str = "2026-01-01T00:00:00Z";

fn service(change: &Value) -> Slim<Service> {
    let mut service = json!({
        "metadata": {
            "name": "web", "namespace": "ns", "uid": uid_text(900), "resourceVersion": "5",
            "creationTimestamp": CREATED, "labels": {"team": "a"},
        },
        "spec": {
            "type": "ClusterIP", "clusterIP": "10.96.0.10", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
        },
    });
    merge(&mut service, change);
    slim(&service)
}

/// The pod `p<n>` with the address 10.0.0.n, ready on the node `node-<n % 2>`.
fn pod(n: u32, change: &Value) -> Arc<Pod> {
    let mut json = pod_json(
        n,
        &json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {"nodeName": format!("node-{}", n % 2)},
            "status": {
                "phase": "Running", "podIP": format!("10.0.0.{n}"), "podIPs": [{"ip": format!("10.0.0.{n}")}],
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": CREATED}],
            },
        }),
    );
    merge(&mut json, change);
    decode_pod(&json)
}

fn pods(numbers: impl IntoIterator<Item = u32>) -> Vec<Arc<Pod>> {
    numbers.into_iter().map(|n| pod(n, &json!({}))).collect()
}

fn unready() -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
}

fn zone(node: &str) -> Option<String> {
    node.starts_with("node-").then(|| if node == "node-1" { "east".to_owned() } else { String::new() })
}

fn decide(service: &Slim<Service>, pods: &[Arc<Pod>], existing: &[Value]) -> SlicePlan {
    let existing: Vec<_> = existing.iter().map(|slice| Arc::new(slim(slice))).collect();
    slices::decide(service, pods, &existing, zone, None)
}

/// A slice as it is stored, out of what was created.
fn stored(name: &str, created: &Value) -> Value {
    let mut slice = created.clone();
    merge(&mut slice, &json!({"metadata": {"name": name, "uid": uid_text(800), "resourceVersion": "7"}}));
    slice
}

fn addresses(slice: &Value) -> Vec<&str> {
    let endpoints = slice["endpoints"].as_array().expect("a list");
    endpoints.iter().map(|endpoint| endpoint["addresses"][0].as_str().expect("an address")).collect()
}

/// Contract: API-27
#[test]
fn a_service_gets_one_slice_of_its_pods() {
    let pods = [pod(1, &json!({})), pod(2, &unready())];
    let plan = decide(&service(&json!({})), &pods, &[]);
    let target = |n: u32| json!({"kind": "Pod", "namespace": "ns", "name": format!("p{n}"), "uid": uid_text(n)});
    assert_eq!(
        plan.create,
        [json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "generateName": "web-", "namespace": "ns",
                "labels": {
                    "team": "a", "kubernetes.io/service-name": "web",
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                },
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Service", "name": "web", "uid": uid_text(900),
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": [
                {
                    "addresses": ["10.0.0.1"],
                    "conditions": {"ready": true, "serving": true, "terminating": false},
                    "nodeName": "node-1", "zone": "east", "targetRef": target(1),
                },
                {
                    "addresses": ["10.0.0.2"],
                    "conditions": {"ready": false, "serving": false, "terminating": false},
                    "nodeName": "node-0", "targetRef": target(2),
                },
            ],
        })]
    );
    assert_eq!(decide(&service(&json!({})), &pods, &[stored("web-1", &plan.create[0])]), SlicePlan::default());
}

/// Contract: API-27
#[test]
fn which_pods_have_an_endpoint_and_how() {
    let going = json!({"metadata": {"deletionTimestamp": CREATED}});
    let addressless = json!({"status": {"podIP": null, "podIPs": null}});
    let publishing = json!({"spec": {"publishNotReadyAddresses": true}});
    let none = json!({});
    for (name, service_change, pod_change, expected) in [
        ("ready", &none, none.clone(), Some((true, true, false))),
        ("not ready", &none, unready(), Some((false, false, false))),
        ("going", &none, going.clone(), Some((false, true, true))),
        ("without an address", &none, addressless, None),
        ("over", &none, json!({"status": {"phase": "Succeeded"}}), None),
        ("on no node that is known", &none, json!({"spec": {"nodeName": "other"}}), None),
        ("not ready, published", &publishing, unready(), Some((true, false, false))),
        ("going, published", &publishing, going, Some((true, true, true))),
        ("on no node, published", &publishing, json!({"spec": {"nodeName": "other"}}), Some((true, true, false))),
        ("of another family", &none, json!({"status": {"podIPs": [{"ip": "fd00::1"}]}}), None),
    ] {
        let plan = decide(&service(service_change), &[pod(1, &pod_change)], &[]);
        let found = plan.create[0]["endpoints"].get(0).map(|endpoint| {
            let condition = |name: &str| endpoint["conditions"][name].as_bool().expect("a boolean");
            (condition("ready"), condition("serving"), condition("terminating"))
        });
        assert_eq!(found, expected, "{name}");
        assert_eq!(plan.incomplete, name == "on no node that is known", "{name}");
    }
}

/// Contract: API-27
#[test]
fn a_service_without_pods_has_a_slice_that_says_so() {
    let service = service(&json!({}));
    let plan = decide(&service, &[], &[]);
    assert_eq!((&plan.create[0]["endpoints"], &plan.create[0]["ports"]), (&json!([]), &json!([])));
    let placeholder = stored("web-1", &plan.create[0]);
    assert_eq!(decide(&service, &[], std::slice::from_ref(&placeholder)), SlicePlan::default());
    // It becomes the first slice with endpoints, and the last one becomes it again.
    let plan = decide(&service, &pods([1]), &[placeholder]);
    assert_eq!((plan.create.len(), plan.delete.len(), plan.update.len()), (0, 0, 1));
    assert_eq!((&*plan.update[0].0, addresses(&plan.update[0].1)), ("web-1", vec!["10.0.0.1"]));
    let full = stored("web-1", &decide(&service, &pods([1]), &[]).create[0]);
    let plan = decide(&service, &[], &[full]);
    assert_eq!((plan.create.len(), plan.delete.len(), plan.update.len()), (0, 0, 1));
    assert_eq!(plan.update[0].1["endpoints"], json!([]));
}

/// Contract: API-27
#[test]
fn slices_are_filled_to_a_hundred_and_change_as_little_as_can_be() {
    let service = service(&json!({}));
    let plan = decide(&service, &pods(1..=250), &[]);
    let sizes: Vec<usize> = plan.create.iter().map(|slice| addresses(slice).len()).collect();
    assert_eq!(sizes, [100, 100, 50]);
    let slices: Vec<Value> =
        ["a", "b", "c"].iter().zip(&plan.create).map(|(name, slice)| stored(name, slice)).collect();
    assert_eq!(decide(&service, &pods(1..=250), &slices), SlicePlan::default());
    // A new one goes where there is room.
    let plan = decide(&service, &pods(1..=251), &slices);
    let updated: Vec<&str> = plan.update.iter().map(|(name, _)| &**name).collect();
    assert_eq!((updated, plan.create.len()), (vec!["c"], 0));
    // One that changes anyway is filled before that.
    let first = addresses(&slices[0])[0].to_owned();
    let replaced = pods((1..=251).filter(|n| format!("10.0.0.{n}") != first));
    let plan = decide(&service, &replaced, &slices);
    let updated: Vec<(&str, usize)> =
        plan.update.iter().map(|(name, patch)| (&**name, addresses(patch).len())).collect();
    assert_eq!((updated, plan.create.len()), (vec![("a", 100)], 0));
    // A slice that has nothing left goes.
    let kept: Vec<&str> = slices[..2].iter().flat_map(addresses).collect();
    let fewer = pods((1..=250).filter(|n| kept.contains(&&*format!("10.0.0.{n}"))));
    let plan = decide(&service, &fewer, &slices);
    let deleted: Vec<&str> = plan.delete.iter().map(|(name, _)| &**name).collect();
    assert_eq!((deleted, plan.update.len()), (vec!["c"], 0));
}

/// Contract: API-27
#[test]
fn a_readiness_or_a_label_that_changed_is_patched_in_place() {
    let created = decide(&service(&json!({})), &pods([1]), &[]).create.remove(0);
    let slice = stored("web-1", &created);
    let plan = decide(&service(&json!({})), &[pod(1, &unready())], std::slice::from_ref(&slice));
    let (name, patch) = &plan.update[0];
    assert_eq!((&**name, &patch["metadata"]["resourceVersion"]), ("web-1", &json!("7")));
    assert_eq!(patch["endpoints"][0]["conditions"]["ready"], json!(false));
    let relabelled = service(&json!({"metadata": {"labels": {"team": null, "tier": "b"}}}));
    let plan = decide(&relabelled, &pods([1]), std::slice::from_ref(&slice));
    assert_eq!(plan.update[0].1["metadata"]["labels"], json!({"team": null, "tier": "b"}));
    // One of an earlier Service of that name is not taken over.
    let mut foreign = slice;
    foreign["metadata"]["ownerReferences"][0]["uid"] = json!(uid_text(901));
    let plan = decide(&service(&json!({})), &pods([1]), &[foreign]);
    assert_eq!((plan.create.len(), plan.update.len(), plan.delete.len()), (1, 0, 1));
    // Nothing is made for a Service that is going.
    let going = service(&json!({"metadata": {"deletionTimestamp": CREATED}}));
    assert_eq!(decide(&going, &pods([1]), &[]).create, Vec::<Value>::new());
}

/// Contract: API-27
#[test]
fn pods_with_different_ports_are_in_different_slices() {
    let by_name =
        service(&json!({"spec": {"ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "web"}]}}));
    let with = |n: u32, port: u16| {
        pod(n, &json!({"spec": {"containers": [{"name": "app", "ports": [{"name": "web", "containerPort": port}]}]}}))
    };
    let plan = decide(&by_name, &[with(1, 8080), with(2, 9090), with(3, 8080), pod(4, &json!({}))], &[]);
    let found: Vec<(Value, Vec<&str>)> =
        plan.create.iter().map(|slice| (slice["ports"].clone(), addresses(slice))).collect();
    let http = |port: u16| json!([{"name": "http", "port": port, "protocol": "TCP"}]);
    assert_eq!(
        found,
        [(json!([]), vec!["10.0.0.4"]), (http(8080), vec!["10.0.0.1", "10.0.0.3"]), (http(9090), vec!["10.0.0.2"]),]
    );
}

/// Contract: API-27
#[test]
fn hints_keep_traffic_where_it_should_stay() {
    let near = service(&json!({"spec": {"trafficDistribution": "PreferSameNode"}}));
    let created = decide(&near, &pods([1, 2]), &[]).create.remove(0);
    let hints: Vec<&Value> = created["endpoints"].as_array().expect("a list").iter().map(|e| &e["hints"]).collect();
    assert_eq!(hints[0], &json!({"forZones": [{"name": "east"}], "forNodes": [{"name": "node-1"}]}));
    assert_eq!(hints[1], &json!({"forNodes": [{"name": "node-0"}]}));
    let slice = stored("web-1", &created);
    assert_eq!(decide(&near, &pods([1, 2]), std::slice::from_ref(&slice)), SlicePlan::default());
    let plan = decide(&service(&json!({})), &pods([1, 2]), &[slice]);
    assert_eq!(plan.update[0].1["endpoints"][0].get("hints"), None);
}

fn created(write: Option<EndpointsWrite>) -> Value {
    match write {
        Some(EndpointsWrite::Create(object)) => object,
        other => panic!("{other:?}"),
    }
}

/// Contract: API-27
#[test]
fn endpoints_show_ready_pods_and_the_others_apart() {
    let going = json!({"metadata": {"deletionTimestamp": CREATED}});
    let pods = [pod(1, &json!({})), pod(2, &unready()), pod(3, &going)];
    let object = created(endpoints::decide(&service(&json!({})), &pods, None, None));
    let target = |n: u32| json!({"kind": "Pod", "namespace": "ns", "name": format!("p{n}"), "uid": uid_text(n)});
    assert_eq!(
        object["subsets"],
        json!([{
            "addresses": [{"ip": "10.0.0.1", "nodeName": "node-1", "targetRef": target(1)}],
            "notReadyAddresses": [{"ip": "10.0.0.2", "nodeName": "node-0", "targetRef": target(2)}],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        }])
    );
    let labels = json!({"team": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    assert_eq!(object["metadata"]["labels"], labels);
    let mut stored = object;
    merge(&mut stored, &json!({"metadata": {"uid": uid_text(700), "resourceVersion": "3"}}));
    let existing: Slim<Endpoints> = slim(&stored);
    assert_eq!(endpoints::decide(&service(&json!({})), &pods, Some(&existing), None), None);
    // No pod left: the object stays and is empty.
    let Some(EndpointsWrite::Patch(patch)) = endpoints::decide(&service(&json!({})), &[], Some(&existing), None) else {
        panic!("it changed");
    };
    assert_eq!(patch["subsets"], json!([]));
    // One without an address of its own, and without ports.
    let headless = service(&json!({"spec": {"clusterIP": "None", "ports": null}}));
    let object = created(endpoints::decide(&headless, &pods[..1], None, None));
    assert_eq!(object["metadata"]["labels"]["service.kubernetes.io/headless"], "");
    assert_eq!(object["subsets"][0].get("ports"), None);
}

/// Contract: API-27
#[test]
fn the_annotation_names_the_earliest_change() {
    let mut times = TriggerTimes::default();
    let service = service(&json!({}));
    let since = |n: u32, second: u32| {
        let time = format!("2026-01-01T00:01:{second:02}Z");
        pod(n, &json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": time}]}}))
    };
    let at = |second: u32| Timestamp::parse(&format!("2026-01-01T00:01:{second:02}Z")).ok();
    assert_eq!(times.changed_at(&service.meta, &[since(1, 5)]), Timestamp::parse(CREATED).ok());
    assert_eq!(times.changed_at(&service.meta, &[since(1, 5)]), None);
    assert_eq!(times.changed_at(&service.meta, &[since(1, 9), since(2, 7)]), at(7));
    assert_eq!(times.changed_at(&service.meta, &[since(2, 8)]), at(8));
    times.forget(&service.meta.key());
    assert_eq!(times.changed_at(&service.meta, &[]), Timestamp::parse(CREATED).ok());
}

/// Contract: API-27
#[test]
fn a_change_of_a_pod_concerns_the_services_that_select_it() {
    let mut services: Cache<Slim<Service>> = Cache::new();
    let other = json!({"metadata": {"name": "api", "uid": uid_text(901)}, "spec": {"selector": {"app": "api"}}});
    services.apply(service(&json!({})));
    services.apply(service(&other));
    services.apply(service(&json!({"metadata": {"name": "none", "uid": uid_text(902)}, "spec": {"selector": null}})));
    let names = |change: &Change<Pod>| -> Vec<String> {
        concerned(change, &services).iter().map(|key| key.name.to_string()).collect()
    };
    let updated = |change: &Value| Change::Updated { old: pod(1, &json!({})), new: pod(1, change) };
    let moved = json!({"metadata": {"labels": {"app": "api"}}});
    for (name, change, expected) in [
        ("added", Change::Added(pod(1, &json!({}))), vec!["web"]),
        ("deleted", Change::Deleted { last: pod(1, &json!({})), tombstone: false }, vec!["web"]),
        ("an annotation", updated(&json!({"metadata": {"annotations": {"a": "b"}}})), vec![]),
        ("readiness", updated(&unready()), vec!["web"]),
        ("an address", updated(&json!({"status": {"podIPs": [{"ip": "10.0.0.9"}]}})), vec!["web"]),
        ("its labels", updated(&moved), vec!["api", "web"]),
        ("its end", updated(&json!({"status": {"phase": "Failed"}})), vec!["web"]),
    ] {
        assert_eq!(names(&change), expected, "{name}");
    }
}
