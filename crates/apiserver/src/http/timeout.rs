//! The parameter `timeout`, which clients add to any request: a duration as Go writes one.
//!
//! Requests are answered within milliseconds, so that only whether it can be read makes a difference.

use crate::access::attributes::Attributes;
use crate::registry::options::Query;
use crate::status::ApiError;
use crate::validation::duration;

/// Refuses a `timeout` that is no duration. A request that lasts as long as its client wants has another one.
///
/// # Errors
/// 400.
pub fn check(query: &Query, attributes: &Attributes<'_>) -> Result<(), ApiError> {
    let timeout = query.get("timeout").unwrap_or_default();
    if timeout.is_empty() || attributes.lasts() {
        return Ok(());
    }
    duration::check(timeout)
        .map_err(|why| ApiError::bad_request(format!("invalid timeout specified in the request URL - time: {why}")))
}
