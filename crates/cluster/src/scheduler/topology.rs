//! What pods that have a node mean for one that has none: its affinity, anti-affinity and spread, and their anti-affinity, as far as
//! they must be heeded.
//!
//! Pods are counted by what they are alike in, which is all that is asked about them: those of one ReplicaSet are one row, with a
//! number for each node. A pod that asks nothing is compared with the rows that ask for distance only, mostly none.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use muster_objects::Labels;

use super::fit::{Misfit, NodeInfo};
use crate::json::FixedMap;
use crate::pod::{Pod, PodTerm, PodTerms, Spread};

/// What pods are alike in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Likeness {
    namespace: Arc<str>,
    labels: Labels,
    /// Of those that want others to keep away; none for all others.
    terms: Option<Arc<PodTerms>>,
}

impl Hash for Likeness {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Those that differ in their terms only are few.
        (&self.namespace, &self.labels).hash(state);
    }
}

impl Likeness {
    fn of(pod: &Pod) -> Self {
        let terms = pod.extras().terms.as_ref().filter(|terms| !terms.anti_affinity.is_empty());
        let (namespace, labels) = (Arc::clone(&pod.meta.namespace), pod.meta.labels.clone());
        Self { namespace, labels, terms: terms.cloned() }
    }

    /// Whether the pod is like that still.
    pub(super) fn is_of(&self, pod: &Pod) -> bool {
        // All the rest of it cannot change.
        self.labels == pod.meta.labels
    }
}

/// How many pods of a kind each node has.
type Row = BTreeMap<Arc<str>, Count>;

#[derive(Debug, Default)]
struct Count {
    all: i64,
    /// Of those, how many are being deleted.
    leaving: i64,
}

/// The pods that nodes have, and the labels of namespaces.
#[derive(Debug, Default)]
pub(super) struct Topology {
    rows: FixedMap<Arc<Likeness>, Row>,
    /// Of pods that want others to keep away.
    guarded: FixedMap<Arc<Likeness>, Row>,
    namespaces: FixedMap<Arc<str>, Labels>,
}

/// Domains: labels of nodes, with their values.
type Domains<'t> = BTreeSet<(&'t str, &'t str)>;

impl Topology {
    /// A namespace has these labels now. Whether it had others.
    pub(super) fn namespace_changed(&mut self, name: &Arc<str>, labels: &Labels) -> bool {
        self.namespaces.insert(Arc::clone(name), labels.clone()).is_none_or(|before| before != *labels)
    }

    /// A namespace is gone.
    pub(super) fn namespace_deleted(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// Counts a pod, which has this node now.
    pub(super) fn add(&mut self, node: &Arc<str>, pod: &Pod) -> Arc<Likeness> {
        let alike = Likeness::of(pod);
        let rows = self.rows_of(&alike);
        let alike = rows.get_key_value(&alike).map_or_else(|| Arc::new(alike), |(known, _)| Arc::clone(known));
        let count = rows.entry(Arc::clone(&alike)).or_default().entry(Arc::clone(node)).or_default();
        count.all += 1;
        count.leaving += i64::from(pod.meta.is_being_deleted());
        alike
    }

    /// Counts a pod no more.
    pub(super) fn remove(&mut self, node: &str, alike: &Arc<Likeness>, was_leaving: bool) {
        let rows = self.rows_of(alike);
        let Some(row) = rows.get_mut(alike) else { return };
        if let Some(count) = row.get_mut(node) {
            count.all -= 1;
            count.leaving -= i64::from(was_leaving);
            if count.all == 0 {
                row.remove(node);
            }
        }
        if row.is_empty() {
            rows.remove(alike);
        }
    }

    fn rows_of(&mut self, alike: &Likeness) -> &mut FixedMap<Arc<Likeness>, Row> {
        if alike.terms.is_some() { &mut self.guarded } else { &mut self.rows }
    }

    fn labels_of(&self, namespace: &str) -> &Labels {
        static NONE: Labels = Labels::EMPTY;
        self.namespaces.get(namespace).unwrap_or(&NONE)
    }

    /// Whether a pod that fits nowhere may fit with this one where it is: one of those that it wants to be with, or of those that it
    /// is spread with.
    pub(super) fn may_help(&self, waiting: &Pod, placed: &Pod) -> bool {
        let Some(terms) = waiting.extras().terms.as_deref() else { return false };
        let (of, at, labels) = (&waiting.meta.namespace, &placed.meta.namespace, &placed.meta.labels);
        let is_meant = |term: &PodTerm| term.matches(of, (at, labels), self.labels_of(at));
        !terms.affinity.is_empty() && terms.affinity.iter().all(is_meant)
            || of == at && terms.spread.iter().any(|spread| spread.selector.matches(labels))
    }

    /// What this pod has to heed on these nodes; none where it asks for nothing and nobody wants it to keep away.
    pub(super) fn around<'t>(&'t self, pod: &'t Pod, nodes: &'t BTreeMap<Arc<str>, NodeInfo>) -> Option<Around<'t>> {
        let (namespace, labels) = (&*pod.meta.namespace, &pod.meta.labels);
        let domains = |rows: &mut dyn Iterator<Item = &'t Row>, key: &'t str| -> Domains<'t> {
            let on = rows.flat_map(Row::keys).filter_map(|node| nodes.get(node));
            on.filter_map(|info| Some((key, info.node.meta.labels.get(key)?))).collect()
        };
        let mut forbidden = Domains::new();
        for (guard, row) in &self.guarded {
            for term in guard.terms.iter().flat_map(|terms| &terms.anti_affinity) {
                if term.matches(&guard.namespace, (namespace, labels), self.labels_of(namespace)) {
                    forbidden.extend(domains(&mut std::iter::once(row), &term.topology_key));
                }
            }
        }
        let Some(terms) = pod.extras().terms.as_deref() else {
            return (!forbidden.is_empty()).then(|| Around { forbidden, ..Around::default() });
        };
        let rows = || self.rows.iter().chain(&self.guarded);
        let is_meant = |term: &PodTerm, alike: &Likeness| {
            term.matches(namespace, (&alike.namespace, &alike.labels), self.labels_of(&alike.namespace))
        };
        let is_itself = |term: &PodTerm| term.matches(namespace, (namespace, labels), self.labels_of(namespace));
        let affine = |alike: &Likeness| terms.affinity.iter().all(|term| is_meant(term, alike));
        let mut near = Domains::new();
        for term in &terms.affinity {
            let mut rows = rows().filter(|(alike, _)| affine(alike)).map(|(_, row)| row);
            near.extend(domains(&mut rows, &term.topology_key));
        }
        let mut apart = Domains::new();
        for term in &terms.anti_affinity {
            let mut rows = rows().filter(|(alike, _)| is_meant(term, alike)).map(|(_, row)| row);
            apart.extend(domains(&mut rows, &term.topology_key));
        }
        let spread = terms.spread.iter().map(|spread| {
            let alike = |alike: &Likeness| *alike.namespace == *namespace && spread.selector.matches(&alike.labels);
            // As upstream has it: pods of a selector that is of every pod are not counted.
            let rows = rows().filter(|(other, _)| !spread.selector.is_everything() && alike(other));
            Spreading::of(spread, pod, &terms.spread, nodes, rows.map(|(_, row)| row))
        });
        let spread = spread.collect();
        // The first of several that want to be together has none to be with.
        let is_first = near.is_empty() && terms.affinity.iter().all(is_itself);
        Some(Around { affinity: &terms.affinity, is_first, near, apart, forbidden, spread })
    }
}

/// What a pod has to heed of what is on the nodes.
#[derive(Debug, Default)]
pub(super) struct Around<'t> {
    affinity: &'t [PodTerm],
    /// Whether it is the first of those that it wants to be with.
    is_first: bool,
    /// Where those are that it wants to be with.
    near: Domains<'t>,
    /// Where those are that it wants to keep away from.
    apart: Domains<'t>,
    /// Where those are that want it to keep away.
    forbidden: Domains<'t>,
    spread: Vec<Spreading<'t>>,
}

/// A constraint, and how many pods each domain has that it is about.
#[derive(Debug)]
struct Spreading<'t> {
    spread: &'t Spread,
    counts: BTreeMap<&'t str, i64>,
    /// The fewest.
    least: i64,
    /// Whether the pod itself counts.
    itself: bool,
}

impl<'t> Spreading<'t> {
    fn of(
        spread: &'t Spread,
        pod: &Pod,
        all: &[Spread],
        nodes: &'t BTreeMap<Arc<str>, NodeInfo>,
        rows: impl Iterator<Item = &'t Row>,
    ) -> Self {
        let counts_in = |info: &&'t NodeInfo| {
            let labels = &info.node.meta.labels;
            all.iter().all(|other| labels.get(&other.topology_key).is_some())
                && (!spread.honors_affinity || info.is_wanted_by(&pod.spec))
                && (!spread.honors_taints || info.is_tolerated_by(&pod.spec))
        };
        let domain = |info: &'t NodeInfo| info.node.meta.labels.get(&spread.topology_key);
        let domains = nodes.values().filter(counts_in).filter_map(domain);
        let mut counts: BTreeMap<&str, i64> = domains.map(|domain| (domain, 0)).collect();
        for (node, count) in rows.flatten() {
            let domain = nodes.get(node).filter(counts_in).and_then(domain);
            if let Some(counted) = domain.and_then(|domain| counts.get_mut(domain)) {
                *counted += count.all - count.leaving;
            }
        }
        let least = if counts.len() < spread.min_domains { None } else { counts.values().min() };
        let (least, itself) = (least.copied().unwrap_or_default(), spread.selector.matches(&pod.meta.labels));
        Self { spread, counts, least, itself }
    }
}

impl Around<'_> {
    /// Whether the pod may be on this node, asked in the order in which a real scheduler asks.
    pub(super) fn fit(&self, info: &NodeInfo) -> Result<(), Misfit> {
        let value = |key: &str| info.node.meta.labels.get(key);
        for Spreading { spread, counts, least, itself } in &self.spread {
            let Some(domain) = value(&spread.topology_key) else {
                return Err(Misfit::never(
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                ));
            };
            let there = counts.get(domain).copied().unwrap_or_default() + i64::from(*itself);
            if there - least > spread.max_skew {
                return Err(Misfit::now("node(s) didn't match pod topology spread constraints"));
            }
        }
        let is_near = |term: &PodTerm| {
            let domain = value(&term.topology_key);
            domain.is_some_and(|domain| self.is_first || self.near.contains(&(&*term.topology_key, domain)))
        };
        if !self.affinity.iter().all(is_near) {
            return Err(Misfit::never("node(s) didn't match pod affinity rules"));
        }
        let is_in = |domains: &Domains<'_>| {
            let labels = &info.node.meta.labels;
            !domains.is_empty() && labels.iter().any(|(key, value)| domains.contains(&(key, value)))
        };
        if is_in(&self.apart) {
            return Err(Misfit::now("node(s) didn't match pod anti-affinity rules"));
        }
        if is_in(&self.forbidden) {
            return Err(Misfit::now("node(s) didn't satisfy existing pods anti-affinity rules"));
        }
        Ok(())
    }
}
