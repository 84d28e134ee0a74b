//! The validation of definitions, in the reference's words and order.
//!
//! The reference validates a form in which what all versions share stands above them, so that a definition with one
//! version is complained of at `spec.validation` and not at `spec.versions[0].schema`.

use std::collections::BTreeSet;

use super::schema::{self, Options};
use super::{
    ClientConfig, Conversion, Definition, Names, PrinterColumn, SelectableField, Spec, Subresources, Validation,
    Version, go, webhook,
};
use crate::custom::metadata::{child, mixed_case};
use crate::custom::path::{FieldPathOptions, valid_field_path};
use crate::custom::props::Props;
use crate::custom::structural::Structural;
use crate::field::{ErrorKind, FieldError, Shown};
use crate::model::NameRule;
use crate::validation::{Errors, IMMUTABLE, name};

mod approval;
mod change;

pub use approval::{Approval, approval_of, is_protected};

/// The most fields that lists can be selected by.
const MOST_SELECTABLE: usize = 8;

/// What is wrong with a new definition, but for its metadata.
#[must_use]
pub fn create(definition: &Definition) -> Errors {
    let options = Options { allow_invalid_bundle: true, ..Options::strict() };
    let mut errors = Errors::new();
    validate_spec(&definition.spec, &options, &mut errors);
    validate_names(&definition.status.accepted_names, "status.acceptedNames", &mut errors);
    validate_stored(definition, &mut errors);
    errors.extend(approval::approval(definition, None));
    errors.extend(preserve(definition, None));
    errors
}

/// What is wrong with a definition's name, or with the prefix that it is to be made from: it is the plural and the
/// group.
#[must_use]
pub fn complain_of_name(definition: &Definition, own: &str, prefix: bool) -> Vec<String> {
    let mut complaints = name::by_rule(NameRule::Subdomain, own, prefix);
    if own != format!("{}.{}", definition.spec.names.plural, definition.spec.group) {
        complaints.push("must be spec.names.plural+\".\"+spec.group".to_owned());
    }
    complaints
}

/// What is wrong with a changed definition, but for its metadata. What was wrong before may stay.
#[must_use]
pub fn update(definition: &Definition, old: &Definition) -> Errors {
    let options = Options::of_update(definition, old);
    let (spec, before) = (&definition.spec, &old.spec);
    let mut errors = Errors::new();
    validate_spec(spec, &options, &mut errors);
    let mut immutable = |field: &str, new: &str, old: &str| {
        if new != old {
            errors.push(FieldError::invalid(field, new, IMMUTABLE));
        }
    };
    if old.is("Established") {
        immutable("spec.scope", &spec.scope, &before.scope);
        immutable("spec.names.kind", &spec.names.kind, &before.names.kind);
    }
    immutable("spec.group", &spec.group, &before.group);
    immutable("spec.names.plural", &spec.names.plural, &before.names.plural);
    validate_names(&definition.status.accepted_names, "status.acceptedNames", &mut errors);
    validate_stored(definition, &mut errors);
    errors.extend(approval::approval(definition, Some(old)));
    errors.extend(preserve(definition, Some(old)));
    errors
}

/// What is wrong with a changed status.
#[must_use]
pub fn update_status(definition: &Definition) -> Errors {
    let mut errors = Errors::new();
    validate_names(&definition.status.accepted_names, "status.acceptedNames", &mut errors);
    errors
}

/// The formats that nothing checks, for warnings.
#[must_use]
pub fn unknown_formats(spec: &Spec) -> Vec<String> {
    let mut found = Vec::new();
    for schema in spec.versions.iter().filter_map(Version::props) {
        schema.any(&mut |p| {
            if !crate::custom::formats::is_known(p) {
                found.push(p.format.clone());
            }
            false
        });
    }
    found
}

/// What all versions share, as the reference takes it out of them.
struct Shared<'d> {
    validation: Option<&'d Validation>,
    subresources: Option<&'d Subresources>,
    columns: &'d [PrinterColumn],
    selectable: &'d [SelectableField],
    /// The versions without what they share.
    versions: Vec<Version>,
}

/// A copy of a list that is not shared.
fn unless<T: Clone>(shared: bool, list: &[T]) -> Vec<T> {
    if shared { Vec::new() } else { list.to_vec() }
}

impl<'d> Shared<'d> {
    fn of(spec: &'d Spec) -> Self {
        let mut shared =
            Self { validation: None, subresources: None, columns: &[], selectable: &[], versions: Vec::new() };
        let Some((first, others)) = spec.versions.split_first() else { return shared };
        let all = |test: &dyn Fn(&Version) -> bool| others.iter().all(test);
        let subresources = all(&|v| v.subresources == first.subresources);
        let schema = all(&|v| v.schema == first.schema);
        let columns = all(&|v| v.additional_printer_columns == first.additional_printer_columns);
        let selectable = all(&|v| v.selectable_fields == first.selectable_fields);
        shared.subresources = first.subresources.as_ref().filter(|_| subresources);
        shared.validation = first.schema.as_ref().filter(|_| schema);
        if columns {
            shared.columns = &first.additional_printer_columns;
        }
        if selectable {
            shared.selectable = &first.selectable_fields;
        }
        let own = |version: &Version| Version {
            name: version.name.clone(),
            served: version.served,
            storage: version.storage,
            deprecated: version.deprecated,
            deprecation_warning: version.deprecation_warning.clone(),
            schema: if schema { None } else { version.schema.clone() },
            subresources: if subresources { None } else { version.subresources.clone() },
            additional_printer_columns: unless(columns, &version.additional_printer_columns),
            selectable_fields: unless(selectable, &version.selectable_fields),
        };
        shared.versions = spec.versions.iter().map(own).collect();
        shared
    }
}

fn validate_spec(spec: &Spec, options: &Options, errors: &mut Errors) {
    if spec.group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else {
        let complaints = name::is_dns1123_subdomain(&spec.group);
        if !complaints.is_empty() {
            errors.push(FieldError::invalid("spec.group", spec.group.as_str(), complaints.join(",")));
        } else if !spec.group.contains('.') {
            errors.push(FieldError::invalid(
                "spec.group",
                spec.group.as_str(),
                "should be a domain with at least one dot",
            ));
        }
    }
    one_of("spec.scope", &spec.scope, &["Cluster", "Namespaced"], errors);
    let shared = Shared::of(spec);
    let has_schema = |validation: Option<&Validation>| validation.is_some_and(|v| v.schema.is_some());
    if !has_schema(shared.validation) {
        for (index, version) in shared.versions.iter().enumerate() {
            let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
            if has_schema(version.schema.as_ref()) {
                continue;
            }
            if options.require_schema {
                errors.push(FieldError::required(field, ""));
            } else if !spec.preserve_unknown_fields && version.served {
                errors.push(FieldError::required(field, "because otherwise all fields are pruned"));
            }
        }
    }
    let schemas: Vec<&Props> = spec.versions.iter().filter_map(Version::props).collect();
    let any = |test: fn(&Props) -> bool| schemas.iter().any(|schema| schema.any(&mut |p| test(p)));
    let has_defaults = any(|p| p.default.is_some());
    let extended = any(|p| {
        p.embedded_resource
            || p.preserve_unknown_fields.is_some()
            || p.int_or_string
            || !p.list_map_keys.is_empty()
            || p.list_type.is_some()
            || !p.validations.is_empty()
    });
    if has_defaults && spec.preserve_unknown_fields {
        let why = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, why));
    }
    let structural = options.require_structural || !spec.preserve_unknown_fields || has_defaults || extended;
    let options = Options { require_structural: structural, ..options.clone() };

    let mut names = BTreeSet::new();
    let mut unique = true;
    for (index, version) in shared.versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        unique &= names.insert(version.name.as_str());
        let complaints = name::is_dns1035_label(&version.name);
        if !complaints.is_empty() {
            errors.push(FieldError::invalid(child(&path, "name"), version.name.as_str(), complaints.join(",")));
        }
        let has_status = spec.versions.get(index).is_some_and(Version::has_status);
        validate_version(version, has_status, &options, &path, errors);
    }
    if !unique {
        let shown = Shown::Bare(go::versions(&shared.versions).text());
        errors.push(FieldError::invalid("spec.versions", shown, "must contain unique version names"));
    }
    if shared.versions.iter().filter(|version| version.storage).count() != 1 {
        let shown = if spec.says_no_versions { "null".to_owned() } else { go::versions(&shared.versions).text() };
        let shown = Shown::Bare(shown);
        errors.push(FieldError::invalid(
            "spec.versions",
            shown,
            "must have exactly one version marked as storage version",
        ));
    }
    if let Some(first) = shared.versions.first() {
        let complaints = name::is_dns1035_label(&first.name);
        if !first.name.is_empty() && !complaints.is_empty() {
            errors.push(FieldError::invalid("spec.version", first.name.as_str(), complaints.join(",")));
        }
    }
    for (field, value) in [
        ("plural", &spec.names.plural),
        ("singular", &spec.names.singular),
        ("kind", &spec.names.kind),
        ("listKind", &spec.names.list_kind),
    ] {
        if value.is_empty() {
            errors.push(FieldError::required(format!("spec.names.{field}"), ""));
        }
    }
    validate_names(&spec.names, "spec.names", errors);
    if let Some(validation) = shared.validation {
        let has_status = spec.versions.iter().any(Version::has_status);
        let version = spec.versions.first().map_or("", |version| version.name.as_str());
        validate_validation(validation, has_status, &options.for_version(version), "spec.validation", errors);
    }
    if let Some(subresources) = shared.subresources {
        validate_subresources(subresources, "spec.subresources", errors);
    }
    for (index, column) in shared.columns.iter().enumerate() {
        validate_column(column, &format!("spec.additionalPrinterColumns[{index}]"), errors);
    }
    if !shared.selectable.is_empty() {
        match shared.validation.and_then(|validation| validation.schema.as_ref()) {
            None => {
                let why = "may only be set when validations.schema is included";
                errors.push(FieldError::invalid("spec.selectableFields", "", why));
            }
            Some(schema) => {
                let many = options.many_selectable.contains("");
                validate_selectable(shared.selectable, schema, many, "spec.selectableFields", errors);
            }
        }
    }
    let converts = spec.conversion.as_ref().filter(|conversion| conversion.strategy != "None");
    if let Some(conversion) = converts.filter(|_| spec.preserve_unknown_fields) {
        let why = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid("spec.conversion.strategy", conversion.strategy.as_str(), why));
    }
    if let Some(conversion) = &spec.conversion {
        validate_conversion(conversion, &options, errors);
    }
}

fn one_of(field: &str, value: &str, accepted: &[&str], errors: &mut Errors) {
    if value.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !accepted.contains(&value) {
        errors.push(FieldError::not_supported(field, value, accepted));
    }
}

fn validate_version(version: &Version, has_status: bool, options: &Options, path: &str, errors: &mut Errors) {
    for why in deprecation(version) {
        let shown = version.deprecation_warning.as_deref().unwrap_or_default();
        errors.push(FieldError::invalid(child(path, "deprecationWarning"), shown, why));
    }
    if let Some(validation) = &version.schema {
        validate_validation(
            validation,
            has_status,
            &options.for_version(&version.name),
            &child(path, "schema"),
            errors,
        );
    }
    if let Some(subresources) = &version.subresources {
        validate_subresources(subresources, &child(path, "subresources"), errors);
    }
    for (index, column) in version.additional_printer_columns.iter().enumerate() {
        validate_column(column, &format!("{path}.additionalPrinterColumns[{index}]"), errors);
    }
    if !version.selectable_fields.is_empty() {
        let path = child(path, "selectableFields");
        match version.props() {
            None => {
                let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
                errors.push(FieldError::invalid(path, "", why));
            }
            Some(schema) => {
                let many = options.many_selectable.contains(&version.name);
                validate_selectable(&version.selectable_fields, schema, many, &path, errors);
            }
        }
    }
}

fn deprecation(version: &Version) -> Vec<String> {
    let Some(warning) = &version.deprecation_warning else { return Vec::new() };
    if !version.deprecated {
        return vec!["can only be set for deprecated versions".to_owned()];
    }
    let mut complaints = Vec::new();
    if warning.len() > 256 {
        complaints.push("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        complaints.push("must not be an empty string".to_owned());
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| c.is_control() || (c.is_whitespace() && *c != ' ')) {
        complaints
            .push(format!("must only contain printable UTF-8 characters; non-printable character found at index {at}"));
    }
    complaints
}

fn validate_names(names: &Names, path: &str, errors: &mut Errors) {
    let mut check = |field: &str, value: &str, mixed: bool| {
        let lower = value.to_lowercase();
        let complaints = name::is_dns1035_label(if mixed { &lower } else { value });
        if !value.is_empty() && !complaints.is_empty() {
            let why = if mixed { mixed_case(&complaints) } else { complaints.join(",") };
            errors.push(FieldError::invalid(child(path, field), value, why));
        }
    };
    check("plural", &names.plural, false);
    check("singular", &names.singular, false);
    check("kind", &names.kind, true);
    check("listKind", &names.list_kind, true);
    let labels = |field: &str, values: &[String], errors: &mut Errors| {
        for (index, value) in values.iter().enumerate() {
            let complaints = name::is_dns1035_label(value);
            if !complaints.is_empty() {
                let field = format!("{path}.{field}[{index}]");
                errors.push(FieldError::invalid(field, value.as_str(), complaints.join(",")));
            }
        }
    };
    labels("shortNames", &names.short_names, errors);
    if !names.kind.is_empty() && names.kind == names.list_kind {
        let why = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(child(path, "listKind"), names.list_kind.as_str(), why));
    }
    labels("categories", &names.categories, errors);
}

fn validate_validation(validation: &Validation, has_status: bool, options: &Options, path: &str, errors: &mut Errors) {
    if let Some(schema) = &validation.schema {
        schema::validate(schema, has_status, options, &child(path, "openAPIV3Schema"), errors);
    }
}

fn validate_subresources(subresources: &Subresources, path: &str, errors: &mut Errors) {
    let Some(scale) = &subresources.scale else { return };
    let mut check = |name: &str, value: &str, below: &[&str], why: &str| {
        let field = format!("{path}.scale.{name}");
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if !value.starts_with('.') {
            errors.push(FieldError::invalid(field, value, "must be a simple json path starting with ."));
        } else if !below.iter().any(|prefix| value.starts_with(prefix)) {
            errors.push(FieldError::invalid(field, value, why));
        }
    };
    check("specReplicasPath", &scale.spec_replicas_path, &[".spec."], "should be a json path under .spec");
    check("statusReplicasPath", &scale.status_replicas_path, &[".status."], "should be a json path under .status");
    if let Some(selector) = scale.label_selector_path.as_deref().filter(|selector| !selector.is_empty()) {
        let why = "should be a json path under either .spec or .status";
        check("labelSelectorPath", selector, &[".spec.", ".status."], why);
    }
}

fn validate_column(column: &PrinterColumn, path: &str, errors: &mut Errors) {
    const TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
    const FORMATS: &[&str] = &["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    if column.name.is_empty() {
        errors.push(FieldError::required(child(path, "name"), ""));
    }
    let types = format!("must be one of {}", TYPES.join(","));
    if column.kind.is_empty() {
        errors.push(FieldError::required(child(path, "type"), types));
    } else if !TYPES.contains(&column.kind.as_str()) {
        errors.push(FieldError::invalid(child(path, "type"), column.kind.as_str(), types));
    }
    if !column.format.is_empty() && !FORMATS.contains(&column.format.as_str()) {
        let why = format!("must be one of {}", FORMATS.join(","));
        errors.push(FieldError::invalid(child(path, "format"), column.format.as_str(), why));
    }
    if column.json_path.is_empty() {
        errors.push(FieldError::required(child(path, "JSONPath"), ""));
    } else if !column.json_path.starts_with('.') {
        let why = "must be a simple json path starting with .";
        errors.push(FieldError::invalid(child(path, "JSONPath"), column.json_path.as_str(), why));
    }
}

fn validate_selectable(fields: &[SelectableField], schema: &Props, many: bool, path: &str, errors: &mut Errors) {
    let compiled = Structural::new(schema);
    let mut unique = BTreeSet::new();
    for (index, field) in fields.iter().enumerate() {
        let at = format!("{path}[{index}].jsonPath");
        let text = field.json_path.as_str();
        if text.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let (normal, found) = match valid_field_path(text, &compiled, FieldPathOptions { arrays: false }) {
            Ok(found) => found,
            Err(why) => {
                errors.push(FieldError::invalid(at, text, format!("is an invalid path: {why}")));
                continue;
            }
        };
        if normal == "metadata" || normal.starts_with("metadata.") {
            errors.push(FieldError::invalid(at.as_str(), text, "must not point to fields in metadata"));
        }
        if !matches!(found.kind_name(), "string" | "boolean" | "integer") {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(at.as_str(), text, why));
        }
        if !unique.insert(normal) {
            errors.push(FieldError::duplicate(at, text));
        }
    }
    if unique.len() > MOST_SELECTABLE && !many {
        let count = i64::try_from(unique.len()).unwrap_or(i64::MAX);
        errors.push(FieldError {
            kind: ErrorKind::TooMany,
            field: path.to_owned(),
            value: Some(count.into()),
            detail: format!("must have at most {MOST_SELECTABLE} items"),
        });
    }
}

fn validate_conversion(conversion: &Conversion, options: &Options, errors: &mut Errors) {
    const PATH: &str = "spec.conversion";
    one_of("spec.conversion.strategy", &conversion.strategy, &["None", "Webhook"], errors);
    let config: Option<&ClientConfig> = conversion.webhook.as_ref().and_then(|w| w.client_config.as_ref());
    let versions = conversion.webhook.as_ref().map_or(&[][..], |w| w.conversion_review_versions.as_slice());
    let (config_path, versions_path) = (child(PATH, "webhookClientConfig"), child(PATH, "conversionReviewVersions"));
    if conversion.strategy != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        if config.is_some() {
            errors.push(FieldError::forbidden(config_path, why));
        }
        if !versions.is_empty() {
            errors.push(FieldError::forbidden(versions_path, why));
        }
        return;
    }
    match config {
        None => errors.push(FieldError::required(config_path, "required when strategy is set to Webhook")),
        Some(config) => webhook::validate(config, !options.allow_invalid_bundle, &config_path, errors),
    }
    if versions.is_empty() {
        errors.push(FieldError::required(versions_path, ""));
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        let field = format!("{versions_path}[{index}]");
        if versions[..index].contains(version) {
            errors.push(FieldError::invalid(field, version.as_str(), "duplicate version"));
            continue;
        }
        for why in name::is_dns1035_label(version) {
            errors.push(FieldError::invalid(field.as_str(), version.as_str(), why));
        }
    }
    let accepted = |version: &String| matches!(version.as_str(), "v1" | "v1beta1");
    if options.require_review_version && !versions.iter().any(accepted) {
        let shown = Shown::Bare(muster_tree::json!(versions).to_string());
        errors.push(FieldError::invalid(versions_path, shown, "must include at least one of v1, v1beta1"));
    }
}

fn validate_stored(definition: &Definition, errors: &mut Errors) {
    const PATH: &str = "status.storedVersions";
    let stored = definition.status.stored_versions.as_deref();
    let Some(stored) = stored.filter(|stored| !stored.is_empty()) else {
        let shown = if stored.is_some() { "[]" } else { "null" };
        errors.push(FieldError::invalid(PATH, Shown::Bare(shown.to_owned()), "must have at least one stored version"));
        return;
    };
    let versions = &definition.spec.versions;
    for version in versions.iter().filter(|version| version.storage && !stored.contains(&version.name)) {
        let shown = Shown::Bare(muster_tree::json!(stored).to_string());
        errors.push(FieldError::invalid(PATH, shown, format!("must have the storage version {}", version.name)));
    }
    for (index, name) in stored.iter().enumerate() {
        if versions.iter().all(|version| version.name != *name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid(format!("{PATH}[{index}]"), name.as_str(), why));
        }
    }
}

fn preserve(definition: &Definition, old: Option<&Definition>) -> Option<FieldError> {
    let was = old.is_some_and(|old| old.spec.preserve_unknown_fields);
    let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    (!was && definition.spec.preserve_unknown_fields)
        .then(|| FieldError::invalid("spec.preserveUnknownFields", true, why))
}

/// Whether the CA bundle of a definition's webhook can be read.
#[must_use]
pub fn bundle_is_valid(definition: &Definition) -> bool {
    let config = definition.spec.conversion.as_ref().and_then(|c| c.webhook.as_ref()?.client_config.as_ref());
    config.is_none_or(|config| config.ca_bundle.is_empty() || webhook::bundle_is_valid(&config.ca_bundle))
}
