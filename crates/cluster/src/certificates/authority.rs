//! The embedded server's certificate authority, as the controllers of requests use it.

use muster_apiserver::certificates::{self, pem, x509};
use muster_objects::Timestamp;

use super::{Asked, Authority};

impl Authority for certificates::Authority {
    fn read(&self, request: &str) -> Result<Asked, String> {
        let request = certificates::Request::from_pem(request)?;
        let names = &request.names;
        Ok(Asked {
            common_name: request.subject.common_name().to_owned(),
            organizations: request.subject.organizations(),
            dns: names.dns.len(),
            ips: names.ip.len(),
            emails: names.email.len(),
            uris: names.uri.len(),
        })
    }

    fn sign(&self, request: &str, usages: &[&str], from: Timestamp, until: Timestamp) -> Result<String, String> {
        Self::sign(self, request, usages, from, until).map_err(|error| error.to_string())
    }

    fn good_until(&self, certificate: &str) -> Option<Timestamp> {
        let (block, _) = pem::first(certificate)?;
        Some(x509::certificate(&block.bytes).ok()?.until)
    }
}
