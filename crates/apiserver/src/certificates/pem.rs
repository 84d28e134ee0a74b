//! Blocks of PEM, read as Go reads them: what stands around a block does not matter.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A block of PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block<'a> {
    /// What it holds: `CERTIFICATE REQUEST`.
    pub label: &'a str,
    /// Whether it has headers of its own.
    pub headers: bool,
    /// What it holds, as bytes.
    pub bytes: Vec<u8>,
}

/// The first block of a text, and what follows it.
#[must_use]
pub fn first(mut text: &str) -> Option<(Block<'_>, &str)> {
    const BEGIN: &str = "-----BEGIN ";
    loop {
        let at = text.match_indices(BEGIN).map(|(at, _)| at).find(|at| *at == 0 || text[..*at].ends_with('\n'))?;
        let begun = &text[at + BEGIN.len()..];
        if let Some(found) = block(begun) {
            return Some(found);
        }
        text = begun;
    }
}

/// A block with headers of none, as PEM.
#[must_use]
pub fn write(label: &str, bytes: &[u8]) -> String {
    let mut out = format!("-----BEGIN {label}-----\n");
    let text = STANDARD.encode(bytes);
    for line in text.as_bytes().chunks(64) {
        out.extend(line.iter().map(|byte| char::from(*byte)));
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

/// A block whose first words have been read.
fn block(begun: &str) -> Option<(Block<'_>, &str)> {
    let (first, body) = begun.split_once('\n')?;
    let label = first.trim_end().strip_suffix("-----")?;
    let end = format!("-----END {label}-----");
    let at = body.match_indices(&end).map(|(at, _)| at).find(|at| *at == 0 || body[..*at].ends_with('\n'))?;
    let after = &body[at + end.len()..];
    let after = after.split_once('\n').map_or("", |(_, rest)| rest);
    let is_header = |line: &&str| line.contains(':');
    let lines: Vec<&str> = body[..at].lines().collect();
    let headers = lines.iter().take_while(|line| is_header(line)).count();
    let text: String = lines[headers..].iter().flat_map(|line| line.split_whitespace()).collect();
    let bytes = STANDARD.decode(text).ok()?;
    Some((Block { label, headers: headers > 0, bytes }, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-32
    #[test]
    fn blocks_are_found_among_anything() {
        let one = write("ONE", b"first");
        let two = write("TWO", &[7; 100]);
        let text = format!("noise -----BEGIN X-----\n{one}-----BEGIN BAD-----\n!\n-----END BAD-----\n{two}rest");
        let (found, rest) = first(&text).expect("a block");
        assert_eq!(found, Block { label: "ONE", headers: false, bytes: b"first".to_vec() });
        let (found, rest) = first(rest).expect("a block");
        assert_eq!((found.label, found.bytes, rest), ("TWO", vec![7; 100], "rest"));
        assert_eq!(first(rest), None);
        let headed = "-----BEGIN A-----\nProc-Type: 4\n\nAAAA\n-----END A-----\n";
        assert_eq!(first(headed), Some((Block { label: "A", headers: true, bytes: vec![0; 3] }, "")));
        assert_eq!(first("-----BEGIN A-----\n\n-----END A-----").map(|(block, _)| block.bytes), Some(Vec::new()));
    }
}
