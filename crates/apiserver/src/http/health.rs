//! Health, in the words of the reference.

use std::collections::BTreeSet;

use http::Response;

use super::body::Body;
use super::{Service, metrics, respond};
use crate::field::go_quote;
use crate::registry::options::Query;

impl Service {
    /// Answers `/healthz`, `/livez` or `/readyz`, or one check of it: that with `ok` alone.
    pub(super) fn health(&self, endpoint: &str, checks: &[&str], query: &Query) -> Response<Body> {
        let asked = |check: &&&str| checks.is_empty() || checks == [**check];
        let (asked, endpoint) = (
            metrics::CHECKS.iter().filter(asked).collect::<Vec<_>>(),
            metrics::ENDPOINTS.iter().find(|known| **known == endpoint),
        );
        let (Some(endpoint), false) = (endpoint, asked.is_empty()) else { return respond::no_such_page() };
        let excluded: BTreeSet<&str> = query.all("exclude").filter(|_| checks.is_empty()).collect();
        let mut text = String::new();
        for check in asked {
            let is_excluded = excluded.contains(check);
            if !is_excluded {
                self.shared.metrics.checked(check, endpoint);
            }
            text += &format!("[+]{check}{} ok\n", if is_excluded { " excluded:" } else { "" });
        }
        if query.get("verbose").is_none() || !checks.is_empty() {
            return respond::text(200, &b"ok"[..]);
        }
        let unknown = excluded.iter().filter(|name| !metrics::CHECKS.contains(name)).map(|name| go_quote(name));
        let unknown = unknown.collect::<Vec<_>>().join(",");
        if !unknown.is_empty() {
            text += &format!("warn: some health checks cannot be excluded: no matches for {unknown}\n");
        }
        respond::text(200, text + endpoint + " check passed\n")
    }
}
