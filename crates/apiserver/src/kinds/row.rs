//! A kind as one declarative row: what most stored kinds differ in, and nothing else.
//!
//! ```text
//! pub(super) fn kind() -> Row {
//!     Row {
//!         default,
//!         validate,
//!         immutable: &[("/provisioner", "updates to provisioner are forbidden.")],
//!         columns: &COLUMNS,
//!         ..Row::new(Resource::cluster("storage.k8s.io", "v1", "StorageClass", "storageclasses").short(&["sc"]))
//!     }
//! }
//! ```

use std::borrow::Cow;

use muster_objects::time::Timestamp;
use muster_tree::Value;

use super::{Kind, keep_generation, raise_if_changed};
use crate::field::FieldError;
use crate::model::column::at;
use crate::model::fields::set_generation;
use crate::model::{Column, Fields as _, Model, NameRule, Object, Part, Propagation, Resource, Subresource, metadata};
use crate::schema;
use crate::validation::{Errors, meta};

/// A kind as data. [`Row::new`] is one without anything of its own; the fields say where a kind differs.
pub struct Row {
    /// What discovery tells.
    pub resource: Resource,
    /// Which rule `metadata.name` obeys.
    pub name_rule: NameRule,
    /// How its own checks look at metadata.
    pub metadata: meta::Look,
    /// Whether `metadata.generation` counts changes of the spec.
    pub counts_spec: bool,
    /// What happens to dependents of a deleted object when the request does not say.
    pub propagation: Propagation,
    /// [`Kind::default`].
    pub default: fn(&mut Object),
    /// The kind in whose version the objects are stored, where that is not this one's.
    pub stored_as: Option<Model<'static>>,
    /// [`Kind::to_stored`].
    pub to_stored: fn(&mut Object),
    /// [`Kind::to_served`].
    pub to_served: fn(&mut Object),
    /// [`Kind::deprecation`].
    pub deprecation: Option<&'static str>,
    /// [`Kind::deletion_warning`].
    pub deletion_warning: Option<&'static str>,
    /// What a write may not set, beside what [`Row`] does itself: the old object is that of an update.
    pub prepare: fn(Part, &mut Object, Option<&Object>),
    /// What is wrong with an object, metadata left out: the old object is that of an update.
    pub validate: fn(&Object, Option<&Object>, &mut Errors),
    /// Whether the kind looks at the metadata of a write of a subresource.
    pub part_metadata: bool,
    /// What is wrong with a write of a subresource, metadata left out.
    pub validate_part: fn(Part, &Object, &Object, &mut Errors),
    /// [`Kind::canonicalize`].
    pub canonicalize: fn(&mut Object),
    /// The fields that an update may not change, as JSON pointers, and what is said of a change.
    pub immutable: &'static [(&'static str, &'static str)],
    /// [`Kind::warnings`].
    pub warnings: fn(&Object, Option<&Object>) -> Vec<String>,
    /// [`Kind::part_warnings`].
    pub part_warnings: fn(Part, &Object) -> Vec<String>,
    /// [`Kind::hidden_annotation`].
    pub hidden_annotation: Option<&'static str>,
    /// [`Kind::complete_zero`].
    pub complete_zero: fn(&mut Object),
    /// [`Kind::stamp`].
    pub stamp: fn(Part, &mut Object, Option<&Object>, Timestamp),
    /// The columns of its table, each with what stands in it.
    pub columns: &'static [Column],
    /// Makes all cells at once, where columns do not say where theirs come from.
    pub cells: Option<fn(&Object, Timestamp) -> Vec<Value>>,
    /// [`Kind::scale_selector`].
    pub scale_selector: fn(&Object) -> String,
    /// The value of a field label that is not simply the field of that name.
    pub field: Option<fn(&Object, &str) -> Option<String>>,
}

/// The columns of a kind that says nothing of itself.
static PLAIN: [Column; 2] = [crate::model::NAME_COLUMN, crate::model::AGE_COLUMN];

impl Row {
    /// A kind without anything of its own: no defaults, nothing to validate but metadata, its name and age in a table.
    #[must_use]
    pub fn new(resource: Resource) -> Self {
        Self {
            resource,
            name_rule: NameRule::Subdomain,
            metadata: meta::Look::CHANGE,
            counts_spec: false,
            propagation: Propagation::Background,
            stored_as: None,
            to_stored: |_| {},
            to_served: |_| {},
            deprecation: None,
            deletion_warning: None,
            default: |_| {},
            prepare: |_, _, _| {},
            validate: |_, _, _| {},
            part_metadata: true,
            validate_part: |_, _, _, _| {},
            canonicalize: |_| {},
            immutable: &[],
            warnings: |_, _| Vec::new(),
            part_warnings: |_, _| Vec::new(),
            hidden_annotation: None,
            complete_zero: |_| {},
            stamp: |_, _, _, _| {},
            columns: &PLAIN,
            cells: None,
            scale_selector: |_| String::new(),
            field: None,
        }
    }

    fn has_status(&self) -> bool {
        self.resource.subresources.contains(&Subresource::Status)
    }
}

impl Kind for Row {
    fn resource(&self) -> &Resource {
        &self.resource
    }
    fn stored_as(&self) -> Option<Model<'_>> {
        self.stored_as
    }
    fn to_stored(&self, object: &mut Object) {
        (self.to_stored)(object);
    }
    fn to_served(&self, object: &mut Object) {
        (self.to_served)(object);
    }
    fn deprecation(&self) -> Option<&'static str> {
        self.deprecation
    }
    fn default(&self, object: &mut Object) {
        (self.default)(object);
    }
    fn name_rule(&self) -> NameRule {
        self.name_rule
    }
    fn prepare_create(&self, object: &mut Object) {
        if self.has_status() {
            object.insert(
                "status".to_owned(),
                schema::zero_field(&self.stored_as.unwrap_or(self.resource.model()), "status"),
            );
        }
        if self.counts_spec {
            set_generation(object, 1);
        }
        (self.prepare)(Part::Main, object, None);
    }
    fn prepare_update(&self, part: Part, object: &mut Object, old: &Object) {
        keep_generation(object, old);
        match part {
            Part::Main => {
                if self.has_status() {
                    object.carry("status", old);
                }
                (self.prepare)(part, object, Some(old));
                if self.counts_spec {
                    raise_if_changed(object, old);
                }
            }
            _ => {
                object.carry("spec", old);
                (self.prepare)(part, object, Some(old));
            }
        }
    }
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        self.metadata.check(metadata(object), None, self.resource.namespaced, self.name_rule, &mut errors);
        (self.validate)(object, None, &mut errors);
        if !self.metadata.own && errors.is_empty() {
            meta::validate(metadata(object), self.resource.namespaced, NameRule::PathSegment, &mut errors);
        }
        errors
    }
    fn validate_update(&self, part: Part, object: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = Errors::new();
        let (new, was) = (metadata(object), metadata(old));
        if part != Part::Main {
            let look = match self.metadata {
                _ if !self.part_metadata => meta::Look::NONE,
                look if look.change_last || !look.own => look,
                _ => meta::Look::CHANGE,
            };
            look.check(new, Some(was), self.resource.namespaced, self.name_rule, &mut errors);
            (self.validate_part)(part, object, old, &mut errors);
            look.check_last(new, was, &mut errors);
            return errors;
        }
        self.metadata.check(new, Some(was), self.resource.namespaced, self.name_rule, &mut errors);
        (self.validate)(object, Some(old), &mut errors);
        self.metadata.check_last(new, was, &mut errors);
        for (pointer, why) in self.immutable {
            let (new, was) = (at(object, pointer), at(old, pointer));
            if new != was {
                let field = pointer.trim_start_matches('/').replace('/', ".");
                errors.push(FieldError::invalid(field, new.unwrap_or(&Value::Null), *why));
            }
        }
        errors
    }
    fn canonicalize(&self, object: &mut Object) {
        (self.canonicalize)(object);
    }
    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        (self.warnings)(object, old)
    }
    fn part_warnings(&self, part: Part, object: &Object) -> Vec<String> {
        (self.part_warnings)(part, object)
    }
    fn hidden_annotation(&self) -> Option<&'static str> {
        self.hidden_annotation
    }
    fn complete_zero(&self, object: &mut Object) {
        (self.complete_zero)(object);
    }
    fn stamp(&self, part: Part, object: &mut Object, old: Option<&Object>, now: Timestamp) {
        (self.stamp)(part, object, old, now);
    }
    fn field<'a>(&self, object: &'a Object, label: &str) -> Option<Cow<'a, str>> {
        if let Some(value) = self.field.and_then(|field| field(object, label)) {
            return Some(Cow::Owned(value));
        }
        Some(match at(object, &format!("/{}", label.replace('.', "/")))? {
            Value::String(text) => Cow::Borrowed(text),
            other => Cow::Owned(other.to_string()),
        })
    }
    fn default_propagation(&self) -> Propagation {
        self.propagation
    }
    fn deletion_warning(&self) -> Option<&'static str> {
        self.deletion_warning
    }
    fn columns(&self) -> &[Column] {
        self.columns
    }
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        match self.cells {
            Some(cells) => cells(object, now),
            None => self.columns.iter().map(|column| column.cell.of(object, now)).collect(),
        }
    }
    fn scale_selector(&self, object: &Object) -> String {
        (self.scale_selector)(object)
    }
}
