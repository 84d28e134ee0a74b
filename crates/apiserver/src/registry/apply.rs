//! Server-side apply: to an object that is there, or to one that it makes (API-13).

use std::borrow::Cow;

use muster_tree::Value;

use super::options::{FieldValidation, WriteOptions};
use super::update::{Update, check_name};
use super::{Answer, Registry, Served, deduplicate_owners, match_namespace, set_metadata};
use crate::model::fields::{Fields as _, metadata};
use crate::model::{Model, Object, Part, Resource};
use crate::schema::managed::Subject;
use crate::schema::managed::apply::{self, Configuration, Refusal};
use crate::schema::{Validation, from_unstructured, read_json, yaml_duplicates, yaml_to_json};
use crate::status::ApiError;

/// The `Content-Type` of a patch that is a configuration to apply.
pub const CONTENT_TYPE: &str = "application/apply-patch+yaml";

impl Registry {
    /// Applies a configuration, in YAML or JSON. The flag says that the object was created: a subresource of what
    /// is not there is not.
    ///
    /// # Errors
    /// 400 for what is no configuration, 409 with causes for fields of other managers, 500 for a configuration that
    /// has not the form of its kind, and those of a create or an update.
    pub async fn apply(
        &self,
        served: &Served,
        update: Update<'_>,
        body: &[u8],
        warnings: &mut Vec<String>,
    ) -> Result<(Answer, bool), ApiError> {
        // Managed fields come with what is applied, not from a comparison afterwards.
        let unmanaged = WriteOptions { manager: String::new(), ..update.options.clone() };
        let warned = warnings.len();
        loop {
            warnings.truncate(warned);
            let creates =
                update.part == Part::Main && self.storage.get(served.id, update.namespace, update.name).is_none();
            let outcome = if creates {
                self.create_by_apply(served, update, body, &unmanaged, warnings).await.map(|answer| (answer, true))
            } else {
                let changing = Update { options: &unmanaged, ..update };
                self.change(served, changing, None, warnings, |live, warnings| {
                    self.applied(served, update, Some(live), body, warnings)
                })
                .await
                .map(|answer| (answer, false))
            };
            match outcome {
                // Somebody else created it, or deleted it, in between.
                Err(error) if creates && error.reason == "AlreadyExists" => {}
                Err(error) if !creates && error.reason == "NotFound" && update.part == Part::Main => {}
                outcome => return outcome,
            }
        }
    }

    async fn create_by_apply(
        &self,
        served: &Served,
        update: Update<'_>,
        body: &[u8],
        unmanaged: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, ApiError> {
        let mut object = self.applied(served, update, None, body, warnings)?;
        let uid = metadata(&object).text("uid");
        if !uid.is_empty() {
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(ApiError::conflict(served.group_resource(), update.name, &why));
        }
        match_namespace(served, &mut object, update.namespace)?;
        check_name(&object, update.name)?;
        // Whatever version it was made from, there is none.
        for field in ["selfLink", "resourceVersion"] {
            set_metadata(&mut object, field, None);
        }
        update.admission.complete(&self.creation(served, update.options), &mut object, warnings).await?;
        self.check_escalation(served, (update.namespace, update.name), update.options, &object, None)?;
        deduplicate_owners(&mut object, true, warnings);
        let updated = Some((update.namespace, update.name));
        self.create_named(served, object, unmanaged, update.admission, updated, warnings).await
    }

    /// What an object becomes, as it is stored.
    fn applied(
        &self,
        served: &Served,
        update: Update<'_>,
        live: Option<&Object>,
        body: &[u8],
        warnings: &mut Vec<String>,
    ) -> Result<Object, ApiError> {
        let converts = served.kind.stored_as().is_some();
        let present =
            live.map(|live| if converts { Cow::Owned(served.present(live.clone())) } else { Cow::Borrowed(live) });
        let mut next = self.apply_to(served.subject(), present.as_deref(), update, body, warnings)?;
        served.kind.default(&mut next);
        served.kind.to_stored(&mut next);
        Ok(next)
    }

    /// Applies a configuration to an object of any model.
    pub(super) fn apply_to(
        &self,
        subject: Subject<'_>,
        live: Option<&Object>,
        update: Update<'_>,
        body: &[u8],
        warnings: &mut Vec<String>,
    ) -> Result<Object, ApiError> {
        let (tree, repeated) = read(body)?;
        let configuration = Configuration {
            subject,
            subresource: update.subresource,
            tree: &tree,
            manager: &update.options.field_manager,
            force: update.options.force,
            now: self.clock.now(),
        };
        let convert = |object: &Object, version: &str| self.in_version(subject, object, version);
        let next = apply::apply(&configuration, live, &convert).map_err(refused)?;
        // As on the real server, what cannot be applied is told before what is written twice.
        match update.options.field_validation {
            FieldValidation::Strict if !repeated.is_empty() => {
                let lines = repeated.join("\n  ");
                let why = format!("error strict decoding YAML: {CONVERTING}: yaml: unmarshal errors:\n  {lines}");
                Err(ApiError::bad_request(why))
            }
            FieldValidation::Warn => {
                warnings.extend(repeated);
                Ok(next)
            }
            FieldValidation::Strict | FieldValidation::Ignore => Ok(next),
        }
    }
}

impl Registry {
    /// An object, which says what it is, in another version of its kind.
    ///
    /// # Errors
    /// What a webhook that converts has against it, or that there is no such version.
    pub(super) fn in_version(&self, subject: Subject<'_>, object: &Object, version: &str) -> Result<Object, String> {
        let kind = object.text("kind");
        let catalogue = self.catalogue();
        let find = |api_version: &str| {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            catalogue.of_kind(group, version, kind)
        };
        // Whatever version the object is of: it may not be served any more.
        let Model { group, version: written, .. } = subject.model;
        if let Some(custom) = subject.open.and_then(|_| catalogue.of_kind(group, written, kind))
            && let Some(custom) = custom.kind.custom()
        {
            return custom.in_version(object, version);
        }
        let told = || {
            let (from, to) = (find(object.text("apiVersion"))?, find(version)?);
            let Resource { group, version, .. } = from.resource();
            let tree = Value::Object(object.clone());
            let (mut object, _) = from_unstructured(group, version, kind, &tree, Validation::Ignore).ok()?;
            object.insert("apiVersion", Value::from(from.api_version()));
            object.insert("kind", Value::from(kind));
            from.kind.to_stored(&mut object);
            to.kind.to_served(&mut object);
            Some(object).filter(|object| object.text("apiVersion") == to.api_version())
        };
        told().ok_or_else(|| format!("{kind} cannot be told in {version}"))
    }
}

fn refused(refusal: Refusal) -> ApiError {
    match refusal {
        Refusal::Bad(why) => ApiError::bad_request(why),
        Refusal::Malformed(why) => ApiError::plain(why),
        Refusal::Conflicts(conflicts) => {
            let conflict = ApiError::apply_conflict(apply::message(&conflicts));
            conflicts.iter().fold(conflict, |error, c| {
                error.with_cause("FieldManagerConflict", format!("conflict with {}", c.manager), &c.field)
            })
        }
    }
}

/// How the real server begins what it says of YAML that it cannot read.
const CONVERTING: &str = "error converting YAML to JSON";

/// Reads a configuration; answers also what a strict reader has against it.
fn read(body: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    let unreadable = |why: String| ApiError::bad_request(format!("error decoding YAML: {why}"));
    let json = yaml_to_json(body).map_err(|why| unreadable(format!("{CONVERTING}: {why}")))?;
    let tree = read_json(&json).map_err(unreadable)?;
    let word = match &tree {
        Value::Null | Value::Object(_) => return Ok((tree, yaml_duplicates(body))),
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
    };
    Err(unreadable(format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {word} into Go value of type map[string]interface {{}}"
    )))
}
