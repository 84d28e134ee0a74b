//! What a running manager is doing: looked up in its caches, queues, books and recorder, one after another. Each is locked
//! for a moment and none with another.

use muster_inspect::explain::{Role, Source};
use muster_inspect::inside::{Informer, Inside, LastSync};
use muster_machinery::Cached;
use muster_objects::meta::ResourceVersion;

use crate::{
    explain::{Explainer, NotExplained},
    history::Recording,
    informer::Store,
    manager::{self, Name},
};

/// A controller, as far as it is looked into.
pub(crate) trait Part {
    /// What all controllers of its manager share, but for the last syncs.
    fn begin(&self, source: Source) -> Inside;

    /// The last syncs of all controllers of its manager.
    fn last_syncs(&self) -> Vec<LastSync>;

    /// Adds its own, under the name of this controller; `first` of those that share a recorder.
    fn add_to(&self, inside: &mut Inside, controller: &'static str, first: bool);
}

impl Explainer {
    /// What the manager is doing at this moment. `role` is its present one.
    ///
    /// # Errors
    /// If it runs no controller.
    pub fn inside(&self, role: Role) -> Result<Inside, NotExplained> {
        Self::inside_of(std::slice::from_ref(self), role)
    }

    /// The same of several managers that share a recorder, each with a part of the objects.
    ///
    /// # Errors
    /// If they run no controller, or there are none of them.
    pub fn inside_of(managers: &[Self], role: Role) -> Result<Inside, NotExplained> {
        let mut inside = Self::work_of(managers, role)?;
        // The recorder is shared by all controllers of all of these managers.
        let shared = managers.iter().flat_map(Self::parts).next();
        inside.syncs = shared.map(|(_, part)| part.last_syncs()).unwrap_or_default();
        Ok(inside)
    }

    /// As [`Self::inside_of`] without the last syncs, which cost more than all else: for who looks again and again whether
    /// anything is to be done.
    ///
    /// # Errors
    /// If they run no controller, or there are none of them.
    pub fn work_of(managers: &[Self], role: Role) -> Result<Inside, NotExplained> {
        let mut whole: Option<Inside> = None;
        for manager in managers {
            let part = manager.part(role, whole.is_none())?;
            match &mut whole {
                None => whole = Some(part),
                Some(whole) => whole.absorb(part),
            }
        }
        whole.ok_or(NotExplained::NothingRuns)
    }

    /// Its controllers.
    fn parts(&self) -> impl Iterator<Item = (Name, &dyn Part)> {
        let Self { deployments, replicasets, replicationcontrollers } = self;
        let parts = [
            deployments.as_ref().map(|part| (manager::DEPLOYMENT, part as &dyn Part)),
            replicasets.as_ref().map(|part| (manager::REPLICASET, part as &dyn Part)),
            replicationcontrollers.as_ref().map(|part| (manager::REPLICATIONCONTROLLER, part as &dyn Part)),
        ];
        parts.into_iter().flatten()
    }

    fn part(&self, role: Role, first_manager: bool) -> Result<Inside, NotExplained> {
        let (_, first) = self.parts().next().ok_or(NotExplained::NothingRuns)?;
        let mut inside = first.begin(Source::Manager { role });
        for (controller, part) in self.parts() {
            part.add_to(&mut inside, controller.name, first_manager);
        }
        inside.informers.sort_by(|one, other| one.kind.cmp(&other.kind));
        Ok(inside)
    }
}

/// Adds the informer of a store, unless another controller has.
pub(crate) fn informer<T: Cached>(inside: &mut Inside, kind: &str, store: &Store<T>, recording: &Recording) {
    if inside.informers.iter().any(|known| known.kind == kind) {
        return;
    }
    let ResourceVersion(version) = store.newest();
    inside.informers.push(Informer {
        kind: kind.to_owned(),
        synced: store.is_synced(),
        objects: store.read().len() as u64,
        version,
        changed_ago: store.changed_ago(),
        lag: recording.tally(|tally, now| tally.lag(kind, now)),
    });
}
