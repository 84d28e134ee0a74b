//! The steps of a small world: all that may happen next in a state, and what comes of it.

use std::collections::BTreeMap;
use std::fmt;

use muster_tree::{Value, json};

use super::laws::{Watched, at_the_end, judge};
use super::manager::{Begun, Changed, Manager, Noted, key_named, owner};
use super::objects::{Objects, template};
use super::replay::{Run, Told};
use super::server::{edit, serve};
use super::state::{
    Answer, Call, Input, KEYS, Key, Kind, Log, Memory, Phase, Pod, SETS, State, Stored, Sync, Verb, Version,
};
use super::{Edit, Flaw, Rollout, World};
use crate::laws::Broken;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The user edits the Deployment.
    Edit,
    /// The manager crashes, and another one lists everything.
    Crash,
    /// The cache of a kind gets its next event.
    Deliver(Kind),
    /// A node runs a new pod, or has ended one that is being deleted.
    Node(u8),
    /// A key's sync begins; the so manieth way where pods are equally dispensable, or counts may be deferred or not.
    Begin(usize, usize),
    /// The server acts on the so manieth request that a key's sync waits for.
    Serve(usize, usize),
}

/// What comes of a step.
pub(super) struct Next {
    pub(super) step: Step,
    pub(super) state: State,
    pub(super) broken: Option<Broken>,
    /// Whether a controller has changed something.
    pub(super) wrote: bool,
}

/// A world with all that has been computed of it.
pub(super) struct Play {
    pub(super) world: World,
    pub(super) objects: Objects,
    manager: Manager,
    /// Whether steps are taken in every order, although it makes no difference.
    #[cfg(test)]
    pub(super) in_every_order: bool,
}

impl Play {
    /// The world, and its first state: the Deployment is complete with the first template, and has just got the second.
    ///
    /// # Errors
    ///
    /// The law that was broken on the way there.
    pub(super) fn begin(world: World) -> Result<(Self, State), Broken> {
        let (objects, deployment) = Objects::new(&world);
        let mut play = Self {
            objects,
            manager: Manager::default(),
            world,
            #[cfg(test)]
            in_every_order: false,
        };
        let mut state = State {
            deployments: Log::of(Stored::ABSENT),
            sets: Log::of([Stored::ABSENT; SETS]),
            pods: Log::of(Vec::new()),
            keys: Default::default(),
            may_edit: false,
            may_crash: false,
            watched: Watched::default(),
        };
        let before = state.clone();
        state.deployments.write(deployment);
        // Nothing is stale here: what the cache is to be told comes first.
        play.judged(&before, &mut state).map_or(Ok(()), Err)?;
        while let Some(next) = play.next(&state).into_iter().next() {
            next.broken.map_or(Ok(()), Err)?;
            state = next.state;
        }
        at_the_end(&play.objects, &state).map_or(Ok(()), Err)?;
        play.manager = Manager::with(play.world.flaw);
        let before = state.clone();
        edit(&mut play.objects, &mut state, |spec| spec["template"] = template(1));
        play.judged(&before, &mut state).map_or(Ok(()), Err)?;
        (state.may_edit, state.may_crash) = (play.world.edit.is_some(), play.world.crash);
        Ok((play, state.canonical()))
    }

    /// All that may happen next; what the controllers, the nodes and the watches do comes first.
    pub(super) fn next(&mut self, state: &State) -> Vec<Next> {
        let canonical = |next: Next| Next { state: next.state.canonical(), ..next };
        let mut all = Vec::new();
        if let Some(next) = self.first(state) {
            return vec![canonical(next)];
        }
        for kind in Kind::ALL {
            if state.undelivered(kind) > 0 {
                let mut after = state.clone();
                self.deliver(&mut after, kind);
                all.push(Next::of(Step::Deliver(kind), after));
            }
        }
        let room = self.has_room(state);
        if room {
            for (at, pod) in state.pods.now().iter().enumerate() {
                let mut pods = state.pods.now().clone();
                match pod.phase {
                    Phase::Starting => pods[at].phase = Phase::Ready,
                    Phase::Going => _ = pods.remove(at),
                    Phase::Ready | Phase::Gone => continue,
                }
                let mut after = state.clone();
                after.pods.write(pods);
                let broken = self.judged(state, &mut after);
                all.push(Next { broken, ..Next::of(Step::Node(pod.id), after) });
            }
        }
        for at in 0..KEYS {
            match &state.keys[at].sync {
                None if state.keys[at].queued => self.begin_sync(state, at, &mut all),
                None => {}
                Some(sync) => self.serve_sync(state, at, sync, &mut all),
            }
        }
        if let Some(which) = self.world.edit.filter(|_| state.may_edit && room) {
            let mut after = State { may_edit: false, ..state.clone() };
            edit(&mut self.objects, &mut after, |spec| which.make(spec));
            if after.deployments != state.deployments {
                let broken = self.judged(state, &mut after);
                all.push(Next { broken, ..Next::of(Step::Edit, after) });
            }
        }
        if state.may_crash {
            let mut after = State { may_crash: false, ..state.clone() };
            after.deployments = Log::of(*state.deployments.now());
            after.sets = Log::of(*state.sets.now());
            after.pods = Log::of(state.pods.now().clone());
            after.keys = Default::default();
            after.keys[0].queued = true;
            for (key, set) in after.keys[1..].iter_mut().zip(state.sets.now()) {
                key.queued = set.is_there();
            }
            all.push(Next::of(Step::Crash, after));
        }
        all.into_iter().map(canonical).collect()
    }

    /// A step that may come before all others, since whatever else happens, the same comes of both orders.
    fn first(&mut self, state: &State) -> Option<Next> {
        #[cfg(test)]
        if self.in_every_order {
            return None;
        }
        if let Some(kind) = Kind::ALL.into_iter().find(|kind| self.comes_first(state, *kind)) {
            let mut after = state.clone();
            self.deliver(&mut after, kind);
            return Some(Next::of(Step::Deliver(kind), after));
        }
        (0..KEYS).find_map(|at| self.does_nothing(state, at)).or_else(|| self.reports(state))
    }

    /// The events of this kind that can be delivered before anything else happens: no sync that would look at the next one
    /// begins before it has come, since the key's last write came later. In any other order the same is done.
    fn comes_first(&self, state: &State, kind: Kind) -> bool {
        let Some(head) = Head::of(state, kind) else { return false };
        let recreates = self.world.rollout == Rollout::Recreate;
        self.heeds_versions()
            && (0..KEYS).all(|at| {
                let looks = match head {
                    Head::Deployment => at == 0,
                    Head::Set(set) => at == 0 || at == set + 1,
                    Head::Pod(set) => at == 0 && recreates || at == set + 1,
                };
                !looks || state.keys[at].memory.wrote[kind as usize] > Some(0)
            })
    }

    /// The beginning of a sync that writes nothing. If there is a reason for it to write later, that is an event, and
    /// queues it again; only a pod that is not the last of a Deployment with the strategy Recreate does not.
    fn does_nothing(&mut self, state: &State, at: usize) -> Option<Next> {
        let key = &state.keys[at];
        if !key.queued || key.sync.is_some() || at == 0 && self.world.rollout == Rollout::Recreate {
            return None;
        }
        let input = self.input(state, at);
        let Begun::Ready { memory, pending } = self.manager.begin(&self.objects, &input, &key.memory) else {
            return None;
        };
        let run = self.manager.run(&mut self.objects, &Input { pending, ..input }, &BTreeMap::new());
        (run.calls.is_empty() && run.ended == Some(false)).then(|| {
            let mut after = state.clone();
            (after.keys[at].queued, after.keys[at].memory) = (false, memory);
            Next::of(Step::Begin(at, 0), after)
        })
    }

    /// The write of the Deployment's status. Nobody else reads it, the Deployment's next sync waits for it, and the laws
    /// ask for it only while there are bounds that are not observed. A crash before it is another story.
    fn reports(&mut self, state: &State) -> Option<Next> {
        let sync = state.keys[0].sync.as_ref()?;
        let run = self.manager.run(&mut self.objects, &sync.input, &sync.answers);
        let [(Call { verb: Verb::Status, .. }, _)] = &run.calls[..] else { return None };
        if state.may_crash || !state.watched.is_settled() || !self.has_room(state) || !self.heeds_versions() {
            return None;
        }
        let mut all = Vec::new();
        self.serve_sync(state, 0, sync, &mut all);
        all.pop()
    }

    fn heeds_versions(&self) -> bool {
        !matches!(self.world.flaw, Some(Flaw::NoBooks | Flaw::NoVersions))
    }

    fn has_room(&self, state: &State) -> bool {
        Kind::ALL.map(|kind| state.undelivered(kind)).into_iter().sum::<usize>() < self.world.stale
    }

    fn judged(&self, before: &State, after: &mut State) -> Option<Broken> {
        judge(&self.objects, before, after)
    }

    /// The cache of a kind gets its next event, and the handlers run.
    fn deliver(&mut self, state: &mut State, kind: Kind) {
        let change = match kind {
            Kind::Deployments => {
                let new = state.deployments.next.remove(0);
                Changed::Deployment(std::mem::replace(&mut state.deployments.seen, new), new)
            }
            Kind::Sets => {
                let new = state.sets.next.remove(0);
                let old = std::mem::replace(&mut state.sets.seen, new);
                let changed = old.into_iter().zip(new).find(|(old, new)| old != new);
                let (old, new) = changed.expect("an event changes one object");
                Changed::Set(old, new)
            }
            Kind::Pods => {
                let new = state.pods.next.remove(0);
                let old = std::mem::replace(&mut state.pods.seen, new);
                let without = |pods: &[Pod], others: &[Pod]| pods.iter().find(|pod| !others.contains(pod)).copied();
                Changed::Pod(without(&old, &state.pods.seen), without(&state.pods.seen, &old))
            }
        };
        let (sets, pods) = (&state.sets.seen, &state.pods.seen);
        let noted = self.manager.hear(&self.objects, state.deployments.seen, sets, pods, change);
        for noted in noted.iter() {
            match *noted {
                Noted::Queue(at) => state.keys[at].queued = true,
                Noted::Created(at) | Noted::Deleted(at, _) => {
                    state.keys[at].memory.note(&key_named(&self.objects, at), *noted);
                }
            }
        }
        for key in &mut state.keys {
            let wrote = &mut key.memory.wrote[kind as usize];
            *wrote = wrote.map(|behind| behind.saturating_sub(1));
        }
    }

    fn begin_sync(&mut self, state: &State, at: usize, all: &mut Vec<Next>) {
        let input = self.input(state, at);
        let memory = &state.keys[at].memory;
        let begun = self.manager.begin(&self.objects, &input, memory);
        let mut after = state.clone();
        after.keys[at].queued = false;
        match begun {
            // It is queued again when the cache has caught up (B-17), which is the same as to stay in the queue.
            Begun::Stale => {}
            Begun::Gone => {
                after.keys[at].memory = Memory::default();
                all.push(Next::of(Step::Begin(at, 0), after));
            }
            Begun::Ready { memory, pending } => {
                let behind = state.keys[at].memory.wrote.iter().any(|wrote| *wrote > Some(0));
                assert!(!behind || self.world.flaw.is_some(), "a sync begins before its last write is seen");
                after.keys[at].memory = memory;
                let mut known = Vec::new();
                for (pods, late) in self.ways(&Input { pending, ..input.clone() }) {
                    let input = Input { pods, pending, late, ..input.clone() };
                    let run = self.manager.run(&mut self.objects, &input, &BTreeMap::new());
                    let mut calls: Vec<Call> = run.calls.iter().map(|(call, _)| *call).collect();
                    calls.sort_unstable();
                    if known.contains(&(late, calls.clone())) {
                        continue;
                    }
                    let mut begun = after.clone();
                    begun.keys[at].sync = Some(Sync { input, answers: BTreeMap::new() });
                    self.go_on(&mut begun, at, &[], &run);
                    all.push(Next::of(Step::Begin(at, known.len()), begun));
                    known.push((late, calls));
                }
            }
        }
    }

    /// What a sync of a key would look at now.
    fn input(&self, state: &State, at: usize) -> Input {
        let mut input = Input {
            key: u8::try_from(at).unwrap_or_default(),
            deployment: state.deployments.seen,
            sets: state.sets.seen,
            pods: state.pods.seen.clone(),
            pending: false,
            late: false,
        };
        if at > 0 {
            // It looks at no other objects, but to rank pods by their nodes, and these have one node.
            input.deployment = Stored::ABSENT;
            input.sets =
                std::array::from_fn(|other| if other + 1 == at { state.sets.seen[other] } else { Stored::ABSENT });
            input.pods.retain(|pod| usize::from(pod.set) + 1 == at);
        } else if self.world.rollout != Rollout::Recreate {
            input.pods.clear();
        }
        input
    }

    /// The orders of uids that matter, which is one unless pods are to be deleted; and whether counts may be deferred,
    /// which is asked after a round only.
    fn ways(&mut self, input: &Input) -> Vec<(Vec<Pod>, bool)> {
        let run = self.manager.run(&mut self.objects, input, &BTreeMap::new());
        let is_round = run.calls.iter().any(|(call, _)| call.verb != Verb::Status);
        let deletes = run.calls.iter().any(|(call, _)| call.verb == Verb::Delete);
        let orders = if deletes { permutations(&input.pods) } else { vec![input.pods.clone()] };
        let lates: &[bool] = if is_round { &[false, true] } else { &[false] };
        orders.iter().flat_map(|pods| lates.iter().map(|late| (pods.clone(), *late))).collect()
    }

    /// The requests that a key's sync waits for.
    pub(super) fn calls(&mut self, state: &State, at: usize) -> Vec<Call> {
        let Some(sync) = &state.keys[at].sync else { return Vec::new() };
        let run = self.manager.run(&mut self.objects, &sync.input, &sync.answers);
        run.calls.iter().map(|(call, _)| *call).collect()
    }

    fn serve_sync(&mut self, state: &State, at: usize, sync: &Sync, all: &mut Vec<Next>) {
        let room = self.has_room(state);
        let run = self.manager.run(&mut self.objects, &sync.input, &sync.answers);
        for (nth, (call, body)) in run.calls.iter().enumerate() {
            if !room && call.verb != Verb::Read {
                continue;
            }
            let mut after = state.clone();
            let step = Step::Serve(at, nth);
            match serve(&mut self.objects, &mut after, *call, body) {
                Err(broken) => all.push(Next { broken: Some(broken), ..Next::of(step, after) }),
                Ok(answer) => {
                    let broken = self.judged(state, &mut after);
                    let wrote = [Kind::Deployments, Kind::Sets, Kind::Pods]
                        .iter()
                        .any(|kind| after.undelivered(*kind) > state.undelivered(*kind));
                    self.answer(&mut after, at, *call, answer, &run);
                    all.push(Next { broken, wrote, ..Next::of(step, after) });
                }
            }
        }
    }

    /// The sync gets an answer, and runs up to its next requests.
    fn answer(&mut self, state: &mut State, at: usize, call: Call, answer: Answer, before: &Run) {
        let Some(sync) = &mut state.keys[at].sync else { return };
        sync.answers.insert(call, answer);
        let sync = sync.clone();
        let run = self.manager.run(&mut self.objects, &sync.input, &sync.answers);
        self.go_on(state, at, &before.told, &run);
    }

    /// The books are told what is new, and a sync that has ended is over.
    fn go_on(&mut self, state: &mut State, at: usize, before: &[Told], run: &Run) {
        let Some(sync) = state.keys[at].sync.clone() else { return };
        let owner = owner(&self.objects, &sync.input);
        let (deployments, sets, pods) = (state.deployments.clone(), state.sets.clone(), state.pods.clone());
        let behind = |version: Version| match version {
            Version::Pod(pod) => pods.behind(|pods| pods.iter().find(|other| other.id == pod.id).copied()),
            Version::Stored(stored) if stored == *deployments.now() => deployments.behind(|all| *all),
            Version::Stored(stored) => {
                let which = sets.now().iter().position(|set| *set == stored).unwrap_or_default();
                sets.behind(|sets| sets[which])
            }
        };
        let mut known = before.to_vec();
        for told in &run.told {
            // What was told before comes again, where requests go side by side in another order.
            if let Some(place) = known.iter().position(|known| known == told) {
                known.swap_remove(place);
            } else {
                state.keys[at].memory.tell(&owner, told, behind);
            }
        }
        if let Some(again) = run.ended {
            let Key { queued, sync, .. } = &mut state.keys[at];
            *sync = None;
            *queued |= again;
        }
    }
}

/// What the next event of a kind is about.
#[derive(Clone, Copy)]
enum Head {
    Deployment,
    Set(usize),
    Pod(usize),
}

impl Head {
    fn of(state: &State, kind: Kind) -> Option<Self> {
        match kind {
            Kind::Deployments => state.deployments.next.first().map(|_| Self::Deployment),
            Kind::Sets => {
                let next = state.sets.next.first()?;
                (0..SETS).find(|at| state.sets.seen[*at] != next[*at]).map(Self::Set)
            }
            Kind::Pods => {
                let (seen, next) = (&state.pods.seen, state.pods.next.first()?);
                let [gone, new] =
                    [(seen, next), (next, seen)].map(|(some, others)| some.iter().find(|pod| !others.contains(pod)));
                gone.or(new).map(|pod| Self::Pod(usize::from(pod.set)))
            }
        }
    }
}

impl Next {
    fn of(step: Step, state: State) -> Self {
        Self { step, state, broken: None, wrote: false }
    }
}

impl Edit {
    fn make(self, spec: &mut Value) {
        match self {
            Self::Rollback => spec["template"] = template(0),
            Self::Scale(replicas) => spec["replicas"] = json!(replicas),
            Self::Bounds { surge, unavailable } if spec["strategy"]["type"] == "RollingUpdate" => {
                spec["strategy"]["rollingUpdate"] = json!({"maxSurge": surge, "maxUnavailable": unavailable});
            }
            Self::Bounds { .. } => {}
        }
    }
}

fn permutations(pods: &[Pod]) -> Vec<Vec<Pod>> {
    if pods.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for at in 0..pods.len() {
        let mut others = pods.to_vec();
        let first = others.remove(at);
        for mut rest in permutations(&others) {
            rest.insert(0, first);
            all.push(rest);
        }
    }
    all
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rollback => f.write_str("rolled back"),
            Self::Scale(replicas) => write!(f, "scaled to {replicas}"),
            Self::Bounds { surge, unavailable } => write!(f, "bounds become {surge}/{unavailable}"),
        }
    }
}
