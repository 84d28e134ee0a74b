//! Bookmarks among the pieces of a watch.

use bytes::Bytes;

const BEGINNING: &[u8] = br#"{"type":"BOOKMARK""#;
const VERSION: &str = "\"resourceVersion\":\"";

/// Whether a piece is a bookmark: they come in pieces of their own.
pub(super) fn is_one(piece: &[u8]) -> bool {
    piece.starts_with(BEGINNING)
}

/// The bookmark with the version of some writes earlier.
pub(super) fn older(piece: &Bytes) -> Bytes {
    const EARLIER: u64 = 20;
    let older = || {
        let text = std::str::from_utf8(piece).ok()?;
        let (before, rest) = text.split_once(VERSION)?;
        let (version, after) = rest.split_once('"')?;
        let version = version.parse::<u64>().ok()?.saturating_sub(EARLIER).max(1);
        Some(Bytes::from(format!("{before}{VERSION}{version}\"{after}")))
    };
    older().unwrap_or_else(|| piece.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bookmark_is_told_and_made_older() {
        let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"120"}}}"#;
        assert!(is_one(bookmark.as_bytes()) && !is_one(br#"{"type":"ADDED","object":{}}"#));
        assert_eq!(older(&Bytes::from(bookmark)), bookmark.replace("120", "100"));
    }
}
