//! JSON Web Tokens: claims between a header and a signature, as service accounts carry them, in the compact form.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use muster_tree::{Value, json};

use super::keys::{PublicKey, SigningKey};
use crate::model::{Fields as _, Object};

/// Why a token is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It is none.
    Malformed,
    /// It names a key that is none of those.
    UnknownKey,
    /// Its signature is not by that key.
    Signature,
}

/// A token with these claims; `None` when the system has no randomness.
#[must_use]
pub fn sign(key: &SigningKey, claims: &Object) -> Option<String> {
    let header = json!({"alg": key.public().algorithm(), "kid": key.public().id()}).to_string();
    let claims = Value::Object(claims.clone()).to_string();
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = key.sign_bytes(signed.as_bytes())?;
    Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// The claims of a token that one of some keys signed. A token that names none may be by any of them.
///
/// # Errors
/// [`Refused`].
pub fn verify<'k>(keys: impl IntoIterator<Item = &'k PublicKey>, token: &str) -> Result<Object, Refused> {
    let (signed, signature) = token.rsplit_once('.').ok_or(Refused::Malformed)?;
    let (header, _) = signed.split_once('.').ok_or(Refused::Malformed)?;
    let (header, claims) = (part(header).ok_or(Refused::Malformed)?, claims(token).ok_or(Refused::Malformed)?);
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| Refused::Malformed)?;
    let mut why = Refused::UnknownKey;
    for key in keys {
        if header.get("kid").is_some_and(|id| id != key.id()) {
            continue;
        }
        if header.text("alg") == key.algorithm() && key.verifies(signed.as_bytes(), &signature) {
            return Ok(claims);
        }
        why = Refused::Signature;
    }
    Err(why)
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
        let token = sign(&key, &said).expect("a token");
        assert_eq!(verify([key.public()], &token), Ok(said.clone()));
        assert_eq!(verify([other.public(), key.public()], &token), Ok(said.clone()));
        assert_eq!(claims(&token), Some(said.clone()));
        assert_eq!(verify([other.public()], &token), Err(Refused::UnknownKey));
        let mut more = said.clone();
        more.insert("sub", "root".into());
        let parts: Vec<&str> = token.split('.').collect();
        let forged = format!("{}.{}.{}", parts[0], URL_SAFE_NO_PAD.encode(Value::Object(more).to_string()), parts[2]);
        assert_eq!(verify([key.public()], &forged), Err(Refused::Signature));
        let unsigned = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        assert_eq!(verify([key.public()], &format!("{unsigned}.{}.", parts[1])), Err(Refused::Signature));
        for malformed in ["", "a", "a.b", "a.b.c", "..", &format!("{token}.x"), &token.replace('.', "_")] {
            assert_eq!(verify([key.public()], malformed), Err(Refused::Malformed), "{malformed}");
        }
    }
}
