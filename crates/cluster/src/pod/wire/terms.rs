//! What a pod asks of other pods, out of its JSON.

use muster_objects::{Interner, LabelSelector, Selector};
use serde::Deserialize;

use super::WireSpec;
use crate::json::{Text, list};
use crate::pod::{PodTerm, PodTerms, Spread};

#[derive(Deserialize)]
pub(super) struct WirePodAffinity<'a> {
    #[serde(borrow, default, rename = "requiredDuringSchedulingIgnoredDuringExecution", deserialize_with = "list")]
    required: Vec<WirePodTerm<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WirePodTerm<'a> {
    label_selector: Option<LabelSelector>,
    namespace_selector: Option<LabelSelector>,
    #[serde(borrow, default, deserialize_with = "list")]
    namespaces: Vec<Text<'a>>,
    #[serde(borrow, default)]
    topology_key: Text<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireSpread<'a> {
    label_selector: Option<LabelSelector>,
    #[serde(borrow, default)]
    topology_key: Text<'a>,
    max_skew: Option<i64>,
    min_domains: Option<i64>,
    #[serde(borrow, default)]
    when_unsatisfiable: Text<'a>,
    #[serde(borrow)]
    node_affinity_policy: Option<Text<'a>>,
    #[serde(borrow)]
    node_taints_policy: Option<Text<'a>>,
}

/// What must be so; none for most pods.
pub(super) fn terms(spec: &WireSpec<'_>, interner: &mut Interner) -> Option<PodTerms> {
    let affinity = spec.affinity.as_ref();
    let mut read = |wire: Option<&WirePodAffinity<'_>>| -> Box<[PodTerm]> {
        wire.into_iter().flat_map(|wire| &wire.required).map(|term| term.read(interner)).collect()
    };
    let (affine, apart) = (
        read(affinity.and_then(|affinity| affinity.pod_affinity.as_ref())),
        read(affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref())),
    );
    let hard = spec.topology_spread_constraints.iter().filter(|spread| &*spread.when_unsatisfiable == "DoNotSchedule");
    let terms =
        PodTerms { affinity: affine, anti_affinity: apart, spread: hard.map(|spread| spread.read(interner)).collect() };
    (!terms.is_empty()).then_some(terms)
}

/// An absent selector is of no pod, and so is one that no server would have taken.
fn selector(wire: Option<&LabelSelector>) -> Selector {
    wire.and_then(|wire| Selector::try_from(wire).ok()).unwrap_or_else(Selector::nothing)
}

impl WirePodTerm<'_> {
    fn read(&self, interner: &mut Interner) -> PodTerm {
        PodTerm {
            selector: selector(self.label_selector.as_ref()),
            namespaces: self.namespaces.iter().map(|name| interner.text(name)).collect(),
            namespace_selector: self.namespace_selector.as_ref().map(|wire| selector(Some(wire))),
            topology_key: interner.text(&self.topology_key),
        }
    }
}

impl WireSpread<'_> {
    fn read(&self, interner: &mut Interner) -> Spread {
        Spread {
            selector: selector(self.label_selector.as_ref()),
            topology_key: interner.text(&self.topology_key),
            max_skew: self.max_skew.unwrap_or_default(),
            min_domains: self.min_domains.map_or(1, |domains| usize::try_from(domains).unwrap_or_default()),
            honors_affinity: self.node_affinity_policy.as_deref() != Some("Ignore"),
            honors_taints: self.node_taints_policy.as_deref() == Some("Honor"),
        }
    }
}
