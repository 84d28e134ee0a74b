//! A pod's volumes: each has a name of its own and exactly one source.

use std::collections::{BTreeMap, BTreeSet};

use crate::field::{FieldError, go_quote};
use crate::model::{Object, fields::Fields};
use crate::validation::{Errors, Path, complain, name};
use muster_schema::quantity::Quantity;

use super::{Context, claims, projected, sources};

/// The volumes that are fine, by name: what mounts may refer to.
pub(super) type Volumes<'a> = BTreeMap<&'a str, &'a Object>;

/// Checks the volumes and gives those that are fine.
pub(super) fn validate<'a>(context: &Context<'a>, path: &Path<'_>, errors: &mut Errors) -> Volumes<'a> {
    let mut fine = Volumes::new();
    let pod_name = context.meta.map_or("", |m| m.text("name"));
    let made: BTreeSet<String> = if pod_name.is_empty() {
        BTreeSet::new()
    } else {
        let ephemeral = context.spec.items("volumes").filter(|v| v.contains_key("ephemeral"));
        ephemeral.map(|v| format!("{pod_name}-{}", v.text("name"))).collect()
    };
    for (i, volume) in context.spec.items("volumes").enumerate() {
        let path = path.index(i);
        let own = volume.text("name");
        let before = errors.len();
        validate_source(context, volume, &path, errors);
        let name_path = path.child("name");
        if own.is_empty() {
            errors.push(FieldError::required(name_path, ""));
        } else {
            complain(own, name::is_dns1123_label(own), &name_path, errors);
        }
        if fine.contains_key(own) {
            errors.push(FieldError::duplicate(name_path, own));
        }
        if errors.len() == before {
            fine.insert(own, volume);
        }
        if let Some(claim) = volume.object("persistentVolumeClaim").map(|c| c.text("claimName"))
            && made.contains(claim)
        {
            errors.push(FieldError::invalid(
                path.child("persistentVolumeClaim").child("claimName"),
                claim,
                "must not reference a PVC that gets created for an ephemeral volume",
            ));
        }
    }
    fine
}

type Check = fn(&Context<'_>, &Object, &Path<'_>, &mut Errors);

/// The sources in the order in which they are looked at: their field, the field under which a second
/// source is reported, the field under which their own errors are, and the check.
const SOURCES: [(&str, &str, &str, Check); 29] = [
    ("hostPath", "hostPath", "hostPath", |_, s, p, e| sources::host_path(s, p, e)),
    ("gitRepo", "gitRepo", "gitRepo", |_, s, p, e| sources::git_repo(s, p, e)),
    ("gcePersistentDisk", "gcePersistentDisk", "persistentDisk", |_, s, p, e| sources::disk(s, "pdName", p, e)),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore", |_, s, p, e| {
        sources::disk(s, "volumeID", p, e);
    }),
    ("secret", "secret", "secret", |_, s, p, e| sources::files(s, "secretName", p, e)),
    ("nfs", "nfs", "nfs", |_, s, p, e| sources::nfs(s, p, e)),
    ("iscsi", "iscsi", "iscsi", |_, s, p, e| sources::iscsi(s, p, e)),
    ("glusterfs", "glusterfs", "glusterfs", |_, s, p, e| sources::required(s, &["endpoints", "path"], p, e)),
    ("flocker", "flocker", "flocker", |_, s, p, e| sources::flocker(s, p, e)),
    ("persistentVolumeClaim", "persistentVolumeClaim", "persistentVolumeClaim", |_, s, p, e| {
        sources::required(s, &["claimName"], p, e);
    }),
    ("rbd", "rbd", "rbd", |_, s, p, e| sources::ceph(s, true, p, e)),
    ("cinder", "cinder", "cinder", |_, s, p, e| sources::cinder(s, p, e)),
    ("cephfs", "cephFS", "cephfs", |_, s, p, e| sources::ceph(s, false, p, e)),
    ("quobyte", "quobyte", "quobyte", |_, s, p, e| sources::quobyte(s, p, e)),
    ("downwardAPI", "downwarAPI", "downwardAPI", |_, s, p, e| projected::validate_downward(s, p, e)),
    ("fc", "fc", "fc", |_, s, p, e| sources::fibre_channel(s, p, e)),
    ("flexVolume", "flexVolume", "flexVolume", |_, s, p, e| sources::flex(s, p, e)),
    ("configMap", "configMap", "configMap", |_, s, p, e| sources::files(s, "name", p, e)),
    ("azureFile", "azureFile", "azureFile", |_, s, p, e| sources::required(s, &["secretName", "shareName"], p, e)),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume", |_, s, p, e| sources::required(s, &["volumePath"], p, e)),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk", |_, s, p, e| {
        sources::required(s, &["pdID"], p, e);
    }),
    ("portworxVolume", "portworxVolume", "portworxVolume", |_, s, p, e| sources::required(s, &["volumeID"], p, e)),
    ("azureDisk", "azureDisk", "azureDisk", |_, s, p, e| sources::azure_disk(s, p, e)),
    ("storageos", "storageos", "storageos", |_, s, p, e| sources::storage_os(s, p, e)),
    ("projected", "projected", "projected", |c, s, p, e| projected::validate(c, s, p, e)),
    ("scaleIO", "scaleIO", "scaleIO", |_, s, p, e| {
        sources::required(s, &["gateway", "system", "volumeName"], p, e);
    }),
    ("csi", "csi", "csi", |_, s, p, e| sources::csi(s, p, e)),
    ("ephemeral", "ephemeral", "ephemeral", |_, s, p, e| ephemeral(s, p, e)),
    ("image", "image", "image", |c, s, p, e| sources::image(s, c.options.is_pod, p, e)),
];

fn validate_source(context: &Context<'_>, volume: &Object, path: &Path<'_>, errors: &mut Errors) {
    let own = volume.text("name");
    let mut found = false;
    if let Some(dir) = volume.object("emptyDir") {
        found = true;
        if dir.maybe_text("sizeLimit").is_some_and(|limit| Quantity::of(limit).is_negative()) {
            errors.push(FieldError::forbidden(
                path.child("emptyDir").child("sizeLimit"),
                "SizeLimit field must be a valid resource quantity",
            ));
        }
    }
    // Nearly every volume has one field beside its name: then there is only one place to look.
    let only = volume.keys().find(|key| *key != "name").filter(|_| volume.len() == 2);
    if !(found && only.is_some()) {
        for (field, second, at, check) in SOURCES {
            if only.is_some_and(|only| only != field) {
                continue;
            }
            let Some(source) = volume.object(field) else { continue };
            if found {
                errors.push(FieldError::forbidden(path.child(second), "may not specify more than 1 volume type"));
            } else {
                found = true;
                check(context, source, &path.child(at), errors);
                if field == "ephemeral" {
                    claim_name(context, own, path, errors);
                }
            }
            let portal = source.text("targetPortal");
            if field == "iscsi" && source.contains_key("initiatorName") && own.len() + 1 + portal.len() > 64 {
                errors.push(FieldError::invalid(
                    path.child("name"),
                    own,
                    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.",
                ));
            }
        }
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
}

fn ephemeral(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    let at = path.child("volumeClaimTemplate");
    match source.object("volumeClaimTemplate") {
        None => errors.push(FieldError::required(at, "")),
        Some(template) => claims::validate_claim_template(template, &at, errors),
    }
}

/// The claim that is made for an ephemeral volume is named after pod and volume.
fn claim_name(context: &Context<'_>, own: &str, path: &Path<'_>, errors: &mut Errors) {
    let pod = context.meta.map_or("", |m| m.text("name"));
    if pod.is_empty() || own.is_empty() {
        return;
    }
    let claim = format!("{pod}-{own}");
    for complaint in name::is_dns1123_subdomain(&claim) {
        errors.push(FieldError::invalid(
            path.child("name"),
            own,
            format!("PVC name {}: {complaint}", go_quote(&claim)),
        ));
    }
}
