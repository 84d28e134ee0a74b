//! What follows from a CustomResourceDefinition: names, conditions, kinds that are served, and the objects that go with
//! it (API-28).
//!
//! ```text
//!   write of a definition --> names free? --> kinds served --> Established
//!                                |  no: said, and looked at again when names of the group become free
//!   deletion --> marked, Terminating --> objects deleted --> finalizer gone --> kinds gone, watches end
//! ```
//!
//! On the reference server controllers do this a moment later. Here it is done before the write is answered, in the same
//! steps, each of which is a commit that watches see.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use muster_tree::{Value, json};

use super::options::DeleteOptions;
use super::{Answer, Registry, Served, in_time, set_metadata};
use crate::admission::{Admission, at_once};
use crate::custom::conversion::{Caller, NoCaller};
use crate::custom::definition::conditions::{self, Condition, Taken, accept, establish, remarks};
use crate::custom::definition::{Definition, Names};
use crate::custom::family::Family;
use crate::kinds::custom::CustomKind;
use crate::kinds::customresourcedefinition::CLEANUP;
use crate::model::fields::{Fields as _, metadata};
use crate::model::{Object, Resource};
use crate::status::ApiError;
use crate::storage::{Entry, Range};

/// Whose manager writes the conditions.
const MANAGER: &str = "kube-apiserver";

/// How many steps one definition takes at once, where others write it at the same time.
const MOST_STEPS: usize = 64;

/// What is known of the definitions.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    known: Mutex<BTreeMap<String, Known>>,
    /// How often storage had been put back when it was looked at last.
    restores: AtomicU64,
}

/// What is known of a definition.
#[derive(Debug)]
struct Known {
    group: String,
    wanted: Names,
    accepted: Names,
    /// What is served of it.
    serving: Option<Serving>,
    /// The version up to which its objects have been deleted, where it is on its way out.
    swept: u64,
}

#[derive(Debug)]
struct Serving {
    family: Arc<Family>,
    plain: bool,
}

/// A definition as it is stored, read.
struct Looked {
    entry: Arc<Entry>,
    object: Object,
    definition: Definition,
}

impl Registry {
    /// Looks at all definitions again where storage has been put back to an earlier version. Every request begins with this,
    /// and waits for one that does it already.
    pub fn settle_restored(&self) {
        let restores = self.storage.restores();
        if self.definitions.restores.load(Ordering::Acquire) == restores {
            return;
        }
        let definitions = self.find("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        definitions.into_iter().for_each(|definitions| self.settle(&definitions, None));
        self.definitions.restores.fetch_max(restores, Ordering::AcqRel);
    }

    /// Does what follows from a write to a kind: to definitions, or to objects of one that is on its way out.
    pub fn settle(&self, served: &Served, name: Option<&str>) {
        let terminating = served.kind.custom().map(CustomKind::family).filter(|family| family.terminating);
        let Some(definitions) = self.find("apiextensions.k8s.io", "v1", "customresourcedefinitions") else { return };
        let mut known = self.definitions.known.lock().unwrap_or_else(PoisonError::into_inner);
        if served.id == definitions.id {
            match name {
                Some(name) => self.settle_group(&definitions, &mut known, name),
                None => {
                    // Versions may have been given again.
                    known.values_mut().for_each(|known| known.swept = 0);
                    let mut names: Vec<String> = known.keys().cloned().collect();
                    let listed = self.storage.list(definitions.id, &Range::default(), None);
                    names.extend(listed.into_iter().flat_map(|l| l.entries).map(|entry| entry.name.to_string()));
                    names.sort();
                    names.dedup();
                    names.iter().for_each(|name| self.settle_group(&definitions, &mut known, name));
                }
            }
        } else if let Some(family) = terminating {
            self.settle_group(&definitions, &mut known, &family.definition.clone());
        }
    }

    /// Settles a definition, and those of its group that wait for names.
    fn settle_group(&self, definitions: &Arc<Served>, known: &mut BTreeMap<String, Known>, name: &str) {
        let before = known.get(name).map(|known| (known.group.clone(), known.accepted.clone()));
        self.settle_one(definitions, known, name);
        let after = known.get(name).map(|known| (known.group.clone(), known.accepted.clone()));
        if before == after {
            return;
        }
        let Some((group, _)) = after.or(before) else { return };
        let waiting: Vec<String> = known
            .iter()
            .filter(|(other, k)| *other != name && k.group == group && k.wanted != k.accepted)
            .map(|(other, _)| other.clone())
            .collect();
        waiting.iter().for_each(|other| self.settle_one(definitions, known, other));
    }

    fn settle_one(&self, definitions: &Arc<Served>, known: &mut BTreeMap<String, Known>, name: &str) {
        let mut at = None;
        for _ in 0..MOST_STEPS {
            let Some(looked) = at.take().or_else(|| self.look(definitions, name)) else { break };
            let Looked { entry, definition, .. } = &looked;
            let place = known.entry(name.to_owned()).or_insert_with(|| Known {
                group: definition.spec.group.clone(),
                wanted: Names::default(),
                accepted: Names::default(),
                serving: None,
                swept: 0,
            });
            place.wanted.clone_from(&definition.spec.names);
            place.accepted.clone_from(&definition.status.accepted_names);

            let others = known.iter().filter(|(other, k)| *other != name && k.group == definition.spec.group);
            let taken: Taken<'_> = others.map(|(_, known)| &known.accepted).collect();
            if let Some((names, said)) = accept(definition, &taken) {
                let names = muster_tree::Value::of(&names).unwrap_or_default();
                at = self.say(definitions, looked, Some(names), &said);
                continue;
            }
            let established = establish(definition);
            let serves = definition.is("Established") || established.as_ref().is_some_and(|c| c.status == "True");
            if let Some(place) = known.get_mut(name).filter(|_| serves) {
                self.serve_definition(place, definition, entry);
            }
            let mut said = remarks(definition);
            said.splice(0..0, established);
            if !said.is_empty() {
                at = self.say(definitions, looked, None, &said);
                continue;
            }
            let going = definition.metadata.deletion_timestamp.is_some();
            if !going || !definition.metadata.finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
                return;
            }
            let Some(place) = known.get_mut(name) else { return };
            if !self.clean_up(definitions, looked, place) {
                return;
            }
        }
        let undone = self.storage.undone();
        if self.storage.get(definitions.id, "", name).is_none()
            && let Some(serving) = known.remove(name).and_then(|known| known.serving)
        {
            let Family { group, names, .. } = &*serving.family;
            self.replace_kinds(group, &names.plural, Vec::new(), Some(undone));
        }
    }

    fn look(&self, definitions: &Served, name: &str) -> Option<Looked> {
        let entry = self.storage.get(definitions.id, "", name)?;
        let object = entry.object();
        let definition = Definition::read(&object).ok()?;
        Some(Looked { entry, object, definition })
    }

    /// Serves what a definition says, unless that is what is served.
    fn serve_definition(&self, place: &mut Known, definition: &Definition, entry: &Arc<Entry>) {
        let catalogue = self.catalogue();
        let overlaps = catalogue.served().iter().any(|served| {
            let resource = served.resource();
            served.kind.custom().is_none()
                && resource.group == definition.spec.group
                && (resource.plural == definition.status.accepted_names.plural
                    || definition.spec.versions.iter().any(|version| version.name == resource.version))
        });
        let before = place.serving.as_ref();
        let same = before.is_some_and(|before| before.family.stamp == definition.stamp());
        let going = definition.metadata.deletion_timestamp.is_some();
        if overlaps || (same && before.is_some_and(|before| before.family.terminating == going)) {
            return;
        }
        let caller = self.webhooks.get().map_or_else(|| Arc::new(NoCaller) as Arc<dyn Caller>, Arc::clone);
        let source = Arc::clone(entry);
        // What is stored can be read.
        let again = move || Definition::read(&source.object()).unwrap_or_default();
        let family = Arc::new(Family::new(definition, caller, again));
        // What was stored by another schema has to be read by this one.
        let plain = match before {
            Some(before) => before.plain && family.stores_as(&before.family),
            None => !self.storage.has_waiting(&Resource::table_of(&family.group, &family.names.plural)),
        };
        let kinds = CustomKind::versions(&family, plain);
        let known = catalogue.served().iter().find(|served| {
            let own = served.kind.custom().map(CustomKind::family);
            own.is_some_and(|own| own.definition == family.definition)
        });
        self.replace_kinds(&family.group, &family.names.plural, kinds, None);
        if let Some(known) = known.filter(|_| !same) {
            // They show what the kind was.
            self.storage.end_watches(known.id);
        }
        place.serving = Some(Serving { family, plain });
    }

    /// Writes names and conditions, unless another write came in between.
    fn say(&self, definitions: &Served, looked: Looked, names: Option<Value>, said: &[Condition]) -> Option<Looked> {
        let Looked { entry, object, mut definition } = looked;
        let mut next = object.clone();
        if let Some(names) = names {
            next.object_or_new("status").insert("acceptedNames", names);
        }
        let now = self.now_text();
        said.iter().for_each(|condition| conditions::set(&mut next, condition, &now));
        definitions.update_managed_fields(self, Some(&object), &mut next, MANAGER, "status", self.clock.now());
        let draft = definitions.draft(&next, Some(&entry)).ok()?;
        let entry = self.storage.update(definitions.id, draft, entry.version).ok()?;
        set_metadata(&mut next, "resourceVersion", Some(Value::from(entry.version.to_string())));
        definition.read_status(&next).ok()?;
        Some(Looked { entry, object: next, definition })
    }

    /// Deletes the objects of a definition on its way out, and takes the finalizer off when they are gone. Says whether
    /// there is more to do at once.
    fn clean_up(&self, definitions: &Served, looked: Looked, place: &mut Known) -> bool {
        let family = place.serving.as_ref().map(|serving| &serving.family);
        let (mut reason, mut message) = ("NeverEstablished", "resource was never established");
        let catalogue = self.catalogue();
        let kind = family.and_then(|family| {
            catalogue.served().iter().find(|served| {
                served.kind.custom().is_some_and(|custom| custom.family().definition == family.definition)
            })
        });
        if let Some(served) = kind {
            let progress =
                Condition::terminating("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress");
            let told = looked.definition.condition("Terminating");
            if told.is_none_or(|condition| condition.text("reason") != "InstanceDeletionInProgress") {
                self.say(definitions, looked, None, &[progress]);
                return true;
            }
            if !self.delete_all(served, &mut place.swept) {
                return false;
            }
            (reason, message) = ("InstanceDeletionCompleted", "removed all instances");
        }
        let done = [Condition::terminating("False", reason, message)];
        let Some(Looked { entry, object: mut last, .. }) = self.say(definitions, looked, None, &done) else {
            return true;
        };
        let rest: Vec<String> =
            metadata(&last).strings("finalizers").filter(|f| *f != CLEANUP).map(str::to_owned).collect();
        if rest.is_empty() {
            let _ = self.storage.delete(definitions.id, "", &entry.name, entry.version);
            return true;
        }
        set_metadata(&mut last, "finalizers", Some(json!(rest)));
        if let Ok(draft) = definitions.draft(&last, Some(&entry)) {
            let _ = self.storage.update(definitions.id, draft, entry.version);
        }
        true
    }

    /// Deletes all objects of a kind, but for those that nobody has written since that was done; says whether all are gone.
    fn delete_all(&self, served: &Served, swept: &mut u64) -> bool {
        let Ok(listed) = self.storage.list(served.id, &Range::default(), None) else { return false };
        for entry in listed.entries.iter().filter(|entry| entry.version > *swept) {
            // One that is gone already is as good.
            let options = DeleteOptions::default();
            let _ =
                at_once(self.delete(served, &entry.namespace, &entry.name, &options, Admission::OWN, &mut Vec::new()));
        }
        *swept = listed.version;
        self.storage.count(served.id) == 0
    }

    /// The first deletion of an object that has something depending on it: it is marked, and goes later. `None` where that
    /// has been done, or another write came in between.
    pub(super) fn begin_cleanup(
        &self,
        served: &Served,
        entry: &Arc<Entry>,
        finalizer: &str,
        options: &DeleteOptions,
    ) -> Result<Option<Answer>, ApiError> {
        let mut object = entry.object();
        let mut finalizers: Vec<String> = metadata(&object).strings("finalizers").map(str::to_owned).collect();
        if !finalizers.iter().any(|known| known == finalizer) {
            finalizers.push(finalizer.to_owned());
        }
        set_metadata(&mut object, "finalizers", Some(json!(finalizers)));
        set_metadata(&mut object, "deletionTimestamp", Some(Value::from(self.now_text())));
        let why = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        conditions::set(&mut object, &Condition::terminating("True", "InstanceDeletionPending", why), &self.now_text());
        if options.dry_run {
            return Ok(Some(Answer::Object(object)));
        }
        let draft = served.draft(&object, Some(entry))?;
        Ok(in_time(self.storage.update(served.id, draft, entry.version))?.map(Answer::Entry))
    }
}
