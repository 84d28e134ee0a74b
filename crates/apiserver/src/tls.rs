//! TLS: the server's certificate, and those of its clients (API-01, API-32).

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};

use crate::access::User;
use crate::access::authentication::{Holder, with_group};
use crate::certificates::trust::Trust;
use crate::certificates::x509::Purpose;
use crate::certificates::{Authority, x509};

/// What can go wrong in making certificates.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate or key could not be made.
    #[error("cannot make the server's certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS refused them.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// A file's PEM holds no certificate, or no private key.
    #[error("{what}: {source}")]
    Pem {
        /// What was read.
        what: &'static str,
        /// Why it is none.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
}

/// A certificate for a server, and what its clients' are held against.
#[derive(Debug, Clone)]
pub struct Tls {
    ca_pem: Arc<str>,
    config: Arc<ServerConfig>,
    clients: Option<Arc<Clients>>,
}

impl Tls {
    /// A certificate by a new authority, for `localhost`, the loopback addresses, the names that a cluster's clients use,
    /// and `addresses`. Clients are not asked for theirs.
    ///
    /// # Errors
    /// [`TlsError`] when the system's randomness or the cryptography fails.
    pub fn generate(addresses: &[IpAddr]) -> Result<Self, TlsError> {
        Self::generate_speaking(addresses, false)
    }

    /// The same; of TLS, versions from 1.2 up are spoken, or 1.3 alone where `only_1_3` says so.
    ///
    /// # Errors
    /// As [`Tls::generate`].
    pub fn generate_speaking(addresses: &[IpAddr], only_1_3: bool) -> Result<Self, TlsError> {
        let authority = Authority::generate()?;
        let (certificate, key) = authority.sign_server(addresses)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = server_config(vec![certificate.der().clone()], key, only_1_3, None)?;
        Ok(Self { ca_pem: authority.pem().into(), config, clients: None })
    }

    /// A certificate by an authority, for the same names. Clients are asked for one, and may do without: whoever has one
    /// by the same authority is the user that it names.
    ///
    /// # Errors
    /// As [`Tls::generate`].
    pub fn signed_by(authority: &Authority, addresses: &[IpAddr]) -> Result<Self, TlsError> {
        let (certificate, key) = authority.sign_server(addresses)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let clients = Arc::new(Clients::of([authority.der()])?);
        let config = server_config(vec![certificate.der().clone()], key, false, Some(Arc::clone(&clients)))?;
        Ok(Self { ca_pem: authority.pem().into(), config, clients: Some(clients) })
    }

    /// Makes both as [`Tls::generate`] does, to be kept in files: PEM of the certificate followed by that of its
    /// authority, which is what clients trust, and PEM of the certificate's key. That of the authority is forgotten.
    ///
    /// # Errors
    /// As [`Tls::generate`].
    pub fn generate_pem(addresses: &[IpAddr]) -> Result<(String, String), TlsError> {
        let authority = Authority::generate()?;
        let (certificate, key) = authority.sign_server(addresses)?;
        Ok((format!("{}{}", certificate.pem(), authority.pem()), key.serialize_pem()))
    }

    /// A certificate that was made elsewhere: its PEM, followed by those of the authorities between, and the PEM of
    /// its key. Of TLS, versions from 1.2 up are spoken, or 1.3 alone where `only_1_3` says so. Clients are not asked for
    /// theirs.
    ///
    /// # Errors
    /// [`TlsError`] where a PEM holds nothing of its kind, or the key is not the certificate's.
    pub fn from_pem(certificates: &[u8], key: &[u8], only_1_3: bool) -> Result<Self, TlsError> {
        Self::of_pem(certificates, key, only_1_3, None)
    }

    /// The same, where clients are asked for a certificate, and may do without: whoever has one by an authority in the
    /// PEM of `authorities` is the user that it names.
    ///
    /// # Errors
    /// As [`Tls::from_pem`], and where no authority can be read.
    pub fn from_pem_for(certificates: &[u8], key: &[u8], only_1_3: bool, authorities: &[u8]) -> Result<Self, TlsError> {
        let authorities = pem_certificates(authorities, "the authorities of clients")?;
        Self::of_pem(certificates, key, only_1_3, Some(Arc::new(Clients::of(authorities)?)))
    }

    fn of_pem(
        certificates: &[u8],
        key: &[u8],
        only_1_3: bool,
        clients: Option<Arc<Clients>>,
    ) -> Result<Self, TlsError> {
        let chain = pem_certificates(certificates, "the certificate")?;
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|source| TlsError::Pem { what: "the private key", source })?;
        let config = server_config(chain, key, only_1_3, clients.clone())?;
        Ok(Self { ca_pem: String::from_utf8_lossy(certificates).into(), config, clients })
    }

    /// The authority's certificate, for clients to trust.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// Who holds the certificates that a client sent; `None` where it was not asked for any, or sent none.
    pub(crate) fn holder(&self, chain: Option<&[CertificateDer<'_>]>) -> Option<Holder> {
        let [own, between @ ..] = chain? else { return None };
        Some(self.clients.as_ref()?.holder(own, between))
    }
}

/// What certificates of clients are held against. The handshake takes any, whose key the client has; whose it is is
/// found afterwards, so that a wrong one is answered with 401.
#[derive(Debug)]
struct Clients {
    trust: Trust,
    /// Whose certificates are asked for.
    hints: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Clients {
    fn of(authorities: impl IntoIterator<Item = CertificateDer<'static>>) -> Result<Self, TlsError> {
        let provider = provider();
        let algorithms = provider.signature_verification_algorithms;
        let mut trust = Trust::new(provider);
        for authority in authorities {
            trust.add(authority)?;
        }
        Ok(Self { hints: trust.subjects(), trust, algorithms })
    }

    fn holder(&self, own: &CertificateDer<'_>, between: &[CertificateDer<'_>]) -> Holder {
        let Ok(certificate) = x509::certificate(own) else { return Holder::Refused };
        if self.trust.verify(own, between, Purpose::Client, UnixTime::now(), |_| Ok(())).is_err() {
            return Holder::Refused;
        }
        let uid = match certificate.subject.uids()[..] {
            [] => "",
            [uid] if !uid.is_empty() => uid,
            _ => return Holder::Refused,
        };
        let name = certificate.subject.common_name();
        if name.is_empty() {
            return Holder::Nobody;
        }
        let groups = certificate.subject.organizations();
        let user = User { name: name.to_owned(), uid: uid.to_owned(), groups, ..User::default() };
        Holder::Known { user: Arc::new(with_group(user.with_certificate(own))), until: certificate.until }
    }
}

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        false
    }
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }
    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }
    // Whoever shows a certificate that cannot be read, such as one of X.509 version 1, is nobody's holder: [`Trust::verify`]
    // reads it in the same way, and that is answered with 401 rather than by the end of the connection.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if ParsedCertificate::try_from(cert).is_err() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls12_signature(message, cert, signed, &self.algorithms)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if ParsedCertificate::try_from(cert).is_err() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(message, cert, signed, &self.algorithms)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The certificates in a PEM, as DER.
///
/// # Errors
/// [`TlsError::Pem`] where it cannot be read.
pub fn certificates_der(pem: &[u8]) -> Result<Vec<Vec<u8>>, TlsError> {
    let certificates = CertificateDer::pem_slice_iter(pem).map(|certificate| Ok(certificate?.to_vec()));
    certificates.collect::<Result<_, _>>().map_err(|source| TlsError::Pem { what: "the certificates", source })
}

/// One certificate of a PEM at least.
fn pem_certificates(pem: &[u8], what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if all.is_empty() => Err(TlsError::Pem { what, source: rustls::pki_types::pem::Error::NoItemsFound }),
        all => all.map_err(|source| TlsError::Pem { what, source }),
    }
}

fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    only_1_3: bool,
    clients: Option<Arc<Clients>>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let versions: &[_] = if only_1_3 { &[&rustls::version::TLS13] } else { rustls::ALL_VERSIONS };
    let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(versions)?;
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(clients),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    /// Contract: CM-06
    #[test]
    fn a_certificate_that_is_given_must_be_one_and_go_with_its_key() {
        let made = || {
            let key = KeyPair::generate().unwrap();
            let certificate = CertificateParams::new(vec!["muster".to_owned()]).unwrap().self_signed(&key).unwrap();
            (certificate.pem(), key.serialize_pem())
        };
        let ((certificate, key), (_, other)) = (made(), made());
        let tls = |certificate: &str, key: &str| Tls::from_pem(certificate.as_bytes(), key.as_bytes(), true);
        assert_eq!(tls(&certificate, &key).unwrap().ca_pem(), certificate);
        for (certificate, key, expected) in [
            (certificate.as_str(), other.as_str(), "cannot set up TLS"),
            (certificate.as_str(), "", "the private key: "),
            ("", key.as_str(), "the certificate: "),
            (key.as_str(), key.as_str(), "the certificate: "),
        ] {
            let error = tls(certificate, key).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
