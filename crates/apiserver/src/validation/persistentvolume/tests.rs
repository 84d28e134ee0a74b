//! Cases of the checks.

use muster_tree::json;

use super::*;

fn texts(spec: &Value, old: Option<&Value>) -> Vec<String> {
    let volume = |spec: &Value| json!({"metadata": {"name": "v"}, "spec": spec}).as_object().cloned();
    let mut errors = Errors::new();
    let old = old.and_then(volume);
    validate(&volume(spec).unwrap_or_default(), old.as_ref(), &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

fn plain() -> Value {
    json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "nfs": {"server": "s", "path": "/"}})
}

/// Contract: API-25
#[test]
fn volumes_by_the_table() {
    let with = |field: &str, value: Value| {
        let mut spec = plain();
        spec[field] = value;
        spec
    };
    let cases = [
        (plain(), vec![]),
        (
            with("capacity", json!({"storage": "-1"})),
            vec![
                "spec.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
                "spec.capacity[storage]: Invalid value: \"-1\": must be greater than zero",
            ],
        ),
        (
            with("nodeAffinity", json!({})),
            vec!["spec.nodeAffinity.required: Required value: must specify required node constraints"],
        ),
        (
            with("volumeAttributesClassName", json!("")),
            vec![
                "spec.volumeAttributesClassName: Required value: an empty string is disallowed",
                "spec.csi: Required value: has to be specified when using volumeAttributesClassName",
            ],
        ),
        (with("cephfs", json!({})), vec!["spec.cephFS: Forbidden: may not specify more than 1 volume type"]),
    ];
    for (spec, want) in cases {
        assert_eq!(texts(&spec, None), want, "{spec}");
    }
    let root = json!({
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Recycle",
        "hostPath": {"path": "/a/.."},
    });
    assert_eq!(
        texts(&root, None),
        [
            "spec.hostPath.path: Invalid value: \"/a/..\": must not contain '..'",
            "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
        ]
    );
}

/// Contract: API-25
#[test]
fn what_may_change_of_a_volume() {
    let mut more = plain();
    more["capacity"]["storage"] = json!("2Gi");
    assert_eq!(texts(&more, Some(&plain())), Vec::<String>::new());
    let mut other = plain();
    other["nfs"]["path"] = json!("/b");
    let found = texts(&other, Some(&plain()));
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with(
            "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n@@ "
        ) && found[0].contains("-  \"Path\": \"/\",\n+  \"Path\": \"/b\",\n"),
        "{found:?}"
    );
    let csi = |extra: Value| {
        let mut spec = json!({"capacity": {"storage": "1"}, "accessModes": ["ReadWriteOnce"], "csi": {"driver": "d", "volumeHandle": "h"}});
        if !extra.is_null() {
            spec["csi"]["controllerExpandSecretRef"] = extra;
        }
        spec
    };
    assert_eq!(texts(&csi(json!({"name": "n", "namespace": "s"})), Some(&csi(json!(null)))), Vec::<String>::new());
    let zone = |key: &str| {
        let mut spec = plain();
        let requirement = json!({"key": key, "operator": "Exists"});
        spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}});
        spec
    };
    let (beta, ga) = (zone("failure-domain.beta.kubernetes.io/zone"), zone("topology.kubernetes.io/zone"));
    assert_eq!(texts(&ga, Some(&beta)), Vec::<String>::new());
    assert_eq!(texts(&beta, Some(&ga)).len(), 1);
}
