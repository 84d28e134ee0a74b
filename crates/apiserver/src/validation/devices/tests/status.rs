//! What a claim has got, and what is told of it.

use super::*;

/// Contract: API-43
#[test]
fn shares_are_uuids_in_their_usual_form() {
    let usual = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters";
    let wrong = |why: &str| format!("error validating uid: {why}");
    let format = || wrong("invalid UUID format");
    for (share, why) in [
        (SHARE, None),
        ("00000000-0000-0000-0000-000000000000", None),
        ("AC051FAC-2EAD-46D9-B8B4-4E0FBEB7455D", Some(usual.to_owned())),
        ("ac051fac-2ead-46d9-b8b4-4e0fbeb7455D", Some(usual.to_owned())),
        ("ac051fac2ead46d9b8b44e0fbeb7455d", Some(usual.to_owned())),
        ("{ac051fac-2ead-46d9-b8b4-4e0fbeb7455d}", Some(usual.to_owned())),
        ("urn:uuid:ac051fac-2ead-46d9-b8b4-4e0fbeb7455d", Some(usual.to_owned())),
        ("URN:Uuid:ac051fac-2ead-46d9-b8b4-4e0fbeb7455d", Some(usual.to_owned())),
        ("urn:uuix:ac051fac-2ead-46d9-b8b4-4e0fbeb7455d", Some(wrong("invalid urn prefix: \"urn:uuix:\""))),
        ("urn:uuid:ac051fac-2ead-46d9-b8b4-4e0fbeb7455g", Some(format())),
        ("(ac051fac-2ead-46d9-b8b4-4e0fbeb7455d)", Some(wrong("invalid bracketed UUID format"))),
        ("{ac051fac-2ead-46d9-b8b4-4e0fbeb7455d)", Some(wrong("invalid bracketed UUID format"))),
        ("{ac051fac-2ead-46d9-b8b4-4e0fbeb7455g}", Some(format())),
        ("{ac051fac-2ead-46d9-b8b44-e0fbeb7455d}", Some(format())),
        ("ac051fac-2ead-46d9-b8b4-4e0fbeb7455g", Some(format())),
        ("ac051fac-2ead-46d9-b8b44-e0fbeb7455d", Some(format())),
        ("ac051fac02ead046d90b8b404e0fbeb7455d", Some(format())),
        ("ac051fac-2ead-46d9-b8b4-4e0fbeb7-55d", Some(format())),
        ("ac051fac-2ead46d9b8b44e0fbeb7455", Some(format())),
        ("ac051fac2ead46d9b8b44e0fbeb7455g", Some(format())),
        ("", Some(wrong("invalid UUID length: 0"))),
        ("ac051fac2ead46d9b8b44e0fbeb7455", Some(wrong("invalid UUID length: 31"))),
        ("ac051fac-2ead-46d9-b8b4-4e0fbeb7455", Some(wrong("invalid UUID length: 35"))),
        ("ac051fac-2ead-46d9-b8b4-4e0fbeb7455d0", Some(wrong("invalid UUID length: 37"))),
        ("urn:uuid:ac051fac2ead46d9b8b44e0fbeb7455d", Some(wrong("invalid UUID length: 41"))),
    ] {
        let shared = with(reported(), "status.devices[0].shareID", json!(share));
        let shared = with(shared, "status.allocation.devices.results[0].shareID", json!(share));
        let places = ["status.devices[0]", "status.allocation.devices.results[0]"];
        let expected: Vec<String> = why
            .iter()
            .flat_map(|why| places.map(|place| format!("{place}.shareID: Invalid value: {share:?}: {why}")))
            .collect();
        assert_eq!(of_status(&shared, None), expected, "{share}");
    }
}

/// Contract: API-43
#[test]
fn drivers_pools_and_devices_by_the_table() {
    let required = || vec!["Required value".to_owned()];
    let drivers = [
        ("a", vec![]),
        ("a.io", vec![]),
        ("A.Io", vec![]),
        ("", required()),
        ("a_b", vec![invalid("a_b", SUBDOMAIN)]),
        ("a..b", vec![invalid("a..b", SUBDOMAIN)]),
        ("a/b", vec![invalid("a/b", SUBDOMAIN)]),
    ];
    let pools = [
        ("a", vec![]),
        ("a.b/c/d-e", vec![]),
        ("", required()),
        ("A", vec![invalid("A", SUBDOMAIN)]),
        ("/", vec![invalid("", SUBDOMAIN), invalid("", SUBDOMAIN)]),
        ("a/", vec![invalid("", SUBDOMAIN)]),
        ("a//b_c", vec![invalid("", SUBDOMAIN), invalid("b_c", SUBDOMAIN)]),
    ];
    let devices = [
        ("a-1", vec![]),
        ("", vec![invalid("", LABEL)]),
        ("A", vec![invalid("A", LABEL)]),
        ("a.b", vec![invalid("a.b", "must not contain dots")]),
    ];
    let results = "status.allocation.devices.results[0]";
    for (field, names) in [("driver", &drivers[..]), ("pool", &pools[..]), ("device", &devices[..])] {
        for (name, expected) in names {
            let own = format!("{results}.{field}");
            assert_eq!(of_status(&with(given(), &own, json!(name)), None), at(&own, expected), "{name}");
            // What is told of it has the same name.
            let told = with(with(reported(), &own, json!(name)), &format!("status.devices[0].{field}"), json!(name));
            let expected = [at(&format!("status.devices[0].{field}"), expected), at(&own, expected)].concat();
            assert_eq!(of_status(&told, None), expected, "{name}");
        }
    }
    let in_slice =
        [("spec.driver", &drivers[..]), ("spec.pool.name", &pools[..]), ("spec.devices[0].name", &devices[..])];
    for (field, names) in in_slice {
        for (name, expected) in names {
            assert_eq!(of_slice(&with(slice(), field, json!(name)), None), at(field, expected), "{name}");
        }
    }
    for (name, expected) in drivers {
        let field = "spec.config[0].opaque.driver";
        assert_eq!(of_class(&with(class(), field, json!(name)), None), at(field, &expected), "{name}");
    }
    for (count, generation, expected) in [
        (1, 0, None),
        (1, i64::MAX, None),
        (0, 0, Some("resourceSliceCount: Invalid value: 0: must be greater than zero")),
        (-1, 0, Some("resourceSliceCount: Invalid value: -1: must be greater than zero")),
        (1, -1, Some("generation: Invalid value: -1: must be greater than or equal to zero")),
    ] {
        let pool = json!({"name": "p", "generation": generation, "resourceSliceCount": count});
        let expected: Vec<String> = expected.iter().map(|body| format!("spec.pool.{body}")).collect();
        assert_eq!(of_slice(&with(slice(), "spec.pool", pool), None), expected);
    }
}

/// What is wrong with one condition is told before what is wrong with the next.
///
/// Contract: API-43
#[test]
fn conditions_of_binding_by_the_table() {
    let needed = |value: &str| {
        format!(
            "bindingConditions: Invalid value: {value}: bindingConditions are required to use bindingFailureConditions"
        )
    };
    let failed = |value: &str| {
        format!(
            "bindingFailureConditions: Invalid value: {value}: bindingFailureConditions are required to use bindingConditions"
        )
    };
    let overlap = |at: usize| {
        let why = invalid("a", "bindingFailureConditions must not overlap with bindingConditions");
        format!("bindingFailureConditions[{at}]: {why}")
    };
    let twice = |field: &str, at: usize| format!("{field}[{at}]: Duplicate value: \"a\"");
    for (conditions, failures, expected) in [
        (Value::Null, Value::Null, vec![]),
        (json!([]), json!([]), vec![]),
        (json!(["a.io/b"]), json!(["b"]), vec![]),
        (json!(["a"]), Value::Null, vec![failed("null")]),
        (json!(["a"]), json!([]), vec![failed("[]")]),
        (Value::Null, json!(["a"]), vec![needed("null")]),
        (json!([]), json!(["a"]), vec![needed("[]")]),
        (json!(["b", "a b"]), json!(["c"]), vec![format!("bindingConditions[1]: {}", invalid("a b", NAME_PART))]),
        (json!(["b"]), json!(["c!"]), vec![format!("bindingFailureConditions[0]: {}", invalid("c!", NAME_PART))]),
        (json!(["a", "b", "a"]), json!(["c"]), vec![twice("bindingConditions", 2)]),
        (json!(["b"]), json!(["a", "a"]), vec![twice("bindingFailureConditions", 1)]),
        (json!(["a"]), json!(["b", "a"]), vec![overlap(1)]),
        (json!(["a"]), json!(["a", "b", "a"]), vec![overlap(0), twice("bindingFailureConditions", 2), overlap(2)]),
        (
            json!(["a", "b", "c", "d", "a"]),
            json!(["e"]),
            vec!["bindingConditions: Too many: 5: must have at most 4 items".to_owned(), twice("bindingConditions", 4)],
        ),
    ] {
        for (says, object, place) in [
            (of_slice as Says, slice(), "spec.devices[0]"),
            (of_status as Says, given(), "status.allocation.devices.results[0]"),
        ] {
            let object = with(object, &format!("{place}.bindingConditions"), conditions.clone());
            let object = with(object, &format!("{place}.bindingFailureConditions"), failures.clone());
            let expected: Vec<String> = expected.iter().map(|body| format!("{place}.{body}")).collect();
            assert_eq!(says(&object, None), expected, "{conditions} {failures}");
        }
    }
}

/// Contract: API-43
#[test]
fn configurations_and_consumers_by_the_table() {
    for (field, part, expected) in [
        ("source", json!("FromClass"), None),
        ("source", json!(""), Some("Required value")),
        (
            "source",
            json!("Class"),
            Some("Unsupported value: \"Class\": supported values: \"FromClaim\", \"FromClass\""),
        ),
        ("opaque", Value::Null, Some("Required value")),
        ("opaque.driver", json!(""), Some("Required value")),
        ("opaque.parameters", Value::Null, Some("Required value")),
        ("opaque.parameters", json!(1), Some("Invalid value: \"<value omitted>\": must be a valid JSON object")),
    ] {
        let field = format!("status.allocation.devices.config[0].{field}");
        let found = of_status(&with(given(), &field, part), None);
        assert_eq!(found, expected.iter().map(|body| format!("{field}: {body}")).collect::<Vec<_>>());
    }
    for field in ["resource", "name", "uid"] {
        let field = format!("status.reservedFor[0].{field}");
        assert_eq!(of_status(&with(given(), &field, json!("")), None), [format!("{field}: Required value")]);
    }
    let twice = list(2, |at| json!({"resource": "pods", "name": at.to_string(), "uid": "1"}));
    let found = of_status(&with(given(), "status.reservedFor", twice), None);
    assert_eq!(found, ["status.reservedFor[1]: Duplicate value: \"1\""]);
}

/// Contract: API-43
#[test]
fn what_has_been_given_stays_until_it_is_given_back() {
    let odd = with(given(), "status.allocation.devices.results[0].request", json!("other"));
    assert_eq!(of_status(&odd, Some(&odd)), NOTHING, "what stays is not looked at");
    let unknown = format!("status.allocation.devices.results[0].request: {}", invalid("other", UNKNOWN));
    assert_eq!(of_status(&odd, None), [unknown]);
    let changed = of_status(&odd, Some(&given()));
    assert!(changed.len() == 1 && changed[0].starts_with("status.allocation: Invalid value: {"), "{changed:?}");
    assert!(changed[0].ends_with(": field is immutable"), "{changed:?}");

    let back = with(with(given(), "status.allocation", Value::Null), "status.reservedFor", Value::Null);
    assert_eq!(of_status(&back, Some(&given())), NOTHING);
    let early = with(given(), "status.allocation", Value::Null);
    let why = "status.reservedFor: Forbidden: may not be specified when `allocated` is not set";
    assert_eq!(of_status(&early, Some(&given())), [why]);

    let going = |uids: &[&str]| {
        let consumers = list(uids.len(), |at| json!({"resource": "pods", "name": "a", "uid": uids[at]}));
        let claim = with(given(), "metadata", json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        with(claim, "status.reservedFor", consumers)
    };
    let late = "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
    for (uids, expected) in [(vec!["1", "2"], vec![]), (vec!["2"], vec![]), (vec![], vec![]), (vec!["3"], vec![late])] {
        assert_eq!(of_status(&going(&uids), Some(&going(&["1", "2"]))), expected, "{uids:?}");
    }
}

/// Contract: API-43
#[test]
fn what_is_told_of_devices_is_of_those_that_were_given() {
    let shown = |device: &str, share: &str| {
        format!(r#"{{"Driver":"a.io","Pool":"p","Device":"{device}","ShareID":"{share}"}}"#)
    };
    let strange = |at: usize, device: &str, share: &str| {
        format!(
            "status.devices[{at}]: Invalid value: {}: must be an allocated device in the claim",
            shown(device, share)
        )
    };
    let told = |device: &str, share: Option<&str>| {
        let device = json!({"driver": "a.io", "pool": "p", "device": device});
        share.map_or(device.clone(), |share| with(device, "shareID", json!(share)))
    };
    let shared = with(given(), "status.allocation.devices.results[0].shareID", json!(SHARE));
    for (claim, devices, expected) in [
        (given(), vec![told("d", None)], vec![]),
        (shared.clone(), vec![told("d", Some(SHARE))], vec![]),
        (given(), vec![told("e", None)], vec![strange(0, "e", "")]),
        (given(), vec![told("d", None), told("d", Some(SHARE))], vec![strange(1, "d", SHARE)]),
        (shared, vec![told("d", None)], vec![strange(0, "d", "")]),
        (
            given(),
            vec![told("d", None), told("d", None)],
            vec![format!("status.devices[1]: Duplicate value: {}", shown("d", ""))],
        ),
    ] {
        let devices: Value = devices.into();
        assert_eq!(of_status(&with(claim, "status.devices", devices.clone()), None), expected, "{devices}");
    }
    let nothing_given = with(reported(), "status", json!({"devices": [told("d", None)]}));
    assert_eq!(of_status(&nothing_given, None), [strange(0, "d", "")]);

    for (data, expected) in [
        (json!(null), None),
        (json!({"a": [null]}), None),
        (json!([1]), Some("Invalid value: \"<value omitted>\": must be a valid JSON object")),
        (json!("a"), Some("Invalid value: \"<value omitted>\": must be a valid JSON object")),
    ] {
        let found = of_status(&with(reported(), "status.devices[0].data", data), None);
        assert_eq!(found, expected.iter().map(|body| format!("status.devices[0].data: {body}")).collect::<Vec<_>>());
    }
    let addresses = json!(["10.0.0.1/8", "10.0.0.2/8", "10.0.0.1/8"]);
    let found = of_status(&with(reported(), "status.devices[0].networkData.ips", addresses), None);
    assert_eq!(found, ["status.devices[0].networkData.ips[2]: Duplicate value: \"10.0.0.1/8\""]);
}

/// Contract: API-43
#[test]
fn addresses_of_interfaces_by_the_table() {
    let of = |address: &str| of_status(&with(reported(), "status.devices[0].networkData.ips", json!([address])), None);
    for address in
        ["10.9.8.7/24", "0.0.0.0/0", "10.0.0.1/32", "2001:db8::1/64", "::/0", "::1/128", "1:2:3:4:5:6:7:0/64"]
    {
        assert_eq!(of(address), NOTHING, "{address}");
    }
    let path = "status.devices[0].networkData.ips[0]";
    let four = "a 10.0.0.1 10.0.0.1/ /24 10.0.0.1/33 10.0.0.1/-1 10.0.0.1/+8 10.0.0.1/24/8 10.0.0/24 10.0.0.0.1/24 300.9.8.0/24";
    let six = "2001:db8::1/129 2001:db8:::1/64 2001:db8::1::/64 1:2:3:4:5:6:7/64 fe80::1%eth0/64 ::ffff:300.0.0.1/128 1:2:3:4:5:6:7:1.2.3.4/64";
    let listed = [four, six].into_iter().flat_map(|addresses| addresses.split(' '));
    for address in listed.chain(["", "10.0.0.1/8 ", " 10.0.0.1/8"]) {
        let why = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        assert_eq!(of(address), at(path, &[invalid(address, why)]), "{address}");
    }
    for (address, canonical) in [
        ("010.009.008.007/24", "10.9.8.7/24"),
        ("10.9.8.7/024", "10.9.8.7/24"),
        ("10.9.8.7/00", "10.9.8.7/0"),
        ("2001:0db8::1/64", "2001:db8::1/64"),
        ("2001:DB8::1/64", "2001:db8::1/64"),
        ("2001:db8::1/064", "2001:db8::1/64"),
        ("2001:db8:0:0:0:0:0:1/64", "2001:db8::1/64"),
        ("1:2:3:4:5:6:7::/64", "1:2:3:4:5:6:7:0/64"),
        ("1:0:0:2:0:0:0:3/64", "1:0:0:2::3/64"),
        ("1:0:0:2:3:0:0:4/64", "1::2:3:0:0:4/64"),
        ("::1.2.3.4/96", "::102:304/96"),
        ("::ffff:10.0.0.1/128", "10.0.0.1/32"),
        ("::ffff:10.0.0.1/120", "10.0.0.1/24"),
        ("::ffff:a00:1/128", "10.0.0.1/32"),
        ("::ffff:010.0.0.1/128", "10.0.0.1/32"),
        ("::FFFF:10.0.0.1/128", "10.0.0.1/32"),
        // A prefix of an IPv4 address is taken for one, and what is between both has 96 less all the same.
        ("::ffff:10.0.0.1/32", "10.0.0.1/32"),
        ("::ffff:10.0.0.1/24", "10.0.0.1/24"),
        ("::ffff:10.0.0.1/33", "10.0.0.1/-63"),
    ] {
        let why = format!("must be in canonical form ({canonical:?})");
        assert_eq!(of(address), at(path, &[invalid(address, &why)]), "{address}");
    }
}

/// Contract: API-43
#[test]
fn groups_of_an_address_may_have_more_zeros_before_them_than_fit() {
    let odd = with(reported(), "status.devices[0].networkData.ips", json!(["2001:000db8::1/64"]));
    let why = invalid("2001:000db8::1/64", "must be in canonical form (\"2001:db8::1/64\")");
    assert_eq!(of_status(&odd, None), at("status.devices[0].networkData.ips[0]", &[why]));
}
