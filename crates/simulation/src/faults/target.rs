//! The verb and the object of a request, from its method and path.

use http::{Method, Uri};
use muster_apiserver::http::path::{self, ResourcePath};
use muster_apiserver::registry::options::Query;
use muster_objects::protobuf::{Envelope, Fields, Malformed};
use serde::{Deserialize, Serialize};

/// The verb of a request, as in role-based access control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// GET of one object.
    Get,
    /// GET of a collection.
    List,
    /// GET of a collection's changes.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
}

impl Verb {
    /// As in role-based access control.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

/// A request, as rules match it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name of its user; empty where that is not known.
    pub user: String,
    /// Its verb.
    pub verb: Verb,
    /// The resource, such as `pods`; empty if the path has none.
    pub resource: String,
    /// The object's namespace; empty if the path has none.
    pub namespace: String,
    /// The object's name, or the `generateName` of one that is created with it; empty for a collection.
    pub name: String,
    /// The subresource, such as `status`; empty for the object itself.
    pub subresource: String,
    /// Whether it names a resourceVersion to go on from.
    pub resumes: bool,
}

impl Target {
    /// The resource with its subresource, such as `pods/status`.
    #[must_use]
    pub fn path(&self) -> String {
        let Self { resource, subresource, .. } = self;
        if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") }
    }

    /// Parses a request's method and URI.
    #[must_use]
    pub fn of(method: &Method, uri: &Uri) -> Self {
        let path = below(uri.path());
        let [resource, name, subresource] = parts(path).map(ToOwned::to_owned);
        let namespace = path.and_then(|path| path.namespace).unwrap_or_default().to_owned();
        let verb = match *method {
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE => Verb::Delete,
            _ if is_watch_of(path, uri) => Verb::Watch,
            _ if name.is_empty() => Verb::List,
            _ => Verb::Get,
        };
        let resumes = parameter(uri, "resourceVersion").is_some();
        Self { user: String::new(), verb, resource, namespace, name, subresource, resumes }
    }

    /// The same with the name that what is created has in its body, JSON or protobuf.
    #[must_use]
    pub(super) fn with_name_of(self, body: &[u8]) -> Self {
        if self.verb != Verb::Create || !self.name.is_empty() {
            return self;
        }
        let Names { name, generate_name } = match Envelope::decode(body) {
            Ok(envelope) => in_protobuf(envelope.message).unwrap_or_default(),
            Err(_) => serde_json::from_slice::<Named>(body).unwrap_or_default().metadata,
        };
        Self { name: name.or(generate_name).unwrap_or_default(), ..self }
    }
}

/// The names of an object: those in its first field.
fn in_protobuf(object: &[u8]) -> Result<Names, Malformed> {
    let mut names = Names::default();
    for field in Fields::of(object) {
        let field = field?;
        if field.number != 1 {
            continue;
        }
        for field in Fields::of(field.bytes()?) {
            let field = field?;
            let name = match field.number {
                1 => &mut names.name,
                2 => &mut names.generate_name,
                _ => continue,
            };
            *name = Some(field.text()?.to_owned()).filter(|name| !name.is_empty());
        }
    }
    Ok(names)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    metadata: Names,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Names {
    name: Option<String>,
    generate_name: Option<String>,
}

/// Whether a GET is a watch, as the server understands it.
#[must_use]
pub fn is_watch(uri: &Uri) -> bool {
    is_watch_of(below(uri.path()), uri)
}

fn is_watch_of(path: Option<ResourcePath<'_>>, uri: &Uri) -> bool {
    path.is_some_and(|path| path.watch)
        || uri.query().is_some_and(|query| Query::parse(query).flag("watch") == Some(true))
}

/// A parameter of the query, without decoding.
pub(super) fn parameter<'u>(uri: &'u Uri, name: &str) -> Option<&'u str> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(key, value)| *key == name && !value.is_empty()).map(|(_, value)| value).next()
}

/// A path below a group and version.
fn below(path: &str) -> Option<ResourcePath<'_>> {
    match path::parse(path) {
        path::Target::Resource(_, _, path) => Some(path),
        _ => None,
    }
}

/// The resource, the name and the subresource, each empty if there is none.
pub(crate) fn place(path: &str) -> [&str; 3] {
    parts(below(path.split('?').next().unwrap_or_default()))
}

fn parts(path: Option<ResourcePath<'_>>) -> [&str; 3] {
    path.map_or([""; 3], |path| [path.resource, path.name.unwrap_or_default(), path.subresource.unwrap_or_default()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_classified_by_its_method_and_path() {
        let target = |method: Method, uri: &str| {
            let target = Target::of(&method, &uri.parse().unwrap());
            let Target { user: _, verb, resource, namespace, name, subresource, resumes: _ } = target;
            let (_, after) = uri.split_once("/namespaces/").unwrap_or_default();
            let within = after.split_once('/').filter(|(_, resource)| *resource != "finalize");
            assert_eq!(namespace, within.map_or("", |(namespace, _)| namespace), "{uri}");
            (verb, resource, name, subresource)
        };
        for (method, uri, verb, place) in [
            (Method::GET, "/api/v1/pods?watch=true&resourceVersion=4", Verb::Watch, ["pods", "", ""]),
            (Method::GET, "/api/v1/pods?resourceVersion=4&watch=True", Verb::Watch, ["pods", "", ""]),
            (Method::GET, "/api/v1/pods?watch", Verb::Watch, ["pods", "", ""]),
            (Method::GET, "/api/v1/pods?watch=False", Verb::List, ["pods", "", ""]),
            (Method::GET, "/api/v1/pods?watch=0", Verb::List, ["pods", "", ""]),
            (Method::GET, "/api/v1/watch/namespaces/n/pods", Verb::Watch, ["pods", "", ""]),
            (Method::GET, "/apis/apps/v1/watch/deployments", Verb::Watch, ["deployments", "", ""]),
            (Method::GET, "/api/v1/namespaces/watch/pods", Verb::List, ["pods", "", ""]),
            (Method::GET, "/api/v1/pods?limit=500", Verb::List, ["pods", "", ""]),
            (Method::GET, "/api/v1/namespaces/default/pods/a", Verb::Get, ["pods", "a", ""]),
            (Method::POST, "/api/v1/namespaces/default/pods", Verb::Create, ["pods", "", ""]),
            (Method::PUT, "/apis/apps/v1/namespaces/n/deployments/d", Verb::Update, ["deployments", "d", ""]),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/n/replicasets/a/status",
                Verb::Patch,
                ["replicasets", "a", "status"],
            ),
            (Method::DELETE, "/api/v1/namespaces/default", Verb::Delete, ["namespaces", "default", ""]),
            (Method::PUT, "/api/v1/namespaces/default/finalize", Verb::Update, ["namespaces", "default", "finalize"]),
            (Method::GET, "/healthz", Verb::List, ["", "", ""]),
        ] {
            let [resource, name, subresource] = place.map(ToOwned::to_owned);
            assert_eq!(target(method, uri), (verb, resource, name, subresource), "{uri}");
        }
    }

    #[test]
    fn what_is_created_is_called_as_its_body_says() {
        let uri = "/api/v1/namespaces/default/pods".parse().unwrap();
        let name = |method: &Method, body: &[u8]| Target::of(method, &uri).with_name_of(body).name;
        // A ConfigMap {metadata: {name: "b"}}, as clients of Go send it.
        let protobuf = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x05\x0a\x03\x0a\x01b";
        for (body, expected) in [
            (&br#"{"metadata":{"name":"web"}}"#[..], "web"),
            (br#"{"metadata":{"generateName":"web-"},"spec":{}}"#, "web-"),
            (br#"{"spec":{}}"#, ""),
            (b"no JSON", ""),
            (protobuf, "b"),
            (&protobuf[..20], ""),
        ] {
            assert_eq!(name(&Method::POST, body), expected, "{}", body.escape_ascii());
            assert_eq!(name(&Method::PATCH, body), "");
        }
    }
}
