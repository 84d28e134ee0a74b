//! Certificate signing requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Errors, Path, domain};
use crate::certificates::{Request, authority, pem, x509};
use crate::field::{FieldError, Shown};
use crate::model::{Fields as _, Object, Part};

/// A signer that only older versions let requests name.
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
/// The shortest time that a certificate can be asked for, in seconds.
const SHORTEST: i64 = 600;

/// Conditions that are true where they are there, and are never taken away.
const LASTING: [&str; 3] = ["Approved", "Denied", "Failed"];
/// Conditions that only `/approval` writes.
const APPROVALS: [&str; 2] = ["Approved", "Denied"];

/// Checks a request, and for an update what it changes; what is wrong with the old one is let be.
pub fn validate(part: Part, request: &Object, old: Option<&Object>, errors: &mut Errors) {
    let none = Object::new();
    let spec = request.object("spec").unwrap_or(&none);
    let old_spec = old.and_then(|old| old.object("spec"));
    validate_spec(spec, old_spec, errors);
    let status = request.object("status").unwrap_or(&none);
    let old_status = old.map(|old| old.object("status").unwrap_or(&none));
    validate_conditions(status, old_status, errors);
    let certificate = status.text("certificate");
    let path = Path::new("status");
    let path = path.child("certificate");
    let stored = old_status.map(|old| old.text("certificate"));
    let tolerated = stored.is_some_and(|stored| stored == certificate || check_certificate(stored).is_err());
    if let Err(why) = check_certificate(certificate)
        && !tolerated
    {
        errors.push(FieldError::invalid(path, "<certificate data>", why));
    }

    let Some(old_status) = old_status else { return };
    let count = |status: &Object, kind: &str| status.items("conditions").filter(|c| c.text("type") == kind).count();
    let conditions = Path::new("status");
    let conditions = conditions.child("conditions");
    for kind in LASTING {
        if count(status, kind) < count(old_status, kind) {
            let why = format!("updates may not remove a condition of type \"{kind}\"");
            errors.push(FieldError::forbidden(conditions, why));
        }
    }
    for kind in APPROVALS.into_iter().filter(|_| part != Part::Approval) {
        if count(status, kind) > count(old_status, kind) {
            let why = format!("updates may not add a condition of type \"{kind}\"");
            errors.push(FieldError::forbidden(conditions, why));
        }
    }
    let stored = old_status.text("certificate");
    if certificate != stored {
        if part != Part::Status {
            errors.push(FieldError::forbidden(path, "updates may not set certificate content"));
        } else if !stored.is_empty() {
            errors.push(FieldError::forbidden(path, "updates may not modify existing certificate content"));
        }
    }
}

fn validate_spec(spec: &Object, old: Option<&Object>, errors: &mut Errors) {
    let spec_path = Path::new("spec");
    let request = spec.text("request");
    if let Err(why) = parsed(request).and_then(|request| request.check_signature()) {
        let shown = match spec.maybe_text("request") {
            None => Shown::Bare("null".to_owned()),
            Some(request) => request.into(),
        };
        errors.push(FieldError::invalid(spec_path.child("request"), shown, why));
    }
    let usages: Vec<&str> = spec.strings("usages").collect();
    let known = authority::usages();
    let unknown = |spec: &Object| spec.strings("usages").any(|usage| !known.contains(usage));
    let twice = |usages: &[&str], at: usize| usages[..at].contains(&usages[at]);
    let doubled = |spec: &Object| {
        let usages: Vec<&str> = spec.strings("usages").collect();
        (0..usages.len()).any(|at| twice(&usages, at))
    };
    let path = spec_path.child("usages");
    if usages.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    if !old.is_some_and(unknown) {
        let names: Vec<&str> = known.iter().copied().collect();
        let wrong = usages.iter().enumerate().filter(|(_, usage)| !known.contains(*usage));
        errors.extend(wrong.map(|(at, usage)| FieldError::not_supported(path.index(at), *usage, &names)));
    }
    if !old.is_some_and(doubled) {
        let again = usages.iter().enumerate().filter(|(at, _)| twice(&usages, *at));
        errors.extend(again.map(|(at, usage)| FieldError::duplicate(path.index(at), *usage)));
    }
    let (signer, path) = (spec.text("signerName"), spec_path.child("signerName"));
    if signer == LEGACY_SIGNER && old.is_none_or(|old| old.text("signerName") != LEGACY_SIGNER) {
        errors.push(FieldError::invalid(path, signer, "the legacy signerName is not allowed via this API version"));
    } else {
        domain::validate_signer_name(signer, &path, errors);
    }
    if let Some(seconds) = spec.maybe_int("expirationSeconds").filter(|seconds| *seconds < SHORTEST) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid(spec_path.child("expirationSeconds"), seconds, why));
    }
}

fn validate_conditions(status: &Object, old: Option<&Object>, errors: &mut Errors) {
    let path = Path::new("status");
    let path = path.child("conditions");
    let types = |status: &Object| -> Vec<String> {
        status.items("conditions").map(|condition| condition.text("type").to_owned()).collect()
    };
    let stored = old.map(types).unwrap_or_default();
    let has = |types: &[String], kind: &str| types.iter().any(|own| own == kind);
    let both = APPROVALS.iter().all(|kind| has(&stored, kind));
    let doubled = stored.iter().enumerate().any(|(at, kind)| stored[..at].contains(kind));
    let mut seen: Vec<&str> = Vec::new();
    for (index, condition) in status.items("conditions").enumerate() {
        let at = path.index(index);
        let (kind, value) = (condition.text("type"), condition.text("status"));
        if kind.is_empty() && !has(&stored, "") {
            errors.push(FieldError::required(at.child("type"), ""));
        }
        let values: &[&str] = if LASTING.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        if value.is_empty() {
            errors.push(FieldError::required(at.child("status"), ""));
        } else if !values.contains(&value) {
            errors.push(FieldError::not_supported(at.child("status"), value, values));
        }
        let other =
            APPROVALS.iter().find(|_| APPROVALS.contains(&kind)).map(|_| APPROVALS[usize::from(kind == "Approved")]);
        if !both && other.is_some_and(|other| seen.contains(&other)) {
            errors.push(FieldError::invalid(path, kind, "Approved and Denied conditions are mutually exclusive"));
        }
        if !doubled && seen.contains(&kind) {
            errors.push(FieldError::duplicate(at.child("type"), kind));
        }
        seen.push(kind);
    }
}

/// The request that `spec.request` holds.
///
/// # Errors
/// What is wrong with it, as Go says it.
pub fn parsed(request: &str) -> Result<Request, String> {
    let text = STANDARD.decode(request).unwrap_or_default();
    Request::from_pem(&String::from_utf8_lossy(&text))
}

/// Checks what `status.certificate` holds, where it holds anything.
fn check_certificate(certificate: &str) -> Result<(), String> {
    if certificate.is_empty() {
        return Ok(());
    }
    let text = STANDARD.decode(certificate).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let (mut rest, mut blocks) = (&*text, 0);
    while let Some((block, after)) = pem::first(rest) {
        if block.label != "CERTIFICATE" {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found \"{}\"", block.label));
        }
        if block.headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        if block.bytes.is_empty() {
            return Err("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        x509::certificate(&block.bytes).map_err(|_| "x509: malformed certificate".to_owned())?;
        (rest, blocks) = (after, blocks + 1);
    }
    if blocks == 0 { Err("must contain at least one CERTIFICATE PEM block".to_owned()) } else { Ok(()) }
}
