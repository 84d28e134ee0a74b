//! Requests for each piece of work, in a table beside what kube-controller-manager sends for the like.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::requests::{PURPOSES, Purpose, Tally};

/// Requests for one piece of work: a mean over all that were measured.
#[derive(Debug, Clone, Serialize)]
pub(super) struct RequestCounts {
    /// All of them.
    pub(super) total: f64,
    /// Of these, the ones that met a conflict.
    pub(super) conflicts: f64,
    /// All of them, by what they were for.
    pub(super) by_purpose: BTreeMap<&'static str, f64>,
    /// The ones that met a conflict, likewise.
    pub(super) conflicts_by_purpose: BTreeMap<&'static str, f64>,
}

impl RequestCounts {
    /// The mean of a tally over so many pieces of work.
    pub(super) fn of(tally: &Tally, pieces: u64) -> Self {
        let mean = |count: u64| count as f64 / pieces as f64;
        let named = |counts: &BTreeMap<Purpose, u64>| -> BTreeMap<&'static str, f64> {
            let named = PURPOSES.iter().filter_map(|(purpose, name)| Some((*name, mean(*counts.get(purpose)?))));
            named.collect()
        };
        Self {
            total: mean(tally.total()),
            conflicts: mean(tally.conflicts.values().sum()),
            by_purpose: named(&tally.purposes),
            conflicts_by_purpose: named(&tally.conflicts),
        }
    }

    /// All purposes in one line: `10 pods created, 3.2 events`.
    pub(super) fn line(&self) -> String {
        line(&self.by_purpose)
    }

    /// The same of those that met a conflict; empty where none did.
    pub(super) fn conflicts_line(&self) -> String {
        line(&self.conflicts_by_purpose)
    }
}

/// What kube-controller-manager v1.36 was seen to send for a like piece of work.
#[derive(Debug)]
pub(super) struct Reference {
    /// By purpose, as far as it was told apart.
    by_purpose: &'static [(Purpose, u32)],
    total: u32,
    /// The share that met a conflict, where it was counted.
    conflicts: Option<&'static str>,
}

/// A rollout of 10 pods to a new image.
pub(super) const ROLLOUT_OF_10: Reference = Reference {
    by_purpose: &[
        (Purpose::PodCreate, 10),
        (Purpose::PodDelete, 10),
        (Purpose::Event, 27),
        (Purpose::ReplicaSetCreate, 1),
        (Purpose::ReplicaSetPatch, 6),
        (Purpose::ReplicaSetStatus, 13),
        (Purpose::DeploymentStatus, 14),
    ],
    total: 82,
    conflicts: Some("3%"),
};

/// A Deployment of 10 pods from nothing.
pub(super) const DEPLOYMENT_OF_10: Reference = Reference { by_purpose: &[], total: 33, conflicts: None };

/// A ReplicaSet of 1,000 pods from nothing.
pub(super) const REPLICASET_OF_1000: Reference = Reference {
    by_purpose: &[(Purpose::PodCreate, 1000), (Purpose::ReplicaSetStatus, 138)],
    total: 1163,
    conflicts: None,
};

/// One column of a table.
pub(super) enum Column<'a> {
    /// What was measured.
    Measured(&'a str, &'a RequestCounts),
    /// What it is held against.
    Against(&'a str, &'a Reference),
}

impl Column<'_> {
    fn title(&self) -> &str {
        match self {
            Self::Measured(title, _) | Self::Against(title, _) => title,
        }
    }

    /// What stands beside a purpose; nothing where there was none, or nobody told.
    fn cell(&self, purpose: Purpose, name: &str) -> String {
        match self {
            Self::Measured(_, counts) => counts.by_purpose.get(name).copied().map(number),
            Self::Against(_, reference) => {
                reference.by_purpose.iter().find(|(of, _)| *of == purpose).map(|(_, count)| count.to_string())
            }
        }
        .unwrap_or_default()
    }

    fn total(&self) -> String {
        match self {
            Self::Measured(_, counts) => number(counts.total),
            Self::Against(_, reference) => reference.total.to_string(),
        }
    }

    fn conflicts(&self) -> String {
        match self {
            Self::Measured(_, counts) if counts.total > 0.0 => {
                format!("{}%", number(100.0 * counts.conflicts / counts.total))
            }
            Self::Measured(..) => String::new(),
            Self::Against(_, reference) => reference.conflicts.unwrap_or_default().to_owned(),
        }
    }
}

/// The table of these columns; purposes that no column has are left out.
pub(super) fn table(title: &str, columns: &[Column<'_>]) -> String {
    let width = columns.iter().map(|column| column.title().len()).max().unwrap_or(0).max(10) + 2;
    let mut text = format!("{title:24}");
    for column in columns {
        let _ = write!(text, "{:>width$}", column.title());
    }
    let mut row = |name: &str, cells: Vec<String>| {
        if cells.iter().any(|cell| !cell.is_empty()) {
            let _ = write!(text, "\n  {name:22}");
            for cell in cells {
                let _ = write!(text, "{cell:>width$}");
            }
        }
    };
    for (purpose, name) in PURPOSES {
        row(name, columns.iter().map(|column| column.cell(purpose, name)).collect());
    }
    row("all", columns.iter().map(Column::total).collect());
    row("met a conflict", columns.iter().map(Column::conflicts).collect());
    text
}

fn line(counts: &BTreeMap<&'static str, f64>) -> String {
    let named = PURPOSES.iter().filter_map(|(_, name)| Some((name, counts.get(name)?)));
    // What happened once in a hundred times is no part of the mean.
    let told = named.filter(|(_, count)| **count >= 0.05);
    told.map(|(name, count)| format!("{} {name}", number(*count))).collect::<Vec<_>>().join(", ")
}

/// A mean with one decimal, or none where it is whole.
fn number(value: f64) -> String {
    if (value - value.round()).abs() < 0.05 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_reference_are_no_more_than_the_whole() {
        for reference in [&ROLLOUT_OF_10, &DEPLOYMENT_OF_10, &REPLICASET_OF_1000] {
            let told: u32 = reference.by_purpose.iter().map(|(_, count)| count).sum();
            assert!(told <= reference.total, "{reference:?}");
        }
    }

    #[test]
    fn a_table_shows_means_beside_the_reference() {
        let tally = Tally {
            purposes: [(Purpose::PodCreate, 20), (Purpose::Event, 5)].into(),
            conflicts: [(Purpose::PodCreate, 1)].into(),
        };
        let counts = RequestCounts::of(&tally, 2);
        assert_eq!(counts.line(), "10 pods created, 2.5 events");
        assert_eq!(counts.conflicts_line(), "0.5 pods created");
        let table =
            table("requests", &[Column::Measured("here", &counts), Column::Against("reference", &ROLLOUT_OF_10)]);
        let lines: Vec<String> =
            table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[0], "requests here reference");
        for line in
            ["pods created 10 10", "events 2.5 27", "Deployment statuses 14", "all 12.5 82", "met a conflict 4% 3%"]
        {
            assert!(lines.iter().any(|found| found == line), "no line {line:?} in:\n{table}");
        }
        assert!(!table.contains("pods bound"), "{table}");
    }
}
