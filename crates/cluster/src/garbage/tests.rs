use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::{merge, uid, uid_text};
use muster_objects::{Interner, Object};

/// A graph and the objects it is told of, all ConfigMaps `m<n>` of one namespace.
#[derive(Default)]
struct World {
    graph: Graph,
}

fn map_json(n: u32, owners: &[(u32, bool)], change: &Value) -> Value {
    let owners: Vec<Value> = owners
        .iter()
        .map(|(owner, block)| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": format!("m{owner}"), "uid": uid_text(*owner), "blockOwnerDeletion": block})
        })
        .collect();
    let mut map = json!({"metadata": {
        "name": format!("m{n}"), "namespace": "ns", "uid": uid_text(n), "resourceVersion": "1", "ownerReferences": owners,
    }});
    merge(&mut map, change);
    map
}

impl World {
    fn tell(&mut self, n: u32, owners: &[(u32, bool)], change: &Value) {
        let json = map_json(n, owners, change).to_string();
        let object = PartialObject::decode(json.as_bytes(), &mut Interner::new()).expect("it is an object");
        let PartialObject { meta, owners, finalizers } = &object;
        let (api_version, kind, finalizers) = (&"v1".into(), &"ConfigMap".into(), *finalizers);
        self.graph.changed(Observed { api_version, kind, meta, owners, finalizers });
    }

    /// What came up since, as object numbers.
    fn came_up(&mut self) -> (Vec<String>, Vec<String>) {
        let names = |queue: &mut std::collections::VecDeque<Uid>| {
            let mut names: Vec<String> = queue.drain(..).map(|uid| uid.to_string()[34..].to_owned()).collect();
            names.sort();
            names.dedup();
            names
        };
        (names(&mut self.graph.to_delete), names(&mut self.graph.to_orphan))
    }

    fn classify(&mut self, n: u32) -> Case {
        match self.graph.judge(&uid(n)) {
            Judgement::Classify(case) => case,
            other => panic!("m{n}: {other:?}"),
        }
    }
}

fn deleting(finalizer: &str) -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [finalizer]}})
}

/// Contract: API-19
#[test]
fn the_dependents_of_what_goes_come_up_and_their_owner_is_known_to_be_absent() {
    let mut world = World::default();
    world.tell(1, &[], &json!({}));
    world.tell(2, &[(1, false)], &json!({}));
    world.tell(3, &[(1, true)], &json!({}));
    assert_eq!(world.came_up().0, Vec::<String>::new(), "an owner that was seen raises no doubt");
    assert_eq!(world.classify(2).owners[0].1, Owner::Solid);
    world.graph.deleted(&uid(1));
    assert_eq!(world.came_up().0, ["02", "03"]);
    assert_eq!(world.classify(2).owners[0].1, Owner::Absent, "without asking the server");
    assert_eq!(world.classify(3).version, muster_objects::ResourceVersion(1));
    world.graph.deleted(&uid(2));
    world.graph.deleted(&uid(3));
    assert!(world.graph.is_empty());
}

/// Contract: API-19
#[test]
fn an_owner_that_only_references_name_is_looked_up() {
    let mut world = World::default();
    world.tell(2, &[(1, false)], &json!({}));
    assert_eq!(world.came_up().0, ["01"]);
    let Judgement::LookUp(identity) = world.graph.judge(&uid(1)) else { panic!("it is virtual") };
    assert_eq!((&*identity.name, &*identity.namespace), ("m1", "ns"));
    // Either the server does not have it,
    world.graph.found_absent(&identity);
    assert_eq!(world.came_up().0, ["02"]);
    assert_eq!(world.classify(2).owners[0].1, Owner::Absent);
    // or the watch shows it.
    let mut world = World::default();
    world.tell(2, &[(1, false)], &json!({}));
    world.tell(1, &[], &json!({}));
    world.came_up();
    assert!(!world.graph.is_virtual(&uid(1)));
    assert_eq!(world.classify(2).owners[0].1, Owner::Solid);
}

/// Contract: API-19
#[test]
fn references_that_disagree_on_an_owner_are_doubted_one_by_one() {
    let mut world = World::default();
    // Both name uid 1, but only one by its right name.
    world.tell(2, &[(1, false)], &json!({}));
    let wrong = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": uid_text(1)}]}});
    world.tell(3, &[], &wrong);
    assert_eq!(world.came_up().0, ["01", "03"]);
    world.tell(1, &[], &json!({}));
    assert!(world.came_up().0.is_empty(), "the one that does not match is doubted already");
    assert_eq!(world.classify(3).owners[0].1, Owner::Unknown, "the server has the word");
    // Before the owner is seen, absence under one name is not absence under the other.
    let mut world = World::default();
    world.tell(2, &[(1, false)], &json!({}));
    world.tell(3, &[], &wrong);
    world.came_up();
    let Judgement::LookUp(identity) = world.graph.judge(&uid(1)) else { panic!("it is virtual") };
    world.graph.found_absent(&identity);
    assert_eq!(world.came_up().0, ["01", "02"]);
    let Judgement::LookUp(other) = world.graph.judge(&uid(1)) else { panic!("it is still virtual") };
    assert_eq!((&*identity.name, &*other.name), ("m1", "other"));
    world.graph.found_absent(&other);
    assert_eq!(world.came_up().0, ["03"], "the last of them");
}

/// Contract: API-19
#[test]
fn foreground_deletion_waits_for_what_blocks_it() {
    let mut world = World::default();
    world.tell(1, &[], &json!({}));
    world.tell(2, &[(1, true)], &json!({}));
    world.tell(3, &[(1, false)], &json!({}));
    world.tell(1, &[], &deleting("foregroundDeletion"));
    assert_eq!(world.came_up().0, ["01", "02", "03"]);
    assert_eq!(world.graph.judge(&uid(1)), Judgement::Leave);
    assert_eq!(world.came_up().0, ["02"], "only what blocks is pressed");
    assert_eq!(world.classify(2).owners[0].1, Owner::Waiting);
    // A dependent that stops blocking is enough.
    world.tell(2, &[(1, false)], &json!({}));
    assert_eq!(world.came_up().0, ["01"]);
    assert!(matches!(world.graph.judge(&uid(1)), Judgement::Finish(_)));
    // So is one that goes.
    world.tell(2, &[(1, true)], &json!({}));
    assert_eq!(world.graph.judge(&uid(1)), Judgement::Leave);
    assert!(world.came_up().0.is_empty(), "what was pressed is not pressed again");
    world.tell(4, &[(1, true)], &json!({}));
    assert_eq!(world.came_up().0, ["04"], "who comes late brings itself up");
    world.graph.deleted(&uid(4));
    world.came_up();
    world.graph.deleted(&uid(2));
    assert_eq!(world.came_up().0, ["01"]);
    assert!(matches!(world.graph.judge(&uid(1)), Judgement::Finish(_)));
}

/// Contract: API-19
#[test]
fn what_is_already_going_is_left_alone() {
    let mut world = World::default();
    world.tell(1, &[(9, false)], &deleting("example.com/hold"));
    assert_eq!(world.graph.judge(&uid(1)), Judgement::Leave);
    assert_eq!(world.graph.judge(&uid(77)), Judgement::Leave);
}

/// Contract: API-19
#[test]
fn orphaning_begins_and_names_every_dependent() {
    let mut world = World::default();
    world.tell(1, &[], &json!({}));
    world.tell(2, &[(1, true)], &json!({}));
    world.tell(3, &[(1, false)], &json!({}));
    world.tell(1, &[], &deleting("orphan"));
    assert_eq!(world.came_up(), (vec![], vec!["01".to_owned()]));
    let (owner, dependents) = world.graph.orphans(&uid(1)).expect("it is there");
    assert_eq!(&*owner.name, "m1");
    assert_eq!(dependents.iter().map(|d| &*d.name).collect::<Vec<_>>(), ["m2", "m3"]);
    world.tell(1, &[], &{
        let mut again = deleting("orphan");
        merge(&mut again, &json!({"metadata": {"resourceVersion": "2"}}));
        again
    });
    // In between its deletion may have been asked for in another way, so that the finalizer was gone when it was to be taken.
    assert_eq!(world.came_up(), (vec![], vec!["01".to_owned()]));
    // Seen for the first time in the middle of it, it begins as well.
    let mut late = World::default();
    late.tell(1, &[], &deleting("orphan"));
    assert_eq!(late.came_up(), (vec![], vec!["01".to_owned()]));
}

/// Contract: API-19
#[test]
fn a_changed_reference_moves_the_dependent() {
    let mut world = World::default();
    for n in 1..=2 {
        world.tell(n, &[], &json!({}));
    }
    world.tell(3, &[(1, false)], &json!({}));
    world.tell(3, &[(2, false)], &json!({}));
    world.came_up();
    world.graph.deleted(&uid(1));
    assert!(world.came_up().0.is_empty(), "it is nothing to its former dependent");
    world.graph.deleted(&uid(2));
    assert_eq!(world.came_up().0, ["03"]);
}

proptest! {
    /// However references come and go, the graph is what the objects say: whoever refers to something that is
    /// deleted comes up, nobody else does, and an empty world leaves an empty graph.
    ///
    /// Contract: API-19
    #[test]
    fn the_graph_is_a_fold_of_what_it_is_told(steps in prop::collection::vec((0..6_u32, prop::option::of((0..6_u32, any::<bool>()))), 1..60)) {
        let mut world = World::default();
        let mut objects: std::collections::BTreeMap<u32, Vec<(u32, bool)>> = std::collections::BTreeMap::new();
        let mut gone = std::collections::BTreeSet::new();
        for (n, owner) in steps {
            world.came_up();
            // A uid does not come back.
            if gone.contains(&n) {
                continue;
            }
            match owner {
                Some(owner) if owner.0 != n => {
                    objects.insert(n, vec![owner]);
                    world.tell(n, &[owner], &json!({}));
                }
                Some(_) => {
                    objects.insert(n, vec![]);
                    world.tell(n, &[], &json!({}));
                }
                None => {
                    if objects.remove(&n).is_some() {
                        world.graph.deleted(&uid(n));
                        gone.insert(n);
                        let want: Vec<String> = objects.iter().filter(|(_, owners)| owners.iter().any(|(o, _)| *o == n)).map(|(d, _)| format!("{d:02}")).collect();
                        prop_assert_eq!(world.came_up().0, want);
                    }
                }
            }
        }
        let left: Vec<u32> = objects.keys().copied().collect();
        for n in left {
            world.graph.deleted(&uid(n));
        }
        // What only references named goes once it was looked up.
        for n in 0..6 {
            if let Judgement::LookUp(identity) = world.graph.judge(&uid(n)) {
                world.graph.found_absent(&identity);
            }
        }
        prop_assert!(world.graph.is_empty());
    }
}
