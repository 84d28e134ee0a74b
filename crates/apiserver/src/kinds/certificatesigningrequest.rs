//! CertificateSigningRequest.

use muster_objects::time::Timestamp;
use muster_tree::Value;

use super::Row;
use crate::model::column::human_duration;
use crate::model::{
    AGE_COLUMN, Column, Fields as _, NAME_COLUMN, NameRule, Object, Part, Resource, Subresource, column,
};
use crate::validation::certificates::validate;
use crate::validation::meta::Look;

static COLUMNS: [Column; 6] = [
    NAME_COLUMN,
    AGE_COLUMN,
    Column::text(
        "SignerName",
        "Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. If empty, it will be defaulted:\n 1. If it's a kubelet client certificate, it is assigned\n    \"kubernetes.io/kube-apiserver-client-kubelet\".\n 2. If it's a kubelet serving certificate, it is assigned\n    \"kubernetes.io/kubelet-serving\".\n 3. Otherwise, it is assigned \"kubernetes.io/legacy-unknown\".\nDistribution of trust for signers happens out of band. You can select on this field using `spec.signerName`.",
    )
    .by(|request, _| {
        let signer = column::at(request, "/spec/signerName").and_then(Value::as_str).unwrap_or_default();
        if signer.is_empty() { "<none>" } else { signer }.into()
    }),
    Column::text("Requestor", "Base64-encoded PKCS#10 CSR data").at("/spec/username"),
    Column::text(
        "RequestedDuration",
        "expirationSeconds is the requested duration of validity of the issued certificate. The certificate signer may issue a certificate with a different validity duration so a client must check the delta between the notBefore and and notAfter fields in the issued certificate to determine the actual duration.\n\nThe v1.22+ in-tree implementations of the well-known Kubernetes signers will honor this field as long as the requested duration is not greater than the maximum duration they will honor per the --cluster-signing-duration CLI flag to the Kubernetes controller manager.\n\nCertificate signers may not honor this field for various reasons:\n\n  1. Old signer that is unaware of the field (such as the in-tree\n     implementations prior to v1.22)\n  2. Signer whose configured maximum is shorter than the requested duration\n  3. Signer whose configured minimum is longer than the requested duration\n\nThe minimum valid value for expirationSeconds is 600, i.e. 10 minutes.",
    )
    .by(|request, _| match column::at(request, "/spec/expirationSeconds").and_then(Value::as_i64) {
        Some(seconds) => human_duration(seconds.saturating_mul(1_000_000_000)).into(),
        None => "<none>".into(),
    }),
    Column::text("Condition", "Conditions applied to the request, such as approval or denial.")
        .by(|request, _| condition(request).into()),
];

/// The kind.
pub(super) fn kind() -> Row {
    let resource =
        Resource::cluster("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests")
            .short(&["csr"])
            .labels(&["spec.signerName"])
            .parts(&[Subresource::Approval, Subresource::Status]);
    Row {
        name_rule: NameRule::PathSegment,
        metadata: Look::BOTH_CHANGE_LAST,
        prepare,
        validate: |request, old, errors| validate(Part::Main, request, old, errors),
        validate_part: |part, request, old, errors| validate(part, request, Some(old), errors),
        stamp,
        columns: &COLUMNS,
        ..Row::new(resource)
    }
}

/// What each part may write: of the object itself metadata, `/approval` conditions, `/status` the certificate and
/// conditions but those of the approval. Who asks is the registry's to tell.
fn prepare(part: Part, request: &mut Object, old: Option<&Object>) {
    let Some(old) = old else { return };
    match part {
        Part::Main => request.carry("spec", old),
        Part::Approval => {
            let conditions = request.object_or_new("status").remove("conditions");
            request.carry("status", old);
            let status = request.object_or_new("status");
            status.remove("conditions");
            status.extend(conditions.map(|conditions| ("conditions".to_owned(), conditions)));
        }
        _ => {
            let none = Object::new();
            let old = old.object("status").unwrap_or(&none);
            for kind in ["Approved", "Denied"] {
                keep(kind, request.object_or_new("status"), old);
            }
        }
    }
}

/// Gives conditions the times that they lack.
fn stamp(part: Part, request: &mut Object, old: Option<&Object>, now: Timestamp) {
    let Some(old) = old.filter(|_| part != Part::Main) else { return };
    let (now, none) = (Value::from(now.to_string()), Object::new());
    let old = old.object("status").unwrap_or(&none);
    for condition in request.object_or_new("status").items_mut("conditions") {
        condition.set_if_absent("lastUpdateTime", now.clone());
        let same = |field: &str, other: &Object| other.text(field) == condition.text(field);
        let mut stored = old.items("conditions").filter(|other| same("type", other) && same("status", other));
        let since = stored.find_map(|other| other.get("lastTransitionTime").filter(|time| !time.is_null()));
        let since = since.unwrap_or(&now).clone();
        condition.set_if_absent("lastTransitionTime", since);
    }
}

/// Keeps the conditions of a kind as they were, where there are as many.
fn keep(kind: &str, status: &mut Object, old: &Object) {
    let of_kind = |condition: &&Object| condition.text("type") == kind;
    let stored: Vec<&Object> = old.items("conditions").filter(of_kind).collect();
    if status.items("conditions").filter(of_kind).count() != stored.len() {
        return;
    }
    let places = status.items_mut("conditions").filter(|condition| condition.text("type") == kind);
    for (place, stored) in places.zip(stored) {
        place.clone_from(stored);
    }
}

/// What has become of a request, in a word or more.
fn condition(request: &Object) -> String {
    let none = Object::new();
    let status = request.object("status").unwrap_or(&none);
    let has = |kind: &str| status.items("conditions").any(|condition| condition.text("type") == kind);
    let decided = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        _ => "Pending",
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if status.text("certificate").is_empty() { "" } else { ",Issued" };
    format!("{decided}{failed}{issued}")
}
