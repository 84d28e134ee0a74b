//! Access: who asks, and whether they may (API-01, API-31).
//!
//! ```text
//!   request -> token -> user -> impersonated user -> attributes -> default roles -> handled, or 403
//! ```
//!
//! Whoever has the token is an administrator of the group `system:masters`, who may do anything. Whoever has no credential
//! is `system:anonymous`. An administrator can act as somebody else ([`impersonation`]), who then may do what the
//! reference's default roles let any user do ([`roles`]).

pub mod attributes;
pub mod impersonation;
pub mod roles;

use std::collections::BTreeMap;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde_json::{Map, Value, json};

/// The group that may do anything.
const MASTERS: &str = "system:masters";
/// The group of everybody who has a name.
const AUTHENTICATED: &str = "system:authenticated";
/// The group of who has none.
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Who has no credential.
const ANONYMOUS: &str = "system:anonymous";

/// Somebody who sends requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The uid; empty where there is none.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Whatever else an authenticator knows.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The user whose credential the server makes.
    #[must_use]
    pub fn administrator() -> Self {
        let groups = [MASTERS, AUTHENTICATED].map(str::to_owned).to_vec();
        Self { name: "admin".to_owned(), uid: "admin".to_owned(), groups, extra: BTreeMap::new() }
    }

    /// Whoever has no credential.
    #[must_use]
    pub fn anonymous() -> Self {
        let groups = vec![UNAUTHENTICATED.to_owned()];
        Self { name: ANONYMOUS.to_owned(), uid: String::new(), groups, extra: BTreeMap::new() }
    }

    /// Whether the user may do anything.
    #[must_use]
    pub fn may_do_anything(&self) -> bool {
        self.is_in(MASTERS)
    }

    fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// As `userInfo` has it.
    #[must_use]
    pub fn info(&self) -> Value {
        let mut info = Map::new();
        info.insert("username".to_owned(), json!(self.name));
        if !self.uid.is_empty() {
            info.insert("uid".to_owned(), json!(self.uid));
        }
        if !self.groups.is_empty() {
            info.insert("groups".to_owned(), json!(self.groups));
        }
        if !self.extra.is_empty() {
            info.insert("extra".to_owned(), json!(self.extra));
        }
        Value::Object(info)
    }
}

/// The bearer token of a request; other credentials are none.
#[must_use]
pub fn token(headers: &HeaderMap) -> Option<&str> {
    let header = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = header.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}
