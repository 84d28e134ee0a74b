//! Mutating admission policies, from outside.

use std::slice;

use serde_json::{Value, json};

use crate::support::{
    Answer, Server, start,
    webhook::{Webhook, configuration, patch},
};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn configuration_of(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patch_of(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

/// A mutation that adds a letter to the data.
fn counting(letter: &str) -> Value {
    configuration_of(&format!(
        "Object{{data: Object.data{{seen: (has(object.data.seen) ? object.data.seen : '') + '{letter}'}}}}"
    ))
}

fn with(mut value: Value, fields: &Value) -> Value {
    for (field, own) in fields.as_object().expect("fields") {
        value[field] = own.clone();
    }
    value
}

impl Server {
    /// A policy about the writes of ConfigMaps, where the fields of its spec do not say otherwise, with a binding.
    async fn mutating_policy(&self, name: &str, mutations: &[Value], spec: &Value, binding: &Value) {
        let all = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]);
        let own = json!({
            "matchConstraints": {"resourceRules": all}, "mutations": mutations, "reinvocationPolicy": "Never",
        });
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name}, "spec": with(own, spec),
        });
        let answer = self.post(&format!("{GROUP}/mutatingadmissionpolicies"), &policy).await;
        assert_eq!(answer.status, 201, "{}", answer.json());
        let bound = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": with(json!({"policyName": name}), binding),
        });
        let answer = self.post(&format!("{GROUP}/mutatingadmissionpolicybindings"), &bound).await;
        assert_eq!(answer.status, 201, "{}", answer.json());
    }

    async fn forget(&self, name: &str) {
        for plural in ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"] {
            assert_eq!(self.delete(&format!("{GROUP}/{plural}/{name}"), None).await.status, 200);
        }
    }

    async fn try_config_map(&self) -> Answer {
        self.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("x", &json!({"k": "v"}))).await
    }
}

fn message(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["message"].as_str().unwrap_or_default().to_owned())
}

/// Contract: API-30
#[tokio::test]
async fn mutations_make_of_a_write_what_they_say() {
    let server = start();
    for (mutations, spec, data) in [
        (vec![configuration_of("Object{data: Object.data{x: '1'}}")], json!({}), json!({"k": "v", "x": "1"})),
        (vec![configuration_of("Object{data: {'x-y': object.data.k}}")], json!({}), json!({"k": "v", "x-y": "v"})),
        (vec![configuration_of("Object{}")], json!({}), json!({"k": "v"})),
        (
            vec![configuration_of("Object{?data: optional.none(), ?immutable: optional.none()}")],
            json!({}),
            json!({"k": "v"}),
        ),
        (vec![patch_of("[JSONPatch{op: 'replace', path: '/data/k', value: 'w'}]")], json!({}), json!({"k": "w"})),
        (
            vec![patch_of("[JSONPatch{op: 'add', path: '/data', value: Object.data{x: '1'}}]")],
            json!({}),
            json!({"x": "1"}),
        ),
        (
            vec![patch_of(
                "['a/b', 'c~d'].map(key, JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('x'), value: jsonpatch.escapeKey(key)})",
            )],
            json!({}),
            json!({"k": "v", "x": "c~0d"}),
        ),
        // Of a patch whose test does not hold, nothing is done.
        (
            vec![patch_of(
                "[JSONPatch{op: 'add', path: '/data/x', value: '1'}, JSONPatch{op: 'test', path: '/data/x', value: '2'}]",
            )],
            json!({}),
            json!({"k": "v"}),
        ),
        (
            vec![patch_of(
                "[JSONPatch{op: 'add', path: '/data', value: {'op': JSONPatch{op: 'o'}.op, 'none': JSONPatch{}.op, 'has': string(has(JSONPatch{op: ''}.op))}}]",
            )],
            json!({}),
            json!({"op": "o", "none": "", "has": "false"}),
        ),
        // Each mutation sees what those before it made.
        (
            vec![
                patch_of("[JSONPatch{op: 'copy', from: '/data/k', path: '/data/x'}]"),
                configuration_of("Object{data: {'y': object.data.x + 'y'}}"),
            ],
            json!({}),
            json!({"k": "v", "x": "v", "y": "vy"}),
        ),
        (
            vec![configuration_of("Object{data: {'x': variables.twice}}")],
            json!({"variables": [
                {"name": "once", "expression": "object.data.k + 'v'"}, {"name": "twice", "expression": "variables.once + 'v'"},
            ]}),
            json!({"k": "v", "x": "vvv"}),
        ),
        (
            vec![configuration_of(
                "Object{data: {'x': request.operation + namespaceObject.metadata.name + string(oldObject == null)}}",
            )],
            json!({}),
            json!({"k": "v", "x": "CREATEdefaulttrue"}),
        ),
        (
            vec![configuration_of("Object{data: {'x': '1'}}")],
            json!({"matchConditions": [{"name": "c", "expression": "object.metadata.name != 'x'"}]}),
            json!({"k": "v"}),
        ),
        (
            vec![configuration_of("Object{data: {'x': '1'}}")],
            json!({"matchConstraints": {"resourceRules": [
                {"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]},
            ]}}),
            json!({"k": "v"}),
        ),
        // What fails and does not count leaves the others.
        (
            vec![
                configuration_of("Object{data: {'x': object.data.none}}"),
                configuration_of("Object{data: {'y': '2'}}"),
            ],
            json!({"failurePolicy": "Ignore"}),
            json!({"k": "v", "y": "2"}),
        ),
    ] {
        server.mutating_policy("p", &mutations, &spec, &json!({})).await;
        let answer = server.try_config_map().await;
        assert_eq!((answer.status, &answer.json()["data"]), (201, &data), "{mutations:?}: {}", answer.json());
        server.forget("p").await;
    }
}

/// Contract: API-30
#[tokio::test]
async fn mutations_that_fail_refuse_the_write() {
    let server = start();
    let denied = "policy 'p' with binding 'p' denied request: ";
    let typed = "error applying patch: failed to convert patch object to typed object: ";
    for (mutation, expected) in [
        (
            configuration_of("Object{data: {'x': object.data.none}}"),
            "expression 'Object{data: {'x': object.data.none}}' resulted in error: no such key: none".to_owned(),
        ),
        (configuration_of("Object{spec: Object.spec{x: 1}}"), format!("{typed}.spec: field not declared in schema")),
        (configuration_of("Object{data: 'x'}"), format!("{typed}.data: expected map, got &{{x}}")),
        (
            configuration_of("Object{data: {'a': 1}}"),
            format!("{typed}.data.a: expected string, got &value.valueUnstructured{{Value:1}}"),
        ),
        (
            configuration_of("Object{metadata: Object.spec{name: 'y'}}"),
            "type mismatch: unexpected type name \"Object.spec\", expected \"Object.metadata\", which matches field name path from root Object type".to_owned(),
        ),
        (
            configuration_of("Object{metadata: Object.metadata{ownerReferences: [Object.metadata.ownerReferences{uid: 'u'}]}}"),
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .metadata.ownerReferences[0]".to_owned(),
        ),
        (
            patch_of("[JSONPatch{op: 'remove', path: '/data/none'}]"),
            "JSON Patch: error in remove for path: '/data/none': Unable to remove nonexistent key: none: missing value".to_owned(),
        ),
        (
            patch_of("[JSONPatch{op: 'copy', path: '/data/none'}]"),
            "JSON Patch: copy operation failed to decode from: operation, missing from field: missing value".to_owned(),
        ),
        (patch_of("[JSONPatch{op: 'frob', path: '/data/k'}]"), "JSON Patch: Unexpected kind: frob".to_owned()),
        (
            patch_of("[JSONPatch{op: 'add', path: '/data/x', value: quantity('1')}]"),
            "JSONPath valueExpression evaluated to a type that could not marshal to JSON: type conversion error from 'Quantity' to '*structpb.Value'".to_owned(),
        ),
    ] {
        server.mutating_policy("p", slice::from_ref(&mutation), &json!({}), &json!({})).await;
        let answer = server.try_config_map().await;
        assert_eq!(message(&answer), (403, format!("{denied}{expected}")), "{mutation}");
        assert_eq!(answer.json()["reason"], "Invalid");
        assert_eq!(answer.json()["details"]["causes"], json!([{"message": format!("{denied}{expected}")}]));
        server.forget("p").await;
        server.mutating_policy("p", slice::from_ref(&mutation), &json!({"failurePolicy": "Ignore"}), &json!({})).await;
        let answer = server.try_config_map().await;
        assert_eq!((answer.status, &answer.json()["data"]), (201, &json!({"k": "v"})), "{mutation}");
        server.forget("p").await;
    }
    // What is no such object any more is refused whatever the policy says.
    for (expression, expected) in [
        ("[JSONPatch{op: 'add', path: '/nope', value: 1}]", "strict decoding error: unknown field \"nope\""),
        (
            "[JSONPatch{op: 'add', path: '/data', value: 'x'}]",
            "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string",
        ),
    ] {
        server.mutating_policy("p", &[patch_of(expression)], &json!({"failurePolicy": "Ignore"}), &json!({})).await;
        let expected = format!("Internal error occurred: {expected}");
        assert_eq!(message(&server.try_config_map().await), (500, expected), "{expression}");
        server.forget("p").await;
    }
}

/// Contract: API-30
#[tokio::test]
async fn lists_of_a_pod_are_merged_by_their_keys() {
    let server = start();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"serviceAccountName": "default", "containers": [{"name": "c", "image": "i"}]},
    });
    server.post("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "default"}})).await;
    let only = |resource: &str| {
        json!({"matchConstraints": {"resourceRules": [
            {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [resource]},
        ]}})
    };
    let expression = "Object{spec: Object.spec{
        containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, image: 'mirror/' + c.image}),
        initContainers: [Object.spec.initContainers{name: 'mesh', image: 'proxy', restartPolicy: 'Always'}],
    }}";
    server.mutating_policy("p", &[configuration_of(expression)], &only("pods"), &json!({})).await;
    let answer = server.post(PODS, &pod).await.json();
    assert_eq!(answer["spec"]["containers"][0]["image"], "mirror/i");
    assert_eq!(answer["spec"]["containers"][0]["terminationMessagePath"], "/dev/termination-log");
    assert_eq!(answer["spec"]["initContainers"][0]["name"], "mesh");
    assert_eq!(answer["spec"]["initContainers"][0]["imagePullPolicy"], "Always", "what is added has its defaults");
    let owned = &answer["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"];
    assert!(owned["f:initContainers"].is_null(), "what policies add is nobody's: {owned}");
}

/// Contract: API-30
#[tokio::test]
async fn parameters_are_taken_one_after_the_other() {
    let server = start();
    for letter in ["a", "b"] {
        let mut param = config_map(letter, &json!({"letter": letter}));
        param["metadata"]["labels"] = json!({"letters": "yes"});
        assert_eq!(server.post(CONFIG_MAPS, &param).await.status, 201);
    }
    let spec = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}});
    let add = configuration_of(
        "Object{data: {'seen': (has(object.data.seen) ? object.data.seen : '') + (params == null ? '-' : params.data.letter)}}",
    );
    let by = |more: Value| json!({"paramRef": with(json!({"parameterNotFoundAction": "Deny"}), &more)});
    let missing = "policy 'p' with binding 'p' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    for (binding, seen, error) in [
        (by(json!({"name": "b"})), json!("b"), ""),
        (by(json!({"selector": {"matchLabels": {"letters": "yes"}}})), json!("ab"), ""),
        (json!({}), json!("-"), ""),
        (by(json!({"name": "none", "parameterNotFoundAction": "Allow"})), Value::Null, ""),
        (by(json!({"name": "none"})), Value::Null, missing),
    ] {
        server.mutating_policy("p", slice::from_ref(&add), &spec, &binding).await;
        let answer = server.try_config_map().await;
        assert_eq!(message(&answer).1, error, "{binding}");
        assert_eq!(answer.json()["data"]["seen"], seen, "{binding}");
        server.forget("p").await;
    }
    let spec = json!({"paramKind": {"apiVersion": "example.com/v1", "kind": "None"}});
    server.mutating_policy("p", &[add], &spec, &by(json!({"name": "a"}))).await;
    let unknown = "policy \"p\" denied request: failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=None'";
    assert_eq!(message(&server.try_config_map().await), (403, unknown.to_owned()));
}

/// Contract: API-30, API-33
#[tokio::test]
async fn policies_come_before_webhooks_and_see_again_what_others_changed() {
    let server = start();
    for (name, again) in [("a", "IfNeeded"), ("b", "Never"), ("c", "IfNeeded")] {
        server.mutating_policy(name, &[counting(name)], &json!({"reinvocationPolicy": again}), &json!({})).await;
    }
    let answer = server.try_config_map().await.json();
    assert_eq!(answer["data"]["seen"], "abcac");
    for name in ["a", "b", "c"] {
        server.forget(name).await;
    }

    let webhook = Webhook::start(|request, _| {
        let seen = format!("{}w", request["object"]["data"]["seen"].as_str().unwrap_or_default());
        patch(&json!([{"op": "add", "path": "/data/seen", "value": seen}]))
    })
    .await;
    let hook = configuration("Mutating", "w", &webhook.client_config(), &json!({"reinvocationPolicy": "IfNeeded"}));
    assert_eq!(server.post(&format!("{GROUP}/mutatingwebhookconfigurations"), &hook).await.status, 201);
    server.mutating_policy("a", &[counting("a")], &json!({"reinvocationPolicy": "IfNeeded"}), &json!({})).await;
    let answer = server.try_config_map().await.json();
    assert_eq!(answer["data"]["seen"], "awaw", "the policy, the webhook, and both again");
}

/// Contract: API-28, API-30, API-33
#[tokio::test]
async fn custom_objects_are_changed_too() {
    let server = start();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "paints.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "paints", "kind": "Paint"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "size": {"type": "integer", "default": 7}, "layers": {"type": "integer"},
                }}},
            }}}],
        },
    });
    let answer = server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    let paints = "/apis/example.com/v1/namespaces/default/paints?dryRun=All";
    let paint = json!({
        "apiVersion": "example.com/v1", "kind": "Paint", "metadata": {"name": "x"}, "spec": {"size": 1},
    });
    for (mutation, spec) in [
        (configuration_of("Object{spec: Object.spec{layers: object.spec.size + 1}}"), json!({"size": 1, "layers": 2})),
        (patch_of("[JSONPatch{op: 'remove', path: '/spec/size'}]"), json!({"size": 7})),
        (patch_of("[JSONPatch{op: 'add', path: '/spec/nope', value: 1}]"), json!({"size": 1})),
    ] {
        server.mutating_policy("p", slice::from_ref(&mutation), &json!({}), &json!({})).await;
        let answer = server.post(paints, &paint).await;
        assert_eq!((answer.status, &answer.json()["spec"]), (201, &spec), "{mutation}: {}", answer.json());
        server.forget("p").await;
    }
    server
        .mutating_policy("p", &[configuration_of("Object{spec: Object.spec{size: 'x'}}")], &json!({}), &json!({}))
        .await;
    let expected = "policy 'p' with binding 'p' denied request: error applying patch: failed to convert patch object to typed object: .spec.size: expected numeric (int or float), got string";
    assert_eq!(message(&server.post(paints, &paint).await), (403, expected.to_owned()));
    server.forget("p").await;

    let webhook = Webhook::start(|_, _| patch(&json!([{"op": "add", "path": "/spec/layers", "value": 3}]))).await;
    let rules = json!({"rules": [
        {"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["*"], "resources": ["paints"]},
    ]});
    let hook = configuration("Mutating", "w", &webhook.client_config(), &rules);
    assert_eq!(server.post(&format!("{GROUP}/mutatingwebhookconfigurations"), &hook).await.status, 201);
    let answer = server.post(paints, &paint).await;
    assert_eq!((answer.status, &answer.json()["spec"]), (201, &json!({"size": 1, "layers": 3})));
}

/// Contract: API-30
#[tokio::test]
async fn a_scale_has_no_type_to_be_merged_by() {
    let server = start();
    let labels = json!({"app": "d"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        }},
    });
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    assert_eq!(server.post(deployments, &deployment).await.status, 201);
    let only = json!({"matchConstraints": {"resourceRules": [
        {"operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/scale"]},
    ]}});
    server
        .mutating_policy(
            "p",
            &[patch_of("[JSONPatch{op: 'replace', path: '/spec/replicas', value: 7}]")],
            &only,
            &json!({}),
        )
        .await;
    let scale = json!({"spec": {"replicas": 5}});
    let answer = server.merge(&format!("{deployments}/d/scale"), &scale).await;
    assert_eq!((answer.status, &answer.json()["spec"]["replicas"]), (200, &json!(7)));
    server.forget("p").await;
    server.mutating_policy("p", &[configuration_of("Object{spec: Object.spec{replicas: 7}}")], &only, &json!({})).await;
    let expected = "policy 'p' with binding 'p' denied request: error applying patch: failed to convert patch object to typed object: no corresponding type for autoscaling/v1, Kind=Scale";
    assert_eq!(message(&server.merge(&format!("{deployments}/d/scale"), &scale).await), (403, expected.to_owned()));
}
