//! What a request asks for, in the words of authorization.

use http::Method;

use super::path::{ResourcePath, Target};
use crate::access::attributes::{Attributes, ResourceAttributes};
use crate::registry::options::Query;
use crate::registry::selection;
use crate::validation::name::is_path_segment;

/// As the reference reads a request, whether there is such a resource or not. `path` is the whole path, and `target` what
/// it is about.
#[must_use]
pub fn of<'a>(method: &Method, path: &'a str, target: &Target<'a>, query: &'a Query) -> Attributes<'a> {
    match target {
        Target::Resource(group, _, path) => Attributes::Resource(of_resource(method, group, path, query)),
        _ => Attributes::Path { verb: method.as_str().to_lowercase().into(), path },
    }
}

fn of_resource<'a>(
    method: &Method,
    group: &'a str,
    path: &ResourcePath<'a>,
    query: &'a Query,
) -> ResourceAttributes<'a> {
    let mut verb = match path {
        ResourcePath { watch: true, .. } => "watch",
        ResourcePath { proxy: true, .. } => "proxy",
        _ => of_method(method),
    };
    let mut name = path.name.unwrap_or_default();
    // A namespace is in itself.
    let namespace = path.namespace.or(path.name.filter(|_| path.resource == "namespaces")).unwrap_or_default();
    if name.is_empty() && verb == "get" {
        verb = if query.flag("watch") == Some(true) { "watch" } else { "list" };
        // A list of one object by its name can be granted as one.
        let named = query.get("fieldSelector").and_then(selection::name_in);
        name = named.filter(|name| is_path_segment(name, false).is_empty()).unwrap_or_default();
    } else if name.is_empty() && verb == "delete" {
        verb = "deletecollection";
    }
    let (resource, subresource) = (path.resource, path.subresource.unwrap_or_default());
    ResourceAttributes { verb: verb.into(), group, resource, subresource, namespace, name }
}

/// The verb of a method that is about one object; empty where there is none.
pub(super) fn of_method(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::User;
    use crate::access::attributes::forbidden;
    use crate::http::path;

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
            let attributes = of(&method.parse().unwrap(), path, &path::parse(path), &query);
            let error = forbidden(&User::anonymous(), &attributes, "");
            assert_eq!((error.code, &*error.message), (403, message), "{method} {address}");
        }
    }
}
