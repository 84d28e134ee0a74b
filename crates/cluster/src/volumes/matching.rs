//! Which volume a claim gets: the one that is kept for it, else the smallest that does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_machinery::Cache;
use muster_objects::Labels;

use super::objects::{Claim, Volume, bound_to, free};
use crate::control::Slim;

/// A node for which a volume is wanted.
#[derive(Clone, Copy)]
pub(crate) struct Near<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Its labels.
    pub(crate) labels: &'a Labels,
}

impl Near<'_> {
    /// Whether the node reaches a volume.
    pub(crate) fn reaches(self, volume: &Volume) -> bool {
        let terms = volume.nodes.as_ref();
        terms.is_none_or(|terms| terms.iter().any(|term| term.matches(self.name, self.labels)))
    }
}

/// The volume for a claim. Where its binding is delayed, only one that is kept for it.
///
/// Volumes with fewer access modes are preferred, then smaller ones, then those whose name comes first.
pub(super) fn find(claim: &Slim<Claim>, volumes: &Cache<Slim<Volume>>, delayed: bool) -> Option<Arc<Slim<Volume>>> {
    type Modes<'a> = (usize, BTreeSet<&'a str>);
    let mut by_modes: BTreeMap<Modes<'_>, Vec<&Arc<Slim<Volume>>>> = BTreeMap::new();
    for volume in candidates(claim, volumes) {
        let modes: BTreeSet<&str> = volume.body.access_modes.iter().map(String::as_str).collect();
        if claim.body.access_modes.iter().all(|mode| modes.contains(mode.as_str())) {
            by_modes.entry((modes.len(), modes)).or_default().push(volume);
        }
    }
    by_modes.into_values().find_map(|volumes| best(claim, &volumes, None, delayed).cloned())
}

/// The volume for a claim on a node, of those that are not `taken` for another claim of the same pod.
pub(crate) fn find_for_node(
    claim: &Slim<Claim>,
    volumes: &Cache<Slim<Volume>>,
    node: Near<'_>,
    taken: &BTreeSet<Arc<str>>,
) -> Option<Arc<Slim<Volume>>> {
    let open: Vec<&Arc<Slim<Volume>>> =
        candidates(claim, volumes).into_iter().filter(|volume| !taken.contains(&volume.meta.name)).collect();
    best(claim, &open, Some(node), true).cloned()
}

/// The volumes that are free or kept for the claim, sorted by name.
fn candidates<'c>(claim: &Slim<Claim>, volumes: &'c Cache<Slim<Volume>>) -> Vec<&'c Arc<Slim<Volume>>> {
    let mut candidates: Vec<_> = free(volumes).chain(bound_to(volumes, &claim.meta.key())).collect();
    candidates.sort_unstable_by(|a, b| a.meta.name.cmp(&b.meta.name));
    candidates
}

fn best<'c>(
    claim: &Slim<Claim>,
    volumes: &[&'c Arc<Slim<Volume>>],
    node: Option<Near<'_>>,
    delayed: bool,
) -> Option<&'c Arc<Slim<Volume>>> {
    let wanted = &claim.body;
    let mut smallest: Option<&Arc<Slim<Volume>>> = None;
    for volume in volumes {
        let own = &volume.body;
        let fits = (own.claim.is_none() || own.is_for(claim))
            && own.size.compare(&wanted.request).is_ge()
            && own.mode == wanted.mode
            && own.attributes == wanted.attributes
            && !volume.meta.is_being_deleted();
        if !fits {
            continue;
        }
        let reached = node.is_none_or(|node| node.reaches(own));
        if own.is_for(claim) {
            // It is this one or none.
            return reached.then_some(*volume);
        }
        let open = (node.is_some() || !delayed)
            && own.status.phase == "Available"
            && wanted.selector.as_ref().is_none_or(|selector| selector.matches(&volume.meta.labels))
            && own.class == wanted.class()
            && reached
            && (node.is_none() || wanted.access_modes.iter().all(|mode| own.access_modes.contains(mode)));
        if open && smallest.is_none_or(|smallest| own.size.compare(&smallest.body.size).is_lt()) {
            smallest = Some(volume);
        }
    }
    smallest
}

/// Why a volume that a claim asks for by name cannot be its volume, in upstream's words.
pub(super) fn mismatch(claim: &Slim<Claim>, volume: &Slim<Volume>) -> Option<String> {
    let (wanted, own) = (&claim.body, &volume.body);
    let why = if volume.meta.is_being_deleted() {
        return Some(format!("the volume is marked for deletion {:?}", &*volume.meta.name));
    } else if own.size.value() < wanted.request.value() {
        "requested PV is too small"
    } else if own.class != wanted.class() {
        "storageClassName does not match"
    } else if own.attributes != wanted.attributes {
        "volumeAttributesClassName does not match"
    } else if own.mode != wanted.mode {
        "incompatible volumeMode"
    } else if !wanted.access_modes.iter().all(|mode| own.access_modes.contains(mode)) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(why.to_owned())
}
