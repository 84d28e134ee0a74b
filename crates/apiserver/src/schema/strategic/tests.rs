//! Strategic merges: a table of cases, and laws.

use muster_tree::{Value, json};
use proptest::prelude::*;

use super::strategic_merge;

fn pod(original: &Value, patch: &Value) -> Result<Value, String> {
    strategic_merge("", "v1", "Pod", original, patch)
}

/// Contract: API-12
#[test]
fn patches_merge_by_schema() {
    let names = |list: &[&str]| Value::Array(list.iter().map(|n| json!({"name": n})).collect());
    for (what, original, patch, expected) in [
        (
            "an element that is new goes first, as the patch's elements do",
            json!({"spec": {"containers": [{"name": "a", "image": "x"}]}}),
            json!({"spec": {"containers": [{"name": "b", "image": "y"}]}}),
            json!({"spec": {"containers": [{"name": "b", "image": "y"}, {"name": "a", "image": "x"}]}}),
        ),
        (
            "an element that is known is merged in place",
            json!({"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}}),
            json!({"spec": {"containers": [{"name": "b", "image": "z"}]}}),
            json!({"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "z"}]}}),
        ),
        (
            "$patch: delete in a list",
            json!({"spec": {"containers": names(&["a", "b"])}}),
            json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}),
            json!({"spec": {"containers": names(&["b"])}}),
        ),
        (
            "$patch: replace in a list",
            json!({"spec": {"containers": names(&["a", "b"])}}),
            json!({"spec": {"containers": [{"name": "c"}, {"$patch": "replace"}]}}),
            json!({"spec": {"containers": names(&["c"])}}),
        ),
        (
            "$patch: replace in a map",
            json!({"metadata": {"labels": {"a": "1", "b": "2"}}}),
            json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}}}),
            json!({"metadata": {"labels": {"c": "3"}}}),
        ),
        (
            "$patch: delete in a map",
            json!({"metadata": {"labels": {"a": "1"}}}),
            json!({"metadata": {"labels": {"$patch": "delete"}}}),
            json!({"metadata": {"labels": {}}}),
        ),
        (
            "$setElementOrder puts the patch's order before the live one",
            json!({"spec": {"containers": names(&["a", "b", "c"])}}),
            json!({"spec": {"$setElementOrder/containers": names(&["c", "a"]), "containers": names(&["a"])}}),
            json!({"spec": {"containers": names(&["b", "c", "a"])}}),
        ),
        (
            "$setElementOrder alone only sorts",
            json!({"spec": {"containers": names(&["a", "b"])}}),
            json!({"spec": {"$setElementOrder/containers": names(&["b", "a"])}}),
            json!({"spec": {"containers": names(&["b", "a"])}}),
        ),
        (
            "$retainKeys clears the rest of a union",
            json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
            json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}}),
            json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}),
        ),
        (
            "$deleteFromPrimitiveList",
            json!({"metadata": {"finalizers": ["a", "b", "c"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"]}}),
            json!({"metadata": {"finalizers": ["a", "c"]}}),
        ),
        (
            "scalars merge without repetition, in the patch's order",
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"finalizers": ["c", "b"]}}),
            json!({"metadata": {"finalizers": ["c", "a", "b"]}}),
        ),
        (
            "a list without a merge strategy is replaced",
            json!({"spec": {"containers": [{"name": "a", "args": ["x", "y"]}]}}),
            json!({"spec": {"containers": [{"name": "a", "args": ["z"]}]}}),
            json!({"spec": {"containers": [{"name": "a", "args": ["z"]}]}}),
        ),
        (
            "null removes, and is nothing where there is nothing",
            json!({"metadata": {"labels": {"a": "1"}}}),
            json!({"metadata": {"labels": {"a": null, "b": null}, "annotations": {"x": null, "y": "1"}}}),
            json!({"metadata": {"labels": {}, "annotations": {"y": "1"}}}),
        ),
        (
            "a port is known by its number",
            json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "x"}]}]}}),
            json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, "hostPort": 8}]}]}}),
            json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "x", "hostPort": 8}]}]}}),
        ),
    ] {
        assert_eq!(pod(&original, &patch), Ok(expected), "{what}");
    }
}

/// Contract: API-12
#[test]
fn bad_patches_are_told_apart() {
    let live =
        json!({"metadata": {"labels": {"a": "1"}, "finalizers": ["f"]}, "spec": {"containers": [{"name": "a"}]}});
    for (patch, expected) in [
        (
            json!({"spec": {"containers": [{"image": "x"}]}}),
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (json!({"metadata": {"labels": {"$patch": "fly"}}}), "unknown patch type: fly in map: map[$patch:fly]"),
        (
            json!({"spec": {"containers": [{"name": "a", "$patch": "merge"}]}}),
            "merging lists cannot yet be specified in the patch",
        ),
        (json!({"spec": {"$retainKeys": "x"}}), "invalid patch format of retainKeys"),
        (json!({"spec": {"$retainKeys": ["a"], "b": 1}}), "invalid patch format of retainKeys"),
        (json!({"spec": {"$setElementOrder": []}}), "invalid patch format of setElementOrder list"),
        (json!({"metadata": {"$deleteFromPrimitiveList": ["f"]}}), "invalid patch format of primitive list"),
        (json!({"spec": {"$setElementOrder/containers": "a"}}), "expected a []interface {}, but received a string"),
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]}}),
            "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
        ),
        (json!({"metadata": {"finalizers": [1]}}), "list element types are not identical: [[f] [1]]"),
        (json!({"metadata": {"finalizers": [["x"]]}}), "list element types are not identical: [[f] [[x]]]"),
    ] {
        assert_eq!(pod(&live, &patch), Err(expected.to_owned()), "{patch}");
    }
}

prop_compose! {
    /// A pod with containers of distinct names, each with an image.
    fn containers()(names in proptest::collection::btree_set("[a-e]", 0..5), images in proptest::collection::vec("[x-z]", 5)) -> Vec<Value> {
        names.into_iter().zip(images).map(|(name, image)| json!({"name": name, "image": image})).collect()
    }
}

proptest! {
    /// Contract: API-12
    #[test]
    fn a_merge_holds_both_sides(live in containers(), change in containers()) {
        let original = json!({"spec": {"containers": live}});
        let patch = json!({"spec": {"containers": change}});
        let merged = pod(&original, &patch).map_err(TestCaseError::fail)?;
        let list = merged["spec"]["containers"].as_array().cloned().unwrap_or_default();
        let name = |v: &Value| v["name"].clone();
        for item in &change {
            prop_assert!(list.contains(item), "{item} is not in {list:?}");
        }
        for item in &live {
            prop_assert!(list.iter().any(|v| name(v) == name(item)));
        }
        let mut names: Vec<String> = list.iter().map(|v| name(v).to_string()).collect();
        names.sort();
        names.dedup();
        prop_assert_eq!(names.len(), list.len(), "a name twice");
        // The patch's elements keep their order.
        let order: Vec<Value> = list.iter().map(name).filter(|n| change.iter().any(|c| name(c) == *n)).collect();
        prop_assert_eq!(order, change.iter().map(name).collect::<Vec<_>>());
        // Applying it again changes nothing.
        prop_assert_eq!(pod(&merged, &patch), Ok(merged));
    }

    /// Contract: API-12
    #[test]
    fn deleting_every_element_leaves_none(live in containers()) {
        let deletions: Vec<Value> = live.iter().map(|c| json!({"name": c["name"], "$patch": "delete"})).collect();
        let original = json!({"spec": {"containers": live}});
        let merged = pod(&original, &json!({"spec": {"containers": deletions}})).map_err(TestCaseError::fail)?;
        prop_assert_eq!(merged, json!({"spec": {"containers": []}}));
    }

    /// Contract: API-12
    #[test]
    fn an_empty_patch_is_nothing(live in containers()) {
        let original = json!({"spec": {"containers": live}});
        prop_assert_eq!(pod(&original, &json!({})), Ok(original));
    }
}
