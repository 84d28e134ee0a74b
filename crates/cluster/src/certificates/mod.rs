//! Requests for certificates: approved where nodes ask for their own, signed, and cleaned up (API-32).
//!
//! ```text
//!   a request --> approve: may its user ask for that? --> Approved --> sign: by the cluster's authority --> certificate
//!       +-------------------- clean: an hour after its end, a day after nothing happened -------------------> deleted
//! ```
//!
//! These are the three controllers of CertificateSigningRequests of kube-controller-manager. The authority itself is
//! the server's.

mod approve;
mod authority;
mod clean;
mod request;
mod sign;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use muster_objects::Timestamp;
use muster_runtime::informer::WatchedResource;

pub(crate) use self::approve::approve_requests;
pub(crate) use self::clean::clean_requests;
pub(crate) use self::sign::sign_requests;

/// What the cluster's certificate authority does.
pub trait Authority: Debug + Send + Sync {
    /// Reads a request in PEM.
    ///
    /// # Errors
    /// What is wrong with it.
    fn read(&self, request: &str) -> Result<Asked, String>;

    /// Signs a request in PEM: the certificate is good for these usages between these times, and as long as the
    /// authority's own at most.
    ///
    /// # Errors
    /// Why it cannot be signed.
    fn sign(&self, request: &str, usages: &[&str], from: Timestamp, until: Timestamp) -> Result<String, String>;

    /// Until when a certificate in PEM is good; none where it is none.
    fn good_until(&self, certificate: &str) -> Option<Timestamp>;
}

/// What a certificate is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// The subject's common name.
    pub common_name: String,
    /// The subject's organisations.
    pub organizations: Vec<String>,
    /// How many names of hosts are asked for.
    pub dns: usize,
    /// How many addresses.
    pub ips: usize,
    /// How many addresses of mail.
    pub emails: usize,
    /// How many URIs.
    pub uris: usize,
}

fn requests() -> WatchedResource {
    WatchedResource::new("certificates.k8s.io", "v1", "certificatesigningrequests")
}
