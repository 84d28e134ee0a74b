//! What is legal in a pod but likely a mistake: sent as `Warning` headers.

use std::collections::{BTreeMap, BTreeSet};

use crate::field::go_quote;
use crate::model::pod::{APP_ARMOR_ANNOTATION, app_armor_field};
use crate::model::{
    Object,
    fields::{Fields, metadata},
};
use crate::validation::{Path, ip, name};
use muster_schema::quantity::Quantity;

use super::every_container;

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

const OLD_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];

const OLD_VOLUMES: [(&str, &str, &str); 9] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Warnings for a new pod.
#[must_use]
pub fn pod(pod: &Object) -> Vec<String> {
    let empty = Object::new();
    collect(pod.object("spec").unwrap_or(&empty), metadata(pod), None)
}

/// Warnings for a new pod's annotations that are about to become fields.
#[must_use]
pub fn annotations(pod: &Object) -> Vec<String> {
    let (annotations, spec) = (metadata(pod).part("annotations"), pod.part("spec"));
    let mut out = Vec::new();
    if !annotations.is_empty() && spec.part("os").text("name") != "windows" {
        let (path, context) = (Path::new("metadata"), spec.object("securityContext"));
        every_container(spec, &Path::new("spec"), |container, _| {
            app_armor_annotation(container, context, annotations, &path.child("annotations"), &mut out);
        });
    }
    out
}

/// Warnings for a template at `path`. What the old one was warned of is warned of again: it may have changed.
#[must_use]
pub fn template(path: &Path<'_>, template: &Object, old: Option<&Object>) -> Vec<String> {
    let _ = old;
    let empty = Object::new();
    collect(template.object("spec").unwrap_or(&empty), metadata(template), Some(path))
}

fn collect(spec: &Object, meta: &Object, parent: Option<&Path<'_>>) -> Vec<String> {
    let (spec_path, meta_path) = match parent {
        Some(parent) => (parent.child("spec"), parent.child("metadata")),
        None => (Path::new("spec"), Path::new("metadata")),
    };
    let annotations_path = meta_path.child("annotations");
    let mut out = Vec::new();
    node_labels(spec, &spec_path, &mut out);
    let empty = Object::new();
    let annotations = meta.object("annotations").unwrap_or(&empty);
    for (key, message) in OLD_ANNOTATIONS {
        if annotations.contains_key(key) {
            out.push(format!("{}: {message}", annotations_path.key(key)));
        }
    }
    volumes(spec, &spec_path.child("volumes"), &mut out);
    duplicates(spec, &spec_path, &mut out);
    for resource in ["memory", "ephemeral-storage"] {
        fractional(spec, "overhead", resource, &spec_path, &mut out);
    }
    let pod_context = spec.object("securityContext");
    if pod_context.is_none_or(|c| !c.contains_key("seccompProfile")) && annotations.contains_key(SECCOMP_POD) {
        out.push(format!("{}: {}", annotations_path.key(SECCOMP_POD), NO_SECCOMP));
    }
    every_container(spec, &spec_path, |container, path| {
        if !annotations.is_empty() {
            seccomp_annotation(container, annotations, &annotations_path, &mut out);
            // Of a pod that was said before the annotation became a field.
            if parent.is_some() {
                app_armor_annotation(container, pod_context, annotations, &annotations_path, &mut out);
            }
        }
        let resources = container.object("resources").unwrap_or(&empty);
        for resource in ["memory", "ephemeral-storage"] {
            for list in ["limits", "requests"] {
                fractional(resources, list, resource, &path.child("resources"), &mut out);
            }
        }
        hidden_variables(container, &path.child("env"), &mut out);
    });
    ports(spec, &spec_path, &mut out);
    if spec.int("terminationGracePeriodSeconds") < 0 {
        out.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            spec_path.child("terminationGracePeriodSeconds")
        ));
    }
    null_selectors(spec, &spec_path, &mut out);
    let dns = spec_path.child("dnsConfig");
    let servers = dns.child("nameservers");
    for (i, server) in spec.object("dnsConfig").into_iter().flat_map(|d| d.strings("nameservers")).enumerate() {
        out.extend(ip::ip_warnings(&servers.index(i), server));
    }
    let aliases = spec_path.child("hostAliases");
    for (i, alias) in spec.items("hostAliases").enumerate() {
        out.extend(ip::ip_warnings(&aliases.index(i).child("ip"), alias.text("ip")));
    }
    out
}

const NO_SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";

/// What is said of a node label that has a newer name.
#[must_use]
pub fn deprecated_node_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => "deprecated since v1.22; use Taints and Tolerations instead",
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}

fn node_labels(spec: &Object, path: &Path<'_>, out: &mut Vec<String>) {
    for (key, _) in spec.pairs("nodeSelector") {
        if let Some(message) = deprecated_node_label(key) {
            out.push(format!("{}: {message}", path.child("nodeSelector").key(key)));
        }
    }
    let affinity = path.child("affinity");
    let node_path = affinity.child("nodeAffinity");
    if let Some(node) = spec.object("affinity").and_then(|a| a.object("nodeAffinity")) {
        if let Some(required) = node.object("requiredDuringSchedulingIgnoredDuringExecution") {
            let at = node_path.child("requiredDuringSchedulingIgnoredDuringExecution");
            let terms = at.child("nodeSelectorTerms");
            for (i, term) in required.items("nodeSelectorTerms").enumerate() {
                node_term(term, false, &terms.index(i), out);
            }
        }
        let list = node_path.child("preferredDuringSchedulingIgnoredDuringExecution");
        for (i, preferred) in node.items("preferredDuringSchedulingIgnoredDuringExecution").enumerate() {
            if let Some(term) = preferred.object("preference") {
                node_term(term, true, &list.index(i).child("preference"), out);
            }
        }
    }
    let spread = path.child("topologySpreadConstraints");
    for (i, constraint) in spec.items("topologySpreadConstraints").enumerate() {
        let path = spread.index(i);
        let key = constraint.text("topologyKey");
        if let Some(message) = deprecated_node_label(key) {
            out.push(format!("{}: {key} is {message}", path.child("topologyKey")));
        }
        if !constraint.contains_key("labelSelector") {
            out.push(format!("{}: {NULL_SELECTOR}", path.child("labelSelector")));
        }
    }
}

const NULL_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// Values of a preference may be invalid: they are warned of only.
fn node_term(term: &Object, values: bool, path: &Path<'_>, out: &mut Vec<String>) {
    let list = path.child("matchExpressions");
    for (i, requirement) in term.items("matchExpressions").enumerate() {
        let key = requirement.text("key");
        if let Some(message) = deprecated_node_label(key) {
            out.push(format!("{}: {key} is {message}", list.index(i).child("key")));
        }
        if !values {
            continue;
        }
        let at = list.index(i);
        let at = at.child("values");
        for (j, value) in requirement.strings("values").enumerate() {
            for complaint in name::is_label_value(value) {
                out.push(format!("{}: {value} is invalid, {complaint}", at.index(j)));
            }
        }
    }
}

fn null_selectors(spec: &Object, path: &Path<'_>, out: &mut Vec<String>) {
    let Some(affinity) = spec.object("affinity") else { return };
    let affinity_path = path.child("affinity");
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = affinity.object(kind) else { continue };
        let path = affinity_path.child(kind);
        let field = "requiredDuringSchedulingIgnoredDuringExecution";
        let list = path.child(field);
        for (i, term) in terms.items(field).enumerate() {
            if !term.contains_key("labelSelector") {
                out.push(format!("{}: {NULL_SELECTOR}", list.index(i).child("labelSelector")));
            }
        }
        let field = "preferredDuringSchedulingIgnoredDuringExecution";
        let list = path.child(field);
        for (i, weighted) in terms.items(field).enumerate() {
            if weighted.object("podAffinityTerm").is_none_or(|t| !t.contains_key("labelSelector")) {
                let at = list.index(i);
                out.push(format!("{}: {NULL_SELECTOR}", at.child("podAffinityTerm").child("labelSelector")));
            }
        }
    }
}

fn volumes(spec: &Object, path: &Path<'_>, out: &mut Vec<String>) {
    for (i, volume) in spec.items("volumes").enumerate() {
        for (field, shown, message) in OLD_VOLUMES {
            if volume.contains_key(field) {
                out.push(format!("{}: {message}", path.index(i).child(shown)));
            }
        }
        let template = volume.object("ephemeral").and_then(|e| e.object("volumeClaimTemplate"));
        if let Some(resources) = template.and_then(|t| t.object("spec")).and_then(|s| s.object("resources")) {
            let at = path.index(i);
            let at = at.child("ephemeral");
            let at = at.child("volumeClaimTemplate");
            let at = at.child("spec");
            for list in ["requests", "limits"] {
                fractional(resources, list, "storage", &at.child("resources"), out);
            }
        }
    }
    for volume in spec.items("volumes") {
        overlapping_paths(volume, out);
    }
}

/// A file within a volume, and where it comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
struct File<'a> {
    path: &'a str,
    source: &'a str,
}

impl std::fmt::Display for File<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.source {
            "" => f.write_str(&go_quote(self.path)),
            source => write!(f, "{} ({source})", go_quote(self.path)),
        }
    }
}

/// Two keys may want the same path, or one a path below the other's.
fn overlapping_paths(volume: &Object, out: &mut Vec<String>) {
    let own = go_quote(volume.text("name"));
    let mut warn = |what: &str, files: &[File<'_>]| {
        for (i, file) in files.iter().enumerate().filter(|(_, f)| !f.path.is_empty()) {
            let below = |a: &str, b: &str| format!("{a}/").starts_with(&format!("{b}/"));
            for other in files[..i].iter().filter(|o| !o.path.is_empty()) {
                if other == file || below(other.path, file.path) || below(file.path, other.path) {
                    out.push(format!("volume {own} ({what}): overlapping paths: {file} with {other}"));
                }
            }
        }
    };
    fn files<'a>(source: &'a Object, name: &'a str) -> Vec<File<'a>> {
        source.items("items").map(|i| File { path: i.text("path").trim_end_matches('/'), source: name }).collect()
    }
    for (field, kind, name_field) in [("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")] {
        if let Some(source) = volume.object(field) {
            warn(&format!("{kind} {}", go_quote(source.text(name_field))), &files(source, ""));
        }
    }
    if let Some(source) = volume.object("downwardAPI") {
        warn("DownwardAPI", &files(source, ""));
    }
    let Some(projected) = volume.object("projected") else { return };
    let names: Vec<String> = projected
        .items("sources")
        .map(|source| {
            let of = |field: &str| source.object(field).map_or("", |s| s.text("name"));
            if source.contains_key("configMap") {
                format!("ConfigMap {}", go_quote(of("configMap")))
            } else if source.contains_key("secret") {
                format!("Secret {}", go_quote(of("secret")))
            } else if source.contains_key("downwardAPI") {
                "DownwardAPI".to_owned()
            } else {
                "ServiceAccountToken".to_owned()
            }
        })
        .collect();
    let mut all = Vec::new();
    for (source, name) in projected.items("sources").zip(&names) {
        for field in ["configMap", "secret", "downwardAPI"] {
            all.extend(source.object(field).into_iter().flat_map(|s| files(s, name)));
        }
        if let Some(token) = source.object("serviceAccountToken") {
            all.push(File { path: token.text("path").trim_end_matches('/'), source: name });
        }
    }
    warn("Projected", &all);
    for _ in projected.items("sources").filter(|s| s.is_empty()) {
        out.push(format!("volume {own} (Projected) has no sources provided"));
    }
}

fn duplicates(spec: &Object, path: &Path<'_>, out: &mut Vec<String>) {
    for (list, field) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = BTreeSet::new();
        let at = path.child(list);
        for (i, item) in spec.items(list).enumerate() {
            let value = item.text(field);
            if !seen.insert(value) {
                out.push(format!("{}: duplicate {field} {}", at.index(i).child(field), go_quote(value)));
            }
        }
    }
    let at = path.child("imagePullSecrets");
    for (i, _) in spec.items("imagePullSecrets").enumerate().filter(|(_, s)| s.text("name").is_empty()) {
        out.push(format!("{}: invalid empty name \"\"", at.index(i).child("name")));
    }
}

fn fractional(parent: &Object, list: &str, resource: &str, path: &Path<'_>, out: &mut Vec<String>) {
    let Some(value) = parent.object(list).and_then(|l| l.maybe_text(resource)) else { return };
    if !Quantity::of(value).is_integer() {
        out.push(format!(
            "{}: fractional byte value {} is invalid, must be an integer",
            path.child(list).key(resource),
            go_quote(value)
        ));
    }
}

/// An annotation that once set a container's seccomp profile, without the field that does so now.
fn seccomp_annotation(container: &Object, annotations: &Object, path: &Path<'_>, out: &mut Vec<String>) {
    let key = format!("{SECCOMP_CONTAINER}{}", container.text("name"));
    if !container.part("securityContext").contains_key("seccompProfile") && annotations.contains_key(&key) {
        out.push(format!("{}: {NO_SECCOMP}", path.key(&key)));
    }
}

/// The same of AppArmor's, where the pod's own field does not say as much.
fn app_armor_annotation(
    container: &Object,
    pod_context: Option<&Object>,
    annotations: &Object,
    path: &Path<'_>,
    out: &mut Vec<String>,
) {
    let key = format!("{APP_ARMOR_ANNOTATION}{}", container.text("name"));
    let Some(said) = annotations.maybe_text(&key) else { return };
    let of_pod = pod_context.and_then(|context| context.get("appArmorProfile"));
    let is_meant = of_pod.is_some() && app_armor_field(said).as_ref() == of_pod;
    if !is_meant && !container.part("securityContext").contains_key("appArmorProfile") {
        out.push(format!("{}: deprecated since v1.30; use the \"appArmorProfile\" field instead", path.key(&key)));
    }
}

fn hidden_variables(container: &Object, path: &Path<'_>, out: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (i, variable) in container.items("env").enumerate() {
        let (own, value) = (variable.text("name"), variable.text("value"));
        if seen.insert(own) {
            continue;
        }
        // To build on the earlier value is fine; to replace it is not.
        let reference = format!("$({own})");
        if variable.contains_key("valueFrom") || value == reference || !value.contains(&reference) {
            out.push(format!(
                "{}: hides previous definition of {}, which may be dropped when using apply",
                path.index(i),
                go_quote(own)
            ));
        }
    }
}

fn ports(spec: &Object, path: &Path<'_>, out: &mut Vec<String>) {
    let mut by_number: BTreeMap<(i64, &str), Vec<(String, &Object)>> = BTreeMap::new();
    let mut by_name: BTreeMap<&str, String> = BTreeMap::new();
    let mut names = Vec::new();
    every_container(spec, path, |container, path| {
        let list = path.child("ports");
        for (i, port) in container.items("ports").enumerate() {
            let at = list.index(i).to_string();
            let (host_ip, host_port) = (port.text("hostIP"), port.int("hostPort"));
            if !host_ip.is_empty() && host_port == 0 {
                out.push(format!(
                    "{at}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{host_ip}}}",
                    port.text("name"),
                    port.int("containerPort"),
                    port.text("protocol")
                ));
            }
            let others = by_number.entry((port.int("containerPort"), port.text("protocol"))).or_default();
            for (other_at, other) in others.iter() {
                let (other_ip, other_port) = (other.text("hostIP"), other.int("hostPort"));
                let word = if host_ip == other_ip && host_port == other_port {
                    "duplicate"
                } else if host_port == 0 || other_port == 0 {
                    "overlapping"
                } else if host_port == other_port && host_ip.is_empty() != other_ip.is_empty() {
                    "dangerously ambiguous"
                } else {
                    continue;
                };
                out.push(format!("{at}: {word} port definition with {other_at}"));
            }
            others.push((at.clone(), port));
            let own = port.text("name");
            if !own.is_empty() {
                if let Some(other) = by_name.get(own) {
                    names.push(format!(
                        "{at}: duplicate port name {} with {other}, services and probes that select ports by name will use {other}",
                        go_quote(own)
                    ));
                } else {
                    by_name.insert(own, at);
                }
            }
        }
    });
    out.append(&mut names);
}
