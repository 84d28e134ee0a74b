//! The plugins `CertificateApproval`, `CertificateSigning` and `CertificateSubjectRestriction`: who may approve and sign
//! certificates, and which nobody can ask for (API-32).

use super::Write;
use crate::access::attributes::ResourceAttributes;
use crate::field::go_quote;
use crate::model::{Fields as _, Object, metadata};
use crate::status::ApiError;
use crate::validation::certificates::parsed;

/// The signer of certificates that the server recognises users by.
const CLIENTS: &str = "kubernetes.io/kube-apiserver-client";

/// Refuses a request for a certificate of the group that may do anything.
pub(super) fn create(write: &Write<'_>, object: &Object) -> Result<(), ApiError> {
    let spec = object.part("spec");
    if spec.text("signerName") != CLIENTS {
        return Ok(());
    }
    let refused = |why: String| write.forbidden(metadata(object).text("name"), &why);
    let request = parsed(spec.text("request")).map_err(|why| refused(format!("failed to parse CSR: {why}")))?;
    if request.subject.organizations().iter().any(|group| group == "system:masters") {
        return Err(refused(format!("use of {CLIENTS} signer with system:masters group is not allowed")));
    }
    Ok(())
}

/// Refuses an approval of somebody who may not for this signer.
pub(super) fn approve(write: &Write<'_>, object: &Object) -> Result<(), ApiError> {
    permit(write, object, "approve")
}

/// Refuses a signature of somebody who may not for this signer.
pub(super) fn sign(write: &Write<'_>, object: &Object) -> Result<(), ApiError> {
    let status = |object: &Object, field: &str| object.part("status").get(field).cloned();
    let changes = |field: &str| status(object, field) != write.live.and_then(|live| status(live, field));
    if changes("certificate") || changes("conditions") { permit(write, object, "sign") } else { Ok(()) }
}

fn permit(write: &Write<'_>, object: &Object, verb: &str) -> Result<(), ApiError> {
    let signer = write.live.map(|live| live.part("spec").text("signerName")).unwrap_or_default();
    let all = format!("{}/*", signer.split('/').next().unwrap_or_default());
    let may = |name: &str| {
        let (group, resource) = ("certificates.k8s.io", "signers");
        let asked = ResourceAttributes { verb: verb.into(), group, resource, name, ..ResourceAttributes::default() };
        write.registry.authorizer.allows(write.user, asked)
    };
    if may(signer) || may(&all) {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {}", go_quote(signer));
    Err(write.forbidden(metadata(object).text("name"), &why))
}
