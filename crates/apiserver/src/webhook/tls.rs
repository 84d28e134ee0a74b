//! TLS towards webhooks: whom they are trusted by, and what Go's client says of a certificate that it does not take.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::certificates::x509;
use muster_objects::time::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, InvalidMessage, RootCertStore, SignatureScheme,
};

/// How a client speaks TLS that trusts some authorities, or those of the system.
///
/// # Errors
/// That the authorities cannot be read.
pub(super) fn config(authorities: Option<&[u8]>) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    let mut trusted = Vec::new();
    match authorities {
        Some(pem) => {
            trusted.extend(CertificateDer::pem_slice_iter(pem).filter_map(Result::ok));
            if trusted.is_empty() {
                return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
            }
        }
        None => trusted.extend(rustls_native_certs::load_native_certs().certs),
    }
    roots.add_parsable_certificates(trusted.iter().cloned());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .map_err(|error| error.to_string())?;
    // Nobody is trusted where no authority can be read.
    let by_authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().ok();
    let verifier = Arc::new(Verifier { by_authorities, trusted });
    Ok(Arc::new(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()))
}

/// Takes what authorities have signed, and, as Go does, a certificate that is itself among the trusted ones.
struct Verifier {
    by_authorities: Option<Arc<WebPkiServerVerifier>>,
    trusted: Vec<CertificateDer<'static>>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("trusted", &self.trusted.len()).finish()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let Some(by_authorities) = &self.by_authorities else { return Err(unknown) };
        match by_authorities.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // An authority's own certificate is refused as a server's, and one of a server is no authority.
            Err(Error::InvalidCertificate(CertificateError::Other(_) | CertificateError::UnknownIssuer))
                if self.trusted.contains(certificate) =>
            {
                let parsed = ParsedCertificate::try_from(certificate)?;
                let own = x509::certificate(certificate).map_err(|_| CertificateError::BadEncoding)?;
                let seconds = u64::try_from(own.until.as_nanos() / 1_000_000_000).unwrap_or_default();
                if seconds < now.as_secs() {
                    let not_after = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
                    return Err(CertificateError::ExpiredContext { time: now, not_after }.into());
                }
                rustls::client::verify_server_name(&parsed, name)?;
                Ok(ServerCertVerified::assertion())
            }
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let Some(by_authorities) = &self.by_authorities else { return Err(Error::General("no authority".to_owned())) };
        by_authorities.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let Some(by_authorities) = &self.by_authorities else { return Err(Error::General("no authority".to_owned())) };
        by_authorities.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
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
