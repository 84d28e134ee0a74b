//! Who a cluster is to its clients: what a kubeconfig and the tokens of service accounts stay true by, wherever the cluster
//! is started again (API-37).

use std::fmt;
use std::io;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::access::tokens::keys::SigningKey;
use crate::certificates::{Authority, pem};

/// The label of a private key in PEM.
const KEY: &str = "PRIVATE KEY";

/// Keys, certificates and a token. It is secret, all of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Identity {
    /// The certificate of the cluster's authority, in PEM.
    authority: String,
    /// Its key, in PEM.
    authority_key: String,
    /// What signs the tokens of service accounts, in PEM.
    service_account_key: String,
    /// The bearer token that grants everything.
    pub token: String,
    /// Where the server listened last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
}

/// It is secret.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Identity {
    /// A new one.
    ///
    /// # Errors
    /// When the system has no randomness, or the cryptography fails.
    pub fn generate() -> io::Result<Self> {
        let authority = Authority::generate().map_err(io::Error::other)?;
        Ok(Self {
            authority: authority.pem(),
            authority_key: authority.key_pem(),
            service_account_key: pem::write(KEY, &SigningKey::generate_pkcs8()?),
            token: random_token()?,
            address: None,
        })
    }

    /// The same wherever it listens.
    #[must_use]
    pub fn without_address(self) -> Self {
        Self { address: None, ..self }
    }

    /// The cluster's authority.
    ///
    /// # Errors
    /// When its certificate and key are none.
    pub fn authority(&self) -> io::Result<Authority> {
        let read = Authority::from_pem(&self.authority, &self.authority_key);
        read.map_err(|error| invalid("authority", &error.to_string()))
    }

    /// What signs the tokens of service accounts.
    ///
    /// # Errors
    /// When it is none.
    pub fn service_account_key(&self) -> io::Result<SigningKey> {
        let (block, _) =
            pem::first(&self.service_account_key).ok_or_else(|| invalid("serviceAccountKey", "it is no PEM"))?;
        SigningKey::from_pkcs8(&block.bytes).map_err(|error| invalid("serviceAccountKey", &error.to_string()))
    }

    /// Reads what [`Identity::to_json`] wrote, and looks whether the keys are keys.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_json(text: &[u8]) -> io::Result<Self> {
        let identity: Self = serde_json::from_slice(text)?;
        identity.authority()?;
        identity.service_account_key()?;
        Ok(identity)
    }

    /// One line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Texts and an address can be written.
        serde_json::to_string(self).unwrap_or_default()
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

fn invalid(field: &str, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{field}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::tokens::jwt;

    /// Contract: API-37
    #[test]
    fn keys_are_the_same_after_they_were_written_and_read() {
        let identity = Identity::generate().expect("randomness");
        let read = Identity::from_json(identity.to_json().as_bytes()).expect("what was written");
        assert_eq!(read, identity);
        let (one, other) = (identity.authority().expect("an authority"), read.authority().expect("an authority"));
        assert_eq!((one.pem(), one.key_pem(), one.der()), (other.pem(), other.key_pem(), other.der()));
        let claims = muster_tree::Map::from_iter([("sub", "a")]);
        let token = jwt::sign(&identity.service_account_key().expect("a key"), &claims).expect("a token");
        let key = read.service_account_key().expect("a key");
        assert_eq!(jwt::verify([key.public()], &token), Ok(claims));
        assert!(!format!("{identity:?}").contains(&identity.token));
    }

    #[test]
    fn what_is_no_identity_is_refused_by_its_field() {
        let identity = Identity::generate().expect("randomness");
        for (field, break_it) in [
            ("authority", (|i| i.authority_key = Identity::generate().unwrap().authority_key) as fn(&mut Identity)),
            ("authority", |i| i.authority = "none".to_owned()),
            ("serviceAccountKey", |i| i.service_account_key = "none".to_owned()),
        ] {
            let mut broken = identity.clone();
            break_it(&mut broken);
            let error = Identity::from_json(broken.to_json().as_bytes()).expect_err("it is broken");
            assert!(error.to_string().starts_with(&format!("{field}: ")), "{error}");
        }
    }
}
