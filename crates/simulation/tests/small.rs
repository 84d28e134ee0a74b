//! Small worlds in full, and faults put into the manager on purpose, each found in one.

use muster_simulation::laws::Law;
use muster_simulation::small::{Edit, Enumerated, Flaw, Rollout, World, enumerate};

const SURGING: Rollout = Rollout::Rolling { surge: 1, unavailable: 0 };
const SPARING: Rollout = Rollout::Rolling { surge: 0, unavailable: 1 };

/// Three events that the caches have not been told of, and nothing that happens besides.
fn calm(rollout: Rollout, replicas: u8) -> World {
    World { rollout, replicas, stale: 3, edit: None, crash: false, flaw: None }
}

fn all_of(world: World) -> Enumerated {
    enumerate(&world, usize::MAX, &mut |_| true)
}

/// No law is broken in any state. The numbers change where the decisions or the model do.
///
/// Contract: SI-05
#[test]
fn no_law_is_broken_in_any_state() {
    let crash = |world| World { crash: true, ..world };
    let edit = |world, edit| World { edit: Some(edit), ..world };
    let worlds = [
        (calm(SURGING, 2), (9_601, 15_275)),
        (calm(Rollout::Recreate, 2), (13_109, 31_194)),
        (crash(calm(SURGING, 1)), (1_760, 3_193)),
        (crash(calm(SPARING, 1)), (19_203, 43_011)),
        (crash(calm(Rollout::Recreate, 1)), (9_410, 22_387)),
        (edit(calm(SURGING, 1), Edit::Rollback), (15_703, 26_028)),
        (crash(edit(calm(SURGING, 1), Edit::Rollback)), (78_726, 191_483)),
    ];
    let found = worlds.map(|(world, _)| {
        let found = all_of(world);
        assert_eq!((&found.broken, found.is_all), (&None, true), "{world}");
        (found.states, found.transitions)
    });
    assert_eq!(found, worlds.map(|(_, numbers)| numbers));
}

/// Faults put into the manager on purpose are found, each by a story of a few steps that ends with what breaks the law.
///
/// Contract: SI-05
#[test]
fn a_wrong_manager_is_found_by_a_short_story() {
    let wrong = |flaw, rollout| all_of(World { flaw: Some(flaw), ..calm(rollout, 2) });
    for (flaw, rollout, law, steps, last) in [
        (Flaw::NoBooks, SURGING, Law::Surge, 8, "second ReplicaSet: create a pod"),
        (Flaw::TrustedStatus, SURGING, Law::Availability, 11, "first ReplicaSet: delete a pod"),
        (Flaw::TrustedStatus, SPARING, Law::Surge, 13, "second ReplicaSet: create a pod"),
    ] {
        let found = wrong(flaw, rollout);
        let (broken, story) = found.broken.expect("a law is broken");
        assert_eq!(broken.law, law, "{flaw:?}\n{story}");
        let lines: Vec<&str> = story.lines().collect();
        assert_eq!(lines.len(), steps + 2, "{flaw:?}\n{story}");
        assert!(lines[steps].contains(last) && lines[steps + 1].contains("BROKEN"), "{flaw:?}\n{story}");
    }
}

/// Written versions guard what expectations do, where every answer comes: without expectations the states are the same.
///
/// Contract: SI-05
#[test]
fn written_versions_guard_without_expectations() {
    let (with, without) = (calm(SURGING, 2), World { flaw: Some(Flaw::NoExpectations), ..calm(SURGING, 2) });
    let [with, without] = [with, without].map(all_of);
    assert_eq!((with.states, &with.broken), (without.states, &without.broken));
}
