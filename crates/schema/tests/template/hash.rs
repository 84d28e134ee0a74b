use muster_schema::template::{dump_text, hash};
use proptest::prelude::*;

use crate::recorded::{Recorded, deployments, templates};

fn check(recorded: &[Recorded]) {
    for Recorded { template, collision_count, hash: expected } in recorded {
        let found = hash(template, *collision_count);
        assert!(found.exact, "not exact: {template}");
        assert_eq!(found.text, *expected, "collision count {collision_count:?} of {template}");
    }
}

/// Contract: DEP-04
#[test]
fn real_deployments_have_the_hashes_that_the_real_controller_chose() {
    let recorded = deployments();
    assert_eq!(recorded.len(), 60);
    check(&recorded);
}

/// Contract: DEP-04
#[test]
fn templates_of_every_field_have_the_reference_hash() {
    let recorded = templates();
    assert!(recorded.len() > 400);
    assert!(recorded.iter().any(|r| r.collision_count == Some(i32::MIN)));
    check(&recorded);
}

/// Contract: DEP-04
#[test]
fn the_dump_shows_pointers_maps_lists_and_embedded_structs_as_go_does() {
    let template = r#"{
        "metadata": {"labels": {"b": "2", "a": "x y"}},
        "spec": {
            "containers": [],
            "tolerations": [{"key": "k", "tolerationSeconds": 0}, {}],
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1500m"}}],
            "hostUsers": false
        }
    }"#;
    let dump = dump_text(template).expect("it is a pod template");
    for part in [
        "(v1.PodTemplateSpec){ObjectMeta:(v1.ObjectMeta){Name:(string) GenerateName:(string) ",
        " CreationTimestamp:(v1.Time){Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}} ",
        " Labels:(map[string]string)map[a:x y b:2] Annotations:(map[string]string)<nil> ",
        " Containers:([]v1.Container)<nil> ",
        " Tolerations:([]v1.Toleration)[{Key:(string)k Operator:(v1.TolerationOperator) Value:(string) \
         Effect:(v1.TaintEffect) TolerationSeconds:(*int64)0} {Key:(string) Operator:(v1.TolerationOperator) \
         Value:(string) Effect:(v1.TaintEffect) TolerationSeconds:(*int64)<nil>}] ",
        "[{Name:(string)v VolumeSource:(v1.VolumeSource){HostPath:(*v1.HostPathVolumeSource)<nil> \
         EmptyDir:(*v1.EmptyDirVolumeSource){Medium:(v1.StorageMedium) SizeLimit:(*resource.Quantity)\
         {i:(resource.int64Amount){value:(int64)1500 scale:(resource.Scale)-3} \
         d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)1500m Format:(resource.Format)DecimalSI}} ",
        " HostUsers:(*bool)false ",
    ] {
        assert!(dump.contains(part), "{part}\nis not in\n{dump}");
    }
}

/// Contract: DEP-04
#[test]
fn neither_key_order_nor_emptiness_nor_white_space_changes_a_hash() {
    let plain =
        hash(r#"{"metadata":{"labels":{"a":"1","b":"2"}},"spec":{"containers":[{"name":"c","resources":{}}]}}"#, None);
    assert!(plain.exact);
    for same in [
        r#"{"spec":{"containers":[{"resources":{},"name":"c"}]},"metadata":{"labels":{"b":"2","a":"1"}}}"#,
        r#"{"metadata":{"creationTimestamp":null,"annotations":{},"labels":{"a":"1","b":"2"}},"spec":{"containers":[{"name":"c"}]}}"#,
        r#" { "metadata" : { "labels" : { "a" : "\u0031" , "b" : "2" } } , "spec" : { "volumes":null, "containers" : [ { "name":"c", "ports":[] } ] } } "#,
    ] {
        assert_eq!(hash(same, None), plain, "{same}");
    }
}

/// Contract: DEP-04
#[test]
fn what_the_table_does_not_know_still_counts_but_is_said_to_be_inexact() {
    let known = hash(r#"{"spec":{"containers":[{"name":"c"}]}}"#, None);
    let mut texts = vec![known.text.clone()];
    for unknown in [
        r#"{"spec":{"containers":[{"name":"c"}],"brandNew":{"b":1,"a":[2]}}}"#,
        r#"{"spec":{"containers":[{"name":"c"}],"brandNew":{"b":1,"a":[3]}}}"#,
        r#"{"spec":{"containers":[{"name":"c","brandNew":true}]}}"#,
        r#"{"spec":{"containers":[{"name":7}]}}"#,
        r#"{"spec":{"containers":{"name":"c"}}}"#,
        r#"{"spec":{"priority":4294967296}}"#,
        r#"{"spec":{"priority":1.5}}"#,
        r#"{"spec":{"overhead":{"cpu":"much"}}}"#,
        r#"{"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z"}}"#,
        "[]",
        "not JSON",
        "",
    ] {
        let found = hash(unknown, None);
        assert!(!found.exact, "{unknown}");
        assert!(!texts.contains(&found.text), "{unknown} has another's hash");
        assert_ne!(hash(unknown, Some(0)).text, found.text, "{unknown}: the collision count does not count");
        texts.push(found.text);
    }
    let reordered = r#"{"spec":{"brandNew":{"a":[2],"b":1,"c":null},"volumes":[],"containers":[{"name":"c"}]}}"#;
    assert_eq!(hash(reordered, None).text, texts[1], "equal templates have equal hashes");
    let null = r#"{"spec":{"containers":[{"name":"c"}],"brandNew":null}}"#;
    assert_eq!(hash(null, None), known, "a null of an unknown field is none");
}

/// Contract: DEP-04
#[test]
fn numbers_of_any_length_are_printed_as_words_of_64_bits_or_not_at_all() {
    let overhead = |quantity: &str| dump_text(&format!(r#"{{"spec":{{"overhead":{{"cpu":"{quantity}"}}}}}}"#));
    let dump = overhead("12345678901234567890").expect("it is a quantity");
    let expected = "{unscaled:(big.Int){neg:(bool)false abs:(big.nat)[5097733592002180096 669260594]} scale:(inf.Scale)9}} s:(string) ";
    assert!(dump.contains(expected), "{dump}");
    assert_eq!(overhead("1234567890123456789e2000000000"), None);
}

proptest! {
    /// Contract: DEP-04
    #[test]
    fn any_text_has_a_hash_of_the_alphabet(text in ".{0,60}", count in any::<Option<i32>>()) {
        let found = hash(&text, count);
        prop_assert!(!found.text.is_empty() && found.text.len() <= 10);
        prop_assert!(found.text.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)));
    }
}
