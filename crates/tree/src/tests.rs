use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value as Plain;

use super::*;

fn plain() -> impl Strategy<Value = Plain> {
    let leaf = prop_oneof![
        Just(Plain::Null),
        any::<bool>().prop_map(Plain::from),
        any::<i64>().prop_map(Plain::from),
        any::<u64>().prop_map(Plain::from),
        // Those that serde_json reads to the last digit.
        any::<i32>().prop_map(|number| Plain::from(f64::from(number) / 16.0)),
        prop::sample::select(vec![1e21, -1e22, 1e-7, 0.5, -0.0]).prop_map(Plain::from),
        ".{0,30}".prop_map(Plain::from),
        "[\"\\\\\n\u{1}a{}\\[\\],:]{0,12}".prop_map(Plain::from),
    ];
    leaf.prop_recursive(4, 64, 12, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..12).prop_map(Plain::from),
            prop::collection::vec(("[ab\"\\\\{]{0,3}", inner), 0..16).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

fn object() -> impl Strategy<Value = Plain> {
    prop::collection::vec(("[a-f]{1,2}", plain()), 1..12).prop_map(|members| members.into_iter().collect())
}

fn text(value: &Value) -> Bytes {
    let mut out = Vec::new();
    value.write(&mut out);
    out.into()
}

/// As it is read back from its own text.
fn read(value: &Value) -> Value {
    Value::Object(Map::stored(&text(value), ""))
}

/// Floats are whole where they are written so.
fn as_written(plain: &Plain) -> Plain {
    serde_json::from_slice(&text(&plain.clone().into())).expect("what is written is JSON")
}

/// One change of a tree.
#[derive(Debug, Clone)]
enum Change {
    Insert(Plain),
    Remove,
    Retain,
    Push(Plain),
}

/// Where, and what.
fn change() -> impl Strategy<Value = (Vec<u8>, Change)> {
    let change = prop_oneof![
        plain().prop_map(Change::Insert),
        Just(Change::Remove),
        Just(Change::Retain),
        plain().prop_map(Change::Push),
    ];
    (prop::collection::vec(any::<u8>(), 0..5), change)
}

/// The same change of two trees that are alike.
fn change_both(ours: &mut Value, theirs: &mut Plain, path: &[u8], change: &Change) {
    if let Some((step, path)) = path.split_first() {
        let step = usize::from(*step);
        match theirs {
            Plain::Object(members) if !members.is_empty() => {
                let key = members.keys().nth(step % members.len()).cloned().expect("a member");
                return change_both(ours.get_mut(&key).expect("the same member"), &mut members[&key], path, change);
            }
            Plain::Array(items) if !items.is_empty() => {
                let at = step % items.len();
                return change_both(ours.get_mut(at).expect("the same element"), &mut items[at], path, change);
            }
            _ => {}
        }
    }
    match (ours, theirs, change) {
        (Value::Object(ours), Plain::Object(theirs), Change::Insert(value)) => {
            ours.insert("c", value.clone().into());
            theirs.insert("c".to_owned(), value.clone());
        }
        (Value::Object(ours), Plain::Object(theirs), Change::Remove) => {
            if let Some(key) = theirs.keys().next().cloned() {
                assert_eq!(ours.remove(&key), theirs.remove(&key).map(Value::from));
            }
        }
        (Value::Object(ours), Plain::Object(theirs), Change::Retain) => {
            ours.retain(|key, _| key.len() % 2 == 0);
            theirs.retain(|key, _| key.len() % 2 == 0);
        }
        (Value::Array(ours), Plain::Array(theirs), Change::Push(value)) => {
            ours.push(value.clone().into());
            theirs.push(value.clone());
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn a_tree_is_what_serde_json_says(plain in object()) {
        let value = Value::from(plain.clone());
        prop_assert_eq!(Plain::from(value.clone()), plain.clone());
        prop_assert_eq!(value.to_string(), plain.to_string());
        prop_assert_eq!(serde_json::from_str::<Value>(&plain.to_string()).expect("JSON"), value);
    }

    #[test]
    fn what_was_written_is_read_the_same_and_copied_when_it_is_written_again(plain in object()) {
        let value = Value::from(plain.clone());
        let again = read(&value);
        let written = text(&value);
        prop_assert_eq!(text(&again), written.clone(), "before it is looked at");
        prop_assert_eq!(Plain::from(again.clone()), as_written(&plain));
        prop_assert_eq!(text(&again), written, "and after it");
        prop_assert_eq!(again.to_string(), as_written(&plain).to_string());
    }

    #[test]
    fn members_in_any_order_are_sorted(members in prop::collection::vec(("[a-d]{1,2}", plain()), 1..20)) {
        let mut json = Vec::new();
        for (key, value) in &members {
            json.push(if json.is_empty() { b'{' } else { b',' });
            write_text(&mut json, key);
            json.push(b':');
            Value::from(value.clone()).write(&mut json);
        }
        json.push(b'}');
        let expected: Plain = serde_json::from_slice(&json).expect("JSON");
        let inner = [b"{\"metadata\":".as_slice(), &json, b"}"].concat();
        prop_assert_eq!(Plain::from(Value::from(Map::stored(&json.into(), ""))), expected.clone());
        let read = Value::from(Map::stored(&inner.into(), "metadata"));
        prop_assert_eq!(Plain::from(read.clone()), serde_json::json!({"metadata": expected}));
        prop_assert_eq!(text(&read), text(&Value::from(serde_json::json!({"metadata": expected}))), "in the order of names");
    }

    #[test]
    fn a_change_of_a_copy_is_one_of_the_copy_only(plain in object(), changes in prop::collection::vec(change(), 1..8)) {
        let plain = as_written(&plain);
        for original in [Value::from(plain.clone()), read(&plain.clone().into())] {
            let (mut ours, mut theirs) = (original.clone(), plain.clone());
            for (path, change) in &changes {
                change_both(&mut ours, &mut theirs, path, change);
            }
            prop_assert_eq!(Plain::from(ours.clone()), theirs.clone());
            prop_assert_eq!(text(&ours), text(&theirs.clone().into()));
            prop_assert_eq!(Plain::from(original.clone()), plain.clone());
            prop_assert_eq!(original == ours, plain == theirs);
            prop_assert_eq!(original == read(&ours), plain == as_written(&theirs));
        }
    }
}

#[test]
fn what_is_not_changed_stays_shared() {
    let stored = Map::stored(&Bytes::from_static(br#"{"spec":{"a":[{"b":1}]},"metadata":{"name":"x"}}"#), "metadata");
    let mut copy = stored.clone();
    assert!(copy.is_shared_with(&stored));
    copy.get_mut("metadata").expect("metadata")["name"] = "y".into();
    assert!(!copy.is_shared_with(&stored));
    assert!(copy["spec"].is_shared_with(&stored["spec"]) && !copy["metadata"].is_shared_with(&stored["metadata"]));
    assert_eq!([&copy["metadata"]["name"], &stored["metadata"]["name"]], ["y", "x"]);
    // What is asked for to be changed is no longer shared, though it is equal.
    copy["spec"]["a"][0]["b"].take();
    copy["spec"]["a"][0]["b"] = 1.into();
    assert!(copy["spec"] == stored["spec"] && !copy["spec"].is_shared_with(&stored["spec"]));
}

#[test]
fn what_is_no_json_harms_nobody() {
    for text in [
        "{",
        "{\"",
        "{\"a",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":{",
        "{\"a\":[1",
        "{\"a\":\"\\",
        "{\"a\":-}",
        "{}}",
        "{1:2}",
        "}{",
    ] {
        let value = Value::Object(Map::stored(&Bytes::from(text), "a"));
        let _ = (value.to_string(), value["a"]["b"].as_str(), value["a"][0].clone());
    }
}

#[test]
fn a_value_is_small() {
    assert_eq!([size_of::<Value>(), size_of::<Text>(), size_of::<Map>()], [24, 24, 8]);
}

#[test]
fn parts_are_found_and_made() {
    let mut value = json!({"a": [{"b/c": {"~": 1}}], "d": null});
    assert_eq!(value.pointer("/a/0/b~1c/~0"), Some(&json!(1)));
    assert_eq!([value.pointer("a"), value.pointer("/a/00"), value.pointer("/a/+0"), value.pointer("/d/x")], [None; 4]);
    assert_eq!(value.pointer(""), Some(&value));
    value["d"]["e"] = true.into();
    value["a"][0]["f"] = "g".into();
    *value.pointer_mut("/a/0/f").expect("it was made") = 7.into();
    assert_eq!(value, json!({"a": [{"b/c": {"~": 1}, "f": 7}], "d": {"e": true}}));
    assert!(value["x"]["y"][3].is_null());
    let map = value.as_object_mut().expect("an object");
    assert_eq!(*map.entry("n").or_insert(1.into()), 1);
    assert_eq!(*map.entry("n").or_insert_with(|| panic!("it is there")), 1);
}

/// Changing an object of many members one by one is not looking through them all each time: in debug builds this would take
/// minutes.
#[test]
fn many_members_are_put_in_and_taken_out_in_any_order() {
    const MANY: usize = 100_000;
    let key = |number: usize| format!("{:06}", (number * 7_919) % MANY);
    let mut map = Map::new();
    for number in (0..MANY).rev() {
        assert_eq!(map.insert(key(number), number.into()), None);
    }
    assert_eq!((map.len(), map.keys().is_sorted()), (MANY, true));
    let copy = read(&Value::Object(map.clone()));
    assert_eq!(copy, Value::Object(map.clone()));
    for number in 0..MANY {
        assert_eq!(map.remove(&key(number)), Some(number.into()));
    }
    assert_eq!((map, copy.as_object().map(Map::len)), (Map::new(), Some(MANY)));
}

/// Reading level by level, each level would pass over all that is below it.
#[test]
fn what_is_deep_is_read_at_once() {
    const LEVELS: usize = 490;
    let mut value = Value::from(["x".repeat(1 << 20)]);
    for level in 0..LEVELS {
        value = if level % 2 == 0 { json!({}) } else { json!([null]) }.with(value);
    }
    let again = Value::Object(Map::stored(&text(&json!({}).with(value.clone())), ""));
    let mut at = &again["a"];
    for _ in 0..LEVELS {
        at = at.get("a").or(at.get(0_usize)).expect("another level");
    }
    assert_eq!(again["a"], value);
    assert_eq!(at[0].as_str().map(str::len), Some(1 << 20));
    assert_eq!(text(&again), text(&json!({}).with(value)));
}

impl Value {
    /// With a member or an element.
    fn with(mut self, inner: Self) -> Self {
        match &mut self {
            Self::Object(map) => drop(map.insert("a", inner)),
            Self::Array(list) => list[0] = inner,
            _ => {}
        }
        self
    }
}
