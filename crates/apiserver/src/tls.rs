//! The server's certificates: an authority made at start, and a certificate that it signs (API-01).

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

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

/// An authority, and a server certificate by it.
#[derive(Debug, Clone)]
pub struct Tls {
    ca_pem: String,
    config: Arc<ServerConfig>,
}

impl Tls {
    /// Makes both, for `localhost`, the loopback addresses, the names that a cluster's clients use, and `addresses`.
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
        let Made { authority, certificate, key } = Made::for_addresses(addresses)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = server_config(vec![certificate.der().clone()], key, only_1_3)?;
        Ok(Self { ca_pem: authority, config })
    }

    /// Makes both as [`Tls::generate`] does, to be kept in files: PEM of the certificate followed by that of its
    /// authority, which is what clients trust, and PEM of the certificate's key. That of the authority is forgotten.
    ///
    /// # Errors
    /// As [`Tls::generate`].
    pub fn generate_pem(addresses: &[IpAddr]) -> Result<(String, String), TlsError> {
        let Made { authority, certificate, key } = Made::for_addresses(addresses)?;
        Ok((format!("{}{authority}", certificate.pem()), key.serialize_pem()))
    }
    /// A certificate that was made elsewhere: its PEM, followed by those of the authorities between, and the PEM of
    /// its key. Of TLS, versions from 1.2 up are spoken, or 1.3 alone where `only_1_3` says so.
    ///
    /// # Errors
    /// [`TlsError`] where a PEM holds nothing of its kind, or the key is not the certificate's.
    pub fn from_pem(certificates: &[u8], key: &[u8], only_1_3: bool) -> Result<Self, TlsError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<_, _>>()
            .map_err(|source| TlsError::Pem { what: "the certificate", source })?;
        if chain.is_empty() {
            return Err(TlsError::Pem { what: "the certificate", source: rustls::pki_types::pem::Error::NoItemsFound });
        }
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|source| TlsError::Pem { what: "the private key", source })?;
        let config = server_config(chain, key, only_1_3)?;
        Ok(Self { ca_pem: String::from_utf8_lossy(certificates).into_owned(), config })
    }

    /// The authority's certificate, for clients to trust.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

/// A certificate that was made here.
struct Made {
    /// The authority's certificate, as PEM.
    authority: String,
    certificate: Certificate,
    key: KeyPair,
}

impl Made {
    fn for_addresses(addresses: &[IpAddr]) -> Result<Self, TlsError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "muster-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

        let mut names: Vec<String> =
            ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
                .map(str::to_owned)
                .to_vec();
        for address in addresses.iter().filter(|a| !a.is_unspecified()) {
            let text = address.to_string();
            if !names.contains(&text) {
                names.push(text);
            }
        }
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "muster-apiserver");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &authority)?;
        Ok(Self { authority: authority.pem(), certificate, key })
    }
}

/// The certificates in a PEM, as DER.
///
/// # Errors
/// [`TlsError::Pem`] where it cannot be read.
pub fn certificates_der(pem: &[u8]) -> Result<Vec<Vec<u8>>, TlsError> {
    let certificates = CertificateDer::pem_slice_iter(pem).map(|certificate| Ok(certificate?.to_vec()));
    certificates.collect::<Result<_, _>>().map_err(|source| TlsError::Pem { what: "the certificates", source })
}

fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    only_1_3: bool,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let versions: &[_] = if only_1_3 { &[&rustls::version::TLS13] } else { rustls::ALL_VERSIONS };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A bearer token from the system's randomness.
///
/// # Errors
/// When the system has none.
pub fn random_token() -> io::Result<String> {
    use base64::Engine as _;
    use rand::TryRngCore as _;
    let mut bytes = [0_u8; 32];
    rand::rngs::OsRng.try_fill_bytes(&mut bytes).map_err(io::Error::other)?;
    Ok(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
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
