//! Classes, claims and templates of claims.

use super::*;

/// Contract: API-43
#[test]
fn classes_by_the_table() {
    for (selector, expected) in [
        (json!({"cel": {"expression": "costly"}}), ".expression: Forbidden: too complex, exceeds cost limit"),
        (json!({"cel": {"expression": "wrong"}}), ".expression: Invalid value: \"wrong\": it is wrong"),
        (json!({}), ": Required value"),
    ] {
        let found = of_class(&with(class(), "spec.selectors[0]", selector.clone()), None);
        assert_eq!(found, [format!("spec.selectors[0].cel{expected}")]);
        for place in ["spec.devices.requests[0].exactly", "spec.devices.requests[1].firstAvailable[0]"] {
            let field = format!("{place}.selectors[0]");
            let found = of_claim(&with(claim(), &field, selector.clone()), None);
            assert_eq!(found, [format!("{field}.cel{expected}")]);
        }
    }
    for (name, is_fine) in [
        ("a.io/b", true),
        ("A/b", false),
        ("a", false),
        ("", false),
        ("a.io/", false),
        ("a.io/b c", false),
        ("a.io/b/c", false),
        ("kubernetes.io/b", false),
        ("a.kubernetes.io/b", false),
        ("requests.a.io/b", false),
    ] {
        let found = of_class(&with(class(), "spec.extendedResourceName", json!(name)), None);
        let why = format!("spec.extendedResourceName: {}", invalid(name, "must be a valid extended resource name"));
        assert_eq!(found, if is_fine { vec![] } else { vec![why] }, "{name}");
    }
    // What was too long before stays, as long as nothing else changes.
    let parameters = json!({"a": "x".repeat(20_000)});
    let old = with(class(), "spec.config[0].opaque.parameters", parameters);
    let renamed = with(old.clone(), "spec.extendedResourceName", json!("a.io/b"));
    assert_eq!(of_class(&renamed, Some(&old)), NOTHING);
    let configs: Vec<Value> = vec![old["spec"]["config"][0].clone(), opaque()];
    let another = with(old.clone(), "spec.config", configs.into());
    let too_long = "spec.config[0].opaque.parameters: Too long: may not be more than 10240 bytes";
    assert_eq!(of_class(&another, Some(&old)), [too_long]);
    let old = with(class(), "spec.config[0].opaque.parameters", json!([1]));
    let odd = "spec.config[0].opaque.parameters: Invalid value: \"<value omitted>\": must be a valid JSON object";
    assert_eq!(of_class(&old, Some(&old)), [odd]);
}

/// Contract: API-43
#[test]
fn requests_ask_for_all_or_for_some() {
    let modes = "supported values: \"All\", \"ExactCount\"";
    for (mode, count, expected) in [
        ("All", 0, None),
        ("All", 1, Some(("count", "Invalid value: 1: must not be specified when allocationMode is 'All'".to_owned()))),
        (
            "All",
            -1,
            Some(("count", "Invalid value: -1: must not be specified when allocationMode is 'All'".to_owned())),
        ),
        ("ExactCount", 1, None),
        ("ExactCount", 0, Some(("count", "Invalid value: 0: must be greater than zero".to_owned()))),
        ("ExactCount", -1, Some(("count", "Invalid value: -1: must be greater than zero".to_owned()))),
        ("", 1, Some(("allocationMode", format!("Unsupported value: \"\": {modes}")))),
        ("all", 0, Some(("allocationMode", format!("Unsupported value: \"all\": {modes}")))),
    ] {
        for (place, asked) in [
            ("spec.devices.requests[0].exactly", asked(mode, count)),
            ("spec.devices.requests[1].firstAvailable[0]", with(asked(mode, count), "name", json!("a"))),
        ] {
            let expected: Vec<String> =
                expected.iter().map(|(field, body)| format!("{place}.{field}: {body}")).collect();
            assert_eq!(of_claim(&with(claim(), place, asked), None), expected, "{mode} {count}");
        }
    }
}

/// Contract: API-43
#[test]
fn tolerations_by_the_table() {
    let effects = "supported values: \"NoExecute\", \"NoSchedule\", \"None\"";
    for (toleration, expected) in [
        (json!({"operator": "Exists"}), vec![]),
        (json!({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -1}), vec![]),
        (json!({"key": "a.io/b", "operator": "Exists", "effect": "NoSchedule"}), vec![]),
        (json!({"operator": "Equal", "effect": "None"}), vec![]),
        (json!({"key": "k", "operator": "Equal", "value": "v"}), vec![]),
        (json!({"key": "a b", "operator": "Exists"}), vec![("key", invalid("a b", NAME_PART))]),
        (
            json!({"key": "/", "operator": "Exists"}),
            vec![
                ("key", invalid("/", "prefix part must be non-empty")),
                ("key", invalid("/", "name part must be non-empty")),
                ("key", invalid("/", NAME_PART)),
            ],
        ),
        (
            json!({"key": "k", "operator": "Exists", "value": "v"}),
            vec![("value", invalid("v", "must be empty for operator `Exists`"))],
        ),
        (json!({"key": "k", "operator": "Equal", "value": "a b"}), vec![("value", invalid("a b", LABEL_VALUE))]),
        (json!({"key": "k", "value": "a b"}), vec![("operator", "Required value".to_owned())]),
        (
            json!({"key": "k", "operator": "exists", "value": "a b"}),
            vec![("operator", "Unsupported value: \"exists\": supported values: \"Equal\", \"Exists\"".to_owned())],
        ),
        (
            json!({"operator": "Exists", "effect": "Odd"}),
            vec![("effect", format!("Unsupported value: \"Odd\": {effects}"))],
        ),
    ] {
        for place in ["spec.devices.requests[0].exactly", "spec.devices.requests[1].firstAvailable[0]"] {
            let place = format!("{place}.tolerations");
            let expected: Vec<String> =
                expected.iter().map(|(field, body)| format!("{place}[0].{field}: {body}")).collect();
            let tolerant = with(claim(), &place, json!([toleration]));
            assert_eq!(of_claim(&tolerant, None), expected, "{toleration}");
        }
    }
}

/// Contract: API-43
#[test]
fn references_are_to_requests_and_to_alternatives() {
    let places: [(Says, Value, &str, bool); 4] = [
        (of_claim, claim(), "spec.devices.constraints[0].requests", true),
        (of_claim, claim(), "spec.devices.config[0].requests", true),
        (of_status, given(), "status.allocation.devices.config[0].requests", true),
        (of_status, given(), "status.allocation.devices.results[0].request", false),
    ];
    for (reference, label) in [
        ("one", Ok(())),
        ("any", Ok(())),
        ("any/a", Ok(())),
        ("other", Err(None)),
        ("one/a", Err(None)),
        ("any/b", Err(None)),
        ("other/a", Err(None)),
        ("any/a/b", Err(None)),
        ("A/B/C", Err(None)),
        ("", Err(Some(("", LABEL)))),
        ("One", Err(Some(("One", LABEL)))),
        ("a.b", Err(Some(("a.b", "must not contain dots")))),
        ("any/", Err(Some(("", LABEL)))),
        ("/a", Err(Some(("", LABEL)))),
        ("any/A", Err(Some(("A", LABEL)))),
    ] {
        let expected: Vec<String> = match label {
            Ok(()) => vec![],
            Err(label) => {
                let label = label.map(|(part, why)| invalid(part, why));
                label.into_iter().chain([invalid(reference, UNKNOWN)]).collect()
            }
        };
        for (says, object, field, in_list) in &places {
            let (part, path) = if *in_list {
                (json!([reference]), format!("{field}[0]"))
            } else {
                (json!(reference), (*field).to_owned())
            };
            assert_eq!(says(&with(object.clone(), field, part), None), at(&path, &expected), "{reference}");
        }
    }
    // Of two requests of one name the last one counts.
    let twice = json!([{"name": "any", "firstAvailable": [alternative("a")]}, request("any")]);
    let twice = with(claim(), "spec.devices.requests", twice);
    let twice = with(twice, "spec.devices.constraints[0].requests", json!(["any/a"]));
    let expected = [
        "spec.devices.requests[1]: Duplicate value: \"any\"".to_owned(),
        format!("spec.devices.constraints[0].requests[0]: {}", invalid("any/a", UNKNOWN)),
    ];
    assert_eq!(of_claim(&twice, None), expected);
}

/// Contract: API-43
#[test]
fn templates_of_claims_have_labels_and_annotations_only() {
    let template = |metadata: Value| with(json!({"spec": claim()}), "spec.metadata", metadata);
    assert_eq!(of_template(&template(json!({"labels": {"a": "b"}, "annotations": {"a": "b c"}})), None), NOTHING);
    assert_eq!(of_template(&template(json!({"creationTimestamp": null})), None), NOTHING);
    let both = of_template(&template(json!({"labels": {"a": "b c"}, "annotations": {"a b": ""}})), None);
    let expected = [
        format!("spec.metadata.annotations: {}", invalid("a b", NAME_PART)),
        format!("spec.metadata.labels: {}", invalid("b c", LABEL_VALUE)),
    ];
    assert_eq!(both, expected);
    for (field, shown, value) in [
        ("name", "name", json!("a")),
        ("generateName", "generateName", json!("a")),
        ("namespace", "namespace", json!("a")),
        ("uid", "uID", json!("a")),
        ("generation", "generation", json!(1)),
        ("finalizers", "finalizers", json!(["a.io/b"])),
    ] {
        let mut metadata = json!({});
        metadata[field] = value;
        let expected = format!("spec.metadata.{shown}: Forbidden: cannot be set");
        assert_eq!(of_template(&template(metadata), None), [expected], "{field}");
    }
}

/// Contract: API-43
#[test]
fn specs_of_claims_and_templates_stay() {
    let odd = with(claim(), "spec.devices.requests[0].name", json!("A"));
    assert_eq!(of_claim(&odd, Some(&odd)), NOTHING, "what stays is not looked at");
    let changed = of_claim(&with(odd.clone(), "spec.devices.config", json!([])), Some(&odd));
    assert!(changed.len() == 1 && changed[0].ends_with(": field is immutable"), "{changed:?}");
    assert!(changed[0].starts_with("spec: Invalid value: {\"Devices\":{\"Requests\":[{\"Name\":\"A\","), "{changed:?}");

    let template = |claim: &Value| json!({"spec": claim});
    let (plain, odd) = (template(&claim()), template(&odd));
    assert_eq!(of_template(&plain, Some(&plain)), NOTHING);
    let wrong = format!("spec.spec.devices.requests[0].name: {}", invalid("A", LABEL));
    assert_eq!(of_template(&odd, Some(&odd)), [wrong.as_str()], "but a template's is");
    let changed = of_template(&odd, Some(&plain));
    assert!(changed.len() == 2 && changed[0] == wrong && changed[1].ends_with(": field is immutable"), "{changed:?}");
}

/// What is compared are amounts, however they are written.
///
/// Contract: API-43
#[test]
fn quantities_that_are_written_otherwise_are_no_change() {
    let asking = |amount: &str| {
        let capacity = json!({"requests": {"a.io/m": amount}});
        with(claim(), "spec.devices.requests[0].exactly.capacity", capacity)
    };
    assert_eq!(of_claim(&asking("1024"), Some(&asking("1Ki"))), NOTHING);
    let template = |claim: &Value| json!({"spec": claim});
    assert_eq!(of_template(&template(&asking("1024")), Some(&template(&asking("1Ki")))), NOTHING);
    let has = |amount: &str| {
        with(given(), "status.allocation.devices.results[0].consumedCapacity", json!({"a.io/m": amount}))
    };
    assert_eq!(of_status(&has("1024"), Some(&has("1Ki"))), NOTHING);
    assert_eq!(of_claim(&asking("1025"), Some(&asking("1Ki"))).len(), 1);
    assert_eq!(of_status(&has("1025"), Some(&has("1Ki"))).len(), 1);
}
