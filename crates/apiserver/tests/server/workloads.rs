//! Workloads as the reference writes them, where its own types show through.

use serde_json::{Value, json};

use crate::support::start;

const DAEMONS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

/// Contract: API-15, API-16
#[tokio::test(start_paused = true)]
async fn a_job_without_labels_has_those_of_its_pods() {
    const OWN: usize = 4;
    let server = start();
    let job = |metadata: Value, labels: Value| {
        let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        json!({"metadata": metadata, "spec": {"template": {"metadata": {"labels": labels}, "spec": pod}}})
    };
    let labels = |job: &Value| job["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    let owned = |job: &Value| job["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]["f:labels"].clone();
    let one = json!({".": {}, "f:a": {}});
    for (metadata, template, count, want) in [
        // The template's are the Job's own, with what comes to them.
        (json!({"name": "a"}), json!({"a": "b"}), 1 + OWN, one.clone()),
        // For a name to generate, the reference makes a copy of the Job.
        (json!({"generateName": "g-"}), json!({"a": "b"}), 1, one.clone()),
        // These are equal, and not the same.
        (json!({"name": "b", "labels": {"a": "b"}}), json!({"a": "b"}), 1, one.clone()),
        // Where the template has none they come when it is read, and nobody has written them.
        (json!({"name": "c"}), json!(null), OWN, json!(null)),
        (json!({"generateName": "h-"}), json!(null), OWN, json!(null)),
    ] {
        let answer = server.post(JOBS, &job(metadata.clone(), template.clone())).await.json();
        assert_eq!((labels(&answer).len(), owned(&answer)), (count, want), "{metadata} {template}");
        let pods = &answer["spec"]["template"]["metadata"]["labels"];
        assert_eq!(
            pods.as_object().map(serde_json::Map::len),
            Some(labels(&json!({"metadata": {"labels": template}})).len() + OWN)
        );
        for (label, value) in labels(&answer) {
            assert_eq!(pods[&label], value, "{label}");
        }
    }
    // Who takes them all writes the template's.
    let path = format!("{JOBS}/b");
    let answer = server.merge(&path, &json!({"metadata": {"labels": null}})).await.json();
    assert_eq!((labels(&answer).len(), owned(&answer)["f:job-name"].clone()), (1 + OWN, json!({})));
}

/// Contract: API-05, API-16
#[tokio::test(start_paused = true)]
async fn annotations_that_stand_for_a_field_are_told_where_there_is_no_field() {
    let server = start();
    // Of a DaemonSet one counts its templates. Metadata alone is that of the type that has a field for it.
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    for (name, own) in [("a", json!({})), ("b", json!({"x": "y"}))] {
        let daemons = json!({"metadata": {"name": name, "annotations": own}, "spec": spec});
        assert_eq!(server.post(DAEMONS, &daemons).await.status, 201);
    }
    let annotations = |object: &Value| object["metadata"]["annotations"].clone();
    let count = "deprecated.daemonset.template.generation";
    assert_eq!(annotations(&server.get(&format!("{DAEMONS}/b")).await.json()), json!({count: "1", "x": "y"}));
    let read = async |path: &str, kind: &str| {
        let accept = format!("application/json;as={kind};v=v1;g=meta.k8s.io");
        server.send("GET", &format!("{DAEMONS}{path}"), &[("Accept", &accept)], "").await
    };
    let alone = [Value::Null, json!({"x": "y"})];
    for (name, want) in ["/a", "/b"].iter().zip(&alone) {
        assert_eq!(annotations(&read(name, "PartialObjectMetadata").await.json()), *want);
        assert_eq!(annotations(&read(name, "Table").await.json()["rows"][0]["object"]), *want);
    }
    let list = read("", "PartialObjectMetadataList").await.json();
    assert_eq!([0, 1].map(|i| annotations(&list["items"][i])), alone);
    let watch = read("?watch=1&timeoutSeconds=1", "PartialObjectMetadata").await;
    let lines: Vec<Value> = watch.body.split(|b| *b == b'\n').filter_map(|l| serde_json::from_slice(l).ok()).collect();
    assert_eq!(lines.iter().map(|event| annotations(&event["object"])).collect::<Vec<_>>(), alone);
    let whole = server.get(&format!("{DAEMONS}?watch=1&timeoutSeconds=1")).await;
    assert!(String::from_utf8_lossy(&whole.body).contains(count));

    // Of a HorizontalPodAutoscaler some carry in v1 what v2 has fields for: v2 takes none.
    let carried = "autoscaling.alpha.kubernetes.io/metrics";
    let metrics = r#"[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"5"}}]"#;
    let spec =
        json!({"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}});
    for (version, own, want) in [
        ("v1", json!({carried: metrics, "x": "y"}), json!({carried: metrics, "x": "y"})),
        ("v2", json!({carried: metrics, "x": "y"}), json!({"x": "y"})),
        ("v2", json!({carried: "no JSON"}), Value::Null),
    ] {
        let path = format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers?dryRun=All");
        let answer = server.post(&path, &json!({"metadata": {"name": "h", "annotations": own}, "spec": spec})).await;
        assert_eq!((answer.status, annotations(&answer.json())), (201, want), "{version} {own}: {}", answer.json());
    }
}
