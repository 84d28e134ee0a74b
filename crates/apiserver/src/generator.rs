//! The server's source of uids and name suffixes: seeded, so that a run can be repeated exactly.

use std::io;
use std::sync::{Mutex, PoisonError};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// What follows a `generateName`: five of these (API-14). Without vowels and look-alikes, as the real server's.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// `metadata.generateName` is cut to this many bytes before the suffix is added (API-14).
const LONGEST_PREFIX: usize = 58;

/// Makes uids and names. The same seed and the same calls give the same answers.
#[derive(Debug)]
pub struct Generator {
    rng: Mutex<SmallRng>,
}

impl Generator {
    /// A generator that repeats itself for the same seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { rng: Mutex::new(SmallRng::seed_from_u64(seed)) }
    }

    /// A generator with a seed from the operating system.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn random() -> io::Result<Self> {
        let rng = SmallRng::try_from_rng(&mut rand::rngs::OsRng).map_err(io::Error::other)?;
        Ok(Self { rng: Mutex::new(rng) })
    }

    /// The same for a run that goes on at a version: what it gave until then, it does not give again.
    #[must_use]
    pub fn going_on(self, version: u64) -> Self {
        if version > 0 {
            self.with(|rng| *rng = SmallRng::seed_from_u64(rng.random::<u64>() ^ version));
        }
        self
    }

    /// A version 4 uuid in its canonical form.
    #[must_use]
    pub fn uid(&self) -> String {
        let bits: u128 = self.with(Rng::random);
        let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// A name that begins with `prefix`.
    #[must_use]
    pub fn name(&self, prefix: &str) -> String {
        let mut end = prefix.len().min(LONGEST_PREFIX);
        while !prefix.is_char_boundary(end) {
            end -= 1;
        }
        let mut name = String::with_capacity(end + 5);
        name.push_str(&prefix[..end]);
        self.with(|rng| {
            for _ in 0..5 {
                name.push(char::from(ALPHABET[rng.random_range(0..ALPHABET.len())]));
            }
        });
        name
    }

    /// A number for another source of chance to begin with.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.with(Rng::random)
    }

    /// A fraction in `[0, 1)`, for jitter.
    #[must_use]
    pub fn fraction(&self) -> f64 {
        self.with(Rng::random)
    }

    fn with<T>(&self, f: impl FnOnce(&mut SmallRng) -> T) -> T {
        // A poisoned generator is still a generator: its state is a few integers.
        f(&mut self.rng.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-14
    #[test]
    fn names_keep_58_bytes_and_add_five() {
        let generator = Generator::seeded(1);
        let name = generator.name(&"x".repeat(80));
        assert_eq!(name.len(), 63);
        assert!(name[58..].bytes().all(|b| ALPHABET.contains(&b)), "{name}");
        assert_eq!(generator.name("web-").len(), 9);
    }

    #[test]
    fn the_same_seed_repeats_itself() {
        let (a, b) = (Generator::seeded(7), Generator::seeded(7));
        for _ in 0..20 {
            assert_eq!((a.uid(), a.name("n-")), (b.uid(), b.name("n-")));
        }
        assert_eq!(Generator::seeded(7).going_on(0).uid(), Generator::seeded(7).uid());
        assert_ne!(Generator::seeded(7).going_on(5).uid(), Generator::seeded(7).uid());
        let uid = a.uid();
        assert_eq!((uid.as_bytes()[14], uid.len()), (b'4', 36), "{uid}");
        assert!(matches!(uid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{uid}");
    }
}
