//! Bounds: how far a rollout may deviate from the desired number of pods (DEP-07).

use muster_objects::int_or_percent::IntOrPercentError;
use muster_objects::{Deployment, IntOrPercent, Strategy};

/// `maxSurge` and `maxUnavailable` in pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// How many pods there may be above the desired number. Wider than an int32, since 200% of one is.
    pub surge: i64,
    /// How many of the desired number may be unavailable; at most that number.
    pub unavailable: i32,
}

impl Bounds {
    /// The bounds of a Deployment. Both are 0 under Recreate, and if a bound cannot be parsed (which the server's
    /// validation prevents).
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

    /// The fewest available pods that a Deployment of `replicas` must keep.
    #[must_use]
    pub fn least_available(self, replicas: i32) -> i64 {
        i64::from(replicas) - i64::from(self.unavailable)
    }
}

/// Both bounds as numbers: the surge rounded up, the unavailable rounded down. If both are zero the rollout could not
/// proceed, so one pod may be unavailable: a quota might forbid a surge.
///
/// # Errors
///
/// If one is neither a number nor a percentage.
pub fn resolve_fenceposts(
    max_surge: &IntOrPercent,
    max_unavailable: &IntOrPercent,
    replicas: i32,
) -> Result<(i64, i64), IntOrPercentError> {
    let surge = max_surge.scaled(replicas, true)?;
    let unavailable = max_unavailable.scaled(replicas, false)?;
    Ok(if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) })
}
