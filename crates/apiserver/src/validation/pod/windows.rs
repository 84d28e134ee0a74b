//! Security options of Windows containers.

use crate::field::FieldError;
use crate::model::{Object, fields::Fields};
use crate::validation::{Errors, Path, complain, name};

use super::every_container;

/// A credential specification may be at most so large, in bytes.
const CREDENTIAL_MAX: usize = 64 * 1024;
/// A domain must be shorter than this, in bytes.
const DOMAIN_MAX: usize = 256;
/// A user's name may be at most so long, in bytes.
const USER_MAX: usize = 104;

/// Checks `windowsOptions`.
pub(super) fn validate(options: &Object, path: &Path<'_>, errors: &mut Errors) {
    if let Some(own) = options.maybe_text("gmsaCredentialSpecName") {
        complain(own, name::is_dns1123_subdomain(own), &path.child("gmsaCredentialSpecName"), errors);
    }
    if let Some(own) = options.maybe_text("gmsaCredentialSpec") {
        let at = path.child("gmsaCredentialSpec");
        if own.is_empty() {
            errors.push(FieldError::invalid(at, own, "gmsaCredentialSpec cannot be an empty string"));
        } else if own.len() > CREDENTIAL_MAX {
            errors.push(FieldError::invalid(at, own, "gmsaCredentialSpec size must be under 64 KiB"));
        }
    }
    if let Some(own) = options.maybe_text("runAsUserName") {
        for problem in user_problems(own) {
            errors.push(FieldError::invalid(path.child("runAsUserName"), own, problem));
        }
    }
}

fn user_problems(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec!["runAsUserName cannot be an empty string".to_owned()];
    }
    if value.bytes().any(|c| c.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters".to_owned()];
    }
    let (domain, user) = match value.split_once('\\') {
        Some((_, rest)) if rest.contains('\\') => {
            return vec!["runAsUserName cannot contain more than one backslash".to_owned()];
        }
        Some((domain, user)) => (Some(domain), user),
        None => (None, value),
    };
    let mut out = Vec::new();
    if domain.is_some_and(|d| d.len() >= DOMAIN_MAX) {
        out.push(format!("runAsUserName's Domain length must be under {DOMAIN_MAX} characters"));
    }
    if domain.is_some_and(|d| !is_net_bios(d) && !is_dns(d)) {
        out.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
    }
    if user.is_empty() {
        out.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > USER_MAX {
        out.push(format!("runAsUserName's User length must not be longer than {USER_MAX} characters"));
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        out.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    if user.chars().any(|c| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        out.push("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]".to_owned());
    }
    out
}

fn is_net_bios(domain: &str) -> bool {
    let count = domain.chars().count();
    (1..=15).contains(&count) && !domain.starts_with('.') && !domain.chars().any(|c| "\\/:*?\"<>|".contains(c))
}

fn is_dns(domain: &str) -> bool {
    domain.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
    })
}

/// Checks host process containers: all or none, and on the host's network.
pub(super) fn validate_host_process(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let of = |parent: &Object| {
        parent
            .object("securityContext")
            .and_then(|c| c.object("windowsOptions"))
            .and_then(|w| w.maybe_flag("hostProcess"))
    };
    let of_pod = of(spec);
    let (mut all, mut hosts) = (0, 0);
    every_container(spec, path, |container, at| {
        all += 1;
        let own = of(container);
        if let (Some(pod), Some(own)) = (of_pod, own)
            && pod != own
        {
            errors.push(FieldError::invalid(
                at.child("securityContext").child("windowsOptions").child("hostProcess"),
                own,
                format!("pod hostProcess value must be identical if both are specified, was {pod}"),
            ));
        }
        hosts += usize::from(own.or(of_pod).unwrap_or_default());
    });
    if hosts == 0 {
        return;
    }
    if hosts != all {
        errors.push(FieldError::invalid(
            path,
            "",
            "If pod contains any hostProcess containers then all containers must be HostProcess containers",
        ));
    }
    if !spec.flag("hostNetwork") {
        errors.push(FieldError::invalid(
            path.child("hostNetwork"),
            false,
            "hostNetwork must be true if pod contains any hostProcess containers",
        ));
    }
}
