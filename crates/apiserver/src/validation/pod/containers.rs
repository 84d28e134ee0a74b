//! The containers of a pod: regular ones, those that run before them, and those that were added later.

use std::collections::BTreeSet;

use muster_tree::Value;

use crate::field::FieldError;
use crate::model::{Object, fields::Fields};
use crate::validation::{Errors, Path, complain, name};

use super::volumes::Volumes;
use super::{Context, env, handlers, mounts, one_of, resources, security};

/// Restart rules of one container may be at most so many.
const RULES_MAX: usize = 20;
/// Exit codes of one rule may be at most so many.
const CODES_MAX: usize = 255;

/// Checks all containers of the spec at `path`.
pub(super) fn validate(context: &Context<'_>, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut Errors) {
    validate_regular(context, volumes, &path.child("containers"), errors);
    validate_init(context, volumes, &path.child("initContainers"), errors);
    validate_ephemeral(context, volumes, &path.child("ephemeralContainers"), errors);
}

fn validate_regular(context: &Context<'_>, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut Errors) {
    if context.spec.list("containers").is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let mut names = BTreeSet::new();
    for (i, container) in context.spec.items("containers").enumerate() {
        let path = path.index(i);
        validate_common(context, container, volumes, &path, errors);
        let own = container.text("name");
        if !names.insert(own) {
            errors.push(FieldError::duplicate(path.child("name"), own));
        }
        if let Some(lifecycle) = container.object("lifecycle") {
            handlers::validate_lifecycle(context, lifecycle, &path.child("lifecycle"), errors);
        }
        handlers::validate_probes(container, &path, errors);
        restart_policy(container, &path, false, errors);
    }
    host_port_conflicts(context.spec.items("containers").enumerate(), path, errors);
}

fn validate_init(context: &Context<'_>, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut Errors) {
    let mut names: BTreeSet<&str> = context.spec.items("containers").map(|c| c.text("name")).collect();
    for (i, container) in context.spec.items("initContainers").enumerate() {
        let at = path.index(i);
        validate_common(context, container, volumes, &at, errors);
        restart_policy(container, &at, true, errors);
        let own = container.text("name");
        if names.contains(own) {
            errors.push(FieldError::duplicate(at.child("name"), own));
        } else if !own.is_empty() {
            names.insert(own);
        }
        // One after the other, each alone: upstream names each as the first.
        host_port_conflicts([(0, container)], path, errors);
        let sidecar = container.text("restartPolicy") == "Always";
        if sidecar {
            if let Some(lifecycle) = container.object("lifecycle") {
                handlers::validate_lifecycle(context, lifecycle, &at.child("lifecycle"), errors);
            }
            handlers::validate_probes(container, &at, errors);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if container.contains_key(field) {
                    errors.push(FieldError::forbidden(
                        at.child(field),
                        "may not be set for init containers without restartPolicy=Always",
                    ));
                }
            }
        }
        if !sidecar && !context.options.restart_init_on_resize {
            let list = at.child("resizePolicy");
            for (j, policy) in container.items("resizePolicy").enumerate() {
                if policy.text("restartPolicy") == "RestartContainer" {
                    errors.push(FieldError::invalid(
                        list.index(j).child("restartPolicy"),
                        "RestartContainer",
                        "must not be set to 'RestartContainer' for non-sidecar initContainers",
                    ));
                }
            }
        }
    }
}

fn validate_ephemeral(context: &Context<'_>, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut Errors) {
    const NOT_ALLOWED: [&str; 10] = [
        "ports",
        "resources",
        "resizePolicy",
        "restartPolicy",
        "restartPolicyRules",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
        "",
    ];
    if context.spec.list("ephemeralContainers").is_empty() {
        return;
    }
    let others: BTreeSet<&str> =
        context.spec.items("containers").chain(context.spec.items("initContainers")).map(|c| c.text("name")).collect();
    let mut names = others.clone();
    for (i, container) in context.spec.items("ephemeralContainers").enumerate() {
        let path = path.index(i);
        validate_common(context, container, volumes, &path, errors);
        only_for_pods(container, &path, errors);
        let own = container.text("name");
        if !names.insert(own) {
            errors.push(FieldError::duplicate(path.child("name"), own));
        }
        let target = container.text("targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.push(FieldError::not_found(path.child("targetContainerName"), target));
        }
        for field in NOT_ALLOWED {
            let set = match container.get(field) {
                None | Some(Value::Null) => false,
                Some(Value::Array(list)) => !list.is_empty(),
                Some(Value::Object(map)) => field != "resources" || !map.is_empty(),
                Some(_) => true,
            };
            if set {
                errors.push(FieldError::forbidden(path.child(field), "cannot be set for an Ephemeral Container"));
            }
        }
        let mounts = path.child("volumeMounts");
        for (j, mount) in container.items("volumeMounts").enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.text(field).is_empty() {
                    errors.push(FieldError::forbidden(
                        mounts.index(j).child(field),
                        "cannot be set for an Ephemeral Container",
                    ));
                }
            }
        }
    }
}

/// What holds for every container.
fn validate_common(
    context: &Context<'_>,
    container: &Object,
    volumes: &Volumes<'_>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let own = container.text("name");
    if own.is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    } else {
        complain(own, name::is_dns1123_label(own), &path.child("name"), errors);
    }
    if container.text("image").is_empty() {
        errors.push(FieldError::required(path.child("image"), ""));
    }
    one_of(container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], true, path, errors);
    validate_ports(container, &path.child("ports"), errors);
    env::validate(container, &path.child("env"), errors);
    env::validate_from(container, &path.child("envFrom"), errors);
    mounts::validate(container, volumes, &path.child("volumeMounts"), errors);
    mounts::validate_devices(container, volumes, &path.child("volumeDevices"), errors);
    one_of(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], true, path, errors);
    if let Some(own) = container.object("resources") {
        resources::validate_container(own, context.spec, context.options, &path.child("resources"), errors);
    }
    validate_resize_policy(context, container, &path.child("resizePolicy"), errors);
    if let Some(own) = container.object("securityContext") {
        security::validate_container(own, context.host_users(), &path.child("securityContext"), errors);
    }
}

fn validate_ports(container: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (i, port) in container.items("ports").enumerate() {
        let path = path.index(i);
        let own = port.text("name");
        if !own.is_empty() {
            let complaints = name::is_port_name(own);
            if !complaints.is_empty() {
                complain(own, complaints, &path.child("name"), errors);
            } else if !names.insert(own) {
                errors.push(FieldError::duplicate(path.child("name"), own));
            }
        }
        let number = port.int("containerPort");
        if number == 0 {
            errors.push(FieldError::required(path.child("containerPort"), ""));
        } else {
            for complaint in name::is_port_number(number) {
                errors.push(FieldError::invalid(path.child("containerPort"), number, complaint));
            }
        }
        let number = port.int("hostPort");
        if number != 0 {
            for complaint in name::is_port_number(number) {
                errors.push(FieldError::invalid(path.child("hostPort"), number, complaint));
            }
        }
        one_of(port, "protocol", &["SCTP", "TCP", "UDP"], true, &path, errors);
    }
}

/// No two containers may take the same port of the host.
fn host_port_conflicts<'a>(
    containers: impl IntoIterator<Item = (usize, &'a Object)>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let mut taken = BTreeSet::new();
    for (i, container) in containers {
        let at = path.index(i);
        let list = at.child("ports");
        for (j, port) in container.items("ports").enumerate() {
            let number = port.int("hostPort");
            if number == 0 {
                continue;
            }
            let key = format!("{}/{}/{number}", port.text("protocol"), port.text("hostIP"));
            if taken.contains(&key) {
                errors.push(FieldError::duplicate(list.index(j).child("hostPort"), key));
            } else {
                taken.insert(key);
            }
        }
    }
}

fn validate_resize_policy(context: &Context<'_>, container: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (i, policy) in container.items("resizePolicy").enumerate() {
        let (resource, restart) = (policy.text("resourceName"), policy.text("restartPolicy"));
        if !seen.insert(resource) {
            errors.push(FieldError::duplicate(path.index(i), resource));
        }
        for (value, known) in [(resource, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])] {
            if value.is_empty() {
                errors.push(FieldError::required(path, ""));
            } else if !known.contains(&value) {
                errors.push(FieldError::not_supported(path, value, &known));
            }
        }
        if context.restart_policy == "Never" && restart != "NotRequired" {
            errors.push(FieldError::invalid(
                path,
                restart,
                "must be 'NotRequired' when pod `restartPolicy` is 'Never'",
            ));
        }
    }
}

/// A container's own restart policy, and the rules that go with it.
fn restart_policy(container: &Object, path: &Path<'_>, is_init: bool, errors: &mut Errors) {
    const POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
    let rules = container.list("restartPolicyRules");
    match container.maybe_text("restartPolicy") {
        None if rules.is_empty() => return,
        None => {
            let why = "must specify restartPolicy when restart rules are used";
            errors.push(FieldError::required(path.child("restartPolicy"), why));
            if is_init {
                return;
            }
        }
        Some(policy) if !POLICIES.contains(&policy) => {
            errors.push(FieldError::not_supported(path.child("restartPolicy"), policy, &POLICIES));
        }
        Some(_) => {}
    }
    let list = path.child("restartPolicyRules");
    if rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(list, rules.len(), RULES_MAX));
    }
    for (i, rule) in container.items("restartPolicyRules").enumerate() {
        let path = list.index(i);
        let action = rule.text("action");
        if !matches!(action, "Restart" | "RestartAllContainers") {
            errors.push(FieldError::not_supported(path.child("action"), action, &["Restart", "RestartAllContainers"]));
        }
        let codes_path = path.child("exitCodes");
        let Some(codes) = rule.object("exitCodes") else {
            errors.push(FieldError::required(codes_path, "must be specified"));
            continue;
        };
        let operator = codes.text("operator");
        if !matches!(operator, "In" | "NotIn") {
            errors.push(FieldError::not_supported(codes_path.child("operator"), operator, &["In", "NotIn"]));
        }
        let count = codes.list("values").len();
        if count > CODES_MAX {
            errors.push(FieldError::too_many(codes_path.child("values"), count, CODES_MAX));
        }
    }
}

/// What holds for the containers of pods but not of templates, which may have been stored before the rule.
pub(super) fn only_for_pods(container: &Object, path: &Path<'_>, errors: &mut Errors) {
    let image = container.text("image");
    if image.len() != image.trim().len() {
        errors.push(FieldError::invalid(path.child("image"), image, "must not have leading or trailing whitespace"));
    }
}
