//! Sets: which ReplicaSet is new, which are old.

use std::sync::Arc;

use muster_controllers::deployment::sets::{Sets, by_age, by_size_newer, by_size_older, find_new, terminating, wanted};
use muster_objects::ReplicaSet;
use serde_json::{Value, json};

use crate::fixtures::{ago, deployment, set, set_with};

fn names(sets: &[Arc<ReplicaSet>]) -> Vec<&str> {
    sets.iter().map(|set| &*set.meta.name).collect()
}

/// The oldest of those with the Deployment's template is the new one, whatever order they come in.
///
/// Contract: DEP-03
#[test]
fn the_new_one_is_the_oldest_with_the_template() {
    let deployment = deployment(3, |_| ());
    let all = [set(4, "nginx:1", 1), set(1, "nginx:0", 1), set(2, "nginx:1", 0), set(3, "nginx:3", 0)];
    assert_eq!(find_new(&deployment, &all).expect("two have it").meta.name, "web-2".into());
    let sets = Sets::of(&deployment, &all);
    assert_eq!(names(&sets.old), ["web-1", "web-3", "web-4"]);
    assert_eq!(sets.active_old().map(|set| &*set.meta.name).collect::<Vec<_>>(), ["web-1", "web-4"]);
    assert_eq!(wanted(sets.all()), 2);
    assert_eq!(find_new(&deployment, &all[1..2]), None);
}

/// Created in the same second, the name decides.
///
/// Contract: DEP-03
#[test]
fn ties_of_age_are_broken_by_name() {
    let deployment = deployment(3, |_| ());
    let at = |number| set_with(number, "nginx:1", 0, |json| json["metadata"]["creationTimestamp"] = json!(ago(60)));
    assert_eq!(find_new(&deployment, &[at(7), at(5), at(6)]).expect("all have it").meta.name, "web-5".into());
}

/// Absent, null and empty are equal, and so are quantities of one value.
///
/// Contract: DEP-03
#[test]
fn templates_are_compared_by_their_meaning() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change, bool); 6] = [
        ("empty annotations", |template| template["metadata"]["annotations"] = json!({}), true),
        ("null volumes", |template| template["spec"]["volumes"] = json!(null), true),
        ("empty tolerations", |template| template["spec"]["tolerations"] = json!([]), true),
        ("an annotation", |template| template["metadata"]["annotations"] = json!({"a": "b"}), false),
        ("another image", |template| template["spec"]["containers"][0]["image"] = json!("nginx:2"), false),
        ("a label", |template| template["metadata"]["labels"]["tier"] = json!("front"), false),
    ];
    for (what, change, equal) in cases {
        let set = set_with(1, "nginx:1", 0, |json| change(&mut json["spec"]["template"]));
        assert_eq!(find_new(&deployment(3, |_| ()), &[set]).is_some(), equal, "{what}");
    }
    let limit = |cpu: &str| json!({"limits": {"cpu": cpu}});
    let deployment = deployment(3, |json| json["spec"]["template"]["spec"]["containers"][0]["resources"] = limit("1"));
    let same = set_with(1, "nginx:1", 0, |json| {
        json["spec"]["template"]["spec"]["containers"][0]["resources"] = limit("1000m");
    });
    assert!(find_new(&deployment, &[same]).is_some());
}

/// Contract: DEP-09
#[test]
fn orders() {
    let mut all = [set(1, "a", 2), set(2, "b", 5), set(3, "c", 5), set(4, "d", 0)];
    all.sort_by(|a, b| by_age(b, a));
    assert_eq!(names(&all), ["web-4", "web-3", "web-2", "web-1"]);
    all.sort_by(|a, b| by_size_newer(a, b));
    assert_eq!(names(&all), ["web-3", "web-2", "web-1", "web-4"]);
    all.sort_by(|a, b| by_size_older(a, b));
    assert_eq!(names(&all), ["web-2", "web-3", "web-1", "web-4"]);
}

/// One that its controller has looked at and that does not count makes the sum unknown.
///
/// Contract: DEP-15
#[test]
fn terminating_pods_are_summed_where_all_count_them() {
    let with = |number, terminating: Value, observed: i64| {
        set_with(number, "a", 1, |json| {
            json["status"]["terminatingReplicas"] = terminating;
            json["status"]["observedGeneration"] = json!(observed);
        })
    };
    assert_eq!(terminating(&[with(1, json!(2), 1), with(2, json!(3), 1)]), Some(5));
    assert_eq!(terminating(&[with(1, json!(2), 1), with(2, json!(null), 0)]), Some(2));
    assert_eq!(terminating(&[with(1, json!(2), 1), with(2, json!(null), 1)]), None);
    assert_eq!(terminating(&[]), Some(0));
}
