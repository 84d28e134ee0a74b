//! Persistent volumes: where their bytes are, and who may use them how (API-17).

use muster_tree::{Text, Value};

use crate::field::{FieldError, Shown};
use crate::model::{Fields as _, Object, metadata};
use muster_schema::quantity::Quantity;

use super::pod::affinity::validate_node_selector;
use super::pod::claims::validate_access_modes;
use super::pod::{diff, sources};
use super::{Errors, IMMUTABLE, Path, complain, csi, internal, name};

const SPEC: Path<'_> = Path::new("spec");
/// What is said of what an inline volume cannot have.
const NOT_INLINE: &str = "may not be specified in the context of inline volumes";
/// The annotation that once said how a volume is mounted.
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

/// Checks a PersistentVolume.
pub fn validate(volume: &Object, old: Option<&Object>, errors: &mut Errors) {
    let empty = Object::new();
    let spec = volume.object("spec").unwrap_or(&empty);
    let before = old.and_then(|old| old.object("spec"));
    let own = Context { name: metadata(volume).text("name"), inline: false, any_value: before.is_some_and(odd_values) };
    validate_spec(spec, own, &SPEC, errors);
    validate_mount_options(volume, spec, errors);
    let Some(before) = before else { return };
    // Upstream looks at all of it once more here.
    super::meta::validate_core(metadata(volume), false, crate::model::NameRule::Subdomain, errors);
    validate_spec(spec, own, &SPEC, errors);
    validate_change(spec, before, errors);
}

/// Checks the spec of a volume that only an attachment has.
pub fn validate_inline_spec(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    validate_spec(spec, Context { name: "", inline: true, any_value: false }, path, errors);
}

/// What the parts of a spec need to know of the whole.
#[derive(Debug, Clone, Copy)]
struct Context<'a> {
    name: &'a str,
    inline: bool,
    /// Whether node selectors may have values that an older version stored.
    any_value: bool,
}

fn validate_spec(spec: &Object, context: Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    let Context { inline, .. } = context;
    if inline {
        for field in ["claimRef", "capacity"] {
            if spec.object(field).is_some_and(|o| field == "claimRef" || !o.is_empty()) {
                errors.push(FieldError::forbidden(path.child(field), NOT_INLINE));
            }
        }
        if !spec.contains_key("csi") {
            let why = "has to be specified in the context of inline volumes";
            errors.push(FieldError::required(path.child("csi"), why));
        }
    }
    if spec.list("accessModes").is_empty() {
        errors.push(FieldError::required(path.child("accessModes"), ""));
    }
    validate_access_modes(spec, path, errors);
    if !inline {
        validate_capacity(spec, path, errors);
    }
    validate_reclaim_policy(spec, inline, path, errors);
    let affinity = spec.object("nodeAffinity");
    if let Some(affinity) = affinity {
        let path = path.child("nodeAffinity");
        match affinity.object("required") {
            _ if inline => errors.push(FieldError::forbidden(path, NOT_INLINE)),
            Some(required) => validate_node_selector(required, context.any_value, &path.child("required"), errors),
            None => errors.push(FieldError::required(path.child("required"), "must specify required node constraints")),
        }
    }
    validate_sources(spec, context, path, errors);
    let root = spec.object("hostPath").is_some_and(|host| is_root(host.text("path")));
    if root && spec.text("persistentVolumeReclaimPolicy") == "Recycle" {
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(FieldError::forbidden(path.child("persistentVolumeReclaimPolicy"), why));
    }
    let class = spec.text("storageClassName");
    if !class.is_empty() {
        if inline {
            errors.push(FieldError::forbidden(path.child("storageClassName"), NOT_INLINE));
        } else {
            complain(class, name::is_dns1123_subdomain(class), &path.child("storageClassName"), errors);
        }
    }
    if let Some(mode) = spec.maybe_text("volumeMode") {
        let modes = ["Block", "Filesystem"];
        if inline && mode != "Filesystem" {
            let why = "may not specify volumeMode other than Filesystem in the context of inline volumes";
            errors.push(FieldError::forbidden(path.child("volumeMode"), why));
        } else if !inline && !modes.contains(&mode) {
            errors.push(FieldError::not_supported(path.child("volumeMode"), mode, &modes));
        }
    }
    // Inline volumes are checked without it.
    if let Some(class) = spec.maybe_text("volumeAttributesClassName").filter(|_| !inline) {
        let own = path.child("volumeAttributesClassName");
        if class.is_empty() {
            errors.push(FieldError::required(own, "an empty string is disallowed"));
        } else {
            complain(class, name::is_dns1123_subdomain(class), &own, errors);
        }
        if !spec.contains_key("csi") {
            let why = "has to be specified when using volumeAttributesClassName";
            errors.push(FieldError::required(path.child("csi"), why));
        }
    }
}

fn validate_capacity(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child("capacity");
    let empty = Object::new();
    let capacity = spec.object("capacity").unwrap_or(&empty);
    if capacity.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    if !capacity.contains_key("storage") || capacity.len() > 1 {
        let mut sorted: Vec<(&Text, &Value)> = capacity.iter().collect();
        sorted.sort_by_key(|(key, _)| *key);
        let each: Vec<String> = sorted.into_iter().map(|(k, v)| format!("{}:{v}", Value::from(k.as_str()))).collect();
        let shown = if spec.contains_key("capacity") { format!("{{{}}}", each.join(",")) } else { "null".to_owned() };
        errors.push(FieldError::not_supported(path, Shown::Bare(shown), &["storage"]));
    }
    for (resource, text) in spec.pairs("capacity") {
        let quantity = Quantity::of(text);
        let path = path.key(resource);
        if quantity.value() < 0 {
            errors.push(FieldError::invalid(path, quantity.value(), "must be a valid resource quantity"));
        }
        if !quantity.is_positive() {
            errors.push(FieldError::invalid(path, text, "must be greater than zero"));
        }
    }
}

fn validate_reclaim_policy(spec: &Object, inline: bool, path: &Path<'_>, errors: &mut Errors) {
    const POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
    let path = path.child("persistentVolumeReclaimPolicy");
    let policy = spec.text("persistentVolumeReclaimPolicy");
    if policy.is_empty() {
        return;
    }
    if inline {
        if policy != "Retain" {
            errors.push(FieldError::forbidden(path, "may only be Retain in the context of inline volumes"));
        }
    } else if !POLICIES.contains(&policy) {
        errors.push(FieldError::not_supported(path, policy, &POLICIES));
    }
}

/// Whether a path is the root, whatever it takes to say so.
fn is_root(path: &str) -> bool {
    path.starts_with('/')
        && path.split('/').fold(0_usize, |depth, part| match part {
            "" | "." => depth,
            ".." => depth.saturating_sub(1),
            _ => depth + 1,
        }) == 0
}

type Check = fn(&Object, &Object, Context<'_>, &Path<'_>, &mut Errors);

/// The sources in the order in which they are looked at: their field, the field under which their own errors are, and the
/// check, which is handed the source and the spec.
const SOURCES: [(&str, &str, Check); 22] = [
    ("hostPath", "hostPath", |s, _, _, p, e| sources::host_path(s, p, e)),
    ("gcePersistentDisk", "persistentDisk", |s, _, _, p, e| sources::disk(s, "pdName", p, e)),
    ("awsElasticBlockStore", "awsElasticBlockStore", |s, _, _, p, e| sources::disk(s, "volumeID", p, e)),
    ("glusterfs", "glusterfs", |s, _, _, p, e| glusterfs(s, p, e)),
    ("flocker", "flocker", |s, _, _, p, e| sources::flocker(s, p, e)),
    ("nfs", "nfs", |s, _, _, p, e| sources::nfs(s, p, e)),
    ("rbd", "rbd", |s, _, _, p, e| sources::ceph(s, true, p, e)),
    ("quobyte", "quobyte", |s, _, _, p, e| sources::quobyte(s, p, e)),
    ("cephfs", "cephfs", |s, _, _, p, e| sources::ceph(s, false, p, e)),
    ("iscsi", "iscsi", |s, _, context, p, e| iscsi(s, context.name, p, e)),
    ("cinder", "cinder", |s, _, _, p, e| {
        sources::required(s, &["volumeID"], p, e);
        secret(s, p, e);
    }),
    ("fc", "fc", |s, _, _, p, e| sources::fibre_channel(s, p, e)),
    ("flexVolume", "flexVolume", |s, _, _, p, e| sources::flex(s, p, e)),
    ("azureFile", "azureFile", |s, _, _, p, e| {
        sources::required(s, &["secretName", "shareName"], p, e);
        if s.maybe_text("secretNamespace") == Some("") {
            e.push(FieldError::required(p.child("secretNamespace"), ""));
        }
    }),
    ("vsphereVolume", "vsphereVolume", |s, _, _, p, e| sources::required(s, &["volumePath"], p, e)),
    ("photonPersistentDisk", "photonPersistentDisk", |s, _, _, p, e| sources::required(s, &["pdID"], p, e)),
    ("portworxVolume", "portworxVolume", |s, _, _, p, e| sources::required(s, &["volumeID"], p, e)),
    ("azureDisk", "azureDisk", |s, _, _, p, e| sources::azure_disk(s, p, e)),
    ("scaleIO", "scaleIO", |s, _, _, p, e| sources::required(s, &["gateway", "system", "volumeName"], p, e)),
    ("local", "local", |s, spec, context, p, e| local(s, spec, context, p, e)),
    ("storageos", "storageos", |s, _, _, p, e| storage_os(s, p, e)),
    ("csi", "csi", |s, _, _, p, e| csi_source(s, p, e)),
];

fn validate_sources(spec: &Object, context: Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    let mut found = 0;
    for (field, own, check) in SOURCES {
        let Some(source) = spec.object(field) else { continue };
        // Whatever comes before it, this one is looked at.
        if found > 0 && field != "flexVolume" {
            let shown = if field == "cephfs" { "cephFS" } else { field };
            errors.push(FieldError::forbidden(path.child(shown), "may not specify more than 1 volume type"));
            continue;
        }
        found += 1;
        check(source, spec, context, &path.child(own), errors);
    }
    if found == 0 {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
}

fn glusterfs(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    sources::required(source, &["endpoints", "path"], path, errors);
    let own = path.child("endpointsNamespace");
    match source.maybe_text("endpointsNamespace") {
        None => {}
        Some("") => {
            let why = "if the endpointnamespace is set, it must be a valid namespace name";
            errors.push(FieldError::invalid(own, "", why));
        }
        Some(namespace) => complain(namespace, name::is_dns1123_label(namespace), &own, errors),
    }
}

fn iscsi(source: &Object, volume: &str, path: &Path<'_>, errors: &mut Errors) {
    sources::required(source, &["targetPortal"], path, errors);
    let portal = source.text("targetPortal");
    let initiator = source.maybe_text("initiatorName");
    if initiator.is_some() && volume.len() + 1 + portal.len() > 64 {
        let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        errors.push(FieldError::invalid(path.child("targetportal"), portal, why));
    }
    let check = |value: &str, field: &str, errors: &mut Errors| {
        if sources::is_iscsi_name(value) != Some(true) {
            errors.push(FieldError::invalid(path.child(field), value, "must be valid format"));
        }
    };
    match source.text("iqn") {
        "" => errors.push(FieldError::required(path.child("iqn"), "")),
        iqn => check(iqn, "iqn", errors),
    }
    let lun = source.int("lun");
    if !(0..=255).contains(&lun) {
        errors.push(FieldError::invalid(path.child("lun"), lun, name::inclusive_range(0, 255)));
    }
    let secret = source.object("secretRef");
    if (source.flag("chapAuthDiscovery") || source.flag("chapAuthSession")) && secret.is_none() {
        errors.push(FieldError::required(path.child("secretRef"), ""));
    }
    if secret.is_some_and(|secret| secret.text("name").is_empty()) {
        errors.push(FieldError::required(path.child("secretRef").child("name"), ""));
    }
    if let Some(initiator) = initiator {
        check(initiator, "initiatorname", errors);
    }
}

/// A reference to a secret needs a name and a namespace.
fn secret(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    if let Some(secret) = source.object("secretRef") {
        sources::required(secret, &["name", "namespace"], &path.child("secretRef"), errors);
    }
}

fn local(source: &Object, spec: &Object, context: Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    match source.text("path") {
        "" => errors.push(FieldError::required(path.child("path"), "")),
        own => sources::no_backsteps(own, &path.child("path"), errors),
    }
    if context.inline || !spec.contains_key("nodeAffinity") {
        let at = path.to_string();
        let at = format!("{}nodeAffinity", at.trim_end_matches("local"));
        errors.push(FieldError::required(at, "Local volume requires node affinity"));
    }
}

fn storage_os(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    sources::required(source, &["volumeName"], path, errors);
    for field in ["volumeName", "volumeNamespace"] {
        let value = source.text(field);
        if !value.is_empty() {
            complain(value, name::is_dns1123_label(value), &path.child(field), errors);
        }
    }
    secret(source, path, errors);
}

fn csi_source(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    csi::validate_driver_name(source.text("driver"), &path.child("driver"), errors);
    sources::required(source, &["volumeHandle"], path, errors);
    const SECRETS: [&str; 4] =
        ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"];
    for field in SECRETS {
        let Some(secret) = source.object(field) else { continue };
        let path = path.child(field);
        type Rule = fn(&str) -> Vec<String>;
        let parts: [(&str, Rule); 2] = [("name", name::is_dns1123_subdomain), ("namespace", name::is_dns1123_label)];
        for (part, rule) in parts {
            match secret.text(part) {
                "" => errors.push(FieldError::required(path.child(part), "")),
                value => complain(value, rule(value), &path.child(part), errors),
            }
        }
    }
}

/// Mount options as an annotation are for some kinds of volumes only.
fn validate_mount_options(volume: &Object, spec: &Object, errors: &mut Errors) {
    const TAKING: [&str; 13] = [
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "nfs",
        "rbd",
        "quobyte",
        "iscsi",
        "cinder",
        "cephfs",
        "azureFile",
        "vsphereVolume",
        "azureDisk",
        "photonPersistentDisk",
    ];
    let annotated = metadata(volume).object("annotations").is_some_and(|a| a.contains_key(MOUNT_OPTIONS));
    if annotated && !TAKING.iter().any(|field| spec.contains_key(field)) {
        let meta = Path::new("metadata");
        let path = meta.child("annotations");
        let why = "may not specify mount options for this volume type";
        errors.push(FieldError::forbidden(path.child(MOUNT_OPTIONS), why));
    }
}

/// Whether a stored node selector has values that are no label values.
fn odd_values(spec: &Object) -> bool {
    let required = spec.object("nodeAffinity").and_then(|a| a.object("required"));
    let terms = required.into_iter().flat_map(|r| r.items("nodeSelectorTerms"));
    terms
        .flat_map(|term| term.items("matchExpressions"))
        .flat_map(|requirement| requirement.strings("values"))
        .any(|value| !name::is_label_value(value).is_empty())
}

fn validate_change(spec: &Object, before: &Object, errors: &mut Errors) {
    let sources = |spec: &Object| {
        let each = SOURCES.iter().filter_map(|(field, ..)| Some(((*field).to_owned(), spec.get(field)?.clone())));
        each.collect::<Object>()
    };
    let (mut new, was) = (sources(spec), sources(before));
    // The secret for an expansion may be added later.
    let expands = |sources: &Object| sources.object("csi").map(|csi| csi.contains_key("controllerExpandSecretRef"));
    if expands(&was) == Some(false)
        && expands(&new) == Some(true)
        && let Some(csi) = new.object_mut("csi")
    {
        csi.remove("controllerExpandSecretRef");
    }
    if new != was {
        let lines = |sources: &Object| internal::lines("PersistentVolumeSource", sources);
        let difference = diff::unified(&lines(&was), &lines(&new));
        let why = format!("spec.persistentvolumesource is immutable after creation\n{difference}");
        errors.push(FieldError::forbidden(SPEC.child("persistentvolumesource"), why));
    }
    let (mode, old_mode) = (spec.get("volumeMode"), before.get("volumeMode"));
    if mode != old_mode {
        errors.push(FieldError::invalid(Path::new("volumeMode"), mode.unwrap_or(&Value::Null), IMMUTABLE));
    }
    if let Some(was) = before.object("nodeAffinity")
        && !same_but_for_labels(spec.object("nodeAffinity"), was)
    {
        let shown = match spec.object("nodeAffinity") {
            Some(affinity) => internal::shown("VolumeNodeAffinity", affinity),
            None => Shown::Bare("null".to_owned()),
        };
        let why = format!("{IMMUTABLE}, except for updating from beta label to GA");
        errors.push(FieldError::invalid(Path::new("nodeAffinity"), shown, why));
    }
    if before.contains_key("volumeAttributesClassName") && !spec.contains_key("volumeAttributesClassName") {
        let why = "update from non-nil value to nil is forbidden";
        errors.push(FieldError::forbidden(SPEC.child("volumeAttributesClassName"), why));
    }
}

/// Whether two affinities differ at most in labels that have got another name since. As in the reference, a key that has
/// none may be taken away.
fn same_but_for_labels(new: Option<&Object>, old: &Object) -> bool {
    const RENAMED: [(&str, &str); 5] = [
        ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
        ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
        ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
        ("beta.kubernetes.io/os", "kubernetes.io/os"),
        ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ];
    let Some(new) = new else { return false };
    let mut renamed = old.clone();
    let wanted = new.part("required").items("nodeSelectorTerms");
    for (term, wanted) in renamed.object_or_new("required").items_mut("nodeSelectorTerms").zip(wanted) {
        for list in ["matchExpressions", "matchFields"] {
            for (requirement, wanted) in term.items_mut(list).zip(wanted.items(list)) {
                let now = RENAMED.iter().find(|(beta, _)| *beta == requirement.text("key")).map_or("", |(_, ga)| ga);
                if wanted.text("key") == now {
                    requirement.carry("key", wanted);
                }
            }
        }
    }
    renamed == *new
}

/// Warnings for a PersistentVolume.
#[must_use]
pub fn warnings(volume: &Object) -> Vec<String> {
    const ANNOTATIONS: [(&str, &str); 2] = [
        (
            "volume.beta.kubernetes.io/storage-class",
            "deprecated since v1.8; use \"storageClassName\" attribute instead",
        ),
        (MOUNT_OPTIONS, "deprecated since v1.31; use \"mountOptions\" attribute instead"),
    ];
    const GONE: [(&str, &str, &str); 6] = [
        ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
        ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ];
    let empty = Object::new();
    let spec = volume.object("spec").unwrap_or(&empty);
    let annotations = metadata(volume).object("annotations").unwrap_or(&empty);
    let mut out: Vec<String> = Vec::new();
    for (key, why) in ANNOTATIONS.iter().filter(|(key, _)| annotations.contains_key(key)) {
        out.push(format!("metadata.annotations[{key}]: {why}"));
    }
    if spec.text("persistentVolumeReclaimPolicy") == "Recycle" {
        out.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_owned());
    }
    if let Some(required) = spec.object("nodeAffinity").and_then(|a| a.object("required")) {
        for (i, term) in required.items("nodeSelectorTerms").enumerate() {
            for (j, key) in term.items("matchExpressions").map(|r| r.text("key")).enumerate() {
                if let Some(why) = super::pod::warnings::deprecated_node_label(key) {
                    let at = format!("spec.nodeAffinity.required.nodeSelectorTerms[{i}].matchExpressions[{j}].key");
                    out.push(format!("{at}: {key} is {why}"));
                }
            }
        }
    }
    for (field, shown, why) in GONE.iter().filter(|(field, ..)| spec.contains_key(field)) {
        let _ = field;
        out.push(format!("spec.{shown}: {why}"));
    }
    out
}

/// Checks a write of a PersistentVolume's status: it must say which version it changes.
pub fn validate_status(object: &Object, errors: &mut Errors) {
    if metadata(object).text("resourceVersion").is_empty() {
        errors.push(FieldError::required(Path::new("resourceVersion"), ""));
    }
}

#[cfg(test)]
mod tests;
