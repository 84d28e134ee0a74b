//! The 32-bit FNV-1a hash.

use std::fmt;

/// A running hash; text that is written to it is hashed.
pub(super) struct Fnv32(u32);

impl Default for Fnv32 {
    fn default() -> Self {
        Self(0x811c_9dc5)
    }
}

impl Fnv32 {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |state, byte| (state ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    }

    pub(super) fn finish(&self) -> u32 {
        self.0
    }
}

impl fmt::Write for Fnv32 {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.update(s.as_bytes());
        Ok(())
    }
}
