//! Lists: at the present, at an older version, in pages (API-08); and where watches begin (API-09).

use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD, URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

use super::options::{ListOptions, VersionMatch};
use super::selection::Selection;
use super::{Registry, Served};
use crate::status::ApiError;
use crate::storage::{Cursor, Entry, Range};

/// A list, or a part of one.
#[derive(Debug)]
pub struct Page {
    /// The version at which it is true.
    pub version: u64,
    /// The objects.
    pub entries: Vec<Arc<Entry>>,
    /// Where the next page begins; `None` at the end.
    pub continue_token: Option<String>,
    /// How many objects follow, where that is known. Of a shard's list it is, as on the real server, how many objects of
    /// all shards are there beyond the limit.
    pub remaining: Option<usize>,
    /// The shard selector by which it was read.
    pub shard: Option<String>,
}

/// The present state that a watch begins with, and what follows it.
#[derive(Debug)]
pub struct Start {
    /// Objects to announce as ADDED.
    pub initial: Vec<Arc<Entry>>,
    /// The version of that state.
    pub version: u64,
    /// Whether to announce the end of the initial objects.
    pub announce_end: bool,
    /// Everything after.
    pub cursor: Cursor,
}

impl Page {
    fn of(selection: &Selection) -> Self {
        let shard = selection.shard_info();
        Self { version: 0, entries: Vec::new(), continue_token: None, remaining: None, shard }
    }
}

impl Registry {
    /// Lists a namespace (all for the empty one), or the one object that `name` names.
    ///
    /// # Errors
    /// 400 for selectors and tokens, 500 for shard selectors, 410 for versions that are gone, 504 for versions to come.
    pub fn list(
        &self,
        served: &Served,
        namespace: &str,
        name: Option<&str>,
        options: &ListOptions,
    ) -> Result<Page, ApiError> {
        let mut selection = Selection::parse(served, &options.label_selector, &options.field_selector)?;
        if let Some(name) = name {
            selection.narrow(name)?;
        }
        selection.shard(&options.shard_selector)?;
        let namespace =
            if namespace.is_empty() { selection.namespace().unwrap_or_default() } else { namespace }.to_owned();
        let wanted =
            options.version().map_err(|e| ApiError::bad_request(format!("invalid resource version: {}", e.message)))?;
        let from = if options.continue_token.is_empty() {
            None
        } else {
            let from = Token::decode(&options.continue_token, &namespace, served.resource().namespaced)?;
            if wanted.is_some_and(|version| version != 0) {
                return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
            }
            Some(from)
        };
        let at = self.version_for(options, wanted, from.as_ref())?;
        // A list "at any version" is served whole, whatever its limit.
        let limit = if wanted == Some(0) && from.is_none() { 0 } else { options.limit };

        let mut page = Page::of(&selection);
        if let Some(name) = selection.name().filter(|_| at.is_none()) {
            page.version = self.storage.version();
            if namespace.is_empty() && served.resource().namespaced {
                return self.scan(served, &namespace, &selection, limit, at, from.as_ref());
            }
            let found = self.storage.get(served.id, &namespace, name);
            page.entries.extend(found.filter(|entry| selection.matches(entry)));
            page.version = page.version.max(self.storage.version());
            return Ok(page);
        }
        self.scan(served, &namespace, &selection, limit, at, from.as_ref())
    }

    /// Reads ranges until the page is full of what is selected.
    fn scan(
        &self,
        served: &Served,
        namespace: &str,
        selection: &Selection,
        limit: usize,
        mut at: Option<u64>,
        from: Option<&Token>,
    ) -> Result<Page, ApiError> {
        let everything = selection.is_everything();
        let mut page = Page::of(selection);
        // How many objects there are from the page's beginning on.
        let mut all = None;
        let mut after = from.map(|token| (token.namespace.clone(), token.name.clone()));
        let mut fetch = limit;
        let mut known = from.and_then(|token| token.remaining);
        loop {
            let after_key = after.as_ref().map(|(ns, name)| (ns.as_str(), name.as_str()));
            let range = Range { namespace, after: after_key, limit: fetch, known };
            let listed = self.storage.list(served.id, &range, at).map_err(|_| too_old(served, namespace, from))?;
            page.version = listed.version;
            at = Some(listed.version);
            let mut last = None;
            let mut cut = 0;
            let all = *all.get_or_insert(listed.entries.len() + listed.remaining);
            for entry in listed.entries {
                if limit > 0 && page.entries.len() >= limit {
                    cut += 1;
                    continue;
                }
                last = Some((entry.namespace.to_string(), entry.name.to_string()));
                if everything || selection.matches(&entry) {
                    page.entries.push(entry);
                }
            }
            let remaining = cut + listed.remaining;
            after = last.or(after);
            if remaining == 0 || limit == 0 {
                return Ok(page);
            }
            if page.entries.len() >= limit {
                if let Some((ns, name)) = &after {
                    let version = i64::try_from(listed.version).unwrap_or(i64::MAX);
                    let whole = namespace.is_empty() && served.resource().namespaced;
                    page.continue_token =
                        Some(Token::encode(version, whole.then_some(ns.as_str()), name, Some(remaining)));
                }
                page.remaining = selection.is_every_attribute().then(|| all.saturating_sub(limit));
                return Ok(page);
            }
            known = Some(remaining);
            fetch = (fetch * 2).min(10_000);
        }
    }

    /// The version at which to read; `None` is the present.
    fn version_for(
        &self,
        options: &ListOptions,
        wanted: Option<u64>,
        from: Option<&Token>,
    ) -> Result<Option<u64>, ApiError> {
        let present = self.storage.version();
        if let Some(token) = from {
            return match token.version {
                Some(version) if version > present => Err(ApiError::version_too_large(version, present)),
                version => Ok(version),
            };
        }
        let Some(version) = wanted.filter(|version| *version != 0) else { return Ok(None) };
        if version > present {
            return Err(ApiError::version_too_large(version, present));
        }
        let exact = match options.version_match {
            Some(VersionMatch::Exact) => true,
            Some(VersionMatch::NotOlderThan) => false,
            // The meaning of old: with a limit, the version is exact.
            None => options.limit > 0,
        };
        Ok(exact.then_some(version))
    }

    /// Where a watch begins. The error that a version is gone is for the stream to tell, not for the answer's status.
    ///
    /// # Errors
    /// 400 or 500 for a version that is none; 410 and 504 as the inner error.
    #[allow(clippy::type_complexity)]
    pub fn watch(
        &self,
        served: &Served,
        namespace: &str,
        selection: &Selection,
        options: &ListOptions,
    ) -> Result<Result<Start, ApiError>, ApiError> {
        let wanted = options.version()?;
        let version = wanted.unwrap_or(0);
        let initial = options.send_initial_events.unwrap_or(version == 0);
        let present = self.storage.version();
        if initial && version > present {
            return Ok(Err(ApiError::version_too_large(version, present)));
        }
        let announce_end = options.send_initial_events == Some(true) && options.bookmarks;
        let mut start_at = if version == 0 { present } else { version };
        let mut entries = Vec::new();
        if initial {
            let range = Range { namespace, ..Range::default() };
            match self.storage.list(served.id, &range, None) {
                Ok(listed) => {
                    start_at = listed.version;
                    entries = listed.entries;
                }
                Err(_) => return Ok(Err(ApiError::expired("too old resource version"))),
            }
        }
        match self.storage.watch(served.id, selection.common(namespace), start_at) {
            Ok(cursor) => {
                Ok(Ok(Start { initial: entries, version: start_at, announce_end, cursor: cursor.for_others() }))
            }
            Err(oldest) => Ok(Err(ApiError::expired(format!("too old resource version: {start_at} ({oldest})")))),
        }
    }
}

fn too_old(served: &Served, namespace: &str, from: Option<&Token>) -> ApiError {
    let Some(token) = from else {
        return ApiError::expired("The resourceVersion for the provided list is too old.");
    };
    let mut error = ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    let whole = namespace.is_empty() && served.resource().namespaced;
    error.continue_token = Some(Token::encode(-1, whole.then_some(token.namespace.as_str()), &token.name, None));
    error
}

/// Reads tokens as Go does, which passes over bits that a last symbol has too many.
const LENIENT: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// Where Go sees that a text is not base64: at the first strange symbol, or at one left over at the end.
fn first_illegal(text: &str) -> usize {
    let strange = |b: u8| !(b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    text.bytes().position(strange).unwrap_or(text.len().saturating_sub(1))
}

/// A continue token: the version of the list and the last key seen.
#[derive(Debug)]
struct Token {
    /// `None` continues at whatever is present.
    version: Option<u64>,
    namespace: String,
    name: String,
    /// How many objects follow, at that version.
    remaining: Option<usize>,
}

/// The token's wire form: the reference's, and what follows.
#[derive(Serialize, Deserialize)]
struct Wire<'a> {
    #[serde(default)]
    v: std::borrow::Cow<'a, str>,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: std::borrow::Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remaining: Option<usize>,
}

impl Token {
    fn encode(version: i64, namespace: Option<&str>, name: &str, remaining: Option<usize>) -> String {
        // The next key after one is that key and a zero byte.
        let start = match namespace {
            Some(namespace) => format!("{namespace}/{name}\0"),
            None => format!("{name}\0"),
        };
        let wire = Wire { v: "meta.k8s.io/v1".into(), rv: version, start: start.into(), remaining };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).unwrap_or_default())
    }

    fn decode(text: &str, namespace: &str, namespaced: bool) -> Result<Self, ApiError> {
        let invalid = |why: String| ApiError::bad_request(format!("invalid continue token: {why}"));
        let broken = |why: String| invalid(format!("continue key is not valid: {why}"));
        let bytes = LENIENT
            .decode(text)
            .map_err(|_| broken(format!("illegal base64 data at input byte {}", first_illegal(text))))?;
        crate::schema::read_json(&bytes).map_err(broken)?;
        let wire: Wire<'_> = serde_json::from_slice(&bytes).map_err(|e| broken(e.to_string()))?;
        if wire.v != "meta.k8s.io/v1" {
            return Err(broken(format!("server does not recognize this encoded version {}", wire.v)));
        }
        if wire.rv == 0 {
            return Err(broken("incorrect encoded start resourceVersion (version meta.k8s.io/v1)".to_owned()));
        }
        if wire.start.is_empty() {
            return Err(broken("encoded start key empty (version meta.k8s.io/v1)".to_owned()));
        }
        if wire.start.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
            return Err(broken(wire.start.into_owned()));
        }
        let start = wire.start.trim_end_matches('\0');
        let (ns, name) = match start.split_once('/') {
            Some((ns, name)) if namespace.is_empty() && namespaced => (ns, name),
            _ => (if namespaced { namespace } else { "" }, start),
        };
        // What is there now is not what was there then.
        let version = u64::try_from(wire.rv).ok();
        let remaining = wire.remaining.filter(|_| version.is_some());
        Ok(Self { version, namespace: ns.to_owned(), name: name.to_owned(), remaining })
    }
}
