//! A node's range of pod addresses, given out in order and used again.

use std::net::Ipv4Addr;

/// A block of consecutive addresses.
#[derive(Debug)]
pub(super) struct Addresses {
    base: u32,
    /// One bit for each address; set where it is in use.
    used: Vec<u64>,
    /// Where the search goes on: an address is used again as late as possible.
    next: usize,
}

impl Addresses {
    /// The block of `2^(32 - prefix)` addresses at `base`. The first and the last are never given out.
    pub(super) fn new(base: Ipv4Addr, prefix: u8) -> Self {
        let size = 1_usize << (32 - prefix.clamp(8, 26));
        let mut used = vec![0; size / 64];
        used[0] |= 1;
        used[size / 64 - 1] |= 1 << 63;
        Self { base: u32::from(base), used, next: 0 }
    }

    /// An address that nobody has, or none when all are taken.
    pub(super) fn take(&mut self) -> Option<Ipv4Addr> {
        let size = self.used.len() * 64;
        let words = self.used.len();
        // One word more than there are: the rest of the first one comes last.
        for step in 0..=words {
            let word = (self.next / 64 + step) % words;
            let skip = if step == 0 { (1_u64 << (self.next % 64)) - 1 } else { 0 };
            let free = !(self.used[word] | skip);
            if free != 0 {
                let at = word * 64 + free.trailing_zeros() as usize;
                self.used[word] |= 1 << (at % 64);
                self.next = (at + 1) % size;
                // A block has at most 2^24 addresses.
                return Some(Ipv4Addr::from(self.base + u32::try_from(at).unwrap_or(0)));
            }
        }
        None
    }

    /// Marks an address as in use; one of another block is nothing to this one.
    pub(super) fn claim(&mut self, address: Ipv4Addr) {
        if let Some(at) = self.position(address) {
            self.used[at / 64] |= 1 << (at % 64);
        }
    }

    /// Gives an address back.
    pub(super) fn release(&mut self, address: Ipv4Addr) {
        if let Some(at) = self.position(address) {
            self.used[at / 64] &= !(1 << (at % 64));
        }
    }

    fn position(&self, address: Ipv4Addr) -> Option<usize> {
        let offset = u32::from(address).checked_sub(self.base)? as usize;
        let size = self.used.len() * 64;
        (offset > 0 && offset < size - 1).then_some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: SIM-03
    #[test]
    fn addresses_are_unique_until_they_come_back() {
        let mut block = Addresses::new(Ipv4Addr::new(10, 128, 0, 0), 26);
        let taken: Vec<_> = std::iter::from_fn(|| block.take()).collect();
        assert_eq!(taken.len(), 62, "the first and the last address are not given out");
        assert_eq!(taken[0], Ipv4Addr::new(10, 128, 0, 1));
        assert!(taken.is_sorted() && taken.windows(2).all(|pair| pair[0] != pair[1]));
        block.release(taken[5]);
        assert_eq!(block.take(), Some(taken[5]));
        assert_eq!(block.take(), None);
        block.release(Ipv4Addr::new(10, 129, 0, 1));
        block.release(Ipv4Addr::new(10, 128, 0, 0));
        assert_eq!(block.take(), None, "what is not of the block is nothing to it");
    }

    /// Contract: SIM-03
    #[test]
    fn a_claimed_address_is_not_given_out_and_a_released_one_last() {
        let mut block = Addresses::new(Ipv4Addr::new(10, 0, 0, 0), 19);
        block.claim(Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(block.take(), Some(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(block.take(), Some(Ipv4Addr::new(10, 0, 0, 3)));
        block.release(Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(block.take(), Some(Ipv4Addr::new(10, 0, 0, 4)), "the released one waits for its turn");
    }
}
