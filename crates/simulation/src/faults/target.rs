//! The verb and the object of a request, from its method and path.

use http::{Method, Uri};
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
        let watched = watched(uri.path());
        let path = watched.as_deref().unwrap_or(uri.path());
        let [resource, name, subresource] = place(path).map(ToOwned::to_owned);
        let namespace = namespace(path).to_owned();
        let verb = match *method {
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE => Verb::Delete,
            _ if is_watch(uri) => Verb::Watch,
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

/// Whether a GET is a watch, as API servers understand it: by the parameter, of any value that is not false, or by the old paths
/// of watches.
#[must_use]
pub fn is_watch(uri: &Uri) -> bool {
    let says = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        name == "watch" && value != "0" && !value.eq_ignore_ascii_case("false")
    };
    watched(uri.path()).is_some() || uri.query().is_some_and(|query| query.split('&').any(says))
}

/// What is watched by an old path of a watch, such as `/api/v1/watch/pods`.
fn watched(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let at = if parts.first() == Some(&"api") { 2 } else { 3 };
    (parts.get(at) == Some(&"watch")).then(|| format!("/{}/{}", parts[..at].join("/"), parts[at + 1..].join("/")))
}

/// A parameter of the query, without decoding.
pub(super) fn parameter<'u>(uri: &'u Uri, name: &str) -> Option<&'u str> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(key, value)| *key == name && !value.is_empty()).map(|(_, value)| value).next()
}

/// The namespace of a namespaced resource; empty for others.
fn namespace(path: &str) -> &str {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let at = match parts.next() {
        Some("api") => 1,
        Some("apis") => 2,
        _ => return "",
    };
    match (parts.nth(at), parts.next(), parts.next()) {
        (Some("namespaces"), Some(namespace), Some(resource)) if !matches!(resource, "status" | "finalize") => {
            namespace
        }
        _ => "",
    }
}

/// The resource, the name and the subresource, each empty if there is none. After `/api/v1/` or
/// `/apis/<group>/<version>/` comes `namespaces/<namespace>/<resource>...` for a namespaced resource, and
/// `<resource>...` for others.
pub(crate) fn place(path: &str) -> [&str; 3] {
    let path = path.split('?').next().unwrap_or_default();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (["api", _, rest @ ..] | ["apis", _, _, rest @ ..]) = parts.as_slice() else { return [""; 3] };
    match rest {
        ["namespaces", name, part @ ("status" | "finalize")] => ["namespaces", name, part],
        ["namespaces", name] => ["namespaces", name, ""],
        ["namespaces", _, resource, rest @ ..] | [resource, rest @ ..] => {
            [resource, rest.first().copied().unwrap_or_default(), rest.get(1).copied().unwrap_or_default()]
        }
        [] => [""; 3],
    }
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
