//! Impersonation: an administrator acts as somebody else, by the headers `Impersonate-*` (API-31).

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::attributes::{self, Attributes};
use super::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User};
use crate::field::go_quote;
use crate::status::ApiError;

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";

/// Whether a request has any of the headers.
#[must_use]
pub fn is_asked_for(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with("impersonate-"))
}

/// Who is to be taken for the caller; `None` for the caller.
///
/// # Errors
/// 400 for groups, a uid or extras without a name; 403 for a caller who may not.
pub fn user(caller: &User, headers: &HeaderMap, attributes: &Attributes<'_>) -> Result<Option<User>, ApiError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let all = |name| headers.get_all(name).iter().filter_map(|value| value.to_str().ok().map(str::to_owned));
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            extra.insert(percent_decode_str(key).decode_utf8_lossy().into_owned(), all(name.as_str()).collect());
        }
    }
    let mut wanted = User { name: text(USER), uid: text(UID), groups: all(GROUP).collect(), extra };
    if wanted.name.is_empty() {
        if wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty() {
            return Ok(None);
        }
        let why = format!("requested {} without impersonating a user name", go_syntax(&wanted));
        return Err(ApiError::bad_request(why));
    }
    let account = wanted.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    if !caller.may_do_anything() {
        let mode = match account {
            Some(_) => "serviceaccount",
            None if wanted.name.starts_with("system:node:") => "arbitrary-node",
            None => "user-info",
        };
        return Err(attributes::forbidden(&caller.name, &format!("impersonate-on:{mode}:"), attributes));
    }
    if let Some((namespace, _)) = account.filter(|_| wanted.groups.is_empty()) {
        let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        wanted.groups.extend(groups);
    }
    if !wanted.is_in(AUTHENTICATED) && !wanted.is_in(UNAUTHENTICATED) {
        let group = if wanted.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        wanted.groups.push(group.to_owned());
    }
    Ok(Some(wanted))
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
