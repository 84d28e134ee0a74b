use muster_schema::template::{Template, equal_ignoring_hash, hash, raw_with_hash_label};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::recorded::templates;

fn both_ways(a: &str, b: &str) -> bool {
    let equal = equal_ignoring_hash(a, b);
    assert_eq!(equal_ignoring_hash(b, a), equal, "not symmetric: {a} {b}");
    equal
}

/// A template whose first container and spec have these members besides its name.
fn spec(container: &str, spec: &str) -> String {
    let comma = |members: &str| if members.is_empty() { String::new() } else { format!(",{members}") };
    format!(r#"{{"spec":{{"containers":[{{"name":"c"{}}}]{}}}}}"#, comma(container), comma(spec))
}

/// Contract: DEP-03
#[test]
fn the_hash_label_does_not_count_and_other_labels_do() {
    let labels = |labels: &str| format!(r#"{{"metadata":{{{labels}}},"spec":{{}}}}"#);
    for (a, b, equal) in [
        (r#""labels":{"a":"1"}"#, r#""labels":{"a":"1","pod-template-hash":"x"}"#, true),
        (r#""labels":{"a":"1","pod-template-hash":"y"}"#, r#""labels":{"pod-template-hash":"x","a":"1"}"#, true),
        (r#""labels":{"pod-template-hash":"x"}"#, "", true),
        (r#""labels":{"pod-template-hash":"x"}"#, r#""labels":null"#, true),
        (r#""labels":{"pod\u002dtemplate-hash":"x"}"#, r#""labels":{}"#, true),
        (r#""labels":{"a":"1"}"#, r#""labels":{"a":"2"}"#, false),
        (r#""labels":{"a":"1"}"#, r#""labels":{"a":"1","b":""}"#, false),
        (r#""annotations":{"pod-template-hash":"x"}"#, "", false),
    ] {
        assert_eq!(both_ways(&labels(a), &labels(b)), equal, "{a} {b}");
    }
}

/// Contract: DEP-03
#[test]
fn empty_is_absent_except_behind_a_pointer() {
    for (container, of_spec, equal) in [
        (r#""args":[]"#, r#""volumes":null"#, true),
        (r#""resources":{"limits":{},"requests":null}"#, r#""nodeSelector":{}"#, true),
        (r#""workingDir":"","tty":false"#, r#""hostNetwork":false,"dnsPolicy":"","hostname":null"#, true),
        (r#""livenessProbe":null"#, r#""securityContext":null,"priority":null"#, true),
        (r#""livenessProbe":{}"#, "", false),
        (r#""args":[""]"#, "", false),
        (r#""args":[null]"#, "", false),
        ("", r#""securityContext":{}"#, false),
        ("", r#""priority":0"#, false),
        ("", r#""shareProcessNamespace":false"#, false),
        ("", r#""runtimeClassName":"""#, false),
        ("", r#""nodeSelector":{"a":""}"#, false),
        ("", r#""volumes":[{}]"#, false),
    ] {
        assert_eq!(both_ways(&spec("", ""), &spec(container, of_spec)), equal, "{container} {of_spec}");
    }
}

/// Contract: DEP-03
#[test]
fn quantities_are_compared_by_amount_and_times_by_instant() {
    let limit = |quantity: &str| spec(&format!(r#""resources":{{"limits":{{"cpu":"{quantity}"}}}}"#), "");
    for (a, b, equal) in [
        ("1", "1000m", true),
        ("0.5", "500m", true),
        ("1Gi", "1024Mi", true),
        ("1Gi", "1073741824", true),
        ("1e3", "1k", true),
        ("0", "0Ki", true),
        ("100000000000000000000", "100E", true),
        ("-1", "-1000m", true),
        ("1", "-1", false),
        ("1G", "1Gi", false),
        ("1", "1001m", false),
        ("much", "much", true),
        ("much", "1", false),
    ] {
        assert_eq!(both_ways(&limit(a), &limit(b)), equal, "{a} {b}");
    }
    assert!(!both_ways(&limit("0"), &spec("", "")), "an entry of a map is there though its value is zero");
    let created = |time: &str| format!(r#"{{"metadata":{{"creationTimestamp":"{time}"}}}}"#);
    for (a, b, equal) in [
        ("2026-01-01T00:00:00Z", "2026-01-01T01:30:00+01:30", true),
        ("2024-02-29T23:00:00-02:00", "2024-03-01T01:00:00Z", true),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", false),
        ("2026-01-01T00:00:00Z", "2026-01-01", false),
    ] {
        assert_eq!(both_ways(&created(a), &created(b)), equal, "{a} {b}");
    }
}

/// Contract: DEP-03
#[test]
fn a_port_of_digits_is_not_a_number() {
    let port = |port: &str| spec(&format!(r#""livenessProbe":{{"tcpSocket":{{"port":{port}}}}}"#), "");
    assert!(both_ways(&port("80"), &port("80")));
    assert!(!both_ways(&port("80"), &port("\"80\"")));
    assert!(both_ways(&port("0"), &port("null")));
    assert!(!both_ways(&port("\"\""), &port("0")));
}

/// Contract: DEP-03
#[test]
fn what_the_table_does_not_know_counts_too() {
    let new = |json: &str| spec("", &format!(r#""brandNew":{json}"#));
    for (a, b, equal) in [
        (r#"{"a":1,"b":[2]}"#, r#"{ "b" : [2], "a" : 1, "c" : null }"#, true),
        (r#"{"a":1}"#, r#"{"a":2}"#, false),
        (r#"{"a":1}"#, r#"{"a":"1"}"#, false),
        ("[1,2]", "[2,1]", false),
        ("[]", "{}", false),
        (r#""x\"y""#, r#""x\"y""#, true),
    ] {
        assert_eq!(both_ways(&new(a), &new(b)), equal, "{a} {b}");
    }
    assert!(both_ways(&new("null"), &spec("", "")));
    assert!(!both_ways(&new("{}"), &spec("", "")));
    assert!(!both_ways(&new("1"), &spec(r#""brandNew":1"#, "")));
    assert!(!both_ways(&spec(r#""name2":"x""#, ""), &spec(r#""name3":"x""#, "")));
    // A key cannot be made to look like another's end.
    assert!(!both_ways(r#"{"a":1,"b":2}"#, r#"{"a\":1,\"b":2}"#));
}

/// Contract: DEP-03
#[test]
fn what_is_not_json_equals_its_own_text_only() {
    assert!(both_ways("{oops", "{oops"));
    assert!(!both_ways("{oops", "{oops "));
    assert!(!both_ways("{oops", "{}"));
    assert!(both_ways("", ""));
}

/// Every leaf of a template: its path, for [`Value::pointer_mut`].
fn leaves(value: &Value, path: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                leaves(value, &format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                leaves(item, &format!("{path}/{at}"), out);
            }
        }
        _ => out.push(path.to_owned()),
    }
}

/// Contract: DEP-03
#[test]
fn every_leaf_of_every_field_counts() {
    let mut changed = 0;
    for recorded in templates() {
        let original: Value = serde_json::from_str(&recorded.template).expect("a template");
        let template = Template::new(&recorded.template);
        let mut paths = Vec::new();
        leaves(&original, "", &mut paths);
        for path in paths {
            let mut other = original.clone();
            let leaf = other.pointer_mut(&path).expect("a leaf just found");
            *leaf = match &*leaf {
                Value::Bool(b) => json!(!*b),
                Value::Number(n) => json!(n.as_i64().expect("whole numbers only").wrapping_add(1)),
                Value::String(s) => json!(format!("{s}1")),
                // Only a pointer to something empty is stored as an empty object, or a struct in a list.
                _ => continue,
            };
            let other = other.to_string();
            assert!(!template.equals_ignoring_hash(&Template::new(&other)), "{path} does not count in {other}");
            changed += 1;
        }
    }
    assert!(changed > 10_000, "{changed} leaves are too few to say anything");
}

/// Contract: DEP-03
#[test]
fn templates_equal_themselves_with_another_hash_in_another_order() {
    let all = templates();
    for (at, recorded) in all.iter().enumerate() {
        let labelled = raw_with_hash_label(&recorded.template, "abc");
        assert!(both_ways(&recorded.template, &labelled), "{labelled}");
        // Reversed keys leave nothing to the comparison of texts.
        let value: Value = serde_json::from_str(&labelled).expect("a template");
        let mut reversed = String::new();
        reverse(&value, &mut reversed);
        assert!(both_ways(&recorded.template, &reversed), "{reversed}");
        let next = &all[(at + 1) % all.len()];
        let same = hash(&recorded.template, None).text == hash(&next.template, None).text;
        assert_eq!(both_ways(&recorded.template, &next.template), same, "{} {}", recorded.template, next.template);
    }
}

/// JSON with the keys of every object backwards.
fn reverse(value: &Value, out: &mut String) {
    match value {
        Value::Object(entries) => {
            out.push('{');
            for (at, (key, value)) in entries.iter().rev().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                reverse(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                reverse(item, out);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

proptest! {
    /// Contract: DEP-03
    #[test]
    fn equality_is_reflexive_for_any_text(text in ".{0,60}") {
        prop_assert!(equal_ignoring_hash(&text, &text));
    }

    /// Contract: DEP-03
    #[test]
    fn a_quantity_equals_its_other_spellings(digits in 1u64..1_000_000_000, zeros in 0u32..4, binary in 0u32..3) {
        let whole = u128::from(digits) * 1024u128.pow(binary);
        let suffix = ["", "Ki", "Mi"][binary as usize];
        let spellings = [
            format!("{digits}{suffix}"),
            format!("{whole}000m"),
            format!("{whole}.{}", "0".repeat(zeros as usize)),
            format!("{whole}{}e-{zeros}", "0".repeat(zeros as usize)),
            format!("0{whole}"),
        ];
        let limit = |quantity: &str| spec(&format!(r#""resources":{{"limits":{{"x":"{quantity}"}}}}"#), "");
        for a in &spellings {
            for b in &spellings {
                prop_assert!(both_ways(&limit(a), &limit(b)), "{} {}", a, b);
            }
            prop_assert!(!both_ways(&limit(a), &limit(&format!("{}", whole + 1))), "{}", a);
        }
    }
}
