//! Certificates: the cluster's authority, the requests that it signs, and the users that its certificates name (API-32).

pub mod authority;
pub mod pair;
pub mod pem;
pub mod request;
pub(crate) mod trust;
pub mod x509;

pub use authority::Authority;
pub use request::Request;
