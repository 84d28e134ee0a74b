//! Keys of tokens: those that sign, those that are only accepted, and how both are read from PEM.
//!
//! ECDSA over P-256 (`ES256`) and P-384 (`ES384`), and RSA from 2,048 bits up (`RS256`), as the reference names and
//! chooses them by the key.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use muster_tree::{Value, json};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
    ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair as _, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey, VerificationAlgorithm,
};
use yasna::models::ObjectIdentifier;
use yasna::{ASN1Error, ASN1ErrorKind, ASN1Result};

use crate::certificates::{pem, x509};

/// `id-ecPublicKey`
const EC: &[u64] = &[1, 2, 840, 10045, 2, 1];
/// `secp256r1`
const P256: &[u64] = &[1, 2, 840, 10045, 3, 1, 7];
/// `secp384r1`
const P384: &[u64] = &[1, 3, 132, 0, 34];
/// `rsaEncryption`
const RSA: &[u64] = &[1, 2, 840, 113_549, 1, 1, 1];

/// Why there is no key in a PEM.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No block is a key of that sort, nor a certificate.
    #[error("expected PEM of {expected}, found {}", found(.labels))]
    Absent {
        /// What would have been one.
        expected: &'static str,
        /// The labels of the blocks that are there.
        labels: Vec<String>,
    },
    /// A block is broken, or a key of a kind that is not supported.
    #[error("{label}: {why}; supported are ECDSA over P-256 and P-384, and RSA of 2048 to 8192 bits")]
    Unusable {
        /// What the block says it is.
        label: String,
        /// Why it is none.
        why: String,
    },
}

fn found(labels: &[String]) -> String {
    if labels.is_empty() { "no PEM at all".to_owned() } else { labels.join(", ") }
}

/// The kinds of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Es256,
    Es384,
    Rs256,
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Rs256 => "RS256",
        }
    }

    fn verification(self) -> &'static dyn VerificationAlgorithm {
        match self {
            Self::Es256 => &ECDSA_P256_SHA256_FIXED,
            Self::Es384 => &ECDSA_P384_SHA384_FIXED,
            Self::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        }
    }
}

/// A key that tokens are verified by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    algorithm: Algorithm,
    /// An uncompressed point, or the modulus and exponent as PKCS #1.
    bytes: Vec<u8>,
    /// The name of the key in headers.
    id: String,
}

/// A key that signs tokens.
pub struct SigningKey {
    pair: Pair,
    public: PublicKey,
    random: SystemRandom,
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("public", &self.public).finish_non_exhaustive()
    }
}

impl PublicKey {
    /// All keys of a PEM: public ones, those of certificates, and the public halves of private ones.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn all_from_pem(text: &str) -> Result<Vec<Self>, KeyError> {
        let (mut keys, mut labels) = (Vec::new(), Vec::new());
        let mut rest = text;
        while let Some((block, after)) = pem::first(rest) {
            rest = after;
            let unusable = |why: String| KeyError::Unusable { label: block.label.to_owned(), why };
            let broken = |error: ASN1Error| unusable(error.to_string());
            match block.label {
                "PUBLIC KEY" => keys.push(Self::from_spki(&block.bytes).map_err(broken)?),
                "RSA PUBLIC KEY" => keys.push(Self::new(Algorithm::Rs256, block.bytes)),
                "CERTIFICATE" => {
                    let certificate = x509::certificate(&block.bytes).map_err(broken)?;
                    keys.push(Self::from_spki(&certificate.public_key).map_err(broken)?);
                }
                label => match SigningKey::from_block(label, &block.bytes) {
                    Some(key) => keys.push(key.map_err(unusable)?.public),
                    None => labels.push(label.to_owned()),
                },
            }
        }
        if keys.is_empty() {
            return Err(KeyError::Absent { expected: "a public key, a private key or a certificate", labels });
        }
        Ok(keys)
    }

    fn new(algorithm: Algorithm, bytes: Vec<u8>) -> Self {
        let id = URL_SAFE_NO_PAD.encode(digest(&SHA256, &spki(algorithm, &bytes)));
        Self { algorithm, bytes, id }
    }

    /// Reads a `SubjectPublicKeyInfo`.
    #[expect(clippy::redundant_closure_for_method_calls, reason = "a reader of any lifetime is asked for")]
    fn from_spki(der: &[u8]) -> ASN1Result<Self> {
        let other = || ASN1Error::new(ASN1ErrorKind::Invalid);
        let (algorithm, bytes) = yasna::parse_der(der, |reader| {
            reader.read_sequence(|reader| {
                let algorithm = reader.next().read_sequence(|reader| {
                    let kind = reader.next().read_oid()?;
                    let parameters = reader.next().read_der()?;
                    let kind = kind.components().as_slice();
                    if kind == RSA {
                        return Ok(Algorithm::Rs256);
                    }
                    let curve = yasna::parse_der(&parameters, |reader| reader.read_oid())?;
                    match (kind == EC, curve.components().as_slice()) {
                        (true, curve) if curve == P256 => Ok(Algorithm::Es256),
                        (true, curve) if curve == P384 => Ok(Algorithm::Es384),
                        _ => Err(other()),
                    }
                })?;
                Ok((algorithm, reader.next().read_bitvec_bytes()?.0))
            })
        })?;
        Ok(Self::new(algorithm, bytes))
    }

    /// What `alg` of a header names.
    #[must_use]
    pub fn algorithm(&self) -> &'static str {
        self.algorithm.name()
    }

    /// What `kid` of a header names.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether a signature of some bytes is by this key.
    #[must_use]
    pub fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(self.algorithm.verification(), &self.bytes).verify(signed, signature).is_ok()
    }

    /// The key as a JSON Web Key; `None` for one whose bytes are none.
    #[must_use]
    pub fn to_json(&self) -> Option<Value> {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let curve = match self.algorithm {
            Algorithm::Es256 => "P-256",
            Algorithm::Es384 => "P-384",
            Algorithm::Rs256 => {
                let numbers = yasna::parse_der(&self.bytes, |reader| {
                    reader.read_sequence(|reader| {
                        Ok((reader.next().read_bigint_bytes()?.0, reader.next().read_bigint_bytes()?.0))
                    })
                });
                let (modulus, exponent) = numbers.ok()?;
                let unsigned = |bytes: &[u8]| text(bytes.strip_prefix(&[0]).unwrap_or(bytes));
                let (n, e) = (unsigned(&modulus), unsigned(&exponent));
                return Some(json!({"use": "sig", "kty": "RSA", "kid": self.id, "alg": "RS256", "n": n, "e": e}));
            }
        };
        // An uncompressed point: a 4, and two numbers of the same length.
        let point = self.bytes.get(1..)?;
        let (x, y) = point.split_at_checked(point.len() / 2)?;
        let (x, y) = (text(x), text(y));
        Some(json!({
            "use": "sig", "kty": "EC", "kid": self.id, "crv": curve, "alg": self.algorithm(), "x": x, "y": y,
        }))
    }
}

impl SigningKey {
    /// A new key, ECDSA over P-256.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn generate() -> io::Result<Self> {
        Self::from_pkcs8(&Self::generate_pkcs8()?)
    }

    /// A new key, as PKCS #8 in DER.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn generate_pkcs8() -> io::Result<Vec<u8>> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        Ok(document.map_err(|_| io::Error::other("the system gives no randomness"))?.as_ref().to_vec())
    }

    /// A key that was made before, as PKCS #8 in DER.
    ///
    /// # Errors
    /// When it is none of a kind that is supported.
    pub fn from_pkcs8(der: &[u8]) -> io::Result<Self> {
        Self::from_block("PRIVATE KEY", der)
            .unwrap_or_else(|| Err("no private key".to_owned()))
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))
    }

    /// The first private key of a PEM, as PKCS #8, PKCS #1 or SEC 1.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let mut labels = Vec::new();
        let mut rest = text;
        while let Some((block, after)) = pem::first(rest) {
            rest = after;
            let label = block.label.to_owned();
            match Self::from_block(&label, &block.bytes) {
                Some(key) => return key.map_err(|why| KeyError::Unusable { label, why }),
                None => labels.push(label),
            }
        }
        Err(KeyError::Absent { expected: "a private key", labels })
    }

    /// Reads a block of PEM; `None` where its label is that of no private key.
    fn from_block(label: &str, der: &[u8]) -> Option<Result<Self, String>> {
        let rsa = |pair: Result<RsaKeyPair, ring::error::KeyRejected>| {
            let pair = pair.map_err(|error| error.to_string())?;
            let public = PublicKey::new(Algorithm::Rs256, pair.public_key().as_ref().to_vec());
            Ok(Self { pair: Pair::Rsa(pair), public, random: SystemRandom::new() })
        };
        match label {
            "PRIVATE KEY" => {
                let known = [Algorithm::Es256, Algorithm::Es384]
                    .into_iter()
                    .find_map(|algorithm| Self::ecdsa(algorithm, der).ok());
                Some(known.map_or_else(|| rsa(RsaKeyPair::from_pkcs8(der)), Ok))
            }
            "RSA PRIVATE KEY" => Some(rsa(RsaKeyPair::from_der(der))),
            "EC PRIVATE KEY" => {
                let (first, second) =
                    (Self::sec1(Algorithm::Es256, P256, der), Self::sec1(Algorithm::Es384, P384, der));
                Some(first.or(second).map_err(|error| error.to_string()))
            }
            _ => None,
        }
    }

    fn ecdsa(algorithm: Algorithm, pkcs8: &[u8]) -> Result<Self, ring::error::KeyRejected> {
        let signing: &'static EcdsaSigningAlgorithm = match algorithm {
            Algorithm::Es384 => &ECDSA_P384_SHA384_FIXED_SIGNING,
            _ => &ECDSA_P256_SHA256_FIXED_SIGNING,
        };
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(signing, pkcs8, &random)?;
        let public = PublicKey::new(algorithm, pair.public_key().as_ref().to_vec());
        Ok(Self { pair: Pair::Ecdsa(pair), public, random })
    }

    /// The older form of a key of a curve, which is the inner part of PKCS #8.
    fn sec1(algorithm: Algorithm, curve: &[u64], der: &[u8]) -> Result<Self, ring::error::KeyRejected> {
        let pkcs8 = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_u8(0);
                write_kind(writer.next(), Some(curve));
                writer.next().write_bytes(der);
            });
        });
        Self::ecdsa(algorithm, &pkcs8)
    }

    /// The half that verifies.
    #[must_use]
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs some bytes; `None` when the system has no randomness.
    #[must_use]
    pub fn sign_bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        match &self.pair {
            Pair::Ecdsa(pair) => Some(pair.sign(&self.random, bytes).ok()?.as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let padding: &'static dyn signature::RsaEncoding = &RSA_PKCS1_SHA256;
                pair.sign(padding, &self.random, bytes, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}

/// A public key as `SubjectPublicKeyInfo`, by whose digest keys are named.
fn spki(algorithm: Algorithm, bytes: &[u8]) -> Vec<u8> {
    yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            write_kind(
                writer.next(),
                match algorithm {
                    Algorithm::Es256 => Some(P256),
                    Algorithm::Es384 => Some(P384),
                    Algorithm::Rs256 => None,
                },
            );
            writer.next().write_bitvec_bytes(bytes, bytes.len() * 8);
        });
    })
}

/// The kind of a key: on a curve, or RSA.
fn write_kind(writer: yasna::DERWriter<'_>, curve: Option<&[u64]>) {
    writer.write_sequence(|writer| match curve {
        Some(curve) => {
            writer.next().write_oid(&ObjectIdentifier::from_slice(EC));
            writer.next().write_oid(&ObjectIdentifier::from_slice(curve));
        }
        None => {
            writer.next().write_oid(&ObjectIdentifier::from_slice(RSA));
            writer.next().write_null();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::jwt;
    use super::*;

    const RSA: &str = include_str!("../../../tests/keys/rsa.pem");
    const RSA_PUBLIC: &str = include_str!("../../../tests/keys/rsa-public.pem");
    const P256: &str = include_str!("../../../tests/keys/p256-sec1.pem");
    const P384: &str = include_str!("../../../tests/keys/p384.pem");
    const P384_PUBLIC: &str = include_str!("../../../tests/keys/p384-public.pem");

    /// The ids are digests that another program made of the same keys.
    ///
    /// Contract: API-36
    #[test]
    fn keys_of_every_form_sign_and_verify() {
        for (private, public, algorithm, id) in [
            (RSA, RSA_PUBLIC, "RS256", "ZsVXlJjMmTjvXAxGsUTXlZu50TCKxSD7O3-B4lXnK1M"),
            (
                include_str!("../../../tests/keys/rsa-pkcs1.pem"),
                RSA,
                "RS256",
                "ZsVXlJjMmTjvXAxGsUTXlZu50TCKxSD7O3-B4lXnK1M",
            ),
            (
                P256,
                include_str!("../../../tests/keys/p256.crt"),
                "ES256",
                "IEZ6jfRJtfKzjHMVg_cn_j2MYEbJVpkzsKGDBorUA0Y",
            ),
            (P384, P384_PUBLIC, "ES384", "cAFHlC-FX7Wx9zBlTYPPAMnHoUDcgQYPfEYoTSw5zUM"),
        ] {
            let key = SigningKey::from_pem(private).expect(algorithm);
            let keys = PublicKey::all_from_pem(public).expect(algorithm);
            assert_eq!(keys, [key.public().clone()], "{algorithm}");
            assert_eq!((keys[0].algorithm(), keys[0].id()), (algorithm, id));
            let signature = key.sign_bytes(b"text").expect("a signature");
            assert!(keys[0].verifies(b"text", &signature) && !keys[0].verifies(b"test", &signature), "{algorithm}");
            let told = keys[0].to_json().expect("a key");
            let members = if algorithm == "RS256" { ["n", "e"] } else { ["x", "y"] };
            let lengths = members
                .map(|member| URL_SAFE_NO_PAD.decode(told[member].as_str().expect("text")).expect("base64").len());
            let expected = match algorithm {
                "RS256" => [256, 3],
                "ES256" => [32, 32],
                _ => [48, 48],
            };
            assert_eq!(lengths, expected, "{algorithm}");
        }
    }

    /// Contract: API-36
    #[test]
    fn a_token_of_another_program_is_accepted_by_its_key() {
        let token = include_str!("../../../tests/keys/rs256.jwt").trim();
        let both = [P384_PUBLIC, RSA_PUBLIC].concat();
        let keys = PublicKey::all_from_pem(&both).expect("two keys");
        assert_eq!(keys.len(), 2);
        let claims = jwt::verify(&keys, token).expect("claims");
        assert_eq!(Value::Object(claims), json!({"sub": "a"}));
        assert_eq!(jwt::verify(&keys[..1], token), Err(jwt::Refused::Signature));
    }

    /// Contract: API-36
    #[test]
    fn what_is_no_key_is_told() {
        let told = |text: &str| (SigningKey::from_pem(text).err(), PublicKey::all_from_pem(text).err());
        let absent = |expected, labels: &[&str]| {
            Some(KeyError::Absent { expected, labels: labels.iter().map(|label| (*label).to_owned()).collect() })
        };
        let any = "a public key, a private key or a certificate";
        assert_eq!(told("nothing"), (absent("a private key", &[]), absent(any, &[])));
        assert_eq!(told(RSA_PUBLIC).0, absent("a private key", &["PUBLIC KEY"]));
        let curve = include_str!("../../../tests/keys/p521-sec1.pem");
        let (signing, accepted) = told(curve);
        for error in [signing, accepted] {
            let said = error.expect("not supported").to_string();
            assert!(said.starts_with("EC PRIVATE KEY: ") && said.contains("supported are ECDSA over P-256"), "{said}");
        }
    }
}
