//! The ages of the pods chosen for deletion, for `replicaset_controller_sorting_deletion_age_ratio`.

use muster_objects::{Pod, Timestamp};

/// For each ready victim, its age over that of the youngest ready pod (DEL-06).
///
/// A floating-point quotient (B-16): 1 for the youngest itself, and close to 1 where the choice is good. Pods without a
/// creation time are left out; there are none at all if the youngest has no age yet.
pub fn deletion_age_ratios<'a>(
    victims: impl IntoIterator<Item = &'a Pod>,
    pods: impl IntoIterator<Item = &'a Pod>,
    now: Timestamp,
) -> Vec<f64> {
    let age = |pod: &Pod| match pod.meta.creation_timestamp {
        Some(created) if pod.is_ready() => Some(now.saturating_since(created).as_secs_f64()),
        _ => None,
    };
    let youngest = pods.into_iter().filter_map(age).fold(f64::INFINITY, f64::min);
    if youngest <= 0.0 {
        return Vec::new();
    }
    victims.into_iter().filter_map(age).map(|victim| victim / youngest).collect()
}
