//! Annotations that mean something to a pod.

use crate::field::FieldError;
use crate::model::{Object, fields::Fields};
use crate::validation::{Errors, Path};

use super::options::Options;
use super::{every_container, sources};

/// The annotation of a pod that a node made itself.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
use crate::model::pod::APP_ARMOR_ANNOTATION as APP_ARMOR;

/// Checks the annotations of a pod or template; `path` is that of the annotations.
pub(super) fn validate(meta: &Object, spec: &Object, path: &Path<'_>, options: &Options, errors: &mut Errors) {
    let Some(annotations) = meta.object("annotations") else { return };
    if let Some(value) = annotations.maybe_text(MIRROR)
        && spec.text("nodeName").is_empty()
    {
        errors.push(FieldError::invalid(
            path.key(MIRROR),
            value,
            "must set spec.nodeName if mirror pod annotation is set",
        ));
    }
    deletion_cost(meta, path, options, errors);
    if let Some(profile) = annotations.maybe_text(SECCOMP_POD) {
        seccomp_profile(profile, &path.child(SECCOMP_POD), errors);
    }
    for (key, profile) in meta.pairs("annotations") {
        if key.starts_with(SECCOMP_CONTAINER) {
            seccomp_profile(profile, &path.child(key), errors);
        }
    }
    for (key, profile) in meta.pairs("annotations") {
        let Some(container) = key.strip_prefix(APP_ARMOR) else { continue };
        let mut found = false;
        every_container(spec, path, |c, _| found |= c.text("name") == container);
        if !found {
            errors.push(FieldError::invalid(path.key(key), container, "container not found"));
        }
        if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with("localhost/") {
            let message = format!("invalid AppArmor profile name: {}", crate::field::go_quote(profile));
            errors.push(FieldError::invalid(path.key(key), profile, message));
        }
    }
}

/// The deletion cost is a whole number of 32 bits.
pub(super) fn deletion_cost(meta: &Object, path: &Path<'_>, options: &Options, errors: &mut Errors) {
    let Some(cost) = meta.object("annotations").and_then(|a| a.maybe_text(DELETION_COST)) else { return };
    let first_fine = cost == "0" || cost.bytes().next().is_some_and(|c| c == b'-' || (b'1'..=b'9').contains(&c));
    if !options.any_deletion_cost && (!first_fine || cost.parse::<i32>().is_err()) {
        errors.push(FieldError::invalid(path.key(DELETION_COST), cost, "must be a 32bit integer"));
    }
}

fn seccomp_profile(profile: &str, path: &Path<'_>, errors: &mut Errors) {
    if matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    match profile.strip_prefix("localhost/") {
        Some(local) => sources::descending_path(local, path, errors),
        None => errors.push(FieldError::invalid(path, profile, "must be a valid seccomp profile")),
    }
}

/// Where a seccomp profile is given by annotation and by field, both say the same.
pub(super) fn seccomp_matches(meta: &Object, spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let Some(annotations) = meta.object("annotations") else { return };
    let mut check = |key: &str, context: Option<&Object>, at: &Path<'_>| {
        let (Some(said), Some(profile)) =
            (annotations.maybe_text(key), context.and_then(|c| c.object("seccompProfile")))
        else {
            return;
        };
        let context_path = at.child("securityContext");
        let at = context_path.child("seccompProfile");
        let matches = match profile.text("type") {
            "Unconfined" => said == "unconfined",
            "RuntimeDefault" => matches!(said, "runtime/default" | "docker/default"),
            "Localhost" => match said.strip_prefix("localhost/") {
                None => false,
                Some(local) => {
                    if profile.maybe_text("localhostProfile") != Some(local) {
                        errors.push(FieldError::forbidden(
                            at.child("localhostProfile"),
                            "seccomp profile in annotation and field must match",
                        ));
                    }
                    true
                }
            },
            _ => true,
        };
        if !matches {
            errors.push(FieldError::forbidden(at.child("type"), "seccomp type in annotation and field must match"));
        }
    };
    check(SECCOMP_POD, spec.object("securityContext"), path);
    every_container(spec, path, |container, at| {
        check(&format!("{SECCOMP_CONTAINER}{}", container.text("name")), container.object("securityContext"), at);
    });
}

/// Where an AppArmor profile is given by annotation and by field, both say the same.
pub(super) fn app_armor_matches(meta: &Object, spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let Some(annotations) = meta.object("annotations") else { return };
    if spec.object("os").is_some_and(|os| os.text("name") == "windows") {
        return;
    }
    let profile = |o: &Object| o.object("securityContext").and_then(|c| c.object("appArmorProfile")).cloned();
    let of_pod = profile(spec);
    every_container(spec, path, |container, at| {
        let Some(profile) = profile(container).or_else(|| of_pod.clone()) else { return };
        let key = format!("{APP_ARMOR}{}", container.text("name"));
        let Some(said) = annotations.maybe_text(&key) else { return };
        let context_path = at.child("securityContext");
        let at = context_path.child("appArmorProfile");
        let matches = match profile.text("type") {
            "Unconfined" => said == "unconfined",
            "RuntimeDefault" => said == "runtime/default",
            "Localhost" => match said.strip_prefix("localhost/") {
                None => false,
                Some(local) => {
                    if profile.maybe_text("localhostProfile") != Some(local) {
                        errors.push(FieldError::forbidden(
                            at.child("localhostProfile"),
                            "apparmor profile in annotation and field must match",
                        ));
                    }
                    true
                }
            },
            _ => true,
        };
        if !matches {
            errors.push(FieldError::forbidden(at.child("type"), "apparmor type in annotation and field must match"));
        }
    });
}

/// Annotations that a change may not add, change or remove.
pub(super) fn validate_change(meta: &Object, old: &Object, path: &Path<'_>, errors: &mut Errors) {
    let (new, before) = (meta.object("annotations"), old.object("annotations"));
    let get = |map: Option<&Object>, key: &str| map.and_then(|m| m.maybe_text(key)).map(str::to_owned);
    for (key, value) in old.pairs("annotations") {
        if get(new, key).as_deref() == Some(value) {
            continue;
        }
        if key.starts_with(APP_ARMOR) {
            errors.push(FieldError::forbidden(path.key(key), "may not remove or update AppArmor annotations"));
        }
        if key == MIRROR {
            errors.push(FieldError::forbidden(path.key(key), "may not remove or update mirror pod annotation"));
        }
    }
    for (key, _) in meta.pairs("annotations") {
        if get(before, key).is_some() {
            continue;
        }
        if key.starts_with(APP_ARMOR) {
            errors.push(FieldError::forbidden(path.key(key), "may not add AppArmor annotations"));
        }
        if key == MIRROR {
            errors.push(FieldError::forbidden(path.key(key), "may not add mirror pod annotation"));
        }
    }
}
