//! The plugins `CertificateApproval`, `CertificateSigning` and `CertificateSubjectRestriction`: who may approve and sign
//! certificates, and which nobody can ask for (API-32).

use super::plugins::Plugin;
use crate::access::User;
use crate::access::attributes::ResourceAttributes;
use crate::field::go_quote;
use crate::model::{Fields as _, Object, Part, metadata};
use crate::registry::certificates::are_requests;
use crate::registry::{Registry, Served};
use crate::status::ApiError;
use crate::validation::certificates::parsed;

/// The signer of certificates that the server recognises users by.
const CLIENTS: &str = "kubernetes.io/kube-apiserver-client";

/// Refuses a request for a certificate of the group that may do anything.
pub(super) fn create(served: &Served, object: &Object) -> Result<(), ApiError> {
    let none = Object::new();
    let spec = object.object("spec").unwrap_or(&none);
    if !are_requests(served) || spec.text("signerName") != CLIENTS {
        return Ok(());
    }
    let refused = |why: String| ApiError::forbidden(served.group_resource(), metadata(object).text("name"), &why);
    let request = parsed(spec.text("request")).map_err(|why| refused(format!("failed to parse CSR: {why}")))?;
    if request.subject.organizations().iter().any(|group| group == "system:masters") {
        return Err(refused(format!("use of {CLIENTS} signer with system:masters group is not allowed")));
    }
    Ok(())
}

/// Refuses an approval or a signature of somebody who may not for this signer.
pub(super) fn update(
    registry: &Registry,
    served: &Served,
    part: Part,
    object: &Object,
    live: &Object,
    user: &User,
) -> Result<(), ApiError> {
    if !are_requests(served) {
        return Ok(());
    }
    let status = |object: &Object, field: &str| object.object("status").and_then(|status| status.get(field)).cloned();
    let changes = |field: &str| status(object, field) != status(live, field);
    let (verb, plugin) = match part {
        Part::Approval => ("approve", Plugin::CertificateApproval),
        Part::Status if changes("certificate") || changes("conditions") => ("sign", Plugin::CertificateSigning),
        _ => return Ok(()),
    };
    if !registry.settings.plugins.run(plugin) {
        return Ok(());
    }
    let signer = live.object("spec").map(|spec| spec.text("signerName")).unwrap_or_default();
    let all = format!("{}/*", signer.split('/').next().unwrap_or_default());
    let may = |name: &str| {
        let (group, resource) = ("certificates.k8s.io", "signers");
        let asked = ResourceAttributes { verb: verb.into(), group, resource, name, ..ResourceAttributes::default() };
        registry.authorizer.allows(user, asked)
    };
    if may(signer) || may(&all) {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {}", go_quote(signer));
    Err(ApiError::forbidden(served.group_resource(), metadata(object).text("name"), &why))
}
