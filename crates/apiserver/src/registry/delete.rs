//! Deleting an object: preconditions, grace, finalizers, propagation (API-18).

use std::sync::Arc;
use std::time::Duration;

use muster_objects::time::Timestamp;
use muster_tree::{Value, json};

use super::list::Page;
use super::options::{DeleteOptions, ListOptions};
use super::{Answer, Registry, Served, in_time, set_metadata};
use crate::admission::Admission;
use crate::model::fields::{Fields as _, metadata};
use crate::model::{Object, Propagation};
use crate::status::{ApiError, Details, success};
use crate::storage::{Entry, Refused};

/// A collection is listed by so many objects where the request does not say.
const COLLECTION_PAGE: usize = 10_000;

/// The finalizer that has dependents orphaned.
const ORPHAN: &str = "orphan";
/// The finalizer that has dependents deleted first.
const FOREGROUND: &str = "foregroundDeletion";

/// What a deletion came to.
#[derive(Debug)]
pub struct Deleted {
    /// The object, or a `Status`.
    pub answer: Answer,
    /// Whether the object is gone, and not only marked.
    pub gone: bool,
}

/// What one look at the object says is to be done.
enum Step {
    /// It is already on its way, and this request does not make it faster.
    Pending,
    /// Write this state: it stays until finalizers or grace have passed.
    Mark(Object),
    /// Write this state, then remove it.
    MarkAndRemove(Object),
    /// Remove it.
    Remove,
}

impl Registry {
    /// Deletes an object.
    ///
    /// # Errors
    /// 404; 409 for a precondition; 403 for a namespace that must stay.
    pub async fn delete(
        &self,
        served: &Served,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        admission: Admission<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Deleted, ApiError> {
        let warned = warnings.len();
        loop {
            warnings.truncate(warned);
            let entry = self.get(served, namespace, name)?;
            if let Some(finalizer) = served.kind.cleanup()
                && let object = entry.object()
                && !metadata(&object).contains_key("deletionTimestamp")
            {
                own_preconditions(served, &entry, options)?;
                let option = set_by_kind(served, &entry, &object, options);
                admission.delete(self, served, &entry, option, warnings).await?;
                match self.begin_cleanup(served, &entry, finalizer, options)? {
                    Some(answer) => return Ok(Deleted { answer, gone: false }),
                    None => continue,
                }
            }
            if served.kind.spec_finalizers() {
                if let Some(answer) = self.begin_termination(served, &entry, options, admission, warnings).await? {
                    return Ok(Deleted { answer, gone: false });
                }
                let object = entry.object();
                let waits = !metadata(&object).contains_key("deletionTimestamp")
                    || object.object("spec").is_some_and(|s| !s.list("finalizers").is_empty());
                if waits {
                    if metadata(&object).contains_key("deletionTimestamp") {
                        return Ok(Deleted { answer: Answer::Entry(entry), gone: false });
                    }
                    continue;
                }
            }
            if let Some(deleted) = self.try_delete(served, &entry, options, admission, warnings).await? {
                return Ok(deleted);
            }
        }
    }

    /// One attempt; `None` when another write came in between.
    async fn try_delete(
        &self,
        served: &Served,
        entry: &Arc<Entry>,
        options: &DeleteOptions,
        admission: Admission<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Deleted>, ApiError> {
        let object = entry.object();
        options.check_preconditions(served.group_kind(), metadata(&object))?;
        let option = set_by_kind(served, entry, &object, options);
        let step = self.step(served, object, options);
        if !matches!(step, Step::Pending) {
            admission.delete(self, served, entry, option.clone(), warnings).await?;
        }
        let (mut version, mut last) = (entry.version, Answer::Entry(Arc::clone(entry)));
        match step {
            Step::Pending => return Ok(Some(Deleted { answer: deleted_answer(served, entry, last), gone: false })),
            Step::Mark(object) | Step::MarkAndRemove(object) if options.dry_run => {
                let gone = metadata(&object).list("finalizers").is_empty();
                return Ok(Some(Deleted { answer: Answer::Object(object), gone }));
            }
            Step::Mark(object) => {
                let draft = served.draft(&object, Some(entry))?;
                // Who asks again changes nothing (API-07).
                if entry.same_as(&draft) {
                    return Ok(Some(Deleted { answer: last, gone: false }));
                }
                let Some(entry) = in_time(self.storage.update(served.id, draft, version))? else { return Ok(None) };
                return Ok(Some(Deleted { answer: Answer::Entry(entry), gone: false }));
            }
            Step::MarkAndRemove(object) => {
                let draft = served.draft(&object, Some(entry))?;
                if !entry.same_as(&draft) {
                    let Some(marked) = in_time(self.storage.update(served.id, draft, version))? else {
                        return Ok(None);
                    };
                    // As on the reference, the removal is asked about as well.
                    admission.delete(self, served, &marked, option, warnings).await?;
                    version = marked.version;
                    last = Answer::Entry(marked);
                }
            }
            Step::Remove if options.dry_run => {
                return Ok(Some(Deleted { answer: deleted_answer(served, entry, last), gone: true }));
            }
            Step::Remove => {}
        }
        match self.storage.delete(served.id, &entry.namespace, &entry.name, version) {
            Ok(gone) => {
                self.after_deletion(served, entry);
                let answer = deleted_answer(served, entry, Answer::Entry(gone));
                Ok(Some(Deleted { answer, gone: true }))
            }
            // Marked by us, then removed by another: what we marked is the best that is known of it.
            Err(Refused::Missing) if version != entry.version => {
                Ok(Some(Deleted { answer: deleted_answer(served, entry, last), gone: true }))
            }
            refused => Ok(in_time(refused)?.and(None)),
        }
    }

    fn step(&self, served: &Served, mut object: Object, options: &DeleteOptions) -> Step {
        let requested = requested_grace(options);
        let graceful = match served.kind.grace(&object, requested) {
            None => None,
            Some(period) => match self.grace(&mut object, period, requested) {
                Graceful::Pending => return Step::Pending,
                Graceful::Exhausted => None,
                Graceful::For(period) => Some(period),
            },
        };
        let had_finalizers = !metadata(&object).list("finalizers").is_empty();
        let changed = set_propagation_finalizers(served, &mut object, options);
        if graceful.is_none() && !had_finalizers && !changed {
            return Step::Remove;
        }
        let finalizers = !metadata(&object).list("finalizers").is_empty();
        match graceful {
            Some(period) if finalizers || period > 0 => Step::Mark(object),
            Some(_) => Step::MarkAndRemove(object),
            None if finalizers => {
                self.mark(&mut object);
                Step::Mark(object)
            }
            None => Step::Remove,
        }
    }

    /// Sets deletion time and grace period of an object that knows grace.
    fn grace(&self, object: &mut Object, period: i64, requested: Option<i64>) -> Graceful {
        let now = self.clock.now();
        let old = metadata(object);
        let Some(deadline) = old.maybe_text("deletionTimestamp") else {
            raise_generation(object);
            let deadline = after(now, period);
            set_metadata(object, "deletionTimestamp", Some(Value::from(deadline.to_string())));
            set_metadata(object, "deletionGracePeriodSeconds", Some(Value::from(period)));
            return Graceful::For(period);
        };
        let granted = match old.int("deletionGracePeriodSeconds") {
            0 => return Graceful::Exhausted,
            n if n < 0 => 1,
            n => n,
        };
        // A second request can only make the period shorter.
        let Some(mut wanted) = requested.filter(|seconds| *seconds < granted) else { return Graceful::Pending };
        let begun = Timestamp::parse(deadline).unwrap_or(now).plus_nanos(-granted.saturating_mul(1_000_000_000));
        let mut sooner = after(begun, wanted);
        if sooner < now {
            sooner = now;
            if wanted != 0 {
                wanted = 1;
            }
        }
        set_metadata(object, "deletionTimestamp", Some(Value::from(sooner.to_string())));
        set_metadata(object, "deletionGracePeriodSeconds", Some(Value::from(wanted)));
        Graceful::For(wanted)
    }

    /// Marks an object that knows no grace as being deleted.
    fn mark(&self, object: &mut Object) {
        let now = self.clock.now();
        let deadline = metadata(object).maybe_text("deletionTimestamp").map(Timestamp::parse);
        if deadline.is_none() {
            raise_generation(object);
        }
        if !matches!(deadline, Some(Ok(at)) if at <= now) {
            set_metadata(object, "deletionTimestamp", Some(Value::from(now.to_string())));
        }
        set_metadata(object, "deletionGracePeriodSeconds", Some(Value::from(0)));
    }

    /// The first deletion of a namespace: it is marked `Terminating`, and something else empties it (API-20). `None` when
    /// that has been done already.
    async fn begin_termination(
        &self,
        served: &Served,
        entry: &Arc<Entry>,
        options: &DeleteOptions,
        admission: Admission<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Answer>, ApiError> {
        own_preconditions(served, entry, options)?;
        let mut object = entry.object();
        if metadata(&object).contains_key("deletionTimestamp") {
            return Ok(None);
        }
        let option = set_by_kind(served, entry, &object, options);
        admission.delete(self, served, entry, option, warnings).await?;
        set_metadata(&mut object, "deletionTimestamp", Some(Value::from(self.now_text())));
        object.object_or_new("status").insert("phase", Value::from("Terminating"));
        let propagation = effective(options);
        let mut finalizers: Vec<String> = metadata(&object).strings("finalizers").map(str::to_owned).collect();
        for (finalizer, policy) in [(ORPHAN, Propagation::Orphan), (FOREGROUND, Propagation::Foreground)] {
            let has = finalizers.iter().any(|f| f == finalizer);
            let wanted = match (options.orphan_dependents, propagation) {
                // Here the old option asks for the foreground where it does not ask for orphans.
                (Some(orphan), _) => orphan == (policy == Propagation::Orphan),
                (None, Some(chosen)) => chosen == policy,
                (None, None) => has,
            };
            if has && !wanted {
                finalizers.retain(|f| f != finalizer);
            } else if wanted && !has {
                finalizers.push(finalizer.to_owned());
            }
        }
        set_finalizers(&mut object, finalizers);
        if options.dry_run {
            return Ok(Some(Answer::Object(object)));
        }
        let marked = self.storage.update(served.id, served.draft(&object, Some(entry))?, entry.version);
        Ok(in_time(marked)?.map(Answer::Entry))
    }

    /// Deletes all objects that a list selects; answers the list.
    ///
    /// # Errors
    /// The first failure that is not a 404; what was deleted before stays deleted.
    pub async fn delete_collection(
        &self,
        served: &Served,
        namespace: &str,
        list: &ListOptions,
        options: &DeleteOptions,
        admission: Admission<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Page, ApiError> {
        let mut asked = list.clone();
        if list.limit == 0 {
            asked.limit = COLLECTION_PAGE;
        }
        let mut deleted: Option<Page> = None;
        loop {
            let page = self.list(served, namespace, None, &asked)?;
            for entry in &page.entries {
                match self.delete(served, &entry.namespace, &entry.name, options, admission, warnings).await {
                    Err(error) if error.reason != "NotFound" => return Err(error),
                    _ => {}
                }
            }
            let next = page.continue_token.clone();
            let all = match deleted.take() {
                Some(mut first) => {
                    first.entries.extend(page.entries);
                    first
                }
                None => page,
            };
            let Some(next) = next.filter(|_| list.limit == 0) else { return Ok(all) };
            deleted = Some(all);
            asked = ListOptions { continue_token: next, resource_version: String::new(), version_match: None, ..asked };
        }
    }
}

enum Graceful {
    Pending,
    Exhausted,
    For(i64),
}

/// The option that a kind sets in a deletion's options, as webhooks see them: the grace period that the object is given,
/// or, for namespaces, the very object that is meant.
fn set_by_kind(
    served: &Served,
    entry: &Entry,
    object: &Object,
    options: &DeleteOptions,
) -> Option<(&'static str, Value)> {
    if served.kind.spec_finalizers() {
        let mut preconditions = json!({"uid": &*entry.uid});
        if let Some(version) = &options.resource_version {
            preconditions["resourceVersion"] = json!(version);
        }
        return Some(("preconditions", preconditions));
    }
    if metadata(object).contains_key("deletionTimestamp") {
        return None;
    }
    let grace = served.kind.grace(object, requested_grace(options))?;
    Some(("gracePeriodSeconds", grace.into()))
}

fn requested_grace(options: &DeleteOptions) -> Option<i64> {
    options.grace.map(|seconds| if seconds < 0 { 1 } else { seconds })
}

fn after(from: Timestamp, seconds: i64) -> Timestamp {
    from + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

fn raise_generation(object: &mut Object) {
    let generation = metadata(object).int("generation");
    if generation > 0 {
        set_metadata(object, "generation", Some(Value::from(generation + 1)));
    }
}

fn effective(options: &DeleteOptions) -> Option<Propagation> {
    options.propagation
}

/// Sets or removes the two finalizers that the garbage collector answers to; says whether that changed anything.
fn set_propagation_finalizers(served: &Served, object: &mut Object, options: &DeleteOptions) -> bool {
    if !served.resource().collects_garbage {
        return false;
    }
    let old: Vec<String> = metadata(object).strings("finalizers").map(str::to_owned).collect();
    let present = |finalizer: &str| old.iter().any(|f| f == finalizer);
    // In order: what the request says, what the object says, what the kind says.
    let first_present = old.iter().find(|f| *f == ORPHAN || *f == FOREGROUND).map(String::as_str);
    let (orphan, foreground) = match (options.orphan_dependents, options.propagation) {
        (Some(orphan), _) => (orphan, false),
        (None, Some(policy)) => (policy == Propagation::Orphan, policy == Propagation::Foreground),
        (None, None) => match first_present {
            Some(finalizer) => (finalizer == ORPHAN, finalizer == FOREGROUND),
            None => (served.kind.default_propagation() == Propagation::Orphan, false),
        },
    };
    if orphan == present(ORPHAN) && foreground == present(FOREGROUND) {
        return false;
    }
    let mut finalizers: Vec<String> = old.iter().filter(|f| *f != ORPHAN && *f != FOREGROUND).cloned().collect();
    if orphan {
        finalizers.push(ORPHAN.to_owned());
    }
    if foreground {
        finalizers.push(FOREGROUND.to_owned());
    }
    set_finalizers(object, finalizers);
    true
}

fn set_finalizers(object: &mut Object, finalizers: Vec<String>) {
    let value = (!finalizers.is_empty()).then(|| Value::from(finalizers));
    set_metadata(object, "finalizers", value);
}

/// What a deletion answers with: the object for some kinds, for others a `Status` that names it.
fn deleted_answer(served: &Served, entry: &Entry, last: Answer) -> Answer {
    if served.resource().returns_deleted {
        return last;
    }
    let resource = served.resource();
    let details = Details {
        name: entry.name.to_string(),
        group: resource.group.to_string(),
        kind: resource.plural.to_string(),
        uid: entry.uid.to_string(),
        ..Details::default()
    };
    match success(Some(&details), None) {
        Value::Object(status) => Answer::Object(status),
        // `success` makes an object.
        _ => last,
    }
}

/// The preconditions of who looks at them itself, in its words.
fn own_preconditions(served: &Served, entry: &Entry, options: &DeleteOptions) -> Result<(), ApiError> {
    let version = entry.version.to_string();
    let pairs = [("UID", &options.uid, &*entry.uid), ("ResourceVersion", &options.resource_version, version.as_str())];
    for (what, wanted, found) in pairs {
        if let Some(wanted) = wanted.as_ref().filter(|wanted| wanted.as_str() != found) {
            let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
            return Err(ApiError::conflict(served.group_resource(), &entry.name, &why));
        }
    }
    Ok(())
}
