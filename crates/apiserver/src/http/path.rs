//! Paths: what a URL is about.

/// A path below a group and version, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourcePath<'a> {
    /// The namespace, where the path names one.
    pub namespace: Option<&'a str>,
    /// The resource's plural name.
    pub resource: &'a str,
    /// The object's name.
    pub name: Option<&'a str>,
    /// The subresource.
    pub subresource: Option<&'a str>,
    /// What follows on the subresource `proxy` and its slash: the path that is asked for there.
    pub proxied: Option<&'a str>,
    /// The old form of a watch, `/watch/...`.
    pub watch: bool,
    /// The old form of a proxy, `/proxy/...`.
    pub proxy: bool,
    /// Whether no resource has such a path: it goes on below the subresource, or a part of it is empty.
    pub beyond: bool,
}

/// What a path is about.
#[derive(Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/<group>`
    Group(&'a str),
    /// `/api/v1` or `/apis/<group>/<version>`
    Version(&'a str, &'a str),
    /// Something below a group and version.
    Resource(&'a str, &'a str, ResourcePath<'a>),
    /// Anything else, by its parts.
    Other(Vec<&'a str>),
}

/// Takes a decoded path apart.
#[must_use]
pub fn parse(path: &str) -> Target<'_> {
    let trimmed = path.trim_matches('/');
    let parts: Vec<&str> = if trimmed.is_empty() { Vec::new() } else { trimmed.split('/').collect() };
    let (group, version, rest) = match parts.as_slice() {
        ["api"] => return Target::CoreVersions,
        ["apis"] => return Target::Groups,
        ["apis", group] => return Target::Group(group),
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return Target::Other(parts),
    };
    if rest.is_empty() {
        return Target::Version(group, version);
    }
    let found = resource(rest);
    if group.is_empty() && found.subresource == Some("proxy") && !found.watch {
        // What follows is somebody else's path, and may look like anything.
        let own = parts.len() - rest.len() + if found.namespace.is_some() { 5 } else { 3 };
        let proxied = path.trim_start_matches('/').splitn(own + 1, '/').nth(own);
        let beyond = parts[..own].iter().any(|part| part.is_empty());
        return Target::Resource(group, version, ResourcePath { proxied, beyond, ..found });
    }
    let odd = parts.iter().any(|part| part.is_empty()) || path.ends_with("//");
    Target::Resource(group, version, ResourcePath { beyond: found.beyond || odd, ..found })
}

/// What a path says that is not empty.
fn resource<'a>(parts: &[&'a str]) -> ResourcePath<'a> {
    let (verb, parts) = match parts {
        [verb @ ("watch" | "proxy"), rest @ ..] if !rest.is_empty() => (*verb, rest),
        _ => ("", parts),
    };
    let (namespace, parts) = match parts {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() && !matches!(rest[0], "status" | "finalize") => {
            (Some(*namespace), rest)
        }
        _ => (None, parts),
    };
    let part = |at: usize| parts.get(at).copied();
    let proxy = verb == "proxy";
    ResourcePath {
        namespace,
        resource: part(0).unwrap_or_default(),
        name: part(1),
        subresource: part(2).filter(|_| !proxy),
        proxied: None,
        watch: verb == "watch",
        proxy,
        beyond: proxy || parts.len() > 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        let path = |namespace, resource, name, subresource| ResourcePath {
            namespace,
            resource,
            name,
            subresource,
            proxied: None,
            watch: false,
            proxy: false,
            beyond: false,
        };
        let table = [
            ("/api/v1/pods", Target::Resource("", "v1", path(None, "pods", None, None))),
            ("/api/v1/namespaces", Target::Resource("", "v1", path(None, "namespaces", None, None))),
            ("/api/v1/namespaces/a", Target::Resource("", "v1", path(None, "namespaces", Some("a"), None))),
            (
                "/api/v1/namespaces/a/finalize",
                Target::Resource("", "v1", path(None, "namespaces", Some("a"), Some("finalize"))),
            ),
            ("/api/v1/namespaces/a/pods", Target::Resource("", "v1", path(Some("a"), "pods", None, None))),
            (
                "/apis/apps/v1/namespaces/a/replicasets/b/scale",
                Target::Resource("apps", "v1", path(Some("a"), "replicasets", Some("b"), Some("scale"))),
            ),
            ("/apis/apps/v1", Target::Version("apps", "v1")),
            ("/livez/ping", Target::Other(vec!["livez", "ping"])),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text), expected, "{text}");
        }
        assert!(matches!(
            parse("/api/v1/watch/pods"),
            Target::Resource(_, _, ResourcePath { watch: true, resource: "pods", beyond: false, .. })
        ));
        for (text, expected) in [
            ("/api/v1/namespaces/a/pods/p/proxy", None),
            ("/api/v1/namespaces/a/pods/p/proxy/", Some("")),
            ("/api/v1/namespaces/a/pods/p/proxy/b//c/", Some("b//c/")),
            ("/api/v1/nodes/n/proxy/metrics", Some("metrics")),
        ] {
            let Target::Resource(_, _, found) = parse(text) else { panic!("{text}") };
            assert_eq!((found.subresource, found.proxied, found.beyond), (Some("proxy"), expected, false), "{text}");
        }
        for text in [
            "/api/v1/namespaces//pods/p/proxy/b",
            "/apis/apps/v1/namespaces/a/pods/b/proxy/d",
            "/apis/apps/v1/namespaces/a/pods/b/c/d",
            "/api/v1//pods",
            "/api/v1/pods//",
            "/apis//v1/pods",
            "/api/v1/proxy/nodes/n/x",
        ] {
            assert!(matches!(parse(text), Target::Resource(_, _, ResourcePath { beyond: true, .. })), "{text}");
        }
    }
}
