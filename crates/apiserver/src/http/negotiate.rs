//! Content negotiation: what the client can read, and what it sent (API-05).

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};

use crate::codec::Format;
use crate::registry::options::Query;
use crate::status::ApiError;

/// What a path answers with, for the router's 406.
pub const PRODUCES: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
/// What a path that can be watched answers with.
pub const PRODUCES_STREAMS: [&str; 5] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

/// What the answer's object is turned into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transform {
    /// A `Table` of this version of `meta.k8s.io`.
    Table(&'static str),
    /// Metadata only.
    Partial(&'static str),
    /// A list of metadata only.
    PartialList(&'static str),
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    /// How it is encoded.
    pub format: Format,
    /// Indented, for a person.
    pub pretty: bool,
    /// What the object becomes.
    pub transform: Option<Transform>,
}

/// One clause of an Accept header.
#[derive(Debug, Clone)]
pub struct Clause {
    /// Type and subtype, such as `application/json`.
    pub media: String,
    /// Its parameters, without `q`.
    pub params: Vec<(String, String)>,
    quality: f32,
}

/// Parses an Accept header, best first.
#[must_use]
pub fn clauses(header: &str) -> Vec<Clause> {
    let mut out: Vec<Clause> = header
        .split(',')
        .filter_map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media = parts.next().filter(|m| !m.is_empty())?.to_owned();
            let mut clause = Clause { media, params: Vec::new(), quality: 1.0 };
            for part in parts {
                let (key, value) = part.split_once('=').unwrap_or((part, ""));
                if key.trim() == "q" {
                    clause.quality = value.trim().parse().unwrap_or(1.0);
                } else {
                    clause.params.push((key.trim().to_owned(), value.trim().trim_matches('"').to_owned()));
                }
            }
            Some(clause)
        })
        .collect();
    let wild = |media: &str| media.bytes().filter(|b| *b == b'*').count();
    out.sort_by(|a, b| b.quality.total_cmp(&a.quality).then_with(|| wild(&a.media).cmp(&wild(&b.media))));
    out
}

/// The Accept header; empty where absent.
#[must_use]
pub fn accept(headers: &HeaderMap) -> &str {
    headers.get(ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

/// The router's check: whether any clause names something that the path answers with.
///
/// # Errors
/// 406 that lists what the path answers with.
pub fn check_route(headers: &HeaderMap, produces: &'static [&'static str]) -> Result<(), ApiError> {
    let header = accept(headers);
    if header.is_empty() {
        return Ok(());
    }
    let known = header.split(',').any(|clause| {
        let media = clause.split(';').next().unwrap_or_default().trim();
        media == "*/*" || produces.contains(&media)
    });
    if known { Ok(()) } else { Err(ApiError::not_acceptable_route(produces)) }
}

/// What an answer can be written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// As itself, in text.
    Document,
    /// As itself, in text or protobuf.
    Value,
    /// As itself in text or protobuf, as a table, or as its metadata alone.
    Object,
    /// The same of a custom object, which has no form in protobuf but for its metadata.
    Custom,
}

/// What the answer is written as.
///
/// # Errors
/// 406 when nothing that the client reads can be written.
pub fn output(headers: &HeaderMap, query: &Query, offer: Offer) -> Result<Output, ApiError> {
    let pretty = wants_pretty(headers, query);
    let header = accept(headers);
    if header.is_empty() {
        return Ok(Output { format: Format::Json, pretty, transform: None });
    }
    for clause in clauses(header) {
        let formats: &[Format] = match clause.media.as_str() {
            "application/json" => &[Format::Json],
            "application/yaml" => &[Format::Yaml],
            "application/vnd.kubernetes.protobuf" if offer != Offer::Document => &[Format::Protobuf],
            "*/*" | "application/*" => &[Format::Json],
            _ => continue,
        };
        let (mut kind, mut group, mut version) = (None, None, None);
        let (mut allowed, mut indented) = (true, false);
        for (key, value) in &clause.params {
            match key.as_str() {
                "as" => kind = Some(value.as_str()),
                "g" => group = Some(value.as_str()),
                "v" => version = Some(value.as_str()),
                "pretty" => indented = value == "1",
                "stream" => allowed &= value.is_empty() || value == "watch",
                "sv" => allowed &= value.is_empty() || value == "v1",
                _ => {}
            }
        }
        if !allowed {
            continue;
        }
        let transform = if kind.is_none() && group.is_none() && version.is_none() {
            if offer == Offer::Custom && formats[0] == Format::Protobuf {
                continue;
            }
            None
        } else {
            let version = match version {
                Some("v1") => "v1",
                Some("v1beta1") => "v1beta1",
                _ => continue,
            };
            if !matches!(offer, Offer::Object | Offer::Custom) || group != Some("meta.k8s.io") {
                continue;
            }
            Some(match kind {
                // A table has no form in protobuf.
                Some("Table") if formats[0] != Format::Protobuf => Transform::Table(version),
                Some("PartialObjectMetadata") => Transform::Partial(version),
                Some("PartialObjectMetadataList") => Transform::PartialList(version),
                _ => continue,
            })
        };
        return Ok(Output { format: formats[0], pretty: pretty || indented, transform });
    }
    Err(ApiError::not_acceptable(format!("only the following media types are accepted: {}", PRODUCES.join(", "))))
}

/// What a body is written as.
///
/// # Errors
/// 415 for a type that is not read here.
pub fn input(headers: &HeaderMap) -> Result<Format, ApiError> {
    let header = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    // A parameter is a name and a value; only the last may be empty.
    let parameters = header.trim_end();
    let mut parameters = parameters.strip_suffix(';').unwrap_or(parameters).split(';').skip(1);
    let well_formed = parameters.all(|p| p.split_once('=').is_some_and(|(name, _)| !name.trim().is_empty()));
    match content_type(headers).to_ascii_lowercase().as_str() {
        "" => Ok(Format::Json),
        "application/json" if well_formed => Ok(Format::Json),
        "application/yaml" if well_formed => Ok(Format::Yaml),
        "application/vnd.kubernetes.protobuf" if well_formed => Ok(Format::Protobuf),
        _ => Err(ApiError::unsupported_media_type(&PRODUCES)),
    }
}

/// The Content-Type without its parameters; empty where absent.
#[must_use]
pub fn content_type(headers: &HeaderMap) -> &str {
    let header = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    header.split(';').next().unwrap_or_default().trim()
}

/// The User-Agent; empty where absent.
#[must_use]
pub fn user_agent(headers: &HeaderMap) -> &str {
    headers.get(USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

/// Whether a person is reading: the parameter says so, or else the client is a browser, curl or wget.
#[must_use]
pub fn wants_pretty(headers: &HeaderMap, query: &Query) -> bool {
    match query.get("pretty") {
        Some(text) if !text.is_empty() => matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True"),
        _ => {
            let agent = user_agent(headers);
            ["curl", "Wget", "Mozilla/5.0"].iter().any(|prefix| agent.starts_with(prefix))
        }
    }
}
