//! How old the chosen pods are: the numbers behind `replicaset_controller_sorting_deletion_age_ratio`.

use muster_objects::{Pod, Timestamp};

/// Of each ready victim its age over that of the youngest ready pod (DEL-06).
///
/// A real quotient (B-16): 1 for the youngest itself, and close to it where the choice is a good one. A
/// pod without a creation time is left out; so are all where the youngest has no age yet, since nothing
/// can be measured against that.
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
