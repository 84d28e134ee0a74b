//! OpenAPI v3: an index and one document for each group version (API-04).

use http::{HeaderMap, Response};

use crate::http::body::Body;
use crate::http::respond;

/// `/openapi/v3`
#[must_use]
pub fn index() -> Response<Body> {
    respond::no_such_page()
}

/// `/openapi/v3/<path>`, such as `apis/apps/v1`.
#[must_use]
pub fn document(path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    let _ = (path, headers);
    None
}
