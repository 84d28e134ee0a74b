//! The cluster's authority: it signs the server's certificate, and the requests of users (API-01, API-32).

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use muster_objects::time::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData as _, SigningKey as _,
};
use rustls::pki_types::CertificateDer;
use yasna::models::ObjectIdentifier;
use yasna::tags::{TAG_GENERALIZEDTIME, TAG_UTCTIME};
use yasna::{DERWriter, DERWriterSeq, Tag};

use super::pem;
use super::request::Request;
use super::x509::{self, ALTERNATIVE_NAMES};

const ECDSA_SHA256: &[u64] = &[1, 2, 840, 10045, 4, 3, 2];
const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];
const BASIC_CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
const AUTHORITY_KEY_IDENTIFIER: &[u64] = &[2, 5, 29, 35];

/// The names of usages that are bits of `keyUsage`, with their places.
const BITS: [(&str, u16); 10] = [
    ("signing", 0),
    ("digital signature", 0),
    ("content commitment", 1),
    ("key encipherment", 2),
    ("data encipherment", 3),
    ("key agreement", 4),
    ("cert sign", 5),
    ("crl sign", 6),
    ("encipher only", 7),
    ("decipher only", 8),
];

/// Where most purposes of `extKeyUsage` are.
const PURPOSE: [u64; 8] = [1, 3, 6, 1, 5, 5, 7, 3];

/// The names of usages that are purposes of `extKeyUsage`, in Go's order: the last number below [`PURPOSE`], or all of it.
const PURPOSES: [(&str, &[u64]); 13] = [
    ("any", &[2, 5, 29, 37, 0]),
    ("server auth", &[1]),
    ("client auth", &[2]),
    ("code signing", &[3]),
    ("email protection", &[4]),
    ("s/mime", &[4]),
    ("ipsec end system", &[5]),
    ("ipsec tunnel", &[6]),
    ("ipsec user", &[7]),
    ("timestamping", &[8]),
    ("ocsp signing", &[9]),
    ("microsoft sgc", &[1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
    ("netscape sgc", &[2, 16, 840, 1, 113_730, 4, 1]),
];

/// Every usage that a request may name, sorted.
#[must_use]
pub fn usages() -> BTreeSet<&'static str> {
    BITS.iter().map(|(name, _)| *name).chain(PURPOSES.iter().map(|(name, _)| *name)).collect()
}

/// A key with a certificate that others trust.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    der: CertificateDer<'static>,
    pem: String,
    own: x509::Certificate,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("subject", &self.own.subject.common_name()).finish_non_exhaustive()
    }
}

/// Why a request was not signed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The request is none, or not signed by the key that is in it.
    #[error("{0}")]
    Request(String),
    /// The system has no randomness, or the cryptography fails.
    #[error("cannot sign: {0}")]
    Signing(#[from] rcgen::Error),
    /// The system has no randomness.
    #[error("cannot draw a serial number: {0}")]
    Serial(#[source] io::Error),
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// [`rcgen::Error`] when the system's randomness or the cryptography fails.
    pub fn generate() -> Result<Self, rcgen::Error> {
        let (params, key) = (Self::params()?, KeyPair::generate()?);
        let certificate = params.self_signed(&key)?;
        Self::of(certificate.der().clone(), certificate.pem(), Issuer::new(params, key))
    }

    /// One that was made before: its certificate and its key, as PEM.
    ///
    /// # Errors
    /// [`rcgen::Error`] where they are none, or do not belong together.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, rcgen::Error> {
        let (block, _) = pem::first(certificate).ok_or(rcgen::Error::CouldNotParseCertificate)?;
        let key = KeyPair::from_pem(key)?;
        let spki = key.subject_public_key_info();
        if !block.bytes.windows(spki.len()).any(|part| part == spki) {
            return Err(rcgen::Error::CouldNotParseKeyPair);
        }
        Self::of(CertificateDer::from(block.bytes), certificate.to_owned(), Issuer::new(Self::params()?, key))
    }

    fn of(der: CertificateDer<'static>, pem: String, issuer: Issuer<'static, KeyPair>) -> Result<Self, rcgen::Error> {
        let own = x509::certificate(&der).map_err(|_| rcgen::Error::CouldNotParseCertificate)?;
        Ok(Self { issuer, der, pem, own })
    }

    /// What the certificate of every one of them says.
    fn params() -> Result<CertificateParams, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "muster-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        Ok(params)
    }

    /// Its certificate, as PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.pem.clone()
    }

    /// Its key, as PEM.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Its certificate.
    #[must_use]
    pub fn der(&self) -> CertificateDer<'static> {
        self.der.clone()
    }

    /// A certificate for a server that is reached by `localhost`, the loopback addresses, the names that a cluster's
    /// clients use, and `addresses`; with its key.
    ///
    /// # Errors
    /// [`rcgen::Error`] when the system's randomness or the cryptography fails.
    pub fn sign_server(&self, addresses: &[IpAddr]) -> Result<(rcgen::Certificate, KeyPair), rcgen::Error> {
        let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        let of_the_service = ["", ".default", ".default.svc", ".default.svc.cluster.local"];
        names.extend(of_the_service.map(|domain| format!("kubernetes{domain}")));
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
        Ok((params.signed_by(&key, &self.issuer)?, key))
    }

    /// Signs a request (PEM): a certificate (PEM) for its subject, names and key, good between two times at most, and for
    /// what its usages say; names of usages that are none are left out. Nothing else of the request is taken over.
    ///
    /// # Errors
    /// [`SignError`].
    pub fn sign(&self, request: &str, usages: &[&str], from: Timestamp, until: Timestamp) -> Result<String, SignError> {
        let request = Request::from_pem(request).map_err(SignError::Request)?;
        request.check_signature().map_err(SignError::Request)?;
        let serial = serial().map_err(SignError::Serial)?;
        let until = until.min(self.own.until);
        let certificate = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_tagged(Tag::context(0), |writer| writer.write_u8(2));
                writer.next().write_bigint_bytes(&serial, true);
                write_algorithm(writer.next());
                writer.next().write_der(&self.own.subject.der);
                writer.next().write_sequence(|writer| {
                    write_time(writer.next(), from);
                    write_time(writer.next(), until);
                });
                writer.next().write_der(&request.subject.der);
                writer.next().write_der(&request.key);
                writer.next().write_tagged(Tag::context(3), |writer| {
                    writer.write_sequence(|writer| self.write_extensions(writer, &request, usages));
                });
            });
        });
        let signature = self.issuer.key().sign(&certificate)?;
        let whole = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_der(&certificate);
                write_algorithm(writer.next());
                writer.next().write_bitvec_bytes(&signature, signature.len() * 8);
            });
        });
        Ok(pem::write("CERTIFICATE", &whole))
    }

    fn write_extensions(&self, writer: &mut DERWriterSeq<'_>, request: &Request, usages: &[&str]) {
        let bits = BITS.iter().filter(|(name, _)| usages.contains(name));
        let bits = bits.fold(0_u16, |bits, (_, place)| bits | 0x8000 >> place);
        if bits != 0 {
            let length = 16 - bits.trailing_zeros() as usize;
            let bytes = bits.to_be_bytes();
            write_extension(writer, KEY_USAGE, true, |w| w.write_bitvec_bytes(&bytes[..length.div_ceil(8)], length));
        }
        let mut purposes: Vec<&[u64]> = Vec::new();
        for (name, purpose) in &PURPOSES {
            if usages.contains(name) && !purposes.contains(purpose) {
                purposes.push(purpose);
            }
        }
        if !purposes.is_empty() {
            write_extension(writer, EXTENDED_KEY_USAGE, false, |writer| {
                writer.write_sequence(|writer| {
                    for purpose in purposes {
                        let whole = if purpose.len() == 1 { [&PURPOSE, purpose].concat() } else { purpose.to_vec() };
                        writer.next().write_oid(&ObjectIdentifier::new(whole));
                    }
                });
            });
        }
        write_extension(writer, BASIC_CONSTRAINTS, true, |writer| writer.write_sequence(|_| ()));
        if let Some(own) = &self.own.key_identifier {
            write_extension(writer, AUTHORITY_KEY_IDENTIFIER, false, |writer| {
                writer.write_sequence(|writer| {
                    writer.next().write_tagged_implicit(Tag::context(0), |writer| writer.write_bytes(own));
                });
            });
        }
        if let Some(names) = &request.names_der {
            write_extension(writer, ALTERNATIVE_NAMES, false, |writer| writer.write_der(names));
        }
    }
}

fn write_extension(writer: &mut DERWriterSeq<'_>, kind: &[u64], critical: bool, value: impl FnOnce(DERWriter<'_>)) {
    writer.next().write_sequence(|writer| {
        writer.next().write_oid(&ObjectIdentifier::from_slice(kind));
        if critical {
            writer.next().write_bool(true);
        }
        writer.next().write_bytes(&yasna::construct_der(value));
    });
}

/// The algorithm of the authority's signatures.
fn write_algorithm(writer: DERWriter<'_>) {
    writer.write_sequence(|writer| writer.next().write_oid(&ObjectIdentifier::from_slice(ECDSA_SHA256)));
}

fn write_time(writer: DERWriter<'_>, time: Timestamp) {
    let text: String = time.to_string().chars().take(19).filter(char::is_ascii_digit).collect();
    // Years from 1950 to 2049 have two digits.
    let short = ("1950".."2050").contains(&&text[..4]);
    let (tag, text) = if short { (TAG_UTCTIME, &text[2..]) } else { (TAG_GENERALIZEDTIME, &*text) };
    writer.write_tagged_implicit(tag, |writer| writer.write_bytes(format!("{text}Z").as_bytes()));
}

fn serial() -> io::Result<[u8; 16]> {
    use rand::TryRngCore as _;
    let mut bytes = [0_u8; 16];
    rand::rngs::OsRng.try_fill_bytes(&mut bytes).map_err(io::Error::other)?;
    // Positive, and not 0.
    bytes[0] = bytes[0] & 0x7f | 1;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use rcgen::{DistinguishedName, DnValue};

    use super::*;

    fn request(names: &[&str]) -> (String, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let mut params =
            CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).expect("names");
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "devs");
        // A second organisation, which this library has no other way to say.
        params
            .distinguished_name
            .push(DnType::CustomDnType(vec![2, 5, 4, 10]), DnValue::PrintableString("ops".try_into().expect("text")));
        params.distinguished_name.push(DnType::CommonName, "alice");
        let request = params.serialize_request(&key).expect("a request");
        (request.pem().expect("PEM"), key)
    }

    /// Contract: API-32
    #[test]
    fn a_signed_request_is_a_certificate_of_its_subject_and_key() {
        let authority = Authority::generate().expect("an authority");
        let (text, _) = request(&["n1", "10.0.0.1"]);
        let asked = Request::from_pem(&text).expect("a request");
        assert_eq!(asked.check_signature(), Ok(()));
        assert_eq!(
            (asked.subject.organizations(), asked.subject.common_name()),
            (vec!["devs".to_owned(), "ops".to_owned()], "alice")
        );
        assert_eq!((asked.names.dns.clone(), asked.names.ip.clone()), (vec!["n1".to_owned()], vec![vec![10, 0, 0, 1]]));

        let at = Timestamp::from_seconds;
        let usages = ["client auth", "digital signature", "flying"];
        let signed = authority.sign(&text, &usages, at(1_800_000_000), at(1_800_003_600)).expect("a certificate");
        let (block, rest) = pem::first(&signed).expect("PEM");
        assert_eq!((block.label, rest), ("CERTIFICATE", ""));
        let found = x509::certificate(&block.bytes).expect("a certificate");
        assert_eq!((&found.subject, found.until), (&asked.subject, at(1_800_003_600)));
        let issuer = authority.own.key_identifier.as_deref().expect("an authority's key has one");
        assert!(block.bytes.windows(issuer.len()).any(|part| part == issuer), "it names the key that signed it");

        // Trusted for clients, not for servers, and only while it is good.
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority.der()).expect("a root");
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build();
        let verifier = verifier.expect("a verifier");
        let verify = |seconds: u64| {
            let now = rustls::pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
            verifier.verify_client_cert(&block.bytes.clone().into(), &[], now).is_ok()
        };
        assert_eq!([1_799_999_999, 1_800_000_001, 1_800_003_601].map(verify), [false, true, false]);
        let server = authority.sign(&text, &["server auth"], at(1_800_000_000), at(1_800_003_600)).expect("one");
        let server = pem::first(&server).expect("PEM").0.bytes;
        let now = rustls::pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_800_000_001));
        assert!(verifier.verify_client_cert(&server.into(), &[], now).is_err());
    }

    /// Contract: API-32
    #[test]
    fn what_is_no_request_is_told_in_gos_words() {
        let (text, _) = request(&[]);
        let der = pem::first(&text).expect("PEM").0.bytes;
        let said = |bytes: &[u8]| {
            let request = Request::from_pem(&pem::write("CERTIFICATE REQUEST", bytes));
            request.and_then(|request| request.check_signature()).err().unwrap_or_default()
        };
        assert_eq!(said(&der), "");
        assert_eq!(said(b""), "asn1: syntax error: sequence truncated");
        assert_eq!(said(&[0x30, 0]), "asn1: syntax error: sequence truncated");
        assert_eq!(said(&der[..50]), "asn1: syntax error: data truncated");
        assert_eq!(said(&[&*der, b"x"].concat()), "asn1: syntax error: trailing data");
        let parameters = "{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false} certificateRequest @2";
        assert_eq!(
            said(b"no request at all"),
            format!(
                "asn1: structure error: tags don't match (16 vs {{class:1 tag:14 length:111 isCompound:true}}) {parameters}"
            )
        );
        assert_eq!(
            said(&[2, 1, 5]),
            format!(
                "asn1: structure error: tags don't match (16 vs {{class:0 tag:2 length:1 isCompound:false}}) {parameters}"
            )
        );
        let mut forged = der.clone();
        let at = forged.windows(5).position(|part| part == b"alice").expect("the name");
        forged[at] ^= 1;
        assert_eq!(said(&forged), "x509: ECDSA verification failure");
        assert_eq!(Request::from_pem("no").map(|_| ()), Err("PEM block type must be CERTIFICATE REQUEST".to_owned()));
    }
}
