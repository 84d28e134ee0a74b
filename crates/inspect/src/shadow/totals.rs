//! Totals: agreements and differences, by kind and action.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::record::Record;

/// The counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// How many owners were looked at, by kind.
    #[serde(default)]
    pub objects: BTreeMap<String, u64>,
    /// By kind of owner and by action.
    #[serde(default)]
    pub kinds: BTreeMap<String, BTreeMap<String, Counts>>,
}

/// The counts of one action for one kind of owner.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Intended here as well.
    #[serde(default)]
    pub agreed: u64,
    /// Different by this row of the contract.
    #[serde(default)]
    pub by_row: BTreeMap<String, u64>,
    /// Different, and no row says so.
    #[serde(default)]
    pub unexplained: u64,
    /// Not judged.
    #[serde(default)]
    pub others: u64,
}

impl Counts {
    /// How often the two differed, with a row or without.
    #[must_use]
    pub fn differed(&self) -> u64 {
        self.by_row.values().sum::<u64>() + self.unexplained
    }
}

impl Totals {
    /// Counts a record; plans and summaries are not counted.
    pub fn add(&mut self, record: &Record) {
        match record {
            Record::Agreement(agreement) => self.of(&agreement.subject.kind, &agreement.action).agreed += 1,
            Record::Other(other) => self.of(&other.subject.kind, &other.action).others += 1,
            Record::Difference(difference) => {
                let counts = self.of(&difference.subject.kind, &difference.action);
                match &difference.row {
                    Some(row) => *counts.by_row.entry(row.clone()).or_default() += 1,
                    None => counts.unexplained += 1,
                }
            }
            Record::Start(_) | Record::Plan(_) | Record::Summary(_) => {}
        }
    }

    /// The sum over all kinds and actions.
    #[must_use]
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        for counts in self.kinds.values().flat_map(BTreeMap::values) {
            total.agreed += counts.agreed;
            total.unexplained += counts.unexplained;
            total.others += counts.others;
            for (row, count) in &counts.by_row {
                *total.by_row.entry(row.clone()).or_default() += count;
            }
        }
        total
    }

    fn of(&mut self, kind: &str, action: &str) -> &mut Counts {
        self.kinds.entry(kind.to_owned()).or_default().entry(action.to_owned()).or_default()
    }
}
