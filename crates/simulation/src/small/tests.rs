//! Taking one order of steps whose order makes no difference leaves nothing out.

use std::collections::{BTreeSet, HashSet};

use super::state::{Phase, State};
use super::step::Play;
use super::{Edit, Rollout, World};

/// ReplicaSets and pods, as no name of a state is part of them.
type Stored = (Vec<String>, Vec<(u8, Phase)>);

/// All that the server comes to store of ReplicaSets and pods, and how many states that takes.
fn stored(world: World, in_every_order: bool) -> (BTreeSet<Stored>, usize) {
    let (mut play, first) = Play::begin(world).expect("no law is broken at the beginning");
    play.in_every_order = in_every_order;
    let (mut all, mut stored) = (HashSet::from([first.clone()]), BTreeSet::new());
    let mut waiting: Vec<State> = vec![first];
    while let Some(state) = waiting.pop() {
        let sets = state.sets.now().map(|set| play.objects.json(set).to_string());
        let mut pods: Vec<_> = state.pods.now().iter().map(|pod| (pod.set, pod.phase)).collect();
        pods.sort_unstable();
        stored.insert((sets.to_vec(), pods));
        for next in play.next(&state) {
            if all.insert(next.state.clone()) {
                waiting.push(next.state);
            }
        }
    }
    (stored, all.len())
}

/// With one event that is not told at a time, and with three.
///
/// Contract: SI-05
#[test]
fn whatever_is_stored_in_any_order_is_stored_in_the_orders_that_are_taken() {
    let world = World {
        rollout: Rollout::Rolling { surge: 1, unavailable: 0 },
        replicas: 1,
        stale: 1,
        edit: None,
        crash: false,
        flaw: None,
    };
    let three = World { stale: 3, crash: true, ..world };
    for world in [
        three,
        World { rollout: Rollout::Rolling { surge: 0, unavailable: 1 }, crash: false, ..three },
        World { rollout: Rollout::Recreate, ..three },
        World { edit: Some(Edit::Rollback), ..world },
    ] {
        let ((some, fewer), (every, more)) = (stored(world, false), stored(world, true));
        assert!(fewer < more, "{world}: {fewer} states of {more}");
        let missing: Vec<_> = every.difference(&some).collect();
        assert!(missing.is_empty(), "{world}: {} of {} left out: {:#?}", missing.len(), every.len(), missing.first());
    }
}
