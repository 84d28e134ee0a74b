//! Impersonation: somebody acts as somebody else, by the headers `Impersonate-*` (API-31).
//!
//! There are several ways to be allowed that, tried from the narrowest to the widest (`Mode`). All but the oldest ask
//! for two rights: to do the request's verb as somebody else, and to be that user.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::attributes::{Attributes, ResourceAttributes, forbidden};
use super::authorizer::Authorizer;
use super::{ANONYMOUS, AUTHENTICATED, MASTERS, NODE_NAME, NODES, UNAUTHENTICATED, User, service_account};
use crate::field::path::Path;
use crate::field::{aggregate, go_quote};
use crate::status::ApiError;
use crate::validation::domain::validate_prefixed_path;
use crate::validation::name::is_dns1123_subdomain;

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";

const AUTHENTICATION: &str = "authentication.k8s.io";

/// So many groups, or extras, are first asked for at once.
const MANY: usize = 4;
/// For so many callers it is remembered how they were allowed last.
const REMEMBERED: usize = 10_000;

/// A way to be allowed to act as somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A service account acts as the node that its pod is on.
    AssociatedNode,
    /// As any node.
    ArbitraryNode,
    /// As a service account.
    ServiceAccount,
    /// As anybody else.
    UserInfo,
    /// By the verb `impersonate`, for every request.
    Legacy,
}

const MODES: [Mode; 5] =
    [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

/// Judges who may act as whom.
#[derive(Debug, Default)]
pub struct Impersonation {
    /// How callers were allowed last: that is tried first, and gives the reason where nothing allows it.
    last: Mutex<HashMap<String, Mode>>,
}

/// Whether a request has any of the headers.
#[must_use]
pub fn is_asked_for(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with("impersonate-"))
}

impl Impersonation {
    /// Who is to be taken for the caller; `None` for the caller.
    ///
    /// # Errors
    /// 400 for groups, a uid or extras without a name; 403 for a caller who may not.
    pub fn user(
        &self,
        authorizer: &Authorizer,
        caller: &User,
        headers: &HeaderMap,
        attributes: &Attributes<'_>,
    ) -> Result<Option<User>, ApiError> {
        let Some(wanted) = wanted(headers)? else { return Ok(None) };
        let ask = Ask { authorizer, caller, wanted: &wanted, attributes };
        let last = self.last().get(&caller.name).copied();
        let mut refused = None;
        for mode in last.into_iter().chain(MODES.into_iter().filter(|mode| Some(*mode) != last)) {
            match mode.applies(caller, &wanted).then(|| ask.by(mode)) {
                None => {}
                Some(Ok(user)) => {
                    self.remember(caller, mode);
                    return Ok(Some(user));
                }
                Some(Err(error)) => refused = refused.or(Some(error)),
            }
        }
        // The oldest mode applies to all: there is a refusal.
        Err(refused.unwrap_or_else(|| forbidden(caller, attributes, "")))
    }

    fn remember(&self, caller: &User, mode: Mode) {
        let mut last = self.last();
        if last.len() >= REMEMBERED {
            last.clear();
        }
        if last.get(&caller.name) != Some(&mode) {
            last.insert(caller.name.clone(), mode);
        }
    }

    fn last(&self) -> std::sync::MutexGuard<'_, HashMap<String, Mode>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The user that the headers name, with nothing added.
fn wanted(headers: &HeaderMap) -> Result<Option<User>, ApiError> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let one = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let all = |name: &str| headers.get_all(name).iter().map(text).collect::<Vec<_>>();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            extra.entry(unescaped(key)).or_default().extend(all(name.as_str()));
        }
    }
    let wanted = User { name: one(USER), uid: one(UID), groups: all(GROUP), extra };
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if is_only_a_name(&wanted) {
        return Ok(None);
    }
    let why = format!("requested {} without impersonating a user name", go_syntax(&wanted));
    Err(ApiError::bad_request(why))
}

/// A key with its escapes read; as it is where one of them is none.
fn unescaped(key: &str) -> String {
    let bytes = key.as_bytes();
    let hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    let mut escapes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    if escapes.any(|(at, _)| !hex(at + 1) || !hex(at + 2)) {
        return key.to_owned();
    }
    percent_decode_str(key).decode_utf8_lossy().into_owned()
}

fn is_only_a_name(user: &User) -> bool {
    user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty()
}

/// The node that a user is.
fn node(name: &str) -> Option<&str> {
    name.strip_prefix("system:node:").filter(|node| is_dns1123_subdomain(node).is_empty())
}

impl Mode {
    fn applies(self, caller: &User, wanted: &User) -> bool {
        let (alone, node, account) = (is_only_a_name(wanted), node(&wanted.name), service_account(&wanted.name));
        match self {
            Self::AssociatedNode => {
                let own = caller.extra.get(NODE_NAME).map(Vec::as_slice);
                alone
                    && service_account(&caller.name).is_some()
                    && node.is_some_and(|node| matches!(own, Some([own]) if own == node))
            }
            Self::ArbitraryNode => alone && node.is_some(),
            Self::ServiceAccount => alone && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }
}

/// A request of somebody to be taken for somebody else.
#[derive(Clone, Copy)]
struct Ask<'a> {
    authorizer: &'a Authorizer,
    caller: &'a User,
    wanted: &'a User,
    attributes: &'a Attributes<'a>,
}

impl Ask<'_> {
    fn by(self, mode: Mode) -> Result<User, ApiError> {
        let constrained = mode != Mode::Legacy;
        if constrained {
            let verb = format!("impersonate-on:{}:{}", mode.name(), self.attributes.verb());
            self.check(&self.attributes.with_verb(verb))?;
        }
        let verb = if constrained { format!("impersonate:{}", mode.name()) } else { "impersonate".to_owned() };
        let (wanted, group) = (self.wanted, if constrained { AUTHENTICATION } else { "" });
        let base = ResourceAttributes { verb: verb.into(), group, ..ResourceAttributes::default() };
        let mut user = wanted.clone();

        let mut who = ResourceAttributes { resource: "users", name: &wanted.name, ..base.clone() };
        if let Some(node) = node(&wanted.name).filter(|_| constrained) {
            // That of all nodes is asked for where it is the caller's own.
            let name = if mode == Mode::AssociatedNode { "*" } else { node };
            who = ResourceAttributes { resource: "nodes", name, ..base.clone() };
            user.groups = vec![NODES.to_owned()];
        }
        if let Some((namespace, name)) = service_account(&wanted.name) {
            who = ResourceAttributes { resource: "serviceaccounts", namespace, name, ..base.clone() };
            if wanted.groups.is_empty() {
                user.groups = User::groups_of_service_account(namespace);
            }
        }
        self.check_resource(who)?;
        let base_of_rest = ResourceAttributes { group: AUTHENTICATION, ..base.clone() };
        if !wanted.uid.is_empty() {
            self.check_resource(ResourceAttributes { resource: "uids", name: &wanted.uid, ..base_of_rest.clone() })?;
        }
        self.check_groups(ResourceAttributes { resource: "groups", ..base }, constrained)?;
        self.check_extra(ResourceAttributes { resource: "userextras", ..base_of_rest }, constrained)?;

        let also = if user.name == ANONYMOUS {
            Some(UNAUTHENTICATED)
        } else {
            (!user.is_in(UNAUTHENTICATED)).then_some(AUTHENTICATED)
        };
        if let Some(also) = also.filter(|also| !user.is_in(also)) {
            user.groups.push(also.to_owned());
        }
        Ok(user)
    }

    fn check_groups<'g>(&'g self, asked: ResourceAttributes<'g>, constrained: bool) -> Result<(), ApiError> {
        let groups = &self.wanted.groups;
        if constrained {
            if groups.iter().any(String::is_empty) {
                return Err(self.refused(asked, "impersonating the empty string group is not allowed"));
            }
            if self.wanted.is_in(MASTERS) {
                let asked = ResourceAttributes { name: MASTERS, ..asked };
                return Err(self.refused(asked, "impersonating the system:masters group is not allowed"));
            }
            if groups.len() >= MANY && self.check_resource(ResourceAttributes { name: "*", ..asked.clone() }).is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|name| self.check_resource(ResourceAttributes { name, ..asked.clone() }))
    }

    fn check_extra<'e>(&'e self, asked: ResourceAttributes<'e>, constrained: bool) -> Result<(), ApiError> {
        let extra = &self.wanted.extra;
        if constrained && !extra.is_empty() {
            if let Some(why) = extra.iter().find_map(|(key, values)| wrong_extra(key, values)) {
                return Err(self.refused(asked, &why));
            }
            let all = ResourceAttributes { subresource: "*", name: "*", ..asked.clone() };
            let many = extra.len() >= MANY || extra.values().map(Vec::len).sum::<usize>() >= MANY;
            if many && self.check_resource(all).is_ok() {
                return Ok(());
            }
        }
        extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value))).try_for_each(
            |(subresource, name)| self.check_resource(ResourceAttributes { subresource, name, ..asked.clone() }),
        )
    }

    fn check_resource(&self, asked: ResourceAttributes<'_>) -> Result<(), ApiError> {
        self.check(&Attributes::Resource(asked))
    }

    fn check(&self, asked: &Attributes<'_>) -> Result<(), ApiError> {
        let decision = self.authorizer.decide(self.caller, asked);
        if decision.allowed { Ok(()) } else { Err(forbidden(self.caller, asked, &decision.reason)) }
    }

    fn refused(&self, asked: ResourceAttributes<'_>, why: &str) -> ApiError {
        forbidden(self.caller, &Attributes::Resource(asked), why)
    }
}

/// What is wrong with an extra that only newer modes look at.
fn wrong_extra(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let mut errors = Vec::new();
    validate_prefixed_path(key, &Path::new("extra").child("key"), &mut errors);
    if !errors.is_empty() {
        return Some(format!("impersonating an invalid key in extra is not allowed: {}", aggregate(&errors)));
    }
    if key != key.to_lowercase() {
        return Some(format!("impersonating a non-lowercase key in extra is not allowed: {}", go_quote(key)));
    }
    if values.is_empty() {
        return Some("impersonating empty values in extra is not allowed".to_owned());
    }
    let empty = values.iter().any(String::is_empty);
    empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}

/// A user as Go prints one with `%#v`.
fn go_syntax(user: &User) -> String {
    let list = |items: &[String]| {
        let items: Vec<String> = items.iter().map(|item| go_quote(item)).collect();
        format!("[]string{{{}}}", items.join(", "))
    };
    let groups = if user.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&user.groups) };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let pairs: Vec<String> =
            user.extra.iter().map(|(key, values)| format!("{}:{}", go_quote(key), list(values))).collect();
        format!("map[string][]string{{{}}}", pairs.join(", "))
    };
    let (name, uid) = (go_quote(&user.name), go_quote(&user.uid));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}
