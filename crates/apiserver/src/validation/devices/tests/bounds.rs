//! How much there may be of what.

use super::*;

/// Contract: API-43
#[test]
fn lists_and_maps_hold_so_many() {
    let names: Part = |count| list(count, |at| json!(format!("n{at}")));
    let selectors: Part = |count| list(count, |_| json!({"cel": {"expression": "a"}}));
    let configs: Part = |count| list(count, |_| opaque());
    let given_configs: Part = |count| list(count, |_| with(opaque(), "source", json!("FromClass")));
    let requests: Part = |count| list(count, |at| request(&format!("r{at}")));
    let alternatives: Part = |count| list(count, |at| alternative(&format!("a{at}")));
    let constraints: Part = |count| list(count, |_| json!({"distinctAttribute": "a.io/b"}));
    let references: Part = |count| {
        list(count, |at| match at {
            0 => json!("any/a"),
            32 => json!("any/b"),
            at => json!(format!("r{at}")),
        })
    };
    let consumers: Part = |count| list(count, |at| json!({"resource": "pods", "name": "a", "uid": at.to_string()}));
    let results: Part = |count| list(count, |at| result(&format!("d{at}")));
    let conditions: Part = |count| {
        list(count, |at| {
            json!({"type": format!("T{at}"), "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        })
    };
    let addresses: Part = |count| list(count, |at| json!(format!("10.0.0.{at}/8")));
    let taints: Part = |count| list(count, |at| json!({"key": format!("k{at}"), "effect": "NoExecute"}));
    let counters: Part = |count| (0..count).map(|at| (format!("c{at}"), json!({"value": "1"}))).collect();
    let consumed: Part =
        |count| list(count, |at| json!({"counterSet": format!("s{at}"), "counters": {"c": {"value": "1"}}}));
    let sets: Part = |count| list(count, |at| json!({"name": format!("s{at}"), "counters": {"c": {"value": "1"}}}));

    let template = json!({"spec": claim()});
    let crowd_given = {
        let status = with(given(), "status.allocation.devices.results[0].request", json!("r1"))["status"].clone();
        with(crowd(), "status", status)
    };
    let cases: &[(Says, Value, &str, usize, Part)] = &[
        (of_class, class(), "spec.selectors", 32, selectors),
        (of_class, class(), "spec.config", 32, configs),
        (of_claim, claim(), "spec.devices.requests", 32, requests),
        (of_claim, claim(), "spec.devices.requests[0].exactly.selectors", 32, selectors),
        (of_claim, claim(), "spec.devices.requests[1].firstAvailable", 8, alternatives),
        (of_claim, claim(), "spec.devices.requests[1].firstAvailable[0].selectors", 32, selectors),
        (of_claim, claim(), "spec.devices.constraints", 32, constraints),
        (of_claim, claim(), "spec.devices.config", 32, configs),
        (of_claim, crowd(), "spec.devices.constraints[0].requests", 32, references),
        (of_claim, crowd(), "spec.devices.config[0].requests", 32, references),
        (of_template, template, "spec.spec.devices.requests", 32, requests),
        (of_status, given(), "status.reservedFor", 256, consumers),
        (of_status, given(), "status.allocation.devices.results", 32, results),
        (of_status, given(), "status.allocation.devices.results[0].bindingConditions", 4, names),
        (of_status, given(), "status.allocation.devices.results[0].bindingFailureConditions", 4, names),
        (of_status, given(), "status.allocation.devices.config", 64, given_configs),
        (of_status, crowd_given, "status.allocation.devices.config[0].requests", 32, references),
        (of_status, reported(), "status.devices[0].conditions", 8, conditions),
        (of_status, reported(), "status.devices[0].networkData.ips", 16, addresses),
        (of_slice, slice(), "spec.devices[0].taints", 16, taints),
        (of_slice, slice(), "spec.devices[0].consumesCounters", 2, consumed),
        (of_slice, slice(), "spec.devices[0].consumesCounters[0].counters", 32, counters),
        (of_slice, slice(), "spec.devices[0].bindingConditions", 4, names),
        (of_slice, slice(), "spec.devices[0].bindingFailureConditions", 4, names),
        (of_slice, counting(), "spec.sharedCounters", 8, sets),
        (of_slice, counting(), "spec.sharedCounters[0].counters", 32, counters),
    ];
    for (says, object, field, most, part) in cases {
        assert_eq!(says(&with(object.clone(), field, part(*most)), None), NOTHING, "{field}");
        let too_many = format!("{field}: Too many: {}: must have at most {most} items", most + 1);
        assert_eq!(says(&with(object.clone(), field, part(most + 1)), None), [too_many], "{field}");
    }

    // Upstream has a number for tolerations too, and does not hold anybody to it.
    for field in
        ["spec.devices.requests[0].exactly.tolerations", "spec.devices.requests[1].firstAvailable[0].tolerations"]
    {
        let many = list(100, |_| json!({"operator": "Exists"}));
        assert_eq!(of_claim(&with(claim(), field, many), None), NOTHING);
    }
}

/// Contract: API-43
#[test]
fn slices_hold_fewer_devices_where_one_has_taints_counters_or_lists() {
    let consumed = json!([{"counterSet": "s", "counters": {"c": {"value": "1"}}}]);
    for (fields, most) in [
        (json!({}), 128),
        (json!({"taints": [], "consumesCounters": []}), 128),
        (json!({"attributes": {"i": {"int": 1}}, "capacity": {"m": {"value": "1"}}}), 128),
        (json!({"taints": [{"key": "k", "effect": "None"}]}), 64),
        (json!({"consumesCounters": consumed}), 64),
        (json!({"attributes": {"l": {"bools": [true]}}}), 64),
        (json!({"attributes": {"l": {"ints": [1]}}}), 64),
        (json!({"attributes": {"l": {"strings": ["a"]}}}), 64),
        (json!({"attributes": {"l": {"versions": ["1.0.0"]}}}), 64),
    ] {
        // It is the last that has them.
        let devices = |count: usize| {
            let mut devices = list(count, |at| json!({"name": format!("d{at}")}));
            devices[count - 1].as_object_mut().expect("a device").extend(map(&fields).clone());
            with(slice(), "spec.devices", devices)
        };
        assert_eq!(of_slice(&devices(most), None), NOTHING, "{fields}");
        let too_many = format!("spec.devices: Too many: {}: must have at most {most} items", most + 1);
        assert_eq!(of_slice(&devices(most + 1), None), [too_many], "{fields}");
    }
}

/// Contract: API-43
#[test]
fn devices_have_so_many_attributes_capacities_and_values() {
    let entries =
        "spec.devices[0]: Invalid value: 33: the total number of attributes and capacities must not exceed 32";
    let values = |found: usize| {
        format!("spec.devices[0]: Invalid value: {found}: the total number of attribute values must not exceed 48")
    };
    let strings: Part = |count| json!({"strings": list(count, |_| json!("x"))});
    let bools: Part = |count| json!({"bools": list(count, |_| json!(false))});
    let ints: Part = |count| json!({"ints": list(count, |_| json!(0))});
    let versions: Part = |count| json!({"versions": list(count, |_| json!("1.0.0"))});
    // So many attributes of one value, one with a list of so many, and so many capacities.
    let cases: &[(usize, Part, usize, usize, &[String])] = &[
        (32, ints, 0, 0, &[]),
        (0, ints, 0, 32, &[]),
        (16, ints, 0, 16, &[]),
        (33, ints, 0, 0, &[entries.to_owned()]),
        (0, ints, 0, 33, &[entries.to_owned()]),
        (16, ints, 0, 17, &[entries.to_owned()]),
        (0, ints, 48, 31, &[]),
        (31, ints, 17, 0, &[]),
        (31, ints, 18, 0, &[values(49)]),
        (0, ints, 49, 0, &[values(49)]),
        (0, bools, 49, 0, &[values(49)]),
        (0, strings, 49, 0, &[values(49)]),
        (0, versions, 49, 0, &[values(49)]),
        (32, ints, 20, 0, &[entries.to_owned(), values(52)]),
    ];
    for (single, part, listed, capacities, expected) in cases {
        let mut attributes: Value = (0..*single).map(|at| (format!("a{at}"), json!({"int": 1}))).collect();
        if *listed > 0 {
            attributes["list"] = part(*listed);
        }
        let capacity: Value = (0..*capacities).map(|at| (format!("c{at}"), json!({"value": "1"}))).collect();
        let device = json!({"name": "d", "attributes": attributes, "capacity": capacity});
        let found = of_slice(&with(slice(), "spec.devices", json!([device])), None);
        assert_eq!(found, *expected, "{single} {listed} {capacities}");
    }
}

/// Contract: API-43
#[test]
fn texts_are_so_long_in_bytes() {
    let plain: Part = |length| json!("a".repeat(length));
    let wide: Part = |length| json!("ä".repeat(length / 2) + &"x".repeat(length % 2));
    let sized: Part = |length| json!({"a": "x".repeat(length - r#"{"a":""}"#.len())});
    let version: Part = |length| json!(format!("1.0.0-{}", "a".repeat(length - 6)));
    let parts: Part = |length| json!(format!("{}/{}", "a".repeat(126), "a".repeat(length - 127)));
    let identifier: Part = |length| json!(format!("a.io/{}", "a".repeat(length)));
    let domain: Part = |length| json!(format!("{}/a", "a".repeat(length)));
    let listed =
        with(slice(), "spec.devices[0].attributes", json!({"s": {"strings": ["x"]}, "v": {"versions": ["1.0.0"]}}));
    let distinct = with(claim(), "spec.devices.constraints", json!([{"distinctAttribute": "a.io/b"}]));
    let alternative = "spec.devices.requests[1].firstAvailable[0].selectors[0].cel.expression";
    let cases: &[(Says, Value, &str, usize, Part)] = &[
        (of_class, class(), "spec.selectors[0].cel.expression", 10_240, plain),
        (of_class, class(), "spec.config[0].opaque.driver", 63, plain),
        (of_class, class(), "spec.config[0].opaque.parameters", 10_240, sized),
        (of_claim, claim(), "spec.devices.requests[0].exactly.selectors[0].cel.expression", 10_240, plain),
        (of_claim, claim(), alternative, 10_240, plain),
        (of_claim, claim(), "spec.devices.constraints[0].matchAttribute", 32, identifier),
        (of_claim, claim(), "spec.devices.constraints[0].matchAttribute", 63, domain),
        (of_claim, distinct.clone(), "spec.devices.constraints[0].distinctAttribute", 32, identifier),
        (of_claim, distinct, "spec.devices.constraints[0].distinctAttribute", 63, domain),
        (of_claim, claim(), "spec.devices.config[0].opaque.driver", 63, plain),
        (of_claim, claim(), "spec.devices.config[0].opaque.parameters", 10_240, sized),
        (of_status, given(), "status.allocation.devices.results[0].driver", 63, plain),
        (of_status, given(), "status.allocation.devices.results[0].pool", 253, parts),
        (of_status, given(), "status.allocation.devices.config[0].opaque.parameters", 10_240, sized),
        (of_status, reported(), "status.devices[0].data", 10_240, sized),
        (of_status, reported(), "status.devices[0].networkData.interfaceName", 256, wide),
        (of_status, reported(), "status.devices[0].networkData.hardwareAddress", 128, wide),
        (of_slice, slice(), "spec.driver", 63, plain),
        (of_slice, slice(), "spec.pool.name", 253, parts),
        (of_slice, slice(), "spec.devices[0].attributes[s].string", 64, wide),
        (of_slice, slice(), "spec.devices[0].attributes[v].version", 64, version),
        (of_slice, listed.clone(), "spec.devices[0].attributes[s].strings[0]", 64, wide),
        (of_slice, listed, "spec.devices[0].attributes[v].versions[0]", 64, version),
    ];
    for (says, object, field, most, part) in cases {
        assert_eq!(says(&with(object.clone(), field, part(*most)), None), NOTHING, "{field}");
        let too_long = format!("{field}: Too long: may not be more than {most} bytes");
        assert_eq!(says(&with(object.clone(), field, part(most + 1)), None), [too_long], "{field}");
    }
}

/// Contract: API-43
#[test]
fn names_are_so_long() {
    let plain: Part = |length| json!("a".repeat(length));
    let prefix: Part = |length| json!(format!("{}/b", "a".repeat(length)));
    let (label, subdomain) = ("must be no more than 63 characters", "must be no more than 253 characters");
    let (before, behind) = ("prefix part must be no more than 253 bytes", "name part must be no more than 63 bytes");
    let value = "must be no more than 63 bytes";
    let own_node = apart(&json!({"name": "d", "nodeName": "n"}));
    let cases: &[(Says, Value, &str, Part, &str)] = &[
        (of_claim, claim(), "spec.devices.requests[0].name", plain, label),
        (of_claim, claim(), "spec.devices.requests[0].exactly.deviceClassName", plain, subdomain),
        (of_claim, claim(), "spec.devices.requests[0].exactly.tolerations[0].key", plain, behind),
        (of_claim, claim(), "spec.devices.requests[0].exactly.tolerations[0].key", prefix, before),
        (of_claim, claim(), "spec.devices.requests[0].exactly.tolerations[0].value", plain, value),
        (of_claim, claim(), "spec.devices.requests[1].firstAvailable[0].name", plain, label),
        (of_claim, claim(), "spec.devices.requests[1].firstAvailable[0].deviceClassName", plain, subdomain),
        (of_status, given(), "status.allocation.devices.results[0].device", plain, label),
        (of_slice, slice(), "spec.nodeName", plain, subdomain),
        (of_slice, own_node, "spec.devices[0].nodeName", plain, subdomain),
        (of_slice, slice(), "spec.devices[0].name", plain, label),
        (of_slice, slice(), "spec.devices[0].taints[0].key", plain, behind),
        (of_slice, slice(), "spec.devices[0].taints[0].key", prefix, before),
        (of_slice, slice(), "spec.devices[0].taints[0].value", plain, value),
        (of_slice, slice(), "spec.devices[0].consumesCounters[0].counterSet", plain, label),
        (of_slice, slice(), "spec.devices[0].bindingConditions[0]", plain, behind),
        (of_slice, slice(), "spec.devices[0].bindingFailureConditions[0]", prefix, before),
        (of_slice, counting(), "spec.sharedCounters[0].name", plain, label),
    ];
    for (says, object, field, part, why) in cases {
        let most = if why.contains("253") { 253 } else { 63 };
        assert_eq!(says(&with(object.clone(), field, part(most)), None), NOTHING, "{field}");
        let long = part(most + 1);
        let expected = format!("{field}: Invalid value: {long}: {why}");
        assert_eq!(says(&with(object.clone(), field, long), None), [expected], "{field}");
    }
}
