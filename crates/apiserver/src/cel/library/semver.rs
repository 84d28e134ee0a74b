//! Versions of semantic versioning.

use std::cmp::Ordering;

use crate::field::go_quote;

/// A version, such as `1.2.3-alpha.1+build`. What is built is no part of its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Semver {
    /// The three numbers.
    pub numbers: [u64; 3],
    pre: Vec<Pre>,
}

/// A part of what is before a release: a number is less than a word.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Pre {
    Number(u64),
    Word(String),
}

impl Semver {
    /// Reads a version; with `lenient`, one with a `v` before it, leading zeros or missing numbers too.
    ///
    /// # Errors
    /// What is wrong with it, in the words of the library that the reference reads it with.
    pub fn parse(text: &str, lenient: bool) -> Result<Self, String> {
        if lenient { Self::parse_strictly(&normal(text)?) } else { Self::parse_strictly(text) }
    }

    fn parse_strictly(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts.as_slice() else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = rest.split_once('+').map_or((*rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let numbers = [number(major, "major")?, number(minor, "minor")?, number(patch, "patch")?];
        let pre = pre.into_iter().flat_map(|pre| pre.split('.')).map(Pre::parse).collect::<Result<_, String>>()?;
        for build in build.into_iter().flat_map(|build| build.split('.')) {
            if build.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_word(build) {
                return Err(format!("Invalid character(s) found in build meta data {}", go_quote(build)));
            }
        }
        Ok(Self { numbers, pre })
    }

    /// The order of two versions.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Ordering {
        let by_pre = || match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre.cmp(&other.pre),
        };
        self.numbers.cmp(&other.numbers).then_with(by_pre)
    }
}

impl Pre {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Prerelease is empty".to_owned());
        }
        if is_number(text) {
            if has_leading_zeros(text) {
                let shown = go_quote(text);
                return Err(format!("Numeric PreRelease version must not contain leading zeroes {shown}"));
            }
            return whole(text).map(Self::Number);
        }
        if is_word(text) {
            return Ok(Self::Word(text.to_owned()));
        }
        Err(format!("Invalid character(s) found in prerelease {}", go_quote(text)))
    }
}

/// A version without what only a lenient reader takes.
fn normal(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
    for part in parts.iter_mut().filter(|part| part.len() > 1) {
        let digits = part.trim_start_matches('0');
        let zero = if digits.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "0" };
        *part = format!("{zero}{digits}");
    }
    if parts.len() < 3 {
        if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".to_owned());
        }
        parts.resize(3, "0".to_owned());
    }
    Ok(parts.join("."))
}

fn number(text: &str, name: &str) -> Result<u64, String> {
    if !is_number(text) {
        return Err(format!("Invalid character(s) found in {name} number {}", go_quote(text)));
    }
    if has_leading_zeros(text) {
        let title = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
        return Err(format!("{title} number must not contain leading zeroes {}", go_quote(text)));
    }
    whole(text)
}

fn whole(digits: &str) -> Result<u64, String> {
    let why = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
    digits.parse().map_err(|_| format!("strconv.ParseUint: parsing {}: {why}", go_quote(digits)))
}

/// No digit is a number too, as far as its characters go.
fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn has_leading_zeros(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0')
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-30
    #[test]
    fn versions_are_read_as_the_reference_reads_them() {
        for (text, lenient, wrong) in [
            ("1.2.3-alpha.1.x-y+b.01", false, None),
            ("1.2.3-0", false, None),
            ("v01.02", true, None),
            ("1", true, None),
            ("00.0.00", true, None),
            ("1.2.3-a.b", true, None),
            ("", false, Some("Version string empty")),
            ("", true, Some("strconv.ParseUint: parsing \"\": invalid syntax")),
            ("1.2", false, Some("No Major.Minor.Patch elements found")),
            ("v1.2.3", false, Some("Invalid character(s) found in major number \"v1\"")),
            ("1.02.3", false, Some("Minor number must not contain leading zeroes \"02\"")),
            ("1.2.3.4", false, Some("Invalid character(s) found in patch number \"3.4\"")),
            ("1..3", false, Some("strconv.ParseUint: parsing \"\": invalid syntax")),
            (
                "1.2.18446744073709551616",
                false,
                Some("strconv.ParseUint: parsing \"18446744073709551616\": value out of range"),
            ),
            ("1.2.3-", false, Some("Prerelease is empty")),
            ("1.2.3-01", false, Some("Numeric PreRelease version must not contain leading zeroes \"01\"")),
            ("1.2.3-a_b", false, Some("Invalid character(s) found in prerelease \"a_b\"")),
            ("1.2.3+", false, Some("Build meta data is empty")),
            ("1.2.3+a_b", false, Some("Invalid character(s) found in build meta data \"a_b\"")),
            ("1.2-alpha", true, Some("short version cannot contain PreRelease/Build meta data")),
        ] {
            assert_eq!(Semver::parse(text, lenient).err().as_deref(), wrong, "{text}");
        }
        let parsed = |text: &str| Semver::parse(text, true).unwrap_or_else(|why| panic!("{text}: {why}"));
        let ordered = ["1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0-a", "1.0.0-a.1", "1.0.0-b", "1", "1.0.1", "1.1", "v2"];
        for pair in ordered.windows(2) {
            assert_eq!(parsed(pair[0]).compare(&parsed(pair[1])), Ordering::Less, "{pair:?}");
            assert_eq!(parsed(pair[1]).compare(&parsed(pair[0])), Ordering::Greater, "{pair:?}");
        }
        assert_eq!(parsed("1.0.0+a").compare(&parsed("v01.0")), Ordering::Equal);
    }
}
