//! What a request asks for, in the words of authorization, and how the reference says that it is forbidden.

use std::borrow::Cow;

use super::User;
use crate::field::go_quote;
use crate::status::{ApiError, GroupResource};

/// What a request asks for, in the words of authorization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attributes<'a> {
    /// Something that is no resource.
    Path {
        /// The method in lower case.
        verb: Cow<'a, str>,
        /// The whole path.
        path: &'a str,
    },
    /// A resource, or an object of it.
    Resource(ResourceAttributes<'a>),
}

/// A resource, or an object of it; what is not said is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceAttributes<'a> {
    /// `list`, `watch`, `create` and so on.
    pub verb: Cow<'a, str>,
    /// The API group.
    pub group: &'a str,
    /// The plural name.
    pub resource: &'a str,
    /// The subresource.
    pub subresource: &'a str,
    /// The namespace.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
}

impl<'a> Attributes<'a> {
    /// The verb.
    #[must_use]
    pub fn verb(&self) -> &str {
        match self {
            Self::Path { verb, .. } | Self::Resource(ResourceAttributes { verb, .. }) => verb,
        }
    }

    /// The namespace; empty where there is none.
    #[must_use]
    pub fn namespace(&self) -> &'a str {
        match self {
            Self::Path { .. } => "",
            Self::Resource(ResourceAttributes { namespace, .. }) => namespace,
        }
    }

    /// The same with another verb.
    #[must_use]
    pub fn with_verb(&self, verb: String) -> Self {
        match self.clone() {
            Self::Path { path, .. } => Self::Path { verb: verb.into(), path },
            Self::Resource(asked) => Self::Resource(ResourceAttributes { verb: verb.into(), ..asked }),
        }
    }

    /// Whether the request lasts for as long as its client wants.
    #[must_use]
    pub fn lasts(&self) -> bool {
        match self {
            Self::Path { .. } => false,
            Self::Resource(ResourceAttributes { verb, subresource, .. }) => {
                verb == "watch" || matches!(*subresource, "attach" | "exec" | "log" | "portforward" | "proxy")
            }
        }
    }
}

/// 403, in the reference's words; `reason` is the authorizer's, or empty.
#[must_use]
pub fn forbidden(user: &User, attributes: &Attributes<'_>, reason: &str) -> ApiError {
    let user = go_quote(&user.name);
    let say = |what: String| {
        let what = what.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        if reason.is_empty() { what } else { format!("{what}: {reason}") }
    };
    match attributes {
        Attributes::Path { verb, path } => {
            ApiError::forbidden_path(&say(format!("User {user} cannot {verb} path {}", go_quote(path))))
        }
        Attributes::Resource(ResourceAttributes { verb, group, resource, subresource, namespace, name }) => {
            let whole =
                if subresource.is_empty() { (*resource).to_owned() } else { format!("{resource}/{subresource}") };
            let place = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {}", go_quote(namespace))
            };
            let (whole, quoted) = (go_quote(&whole), go_quote(group));
            let why = say(format!("User {user} cannot {verb} resource {whole} in API group {quoted} {place}"));
            ApiError::forbidden(GroupResource { group, resource }, name, &why)
        }
    }
}
