//! The options of a pod's log, which are looked at before the pod is (API-23).

use crate::field::FieldError;
use crate::registry::options::Query;
use crate::schema::time;
use crate::status::{ApiError, GroupResource};

/// Refuses options that the reference refuses, of the log of the pod `name`.
///
/// # Errors
/// 400 for one that cannot be read, 422 for those that may not be so.
pub(super) fn check(query: &Query, name: &str) -> Result<(), ApiError> {
    let seconds = query.int("sinceSeconds")?;
    let since = query.get("sinceTime");
    if let Some(text) = since.filter(|text| !matches!(*text, "" | "null")) {
        time::canonical(text, false).map_err(ApiError::bad_request)?;
    }
    let lines = query.int("tailLines")?;
    let bytes = query.int("limitBytes")?;
    let mut errors = Vec::new();
    if let Some(number) = lines.filter(|number| *number < 0) {
        errors.push(FieldError::invalid("tailLines", number, "must be greater than or equal to 0"));
    }
    if let Some(number) = bytes.filter(|number| *number < 1) {
        errors.push(FieldError::invalid("limitBytes", number, "must be greater than 0"));
    }
    match seconds {
        Some(_) if since.is_some() => {
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden("[]", why));
        }
        Some(number) if number < 1 => {
            errors.push(FieldError::invalid("sinceSeconds", number, "must be greater than 0"));
        }
        _ => {}
    }
    // Only a feature gate that is off has it.
    if query.get("stream").is_some() {
        errors.push(FieldError::forbidden("stream", "may not be specified"));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(GroupResource { group: "", resource: "PodLogOptions" }, name, &errors))
}
