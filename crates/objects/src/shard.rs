//! Ranges of the hash of a namespace: how Kubernetes shards lists and watches (KEP-5866), and how managers share a cluster.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The 64-bit FNV-1a hash by which Kubernetes shards.
#[must_use]
pub fn hash(text: &str) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    text.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// Hashes from a first to a last one, both within. Never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashRange {
    first: u64,
    last: u64,
}

/// What is no range of hashes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no range of hashes: expected two bounds of 16 hexadecimal digits, such as {example:?}", example = HashRange::ALL.to_string())]
pub struct InvalidRange(String);

impl HashRange {
    /// Every hash.
    pub const ALL: Self = Self { first: 0, last: u64::MAX };

    /// The hashes from `first` to `last`, both within; `None` where that is none.
    #[must_use]
    pub fn new(first: u64, last: u64) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// Adjacent ranges that together have every hash; each but the first begins at one of `starts`, which must ascend and
    /// not have 0. `None` where they do not.
    #[must_use]
    pub fn cut(starts: &[u64]) -> Option<Vec<Self>> {
        let firsts = std::iter::once(0).chain(starts.iter().copied());
        let lasts = starts.iter().map(|start| start.checked_sub(1)).chain([Some(u64::MAX)]);
        firsts.zip(lasts).map(|(first, last)| Self::new(first, last?)).collect()
    }

    /// The lowest hash of the range.
    #[must_use]
    pub fn first(self) -> u64 {
        self.first
    }

    /// The highest hash of the range.
    #[must_use]
    pub fn last(self) -> u64 {
        self.last
    }

    /// Whether a hash is within.
    #[must_use]
    pub fn has(self, hash: u64) -> bool {
        (self.first..=self.last).contains(&hash)
    }

    /// Whether the objects of a namespace belong to the range. Those without a namespace have an empty one.
    #[must_use]
    pub fn has_namespace(self, namespace: &str) -> bool {
        self.has(hash(namespace))
    }

    /// Whether all of `other` is within.
    #[must_use]
    pub fn has_range(self, other: Self) -> bool {
        self.has(other.first) && self.has(other.last)
    }

    /// At most so many ranges (one at least) that together have all of `ranges`, in their order. Those that touch each other
    /// are joined, and then those with the fewest hashes between them.
    #[must_use]
    pub fn union(ranges: impl IntoIterator<Item = Self>, at_most: usize) -> Vec<Self> {
        let mut sorted: Vec<_> = ranges.into_iter().collect();
        sorted.sort_unstable();
        let mut joined: Vec<Self> = Vec::new();
        for range in sorted {
            match joined.last_mut() {
                Some(last) if range.first.saturating_sub(1) <= last.last => last.last = last.last.max(range.last),
                _ => joined.push(range),
            }
        }
        while joined.len() > at_most.max(1) {
            let gap = |at: &usize| joined[at + 1].first - joined[*at].last;
            let Some(at) = (0..joined.len() - 1).min_by_key(gap) else { break };
            joined[at].last = joined.remove(at + 1).last;
        }
        joined
    }

    /// What selects the range of namespaces in a list or watch, as a `shardSelector`.
    #[must_use]
    pub fn selector(self) -> String {
        let Self { first, last } = self;
        let end = u128::from(last) + 1;
        format!("shardRange(object.metadata.namespace, '0x{first:016x}', '0x{end:016x}')")
    }
}

/// `0000000000000000-7fffffffffffffff`, first and last hash.
impl Display for HashRange {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:016x}", self.first, self.last)
    }
}

impl FromStr for HashRange {
    type Err = InvalidRange;

    fn from_str(text: &str) -> Result<Self, InvalidRange> {
        let bound = |digits: &str| {
            let plain = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
        };
        let bounds = text.split_once('-').and_then(|(first, last)| Some((bound(first)?, bound(last)?)));
        bounds.and_then(|(first, last)| Self::new(first, last)).ok_or_else(|| InvalidRange(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first two are of the reference's own tests of FNV-1a.
    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_cut_has_every_hash_once() {
        let cut = HashRange::cut(&[1, 0x8000_0000_0000_0000, u64::MAX]).unwrap();
        let bounds: Vec<_> = cut.iter().map(|range| (range.first(), range.last())).collect();
        let half = 0x8000_0000_0000_0000;
        assert_eq!(bounds, [(0, 0), (1, half - 1), (half, u64::MAX - 1), (u64::MAX, u64::MAX)]);
        assert_eq!(HashRange::cut(&[]), Some(vec![HashRange::ALL]));
        for wrong in [&[0][..], &[2, 2], &[3, 2]] {
            assert_eq!(HashRange::cut(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_selector_has_sixteen_digits_and_an_end_that_is_not_within() {
        let lower = HashRange::new(0, 0x7fff_ffff_ffff_ffff).unwrap();
        assert_eq!(
            lower.selector(),
            "shardRange(object.metadata.namespace, '0x0000000000000000', '0x8000000000000000')"
        );
        assert_eq!(
            HashRange::new(u64::MAX, u64::MAX).unwrap().selector(),
            "shardRange(object.metadata.namespace, '0xffffffffffffffff', '0x10000000000000000')"
        );
        assert!(HashRange::new(hash("default"), hash("default")).unwrap().has_namespace("default"));
        assert!(!HashRange::new(hash("default"), hash("default")).unwrap().has_namespace("kube-system"));
    }

    #[test]
    fn what_is_printed_is_parsed() {
        let range = HashRange::new(0xab, 0x7fff_ffff_ffff_ffff).unwrap();
        assert_eq!(range.to_string(), "00000000000000ab-7fffffffffffffff");
        assert_eq!(range.to_string().parse(), Ok(range));
        let full = "0000000000000000-ffffffffffffffff";
        assert_eq!(full.parse(), Ok(HashRange::ALL));
        for wrong in ["", "-", "0-1", "+000000000000001-ffffffffffffffff", "00000000000000ff-0000000000000000"] {
            let error = wrong.parse::<HashRange>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("{wrong:?} is no range")), "{error}");
        }
    }

    #[test]
    fn ranges_that_touch_are_one() {
        let range = |first, last| HashRange::new(first, last).unwrap();
        let parts = [range(20, 29), range(0, 4), range(5, 9), range(22, 24)];
        assert_eq!(HashRange::union(parts, 9), [range(0, 9), range(20, 29)]);
        assert_eq!(HashRange::union(parts, 0), [range(0, 29)]);
        assert_eq!(HashRange::union([range(0, 1), range(4, 4), range(6, 6)], 2), [range(0, 1), range(4, 6)]);
        assert_eq!(HashRange::union([], 1), []);
        let all = HashRange::cut(&[1, u64::MAX]).unwrap();
        assert_eq!(HashRange::union(all, 9), [HashRange::ALL]);
    }

    proptest::proptest! {
        #[test]
        fn a_union_has_what_its_ranges_have(
            bounds in proptest::collection::vec((0_u64..100, 0_u64..20), 0..12), at_most in 1_usize..6,
        ) {
            let ranges: Vec<_> = bounds.iter().filter_map(|(first, more)| HashRange::new(*first, first + more)).collect();
            let exact = HashRange::union(ranges.iter().copied(), usize::MAX);
            let few = HashRange::union(ranges.iter().copied(), at_most);
            for hash in 0..130 {
                let within = ranges.iter().any(|range| range.has(hash));
                assert_eq!(exact.iter().any(|range| range.has(hash)), within);
                assert!(!within || few.iter().any(|range| range.has(hash)));
            }
            assert!(few.len() <= at_most);
            assert!(exact.windows(2).all(|pair| pair[0].last() + 1 < pair[1].first()));
        }
    }
}
