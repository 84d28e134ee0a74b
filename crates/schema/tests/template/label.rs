use muster_schema::template::{HASH_LABEL, raw_with_hash_label, raw_without_hash_label};
use proptest::prelude::*;
use serde_json::Value;

use crate::recorded::templates;

/// Contract: DEP-04
#[test]
fn the_label_is_set_and_every_other_byte_stays() {
    for (template, expected) in [
        (
            r#"{"metadata":{"labels":{"a":"1"}},"spec":{}}"#,
            r#"{"metadata":{"labels":{"a":"1","pod-template-hash":"h"}},"spec":{}}"#,
        ),
        (
            r#"{"metadata":{"labels":{"pod-template-hash":"old","z":"1"}},"new":1.50}"#,
            r#"{"metadata":{"labels":{"pod-template-hash":"h","z":"1"}},"new":1.50}"#,
        ),
        (
            r#"{"metadata":{"labels":{"pod\u002dtemplate-hash" : null}}}"#,
            r#"{"metadata":{"labels":{"pod\u002dtemplate-hash" : "h"}}}"#,
        ),
        (r#"{"metadata":{"labels":{}}}"#, r#"{"metadata":{"labels":{"pod-template-hash":"h"}}}"#),
        (
            "{ \"metadata\" : { \"labels\" : { \"a\" : \"}\" }\n} }",
            "{ \"metadata\" : { \"labels\" : { \"a\" : \"}\",\"pod-template-hash\":\"h\" }\n} }",
        ),
        (
            r#"{"metadata":{"labels":null,"name":"x"}}"#,
            r#"{"metadata":{"labels":{"pod-template-hash":"h"},"name":"x"}}"#,
        ),
        (
            r#"{"metadata":{"name":"x"},"spec":{}}"#,
            r#"{"metadata":{"name":"x","labels":{"pod-template-hash":"h"}},"spec":{}}"#,
        ),
        (r#"{"metadata":{}}"#, r#"{"metadata":{"labels":{"pod-template-hash":"h"}}}"#),
        (r#"{"metadata":null}"#, r#"{"metadata":{"labels":{"pod-template-hash":"h"}}}"#),
        (r#"{"spec":{}}"#, r#"{"spec":{},"metadata":{"labels":{"pod-template-hash":"h"}}}"#),
        ("{}", r#"{"metadata":{"labels":{"pod-template-hash":"h"}}}"#),
        // Labels of something else are not the template's.
        (
            r#"{"spec":{"metadata":{"labels":{}}},"metadata":{"labels":{"x":"y"}}}"#,
            r#"{"spec":{"metadata":{"labels":{}}},"metadata":{"labels":{"x":"y","pod-template-hash":"h"}}}"#,
        ),
    ] {
        assert_eq!(raw_with_hash_label(template, "h"), expected, "{template}");
    }
    assert_eq!(
        raw_with_hash_label(r#"{"metadata":{"labels":{}}}"#, "\"\n"),
        r#"{"metadata":{"labels":{"pod-template-hash":"\"\n"}}}"#
    );
}

/// Contract: DEP-04
#[test]
fn the_label_is_taken_out_and_every_other_byte_stays() {
    for (template, expected) in [
        (r#"{"metadata":{"labels":{"a":"1","pod-template-hash":"h"}}}"#, r#"{"metadata":{"labels":{"a":"1"}}}"#),
        (r#"{"metadata":{"labels":{"pod-template-hash":"h","z":"1"}}}"#, r#"{"metadata":{"labels":{"z":"1"}}}"#),
        (
            r#"{"metadata":{"labels":{"a":"1", "pod-template-hash" : "h" , "z":"1"}}}"#,
            r#"{"metadata":{"labels":{"a":"1", "z":"1"}}}"#,
        ),
        (r#"{"metadata":{"labels":{ "pod-template-hash":"h" }}}"#, r#"{"metadata":{"labels":{  }}}"#),
        (r#"{"metadata":{"labels":{"pod\u002dtemplate-hash":"h"}}}"#, r#"{"metadata":{"labels":{}}}"#),
        (
            r#"{"metadata":{"annotations":{"pod-template-hash":"h"}}}"#,
            r#"{"metadata":{"annotations":{"pod-template-hash":"h"}}}"#,
        ),
        (r#"{"metadata":{"labels":null}}"#, r#"{"metadata":{"labels":null}}"#),
        (r#"{"spec":{}}"#, r#"{"spec":{}}"#),
    ] {
        assert_eq!(raw_without_hash_label(template), expected, "{template}");
    }
}

/// Contract: DEP-04
#[test]
fn what_is_no_template_comes_back_as_it_is() {
    for text in [
        "",
        "null",
        "[]",
        "7",
        "\"x\"",
        "{",
        "{\"metadata\"",
        "{\"metadata\":",
        "{\"metadata\":{\"labels\":{\"a\":\"",
        "{]",
        r#"{"metadata":"x"}"#,
        r#"{"metadata":{"labels":[]}}"#,
        r#"{"metadata":{"labels":{"a" "b"}}}"#,
        "{\"a\\",
        "{,}",
    ] {
        assert_eq!(raw_with_hash_label(text, "h"), text);
        assert_eq!(raw_without_hash_label(text), text);
    }
}

/// Contract: DEP-04
#[test]
fn real_templates_get_the_label_and_nothing_else() {
    for recorded in templates() {
        let mut expected: Value = serde_json::from_str(&recorded.template).expect("a template");
        let labelled = raw_with_hash_label(&recorded.template, "abc");
        expected["metadata"]["labels"][HASH_LABEL] = Value::from("abc");
        assert_eq!(serde_json::from_str::<Value>(&labelled).expect("JSON still"), expected, "{}", recorded.template);
        let without = raw_without_hash_label(&labelled);
        if without != recorded.template {
            // What had no labels has empty ones now.
            let mut before: Value = serde_json::from_str(&recorded.template).expect("a template");
            before["metadata"]["labels"] = Value::Object(serde_json::Map::new());
            assert_eq!(serde_json::from_str::<Value>(&without).expect("JSON still"), before, "{}", recorded.template);
        }
    }
}

proptest! {
    /// Contract: DEP-04
    #[test]
    fn no_text_is_too_odd(text in r#"[{}\[\]",:\\ a☃]{0,40}"#, cut in 0usize..60) {
        let template = r#"{"metadata":{"labels":{"a☃":"\"1","pod-template-hash":"x"},"n":[1,{}]},"s":-1.5e3}"#;
        let cut = (0..=cut.min(template.len())).rev().find(|at| template.is_char_boundary(*at)).unwrap_or(0);
        for text in [text.clone(), template[..cut].to_owned() + &text] {
            let valid = serde_json::from_str::<Value>(&text).is_ok();
            for changed in [raw_with_hash_label(&text, "h"), raw_without_hash_label(&text)] {
                prop_assert!(!valid || serde_json::from_str::<Value>(&changed).is_ok(), "{} became {}", text, changed);
            }
        }
    }
}
