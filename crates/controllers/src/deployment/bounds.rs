//! Bounds: how far a rollout may stray from the wanted number of pods (DEP-07).

use muster_objects::int_or_percent::IntOrPercentError;
use muster_objects::{Deployment, IntOrPercent, Strategy};

/// `maxSurge` and `maxUnavailable` in pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// How many pods there may be above the wanted number. Wider than an int32, since 200% of one is.
    pub surge: i64,
    /// How many of the wanted number may be unavailable; at most that number.
    pub unavailable: i32,
}

impl Bounds {
    /// The bounds of a Deployment: none but the wanted number itself where it recreates, or where a bound cannot
    /// be read (which the server's validation does not let happen).
    #[must_use]
    pub fn of(deployment: &Deployment) -> Self {
        let Strategy::RollingUpdate { max_surge, max_unavailable } = &deployment.strategy else {
            return Self::default();
        };
        let replicas = deployment.replicas;
        let Ok((surge, unavailable)) = resolve_fenceposts(max_surge, max_unavailable, replicas) else {
            return Self::default();
        };
        let most = i64::from(replicas);
        Self { surge, unavailable: i32::try_from(unavailable.min(most)).unwrap_or(replicas) }
    }

    /// The most pods that a Deployment of `replicas` may have.
    #[must_use]
    pub fn most(self, replicas: i32) -> i64 {
        i64::from(replicas) + self.surge
    }

    /// The fewest pods of a Deployment of `replicas` that are to be available.
    #[must_use]
    pub fn least_available(self, replicas: i32) -> i64 {
        i64::from(replicas) - i64::from(self.unavailable)
    }
}

/// Both bounds as numbers: the surge rounded up, the unavailable rounded down. Where both come to zero the
/// rollout could not move at all, and one pod may be unavailable: a quota might forbid a surge.
///
/// # Errors
///
/// Where one is neither a number nor a percentage.
pub fn resolve_fenceposts(
    max_surge: &IntOrPercent,
    max_unavailable: &IntOrPercent,
    replicas: i32,
) -> Result<(i64, i64), IntOrPercentError> {
    let surge = max_surge.scaled(replicas, true)?;
    let unavailable = max_unavailable.scaled(replicas, false)?;
    Ok(if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) })
}
