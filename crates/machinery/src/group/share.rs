//! Who should have which shard: bounded rendezvous hashing over the members.

use std::collections::BTreeMap;

use muster_objects::shard;

/// For each shard the member that should have it. `holders` says which of `members`, by its place, has the shard now;
/// the number of shards is its length. None where there are no members.
///
/// Each member gets its share, and no two shares differ by more than one. A shard stays with the member that has it
/// unless that one has more than its share; the others go to the members that have less, each to the one of these that
/// it scores highest with. So a member that ends moves only its own shards, and one that begins moves only those that
/// it gets.
///
/// `members` must be sorted and without duplicates; then everyone who knows the same gets the same answer.
pub(super) fn share(members: &[&str], holders: &[Option<usize>]) -> Option<Vec<usize>> {
    if members.is_empty() {
        return None;
    }
    let mut held: Vec<Vec<usize>> = vec![Vec::new(); members.len()];
    for (shard, holder) in holders.iter().enumerate() {
        if let Some(shards) = holder.and_then(|member| held.get_mut(member)) {
            shards.push(shard);
        }
    }
    let room = room(&held, holders.len());
    let hashes: Vec<u64> = members.iter().map(|member| shard::hash(member)).collect();
    let mut due = BTreeMap::new();
    for (member, shards) in held.iter_mut().enumerate() {
        shards.sort_by_key(|shard| (std::cmp::Reverse(score(hashes[member], *shard)), *shard));
        due.extend(shards.iter().take(room[member]).map(|shard| (*shard, member)));
    }
    let mut left: Vec<usize> = held.iter().zip(&room).map(|(shards, room)| room.saturating_sub(shards.len())).collect();
    let wanting: Vec<usize> = (0..members.len()).filter(|member| left[*member] > 0).collect();
    let pair = |shard: usize| wanting.iter().map(move |member| (shard, *member));
    let mut pairs: Vec<(usize, usize)> =
        (0..holders.len()).filter(|shard| !due.contains_key(shard)).flat_map(pair).collect();
    pairs.sort_by_cached_key(|(shard, member)| (std::cmp::Reverse(score(hashes[*member], *shard)), *shard, *member));
    for (shard, member) in pairs {
        if left[member] > 0 && !due.contains_key(&shard) {
            left[member] -= 1;
            due.insert(shard, member);
        }
    }
    Some(due.into_values().collect())
}

/// How many shards each member is to have. Of members that may have one more than others, those that have the most now
/// come first.
fn room(held: &[Vec<usize>], shards: usize) -> Vec<usize> {
    let (least, more) = (shards / held.len(), shards % held.len());
    let mut order: Vec<usize> = (0..held.len()).collect();
    order.sort_by_key(|member| (std::cmp::Reverse(held[*member].len()), *member));
    let mut room = vec![least; held.len()];
    order.into_iter().take(more).for_each(|member| room[member] += 1);
    room
}

/// How well a shard and a member go together. FNV alone mixes the last bytes of a text badly; the rest is the finalizer
/// of SplitMix64.
fn score(member: u64, shard: usize) -> u64 {
    let shard = u64::try_from(shard).unwrap_or(u64::MAX).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = member ^ mix(shard);
    mix(mixed)
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn names(members: &BTreeSet<u16>) -> Vec<String> {
        members.iter().map(|number| format!("muster-controller-manager-7d9f-{number}")).collect()
    }

    fn shares(names: &[String], holders: &[Option<usize>]) -> Vec<usize> {
        share(&names.iter().map(String::as_str).collect::<Vec<_>>(), holders).unwrap()
    }

    fn counts(due: &[usize], members: usize) -> Vec<usize> {
        (0..members).map(|member| due.iter().filter(|each| **each == member).count()).collect()
    }

    #[test]
    fn without_members_nobody_has_anything() {
        assert_eq!(share(&[], &[None, None]), None);
        assert_eq!(share(&["a"], &[]), Some(vec![]));
    }

    /// Which shards a member gets depends on its name, and neighbours go apart: by chance 16 of 64 would be equal.
    #[test]
    fn names_that_differ_in_their_end_get_other_shards() {
        let of = |first: &str| {
            let mut members = [first, "web-1", "web-2", "web-3"];
            members.sort_unstable();
            let mine = members.iter().position(|name| *name == first);
            let due = share(&members, &[None; 64]).unwrap();
            (0..64).filter(|shard| Some(due[*shard]) == mine).collect::<BTreeSet<_>>()
        };
        let (one, other) = (of("web-4"), of("web-5"));
        assert_eq!((one.len(), other.len()), (16, 16));
        assert!(one.intersection(&other).count() < 12, "{one:?} {other:?}");
    }

    proptest! {
        /// Contract: SH-01
        #[test]
        fn no_member_has_more_than_its_share_by_one_and_what_is_even_stays(
            members in prop::collection::btree_set(0_u16..500, 1..9),
            holders in prop::collection::vec(prop::option::of(0_usize..9), 0..100),
        ) {
            let names = names(&members);
            let due = shares(&names, &holders);
            prop_assert_eq!(due.len(), holders.len());
            let counts = counts(&due, names.len());
            prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{:?}", counts);
            let now: Vec<_> = due.iter().map(|member| Some(*member)).collect();
            prop_assert_eq!(shares(&names, &now), due, "what is even does not move");
        }

        /// Contract: SH-01
        #[test]
        fn a_member_that_goes_moves_its_own_shards_and_one_that_comes_those_that_it_gets(
            members in prop::collection::btree_set(0_u16..500, 2..9),
            shards in 0_usize..100,
            which in any::<prop::sample::Index>(),
        ) {
            let all = names(&members);
            let gone = which.index(all.len());
            let fewer: Vec<String> =
                all.iter().enumerate().filter(|(at, _)| *at != gone).map(|(_, name)| name.clone()).collect();
            let before = shares(&all, &vec![None; shards]);
            let place = |names: &[String], name: &str| names.iter().position(|each| each == name);
            let holders: Vec<_> = before.iter().map(|member| place(&fewer, &all[*member])).collect();
            let after = shares(&fewer, &holders);
            for shard in 0..shards {
                prop_assert!(before[shard] == gone || fewer[after[shard]] == all[before[shard]], "{} moved", shard);
            }
            // It comes back.
            let holders: Vec<_> = after.iter().map(|member| place(&all, &fewer[*member])).collect();
            let again = shares(&all, &holders);
            for shard in 0..shards {
                prop_assert!(again[shard] == gone || all[again[shard]] == fewer[after[shard]], "{} moved", shard);
            }
        }
    }
}
