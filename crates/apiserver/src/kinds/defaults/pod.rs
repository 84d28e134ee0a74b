//! Defaults that only a pod has, not a pod template.

use muster_tree::Value;

use super::super::Object;
use super::{drop_init_container_annotations, pod_spec, resource_list, resources};
use crate::model::fields::Fields;
use crate::model::pod::aggregate;

/// Defaults of a pod.
pub fn pod(pod: &mut Object) {
    drop_init_container_annotations(pod);
    let spec = pod.object_or_new("spec");
    for field in ["containers", "initContainers"] {
        for container in spec.items_mut(field) {
            requests_from_limits(container);
        }
    }
    if spec.contains_key("resources") {
        pod_level_resources(spec);
    }
    spec.set_if_absent("enableServiceLinks", true);
    if spec.flag("hostNetwork") {
        for field in ["containers", "initContainers"] {
            for container in spec.items_mut(field) {
                host_ports(container);
            }
        }
    }
    pod_spec(spec);
    // A pod's own grace is at least a second; in a template a negative one stays as it is.
    if spec.int("terminationGracePeriodSeconds") < 0 {
        spec.insert("terminationGracePeriodSeconds", 1.into());
    }
    pod_status(pod);
}

/// A limit without a request is also the request.
fn requests_from_limits(container: &mut Object) {
    let Some(resources) = container.object_mut("resources") else { return };
    let Some(limits) = resources.object("limits").filter(|l| !l.is_empty()).cloned() else { return };
    let requests = resources.object_or_new("requests");
    for (name, quantity) in limits {
        requests.entry(name).or_insert(quantity);
    }
}

/// With host networking a port without a host port has the container's.
fn host_ports(container: &mut Object) {
    for port in container.items_mut("ports") {
        if port.int("hostPort") == 0 {
            let own = port.int("containerPort");
            port.insert("hostPort", own.into());
        }
    }
}

/// Requests and limits of the pod as a whole, where it has some: what it does not say follows from its containers.
fn pod_level_resources(spec: &mut Object) {
    let limits_of_all = aggregate(spec, "limits");
    let requests_of_all = aggregate(spec, "requests");
    let Some(resources) = spec.object_mut("resources") else { return };
    let any = |resources: &Object, list: &str| resources.object(list).is_some_and(|l| !l.is_empty());
    if any(resources, "limits") || any(resources, "requests") {
        for (name, quantity) in limits_of_all {
            let requested = resources.object("requests").is_some_and(|r| r.contains_key(&name));
            if name.starts_with("hugepages-") && !requested {
                resources.object_or_new("limits").entry(name).or_insert(Value::from(quantity.to_string()));
            }
        }
    }
    if any(resources, "limits") {
        for (name, quantity) in requests_of_all {
            if matches!(name.as_str(), "cpu" | "memory") {
                resources.object_or_new("requests").entry(name).or_insert(Value::from(quantity.to_string()));
            }
        }
        let limits = resources.object("limits").cloned().unwrap_or_default();
        for (name, quantity) in limits {
            if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
                resources.object_or_new("requests").entry(name).or_insert(quantity);
            }
        }
    }
}

/// Defaults and conversions of a pod's status: `podIP` is always the first of `podIPs`.
pub fn pod_status(pod: &mut Object) {
    let Some(status) = pod.object_mut("status") else { return };
    let one = status.text("podIP").to_owned();
    let first = status.items("podIPs").next().map(|ip| ip.text("ip").to_owned());
    match first {
        Some(first) if one.is_empty() => {
            if !first.is_empty() {
                status.insert("podIP", first.into());
            }
        }
        Some(first) if first == one => {}
        _ if one.is_empty() => {}
        // The old field wins: older nodes write only that.
        _ => {
            status.insert("podIPs", muster_tree::json!([{ "ip": one }]));
        }
    }
    for field in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for container in status.items_mut(field) {
            resource_list(container, "allocatedResources");
            resources(container, "resources");
        }
    }
    resource_list(status, "allocatedResources");
    resources(status, "resources");
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    fn defaulted(sent: Value) -> Object {
        let Value::Object(mut object) = sent else { panic!("not an object") };
        pod(&mut object);
        let once = object.clone();
        pod(&mut object);
        assert_eq!(once, object, "defaulting twice is defaulting once");
        object
    }

    /// Contract: API-16
    #[test]
    fn a_pod_gets_requests_from_its_limits() {
        let pod = defaulted(json!({"spec": {"containers": [
            {"name": "c", "image": "i", "resources": {"limits": {"cpu": "0.5", "memory": "1Gi"}, "requests": {"memory": "512Mi"}}}
        ]}}));
        assert_eq!(
            pod["spec"]["containers"][0]["resources"],
            json!({"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "512Mi"}})
        );
    }

    /// Contract: API-16
    #[test]
    fn a_pods_negative_grace_is_one_second_and_host_ports_follow() {
        let pod = defaulted(json!({"spec": {"hostNetwork": true, "terminationGracePeriodSeconds": -7, "containers": [
            {"name": "c", "image": "i", "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]}
        ]}}));
        assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 1);
        let ports = &pod["spec"]["containers"][0]["ports"];
        assert_eq!((&ports[0]["hostPort"], &ports[1]["hostPort"]), (&json!(80), &json!(8081)));
        assert_eq!(pod["spec"]["enableServiceLinks"], true);
    }

    /// Contract: API-16
    #[test]
    fn pod_level_requests_follow_the_containers_or_the_limits() {
        let pod = defaulted(json!({"spec": {
            "resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
            "containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "250m"}}}, {"name": "b", "image": "i", "resources": {"requests": {"cpu": "250m"}}}]
        }}));
        assert_eq!(pod["spec"]["resources"]["requests"], json!({"cpu": "500m", "memory": "1Gi"}));
    }

    /// Contract: API-16
    #[test]
    fn the_old_service_account_field_follows_the_new() {
        for (sent, name) in [
            (json!({"serviceAccountName": "a"}), "a"),
            (json!({"serviceAccount": "b"}), "b"),
            (json!({"serviceAccountName": "a", "serviceAccount": "b"}), "a"),
        ] {
            let pod = defaulted(json!({"spec": sent}));
            assert_eq!(
                (&pod["spec"]["serviceAccount"], &pod["spec"]["serviceAccountName"]),
                (&json!(name), &json!(name))
            );
        }
    }

    /// Contract: API-16
    #[test]
    fn pod_ip_is_the_first_of_pod_ips() {
        for (sent, ip, ips) in [
            (json!({"podIP": "1.1.1.1"}), "1.1.1.1", json!([{"ip": "1.1.1.1"}])),
            (
                json!({"podIPs": [{"ip": "1.1.1.1"}, {"ip": "::1"}]}),
                "1.1.1.1",
                json!([{"ip": "1.1.1.1"}, {"ip": "::1"}]),
            ),
            (json!({"podIP": "2.2.2.2", "podIPs": [{"ip": "1.1.1.1"}]}), "2.2.2.2", json!([{"ip": "2.2.2.2"}])),
        ] {
            let pod = defaulted(json!({"spec": {}, "status": sent}));
            assert_eq!((&pod["status"]["podIP"], &pod["status"]["podIPs"]), (&json!(ip), &ips));
        }
    }
}
