//! Decoding: what a real server said to the same bodies.

use muster_tree::{Value, json};

use super::*;

fn strict(kind: &str, body: &str) -> Result<Value, String> {
    let group = if kind == "Pod" { "" } else { "apps" };
    decode(group, "v1", kind, body.as_bytes(), Format::Json, Validation::Strict)
        .map(|(object, _)| Value::Object(object))
        .map_err(|e| e.message)
}

/// Contract: API-06
#[test]
fn doubled_fields_are_found_with_their_paths() {
    let (value, found) = read_noting(br#"{"a":1,"b":{"c":[{"d":1,"d":2}]},"a":3}"#).expect("JSON");
    assert_eq!(found, ["duplicate field \"b.c[0].d\"", "duplicate field \"a\""]);
    assert_eq!(value, json!({"a": 3, "b": {"c": [{"d": 2}]}}));
    let plain = br#"{"a":[1,"x",null,true,1.5,-1]}"#;
    let (value, found) = read_noting(plain).expect("JSON");
    assert_eq!((value, found), (serde_json::from_slice(plain).expect("JSON"), Vec::new()));
    // In an object of many members too: looked for among all that came before, they would take minutes.
    let many: String = (0..100_000).map(|number| format!("\"k{number}\":1,")).collect();
    let (value, found) = read_noting(format!("{{{many}\"k7\":2}}").as_bytes()).expect("JSON");
    assert_eq!((found.len(), &value["k7"], value.as_object().map(Map::len)), (1, &json!(2), Some(100_000)));
    // Whole numbers beyond 64 bits with a sign are floats.
    let (value, _) = read_noting(b"[9223372036854775807,9223372036854775808,-0,1.0]").expect("JSON");
    assert_eq!(value, json!([i64::MAX, 9_223_372_036_854_775_808_f64, 0, 1.0]));
}

/// Contract: API-28
#[test]
fn schemas_in_custom_resource_definitions() {
    let schema = |schema: &str, validation: Validation| {
        let body = format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#);
        let kind = "CustomResourceDefinition";
        decode("apiextensions.k8s.io", "v1", kind, body.as_bytes(), Format::Json, validation)
            .map(|(object, _)| object["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone())
            .map_err(|e| e.message.trim_start_matches(|c| c != ':').trim_start_matches(": ").to_owned())
    };
    // What may be a schema or a list, a schema or a boolean, a schema or names; and any JSON.
    let whole = json!({
        "type": "object",
        "properties": {
            "one": {"items": {"type": "string", "default": "x"}},
            "many": {"items": [{"type": "string"}, {"type": "integer"}]},
            "open": {"additionalProperties": true, "default": {"a": [1, null, {"b": 1.5}]}},
            "closed": {"additionalProperties": false, "enum": [null, "a", 1]},
            "typed": {"additionalProperties": {"items": {"additionalProperties": {"not": {"type": "string"}}}}},
            "bound": {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}, "maximum": 3, "multipleOf": 0.5},
            "$": {"$ref": "#/x", "x-kubernetes-validations": [{"rule": "self.x"}], "x-kubernetes-list-map-keys": ["a"]},
        },
    });
    assert_eq!(schema(&whole.to_string(), Validation::Strict), Ok(whole));
    // Where one thing or the other may stand, nothing is known to be unknown.
    let stray = r#"{"items":{"type":"array","nonsense":1},"default":null,"additionalItems":null}"#;
    assert_eq!(schema(stray, Validation::Strict), Ok(json!({"items": {"type": "array"}})));
    let unknown = r#"strict decoding error: unknown field "spec.versions[0].schema.openAPIV3Schema.nonsense""#;
    assert_eq!(schema(r#"{"nonsense":{}}"#, Validation::Strict), Err(unknown.to_owned()));
    assert_eq!(schema(r#"{"items":[]}"#, Validation::Warn), Ok(json!({"items": null})));
    let word = "boolean or JSON schema expected".to_owned();
    assert_eq!(schema(r#"{"additionalProperties":"x"}"#, Validation::Warn), Err(word));
    for (wrong, fields) in [
        (r#"{"items":{"type":1}}"#, "items.type"),
        (
            r#"{"properties":{"a":{"items":{"additionalProperties":{"type":1}}}}}"#,
            "properties.items.additionalProperties.type",
        ),
    ] {
        let inner = format!(
            "json: cannot unmarshal number into Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.{fields} of type string"
        );
        assert_eq!(schema(wrong, Validation::Warn), Err(inner));
    }
}

/// Contract: API-22
#[test]
fn types_that_hold_themselves_are_not_read_without_end() {
    for step in [r#"{"properties":{"a":"#, r#"{"items":"#, r#"{"not":"#, r#"{"allOf":["#] {
        let levels = 2_000;
        let closing: String = step
            .chars()
            .rev()
            .filter_map(|c| match c {
                '{' => Some('}'),
                '[' => Some(']'),
                _ => None,
            })
            .collect();
        let schema = format!("{}{{}}{}", step.repeat(levels), closing.repeat(levels));
        let body = format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#);
        let kind = "CustomResourceDefinition";
        let read = decode("apiextensions.k8s.io", "v1", kind, body.as_bytes(), Format::Json, Validation::Warn);
        let message = read.expect_err("it is too deep").message;
        assert!(message.ends_with("exceeded max depth"), "{message}");
    }
}

/// Contract: API-06
#[test]
fn bodies_that_are_no_replica_set() {
    let handled = "ReplicaSet in version \"v1\" cannot be handled as a ReplicaSet: ";
    let cases: &[(&str, String)] = &[
        ("{", "the object provided is unrecognized (must be of type ReplicaSet): couldn't get version/kind; json parse error: unexpected end of JSON input ({)".to_owned()),
        ("", "the object provided is unrecognized (must be of type ReplicaSet): couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)".to_owned()),
        ("[]", "the object provided is unrecognized (must be of type ReplicaSet): couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" } (5b5d)".to_owned()),
        ("{\"kind\":5}", "the object provided is unrecognized (must be of type ReplicaSet): couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string ({\"kind\":5})".to_owned()),
        ("{\"apiVersion\":\"a/b/c\",\"kind\":\"ReplicaSet\",\"x\":1}", "the object provided is unrecognized (must be of type ReplicaSet): unexpected GroupVersion string: a/b/c ({\"apiVersion\":\"a/b/c\",\"kind\":\" ...)".to_owned()),
        (
            r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"c"}}"#,
            "Deployment in version \"v1\" cannot be handled as a ReplicaSet: converting (v1.Deployment) to (apps.ReplicaSet): unknown conversion".to_owned(),
        ),
        (
            r#"{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"c"}}"#,
            "StatefulSet in version \"v1\" cannot be handled as a ReplicaSet: converting (v1.StatefulSet) to (apps.ReplicaSet): unknown conversion".to_owned(),
        ),
        (
            r#"{"apiVersion":"v1","kind":"ReplicaSet","metadata":{"name":"c"}}"#,
            format!("{handled}no kind \"ReplicaSet\" is registered for version \"v1\" in scheme \"pkg/api/legacyscheme/scheme.go:30\""),
        ),
        (
            r#"{"spec":{"replicas":"x"}}"#,
            format!("{handled}json: cannot unmarshal string into Go struct field ReplicaSetSpec.spec.replicas of type int32"),
        ),
        (
            r#"{"spec":{"selector":{"matchLabels":{"app":true}}}}"#,
            format!("{handled}json: cannot unmarshal bool into Go struct field LabelSelector.spec.selector.matchLabels of type string"),
        ),
        (
            r#"{"spec":{"template":{"spec":{"containers":[{"name":1}]}}}}"#,
            format!("{handled}json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.name of type string"),
        ),
        (
            r#"{"spec":{"template":{"spec":{"containers":{"name":1}}}}}"#,
            format!("{handled}json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container"),
        ),
        (
            r#"{"spec":{"template":{"spec":{"restartPolicy":1}}}}"#,
            format!("{handled}json: cannot unmarshal number into Go struct field PodSpec.spec.template.spec.restartPolicy of type v1.RestartPolicy"),
        ),
        (
            r#"{"spec":{"replicas":1.5}}"#,
            format!("{handled}json: cannot unmarshal number 1.5 into Go struct field ReplicaSetSpec.spec.replicas of type int32"),
        ),
        (
            r#"{"spec":{"replicas":2147483648}}"#,
            format!("{handled}json: cannot unmarshal number 2147483648 into Go struct field ReplicaSetSpec.spec.replicas of type int32"),
        ),
        (
            r#"{"metadata":{"creationTimestamp":"xyz"},"spec":{"replicas":"first"}}"#,
            format!("{handled}parsing time \"xyz\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"xyz\" as \"2006\""),
        ),
        (
            r#"{"spec":{"nope":1,"replicas":1,"replicas":2}}"#,
            format!("{handled}strict decoding error: unknown field \"spec.nope\", duplicate field \"spec.replicas\""),
        ),
        (
            r#"{"Spec":{},"spec":{"template":{"spec":{"containers":[{"name":"a"},{"x.y":{"z":1},"env":[{"name":"n","name":"m"}]}]}}}}"#,
            format!("{handled}strict decoding error: unknown field \"Spec\", unknown field \"spec.template.spec.containers[1].x.y\", duplicate field \"spec.template.spec.containers[1].env[0].name\""),
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(strict("ReplicaSet", body), Err(expected.clone()), "{body}");
    }
}

/// Contract: API-06
#[test]
fn syntax_errors_are_gos() {
    for (body, expected) in [
        ("not json", "invalid character 'o' in literal null (expecting 'u')"),
        ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
        ("{\"a\" 1}", "invalid character '1' after object key"),
        ("{\"a\":1 2}", "invalid character '2' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("{} x", "invalid character 'x' after top-level value"),
        ("\"\u{1}\"", "invalid character '\\x01' in string literal"),
        ("\"\\x\"", "invalid character 'x' in string escape code"),
        ("\"\\u12g\"", "invalid character 'g' in \\u hexadecimal character escape"),
        ("01", "invalid character '1' after top-level value"),
        ("-", "unexpected end of JSON input"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1ex", "invalid character 'x' in exponent of numeric literal"),
        ("'", "invalid character '\\'' looking for beginning of value"),
    ] {
        assert_eq!(scan::check(body.as_bytes()), Err(expected.to_owned()), "{body}");
    }
    let deep = "[".repeat(10_001);
    assert_eq!(scan::check(deep.as_bytes()), Err("invalid character '[' exceeded max depth".to_owned()));
}

/// Contract: API-05, API-06
#[test]
fn yaml_words_are_booleans() {
    let body = "apiVersion: apps/v1\nkind: ReplicaSet\nspec:\n  selector: {matchLabels: {app: y}}\n";
    let error = decode("apps", "v1", "ReplicaSet", body.as_bytes(), Format::Yaml, Validation::Ignore);
    assert_eq!(
        error.map_err(|e| e.message),
        Err("ReplicaSet in version \"v1\" cannot be handled as a ReplicaSet: json: cannot unmarshal bool into Go struct field LabelSelector.spec.selector.matchLabels of type string".to_owned())
    );
    let body = "spec:\n  replicas: 1\n  replicas: 2\n";
    let warned = decode("apps", "v1", "ReplicaSet", body.as_bytes(), Format::Yaml, Validation::Warn);
    let (object, warnings) = warned.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(object["spec"]["replicas"], 2);
    assert_eq!(warnings, ["line 3: key \"replicas\" already set in map"]);
}

/// Contract: API-06
#[test]
fn unknown_fields_are_warned_of_or_ignored() {
    let body = br#"{"spec":{"nope":1},"metadata":{"labels":{"a":"1","a":"2"}}}"#;
    let decoded = |validation| decode("apps", "v1", "ReplicaSet", body, Format::Json, validation);
    let (object, warnings) = decoded(Validation::Warn).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(warnings, ["unknown field \"spec.nope\"", "duplicate field \"metadata.labels.a\""]);
    assert_eq!(object["metadata"]["labels"]["a"], "2");
    assert_eq!(object["spec"].get("nope"), None);
    assert_eq!(decoded(Validation::Ignore).map(|(_, w)| w), Ok(vec![]));
}

/// Contract: API-06
#[test]
fn what_is_left_is_what_go_would_write() {
    let body = json!({
        "metadata": {"name": "p", "labels": {}, "annotations": {"a": null}, "generation": 0, "creationTimestamp": null,
            "deletionTimestamp": "2026-01-01T01:00:00.5+01:00", "finalizers": []},
        "spec": {
            "containers": [{
                "name": "c", "image": "", "env": [{"name": "e", "value": ""}], "stdin": false,
                "resources": {"requests": {"cpu": "1000m", "memory": 1024, "x/y": "1024Mi"}, "limits": {}},
                "livenessProbe": {"httpGet": {"port": 80}, "exec": null, "periodSeconds": 0},
                "ports": [{"containerPort": 80, "hostPort": 0}],
            }],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "activeDeadlineSeconds": 0, "hostNetwork": false, "enableServiceLinks": false,
        },
        "status": {"containerStatuses": [{"name": "c", "state": {}}], "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let expected = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "annotations": {"a": ""}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "containers": [{
                "name": "c", "env": [{"name": "e"}],
                "resources": {"requests": {"cpu": "1", "memory": "1024", "x/y": "1Gi"}},
                "livenessProbe": {"httpGet": {"port": 80}},
                "ports": [{"containerPort": 80}],
            }],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "activeDeadlineSeconds": 0, "enableServiceLinks": false,
        },
        "status": {
            "containerStatuses": [{"name": "c", "state": {}, "lastState": {}, "ready": false, "restartCount": 0, "image": "", "imageID": ""}],
            "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": null}],
        },
    });
    assert_eq!(strict("Pod", &body.to_string()), Ok(expected));
    assert_eq!(
        strict("ReplicaSet", "{}"),
        Ok(json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {},
            "spec": {"selector": null, "template": {"metadata": {}, "spec": {"containers": null}}},
            "status": {"replicas": 0},
        }))
    );
}

/// Contract: API-06
#[test]
fn a_field_given_twice_is_merged_as_in_go() {
    let body = r#"{"spec":{"replicas":1,"minReadySeconds":5},"spec":{"replicas":2}}"#;
    let decoded = decode("apps", "v1", "ReplicaSet", body.as_bytes(), Format::Json, Validation::Ignore);
    let (object, _) = decoded.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((&object["spec"]["replicas"], &object["spec"]["minReadySeconds"]), (&json!(2), &json!(5)));
}

/// Contract: API-06, API-12
#[test]
fn patched_objects_have_errors_of_their_own() {
    let patched = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"replicas": "x", "nope": 1}});
    let round = round_trip("apps", "v1", "ReplicaSet", &patched, None, Validation::Strict).map_err(|e| e.message);
    assert_eq!(
        round,
        Err("json: cannot unmarshal string into Go struct field ReplicaSetSpec.spec.replicas of type int32".to_owned())
    );
    let converted = |value: Value| {
        super::super::from_unstructured("apps", "v1", "ReplicaSet", &value, Validation::Strict).map_err(|e| e.message)
    };
    for (value, expected) in [
        (json!({"spec": {"replicas": "x"}}), "unrecognized type: int32"),
        (json!({"spec": {"replicas": 1.5}}), "cannot convert float64 to int32"),
        (json!({"spec": {"selector": []}}), "cannot restore struct from: slice"),
        (json!({"spec": {"template": {"spec": {"containers": {}}}}}), "cannot restore slice from map"),
        (json!({"metadata": {"labels": "x"}}), "cannot restore map from string"),
        (json!({"metadata": {"labels": {"a": 1}}}), "cannot convert int64 to string"),
        (
            json!({"spec": {"z": 1, "a": 2, "template": {"spec": {"containers": [{"name": "c", "q": 1}]}}}}),
            "strict decoding error: unknown field \"spec.a\", unknown field \"spec.template.spec.containers[0].q\", unknown field \"spec.z\"",
        ),
    ] {
        assert_eq!(converted(value), Err(expected.to_owned()));
    }
}

/// Contract: API-06
#[test]
fn bytes_are_base64() {
    let secret = |data: &str| {
        let body = json!({"data": {"k": data}}).to_string();
        decode("", "v1", "Secret", body.as_bytes(), Format::Json, Validation::Strict)
            .map(|(object, _)| object["data"]["k"].clone())
            .map_err(|e| e.message.replace("Secret in version \"v1\" cannot be handled as a Secret: ", ""))
    };
    assert_eq!(secret("YWJj"), Ok(json!("YWJj")));
    assert_eq!(secret("YW\nJj"), Ok(json!("YWJj")));
    assert_eq!(secret(""), Ok(json!("")));
    let numbers = decode("", "v1", "Secret", br#"{"data":{"k":[1,2,null]}}"#, Format::Json, Validation::Strict);
    assert_eq!(numbers.map(|(object, _)| object["data"]["k"].clone()), Ok(json!("AQIA")));
    for (data, at) in [("YWJ", 0), ("a?", 1), ("YWJj=", 4), ("YQ=x", 3), ("YQ==x", 4)] {
        let error = secret(data).err().unwrap_or_default();
        assert!(error.starts_with("illegal base64 data at input byte "), "{data}: {error} ({at})");
    }
}

/// What a patch made is read without its text where that makes no difference.
///
/// Contract: API-06
#[test]
fn a_patched_tree_needs_no_text() {
    let pod = Table::get().kind("", "v1", "Pod").expect("a kind");
    let tree = |part: Value, status: Value| json!({"apiVersion": "v1", "kind": "Pod", "spec": part, "status": status});
    let same = [
        tree(
            json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": 1, "memory": "1024Mi"}}}]}),
            json!({}),
        ),
        tree(json!({"containers": null, "terminationGracePeriodSeconds": 30, "hostname": ""}), Value::Null),
        tree(
            json!({"volumes": [{"name": "v", "emptyDir": null}], "nodeSelector": {"a": null}}),
            json!({"startTime": "2026-01-01T01:00:00+01:00", "conditions": [{"type": "Ready", "lastProbeTime": null}, null]}),
        ),
        tree(
            json!({"containers": [{"livenessProbe": {"httpGet": {"port": "http"}}}]}),
            json!({"podIPs": [], "phase": "Running"}),
        ),
    ];
    for tree in same {
        let text = decode("", "v1", "Pod", tree.to_string().as_bytes(), Format::Json, Validation::Strict);
        assert_eq!(unstructured::exactly(pod, &tree, None).map(|object| (object, Vec::new())), text.ok(), "{tree}");
        assert!(unstructured::exactly(pod, &tree, None).is_some(), "{tree}");
    }
    let otherwise = [
        tree(json!({"Containers": []}), json!({})),
        tree(json!({"unknown": 1}), json!({})),
        tree(json!({"priority": 5_000_000_000_i64}), json!({})),
        tree(json!({"priority": 1.0}), json!({})),
        tree(json!({"hostNetwork": "true"}), json!({})),
        tree(json!({}), json!({"startTime": "yesterday"})),
        tree(json!({"containers": {}}), json!({})),
    ];
    for tree in otherwise {
        assert_eq!(unstructured::exactly(pod, &tree, None), None, "{tree}");
    }
    // What is known is not read again, whatever it is.
    let known = json!({"spec": {"unknown": 1}, "status": {"phase": "Running"}});
    let mut patched = known.clone();
    patched["status"]["phase"] = "Failed".into();
    let read = unstructured::exactly(pod, &patched, known.as_object()).expect("only the phase is new");
    assert!(read["spec"].is_shared_with(&known["spec"]));
    assert_eq!(read["status"]["phase"], "Failed");
}

mod laws {
    use muster_tree::{Map, Value, json};
    use proptest::prelude::*;

    use super::super::*;

    /// JSON whose keys are often those of a pod, of types that often fit.
    fn body() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-5..500i64).prop_map(Value::from),
            Just(json!(1.5)),
            prop_oneof![Just("a"), Just(""), Just("1Gi"), Just("2026-01-01T00:00:00Z"), Just("Always")]
                .prop_map(Value::from),
        ];
        let key = prop_oneof![
            Just("spec"),
            Just("metadata"),
            Just("status"),
            Just("containers"),
            Just("name"),
            Just("labels"),
            Just("env"),
            Just("resources"),
            Just("requests"),
            Just("ports"),
            Just("containerPort"),
            Just("volumes"),
            Just("emptyDir"),
            Just("creationTimestamp"),
            Just("conditions"),
            Just("finalizers"),
            Just("other"),
        ];
        leaf.prop_recursive(6, 60, 6, move |inner| {
            prop_oneof![
                2 => proptest::collection::vec((key.clone(), inner.clone()), 0..6)
                    .prop_map(|entries| Value::Object(entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Map>())),
                1 => proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            ]
        })
    }

    /// Where there is something in a tree, as JSON pointers.
    fn containers(value: &Value, at: &mut String, out: &mut Vec<String>) {
        out.push(at.clone());
        let length = at.len();
        let below: Vec<(String, &Value)> = match value {
            Value::Object(members) => members.iter().map(|(key, value)| (key.to_string(), value)).collect(),
            Value::Array(items) => (0..).zip(items).map(|(at, item): (usize, _)| (at.to_string(), item)).collect(),
            _ => Vec::new(),
        };
        for (key, value) in below {
            at.push('/');
            at.push_str(&key);
            containers(value, at, out);
            at.truncate(length);
        }
    }

    proptest! {
        /// Contract: API-06
        #[test]
        fn what_was_decoded_decodes_to_itself(body in body()) {
            let once = decode("", "v1", "Pod", body.to_string().as_bytes(), Format::Json, Validation::Ignore);
            if let Ok((object, _)) = once {
                let pod = Table::get().kind("", "v1", "Pod").expect("a kind");
                let tree = Value::Object(object.clone());
                prop_assert_eq!(unstructured::exactly(pod, &tree, None), Some(object.clone()), "without text");
                let text = tree.to_string();
                let twice = decode("", "v1", "Pod", text.as_bytes(), Format::Json, Validation::Strict);
                prop_assert_eq!(twice, Ok((object, Vec::new())));
            }
        }

        /// Contract: API-06
        #[test]
        fn a_tree_is_read_as_its_text_is(pod in body(), spec in body(), status in body()) {
            let mut tree = json!({"apiVersion": "v1", "kind": "Pod"});
            for (name, part) in [("spec", spec), ("status", status)] {
                tree[name] = part;
            }
            if let Value::Object(members) = pod {
                tree.as_object_mut().expect("an object").extend(members);
            }
            let pod = Table::get().kind("", "v1", "Pod").expect("a kind");
            if let Some(object) = unstructured::exactly(pod, &tree, None) {
                let text = decode("", "v1", "Pod", tree.to_string().as_bytes(), Format::Json, Validation::Strict);
                prop_assert_eq!(text, Ok((object.clone(), Vec::new())));
                // What is known need not be read.
                let again = Value::Object(object.clone());
                prop_assert_eq!(unstructured::exactly(pod, &again, Some(&object)), Some(object));
            }
        }

        /// Contract: API-06, API-12
        #[test]
        fn what_a_change_leaves_as_it_was_is_known(pod in body(), changed in body(), place in any::<prop::sample::Index>()) {
            let id = Table::get().kind("", "v1", "Pod").expect("a kind");
            let decoded = decode("", "v1", "Pod", pod.to_string().as_bytes(), Format::Json, Validation::Ignore);
            if let Ok((known, _)) = decoded {
                let mut patched = Value::Object(known.clone());
                // A part of it becomes anything.
                let mut paths = Vec::new();
                containers(&patched, &mut String::new(), &mut paths);
                if let Some(part) = patched.pointer_mut(&paths[place.index(paths.len())]) {
                    *part = changed;
                }
                let is_pod = patched["apiVersion"] == "v1" && patched["kind"] == "Pod";
                if let Some(read) = unstructured::exactly(id, &patched, Some(&known)).filter(|_| is_pod) {
                    let text = decode("", "v1", "Pod", patched.to_string().as_bytes(), Format::Json, Validation::Strict);
                    prop_assert_eq!(text, Ok((read, Vec::new())));
                }
            }
        }

        /// Contract: API-06
        #[test]
        fn syntax_is_the_same_as_everyone_elses(text in "[\\[\\]{}:,\"0-9a-ft-u.eE+ n\\\\-]{0,20}") {
            let ours = scan::check(text.as_bytes()).is_ok();
            let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            prop_assert_eq!(ours, theirs, "{}", text);
            if !ours {
                prop_assert!(read_json(text.as_bytes()).is_err());
            }
        }

        /// Contract: API-22
        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = decode("", "v1", "Pod", &bytes, Format::Json, Validation::Warn);
            let _ = decode("", "v1", "Pod", &bytes, Format::Yaml, Validation::Warn);
            let _ = read_json(&bytes);
        }
    }
}
