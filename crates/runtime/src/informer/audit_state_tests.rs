//! The digest against a cache that is stopped at the list's version.

use muster_objects::{Interner, Object, Pod};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn pod(name: u8, life: u64, version: u64) -> Pod {
    // A name that is used again is another object.
    let uid = format!("uid-{name}-{life}");
    let metadata = json!({"name": format!("pod-{name}"), "uid": uid, "resourceVersion": version.to_string()});
    Pod::decode(json!({"metadata": metadata}).to_string().as_bytes(), &mut Interner::default()).unwrap()
}

/// One change: the number of the object, and whether it is deleted.
type Step = (u8, bool);

/// What a watch delivers for these steps, the first at version 1.
fn told(steps: &[Step]) -> Vec<Delta<Pod>> {
    let mut lives = [0; 8];
    let deltas = steps.iter().zip(1..).map(|((name, goes), version)| {
        let life = &mut lives[usize::from(*name)];
        let pod = pod(*name, *life, version);
        *life += u64::from(*goes);
        if *goes { Delta::Gone(pod) } else { Delta::Put(pod) }
    });
    deltas.collect()
}

fn apply(cache: &mut Cache<Pod>, audit_state: &mut AuditState, delta: Delta<Pod>) {
    audit_state.note(cache, &delta);
    match delta {
        Delta::Put(pod) => drop(cache.apply(pod)),
        Delta::Gone(pod) => drop(cache.delete(pod)),
        Delta::Reached(version) => cache.saw(version),
    }
    audit_state.reached(cache.newest());
}

proptest! {
    /// For a cache that is behind or ahead of the list when its version is known.
    ///
    /// Contract: B-07
    #[test]
    fn the_books_show_the_cache_as_of_the_version_of_the_list(
        steps in prop::collection::vec((0_u8..8, any::<bool>()), 1..60),
        opened in 0_usize..60, listed in 0_usize..60, learnt in 0_usize..60,
    ) {
        let opened = opened % (steps.len() + 1);
        // A list is no older than its request.
        let listed = opened + listed % (steps.len() + 1 - opened);
        let learnt = opened + learnt % (steps.len() + 1 - opened);
        let as_of = ResourceVersion(listed as u64);

        let mut server = Cache::<Pod>::new();
        for delta in told(&steps).into_iter().take(listed) {
            apply(&mut server, &mut AuditState::Closed, delta);
        }
        let truth = Digest::of(&server);

        let (mut cache, mut audit_state) = (Cache::<Pod>::new(), AuditState::Closed);
        for (at, delta) in told(&steps).into_iter().enumerate() {
            if at == opened {
                prop_assert!(audit_state.open(&cache));
            }
            if at == learnt {
                audit_state.compare_as_of(Versions::one(as_of));
            }
            apply(&mut cache, &mut audit_state, delta);
        }
        if opened == steps.len() {
            prop_assert!(audit_state.open(&cache));
        }
        if learnt == steps.len() {
            audit_state.compare_as_of(Versions::one(as_of));
        }
        prop_assert_eq!(audit_state.verdict(truth), Some(Finding::Agrees));

        // One object more or less, or in another version, is another digest.
        let mut other = truth;
        other.add(&Uid::new("uid-other"), as_of);
        let differs = Finding::Differs { cached: truth.objects(), reached: true };
        prop_assert_eq!(audit_state.verdict(other), Some(differs));
    }
}

#[test]
fn a_difference_is_told_in_words_of_both_sides() {
    let (old, new) = (std::sync::Arc::new(pod(1, 0, 5)), std::sync::Arc::new(pod(1, 0, 7)));
    let changes = [
        Change::Added(new.clone()),
        Change::Updated { old: old.clone(), new },
        Change::Deleted { last: old.clone(), tombstone: true },
        Change::Added(old),
    ];
    assert_eq!(
        in_words(&changes, 3),
        ["pod-1: cached none, listed 7", "pod-1: cached 5, listed 7", "pod-1: cached 5, listed none"]
    );
}
