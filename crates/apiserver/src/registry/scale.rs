//! The `/scale` of an object: an `autoscaling/v1` Scale over its replicas (API-15).

use muster_tree::{Value, json};

use super::options::WriteOptions;
use super::patch::{Form, Patch, apply};
use super::update::{Update, check_name};
use super::{Answer, Registry, Served, set_metadata};
use crate::codec::{self, Model};
use crate::custom::scale;
use crate::field::go_quote;
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
        let object = served.live(&entry)?;
        if let Some(path) = spec_path(served)
            && scale::number(&object, path).map_err(ApiError::plain)?.is_none()
        {
            let why = format!("the spec replicas field {} does not exist", go_quote(path));
            return Err(ApiError::internal(&why));
        }
        Ok(Answer::Object(scale_of(served, &object).map_err(ApiError::plain)?))
    }

    /// Changes an object's replicas through its scale.
    ///
    /// # Errors
    /// 404, 409 for another version or uid, 422 for a scale that is invalid.
    pub async fn set_scale(
        &self,
        served: &Served,
        update: Update<'_>,
        new: NewScale<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, ApiError> {
        let precondition = match new {
            NewScale::Whole(scale) => {
                check_name(scale, update.name)?;
                metadata(scale).maybe_text("uid").filter(|uid| !uid.is_empty())
            }
            NewScale::Patched(_) | NewScale::Applied(_) => None,
        };
        // Managed fields are kept by the scale, and carried over by hand.
        let unmanaged = WriteOptions { manager: String::new(), ..update.options.clone() };
        let manager = update.options.manager.as_str();
        let form = if served.kind.custom().is_some() { Form::CustomScale } else { Form::Builtin };
        let update = Update { options: &unmanaged, ..update };
        let changed = self.change(served, update, precondition, warnings, |live, warnings| {
            let mut present = scale_of(served, live).map_err(ApiError::plain)?;
            let path = spec_path(served);
            if let Some(path) = path
                && scale::number(live, path).map_err(ApiError::plain)?.is_none()
            {
                present.object_or_new("spec").insert("replicas", Value::from(UNSET));
            }
            let shared = shared_entries(live, &fields_of(path));
            if !shared.is_empty() {
                set_metadata(&mut present, "managedFields", Some(Value::Array(shared.into())));
            }
            let mut scale = match new {
                NewScale::Whole(scale) => (*scale).clone(),
                NewScale::Patched(patch) => apply(&Model::SCALE, form, &present, patch, update.options, warnings)?,
                NewScale::Applied(body) => {
                    self.apply_to(Model::SCALE.into(), Some(&present), update, body, warnings)?
                }
            };
            check(served, &scale, live, update.name)?;
            // Who applies has said already what is whose.
            if !matches!(new, NewScale::Applied(_)) {
                codec::update_scale_managed_fields(&present, &mut scale, manager, self.clock.now());
            }
            let mut next = live.clone();
            let entries = carried_entries(served, live, &scale);
            set_metadata(&mut next, "managedFields", (!entries.is_empty()).then_some(Value::Array(entries.into())));
            let replicas = scale.object("spec").map_or(0, |spec| spec.int("replicas"));
            match path {
                Some(path) if replicas == UNSET => {
                    let why = format!("the spec replicas field {} cannot be empty", go_quote(path));
                    return Err(ApiError::bad_request(why));
                }
                Some(path) => scale::set(&mut next, path, replicas).map_err(ApiError::plain)?,
                None => {
                    next.object_or_new("spec").insert("replicas", Value::from(replicas));
                }
            }
            let version = metadata(&scale).maybe_text("resourceVersion").filter(|version| !version.is_empty());
            // The scale of a custom object may be written whatever its version is, which the object itself may not.
            if version.is_some() || path.is_none() {
                set_metadata(&mut next, "resourceVersion", version.map(Value::from));
            }
            Ok(next)
        });
        let answer = changed.await?;
        let object = match &answer {
            Answer::Entry(entry) => served.live(entry)?,
            Answer::Object(object) => object.clone(),
        };
        Ok(Answer::Object(scale_of(served, &object).map_err(ApiError::bad_request)?))
    }
}

/// Where a custom object has its wanted replicas.
fn spec_path(served: &Served) -> Option<&str> {
    served.kind.custom()?.version().scale.as_ref().map(|own| own.spec_replicas_path.as_str())
}

/// What the reference puts where a custom object says no replicas, to know whether a write does.
const UNSET: i64 = i32::MIN as i64;

/// A set of fields that is the replicas, wherever an object has them.
fn fields_of(path: Option<&str>) -> Value {
    let steps = path.unwrap_or(".spec.replicas").trim_start_matches('.').rsplit('.');
    steps.fold(json!({}), |below, step| json!({format!("f:{step}"): below}))
}

/// The managers that own the object's replicas, as entries of its scale.
fn shared_entries(object: &Object, fields: &Value) -> Vec<Value> {
    let entries = entries_of(object);
    let owners = entries.iter().filter(|entry| owns(entry, fields));
    owners.map(|entry| entry_for(entry, "autoscaling/v1", true, fields_of(None))).collect()
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
    let (fields, scaled) = (fields_of(spec_path(served)), fields_of(None));
    let mut entries = entries_of(object);
    let mut owners: Vec<&Value> = metadata(scale).list("managedFields").iter().collect();
    for entry in entries.iter_mut().filter(|entry| owns(entry, &fields)) {
        // Who applied the object, and owns the replicas still, goes on with one entry.
        if let Some(kept) = owners.iter().position(|owner| same_applier(owner, entry)) {
            owners.remove(kept);
        } else if let Some(Value::Object(owned)) = entry.pointer_mut("/fieldsV1") {
            schema::managed::subtract(owned, &fields);
        }
    }
    entries
        .retain(|entry| entry.pointer("/fieldsV1").and_then(Value::as_object).is_some_and(|fields| !fields.is_empty()));
    let owners = owners.into_iter().filter(|entry| owns(entry, &scaled));
    entries.extend(owners.map(|entry| entry_for(entry, &served.api_version(), false, fields.clone())));
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

/// Whether an entry has a path of fields.
fn owns(entry: &Value, fields: &Value) -> bool {
    let (mut place, mut step) = (entry.get("fieldsV1"), fields.as_object());
    while let Some((name, below)) = step.and_then(|step| step.iter().next()) {
        place = place.and_then(|place| place.get(name));
        step = below.as_object();
    }
    place.is_some()
}

/// An entry of the same manager for the replicas alone.
fn entry_for(entry: &Value, api_version: &str, timed: bool, fields: Value) -> Value {
    let mut out = Object::new();
    for key in ["manager", "operation", "subresource", "time"] {
        if let Some(value) = entry.get(key).filter(|_| timed || key != "time") {
            out.insert(key, value.clone());
        }
    }
    out.insert("apiVersion", Value::from(api_version));
    out.insert("fieldsType", Value::from("FieldsV1"));
    out.insert("fieldsV1", fields);
    Value::Object(out)
}

fn check(served: &Served, scale: &Object, live: &Object, name: &str) -> Result<(), ApiError> {
    check_name(scale, name)?;
    let found = metadata(scale);
    let namespace = found.text("namespace");
    if !namespace.is_empty() && namespace != metadata(live).text("namespace") {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(message));
    }
    if served.kind.custom().is_some() {
        // What is wrong with the replicas is told of the object.
        return check_uid(served, found, live, name);
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
    check_uid(served, found, live, name)
}

fn check_uid(served: &Served, found: &Object, live: &Object, name: &str) -> Result<(), ApiError> {
    let (wanted, uid) = (found.text("uid"), metadata(live).text("uid"));
    if !wanted.is_empty() && wanted != uid {
        let resource = served.resource();
        let plural = format!("{}/scale", resource.plural);
        let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}");
        return Err(ApiError::conflict(GroupResource { group: &resource.group, resource: &plural }, name, &why));
    }
    Ok(())
}

pub(crate) fn scale_of(served: &Served, object: &Object) -> Result<Object, String> {
    let from = metadata(object);
    let mut meta = Object::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = from.get(key) {
            meta.insert(key, value.clone());
        }
    }
    let own = served.kind.custom().and_then(|custom| custom.version().scale.as_ref());
    let (wanted, present) = match own {
        Some(own) => {
            let number = |path: &str| Ok::<_, String>(scale::number(object, path)?.unwrap_or_default());
            if let Some(path) = &own.label_selector_path {
                scale::text(object, path)?;
            }
            (number(&own.spec_replicas_path)?, number(&own.status_replicas_path)?)
        }
        None => {
            let replicas = |part: &str| object.object(part).map_or(0, |p| p.int("replicas"));
            (replicas("spec"), replicas("status"))
        }
    };
    let mut spec = Object::new();
    if wanted != 0 {
        spec.insert("replicas", json!(wanted));
    }
    let mut status = Object::new();
    status.insert("replicas", json!(present));
    let selector = served.kind.scale_selector(object);
    if !selector.is_empty() {
        status.insert("selector", Value::from(selector));
    }
    let mut scale = Object::new();
    scale.insert("kind", json!("Scale"));
    scale.insert("apiVersion", json!("autoscaling/v1"));
    scale.insert("metadata", Value::Object(meta));
    scale.insert("spec", Value::Object(spec));
    scale.insert("status", Value::Object(status));
    Ok(scale)
}
