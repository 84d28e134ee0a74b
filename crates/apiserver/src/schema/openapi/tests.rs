//! The documents: what kubectl looks for in them.

use std::sync::LazyLock;

use muster_tree::{Value, json};

use super::*;
use crate::model::Subresource;

static REPLICA_SETS: LazyLock<Resource> = LazyLock::new(|| {
    let parts = [Subresource::Status, Subresource::Scale];
    Resource::namespaced("apps", "v1", "ReplicaSet", "replicasets").short(&["rs"]).in_all().parts(&parts)
});

static NODES: LazyLock<Resource> =
    LazyLock::new(|| Resource::cluster("", "v1", "Node", "nodes").short(&["no"]).parts(&[Subresource::Status]));

fn apps() -> Value {
    document("apis/apps/v1", &[&REPLICA_SETS, &NODES], &[]).unwrap_or_default()
}

/// Contract: API-04
#[test]
fn the_index_names_every_group_version() {
    let index = index(&[&REPLICA_SETS, &NODES]);
    let paths = index["paths"].as_object().cloned().unwrap_or_default();
    assert_eq!(paths.keys().collect::<Vec<_>>(), ["api/v1", "apis/apps/v1"]);
    let url = paths["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap_or_default();
    let expected = format!("/openapi/v3/apis/apps/v1?hash={}", hash("apps", "v1", &[&REPLICA_SETS]));
    assert_eq!(url, expected);
    assert_eq!(document("apis/none/v1", &[&NODES], &[]), None);
}

/// Contract: API-04
#[test]
fn every_reference_resolves() {
    fn references<'a>(value: &'a Value, out: &mut Vec<&'a str>) {
        match value {
            Value::Object(entries) => {
                out.extend(entries.get("$ref").and_then(Value::as_str));
                entries.values().for_each(|v| references(v, out));
            }
            Value::Array(items) => items.iter().for_each(|v| references(v, out)),
            _ => {}
        }
    }
    let documents = [(apps(), "#/components/schemas/"), (document_v2(&[&REPLICA_SETS, &NODES], &[]), "#/definitions/")];
    for (document, prefix) in documents {
        let place =
            if prefix.contains("components") { &document["components"]["schemas"] } else { &document["definitions"] };
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 100, "{}", found.len());
        for reference in found {
            let name = reference.strip_prefix(prefix).unwrap_or_default();
            assert!(place.get(name).is_some(), "{reference} is nowhere");
        }
    }
}

/// Contract: API-04, API-12
#[test]
fn schemas_say_how_lists_merge() {
    let document = apps();
    let schemas = &document["components"]["schemas"];
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(containers["x-kubernetes-list-type"], "map");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(containers["items"]["$ref"], "#/components/schemas/io.k8s.api.core.v1.Container");
    assert_eq!(schemas["io.k8s.api.core.v1.PodSpec"]["required"], json!(["containers"]));
    let rs = &schemas["io.k8s.api.apps.v1.ReplicaSet"];
    assert_eq!(
        rs["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "kind": "ReplicaSet", "version": "v1"}])
    );
    assert_eq!(rs["properties"]["spec"]["allOf"][0]["$ref"], "#/components/schemas/io.k8s.api.apps.v1.ReplicaSetSpec");
    assert_eq!(rs["properties"]["spec"]["default"], json!({}));
    assert!(rs["properties"]["spec"]["description"].as_str().is_some_and(|d| d.starts_with("Spec defines")));
    let selector = &schemas["io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"];
    assert_eq!(selector["x-kubernetes-map-type"], "atomic");
    let policy = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["restartPolicy"];
    assert_eq!(policy["enum"], json!(["Always", "Never", "OnFailure"]));
    let port = &schemas["io.k8s.api.core.v1.ContainerPort"]["properties"];
    assert_eq!((&port["containerPort"]["default"], &port["protocol"]["default"]), (&json!(0), &json!("TCP")));
}

/// Contract: API-04
#[test]
fn operations_say_what_kubectl_looks_for() {
    let document = apps();
    let item = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/replicasets/{name}"];
    let patch = &item["patch"];
    assert_eq!(patch["x-kubernetes-action"], "patch");
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "ReplicaSet");
    let names: Vec<&str> =
        patch["parameters"].as_array().into_iter().flatten().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    let media: Vec<muster_tree::Text> =
        patch["requestBody"]["content"].as_object().map(|c| c.keys().cloned().collect()).unwrap_or_default();
    assert_eq!(
        media,
        [
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ]
    );
    let paths = document["paths"].as_object().cloned().unwrap_or_default();
    assert_eq!(
        paths.keys().map(muster_tree::Text::as_str).collect::<Vec<_>>(),
        [
            "/apis/apps/v1/",
            "/apis/apps/v1/namespaces/{namespace}/replicasets",
            "/apis/apps/v1/namespaces/{namespace}/replicasets/{name}",
            "/apis/apps/v1/namespaces/{namespace}/replicasets/{name}/scale",
            "/apis/apps/v1/namespaces/{namespace}/replicasets/{name}/status",
            "/apis/apps/v1/replicasets",
        ]
    );
    let scale = &paths["/apis/apps/v1/namespaces/{namespace}/replicasets/{name}/scale"]["get"];
    assert_eq!(
        scale["x-kubernetes-group-version-kind"],
        json!({"group": "autoscaling", "kind": "Scale", "version": "v1"})
    );
    assert_eq!(item["get"]["operationId"], "readAppsV1NamespacedReplicaSet");
}
