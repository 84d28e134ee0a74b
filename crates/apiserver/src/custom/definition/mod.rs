//! CustomResourceDefinitions: their fields, their validation, and what the server says of them.

pub mod conditions;
mod defaults;
mod go;
mod schema;
mod structure;
pub mod validate;
mod webhook;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use muster_tree::Value;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Object;
use super::props::Props;
use crate::model::Fields as _;

/// What the server does with the objects of a definition that is deleted.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
/// The annotation that approves a group of Kubernetes' own.
pub const APPROVED_ANNOTATION: &str = "api-approved.kubernetes.io";

/// A definition, as far as the server looks at it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Definition {
    /// Its metadata.
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: Spec,
    /// What the server says.
    pub status: Status,
}

/// The metadata that counts here.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    /// Its name: plural and group.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// How often its spec has changed.
    pub generation: i64,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// What holds it.
    pub finalizers: Vec<String>,
    /// Since when it is going.
    pub deletion_timestamp: Option<String>,
}

/// What is wanted.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    /// The API group.
    pub group: String,
    /// The names.
    pub names: Names,
    /// `Namespaced` or `Cluster`.
    pub scope: String,
    /// The versions.
    pub versions: Vec<Version>,
    /// Whether nothing was said of versions, not even that there are none.
    #[serde(skip)]
    pub says_no_versions: bool,
    /// How one version becomes another.
    pub conversion: Option<Conversion>,
    /// Refused when true.
    pub preserve_unknown_fields: bool,
}

/// The names of a kind.
#[derive(Debug, Clone, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Names {
    /// In URLs.
    pub plural: String,
    /// On the command line.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub singular: String,
    /// On the command line, short.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub short_names: Vec<String>,
    /// In objects.
    pub kind: String,
    /// In lists.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub list_kind: String,
    /// The groups of kinds that it belongs to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
}

/// A version.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Version {
    /// Its name.
    pub name: String,
    /// Whether it is served.
    pub served: bool,
    /// Whether objects are stored in it.
    pub storage: bool,
    /// Whether it is on its way out.
    pub deprecated: bool,
    /// What is said of that.
    pub deprecation_warning: Option<String>,
    /// The schema.
    pub schema: Option<Validation>,
    /// The subresources.
    pub subresources: Option<Subresources>,
    /// The columns of its table.
    pub additional_printer_columns: Vec<PrinterColumn>,
    /// The fields that lists can be selected by.
    pub selectable_fields: Vec<SelectableField>,
}

/// A schema, in its place.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Validation {
    /// The schema.
    #[serde(rename = "openAPIV3Schema")]
    pub schema: Option<Props>,
}

/// The subresources of a version.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Subresources {
    /// `/status`
    pub status: Option<Object>,
    /// `/scale`
    pub scale: Option<Scale>,
}

/// Where a scale finds its numbers.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Scale {
    /// The wanted replicas.
    pub spec_replicas_path: String,
    /// The present replicas.
    pub status_replicas_path: String,
    /// The selector.
    pub label_selector_path: Option<String>,
}

/// A column.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PrinterColumn {
    /// Its heading.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its format.
    pub format: String,
    /// What it shows.
    pub description: String,
    /// 0 is always shown.
    pub priority: i32,
    /// Where its value is.
    pub json_path: String,
}

/// A field that lists can be selected by.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SelectableField {
    /// Where its value is.
    pub json_path: String,
}

/// How one version becomes another.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Conversion {
    /// `None` or `Webhook`.
    pub strategy: String,
    /// The webhook.
    pub webhook: Option<Webhook>,
}

/// A webhook that converts.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Webhook {
    /// Where it is.
    pub client_config: Option<ClientConfig>,
    /// The versions of ConversionReview that it speaks.
    pub conversion_review_versions: Vec<String>,
}

/// Where a webhook is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientConfig {
    /// By URL.
    pub url: Option<String>,
    /// By Service.
    pub service: Option<ServiceReference>,
    /// Who signs its certificate, in base64 of PEM.
    pub ca_bundle: String,
}

/// A Service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The path.
    pub path: Option<String>,
    /// The port.
    pub port: i64,
}

impl Default for ServiceReference {
    fn default() -> Self {
        Self { namespace: String::new(), name: String::new(), path: None, port: 443 }
    }
}

/// What the server says.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    /// The conditions, as they are.
    pub conditions: Option<Vec<Object>>,
    /// The names that it has.
    pub accepted_names: Names,
    /// The versions that objects may be stored in.
    pub stored_versions: Option<Vec<String>>,
}

impl Definition {
    /// Reads a decoded definition.
    ///
    /// # Errors
    /// What is not of its type.
    pub fn read(object: &Object) -> Result<Self, String> {
        let mut spec: Spec = part(object, "spec")?;
        spec.says_no_versions = object.part("spec").get("versions").is_none_or(Value::is_null);
        Ok(Self { metadata: part(object, "metadata")?, spec, status: part(object, "status")? })
    }

    /// Reads the status again, which has changed alone.
    ///
    /// # Errors
    /// What is not of its type.
    pub fn read_status(&mut self, object: &Object) -> Result<(), String> {
        self.status = part(object, "status")?;
        Ok(())
    }

    /// What changes when what is served of it does: its spec, which has a generation, or its names.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.metadata.uid, self.metadata.generation, &self.status.accepted_names).hash(&mut hasher);
        hasher.finish()
    }

    /// Whether a condition is true.
    #[must_use]
    pub fn is(&self, condition: &str) -> bool {
        self.condition(condition).is_some_and(|c| c.get("status").and_then(Value::as_str) == Some("True"))
    }

    /// A condition.
    #[must_use]
    pub fn condition(&self, name: &str) -> Option<&Object> {
        self.status.conditions.iter().flatten().find(|c| c.get("type").and_then(Value::as_str) == Some(name))
    }

    /// The version that objects are stored in.
    #[must_use]
    pub fn storage_version(&self) -> Option<&Version> {
        self.spec.versions.iter().find(|version| version.storage)
    }
}

impl Version {
    /// The schema.
    #[must_use]
    pub fn props(&self) -> Option<&Props> {
        self.schema.as_ref()?.schema.as_ref()
    }

    /// Whether `/status` has a URL of its own.
    #[must_use]
    pub fn has_status(&self) -> bool {
        self.subresources.as_ref().is_some_and(|s| s.status.is_some())
    }

    /// The scale.
    #[must_use]
    pub fn scale(&self) -> Option<&Scale> {
        self.subresources.as_ref()?.scale.as_ref()
    }
}

/// Reads a part of an object. Nulls are rare: only for them is it copied.
fn part<T: DeserializeOwned + Default>(object: &Object, name: &str) -> Result<T, String> {
    let read = match object.get(name) {
        None | Some(Value::Null) => return Ok(T::default()),
        Some(part) if has_nulls(part) => muster_tree::from_value(&without_nulls(part.clone())),
        Some(part) => T::deserialize(part),
    };
    read.map_err(|error| error.to_string())
}

/// Whether there is a null that counts as absent.
fn has_nulls(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(object) => object.iter().any(|(name, value)| !is_literal(name) && has_nulls(value)),
        Value::Array(list) => list.iter().any(has_nulls),
        _ => false,
    }
}

/// Whether a member of a schema is a value, or values.
fn is_literal(name: &str) -> bool {
    matches!(name, "default" | "example" | "enum")
}

/// A null is no value, but in what a schema says of values.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(object) => Value::Object(
            object
                .into_iter()
                .filter(|(name, value)| !value.is_null() || matches!(name.as_str(), "default" | "example"))
                .map(|(name, value)| {
                    let value = if is_literal(&name) { value } else { without_nulls(value) };
                    (name, value)
                })
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// Fills in what the reference fills in.
pub fn default(object: &mut Object) {
    default_spec(object);
    let stored = object.get("status").and_then(|status| status.get("storedVersions")).and_then(Value::as_array);
    if stored.is_none_or(muster_tree::List::is_empty) {
        let status = object.entry("status").or_insert_with(|| Value::Object(Object::new()));
        if let Some(status) = status.as_object_mut() {
            status.insert("storedVersions", Value::Null);
        }
        note_storage_version(object);
    }
}

fn default_spec(object: &mut Object) {
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    if let Some(Value::Object(names)) = spec.get_mut("names") {
        let text = |names: &Object, name: &str| names.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = text(names, "kind");
        if text(names, "singular").is_empty() && !kind.is_empty() {
            names.insert("singular", Value::from(kind.to_lowercase()));
        }
        if text(names, "listKind").is_empty() && !kind.is_empty() {
            names.insert("listKind", Value::from(format!("{kind}List")));
        }
    }
    match spec.get_mut("conversion") {
        None | Some(Value::Null) => {
            spec.insert("conversion", muster_tree::json!({"strategy": "None"}));
        }
        Some(conversion) => {
            if let Some(Value::Object(service)) = conversion.pointer_mut("/webhook/clientConfig/service")
                && service.get("port").is_none_or(Value::is_null)
            {
                service.insert("port", Value::from(443));
            }
        }
    }
}

/// Writes the schemas in the form in which they are stored: what no schema knows goes.
pub fn normalize(object: &mut Object) {
    let Some(Value::Array(versions)) = object.get_mut("spec").and_then(|spec| spec.get_mut("versions")) else { return };
    for version in versions {
        let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") else { continue };
        if let Ok(props) = muster_tree::from_value::<Props>(&without_nulls(schema.clone()))
            && let Ok(written) = muster_tree::Value::of(&props)
        {
            *schema = written;
        }
    }
}

/// Adds the storage version to the versions that objects may be stored in.
pub fn note_storage_version(object: &mut Object) {
    let storage = object
        .get("spec")
        .and_then(|spec| spec.get("versions"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        .and_then(|version| version.get("name"))
        .cloned();
    let Some(Value::Object(status)) = object.get_mut("status") else { return };
    let stored = status.entry("storedVersions").or_insert(Value::Null);
    match (stored, storage) {
        (Value::Array(list), Some(name)) if !list.contains(&name) => list.push(name),
        (stored @ Value::Null, Some(name)) => *stored = Value::Array(vec![name].into()),
        _ => {}
    }
}
