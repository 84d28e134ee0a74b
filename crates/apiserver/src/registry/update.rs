//! Changing an object: by a whole new one, or by anything else that makes a new one from the old.

use muster_tree::Value;

use super::options::WriteOptions;
use super::services::Reserved;
use super::{
    Answer, Registry, Served, Version, deduplicate_owners, in_time, match_namespace, set_metadata, version_of,
};
use crate::admission::{self, Admission, Write};
use crate::field::go_quote;
use crate::kinds;
use crate::model::fields::{Fields as _, metadata};
use crate::model::{Object, Part};
use crate::status::ApiError;
use crate::storage::{Entry, Refused};
use crate::validation::name::is_path_segment;

/// A write to an object that is there.
#[derive(Debug, Clone, Copy)]
pub struct Update<'a> {
    /// The object's namespace; empty for a cluster's object.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// What of it is written.
    pub part: Part,
    /// The subresource that managed fields name; empty for none.
    pub subresource: &'a str,
    /// The options.
    pub options: &'a WriteOptions,
    /// Who is asked whether it may be.
    pub admission: Admission<'a>,
}

impl Registry {
    /// Replaces an object by a decoded and defaulted one (API-12). The flag says that it was created.
    ///
    /// # Errors
    /// 404, 409 for another version or uid, 422 for what validation finds.
    pub async fn replace(
        &self,
        served: &Served,
        update: Update<'_>,
        mut object: Object,
        warnings: &mut Vec<String>,
    ) -> Result<(Answer, bool), ApiError> {
        match_namespace(served, &mut object, update.namespace)?;
        check_name(&object, update.name)?;
        deduplicate_owners(&mut object, false, warnings);
        let uid = metadata(&object).text("uid").to_owned();
        let precondition = (!uid.is_empty()).then_some(uid.as_str());
        if update.part == Part::Main
            && served.resource().create_on_update
            && self.storage.get(served.id, update.namespace, update.name).is_none()
        {
            if precondition.is_some() {
                // Nothing there has no uid, so it is not the object that was meant.
                return Err(uid_conflict(served, update, &uid, ""));
            }
            return self.create_by_update(served, update, object, warnings).await.map(|answer| (answer, true));
        }
        let answer = self.change(served, update, precondition, warnings, |_, _| Ok(object.clone())).await?;
        Ok((answer, false))
    }

    /// Changes an object by `make`, which makes the new state from the present one. It is called again when another
    /// write came in between.
    ///
    /// # Errors
    /// 404, 409, 422, and whatever `make` answers.
    pub async fn change(
        &self,
        served: &Served,
        update: Update<'_>,
        uid: Option<&str>,
        warnings: &mut Vec<String>,
        mut make: impl FnMut(&Object, &mut Vec<String>) -> Result<Object, ApiError> + Send,
    ) -> Result<Answer, ApiError> {
        let warned = warnings.len();
        loop {
            warnings.truncate(warned);
            let entry = self.get(served, update.namespace, update.name)?;
            if let Some(uid) = uid
                && uid != &*entry.uid
            {
                return Err(uid_conflict(served, update, uid, &entry.uid));
            }
            let live = served.live(&entry)?;
            let object = make(&live, warnings)?;
            if let Some(answer) = self.try_change(served, update, &entry, &live, object, warnings).await? {
                return Ok(answer);
            }
        }
    }

    /// One attempt; `None` when another write came in between.
    async fn try_change(
        &self,
        served: &Served,
        update: Update<'_>,
        entry: &Entry,
        live: &Object,
        mut object: Object,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Answer>, ApiError> {
        match_namespace(served, &mut object, update.namespace)?;
        check_name(&object, update.name)?;
        let now = self.clock.now();
        served.update_managed_fields(self, Some(live), &mut object, &update.options.manager, update.subresource, now);
        let user = &update.options.user;
        let write = Write { registry: self, served, part: update.part, live: Some(live), user };
        update.admission.complete(&write, &mut object, warnings).await?;
        deduplicate_owners(&mut object, true, warnings);
        if update.part == Part::Main {
            let place = (update.namespace, update.name);
            self.check_escalation(served, place, update.options, &object, Some(live))?;
        }

        match version_of(&object)? {
            Version::Unsaid if !served.resource().unconditional_update => {
                let why = "must be specified for an update";
                let error = crate::field::FieldError::invalid("metadata.resourceVersion", 0_i64, why);
                return Err(ApiError::invalid(served.group_resource(), update.name, &[error]));
            }
            Version::At(version) if version != entry.version => {
                return Err(ApiError::modified(served.group_resource(), update.name));
            }
            Version::Unsaid | Version::At(_) => {
                set_metadata(&mut object, "resourceVersion", Some(Value::from(entry.version.to_string())));
            }
        }

        let reserved = match update.part {
            Part::Main => self.allocate(served, &mut object, Some(live), update.options.dry_run)?,
            _ => None,
        };
        served.check_version(&object)?;
        carry_metadata(served, update.part, &mut object, live);
        served.kind.stamp(update.part, &mut object, Some(live), now);
        let mut errors = self.check_devices(served, update.part, &object, Some(live), update.options);
        errors.extend(kinds::validate_update(served.kind.as_ref(), update.part, &object, live, warnings));
        if errors.is_empty() && update.part == Part::Main {
            errors.extend(self.check_parameters(served, &object, Some(live), &update.options.user));
        }
        if !errors.is_empty() {
            return Err(served.invalid_object(&object, update.name, &errors));
        }
        warnings.extend(match update.part {
            Part::Main => served.kind.warnings(&object, Some(live)),
            part => served.kind.part_warnings(part, &object),
        });
        served.kind.canonicalize(&mut object);
        update.admission.validate(&write, &object, false, warnings).await?;

        if ends_deletion(served, &object, live) {
            if !update.options.dry_run {
                match self.storage.delete(served.id, update.namespace, update.name, entry.version) {
                    Ok(_) => self.after_deletion(served, entry),
                    Err(Refused::Missing) => {}
                    Err(Refused::Unwritten(error)) => return Err(error.into()),
                    Err(Refused::Changed | Refused::Exists(_)) => return Ok(None),
                }
            }
            return Ok(Some(Answer::Object(object)));
        }
        keep_times_of_unchanged(&mut object, live);
        // A webhook that converts may take its time: quotas are held after it.
        let draft = match update.options.dry_run {
            true => None,
            false => Some(served.draft_to_fit(&mut object, Some(entry), update.options)?),
        };
        if draft.as_ref().is_some_and(|draft| entry.same_as(draft)) {
            // A write that changes nothing writes nothing (API-07).
            return Ok(Some(Answer::Entry(self.get(served, update.namespace, update.name)?)));
        }
        let held = admission::quota::hold(self, served, update.part, &object, Some(live))?;
        let Some(draft) = draft else {
            drop(held);
            return Ok(Some(Answer::Object(served.rehearsed(object)?)));
        };
        let Some(entry) = in_time(self.storage.update(served.id, draft, entry.version))? else { return Ok(None) };
        reserved.into_iter().for_each(Reserved::keep);
        self.after_update(served, &entry);
        self.note_expiry(served, &entry);
        if let Some(held) = held {
            held.settle(self, served, update.namespace);
        }
        Ok(Some(Answer::Entry(entry)))
    }

    async fn create_by_update(
        &self,
        served: &Served,
        update: Update<'_>,
        mut object: Object,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, ApiError> {
        // Whatever version it was made from, there is none; but it has to be one.
        version_of(&object)?;
        set_metadata(&mut object, "resourceVersion", None);
        let now = self.clock.now();
        served.update_managed_fields(self, None, &mut object, &update.options.manager, update.subresource, now);
        update.admission.complete(&self.creation(served, update.options), &mut object, warnings).await?;
        self.check_escalation(served, (update.namespace, update.name), update.options, &object, None)?;
        let updated = Some((update.namespace, update.name));
        self.create_named(served, object, update.options, update.admission, updated, warnings).await
    }
}

/// What an update may not change, whatever it says (API-15); then the kind's own.
fn carry_metadata(served: &Served, part: Part, object: &mut Object, live: &Object) {
    let old = metadata(live);
    let carried = |object: &mut Object, field: &str| set_metadata(object, field, old.get(field).cloned());
    carried(object, "generation");
    served.kind.prepare_update(part, object, live);
    if metadata(object).text("uid").is_empty() {
        carried(object, "uid");
    }
    if old.contains_key("creationTimestamp") {
        carried(object, "creationTimestamp");
    }
    if old.contains_key("deletionTimestamp") {
        carried(object, "deletionTimestamp");
    }
    if !metadata(object).contains_key("deletionGracePeriodSeconds") {
        carried(object, "deletionGracePeriodSeconds");
    }
}

/// Whether this update takes away the last thing that a deletion waited for (API-18).
fn ends_deletion(served: &Served, object: &Object, live: &Object) -> bool {
    let old = metadata(live);
    if !metadata(object).list("finalizers").is_empty() || !old.contains_key("deletionTimestamp") {
        return false;
    }
    if served.kind.spec_finalizers() && object.object("spec").is_some_and(|s| !s.list("finalizers").is_empty()) {
        return false;
    }
    old.int("deletionGracePeriodSeconds") == 0
}

/// Where only the times in managed fields differ, nothing was changed: the old times stay.
fn keep_times_of_unchanged(object: &mut Object, live: &Object) {
    let (new, old) = (metadata(object), metadata(live));
    let (managed, was) = (new.list("managedFields"), old.list("managedFields"));
    if managed.len() != was.len() || managed == was {
        return;
    }
    let same_but_times = managed.iter().zip(was).all(|(a, b)| {
        let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return false };
        // What was claimed without a change has no time at all.
        let rest = |entry: &Object| entry.keys().filter(|key| *key != "time").count();
        rest(a) == rest(b) && a.iter().all(|(key, value)| key == "time" || b.get(key) == Some(value))
    });
    if !same_but_times {
        return;
    }
    let same_otherwise = object.len() == live.len()
        && object.iter().all(|(key, value)| key == "metadata" || live.get(key) == Some(value))
        && new.len() == old.len()
        && new.iter().all(|(key, value)| key == "managedFields" || old.get(key) == Some(value));
    if same_otherwise {
        let kept = old.get("managedFields").cloned();
        set_metadata(object, "managedFields", kept);
    }
}

/// Whether the object has the name of the path, and one that a path can have.
pub(super) fn check_name(object: &Object, name: &str) -> Result<(), ApiError> {
    match metadata(object).text("name") {
        "" => {
            let message =
                format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
            Err(ApiError::bad_request(message))
        }
        found if found != name => {
            let message = format!("the name of the object ({found}) does not match the name on the URL ({name})");
            Err(ApiError::bad_request(message))
        }
        _ => check_segment(name),
    }
}

/// Whether a name can stand in a path.
///
/// # Errors
/// 400 where it is no segment of one.
pub fn check_segment(name: &str) -> Result<(), ApiError> {
    match is_path_segment(name, false) {
        wrong if wrong.is_empty() => Ok(()),
        wrong => {
            let (name, why) = (go_quote(name), wrong.join(";"));
            Err(ApiError::bad_request(format!("Name parameter invalid: {name}: {why}")))
        }
    }
}

/// What an update wants of the uid, and is not so.
fn uid_conflict(served: &Served, update: Update<'_>, wanted: &str, found: &str) -> ApiError {
    let Update { namespace, name, options, .. } = update;
    precondition_failed(served, (namespace, name), options.dry_run, "UID", (wanted, found))
}

/// 409 in the real server's words, which give away where it stores things. `what` is `UID` or `ResourceVersion`.
pub(super) fn precondition_failed(
    served: &Served,
    (namespace, name): (&str, &str),
    dry_run: bool,
    what: &str,
    (wanted, found): (&str, &str),
) -> ApiError {
    let prefix = &served.resource().storage_prefix;
    // A dry run ends before the part that knows where everything is stored.
    let root = if dry_run { "" } else { "/registry" };
    let key = if namespace.is_empty() {
        format!("{root}/{prefix}/{name}")
    } else {
        format!("{root}/{prefix}/{namespace}/{name}")
    };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
    );
    ApiError::conflict(served.group_resource(), name, &why)
}
