//! What a pod asks of the pods that nodes have already, as far as it must be so: affinity, anti-affinity and spread.

use std::sync::Arc;

use muster_objects::{Labels, Selector};

/// What a pod asks of other pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodTerms {
    /// Of each of these there must be a pod in the node's domain.
    pub affinity: Box<[PodTerm]>,
    /// Of none of these there may be one, neither when it comes nor, of pods that come later, while it is there.
    pub anti_affinity: Box<[PodTerm]>,
    /// How evenly pods must be spread over domains.
    pub spread: Box<[Spread]>,
}

/// Which pods, and how near.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodTerm {
    /// Pods with such labels; an absent selector is of no pod.
    pub selector: Selector,
    /// In these namespaces.
    pub namespaces: Box<[Arc<str>]>,
    /// And in those with such labels. With neither, it is the namespace of the pod that asks.
    pub namespace_selector: Option<Selector>,
    /// Nodes with the same value of this label are one domain.
    pub topology_key: Arc<str>,
}

/// How evenly pods must be spread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// Of pods with such labels in the pod's own namespace.
    pub selector: Selector,
    /// Nodes with the same value of this label are one domain.
    pub topology_key: Arc<str>,
    /// How many more of them a domain may have than the one that has the fewest.
    pub max_skew: i64,
    /// Where there are fewer domains than that, one without any pod counts as well.
    pub min_domains: usize,
    /// Whether nodes count only that the pod's node selector and affinity allow.
    pub honors_affinity: bool,
    /// Whether nodes count only whose taints the pod tolerates.
    pub honors_taints: bool,
}

impl PodTerms {
    /// Whether it asks for nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.affinity.is_empty() && self.anti_affinity.is_empty() && self.spread.is_empty()
    }
}

impl PodTerm {
    /// Whether it is about pods with these labels in a namespace with those, where a pod of the namespace `of` asks.
    #[must_use]
    pub fn matches(&self, of: &str, (namespace, labels): (&str, &Labels), namespace_labels: &Labels) -> bool {
        let is_there = match &self.namespace_selector {
            None if self.namespaces.is_empty() => namespace == of,
            selector => {
                self.namespaces.iter().any(|named| **named == *namespace)
                    || selector.as_ref().is_some_and(|selector| selector.matches(namespace_labels))
            }
        };
        is_there && self.selector.matches(labels)
    }
}
