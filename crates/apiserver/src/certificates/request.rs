//! Requests for certificates (PKCS #10): read, and their signatures checked, in the reference's words.

#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a reader of one lifetime is asked for, methods have two"
)]

use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use yasna::models::ObjectIdentifier;
use yasna::{ASN1Result, Tag};

use super::pem;
use super::x509::{ALTERNATIVE_NAMES, AlternativeNames, Name, alternative_names, components, extensions, name};

/// `extensionRequest`
const EXTENSIONS: &[u64] = &[1, 2, 840, 113_549, 1, 9, 14];

const ECDSA_SHA256: &[u64] = &[1, 2, 840, 10045, 4, 3, 2];
const ECDSA_SHA384: &[u64] = &[1, 2, 840, 10045, 4, 3, 3];
const RSA_SHA256: &[u64] = &[1, 2, 840, 113_549, 1, 1, 11];
const RSA_SHA384: &[u64] = &[1, 2, 840, 113_549, 1, 1, 12];
const RSA_SHA512: &[u64] = &[1, 2, 840, 113_549, 1, 1, 13];
const ED25519: &[u64] = &[1, 3, 101, 112];
const P256: &[u64] = &[1, 2, 840, 10045, 3, 1, 7];
const P384: &[u64] = &[1, 3, 132, 0, 34];

/// A request for a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Who asks.
    pub subject: Name,
    /// The subject's other names.
    pub names: AlternativeNames,
    /// The value of the extension that has them.
    pub(super) names_der: Option<Vec<u8>>,
    /// The `SubjectPublicKeyInfo`.
    pub(super) key: Vec<u8>,
    /// The key itself.
    pub(super) key_bits: Vec<u8>,
    /// The curve of the key, where it has one.
    curve: Vec<u64>,
    /// What is signed.
    info: Vec<u8>,
    algorithm: Vec<u64>,
    signature: Vec<u8>,
}

impl Request {
    /// Reads the first block of PEM.
    ///
    /// # Errors
    /// What is wrong, as Go says it.
    pub fn from_pem(text: &str) -> Result<Self, String> {
        let block = pem::first(text).map(|(block, _)| block).filter(|block| block.label == "CERTIFICATE REQUEST");
        let block = block.ok_or("PEM block type must be CERTIFICATE REQUEST")?;
        check_outline(&block.bytes)?;
        // What is wrong within is not told as exactly.
        read(&block.bytes).map_err(|_| "asn1: structure error: the request is malformed".to_owned())
    }

    /// Checks that whoever asks has the key.
    ///
    /// # Errors
    /// What is wrong, as Go says it.
    pub fn check_signature(&self) -> Result<(), String> {
        let (algorithm, wrong): (&dyn VerificationAlgorithm, _) = match (&*self.algorithm, &*self.curve) {
            (ECDSA_SHA256, P256) => (&signature::ECDSA_P256_SHA256_ASN1, ECDSA_WRONG),
            (ECDSA_SHA384, P256) => (&signature::ECDSA_P256_SHA384_ASN1, ECDSA_WRONG),
            (ECDSA_SHA256, P384) => (&signature::ECDSA_P384_SHA256_ASN1, ECDSA_WRONG),
            (ECDSA_SHA384, P384) => (&signature::ECDSA_P384_SHA384_ASN1, ECDSA_WRONG),
            (RSA_SHA256, _) => (&signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, RSA_WRONG),
            (RSA_SHA384, _) => (&signature::RSA_PKCS1_2048_8192_SHA384, RSA_WRONG),
            (RSA_SHA512, _) => (&signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY, RSA_WRONG),
            (ED25519, _) => (&signature::ED25519, "x509: Ed25519 verification failure"),
            _ => return Err("x509: cannot verify signature: algorithm unimplemented".to_owned()),
        };
        let key = UnparsedPublicKey::new(algorithm, &self.key_bits);
        key.verify(&self.info, &self.signature).map_err(|_| wrong.to_owned())
    }
}

const ECDSA_WRONG: &str = "x509: ECDSA verification failure";
const RSA_WRONG: &str = "crypto/rsa: verification error";

/// Checks that the bytes are one sequence and nothing else.
fn check_outline(der: &[u8]) -> Result<(), String> {
    let syntax = |what: &str| Err(format!("asn1: syntax error: {what}"));
    let [first, rest @ ..] = der else { return syntax("sequence truncated") };
    let (length, content) = match rest {
        [] => return syntax("truncated tag or length"),
        [short @ ..0x80, rest @ ..] => (usize::from(*short), rest),
        [long, rest @ ..] => {
            let count = usize::from(long & 0x7f);
            let Some((digits, rest)) = rest.split_at_checked(count).filter(|_| (1..=4).contains(&count)) else {
                return syntax("truncated tag or length");
            };
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
    };
    if *first != 0x30 {
        let (class, tag, compound) = (first >> 6, first & 0x1f, first & 0x20 != 0);
        return Err(format!(
            "asn1: structure error: tags don't match (16 vs {{class:{class} tag:{tag} length:{length} isCompound:{compound}}}) {{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false}} certificateRequest @{}",
            der.len() - content.len(),
        ));
    }
    match (content.len().checked_sub(length), length) {
        (None, _) => syntax("data truncated"),
        (Some(_), 0) => syntax("sequence truncated"),
        (Some(0), _) => Ok(()),
        (Some(_), _) => syntax("trailing data"),
    }
}

fn read(der: &[u8]) -> ASN1Result<Request> {
    yasna::parse_der(der, |reader| {
        reader.read_sequence(|reader| {
            let info = reader.next().read_der()?;
            let algorithm = reader.next().read_sequence(|reader| {
                let algorithm = reader.next().read_oid()?;
                reader.read_optional(|reader| reader.read_der())?;
                Ok(components(&algorithm))
            })?;
            let (signature, _) = reader.next().read_bitvec_bytes()?;
            let asked = read_info(&info)?;
            Ok(Request { info, algorithm, signature, ..asked })
        })
    })
}

fn read_info(der: &[u8]) -> ASN1Result<Request> {
    yasna::parse_der(der, |reader| {
        reader.read_sequence(|reader| {
            reader.next().read_i64()?;
            let subject = name(reader.next())?;
            let key = reader.next().read_der()?;
            let (curve, key_bits) = read_key(&key)?;
            let mut names_der = None;
            reader.read_optional(|reader| {
                reader.read_tagged_implicit(Tag::context(0), |reader| {
                    reader.read_set_of(|reader| {
                        reader.read_sequence(|reader| {
                            let kind = components(&reader.next().read_oid()?);
                            reader.next().read_set_of(|reader| {
                                if kind != EXTENSIONS {
                                    return reader.read_der().map(drop);
                                }
                                let found = extensions(reader)?.into_iter().find(|(kind, _)| kind == ALTERNATIVE_NAMES);
                                names_der = found.map(|(_, value)| value).or(names_der.take());
                                Ok(())
                            })
                        })
                    })
                })
            })?;
            let names = names_der.as_deref().map(alternative_names).transpose()?.unwrap_or_default();
            let (info, algorithm, signature) = (Vec::new(), Vec::new(), Vec::new());
            Ok(Request { subject, names, names_der, key, key_bits, curve, info, algorithm, signature })
        })
    })
}

/// The curve and the bits of a `SubjectPublicKeyInfo`.
fn read_key(der: &[u8]) -> ASN1Result<(Vec<u64>, Vec<u8>)> {
    yasna::parse_der(der, |reader| {
        reader.read_sequence(|reader| {
            let parameters = reader.next().read_sequence(|reader| {
                reader.next().read_oid()?;
                reader.read_optional(|reader| reader.read_der())
            })?;
            let (bits, _) = reader.next().read_bitvec_bytes()?;
            let curve = parameters.and_then(|der| yasna::parse_der(&der, |reader| reader.read_oid()).ok());
            Ok((curve.as_ref().map(ObjectIdentifier::components).cloned().unwrap_or_default(), bits))
        })
    })
}
