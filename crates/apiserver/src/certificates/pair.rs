//! A certificate and its key, as they stand in a Secret: what Go's `tls.X509KeyPair` has against them.

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;

use super::{pem, x509};

/// Why a certificate and a key, in PEM, are no pair; `None` where they are one, or of a kind that is not known here.
#[must_use]
pub fn complain(certificate: &str, key: &str) -> Option<String> {
    check(certificate, key).err()
}

fn check(certificate: &str, key: &str) -> Result<(), String> {
    let certificate = match find(certificate, |label| label == "CERTIFICATE") {
        Ok(found) => found,
        Err(skipped) => {
            return Err(match &skipped[..] {
                [] => "tls: failed to find any PEM data in certificate input".to_owned(),
                [only] if only.ends_with("PRIVATE KEY") => "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched".to_owned(),
                _ => format!(
                    "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [{}]",
                    skipped.join(" ")
                ),
            });
        }
    };
    let key = match find(key, |label| label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY")) {
        Ok(found) => found,
        Err(skipped) => {
            return Err(match &skipped[..] {
                [] => "tls: failed to find any PEM data in key input".to_owned(),
                [only] if only == "CERTIFICATE" => {
                    "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
                }
                _ => format!(
                    "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [{}]",
                    skipped.join(" ")
                ),
            });
        }
    };
    let certificate = x509::certificate(&certificate).map_err(|_| "x509: malformed certificate".to_owned())?;
    let key = PrivateKeyDer::try_from(key).map_err(|_| "tls: failed to parse private key".to_owned())?;
    let Some(public) = any_supported_type(&key).ok().and_then(|key| key.public_key().map(|key| key.to_vec())) else {
        return Ok(());
    };
    if public == certificate.public_key {
        return Ok(());
    }
    Err(if kind(&public) == kind(&certificate.public_key) {
        "tls: private key does not match public key".to_owned()
    } else {
        "tls: private key type does not match public key type".to_owned()
    })
}

/// The first block with a label that is wanted, or the labels of all that are not.
fn find(mut text: &str, wanted: impl Fn(&str) -> bool) -> Result<Vec<u8>, Vec<String>> {
    let mut skipped = Vec::new();
    while let Some((block, rest)) = pem::first(text) {
        if wanted(block.label) {
            return Ok(block.bytes);
        }
        skipped.push(block.label.to_owned());
        text = rest;
    }
    Err(skipped)
}

/// The algorithm of a public key; curves of one algorithm are not told apart.
fn kind(public: &[u8]) -> Option<Vec<u64>> {
    let read = |reader: yasna::BERReader<'_, '_>| {
        reader.read_sequence(|reader| {
            let kind = reader.next().read_sequence(|reader| {
                let kind = reader.next().read_oid()?;
                #[expect(clippy::redundant_closure_for_method_calls, reason = "its path is not general enough")]
                reader.read_optional(|reader| reader.read_der())?;
                Ok(kind)
            })?;
            reader.next().read_bitvec_bytes()?;
            Ok(kind)
        })
    };
    yasna::parse_der(public, read).ok().map(|kind| kind.components().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (String, String) {
        let key = rcgen::KeyPair::generate().expect("a key");
        let parameters = rcgen::CertificateParams::new(vec!["a.example.com".to_owned()]).expect("a name");
        (parameters.self_signed(&key).expect("a certificate").pem(), key.serialize_pem())
    }

    /// Contract: API-25
    #[test]
    fn a_certificate_and_its_key() {
        let ((certificate, key), (other, _)) = (pair(), pair());
        let nonsense = |label: &str| pem::write(label, b"abc");
        let cases = [
            (&certificate, &key, None),
            (&other, &key, Some("tls: private key does not match public key")),
            (&"abc".to_owned(), &key, Some("tls: failed to find any PEM data in certificate input")),
            (
                &key,
                &certificate,
                Some(
                    "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched",
                ),
            ),
            (
                &(nonsense("A") + &nonsense("B")),
                &key,
                Some(
                    "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [A B]",
                ),
            ),
            (&certificate, &String::new(), Some("tls: failed to find any PEM data in key input")),
            (
                &certificate,
                &certificate,
                Some("tls: found a certificate rather than a key in the PEM for the private key"),
            ),
            (
                &certificate,
                &nonsense("A"),
                Some(
                    "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [A]",
                ),
            ),
            (&nonsense("CERTIFICATE"), &key, Some("x509: malformed certificate")),
            (&certificate, &nonsense("PRIVATE KEY"), Some("tls: failed to parse private key")),
        ];
        for (certificate, key, want) in cases {
            assert_eq!(complain(certificate, key).as_deref(), want, "{certificate}{key}");
        }
    }
}
