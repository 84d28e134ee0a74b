//! Security contexts, of the pod and of its containers.

use std::collections::BTreeSet;

use muster_tree::Value;

use crate::field::FieldError;
use crate::model::{Object, fields::Fields};
use crate::validation::{Errors, Path, internal, name};

use super::{Context, every_container, one_of, one_of_set, sources, windows};

/// Checks the pod's security context, and what of it stands in the spec; `path` is that of the spec.
pub(super) fn validate_pod(context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    let spec = context.spec;
    let empty = Object::new();
    let own = spec.object("securityContext").unwrap_or(&empty);
    let path = path.child("securityContext");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        unix_id(own.maybe_int(field), &path.child(field), errors);
    }
    let groups = path.child("supplementalGroups");
    for (i, group) in own.list("supplementalGroups").iter().enumerate() {
        unix_id(group.as_i64(), &groups.index(i), errors);
    }
    if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
        errors.push(FieldError::invalid(
            path.child("shareProcessNamespace"),
            true,
            "ShareProcessNamespace and HostPID cannot both be enabled",
        ));
    }
    if own.is_empty() {
        return;
    }
    validate_sysctls(context, own, &path.child("sysctls"), errors);
    one_of_set(own, "fsGroupChangePolicy", &["Always", "OnRootMismatch"], &path, errors);
    validate_profiles(own, &path, errors);
    one_of_set(own, "supplementalGroupsPolicy", &["Merge", "Strict"], &path, errors);
    let policies: &[&str] =
        if context.options.any_selinux_policy { &["MountOption", "Recursive"] } else { &["Recursive"] };
    one_of_set(own, "seLinuxChangePolicy", policies, &path, errors);
}

fn unix_id(id: Option<i64>, path: &Path<'_>, errors: &mut Errors) {
    let Some(id) = id else { return };
    for complaint in name::is_unix_id(id) {
        errors.push(FieldError::invalid(path, id, complaint));
    }
}

/// Seccomp, Windows and AppArmor, which pods and containers have alike.
fn validate_profiles(context: &Object, path: &Path<'_>, errors: &mut Errors) {
    if let Some(profile) = context.object("seccompProfile") {
        validate_seccomp(profile, &path.child("seccompProfile"), errors);
    }
    if let Some(options) = context.object("windowsOptions") {
        windows::validate(options, &path.child("windowsOptions"), errors);
    }
    if let Some(profile) = context.object("appArmorProfile") {
        validate_app_armor(profile, &path.child("appArmorProfile"), errors);
    }
}

const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

fn validate_seccomp(profile: &Object, path: &Path<'_>, errors: &mut Errors) {
    let (kind, local) = (profile.text("type"), profile.maybe_text("localhostProfile"));
    if kind.is_empty() {
        errors.push(FieldError::required(path.child("type"), "type is required when seccompProfile is set"));
    }
    one_of(profile, "type", &PROFILES, false, path, errors);
    let at = path.child("localhostProfile");
    match (kind, local) {
        ("Localhost", None) => {
            errors.push(FieldError::required(at, "must be set when seccomp type is Localhost"));
        }
        ("Localhost", Some(local)) => sources::descending_path(local, &at, errors),
        (_, Some(_)) => errors.push(FieldError::invalid(
            at,
            internal::shown("SeccompProfile", profile),
            "can only be set when seccomp type is Localhost",
        )),
        (_, None) => {}
    }
}

fn validate_app_armor(profile: &Object, path: &Path<'_>, errors: &mut Errors) {
    const MAX: usize = 4095;
    const NEEDED: &str = "must be set when AppArmor type is Localhost";
    let at = path.child("localhostProfile");
    match (profile.text("type"), profile.maybe_text("localhostProfile")) {
        ("Localhost", None) => errors.push(FieldError::required(at, NEEDED)),
        ("Localhost", Some(local)) => {
            if local.trim() != local {
                errors.push(FieldError::invalid(at, local, "must not be padded with whitespace"));
            } else if local.is_empty() {
                errors.push(FieldError::required(at, NEEDED));
            }
            if local.len() > MAX {
                errors.push(FieldError::too_long(at, MAX));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(local)) => {
            errors.push(FieldError::invalid(at, local, "can only be set when AppArmor type is Localhost"));
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => {
            errors.push(FieldError::required(path.child("type"), "type is required when appArmorProfile is set"));
        }
        (other, _) => errors.push(FieldError::not_supported(path.child("type"), other, &PROFILES)),
    }
}

fn validate_sysctls(context: &Context<'_>, own: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (i, sysctl) in own.items("sysctls").enumerate() {
        let at = path.index(i);
        let at = at.child("name");
        let name = sysctl.text("name");
        if name.is_empty() {
            errors.push(FieldError::required(at, ""));
        } else if !is_sysctl(name) {
            errors.push(FieldError::invalid(
                at,
                name,
                "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
            ));
        } else if seen.contains(name) {
            errors.push(FieldError::duplicate(at, name));
        }
        if !context.options.host_sysctls {
            host_sysctl(name, context.spec, &at, errors);
        }
        seen.insert(name);
    }
}

fn is_sysctl(name: &str) -> bool {
    name.len() <= 253
        && name.split(['.', '/']).all(|part| {
            let edge = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            edge(part.bytes().next())
                && edge(part.bytes().last())
                && part.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'_'))
        })
}

/// Checks all sysctls of a stored context against the host's namespaces.
pub(super) fn host_sysctls(own: &Object, spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    for sysctl in own.items("sysctls") {
        host_sysctl(sysctl.text("name"), spec, path, errors);
    }
}

/// A sysctl of a namespace that the pod shares with the host would change the host.
fn host_sysctl(name: &str, spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    const IPC: [&str; 10] = [
        "kernel.sem",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
        "kernel.shm_rmid_forced",
        "kernel.shm",
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
        "kernel.msg",
    ];
    // Whichever separator comes first is the separator.
    let dotted: String = match name.find(['.', '/']) {
        Some(at) if name.as_bytes()[at] == b'/' => name
            .chars()
            .map(|c| {
                if c == '/' {
                    '.'
                } else if c == '.' {
                    '/'
                } else {
                    c
                }
            })
            .collect(),
        _ => name.to_owned(),
    };
    let network = dotted.starts_with("net.");
    let ipc = IPC.contains(&dotted.as_str()) || dotted.starts_with("fs.mqueue.");
    if network && spec.flag("hostNetwork") {
        errors.push(FieldError::invalid(path, name, "may not be specified when 'hostNetwork' is true"));
    } else if ipc && spec.flag("hostIPC") {
        errors.push(FieldError::invalid(path, name, "may not be specified when 'hostIPC' is true"));
    }
}

/// Checks a container's security context.
pub(super) fn validate_container(own: &Object, host_users: bool, path: &Path<'_>, errors: &mut Errors) {
    for field in ["runAsUser", "runAsGroup"] {
        unix_id(own.maybe_int(field), &path.child(field), errors);
    }
    if let Some(mount) = own.maybe_text("procMount") {
        one_of_set(own, "procMount", &["Default", "Unmasked"], path, errors);
        if host_users && mount == "Unmasked" {
            errors.push(FieldError::invalid(
                path.child("procMount"),
                mount,
                "`hostUsers` must be false to use `Unmasked`",
            ));
        }
    }
    if let Some(profile) = own.object("seccompProfile") {
        validate_seccomp(profile, &path.child("seccompProfile"), errors);
    }
    if own.maybe_flag("allowPrivilegeEscalation") == Some(false) {
        if own.flag("privileged") {
            errors.push(FieldError::invalid(
                path,
                internal::shown("SecurityContext", own),
                "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            ));
        }
        let added = own.object("capabilities").map_or(&[][..], |c| c.list("add"));
        for _ in added.iter().filter(|c| c.as_str() == Some("CAP_SYS_ADMIN")) {
            errors.push(FieldError::invalid(
                path,
                internal::shown("SecurityContext", own),
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            ));
        }
    }
    if let Some(options) = own.object("windowsOptions") {
        windows::validate(options, &path.child("windowsOptions"), errors);
    }
    if let Some(profile) = own.object("appArmorProfile") {
        validate_app_armor(profile, &path.child("appArmorProfile"), errors);
    }
}

/// A pod with a user namespace of its own shares no other namespace with the host.
pub(super) fn validate_host_users(context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    const WHY: &str = "when `hostUsers` is false";
    if context.host_users() {
        return;
    }
    let spec = context.spec;
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.flag(field) {
            errors.push(FieldError::forbidden(path.child(shown), WHY));
        }
    }
    if !context.options.devices_without_host_users {
        every_container(spec, path, |container, path| {
            if !matches!(container.get("volumeDevices"), None | Some(Value::Null))
                && !container.list("volumeDevices").is_empty()
            {
                errors.push(FieldError::forbidden(path.child("volumeDevices"), WHY));
            }
        });
    }
}
