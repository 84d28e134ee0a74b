//! Names with a domain in front.

use super::{Errors, name};
use crate::field::FieldError;
use crate::validation::path::Path;

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
