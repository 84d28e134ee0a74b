use muster_tree::{Value, json};

use super::*;

fn object(value: &Value) -> &Object {
    value.as_object().expect("an object")
}

fn now() -> Timestamp {
    Timestamp::parse("2026-01-01T00:10:00Z").expect("a time")
}

fn usage(evaluator: &Evaluator, value: &Value) -> Value {
    Value::Object(evaluator.usage(object(value), now()).to_json())
}

/// Contract: API-21
#[test]
fn which_evaluator_measures_what() {
    let tracked = |group: &str, plural: &str, names: &[&str]| -> Vec<bool> {
        let evaluator = Evaluator::of(group, plural).expect("it is counted");
        names.iter().map(|name| evaluator.tracks(name)).collect()
    };
    for (group, plural, yes, no) in [
        (
            "",
            "pods",
            vec!["pods", "count/pods", "cpu", "limits.memory", "hugepages-2Mi", "requests.example.com/gpu"],
            vec![
                "services",
                "example.com/gpu",
                "requests.storage",
                "limits.example.com/gpu",
                "requests.kubernetes.io/x",
            ],
        ),
        ("", "services", vec!["services", "count/services", "services.nodeports"], vec!["pods", "count/pods"]),
        (
            "",
            "persistentvolumeclaims",
            vec![
                "persistentvolumeclaims",
                "requests.storage",
                "count/persistentvolumeclaims",
                "gold.storageclass.storage.k8s.io/requests.storage",
            ],
            vec!["gold.storageclass.storage.k8s.io/pods", "requests.cpu"],
        ),
        ("", "secrets", vec!["secrets", "count/secrets"], vec!["configmaps"]),
        ("apps", "deployments", vec!["count/deployments.apps"], vec!["deployments", "count/deployments"]),
        ("example.com", "widgets", vec!["count/widgets.example.com"], vec!["widgets"]),
    ] {
        assert_eq!(tracked(group, plural, &yes), vec![true; yes.len()], "{plural}: {yes:?}");
        assert_eq!(tracked(group, plural, &no), vec![false; no.len()], "{plural}: {no:?}");
    }
    for (group, plural) in [("", "events"), ("events.k8s.io", "events"), ("authorization.k8s.io", "x")] {
        assert_eq!(Evaluator::of(group, plural), None, "{plural}");
    }
}

/// Contract: API-21
#[test]
fn what_pods_use() {
    let container =
        |requests: Value, limits: Value| json!({"name": "a", "resources": {"requests": requests, "limits": limits}});
    let small = container(json!({"cpu": "100m", "memory": "1Gi"}), json!({"cpu": "200m", "memory": "2Gi"}));
    let gone = json!({"deletionTimestamp": "2026-01-01T00:09:00Z", "deletionGracePeriodSeconds": 30});
    let going = json!({"deletionTimestamp": "2026-01-01T00:09:00Z", "deletionGracePeriodSeconds": 60});
    let of_small = json!({
        "count/pods": "1", "pods": "1", "cpu": "100m", "requests.cpu": "100m", "limits.cpu": "200m",
        "memory": "1Gi", "requests.memory": "1Gi", "limits.memory": "2Gi",
    });
    let count = json!({"count/pods": "1"});
    let resized = json!({"containerStatuses": [
        {"name": "a", "resources": {"requests": {"cpu": "150m"}, "limits": {"cpu": "100m"}}, "allocatedResources": {"cpu": "120m"}},
    ]});
    for (name, pod, expected) in [
        ("nothing", json!({"spec": {"containers": [{"name": "a"}]}}), json!({"count/pods": "1", "pods": "1"})),
        ("one container", json!({"spec": {"containers": [small]}}), of_small.clone()),
        ("over", json!({"spec": {"containers": [small]}, "status": {"phase": "Succeeded"}}), count.clone()),
        ("beyond its grace period", json!({"metadata": gone, "spec": {"containers": [small]}}), count),
        ("within its grace period", json!({"metadata": going, "spec": {"containers": [small]}}), of_small),
        (
            "an init container that needs more, beside a sidecar",
            json!({"spec": {
                "initContainers": [
                    {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}},
                    {"name": "i", "resources": {"requests": {"cpu": "300m"}}},
                ],
                "containers": [{"name": "a", "resources": {"requests": {"cpu": "100m"}}}],
            }}),
            json!({"count/pods": "1", "pods": "1", "cpu": "350m", "requests.cpu": "350m"}),
        ),
        (
            "extended resources and huge pages",
            json!({"spec": {"containers": [container(
                json!({"example.com/gpu": "2", "hugepages-2Mi": "4Mi"}), json!({"example.com/gpu": "2"})
            )]}}),
            json!({
                "count/pods": "1", "pods": "1", "requests.example.com/gpu": "2",
                "hugepages-2Mi": "4Mi", "requests.hugepages-2Mi": "4Mi",
            }),
        ),
        (
            "the pod's own level and overhead",
            json!({"spec": {
                "containers": [{"name": "a", "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}}],
                "resources": {"requests": {"cpu": "1"}},
                "overhead": {"cpu": "10m", "memory": "1Mi"},
            }}),
            json!({
                "count/pods": "1", "pods": "1", "cpu": "1010m", "requests.cpu": "1010m",
                "memory": "1Mi", "requests.memory": "1Mi", "limits.memory": "1025Mi",
            }),
        ),
        (
            "a resize that is under way",
            json!({"spec": {"containers": [container(json!({"cpu": "100m"}), json!({"cpu": "200m"}))]}, "status": resized}),
            json!({"count/pods": "1", "pods": "1", "cpu": "150m", "requests.cpu": "150m", "limits.cpu": "200m"}),
        ),
    ] {
        assert_eq!(usage(&Evaluator::Pods, &pod), expected, "{name}");
    }
}

/// Contract: API-21
#[test]
fn what_services_and_claims_use() {
    let service = |node_ports: u32, balancers: u32| {
        json!({
            "count/services": "1", "services": "1", "services.nodeports": node_ports.to_string(),
            "services.loadbalancers": balancers.to_string(),
        })
    };
    let ports = json!([{"port": 80, "nodePort": 30000}, {"port": 81}]);
    for (name, spec, expected) in [
        ("an address", json!({"type": "ClusterIP", "ports": ports}), service(0, 0)),
        ("node ports", json!({"type": "NodePort", "ports": ports}), service(2, 0)),
        ("a load balancer", json!({"type": "LoadBalancer", "ports": ports}), service(2, 1)),
        (
            "one without node ports of its own",
            json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": ports}),
            service(1, 1),
        ),
    ] {
        assert_eq!(usage(&Evaluator::Services, &json!({"spec": spec})), expected, "{name}");
    }
    let claim = json!({
        "spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"allocatedResources": {"storage": "2Gi"}},
    });
    assert_eq!(
        usage(&Evaluator::Claims, &claim),
        json!({
            "count/persistentvolumeclaims": "1", "persistentvolumeclaims": "1", "requests.storage": "2Gi",
            "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
            "gold.storageclass.storage.k8s.io/requests.storage": "2Gi",
        })
    );
    let fraction = json!({"spec": {"resources": {"requests": {"storage": "1500m"}}}});
    assert_eq!(usage(&Evaluator::Claims, &fraction)["requests.storage"], "2");
}

/// Contract: API-21
#[test]
fn which_objects_are_within_a_scope() {
    let pod = |spec: Value| json!({"spec": spec});
    let plain = pod(json!({"containers": [{"name": "a"}]}));
    let asking = pod(json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}));
    let ending = pod(json!({"activeDeadlineSeconds": 5, "containers": [{"name": "a"}]}));
    let high = pod(json!({"priorityClassName": "high", "containers": [{"name": "a"}]}));
    let reaching = pod(json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": {"namespaceSelector": {}}},
    ]}}}));
    let named = |name: &str| json!({"scopes": [name]});
    let selected = |name: &str, operator: &str, values: Value| json!({"scopeSelector": {"matchExpressions": [{"scopeName": name, "operator": operator, "values": values}]}});
    for (quota, yes, no) in [
        (json!({}), vec![&plain, &high], vec![]),
        (named("BestEffort"), vec![&plain], vec![&asking]),
        (named("NotBestEffort"), vec![&asking], vec![&plain]),
        (named("Terminating"), vec![&ending], vec![&plain]),
        (named("NotTerminating"), vec![&plain], vec![&ending]),
        (named("PriorityClass"), vec![&high], vec![&plain]),
        (named("CrossNamespacePodAffinity"), vec![&reaching], vec![&plain]),
        (selected("PriorityClass", "In", json!(["high", "low"])), vec![&high], vec![&plain]),
        (selected("PriorityClass", "NotIn", json!(["low"])), vec![&high, &plain], vec![]),
        (selected("PriorityClass", "DoesNotExist", json!(null)), vec![&plain], vec![&high]),
        (selected("PriorityClass", "Bogus", json!(null)), vec![], vec![&plain, &high]),
    ] {
        let scopes = scopes(object(&quota));
        for (objects, expected) in [(yes, true), (no, false)] {
            for each in objects {
                assert_eq!(Evaluator::Pods.is_in(&scopes, object(each)), expected, "{quota} {each}");
            }
        }
        let service = json!({"spec": {"type": "ClusterIP"}});
        assert_eq!(Evaluator::Services.is_in(&scopes, object(&service)), scopes.is_empty(), "{quota}");
    }
    let claim = json!({"spec": {"volumeAttributesClassName": "fast"}});
    let fast = scopes(object(&selected("VolumeAttributesClass", "In", json!(["fast"]))));
    assert!(Evaluator::Claims.is_in(&fast, object(&claim)));
    assert!(!Evaluator::Claims.is_in(&fast, object(&json!({"spec": {}}))));
}
