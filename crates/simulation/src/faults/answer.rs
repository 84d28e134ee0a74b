//! The answers that faults give in the server's place.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response};
use http_body_util::{BodyExt as _, Full};
use muster_objects::Timestamp;
use muster_runtime::client::{BoxError, ResponseBody};
use muster_tree::json;

use super::rule::Refusal;
use super::target::Target;

/// A broken connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// Refused: no server is listening.
    Refused,
    /// Reset: the server went away.
    Reset,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Refused => "connection refused",
            Self::Reset => "connection reset by peer",
        })
    }
}

impl std::error::Error for Broken {}

/// A body that is complete already.
pub(super) fn whole(bytes: Bytes) -> ResponseBody {
    Full::new(bytes).map_err(|never| -> BoxError { match never {} }).boxed_unsync()
}

/// A refusal as Kubernetes writes it.
pub(super) fn refusal(refusal: Refusal, target: &Target) -> Response<ResponseBody> {
    let (code, reason) = (refusal.status(), refusal.reason());
    let mut details = json!({"name": target.name, "kind": target.resource});
    if let Some(seconds) = refusal.retry_after() {
        details["retryAfterSeconds"] = json!(seconds);
    }
    if refusal == Refusal::VersionTooLarge {
        details["causes"] = json!([{"reason": "ResourceVersionTooLarge", "message": refusal.message(target)}]);
    }
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": refusal.message(target),
        "reason": reason, "details": details, "code": code.as_u16(),
    });
    let mut answer = Response::new(whole(Bytes::from(status.to_string())));
    *answer.status_mut() = code;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = refusal.retry_after() {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

/// A time as HTTP writes it, such as `Thu, 01 Jan 2026 00:00:00 GMT`.
pub(super) fn http_date(time: Timestamp) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = time.as_nanos().div_euclid(86_400_000_000_000).rem_euclid(7);
    let day = DAYS[usize::try_from(days).unwrap_or_default()];
    // 2026-01-01T00:00:00Z
    let text = time.to_string();
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    let month = part(5..7).parse::<usize>().ok().and_then(|month| MONTHS.get(month.wrapping_sub(1)));
    format!("{day}, {} {} {} {} GMT", part(8..10), month.copied().unwrap_or_default(), part(0..4), part(11..19))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_http_has_it() {
        for (time, written) in [
            ("2026-01-01T00:00:00Z", "Thu, 01 Jan 2026 00:00:00 GMT"),
            ("1994-11-06T08:49:37Z", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("2024-02-29T23:59:59Z", "Thu, 29 Feb 2024 23:59:59 GMT"),
        ] {
            assert_eq!(http_date(Timestamp::parse(time).unwrap()), written);
        }
    }
}
