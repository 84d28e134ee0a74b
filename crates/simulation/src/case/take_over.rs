//! Whether others take over in time from a manager that is gone (SH-03).

use std::ops::Range;
use std::time::Duration;

use crate::history::Write;
use crate::laws::{self, Broken, Law};
use crate::world::EPOCH_NANOS;

/// One that cannot write any more, and since when: in virtual milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gone {
    pub(super) name: &'static str,
    pub(super) millis: i64,
}

/// When one could take nothing, until it could again or another one was there in its place: in virtual milliseconds since the Unix
/// epoch.
#[derive(Clone, Debug)]
pub(super) struct Away {
    /// Whose absence it is; empty where no other was to be there.
    pub(super) name: &'static str,
    pub(super) times: Range<i64>,
}

/// What managers that are gone held, and others did not take in time.
pub(super) fn not_taken_over(patience: Duration, gone: &[Gone], away: &[Away], writes: &[Write]) -> Vec<Broken> {
    let patience = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
    let late = gone.iter().filter_map(|Gone { name, millis }| {
        // Who was to take it may be away too: then it is that one's turn once it is back, or another's.
        let mut ends = millis + patience;
        loop {
            let others = away.iter().filter(|other| other.name != *name && other.times.end > *millis);
            let meanwhile = others.filter(|other| other.times.start <= ends);
            let later = meanwhile.map(|other| other.times.end.saturating_add(patience)).max().unwrap_or(ends);
            if later <= ends {
                break;
            }
            ends = later;
        }
        let how = match laws::writers::taken_from(writes, name, *millis) {
            Some(taken) if taken.last <= ends => return None,
            Some(taken) => format!("others took its {} Leases after {} ms", taken.leases, taken.last - millis),
            None => "nobody took all of its Leases".to_owned(),
        };
        let at = millis - EPOCH_NANOS / 1_000_000;
        Some(Broken::at_the_end(Law::TakeOver, &format!("{name} was gone at {at} ms, and {how}")))
    });
    late.collect()
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::*;
    use crate::laws::writers::LEASE;

    fn lease(name: &str, seconds: i64, holder: &str) -> Write {
        let lease = json!({"metadata": {"name": name}, "spec": {"holderIdentity": holder}});
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{name}");
        let (method, lease) = (Method::PUT, Some(serde_json::from_value(lease).unwrap()));
        Write { millis: seconds * 1_000, who: "", method, path, sent: 0, status: 200, answered: 0, lease }
    }

    fn away(name: &'static str, from: i64, until: i64) -> Away {
        Away { name, times: from * 1_000..until.saturating_mul(1_000) }
    }

    /// One is gone at 10 s, and its Lease is taken at each of these times or never. It has to be within 20 s of whatever kept others
    /// from it.
    ///
    /// Contract: SI-02, SH-03
    #[test]
    fn a_lease_is_taken_in_time_once_somebody_is_there() {
        let gone = [Gone { name: "a", millis: 10_000 }];
        let cases: [(&[Away], i64); 7] = [
            (&[], 30),
            (&[away("a", 10, 90)], 30),
            (&[away("b", 5, 10)], 30),
            (&[away("b", 29, 35)], 55),
            (&[away("b", 31, 35)], 30),
            (&[away("b", 15, 20), away("c", 39, 41)], 61),
            (&[away("", 15, i64::MAX)], i64::MAX),
        ];
        for (away, latest) in cases {
            for taken in [15, 30, 31, 55, 56, 61, 62] {
                let writes = [lease(LEASE, 1, "a"), lease(LEASE, taken, "b")];
                let broken = not_taken_over(Duration::from_secs(20), &gone, away, &writes);
                assert_eq!(broken.is_empty(), taken <= latest, "taken at {taken} with {away:?}: {broken:?}");
            }
            let never = not_taken_over(Duration::from_secs(20), &gone, away, &[lease(LEASE, 1, "a")]);
            assert_eq!(never.len(), 1, "never, with {away:?}");
        }
    }
}
