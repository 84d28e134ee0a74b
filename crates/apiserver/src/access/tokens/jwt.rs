//! JSON Web Tokens: claims between a header and a signature, as service accounts carry them.
//!
//! One kind of key (ECDSA over P-256, `ES256`) and one form (compact) is all that the server signs and accepts.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use serde_json::{Value, json};

use crate::model::{Fields as _, Object};

/// What stands before the point of a P-256 key in its `SubjectPublicKeyInfo`.
const SPKI: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// A key that signs tokens.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    /// The name of the key in headers.
    id: String,
    random: SystemRandom,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Why a token is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It is none.
    Malformed,
    /// It names another key.
    UnknownKey,
    /// Its signature is not by the key.
    Signature,
}

impl SigningKey {
    /// A new key.
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
    /// When it is none for ECDSA over P-256.
    pub fn from_pkcs8(der: &[u8]) -> io::Result<Self> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        let spki = [&SPKI, pair.public_key().as_ref()].concat();
        let id = URL_SAFE_NO_PAD.encode(digest(&SHA256, &spki));
        Ok(Self { pair, id, random })
    }

    /// A token with these claims; `None` when the system has no randomness.
    #[must_use]
    pub fn sign(&self, claims: &Object) -> Option<String> {
        let header = json!({"alg": "ES256", "kid": self.id}).to_string();
        let claims = Value::Object(claims.clone()).to_string();
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature = self.pair.sign(&self.random, signed.as_bytes()).ok()?;
        Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The claims of a token that this key signed.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn verify(&self, token: &str) -> Result<Object, Refused> {
        let (signed, signature) = token.rsplit_once('.').ok_or(Refused::Malformed)?;
        let (header, _) = signed.split_once('.').ok_or(Refused::Malformed)?;
        let (header, claims) = (part(header).ok_or(Refused::Malformed)?, claims(token).ok_or(Refused::Malformed)?);
        if header.get("kid").is_some_and(|id| id != self.id.as_str()) {
            return Err(Refused::UnknownKey);
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| Refused::Malformed)?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref());
        if header.text("alg") != "ES256" || key.verify(signed.as_bytes(), &signature).is_err() {
            return Err(Refused::Signature);
        }
        Ok(claims)
    }

    /// The public half, as a JSON Web Key.
    #[must_use]
    pub fn public(&self) -> Value {
        // An uncompressed point: a 4, and two numbers of 32 bytes.
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        json!({"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256", "x": x, "y": y})
    }
}

/// The claims of a token, whoever signed it: not to be trusted.
#[must_use]
pub fn claims(token: &str) -> Option<Object> {
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() { None } else { part(claims) }
}

fn part(text: &str) -> Option<Object> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-32
    #[test]
    fn only_what_the_key_signed_is_accepted() {
        let (key, other) = (SigningKey::generate().expect("a key"), SigningKey::generate().expect("a key"));
        let Value::Object(said) = json!({"sub": "a", "aud": ["b"]}) else { unreachable!() };
        let token = key.sign(&said).expect("a token");
        assert_eq!(key.verify(&token), Ok(said.clone()));
        assert_eq!(claims(&token), Some(said.clone()));
        assert_eq!(other.verify(&token), Err(Refused::UnknownKey));
        let mut more = said.clone();
        more.insert("sub".to_owned(), "root".into());
        let parts: Vec<&str> = token.split('.').collect();
        let forged = format!("{}.{}.{}", parts[0], URL_SAFE_NO_PAD.encode(Value::Object(more).to_string()), parts[2]);
        assert_eq!(key.verify(&forged), Err(Refused::Signature));
        let unsigned = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        assert_eq!(key.verify(&format!("{unsigned}.{}.", parts[1])), Err(Refused::Signature));
        for malformed in ["", "a", "a.b", "a.b.c", "..", &format!("{token}.x"), &token.replace('.', "_")] {
            assert_eq!(key.verify(malformed), Err(Refused::Malformed), "{malformed}");
        }
    }
}
