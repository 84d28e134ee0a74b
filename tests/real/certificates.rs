//! The certificates of a control plane: an authority, the server's, and one for each user.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// The names and addresses that clients reach the server by.
const SERVER: &[&str] = &["localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// An authority whose certificates lie in a folder.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

/// The files of a certificate and its key, in PEM.
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    /// A new authority. The folder must be there.
    pub(crate) fn new(folder: &Path) -> Self {
        let mut params = named("real-test-ca", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().expect("a key pair");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate of its own");
        fs::write(folder.join("ca.crt"), issuer.pem()).expect("the authority's certificate is written");
        Self { issuer, folder: folder.to_owned() }
    }

    /// The file with the authority's own certificate.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// A certificate for the server on loopback.
    pub(crate) fn server(&self) -> Pair {
        let mut params = named("kube-apiserver", None);
        let names: Vec<String> = SERVER.iter().map(|name| (*name).to_owned()).collect();
        params.subject_alt_names = CertificateParams::new(names).expect("names and addresses").subject_alt_names;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign("server", &params)
    }

    /// A certificate that says to be this user, a member of this group.
    pub(crate) fn client(&self, user: &str, group: &str) -> Pair {
        let mut params = named(user, Some(group));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&format!("client-{user}"), &params)
    }

    /// The keys by which ServiceAccount tokens are signed and checked: the private one, and the public one.
    pub(crate) fn service_account_keys(&self) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().expect("a key pair");
        let (private, public) = (self.folder.join("service-account.key"), self.folder.join("service-account.pub"));
        fs::write(&private, key.serialize_pem()).expect("a key is written");
        fs::write(&public, key.public_key_pem()).expect("a key is written");
        (private, public)
    }

    fn sign(&self, file: &str, params: &CertificateParams) -> Pair {
        let key = KeyPair::generate().expect("a key pair");
        let signed = params.signed_by(&key, &self.issuer).expect("the authority signs");
        let pair =
            Pair { certificate: self.folder.join(format!("{file}.crt")), key: self.folder.join(format!("{file}.key")) };
        fs::write(&pair.certificate, signed.pem()).expect("a certificate is written");
        fs::write(&pair.key, key.serialize_pem()).expect("a key is written");
        pair
    }
}

/// Of a subject, the common name is the user and the organization a group.
fn named(name: &str, group: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params
}
