//! The graph of owners and dependents, as the watches tell it (API-19).
//!
//! ```text
//!   changed / deleted --> Graph --> to_delete: uids to look at --> judge() --> Judgement
//!                           |
//!                           +-----> to_orphan: owners whose dependents lose their reference
//! ```
//!
//! A node is virtual while only references to it were seen: it must be looked up before anything is
//! concluded from its absence. What was found absent is remembered by its coordinates, so that a thousand
//! dependents of one lost owner cost one look-up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use muster_objects::{Meta, OwnerReference, ResourceVersion, Uid};

use crate::json::FixedMap;
use crate::metadata::Finalizers;

/// How many absent owners are remembered.
const REMEMBERED: usize = 500;

/// Everything by which an object is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// Group and version.
    pub api_version: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
    /// Namespace; empty for a kind that has none.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Uid.
    pub uid: Uid,
}

/// What the watch of one kind says of an object.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// Group and version of the kind.
    pub api_version: &'a Arc<str>,
    /// The kind.
    pub kind: &'a Arc<str>,
    /// The object's metadata.
    pub meta: &'a Meta,
    /// Its owner references.
    pub owners: &'a Arc<[OwnerReference]>,
    /// Its finalizers.
    pub finalizers: Finalizers,
}

impl Observed<'_> {
    fn identity(&self) -> Identity {
        Identity {
            api_version: Arc::clone(self.api_version),
            kind: Arc::clone(self.kind),
            namespace: Arc::clone(&self.meta.namespace),
            name: Arc::clone(&self.meta.name),
            uid: self.meta.uid.clone(),
        }
    }
}

/// The graph.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: FixedMap<Uid, Node>,
    absent: Absent,
    /// Objects to be judged, in the order in which it came up.
    pub(super) to_delete: VecDeque<Uid>,
    /// Owners whose dependents are to be orphaned.
    pub(super) to_orphan: VecDeque<Uid>,
    /// Dependents whose owner is in another namespace, and the owner as they say that it is.
    pub(super) misplaced: VecDeque<(Identity, Identity)>,
}

#[derive(Debug)]
struct Node {
    identity: Identity,
    version: ResourceVersion,
    owners: Arc<[OwnerReference]>,
    /// Ordered, so that what is done to many is done in an order that does not vary.
    dependents: BTreeSet<Uid>,
    /// Not seen by any watch yet.
    is_virtual: bool,
    being_deleted: bool,
    finalizers: Finalizers,
    /// It waits for its dependents to be deleted. Never taken back.
    deleting_dependents: bool,
    /// Its blocking dependents were all brought up once; those that come later bring themselves up.
    pressed: bool,
}

/// What is to be done about an object, as far as the graph can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// Nothing.
    Leave,
    /// It is known from references only: look it up.
    LookUp(Identity),
    /// Nothing blocks its foreground deletion any more: take the finalizer away.
    Finish(Identity),
    /// Its references have to be classified.
    Classify(Case),
}

/// An object whose owner references are to be classified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The object.
    pub identity: Identity,
    /// The version at which these were its references.
    pub version: ResourceVersion,
    /// The references, each with what the graph knows of the owner.
    pub owners: Vec<(OwnerReference, Owner)>,
    /// Its finalizers.
    pub finalizers: Finalizers,
    /// Whether anything refers to it.
    pub has_dependents: bool,
    /// Whether a dependent of it also waits for its dependents: a cycle, perhaps.
    pub in_cycle: bool,
}

/// What the graph knows of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// It exists.
    Solid,
    /// It exists, and waits for its dependents to be deleted.
    Waiting,
    /// It does not exist.
    Absent,
    /// It has to be looked up.
    Unknown,
}

impl Graph {
    /// An object was added or changed.
    pub fn changed(&mut self, observed: Observed<'_>) {
        let uid = &observed.meta.uid;
        let being_deleted = observed.meta.is_being_deleted();
        self.observe_virtual(observed);
        let Some(node) = self.nodes.get_mut(uid) else {
            let node = Node {
                identity: observed.identity(),
                version: observed.meta.resource_version,
                owners: Arc::clone(observed.owners),
                dependents: BTreeSet::new(),
                is_virtual: false,
                being_deleted,
                finalizers: observed.finalizers,
                deleting_dependents: being_deleted && observed.finalizers.foreground,
                pressed: false,
            };
            self.nodes.insert(uid.clone(), node);
            let owners = Arc::clone(observed.owners);
            self.add_to_owners(uid, &owners);
            self.transition(uid, Finalizers::default(), false);
            return;
        };
        node.version = observed.meta.resource_version;
        let (old_finalizers, was_deleted) = (node.finalizers, node.being_deleted);
        node.finalizers = observed.finalizers;
        node.being_deleted |= being_deleted;
        if node.owners != *observed.owners {
            let old = std::mem::replace(&mut node.owners, Arc::clone(observed.owners));
            self.rewire(uid, &old, observed.owners);
        }
        self.transition(uid, old_finalizers, was_deleted);
    }

    /// The watch says that an object is gone.
    pub fn deleted(&mut self, uid: &Uid) {
        let Some(node) = self.nodes.get(uid) else { return };
        if !node.dependents.is_empty() {
            self.absent.insert(node.identity.clone());
        }
        self.remove(uid);
    }

    /// A look-up found nothing under these coordinates.
    pub fn found_absent(&mut self, identity: &Identity) {
        let Some(node) = self.nodes.get(&identity.uid) else { return };
        if node.identity == *identity && !node.is_virtual {
            // The watch will say so too; that it has not yet is no reason to wait.
            self.deleted(&identity.uid);
            return;
        }
        let (matching, others): (Vec<Uid>, Vec<Uid>) =
            node.dependents.iter().cloned().partition(|dependent| self.refers_to(dependent, identity));
        if node.is_virtual && others.is_empty() {
            self.deleted(&identity.uid);
            return;
        }
        if !matching.is_empty() {
            self.absent.insert(identity.clone());
            self.to_delete.extend(matching);
        }
        if node.is_virtual && node.identity == *identity {
            // Those that refer to it by other coordinates may still be right.
            if let Some(other) = self.other_identity(&others, identity) {
                if let Some(node) = self.nodes.get_mut(&identity.uid) {
                    node.identity = other;
                }
                self.to_delete.push_back(identity.uid.clone());
            }
        }
    }

    /// Remembers that an owner does not exist.
    pub fn remember_absent(&mut self, identity: Identity) {
        self.absent.insert(identity);
    }

    /// What is to be done about an object that came up.
    pub fn judge(&mut self, uid: &Uid) -> Judgement {
        let Some(node) = self.nodes.get(uid) else { return Judgement::Leave };
        if node.is_virtual {
            return Judgement::LookUp(node.identity.clone());
        }
        if node.being_deleted && !node.deleting_dependents {
            return Judgement::Leave;
        }
        if node.deleting_dependents {
            // One that blocks is enough to wait. A thousand dependents bring their owner up a thousand times,
            // and must not each time all be looked at.
            if !node.dependents.iter().any(|dependent| self.blocks(dependent, uid)) {
                return Judgement::Finish(node.identity.clone());
            }
            if !node.pressed {
                let next = node.dependents.iter().filter(|d| self.blocks(d, uid));
                let next = next.filter(|d| self.nodes.get(*d).is_some_and(|n| !n.deleting_dependents));
                let next: Vec<Uid> = next.cloned().collect();
                self.to_delete.extend(next);
                if let Some(node) = self.nodes.get_mut(uid) {
                    node.pressed = true;
                }
            }
            return Judgement::Leave;
        }
        if node.owners.is_empty() {
            return Judgement::Leave;
        }
        let owners = node.owners.iter().map(|owner| (owner.clone(), self.owner(node, owner))).collect();
        let in_cycle = node.dependents.iter().any(|d| self.nodes.get(d).is_some_and(|n| n.deleting_dependents));
        Judgement::Classify(Case {
            identity: node.identity.clone(),
            version: node.version,
            owners,
            finalizers: node.finalizers,
            has_dependents: !node.dependents.is_empty(),
            in_cycle,
        })
    }

    /// The owner and its dependents, if it is to be orphaned of them.
    #[must_use]
    pub fn orphans(&self, uid: &Uid) -> Option<(Identity, Vec<Identity>)> {
        let node = self.nodes.get(uid)?;
        let dependents = node.dependents.iter().filter_map(|d| Some(self.nodes.get(d)?.identity.clone())).collect();
        Some((node.identity.clone(), dependents))
    }

    /// Whether the object is known from references only.
    #[must_use]
    pub fn is_virtual(&self, uid: &Uid) -> bool {
        self.nodes.get(uid).is_some_and(|node| node.is_virtual)
    }

    /// How many objects the graph has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A watch saw what only references were seen of: its true coordinates are known now.
    fn observe_virtual(&mut self, observed: Observed<'_>) {
        let uid = &observed.meta.uid;
        let Some(node) = self.nodes.get_mut(uid).filter(|node| node.is_virtual) else { return };
        node.is_virtual = false;
        node.deleting_dependents = observed.meta.is_being_deleted() && observed.finalizers.foreground;
        let identity = observed.identity();
        if node.identity != identity {
            node.identity = identity.clone();
            let dependents: Vec<Uid> = node.dependents.iter().cloned().collect();
            let doubtful = dependents.into_iter().filter(|dependent| !self.refers_only_to(dependent, &identity));
            let doubtful: Vec<Uid> = doubtful.collect();
            for dependent in &doubtful {
                self.check_namespace(dependent, uid);
            }
            self.to_delete.extend(doubtful);
        }
    }

    fn rewire(&mut self, uid: &Uid, old: &[OwnerReference], new: &[OwnerReference]) {
        let find = |references: &[OwnerReference], uid: &Uid| references.iter().rev().find(|r| r.uid == *uid).cloned();
        let blocks = |reference: &OwnerReference| reference.block_owner_deletion == Some(true);
        let mut added: Vec<OwnerReference> = Vec::new();
        for reference in new {
            match find(old, &reference.uid) {
                None => added.push(reference.clone()),
                // Another name or kind for the same uid is worth the same doubt as a new reference.
                Some(before) if before != *reference => {
                    if blocks(&before) && !blocks(reference) {
                        self.to_delete.push_back(reference.uid.clone());
                    }
                    if !same_coordinates(&before, reference) {
                        added.push(reference.clone());
                    }
                }
                Some(_) => {}
            }
        }
        for reference in old.iter().filter(|reference| find(new, &reference.uid).is_none()) {
            if blocks(reference) {
                self.to_delete.push_back(reference.uid.clone());
            }
            if let Some(owner) = self.nodes.get_mut(&reference.uid) {
                owner.dependents.remove(uid);
            }
        }
        self.add_to_owners(uid, &added);
    }

    fn add_to_owners(&mut self, uid: &Uid, owners: &[OwnerReference]) {
        let Some(dependent) = self.nodes.get(uid) else { return };
        let namespace = Arc::clone(&dependent.identity.namespace);
        let mut doubtful = false;
        for reference in owners {
            match self.nodes.get_mut(&reference.uid) {
                Some(owner) => {
                    owner.dependents.insert(uid.clone());
                    let owner_namespace = &owner.identity.namespace;
                    let elsewhere = !owner_namespace.is_empty() && *owner_namespace != namespace;
                    doubtful |= owner.deleting_dependents
                        || !names(reference, &owner.identity)
                        || elsewhere
                        || owner_namespace.is_empty() && !namespace.is_empty() && owner.is_virtual;
                    if elsewhere {
                        self.check_namespace(uid, &reference.uid);
                    }
                }
                None => {
                    let identity = coordinates(reference, &namespace);
                    let node = Node {
                        identity,
                        version: ResourceVersion::UNKNOWN,
                        owners: Arc::default(),
                        dependents: BTreeSet::from([uid.clone()]),
                        is_virtual: true,
                        being_deleted: false,
                        finalizers: Finalizers::default(),
                        deleting_dependents: false,
                        pressed: false,
                    };
                    self.nodes.insert(reference.uid.clone(), node);
                    self.to_delete.push_back(reference.uid.clone());
                }
            }
        }
        if doubtful {
            self.to_delete.push_back(uid.clone());
        }
    }

    /// Tells of a dependent whose owner a watch has seen in another namespace, where it can own nothing of this one.
    fn check_namespace(&mut self, dependent: &Uid, owner: &Uid) {
        let (Some(dependent), Some(owner)) = (self.nodes.get(dependent), self.nodes.get(owner)) else { return };
        let elsewhere =
            !owner.identity.namespace.is_empty() && owner.identity.namespace != dependent.identity.namespace;
        if owner.is_virtual || !elsewhere {
            return;
        }
        if let Some(reference) = dependent.owners.iter().find(|reference| reference.uid == owner.identity.uid) {
            let claimed = coordinates(reference, &dependent.identity.namespace);
            self.misplaced.push_back((dependent.identity.clone(), claimed));
        }
    }

    /// A deletion that began with one of the collector's finalizers.
    fn transition(&mut self, uid: &Uid, old: Finalizers, was_deleted: bool) {
        let Some(node) = self.nodes.get_mut(uid) else { return };
        if !node.being_deleted {
            return;
        }
        // Somebody may have asked for something else since it was last seen, and then for this again: what was begun has found the
        // finalizer gone then.
        if node.finalizers.orphan {
            self.to_orphan.push_back(uid.clone());
        } else if node.finalizers.foreground && !(was_deleted && old.foreground) {
            node.deleting_dependents = true;
            self.to_delete.extend(node.dependents.iter().cloned());
            self.to_delete.push_back(uid.clone());
        }
    }

    fn remove(&mut self, uid: &Uid) {
        let Some(node) = self.nodes.remove(uid) else { return };
        for reference in node.owners.iter() {
            if let Some(owner) = self.nodes.get_mut(&reference.uid) {
                owner.dependents.remove(uid);
                if owner.deleting_dependents {
                    self.to_delete.push_back(reference.uid.clone());
                }
            }
        }
        // Its dependents must be looked at, and their look leads back here: keep them connected.
        self.to_delete.extend(node.dependents);
    }

    fn owner(&self, dependent: &Node, reference: &OwnerReference) -> Owner {
        let namespace = &dependent.identity.namespace;
        if self.absent.contains(&coordinates(reference, "")) || self.absent.contains(&coordinates(reference, namespace))
        {
            return Owner::Absent;
        }
        match self.nodes.get(&reference.uid) {
            Some(owner) if !owner.is_virtual && names(reference, &owner.identity) => {
                if !owner.identity.namespace.is_empty() && owner.identity.namespace != *namespace {
                    Owner::Unknown
                } else if owner.deleting_dependents {
                    Owner::Waiting
                } else {
                    Owner::Solid
                }
            }
            _ => Owner::Unknown,
        }
    }

    /// Whether `dependent` blocks the foreground deletion of the owner.
    fn blocks(&self, dependent: &Uid, owner: &Uid) -> bool {
        self.nodes.get(dependent).is_some_and(|node| {
            node.owners.iter().any(|reference| reference.uid == *owner && reference.block_owner_deletion == Some(true))
        })
    }

    fn refers_to(&self, dependent: &Uid, owner: &Identity) -> bool {
        self.nodes.get(dependent).is_some_and(|node| {
            (owner.namespace.is_empty() || owner.namespace == node.identity.namespace)
                && node.owners.iter().any(|reference| names(reference, owner))
        })
    }

    fn refers_only_to(&self, dependent: &Uid, owner: &Identity) -> bool {
        self.nodes.get(dependent).is_none_or(|node| {
            (owner.namespace.is_empty() || owner.namespace == node.identity.namespace)
                && node.owners.iter().filter(|r| r.uid == owner.uid).all(|reference| names(reference, owner))
        })
    }

    /// Other coordinates by which dependents refer to an object that is absent under these: the next in
    /// order, so that each gets its turn.
    fn other_identity(&self, dependents: &[Uid], absent: &Identity) -> Option<Identity> {
        let order = |i: &Identity| (i.kind.clone(), i.api_version.clone(), i.namespace.clone(), i.name.clone());
        let mut others = BTreeMap::new();
        for node in dependents.iter().filter_map(|dependent| self.nodes.get(dependent)) {
            for reference in node.owners.iter().filter(|reference| reference.uid == absent.uid) {
                let mut other = coordinates(reference, &node.identity.namespace);
                if absent.namespace.is_empty() && other.kind == absent.kind && other.api_version == absent.api_version {
                    other.namespace = Arc::clone(&absent.namespace);
                }
                if other != *absent && !self.absent.contains(&other) {
                    others.insert(order(&other), other);
                }
            }
        }
        let following = others.range(order(absent)..).next().map(|(_, identity)| identity.clone());
        following.or_else(|| others.into_values().next())
    }
}

/// The coordinates of a reference's owner, in that namespace.
pub(super) fn coordinates(reference: &OwnerReference, namespace: &str) -> Identity {
    Identity {
        api_version: reference.api_version.as_str().into(),
        kind: reference.kind.as_str().into(),
        namespace: namespace.into(),
        name: reference.name.as_str().into(),
        uid: reference.uid.clone(),
    }
}

fn names(reference: &OwnerReference, identity: &Identity) -> bool {
    reference.uid == identity.uid
        && *reference.name == *identity.name
        && *reference.kind == *identity.kind
        && *reference.api_version == *identity.api_version
}

fn same_coordinates(a: &OwnerReference, b: &OwnerReference) -> bool {
    a.uid == b.uid && a.name == b.name && a.kind == b.kind && a.api_version == b.api_version
}

/// The absent owners found last.
#[derive(Debug, Default)]
struct Absent {
    known: BTreeSet<Identity>,
    order: VecDeque<Identity>,
}

impl Absent {
    fn insert(&mut self, identity: Identity) {
        if self.known.insert(identity.clone()) {
            self.order.push_back(identity);
            if self.order.len() > REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.known.remove(&oldest);
            }
        }
    }

    fn contains(&self, identity: &Identity) -> bool {
        self.known.contains(identity)
    }
}
