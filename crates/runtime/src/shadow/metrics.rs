//! How often the shadow agreed and how often not, for Prometheus.

use muster_inspect::shadow::Record;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::{counter::Counter, family::Family};
use prometheus_client::registry::Registry;

/// The counters. Cloning shares them.
#[derive(Clone, Default)]
pub(super) struct ShadowMetrics {
    agreements: Family<Agreed, Counter>,
    differences: Family<Differed, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Agreed {
    kind: String,
    action: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Differed {
    kind: String,
    action: String,
    /// Empty where no row of the contract says why.
    row: String,
}

impl ShadowMetrics {
    /// Makes them known.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "muster_shadow_agreements",
            "What the cluster's own controllers did as this process would have done it",
            self.agreements.clone(),
        );
        registry.register(
            "muster_shadow_differences",
            "What they did otherwise, or not at all; row is the row of the contract that says why, where one does",
            self.differences.clone(),
        );
    }

    /// Counts a record in.
    pub(super) fn count(&self, record: &Record) {
        match record {
            Record::Agreement(agreement) => {
                let label = Agreed { kind: agreement.subject.kind.clone(), action: agreement.action.clone() };
                self.agreements.get_or_create(&label).inc();
            }
            Record::Difference(difference) => {
                let label = Differed {
                    kind: difference.subject.kind.clone(),
                    action: difference.action.clone(),
                    row: difference.row.clone().unwrap_or_default(),
                };
                self.differences.get_or_create(&label).inc();
            }
            Record::Start(_) | Record::Plan(_) | Record::Other(_) | Record::Summary(_) => {}
        }
    }
}
