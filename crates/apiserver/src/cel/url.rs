//! URLs as Go's `url.ParseRequestURI` reads them: absolute ones, and paths from the root.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// What Go escapes in a path.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// A URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// `https`; empty for a path.
    pub scheme: String,
    /// The host with its port.
    pub host: String,
    /// The path, escaped.
    pub path: String,
    /// What follows the question mark.
    pub query: String,
}

/// Reads a URL.
#[must_use]
pub fn parse(text: &str) -> Option<Url> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return None;
    }
    let (scheme, rest) = match text.find(':') {
        Some(at) if is_scheme(&text[..at]) => (text[..at].to_lowercase(), &text[at + 1..]),
        _ => (String::new(), text),
    };
    if text.starts_with(':') || (scheme.is_empty() && !rest.starts_with('/')) {
        return None;
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !rest.starts_with('/') {
        // Opaque, such as mailto:a@b.
        return (!scheme.is_empty()).then(|| Url {
            scheme,
            host: String::new(),
            path: String::new(),
            query: query.to_owned(),
        });
    }
    let (authority, path) = match rest.strip_prefix("//") {
        Some(after) if !scheme.is_empty() || !after.starts_with('/') => {
            let end = after.find('/').unwrap_or(after.len());
            after.split_at(end)
        }
        _ => ("", rest),
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let port_fits = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    let fits = match host.strip_prefix('[') {
        Some(inner) => {
            let (address, port) = inner.split_once(']')?;
            !address.is_empty() && (port.is_empty() || port.strip_prefix(':').is_some_and(port_fits))
        }
        None => host.split_once(':').is_none_or(|(_, port)| port_fits(port)),
    };
    let allowed = |c: char| !matches!(c, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}');
    if !fits || !host.chars().all(allowed) || !escapes_are_right(path) || !escapes_are_right(host) {
        return None;
    }
    Some(Url { scheme, host: host.to_owned(), path: path.to_owned(), query: query.to_owned() })
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn escapes_are_right(text: &str) -> bool {
    text.split('%').skip(1).all(|part| part.len() >= 2 && part.bytes().take(2).all(|b| b.is_ascii_hexdigit()))
}

impl Url {
    /// The path as it was written, or escaped anew where that was not done rightly.
    #[must_use]
    pub fn escaped_path(&self) -> String {
        let is_fine = |b: u8| b.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*[]%".contains(&b);
        if self.path.bytes().all(is_fine) {
            return self.path.clone();
        }
        let plain: Vec<u8> = percent_decode_str(&self.path).collect();
        percent_encode(&plain, ESCAPED).to_string()
    }

    /// The host without its port and brackets.
    #[must_use]
    pub fn hostname(&self) -> &str {
        match self.host.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            Some((address, _)) => address,
            None => self.host.split_once(':').map_or(&self.host, |(host, _)| host),
        }
    }

    /// The port; empty where there is none.
    #[must_use]
    pub fn port(&self) -> &str {
        let after = self.host.rsplit_once(']').map_or(&*self.host, |(_, port)| port);
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }

    /// The values of the query, by key.
    #[must_use]
    pub fn queries(&self) -> BTreeMap<String, Vec<String>> {
        let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let plain = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            out.entry(plain(key)).or_default().push(plain(value));
        }
        out
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> String {
        let query = if self.query.is_empty() { String::new() } else { format!("?{}", self.query) };
        if self.scheme.is_empty() {
            format!("{}{query}", self.path)
        } else {
            format!("{}://{}{}{query}", self.scheme, self.host, self.path)
        }
    }
}
