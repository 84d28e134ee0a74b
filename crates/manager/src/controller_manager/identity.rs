//! Who this process is among the candidates, and what it draws by chance.

use anyhow::{Context as _, Result};
use rand::{TryRngCore as _, rngs::OsRng};

/// `<hostname>_<uuid>`: no two processes have the same, not even two on one host (CM-04).
///
/// # Errors
/// Where the machine has no hostname or no randomness.
pub(super) fn identity() -> Result<String> {
    let host = nix::unistd::gethostname().context("the hostname")?;
    let mut bytes = [0_u8; 16];
    OsRng.try_fill_bytes(&mut bytes).context("randomness for the identity")?;
    Ok(format!("{}_{}", host.to_string_lossy(), uuid(bytes)))
}

/// A seed for jitter; where the machine has no randomness, the process id must do.
pub(super) fn seed() -> u64 {
    OsRng.try_next_u64().unwrap_or_else(|_| u64::from(std::process::id()))
}

/// A random UUID (version 4, variant 1) of these bytes.
fn uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let number = u128::from_be_bytes(bytes);
    let hex = format!("{number:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: CM-04
    #[test]
    fn an_identity_is_the_hostname_and_a_uuid() {
        let (one, other) = (identity().unwrap(), identity().unwrap());
        assert_ne!(one, other);
        let (host, unique) = one.rsplit_once('_').unwrap();
        assert_eq!(host, nix::unistd::gethostname().unwrap().to_string_lossy());
        let lengths: Vec<usize> = unique.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{unique}");
        assert_eq!(uuid([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid([0; 16]), "00000000-0000-4000-8000-000000000000");
    }
}
