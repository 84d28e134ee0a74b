//! A state of a small world: what the server stores, what each cache has seen of it, and what the manager is at.

use std::collections::BTreeMap;

use super::laws::Watched;

/// How many ReplicaSets there can be: one for each template.
pub(super) const SETS: usize = 2;
/// The keys of both controllers: the Deployment, and behind it each ReplicaSet.
pub(super) const KEYS: usize = 1 + SETS;

/// A kind of objects, each with a cache of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Deployments,
    Sets,
    Pods,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Deployments, Self::Sets, Self::Pods];
}

/// A Deployment or a ReplicaSet in one of its states, by its number in [`Objects`](super::objects::Objects); 0 for one
/// that is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Stored(pub(super) u16);

impl Stored {
    pub(super) const ABSENT: Self = Self(0);

    pub(super) fn is_there(self) -> bool {
        self != Self::ABSENT
    }
}

/// A pod. Its phase is its version: every write to a pod changes the phase, and never to an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Pod {
    pub(super) id: u8,
    pub(super) set: u8,
    pub(super) phase: Phase,
}

/// What becomes of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Phase {
    /// Created, and on no node yet: a DELETE removes it at once.
    Starting,
    /// It runs and is ready, and so available: a DELETE is graceful.
    Ready,
    /// It is being deleted, and still runs.
    Going,
    /// It is removed; no list has it.
    Gone,
}

impl Pod {
    pub(super) fn is_active(&self) -> bool {
        self.phase < Phase::Going
    }
}

/// The states of one kind: what the cache shows, and what it has not been told of, an event each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Log<T> {
    pub(super) seen: T,
    pub(super) next: Vec<T>,
}

impl<T: Clone + PartialEq> Log<T> {
    pub(super) fn of(all: T) -> Self {
        Self { seen: all, next: Vec::new() }
    }

    /// What the server stores.
    pub(super) fn now(&self) -> &T {
        self.next.last().unwrap_or(&self.seen)
    }

    /// Stores what differs, which makes an event.
    pub(super) fn write(&mut self, all: T) {
        if *self.now() != all {
            self.next.push(all);
        }
    }

    /// After how many events the cache has seen the last one that changed `what`; 0 where it has.
    pub(super) fn behind<W: PartialEq>(&self, what: impl Fn(&T) -> W) -> u8 {
        let states: Vec<W> = std::iter::once(&self.seen).chain(&self.next).map(what).collect();
        let last = states.windows(2).rposition(|pair| pair[0] != pair[1]);
        last.map_or(0, |at| u8::try_from(at + 1).unwrap_or(u8::MAX))
    }
}

/// What a controller remembers of one key between syncs; the rest of its books is about time.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Memory {
    /// How many creations are expected.
    pub(super) creations: u8,
    /// The pods whose deletions are expected.
    pub(super) deletions: Vec<u8>,
    /// After how many events each kind's cache has the last version that was written; `None` for none.
    pub(super) wrote: [Option<u8>; 3],
}

/// What a sync looks at from its beginning to its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Input {
    pub(super) key: u8,
    pub(super) deployment: Stored,
    pub(super) sets: [Stored; SETS],
    /// In the order of their uids, which decides where pods are equally dispensable.
    pub(super) pods: Vec<Pod>,
    /// Whether expectations are not met.
    pub(super) pending: bool,
    /// Whether counts have been deferred for as long as they may be.
    pub(super) late: bool,
}

/// A request of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Call {
    pub(super) verb: Verb,
    pub(super) kind: Kind,
    /// The pod, or the ReplicaSet; of a pod to create, its ReplicaSet.
    pub(super) target: u8,
    /// How many like it the sync has sent before.
    pub(super) nth: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Verb {
    Create,
    Delete,
    Patch,
    Status,
    Read,
}

/// What the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Answer {
    /// The object is now this, or was read so.
    Is(Version),
    NotFound,
    Conflict,
    Invalid,
    Exists,
}

/// The state of one object, which is its resourceVersion too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Version {
    Stored(Stored),
    Pod(Pod),
}

/// A sync that waits for the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sync {
    pub(super) input: Input,
    /// What was answered until now, in the order of the calls.
    pub(super) answers: BTreeMap<Call, Answer>,
}

/// One key of a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) queued: bool,
    pub(super) memory: Memory,
    pub(super) sync: Option<Sync>,
}

/// A state of the whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) deployments: Log<Stored>,
    pub(super) sets: Log<[Stored; SETS]>,
    /// In the order of their ids.
    pub(super) pods: Log<Vec<Pod>>,
    pub(super) keys: [Key; KEYS],
    /// Whether the user may still edit the Deployment, and the manager still crash.
    pub(super) may_edit: bool,
    pub(super) may_crash: bool,
    pub(super) watched: Watched,
}

impl State {
    /// How many events no cache has been told of: of one kind, or of all.
    pub(super) fn undelivered(&self, kind: Kind) -> usize {
        match kind {
            Kind::Deployments => self.deployments.next.len(),
            Kind::Sets => self.sets.next.len(),
            Kind::Pods => self.pods.next.len(),
        }
    }

    /// An id that nothing in this state has.
    pub(super) fn fresh_id(&self) -> u8 {
        self.ids().into_keys().next_back().map_or(0, |last| last + 1)
    }

    /// The same state for all that differ only in the names of pods: ids are given out anew, in the order of what the
    /// state says of each pod.
    pub(super) fn canonical(mut self) -> Self {
        let mut order: Vec<(Vec<u8>, u8)> = self.ids().into_iter().map(|(id, said)| (said, id)).collect();
        order.sort_unstable();
        let mut names = [0; 1 << 8];
        for (new, (_, old)) in (0..).zip(&order) {
            names[usize::from(*old)] = new;
        }
        let rename = |id: &mut u8| *id = names[usize::from(*id)];
        for pods in std::iter::once(&mut self.pods.seen).chain(&mut self.pods.next) {
            pods.iter_mut().for_each(|pod| rename(&mut pod.id));
            pods.sort_unstable();
        }
        for key in &mut self.keys {
            key.memory.deletions.iter_mut().for_each(rename);
            key.memory.deletions.sort_unstable();
            let Some(sync) = &mut key.sync else { continue };
            sync.input.pods.iter_mut().for_each(|pod| rename(&mut pod.id));
            sync.answers = std::mem::take(&mut sync.answers)
                .into_iter()
                .map(|(mut call, mut answer)| {
                    if call.kind == Kind::Pods && call.verb != Verb::Create {
                        rename(&mut call.target);
                    }
                    if let Answer::Is(Version::Pod(pod)) = &mut answer {
                        rename(&mut pod.id);
                    }
                    (call, answer)
                })
                .collect();
        }
        self
    }

    /// Every pod's id that occurs, with all that is said of this pod.
    fn ids(&self) -> BTreeMap<u8, Vec<u8>> {
        let mut said: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
        let mut say = |id: u8, words: [u8; 3]| said.entry(id).or_default().extend(words);
        for (place, pods) in (1..).zip(std::iter::once(&self.pods.seen).chain(&self.pods.next)) {
            pods.iter().for_each(|pod| say(pod.id, [place, pod.set, pod.phase as u8]));
        }
        for (at, key) in (100..).step_by(50).zip(&self.keys) {
            key.memory.deletions.iter().for_each(|id| say(*id, [at, 0, 0]));
            let Some(sync) = &key.sync else { continue };
            for (order, pod) in (1..).zip(&sync.input.pods) {
                say(pod.id, [at + order, pod.set, pod.phase as u8]);
            }
            for (call, answer) in &sync.answers {
                if call.kind == Kind::Pods && call.verb != Verb::Create {
                    say(call.target, [at + 20, call.verb as u8, call.nth]);
                }
                if let Answer::Is(Version::Pod(pod)) = answer {
                    say(pod.id, [at + 21, call.nth, pod.phase as u8]);
                }
            }
        }
        said
    }
}
