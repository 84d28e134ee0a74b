//! The empty objects that bookmarks are made of: a kind's zero value, as Go writes it.

use serde_json::{Value, json};

use crate::registry::Served;

/// An object of the kind with nothing in it.
#[must_use]
pub fn empty_object(served: &Served) -> Value {
    let resource = served.resource();
    let template = json!({"metadata": {}, "spec": {"containers": null}});
    let mut object = json!({"kind": resource.kind, "apiVersion": served.api_version(), "metadata": {}});
    let parts: &[(&str, Value)] = &match resource.kind {
        "Pod" => vec![("spec", json!({"containers": null})), ("status", json!({}))],
        "ReplicaSet" => vec![
            ("spec", json!({"replicas": 0, "selector": null, "template": template})),
            ("status", json!({"replicas": 0})),
        ],
        "ReplicationController" => vec![("spec", json!({"replicas": 0})), ("status", json!({"replicas": 0}))],
        "Deployment" => {
            vec![
                ("spec", json!({"replicas": 0, "selector": null, "template": template, "strategy": {}})),
                ("status", json!({})),
            ]
        }
        "Node" => vec![
            ("spec", json!({})),
            (
                "status",
                json!({
                    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
                    "nodeInfo": {
                        "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
                        "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "",
                        "operatingSystem": "", "architecture": "",
                    },
                }),
            ),
        ],
        "HorizontalPodAutoscaler" => vec![
            ("spec", json!({"scaleTargetRef": {"kind": "", "name": ""}, "maxReplicas": 0})),
            ("status", status_of_autoscaler(resource.version)),
        ],
        "Service" => vec![("spec", json!({})), ("status", json!({"loadBalancer": {}}))],
        "EndpointSlice" => vec![("addressType", json!("")), ("endpoints", Value::Null), ("ports", Value::Null)],
        "Namespace" | "ResourceQuota" => vec![("spec", json!({})), ("status", json!({}))],
        "Lease" => vec![("spec", json!({}))],
        "Event" => vec![
            ("involvedObject", json!({})),
            ("source", json!({})),
            ("firstTimestamp", Value::Null),
            ("lastTimestamp", Value::Null),
            ("eventTime", Value::Null),
            ("reportingComponent", json!("")),
            ("reportingInstance", json!("")),
        ],
        _ => Vec::new(),
    };
    for (key, value) in parts {
        object[*key] = value.clone();
    }
    object
}

fn status_of_autoscaler(version: &str) -> Value {
    if version == "v1" {
        return json!({"currentReplicas": 0, "desiredReplicas": 0});
    }
    json!({"desiredReplicas": 0, "currentMetrics": null})
}
