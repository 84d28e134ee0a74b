//! Old answers to lists, as from a cache that is behind its storage.
//!
//! An API server may answer from such a cache if the request permits it: with `resourceVersion=0`, or with a version
//! that need not match exactly. A request without a resourceVersion is consistent.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Request, Uri};
use muster_tree::Map;

use super::target::parameter;

/// How many answers of one list are kept.
const KEPT: usize = 8;

/// Of so many lists.
const MOST_LISTS: usize = 1_000;

/// The answers given to lists so far, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Memory {
    lists: HashMap<(String, Option<HeaderValue>), VecDeque<Remembered>>,
}

/// An answer of 200.
#[derive(Debug, Clone)]
pub(super) struct Remembered {
    version: u64,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Memory {
    /// Keeps an answer, if it is a list with a version.
    pub(super) fn keep(&mut self, asked: &Asked, headers: &HeaderMap, body: &Bytes) {
        if !body.starts_with(b"{") || parameter(&asked.uri, "continue").is_some() {
            return;
        }
        let list = Map::stored(body, "");
        let version = list["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        let Some(version) = version else { return };
        // However many there are, they do not fill the memory.
        if self.lists.len() >= MOST_LISTS {
            self.lists.clear();
        }
        let kept = self.lists.entry(asked.key()).or_default();
        kept.push_back(Remembered { version, headers: headers.clone(), body: body.clone() });
        if kept.len() > KEPT {
            kept.pop_front();
        }
    }

    /// The oldest answer that the request permits; `None` if it permits only the newest.
    pub(super) fn recall(&self, asked: &Asked) -> Option<Remembered> {
        let oldest: u64 = parameter(&asked.uri, "resourceVersion")?.parse().ok()?;
        if parameter(&asked.uri, "resourceVersionMatch").is_some_and(|how| how != "NotOlderThan") {
            return None;
        }
        self.lists.get(&asked.key())?.iter().find(|kept| kept.version >= oldest).cloned()
    }
}

/// What was asked for, and in which form.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    uri: Uri,
    accept: Option<HeaderValue>,
}

impl Asked {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        Self { uri: request.uri().clone(), accept: request.headers().get(ACCEPT).cloned() }
    }

    /// Without its resourceVersion parameters.
    fn key(&self) -> (String, Option<HeaderValue>) {
        let uri = &self.uri;
        let pairs = uri.query().unwrap_or_default().split('&');
        let mut pairs: Vec<&str> = pairs.filter(|pair| !pair.starts_with("resourceVersion")).collect();
        pairs.sort_unstable();
        (format!("{}?{}", uri.path(), pairs.join("&")), self.accept.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_request_permits_is_recalled() {
        let mut memory = Memory::default();
        let asked = |query: &str, accept: &'static str| {
            let request = Request::get(format!("/api/v1/pods?{query}")).header(ACCEPT, accept);
            Asked::of(&request.body(()).unwrap())
        };
        let uri = |query: &str| asked(query, "application/json");
        for version in [5, 9] {
            let body = Bytes::from(format!(r#"{{"kind":"PodList","metadata":{{"resourceVersion":"{version}"}}}}"#));
            memory.keep(&uri("limit=500"), &HeaderMap::new(), &body);
        }
        for (query, version) in [
            ("limit=500", None),
            ("limit=500&resourceVersion=", None),
            ("limit=500&resourceVersion=0", Some(5)),
            ("resourceVersion=0&limit=500", Some(5)),
            ("limit=500&resourceVersion=6&resourceVersionMatch=NotOlderThan", Some(9)),
            ("limit=500&resourceVersion=5&resourceVersionMatch=Exact", None),
            ("limit=500&resourceVersion=10", None),
            ("limit=10&resourceVersion=0", None),
        ] {
            assert_eq!(memory.recall(&uri(query)).map(|found| found.version), version, "{query}");
        }
        assert!(memory.recall(&asked("limit=500&resourceVersion=0", "application/json;as=Table")).is_none());
    }
}
