//! Attributes and capacities of devices.

use super::*;

/// Contract: API-43
#[test]
fn names_of_attributes_and_capacities_by_the_table() {
    let id_too_long = || "Too long: may not be more than 32 bytes".to_owned();
    let domain_too_long = || "Too long: may not be more than 63 bytes".to_owned();
    let (id, long_id) = ("a".repeat(32), "a".repeat(33));
    let (domain, long_domain) = ("a".repeat(63), "a".repeat(64));
    for (name, expected) in [
        ("a".to_owned(), vec![]),
        ("_A1".to_owned(), vec![]),
        ("a.io/b".to_owned(), vec![]),
        ("A.Io/B".to_owned(), vec![]),
        (id.clone(), vec![]),
        (format!("{domain}/{id}"), vec![]),
        // As in the reference.
        ("a/b/c".to_owned(), vec![]),
        ("//".to_owned(), vec![]),
        (String::new(), vec![invalid("", IDENTIFIER)]),
        ("1a".to_owned(), vec![invalid("1a", IDENTIFIER)]),
        ("a-b".to_owned(), vec![invalid("a-b", IDENTIFIER)]),
        ("a.io/1".to_owned(), vec![invalid("1", IDENTIFIER)]),
        ("a_b/c".to_owned(), vec![invalid("a_b", SUBDOMAIN)]),
        ("a_b/1".to_owned(), vec![invalid("a_b", SUBDOMAIN), invalid("1", IDENTIFIER)]),
        ("/b".to_owned(), vec![invalid("", "the domain must not be empty")]),
        ("a.io/".to_owned(), vec![invalid("", "the name must not be empty")]),
        ("/".to_owned(), vec![invalid("", "the domain must not be empty"), invalid("", "the name must not be empty")]),
        (long_id.clone(), vec![id_too_long()]),
        (format!("a.io/{long_id}"), vec![id_too_long()]),
        (format!("{long_domain}/b"), vec![domain_too_long()]),
        (format!("{long_domain}/{long_id}"), vec![domain_too_long(), id_too_long()]),
        (".".repeat(33), vec![id_too_long(), invalid(&".".repeat(33), IDENTIFIER)]),
    ] {
        let mut named = json!({});
        named[name.as_str()] = json!({"int": 1});
        let found = of_slice(&with(slice(), "spec.devices[0].attributes", named.clone()), None);
        assert_eq!(found, at("spec.devices[0].attributes", &expected), "{name}");
        named[name.as_str()] = json!({"value": "1"});
        let found = of_slice(&with(slice(), "spec.devices[0].capacity", named), None);
        assert_eq!(found, at("spec.devices[0].capacity", &expected), "{name}");

        let mut expected = expected;
        if !name.contains('/') {
            let why = "a fully qualified name must be a domain and a name separated by a slash";
            expected.push(invalid(&name, why));
        }
        for field in ["matchAttribute", "distinctAttribute"] {
            let mut constraint = json!({});
            constraint[field] = json!(name);
            let found = of_claim(&with(claim(), "spec.devices.constraints", json!([constraint])), None);
            assert_eq!(found, at(&format!("spec.devices.constraints[0].{field}"), &expected), "{name}");
        }
    }
    // Where there are both, only the first counts.
    let both = json!([{"matchAttribute": "a.io/b", "distinctAttribute": "1"}]);
    assert_eq!(of_claim(&with(claim(), "spec.devices.constraints", both), None), NOTHING);
}

/// Contract: API-43
#[test]
fn names_that_are_too_long_are_shown_without_their_middle() {
    let name = |ones: usize, others: usize, between: &str| "a".repeat(ones) + between + &"b".repeat(others);
    for (long, shown) in [(name(48, 48, ""), name(48, 48, "")), (name(48, 49, ""), name(47, 46, "..."))] {
        let mut attributes = json!({});
        attributes[long] = json!({});
        let why = "Invalid value: \"\": exactly one value must be specified";
        let expected = [
            "spec.devices[0].attributes: Too long: may not be more than 32 bytes".to_owned(),
            format!("spec.devices[0].attributes[{shown}]: {why}"),
        ];
        assert_eq!(of_slice(&with(slice(), "spec.devices[0].attributes", attributes), None), expected);
    }
}

/// Contract: API-43
#[test]
fn attributes_have_one_value() {
    let path = "spec.devices[0].attributes[a]";
    let empty = |list: &str| vec![format!("{path}.{list}: Invalid value: []: must not be empty if specified")];
    for (attribute, expected) in [
        (json!({"bool": false}), vec![]),
        (json!({"int": 0}), vec![]),
        (json!({"string": ""}), vec![]),
        (json!({"version": "0.0.0"}), vec![]),
        (json!({"bools": [true, true]}), vec![]),
        (json!({"ints": [1, 1]}), vec![]),
        (json!({"strings": ["", ""]}), vec![]),
        (json!({"versions": ["1.0.0", "1.0.0"]}), vec![]),
        (json!({"bools": []}), empty("bools")),
        (json!({"ints": []}), empty("ints")),
        (json!({"strings": []}), empty("strings")),
        (json!({"versions": []}), empty("versions")),
        (json!({}), vec![format!("{path}: Invalid value: \"\": exactly one value must be specified")]),
        (
            json!({"versions": ["1.0.0", "1"]}),
            vec![format!(
                "{path}.versions[1]: {}",
                invalid("1", "must be a string compatible with semver.org spec 2.0.0")
            )],
        ),
    ] {
        let slice = with(slice(), "spec.devices[0].attributes", json!({"a": attribute}));
        assert_eq!(of_slice(&slice, None), expected, "{attribute}");
    }
    for (attribute, shown) in [
        (
            json!({"bool": false, "int": 0}),
            r#"{"IntValue":0,"BoolValue":false,"StringValue":null,"VersionValue":null,"IntValues":null,"BoolValues":null,"StringValues":null,"VersionValues":null}"#,
        ),
        (
            json!({"string": "x", "version": "1.2.3"}),
            r#"{"IntValue":null,"BoolValue":null,"StringValue":"x","VersionValue":"1.2.3","IntValues":null,"BoolValues":null,"StringValues":null,"VersionValues":null}"#,
        ),
        (
            json!({"int": 1, "ints": [2]}),
            r#"{"IntValue":1,"BoolValue":null,"StringValue":null,"VersionValue":null,"IntValues":[2],"BoolValues":null,"StringValues":null,"VersionValues":null}"#,
        ),
    ] {
        let slice = with(slice(), "spec.devices[0].attributes", json!({"a": attribute}));
        let expected = format!("{path}: Invalid value: {shown}: exactly one value must be specified");
        assert_eq!(of_slice(&slice, None), [expected], "{attribute}");
    }
}

/// Contract: API-43
#[test]
fn versions_are_semantic() {
    let of = |version: &str| of_slice(&with(slice(), "spec.devices[0].attributes[v].version", json!(version)), None);
    let numbers = "0.0.0 1.20.300 99999999999999999999999.999999999999999999.99999999999999999";
    let early = "1.0.0-alpha 1.0.0-alpha.1 1.0.0-0 1.0.0-0.3.7 1.0.0-x.7.z.92 1.0.0-x-y-z.-- 1.0.0-- 1.0.0-01a";
    let built = "1.0.0+01 1.0.0+20130313144700 1.0.0-beta+exp.sha.5114f85 1.0.0+21AF26D3---117B344092BD 1.0.0+a-b";
    for version in [numbers, early, built].into_iter().flat_map(|versions| versions.split(' ')) {
        assert_eq!(of(version), NOTHING, "{version}");
    }
    let numbers = "1 1.2 1.2.3.4 1..3 1.2.x v1.2.3 01.2.3 1.02.3 1.2.03 00.0.0 -1.2.3 1.-2.3 1-2.3.4 +1.2.3 ٣.0.0";
    let early = "1.2.3- 1.2.3-+a 1.2.3-01 1.2.3-a.01 1.2.3-a..b 1.2.3-a. 1.2.3-.a 1.2.3-a_b 1.2.3-ä";
    let built = "1.2.3+ 1.2.3+a..b 1.2.3+a+b 1.2.3+a_b";
    let listed = [numbers, early, built].into_iter().flat_map(|versions| versions.split(' '));
    for version in listed.chain(["", " 1.2.3", "1.2.3 ", "1.2.3\n"]) {
        let why = invalid(version, "must be a string compatible with semver.org spec 2.0.0");
        assert_eq!(of(version), at("spec.devices[0].attributes[v].version", &[why]), "{version}");
    }
}

/// Contract: API-43
#[test]
fn policies_of_requests_by_the_table() {
    let larger = |what: &str, most: &str| format!("{what} is larger than capacity value: {most}");
    let uneven = |step: &str, min: &str| format!("value is not a multiple of a given step ({step}) from ({min})");
    let required = |of: &str| format!("Required value: required when {of} is defined");
    let not_valid = |default: &str| invalid(default, "default value is not valid according to the requestPolicy");
    let numbers = |count: usize| list(count, |at| json!((at + 1).to_string()));
    for (most, policy, expected) in [
        ("10", json!({}), vec![]),
        ("10", json!({"default": "20"}), vec![]),
        ("10", json!({"default": "20", "validValues": []}), vec![]),
        ("10", json!({"validValues": ["1"]}), vec![("default", required("validValues"))]),
        ("10", json!({"validRange": {"min": "1"}}), vec![("default", required("validRange"))]),
        (
            "10",
            json!({"default": "1", "validRange": {"max": "0", "step": "20"}}),
            vec![("validRange.min", required("validRange"))],
        ),
        // Amounts are compared, and not their texts.
        ("10", json!({"default": "10", "validValues": ["9", "10"]}), vec![]),
        ("1Gi", json!({"default": "1Gi", "validValues": ["512Mi", "1Gi"]}), vec![]),
        ("20", json!({"default": "10", "validValues": numbers(10)}), vec![]),
        (
            "20",
            json!({"default": "1", "validValues": numbers(11)}),
            vec![
                ("validValues", "Too many: 11: must have at most 10 items".to_owned()),
                ("validValues", not_valid("1")),
            ],
        ),
        (
            "10",
            json!({"default": "1", "validValues": ["1", "11"]}),
            vec![("validValues[1]", invalid("11", &larger("option", "10")))],
        ),
        (
            "10Gi",
            json!({"default": "1Gi", "validValues": ["20Gi"]}),
            vec![("validValues[0]", invalid("20Gi", &larger("option", "10Gi"))), ("validValues", not_valid("1Gi"))],
        ),
        (
            "10",
            json!({"default": "1", "validValues": ["2", "1"]}),
            vec![("validValues[1]", invalid("1", "values must be sorted in ascending order"))],
        ),
        // They are the same where their next whole numbers are.
        (
            "10",
            json!({"default": "1", "validValues": ["500m", "1"]}),
            vec![("validValues[1]", "Duplicate value: \"1\"".to_owned())],
        ),
        (
            "10Gi",
            json!({"default": "1Ki", "validValues": ["1Ki", "1024"]}),
            vec![("validValues[1]", "Duplicate value: \"1024\"".to_owned())],
        ),
        ("10", json!({"default": "5", "validRange": {"min": "5"}}), vec![]),
        ("10", json!({"default": "10", "validRange": {"min": "1", "max": "10", "step": "9"}}), vec![]),
        ("10Gi", json!({"default": "1Gi", "validRange": {"min": "1Gi", "step": "9Gi"}}), vec![]),
        ("10", json!({"default": "2", "validRange": {"min": "1", "step": "500m"}}), vec![]),
        (
            "10Gi",
            json!({"default": "2Gi", "validRange": {"min": "20Gi", "max": "1Gi"}}),
            vec![
                ("validRange.min", invalid("20Gi", &larger("min", "10Gi"))),
                ("validRange.min", invalid("2Gi", "default is less than min: 20Gi")),
                ("validRange.max", invalid("20Gi", "min is larger than max: 1Gi")),
                ("validRange.max", invalid("2Gi", "default is more than max: 1Gi")),
            ],
        ),
        (
            "10",
            json!({"default": "6", "validRange": {"min": "1", "max": "5"}}),
            vec![("validRange.max", invalid("6", "default is more than max: 5"))],
        ),
        (
            "10",
            json!({"default": "1", "validRange": {"min": "1", "max": "11"}}),
            vec![("validRange.max", invalid("11", &larger("max", "10")))],
        ),
        (
            "10Gi",
            json!({"default": "1Gi", "validRange": {"min": "1Gi", "step": "10Gi"}}),
            vec![("validRange.step", invalid("10Gi", &larger("one step 11Gi", "10Gi")))],
        ),
        (
            "10Gi",
            json!({"default": "2Gi", "validRange": {"min": "1Gi", "max": "10Gi", "step": "2Gi"}}),
            vec![
                ("validRange.step", invalid("2Gi", &uneven("2Gi", "1Gi"))),
                ("validRange.step", invalid("10Gi", &uneven("2Gi", "1Gi"))),
            ],
        ),
        (
            "10",
            json!({"default": "1", "validRange": {"min": "1", "max": "4", "step": "2"}}),
            vec![("validRange.step", invalid("4", &uneven("2", "1")))],
        ),
    ] {
        let policed = json!({"m": {"value": most, "requestPolicy": policy}});
        let alone = with(slice(), "spec.devices[0].capacity", policed);
        let path = "spec.devices[0].capacity[m].requestPolicy";
        let forbidden = format!("{path}: Forbidden: allowMultipleAllocations must be true");
        assert_eq!(of_slice(&alone, None), [forbidden.as_str()], "{policy}");
        let untrue = with(alone.clone(), "spec.devices[0].allowMultipleAllocations", json!(false));
        assert_eq!(of_slice(&untrue, None), [forbidden.as_str()], "{policy}");
        let shared = with(alone, "spec.devices[0].allowMultipleAllocations", json!(true));
        let expected: Vec<String> = expected.iter().map(|(field, body)| format!("{path}.{field}: {body}")).collect();
        assert_eq!(of_slice(&shared, None), expected, "{policy}");
    }
}
