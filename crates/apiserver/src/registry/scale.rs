//! The `/scale` of an object: an `autoscaling/v1` Scale over its replicas (API-15).

use serde_json::{Value, json};

use super::options::WriteOptions;
use super::patch::{Patch, apply};
use super::update::Update;
use super::{Answer, Registry, Served, set_metadata};
use crate::codec::{self, Model};
use crate::model::fields::{Fields as _, metadata};
use crate::model::{NameRule, Object};
use crate::schema;
use crate::status::{ApiError, GroupResource};
use crate::validation::{self, Path};

/// What a write of a Scale brings.
#[derive(Debug, Clone, Copy)]
pub enum NewScale<'a> {
    /// A whole new one, decoded.
    Whole(&'a Object),
    /// A patch of the present one.
    Patched(Patch<'a>),
    /// A configuration to apply, in YAML or JSON.
    Applied(&'a [u8]),
}

impl Registry {
    /// The scale of an object.
    ///
    /// # Errors
    /// 404 when the object is not there.
    pub fn scale(&self, served: &Served, namespace: &str, name: &str) -> Result<Answer, ApiError> {
        let entry = self.get(served, namespace, name)?;
        Ok(Answer::Object(scale_of(served, &entry.object())))
    }

    /// Changes an object's replicas through its scale.
    ///
    /// # Errors
    /// 404, 409 for another version or uid, 422 for a scale that is invalid.
    pub fn set_scale(
        &self,
        served: &Served,
        update: Update<'_>,
        new: NewScale<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, ApiError> {
        let precondition = match new {
            NewScale::Whole(scale) => metadata(scale).maybe_text("uid").filter(|uid| !uid.is_empty()),
            NewScale::Patched(_) | NewScale::Applied(_) => None,
        };
        // Managed fields are kept by the scale, and carried over by hand.
        let unmanaged = WriteOptions { manager: String::new(), ..update.options.clone() };
        let manager = update.options.manager.as_str();
        let update = Update { options: &unmanaged, ..update };
        let answer = self.change(served, update, precondition, warnings, |live, warnings| {
            let mut present = scale_of(served, live);
            let shared = shared_entries(live);
            if !shared.is_empty() {
                set_metadata(&mut present, "managedFields", Some(Value::Array(shared)));
            }
            let mut scale = match new {
                NewScale::Whole(scale) => (*scale).clone(),
                NewScale::Patched(patch) => apply(&Model::SCALE, &present, patch, update.options, warnings)?,
                NewScale::Applied(body) => self.apply_to(&Model::SCALE, Some(&present), update, body, warnings)?,
            };
            check(served, &scale, live, update.name)?;
            // Who applies has said already what is whose.
            if !matches!(new, NewScale::Applied(_)) {
                codec::update_scale_managed_fields(&present, &mut scale, manager, self.clock.now());
            }
            let mut next = live.clone();
            let entries = carried_entries(served, live, &scale);
            set_metadata(&mut next, "managedFields", (!entries.is_empty()).then_some(Value::Array(entries)));
            let replicas = scale.object("spec").map_or(0, |spec| spec.int("replicas"));
            next.object_or_new("spec").insert("replicas".to_owned(), Value::from(replicas));
            let version = metadata(&scale).maybe_text("resourceVersion").map(Value::from);
            set_metadata(&mut next, "resourceVersion", version);
            Ok(next)
        })?;
        Ok(Answer::Object(scale_of(served, &answer.object())))
    }
}

/// The managers that own the object's replicas, as entries of its scale.
fn shared_entries(object: &Object) -> Vec<Value> {
    let entries = entries_of(object);
    let owners = entries.iter().filter(|entry| owns_replicas(entry));
    owners.map(|entry| entry_for(entry, "autoscaling/v1", true)).collect()
}

/// The object's entries. Of two of one manager the last counts: a scale that is written may leave two.
fn entries_of(object: &Object) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for entry in metadata(object).list("managedFields") {
        let same = |known: &&mut Value| {
            same_applier(known, entry)
                || ["operation", "manager", "subresource", "apiVersion"]
                    .iter()
                    .all(|key| known.get(key) == entry.get(key))
        };
        match out.iter_mut().find(same) {
            Some(known) => *known = entry.clone(),
            None => out.push(entry.clone()),
        }
    }
    out
}

/// The object's entries after its scale was written: who owns the replicas is what the scale says.
fn carried_entries(served: &Served, object: &Object, scale: &Object) -> Vec<Value> {
    let mut entries = entries_of(object);
    let mut owners: Vec<&Value> = metadata(scale).list("managedFields").iter().collect();
    for entry in entries.iter_mut().filter(|entry| owns_replicas(entry)) {
        // Who applied the object, and owns the replicas still, goes on with one entry.
        if let Some(kept) = owners.iter().position(|owner| same_applier(owner, entry)) {
            owners.remove(kept);
        } else if let Some(Value::Object(fields)) = entry.pointer_mut("/fieldsV1") {
            schema::managed::subtract(fields, &json!({"f:spec": {"f:replicas": {}}}));
        }
    }
    entries
        .retain(|entry| entry.pointer("/fieldsV1").and_then(Value::as_object).is_some_and(|fields| !fields.is_empty()));
    let owners = owners.into_iter().filter(|entry| owns_replicas(entry));
    entries.extend(owners.map(|entry| entry_for(entry, &served.api_version(), false)));
    entries.sort_by_key(|entry| {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        [text("operation"), text("time"), text("manager"), text("apiVersion"), text("subresource")]
    });
    entries
}

/// Whether two entries are of one manager that applies, whatever the version.
fn same_applier(one: &Value, other: &Value) -> bool {
    let applies = one.get("operation").and_then(Value::as_str) == Some("Apply");
    applies && ["operation", "manager", "subresource"].iter().all(|key| one.get(key) == other.get(key))
}

fn owns_replicas(entry: &Value) -> bool {
    entry.pointer("/fieldsV1/f:spec/f:replicas").is_some()
}

/// An entry of the same manager for the replicas alone.
fn entry_for(entry: &Value, api_version: &str, timed: bool) -> Value {
    let mut out = Object::new();
    for key in ["manager", "operation", "subresource", "time"] {
        if let Some(value) = entry.get(key).filter(|_| timed || key != "time") {
            out.insert(key.to_owned(), value.clone());
        }
    }
    out.insert("apiVersion".to_owned(), Value::from(api_version));
    out.insert("fieldsType".to_owned(), Value::from("FieldsV1"));
    out.insert("fieldsV1".to_owned(), json!({"f:spec": {"f:replicas": {}}}));
    Value::Object(out)
}

fn check(served: &Served, scale: &Object, live: &Object, name: &str) -> Result<(), ApiError> {
    let found = metadata(scale);
    match found.text("name") {
        "" => {
            let message =
                format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
            return Err(ApiError::bad_request(message));
        }
        other if other != name => {
            let message = format!("the name of the object ({other}) does not match the name on the URL ({name})");
            return Err(ApiError::bad_request(message));
        }
        _ => {}
    }
    let namespace = found.text("namespace");
    if !namespace.is_empty() && namespace != metadata(live).text("namespace") {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(message));
    }
    let mut errors = Vec::new();
    let mut named = found.clone();
    // The namespace of the path counts, where the scale says none.
    named.carry("namespace", metadata(live));
    validation::meta::validate_core(&named, true, NameRule::Subdomain, &mut errors);
    let replicas = scale.object("spec").map_or(0, |spec| spec.int("replicas"));
    validation::non_negative(replicas, &Path::new("spec").child("replicas"), &mut errors);
    if !errors.is_empty() {
        let kind = GroupResource { group: "autoscaling", resource: "Scale" };
        return Err(ApiError::invalid(kind, name, &errors));
    }
    let (wanted, uid) = (found.text("uid"), metadata(live).text("uid"));
    if !wanted.is_empty() && wanted != uid {
        let resource = served.resource();
        let plural = format!("{}/scale", resource.plural);
        let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}");
        return Err(ApiError::conflict(GroupResource { group: &resource.group, resource: &plural }, name, &why));
    }
    Ok(())
}

fn scale_of(served: &Served, object: &Object) -> Object {
    let from = metadata(object);
    let mut meta = Object::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = from.get(key) {
            meta.insert(key.to_owned(), value.clone());
        }
    }
    let replicas = |part: &str| object.object(part).map_or(0, |p| p.int("replicas"));
    let mut spec = Object::new();
    if replicas("spec") != 0 {
        spec.insert("replicas".to_owned(), json!(replicas("spec")));
    }
    let mut status = Object::new();
    status.insert("replicas".to_owned(), json!(replicas("status")));
    let selector = served.kind.scale_selector(object);
    if !selector.is_empty() {
        status.insert("selector".to_owned(), Value::from(selector));
    }
    let mut scale = Object::new();
    scale.insert("kind".to_owned(), json!("Scale"));
    scale.insert("apiVersion".to_owned(), json!("autoscaling/v1"));
    scale.insert("metadata".to_owned(), Value::Object(meta));
    scale.insert("spec".to_owned(), Value::Object(spec));
    scale.insert("status".to_owned(), Value::Object(status));
    scale
}
