//! What a request asks for, in the words of authorization, and how the reference says that it is forbidden.

use http::Method;

use crate::field::go_quote;
use crate::registry::options::Query;
use crate::status::{ApiError, GroupResource};

/// What a request asks for, in the words of authorization.
#[derive(Debug, PartialEq, Eq)]
pub enum Attributes<'a> {
    /// Something that is no resource.
    Path {
        /// The method in lower case.
        verb: String,
        /// The whole path.
        path: &'a str,
    },
    /// A resource, or an object of it; what is not said is empty.
    Resource {
        /// `list`, `watch`, `create` and so on.
        verb: &'a str,
        /// The API group.
        group: &'a str,
        /// The plural name.
        resource: &'a str,
        /// The subresource.
        subresource: &'a str,
        /// The namespace.
        namespace: &'a str,
        /// The object's name.
        name: &'a str,
    },
}

impl<'a> Attributes<'a> {
    /// As the reference reads a request, whether there is such a resource or not.
    #[must_use]
    pub fn of(method: &Method, path: &'a str, query: &'a Query) -> Self {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _, rest @ ..] if !rest.is_empty() => ("", rest),
            ["apis", group, _, rest @ ..] if !rest.is_empty() => (*group, rest),
            _ => return Self::Path { verb: method.as_str().to_lowercase(), path },
        };
        let (mut verb, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => ("watch", rest),
            _ => (of_method(method), rest),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, part, ..] if !matches!(*part, "status" | "finalize") => (*namespace, &rest[2..]),
            ["namespaces", namespace, ..] => (*namespace, rest),
            _ => ("", rest),
        };
        let at = |index: usize| rest.get(index).copied().unwrap_or_default();
        let (resource, mut name, subresource) = (at(0), at(1), at(2));
        if name.is_empty() && verb == "get" {
            verb = if query.flag("watch") == Some(true) { "watch" } else { "list" };
            // A list of one object by its name can be granted as one.
            let mut terms = query.get("fieldSelector").unwrap_or_default().split(',');
            let named = terms.find_map(|term| term.strip_prefix("metadata.name="));
            name = named.map(|name| name.trim_start_matches('=')).unwrap_or_default();
        } else if name.is_empty() && verb == "delete" {
            verb = "deletecollection";
        }
        Self::Resource { verb, group, resource, subresource, namespace, name }
    }

    /// Whether the request lasts for as long as its client wants.
    #[must_use]
    pub fn lasts(&self) -> bool {
        matches!(
            self,
            Self::Resource { verb: "watch", .. }
                | Self::Resource { subresource: "attach" | "exec" | "log" | "portforward" | "proxy", .. }
        )
    }
}

fn of_method(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// 403, in the reference's words; `mode` stands before the verb.
#[must_use]
pub fn forbidden(user: &str, mode: &str, attributes: &Attributes<'_>) -> ApiError {
    let user = go_quote(user);
    match attributes {
        Attributes::Path { verb, path } => {
            ApiError::forbidden_path(&format!("User {user} cannot {mode}{verb} path {}", go_quote(path)))
        }
        Attributes::Resource { verb, group, resource, subresource, namespace, name } => {
            let whole =
                if subresource.is_empty() { (*resource).to_owned() } else { format!("{resource}/{subresource}") };
            let place = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {}", go_quote(namespace))
            };
            let (whole, quoted) = (go_quote(&whole), go_quote(group));
            let why = format!("User {user} cannot {mode}{verb} resource {whole} in API group {quoted} {place}");
            ApiError::forbidden(GroupResource { group, resource }, name, &why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers of a kube-apiserver 1.36.2 with RBAC.
    ///
    /// Contract: API-01
    #[test]
    fn what_is_forbidden_is_said_as_by_the_reference() {
        let table = [
            ("GET", "/livez/ping", r#"forbidden: User "system:anonymous" cannot get path "/livez/ping""#),
            ("POST", "/healthz", r#"forbidden: User "system:anonymous" cannot post path "/healthz""#),
            ("GET", "/apis/apps/v1", r#"forbidden: User "system:anonymous" cannot get path "/apis/apps/v1""#),
            (
                "GET",
                "/api/v1/pods",
                r#"pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" at the cluster scope"#,
            ),
            (
                "GET",
                "/api/v1/namespaces/default/pods?watch=1",
                r#"pods is forbidden: User "system:anonymous" cannot watch resource "pods" in API group "" in the namespace "default""#,
            ),
            (
                "GET",
                "/api/v1/watch/namespaces/default/pods",
                r#"pods is forbidden: User "system:anonymous" cannot watch resource "pods" in API group "" in the namespace "default""#,
            ),
            (
                "GET",
                "/api/v1/namespaces/default/pods/a/log",
                r#"pods "a" is forbidden: User "system:anonymous" cannot get resource "pods/log" in API group "" in the namespace "default""#,
            ),
            (
                "GET",
                "/api/v1/namespaces/x/status",
                r#"namespaces "x" is forbidden: User "system:anonymous" cannot get resource "namespaces/status" in API group "" in the namespace "x""#,
            ),
            (
                "DELETE",
                "/apis/apps/v1/namespaces/default/deployments",
                r#"deployments.apps is forbidden: User "system:anonymous" cannot deletecollection resource "deployments" in API group "apps" in the namespace "default""#,
            ),
            (
                "PUT",
                "/apis/apps/v1/namespaces/default/deployments/a/scale",
                r#"deployments.apps "a" is forbidden: User "system:anonymous" cannot update resource "deployments/scale" in API group "apps" in the namespace "default""#,
            ),
            (
                "GET",
                "/apis/nope/v1/things",
                r#"things.nope is forbidden: User "system:anonymous" cannot list resource "things" in API group "nope" at the cluster scope"#,
            ),
            (
                "GET",
                "/api/v1/pods?fieldSelector=metadata.name%3Dx",
                r#"pods "x" is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" at the cluster scope"#,
            ),
            (
                "GET",
                "/api/v1/namespaces/default/pods/a/b/c/d",
                r#"pods "a" is forbidden: User "system:anonymous" cannot get resource "pods/b" in API group "" in the namespace "default""#,
            ),
        ];
        for (method, address, message) in table {
            let (path, query) = address.split_once('?').unwrap_or((address, ""));
            let query = Query::parse(query);
            let error = forbidden("system:anonymous", "", &Attributes::of(&method.parse().unwrap(), path, &query));
            assert_eq!((error.code, &*error.message), (403, message), "{method} {address}");
        }
    }
}
