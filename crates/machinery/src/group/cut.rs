//! A cut: the ranges of the shards, by how much there is in each namespace.

use muster_objects::HashRange;

use super::MOST_SHARDS;

/// How much heavier than the mean the heaviest shard must be before another cut is thought of.
const TOO_HEAVY: u64 = 2;
/// How much lighter, in percent of the heaviest shard, another cut's heaviest one must be to be worth its while.
const CLEARLY_LIGHTER: u64 = 75;
/// Shards of so few pods are let be.
pub(super) const LIGHT: u64 = 50;

/// The ranges of the shards, in their order; at least one, at most [`MOST_SHARDS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Where each shard but the first begins, ascending and without 0.
    starts: Vec<u64>,
}

/// How much there is in each namespace: its hash and its weight, which is the number of its pods and one for itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Weights(Vec<(u64, u64)>);

impl Weights {
    /// Those of these namespaces.
    #[must_use]
    pub fn new(namespaces: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut all: Vec<_> = namespaces.into_iter().filter(|(_, weight)| *weight > 0).collect();
        all.sort_unstable();
        Self(all)
    }

    fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, weight)| sum.saturating_add(*weight))
    }
}

impl Cut {
    /// A cut into so many shards, moved to between 1 and [`MOST_SHARDS`], each as heavy as the next as far as
    /// namespaces can be parted. Where there is nothing, they are equally long.
    #[must_use]
    pub fn of(weights: &Weights, shards: u32) -> Self {
        let shards = u128::from(shards.clamp(1, MOST_SHARDS));
        // Beside the weights of namespaces a twentieth is spread over all hashes, for what is not there yet.
        let spread = u128::from(weights.total() / 20 + 1);
        let unit = 1_u128 << 64;
        let total = (u128::from(weights.total()) + spread) * unit;
        let mut starts: Vec<u64> = Vec::new();
        let mut points = weights.0.iter().peekable();
        let mut passed = 0_u128;
        for shard in 1..shards {
            let target = total * shard / shards;
            let mut found = None;
            while let Some((hash, weight)) = points.peek() {
                let before = passed * unit + spread * u128::from(*hash);
                let after = before + u128::from(*weight) * unit;
                if target >= after {
                    passed += u128::from(*weight);
                    points.next();
                    continue;
                }
                if target >= before {
                    // Within one namespace, which cannot be parted: on the side that is nearer.
                    found = Some(hash.saturating_add(u64::from(target - before > after - target)));
                }
                break;
            }
            let start = found.map_or_else(|| (target - passed * unit) / spread, u128::from);
            let least = starts.last().map_or(1, |last| u128::from(*last) + 1);
            let most = u128::from(u64::MAX) - (shards - 1 - shard);
            starts.push(u64::try_from(start.max(least).min(most)).unwrap_or(u64::MAX));
        }
        Self { starts }
    }

    /// How many shards there are.
    #[must_use]
    pub fn shards(&self) -> u32 {
        // No more than MOST_SHARDS.
        u32::try_from(self.starts.len() + 1).unwrap_or(MOST_SHARDS)
    }

    /// The range of a shard; `None` where there is none of that number.
    #[must_use]
    pub fn range(&self, shard: u32) -> Option<HashRange> {
        let shard = usize::try_from(shard).ok()?;
        let first = if shard == 0 { 0 } else { *self.starts.get(shard - 1)? };
        HashRange::new(first, self.starts.get(shard).map_or(u64::MAX, |next| next - 1))
    }

    /// The shard that a hash of a namespace belongs to.
    #[must_use]
    pub fn shard_of(&self, hash: u64) -> u32 {
        u32::try_from(self.starts.partition_point(|start| *start <= hash)).unwrap_or(MOST_SHARDS)
    }

    /// Whether `other` would be clearly better by these weights.
    #[must_use]
    pub fn yields_to(&self, other: &Self, weights: &Weights) -> bool {
        let (now, then) = (self.heaviest(weights), other.heaviest(weights));
        is_uneven(now, weights.total(), self.shards()) && then <= now / 100 * CLEARLY_LIGHTER + now % 100
    }

    fn heaviest(&self, weights: &Weights) -> u64 {
        let mut loads = vec![0_u64; self.starts.len() + 1];
        for (hash, weight) in &weights.0 {
            let load = &mut loads[self.starts.partition_point(|start| start <= hash)];
            *load = load.saturating_add(*weight);
        }
        loads.into_iter().max().unwrap_or_default()
    }

    /// As it stands in an annotation: the starts of all shards but the first, in 16 hexadecimal digits.
    pub(super) fn to_text(&self) -> String {
        self.starts.iter().map(|start| format!("{start:016x}")).collect::<Vec<_>>().join(",")
    }

    /// Reads the annotation; `None` where it is no cut.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = |text: &str| text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let start = |text: &str| digits(text).then(|| u64::from_str_radix(text, 16).ok()).flatten();
        let starts = match text {
            "" => Some(Vec::new()),
            text => text.split(',').map(start).collect::<Option<Vec<u64>>>(),
        };
        let starts = starts.filter(|starts| starts.len() < usize::try_from(MOST_SHARDS).unwrap_or(usize::MAX))?;
        HashRange::cut(&starts).map(|_| Self { starts })
    }
}

/// Whether the heaviest of so many shards, which have `total` together, is worth a look at another cut.
pub(super) fn is_uneven(heaviest: u64, total: u64, shards: u32) -> bool {
    heaviest >= LIGHT && heaviest / TOO_HEAVY > total / u64::from(shards.max(1))
}

#[cfg(test)]
mod tests {
    use muster_objects::shard;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_is_cut_into_equal_lengths() {
        let cut = Cut::of(&Weights::default(), 4);
        assert_eq!(cut.to_text(), "4000000000000000,8000000000000000,c000000000000000");
        assert_eq!(Cut::of(&Weights::default(), 0).shards(), 1);
        assert_eq!(Cut::of(&Weights::default(), u32::MAX).shards(), MOST_SHARDS);
        assert_eq!(Cut::of(&Weights::default(), 1).range(0), Some(HashRange::ALL));
    }

    /// Names that differ in their last digits share the upper bits of their hashes: equal lengths would give nearly all
    /// of them to a few shards.
    ///
    /// Contract: SH-01
    #[test]
    fn a_cut_follows_what_is_there() {
        // Without pods and with ten in each: ten namespaces for each shard.
        for weight in [1, 11] {
            let weights = Weights::new((0..640).map(|number| (shard::hash(&format!("team-{number:03}")), weight)));
            let (even, cut) = (Cut::of(&Weights::default(), 64), Cut::of(&weights, 64));
            assert!(even.heaviest(&weights) > 30 * weight, "{}", even.heaviest(&weights));
            assert!(cut.heaviest(&weights) <= 12 * weight, "{}", cut.heaviest(&weights));
            assert!(weight == 1 || even.yields_to(&cut, &weights) && !cut.yields_to(&even, &weights));
        }
    }

    #[test]
    fn a_namespace_that_is_too_heavy_is_no_reason_for_another_cut() {
        let others = (0..64).map(|number| (shard::hash(&format!("team-{number:03}")), 1));
        let weights = Weights::new(others.chain([(shard::hash("crowd"), 100_000)]));
        let cut = Cut::of(&weights, 64);
        assert_eq!(cut.range(cut.shard_of(shard::hash("crowd"))).map(|range| range.last() - range.first()), Some(0));
        let next = Cut::of(&Weights::new(weights.0.iter().map(|(hash, weight)| (*hash, weight + 1))), 64);
        assert!(!cut.yields_to(&next, &weights));
    }

    #[test]
    fn what_is_no_cut_is_refused() {
        for text in ["0", "x", "0000000000000000", "0000000000000002,0000000000000001", "+000000000000001"] {
            assert_eq!(Cut::parse(text), None, "{text:?}");
        }
        assert_eq!(Cut::parse("").map(|cut| cut.shards()), Some(1));
    }

    proptest! {
        /// Contract: SH-01
        #[test]
        fn each_hash_is_in_one_shard_and_no_shard_is_heavier_than_its_part_and_one_namespace(
            namespaces in prop::collection::btree_map(any::<u64>(), 1_u64..1_000, 0..200),
            ends in prop::collection::vec((prop_oneof![0_u64..5, u64::MAX - 5..=u64::MAX], 1_u64..1_000_000), 0..3),
            shards in 1_u32..130,
        ) {
            let weights = Weights::new(namespaces.into_iter().chain(ends));
            let cut = Cut::of(&weights, shards);
            prop_assert_eq!(cut.shards(), shards);
            prop_assert_eq!(Cut::parse(&cut.to_text()), Some(cut.clone()));
            for (hash, _) in &weights.0 {
                prop_assert!(cut.range(cut.shard_of(*hash)).is_some_and(|range| range.has(*hash)));
            }
            let most = weights.0.iter().map(|(_, weight)| *weight).max().unwrap_or_default();
            let part = (weights.total() + weights.total() / 20 + 1) / u64::from(shards) + 1;
            // At the ends of the hashes there may be no room for a start of its own.
            let crowded = weights.0.iter().filter(|(hash, _)| *hash < 200 || *hash > u64::MAX - 200);
            let crowded: u64 = crowded.map(|(_, weight)| *weight).sum();
            prop_assert!(cut.heaviest(&weights) <= part + most + crowded, "{} of {}", cut.heaviest(&weights), part);
        }
    }
}
