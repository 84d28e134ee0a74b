//! Names with a domain in front: signers, and keys that belong to somebody.

use super::{Errors, name};
use crate::field::path::Path;
use crate::field::{FieldError, go_quote};

/// Checks a domain with a path, such as `acme.io/foo`.
pub fn validate_prefixed_path(value: &str, path: &Path<'_>, errors: &mut Errors) {
    const PATH: &str = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";
    if value.is_empty() {
        errors.push(FieldError::required(*path, ""));
        return;
    }
    let Some((host, rest)) = value.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty()) else {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.push(FieldError::invalid(*path, value, why));
        return;
    };
    super::complain(host, name::is_dns1123_subdomain(host), path, errors);
    if !rest.chars().all(|c| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c)) {
        errors.push(FieldError::invalid(*path, rest, name::regex_error("Invalid path", PATH, &[])));
    }
}

/// A name's longest domain.
const DOMAIN: usize = 253;
/// The longest label of a domain.
const LABEL: usize = 63;
/// A signer's longest name: a domain, and a path with room for a label more.
const SIGNER: usize = DOMAIN + (DOMAIN + LABEL + 1) + 1;

/// Checks the name of a signer, such as `example.com/signer-name`.
pub fn validate_signer_name(value: &str, path: &Path<'_>, errors: &mut Errors) {
    if value.is_empty() {
        errors.push(FieldError::required(*path, ""));
        return;
    }
    let Some((domain, rest)) = value.split_once('/').filter(|(_, rest)| !rest.contains('/')) else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid(*path, value, why));
        return;
    };
    if domain.len() > DOMAIN {
        errors.push(FieldError::too_long(*path, DOMAIN));
    }
    validate_labels(domain, name::is_dns1123_label, path, errors);
    if !domain.contains('.') {
        errors.push(FieldError::invalid(
            *path,
            domain,
            "should be a domain with at least two segments separated by dots",
        ));
    }
    validate_labels(rest, name::is_dns1123_subdomain, path, errors);
    if value.len() > SIGNER {
        errors.push(FieldError::too_long(*path, SIGNER));
    }
}

/// Checks what stands between dots. Only the first that is wrong is told.
fn validate_labels(of: &str, rule: fn(&str) -> Vec<String>, path: &Path<'_>, errors: &mut Errors) {
    let wrong = of.split('.').map(|label| (label, rule(label))).find(|(_, complaints)| !complaints.is_empty());
    let Some((label, complaints)) = wrong else { return };
    let label = go_quote(label);
    errors.extend(
        complaints.iter().map(|why| FieldError::invalid(*path, of, format!("validating label {label}: {why}"))),
    );
}
