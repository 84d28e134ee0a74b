//! Authentication: from the credential of a request to a user (API-01, API-32).
//!
//! A client certificate is looked at first, then a bearer token, in its header or in a subprotocol of a WebSocket: the
//! server's own, one of the token file, or one of a service account. A wrong credential is 401, unless another one of
//! the same request is right. Whoever has none is `system:anonymous`.

pub mod subprotocol;
pub mod token_file;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use muster_objects::time::Timestamp;

use self::subprotocol::Unreadable;
use super::rbac::aggregate;
use super::tokens::{Issuer, Objects, Recognised};
use super::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User};
use crate::status::ApiError;

/// What is said of a token that belongs to nobody.
const INVALID: &str = "invalid bearer token";
/// The warning to whoever has two blanks before the token.
const BLANKS: &str = "the provided Authorization header contains extra space before the bearer token, and is ignored";

/// Who holds the client certificate of a connection, as far as it could be verified.
#[derive(Debug, Clone)]
pub enum Holder {
    /// A certificate by the cluster's authority, until it expires.
    Known {
        /// Who.
        user: Arc<User>,
        /// When the certificate expires.
        until: Timestamp,
    },
    /// A certificate by the cluster's authority that names nobody.
    Nobody,
    /// Any other certificate.
    Refused,
}

/// Which requests without a credential are handled, as those of nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Anonymous {
    /// None.
    Refused,
    /// All.
    Allowed,
    /// Those of these paths.
    AtPaths(BTreeSet<String>),
}

/// Recognises users by their credentials.
#[derive(Debug)]
pub struct Authenticator {
    /// The bearer token that grants everything.
    token: String,
    /// Whose it is.
    administrator: Arc<User>,
    /// The users of the token file, by their tokens.
    file: HashMap<String, Arc<User>>,
    /// Tokens of service accounts.
    pub issuer: Issuer,
    /// Which requests need no credential.
    anonymous: Anonymous,
}

impl Authenticator {
    /// An authenticator that knows these tokens.
    #[must_use]
    pub fn new(token: String, file: HashMap<String, Arc<User>>, issuer: Issuer, anonymous: Anonymous) -> Self {
        Self { token, administrator: Arc::new(User::administrator()), file, issuer, anonymous }
    }

    /// The bearer token that grants everything.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Whose token that is.
    #[must_use]
    pub fn administrator(&self) -> Arc<User> {
        Arc::clone(&self.administrator)
    }

    /// Whether who shows no credential is let in everywhere, as nobody.
    #[must_use]
    pub fn allows_anonymous(&self) -> bool {
        self.anonymous == Anonymous::Allowed
    }

    /// Who sent a request to a path.
    ///
    /// # Errors
    /// 401.
    pub fn user(
        &self,
        path: &str,
        headers: &HeaderMap,
        holder: Option<&Holder>,
        objects: &impl Objects,
        now: Timestamp,
    ) -> Result<Arc<User>, ApiError> {
        let mut refused = false;
        match holder {
            Some(Holder::Known { user, until }) if now <= *until => return Ok(Arc::clone(user)),
            Some(Holder::Known { .. } | Holder::Refused) => refused = true,
            Some(Holder::Nobody) | None => {}
        }
        for given in [token(headers).map(Cow::Borrowed).map(Ok), subprotocol::token(headers)].into_iter().flatten() {
            let recognise = |token: Cow<'_, str>| self.recognise(&token, self.issuer.audiences(), objects, now);
            match given.map(recognise) {
                Ok(Ok(recognised)) => return Ok(recognised.user),
                Ok(Err(_)) | Err(Unreadable) => refused = true,
            }
        }
        match &self.anonymous {
            _ if refused => Err(ApiError::unauthorized()),
            Anonymous::Refused => Err(ApiError::unauthorized()),
            Anonymous::AtPaths(paths) if !paths.contains(path) => Err(ApiError::unauthorized()),
            Anonymous::Allowed | Anonymous::AtPaths(_) => Ok(Arc::new(User::anonymous())),
        }
    }

    /// Whose token it is, for one of some audiences.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn recognise(
        &self,
        token: &str,
        audiences: &[String],
        objects: &impl Objects,
        now: Timestamp,
    ) -> Result<Recognised, String> {
        if is_same(token, &self.token) || self.file.contains_key(token) {
            let user = if is_same(token, &self.token) { &self.administrator } else { &self.file[token] };
            // Such a token is for the server only.
            let own = self.issuer.audiences();
            let audiences: Vec<String> = audiences.iter().filter(|audience| own.contains(audience)).cloned().collect();
            if audiences.is_empty() {
                return Err(INVALID.to_owned());
            }
            return Ok(Recognised { user: Arc::clone(user), audiences });
        }
        match self.issuer.recognise(token, audiences, objects, now) {
            None => Err(INVALID.to_owned()),
            Some(Err(why)) => Err(aggregate(&[INVALID.to_owned(), why])),
            Some(Ok(recognised)) => {
                let user = with_group(User::clone(&recognised.user));
                Ok(Recognised { user: Arc::new(user), ..recognised })
            }
        }
    }
}

/// A user in the group of everybody who has a name, unless that is said already.
#[must_use]
pub fn with_group(mut user: User) -> User {
    if user.name != ANONYMOUS && !user.is_in(AUTHENTICATED) && !user.is_in(UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

/// The bearer token of a request; other credentials are none.
#[must_use]
pub fn token(headers: &HeaderMap) -> Option<&str> {
    bearer(headers).map(|mut parts| parts.next().unwrap_or_default()).filter(|token| !token.is_empty())
}

/// What the answer is to warn of.
#[must_use]
pub fn warning(headers: &HeaderMap) -> Option<&'static str> {
    let mut parts = bearer(headers)?;
    (parts.next() == Some("") && parts.next().is_some()).then_some(BLANKS)
}

/// What follows the word `Bearer`: at most two parts.
fn bearer(headers: &HeaderMap) -> Option<impl Iterator<Item = &str>> {
    let header = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let mut parts = header.splitn(3, ' ');
    parts.next()?.eq_ignore_ascii_case("bearer").then_some(parts)
}

/// Whether two tokens are the same. Takes as long for a wrong one as for a nearly right one.
fn is_same(given: &str, token: &str) -> bool {
    let (given, token) = (given.as_bytes(), token.as_bytes());
    given.len() == token.len() && given.iter().zip(token).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}
