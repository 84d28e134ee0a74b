//! The least of many, in one pass and in the space of those that are kept.

use std::collections::BinaryHeap;

/// The `most` least of all, the least first, and how many there were.
pub fn least<T: Ord>(all: impl IntoIterator<Item = T>, most: usize) -> (Vec<T>, usize) {
    let (mut kept, mut count) = (BinaryHeap::new(), 0);
    for one in all {
        count += 1;
        if kept.len() < most {
            kept.push(one);
        } else if let Some(mut greatest) = kept.peek_mut()
            && one < *greatest
        {
            *greatest = one;
        }
    }
    (kept.into_sorted_vec(), count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_if_all_were_sorted(all: Vec<u8>, most in 0_usize..20) {
            let mut sorted = all.clone();
            sorted.sort_unstable();
            sorted.truncate(most);
            prop_assert_eq!(least(all.iter().copied(), most), (sorted, all.len()));
        }
    }
}
