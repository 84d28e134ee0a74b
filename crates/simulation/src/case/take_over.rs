//! Whether others take over in time from a manager that is gone (SH-03).

use std::ops::Range;
use std::time::Duration;

use crate::history::Write;
use crate::laws::{self, Broken, Law, Place};
use crate::world::EPOCH_NANOS;

/// When managers could take nothing. All times are virtual milliseconds since the Unix epoch.
#[derive(Debug, Default)]
pub(super) struct Absences {
    /// Those that could not write any more, since when, and from when on they could again, which is never for one that was
    /// killed.
    pub(super) gone: Vec<(&'static str, Range<i64>)>,
    /// When one could take nothing, until it could again or another one was there in its place.
    pub(super) away: Vec<(&'static str, Range<i64>)>,
    /// How many were to be there, and since when, in that order.
    pub(super) wanted: Vec<(i64, usize)>,
}

impl Absences {
    /// What managers that are gone held, and others did not take in time.
    pub(super) fn not_taken_over(&self, patience: Duration, writes: &[Write]) -> Vec<Broken> {
        let patience = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
        let late = self.gone.iter().filter_map(|(name, Range { start: millis, end: back })| {
            let (name, millis) = (*name, *millis);
            // Who was to take it may be away too: then it is that one's turn once it is back, or another's.
            let mut ends = millis + patience;
            let times = self.without_others(name);
            loop {
                let meanwhile = times.iter().filter(|times| times.end > millis && times.start <= ends);
                let later = meanwhile.map(|times| times.end.saturating_add(patience)).max().unwrap_or(ends);
                if later <= ends {
                    break;
                }
                ends = later;
            }
            let how = match laws::writers::taken_from(writes, name, millis, *back) {
                Some(taken) if taken.last <= ends => return None,
                Some(taken) => format!("its {} Leases were taken after {} ms", taken.leases, taken.last - millis),
                None => "nobody took all of its Leases".to_owned(),
            };
            let at = millis - EPOCH_NANOS / 1_000_000;
            let how = format!("{name} was gone at {at} ms, and {how}");
            // It shows when the last moment has passed.
            Some(Broken { law: Law::TakeOver, place: Place::Moment(ends), how })
        });
        late.collect()
    }

    /// When one that was to take over from `name` was away; or nobody was to be there; or nobody else was, while it was away itself.
    fn without_others(&self, name: &str) -> Vec<Range<i64>> {
        let others = self.away.iter().filter(|(other, _)| *other != name);
        let mut times: Vec<_> = others.map(|(_, times)| times.clone()).collect();
        let ends = self.wanted.iter().skip(1).map(|(since, _)| *since).chain([i64::MAX]);
        for (&(since, count), end) in self.wanted.iter().zip(ends) {
            let own = self.away.iter().filter(|(other, _)| *other == name);
            let alone = own.map(|(_, away)| away.start.max(since)..away.end.min(end)).filter(|times| !times.is_empty());
            match count {
                0 => times.push(since..end),
                1 => times.extend(alone),
                _ => {}
            }
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use muster_tree::{from_value, json};

    use super::*;
    use crate::laws::writers::LEASE;

    fn lease(name: &str, seconds: i64, holder: &str) -> Write {
        let lease = json!({"metadata": {"name": name}, "spec": {"holderIdentity": holder}});
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{name}");
        let (method, lease) = (Method::PUT, Some(from_value(&lease).unwrap()));
        Write { millis: seconds * 1_000, who: "", method, path, sent: 0, status: 200, answered: 0, lease, made: None }
    }

    fn away(name: &'static str, from: i64, until: i64) -> (&'static str, Range<i64>) {
        (name, from * 1_000..until * 1_000)
    }

    /// One is gone at 10 s, and its Lease is taken at each of these times or never. It has to be within 20 s of whatever kept others
    /// from it.
    ///
    /// Contract: SI-02, SH-03
    #[test]
    fn a_lease_is_taken_in_time_once_somebody_is_there() {
        type Case<'a> = (&'a [(&'static str, Range<i64>)], &'a [(i64, usize)], i64);
        let cases: [Case<'_>; 12] = [
            (&[], &[], 30),
            (&[away("a", 10, 90)], &[], 30),
            (&[away("b", 5, 10)], &[], 30),
            (&[away("b", 29, 35)], &[], 55),
            (&[away("b", 31, 35)], &[], 30),
            (&[away("b", 15, 20), away("c", 39, 41)], &[], 61),
            // Nobody is to be there from 15 s on; then some are.
            (&[], &[(0, 2), (15, 0)], i64::MAX),
            (&[], &[(0, 2), (15, 0), (35, 2)], 55),
            // It is the only one: from before it is gone, from after that, and until others are to be there.
            (&[away("a", 10, 41)], &[(0, 2), (5, 1)], 61),
            (&[away("a", 10, 35)], &[(0, 2), (15, 1)], 55),
            (&[away("a", 10, 90)], &[(0, 1), (11, 3)], 31),
            (&[away("a", 10, 15)], &[(0, 2), (20, 1)], 30),
        ];
        for (away, wanted, latest) in cases {
            let wanted = wanted.iter().map(|(since, count)| (since * 1_000, *count)).collect();
            let back = 40;
            let absences = Absences { gone: vec![("a", 10_000..back * 1_000)], away: away.to_vec(), wanted };
            for taken in [15, 30, 31, 55, 56, 61, 62] {
                let writes = [lease(LEASE, 1, "a"), lease(LEASE, taken, "b")];
                let broken = absences.not_taken_over(Duration::from_secs(20), &writes);
                assert_eq!(broken.is_empty(), taken <= latest, "taken at {taken} with {absences:?}: {broken:?}");
                // Where nobody else did, it may do so itself once it is back.
                let writes = [lease(LEASE, 1, "a"), lease(LEASE, taken, "a")];
                let broken = absences.not_taken_over(Duration::from_secs(20), &writes);
                assert_eq!(
                    broken.is_empty(),
                    (back..=latest).contains(&taken),
                    "by itself at {taken} with {absences:?}"
                );
            }
            let never = absences.not_taken_over(Duration::from_secs(20), &[lease(LEASE, 1, "a")]);
            assert_eq!(never.len(), 1, "never, with {absences:?}");
        }
    }
}
