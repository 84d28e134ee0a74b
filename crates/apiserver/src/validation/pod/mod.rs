//! Pods and pod templates (API-17), in the order in which the reference server looks at them.
//!
//! One file for one part of a pod: [`volumes`], [`containers`] and what they are made of, [`security`],
//! [`scheduling`], [`network`], [`annotations`]; [`update`] and [`status`] say what may change.

pub mod affinity;
pub mod annotations;
pub mod claims;
pub mod containers;
pub mod devices;
pub mod diff;
pub mod env;
pub mod handlers;
pub mod mounts;
pub mod network;
pub mod options;
pub mod os;
pub mod projected;
pub mod resize;
pub mod resources;
pub mod scheduling;
pub mod security;
pub mod sources;
pub mod status;
pub mod update;
pub mod volumes;
pub mod warnings;
pub mod windows;

use muster_tree::Value;

use crate::field::FieldError;
use crate::model::{
    Object,
    fields::{Fields, metadata},
};

use super::labels::{validate_annotations, validate_labels};
use super::{Errors, Path, complain, meta, name};
use crate::model::NameRule;
use options::Options;

pub use resize::validate_resize;
pub use status::validate_status_update;
pub use update::{validate_ephemeral_update, validate_update};

const SPEC: Path<'_> = Path::new("spec");
const METADATA: Path<'_> = Path::new("metadata");

/// What the parts of a spec need to know of the whole.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The spec itself.
    pub spec: &'a Object,
    /// The pod's metadata; none where the spec is a template's.
    pub meta: Option<&'a Object>,
    /// What is let pass.
    pub options: &'a Options,
    /// `terminationGracePeriodSeconds`, in seconds.
    pub grace: Option<i64>,
    /// `restartPolicy`.
    pub restart_policy: &'a str,
    /// `os.name`, where there is an `os`.
    pub os: Option<&'a str>,
}

impl<'a> Context<'a> {
    fn new(spec: &'a Object, meta: Option<&'a Object>, options: &'a Options) -> Self {
        Self {
            spec,
            meta,
            options,
            grace: spec.maybe_int("terminationGracePeriodSeconds"),
            restart_policy: spec.text("restartPolicy"),
            os: spec.object("os").map(|os| os.text("name")),
        }
    }

    /// Whether the pod shares the host's user namespace, as it does unless it says otherwise.
    fn host_users(&self) -> bool {
        self.spec.maybe_flag("hostUsers").unwrap_or(true)
    }
}

/// Checks a new pod, metadata included.
pub fn validate_create(pod: &Object, errors: &mut Errors) {
    let empty = Object::new();
    let spec = pod.object("spec").unwrap_or(&empty);
    let options = Options::for_pod(None);
    validate_metadata_and_spec(pod, &options, errors);
    if !spec.list("ephemeralContainers").is_empty() {
        errors.push(FieldError::forbidden(SPEC.child("ephemeralContainers"), "cannot be set on create"));
    }
    if !spec.text("nodeName").is_empty() && !spec.list("schedulingGates").is_empty() {
        errors.push(FieldError::forbidden(
            SPEC.child("nodeName"),
            "cannot be set until all schedulingGates have been cleared",
        ));
    }
    annotations::seccomp_matches(metadata(pod), spec, &SPEC, errors);
    annotations::app_armor_matches(metadata(pod), spec, &SPEC, errors);
}

/// Checks a pod template's labels, annotations and spec.
pub fn validate_template(template: &Object, old: Option<&Object>, path: &Path<'_>, errors: &mut Errors) {
    let (meta, spec) = (metadata(template), template.part("spec"));
    let options = Options::for_template(old);
    validate_template_metadata(template, &options, path, errors);
    let spec_path = path.child("spec");
    validate_spec(&Context::new(spec, None, &options), &spec_path, errors);
    annotations::seccomp_matches(meta, spec, &spec_path, errors);
    annotations::app_armor_matches(meta, spec, &spec_path, errors);
    if !spec.list("ephemeralContainers").is_empty() {
        errors.push(FieldError::forbidden(
            spec_path.child("ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        ));
    }
}

/// Checks a pod template's labels and annotations.
fn validate_template_metadata(template: &Object, options: &Options, path: &Path<'_>, errors: &mut Errors) {
    let (meta, at) = (metadata(template), path.child("annotations"));
    validate_labels(meta, "labels", &path.child("labels"), errors);
    validate_annotations(meta, "annotations", &at, errors);
    annotations::validate(meta, template.part("spec"), &at, options, errors);
}

/// Checks a pod template as a StatefulSet has it, which the reference looks at with and without its spec (`whole`).
pub fn validate_set_template(
    template: &Object,
    old: Option<&Object>,
    whole: bool,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    if whole {
        validate_template(template, old, path, errors);
    }
    validate_template_metadata(template, &Options::for_template(old), path, errors);
}

/// Checks what a binding says: a node, by name.
#[must_use]
pub fn validate_binding(binding: &Object) -> Errors {
    let empty = Object::new();
    let target = binding.object("target").unwrap_or(&empty);
    let path = Path::new("target");
    let mut errors = Errors::new();
    let kind = target.text("kind");
    if !matches!(kind, "" | "Node") {
        errors.push(FieldError::not_supported(path.child("kind"), kind, &["Node", "<empty>"]));
    }
    if target.text("name").is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    }
    errors
}

fn validate_metadata_and_spec(pod: &Object, options: &Options, errors: &mut Errors) {
    let empty = Object::new();
    let meta = metadata(pod);
    let spec = pod.object("spec").unwrap_or(&empty);
    meta::validate_core(meta, true, NameRule::Subdomain, errors);
    annotations::validate(meta, spec, &METADATA.child("annotations"), options, errors);
    validate_spec(&Context::new(spec, Some(meta), options), &SPEC, errors);
    if spec.text("serviceAccountName").is_empty() {
        tokens_need_account(spec, errors);
    }
    for list in ["containers", "initContainers"] {
        for (i, container) in spec.items(list).enumerate() {
            containers::only_for_pods(container, &SPEC.child(list).index(i), errors);
        }
    }
}

fn tokens_need_account(spec: &Object, errors: &mut Errors) {
    let list = SPEC.child("volumes");
    for (i, volume) in spec.items("volumes").enumerate() {
        let Some(projected) = volume.object("projected") else { continue };
        for (j, source) in projected.items("sources").enumerate() {
            if source.contains_key("serviceAccountToken") {
                errors.push(FieldError::forbidden(
                    list.index(i).child("projected").child("sources").index(j).child("serviceAccountToken"),
                    "must not be specified when serviceAccountName is not set",
                ));
            }
        }
    }
}

/// Checks a pod's spec wherever it stands.
fn validate_spec(context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    let spec = context.spec;
    if context.grace.is_none() {
        errors.push(FieldError::required(path.child("terminationGracePeriodSeconds"), ""));
    }
    let volumes = volumes::validate(context, &path.child("volumes"), errors);
    claims::validate_pod_claims(context, &path.child("resourceClaims"), errors);
    containers::validate(context, &volumes, path, errors);
    resources::validate_pod_level(context, path, errors);
    network::validate_host_ports(context, path, errors);
    one_of(spec, "restartPolicy", &["Always", "OnFailure", "Never"], true, path, errors);
    one_of(spec, "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], true, path, errors);
    validate_labels(spec, "nodeSelector", &path.child("nodeSelector"), errors);
    security::validate_pod(context, path, errors);
    if let Some(affinity) = spec.object("affinity") {
        affinity::validate(affinity, context.options, &path.child("affinity"), errors);
    }
    network::validate_dns(spec, &path.child("dnsConfig"), errors);
    scheduling::validate_readiness_gates(spec, &path.child("readinessGates"), errors);
    scheduling::validate_scheduling_gates(spec, &path.child("schedulingGates"), errors);
    scheduling::validate_spread(context, &path.child("topologySpreadConstraints"), errors);
    windows::validate_host_process(spec, path, errors);
    security::validate_host_users(context, path, errors);
    network::validate_hostname_override(spec, path, errors);
    validate_names(spec, path, errors);
    scheduling::validate_tolerations(spec, &path.child("tolerations"), errors);
    network::validate_host_aliases(spec, &path.child("hostAliases"), errors);
    for field in ["priorityClassName", "runtimeClassName"] {
        if let Some(name) = spec.maybe_text(field).filter(|n| !n.is_empty() || field == "runtimeClassName") {
            complain(name, name::is_dns1123_subdomain(name), &path.child(field), errors);
        }
    }
    if spec.contains_key("preemptionPolicy") {
        one_of(spec, "preemptionPolicy", &["PreemptLowerPriority", "Never"], true, path, errors);
    }
    if spec.contains_key("overhead") {
        let overhead = Object::from_iter([("limits".to_owned(), spec["overhead"].clone())]);
        resources::validate_container(&overhead, spec, context.options, &path.child("overhead"), errors);
    }
    os::validate(context, path, errors);
    env::validate_file_key_volumes(spec, path, errors);
}

fn validate_names(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    for field in ["serviceAccountName", "nodeName"] {
        let value = spec.text(field);
        if !value.is_empty() {
            complain(value, name::is_dns1123_subdomain(value), &path.child(field), errors);
        }
    }
    if let Some(seconds) = spec.maybe_int("activeDeadlineSeconds") {
        let max = i64::from(i32::MAX);
        if !(1..=max).contains(&seconds) {
            errors.push(FieldError::invalid(
                path.child("activeDeadlineSeconds"),
                seconds,
                name::inclusive_range(1, max),
            ));
        }
    }
    for field in ["hostname", "subdomain"] {
        let value = spec.text(field);
        if !value.is_empty() {
            complain(value, name::is_dns1123_label(value), &path.child(field), errors);
        }
    }
}

/// Checks that a text field is one of a few values; empty is `Required value` where `required`.
fn one_of(parent: &Object, field: &str, values: &[&str], required: bool, path: &Path<'_>, errors: &mut Errors) {
    let value = parent.text(field);
    if value.is_empty() {
        if required {
            errors.push(FieldError::required(path.child(field), ""));
        }
    } else if !values.contains(&value) {
        errors.push(FieldError::not_supported(path.child(field), value, values));
    }
}

/// Checks that a field, where set at all, is one of a few values.
fn one_of_set(parent: &Object, field: &str, values: &[&str], path: &Path<'_>, errors: &mut Errors) {
    if parent.maybe_text(field) == Some("") {
        errors.push(FieldError::not_supported(path.child(field), "", values));
    }
    one_of(parent, field, values, false, path, errors);
}

/// The containers of a spec with their paths: init containers, containers, ephemeral containers.
fn every_container<'a>(spec: &'a Object, path: &Path<'_>, mut visit: impl FnMut(&'a Object, &Path<'_>)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let at = path.child(list);
        for (i, container) in spec.items(list).enumerate() {
            visit(container, &at.index(i));
        }
    }
}

/// A list of strings as a message shows it.
fn shown_list(parent: &Object, field: &str) -> crate::field::Shown {
    crate::field::Shown::Json(Value::Array(parent.list(field).to_vec().into()))
}
