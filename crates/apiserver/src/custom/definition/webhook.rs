//! Where a webhook that converts may be.

use base64::Engine as _;
use muster_tree::Value;

use super::{ClientConfig, ServiceReference};
use crate::custom::Object;
use crate::custom::metadata::child;
use crate::field::FieldError;
use crate::validation::{Errors, Path, webhook};

/// What is wrong with the place of a webhook.
pub(super) fn validate(config: &ClientConfig, check_bundle: bool, path: &str, errors: &mut Errors) {
    match (&config.url, &config.service) {
        (Some(_), Some(_)) | (None, None) => {
            errors.push(FieldError::required(path, "exactly one of url or service is required"));
        }
        (Some(url), None) => webhook::validate_url(url, &Path::new(path).child("url"), errors),
        (None, Some(service)) => {
            webhook::validate_service(&object(service), &Path::new(path).child("service"), errors);
        }
    }
    if check_bundle && !config.ca_bundle.is_empty() && !bundle_is_valid(&config.ca_bundle) {
        let why = "unable to load root certificates: unable to parse bytes as PEM block";
        errors.push(FieldError::invalid(child(path, "caBundle"), config.ca_bundle.as_str(), why));
    }
}

/// As an object, which is what the checks read that webhooks of every sort share.
fn object(service: &ServiceReference) -> Object {
    let fields = [
        ("namespace", Value::from(service.namespace.as_str())),
        ("name", Value::from(service.name.as_str())),
        ("path", service.path.as_deref().map_or(Value::Null, Value::from)),
        ("port", Value::from(service.port)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Whether a bundle, in base64, holds certificates.
pub(super) fn bundle_is_valid(bundle: &str) -> bool {
    !certificates(bundle).is_empty()
}

/// The certificates, in DER, of a bundle in base64.
fn certificates(bundle: &str) -> Vec<Vec<u8>> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let base64 = base64::engine::general_purpose::STANDARD;
    let pem = base64.decode(bundle).unwrap_or_default();
    let text = std::str::from_utf8(&pem).unwrap_or_default();
    text.split(BEGIN)
        .skip(1)
        .filter_map(|part| {
            let body: String = part.split(END).next()?.split_whitespace().collect();
            base64.decode(body).ok()
        })
        .filter(|der| der.first() == Some(&0x30))
        .collect()
}
