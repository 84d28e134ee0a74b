//! TLS towards webhooks: whom they are trusted by, and what Go's client says of a certificate that it does not take.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use muster_objects::time::Timestamp;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, InvalidMessage, SignatureScheme};

use crate::certificates::trust::Trust;
use crate::certificates::x509::Purpose;

/// How a client speaks TLS that trusts some authorities, or those of the system.
///
/// # Errors
/// That the authorities cannot be read.
pub(super) fn config(authorities: Option<&[u8]>) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let trusted: Vec<_> = match authorities {
        Some(pem) => {
            let trusted: Vec<_> = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect();
            if trusted.is_empty() {
                return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
            }
            trusted
        }
        None => rustls_native_certs::load_native_certs().certs,
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .map_err(|error| error.to_string())?;
    let algorithms = provider.signature_verification_algorithms;
    let mut trust = Trust::new(provider);
    for certificate in trusted {
        // What cannot be read is passed over.
        let _ = trust.add(certificate);
    }
    let verifier = Arc::new(Verifier { trust, algorithms });
    Ok(Arc::new(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()))
}

/// Takes the certificates of servers that are trusted.
#[derive(Debug)]
struct Verifier {
    trust: Trust,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let names = |parsed: &ParsedCertificate<'_>| rustls::client::verify_server_name(parsed, name);
        self.trust.verify(certificate, intermediates, Purpose::Server, now, names)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// What went wrong in a handshake with a host.
pub(super) fn words(error: &io::Error, host: &str) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::InvalidCertificate(why)) => {
            format!("tls: failed to verify certificate: x509: {}", certificate_words(why, host))
        }
        Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        Some(Error::AlertReceived(alert)) => format!("remote error: tls: {}", spaced(&format!("{alert:?}"))),
        Some(other) => format!("tls: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None => format!("read tcp: read: {}", super::connect::system_words(error)),
    }
}

fn certificate_words(why: &CertificateError, host: &str) -> String {
    let invalid = |now: &UnixTime, word: &str, bound: &UnixTime| {
        let shown = |time: &UnixTime| Timestamp::from_seconds(i64::try_from(time.as_secs()).unwrap_or_default());
        format!("certificate has expired or is not yet valid: current time {} is {word} {}", shown(now), shown(bound))
    };
    match why {
        CertificateError::UnknownIssuer => "certificate signed by unknown authority".to_owned(),
        CertificateError::ExpiredContext { time, not_after } => invalid(time, "after", not_after),
        CertificateError::NotValidYetContext { time, not_before } => invalid(time, "before", not_before),
        CertificateError::NotValidForNameContext { presented, .. } => {
            let inside = |name: &String| -> Option<(bool, String)> {
                let (kind, rest) = name.split_once('(')?;
                let text = rest.strip_suffix(')')?.trim_matches('"').to_owned();
                Some((kind.contains("Ip"), text))
            };
            let is_address = host.parse::<IpAddr>().is_ok();
            let names: Vec<String> =
                presented.iter().filter_map(inside).filter(|(ip, _)| *ip == is_address).map(|(_, text)| text).collect();
            match (names.as_slice(), is_address) {
                ([], true) => {
                    format!("cannot validate certificate for {host} because it doesn't contain any IP SANs")
                }
                ([], false) => format!("certificate is not valid for any names, but wanted to match {host}"),
                (names, _) => format!("certificate is valid for {}, not {host}", names.join(", ")),
            }
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate specifies an incompatible key usage".to_owned()
        }
        other => other.to_string(),
    }
}

/// `HandshakeFailure` as `handshake failure`.
fn spaced(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push(' ');
        }
        out.extend(c.to_lowercase());
    }
    out
}
