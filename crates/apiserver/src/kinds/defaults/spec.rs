//! Defaults of a pod's spec and of pod templates.

use muster_tree::Value;

use super::super::Object;
use super::{drop_init_container_annotations, quantity, resource_list, resources, volume};
use crate::model::fields::Fields;

/// The default of `terminationGracePeriodSeconds`.
const GRACE_SECONDS: i64 = 30;

/// Defaults of a pod template (of a ReplicaSet, a Deployment, ...), at `parent[field]`.
pub fn template(parent: &mut Object, field: &str) {
    let template = parent.object_or_new(field);
    drop_init_container_annotations(template);
    pod_spec(template.object_or_new("spec"));
}

/// Defaults of a pod's spec wherever it stands.
pub fn pod_spec(spec: &mut Object) {
    spec.set_if_empty("dnsPolicy", "ClusterFirst");
    spec.set_if_empty("restartPolicy", "Always");
    spec.set_if_absent("securityContext", Object::new());
    spec.set_if_absent("terminationGracePeriodSeconds", GRACE_SECONDS);
    spec.set_if_empty("schedulerName", "default-scheduler");
    service_account(spec);
    for volume in spec.items_mut("volumes") {
        volume::volume(volume);
    }
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.items_mut(field) {
            self::container(container);
        }
    }
    resource_list(spec, "overhead");
    resources(spec, "resources");
}

/// `serviceAccount` is an old name of `serviceAccountName` and always says the same.
fn service_account(spec: &mut Object) {
    let name = match (spec.text("serviceAccountName"), spec.text("serviceAccount")) {
        ("", "") => {
            spec.remove("serviceAccountName");
            spec.remove("serviceAccount");
            return;
        }
        ("", old) => old,
        (name, _) => name,
    }
    .to_owned();
    if spec.text("serviceAccount") != name {
        spec.insert("serviceAccount", Value::from(name.as_str()));
    }
    if spec.text("serviceAccountName") != name {
        spec.insert("serviceAccountName", Value::from(name));
    }
}

fn container(container: &mut Object) {
    if container.text("imagePullPolicy").is_empty() {
        let policy = pull_policy(container.text("image"));
        container.insert("imagePullPolicy", policy.into());
    }
    container.set_if_empty("terminationMessagePath", "/dev/termination-log");
    container.set_if_empty("terminationMessagePolicy", "File");
    container.set_if_absent("resources", Object::new());
    resources(container, "resources");
    for port in container.items_mut("ports") {
        port.set_if_empty("protocol", "TCP");
    }
    for env in container.items_mut("env") {
        if let Some(source) = env.object_mut("valueFrom") {
            field_ref(source);
            if let Some(resource) = source.object_mut("resourceFieldRef") {
                divisor(resource);
            }
            if let Some(key) = source.object_mut("fileKeyRef") {
                key.set_if_absent("optional", false);
            }
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.object_mut(name) {
            self::probe(probe);
        }
    }
    if let Some(lifecycle) = container.object_mut("lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(http) = lifecycle.object_mut(name).and_then(|handler| handler.object_mut("httpGet")) {
                http_get(http);
            }
        }
    }
}

fn probe(probe: &mut Object) {
    for (field, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        if probe.int(field) == 0 {
            probe.insert(field.to_owned(), value.into());
        }
    }
    if let Some(http) = probe.object_mut("httpGet") {
        http_get(http);
    }
    if let Some(grpc) = probe.object_mut("grpc") {
        grpc.set_if_absent("service", "");
    }
}

fn http_get(http: &mut Object) {
    http.set_if_empty("path", "/");
    http.set_if_empty("scheme", "HTTP");
}

/// `fieldRef.apiVersion` of an environment variable or a downward API file.
pub(super) fn field_ref(source: &mut Object) {
    if let Some(reference) = source.object_mut("fieldRef") {
        reference.set_if_empty("apiVersion", "v1");
    }
}

/// `divisor` of a resource field reference is always written, `0` where it was not given.
pub(super) fn divisor(resource: &mut Object) {
    resource.set_if_absent("divisor", "0");
    quantity(resource, "divisor");
}

/// `Always` for an image whose tag is `latest` or missing, else `IfNotPresent`.
pub(super) fn pull_policy(image: &str) -> &'static str {
    if has_latest_tag(image) { "Always" } else { "IfNotPresent" }
}

/// Whether the image's tag is `latest`, which it also is where there is neither tag nor digest.
/// An image that is not well formed has no tag: validation is left to speak of it.
fn has_latest_tag(image: &str) -> bool {
    let Some((name, tag, digest)) = split_image(image) else { return false };
    !name.is_empty() && if tag.is_empty() { digest.is_empty() } else { tag == "latest" }
}

/// Name, tag and digest of an image reference, `None` where it is malformed.
fn split_image(image: &str) -> Option<(&str, &str, &str)> {
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    let after_slash = rest.rfind('/').map_or(0, |i| i + 1);
    let (name, tag) = match rest[after_slash..].find(':') {
        Some(colon) => (&rest[..after_slash + colon], Some(&rest[after_slash + colon + 1..])),
        None => (rest, None),
    };
    let tag_fine = tag.is_none_or(|t| {
        t.len() <= 128
            && t.bytes().next().is_some_and(|c| c.is_ascii_alphanumeric() || c == b'_')
            && t.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'-'))
    });
    (is_image_name(name) && tag_fine && digest.is_none_or(is_digest)).then_some((
        name,
        tag.unwrap_or_default(),
        digest.unwrap_or_default(),
    ))
}

/// A reference's name: an optional host, then path components in lower case.
fn is_image_name(name: &str) -> bool {
    if name.is_empty() || name.len() > 255 {
        return false;
    }
    // 64 hexadecimal digits would be an identifier, not a name.
    if name.len() == 64 && name.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')) {
        return false;
    }
    let mut parts = name.split('/');
    let first = parts.next().unwrap_or_default();
    let rest: Vec<&str> = parts.collect();
    if rest.is_empty() {
        return is_path_component(first);
    }
    (is_path_component(first) || is_host(first)) && rest.iter().all(|part| is_path_component(part))
}

/// Lower case letters and digits, joined by a dot, one or two underscores, or any number of dashes.
fn is_path_component(part: &str) -> bool {
    let bytes = part.as_bytes();
    let word = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    if !bytes.first().copied().is_some_and(word) || !bytes.last().copied().is_some_and(word) {
        return false;
    }
    part.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        .all(|gap| gap.is_empty() || gap == "." || gap == "_" || gap == "__" || gap.bytes().all(|c| c == b'-'))
}

/// A registry's host, with an optional port.
fn is_host(part: &str) -> bool {
    let (host, port) = match part.rsplit_once(':') {
        Some((host, port)) if !part.ends_with(']') => (host, Some(port)),
        _ => (part, None),
    };
    let name = host.split('.').all(|label| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
    });
    let address = host
        .strip_prefix('[')
        .and_then(|h| h.strip_suffix(']'))
        .is_some_and(|h| !h.is_empty() && h.bytes().all(|c| c.is_ascii_hexdigit() || c == b':'));
    (name || address) && port.is_none_or(|p| !p.is_empty() && p.bytes().all(|c| c.is_ascii_digit()))
}

/// A content digest such as `sha256:…`.
fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let known = match algorithm {
        "sha256" => Some(64),
        "sha384" => Some(96),
        "sha512" => Some(128),
        _ => None,
    };
    known == Some(hex.len()) && hex.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-16
    #[test]
    fn the_pull_policy_follows_the_tag() {
        let digest = format!("redis@sha256:{}", "ab".repeat(32));
        let tagged = format!("redis:7@sha256:{}", "ab".repeat(32));
        for (image, policy) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.27", "IfNotPresent"),
            ("registry.example:5000/app", "Always"),
            ("registry.example:5000/app:v1", "IfNotPresent"),
            ("localhost/a__b/c-d", "Always"),
            (digest.as_str(), "IfNotPresent"),
            (tagged.as_str(), "IfNotPresent"),
            ("", "IfNotPresent"),
            ("NGINX", "IfNotPresent"),
            (" nginx", "IfNotPresent"),
            ("nginx:", "IfNotPresent"),
            ("a___b", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }
}
