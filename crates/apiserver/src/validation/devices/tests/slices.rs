//! Slices: where their devices are reached, taints and counters.

use super::*;

/// Contract: API-43
#[test]
fn slices_are_reached_in_one_way() {
    let one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let several = |set: &str| vec![format!("spec: {}", invalid(set, &format!("{one}, but multiple fields are set")))];
    let required = format!("spec: Required value: {one}");
    let untrue = |field: &str| format!("spec.{field}: Invalid value: false: must be either unset or set to true");
    let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]});
    let selector = json!({"nodeSelectorTerms": [term]});
    for (fields, expected) in [
        (json!({"nodeName": "n"}), vec![]),
        (json!({"nodeSelector": selector}), vec![]),
        (json!({"allNodes": true}), vec![]),
        (json!({"perDeviceNodeSelection": true}), vec![]),
        (json!({}), vec![required.clone()]),
        (json!({"nodeName": "n", "nodeSelector": selector}), several("{`nodeName`, `nodeSelector`}")),
        (json!({"nodeSelector": selector, "allNodes": true}), several("{`nodeSelector`, `allNodes`}")),
        (json!({"nodeName": "n", "perDeviceNodeSelection": true}), several("{`nodeName`, `perDeviceNodeSelection`}")),
        (json!({"allNodes": true, "perDeviceNodeSelection": true}), several("{`allNodes`, `perDeviceNodeSelection`}")),
        (json!({"allNodes": false}), vec![untrue("allNodes"), required.clone()]),
        (json!({"perDeviceNodeSelection": false}), vec![untrue("perDeviceNodeSelection"), required.clone()]),
        (json!({"nodeName": "n", "allNodes": false}), vec![untrue("allNodes")]),
        (
            json!({"nodeName": ""}),
            vec![
                format!("spec.nodeName: {}", invalid("", "must be either unset or set to a non-empty string")),
                required.clone(),
            ],
        ),
        (json!({"nodeName": "A"}), vec![format!("spec.nodeName: {}", invalid("A", SUBDOMAIN))]),
    ] {
        let spec = json!({"driver": "a.io", "pool": {"name": "p", "generation": 0, "resourceSliceCount": 1}});
        let mut slice = json!({"spec": spec});
        slice["spec"].as_object_mut().expect("a spec").extend(map(&fields).clone());
        assert_eq!(of_slice(&slice, None), expected, "{fields}");
    }
}

/// What is wrong with a selector is said before what is wrong with what comes after it.
///
/// Contract: API-43
#[test]
fn slices_select_nodes_by_one_term() {
    let term = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
    let shown = r#"{"MatchExpressions":[{"Key":"a","Operator":"Exists","Values":null}],"MatchFields":null}"#;
    let path = "spec.nodeSelector.nodeSelectorTerms";
    let exactly = |terms: &str| format!("{path}: Invalid value: {terms}: must have exactly one node selector term");
    for (terms, expected) in [
        (json!([term]), vec![]),
        (json!([term, term]), vec![exactly(&format!("[{shown},{shown}]"))]),
        (json!([]), vec![format!("{path}: Required value: must have at least one node selector term"), exactly("[]")]),
    ] {
        let slice = with(slice(), "spec.nodeName", Value::Null);
        let slice = with(slice, "spec.nodeSelector", json!({"nodeSelectorTerms": terms}));
        let slice = with(slice, "spec.allNodes", json!(false));
        let after = "spec.allNodes: Invalid value: false: must be either unset or set to true";
        assert_eq!(of_slice(&slice, None), [expected, vec![after.to_owned()]].concat(), "{terms}");
    }
}

/// Contract: API-43
#[test]
fn devices_say_from_which_nodes_they_are_reached_where_their_slice_does_not() {
    let alone = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let never = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let term = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
    let parts = json!({"nodeName": "n", "nodeSelector": {"nodeSelectorTerms": [term, term]}, "allNodes": true});
    let several = |set: &str| vec![invalid(set, alone)];
    for (fields, expected) in [
        (vec![], vec![format!("Required value: {alone}")]),
        (vec!["nodeName"], vec![]),
        (vec!["nodeSelector"], vec![]),
        (vec!["allNodes"], vec![]),
        (vec!["nodeName", "nodeSelector"], several("{`nodeName`, `nodeSelector`}")),
        (vec!["nodeName", "allNodes"], several("{`nodeName`, `allNodes`}")),
        (vec!["nodeSelector", "allNodes"], several("{`nodeSelector`, `allNodes`}")),
        (vec!["nodeName", "nodeSelector", "allNodes"], several("{`nodeName`, `nodeSelector`, `allNodes`}")),
    ] {
        let mut device = json!({"name": "d"});
        for field in &fields {
            device[*field] = parts[*field].clone();
        }
        assert_eq!(of_slice(&apart(&device), None), at("spec.devices[0]", &expected), "{device}");
        let together = with(slice(), "spec.devices", json!([device]));
        let refused = format!("spec.devices[0]: Invalid value: null: {never}");
        let expected = if fields.is_empty() { vec![] } else { vec![refused] };
        assert_eq!(of_slice(&together, None), expected, "{device}");
        let untrue = "spec.perDeviceNodeSelection: Invalid value: false: must be either unset or set to true";
        let expected = [vec![untrue.to_owned()], expected].concat();
        assert_eq!(of_slice(&with(together, "spec.perDeviceNodeSelection", json!(false)), None), expected, "{device}");
    }
    for (fields, field, body) in [
        (json!({"nodeName": ""}), "nodeName", invalid("", "must not be empty")),
        (
            json!({"allNodes": false}),
            "allNodes",
            "Invalid value: false: must be either unset or set to true".to_owned(),
        ),
    ] {
        let device = with(fields, "name", json!("d"));
        let expected =
            [format!("spec.devices[0].{field}: {body}"), format!("spec.devices[0]: Required value: {alone}")];
        assert_eq!(of_slice(&apart(&device), None), expected, "{device}");
    }
    for (fields, field, body) in [
        (json!({"nodeName": "A"}), "nodeName", invalid("A", SUBDOMAIN)),
        (
            json!({"nodeSelector": {"nodeSelectorTerms": []}}),
            "nodeSelector.nodeSelectorTerms",
            "Required value: must have at least one node selector term".to_owned(),
        ),
    ] {
        let device = with(fields, "name", json!("d"));
        assert_eq!(of_slice(&apart(&device), None), [format!("spec.devices[0].{field}: {body}")], "{device}");
    }
}

/// Contract: API-43
#[test]
fn taints_by_the_table() {
    let effects = "supported values: \"NoExecute\", \"NoSchedule\", \"None\"";
    for (taint, expected) in [
        (json!({"key": "k", "effect": "NoExecute"}), vec![]),
        (json!({"key": "a.io/K_1.b", "value": "v", "effect": "NoSchedule"}), vec![]),
        (json!({"key": "k", "value": "", "effect": "None"}), vec![]),
        (
            json!({"effect": "None"}),
            vec![("key", invalid("", "name part must be non-empty")), ("key", invalid("", NAME_PART))],
        ),
        (json!({"key": "a b", "effect": "None"}), vec![("key", invalid("a b", NAME_PART))]),
        (json!({"key": "/a", "effect": "None"}), vec![("key", invalid("/a", "prefix part must be non-empty"))]),
        (json!({"key": "A/a", "effect": "None"}), vec![("key", invalid("A/a", &format!("prefix part {SUBDOMAIN}")))]),
        (json!({"key": "k", "value": "a/b", "effect": "None"}), vec![("value", invalid("a/b", LABEL_VALUE))]),
        (json!({"key": "k"}), vec![("effect", "Required value".to_owned())]),
        (json!({"key": "k", "effect": "none"}), vec![("effect", format!("Unsupported value: \"none\": {effects}"))]),
        (
            json!({"key": "k", "value": "-", "effect": "PreferNoSchedule"}),
            vec![
                ("value", invalid("-", LABEL_VALUE)),
                ("effect", format!("Unsupported value: \"PreferNoSchedule\": {effects}")),
            ],
        ),
    ] {
        let tainted = with(slice(), "spec.devices[0].taints", json!([taint]));
        let expected: Vec<String> =
            expected.iter().map(|(field, body)| format!("spec.devices[0].taints[0].{field}: {body}")).collect();
        assert_eq!(of_slice(&tainted, None), expected, "{taint}");
    }
}

/// Contract: API-43
#[test]
fn taints_that_were_there_before_are_not_looked_at_again() {
    let taints = list(17, |_| json!({"key": "k", "effect": "Odd"}));
    let old = with(slice(), "spec.devices[0].taints", taints.clone());
    assert_eq!(of_slice(&old, Some(&old)), NOTHING);
    let devices = json!([{"name": "new"}, {"name": "d", "taints": taints}]);
    assert_eq!(of_slice(&with(slice(), "spec.devices", devices), Some(&old)), NOTHING, "another place");
    let odd = |at: usize| {
        format!(
            "spec.devices[0].taints[{at}].effect: Unsupported value: \"Odd\": supported values: \"NoExecute\", \"NoSchedule\", \"None\""
        )
    };
    let fewer = with(slice(), "spec.devices[0].taints", list(2, |_| json!({"key": "k", "effect": "Odd"})));
    assert_eq!(of_slice(&fewer, Some(&old)), [odd(0), odd(1)]);
    let renamed = with(old.clone(), "spec.devices[0].name", json!("other"));
    let too_many = "spec.devices[0].taints: Too many: 17: must have at most 16 items";
    assert_eq!(of_slice(&renamed, Some(&old)), [too_many]);
}

/// Contract: API-43
#[test]
fn counters_by_the_table() {
    let some = json!({"c": {"value": "1"}});
    let long = "a".repeat(64);
    let named = |name: &str| {
        let mut counters = json!({});
        counters[name] = json!({"value": "-1"});
        counters
    };
    for (name, counters, expected) in [
        ("s", some.clone(), None),
        ("s", named("c-1"), None),
        ("s", named(&"a".repeat(63)), None),
        ("", some.clone(), Some((true, "Required value".to_owned()))),
        ("A", some.clone(), Some((true, invalid("A", LABEL)))),
        ("a.b", some.clone(), Some((true, invalid("a.b", "must not contain dots")))),
        ("s", json!({}), Some((false, "Required value".to_owned()))),
        ("s", Value::Null, Some((false, "Required value".to_owned()))),
        ("s", named(""), Some((false, invalid("", LABEL)))),
        ("s", named("a_b"), Some((false, invalid("a_b", LABEL)))),
        ("s", named("a.b"), Some((false, invalid("a.b", "must not contain dots")))),
        ("s", named(&long), Some((false, invalid(&long, "must be no more than 63 characters")))),
    ] {
        for (slice, list, own) in
            [(counting(), "spec.sharedCounters", "name"), (slice(), "spec.devices[0].consumesCounters", "counterSet")]
        {
            let mut set = json!({"counters": counters});
            set[own] = json!(name);
            let expected: Vec<String> = expected
                .iter()
                .map(|(of_name, body)| format!("{list}[0].{}: {body}", if *of_name { own } else { "counters" }))
                .collect();
            assert_eq!(of_slice(&with(slice, list, json!([set])), None), expected, "{name} {counters}");
        }
    }
    let twice = json!([{"name": "s", "counters": some}, {"name": "s", "counters": some}]);
    let found = of_slice(&with(counting(), "spec.sharedCounters", twice), None);
    assert_eq!(found, ["spec.sharedCounters[1]: Duplicate value: \"s\""]);
    let twice = json!([{"counterSet": "s", "counters": some}, {"counterSet": "s", "counters": some}]);
    let found = of_slice(&with(slice(), "spec.devices[0].consumesCounters", twice), None);
    assert_eq!(found, ["spec.devices[0].consumesCounters[1]: Duplicate value: \"s\""]);
    let both = with(slice(), "spec.sharedCounters", json!([]));
    assert_eq!(
        of_slice(&both, None),
        ["spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed"]
    );
}

/// Contract: API-43
#[test]
fn slices_stay_with_their_driver_pool_and_node() {
    let stays = |field: &str, value: &str| vec![format!("{field}: Invalid value: {value}: field is immutable")];
    let everywhere = with(with(slice(), "spec.nodeName", Value::Null), "spec.allNodes", json!(true));
    let unset = {
        let mut slice = everywhere.clone();
        slice["spec"].as_object_mut().expect("a spec").remove("nodeName");
        slice
    };
    for (slice, old, expected) in [
        (slice(), slice(), vec![]),
        (with(slice(), "spec.pool.generation", json!(7)), slice(), vec![]),
        (with(slice(), "spec.pool.resourceSliceCount", json!(7)), slice(), vec![]),
        (with(slice(), "spec.devices", json!([])), slice(), vec![]),
        (with(slice(), "spec.driver", json!("b.io")), slice(), stays("spec.driver", "\"b.io\"")),
        (with(slice(), "spec.pool.name", json!("q")), slice(), stays("spec.pool.name", "\"q\"")),
        (with(slice(), "spec.nodeName", json!("m")), slice(), stays("spec.nodeName", "\"m\"")),
        (unset.clone(), slice(), stays("spec.nodeName", "null")),
        (slice(), unset.clone(), stays("spec.nodeName", "\"n\"")),
        (apart(&json!({"name": "d", "allNodes": true})), unset, vec![]),
    ] {
        assert_eq!(of_slice(&slice, Some(&old)), expected, "{slice}");
    }
}
