//! Versions of semantic versioning.

use std::cmp::Ordering;

/// A version, such as `1.2.3-alpha.1+build`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Semver {
    /// The three numbers.
    pub numbers: [u64; 3],
    pre: Vec<String>,
}

impl Semver {
    /// Reads a version; with `lenient`, one with a `v` before it, leading zeros or missing numbers too.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, lenient: bool) -> Result<Self, String> {
        let text = if lenient { text.strip_prefix('v').unwrap_or(text) } else { text };
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let (core, build) = text.split_once('+').map_or((text, None), |(core, build)| (core, Some(build)));
        let (core, pre) = core.split_once('-').map_or((core, None), |(core, pre)| (core, Some(pre)));
        let mut parts: Vec<&str> = core.split('.').collect();
        if lenient {
            while parts.len() < 3 {
                parts.push("0");
            }
        }
        let [major, minor, patch] = parts.as_slice() else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let mut numbers = [0; 3];
        for ((part, name), number) in [(major, "major"), (minor, "minor"), (patch, "patch")].iter().zip(&mut numbers) {
            let digits = if lenient { part.trim_start_matches('0') } else { part };
            let digits = if digits.is_empty() && !part.is_empty() { "0" } else { digits };
            let title = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return Err(format!("Invalid character(s) found in {name} number {}", crate::field::go_quote(part)));
            }
            if digits.len() > 1 && digits.starts_with('0') {
                let quoted = crate::field::go_quote(part);
                return Err(format!("{title} number must not contain leading zeroes {quoted}"));
            }
            *number = digits.parse().map_err(|_| format!("{title} number out of range"))?;
        }
        let identifiers = |text: Option<&str>| -> Result<Vec<String>, String> {
            let fits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            match text.map(|text| text.split('.').map(str::to_owned).collect::<Vec<_>>()) {
                None => Ok(Vec::new()),
                Some(parts) if parts.iter().all(|part| fits(part)) => Ok(parts),
                Some(_) => Err("Invalid character(s) found in prerelease".to_owned()),
            }
        };
        identifiers(build)?;
        Ok(Self { numbers, pre: identifiers(pre)? })
    }

    /// The order of two versions.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Ordering {
        let by_pre = || match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                for (one, other) in self.pre.iter().zip(&other.pre) {
                    let order = match (one.parse::<u64>(), other.parse::<u64>()) {
                        (Ok(one), Ok(other)) => one.cmp(&other),
                        (Ok(_), Err(_)) => Ordering::Less,
                        (Err(_), Ok(_)) => Ordering::Greater,
                        (Err(_), Err(_)) => one.cmp(other),
                    };
                    if order != Ordering::Equal {
                        return order;
                    }
                }
                self.pre.len().cmp(&other.pre.len())
            }
        };
        self.numbers.cmp(&other.numbers).then_with(by_pre)
    }
}
