//! Who may have devices that others have, give devices to claims, and tell of them.

use serde_json::{Value, json};

use super::{CLAIMS, TEMPLATES, allocation, causes, change_status, exactly, make, object, refused, told};
use crate::support::start;

/// Contract: API-43
#[tokio::test(start_paused = true)]
async fn devices_that_others_have_are_had_in_some_namespaces_only() {
    let server = start();
    let mut devices = exactly("gpu");
    devices["requests"][0]["exactly"]["adminAccess"] = json!(true);
    let claim = object("ResourceClaim", &json!({"devices": devices}));
    let template = object("ResourceClaimTemplate", &json!({"spec": {"devices": devices}}));
    let why = "Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace";
    let field = "spec.devices.requests[0].adminAccess";
    refused(&server, CLAIMS, &claim, &[(field, why.to_owned())]).await;
    refused(&server, TEMPLATES, &template, &[(field, why.to_owned())]).await;
    make(&server, CLAIMS, &object("ResourceClaim", &json!({"devices": exactly("gpu")}))).await;
    let mut given = allocation("a");
    given["devices"]["results"][0]["adminAccess"] = json!(true);
    let refusal = causes(&change_status(&server, &json!({"allocation": given})).await);
    assert_eq!(refusal, [("status.allocation.devices.results[0].adminAccess".to_owned(), why.to_owned())]);

    let label = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
    assert_eq!(server.merge("/api/v1/namespaces/default", &label).await.status, 200);
    make(&server, &format!("{CLAIMS}?dryRun=All"), &{
        let mut claim = claim.clone();
        claim["metadata"]["name"] = json!("two");
        claim
    })
    .await;
    make(&server, TEMPLATES, &template).await;
    assert_eq!(change_status(&server, &json!({"allocation": given})).await.status, 200);
}

/// Who may write a claim's status may not yet give devices to it, nor speak for a driver.
///
/// Contract: API-31, API-43
#[tokio::test(start_paused = true)]
async fn devices_are_given_and_told_of_by_those_who_may() {
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";
    let server = start();
    make(&server, CLAIMS, &object("ResourceClaim", &json!({"devices": exactly("gpu")}))).await;
    let account = "system:serviceaccount:default:driver";
    let role = async |name: &str, rule: Value| {
        let role = json!({"metadata": {"name": name}, "rules": [rule]});
        make(&server, &format!("{ROLES}/clusterroles"), &role).await;
        let subject = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": account});
        let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
        let binding = json!({"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]});
        make(&server, &format!("{ROLES}/clusterrolebindings"), &binding).await;
    };
    let rule = |verbs: &[&str], resource: &str, names: &[&str]| json!({"apiGroups": ["resource.k8s.io"], "resources": [resource], "verbs": verbs, "resourceNames": names});
    let write = async |node: Option<&str>, status: Value| {
        let mut headers = vec![("Content-Type", "application/merge-patch+json"), ("Impersonate-User", account)];
        if let Some(node) = node {
            headers.push(("Impersonate-Extra-authentication.kubernetes.io%2fnode-name", node));
        }
        server.send("PATCH", &format!("{CLAIMS}/one/status"), &headers, json!({"status": status}).to_string()).await
    };
    role("status", rule(&["patch"], "resourceclaims/status", &[])).await;
    let on_node = {
        let mut given = allocation("a");
        let field = json!({"key": "metadata.name", "operator": "In", "values": ["node-a"]});
        given["nodeSelector"] = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
        given
    };
    let why = format!(
        r#"Forbidden: changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="patch" permission: resourceclaims.resource.k8s.io is forbidden: User "{account}" cannot patch resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope"#
    );
    let refusal = causes(&write(None, json!({"allocation": on_node})).await);
    assert_eq!(refusal, [("status.allocation".to_owned(), why)]);
    role("binding", rule(&["patch"], "resourceclaims/binding", &[])).await;
    let given = write(None, json!({"allocation": on_node})).await;
    assert_eq!(given.status, 200, "{}", given.json());

    // Nor may others say who has it reserved.
    let reserved = json!({"reservedFor": [{"resource": "pods", "name": "a", "uid": "1"}]});
    server.delete(&format!("{ROLES}/clusterrolebindings/binding"), None).await;
    let refusal = causes(&write(None, reserved.clone()).await);
    assert!(refusal.len() == 1 && refusal[0].1.contains("resourceclaims/binding"), "{refusal:?}");
    role("again", rule(&["patch"], "resourceclaims/binding", &[])).await;
    assert_eq!(write(None, reserved).await.status, 200);

    let news = json!({"devices": [told("a", &json!({}))]});
    let why = |verbs: &str, verb: &str| {
        format!(
            r#"Forbidden: changing status.devices requires resource="resourceclaims/driver", verb="[{verbs}]" permission: resourceclaims.resource.k8s.io "dra.example.com" is forbidden: User "{account}" cannot {verb} resource "resourceclaims/driver" in API group "resource.k8s.io" in the namespace "default""#
        )
    };
    let (near, any) = ("associated-node:patch", "arbitrary-node:patch");
    for (node, verbs, verb) in [
        (None, any.to_owned(), any),
        (Some("node-b"), any.to_owned(), any),
        (Some("node-a"), format!("{near} {any}"), near),
    ] {
        let refusal = causes(&write(node, news.clone()).await);
        assert_eq!(refusal, [("status.devices".to_owned(), why(&verbs, verb))], "{node:?}");
    }
    role("near", rule(&[near], "resourceclaims/driver", &["dra.example.com"])).await;
    assert_eq!(write(None, news.clone()).await.status, 422);
    assert_eq!(write(Some("node-a"), news.clone()).await.status, 200);
    let other = json!({"devices": [told("a", &json!({"data": {"b": 1}}))]});
    assert_eq!(write(None, other).await.status, 422, "something else told of it");
    assert_eq!(write(None, json!({"devices": []})).await.status, 422, "what is no more told of");
    let mut whole = server.get(&format!("{CLAIMS}/one")).await.json();
    whole["status"]["devices"] = json!([]);
    let headers = [("Content-Type", "application/json"), ("Impersonate-User", account)];
    role("put", rule(&["update"], "resourceclaims/status", &[])).await;
    let put = server.send("PUT", &format!("{CLAIMS}/one/status"), &headers, whole.to_string()).await;
    assert!(causes(&put)[0].1.contains("verb=\"[arbitrary-node:update]\""), "{}", put.json());
    role("any", rule(&[any], "resourceclaims/driver", &["dra.example.com"])).await;
    assert_eq!(write(None, json!({"devices": []})).await.status, 200);
    // With the devices goes what is told of them, whoever may speak for their drivers.
    assert_eq!(write(Some("node-a"), json!({"devices": [told("a", &json!({}))]})).await.status, 200);
    server.delete(&format!("{ROLES}/clusterrolebindings/any"), None).await;
    server.delete(&format!("{ROLES}/clusterrolebindings/near"), None).await;
    assert_eq!(write(None, json!({"allocation": null, "reservedFor": null})).await.json()["status"], json!({}));
}
