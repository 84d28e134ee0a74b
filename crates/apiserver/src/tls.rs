//! The server's certificates: an authority made at start, and a certificate that it signs (API-01).

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// What can go wrong in making certificates.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate or key could not be made.
    #[error("cannot make the server's certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS refused them.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
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

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
            )?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { ca_pem: authority.pem(), config: Arc::new(config) })
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
