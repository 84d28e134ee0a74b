//! Files that flags name: read once, and an error says which flag, which file and what was expected of it.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::flags::Given;

/// Reads the file that a flag names; `None` where it names none.
pub(super) fn named(given: &Given, flag: &str) -> Result<Option<Vec<u8>>> {
    given.text(flag).map(|file| read(flag, file)).transpose()
}

/// Reads a file of a flag.
pub(super) fn read(flag: &str, file: impl AsRef<Path>) -> Result<Vec<u8>> {
    let file = file.as_ref();
    fs::read(file).with_context(|| format!("--{flag} {}: cannot be read", file.display()))
}

/// Reads a file of a flag as text.
pub(super) fn text(flag: &str, file: impl AsRef<Path>) -> Result<String> {
    let file = file.as_ref();
    let bytes = read(flag, file)?;
    String::from_utf8(bytes).with_context(|| format!("--{flag} {}: expected text", file.display()))
}
