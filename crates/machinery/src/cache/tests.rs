//! Tests of the cache and its indexes.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_objects::{Interner, Labels, Meta, Object, Pod, ReplicaSet, ResourceVersion, Selector, Uid};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// The fields of a pod.
#[derive(Debug, Clone)]
struct Words {
    namespace: u8,
    name: u8,
    uid: u8,
    version: u64,
    /// The controller's number, if any.
    owner: Option<u8>,
    labels: Vec<(&'static str, &'static str)>,
}

fn uid(number: u8) -> Uid {
    Uid::from_bytes([number; 16])
}

fn pod(words: &Words, interner: &mut Interner) -> Pod {
    let owner = words.owner.map(|owner| {
        json!([
            { "apiVersion": "v1", "kind": "Node", "name": "bystander", "uid": uid(200) },
            { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("rs-{owner}"), "uid": uid(owner), "controller": true },
        ])
    });
    let labels: BTreeMap<_, _> = words.labels.iter().copied().collect();
    let json = json!({ "metadata": {
        "namespace": format!("ns-{}", words.namespace),
        "name": format!("pod-{}", words.name),
        "uid": uid(words.uid),
        "resourceVersion": words.version.to_string(),
        "labels": labels,
        "ownerReferences": owner,
    }});
    Pod::decode(json.to_string().as_bytes(), interner).expect("a pod")
}

fn words(name: u8, version: u64) -> Words {
    Words { namespace: 0, name, uid: name, version, owner: None, labels: vec![] }
}

fn names<'a>(pods: impl Iterator<Item = &'a Arc<Pod>>) -> Vec<String> {
    let mut names: Vec<_> = pods.map(|pod| pod.meta.key().to_string()).collect();
    names.sort();
    names
}

/// A change in one line.
fn shown(change: &Change<Pod>) -> String {
    let of = |pod: &Pod| format!("{}@{}", pod.meta.name, pod.meta.resource_version);
    match change {
        Change::Added(new) => format!("added {}", of(new)),
        Change::Updated { old, new } => format!("updated {} to {}", of(old), of(new)),
        Change::Deleted { last, tombstone: false } => format!("deleted {}", of(last)),
        Change::Deleted { last, tombstone: true } => format!("vanished {}", of(last)),
    }
}

/// A server that was put back to an earlier state gives its versions again, to other states of the same objects.
///
/// Contract: INF-03
#[test]
fn a_version_that_was_given_twice_is_another_state() {
    let mut interner = Interner::new();
    let mut cache = Cache::new();
    let (before, after) = (words(1, 10), Words { labels: vec![("app", "web")], ..words(1, 10) });
    cache.apply(pod(&before, &mut interner));
    assert!(cache.apply(pod(&before, &mut interner)).is_none());
    let changes = cache.replace(vec![pod(&after, &mut interner)], ResourceVersion(9));
    assert_eq!(changes.iter().map(shown).collect::<Vec<_>>(), ["updated pod-1@10 to pod-1@10"]);
    assert_eq!(cache.iter().next().unwrap().meta.labels.len(), 1);
}

/// Contract: INF-03
#[test]
fn every_event_reports_the_state_before() {
    let mut interner = Interner::new();
    let mut cache = Cache::new();
    let mut apply = |cache: &mut Cache<Pod>, name, version| cache.apply(pod(&words(name, version), &mut interner));
    assert_eq!(apply(&mut cache, 1, 10).as_ref().map(shown).as_deref(), Some("added pod-1@10"));
    assert_eq!(apply(&mut cache, 1, 12).as_ref().map(shown).as_deref(), Some("updated pod-1@10 to pod-1@12"));
    assert!(apply(&mut cache, 1, 12).is_none(), "the very same state is no news");
    assert_eq!(apply(&mut cache, 2, 13).as_ref().map(shown).as_deref(), Some("added pod-2@13"));
    let gone = pod(&words(1, 20), &mut interner);
    assert_eq!(
        cache.delete(gone).as_ref().map(shown).as_deref(),
        Some("deleted pod-1@20"),
        "the event's own last state"
    );
    assert!(cache.delete(pod(&words(1, 21), &mut interner)).is_none(), "it was already deleted");
    assert_eq!(cache.len(), 1);
    let key = words(2, 0);
    let key = pod(&key, &mut interner).meta.key();
    assert_eq!(cache.delete_key(&key).as_ref().map(shown).as_deref(), Some("vanished pod-2@13"));
    assert!(cache.is_empty() && cache.delete_key(&key).is_none());
}

/// Contract: INF-04
#[test]
fn a_relist_reports_missed_deletions_with_the_last_known_state() {
    let mut interner = Interner::new();
    let mut cache = Cache::new();
    for (name, version) in [(5, 10), (1, 11), (3, 12), (4, 13)] {
        cache.apply(pod(&words(name, version), &mut interner));
    }
    let list = [(7, 30), (1, 11), (3, 25)].map(|(name, version)| pod(&words(name, version), &mut interner));
    let changes: Vec<_> = cache.replace(list.into(), ResourceVersion(40)).iter().map(shown).collect();
    let expected = ["added pod-7@30", "updated pod-3@12 to pod-3@25", "vanished pod-4@13", "vanished pod-5@10"];
    assert_eq!(changes, expected, "in the order of the list, then of the keys; what is the same is no news");
    assert_eq!(names(cache.iter()), ["ns-0/pod-1", "ns-0/pod-3", "ns-0/pod-7"]);
}

/// The deletion between two objects of one name was missed: the change has both uids.
///
/// Contract: RS-01, INF-03
#[test]
fn an_object_recreated_under_its_name_is_an_update_between_two_uids() {
    let mut interner = Interner::new();
    let mut cache = Cache::new();
    cache.apply(pod(&words(1, 10), &mut interner));
    let again = pod(&Words { uid: 99, ..words(1, 10) }, &mut interner);
    let Some(Change::Updated { old, new }) = cache.apply(again) else { panic!("an update") };
    assert_eq!((&old.meta.uid, &new.meta.uid), (&uid(1), &uid(99)));
}

/// Contract: INF-09
#[test]
fn the_newest_version_is_that_of_lists_events_deletions_and_bookmarks() {
    let mut interner = Interner::new();
    let mut cache = Cache::new();
    assert_eq!(cache.newest(), ResourceVersion::UNKNOWN);
    let mut pod = |name, version| pod(&words(name, version), &mut interner);
    cache.replace(vec![pod(1, 5)], ResourceVersion(10));
    assert_eq!(cache.newest(), ResourceVersion(10), "the list's, not its items'");
    cache.apply(pod(2, 12));
    assert_eq!(cache.newest(), ResourceVersion(12));
    cache.delete(pod(2, 15));
    assert_eq!(cache.newest(), ResourceVersion(15));
    cache.saw(ResourceVersion(30));
    cache.saw(ResourceVersion(20));
    assert_eq!(cache.newest(), ResourceVersion(30));
    cache.replace(vec![], ResourceVersion(7));
    assert_eq!(cache.newest(), ResourceVersion(7), "a restored server begins again");
}

/// Contract: INF-07
#[test]
fn pods_are_found_by_namespace_kind_name_and_uid_of_their_controller() {
    let mut interner = Interner::new();
    let mut cache = Cache::new();
    for name in 0..6 {
        let owner = (name % 3 != 0).then_some(name % 3);
        cache.apply(pod(&Words { owner, ..words(name, 1) }, &mut interner));
    }
    cache.apply(pod(&Words { namespace: 1, owner: Some(1), ..words(9, 1) }, &mut interner));
    let owner = Meta { namespace: Arc::from("ns-0"), name: Arc::from("rs-1"), uid: uid(1), ..Meta::default() };
    assert_eq!(names(cache.owned_by("ReplicaSet", &owner)), ["ns-0/pod-1", "ns-0/pod-4"]);
    assert_eq!(names(cache.controlled_by(&uid(1))), ["ns-0/pod-1", "ns-0/pod-4", "ns-1/pod-9"]);
    assert_eq!(names(cache.owned_by("ReplicationController", &owner)), [""; 0]);
    assert_eq!(names(cache.owned_by("ReplicaSet", &Meta { name: Arc::from("rs-2"), ..owner.clone() })), [""; 0]);
    assert_eq!(names(cache.owned_by("ReplicaSet", &Meta { uid: uid(7), ..owner })), [""; 0]);
    assert_eq!(names(cache.orphans("ns-0")), ["ns-0/pod-0", "ns-0/pod-3"]);
    assert_eq!(names(cache.orphans("ns-1")), [""; 0]);
    assert_eq!(names(cache.in_namespace("ns-1")), ["ns-1/pod-9"]);
    // Adoption, release and relabelling move a pod.
    cache.apply(pod(&Words { owner: Some(1), ..words(0, 2) }, &mut interner));
    cache.apply(pod(&words(1, 2), &mut interner));
    assert_eq!(names(cache.controlled_by(&uid(1))), ["ns-0/pod-0", "ns-0/pod-4", "ns-1/pod-9"]);
    assert_eq!(names(cache.orphans("ns-0")), ["ns-0/pod-1", "ns-0/pod-3"]);
}

fn replica_set(
    name: &str,
    owner: Option<u8>,
    labels: &Labels,
    selector: &serde_json::Value,
    version: u64,
) -> ReplicaSet {
    let owner = owner.map(|owner| {
        json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": uid(owner), "controller": true }])
    });
    let json = json!({
        "metadata": { "namespace": "ns", "name": name, "uid": name, "resourceVersion": version.to_string(), "labels": labels, "ownerReferences": owner },
        "spec": { "selector": selector },
    });
    ReplicaSet::decode(json.to_string().as_bytes(), &mut Interner::new()).expect("a ReplicaSet")
}

fn set_names<'a>(sets: impl Iterator<Item = &'a Arc<ReplicaSet>>) -> Vec<String> {
    let mut names: Vec<_> = sets.map(|set| set.meta.name.to_string()).collect();
    names.sort();
    names
}

/// Upstream walks every ReplicaSet of the namespace and evaluates its selector.
///
/// Contract: RS-02, INF-07
#[test]
fn replica_sets_are_found_by_what_they_select_and_by_who_controls_them() {
    let mut cache = Cache::new();
    let none = Labels::EMPTY;
    let exact = json!({ "matchLabels": { "app": "web", "tier": "front" } });
    let expression = |operator: &str, values: &[&str]| json!({ "matchExpressions": [{ "key": "app", "operator": operator, "values": values }] });
    let sets = [
        ("exact", exact.clone()),
        ("wider", json!({ "matchLabels": { "app": "web" } })),
        ("either", expression("In", &["web", "db"])),
        ("one-in", expression("In", &["web"])),
        ("exists", expression("Exists", &[])),
        ("not", expression("NotIn", &["db"])),
        ("absent", expression("DoesNotExist", &[])),
        ("empty", json!({})),
        ("none", json!(null)),
        ("invalid", expression("Like", &["w"])),
    ];
    for (name, selector) in &sets {
        cache.apply(replica_set(name, (*name == "exact").then_some(1), &none, selector, 1));
    }
    let selecting = |cache: &Cache<ReplicaSet>, labels: &[(&str, &str)]| {
        let labels: Labels = labels.iter().copied().collect();
        set_names(cache.selecting("ns", &labels))
    };
    let web = [("app", "web"), ("tier", "front")];
    assert_eq!(selecting(&cache, &web), ["either", "exact", "exists", "not", "one-in", "wider"]);
    assert_eq!(selecting(&cache, &[("app", "db")]), ["either", "exists"]);
    assert_eq!(selecting(&cache, &[("tier", "front")]), ["absent", "not"]);
    assert_eq!(selecting(&cache, &[]), [""; 0], "a pod without labels is not selected");
    let labels: Labels = web.into_iter().collect();
    assert_eq!(set_names(cache.selecting("elsewhere", &labels)), [""; 0]);
    assert_eq!(set_names(cache.controlled_by(&uid(1))), ["exact"]);
    // A selector that changes, and ReplicaSets that are deleted.
    cache.apply(replica_set("exact", Some(2), &none, &expression("In", &["db"]), 2));
    assert_eq!(selecting(&cache, &[("app", "db")]), ["either", "exact", "exists"]);
    assert_eq!(
        (set_names(cache.controlled_by(&uid(1))), set_names(cache.controlled_by(&uid(2)))),
        (vec![], vec!["exact".into()])
    );
    // The selector alone.
    cache.apply(replica_set("exact", Some(2), &none, &exact, 3));
    assert_eq!(selecting(&cache, &[("app", "db")]), ["either", "exists"]);
    assert_eq!(selecting(&cache, &web), ["either", "exact", "exists", "not", "one-in", "wider"]);
    cache.replace(vec![], ResourceVersion(4));
    assert_eq!(selecting(&cache, &web), [""; 0]);
}

#[test]
fn orphaned_replica_sets_are_found_by_label() {
    let mut cache = Cache::new();
    let labels: Labels = [("app", "web")].into_iter().collect();
    let selector = json!({ "matchLabels": { "app": "web" } });
    cache.apply(replica_set("owned", Some(1), &labels, &selector, 1));
    cache.apply(replica_set("orphan", None, &labels, &selector, 1));
    let wanted = Selector::parse("app=web").unwrap();
    assert_eq!(set_names(cache.orphans_matching("ns", &wanted)), ["orphan"]);
    let others: Labels = [("app", "db")].into_iter().collect();
    cache.apply(replica_set("orphan", None, &others, &selector, 2));
    assert_eq!(set_names(cache.orphans_matching("ns", &wanted)), [""; 0]);
    cache.apply(replica_set("orphan", None, &labels, &selector, 3));
    assert_eq!(set_names(cache.orphans_matching("ns", &wanted)), ["orphan"]);
    cache.apply(replica_set("orphan", Some(1), &labels, &selector, 4));
    assert_eq!(set_names(cache.orphans_matching("ns", &wanted)), [""; 0]);
}

#[derive(Debug, Clone)]
enum Event {
    Apply(Words),
    Delete(Words),
    Replace(Vec<Words>),
}

fn any_words() -> impl Strategy<Value = Words> {
    let label = (prop::sample::select(vec!["app", "tier", "x"]), prop::sample::select(vec!["a", "b", "c"]));
    let labels = prop::collection::vec(label, 0..4);
    (0_u8..2, 0_u8..6, 0_u8..8, 1_u64..50, prop::option::of(1_u8..4), labels).prop_map(
        |(namespace, name, uid, version, owner, labels)| Words { namespace, name, uid, version, owner, labels },
    )
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        8 => any_words().prop_map(Event::Apply),
        4 => any_words().prop_map(Event::Delete),
        1 => prop::collection::vec(any_words(), 0..8).prop_map(Event::Replace),
    ];
    prop::collection::vec(event, 0..60)
}

fn selectors() -> impl Strategy<Value = Selector> {
    let texts =
        vec!["app=a", "app in (a,b)", "app=a,tier=b", "app", "!app", "tier notin (c),app=b", "", "x!=a", "x=a,app"];
    prop::sample::select(texts).prop_map(|text| Selector::parse(text).expect("a valid selector"))
}

proptest! {
    /// The cache equals a fold of its events, the changes that it reports are the differences between one state and the
    /// next, and every index gives the same answer as a walk over everything.
    ///
    /// Contract: INF-03, INF-04, INF-07, INF-09
    #[test]
    fn the_cache_is_a_fold_of_its_events(events in events(), selector in selectors()) {
        let mut interner = Interner::new();
        let mut cache = Cache::<Pod>::new();
        let mut model: BTreeMap<String, Pod> = BTreeMap::new();
        let mut told: BTreeMap<String, Pod> = BTreeMap::new();
        let mut newest = 0;
        let mut relisted = 1_000;
        for event in events {
            let changes: Vec<Change<Pod>> = match event {
                Event::Apply(words) => {
                    let pod = pod(&words, &mut interner);
                    newest = newest.max(words.version);
                    let known = model.get(&pod.meta.key().to_string());
                    // One version of one object has one content.
                    if known.is_some_and(|known| known.meta.uid == pod.meta.uid && known.meta.resource_version == pod.meta.resource_version) {
                        continue;
                    }
                    model.insert(pod.meta.key().to_string(), pod.clone());
                    cache.apply(pod).into_iter().collect()
                }
                Event::Delete(words) => {
                    let pod = pod(&words, &mut interner);
                    newest = newest.max(words.version);
                    model.remove(&pod.meta.key().to_string());
                    cache.delete(pod).into_iter().collect()
                }
                Event::Replace(list) => {
                    let mut pods = BTreeMap::new();
                    for words in &list {
                        relisted += 1;
                        let pod = pod(&Words { version: relisted, ..words.clone() }, &mut interner);
                        pods.insert(pod.meta.key().to_string(), pod);
                    }
                    model = pods.clone();
                    newest = 500;
                    cache.replace(pods.into_values().collect(), ResourceVersion(newest))
                }
            };
            for change in changes {
                let key = change.object().meta.key().to_string();
                match change {
                    Change::Added(new) => prop_assert!(told.insert(key, (*new).clone()).is_none()),
                    Change::Updated { old, new } => {
                        let known = told.insert(key, (*new).clone());
                        prop_assert_eq!(known.as_ref(), Some(&*old));
                    }
                    Change::Deleted { last, tombstone } => {
                        let known = told.remove(&key);
                        prop_assert!(known.is_some() && (!tombstone || known.as_ref() == Some(&*last)));
                    }
                }
            }
            prop_assert_eq!(&told, &model);
            prop_assert_eq!(cache.len(), model.len());
            prop_assert_eq!(cache.newest(), ResourceVersion(newest));
            for (key, pod) in &model {
                prop_assert_eq!(cache.get(&pod.meta.key()).map(|pod| &**pod), Some(pod), "{}", key);
            }
            let walk = |wanted: &dyn Fn(&Meta) -> bool| -> Vec<String> {
                model.iter().filter(|(_, pod)| wanted(&pod.meta)).map(|(key, _)| key.clone()).collect()
            };
            for owner in 0..5 {
                prop_assert_eq!(names(cache.controlled_by(&uid(owner))), walk(&|meta| meta.is_controlled_by(&uid(owner))));
            }
            for namespace in ["ns-0", "ns-1", "ns-2"] {
                let there = |meta: &Meta| *meta.namespace == *namespace;
                let matching = |meta: &Meta| there(meta) && selector.matches(&meta.labels);
                prop_assert_eq!(names(cache.in_namespace(namespace)), walk(&there));
                prop_assert_eq!(names(cache.orphans(namespace)), walk(&|meta| there(meta) && meta.controller.is_none()));
                prop_assert_eq!(names(cache.matching(namespace, &selector)), walk(&matching));
                prop_assert_eq!(
                    names(cache.orphans_matching(namespace, &selector)),
                    walk(&|meta| matching(meta) && meta.controller.is_none())
                );
            }
        }
        cache.replace(vec![], ResourceVersion(1));
        prop_assert!(cache.is_empty() && cache.indexes().is_empty(), "an empty cache indexes nothing");
    }

    /// Whatever a selector is made of, the index finds it for exactly the labels that it matches.
    #[test]
    fn the_selector_index_answers_what_a_walk_would(
        texts in prop::collection::vec(prop::sample::select(vec![
            "app=a", "app=b", "app=a,tier=a", "tier in (a)", "tier in (a,b)", "app", "!x", "app!=a", "app=a,app=b", "", "x=a,tier=b,app=c",
        ]), 0..12),
        removed in prop::collection::vec(any::<bool>(), 12),
        labels in any_words().prop_map(|words| words.labels.into_iter().collect::<Labels>()),
    ) {
        let namespace: Arc<str> = Arc::from("ns");
        let mut index = SelectorIndex::default();
        let selectors: Vec<Selector> = texts.iter().map(|text| Selector::parse(text).expect("valid")).collect();
        for (at, selector) in selectors.iter().enumerate() {
            index.insert(Slot::new(at), &namespace, selector);
        }
        for (at, selector) in selectors.iter().enumerate().filter(|(at, _)| removed[*at]) {
            index.remove(Slot::new(at), &namespace, selector);
        }
        let candidates = index.candidates("ns", &labels);
        let found: Vec<usize> = candidates.iter().map(|slot| slot.at()).filter(|at| selectors[*at].matches(&labels)).collect();
        let expected: Vec<usize> = selectors
            .iter()
            .enumerate()
            .filter(|(at, selector)| !removed[*at] && !selector.is_empty() && selector.matches(&labels) && !labels.is_empty())
            .map(|(at, _)| at)
            .collect();
        prop_assert_eq!(found, expected);
    }
}
