//! A kind that came with a CustomResourceDefinition, in one of its versions (API-29).

use std::borrow::Cow;
use std::sync::Arc;

use muster_objects::time::Timestamp;
use muster_tree::Value;
use tokio::sync::Semaphore;

use super::{Column, Kind, NAME_COLUMN, Object, Part, Resource, keep_generation};
use crate::custom::family::{Family, Version};
use crate::custom::structural::Structural;
use crate::custom::{columns, default, lists, metadata as inner, path, rules, scale, validate};
use crate::field::{ErrorKind, FieldError, Shown, go_quote};
use crate::model::column::Cell;
use crate::model::fields::{Fields as _, metadata, set_generation};
use crate::model::{Name, NameRule, Subresource};
use crate::validation::{Errors, meta, name};

/// What can be done with custom objects, in the order in which the reference tells it.
const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// One version of a definition.
#[derive(Debug)]
pub struct CustomKind {
    family: Arc<Family>,
    at: usize,
    resource: Resource,
    columns: Vec<Column>,
    /// Whether what is stored is what is served, byte by byte.
    plain: bool,
}

impl CustomKind {
    /// The versions of a definition that are served. `plain` says that whatever is stored has been stored by this
    /// very schema.
    #[must_use]
    pub fn versions(family: &Arc<Family>, plain: bool) -> Vec<Arc<dyn Kind>> {
        let served = family.versions.iter().enumerate().filter(|(_, version)| version.served);
        served.map(|(at, _)| Arc::new(Self::new(family, at, plain && at == family.storage)) as Arc<dyn Kind>).collect()
    }

    fn new(family: &Arc<Family>, at: usize, plain: bool) -> Self {
        let version = &family.versions[at];
        let names = &family.names;
        let owned = |names: &[String]| names.iter().cloned().map(Name::Owned).collect();
        let mut parts = Vec::new();
        parts.extend(version.status.then_some(Subresource::Status));
        parts.extend(version.scale.as_ref().map(|_| Subresource::Scale));
        let resource = Resource {
            list_kind: names.list_kind.clone().into(),
            singular: names.singular.clone().into(),
            storage_prefix: format!("{}/{}", family.group, names.plural).into(),
            short_names: owned(&names.short_names),
            categories: owned(&names.categories),
            namespaced: family.namespaced,
            verbs: VERBS,
            own_field_labels: true,
            stamp: family.stamp,
            ..Resource::namespaced(family.group.clone(), version.name.clone(), names.kind.clone(), names.plural.clone())
                .parts(&parts)
                .conditional_update()
        };
        let printed = version.columns.iter().map(|column| Column {
            name: column.printer.name.clone().into(),
            kind: column.printer.kind.clone().into(),
            format: column.printer.format.clone().into(),
            description: column.printer.description.clone().into(),
            priority: column.printer.priority,
            cell: Cell::Own,
        });
        let columns = std::iter::once(NAME_COLUMN).chain(printed).collect();
        Self { family: Arc::clone(family), at, resource, columns, plain }
    }

    /// All versions together.
    #[must_use]
    pub fn family(&self) -> &Family {
        &self.family
    }

    /// The turns of those who may come to wait for a webhook that converts: whoever asks for the version that is stored
    /// does not.
    #[must_use]
    pub fn turns(&self) -> Option<&Semaphore> {
        (self.family.calls_out() && self.at != self.family.storage).then_some(&self.family.turns)
    }

    /// This version.
    #[must_use]
    pub fn version(&self) -> &Version {
        &self.family.versions[self.at]
    }

    /// The schema of this version.
    fn schema(&self) -> &Structural {
        self.family.schema(self.at)
    }

    /// Whether what is stored is what is served, byte by byte.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Whether an object says that it is of this kind and version.
    #[must_use]
    pub fn is_own(&self, object: &Object) -> bool {
        object.text("kind") == self.resource.kind && self.family.version_of(object) == Some(self.at)
    }

    /// What is stored, as it is served.
    ///
    /// # Errors
    /// What a webhook that converts has against it.
    pub fn read(&self, objects: &mut [Object]) -> Result<(), String> {
        if self.plain { Ok(()) } else { self.family.tell(objects, self.at) }
    }

    /// What is served, as it is stored.
    ///
    /// # Errors
    /// As by [`CustomKind::read`].
    pub fn store(&self, object: &mut Object) -> Result<(), String> {
        if self.plain { Ok(()) } else { self.family.store(object) }
    }

    /// An object of any version, in the version of that `apiVersion`. Nothing is filled in or dropped.
    ///
    /// # Errors
    /// As by [`CustomKind::read`], or that there is no such version.
    pub fn in_version(&self, object: &Object, api_version: &str) -> Result<Object, String> {
        let kind = &self.resource.kind;
        let at = self.family.version_named(api_version);
        let at = at.ok_or_else(|| format!("{api_version}, Kind={kind} is not defined"))?;
        let mut told = [object.clone()];
        self.family.convert(&mut told, at)?;
        let [told] = told;
        Ok(told)
    }

    /// What is not of this kind and version at all.
    fn type_errors(&self, object: &Object, errors: &mut Errors) {
        let wanted = self.resource.api_version();
        for (field, wanted) in [("kind", &*self.resource.kind), ("apiVersion", wanted.as_str())] {
            let found = object.text(field);
            if found != wanted {
                errors.push(FieldError::invalid(field, found, format!("must be {wanted}")));
            }
        }
    }

    /// What every write is checked for once its own schema has been looked at.
    fn check_inside(
        &self,
        object: &Object,
        old: Option<&Object>,
        part: Part,
        errors: &mut Errors,
        warnings: &mut Vec<String>,
    ) {
        let schema = self.schema();
        if part == Part::Main {
            inner::validate(object, schema, errors);
        }
        if old.is_none_or(|old| lists::validate(old, schema).is_empty()) {
            errors.extend(lists::validate(object, schema));
        }
        if schema.holds.rules {
            if errors.iter().any(blocks) {
                errors.push(FieldError::invalid("<nil>", Shown::Bare("null".to_owned()), UNCHECKED));
            } else {
                errors.extend(rules::object(object, old, schema, warnings));
            }
        }
    }
}

const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// Whether rules cannot be asked about an object with this error.
fn blocks(error: &FieldError) -> bool {
    use ErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
    matches!(error.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
}

impl Kind for CustomKind {
    fn resource(&self) -> &Resource {
        &self.resource
    }
    fn custom(&self) -> Option<&CustomKind> {
        Some(self)
    }
    fn default(&self, object: &mut Object) {
        if self.is_own(object) {
            default::fill(object, self.schema());
        }
    }
    fn canonicalize(&self, object: &mut Object) {
        // A status that was not taken leaves the one that there is without it.
        self.default(object);
        object.values_mut().for_each(default::make_whole);
    }
    fn prepare_create(&self, object: &mut Object) {
        if self.version().status {
            object.remove("status");
        }
        set_generation(object, 1);
    }
    fn prepare_update(&self, part: Part, object: &mut Object, old: &Object) {
        if part == Part::Status {
            let sent = std::mem::replace(object, old.clone());
            object.object_or_new("metadata").carry("managedFields", metadata(&sent));
            object.carry("status", &sent);
            return;
        }
        keep_generation(object, old);
        if self.version().status {
            object.carry("status", old);
        }
        let without = |object: &Object| object.iter().filter(|(key, _)| *key != "metadata").count();
        let same = without(object) == without(old)
            && object.iter().all(|(key, value)| key == "metadata" || old.get(key) == Some(value));
        if !same {
            set_generation(object, metadata(old).int("generation") + 1);
        }
    }
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        self.type_errors(object, &mut errors);
        if errors.is_empty() {
            meta::validate(metadata(object), self.resource.namespaced, NameRule::Subdomain, &mut errors);
            errors.extend(validate::object(object, None, self.schema()));
            if let Some(own) = &self.version().scale {
                scale::validate_spec(object, own, &mut errors);
                scale::validate_status(object, own, &mut errors);
            }
        }
        self.check_inside(object, None, Part::Main, &mut errors, &mut Vec::new());
        errors
    }
    fn validate_update(&self, part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        self.validate_update_warned(part, object, old, &mut Vec::new())
    }
    fn validate_update_warned(
        &self,
        part: Part,
        object: &Object,
        old: &Object,
        warnings: &mut Vec<String>,
    ) -> Vec<FieldError> {
        let mut errors = Errors::new();
        let schema = self.schema();
        self.type_errors(object, &mut errors);
        if errors.is_empty() {
            meta::validate_update(metadata(object), metadata(old), &mut errors);
            if part == Part::Status {
                if let Some(status) = object.get("status")
                    && let Some(schema) = schema.member("status")
                {
                    errors.extend(validate::value(status, old.get("status"), schema, "status"));
                }
            } else {
                errors.extend(validate::object(object, Some(old), schema));
            }
            if let Some(own) = &self.version().scale {
                if part != Part::Status {
                    scale::validate_spec(object, own, &mut errors);
                }
                scale::validate_status(object, own, &mut errors);
            }
        }
        self.check_inside(object, Some(old), part, &mut errors, warnings);
        errors
    }
    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let was: Vec<&str> = old.map(|old| metadata(old).strings("finalizers").collect()).unwrap_or_default();
        let mut added: Vec<&str> = metadata(object).strings("finalizers").filter(|f| !was.contains(f)).collect();
        added.sort_unstable();
        added.dedup();
        added.into_iter().flat_map(finalizer_warnings).collect()
    }
    fn deprecation(&self) -> Option<&str> {
        self.version().deprecation.as_deref()
    }
    fn field<'a>(&self, object: &'a Object, label: &str) -> Option<Cow<'a, str>> {
        let (_, path) = self.version().selectable.iter().find(|(name, _)| name == label)?;
        let whole = Value::Object(object.clone());
        let found = path.find(&whole);
        found.first().filter(|value| !value.is_null()).map(|value| Cow::Owned(path::printed(value)))
    }
    fn columns(&self) -> &[Column] {
        &self.columns
    }
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let name = Value::from(metadata(object).text("name"));
        std::iter::once(name).chain(columns::cells(&self.version().columns, object, now)).collect()
    }
    fn scale_selector(&self, object: &Object) -> String {
        let path = self.version().scale.as_ref().and_then(|own| own.label_selector_path.as_deref());
        path.and_then(|path| scale::text(object, path).ok().flatten()).unwrap_or_default().to_owned()
    }
}

/// A finalizer should say whose it is.
fn finalizer_warnings(finalizer: &str) -> Vec<String> {
    let quoted = go_quote(finalizer);
    let mut found: Vec<String> = name::is_qualified_name(finalizer)
        .into_iter()
        .map(|why| format!("metadata.finalizers: {quoted}: {why}"))
        .collect();
    if !finalizer.contains('/') && !meta::is_standard_finalizer(finalizer) {
        let form = if finalizer.contains('.') { " including a path (/)" } else { "" };
        found.push(format!(
            "metadata.finalizers: {quoted}: prefer a domain-qualified finalizer name{form} to avoid accidental conflicts with other finalizer writers"
        ));
    }
    found
}
