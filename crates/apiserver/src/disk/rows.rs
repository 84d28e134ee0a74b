//! How an object is kept: a row of a key and a value, with a checksum of both.
//!
//! ```text
//!   key     table \0 namespace \0 name
//!   value   CRC-32 of key, version and JSON (4 bytes), version (8 bytes), JSON
//! ```
//!
//! Numbers are little-endian. Neither tables nor names have zero bytes in them.

use std::sync::Arc;

use bytes::Bytes;
use flate2::Crc;

use crate::storage::disk::Stored;

const SUM: usize = 4;
const HEAD: usize = SUM + 8;

/// The key of an object.
pub(super) fn key(table: &str, namespace: &str, name: &str) -> Vec<u8> {
    [table, "\0", namespace, "\0", name].concat().into_bytes()
}

/// The keys of a table: from the first to the second, which is none of them.
pub(super) fn keys(table: &str) -> (Vec<u8>, Vec<u8>) {
    ([table, "\0"].concat().into_bytes(), [table, "\u{1}"].concat().into_bytes())
}

/// The value of a key.
pub(super) fn value(key: &[u8], version: u64, json: &[&[u8]]) -> Vec<u8> {
    let mut value = vec![0; SUM];
    value.extend_from_slice(&version.to_le_bytes());
    json.iter().for_each(|piece| value.extend_from_slice(piece));
    let sum = sum(key, &value).to_le_bytes();
    value[..SUM].copy_from_slice(&sum);
    value
}

/// Reads a row of a file that has version `newest`. Where many of one table follow on each other, they share its name by
/// `last`.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(key: &[u8], value: &[u8], newest: u64, last: &mut Arc<str>) -> Result<Stored, String> {
    let Some((head, json)) = value.split_at_checked(HEAD) else {
        return Err(format!("a row of {} bytes is shorter than its checksum and version", value.len()));
    };
    let shown = || String::from_utf8_lossy(key).replace('\0', "/");
    let (written, found) = (head[..SUM].try_into().map_or(0, u32::from_le_bytes), sum(key, value));
    if written != found {
        return Err(format!("the checksum of {} is {found:08x}, and {written:08x} was written", shown()));
    }
    let text = std::str::from_utf8(key).map_err(|error| format!("the key {}: {error}", shown()))?;
    let mut parts = text.split('\0');
    let (Some(table), Some(namespace), Some(name), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(format!("the key {} has not the three parts of one", shown()));
    };
    let version = head[SUM..].try_into().map_or(0, u64::from_le_bytes);
    if version > newest {
        return Err(format!("{} has version {version}, and the whole has {newest}", shown()));
    }
    if **last != *table {
        *last = table.into();
    }
    Ok(Stored {
        table: Arc::clone(last),
        namespace: namespace.into(),
        name: name.into(),
        version,
        json: Bytes::copy_from_slice(json),
    })
}

/// The checksum of a key and of what follows on the sum in its value.
fn sum(key: &[u8], value: &[u8]) -> u32 {
    let mut sum = Crc::new();
    sum.update(key);
    sum.update(&value[SUM..]);
    sum.sum()
}
