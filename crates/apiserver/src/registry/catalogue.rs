//! Which kinds are served: an immutable catalogue, replaced as a whole when kinds arrive or go.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Served;
use crate::kinds::Kind;
use crate::storage::{ResourceId, Storage};

/// The kinds that are served at one time.
#[derive(Clone, Default)]
pub struct Catalogue {
    served: Vec<Arc<Served>>,
    /// Places in `served`, in the order of plural name, group and version.
    by_path: Vec<usize>,
    /// Where the objects are of groups and plural names of which no kind is served for now.
    parked: BTreeMap<(String, String), ResourceId>,
}

impl fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.served).finish()
    }
}

impl Catalogue {
    /// All kinds, in the order in which they came.
    #[must_use]
    pub fn served(&self) -> &[Arc<Served>] {
        &self.served
    }

    /// The kind at `group/version`, `plural`.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        let wanted = (plural, group, version);
        let at = self.by_path.binary_search_by(|at| path(&self.served[*at]).cmp(&wanted)).ok()?;
        Some(&self.served[self.by_path[at]])
    }

    /// The kind of a group, version and kind.
    #[must_use]
    pub fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Served>> {
        self.served.iter().find(|served| {
            let resource = served.resource();
            resource.kind == kind && resource.group == group && resource.version == version
        })
    }

    /// With other kinds in the place of those of a group and plural name; they take over the objects. Where none comes, the
    /// objects go where they are `gone`, by what was undone when that was looked at; else they are kept for kinds that come
    /// later.
    pub(super) fn replacing(
        &self,
        group: &str,
        plural: &str,
        kinds: Vec<Arc<dyn Kind>>,
        gone: Option<u64>,
        storage: &Storage,
    ) -> Self {
        let (before, kept): (Vec<_>, Vec<_>) = self.served.iter().cloned().partition(|served| {
            let resource = served.resource();
            resource.group == group && resource.plural == plural
        });
        let mut parked = self.parked.clone();
        let place = (group.to_owned(), plural.to_owned());
        let known = parked.remove(&place).or_else(|| before.first().map(|old| old.id));
        match (known.filter(|_| kinds.is_empty()), gone) {
            (Some(id), None) => drop(parked.insert(place, id)),
            (Some(id), Some(undone)) => storage.remove_resource(id, undone),
            (None, _) => {}
        }
        Self { served: kept, by_path: Vec::new(), parked }.with_at(kinds, storage, known)
    }

    /// With more kinds.
    pub(super) fn with(self, kinds: Vec<Arc<dyn Kind>>, storage: &Storage) -> Self {
        self.with_at(kinds, storage, None)
    }

    fn with_at(mut self, kinds: Vec<Arc<dyn Kind>>, storage: &Storage, known: Option<ResourceId>) -> Self {
        for kind in kinds {
            let add =
                || storage.add_resource(&kind.resource().table(), |stored| super::kept_draft(kind.as_ref(), stored));
            let id = self.place(kind.as_ref()).or(known).unwrap_or_else(add);
            self.served.push(Arc::new(Served { kind, id }));
        }
        let mut places: Vec<usize> = (0..self.served.len()).collect();
        places.sort_by(|a, b| path(&self.served[*a]).cmp(&path(&self.served[*b])));
        self.by_path = places;
        self
    }

    /// Where the objects of a kind are already: those of one group and plural name are one table, whatever their version,
    /// and a kind may be stored as one of another group.
    fn place(&self, kind: &dyn Kind) -> Option<ResourceId> {
        let resource = kind.resource();
        let same = |other: &&Arc<Served>| {
            (&other.resource().group, &other.resource().plural) == (&resource.group, &resource.plural)
        };
        let stored = kind.stored_as().and_then(|model| self.of_kind(model.group, model.version, model.kind));
        stored.or_else(|| self.served.iter().find(same)).map(|served| served.id)
    }
}

fn path(served: &Served) -> (&str, &str, &str) {
    let resource = served.resource();
    (&resource.plural, &resource.group, &resource.version)
}
