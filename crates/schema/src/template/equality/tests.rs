use serde_json::Map;

use super::*;

/// Every place below a value, for [`Value::pointer_mut`].
fn places(value: &Value, path: &str, out: &mut Vec<String>) {
    let mut below = |key: &str, value: &Value| {
        let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
        places(value, &path, out);
        out.push(path);
    };
    match value {
        Value::Object(entries) => entries.iter().for_each(|(key, value)| below(key, value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(at, item)| below(&at.to_string(), item)),
        _ => {}
    }
}

/// Contract: DEP-03
#[test]
fn the_short_way_says_what_the_canonical_texts_say() {
    let file: Value = serde_json::from_str(include_str!("../../../tests/vectors/template-hashes.json")).expect("JSON");
    let replacements = [
        Value::Null,
        Value::Object(Map::new()),
        Value::Array(Vec::new()),
        Value::String(String::new()),
        Value::from(0),
        Value::from(false),
        Value::from("1Ki"),
        serde_json::json!({"brandNew": 1}),
    ];
    let (mut same, mut different) = (0, 0);
    for vector in file["vectors"].as_array().expect("vectors").iter().step_by(7) {
        let template = &vector["template"];
        let text = template.to_string();
        let whole = canonical(template, shape());
        let mut found = Vec::new();
        places(template, "", &mut found);
        for (at, place) in found.iter().enumerate() {
            let mut other = template.clone();
            *other.pointer_mut(place).expect("a place just found") = replacements[at % replacements.len()].clone();
            let expected = canonical(&other, shape()) == whole;
            let other = other.to_string();
            assert_eq!(equal(&text, &other, shape()), expected, "{place} of {text} in {other}");
            assert_eq!(equal(&other, &text, shape()), expected, "{place} of {other} in {text}");
            if expected { same += 1 } else { different += 1 }
        }
    }
    assert!(same > 20 && different > 1000, "{same} the same and {different} different");
}

/// Contract: DEP-03
#[test]
fn a_field_given_twice_is_left_to_the_parser() {
    let (twice, once) = (r#"{"spec":{"hostname":"a","hostname":"b"}}"#, r#"{"spec":{"hostname":"b"}}"#);
    assert!(equal(twice, once, shape()));
    assert!(!equal(twice, r#"{"spec":{"hostname":"a"}}"#, shape()));
}
