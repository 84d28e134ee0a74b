//! What the labels of a namespace say of its pods: a level and a version for each of enforce, audit and warn.

use std::fmt;

use crate::field::FieldError;

const ENFORCE: [&str; 2] = ["pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/enforce-version"];
const AUDIT: [&str; 2] = ["pod-security.kubernetes.io/audit", "pod-security.kubernetes.io/audit-version"];
const WARN: [&str; 2] = ["pod-security.kubernetes.io/warn", "pod-security.kubernetes.io/warn-version"];

/// How much is forbidden; the later, the more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// As of which release; the latest is later than all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    Minor(i64),
    Latest,
}

/// A level as of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) level: Level,
    pub(super) version: Version,
}

/// The rules of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) enforce: Rule,
    pub(super) warn: Rule,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.level {
            Level::Privileged => "privileged:",
            Level::Baseline => "baseline:",
            Level::Restricted => "restricted:",
        })?;
        match self.version {
            Version::Minor(minor) => write!(f, "v1.{minor}"),
            Version::Latest => f.write_str("latest"),
        }
    }
}

impl Level {
    fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "privileged" => Ok(Self::Privileged),
            "baseline" => Ok(Self::Baseline),
            "restricted" => Ok(Self::Restricted),
            _ => Err("must be one of privileged, baseline, restricted"),
        }
    }
}

impl Version {
    fn parse(text: &str) -> Result<Self, &'static str> {
        if text == "latest" {
            return Ok(Self::Latest);
        }
        let minor = text.strip_prefix("v1.").filter(|minor| {
            minor.bytes().all(|byte| byte.is_ascii_digit()) && (minor.len() == 1 || !minor.starts_with('0'))
        });
        let minor = minor.and_then(|minor| minor.parse().ok());
        minor.map(Self::Minor).ok_or("must be \"latest\" or \"v1.x\"")
    }
}

impl Rule {
    /// By default nothing is forbidden.
    fn of(level: Option<Level>, version: Option<Version>) -> Self {
        Self { level: level.unwrap_or(Level::Privileged), version: version.unwrap_or(Version::Latest) }
    }

    /// Whether pods that the other rule allowed may break this one.
    pub(super) fn is_stricter_than(self, other: Self) -> bool {
        self != other && self.level != Level::Privileged && (self.version != other.version || self.level > other.level)
    }
}

impl Policy {
    /// Reads the labels. Of one that says nothing known the error is told; what is meant then is the strictest level to
    /// enforce, none to warn of, and the latest version.
    pub(super) fn read<'a>(label: impl Fn(&str) -> Option<&'a str>) -> (Self, Vec<FieldError>) {
        let mut errors = Vec::new();
        let mut rule = |[level, version]: [&'static str; 2], unknown: Level| {
            let (of_level, of_version) = (label(level), label(version));
            let known = of_level.is_none_or(|text| Level::parse(text).is_ok());
            (
                of_level.map(|text| meant(level, text, Level::parse, unknown, &mut errors)),
                of_version.map(|text| meant(version, text, Version::parse, Version::Latest, &mut errors)),
                known,
            )
        };
        let (enforced, enforced_as_of, known) = rule(ENFORCE, Level::Restricted);
        // There is no log for what is audited.
        rule(AUDIT, Level::Privileged);
        let (warned, warned_as_of, _) = rule(WARN, Level::Privileged);

        let enforce = Rule::of(enforced, enforced_as_of);
        // Who enforces warns of as much, where nothing else is said: of templates, for one.
        let warn = match warned {
            None if known && enforce.level != Level::Privileged => Rule::of(enforced, warned_as_of.or(enforced_as_of)),
            _ => Rule::of(warned, warned_as_of),
        };
        (Self { enforce, warn }, errors)
    }
}

/// What a label's text says.
fn meant<T>(
    label: &str,
    text: &str,
    parse: fn(&str) -> Result<T, &'static str>,
    unknown: T,
    errors: &mut Vec<FieldError>,
) -> T {
    parse(text).unwrap_or_else(|why| {
        errors.push(FieldError::invalid(format!("metadata.labels[{label}]"), text, why));
        unknown
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(labels: &[(&str, &str)]) -> (String, String, Vec<String>) {
        let find = |name: &str| labels.iter().find(|(label, _)| format!("pod-security.kubernetes.io/{label}") == name);
        let (policy, errors) = Policy::read(|name| find(name).map(|(_, text)| *text));
        (policy.enforce.to_string(), policy.warn.to_string(), errors.iter().map(ToString::to_string).collect())
    }

    /// Contract: API-40
    #[test]
    fn labels_say_what_is_enforced_and_warned_of() {
        let none = "privileged:latest";
        for (labels, enforce, warn) in [
            (&[][..], none, none),
            (&[("enforce", "baseline")], "baseline:latest", "baseline:latest"),
            (&[("enforce", "baseline"), ("enforce-version", "v1.20")], "baseline:v1.20", "baseline:v1.20"),
            (&[("enforce", "baseline"), ("warn", "privileged")], "baseline:latest", none),
            (
                &[("enforce", "baseline"), ("enforce-version", "v1.0"), ("warn-version", "v1.9")],
                "baseline:v1.0",
                "baseline:v1.9",
            ),
            (&[("enforce", "privileged"), ("enforce-version", "v1.3")], "privileged:v1.3", none),
            (&[("warn", "restricted"), ("enforce-version", "v1.3")], "privileged:v1.3", "restricted:latest"),
            (&[("audit", "restricted"), ("audit-version", "v1.3")], none, none),
        ] {
            assert_eq!(read(labels), (enforce.to_owned(), warn.to_owned(), Vec::new()), "{labels:?}");
        }
    }

    /// Contract: API-40
    #[test]
    fn what_says_nothing_known_is_enforced_as_the_strictest_and_warned_of_as_none() {
        let wrong = [
            ("enforce", "Baseline"),
            ("enforce-version", "1.20"),
            ("audit", ""),
            ("audit-version", "v1.01"),
            ("warn", "no"),
            ("warn-version", "v1.99999999999999999999"),
        ];
        let (enforce, warn, errors) = read(&wrong);
        assert_eq!((enforce.as_str(), warn.as_str()), ("restricted:latest", "privileged:latest"));
        let of = |label: &str, text: &str, why: &str| {
            format!("metadata.labels[pod-security.kubernetes.io/{label}]: Invalid value: \"{text}\": {why}")
        };
        let (levels, versions) = ("must be one of privileged, baseline, restricted", "must be \"latest\" or \"v1.x\"");
        let expected =
            wrong.map(|(label, text)| of(label, text, if label.ends_with("version") { versions } else { levels }));
        assert_eq!(errors, expected);
        // What cannot be read is no reason to warn.
        assert_eq!(read(&[("enforce", "Baseline")]).1, "privileged:latest");
    }

    /// Contract: API-40
    #[test]
    fn pods_are_looked_at_again_only_where_more_is_forbidden() {
        let rule = |level, version| Rule { level, version };
        let (old, new) = (Version::Minor(20), Version::Latest);
        for (before, after, stricter) in [
            (rule(Level::Baseline, new), rule(Level::Baseline, new), false),
            (rule(Level::Baseline, new), rule(Level::Restricted, new), true),
            (rule(Level::Restricted, new), rule(Level::Baseline, new), false),
            (rule(Level::Restricted, new), rule(Level::Baseline, old), true),
            (rule(Level::Restricted, new), rule(Level::Privileged, old), false),
        ] {
            assert_eq!(after.is_stricter_than(before), stricter, "{before} to {after}");
        }
    }
}
