//! How many pods are to be made or taken away.

use muster_controllers::replicaset::counting::{BURST_REPLICAS, Need};
use proptest::prelude::*;

/// The cases of upstream's `TestControllerBurstReplicas`, and the edges.
///
/// Contract: RS-09, RS-13
#[test]
fn table_of_needs() {
    let cases = [
        (0, 0, 500, (Need::Nothing, false)),
        (3, 3, 500, (Need::Nothing, false)),
        (2, 3, 500, (Need::Create(1), false)),
        (3, 2, 500, (Need::Delete(1), false)),
        (0, 501, BURST_REPLICAS, (Need::Create(500), true)),
        (501, 0, BURST_REPLICAS, (Need::Delete(500), true)),
        (0, 500, BURST_REPLICAS, (Need::Create(500), false)),
        (0, 12, 2, (Need::Create(2), true)),
        (0, i32::MAX, u32::MAX, (Need::Create(2_147_483_647), false)),
        (usize::MAX, 0, 500, (Need::Delete(500), true)),
        (0, 5, 0, (Need::Nothing, true)),
    ];
    for (active, replicas, burst, expected) in cases {
        assert_eq!(Need::of(active, replicas, burst), expected, "{active} of {replicas}, burst {burst}");
    }
}

proptest! {
    /// A round never overshoots, never passes the burst, and always brings the count nearer.
    ///
    /// Contract: RS-09, RS-13
    #[test]
    fn counts_conserve(active in 0_usize..5_000, replicas in 0_i32..5_000, burst in 1_u32..1_000) {
        let (need, cut) = Need::of(active, replicas, burst);
        let wanted = usize::try_from(replicas).expect("not negative");
        let (after, moved) = match need {
            Need::Create(n) => (active + n as usize, n),
            Need::Delete(n) => (active - n as usize, n),
            Need::Nothing => (active, 0),
        };
        prop_assert!(moved <= burst);
        prop_assert_eq!(cut, after != wanted);
        prop_assert_eq!(after.abs_diff(wanted) + moved as usize, active.abs_diff(wanted));
    }
}
