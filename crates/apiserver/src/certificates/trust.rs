//! Which certificates are trusted, by the rules of Go's crypto/x509: one that is itself among the trusted ones, or that one
//! of them has signed which is good at that time and may sign.

use std::sync::Arc;

use muster_objects::time::Timestamp;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, DistinguishedName, Error, RootCertStore};

use super::x509::{self, Certificate, Purpose};

/// Certificates that are trusted.
#[derive(Debug)]
pub(crate) struct Trust {
    provider: Arc<CryptoProvider>,
    /// Each in DER, as it was read, and as what webpki takes for an authority, in the same order.
    own: Vec<(CertificateDer<'static>, Certificate)>,
    anchors: RootCertStore,
}

impl Trust {
    /// Nobody is trusted.
    pub(crate) fn new(provider: Arc<CryptoProvider>) -> Self {
        Self { provider, own: Vec::new(), anchors: RootCertStore::empty() }
    }

    /// Trusts one more.
    ///
    /// # Errors
    /// When it is no certificate.
    pub(crate) fn add(&mut self, der: CertificateDer<'static>) -> Result<(), Error> {
        let own = read(&der)?;
        self.anchors.add(der.clone())?;
        self.own.push((der, own));
        Ok(())
    }

    /// Whose they are.
    pub(crate) fn subjects(&self) -> Vec<DistinguishedName> {
        self.anchors.subjects()
    }

    /// Verifies a certificate that was shown, with those of authorities between; `names` checks whom it is for.
    ///
    /// # Errors
    /// Why it is not to be trusted, in the order in which Go looks.
    pub(crate) fn verify(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        purpose: Purpose,
        now: UnixTime,
        names: impl FnOnce(&ParsedCertificate<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let own = read(shown)?;
        in_time(&own, now)?;
        let parsed = ParsedCertificate::try_from(shown)?;
        names(&parsed)?;
        if self.own.iter().any(|(trusted, _)| trusted == shown) {
            return if own.is_for(purpose) { Ok(()) } else { Err(CertificateError::InvalidPurpose.into()) };
        }
        // webpki takes every anchor for an authority, whatever the certificate says that it was made of.
        let signs = |own: &Certificate| own.may_sign && own.is_for(purpose) && in_time(own, now).is_ok();
        let signing = self.own.iter().zip(&self.anchors.roots).filter(|((_, own), _)| signs(own));
        let roots: RootCertStore = signing.map(|(_, anchor)| anchor.clone()).collect();
        if roots.is_empty() {
            return Err(CertificateError::UnknownIssuer.into());
        }
        let outcome = match purpose {
            Purpose::Server => {
                let algorithms = self.provider.signature_verification_algorithms.all;
                rustls::client::verify_server_cert_signed_by_trust_anchor(&parsed, &roots, between, now, algorithms)
            }
            Purpose::Client => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&self.provider)).build();
                let verifier = verifier.map_err(|error| Error::General(error.to_string()))?;
                verifier.verify_client_cert(shown, between, now).map(drop)
            }
        };
        outcome.map_err(|error| match error {
            // The key of another authority of that name.
            Error::InvalidCertificate(CertificateError::BadSignature) => CertificateError::UnknownIssuer.into(),
            // One that is an authority itself, and that nobody trusted has signed: Go looks at that only.
            Error::InvalidCertificate(CertificateError::Other(other))
                if other.to_string().contains("CaUsedAsEndEntity") =>
            {
                CertificateError::UnknownIssuer.into()
            }
            error => error,
        })
    }
}

fn read(der: &CertificateDer<'_>) -> Result<Certificate, Error> {
    x509::certificate(der).map_err(|_| CertificateError::BadEncoding.into())
}

/// Checks the dates of a certificate.
fn in_time(own: &Certificate, now: UnixTime) -> Result<(), Error> {
    let seconds = |time: Timestamp| u64::try_from(time.as_nanos() / 1_000_000_000).unwrap_or_default();
    let time = |seconds| UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    let (from, until) = (seconds(own.from), seconds(own.until));
    if now.as_secs() < from {
        return Err(CertificateError::NotValidYetContext { time: now, not_before: time(from) }.into());
    }
    if now.as_secs() > until {
        return Err(CertificateError::ExpiredContext { time: now, not_after: time(until) }.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
        date_time_ymd,
    };

    use super::*;

    /// The first and the last second of certificates that do not say otherwise: 2020-01-01 and 2030-01-01.
    const GOOD: [u64; 2] = [1_577_836_800, 1_893_456_000];

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2030, 1, 1));
        params
    }

    fn key() -> KeyPair {
        KeyPair::generate().expect("a key")
    }

    /// An authority, changed.
    fn authority(change: impl FnOnce(&mut CertificateParams)) -> CertifiedIssuer<'static, KeyPair> {
        let mut params = params("authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        CertifiedIssuer::self_signed(params, key()).expect("a certificate")
    }

    fn said(trusted: &[&CertificateDer<'static>], shown: &CertificateDer<'_>, purpose: Purpose, now: u64) -> String {
        let mut trust = Trust::new(Arc::new(rustls::crypto::ring::default_provider()));
        for der in trusted {
            trust.add((*der).clone()).expect("a certificate");
        }
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now));
        match trust.verify(shown, &[], purpose, now, |_| Ok(())) {
            Ok(()) => "trusted".to_owned(),
            Err(Error::InvalidCertificate(why)) => {
                format!("{why:?}").split([' ', '{', '(']).next().unwrap_or_default().to_owned()
            }
            Err(other) => other.to_string(),
        }
    }

    /// Each case is as Go 1.26 decides it, by `Certificate.Verify` with these roots.
    ///
    /// Contract: API-32, API-33
    #[test]
    fn a_certificate_is_trusted_as_by_go() {
        use ExtendedKeyUsagePurpose::{Any, ClientAuth, ServerAuth};
        let leaf = |issuer: &CertifiedIssuer<'_, KeyPair>, purposes: &[ExtendedKeyUsagePurpose]| {
            let mut params = params("leaf");
            params.extended_key_usages = purposes.to_vec();
            let (key, issuer) = (key(), issuer);
            params.signed_by(&key, issuer).expect("a certificate").der().clone()
        };
        let plain = authority(|_| {});
        for purpose in [Purpose::Server, Purpose::Client] {
            let (right, wrong) = match purpose {
                Purpose::Server => (ServerAuth, ClientAuth),
                Purpose::Client => (ClientAuth, ServerAuth),
            };
            for (purposes, expected) in [
                (vec![], "trusted"),
                (vec![right.clone()], "trusted"),
                (vec![wrong.clone(), right.clone()], "trusted"),
                (vec![wrong.clone()], "InvalidPurpose"),
            ] {
                let leaf = leaf(&plain, &purposes);
                let by_authority = said(&[plain.der()], &leaf, purpose, GOOD[0]);
                assert!(by_authority.starts_with(expected), "{purpose:?}, {purposes:?}: {by_authority}");
                assert_eq!(said(&[&leaf], &leaf, purpose, GOOD[0]), expected, "{purpose:?}, {purposes:?}");
                for trusted in [&leaf, plain.der()] {
                    assert_eq!(said(&[trusted], &leaf, purpose, GOOD[0] - 1), "NotValidYetContext");
                    assert_eq!(said(&[trusted], &leaf, purpose, GOOD[1] + 1), "ExpiredContext");
                }
            }
            let any = leaf(&plain, &[Any]);
            assert_eq!(said(&[&any], &any, purpose, GOOD[0]), "trusted");
            let other = authority(|_| {});
            assert_eq!(said(&[other.der()], &leaf(&plain, &[]), purpose, GOOD[0]), "UnknownIssuer");
            assert_eq!(said(&[], &any, purpose, GOOD[0]), "UnknownIssuer");
            // An authority's own certificate may be shown, where it is trusted itself.
            assert_eq!(said(&[plain.der()], plain.der(), purpose, GOOD[0]), "trusted");

            let no_authority = authority(|params| params.is_ca = IsCa::NoCa);
            let said_not = authority(|params| params.is_ca = IsCa::ExplicitNoCa);
            let signs_nothing = authority(|params| params.key_usages = vec![KeyUsagePurpose::DigitalSignature]);
            let old = authority(|params| params.not_after = params.not_before);
            let for_others = authority(|params| params.extended_key_usages = vec![wrong.clone()]);
            for issuer in [no_authority, said_not, signs_nothing, old, for_others] {
                let leaf = leaf(&issuer, &[]);
                assert_eq!(said(&[issuer.der()], &leaf, purpose, GOOD[0] + 1), "UnknownIssuer", "{issuer:?}");
            }
            let signs = authority(|params| params.key_usages = vec![KeyUsagePurpose::KeyCertSign]);
            assert_eq!(said(&[signs.der()], &leaf(&signs, &[]), purpose, GOOD[0]), "trusted");
        }
    }
}
